"""Plans over the smallest equivalent domain: the same optimum, the right variances and answers."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.domain.cells import Classes, MergedValues
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.planning.cell_classes import at_least, merged_values
from noiseplan.planning.finish import finish
from noiseplan.planning.plan import Plan
from noiseplan.planning.planner import over_classes
from noiseplan.planning.planners import automatic, optimal
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import carried, smaller
from noiseplan.planning.workload_types import prepare
from noiseplan.storage.plans import read_mechanism

repeatable = examples(40)
BUDGET = nz.zCDP(0.5)


def reduced(workload: nz.Workload, **how: Any) -> Plan:
    """The plan over the equivalent domain, whatever the size of the schema."""
    asked = {"budget": BUDGET, "noise": "gaussian", "planner": "optimal", **how}
    problem = Problem(workload, **asked)
    return finish(problem, over_classes(problem, optimal.PLANNER))


def classes_by_hand(workload: nz.Workload) -> list[int]:
    """The class of every cell, by comparing whole columns of the workload."""
    rows = np.concatenate([query.dense() for query in workload])
    number: dict[bytes, int] = {}
    return [number.setdefault(column.tobytes(), len(number)) for column in (rows.T + 0.0)]


# ---------------------------------------------------------------- the classes themselves


@st.composite
def workloads(draw: st.DrawFn) -> nz.Workload:
    """Some 0/1 queries on a small schema, of every form a query may have."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    schema = nz.Schema.from_sizes({f"x{i}": n for i, n in enumerate(sizes)})
    queries = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(schema.names), unique=True, max_size=3))
        cells = prod(schema[name].size for name in names)
        if len(names) > 1 and draw(st.booleans()):
            rows = draw(st.lists(st.lists(st.booleans(), min_size=cells, max_size=cells),
                                 min_size=1, max_size=2))  # fmt: skip
            if np.any(rows):
                queries.append(nz.Query(schema, names, matrix=rows))
            continue
        factors: dict[str, nz.Factor] = {}
        for name in names:
            mask = draw(st.lists(st.booleans(), min_size=schema[name].size,
                                 max_size=schema[name].size))  # fmt: skip
            kinds: list[nz.Factor] = [nz.Identity(), nz.Prefix(), nz.Ranges()]
            kinds += [nz.Custom([mask])] if any(mask) else []
            factors[name] = draw(st.sampled_from(kinds))
        queries.append(nz.Query(schema, factors))
    return nz.Workload(queries or [nz.Query(schema, [])])


@repeatable
@given(workloads())
def test_classes_are_those_of_equal_columns(workload: nz.Workload) -> None:
    found = smaller(Problem(workload), 10_000)
    assert not isinstance(found, str)
    assert isinstance(found.cells, Classes)
    assert found.cells.of_cells().tolist() == classes_by_hand(workload)


@repeatable
@given(workloads(), st.integers(0, 1000))
def test_queries_and_counts_meet_on_the_smaller_domain(workload: nz.Workload, seed: int) -> None:
    """W x is the same on both, for classes and for merged values."""
    schema = workload.schema
    counts = np.random.default_rng(seed).integers(0, 100, schema.shape)

    def marginals(sets: np.ndarray) -> np.ndarray:
        out = [tuple(set(range(counts.ndim)) - set(row)) for row in sets.tolist()]
        return np.array([counts.sum(axis=axes) for axes in out])

    for ordered in (False, True):
        problem = Problem(workload)
        values = merged_values(problem.design)
        found = carried(problem.design, values) if ordered else smaller(problem, 10_000)
        assert not isinstance(found, str)
        assert isinstance(found.cells, MergedValues if ordered else Classes)
        every = np.arange(len(found.cells.inner))[None, :]
        small = found.cells.marginals(marginals)(every).ravel()
        assert small.sum() == counts.sum()
        np.testing.assert_array_equal(
            small, np.bincount(found.cells.of_cells(), counts.ravel(), found.cells.inner.size)
        )
        for query in workload:
            answer = found.cells.query(query).dense() @ small
            np.testing.assert_allclose(answer, query.dense() @ counts.ravel())


