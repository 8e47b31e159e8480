"""Users split over tables: the choice of tables, shares, exact errors, the whole path."""

from __future__ import annotations

import time
from functools import partial
from itertools import combinations
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from local_oracles import brute_variances
from scipy.sparse import csr_array

import noiseplan as nz
from depth import depth
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local import split_planner
from noiseplan.local.device.wire import ReportError
from noiseplan.local.search.generation import Found
from noiseplan.local.search.portfolio import Task
from noiseplan.local.search.variance_bounds import row_variance, spread_bound, structured_bound
from noiseplan.local.server.reconstruction import Part
from noiseplan.local.split_planner import best_shares, choose_tables, plan_split
from noiseplan.local.strategies.strategy import TableStrategy
from noiseplan.local.user_types import types_of
from noiseplan.noise import SeededSource
from noiseplan.progress import listening


@pytest.fixture(scope="module")
def schema() -> nz.Schema:
    return nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})


@pytest.fixture(scope="module")
def plan(schema: nz.Schema) -> nz.local.LocalPlan:
    """Small enough to be looked at as one explicit matrix; two tables that share an attribute."""
    workload = nz.Workload(
        [
            nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()}),
            nz.Query(schema, ["b", "c"], weight=2.0),
            nz.Query(schema, ["b"]),
        ]
    )
    return plan_split(workload, 1.0, cells=12)


def explicit(plan: nz.local.LocalPlan) -> np.ndarray:
    """The whole mechanism as one matrix: outputs × cells of the domain."""
    shape = plan.workload.schema.shape
    axes = dict(
        zip(plan.workload.schema.names, np.unravel_index(np.arange(24), shape), strict=True)
    )
    blocks = []
    for part in plan.parts:
        types = part.types
        cell = np.zeros(24, dtype=int)
        for name in types.schema.names:
            cell = cell * types.schema[name].size + axes[name]
        strategy = part.strategy
        table = strategy.chances if isinstance(strategy, TableStrategy) else strategy.table()
        blocks.append(part.share * table[:, types.kind[cell]])
    return np.vstack(blocks)


def answering_rows(plan: nz.local.LocalPlan, query: nz.Query) -> np.ndarray:
    """V of a query by probing the estimate with single reports."""
    outputs = len(plan.aggregator().tally)
    units = np.eye(outputs, dtype=np.int64)
    return np.array([plan.reconstruction.estimate(query, unit, 1) for unit in units]).T


def test_tables_cover_the_queries(plan: nz.local.LocalPlan) -> None:
    assert [part.names for part in plan.parts] == [("a", "b"), ("b", "c")]
    assert sum(part.share for part in plan.parts) == pytest.approx(1.0)
    assert "a × b" in str(plan)
    assert "b × c" in str(plan)
    assert "LocalPlan(2 tables" in repr(plan)


def test_the_whole_is_one_private_unbiased_mechanism(plan: nz.local.LocalPlan) -> None:
    chances = explicit(plan)
    TableStrategy.of(chances, 1.0)  # columns of sum one, rows of ratio at most e
    for query in plan.workload:
        assert answering_rows(plan, query) @ chances == pytest.approx(query.dense(), abs=1e-8)
    assert plan.epsilon_met <= 1.0


def test_errors_are_those_of_the_explicit_matrix(plan: nz.local.LocalPlan) -> None:
    chances = explicit(plan)
    total = np.zeros(24)
    for query in plan.workload:
        v, rows = answering_rows(plan, query), query.dense()
        each = (v**2) @ chances - rows**2  # rows × cells
        total += query.weight * each.sum(axis=0)
        assert (each.max(axis=1) <= plan.variance(query, users=1.0) * (1 + 1e-9)).all()
    assert plan.average_variance == pytest.approx(total.mean())
    assert total.max() <= plan.worst_variance * (1 + 1e-9)
    rows = 12 + 2 * 6 + 3
    assert plan.samples(0.01) == pytest.approx(plan.worst_variance / rows / 0.01)
    assert plan.users_needed(0.01) == int(np.ceil(plan.samples(0.01)))


