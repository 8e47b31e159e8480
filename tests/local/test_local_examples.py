"""The worked examples of the literature, to all digits given."""

from __future__ import annotations

from math import exp, log, sinh

import numpy as np
import pytest
from local_oracles import (
    brute_variances,
    gram_of,
    one,
    rappor_table,
    subset_table,
    svd_bound,
    workload,
)

import noiseplan as nz
from noiseplan.local.search.descent import project, random_start, slope
from noiseplan.local.search.variance_bounds import row_variance, spread_bound
from noiseplan.local.server.consistency import fit_counts
from noiseplan.local.strategies import classical
from noiseplan.local.strategies.strategy import TableStrategy
from noiseplan.local.strategies.subsets import histogram_size, rappor, subset_selection

LN3 = log(3.0)
PREFIX = {n: gram_of(one(n, nz.Prefix())) for n in (2, 3, 4, 8)}


def figures(
    chances: np.ndarray, gram: np.ndarray, epsilon: float = LN3
) -> tuple[float, np.ndarray]:
    """L of the paper (a sum over types) and t."""
    second = TableStrategy.of(chances, epsilon).total_moments(gram)
    return float(second.sum()), second - np.diagonal(gram)


def test_prefix_sums_of_grades() -> None:
    made = one(5, nz.Prefix())
    assert (made.query(0).dense() @ [10, 20, 5, 0, 0]).tolist() == [10, 30, 35, 35, 35]


def test_randomized_response() -> None:
    chances = classical.randomized_response(3, LN3)
    assert 5 * chances == pytest.approx(np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]))
    strategy = TableStrategy.of(chances, LN3)
    x = strategy.information / 3  # the paper's D holds row sums
    assert 25 * x == pytest.approx(np.array([[11, 7, 7], [7, 11, 7], [7, 7, 11]]))
    v = strategy.coefficients(np.eye(3)) @ strategy.shapes.T
    assert v == pytest.approx(np.array([[2, -0.5, -0.5], [-0.5, 2, -0.5], [-0.5, -0.5, 2]]))
    value, t = figures(chances, np.eye(3))
    assert value == pytest.approx(13.5)
    assert t == pytest.approx([3.5] * 3)
    value, t = figures(chances, PREFIX[3])
    assert value == pytest.approx(13.0)
    assert t == pytest.approx([2.5, 2.0, 2.5])
    rows = one(3, nz.Prefix()).query(0).dense()
    v = strategy.coefficients(rows) @ strategy.shapes.T
    assert v == pytest.approx(np.array([[2, -0.5, -0.5], [1.5, 1.5, -1], [1, 1, 1]]))


@pytest.mark.parametrize(
    ("n", "epsilon", "variance", "samples"),
    [
        (5, 1.0, 11.4297514017, 228.5950280),
        (8, 1.0, 27.1146995871, 338.9337448),
        (512, 1.0, 89208.7242226, 17423.57895),
        (512, 0.5, 623266.41358, 121731.7214),
        (512, 4.0, 110.1411616, 21.51194563),
    ],
)
def test_randomized_response_in_closed_form(
    n: int, epsilon: float, variance: float, samples: float
) -> None:
    # Subsets of size one are randomized response, in closed form at any size.
    closed = subset_selection(n, epsilon, 1).total_moments(np.eye(n)) - 1
    assert closed == pytest.approx([variance] * n, rel=1e-9)
    assert closed.max() / n / 0.01 == pytest.approx(samples, rel=1e-9)
    if n <= 8:
        plan = nz.local.plan(one(n, nz.Identity()), epsilon, mechanism="randomized response")
        assert plan.samples(0.01) == pytest.approx(samples, rel=1e-9)


def test_projection() -> None:
    three = project(np.array([[0.5], [0.2], [0.9]]), np.array([0.1, 0.1, 0.2]), 3.0)
    assert three.ravel() == pytest.approx([0.3, 0.1, 0.6], abs=1e-12)
    four = project(np.array([[0.5], [0.2], [0.9], [-0.3]]), np.array([0.1, 0.1, 0.15, 0.1]), 3.0)
    assert four.ravel() == pytest.approx([0.3, 0.15, 0.45, 0.1], abs=1e-12)