def test_scaled_columns_of_products_are_one() -> None:
    schema = nz.Schema.from_sizes({"a": 2, "b": 2})
    query = nz.Query(schema, {"a": nz.Custom([[1, 2]]), "b": nz.Custom([[1, 2]])})
    found = smaller(Problem(nz.Workload([query])), 100)
    assert not isinstance(found, str)
    assert found.cells.of_cells().tolist() == [0, 1, 1, 2]


def test_the_example_of_the_dissertation() -> None:
    """Eight cells of students become four: {1,3}, {2,4}, {5,6}, {7,8}."""
    schema = nz.Schema.from_sizes({"year": 4, "sex": 2})
    rows = [[1] * 8, [1] * 4 + [0] * 4, [0, 1, 0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 1, 1, -1, -1]]  # fmt: skip
    workload = nz.Workload([nz.Query(schema, ["year", "sex"], matrix=rows)])
    found = smaller(Problem(workload), 100)
    assert not isinstance(found, str)
    assert found.cells.of_cells().tolist() == [0, 1, 0, 1, 2, 2, 3, 3]
    assert reduced(workload).total_variance == pytest.approx(8.651232, rel=1e-6)


# ---------------------------------------------------------------- the same optimum


@examples(12)
@given(workloads())
def test_the_optimum_is_that_of_the_whole_domain(workload: nz.Workload) -> None:
    whole = nz.plan(workload, budget=BUDGET, planner="optimal", noise="gaussian")
    small = reduced(workload)
    assert small.total_variance == pytest.approx(whole.total_variance, rel=5e-6)
    assert small.privacy.pcost <= 1.0
    cost = small.cost_matrix()
    assert np.diag(cost).max() <= 1.0
    inverse = np.linalg.pinv(cost, rcond=1e-9, hermitian=True)
    for query in workload:
        spread = query.dense() @ inverse @ query.dense().T
        np.testing.assert_allclose(small.variance(query), np.diag(spread), rtol=1e-5, atol=1e-9)


SCHEMA = nz.Schema.from_sizes({"age": 20, "income": 20, "region": 20, "unasked": 3})
TEXTS = [
    "age < 5 and income >= 10",
    "age < 10 or region = 3",
    "income between 5 and 9 or (age >= 15 and region != 3)",
    "not (age < 10 or income < 10)",
]


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("planner", ["optimal", "eigen", "auto"])
def test_predicates_over_many_cells(planner: str, noise: str) -> None:
    """24,000 cells, of which the predicates tell 8 apart."""
    workload = nz.Workload.predicates(SCHEMA, TEXTS, weight=[1, 2, 1, 3])
    plan = nz.plan(workload, budget=BUDGET, planner=planner, noise=noise)
    assert isinstance(plan.mechanism, ReducedMechanism)
    inner = plan.mechanism.cells.inner.size
    rows = np.concatenate([q.dense() for q in workload])
    assert inner == len(np.unique(rows, axis=1).T) == 8
    cost = plan.mechanism.small.cost_matrix()
    assert np.diag(cost).max() <= plan.privacy.pcost <= 1.0
    inverse = np.linalg.pinv(cost, rcond=1e-9, hermitian=True)
    total = 0.0
    first = np.unique(classes_by_hand(workload), return_index=True)[1]
    for query in workload:
        row = query.dense()[:, first]
        assert plan.variance(query.name)[0] == pytest.approx(
            (row @ inverse @ row.T)[0, 0], rel=1e-6
        )
        total += query.weight * plan.variance(query.name)[0]
    assert plan.total_variance == pytest.approx(total, rel=1e-9)
    assert plan.lower_bound <= plan.total_variance


def test_never_worse_than_the_residual_plan() -> None:
    workload = nz.Workload.predicates(SCHEMA, TEXTS)
    plain = nz.plan(workload, budget=BUDGET, planner="residual", noise="gaussian")
    best = nz.plan(workload, budget=BUDGET, planner="optimal", noise="gaussian")
    auto = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert best.total_variance < 0.99 * plain.total_variance
    assert auto.total_variance == pytest.approx(best.total_variance, rel=1e-4)
    assert auto.planner == "auto"
    assert auto.mechanism.describe().endswith("the queries tell 8 of 24,000 apart")


