"""Sums that count for themselves: by a convex solver, thin groups by experiment, the measure."""

from __future__ import annotations

from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from noiseplan.matrices.base import Array
from noiseplan.valid import ValidTables, asked_sums, valid_tables
from noiseplan.valid.asked_sums import Sums
from noiseplan.valid.family import TableFamily
from noiseplan.valid.solver import Dual, Effort, NearestTables, maximise
from noiseplan.valid.unbiased_tables import Unbiased

GEO = nz.Hierarchical(
    {
        "block": ["a1", "a2", "a3", "a4", "b1", "b2", "c1"],
        "county": ["a", "a", "a", "a", "b", "b", "c"],
    }
)
PLACES = nz.Schema({"geo": GEO, "age": nz.Ordinal(range(5))})


def by_place(*tables: list[str], rho: float = 0.02, seed: int = 0) -> nz.Release:
    counts = np.random.default_rng(3).poisson(0.8, PLACES.shape).astype(float)
    workload = nz.Workload([nz.Query(PLACES, names) for names in tables])
    return nz.plan(workload, budget=nz.zCDP(rho)).release(counts, seed=seed)


def measured(release: nz.Release, queries: list[nz.Query]) -> list[tuple[Array, Array, Array]]:
    """What counts for one table of all attributes: rows over its cells, estimates, weights.

    Plain tables count by the sum of their variances, other rows each by its own variance and the
    share of the cells in it, parted among as many rows as there are on a cell.
    """
    schema, found = release.schema, []
    for width in range(len(schema) + 1):
        for names in combinations(schema.names, width):
            query = nz.Query(schema, list(names))
            variance = release.variance(query)
            weights = np.full(len(variance), 1 / variance.sum())
            found.append((query.dense(), release.answer(query).estimate, weights))
    for query in queries:
        rows = query.dense() != 0
        weights = rows.mean(axis=1) / rows.sum(axis=0).max() / release.variance(query)
        found.append((query.dense(), release.answer(query).estimate, weights))
    return found


def levels() -> list[nz.Query]:
    return [nz.Query(PLACES, ["county"]), nz.Query(PLACES, ["county", "age"])]


