"""Series along ordered values (domain, optimize): products, variances and bounds written out."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.domain import convolutions
from noiseplan.domain.convolutions import (
    Toeplitz,
    digit_bits,
    series_inverse,
    whole_levels,
    whole_products,
)
from noiseplan.domain.series import Series
from noiseplan.domain.series_kinds import SeriesKind
from noiseplan.domain.summed_series import JointEstimate, SummedSeries
from noiseplan.errors import PlanError
from noiseplan.matrices import GroupMatrix, Matrix, PrefixMatrix, RangesMatrix
from noiseplan.noise.wide_integers import WideIntegers, wide
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.series_bound import root_trace
from noiseplan.optimize.series_factor import Mixture, binomial, series_for, spectral_zeros
from noiseplan.optimize.series_sharing import Asked, Parts, Precisions, SeriesSharing, SummedRows


@st.composite
def some_series(draw: st.DrawFn, most: int = 40) -> Series:
    """Any whole coefficients and levels, on any pieces, that can be solved without much loss."""
    size = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    first = np.sort(rng.integers(0, 60, size))[::-1].copy()
    first[0] = 100
    places = rng.choice(size, rng.integers(1, size + 1), replace=False)
    starts = np.unique(np.append(places, 0)).astype(np.int64)
    return Series(first, starts, rng.integers(1, 20, len(starts)))


def spans_of(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every range: its start, its stop, and its row."""
    first, last = RangesMatrix(size).bounds()
    return first, last + 1, RangesMatrix(size).dense()


# ---------------------------------------------------------------------- products


@given(some_series())
@examples(60)
def test_variances_are_those_of_the_rows_written_out(series: Series) -> None:
    back = np.linalg.inv(series.rows())
    prefix = np.tril(np.ones((series.size, series.size)))
    np.testing.assert_allclose(series.prefix_variances, ((prefix @ back) ** 2).sum(axis=1))
    np.testing.assert_allclose(series.value_variances, (back**2).sum(axis=1))
    start, stop, rows = spans_of(series.size)
    each = ((rows @ back) ** 2).sum(axis=1)
    np.testing.assert_allclose(series.span_variances(start, stop), each)
    assert series.range_sum == pytest.approx(each.sum(), rel=1e-9)
    covariance = back @ back.T
    np.testing.assert_allclose(series.covariances(rows), rows @ covariance, atol=1e-12)
    np.testing.assert_allclose(series.with_total, covariance.sum(axis=0), atol=1e-12)
    assert np.array_equal(series.column_norms(), (series.rows() ** 2).sum(axis=0))


def test_spans_across_pieces_are_the_same_one_by_one_and_by_matrix() -> None:
    series = series_for(300, Mixture(prefix=1.0, values=3.0))
    start, stop, _ = spans_of(300)
    by_matrix = series.span_variances(start, stop)
    some = np.random.default_rng(0).choice(len(start), 200, replace=False)
    with mock.patch("noiseplan.domain.series.DENSE_VALUES", 0):
        one_by_one = series.span_variances(start[some], stop[some])
    np.testing.assert_allclose(one_by_one, by_matrix[some], rtol=1e-9)


@given(st.lists(st.floats(-1.0, 1.0), min_size=0, max_size=30))
@examples(50)
def test_inverses_of_series(rest: list[float]) -> None:
    c = np.array([4.0, *rest])
    product = np.convolve(c, series_inverse(c))[: len(c)]
    np.testing.assert_allclose(product, np.eye(1, len(c))[0], atol=1e-9)
    x = np.random.default_rng(0).normal(size=(2, len(c)))
    dense = np.array([[c[i - j] if i >= j else 0.0 for j in range(len(c))] for i in range(len(c))])
    np.testing.assert_allclose(Toeplitz(c).apply(x), x @ dense.T, atol=1e-9)
    np.testing.assert_allclose(Toeplitz(c).transposed(x), x @ dense, atol=1e-9)


