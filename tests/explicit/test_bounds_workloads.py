"""How hard a workload is: bounds against a semidefinite solver, rules, closed forms, accuracy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from benchmarks.closed_optima import all_predicates_log2, cyclic_optimum, exchangeable_optimum
from explicit_oracles import kron, least_total, marginal, prefix, random_ranges, ranges
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from noiseplan.domain.gram import Reduction
from noiseplan.errors import PlanError
from noiseplan.optimize.accuracy import largest_error, root_mean_square
from noiseplan.optimize.closed_forms import (
    DataCube,
    is_cyclic,
    is_exchangeable,
)
from noiseplan.optimize.gram_bounds import (
    Spectrum,
    product_bound,
    range_bound,
    supreme_bound,
    svd_bound,
    union_bounds,
)
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.planning.workload_bounds import WorkloadBounds, workload_bounds
from noiseplan.texts import percent_up

Array = np.ndarray


def gram(workload: Array) -> Array:
    return np.asarray(workload.T @ workload)


def drawn(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    rows, cells = int(rng.integers(1, 8)), int(rng.integers(1, 7))
    workload = rng.integers(-1, 2, size=(rows, cells)).astype(float)
    workload[0, 0] = 1.0
    return workload


def nuclear(workload: Array) -> float:
    """(Σ ξ)²/n by the definition."""
    return float(np.linalg.svd(workload, compute_uv=False).sum()) ** 2 / workload.shape[1]


# ---------------------------------------------------------------------- lower bounds


@examples(60)
@given(st.integers(0, 10**6))
def test_every_bound_is_below_the_optimum(seed: int) -> None:
    """And they are ordered as they should be: any choice of cells is among all choices."""
    workload = drawn(seed)
    asked = gram(workload)
    best = dense_optimum(asked, 1e-8).value * (1 + 1e-7)
    svd, supreme = svd_bound(asked), supreme_bound(asked).value
    assert svd == pytest.approx(nuclear(workload), rel=1e-5)
    assert svd <= nuclear(workload) * (1 + 1e-9)
    assert max(svd, range_bound(asked).value) <= supreme * (1 + 1e-9)
    assert supreme <= best
    assert svd_bound(Reduction.of_gram(asked).gram(asked)) <= best, "cells merged"
    spectrum = Spectrum.of(asked)
    # Theorem 4.10, from both sides.
    assert spectrum.bound <= best
    assert spectrum.closed_form >= best * (1 - 1e-6)
    cells = len(asked)
    ratio = cells * spectrum.root_diagonal.max() / spectrum.root_diagonal.sum()
    assert spectrum.closed_form == pytest.approx(spectrum.bound * ratio, rel=1e-5)


@pytest.mark.parametrize("seed", seeds(4))
def test_bounds_against_a_semidefinite_solver(seed: int) -> None:
    workload = drawn(100 + seed)
    best = least_total(workload)
    found = workload_bounds(gram(workload), len(workload))
    assert found.lower <= best * (1 + 1e-5)
    assert found.lower == pytest.approx(best, rel=1e-4)
    assert found.upper == pytest.approx(best, rel=1e-4)


def test_projections_by_trying_them_all() -> None:
    workload = np.vstack([random_ranges(9, 6, seed=2), 0.1 * np.ones((1, 9))])
    asked = gram(workload)
    ends = [(a, b) for a in range(9) for b in range(a + 1, 10)]
    best = max(nuclear(workload[:, a:b]) for a, b in ends)
    assert range_bound(asked).value == pytest.approx(best, rel=1e-7)
    choices = [c for k in range(1, 10) for c in combinations(range(9), k)]
    most = max(nuclear(workload[:, list(c)]) for c in choices)
    assert supreme_bound(asked).value == pytest.approx(most, rel=1e-7)


def test_long_workloads_are_searched() -> None:
    """Beyond 40 cells both ends move; what is found is the bound of that range."""
    asked = gram(ranges(64))
    found = range_bound(asked)
    first, last = found.span
    assert first == 63 - last  # the same from both ends
    part = asked[first : last + 1, first : last + 1]
    assert found.value == pytest.approx(svd_bound(part), rel=1e-12)
    assert svd_bound(asked) <= found.value <= dense_optimum(asked, 1e-9).value
    uneven = gram(np.vstack([np.eye(50)[:5], np.full((1, 50), 0.01)]))
    assert range_bound(uneven).value > svd_bound(uneven)


def test_all_choices_are_for_a_few_cells() -> None:
    with pytest.raises(PlanError, match="all choices of 15 cells"):
        supreme_bound(np.eye(15))
    with pytest.raises(PlanError, match="symmetric"):
        range_bound(np.array([[1.0, 2.0], [0.0, 1.0]]))


@examples(40)
@given(st.integers(0, 10**6))
def test_rules_for_unions_and_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    parts = svd_bound(gram(one)), svd_bound(gram(other))
    low, high = union_bounds(*parts)
    together = svd_bound(gram(np.vstack([one, other])))
    assert low * (1 - 1e-6) <= together <= high * (1 + 1e-6)
    assert svd_bound(gram(np.kron(one, other))) == pytest.approx(product_bound(*parts), rel=1e-5)


# ---------------------------------------------------------------------- closed forms


@examples(30)
@given(st.integers(0, 10**6))
def test_cyclic_workloads_reach_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    shape = rng.integers(-2, 3, n).astype(float)
    shape[0] = 3.0
    shifts = np.array([np.roll(shape, i) for i in range(n)])
    asked = gram(shifts)
    assert is_cyclic(asked)
    assert cyclic_optimum(asked[:, 0]) == pytest.approx(nuclear(shifts), rel=1e-5)
    best = dense_optimum(asked, 1e-8)
    assert best.bound * (1 - 1e-5) <= cyclic_optimum(asked[:, 0]) <= best.value * (1 + 1e-5)


@pytest.mark.parametrize(("n", "own", "shared"), [(1, 2, 0), (3, 4, 2), (5, 3, -0.5), (6, 1, 1)])
def test_exchangeable_workloads_reach_the_bound(n: int, own: float, shared: float) -> None:
    asked = (own - shared) * np.eye(n) + shared * np.ones((n, n))
    assert is_exchangeable(asked)
    value = exchangeable_optimum(n, own, shared)
    assert value == pytest.approx(dense_optimum(asked, 1e-9).value, rel=1e-6)
    assert not is_exchangeable(gram(prefix(4)))
    assert not is_cyclic(gram(prefix(4)))


def test_what_is_not_exchangeable() -> None:
    for n, own, shared in ((3, 1.0, 2.0), (3, 1.0, -0.9), (0, 1.0, 0.0)):
        with pytest.raises(PlanError, match="no Gram matrix"):
            exchangeable_optimum(n, own, shared)


def test_all_predicates_over_many_cells() -> None:
    """Over 1,024 cells no double holds it: 4.885 · 10³¹⁰."""
    digits = all_predicates_log2(1024) * np.log10(2)
    assert int(digits) == 310
    assert 10 ** (digits - 310) == pytest.approx(4.885, abs=5e-4)


@examples(30)
@given(st.integers(0, 10**6))
def test_data_cubes_reach_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, 4, size=3))
    every = [s for k in range(4) for s in combinations(range(3), k)]
    chosen = [every[i] for i in rng.permutation(8)[: rng.integers(1, 9)]]
    weights = {s: float(rng.uniform(0.2, 4)) for s in chosen}
    cube = DataCube.of(sizes, weights)
    workload = np.vstack([np.sqrt(w) * marginal(sizes, s) for s, w in weights.items()])
    assert cube.optimum == pytest.approx(nuclear(workload), rel=1e-9)
    profile = cube.profile()
    np.testing.assert_allclose(np.diagonal(profile), 1, atol=1e-9)
    reached = float(np.sum((workload @ np.linalg.pinv(profile, rcond=1e-10)) * workload))
    assert reached == pytest.approx(cube.optimum, rel=1e-6)


def test_what_is_no_data_cube() -> None:
    with pytest.raises(PlanError, match="from 0 to 1"):
        DataCube.of([2, 3], {(2,): 1.0})
    with pytest.raises(PlanError, match="positive weight"):
        DataCube.of([2, 3], {(1,): 0.0})
    with pytest.raises(PlanError, match="at least one table"):
        DataCube.of([2, 3], {})
    huge = DataCube.of([2] * 30, {tuple(range(30)): 1.0})
    assert not huge.countable
    with pytest.raises(PlanError, match="too many sets"):
        huge.eigenvalues()


# ---------------------------------------------------------------------- accuracy


def test_accuracy_by_simulation() -> None:
    """Correlated Gaussian errors: both statements hold at least as often as they say."""
    rng = np.random.default_rng(11)
    root = rng.standard_normal((6, 6))
    errors = rng.standard_normal((20_000, 6)) @ root.T
    covariance = root @ root.T
    total, largest = float(np.trace(covariance)), float(np.linalg.eigvalsh(covariance)[-1])
    within = np.sqrt((errors**2).mean(axis=1))
    for beta in (0.3, 0.05):
        for known in (None, largest):
            alpha = root_mean_square(total, 6, beta, known)
            assert (within > alpha).mean() <= beta
        alpha = largest_error(float(np.sqrt(np.diagonal(covariance).max())), 6, beta)
        assert (np.abs(errors).max(axis=1) > alpha).mean() <= beta
    assert root_mean_square(total, 6, 0.05, largest) < root_mean_square(total, 6, 0.05)


def test_independent_errors_have_exactly_the_chance_they_say() -> None:
    from scipy.stats import norm

    alpha = largest_error(2.0, 50, beta=0.1)
    assert (2 * norm.cdf(alpha / 2.0) - 1) ** 50 == pytest.approx(0.9, rel=1e-9)
    # So many rows that 1 − (1 − β)^{1/m} cancels if computed plainly.
    assert largest_error(1.0, 10**15, beta=1e-6) == pytest.approx(norm.isf(0.5e-21), rel=1e-6)


@examples(40)
@given(st.integers(0, 10**6))
def test_the_hardest_workload(seed: int) -> None:
    """No workload of m rows with entries of at most one has a larger bound than m · min(m, n)."""
    workload = np.random.default_rng(seed).uniform(-1, 1, size=(1 + seed % 5, 1 + seed % 4))
    hardest = len(workload) * min(workload.shape)
    assert nuclear(workload) <= hardest * (1 + 1e-9)


@pytest.mark.parametrize("beta", [0.0, 1.0, -1.0, float("nan")])
def test_chances_are_between_0_and_1(beta: float) -> None:
    with pytest.raises(PlanError, match="between 0 and 1"):
        largest_error(1.0, 3, beta)
    with pytest.raises(PlanError, match="between 0 and 1"):
        root_mean_square(1.0, 3, beta)


def test_accuracy_needs_rows() -> None:
    with pytest.raises(PlanError, match="at least one row"):
        root_mean_square(1.0, 0)


# ---------------------------------------------------------------------- bounds of a workload


def workloads() -> dict[str, nz.Workload]:
    small = nz.Schema.from_sizes({"a": 4, "b": 3})
    return {
        "ranges": nz.Workload([nz.Query(small, {"a": nz.Ranges()}, weight=3.0)]),
        "tables": nz.Workload.marginals(small, up_to=2),
        "mixed": nz.Workload.marginals(small, k=2, factors={"a": nz.Prefix()})
        + nz.Query(small, ["b"], weight=0.5),
        "matrix": nz.Workload([nz.Query(small, ["a", "b"], matrix=random_ranges(12, 5, 1))]),
    }


@pytest.mark.parametrize("name", workloads())
def test_bounds_of_workloads(name: str) -> None:
    workload = workloads()[name]
    found = nz.bounds(workload)
    rows = np.vstack([np.sqrt(q.weight) * q.dense() for q in workload])
    best = dense_optimum(gram(rows), 1e-8)
    assert found.rows == len(rows)
    assert found.svd == pytest.approx(nuclear(rows), rel=1e-6)
    assert found.lower == pytest.approx(best.value, rel=1e-5)
    assert found.upper == pytest.approx(best.value, rel=1e-5)
    assert found.rank == np.linalg.matrix_rank(rows)
    for planner in ("identity", "eigen", "optimal", "residual"):
        plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=planner, noise="gaussian")
        assert found.at(nz.zCDP(0.5)) <= plan.total_variance * (1 + 1e-9)
    laplace = nz.plan(workload, budget=nz.PureDP(0.7), noise="laplace")
    assert found.at(nz.PureDP(0.7)) <= laplace.total_variance
    assert str(found.rows) in str(found)
    assert (found.tight is not None) == (name == "tables")


def test_the_budget_scales_the_bound() -> None:
    found = nz.bounds(workloads()["ranges"])
    assert found.at(nz.zCDP(0.5)) == pytest.approx(found.lower, rel=1e-12)
    assert found.at(nz.zCDP(2.0)) == pytest.approx(found.lower / 4, rel=1e-12)
    assert found.at(nz.GDP(3.0)) == pytest.approx(found.lower / 9, rel=1e-12)
    # Exact discrete noise on a count has the variance 1/(cosh ε − 1), below 2/ε².
    assert found.at(nz.PureDP(2.0)) == pytest.approx(found.lower / (np.cosh(2.0) - 1), rel=1e-12)
    assert found.accuracy(nz.zCDP(0.5), beta=0.01) > found.accuracy(nz.zCDP(0.5), beta=0.1)
    with pytest.raises(PlanError, match="a budget is"):
        found.at(0.5)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="takes a Workload"):
        nz.bounds([1])  # type: ignore[arg-type]


def test_bounds_of_plain_tables_at_any_scale() -> None:
    """In closed form, equal to what the planner reaches."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcdefgh", 10))
    workload = nz.Workload.marginals(schema, k=2)
    found = nz.bounds(workload)
    plan = nz.plan(workload, budget=nz.zCDP(0.5), noise="gaussian")
    assert found.lower == pytest.approx(plan.total_variance, rel=1e-9)
    assert found.tight == "tables of counts, in closed form"
    assert nz.bounds(workload, exact=True).optimum == found.optimum