def nearest(parts: list[tuple[Array, Array, Array]], cells: int) -> Array:
    x = cp.Variable(cells, nonneg=True)
    loss = sum(cp.sum_squares(cp.multiply(np.sqrt(w), a @ x - e)) for a, e, w in parts)
    problem = cp.Problem(cp.Minimize(loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-12)
    assert problem.status == "optimal"
    return np.asarray(x.value)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("county", [True, False])
def test_levels_by_a_conic_solver(seed: int, county: bool) -> None:
    """Levels count whether they were asked for or not."""
    asked = [["county"], ["block", "age"]] if county else [["block", "age"]]
    release = by_place(*asked, seed=seed)
    found = valid_tables(release).values("geo", "age").ravel()
    assert (release.answer(nz.Query(PLACES, ["block", "age"])).estimate < 0).any()
    np.testing.assert_allclose(found, nearest(measured(release, levels()), 35), atol=2e-4)


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_prefix_sums_and_conditions_by_a_conic_solver(seed: int) -> None:
    schema = nz.Schema({"g": nz.Categorical(["x", "y"]), "age": nz.Ordinal(range(6))})
    prefix = nz.Query(schema, {"g": nz.Identity(), "age": nz.Prefix()})
    bands = nz.Query(schema, {"age": nz.Levels(3)})
    matrix = np.array([[1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, -1, 0, 0, 0, 2, 0, 0, 0, 0]])
    joint = nz.Query(schema, ["g", "age"], matrix=matrix)
    counts = np.random.default_rng(1).poisson(0.7, schema.shape).astype(float)
    plan = nz.plan(nz.Workload([prefix, bands, joint]), budget=nz.zCDP(0.02))
    release = plan.release(counts, seed=seed)
    # Margins of what was asked count too: prefix sums of all groups together.
    parts = measured(release, [prefix, bands, nz.Query(schema, {"age": nz.Prefix()})])
    effective = np.abs(matrix).sum(axis=1) ** 2 / (matrix**2).sum(axis=1)
    weights = effective / 12 / (matrix != 0).sum(axis=0).max() / release.variance(joint)
    parts.append((matrix, release.answer(joint).estimate, weights))
    found = release.valid().values("g", "age").ravel()
    assert (release.answer(nz.Query(schema, ["g", "age"])).estimate < 0).any()
    assert found.sum() > 5
    np.testing.assert_allclose(found, nearest(parts, 12), atol=1e-3)


def test_sums_of_several_tables_count_by_their_root() -> None:
    schema = nz.Schema({"geo": GEO, "age": nz.Ordinal(range(4)), "sex": nz.Ordinal(range(2))})
    asked = [nz.Query(schema, ["geo", "age"]), nz.Query(schema, ["geo", "sex"])]
    release = nz.plan(nz.Workload(asked), budget=nz.zCDP(0.1)).release(np.ones(schema.shape))
    family = TableFamily.of(schema.shape, [(0, 1), (0, 2)])
    found = {s.title: s for s in asked_sums.asked_sums(Unbiased.of(release), family)}
    assert set(found) == {"county", "county × age", "county × sex"}
    assert found["county"].table == (0, 2)  # the smaller one
    expected = np.array([4, 2, 1]) / 7 / release.variance(nz.Query(schema, ["county"]))
    np.testing.assert_allclose(found["county"].weights, np.sqrt(2) * expected)
    assert found["county × age"].times == 1
    assert family.pull((0,)) == pytest.approx(np.sqrt(2))
    assert family.pull((0, 1)) == family.pull((1,)) == 1


RUNNING = {"plain": None, "first": (1, 3, 4), "middle": (3, 2, 2), "last": (3, 4, 1)}


def running_sums(running: tuple[int, int, int] | None) -> Sums:
    """Twelve rows over twelve cells, summed up along one axis of the rows."""
    rng = np.random.default_rng(2)
    before, along, behind = running or (12, 1, 1)
    outer, inner = (rng.integers(0, 3, (n, n)) + np.eye(n) for n in (before, behind))
    rows = asked_sums.sp.csr_array(np.kron(np.kron(outer, np.eye(along)), inner))
    told = (rows, rng.normal(size=12), rng.uniform(1, 2, 12))
    return Sums("running", (0, 1, 2), (0, 1), *told, 1.5, running)


@pytest.mark.parametrize("running", RUNNING.values(), ids=RUNNING.keys())
def test_running_sums_by_dense_matrices(running: tuple[int, int, int] | None) -> None:
    sums, rng = running_sums(running), np.random.default_rng(5)
    before, along, behind = running or (12, 1, 1)
    up_to = np.kron(np.kron(np.eye(before), np.tri(along)), np.eye(behind))
    dense = up_to @ sums.rows.toarray()
    table = rng.normal(size=(3, 4, 2))
    np.testing.assert_allclose(sums.of(table), dense @ table.sum(axis=2).ravel())
    rows = rng.normal(size=12)
    np.testing.assert_allclose(sums.parted(sums.summed(rows)), rows)
    np.testing.assert_allclose(up_to.T @ sums.multipliers(rows), rows)
    np.testing.assert_allclose(sums.turned(up_to.T @ rows, (3, 4))[..., 0].ravel(), dense.T @ rows)
    assert sums.layers == (dense != 0).sum(axis=0).max()
    effective = dense.sum(axis=1) ** 2 / (dense**2).sum(axis=1)
    weights = 1.5 * effective / (12 * sums.layers * sums.variance)
    np.testing.assert_allclose(sums.weights, weights)
    if running is not None:
        diagonal, give = rng.uniform(1, 2, (2, 12))
        inverse = np.linalg.inv(up_to)
        whole = np.diag(diagonal) + inverse @ np.diag(give) @ inverse.T
        order = sums.lined_up(np.arange(12.0)).astype(int)
        beside, own = sums.bands(diagonal, give)
        banded = np.diag(own) + np.diag(beside[1:], 1) + np.diag(beside[1:], -1)
        np.testing.assert_allclose(banded, whole[np.ix_(order, order)], atol=1e-12)
        np.testing.assert_array_equal(sums.back_in_order(sums.lined_up(rows)), rows)


@pytest.mark.parametrize("running", RUNNING.values(), ids=RUNNING.keys())
def test_curvature_is_that_of_the_gradient(running: tuple[int, int, int] | None) -> None:
    """Where every cell is positive and nothing else is in the way, a step leads to the end."""
    family = TableFamily.of((3, 4, 2), [(0, 1, 2)])
    estimates = {s: np.full(family.shape(s), 24.0) for s in family.every}
    rows = asked_sums.sp.csr_array(np.eye(12))
    told = (rows, np.arange(12.0), np.linspace(1, 2, 12))
    sums = Sums("running", (0, 1, 2), (0, 1), *told, 1.0, running)
    dual = Dual(NearestTables(family, estimates, dict.fromkeys(family.every, 1.0), {}, {}, [sums]))
    place = dual.sums[0, 1, 2][0][1]
    rng = np.random.default_rng(0)
    step = np.zeros(dual.size)
    step[place] = 0.1 * rng.normal(size=12)
    start = np.zeros(dual.size)
    turn = dual.evaluate(step)[1] - dual.evaluate(start)[1]
    np.testing.assert_allclose(dual.curvature(start).solved(turn)[place], step[place])
    dual.close()


@pytest.mark.parametrize("running", [None, (1, 5, 1)], ids=["rows", "running sums"])
def test_gradient_of_the_dual_with_sums(running: tuple[int, int, int] | None) -> None:
    rng = np.random.default_rng(1)
    family = TableFamily.of((3, 4, 2), [(0, 1, 2)])
    estimates = {s: rng.normal(1.0, 2.0, family.shape(s)) for s in family.every}
    weights = {s: float(rng.uniform(0.5, 2.0)) for s in family.every}
    rows = asked_sums.sp.csr_array(rng.integers(-1, 2, (5, 12)).astype(float))
    told = (rows, rng.normal(size=5), rng.uniform(1, 2, 5))
    sums = Sums("some", (0, 1, 2), (0, 1), *told, 1.5, running)
    dual = Dual(NearestTables(family, estimates, weights, {}, {}, [sums]))
    point = rng.normal(size=dual.size)
    gradient = dual.evaluate(point)[1]
    for _ in range(10):
        way = rng.normal(size=dual.size)
        ahead, behind = (dual.evaluate(point + sign * 1e-6 * way)[0] for sign in (1, -1))
        assert (ahead - behind) / 2e-6 == pytest.approx(gradient @ way, rel=1e-4, abs=1e-3)
    dual.close()


def test_prefix_sums_of_a_long_attribute_are_solved_to_the_end() -> None:
    """In far fewer steps than the rows written out, by a diagonal alone, take; and both agree."""
    rng, family = np.random.default_rng(0), TableFamily.of((400, 3), [(0, 1)])
    days = np.minimum(rng.gamma(2.0, 60.0, 2_000), 399).astype(int)
    counts = np.zeros((400, 3))
    np.add.at(counts, (days, rng.integers(0, 3, 2_000)), 1)
    table = counts + rng.normal(0, 3, counts.shape)
    tables = {(0, 1): table, (0,): table.sum(axis=1), (1,): table.sum(axis=0), (): table.sum()}
    estimates = {s: np.asarray(found) for s, found in tables.items()}
    weights = dict.fromkeys(family.every, 1 / 10_800)
    exact = np.cumsum(counts.sum(axis=1)) + rng.normal(0, 3, 400)
    prefix, single = (asked_sums.sp.csr_array(rows) for rows in (np.tri(400), np.eye(400)))
    found, steps = [], []
    for rows, running in ((prefix, None), (single, (1, 400, 1))):
        sums = Sums("prefix", (0, 1), (0,), rows, exact, np.full(400, 9.0), 1.0, running)
        dual = Dual(NearestTables(family, estimates, weights, {}, {}, [sums]))
        effort = Effort(1e-4 * 2_000, 3_000, lambda steps: None)
        found.append(dual.table(maximise(dual, effort), (0, 1)))
        dual.close()
        steps.append(3_000 - effort.left)
    assert effort.done and steps[1] < 300 < steps[0]
    np.testing.assert_allclose(found[0], found[1], atol=0.5)


# --------------------------------------------------------------------------- thin groups


def thin_county() -> tuple[nz.Schema, Array]:
    """538 people in 12 blocks by 90 ages, beside two larger counties."""
    blocks, people = (40, 30, 12), (20_000, 4_000, 538)
    county = np.repeat(np.arange(3), blocks)
    named = {"block": list(range(len(county))), "county": county.tolist()}
    schema = nz.Schema({"geo": nz.Hierarchical(named), "age": nz.Ordinal(range(90))})
    rng, counts = np.random.default_rng(0), np.zeros(schema.shape)
    ages = rng.gamma(2.0, 1.0, 90) * np.exp(-(((np.arange(90) - 35) / 35) ** 2))
    for number, (width, many) in enumerate(zip(blocks, people, strict=True)):
        shares = np.outer(rng.dirichlet(np.ones(width)), ages / ages.sum())
        drawn = rng.multinomial(many, shares.ravel() / shares.sum())
        counts[county == number] = drawn.reshape(width, 90)
    return schema, counts


@pytest.mark.few(1)
@pytest.mark.parametrize("level", [True, False])
def test_a_thin_group_keeps_its_sum(level: bool) -> None:
    """By cells alone it would rise by 5 standard errors and more where its level is measured."""
    schema, counts = thin_county()
    asked = [["county"], ["block", "age"]] if level else [["block", "age"]]
    plan = nz.plan(nz.Workload([nz.Query(schema, n) for n in asked]), budget=nz.zCDP(0.02))
    queries = [nz.Query(schema, n) for n in (["county"], ["block"], ["age"], ["block", "age"])]
    before: list[list[Array]] = [[] for _ in queries]
    after: list[list[Array]] = [[] for _ in queries]
    for seed in range(12):
        release = plan.release(counts, seed=seed)
        valid = release.valid()
        assert valid.changes.largest_sum < 4
        for place, query in enumerate(queries):
            truth = query.apply(counts)
            before[place].append(release.answer(query).estimate - truth)
            after[place].append(valid.answer(query) - truth)
    for query, unbiased, made in zip(queries, before, after, strict=True):
        error = np.sqrt(plan.variance(query))
        assert np.sqrt(np.mean(np.square(made))) <= 1.1 * np.sqrt(np.mean(np.square(unbiased)))
        moved = (np.array(made) - unbiased) / error
        assert np.sqrt((moved**2).mean()) < 1
        if query is queries[0]:
            assert np.abs(moved.mean(axis=0)).max() < 0.5
    cells = [np.mean(np.square(found[-1])) for found in (before, after)]
    assert cells[1] < 0.4 * cells[0]  # sparse cells keep what they gain


@examples(25)
@given(seed=st.integers(0, 2**31), rho=st.sampled_from([1e-3, 0.02, 0.5]), total=st.booleans())
def test_the_error_never_grows_in_its_measure(seed: int, rho: float, total: bool) -> None:
    """A projection onto a convex set that holds the truth, whatever that is."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.2, 5.0, PLACES.shape)).astype(float)
    asked = [["county", "age"], ["block", "age"]]
    plan = nz.plan(nz.Workload([nz.Query(PLACES, n) for n in asked]), budget=nz.zCDP(rho))
    release = plan.release(counts, seed=seed)
    known = counts.sum() if total else None
    valid = valid_tables(release, total=known).values("geo", "age").ravel()
    before = after = 0.0
    for rows, estimate, weights in measured(release, levels()):
        before += (weights * (estimate - rows @ counts.ravel()) ** 2).sum()
        after += (weights * (rows @ (valid - counts.ravel())) ** 2).sum()
    assert after <= before * (1 + 1e-6)


# --------------------------------------------------------------------------- what is known


def agree(valid: ValidTables) -> None:
    table = valid.values("geo", "age")
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), valid.values("geo"), atol=1e-8)
    np.testing.assert_allclose(table.sum(axis=0), valid.values("age"), atol=1e-8)


def test_levels_beside_what_is_known() -> None:
    release = by_place(["county"], ["block", "age"])
    by_block = np.array([5.0, 0.0, 9.0, 2.0, 0.0, 7.0, 3.0])
    valid = release.valid(public={"geo": by_block})
    agree(valid)
    np.testing.assert_allclose(valid.values("geo"), by_block)
    never = np.zeros(PLACES.shape, dtype=bool)
    never[2:4] = never[:, 1] = True
    closed = release.valid(impossible={("geo", "age"): never}, total=20)
    agree(closed)
    assert (closed.values("geo", "age")[never] == 0).all()
    assert closed.total == 20
    whole = release.valid(integers=True)
    agree(whole)
    assert whole.values("geo", "age").dtype == np.int64


def test_how_far_sums_moved() -> None:
    """Beyond rising to zero, in their own standard errors; named and printed."""
    valid = by_place(["county"], ["block", "age"]).valid()
    release, worst = valid.source.made, {}
    for names in ([], ["geo"], ["age"], ["county"], ["county", "age"]):
        query = nz.Query(PLACES, names)
        answer = release.answer(query)
        moved = np.abs(valid.answer(query) - np.maximum(answer.estimate, 0)) / answer.std_error
        worst[query.name] = moved.max()
    called = max(worst, key=worst.get).replace("block", "geo")
    assert valid.changes.largest_sum == pytest.approx(max(worst.values()))
    assert valid.changes.largest_sum_at == called
    words = f"asked for by at most {valid.changes.largest_sum:.2g} of their own ({called})"
    assert words in str(valid)


def test_rows_of_too_many_numbers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    source, family = Unbiased.of(by_place(["block", "age"])), TableFamily.of((7, 5), [(0, 1)])
    assert {s.title for s in asked_sums.asked_sums(source, family)} == {"county", "county × age"}
    monkeypatch.setattr(asked_sums, "MOST_NUMBERS", 7)
    assert [s.title for s in asked_sums.asked_sums(source, family)] == ["county"]


def test_levels_of_local_reports() -> None:
    counts = np.zeros(7)
    counts[0], counts[4] = 3000, 50
    schema = nz.Schema({"geo": GEO})
    workload = nz.Workload([nz.Query(schema, ["block"])])
    aggregator = nz.local.plan(workload, epsilon=1.0).simulate(counts, seed=1)
    source = Unbiased.of(aggregator)
    (sums,) = asked_sums.asked_sums(source, TableFamily.of((7,), [(0,)]))
    query = nz.Query(schema, ["county"])
    np.testing.assert_allclose(sums.estimate, aggregator.answer(query).estimate)
    np.testing.assert_allclose(sums.variance, aggregator.variance(query))
    assert (valid_tables(aggregator, total=3050).values("geo") >= 0).all()
