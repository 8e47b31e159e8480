"""Prefix sums and ranges of long attributes: series against written-out matrices and optima."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from long_attributes import planned_as_long
from noiseplan.errors import PlanError, StorageError, TooManyValues, UnanswerableError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.storage.plans import read_mechanism

BUDGET = nz.zCDP(0.5)
VALUE, PREFIX = nz.Identity(), nz.Prefix()


@pytest.fixture
def short_series() -> Iterator[None]:
    """Series for attributes of a few values, whose optimum is known."""
    with planned_as_long():
        yield


def groups(width: int) -> nz.Levels:
    return nz.Levels(width, leaves=False, total=False)


def sums(seed: int, values: int = 12, ranges: bool = True) -> nz.Workload:
    """Prefix sums, ranges, groups and values, crossed with two other attributes."""
    rng = np.random.default_rng(seed)
    schema = nz.Schema.from_sizes({"sex": 2, "time": values, "age": int(rng.integers(2, 5))})
    asked: list[dict[str, nz.Factor]] = [
        {"time": nz.Prefix(), "sex": VALUE},
        {"time": nz.Ranges() if ranges else nz.Prefix()},
        {"time": VALUE, "age": VALUE},
        {"age": nz.Prefix(), "sex": VALUE},
        {"time": groups(3), "sex": VALUE, "age": VALUE},
    ]
    weights = rng.uniform(0.3, 3.0, len(asked))
    pairs = zip(asked, weights, strict=True)
    return nz.Workload([nz.Query(schema, factors, weight=float(w)) for factors, w in pairs])


def planned(workload: nz.Workload, **how: Any) -> nz.Plan:
    with planned_as_long():
        plan = nz.plan(workload, **({"budget": BUDGET} | how))
    assert isinstance(plan.mechanism, SeriesMechanism)
    return plan


def cells(plan: nz.Plan) -> np.ndarray:
    """The covariance of all cells that are told apart, from the rows that are measured."""
    return np.linalg.pinv(plan.cost_matrix(), hermitian=True)


# ---------------------------------------------------------------------- errors and cost


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("seed", seeds(3))
def test_errors_are_those_of_least_squares(seed: int, noise: str) -> None:
    """Variances and covariances from the cost matrix, all of whose rows are estimated at best."""
    schema = nz.Schema.from_sizes({"sex": 2, "time": 9, "age": 3})
    workload = nz.Workload(
        [
            nz.Query(schema, {"time": nz.Prefix(), "sex": VALUE, "age": nz.Prefix()}),
            nz.Query(schema, {"sex": VALUE, "age": VALUE}, weight=10.0 ** (seed + 1)),
            nz.Query(schema, {"time": VALUE, "age": VALUE}, weight=3.0),
        ]
    )
    plan = planned(workload, noise=noise)
    assert any(block.sums for block in plan.mechanism.blocks)
    exact = cells(plan)
    rng = np.random.default_rng(seed)
    queries = [
        *workload,
        nz.Query(schema, {"time": nz.Ranges()}),
        nz.Query(schema, {"time": nz.Levels(3), "sex": VALUE}),
        nz.Query(schema, {"time": nz.Custom(rng.normal(size=(2, 9))), "age": VALUE}),
        nz.Query(schema, {"time": nz.Levels([0, 1, 0, 1, 1, 0, 2, 2, 0], leaves=False)}),
        nz.Query(schema, ["sex", "time"], matrix=rng.normal(size=(3, 18))),
        nz.Query(schema, ["sex", "age"], matrix=rng.normal(size=(2, 6))),
    ]
    for query, other in product(queries, queries):
        a, b = query.dense(), other.dense()
        np.testing.assert_allclose(
            plan.covariance(query, other), a @ exact @ b.T, rtol=1e-6, atol=1e-8
        )
    for query in queries:
        variance = np.diag(query.dense() @ exact @ query.dense().T)
        np.testing.assert_allclose(plan.variance(query), variance, rtol=1e-6)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("seed", seeds(4))
def test_the_cost_covers_every_pair_of_records(seed: int, noise: str) -> None:
    """Against the measured columns themselves; neighbours that replace are bounded from above."""
    plan = planned(sums(seed, ranges=False), noise=noise)
    columns = plan.mechanism
    assert any(each.count > 1 for block in columns.blocks for each in block.sums)
    size = plan.schema.size

    def measured(cell: int) -> np.ndarray:
        counts = np.zeros(size, dtype=np.int64)
        counts[cell] = 1
        table = counts.reshape(plan.schema.shape)

        def marginals(sets: np.ndarray) -> np.ndarray:
            rest = tuple(i for i in range(3) if i not in sets[0])
            return table.sum(axis=rest)[None]

        sizes: list[np.ndarray] = []

        def none(shape: tuple[int, ...], noise: Any) -> np.ndarray:
            sizes.append(np.broadcast_to(noise.size, shape).ravel())
            return np.zeros(shape, dtype=np.int64)

        values = columns.measure(marginals, none).values
        order = [v.reshape(-1) for v in values]
        return np.concatenate(order) / np.sqrt(np.concatenate(sizes))

    each = np.array([measured(cell) for cell in range(size)])
    gram = each @ each.T
    np.testing.assert_allclose(gram, plan.cost_matrix(), rtol=1e-9, atol=1e-12)
    added = np.diag(gram).max()
    assert added <= columns.record_cost("add-remove")
    assert columns.record_cost("add-remove") <= added * 1.05
    replaced = np.add.outer(np.diag(gram), np.diag(gram)) - 2 * gram
    assert replaced.max() <= columns.record_cost("replace")
    with mock.patch("noiseplan.mechanisms.long_attribute.CELL_BY_CELL", 0):
        assert replaced.max() <= columns.record_cost("replace") <= 4.1 * added


@given(st.integers(0, 2**32), st.integers(5, 30))
@examples(20)
def test_without_noise_answers_are_the_truth(seed: int, values: int) -> None:
    workload = sums(seed, values)
    plan = planned(workload)
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 10**6, workload.schema.shape)

    def marginals(sets: np.ndarray) -> np.ndarray:
        return table.sum(axis=tuple(i for i in range(3) if i not in sets[0]))[None]

    measured = plan.mechanism.measure(marginals, lambda shape, noise: np.zeros(shape, np.int64))
    assert all(v.dtype == np.int64 for v in measured.values)
    for query in workload:
        found = plan.mechanism.answer(measured, query)
        np.testing.assert_allclose(found, query.apply(table), rtol=1e-9, atol=1e-5)


def test_answers_are_unbiased_with_the_errors_that_are_said() -> None:
    workload = sums(5)
    plan = planned(workload, noise="gaussian")
    rng, runs = np.random.default_rng(1), 4000
    shapes = plan.mechanism.shapes
    noises = [noise for block in plan.mechanism.blocks for noise in block.noises]
    query = workload.query(0)
    found = np.empty((runs, query.rows))
    for run in range(runs):
        drawn = tuple(
            rng.normal(size=shape) * np.sqrt(noise.one)
            for shape, noise in zip(shapes, noises, strict=True)
        )
        found[run] = plan.mechanism.answer(Measurements(drawn), query)
    exact = plan.covariance(query, query)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=5 * np.sqrt(exact.max() / runs))
    np.testing.assert_allclose(np.cov(found.T), exact, atol=0.12 * exact.max())


# ---------------------------------------------------------------------- plans


@pytest.mark.parametrize("seed", seeds(6))
def test_near_the_optimum_and_never_below_its_own_bound(seed: int) -> None:
    workload = sums(seed, values=24)
    plan = planned(workload, noise="gaussian")
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
    assert best.total_variance * (1 - 1e-4) <= plan.total_variance <= 1.12 * best.total_variance
    assert plan.certify().bound <= best.total_variance
    assert plan.certify().gap <= 0.25
    exact = sum(q.weight * plan.variance(q).sum() for q in workload)
    assert plan.total_variance == pytest.approx(exact, rel=1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "goal",
    [
        nz.WorstVariance(),
        nz.PNormVariance(3.0),
        nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v),
    ],
    ids=str,
)
def test_other_objectives(goal: nz.Objective) -> None:
    workload = sums(1, values=24, ranges=False)
    plan = planned(workload, noise="gaussian", objective=goal)
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", objective=goal, planner="optimal")
    plain = planned(workload, noise="gaussian")
    value = plan.certify().value
    assert best.certify().value * (1 - 1e-6) <= value <= 1.35 * best.certify().value
    assert plan.certify().bound <= best.certify().value * (1 + 1e-9)
    other = {
        "WorstVariance": lambda p: p.worst_variance,
        "PNormVariance": lambda p: float(
            np.linalg.norm(np.concatenate([q.weight * p.variance(q) for q in workload]), 3)
        ),
        "ConvexLoss": lambda p: float(
            sum((q.weight * p.variance(q).mean()) ** 2 for q in workload)
        ),
    }[type(goal).__name__]
    assert other(plan) == pytest.approx(value, rel=1e-9)
    assert value <= other(plain) * (1 + 1e-9)  # what is planned for is better than the total's plan


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_targets_are_met_for_not_much(noise: str) -> None:
    workload = sums(2, values=24, ranges=False)
    targets = {query.name: 4.0 + i for i, query in enumerate(workload)}
    plan = planned(workload, budget=None, targets=targets, noise=noise)
    best = nz.plan(workload, targets=targets, noise="gaussian", planner="optimal")
    for name, target in targets.items():
        assert plan.variance(workload[name]).max() <= target
    assert best.privacy.pcost * (1 - 1e-6) <= plan.privacy.pcost <= 1.35 * best.privacy.pcost


def test_targets_of_totals_are_met_by_totals() -> None:
    """Not by making the whole series as precise."""
    schema = nz.Schema.from_sizes({"time": 3000, "region": 4})
    workload = nz.Workload(
        [
            nz.Query(schema, {"time": nz.Prefix(), "region": VALUE}, name="up to"),
            nz.Query(schema, ["region"], name="regions"),
        ]
    )
    plan = nz.plan(workload, targets={"up to": 900.0, "regions": 9.0})
    totals = nz.plan(nz.Workload([workload["regions"]]), targets=9.0)
    along = nz.plan(nz.Workload([workload["up to"]]), targets=900.0)
    assert plan.privacy.pcost <= 1.05 * (totals.privacy.pcost + along.privacy.pcost)


def test_budgets_are_used_and_kept() -> None:
    for noise in ("gaussian", "discrete"):
        plan = planned(sums(3), noise=noise)
        assert 0.9999 <= plan.privacy.pcost <= 1.0
    several = planned(sums(3), max_rows=3, noise="gaussian")
    one = planned(sums(3), noise="gaussian")
    assert several.total_variance == pytest.approx(9 * one.total_variance, rel=1e-6)
    approximate = planned(sums(3), budget=nz.ApproxDP(1.0, 1e-9))
    assert approximate.privacy.epsilon(1e-9) <= 1.0


def test_totals_that_count_much_are_measured_by_themselves() -> None:
    schema = nz.Schema.from_sizes({"time": 200, "sex": 2})
    tables = nz.Workload(
        [nz.Query(schema, {"time": nz.Prefix(), "sex": VALUE}), nz.Query(schema, ["sex"])]
    ).weighted("tables")
    plan = planned(tables, noise="gaussian")
    assert all(block.sums for block in plan.mechanism.blocks)
    best = nz.plan(tables, budget=BUDGET, noise="gaussian", planner="optimal")
    assert plan.total_variance <= 1.06 * best.total_variance


def by_group(values: int, along: nz.Factor) -> nz.Workload:
    """Prefix sums or ranges, groups, values and totals, every table alike."""
    schema = nz.Schema.from_sizes({"time": values, "sex": 2})
    asked = [
        {"time": along, "sex": VALUE},
        {"time": groups(10), "sex": VALUE},
        {"time": groups(values // 4)},
        {"time": VALUE},
        {"sex": VALUE},
    ]
    return nz.Workload([nz.Query(schema, factors) for factors in asked]).weighted("tables")


@pytest.mark.parametrize("along", [nz.Prefix(), nz.Ranges()], ids=str)
def test_groups_that_count_as_much_as_all_prefix_sums(along: nz.Factor) -> None:
    workload = by_group(160, along)
    plan = planned(workload, noise="gaussian")
    assert all(any(each.count == 16 for each in block.sums) for block in plan.mechanism.blocks)
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
    assert best.total_variance * (1 - 1e-4) <= plan.total_variance <= 1.05 * best.total_variance
    assert plan.certify().bound <= best.total_variance
    assert plan.certify().gap <= 0.12


def test_the_worst_variance_of_several_kinds_of_rows() -> None:
    workload = by_group(100, nz.Prefix())
    goal = nz.WorstVariance()
    plan = planned(workload, noise="gaussian", objective=goal)
    before = nz.plan(workload, budget=BUDGET, noise="gaussian", objective=goal, planner="residual")
    assert plan.worst_variance <= 1.12 * before.worst_variance


def test_groups_beside_thousands_of_values_are_released_and_saved(tmp_path: Path) -> None:
    workload = by_group(3000, nz.Prefix())
    plan = nz.plan(workload, budget=BUDGET)
    assert plan.certify().gap <= 0.08
    rng = np.random.default_rng(0)
    data = {"time": rng.integers(0, 3000, 30_000), "sex": rng.integers(0, 2, 30_000)}
    release = plan.release(data, seed=1)
    release.save(tmp_path / "out")
    loaded = nz.load(tmp_path / "out")
    for query in workload:
        again, answer = loaded.answer(query), release.answer(query)
        assert np.array_equal(again.estimate, answer.estimate)
        assert np.array_equal(again.std_error, answer.std_error)
    tens = release.answer(workload.query(1))
    truth = np.zeros((300, 2))
    np.add.at(truth, (data["time"] // 10, data["sex"]), 1)
    errors = (tens.estimate - truth.ravel()) / tens.std_error
    assert 0.8 < (errors**2).mean() < 1.2


@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Ranges()], ids=str)
def test_within_the_promised_distance_of_the_singular_values(factor: nz.Factor) -> None:
    size = 3000
    schema = nz.Schema.from_sizes({"time": size})
    plan = nz.plan(nz.Workload([nz.Query(schema, {"time": factor})]), budget=BUDGET)
    k = np.arange(1, size + 1)
    values = 1 / (2 * np.sin((2 * k - 1) * np.pi / (4 * size + 2)))
    if isinstance(factor, nz.Ranges):
        values = np.sqrt(size + 1) / (2 * np.sin(k * np.pi / (2 * size + 2)))
    bound = values.sum() ** 2 / size
    assert plan.lower_bound == pytest.approx(bound, rel=1e-6)
    limit = 1.035 if isinstance(factor, nz.Prefix) else 1.03
    assert 1.0 <= np.sqrt(plan.total_variance / bound) <= limit
    assert plan.rmse == pytest.approx(np.sqrt(plan.total_variance / plan.workload.rows))


def test_it_is_not_much_worse_than_what_takes_minutes() -> None:
    """At a size where matrices over the values are still quick."""
    schema = nz.Schema.from_sizes({"time": 256})
    workload = nz.Workload([nz.Query(schema, {"time": nz.Prefix()})])
    plan, before = planned(workload), nz.plan(workload, budget=BUDGET)
    assert plan.rmse <= 1.025 * before.rmse


# ---------------------------------------------------------------------- a long attribute


def minutes() -> nz.Workload:
    schema = nz.Schema.from_sizes({"minute": 5000, "region": 3})
    return nz.Workload(
        [
            nz.Query(schema, {"minute": nz.Prefix(), "region": VALUE}, name="up to"),
            nz.Query(schema, {"minute": VALUE}, name="minutes"),
            nz.Query(schema, {"minute": nz.Ranges()}, name="all ranges"),
            nz.Query(schema, ["region"], name="regions"),
        ]
    )


def test_a_long_attribute_is_released_saved_and_answered(tmp_path: Path) -> None:
    workload = minutes()
    schema, rng = workload.schema, np.random.default_rng(0)
    plan = nz.plan(workload, budget=BUDGET)
    text = str(plan)
    assert "series along ordered values (taken)" in text and "nan" not in text
    assert plan.fairness()[0]["worst_std_error"] is None or "–" in text
    data = {"minute": rng.integers(0, 5000, 40_000), "region": rng.integers(0, 3, 40_000)}
    release = plan.release(data, seed=3)
    with pytest.warns(RuntimeWarning, match="left out of the saved tables: 'all ranges' asks for"):
        release.save(tmp_path / "out")
    written = (tmp_path / "out" / "tables" / "index.csv").read_text(encoding="utf-8")
    assert [line.split(",")[1] for line in written.splitlines()[1:]] == [
        "up to",
        "minutes",
        "regions",
    ]
    loaded = nz.load(tmp_path / "out")
    upto, minute = (release.answer(workload[name]) for name in ("up to", "minutes"))
    for name in ("up to", "minutes", "regions"):
        again = loaded.answer(workload[name])
        assert np.array_equal(again.estimate, release.answer(workload[name]).estimate)
        assert np.array_equal(again.std_error, release.answer(workload[name]).std_error)
    assert loaded.plan.rmse == pytest.approx(plan.rmse, rel=1e-12)
    by_region = upto.estimate.reshape(5000, 3)
    np.testing.assert_allclose(by_region.sum(axis=1), np.cumsum(minute.estimate), atol=1e-5)
    np.testing.assert_allclose(by_region[-1], release.answer("regions").estimate, atol=1e-5)
    truth = np.bincount(data["minute"], minlength=5000)
    errors = (minute.estimate - truth) / minute.std_error
    assert 0.9 < (errors**2).mean() < 1.1
    row = np.zeros((1, 5000))
    row[0, 100:700] = 1.0
    one = nz.Query(schema, {"minute": nz.Custom(row)})
    condition = nz.Workload.predicates(schema, ["100 <= minute < 700"]).query(0)
    assert release.answer(one).estimate == pytest.approx(release.answer(condition).estimate)
    assert abs(release.answer(one).estimate[0] - truth[100:700].sum()) < 5 * plan.std_error(one)[0]
    by_parts = plan.covariance(workload["minutes"], one)[100:700].sum()
    assert plan.variance(one)[0] == pytest.approx(by_parts, rel=1e-8)


def test_all_ranges_are_refused_before_they_are_written_down() -> None:
    workload = minutes()
    plan = nz.plan(workload, budget=BUDGET)
    for ask in (plan.variance, plan.std_error):
        with pytest.raises(UnanswerableError, match=r"12,502,500 ranges.*nz.Custom"):
            ask("all ranges")
    release = plan.release(np.ones(workload.schema.shape, dtype=int), seed=1)
    with pytest.raises(UnanswerableError, match="by itself, as a condition"):
        release.answer("all ranges")


def test_what_is_not_planned_says_what_is() -> None:
    schema = nz.Schema.from_sizes({"time": 20_000})
    ranges = nz.Workload([nz.Query(schema, {"time": nz.Ranges()})])
    prefix = nz.Workload([nz.Query(schema, {"time": nz.Prefix()})])
    with pytest.raises(PlanError, match=r"largest variance of all ranges of 'time'.*prefix sums"):
        nz.plan(ranges, budget=BUDGET, objective=nz.WorstVariance())
    with pytest.raises(PlanError, match="largest variance of all ranges"):
        nz.plan(ranges, targets=100.0)
    with pytest.raises(PlanError, match="the budget is one of pure DP"):
        nz.plan(prefix, budget=nz.PureDP(1.0))
    with pytest.raises(PlanError, match="records are replaced"):
        nz.plan(prefix, budget=BUDGET, neighbours="replace")
    with pytest.raises(PlanError, match="planner='optimal'"):
        nz.plan(prefix, budget=BUDGET, planner="optimal")
    plans = [nz.plan(each, budget=BUDGET) for each in (prefix, ranges)]
    with pytest.raises(PlanError, match="along a long attribute"):
        nz.adaptive(plans)
    reached = nz.plan(ranges, objective=nz.RMSE(at_most=5.0))
    assert 4.99 < reached.rmse <= 5.0


@pytest.mark.usefixtures("short_series")
def test_what_was_not_measured_together_is_refused() -> None:
    schema = nz.Schema.from_sizes({"time": 12, "sex": 2})
    workload = nz.Workload(
        [
            nz.Query(schema, {"time": nz.Prefix()}),
            nz.Query(schema, {"time": groups(3), "sex": VALUE}),
        ]
    )
    plan = nz.plan(workload, budget=BUDGET)
    with pytest.raises(UnanswerableError, match="time × sex measured together"):
        plan.variance(nz.Query(schema, ["time", "sex"]))
    with pytest.raises(UnanswerableError, match="time × sex measured together"):
        plan.variance(nz.Query(schema, {"time": nz.Ranges(), "sex": VALUE}))
    coarse = nz.Query(schema, {"time": groups(6), "sex": VALUE})
    exact = cells(plan)
    np.testing.assert_allclose(
        plan.variance(coarse), np.diag(coarse.dense() @ exact @ coarse.dense().T)
    )


@pytest.mark.usefixtures("short_series")
def test_saved_series_that_make_no_sense_are_refused() -> None:
    plan = nz.plan(sums(0), budget=BUDGET)
    content, arrays = plan.mechanism.parts()

    def refused(match: str, **changed: Any) -> None:
        named = {k: v for k, v in changed.items() if k in content}
        kept = {k: v for k, v in changed.items() if k in arrays}
        with pytest.raises(StorageError, match=match):
            read_mechanism({**content, **named}, {**arrays, **kept}, plan.schema)

    read_mechanism(content, arrays, plan.schema)
    first = arrays["series_0_coefficients"]
    refused("whole numbers", series_0_coefficients=first / 2)
    refused("begins with nothing", series_0_coefficients=first * 0)
    refused("pieces of series", series_0_starts=arrays["series_0_starts"] + 1)
    refused("pieces of series", series_0_levels=0 * arrays["series_0_levels"])
    refused("fit its series", block_0_bounds=arrays["block_0_bounds"][:-1])
    refused("in their order", block_0_bounds=arrays["block_0_bounds"][::-1].copy())
    refused("nothing is measured", blocks=[])
    block = content["blocks"][0]
    refused("has no noise", blocks=[{**block, "sigma2": 0.0}])
    old = {key: value for key, value in block.items() if key != "sums_sigma2"}
    refused("has no noise", blocks=[{**old, "total_sigma2": float("nan")}])
    number = next(i for i, each in enumerate(content["blocks"]) if "sums_sigma2" in each)
    name = f"block_{number}_sums_0_bounds"
    refused("parts in their order", **{name: arrays[name][::-1].copy()})
    refused("fit its series", **{name: np.array([0, 1])})
    blank = {**content["blocks"][number], "sums_sigma2": [0.0]}
    rest = [blank if i == number else each for i, each in enumerate(content["blocks"])]
    refused("has no noise", blocks=rest)
    refused("fit its series", blocks=[{**block, "series": 99}])
    refused("about attributes", blocks=[{**block, "others": [1]}])


def test_many_records_are_measured_in_wide_integers() -> None:
    """Sums that 64 bits do not hold are exact until they are rounded to doubles."""
    plan = planned(sums(4, ranges=False))
    table = np.full(plan.schema.shape, 4 * 10**15, dtype=np.int64)

    def marginals(sets: np.ndarray) -> np.ndarray:
        return table.sum(axis=tuple(i for i in range(3) if i not in sets[0]))[None]

    measured = plan.mechanism.measure(marginals, lambda shape, noise: np.zeros(shape, np.int64))
    assert any(v.dtype == np.float64 for v in measured.values)
    for query in plan.workload:
        found = plan.mechanism.answer(measured, query)
        np.testing.assert_allclose(found, query.apply(table), rtol=1e-12)


def test_two_long_attributes_are_refused_with_what_would_do() -> None:
    """Bins for one of them, its values alone, or levels of a shorter one."""

    def asked(second: int, factor: nz.Factor, first: nz.Factor = PREFIX) -> nz.Workload:
        schema = nz.Schema({"a": nz.Ordinal(range(9000)), "b": nz.Ordinal(range(second))})
        return nz.Workload([nz.Query(schema, {"a": first, "b": factor})])

    said = "'a' has 9,000 and 'b' has 1,100 values.* at most 1,024.* of 'b', merge values: 220 bins"
    with pytest.raises(TooManyValues, match=said) as refused:
        nz.plan(asked(1100, PREFIX), budget=nz.zCDP(0.5))
    assert refused.value.attribute == "a"
    assert pickle.loads(pickle.dumps(refused.value)).attribute == "a"
    assert nz.plan(asked(220, PREFIX), budget=nz.zCDP(0.5)).total_variance > 0
    assert nz.plan(asked(1100, nz.Identity()), budget=nz.zCDP(0.5)).total_variance > 0
    with pytest.raises(TooManyValues, match=r"has at most 256\..* 150 bins of 2"):
        nz.plan(asked(300, nz.Levels(10), nz.Levels(10)), budget=nz.zCDP(0.5))
    assert nz.plan(asked(150, nz.Levels(10), nz.Levels(10)), budget=nz.zCDP(0.5)).total_variance > 0


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [nz.PureDP(1.0), nz.zCDP(0.5)])
def test_what_would_be_searched_for_long_is_refused(
    budget: nz.PureDP | nz.zCDP, neighbours: Literal["add-remove", "replace"]
) -> None:
    """Series of 2,049 values and more are planned, or refused at once; coarser ones are planned."""
    schema = nz.Schema.from_sizes({"a": 3000, "b": 2})
    coarse = nz.Levels(100, leaves=False)
    fine, merged = (
        nz.Workload([nz.Query(schema, {"a": f}), nz.Query(schema, {"a": f, "b": nz.Identity()})])
        for f in (nz.Prefix(), coarse)
    )
    if isinstance(budget, nz.zCDP) and neighbours == "add-remove":
        assert nz.plan(fine, budget=budget).total_variance > 0
    else:
        with pytest.raises(PlanError, match=r"more than 2,048 .* merge values: 150 bins of 20"):
            nz.plan(fine, budget=budget, neighbours=neighbours)
    assert nz.plan(merged, budget=budget, neighbours=neighbours).total_variance > 0


@pytest.mark.parametrize("objective", [nz.WorstVariance(), nz.PNormVariance(4), "targets"])
def test_a_series_of_another_objective_says_that_it_is_that_of_the_total(
    objective: nz.Objective | str,
) -> None:
    """One series alone leaves nothing to share out: the plan is the one for the total."""
    workload = nz.Workload.prefix(nz.Schema.from_sizes({"a": 100_000}))
    total = nz.plan(workload, budget=BUDGET)
    how: dict[str, Any] = {"objective": objective}
    if isinstance(objective, str):
        how = {"targets": 9.0}
    plan = nz.plan(workload, budget=BUDGET, **how)
    assert plan.total_variance == pytest.approx(total.total_variance, rel=1e-6)
    said = "(taken, with the rows for the total variance)"
    assert said in str(plan)
    assert said not in str(total)


def test_rows_that_are_searched_for_an_objective_are_not_said_to_be_those_of_the_total() -> None:
    said = "(asked for, with the rows for the total variance)"
    asked: dict[str, Any] = {"budget": BUDGET, "noise": "gaussian", "planner": "residual"}
    few, many = (nz.Workload.prefix(nz.Schema.from_sizes({"a": values})) for values in (40, 600))
    norm, loss = nz.PNormVariance(8), nz.ConvexLoss(lambda v: float(v @ v), lambda v: 2 * v)
    assert said not in str(nz.plan(few, objective=norm, **asked))
    assert said in str(nz.plan(many, objective=norm, **asked))
    assert said not in str(nz.plan(many, objective=nz.PNormVariance(1), **asked))
    assert said not in str(nz.plan(few, objective=loss, **asked))  # which falls with the total
    several = few + nz.Query(few.schema, {"a": nz.Ranges()})
    assert said in str(nz.plan(several, objective=loss, **asked))