@pytest.mark.parametrize(
    "objective",
    [
        nz.WorstVariance(),
        nz.PNormVariance(3),
        nz.ConvexLoss(lambda v: float(v[0] + 4 * v[1] ** 2 + v[2:].sum())),
    ],
    ids=["worst", "p-norm", "convex"],
)
def test_other_objectives(objective: nz.Objective) -> None:
    """The value on the smaller domain is that on the whole one: 60 cells, told apart in 8."""
    schema = nz.Schema.from_sizes({"age": 4, "income": 5, "region": 3})
    texts = [
        "age < 1 and income >= 2",
        "age < 2 or region = 1",
        "income = 1 or age >= 3",
        "age < 2",
    ]
    workload = nz.Workload.predicates(schema, texts, weight=[1, 2, 1, 1])
    how: dict[str, Any] = {"budget": BUDGET, "noise": "gaussian", "objective": objective}
    whole, small = nz.plan(workload, planner="optimal", **how), reduced(workload, **how)
    assert isinstance(small.mechanism, ReducedMechanism)
    assert _value(objective, small) == pytest.approx(_value(objective, whole), rel=1e-4)


def _value(objective: nz.Objective, plan: Plan) -> float:
    weighted = np.array([q.weight * plan.variance(q)[0] for q in plan.workload])
    if isinstance(objective, nz.ConvexLoss):
        return objective.value(weighted)
    if isinstance(objective, nz.PNormVariance):
        return float((weighted**objective.p).sum() ** (1 / objective.p))
    return float(weighted.max())


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_a_middling_domain_is_written_out(noise: str) -> None:
    """600 cells: the rows that are measured, over all of them, at the cost of the smaller ones."""
    schema = nz.Schema.from_sizes({"age": 10, "income": 10, "region": 6})
    texts = ["age < 3 and income >= 5", "age < 6 or region = 3", "income < 2 or region != 3"]
    workload = nz.Workload.predicates(schema, texts)
    plan = nz.plan(workload, budget=BUDGET, noise=noise)
    assert isinstance(plan.mechanism, DenseMechanism)
    cost = plan.cost_matrix()
    assert cost.shape == (600, 600)
    assert np.diag(cost).max() <= plan.privacy.pcost <= 1.0
    inverse = np.linalg.pinv(cost, rcond=1e-11, hermitian=True)
    for query in workload:
        expected = query.dense() @ inverse @ query.dense().T
        assert plan.variance(query) == pytest.approx(expected[0], rel=1e-6)
    plain = nz.plan(workload, budget=BUDGET, planner="residual", noise=noise)
    assert plan.total_variance < 0.99 * plain.total_variance
    counts = np.random.default_rng(1).integers(0, 1000, schema.shape)
    release = plan.release(counts, seed=1)
    for query in workload:
        off = release.answer(query).estimate - query.dense() @ counts.ravel()
        assert abs(off[0]) < 8 * np.sqrt(plan.variance(query)[0])


def test_plain_tables_stay_as_they_are() -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert not isinstance(plan.mechanism, ReducedMechanism)
    assert automatic._classes(Problem(workload, BUDGET)) == "not tried for plain tables"


@repeatable
@given(workloads())
def test_classes_are_not_overestimated(workload: nz.Workload) -> None:
    """What automatic planning gives up on is too large indeed."""
    assert at_least(prepare(workload)) <= len(set(classes_by_hand(workload)))


def test_one_attribute_of_many_keeps_its_structure() -> None:
    """All ranges of 60 values, summed over everything else: values are merged, nothing listed."""
    schema = nz.Schema.from_sizes({"x": 60, "y": 100, "z": 100})
    plan = nz.plan(nz.Workload.all_ranges(schema, ["x"]), budget=BUDGET, planner="optimal",
                   noise="gaussian")  # fmt: skip
    alone = nz.plan(nz.Workload.all_ranges(nz.Schema.from_sizes({"x": 60})), budget=BUDGET,
                    planner="optimal", noise="gaussian")  # fmt: skip
    assert plan.total_variance == pytest.approx(alone.total_variance, rel=1e-5)


# ---------------------------------------------------------------- from data to answers