def test_exact_bounds_of_too_many_cells_are_refused() -> None:
    wide = nz.Schema.from_sizes({"a": 5000})
    with pytest.raises(PlanError, match="at most 4,096 cells"):
        nz.bounds(nz.Workload([nz.Query(wide, {"a": nz.Prefix()})]), exact=True)


@pytest.mark.parametrize("sizes", [{"a": 9000}, {"a": 100, "b": 90}])
def test_cells_no_query_tells_apart_are_one_beyond_4096(sizes: dict[str, int]) -> None:
    """Four cells of 9,000 are asked for; records spread over all would bound next to nothing."""
    schema = nz.Schema.from_sizes(sizes)
    rows = np.zeros((4, 9000))
    rows[:, [17, 200, 201, 8000]] = np.tril(np.ones((4, 4)))
    workload = nz.Workload([nz.Query(schema, list(sizes), matrix=rows)])
    best = dense_optimum(np.tril(np.ones((4, 4))).T @ np.tril(np.ones((4, 4))), 1e-9).value
    found = nz.bounds(workload)
    assert found.lower == pytest.approx(best, rel=1e-5)
    assert found.lower <= best
    assert found.svd == pytest.approx(
        np.linalg.svd(rows, compute_uv=False).sum() ** 2 / 9000, rel=1e-9
    )
    assert found.told_apart == 5
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="residual", noise="gaussian")
    assert plan.lower_bound == pytest.approx(best, rel=1e-5)


