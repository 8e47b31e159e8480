"""The workload on buckets, the order of cells, and the storeys of the second step."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.matrices import IdentityMatrix, PrefixMatrix, RangesMatrix, TotalMatrix
from noiseplan.matrices.base import Matrix
from noiseplan.mechanisms.partition.bucket_tree import BucketPlan, even_groups
from noiseplan.mechanisms.partition.buckets import (
    LineWorkload,
    closed_diagonal,
    closed_gram,
    gram_root,
    line,
)
from noiseplan.noise import (
    ExactSampler,
    Noise,
    SeededSource,
    SimulationSampler,
)
from noiseplan.noise.law import Law
from noiseplan.planning.planners.dawa import plan_buckets, storey_edges


def spreading(edges: np.ndarray) -> np.ndarray:
    widths = np.diff(edges)
    spread = np.zeros((edges[-1], len(widths)))
    spread[np.arange(edges[-1]), np.repeat(np.arange(len(widths)), widths)] = np.repeat(
        1 / widths, widths
    )
    return spread


# ---------------------------------------------------------------------------------- the line


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
def test_the_curve_visits_every_cell_and_goes_to_a_neighbour(bits: int) -> None:
    side = 2**bits
    order = line((side, side))
    assert sorted(order.tolist()) == list(range(side * side))
    rows, columns = np.divmod(order, side)
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    assert order[0] == 0
    # Every aligned quarter of the line is a quadrant.
    for part in order.reshape(4, -1):
        places = np.divmod(part, side)
        assert all(place.max() - place.min() < side // 2 or bits == 0 for place in places)


@examples(40)
@given(st.integers(1, 20), st.integers(1, 20))
def test_any_table_is_a_line(rows: int, columns: int) -> None:
    assert sorted(line((rows, columns)).tolist()) == list(range(rows * columns))


# ---------------------------------------------------------------------------------- on buckets

edges_of = st.lists(st.integers(1, 6), min_size=1, max_size=7).map(
    lambda widths: np.concatenate([[0], np.cumsum(widths)])
)


@examples(40)
@given(edges_of)
def test_formulas_on_buckets_are_those_of_the_matrices(edges: np.ndarray) -> None:
    cells, spread = int(edges[-1]), spreading(edges)
    for kind in (IdentityMatrix, TotalMatrix, PrefixMatrix, RangesMatrix):
        matrix: Matrix = kind(cells)
        wanted = (matrix.dense() @ spread).T @ (matrix.dense() @ spread)
        found, diagonal = closed_gram(matrix, edges), closed_diagonal(matrix, edges)
        assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9)
        assert np.allclose(diagonal, np.diagonal(wanted), rtol=1e-9, atol=1e-9)


def test_grams_of_two_attributes_and_of_own_matrices() -> None:
    schema = nz.Schema(
        {"a": nz.Ordinal(range(3)), "z": nz.Ordinal(range(2)), "b": nz.Ordinal(range(4))}
    )
    rng = np.random.default_rng(4)
    joint = rng.normal(size=(5, 12))
    workload = nz.Workload(
        [
            nz.Query(schema, {"a": nz.Prefix(), "b": nz.Ranges()}, weight=2.0),
            nz.Query(schema, {"b": nz.Custom(rng.normal(size=(3, 4)))}),
            nz.Query(schema, ["a", "b"], matrix=joint),
        ]
    )
    order = line((3, 4))
    edges = np.array([0, 2, 3, 7, 12])
    spread = np.zeros((12, 4))
    spread[order] = spreading(edges)
    found = LineWorkload(workload, ("a", "b"), order).gram(edges)
    plain = nz.Schema({"a": nz.Ordinal(range(3)), "b": nz.Ordinal(range(4))})
    wanted = np.zeros((4, 4))
    for query in workload:
        factors = None if query.joint is not None else dict(query.factors)
        dense = query.joint if factors is None else nz.Query(plain, factors).dense()
        wanted += query.weight / 2.0 * (dense @ spread).T @ (dense @ spread)
    assert np.allclose(found, wanted, rtol=1e-4)
    root = gram_root(found)
    again = root.T @ root
    assert np.allclose(again / np.trace(again), found / np.trace(found))


# ---------------------------------------------------------------------------------- storeys


def small_building(noise: str = "laplace", pure: bool = True) -> BucketPlan:
    """Two storeys of groups over eleven buckets, below a plan of two totals."""
    edges = np.arange(0, 45, 4)
    groups = (np.array([0, 3, 6, 9, 11]), np.array([0, 2, 4]))
    schema = nz.Schema({"bucket": nz.Ordinal(range(2))})
    workload = nz.Workload([nz.Query(schema, {"bucket": nz.Prefix()})])
    budget = nz.PureDP(1.0) if pure else nz.zCDP(0.5)
    top = nz.plan(workload, budget=budget, noise=noise)
    integer = noise == "discrete"
    law: Law = "laplace" if pure else "gaussian"
    storeys = (Noise(law, 1.5, integer), Noise(law, 4.0, integer))
    return BucketPlan(edges, top, storeys, groups)


def dense_rows(building: BucketPlan) -> tuple[np.ndarray, np.ndarray]:
    """All that is known of the buckets as rows, and its precision matrix."""
    rows, place = [], np.eye(building.buckets)
    precision = []
    for storey, group in zip(building.storeys, building.groups, strict=True):
        rows.append(place)
        precision.append(np.eye(len(place)) / storey.variance)
        place = np.add.reduceat(place, group[:-1], axis=0)
    rows.append(place)
    precision.append(building._top_precision)
    stacked = np.vstack(rows)
    weights = np.zeros((len(stacked), len(stacked)))
    at = 0
    for part in precision:
        weights[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return stacked, weights


@pytest.mark.parametrize(
    ("noise", "pure"), [("laplace", True), ("discrete", True), ("discrete", False)]
)
def test_storeys_are_solved_as_least_squares(noise: str, pure: bool) -> None:
    building = small_building(noise, pure)
    rows, weights = dense_rows(building)
    information = rows.T @ weights @ rows
    vectors = np.random.default_rng(0).normal(size=(11, 3))
    wanted = np.linalg.solve(information, vectors)
    assert np.allclose(building.covariance_times(vectors), wanted, rtol=1e-8)
    sampler = {
        ("laplace", True): SimulationSampler("laplace", 5),
        ("discrete", True): ExactSampler("laplace", SeededSource(5)),
        ("discrete", False): ExactSampler("gaussian", SeededSource(5)),
    }[noise, pure]
    values = building.measure(np.arange(44), sampler)
    top = building.top.mechanism.answer(type("M", (), {"values": values[2:]})(), building._cells)
    seen = np.concatenate([values[0], values[1], top]).astype(float)
    estimate = np.linalg.solve(information, rows.T @ weights @ seen)
    assert np.allclose(building.estimate(values), estimate, rtol=1e-8)


def test_a_building_costs_what_its_storeys_cost() -> None:
    pure = small_building("discrete")
    top = Fraction(pure.top.privacy.pure_epsilon or 0.0)
    exact = 1 / Fraction(1.5) + 1 / Fraction(4.0) + top
    assert exact <= Fraction(pure.privacy.pure_epsilon or 0.0) <= exact * (1 + Fraction(1, 10**12))
    gaussian = small_building("discrete", pure=False)
    assert gaussian.privacy.rho == pytest.approx(0.5 / 1.5 + 0.5 / 4.0 + gaussian.top.privacy.rho)
    # By brute force: a record is in one bucket, one group and one half.
    rows, _ = dense_rows(pure)
    assert (rows[:11].sum(axis=0) == 1).all()
    assert (rows[11:15].sum(axis=0) == 1).all()


def test_variances_are_those_of_many_draws() -> None:
    building = small_building("discrete")
    wanted = building.covariance_times(np.eye(11))
    sampler = ExactSampler("laplace", SeededSource(1))
    counts = np.zeros(44, dtype=np.int64)
    draws = np.array([building.estimate(building.measure(counts, sampler)) for _ in range(1000)])
    found = np.cov(draws.T)
    assert np.allclose(np.diagonal(found), np.diagonal(wanted), rtol=0.4)
    assert np.abs(draws.mean(axis=0)).max() < 6 * math.sqrt(np.diagonal(wanted).max() / 1000)


@examples(60)
@given(st.integers(1, 2**20))
def test_groups_leave_few_enough_and_lose_nobody(buckets: int) -> None:
    count = buckets
    for edges in even_groups(buckets):
        assert edges[0] == 0
        assert edges[-1] == count
        assert 1 <= np.diff(edges).min() <= np.diff(edges).max() <= 16
        count = len(edges) - 1
    assert count <= 384


@pytest.mark.parametrize("budget", [nz.PureDP(0.3), nz.zCDP(0.02)])
def test_many_buckets_stay_within_the_budget(budget: nz.PureDP | nz.zCDP) -> None:
    cells = 500
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    workload = nz.Workload([nz.Query(schema, {"v": nz.Prefix()})])
    edges = np.arange(cells + 1)
    made = plan_buckets(
        nz.plan, LineWorkload(workload, ("v",), edges[:-1]), edges, budget, "discrete"
    )
    assert len(made.storeys) == 1
    assert made.privacy.within(budget)
    spent = made.privacy.pure_epsilon or made.privacy.rho
    whole = budget.epsilon if isinstance(budget, nz.PureDP) else budget.rho
    assert spent > 0.999 * whole
    assert [len(e) - 1 for e in storey_edges(edges, made.groups)] == [500, 250]
    if isinstance(budget, nz.PureDP):  # better than the greedy tree over all values
        greedy = nz.plan(workload, budget=budget, noise="discrete", planner="tree")
        prefix = np.tril(np.ones((cells, cells)))
        variance = np.einsum("ij,ji->", prefix, made.covariance_times(prefix.T))
        assert variance < greedy.total_variance