def test_covariances_are_those_of_the_explicit_matrix(plan: nz.local.LocalPlan) -> None:
    chances = explicit(plan)
    x = np.random.default_rng(0).integers(0, 9, 24).astype(float)
    cube = x.reshape(4, 3, 2)
    law = np.diag(chances @ x) - (chances * x) @ chances.T
    counts = []
    for part in plan.parts:
        summed = cube.sum(axis=2) if part.names == ("a", "b") else cube.sum(axis=0)
        counts.append(part.types.counts(summed))
    pairs = [(0, 0), (0, 2), (2, 1), (2, 2)]
    for i, j in pairs:
        left, right = plan.workload.query(i), plan.workload.query(j)
        v, w = answering_rows(plan, left), answering_rows(plan, right)
        found = plan.reconstruction.covariance(left, right, counts)
        assert found == pytest.approx(v @ law @ w.T, abs=1e-6)
        if i == j:
            variance = plan.reconstruction.variance(left, counts)
            assert variance == pytest.approx(np.diagonal(v @ law @ v.T), abs=1e-6)
    with pytest.raises(UnanswerableError, match="no table together"):
        plan.reconstruction.covariance(plan.workload.query(0), plan.workload.query(1), counts)


def test_progress_promises_no_end_that_is_not_known() -> None:
    """A search takes as long as it takes; what is full is done."""
    told: list[tuple[str, float | None]] = []
    asked = nz.Query(nz.Schema.from_sizes({"a": 4, "b": 6}), {"a": nz.Prefix(), "b": nz.Prefix()})
    with listening(lambda title, share: told.append((title, share))):
        nz.local.plan(asked, 1.0, effort=0.2)
        one, told[:] = list(told), []
        nz.local.plan(nz.Workload.marginals(asked.schema, k=1), 1.0, mechanism="split", cells=1)
    assert one == [("planning reports", None)]
    expected = [("planning tables", share) for share in (0.0, 0.5, 1.0)]
    assert told == [("planning reports", None), *expected]


def test_a_query_in_two_tables_uses_both(plan: nz.local.LocalPlan, schema: nz.Schema) -> None:
    weights = plan.reconstruction.weights(nz.Query(schema, ["b"]))
    assert sorted(weights) == [0, 1]
    assert min(weights.values()) > 0
    assert sum(weights.values()) == pytest.approx(1.0)
    with pytest.raises(UnanswerableError, match="no table of the plan holds"):
        plan.reconstruction.weights(nz.Query(schema, ["a", "c"]))