def test_gradient() -> None:
    chances = np.array([[0.5, 0.2], [0.3, 0.3], [0.2, 0.5]])
    found = slope(chances, PREFIX[2], np.full(2, 0.5))
    assert 2 * found.value == pytest.approx(115 / 18)
    expected = [[-1655 / 108, 1985 / 108], [-185 / 36, 95 / 36], [1145 / 108, -815 / 108]]
    assert 2 * found.gradient == pytest.approx(np.array(expected))


def test_hadamard() -> None:
    chances = classical.hadamard(3, LN3)
    assert 8 * chances == pytest.approx(np.array([[3, 3, 3], [1, 3, 1], [3, 1, 1], [1, 1, 3]]))
    value, t = figures(chances, np.eye(3))
    assert value == pytest.approx(21.0)
    assert t == pytest.approx([6.0] * 3)
    blocks = classical.hadamard_blocks(4, LN3)
    assert sorted(set(blocks.ravel().round(9))) == pytest.approx([1 / 12, 1 / 4])
    assert blocks.shape == (8, 4)
    assert figures(blocks, np.eye(4))[0] == pytest.approx(497 / 11)
    low = log(2) - 1e-9  # one block up to ε = ln 2: the same up to the order of outputs
    both = [
        np.array(sorted(f(6, low).tolist()))
        for f in (classical.hadamard, classical.hadamard_blocks)
    ]
    assert both[0] == pytest.approx(both[1])


@pytest.mark.parametrize(("size", "value", "t"), [(1, 28, 6), (2, 37, 8.25), (3, 76, 18)])
def test_subset_selection(size: int, value: float, t: float) -> None:
    explicit = figures(subset_table(4, size, LN3), np.eye(4))
    closed = subset_selection(4, LN3, size).total_moments(np.eye(4))
    assert explicit[0] == pytest.approx(value)
    assert closed.sum() == pytest.approx(value)
    assert closed - 1 == pytest.approx([t] * 4)


def test_fourier() -> None:
    chances = classical.fourier(4, LN3)
    rows = np.array([[3, 3, 3, 3], [3, 1, 3, 1], [3, 3, 1, 1], [3, 1, 1, 3]])
    assert 16 * chances == pytest.approx(np.vstack([rows, 4 - rows]))
    value, t = figures(chances, np.eye(4))
    assert value == pytest.approx(49.0)
    assert t == pytest.approx([11.25] * 4)
    without = figures(classical.weighted_fourier(4, LN3, np.eye(4)), np.eye(4))
    assert without[0] == pytest.approx(37.0)
    assert without[1] == pytest.approx([8.25] * 4)


def test_rappor() -> None:
    explicit = rappor_table(2, 2 * LN3)
    assert 16 * explicit == pytest.approx(np.array([[3, 3], [1, 9], [9, 1], [3, 3]]))
    assert figures(explicit, np.eye(2), 2 * LN3)[0] == pytest.approx(3.5)
    closed = rappor(2, 2 * LN3).total_moments(np.eye(2))
    assert closed.sum() == pytest.approx(3.5)
    assert closed - 1 == pytest.approx([0.75, 0.75])


def test_hierarchical() -> None:
    chances = classical.hierarchical(4, LN3, 2, "randomized response")
    assert chances[:4] == pytest.approx(np.where(np.eye(4) > 0, 1 / 4, 1 / 12))
    assert 8 * chances[4:] == pytest.approx(np.array([[3, 3, 1, 1], [1, 1, 3, 3]]))
    value, t = figures(chances, PREFIX[4])
    assert value == pytest.approx(879 / 26)
    assert t == pytest.approx([6.1634615385, 5.7403846154, 5.7403846154, 6.1634615385])


def test_hierarchies_of_any_size() -> None:
    for n in (5, 9, 17, 30):
        for branching in (2, 3, 4):
            chances = classical.hierarchical(n, 1.0, branching, "hadamard")
            assert chances.sum(axis=0) == pytest.approx(np.ones(n))
            assert brute_variances(chances, np.eye(n)).min() > 0