def test_few_rows_over_many_classes_have_their_optimum() -> None:
    rows = np.random.default_rng(3).integers(-2, 3, size=(12, 6000)).astype(float)
    workload = nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 6000}), ["a"], matrix=rows)])
    found = nz.bounds(workload)
    assert found.optimum is not None
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="optimal", noise="gaussian")
    assert found.lower <= plan.total_variance <= found.lower * (1 + 2e-3)
    records = np.random.default_rng(4).dirichlet(np.ones(6000), size=5)
    for weights in records:  # any weights of records give a bound below
        norm = np.linalg.svd(rows * np.sqrt(weights), compute_uv=False).sum()
        assert norm**2 <= found.optimum[1]


def test_bounds_of_products_and_unions_at_scale() -> None:
    schema = nz.Schema.from_sizes(dict.fromkeys("abcd", 9))
    one = nz.Query(schema, dict.fromkeys("abcd", nz.Ranges()))
    found = nz.bounds(nz.Workload([one]))
    assert found.svd == pytest.approx(nuclear(ranges(9)) ** 4, rel=1e-6)
    # The optimum of a product is the product of the optima.
    optimum = dense_optimum(gram(ranges(9)), 1e-9).value ** 4
    assert found.svd <= found.lower <= optimum * (1 + 1e-9)
    other = nz.Query(schema, {"a": nz.Prefix()}, weight=2.0)
    both = nz.bounds(nz.Workload([one, other]))
    assert both.svd_between is not None
    low, high = both.svd_between
    assert low == pytest.approx(found.svd, rel=1e-9)
    parts = found.svd, 2 * nuclear(prefix(9))
    assert high == pytest.approx((parts[0] ** 0.5 + parts[1] ** 0.5) ** 2, rel=1e-6)
    assert both.lower <= optimum + 2 * 9 * 9**4
    assert "by the rule for unions" in str(both)


