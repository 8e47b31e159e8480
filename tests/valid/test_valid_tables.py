"""Valid tables against a convex solver, and what must hold of all of them."""

from __future__ import annotations

from itertools import combinations
from math import comb

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from noiseplan.counting import CountTensor
from noiseplan.errors import DataError, QueryError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.valid import valid_tables
from oracles import marginal_matrix

SIZES = (4, 3, 2)
NAMES = ("a", "b", "c")


def noisy(sizes: tuple[int, ...], seed: int, width: int = 2, rho: float = 0.05) -> nz.Release:
    """A release of all tables up to a width, of few records in few cells."""
    rng = np.random.default_rng(seed)
    schema = nz.Schema.from_sizes(dict(zip("abcdef", sizes, strict=False)))
    counts = rng.poisson(rng.gamma(0.1, 20.0, sizes)).astype(float)
    plan = nz.plan(nz.Workload.marginals(schema, up_to=width), budget=nz.zCDP(rho))
    return plan.release(CountTensor(schema, counts), seed=seed)


def subsets(width: int, attributes: int) -> list[tuple[int, ...]]:
    return [s for k in range(width + 1) for s in combinations(range(attributes), k)]


def nearest(
    release: nz.Release,
    width: int,
    total: float | None = None,
    public: dict[tuple[int, ...], Array] | None = None,
    zero: dict[tuple[int, ...], Array] | None = None,
) -> dict[tuple[int, ...], Array]:
    """The same problem by a conic solver: tables as variables, tied by their margins."""
    sizes, names = release.schema.shape, release.schema.names
    sets = subsets(width, len(sizes))
    tables = {s: cp.Variable(int(np.prod([sizes[i] for i in s])), nonneg=True) for s in sets}
    loss, limits = 0, []
    for s, x in tables.items():
        query = nz.Query(release.schema, [names[i] for i in s])
        # All tables of one width: a margin is part of comb(attributes − |s|, width − |s|) of them.
        pull = np.sqrt(comb(len(sizes) - len(s), width - len(s)))
        gap = cp.sum_squares(x - release.answer(query).estimate)
        loss += pull * gap / release.variance(query).sum()
        for i in range(len(s)):
            inner = s[:i] + s[i + 1 :]
            sums = marginal_matrix([sizes[j] for j in s], [k for k in range(len(s)) if k != i])
            limits.append(sums @ x == tables[inner])
    if total is not None:
        limits.append(tables[()] == total)
    limits += [tables[s] == t.ravel() for s, t in (public or {}).items()]
    limits += [tables[s][np.flatnonzero(z)] == 0 for s, z in (zero or {}).items()]
    problem = cp.Problem(cp.Minimize(loss), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-11)
    assert problem.status == "optimal"
    return {s: x.value.reshape([sizes[i] for i in s]) for s, x in tables.items()}


def compare(valid: object, expected: dict[tuple[int, ...], Array], tolerance: float = 1e-5) -> None:
    for s, table in expected.items():
        np.testing.assert_allclose(valid.tables[s], table, atol=tolerance)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("width", [1, 2, 3])
def test_nearest_by_a_conic_solver(seed: int, width: int) -> None:
    release = noisy(SIZES, seed, width)
    compare(valid_tables(release), nearest(release, width))


@pytest.mark.parametrize("seed", seeds(3))
def test_public_total_and_table(seed: int) -> None:
    release = noisy(SIZES, seed)
    by_b = np.array([20.0, 11.0, 0.0])
    valid = valid_tables(release, total=31, public={"b": by_b})
    compare(valid, nearest(release, 2, 31.0, {(1,): by_b}))
    assert (valid.values("b") == by_b).all()
    assert valid.total == 31