def test_from_devices_to_answers(
    plan: nz.local.LocalPlan, schema: nz.Schema, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    users = 60_000
    records = {"a": rng.integers(0, 4, users), "b": rng.integers(0, 3, users) ** 2 // 2}
    records["c"] = (records["b"] + rng.integers(0, 2, users)) % 2
    randomizer = plan.randomizer().save(tmp_path / "device.bin")
    device = nz.local.load_randomizer(randomizer)
    assert device.hash == plan.randomizer().hash
    made = plan.aggregator()
    made.add_packet(device.packet(device.reports(records, source=SeededSource(5))))
    for i in range(50):
        made.add(device.report({name: column[i] for name, column in records.items()}))
    assert made.users == users + 50
    query = nz.Query(schema, ["b", "c"])
    truth = np.zeros((3, 2))
    np.add.at(truth, (records["b"], records["c"]), 1)
    answer = made.answer(query)
    z = (answer.estimate - truth.ravel()) / answer.std_error
    assert np.abs(z).max() < 5.5
    assert made.covariance(query, query).shape == (6, 6)
    back = nz.local.load_aggregator(made.save(tmp_path / "state.npz"))
    assert back.answer(query).estimate == pytest.approx(answer.estimate)
    assert back.answer(query).std_error == pytest.approx(answer.std_error)
    consistent = made.consistent()
    tables = [consistent.values(*part.names) for part in plan.parts]
    assert all((table >= 0).all() for table in tables)
    assert [table.sum() for table in tables] == pytest.approx([made.users] * 2, rel=1e-6)
    assert tables[0].sum(axis=0) == pytest.approx(tables[1].sum(axis=1), abs=1e-2 * made.users**0.5)
    apart = consistent.answer(query) - answer.estimate  # none is near 0: they hardly move
    assert np.abs(apart / answer.std_error).max() < 3
    assert plan.simulate(records, seed=1).users == users
    with pytest.raises(ReportError, match="'a'"):
        device.reports({"a": [9], "b": [0], "c": [0]})
    with pytest.raises(ReportError, match=r"no values of \['c'\]"):
        device.reports({"a": [1], "b": [0]})


def test_tables_planned_for_less_than_their_cells_agree_on_what_was_asked() -> None:
    """Tables of four attributes that reports tell the pairs of, and nothing else."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcdefgh", 4))
    plan = nz.local.plan(nz.Workload.marginals(schema, k=2), 1.0)
    whole = nz.Query(schema, plan.parts[0].names)
    assert plan.split and len(whole.attributes) == 4
    rng = np.random.default_rng(5)
    made = plan.simulate({name: rng.integers(0, 4, 500) for name in schema.names}, seed=2)
    with pytest.raises(UnanswerableError, match="planned to tell all of it"):
        made.answer(whole)
    valid = made.consistent()
    pairs = {pair: valid.values(*pair) for pair in combinations(schema.names, 2)}
    assert min(table.min() for table in pairs.values()) >= 0
    assert [table.sum() for table in pairs.values()] == pytest.approx([500] * len(pairs), rel=1e-6)
    for (first, second), table in pairs.items():
        assert table.sum(axis=1) == pytest.approx(valid.values(first), abs=1e-2)
        assert table.sum(axis=0) == pytest.approx(valid.values(second), abs=1e-2)
    # Intervals, which come with an answer, would take ten times as long.
    estimate = partial(made.reconstruction.estimate, tally=made.tally, users=made.users)
    unbiased = [estimate(nz.Query(schema, pair)) for pair in pairs]
    truth = 500 / 16  # of even users, within what chance does
    off = [np.mean((table.ravel() - truth) ** 2) for table in pairs.values()]
    assert np.mean(off) < 0.5 * np.mean([np.mean((u - truth) ** 2) for u in unbiased])


def test_shares_are_those_of_a_convex_solver() -> None:
    rng = np.random.default_rng(0)
    costs = rng.random((7, 3)) * 10 + 1
    costs[0, 1] = costs[3, 0] = costs[4, 2] = np.inf
    weights = rng.random(7) + 0.1
    found = best_shares(csr_array(1 / costs), weights)
    rho = cp.Variable(3, nonneg=True)
    value = cp.sum(cp.multiply(weights, cp.inv_pos((1 / costs) @ rho)))
    problem = cp.Problem(cp.Minimize(value), [cp.sum(rho) == 1])
    problem.solve(solver=cp.CLARABEL)
    assert found == pytest.approx(rho.value, abs=1e-4)
    assert weights @ (1 / ((1 / costs) @ found)) == pytest.approx(problem.value, rel=1e-7)


def test_one_table_takes_everybody() -> None:
    assert best_shares(csr_array([[3.0]]), np.ones(1)).tolist() == [1.0]


def test_tables_merge_while_they_stay_small() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2, "d": 50})
    workload = nz.Workload.marginals(schema, k=2)
    small = choose_tables(workload, 24)
    assert frozenset("abc") in small
    for query in workload:
        assert any(set(query.attributes) <= table for table in small)
    assert choose_tables(workload, 1200) == [frozenset("abcd")]
    wide = nz.Schema.from_sizes({"a": 100, "b": 100})
    with pytest.raises(PlanError, match="10,000 cells"):
        choose_tables(nz.Workload([nz.Query(wide, ["a", "b"])]), 512)


def test_grams_of_single_queries(plan: nz.local.LocalPlan) -> None:
    for part in plan.parts:
        types = part.types
        for query in plan.workload:
            if part.holds(query):
                rows = types.matrix(query)
                assert part.gram(query) == pytest.approx(rows.T @ rows)


def test_structured_bounds_are_below_dense_ones() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})
    plain = nz.Workload.marginals(schema, k=2)
    mixed = nz.Workload.marginals(schema, up_to=2, factors={"a": nz.Prefix()})
    joint = plain + nz.Query(schema, ["a", "b"], matrix=np.random.default_rng(0).random((2, 12)))
    for workload, exact in ((plain, True), (mixed, False), (joint, False)):
        types = types_of(workload)
        uniform = np.full(24, 1 / 24)
        dense = spread_bound(types.gram[np.ix_(types.kind, types.kind)], uniform, np.sinh(0.5) ** 2)
        found = structured_bound(workload, 1.0)
        assert found <= dense * (1 + 1e-9)
        assert found >= (0.999999 if exact else 0.8) * dense


def test_splitting_is_not_better_than_one_matrix(schema: nz.Schema) -> None:
    workload = nz.Workload.marginals(schema, k=2)
    whole = nz.local.plan(workload, 1.0)
    split = plan_split(workload, 1.0, cells=12)
    assert not whole.split
    assert whole.average_variance <= split.average_variance
    assert split.lower_bound <= whole.average_variance * (1 + 1e-9)
    merged = plan_split(workload, 1.0, cells=24)
    assert len(merged.parts) == 1
    assert merged.average_variance == pytest.approx(whole.average_variance, rel=1e-6)
    assert row_variance(24, 1.0) <= np.sinh(0.5) ** 2


def test_large_domains_are_split_without_being_asked() -> None:
    schema = nz.Schema.from_sizes({"a": 30, "b": 20, "c": 10, "unused": 1000})
    workload = nz.Workload(
        [nz.Query(schema, ["a", "b"]), nz.Query(schema, ["b", "c"]), nz.Query(schema, ["a"])]
    )
    plan = nz.local.plan(workload, 1.0, effort=0.2)
    assert isinstance(plan, nz.local.LocalPlan)
    assert plan.workload.schema.names == ("a", "b", "c")
    assert 0 <= plan.gap < 1.5
    assert plan.worst_variance >= plan.average_variance * (1 - 1e-12) >= plan.lower_bound
    assert plan.split
    assert all(isinstance(part, Part) for part in plan.parts)
    for one_table in ("types", "strategy", "variances"):
        with pytest.raises(PlanError, match=r"see plan\.parts"):
            getattr(plan, one_table)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(("factor", "slack"), [(nz.Identity(), 1e-6), (nz.Prefix(), 0.01)])
def test_disjoint_tables_are_answered_as_well_as_can_be(
    factor: nz.Factor, slack: float, epsilon: float
) -> None:
    """Against the best reconstruction of the whole mechanism as one explicit matrix.

    That of a table planned for its worst type is not quite the best on average.
    """
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})
    workload = nz.Workload(
        [
            nz.Query(schema, {"a": factor}),
            nz.Query(schema, ["b"], weight=3),
            nz.Query(schema, ["c"]),
        ]
    )
    plan = plan_split(workload, epsilon, cells=4)
    assert [len(part.names) for part in plan.parts] == [1, 1, 1]
    rows = np.vstack([np.sqrt(query.weight) * query.dense() for query in workload])
    best = brute_variances(explicit(plan), rows)
    assert best.mean() * (1 - 1e-9) <= plan.average_variance <= best.mean() * (1 + slack)


def test_errors_of_given_users_are_those_of_the_explicit_matrix(plan: nz.local.LocalPlan) -> None:
    rng = np.random.default_rng(5)
    records = {"a": rng.integers(0, 4, 300), "b": rng.integers(0, 3, 300), "c": [1] * 300}
    chances = explicit(plan)
    cell = (records["a"] * 3 + records["b"]) * 2 + 1
    x = np.bincount(cell, minlength=24).astype(float)
    law = np.diag(chances @ x) - (chances * x) @ chances.T
    for i, j in ((0, 0), (2, 1)):
        left, right = plan.workload.query(i), plan.workload.query(j)
        v, w = answering_rows(plan, left), answering_rows(plan, right)
        assert plan.covariance(left, right, records) == pytest.approx(v @ law @ w.T, abs=1e-6)
        exact = np.diagonal(v @ law @ v.T)
        assert plan.variance(left, records) == pytest.approx(exact, abs=1e-6)
        assert (exact <= plan.variance(left, users=300) * (1 + 1e-9)).all()
        assert (plan.variance(left, records=records) == plan.variance(left, records)).all()
        named = plan.covariance(left, right, records=records)
        assert (named == plan.covariance(left, right, records)).all()
    drawn = plan.simulate(records, seed=3).tally
    assert (plan.simulate(records=records, seed=3).tally == drawn).all()
    with pytest.raises(PlanError, match="records="):
        plan.variance(plan.workload.query(0))


def test_names_of_split_tables_are_printed_safely() -> None:
    schema = nz.Schema.from_sizes({"a\x1b[2J": 3, "b": 2})
    workload = nz.Workload([nz.Query(schema, [name]) for name in schema.names])
    assert "\x1b" not in str(plan_split(workload, 1.0, cells=3))


def test_the_number_of_users_is_known_to_a_split(plan: nz.local.LocalPlan) -> None:
    schema = plan.workload.schema
    records = {"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 1]}
    total = plan.simulate(records, seed=0).answer(nz.Query(schema, []))
    assert total.estimate.tolist() == [3.0]
    assert total.std_error.tolist() == [0.0]
    last = plan.simulate(records, seed=0).answer(nz.Query(schema, {"a": nz.Prefix()}))
    assert last.estimate[-1] == 3.0
    assert last.std_error[-1] == 0.0
    alone = plan_split(nz.Workload([nz.Query(schema, [])]), 1.0)
    assert alone.worst_variance == 0.0
    answer = alone.simulate({"a": [1, 2]}, seed=0).answer(nz.Query(schema, []))
    assert answer.estimate.tolist() == [2.0]


def test_intervals_of_splits_cover_at_large_epsilon() -> None:
    """Few users and hardly any noise: the normal law covers 70 % here."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})
    asked = nz.Workload([nz.Query(schema, ["a", "b"]), nz.Query(schema, ["b", "c"])])
    plan = nz.local.plan(asked, 8.0, mechanism="split", cells=12)
    rng = np.random.default_rng(1)
    records = {name: rng.integers(0, schema[name].size, 100) for name in schema.names}
    records["a"][:50] = 0
    truth = np.bincount(3 * records["a"] + records["b"], minlength=12)
    query, trials, together = asked.query(0), depth(80, 40), 0
    for seed in range(trials):
        found = plan.simulate(records=records, seed=seed).answer(query, simultaneous=True)
        together += bool(((found.lower <= truth + 1e-6) & (truth <= found.upper + 1e-6)).all())
    assert together / trials > 0.95 - 4 * np.sqrt(0.95 * 0.05 / trials)


def test_auto_takes_the_better_of_one_matrix_and_a_split() -> None:
    """Two attributes asked about apart: at small ε splitting is better than what a search finds
    over all pairs of values; at large ε, where a report says more, one matrix is."""
    schema = nz.Schema.from_sizes({"a": 5, "b": 4})
    asked = nz.Workload([nz.Query(schema, {name: nz.Prefix()}) for name in "ab"])
    found = {epsilon: nz.local.plan(asked, epsilon, effort=0.2) for epsilon in (0.5, 4.0)}
    for epsilon, plan in found.items():
        split = nz.local.plan(asked, epsilon, mechanism="split", cells=5)
        assert plan.value <= split.value * (1 + 1e-9)
    assert [plan.split for plan in found.values()] == [True, False]
    whole = nz.local.plan(
        asked, 0.5, objective="average", effort=0.2
    )  # for which users are never split
    assert found[0.5].gap <= 0.1
    assert not whole.split
    assert found[0.5].lower_bound <= whole.average_variance * (1 + 1e-9)


def test_auto_splits_small_products_without_a_long_search() -> None:
    """Three attributes of six values, prefix sums of each: one matrix over all 216 types was found
    after 102 CPU seconds, with a variance of 168.9."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abc", 6))
    asked = nz.Workload([nz.Query(schema, {name: nz.Prefix()}) for name in "abc"])
    started = time.process_time()
    plan = nz.local.plan(asked, 1.0)
    assert time.process_time() - started < 10.0  # some tenths of a second
    assert plan.split and [len(part.types.uniform) for part in plan.parts] == [6, 6, 6]
    assert plan.value == pytest.approx(131.59, abs=0.01)
    assert plan.gap <= 0.1 and plan.lower_bound <= plan.value
    for name in "abc":  # a third of the users each: no less than three times what all would have
        alone = nz.local.plan(asked.query("abc".index(name)), 1.0)
        assert plan.value >= 3 * alone.value


def test_equal_tables_are_planned_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All pairs of many attributes: 780 tables, one search, and the shares are even."""
    searched: list[int] = []
    first = split_planner.best_strategy

    def counting(task: Task) -> Found:
        searched.append(task.types.count)
        return first(task)

    monkeypatch.setattr(split_planner, "best_strategy", counting)
    schema = nz.Schema.from_sizes({f"q{i}": 5 for i in range(40)})
    plan = nz.local.plan(nz.Workload.marginals(schema, k=2), 1.0)
    assert len(searched) <= 4  # merged as well as not, with what is left over
    assert "tables more" in str(plan)
    alone = nz.local.plan(plan.workload, 1.0, mechanism="split", cells=25)
    assert [part.share for part in alone.parts] == pytest.approx([1 / 780] * 780)
    # Each pair by itself, with all users: 780 times the variance with one in 780 of them.
    pair = nz.Schema.from_sizes({"a": 5, "b": 5})
    one = nz.local.plan(nz.Query(pair, ["a", "b"]), 1.0)
    second = one.average_variance + 1 - 1 / 25  # of rows less their mean, of squared size 24/25
    assert alone.average_variance == pytest.approx(780 * (780 * second - (1 - 1 / 25)), rel=1e-6)
    device = alone.randomizer()
    assert device.epsilon <= 1.0
    assert len({table.schema.names for table in device.tables}) == 780
    path = alone.save(tmp_path / "plan")
    assert path.stat().st_size < 400_000  # 780 Gram matrices are 3.9 MB
    again = nz.local.load_plan(path)
    assert again.randomizer().hash == device.hash
    assert len({id(part.known) for part in again.parts}) == 1
    assert again.worst_variance == pytest.approx(alone.worst_variance, rel=1e-12)


def test_refusals_do_not_send_in_circles() -> None:
    """Where no split would do either, it is not recommended."""
    schema = nz.Schema.from_sizes({"a": 80, "b": 80})
    pair, apart = nz.Query(schema, ["a", "b"]), nz.Workload.marginals(schema, k=1)
    for mechanism in ("auto", "split", "hadamard", "matrix l1"):
        with pytest.raises(PlanError, match="ask for smaller tables"):
            nz.local.plan(pair, 1.0, mechanism=mechanism)
    with pytest.raises(PlanError, match="mechanism='split'"):
        nz.local.plan(apart, 1.0, mechanism="hadamard")
    assert nz.local.plan(apart, 1.0, mechanism="split").split
    with pytest.raises(PlanError, match="always split"):
        nz.local.plan(apart, 1.0, objective="average")
    with pytest.raises(PlanError, match="choose another mechanism"):
        nz.local.plan(apart, 1.0, mechanism="matrix l1", size=3)


def test_users_of_a_split_may_be_counted_by_cells(plan: nz.local.LocalPlan) -> None:
    counts = np.random.default_rng(2).integers(0, 9, (4, 3, 2))
    cells = np.repeat(np.arange(24), counts.ravel())
    axes = np.unravel_index(cells, (4, 3, 2))
    records = dict(zip("abc", axes, strict=True))
    query, other = plan.workload.query(0), plan.workload.query(2)
    assert plan.variance(query, counts) == pytest.approx(plan.variance(query, records))
    both = plan.covariance(query, other, counts.ravel())
    assert both == pytest.approx(plan.covariance(query, other, records))
    drawn, expected = (plan.simulate(given, seed=4) for given in (counts, records))
    assert (drawn.tally == expected.tally).all()
    assert drawn.users == counts.sum()
    for wrong, said in ((counts[:2], "counts of all 24 cells"), (-counts - 1, "at least 0")):
        with pytest.raises(PlanError, match=said):
            plan.simulate(wrong)
    with pytest.raises(PlanError, match="whole numbers"):
        plan.simulate(counts + 0.5)