@given(some_series(), st.integers(1, 90), st.integers(0, 2**32))
@examples(60)
def test_whole_numbers_are_multiplied_without_rounding(
    series: Series, bits: int, seed: int
) -> None:
    """Against Python's integers, in 64 bits and beyond."""
    rng = np.random.default_rng(seed)
    large = [int(rng.integers(-1000, 1000)) << max(bits - 10, 0) for _ in range(series.size)]
    large = [x + int(rng.integers(0, 1000)) for x in large]
    c, d = series.coefficients.tolist(), series.levels[series.piece].tolist()
    exact = [sum(c[i - j] * d[j] * large[j] for j in range(i + 1)) for i in range(series.size)]
    reach = max(abs(x) for x in large) * sum(c) * max(d) + 1
    given_as: np.ndarray | WideIntegers
    if max(abs(x) for x in large) < 2**62:
        given_as = np.array(large, dtype=np.int64)
    else:
        halves = np.array([x >> 45 for x in large]), np.array([x & (2**45 - 1) for x in large])
        high = wide(halves[0].astype(np.int64)).shifted(45)
        given_as = high + wide(halves[1].astype(np.int64))
    levelled = whole_levels(np.array(d), given_as, reach)
    found = whole_products(series.coefficients, levelled, reach)
    assert wide(found).python().tolist() == exact


def test_digits_are_so_small_that_transforms_are_right() -> None:
    """At full size, with digits as large as they may be and all of one sign."""
    size = 200_000
    c = series_for(size, Mixture(prefix=1.0)).coefficients
    bits = digit_bits(c)
    assert bits >= 7
    worst = np.full(size, 2 ** (bits - 1), dtype=np.int64)
    found = Toeplitz(c.astype(float)).apply(worst.astype(float))
    exact = np.cumsum(c) * 2 ** (bits - 1)
    assert np.abs(found - exact).max() < convolutions.CLEAR
    with pytest.raises(PlanError, match="without rounding"):
        digit_bits(c * 2**30)


def test_rows_too_large_for_64_bits_are_refused() -> None:
    one = np.ones(1, dtype=np.int64)
    with pytest.raises(PlanError, match="64 bits"):
        Series(np.array([2**25, 2**25]), 0 * one, one * 2**10)


# ---------------------------------------------------------------------- what is measured

MIXTURES = [
    Mixture(prefix=1.0),
    Mixture(ranges=1.0),
    Mixture(prefix=1.0, values=30.0),
    Mixture(ranges=1.0, values=200.0),
    Mixture(prefix=50.0, ranges=1.0),
]


def gram(mixture: Mixture, size: int) -> np.ndarray:
    found = mixture.values * np.eye(size) + mixture.prefix * PrefixMatrix(size).gram()
    found += mixture.ranges * RangesMatrix(size).gram()
    for weight, length in mixture.groups:
        group = np.arange(size) // int(length)
        found += weight * (group[:, None] == group)
    return found


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
def test_series_are_near_the_optimum(mixture: Mixture) -> None:
    size = 128
    asked = gram(mixture, size)
    series = series_for(size, mixture)
    covariance = np.linalg.inv(series.rows().T @ series.rows())
    reached = float((asked * covariance).sum()) * float(series.column_norms().max())
    best = dense_optimum(asked, 1e-3).bound
    assert best <= reached <= 1.04 * best


def test_columns_are_level_but_for_pieces() -> None:
    norms = series_for(5000, Mixture(prefix=1.0)).column_norms()
    assert norms[:2500].min() >= 0.99 * norms.max()
    assert norms[:4900].min() >= 0.9 * norms.max()
    assert norms.mean() >= 0.985 * norms.max()


@given(
    st.floats(0.0, 100.0),
    st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-6, 0.8)), min_size=1, max_size=4),
)
@examples(80)
def test_zeros_and_poles_have_the_spectrum(values: float, poles: list[tuple[float, float]]) -> None:
    zeros = spectral_zeros(values, poles)
    omega = np.array([0.01, 0.3, 1.0, 2.0, 3.0])

    def size(width: float) -> np.ndarray:
        return np.abs(1 - (1 - width) * np.exp(1j * omega)) ** 2

    asked = values + sum(a / size(w) for a, w in poles)
    made = np.prod([size(w) for w in zeros], axis=0) / np.prod([size(w) for _, w in poles], axis=0)
    ratio = asked / made
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)