def test_releases_answer_each_predicate() -> None:
    """The law of the answers: mean and covariance over many releases, at 6 standard errors."""
    workload = nz.Workload.predicates(SCHEMA, TEXTS)
    plan = nz.plan(workload, budget=BUDGET, planner="optimal", noise="discrete")
    random = np.random.default_rng(3)
    data = {name: random.integers(0, SCHEMA[name].size, 500) for name in SCHEMA}
    age, income, region = data["age"], data["income"], data["region"]
    truth = [
        np.sum((age < 5) & (income >= 10)),
        np.sum((age < 10) | (region == 3)),
        np.sum(((income >= 5) & (income <= 9)) | ((age >= 15) & (region != 3))),
        np.sum(~((age < 10) | (income < 10))),
    ]
    runs = 150
    answers = np.array([
        [release.answer(text).estimate[0] for text in TEXTS]
        for release in (plan.release(data, seed=seed) for seed in range(runs))
    ])  # fmt: skip
    covariance = np.array([[plan.covariance(a, b)[0, 0] for b in TEXTS] for a in TEXTS])
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(answers.mean(axis=0) - truth) < 6 * spread / np.sqrt(runs)).all()
    assert np.abs(np.cov(answers.T) - covariance).max() < 8 * spread.max() ** 2 / np.sqrt(runs)
    release = plan.release(data, seed=1)
    batch = {int(p[0]): float(e.ravel()[0]) for p, e in release.batches()}
    for position, text in enumerate(TEXTS):
        assert batch[position] == pytest.approx(float(release.answer(text).estimate[0]))