def test_exact_optima_are_worked_out_when_asked_for() -> None:
    workload = workloads()["ranges"]
    assert nz.bounds(workload, exact=False).optimum is None
    assert nz.bounds(workload, exact=True).optimum is not None


def test_the_printed_bounds() -> None:
    schema = nz.Schema.from_sizes({"a": 3})
    text = str(nz.bounds(nz.Workload([nz.Query(schema, {"a": nz.Prefix()})])))
    assert text.splitlines()[0] == (
        "Bounds for 3 rows over 3 cells: total variance at privacy cost 1 (ρ = 0.5, μ = 1)"
    )
    for words in ("SVD bound", "4.329306", "exact optimum", "4.607862", "every cell measured"):
        assert words in text
    for hidden in ("on merged cells", "structured"):
        assert hidden not in text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.000"), (1e-7, "0.001"), (0.00123, "0.123"), (0.0101, "1.1"), (0.5, "50.0")],
)
def test_percentages_are_rounded_up(share: float, text: str) -> None:
    assert percent_up(share) == text


def test_kron_oracle_agrees_with_products() -> None:
    whole = kron(prefix(3), ranges(2))
    assert svd_bound(gram(whole)) == pytest.approx(nuclear(prefix(3)) * nuclear(ranges(2)))
    assert isinstance(workload_bounds(gram(whole), len(whole)), WorkloadBounds)
