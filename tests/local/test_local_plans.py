"""What users write: arguments and their refusals, printed plans, additive mechanisms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from local_oracles import one, workload

import noiseplan as nz
from noiseplan.errors import BudgetError, PlanError
from noiseplan.local.device.noisy_sums import largest_distance
from noiseplan.local.device.wire import ReportError
from noiseplan.local.search.generation import Effort, Goal, generate
from noiseplan.local.search.patterns import all_shapes
from noiseplan.local.strategies.additive import AdditiveStrategy


@pytest.fixture(scope="module")
def plan() -> nz.local.LocalPlan:
    return nz.local.plan(one(8, nz.Prefix()), 1.0)


# ------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), 31, True, "1"])
def test_epsilon_is_checked(epsilon: object) -> None:
    with pytest.raises(BudgetError, match="epsilon is a number"):
        nz.local.plan(one(4, nz.Identity()), epsilon)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "magic"}, "no mechanism 'magic'; choose from"),
        ({"objective": "median"}, "no objective 'median'"),
        ({"effort": 0}, "effort is a positive number"),
        ({"seed": -1}, "seed is an integer"),
        ({"seed": True}, "seed is an integer"),
        ({"branching": 2}, "belong to a mechanism"),
        ({"mechanism": "hadamard", "branching": 2}, "takes other options"),
        ({"mechanism": "hierarchical", "branching": 1}, "branching is an integer"),
        ({"mechanism": "hierarchical", "oracle": "delphi"}, "no oracle 'delphi'"),
        ({"mechanism": "subset selection", "size": 9}, "size is 1 to 5"),
        ({"mechanism": "fourier"}, r"2\^d types"),
        ({"prior": [1, 2]}, "6 cells"),
        ({"prior": [0] * 6}, "not all 0"),
        ({"prior": [-1, 1, 1, 1, 1, 1]}, "at least 0"),
        ({"backend": "abacus"}, "backend is 'numpy'"),
    ],
)
def test_other_arguments_are_checked(options: dict[str, object], message: str) -> None:
    n = 20 if "backend" in options else 6
    with pytest.raises(PlanError, match=message):
        nz.local.plan(one(n, nz.Prefix()), 1.0, **options)


def test_a_workload_is_needed() -> None:
    with pytest.raises(PlanError, match="starts from a workload"):
        nz.local.plan([1, 2, 3], 1.0)
    query = nz.Query(nz.Schema.from_sizes({"v": 4}), ["v"])
    assert nz.local.plan(query, 1.0).samples() == nz.local.plan(nz.Workload([query]), 1.0).samples()


def test_figures_are_checked(plan: nz.local.LocalPlan) -> None:
    with pytest.raises(PlanError, match="case is one of"):
        plan.samples(case="best")
    with pytest.raises(PlanError, match="positive"):
        plan.samples(0)
    with pytest.raises(PlanError, match="depends on who the users are"):
        plan.variance(plan.workload.query(0))


# ------------------------------------------------------------------------------ figures and print


def test_figures_fit_each_other(plan: nz.local.LocalPlan) -> None:
    assert plan.worst_variance == plan.variances.max()
    assert plan.average_variance == pytest.approx(plan.variances.mean())
    assert plan.samples(0.01) == pytest.approx(plan.worst_variance / 8 / 0.01)
    assert plan.users_needed(0.01) == 289
    assert (
        plan.samples(case="bound") <= plan.samples(case="average") * 1.001 <= 1.01 * plan.samples()
    )
    assert plan.gap == pytest.approx(plan.worst_variance / plan.lower_bound - 1)


def test_what_a_plan_prints(plan: nz.local.LocalPlan) -> None:
    text = str(plan)
    for words in (
        "nobody is trusted", "8 rows over v: 8 cells", "ε = 1 for one report", "possible reports",
        "in the worst case", "proved: no unbiased mechanism", "file has", "no data was read",
        "users, worst case",
    ):  # fmt: skip
        assert words in text
    assert max(map(len, text.splitlines())) <= 100
    assert "users for variance 0.01" in repr(plan)
    best = str(nz.local.plan(one(8, nz.Identity()), 1.0))
    assert "proved: no unbiased mechanism has a lower worst variance" in best
    merged = str(nz.local.plan(workload("parity 3", 8), 1.0))
    assert "8 cells, 2 told apart" in merged
    wide = nz.local.plan(one(300, nz.Identity()), 1.0, mechanism="rappor")
    assert "about 10^90 possible reports" in str(wide)
    assert "about 10^90 outputs" in repr(wide)
    noisy = nz.local.plan(one(4, nz.Identity()), 1.0, mechanism="matrix l2", delta=1e-7)
    assert "δ = 1e-07 for one report" in str(noisy)


def test_weights_count_as_repetitions() -> None:
    schema = nz.Schema.from_sizes({"v": 5})
    prefix, values = {"v": nz.Prefix()}, {"v": nz.Identity()}
    weighted = nz.Workload([nz.Query(schema, prefix), nz.Query(schema, values, weight=2.0)])
    repeated = nz.Workload(
        [
            nz.Query(schema, prefix),
            nz.Query(schema, values, name="once"),
            nz.Query(schema, values, name="twice"),
        ]
    )
    first, second = nz.local.plan(weighted, 1.0), nz.local.plan(repeated, 1.0)
    assert first.worst_variance == pytest.approx(second.worst_variance, rel=1e-6)
    assert first.samples() == pytest.approx(second.samples(), rel=1e-6)


def test_queries_about_nothing_but_the_number_of_users() -> None:
    schema = nz.Schema.from_sizes({"v": 5})
    plan = nz.local.plan(nz.Query(schema, {"v": nz.Custom([[2, 2, 2, 2, 2]])}), 1.0)
    assert plan.types.count == 1
    assert plan.worst_variance == pytest.approx(0.0, abs=1e-12)
    assert plan.gap == 0.0
    assert plan.epsilon_met == 0.0
    made = plan.simulate([3] * 5, seed=0)
    assert made.answer(plan.workload.query(0)).estimate == pytest.approx([30.0])


def test_attributes_not_asked_about_play_no_part() -> None:
    schema = nz.Schema.from_sizes({"v": 5, "w": 10**6, "x": 7})
    plan = nz.local.plan(nz.Query(schema, ["v"]), 1.0)
    assert plan.types.schema.names == ("v",)
    assert plan.randomizer().report(3)


def test_several_attributes_share_one_matrix() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    made = nz.Workload.marginals(schema, up_to=3)
    plan = nz.local.plan(made, 1.0)
    assert plan.strategy.types == 12
    types = plan.types
    shapes = all_shapes(12)[::40]
    effort = Effort(60, 400, 1e-5, 1e-7)
    goal = Goal(types.gram, types.uniform, 1.0, worst=False)
    exact = generate(goal, shapes, np.ones(len(shapes)), effort)
    assert exact.bound is not None
    assert exact.bound <= plan.average_variance * (1 + 1e-9)
    assert plan.average_variance <= exact.bound * (1 + 1e-4)  # shifts lose nothing
    answers = plan.simulate(np.full(12, 2000), seed=0)
    table = answers.answer(nz.Query(schema, ["a", "c"]))
    assert np.abs((table.estimate - 4000) / table.std_error).max() < 5.5


# ------------------------------------------------------------------------------ additive mechanisms


@pytest.mark.parametrize(
    ("name", "n", "samples"),
    [
        ("histogram", 8, 800.0), ("prefix", 8, 3600.0), ("ranges", 8, 2667.0),
        ("all marginals", 8, 1896.0), ("histogram", 16, 800.0), ("prefix", 16, 5036.0),
        ("ranges", 16, 5012.0), ("3-way", 16, 1600.0), ("parity 3", 16, 12800.0),
    ],
)  # fmt: skip
def test_laplace_figures(name: str, n: int, samples: float) -> None:
    plan = nz.local.plan(workload(name, n), 1.0, mechanism="matrix l1")
    assert plan.samples() <= samples * 1.005
    assert plan.epsilon_met <= 1.0
    assert plan.worst_variance == pytest.approx(plan.average_variance)


@pytest.mark.parametrize(
    ("name", "n", "samples"),
    [
        ("histogram", 8, 3570.0),
        ("prefix", 8, 7389.0),
        ("ranges", 16, 10797.0),
        ("3-way", 16, 6641.0),
    ],
)
def test_gaussian_figures(name: str, n: int, samples: float) -> None:
    """Published with the exact curve of continuous noise, which holds for ours too."""
    plan = nz.local.plan(workload(name, n), 1.0, mechanism="matrix l2")
    assert plan.samples() <= samples * 1.005
    assert 1.0 - 1e-9 <= plan.epsilon_met <= 1.0
    assert plan.lower_bound == 0.0  # the bounds are for δ = 0


def test_additive_variances_by_brute_force() -> None:
    plan = nz.local.plan(one(5, nz.Prefix()), 1.0, mechanism="matrix l1")
    strategy = plan.strategy
    assert isinstance(strategy, AdditiveStrategy)
    rows = plan.workload.query(0).dense()
    inverse = rows @ np.linalg.pinv(strategy.rows.astype(float))
    expected = strategy.noise_variance * (inverse**2).sum()
    assert plan.variances == pytest.approx([expected] * 5)
    distance = max(int(np.abs(a - b).sum()) for a in strategy.rows.T for b in strategy.rows.T)
    assert largest_distance(strategy.rows, 1) == distance
    assert Fraction(distance) / strategy.scale <= 1
    squared = max(int(((a - b) ** 2).sum()) for a in strategy.rows.T for b in strategy.rows.T)
    assert largest_distance(strategy.rows, 2) == squared


def test_noise_variances_are_those_of_the_laws() -> None:
    k = np.arange(-2000.0, 2001.0)
    rows = np.array([[1, 0]])
    laplace = AdditiveStrategy(rows, Fraction(7, 2), "laplace", 1.0, 0.0, "")
    mass = np.exp(-np.abs(k) / 3.5)
    assert laplace.noise_variance == pytest.approx((mass * k**2).sum() / mass.sum())
    gaussian = AdditiveStrategy(rows, Fraction(50), "gaussian", 1.0, 1e-6, "")
    mass = np.exp(-(k**2) / 100)
    assert gaussian.noise_variance == pytest.approx((mass * k**2).sum() / mass.sum())


def test_additive_reports_beyond_reach_are_refused() -> None:
    plan = nz.local.plan(one(4, nz.Identity()), 1.0, mechanism="matrix l1")
    randomizer = plan.randomizer()
    reports = randomizer.reports([0, 1, 2, 3])
    made = plan.aggregator()
    far = reports.copy()
    far[1] = 2**60
    assert made.add_many(far) == 3
    assert made.users == 3
    from noiseplan.local.device.noisy_sums import SumRandomizer

    with pytest.raises(ReportError, match="laplace"):
        SumRandomizer(randomizer.schema, None, randomizer.rows, "cauchy", Fraction(1), 0.0)
