"""A study says what the Python says: the same schema, workload and plan, piece by piece."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.data import cpssw8_schema, example_study
from noiseplan.demo import BUDGET, labour_workload
from noiseplan.planning.reductions import record_budget
from noiseplan.privacy.people import person_price
from noiseplan.storage import plan_hash
from noiseplan.study import Study, read_study

SCHEMA = """\
[schema]
age    = { ordinal = { from = 0, to = 9 } }
sex    = { categorical = ["F", "M"] }
income = { binned = [0, 10, 20, 50] }
"""
MADE = nz.Schema(
    {
        "age": nz.Ordinal(range(10)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 10, 20, 50]),
    }
)
BUDGETED = "[budget]\nzcdp = 0.5\n"
K1 = "[[tables]]\nk = 1\n"


def study(folder: Path, text: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return read_study(path)


def same_workload(found: nz.Workload, expected: nz.Workload) -> None:
    assert [q.name for q in found] == [q.name for q in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.weight == other.weight
        np.testing.assert_array_equal(one.dense(), other.dense())
        assert one.row_labels() == other.row_labels()


# ---------------------------------------------------------------------- the demonstration


def test_the_demonstration_as_a_study_is_the_same_plan() -> None:
    read = read_study(example_study("wages"))
    assert read.schema == cpssw8_schema()
    python = nz.plan(labour_workload(cpssw8_schema()).weighted("tables"), budget=BUDGET)
    assert plan_hash(read.plan()) == plan_hash(python)


def test_the_first_page_of_the_product_as_a_study(tmp_path: Path) -> None:
    text = """
        [[tables]]
        up_to = 2
        [[tables]]
        k = 2
        factors = { age = "prefix" }
        [[tables]]
        name = "age ranges by sex"
        query = "age=ranges, sex"
        weight = 4.0
        [targets]
        "age ranges by sex" = 25.0
    """
    workload = (
        nz.Workload.marginals(MADE, up_to=2)
        + nz.Workload.marginals(MADE, k=2, factors={"age": nz.Prefix()})
        + nz.Query(MADE, {"age": nz.Ranges(), "sex": nz.Identity()}, weight=4.0,
                   name="age ranges by sex")
    )  # fmt: skip
    read = study(tmp_path, SCHEMA + text)
    same_workload(read.workload, workload)
    expected = nz.plan(workload, targets={"age ranges by sex": 25.0})
    assert read.plan().privacy == expected.privacy


# ---------------------------------------------------------------------- attributes


@pytest.mark.parametrize(
    ("written", "attribute"),
    [
        ('{ categorical = ["a", 1, true] }', nz.Categorical(["a", 1, True][:2])),
        ('{ categorical = ["a"], other = "else" }', nz.Categorical(["a"], other="else")),
        ("{ ordinal = { from = -2, to = 3 } }", nz.Ordinal(range(-2, 4))),
        ('{ ordinal = ["low", "high"] }', nz.Ordinal(["low", "high"])),
        ('{ binned = [0, 9], missing = "x" }', nz.Binned([0, 9], missing="x")),
        ('{ ordinal = ["a"], missing = "x" }', nz.Ordinal(["a"], missing="x")),
        ('{ categorical = ["a"], other = "b", missing = "x" }',
         nz.Categorical(["a"], "b", "x")),
        ("{ binned = [0, 1.5, inf], clip = true }", nz.Binned([0, 1.5, np.inf], clip=True)),
        ("{ binned = { from = 0, to = 0.3, step = 0.1 } }", nz.Binned([0, 0.1, 0.2, 0.3])),
        ('{ categorical = { file = "c.csv", column = "code" } }', nz.Categorical(["01", "02"])),
        ('{ categorical = { file = "c.csv", column = "state" } }', nz.Categorical(["A"])),
        ('{ ordinal = { file = "c.csv", column = "n", type = "integer" } }', nz.Ordinal([3, 5])),
        ('{ binned = { file = "c.csv", column = "n", type = "number" } }', nz.Binned([3, 5])),
        ('{ categorical = { file = "s.csv", column = "b", separator = ";" } }',
         nz.Categorical(["y,y"])),
    ],
)  # fmt: skip
def test_attributes(tmp_path: Path, written: str, attribute: object) -> None:
    (tmp_path / "c.csv").write_text("code,state,n\n01,A,3\n02,A,5\n", encoding="utf-8")
    (tmp_path / "s.csv").write_text("a;b\nx;y,y\n", encoding="utf-8")
    if "true]" in written:
        written = written.replace(", true", "")
    read = study(tmp_path, f"[schema]\nx = {written}\n{K1}{BUDGETED}")
    assert read.schema["x"] == attribute


def test_dates_are_values_too(tmp_path: Path) -> None:
    from datetime import date

    read = study(
        tmp_path, f"[schema]\nday = {{ ordinal = [2020-01-01, 2020-01-02] }}\n{K1}{BUDGETED}"
    )
    assert read.schema["day"] == nz.Ordinal([date(2020, 1, 1), date(2020, 1, 2)])


# ---------------------------------------------------------------------- tables and factors

BANDS = {age: "young" if age < 4 else "old" for age in range(10)}


@pytest.mark.parametrize(
    ("written", "factor"),
    [
        ('"prefix"', nz.Prefix()),
        ('"ranges"', nz.Ranges()),
        ('"identity"', nz.Identity()),
        ('"levels(2, 5)"', nz.Levels(2, 5)),
        ("{ levels = [2, 5] }", nz.Levels(2, 5)),
        ("{ levels = [5], leaves = false, total = false }",
         nz.Levels(5, leaves=False, total=False)),
        ('{ levels = [{ young = "0..3", old = "4.." }] }', nz.Levels(BANDS)),
        ('{ levels = [{ young = [0, 1, 2, 3], old = "4.." }] }', nz.Levels(BANDS)),
        ('{ levels = [["a","a","a","a","a","b","b","b","b","b"]] }',
         nz.Levels(["a"] * 5 + ["b"] * 5)),
        ('{ levels = [{ file = "g.csv", value = "age", group = "g", type = "integer" }] }',
         nz.Levels(BANDS)),
        ("{ custom = [[1,1,1,1,1,0,0,0,0,0]] }", nz.Custom([[1] * 5 + [0] * 5])),
        ('{ custom = [[1,1,1,1,1,0,0,0,0,0]], name = "half", labels = ["x"] }',
         nz.Custom([[1] * 5 + [0] * 5], "half", ["x"])),
        ('{ custom = { young = "..4", some = [1, 9] }, name = "two" }',
         nz.Custom([[1] * 5 + [0] * 5, [0, 1] + [0] * 7 + [1]], "two", ["young", "some"])),
        ('"..4 | 1+9"',
         nz.Custom([[1] * 5 + [0] * 5, [0, 1] + [0] * 7 + [1]], "..4 | 1+9", ["..4", "1+9"])),
    ],
)  # fmt: skip
def test_factors(tmp_path: Path, written: str, factor: nz.Factor) -> None:
    rows = "".join(f"{age},{group}\n" for age, group in BANDS.items())
    (tmp_path / "g.csv").write_text("age,g\n" + rows, encoding="utf-8")
    text = f'{SCHEMA}[[tables]]\nquery = "age, sex"\nfactors = {{ age = {written} }}\n{BUDGETED}'
    expected = nz.Query(MADE, {"age": factor, "sex": nz.Identity()})
    same_workload(study(tmp_path, text).workload, nz.Workload([expected]))
    text = f"{SCHEMA}[[tables]]\nk = 2\nfactors = {{ age = {written} }}\n{BUDGETED}"
    same_workload(
        study(tmp_path, text).workload, nz.Workload.marginals(MADE, k=2, factors={"age": factor})
    )


def test_a_dense_matrix_follows_the_order_of_the_list(tmp_path: Path) -> None:
    matrix = np.arange(20.0).reshape(1, 20)
    rows = [[int(value) for value in row] for row in matrix]
    text = f'[[tables]]\nquery = ["sex", "age"]\nmatrix = {rows}\nname = "odd"\n'
    expected = nz.Query(MADE, ["sex", "age"], matrix=matrix, name="odd")
    same_workload(study(tmp_path, SCHEMA + text + BUDGETED).workload, nz.Workload([expected]))
    with pytest.raises(nz.NoiseplanError, match="a list beside a matrix"):
        study(tmp_path, SCHEMA + text.replace('["sex", "age"]', '"sex, age"') + BUDGETED)


# ---------------------------------------------------------------------- budgets, targets, settings


@pytest.mark.parametrize(
    ("written", "budget"),
    [
        ("zcdp = 0.5", nz.zCDP(0.5)),
        ("gdp = 2", nz.GDP(2.0)),
        ("approx_dp = { epsilon = 1, delta = 1e-9 }", nz.ApproxDP(1.0, 1e-9)),
        ("pure_dp = 0.1", nz.PureDP(0.1)),
    ],
)
def test_budgets(tmp_path: Path, written: str, budget: object) -> None:
    assert study(tmp_path, f"{SCHEMA}{K1}[budget]\n{written}\n").budget == budget


@pytest.mark.parametrize("noise", ["discrete Gaussian", "discrete Laplace"])
def test_the_noise_of_a_pair_is_chosen_by_name(tmp_path: Path, noise: str) -> None:
    pair = "[budget]\napprox_dp = { epsilon = 1, delta = 1e-9 }\n"
    plan = study(tmp_path, f'{SCHEMA}{K1}{pair}[plan]\nnoise = "{noise}"\n').plan()
    assert (plan.privacy.law == "pure") == (noise == "discrete Laplace")
    assert plan.privacy.within(nz.ApproxDP(1.0, 1e-9))
    assert study(tmp_path, f"{SCHEMA}{K1}[budget]\ngdp = 0.2\n").plan().privacy.mu <= 0.2


@pytest.mark.parametrize(
    ("written", "variance"),
    [
        ("25.0", 25.0),
        ("{ variance = 25 }", 25.0),
        ("{ std_error = 5 }", 25.0),
        ("{ half_width = 9.799819922700268 }", 25.0),
        ("{ half_width = 9.799819922700268, level = 0.95 }", 25.0),
        ("{ half_width = 12.879146517744502, level = 0.99 }", 25.0),
    ],
)
def test_targets_in_several_forms(tmp_path: Path, written: str, variance: float) -> None:
    read = study(tmp_path, f"{SCHEMA}{K1}[targets]\nage = {written}\n")
    assert read.targets == {"age": pytest.approx(variance, rel=1e-12)}
    assert study(tmp_path, f"targets = 9\n{SCHEMA}{K1}").targets == 9.0


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_half_widths_of_pure_budgets_are_those_of_laplace_noise(
    tmp_path: Path, level: float
) -> None:
    """A Laplace number of scale b is beyond t in e^(−t/b) of all cases; its variance is 2b²."""
    written = f"[targets]\nage = {{ half_width = 10, level = {level} }}\n[budget]\npure_dp = 1\n"
    (variance,) = study(tmp_path, f"{SCHEMA}{K1}{written}").targets.values()
    outside = math.exp(-10 / math.sqrt(variance / 2))
    assert outside == pytest.approx(1 - level) if level > 0.6 else outside < 0.5


def test_half_widths_hold_where_laplace_noise_is_taken_within_epsilon_and_delta(
    tmp_path: Path,
) -> None:
    budget = "approx_dp = { epsilon = 1, delta = 1e-9 }"
    written = f"[targets]\nage = {{ half_width = 10 }}\n[budget]\n{budget}\n"
    (variance,) = study(tmp_path, f"{SCHEMA}{K1}{written}").targets.values()
    outside = math.exp(-10 / math.sqrt(variance / 2))  # of a Laplace number of this variance
    assert outside == pytest.approx(0.05)
    gaussian = f'{written}[plan]\nnoise = "discrete Gaussian"\n'
    (variance,) = study(tmp_path, f"{SCHEMA}{K1}{gaussian}").targets.values()
    assert variance == pytest.approx((10 / 1.959963984540054) ** 2)


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('objective = "worst"', {"objective": nz.WorstVariance()}),
        ('objective = "total"', {"objective": nz.TotalVariance()}),
        ("objective = { p = 4 }", {"objective": nz.PNormVariance(4)}),
        ('objective = "rmse"', {"objective": nz.RMSE()}),
        ('neighbours = "replace"', {"neighbours": "replace"}),
        ('noise = "discrete"', {"noise": "discrete"}),
        ('planner = "residual+"', {"planner": "residual+"}),
        ('planner = "hierarchical-3"', {"planner": "hierarchical-3"}),
    ],
)
def test_settings(tmp_path: Path, written: str, arguments: dict[str, object]) -> None:
    read = study(tmp_path, f"{SCHEMA}{K1}{BUDGETED}[plan]\n{written}\n")
    expected = nz.plan(nz.Workload.marginals(MADE, k=1), budget=nz.zCDP(0.5), **arguments)
    assert plan_hash(read.plan()) == plan_hash(expected)


@pytest.mark.parametrize(
    ("written", "objective"),
    [
        ("at_most = 50", nz.TotalVariance(at_most=50.0)),
        ('objective = "rmse"\nat_most = 2.5', nz.RMSE(at_most=2.5)),
        ('objective = "worst"\nat_most = 9', nz.WorstVariance(at_most=9.0)),
        ("objective = { p = 4 }\nat_most = 9", nz.PNormVariance(4, at_most=9.0)),
    ],
)
def test_bounds_to_reach(tmp_path: Path, written: str, objective: nz.Objective) -> None:
    read = study(tmp_path, f"{SCHEMA}{K1}[plan]\n{written}\n")
    assert read.budget is None and read.objective == objective
    expected = nz.plan(nz.Workload.marginals(MADE, k=1), objective=objective)
    assert plan_hash(read.plan()) == plan_hash(expected)


def test_weighting(tmp_path: Path) -> None:
    read = study(tmp_path, f'{SCHEMA}{K1}{BUDGETED}[plan]\nweighting = "sqrt"\n')
    same_workload(read.workload, nz.Workload.marginals(MADE, k=1).weighted("sqrt"))


# ---------------------------------------------------------------------- people


PEOPLE = '[people]\nperson = "id"\n'


def test_one_record_of_each_person_is_counted(tmp_path: Path) -> None:
    read = study(tmp_path, f"[schema]\nsex = {{ categorical = [\"F\", \"M\"] }}\n{K1}"
                           f"[budget]\nzcdp = 1e9\n{PEOPLE}")  # fmt: skip
    data = {"id": [1, 1, 1, 2], "sex": ["F", "F", "F", "M"]}
    release = read.release(read.plan(), data, seed=1)
    counts = release.answer(nz.Query(read.schema, ["sex"])).estimate
    np.testing.assert_allclose(counts, [1.0, 1.0], atol=0.01)


def test_several_records_of_a_person_cost_more(tmp_path: Path) -> None:
    """At the same promise to a person, k records leave each 1/k² of the budget."""
    one = study(tmp_path, f"{SCHEMA}{K1}{BUDGETED}{PEOPLE}").plan()
    three = study(tmp_path, f"{SCHEMA}{K1}{BUDGETED}{PEOPLE}max_rows = 3\n").plan()
    assert three.privacy.rho <= 0.5
    assert three.privacy.rho == pytest.approx(one.privacy.rho)
    assert three.rmse == pytest.approx(3 * one.rmse, rel=1e-6)
    # The price by brute force: three records of one person in the most expensive cell.
    cells = np.diag(three.cost_matrix())
    assert 9 * cells.max() == pytest.approx(three.privacy.pcost, rel=1e-9)
    assert 9 * cells.max() <= three.privacy.pcost * (1 + 1e-12)


@pytest.mark.parametrize("written", ["approx_dp = { epsilon = 1, delta = 1e-9 }", "zcdp = 0.3"])
def test_people_under_any_budget_and_discrete_noise(tmp_path: Path, written: str) -> None:
    text = f'{SCHEMA}{K1}[budget]\n{written}\n[plan]\nnoise = "discrete"\n{PEOPLE}max_rows = 2\n'
    read = study(tmp_path, text)
    plan = read.plan()
    assert read.budget is not None
    assert plan.privacy.within(read.budget)
    assert 4 * np.diag(plan.cost_matrix()).max() <= plan.privacy.pcost * (1 + 1e-12)


def test_at_most_so_many_records_are_counted(tmp_path: Path) -> None:
    read = study(tmp_path, f"[schema]\nsex = {{ categorical = [\"F\", \"M\"] }}\n{K1}"
                           f"[budget]\nzcdp = 1e9\n{PEOPLE}max_rows = 2\n")  # fmt: skip
    data = {"id": [1, 1, 1, 2], "sex": ["F", "F", "F", "M"]}
    release = read.release(read.plan(), data, seed=1)
    counts = release.answer(nz.Query(read.schema, ["sex"])).estimate
    np.testing.assert_allclose(counts, [2.0, 1.0], atol=0.01)
    missing = {"sex": ["F"]}
    with pytest.raises(nz.NoiseplanError, match="person column 'id'"):
        read.release(read.plan(), missing, seed=1)


def test_a_replaced_person_may_have_several_records(tmp_path: Path) -> None:
    text = f'{SCHEMA}{K1}{BUDGETED}[plan]\nneighbours = "replace"\n{PEOPLE}'
    assert study(tmp_path, text).people is not None
    plan = study(tmp_path, text + "max_rows = 2\n").plan()
    assert plan.max_rows == 2 and plan.privacy.neighbours == "replace"


def test_the_price_of_a_person_in_pure_privacy() -> None:
    assert person_price(nz.Guarantee.pure(0.1), 3).epsilon(1e-9) == pytest.approx(0.3)
    assert record_budget(nz.PureDP(0.3), 3, "discrete") == nz.PureDP(0.3 / 3)
    assert person_price(nz.Guarantee(0.5), 3).pcost == pytest.approx(4.5)


def test_pure_budgets_are_planned_for_a_record_and_for_a_person(tmp_path: Path) -> None:
    pure = f'{SCHEMA}{K1}[budget]\npure_dp = 1.0\n[plan]\nnoise = "discrete"\n'
    one = study(tmp_path, pure).plan()
    assert one.privacy.within(nz.PureDP(1.0))
    two = study(tmp_path, f"{pure}{PEOPLE}max_rows = 2\n").plan()
    assert two.privacy.within(nz.PureDP(1.0))
    record = nz.plan(nz.Workload.marginals(MADE, k=1), budget=nz.PureDP(0.5), noise="discrete")
    assert two.rmse == pytest.approx(record.rmse)
    assert two.rmse > 1.9 * one.rmse