@pytest.mark.parametrize("seed", seeds(3))
def test_impossible_cells(seed: int) -> None:
    release = noisy(SIZES, seed)
    never = np.array([[0, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    valid = valid_tables(release, total=40, impossible={("a", "b"): never})
    compare(valid, nearest(release, 2, 40.0, zero={(0, 1): never.ravel()}))
    assert (valid.values("a", "b")[never] == 0).all()


def test_axes_follow_the_names() -> None:
    release = noisy(SIZES, 1)
    table = np.array([[5.0, 1.0, 2.0], [3.0, 0.0, 4.0]])
    valid = valid_tables(release, public={("c", "b"): table})
    assert (valid.values("c", "b") == table).all()
    assert (valid.values("b", "c") == table.T).all()
    np.testing.assert_allclose(valid.values("b"), table.sum(axis=0))
    np.testing.assert_allclose(valid.values("c", "a").sum(axis=1), table.sum(axis=1), atol=1e-8)


def check_valid(valid: object) -> None:
    """No cell negative, and any two tables agree on what they have in common."""
    records = max(valid.total, 1.0)
    for one, table in valid.tables.items():
        assert (table >= 0).all()
        for other, second in valid.tables.items():
            common = [i for i in one if i in other]
            left = table.sum(axis=tuple(k for k, i in enumerate(one) if i not in common))
            right = second.sum(axis=tuple(k for k, i in enumerate(other) if i not in common))
            np.testing.assert_allclose(left, right, atol=1e-9 * records)


@examples(30)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    width=st.integers(0, 3),
    seed=st.integers(0, 2**31),
    rho=st.sampled_from([1e-4, 0.01, 1.0, 100.0]),
    total=st.one_of(st.none(), st.integers(0, 1000)),
)
def test_valid_whatever_the_noise(
    sizes: list[int], width: int, seed: int, rho: float, total: int | None
) -> None:
    release = noisy(tuple(sizes), seed, min(width, len(sizes)), rho)
    valid = valid_tables(release, total=total)
    check_valid(valid)
    if total is not None:
        assert valid.total == total


@examples(20)
@given(seed=st.integers(0, 2**31), seed_public=st.integers(0, 2**31), width=st.integers(2, 3))
def test_public_tables_are_kept(seed: int, seed_public: int, width: int) -> None:
    release = noisy(SIZES, seed, width)
    # Public tables of one population agree.
    people = np.random.default_rng(seed_public).poisson(0.7, SIZES).astype(float)
    public = {("a", "b"): people.sum(axis=2), ("c",): people.sum(axis=(0, 1))}
    valid = valid_tables(release, public=public)
    check_valid(valid)
    np.testing.assert_allclose(valid.values("a", "b"), public["a", "b"], atol=1e-9 * people.sum())
    np.testing.assert_allclose(valid.values("c"), public[("c",)], atol=1e-9 * people.sum())


@pytest.mark.parametrize("seed", seeds(20))
def test_error_never_grows_in_its_own_measure(seed: int) -> None:
    """A projection onto a convex set that holds the truth brings every estimate nearer to it."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.1, 10.0, SIZES)).astype(float)
    schema = nz.Schema.from_sizes(dict(zip(NAMES, SIZES, strict=True)))
    plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.05))
    release = plan.release(CountTensor(schema, counts), seed=seed)
    valid = valid_tables(release)
    before = after = 0.0
    for s, table in valid.tables.items():
        query = nz.Query(schema, [NAMES[i] for i in s])
        truth = counts.sum(axis=tuple(i for i in range(3) if i not in s))
        spread = release.variance(query).sum()
        before += ((release.answer(query).estimate - truth.ravel()) ** 2).sum() / spread
        after += ((table - truth) ** 2).sum() / spread
    assert after <= before * (1 + 1e-6)


def test_sparse_tables_have_a_far_smaller_error() -> None:
    schema = nz.Schema.from_sizes({"a": 20, "b": 20, "c": 20})
    counts = np.zeros(schema.shape)
    counts[np.arange(5), np.arange(5), np.arange(5)] = 100.0
    plan = nz.plan(nz.Workload.marginals(schema, up_to=3), budget=nz.zCDP(0.05))
    before, after = np.zeros(3), np.zeros(3)
    for seed in range(5):
        release = plan.release(CountTensor(schema, counts), seed=seed)
        valid = valid_tables(release)
        assert valid.changes.evened < 0.01
        for width, names in enumerate((["a"], ["a", "b"], ["a", "b", "c"])):
            truth = counts.sum(axis=tuple(range(len(names), 3)))
            answer = release.answer(nz.Query(schema, names)).estimate.reshape(truth.shape)
            before[width] += ((answer - truth) ** 2).sum()
            after[width] += ((valid.values(*names) - truth) ** 2).sum()
    # Measured: 0.32, 0.08, 0.02.
    assert (after < before * [0.8, 0.2, 0.05]).all(), after / before


def test_tables_of_a_workload_with_other_factors() -> None:
    schema = nz.Schema.from_sizes({"a": 6, "b": 3})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()})])
    counts = np.zeros((6, 3))
    counts[0, 0] = 12.0
    release = nz.plan(workload, budget=nz.zCDP(0.05)).release(CountTensor(schema, counts), seed=3)
    valid = release.valid(total=12)
    check_valid(valid)
    prefix = valid.answer(nz.Query(schema, {"a": nz.Prefix()}))
    np.testing.assert_allclose(prefix, np.cumsum(valid.values("a")))
    assert (np.diff(prefix) >= -1e-9).all()
    joint = nz.Query(schema, ["a", "b"], matrix=np.ones((1, 18)))
    np.testing.assert_allclose(valid.answer(joint), [12.0])


@pytest.mark.parametrize("budget", [nz.PureDP(0.5), nz.zCDP(0.1)])
def test_any_budget_and_any_planner(budget: object) -> None:
    schema = nz.Schema.from_sizes({"a": 5, "b": 3})
    counts = np.zeros((5, 3))
    counts[1, 2] = 9.0
    for planner in ("auto", "optimal") if isinstance(budget, nz.zCDP) else ("auto",):
        workload = nz.Workload.marginals(schema, up_to=2)
        release = nz.plan(workload, budget=budget, planner=planner).release(
            CountTensor(schema, counts), seed=2
        )
        check_valid(release.valid())


def test_wide_tables_that_share_some_attributes() -> None:
    schema = nz.Schema.from_sizes(dict.fromkeys("abcdef", 2))
    sets = [list("abcd"), list("cdef"), list("bcde")]
    workload = nz.Workload([nz.Query(schema, names) for names in sets])
    counts = np.zeros(schema.shape)
    counts[0, 0, 0, 0, 0, 0] = counts[1, 1, 1, 1, 1, 1] = 20.0
    release = nz.plan(workload, budget=nz.zCDP(0.1)).release(CountTensor(schema, counts), seed=1)
    valid = valid_tables(release)
    check_valid(valid)
    np.testing.assert_allclose(
        valid.values("c", "d", "e"), valid.values("b", "c", "d", "e").sum(axis=0), atol=1e-8
    )


def test_the_total_alone_and_nothing_at_all() -> None:
    schema = nz.Schema.from_sizes({"a": 3})
    release = nz.from_noisy_tables(schema, [nz.NoisyTable(["a"], [-4.0, -1.0, -2.0], 1.0)])
    valid = valid_tables(release)
    assert valid.total == 0
    assert (valid.values("a") == 0).all()
    assert valid_tables(release, tables=[[]], total=5).total == 5


def test_unbiased_estimates_stand_beside() -> None:
    release = noisy(SIZES, 5)
    valid = release.valid(total=50)
    columns = valid.columns("c", "a")
    assert list(columns) == ["c", "a", "valid", "estimate", "std_error", "lower", "upper"]
    unbiased = release.answer(nz.Query(release.schema, ["a", "c"])).estimate.reshape(4, 2)
    np.testing.assert_allclose(columns["estimate"], unbiased.T.ravel())
    np.testing.assert_allclose(columns["valid"], valid.values("c", "a").ravel())
    frame = valid.table("c", "a", frame="polars")
    assert frame.columns == list(columns)
    text = str(valid)
    assert "negative" in text
    assert f"{valid.changes.negative:,} cells" in text
    moved = np.abs(columns["valid"] - columns["estimate"]) / columns["std_error"]
    assert moved.max() <= valid.changes.largest_move


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"total": -1}, "number of records"),
        ({"public": {"a": [1.0, 2.0]}}, r"shape \(4,\)"),
        ({"public": {"a": [1.0, 2.0, -3.0, 0.0]}}, "none negative"),
        ({"total": 5, "public": {"a": [1.0, 2.0, 3.0, 0.0]}}, "totals that differ"),
        ({"public": {("a", "b"): np.ones((4, 3)), "b": [6.0, 5.0, 1.0]}}, "margins of b"),
        ({"total": 2.5, "integers": True}, "whole numbers"),
        ({"public": {"a": [4.0, 0.0, 0.0, 0.0]}, "impossible": {"a": [1, 0, 0, 0]}}, "no table of"),
        ({"impossible": {("a", "b", "c"): np.zeros(SIZES)}}, "belong to no table"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        valid_tables(noisy(SIZES, 0), **options)


def test_wrong_names_and_unmeasured_tables() -> None:
    release = noisy(SIZES, 0)
    both = release.valid().values(["a", "b"])
    np.testing.assert_array_equal(both, release.valid().values("a", "b"))
    with pytest.raises(QueryError, match="no valid table holds"):
        release.valid().values("a", "b", "c")
    with pytest.raises(UnanswerableError, match="valid_answers"):
        valid_tables(release, tables=[["a", "b", "c"]])
    with pytest.raises(QueryError, match="no table was named"):
        valid_tables(release, tables=[])
