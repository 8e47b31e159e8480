"""The planning report: every figure of it is the plan's, and nothing in it is run or loaded."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.report import Design, planning_page
from noiseplan.words.privacy import success_bound
from page_parsing import parsed, rows_of

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(12)),
        "sex": nz.Categorical(["F", "M"]),
        "<b>odd</b>": nz.Categorical(["<script>alert(1)</script>", "b"]),
    }
)
WORKLOAD = nz.Workload.marginals(SCHEMA, up_to=2)
HOSTILE = '<img src=x onerror="alert(1)">\u202e</pre><script>alert(2)</script>'


def design(name: str = "first", budget: float = 0.5, **more: str) -> Design:
    plan = nz.plan(WORKLOAD, budget=nz.zCDP(budget))
    texts = {"title": "Persons & places", "purpose": "the yearly report", "study_text": "[schema]"}
    return Design(name=name, plan=plan, **(texts | more))


def test_every_table_has_its_errors_and_its_bar() -> None:
    first = design()
    found = rows_of(planning_page([first]), "Expected standard error")
    kinds = first.plan.fairness()
    assert [row[0].partition(" and ")[0] for row in found] == [kind["table"] for kind in kinds]
    for row, kind in zip(found, kinds, strict=True):
        assert float(row[2]) == pytest.approx(kind["std_error"], rel=1e-3)
        assert float(row[3]) == pytest.approx(kind["worst_std_error"], rel=1e-3)
    widths = re.findall(r'<rect class="(?:fill|over)" x="0" y="1" width="([\d.]+)"',
                        planning_page([first]))  # fmt: skip
    longest = max(kind["worst_std_error"] or 0 for kind in kinds)
    expected = [100 * kind["std_error"] / longest for kind in kinds]
    assert [float(width) for width in widths] == pytest.approx(expected, abs=0.01)


def test_it_says_what_is_promised_and_what_would_be_published() -> None:
    page = planning_page([design()])
    checker = parsed(page)
    words = " ".join(checker.words)
    bound = math.ceil(1000 * success_bound(nz.plan(WORKLOAD, budget=nz.zCDP(0.5)).privacy)) / 10
    assert f"at most {bound:g} of 100 cases" in words
    assert "No data was read for it, and nothing was spent" in words
    assert "Persons & places" in words
    assert "the yearly report" in words
    asked = [row[0] for row in rows_of(page, f"{len(WORKLOAD)} tables")]
    assert asked == [query.name for query in WORKLOAD]
    assert words.rstrip().endswith("loads nothing.")
    assert "[schema]" in words


def test_the_largest_error_of_a_design_is_of_rows_without_their_weights() -> None:
    weighted = WORKLOAD.weighted("tables")
    plans = [nz.plan(weighted, budget=nz.zCDP(rho)) for rho in (0.5, 1.0)]
    designs = [Design(str(n), "", "", plan, "") for n, plan in enumerate(plans)]
    figures = {row[0]: row[1:] for row in rows_of(planning_page(designs), "What each design costs")}
    for shown, plan in zip(figures["largest standard error"], plans, strict=True):
        largest = max(math.sqrt(plan.variance(query).max()) for query in weighted)
        assert float(shown) == pytest.approx(largest, rel=1e-3)


def test_several_designs_stand_side_by_side() -> None:
    designs = [design("small", 0.1), design("large", 0.9)]
    page = planning_page(designs)
    figures = {row[0]: row[1:] for row in rows_of(page, "What each design costs")}
    assert figures["cost ρ"] == ["0.1", "0.9"]
    assert [float(x) for x in figures["average error"]] == pytest.approx(
        [each.plan.rmse for each in designs], rel=1e-3
    )
    errors = {row[0]: row[1:3] for row in rows_of(page, "Standard error of every table;")}
    for small, large in zip(*(each.plan.tables() for each in designs), strict=True):
        shown = [float(text) for text in errors[small["table"]]]
        assert shown == pytest.approx([small["std_error"], large["std_error"]], rel=1e-3)
    ids = [attributes["id"] for _, attributes in parsed(page).seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"design-small", "design-large"} <= set(ids)


def test_designs_of_one_name_and_of_other_tables() -> None:
    other = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(0.5))
    designs = [design("a"), Design("a", "", "", other, "")]
    page = planning_page(designs)
    ids = [attributes["id"] for _, attributes in parsed(page).seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    errors = {row[0]: row[1:3] for row in rows_of(page, "Standard error of every table;")}
    assert errors["age × sex"][1] == "–"


def test_hostile_texts_stay_texts() -> None:
    first = design(HOSTILE, title=HOSTILE, purpose=HOSTILE, study_text=HOSTILE)
    for page in (planning_page([first]), planning_page([first, first])):
        tags = [tag for tag, _ in parsed(page).seen]
        assert not {"img", "b", "iframe"} & set(tags)
        assert tags.count("script") == 1
        assert "\u202e" not in page


def test_other_kinds_of_plans() -> None:
    line = nz.Schema({"age": nz.Ordinal(range(32))})
    workload = nz.Workload.marginals(line, k=1)
    aware = nz.plan(workload, budget=nz.PureDP(1.0), planner="dawa")
    pure = nz.plan(workload, budget=nz.PureDP(1.0))
    weak = nz.plan(workload, budget=nz.PureDP(30.0))
    words = " ".join(parsed(planning_page([Design("a", "", "", aware, "")])).words)
    assert "chosen from the data" in words
    both = planning_page([Design("a", "", "", aware, ""), Design("b", "", "", pure, "")])
    assert "depends on the data" in both
    assert "protects next to nobody" in planning_page([Design("w", "", "", weak, "")])
    persons = nz.plan(workload, budget=nz.zCDP(0.1), max_rows=3)
    words = planning_page([Design("p", "", "", persons, "")])
    assert "whether one person is among the data" in words


def test_no_design() -> None:
    with pytest.raises(nz.NoiseplanError, match="needs a design"):
        planning_page([])


def test_the_command(tmp_path: Path) -> None:
    study, page = tmp_path / "study.toml", tmp_path / "plan.html"
    study.write_text(
        'title = "A <title>"\npurpose = "For the board"\n[schema]\nage = { categorical = ["a", '
        '"b"] }\n[[tables]]\nup_to = 1\n[budget]\nzcdp = 0.1\n',
        encoding="utf-8",
    )
    result = CliRunner().invoke(main, ["plan", str(study), "--report", str(page)])
    assert result.exit_code == 0, result.output
    assert f"wrote {page}" in result.stdout
    words = " ".join(parsed(page.read_text(encoding="utf-8")).words)
    assert "A <title>" in words
    assert "For the board" in words
    assert "zcdp = 0.1" in words
    result = CliRunner().invoke(main, ["plan", str(study), "--report", str(page), "--json"])
    assert f'"page": "{page}"' in result.stdout