def test_binomial_series() -> None:
    root = binomial(0.7, 0.5, 12)
    np.testing.assert_allclose(np.convolve(root, root)[:12], [1, -0.7] + 10 * [0], atol=1e-15)


# ---------------------------------------------------------------------- bounds


def kinds(size: int) -> list[tuple[SeriesKind, Matrix]]:
    values = np.arange(size + 1)
    group = np.arange(size) // 5
    bounds = np.append(np.arange(0, size, 5), size)
    return [
        (SeriesKind("total", values[[0, -1]]), GroupMatrix(0 * group)),
        (SeriesKind("values", values), GroupMatrix(np.arange(size))),
        (SeriesKind("groups", bounds), GroupMatrix(group)),
        (SeriesKind("prefix", values), PrefixMatrix(size)),
        (SeriesKind("ranges", values), RangesMatrix(size)),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_eigenvalues_are_those_of_the_gram_matrix(size: int) -> None:
    for kind, matrix in kinds(size):
        found = np.sort(kind.eigenvalues)
        exact = np.linalg.eigvalsh(matrix.gram())[-len(found) :]
        np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-9)
        assert kind.rows == matrix.shape[0]


@given(st.lists(st.floats(0.0, 10.0), min_size=5, max_size=5))
@examples(60)
def test_the_trace_of_the_root_is_never_above_the_truth(weights: list[float]) -> None:
    _size, each = 17, kinds(17)
    matrix = sum(w * m.gram() for w, (_, m) in zip(weights, each, strict=True))
    exact = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0)).sum()
    found = root_trace([kind for kind, _ in each], np.array(weights))
    assert 0.55 * exact <= found <= exact * (1 + 1e-6) + 1e-6
    one_other = [w if i in (1, 3) else 0.0 for i, w in enumerate(weights)]
    matrix = sum(w * m.gram() for w, (_, m) in zip(one_other, each, strict=True))
    exact = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0)).sum()
    found = root_trace([kind for kind, _ in each], np.array(one_other))
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-6)


@given(
    st.lists(st.floats(0.01, 10.0), min_size=5, max_size=5),
    st.sampled_from(["prefix", "ranges"]),
    st.integers(0, 2**32),
)
@examples(60)
def test_groups_and_totals_beside_prefix_sums_are_hardly_lost(
    weights: list[float], along: str, seed: int
) -> None:
    """Groups that lie within each other, and others that cross: beside eigenvalues, written out."""
    size, rng = 40, np.random.default_rng(seed)
    values = np.arange(size + 1)
    asked: list[tuple[SeriesKind, np.ndarray]] = []
    rows = PrefixMatrix(size) if along == "prefix" else RangesMatrix(size)
    asked.append((SeriesKind(along, values), rows.gram()))  # type: ignore[arg-type]
    asked.append((SeriesKind("values", values), np.eye(size)))
    for inner in ([], rng.choice(values[1:-1], 5), rng.choice(values[1:-1], 12)):
        bounds = np.unique([0, *inner, size])
        own = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        name = "groups" if len(bounds) > 2 else "total"
        asked.append((SeriesKind(name, bounds), (own[:, None] == own).astype(float)))  # type: ignore[arg-type]
    matrix = sum(w * g for w, (_, g) in zip(weights, asked, strict=True))
    exact = np.sqrt(np.linalg.eigvalsh(matrix)).sum()
    found = root_trace([kind for kind, _ in asked], np.array(weights))
    assert 0.99 * exact <= found <= exact * (1 + 1e-9)


# ---------------------------------------------------------------------- sharing


