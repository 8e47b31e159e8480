"""What `print(plan)` shows: the face of the product, kept as it is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import noiseplan as nz

ONE = nz.zCDP(0.5)


def normalised(plan: nz.Plan) -> list[str]:
    """The report without its time, losses to rounding, and ε, whose rounding is tested below."""
    text = re.sub(r"planned in \S+ s", "planned in … s", str(plan))
    text = re.sub(r"ε = \S+", "ε = …", text)
    text = re.sub(r"costs (< )?\S+% of", "costs …% of", text)
    return [line.rstrip() for line in text.splitlines()]


def small_schema() -> nz.Schema:
    return nz.Schema(
        {
            "age": nz.Ordinal(range(4)),
            "sex": nz.Categorical(["F", "M"]),
            "region": nz.Categorical(["north", "south", "west"]),
        }
    )


# Standard errors by Lemma 2: 1.7974, 1.6994, 1.4688, 1.2019.
GOLDEN = """\
Plan for 4 queries, 17 rows
  objective   least total variance; planned in … s, no data was read
  privacy     {privacy}, ε = … at δ = 1e-9
  neighbours  differ by adding or removing one record
  error       RMSE 1.441 over all rows; largest standard error 1.797
  optimality  proved: no linear Gaussian mechanism has a lower total variance at this privacy
  considered  residual (taken); optimal: not tried for plain tables
  measures    {measures}, about 0.01 s to draw
  noise       {noise}

  table          tables   rows each  std. error     largest
  sex                 1           2       1.797       1.797
  region              1           3       1.699       1.699
  age                 1           4       1.469       1.469
  age × sex           1           8       1.202       1.202"""


# Integers are measured by more rows than a basis has.
BY_NOISE = {
    "discrete": {
        "privacy": "ρ = 0.5 (zCDP), μ = 1.00793 (GDP)",
        "measures": "18 noisy numbers on 5 subsets of attributes; 144 bytes",
        "noise": "exact discrete Gaussian on integers; costs …% of variance",
    },
    "gaussian": {
        "privacy": "ρ = 0.5 (zCDP), μ = 1 (GDP)",
        "measures": "10 noisy numbers on 5 subsets of attributes; 80 bytes",
        "noise": "floating-point Gaussian, for simulation; releases say so",
    },
}


@pytest.mark.parametrize("noise", BY_NOISE)
def test_a_plan_in_print(noise: str) -> None:
    schema = small_schema()
    workload = nz.Workload.marginals(schema, k=1) + nz.Query(schema, ["age", "sex"])
    expected = GOLDEN.format(**BY_NOISE[noise]).splitlines()
    assert normalised(nz.plan(workload, budget=ONE, noise=noise)) == expected


def test_weights_and_costs_are_named_in_print() -> None:
    """A sum with weights is called so, the mean without is not, and a cost says that it is 2ρ."""
    schema = small_schema()
    weighted = nz.Workload([nz.Query(schema, ["age"], weight=3), nz.Query(schema, ["sex"])])
    assert "least weighted total variance" in str(nz.plan(weighted, budget=ONE))
    assert "weighted" not in str(nz.plan(weighted, budget=ONE, objective=nz.RMSE()))
    pure = nz.plan(weighted, budget=nz.PureDP(1.0))
    assert f"weighted total variance {pure.total_variance:.6g}, lower bound" in str(pure)
    ranges = nz.Workload([nz.Query(schema, {"age": nz.Ranges()})])
    plan = nz.plan(ranges, targets=4.0, planner="residual")
    assert f"privacy cost 2ρ = {2 * plan.privacy.rho:.6g}, lower bound" in str(plan)
    assert "weighted" not in str(nz.plan(ranges, budget=ONE))


RANGES = nz.Workload.all_ranges(nz.Schema({"x": nz.Ordinal(range(6)), "y": nz.Ordinal(range(4))}))
PREDICATES = nz.Workload.predicates(
    nz.Schema.from_sizes({"age": 20, "income": 20, "region": 20}),
    ["age < 5 and income >= 10", "age < 10 or region = 3", "income < 5 or region != 3"],
)
MANY = nz.Workload.marginals(
    nz.Schema.from_sizes({"a": 20, "b": 20, "c": 3}), k=2, factors={"a": nz.Prefix()}
)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("workload", "how", "said"),
    [
        (RANGES, {"planner": "residual+"}, "residual+ (asked for)"),
        (
            RANGES,
            {"neighbours": "replace"},
            "optimal (taken); residual: clearly worse",
        ),
        (RANGES, {"objective": nz.RelativeError()}, "optimal (taken)"),
        (
            MANY,
            {},
            "residual (taken); optimal: not clearly better",
        ),
        (MANY, {"planner": "optimal", "max_rows": 2}, "optimal (asked for)"),
        (
            MANY,
            {"budget": nz.PureDP(1.0)},
            "tables (taken); own rows: clearly worse; rows or cells of each table: "
            "not clearly better; a matrix of each table: not clearly better; "
            "matrix: not clearly better",
        ),
        (PREDICATES, {}, "optimal over 5 classes of cells (taken); residual: clearly worse"),
    ],
)
def test_which_planners_were_considered(
    workload: nz.Workload, how: dict[str, Any], said: str
) -> None:
    plan = nz.plan(workload, **{"budget": ONE, **how})
    printed = " ".join(str(plan).split())  # long facts are broken between planners
    assert f" considered {said} measures " in printed
    assert plan.considered[0][1] in ("taken", "asked for")


def test_what_the_numbers_in_print_are() -> None:
    """Every figure of the report is the figure of the plan."""
    schema = small_schema()
    workload = nz.Workload.marginals(schema, up_to=2, factors={"age": nz.Prefix()})
    plan = nz.plan(workload, budget=nz.zCDP(0.25))
    text = str(plan)
    assert f"Plan for {len(workload)} queries, {workload.rows} rows" in text
    assert f"RMSE {plan.rmse:.4g} over all rows" in text
    largest = max(plan.std_error(query).max() for query in workload)
    assert f"largest standard error {largest:.4g}" in text
    assert f"{plan.total_variance:.6g}" in text
    assert f"{plan.lower_bound:.6g}" in text
    said = re.search(r"optimal to ([\d.]+)% \(certified\)", text)
    assert said is not None
    above = 100 * (plan.total_variance / plan.lower_bound - 1)
    assert above <= float(said[1]) <= above + 0.1  # never rounded down
    assert "proved:" not in text
    assert f"{plan.measured_numbers} noisy numbers on {len(plan.mechanism.blocks)} subsets" in text
    assert plan.memory == 8 * plan.measured_numbers
    for query in workload:
        row = next(line for line in text.splitlines() if line.strip().startswith(query.name + "  "))
        shown = [float(x.replace(",", "")) for x in row.split()[-4:]]
        mean = float(np.sqrt(plan.variance(query).mean()))
        assert shown[:2] == [1, query.rows]
        assert shown[2] == pytest.approx(mean, rel=1e-3)
        assert shown[3] == pytest.approx(plan.std_error(query).max(), rel=1e-3)


def test_one_query_is_one_query() -> None:
    plan = nz.plan(nz.Workload([nz.Query(small_schema(), [])]), budget=ONE)
    assert str(plan).startswith("Plan for 1 query, 1 row")


def test_tables_that_are_alike_are_shown_once_and_in_line() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 3, "d": 5})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=ONE)
    lines = normalised(plan)
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("table "))
    table = lines[start:]
    assert len(table) == 3
    assert sum(int(line.split()[-4]) for line in table[1:]) == 4
    assert len({len(line) for line in table}) == 1


def test_a_long_report_is_cut_in_the_middle() -> None:
    schema = nz.Schema.from_sizes({f"a{i}": i + 2 for i in range(6)})
    lines = normalised(nz.plan(nz.Workload.marginals(schema, up_to=2), budget=ONE))
    assert any("10 kinds of tables between" in line for line in lines)
    assert len(lines) < 30


def test_neighbours_and_objectives_are_named() -> None:
    schema = small_schema()
    workload = nz.Workload.marginals(schema, k=1)
    plan = nz.plan(workload, budget=ONE, objective=nz.WorstVariance(), neighbours="replace")
    text = str(plan)
    assert "least worst variance" in text
    assert "differ by replacing one record; the total is public and exact" in text
    assert "proved: no linear Gaussian mechanism has a lower worst variance" in text
    plan = nz.plan(workload, budget=nz.PureDP(1.0), neighbours="replace", planner="eigen")
    assert plan.std_error(nz.Query(schema, []))[0] > 0
    assert "the total is public, though these tables tell it with noise" in str(plan)
    condition = nz.Query(schema, {schema.names[0]: [[1] + [0] * (schema.shape[0] - 1)]})
    rows = nz.Strategy(condition.dense())
    plan = nz.plan(
        nz.Workload([condition]), budget=nz.PureDP(1.0), neighbours="replace", planner=rows
    )
    assert "replacing one record; the total is public\n" in str(plan)  # it tells none
    plan = nz.plan(workload, budget=ONE, objective=nz.PNormVariance(2))
    assert "least 2-norm of variances" in str(plan)


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_privacy_is_printed_rounded_up(noise: str) -> None:
    """A reader of the report must not believe in more privacy than there is."""
    workload = nz.Workload.marginals(small_schema(), k=1)
    for rho in np.random.default_rng(0).lognormal(0, 2, 30).tolist():
        plan = nz.plan(workload, budget=nz.zCDP(rho), noise=noise)
        line = next(x for x in str(plan).splitlines() if "privacy" in x)
        shown = [float(x) for x in re.findall(r"[ρμε] = ([\d.e+-]+)", line)]
        actual = [plan.privacy.rho, plan.privacy.epsilon(1e-9)]
        if plan.privacy.mu2 is not None:  # which is not known where there is hardly any noise
            actual.insert(1, plan.privacy.mu)
        assert shown == pytest.approx(actual, rel=1e-3)
        assert (np.array(shown) >= np.array(actual)).all(), line


def test_a_plan_in_short() -> None:
    plan = nz.plan(nz.Workload.marginals(small_schema(), k=1), budget=ONE)
    assert repr(plan) == f"Plan(3 queries, rmse {plan.rmse:.4g}, ρ = 0.5)"