def test_every_record_touches_one_class() -> None:
    """The privacy cost by brute force: what a single record changes, for every cell of a schema."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 5})
    workload = nz.Workload.predicates(schema, ["a < 2 and b < 3", "a = 3 or b = 4"])
    plan = reduced(workload, noise="discrete")
    mechanism = plan.mechanism

    def measured(x: np.ndarray) -> np.ndarray:
        def marginals(sets: np.ndarray) -> np.ndarray:
            out = [tuple({0, 1} - set(row)) for row in sets.tolist()]
            return np.array([x.sum(axis=axes) for axes in out])

        quiet = mechanism.measure(marginals, lambda shape, *_: np.zeros(shape, dtype=np.int64))
        return np.concatenate([v.ravel() for v in quiet.values]).astype(float)

    nobody = measured(np.zeros((4, 5), dtype=np.int64))
    sigma2 = mechanism.small.noise.one
    changes = []
    for cell in np.ndindex(4, 5):
        one = np.zeros((4, 5), dtype=np.int64)
        one[cell] = 1
        changes.append(float(((measured(one) - nobody) ** 2).sum()) / sigma2)
    assert max(changes) <= plan.privacy.pcost <= 1.0
    assert max(changes) == pytest.approx(plan.privacy.pcost, rel=1e-6)
    np.testing.assert_allclose(np.diag(plan.cost_matrix()), changes, rtol=1e-9)


def test_what_tells_more_apart_is_refused() -> None:
    workload = nz.Workload.predicates(SCHEMA, TEXTS)
    plan = nz.plan(workload, budget=BUDGET, planner="optimal", noise="gaussian")
    some = nz.Workload.predicates(
        SCHEMA, ["age < 10", "age < 5", "age < 7", "unasked = 1", "age < 5 and region = 3"]
    )
    np.testing.assert_allclose(
        plan.variance(nz.Workload.predicates(SCHEMA, ["not (income < 10 or age < 10)"])[0]),
        plan.variance(TEXTS[3]),
    )
    for query, message in [(some[2], "tells values of 'age' apart"),
                           (some[3], "needs \\['unasked'\\]"),
                           (some[4], "tells cells apart")]:  # fmt: skip
        with pytest.raises(UnanswerableError, match=message):
            plan.variance(query)
    other = nz.Schema.from_sizes({"age": 20})
    with pytest.raises(UnanswerableError, match="another schema"):
        plan.variance(nz.Query(other, ["age"]))


def test_refusals_before_planning() -> None:
    schema = nz.Schema.from_sizes({"x": 100, "y": 100})
    with pytest.raises(
        PlanError, match=r"up to 4,096 numbers of tables, and these need 9,990 or more"
    ):
        nz.plan(nz.Workload.marginals(schema, k=2), budget=BUDGET, planner="optimal")
    wide = nz.Schema.from_sizes({f"x{i}": 1000 for i in range(4)})
    text = " and ".join(f"x{i} < 10" for i in range(4))
    best = nz.plan(nz.Workload.predicates(wide, [text]), budget=BUDGET, planner="optimal")
    assert best.total_variance == pytest.approx(1 / best.privacy.pcost, rel=1e-3)  # one row alone
    plan = nz.plan(nz.Workload.predicates(wide, [text]), budget=BUDGET)  # as before
    assert not isinstance(plan.mechanism, ReducedMechanism)


def test_only_the_total_is_asked() -> None:
    schema = nz.Schema.from_sizes({"x": 100, "y": 100})
    plan = reduced(nz.Workload([nz.Query(schema, [], name="all")]))
    assert plan.variance("all") == pytest.approx([1.0], rel=1e-6)


def test_targets_by_name() -> None:
    workload = nz.Workload.predicates(SCHEMA, {"a": TEXTS[0], "b": TEXTS[1], "c": TEXTS[2]})
    targets = {"a": 1.0, "c": 4.0}
    plan = nz.plan(workload, targets=targets, planner="optimal", noise="gaussian")
    residual = nz.plan(workload, targets=targets, planner="residual", noise="gaussian")
    assert isinstance(plan.mechanism, ReducedMechanism)
    assert plan.variance("a")[0] <= 1.0 + 1e-6
    assert plan.variance("c")[0] <= 4.0 + 1e-6
    assert plan.privacy.pcost <= residual.privacy.pcost * (1 + 1e-6)
    assert plan.target_scale == pytest.approx(1.0, rel=1e-5)


def test_automatic_plans_of_targets_and_of_the_worst() -> None:
    schema = nz.Schema.from_sizes({"age": 12, "income": 12, "region": 10})
    texts = ["age < 5 and income >= 10", "age < 10 or region = 3", "income < 5 or region != 3"]
    workload = nz.Workload.predicates(schema, texts)
    how: dict[str, Any] = {"noise": "gaussian"}
    for asked in ({"targets": 4.0}, {"objective": nz.WorstVariance(), "budget": BUDGET}):
        auto = nz.plan(workload, **asked, **how)
        best = nz.plan(workload, planner="optimal", **asked, **how)
        plain = nz.plan(workload, planner="residual", **asked, **how)
        assert isinstance(auto.mechanism, ReducedMechanism)
        cost = [p.privacy.pcost * p.worst_variance for p in (auto, best, plain)]
        assert cost[0] == pytest.approx(cost[1], rel=1e-4)
        assert cost[0] < 0.99 * cost[2]


def discrete_laplace_variance(scale: float) -> float:
    """Σ k² P(k) over Σ P(k), by plain summation."""
    k = np.arange(1, int(200 * scale) + 200)
    p = np.exp(-k / scale)
    return float(2 * (k**2 * p).sum() / (1 + 2 * p.sum()))


@pytest.mark.parametrize("noise", ["laplace", "discrete"])
def test_pure_plans_on_classes(noise: str) -> None:
    """Laplace noise: ε by brute force over the classes, variances from the measured rows."""
    workload = nz.Workload.predicates(SCHEMA, TEXTS)
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner="matrix", noise=noise)
    assert isinstance(plan.mechanism, ReducedMechanism)
    small = plan.mechanism.small
    assert isinstance(small, DenseMechanism)
    assert small.noise.law == "laplace"
    assert (
        np.abs(small.strategy).sum(axis=0).max() / small.noise.one <= plan.privacy.pure_epsilon <= 1
    )
    spread = 2 * small.noise.one**2
    if noise == "discrete":
        spread = discrete_laplace_variance(small.noise.one)
    fit = np.linalg.pinv(small.strategy, rcond=1e-10)
    first = np.unique(classes_by_hand(workload), return_index=True)[1]
    for query in workload:
        weights = query.dense()[:, first] @ fit
        expected = spread * float((weights**2).sum())
        assert plan.variance(query.name)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", ["laplace", "discrete"])
def test_automatic_pure_plans_find_the_classes(noise: str, tmp_path: Path) -> None:
    workload = nz.Workload.predicates(SCHEMA, TEXTS)
    plan = nz.plan(workload, budget=nz.PureDP(1.0), noise=noise)
    tables = nz.plan(workload, budget=nz.PureDP(1.0), planner="p-identity", noise=noise)
    assert isinstance(plan.mechanism, ReducedMechanism)
    assert plan.privacy.pure_epsilon is not None
    assert plan.privacy.pure_epsilon <= 1
    assert plan.total_variance < 0.99 * tables.total_variance
    data = {name: np.arange(60) % SCHEMA[name].size for name in SCHEMA}
    release = plan.release(data, seed=4)
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    for text in TEXTS:
        assert again.answer(text).estimate == pytest.approx(release.answer(text).estimate)
        assert again.plan.variance(text) == pytest.approx(plan.variance(text))


def test_attributes_of_very_many_values() -> None:
    """Nothing is ever values × values: 200,000 each, of which the predicates tell a few apart."""
    schema = nz.Schema.from_sizes({"x": 200_000, "y": 200_000})
    texts = ["x < 1000 and y >= 50", "x between 5 and 70000", "y = 7"]
    few = nz.Schema.from_sizes({"x": 4, "y": 3})
    small = ["x < 2 and y = 2", "x between 1 and 2", "y = 1"]  # the same on groups of values
    many, same = nz.Workload.predicates(schema, texts), nz.Workload.predicates(few, small)
    for planner, single, total in (("residual", 1e-4, 1e-9), ("optimal", 2e-3, 3e-4)):
        plan, other = (nz.plan(w, budget=BUDGET, planner=planner, noise="gaussian")
                       for w in (many, same))  # fmt: skip
        assert plan.total_variance == pytest.approx(other.total_variance, rel=total)
        for text, alike in zip(texts, small, strict=True):
            assert plan.variance(text) == pytest.approx(other.variance(alike), rel=single)
    automatic = nz.plan(many, budget=BUDGET, noise="gaussian")
    assert automatic.considered[0] == ("optimal", "taken")
    assert automatic.total_variance == plan.total_variance


# ---------------------------------------------------------------- kept on disk


def test_saved_and_read_back(tmp_path: Path) -> None:
    workload = nz.Workload.predicates(SCHEMA, TEXTS)
    data = {name: np.arange(60) % SCHEMA[name].size for name in SCHEMA}
    for planner in ("optimal", "auto"):
        plan = nz.plan(workload, budget=BUDGET, planner=planner, noise="discrete")
        release = plan.release(data, seed=4)
        release.save(tmp_path / planner)
        again = nz.load(tmp_path / planner)
        for text in TEXTS:
            assert again.answer(text).estimate == pytest.approx(release.answer(text).estimate)
            assert again.plan.variance(text) == pytest.approx(plan.variance(text))


def test_damaged_cells_are_refused() -> None:
    plan = reduced(nz.Workload.predicates(SCHEMA, TEXTS))
    content, arrays = plan.mechanism.parts()
    classes = arrays["cells_classes"]
    for name, damaged in [
        ("cells_attributes", np.array([0, 0, 2])),
        ("cells_attributes", np.array([0, 1, 9])),
        ("cells_attributes", np.zeros(0, dtype=np.int64)),
        ("cells_groups_0", arrays["cells_groups_0"][:-1]),
        ("cells_groups_0", arrays["cells_groups_0"][::-1]),
        ("cells_classes", classes + 1),
        ("cells_classes", classes.astype(float)),
    ]:
        with pytest.raises(StorageError):
            read_mechanism(content, arrays | {name: damaged}, SCHEMA)
    assert read_mechanism(content, arrays, SCHEMA).schema == SCHEMA


def test_a_large_row_does_not_hide_what_a_small_one_tells_apart() -> None:
    """Classes of cells answer no query that tells their cells apart, however large others are."""
    cells = 5000
    schema = nz.Schema.from_sizes({"v": cells})
    halves = np.repeat(np.eye(2), cells // 2, axis=1)
    plan = nz.plan(
        nz.Workload([nz.Query(schema, {"v": nz.Custom(halves)})]),
        budget=nz.zCDP(0.5),
        planner="optimal",
    )
    assert isinstance(plan.mechanism, ReducedMechanism)
    for large in (1.0, 1e6, 1e15):
        rows = np.vstack([np.full(cells, large), np.arange(cells)])
        with pytest.raises(UnanswerableError):
            plan.variance(nz.Query(schema, {"v": nz.Custom(rows)}))
        plan.variance(nz.Query(schema, {"v": nz.Custom(large * halves)}))