def test_precisions_are_the_best_there_are() -> None:
    """Beside a convex program of the same problem: sets with groups and totals beside series."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(2)
    series = [series_for(12, Mixture(prefix=1.0)), series_for(12, Mixture(values=1.0, prefix=0.1))]
    norms = np.array([float(s.column_norms().max()) for s in series])
    price = np.array([1.0, 0.4])
    partitions = [(np.array([0, 12]), np.array([0, 3, 4, 9, 12])), (np.array([0, 5, 12]),)]
    both = [SummedSeries(s, p) for s, p in zip(series, partitions, strict=True)]
    kinds = [np.tril(np.ones((12, 12)))[2::3], np.ones((1, 12)), np.eye(12)[::5]]
    often = [rng.uniform(0.5, 2.0, (4, 2)) for _ in kinds]
    weights = np.array([1.0, 1.0, 2.0, 10.0])
    rows = []
    for one in both:
        covariance = np.linalg.inv(one.series.rows().T @ one.series.rows())
        parts = np.array([one.spread(row) for row in np.eye(one.parts)])
        told = [kind @ covariance @ parts.T @ one.information for kind in kinds]
        alone = np.array([np.trace(kind @ covariance @ kind.T) for kind in kinds])
        rows.append(SummedRows(alone, np.array([q.T @ q for q in told])))
    asked = Asked(rows, often, [1, 1, 1], added=True)
    sharing = SeriesSharing(price * norms, price, tuple(map(Parts.of, both)))
    start = sharing.first(asked, weights)
    found = sharing.best(asked, lambda v: (float(weights @ v), weights), start)
    assert sharing.cost(found) == pytest.approx(1.0)
    omega = cp.Variable(2, nonneg=True)
    tau = [cp.Variable(len(p), nonneg=True) for p in partitions]
    total = 0
    for b, one in enumerate(both):
        precision = omega[b] * (one.series.rows().T @ one.series.rows() / norms[b])
        for g, bounds in enumerate(partitions[b]):
            own = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            precision = precision + tau[b][g] * (own[:, None] == own).astype(float)
        for kind, each in zip(kinds, often, strict=True):
            total += weights @ each[:, b] * sum(cp.matrix_frac(row, precision) for row in kind)
    cost = sum(p * (omega[b] + cp.sum(tau[b])) for b, p in enumerate(price))
    problem = cp.Problem(cp.Minimize(total), [cost <= 1])
    problem.solve(solver="CLARABEL")
    value = float(weights @ sharing.variances(asked, found))
    assert value == pytest.approx(problem.value, rel=1e-4)
    faint = sharing.kept(Precisions(found.series, tuple(1e-9 * each for each in found.sums)))
    assert not any(each.any() for each in faint.sums) and sharing.cost(faint) == pytest.approx(1.0)


@given(some_series(most=16), st.integers(0, 2**32))
@examples(40)
def test_sums_beside_a_series_are_put_together_by_least_squares(series: Series, seed: int) -> None:
    """Estimates and variances from all measured rows at once, written out."""
    rng, size = np.random.default_rng(seed), series.size
    partitions = []
    for _ in range(rng.integers(1, 4)):
        inner = rng.choice(np.arange(1, size), rng.integers(0, size), replace=False)
        partitions.append(np.unique([0, *inner, size]))
    both = SummedSeries(series, tuple(partitions))
    variance = float(rng.uniform(0.5, 2.0))
    of_sums = rng.uniform(0.1, 2.0, sum(len(p) - 1 for p in partitions)) / 100.0
    sums = np.vstack(
        [[(a <= np.arange(size)) & (np.arange(size) < b) for a, b in pairwise(p)]
         for p in partitions]
    ).astype(float)  # fmt: skip
    rows = np.vstack([series.rows(), sums])
    noise = np.concatenate([np.full(size, variance), of_sums])
    covariance = np.linalg.inv(rows.T @ (rows / noise[:, None]))
    joint = JointEstimate(both, variance, of_sums)
    measured = rng.normal(size=(2, len(rows)))
    exact = measured @ (rows / noise[:, None]) @ covariance
    values = series.values(measured[:, :size])
    np.testing.assert_allclose(joint.moved(values, measured[:, size:]), exact, atol=1e-8)
    back = np.linalg.inv(series.rows())
    told = np.concatenate(list(joint.told()))
    np.testing.assert_allclose(variance * back @ back.T - told.T @ told, covariance, atol=1e-9)
    with mock.patch("noiseplan.domain.summed_series.KEPT", 0):
        again = np.concatenate(list(JointEstimate(both, variance, of_sums).told()))
    np.testing.assert_array_equal(again, told)