def test_initialization() -> None:
    chances, lower = random_start(32, 8, 1.0, np.random.default_rng(0))
    assert lower == pytest.approx([0.0213731163] * 32)
    assert lower.sum() == pytest.approx(0.6839397)
    assert exp(1) * lower.sum() == pytest.approx(1.8591409)
    assert chances.sum(axis=0) == pytest.approx(np.ones(8))


NUCLEAR = {
    "histogram": (8.0, 23.5442842, 181.8910763),
    "prefix": (11.5070016775, 48.7113169, 213.1142680),
    "ranges": (25.1670163834, 233.0070072, 1216.1109503),
    "all marginals": (20.3923048454, 152.9812297, 879.4881421),
}


@pytest.mark.parametrize("name", NUCLEAR)
def test_lower_bounds(name: str) -> None:
    gram = gram_of(workload(name, 8))
    nuclear, by_svd, sharper = NUCLEAR[name]
    uniform = np.full(8, 1 / 8)
    own = np.trace(gram)
    assert np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum() == pytest.approx(nuclear)
    assert 8 * svd_bound(gram, uniform, 1.0) + own == pytest.approx(by_svd)
    c = row_variance(8, 1.0)
    assert 8 * spread_bound(gram, uniform, c) + own == pytest.approx(sharper, rel=1e-8)


def test_largest_row_variance() -> None:
    assert row_variance(8, 1.0) == pytest.approx(0.2708812453)
    assert row_variance(10**6, 1.0) == pytest.approx(sinh(0.5) ** 2, rel=1e-9)
    assert sinh(0.5) ** 2 == pytest.approx(0.2715403174)
    assert histogram_size(8, 1.0) == 2


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("n", "epsilon", "samples"),
    [
        (8, 1.0, 271.7048066), (16, 1.0, 318.6024566), (64, 1.0, 355.3384254),
        (256, 1.0, 365.0096739), (512, 1.0, 366.6381832), (64, 0.5, 1516.9970012),
        (64, 2.0, 68.6743951), (64, 4.0, 5.8661795), (512, 0.5, 1560.7713200),
    ],
)  # fmt: skip
def test_histogram_optimum(n: int, epsilon: float, samples: float) -> None:
    plan = nz.local.plan(one(n, nz.Identity()), epsilon)
    assert plan.samples(0.01) == pytest.approx(samples, rel=1e-8)
    assert plan.gap < 1e-8
    assert plan.lower_bound <= plan.worst_variance


def test_one_parity_query() -> None:
    plan = nz.local.plan(workload("parity 3", 8), 1.0)
    assert plan.types.count == 2  # two kinds of users, and randomized response between them
    assert plan.worst_variance == pytest.approx(3.6826943768, rel=1e-9)
    assert nz.local.plan(workload("parity 3", 8), LN3).worst_variance == pytest.approx(3.0)


def test_weighted_fourier_on_parities() -> None:
    plan = nz.local.plan(workload("parity 3", 16), 1.0, mechanism="weighted fourier")
    assert plan.samples(0.01) == pytest.approx(1773.0777508)
    second = plan.strategy.total_moments(plan.types.gram).sum()
    assert second == pytest.approx(1198.7697605)
    assert nz.local.plan(workload("parity 3", 16), 1.0).samples() <= 1773.0777509


def test_consistency() -> None:
    estimate = np.array([-2.0, 7.0, 5.0])
    assert fit_counts(estimate, np.eye(3), None) == pytest.approx([0, 7, 5])
    assert fit_counts(estimate, np.eye(3), 10.0) == pytest.approx([0, 6, 4])
    prefix = np.tril(np.ones((3, 3)))
    found = fit_counts(np.linalg.solve(prefix, [3.0, 2.0, 6.0]), prefix.T @ prefix, None)
    assert found == pytest.approx([2.5, 0, 3.5])
    assert prefix @ found == pytest.approx([2.5, 2.5, 6])
