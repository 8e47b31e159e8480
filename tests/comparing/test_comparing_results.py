"""What a comparison accepts, prints, tabulates and draws."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.draw.picture import ChartError
from noiseplan.errors import DataError, PlanError

SCHEMA = nz.Schema.from_sizes({"a": 8, "b": 3})
ASKED = nz.Workload([nz.Query(SCHEMA, {"a": nz.Prefix()}), nz.Query(SCHEMA, ["a", "b"])])
COUNTS = CountTensor(SCHEMA, np.arange(24).reshape(8, 3))


@pytest.fixture(scope="module")
def plans() -> list[nz.Plan]:
    planners = ("optimal", "identity", "identity")
    return [nz.plan(ASKED, budget=nz.zCDP(0.5), planner=name) for name in planners]


def halved(release: nz.Release) -> Any:
    """Answers that are half of what they should be."""

    class Half:
        def answer(self, query: nz.Query) -> np.ndarray:
            return release.answer(query).estimate / 2

    return Half()


def test_plans_without_names_are_called_by_their_planner(plans: list[nz.Plan]) -> None:
    comparison = nz.compare(plans)
    assert list(comparison.figures) == ["optimal", "identity", "identity 2"]
    assert comparison.best == "optimal"
    assert repr(comparison).startswith("Comparison(rmse: optimal ")


def test_without_data_nothing_is_simulated(plans: list[nz.Plan]) -> None:
    text = str(nz.compare(plans))
    assert "all errors are exact, for any data" in text
    assert "example data" not in text
    assert "±" not in text


def test_the_printed_comparison(plans: list[nz.Plan]) -> None:
    comparison = nz.compare({"plain": plans[0], "halved": (plans[0], halved)}, COUNTS, runs=20)
    text = str(comparison)
    assert "2 plans over 2 queries, 32 rows" in text
    assert "276 records, taken to be public" in text
    assert "± half of the 95 % interval over 20 simulated runs" in text
    assert "lowest rmse: plain" in text
    assert "do not promise" not in text
    error = comparison.figures["halved"].rmse_error
    shown = float(text.split(" ± ")[1].split()[0])
    assert shown == pytest.approx(NormalDist().inv_cdf(0.975) * error, rel=0.05)  # two digits
    assert "few runs" not in text
    assert "few runs" in str(nz.compare([plans[0], (plans[0], halved)], COUNTS, runs=4))
    size = np.sqrt(np.mean(np.concatenate([q.dense() @ np.arange(24) for q in ASKED]) ** 2))
    assert comparison.size == pytest.approx(size)
    assert f"true answers {size:.4g}" in text
    halved_line = next(line for line in text.splitlines() if line.startswith("  halved"))
    assert "ρ = 0.5" in halved_line
    assert comparison.figures["halved"].bias == pytest.approx(size / 2, rel=0.05)


def test_unequal_privacy_is_said(plans: list[nz.Plan]) -> None:
    dearer = nz.plan(ASKED, budget=nz.zCDP(0.6))
    for other in (dearer, nz.plan(ASKED, budget=nz.PureDP(1.0))):
        comparison = nz.compare([plans[0], other])
        assert not comparison.same_privacy
        assert "do not promise the same privacy" in str(comparison)
    several = nz.plan(ASKED, budget=nz.zCDP(0.5), max_rows=2)
    assert "at most 2 records" in str(nz.compare([plans[0], several]))
    assert not nz.compare([plans[0], several]).same_privacy
    assert nz.compare(plans).same_privacy


def test_plans_that_are_not_told_apart(plans: list[nz.Plan]) -> None:
    assert "lowest rmse: one, and two alike" in str(nz.compare({"one": plans[1], "two": plans[2]}))
    drawn = nz.compare({"exact": plans[0], "drawn": (plans[0], lambda r: r)}, COUNTS, runs=3)
    assert "not told apart by their rmse; more runs= may" in str(drawn)
    assert "nothing to compare" in str(nz.compare(plans[:1]))


def test_the_same_seed_gives_the_same_figures(plans: list[nz.Plan]) -> None:
    def drawn(seed: int) -> list[float]:
        comparison = nz.compare(plans, COUNTS, simulate=True, runs=3, seed=seed)
        return list(comparison.columns()["rmse"])

    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(1)[1] != drawn(1)[2]  # equal plans draw noise of their own


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables(library: str, plans: list[nz.Plan]) -> None:
    import narwhals as nw

    comparison = nz.compare({"one": plans[0], "two": plans[1]}, COUNTS)
    table = nw.from_native(comparison.table(frame=library))
    assert table["plan"].to_list() == ["one", "two"]
    assert table["rmse"].to_list() == [comparison.figures[name].rmse for name in ("one", "two")]
    assert table["rho"].to_list() == [plan.privacy.rho for plan in plans[:2]]
    queries = nw.from_native(comparison.table("query", frame=library))
    assert queries["query"].to_list() == ["prefix(a)"] * 2 + ["a × b"] * 2
    with pytest.raises(PlanError, match="by 'plan' or by 'query', found 'row'"):
        comparison.table("row")


def test_the_picture(plans: list[nz.Plan], tmp_path: Path) -> None:
    comparison = nz.compare({"plain": plans[0], "halved": (plans[0], halved)}, COUNTS, runs=5)
    drawn = comparison.chart(tmp_path / "picture.svg")
    text = drawn.read_text(encoding="utf-8")
    assert text.count('class="s0 point"') == text.count('class="s1 hollow"') == 3
    assert all(f">{words}<" in text for words in ("halved", "all rows", "prefix(a)", "a × b"))
    assert "simulated in 5 runs" in text
    with pytest.raises(ChartError, match="8 plans are more than"):
        nz.compare([plans[0]] * 8).chart()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda p: ([],), "takes plans"),
        (lambda p: (None,), "takes plans"),
        (lambda p: (p[0],), "takes plans"),
        (lambda p: (["plan"],), "found 'plan', which has no .workload"),
        (lambda p: ({"": p[0]},), "named by a text"),
        (lambda p: ([(p[0], 3)],), r"a function of its release.*found 3"),
        (lambda p: ([(p[0], halved)],), "simulated, on public data: compare"),
    ],
)
def test_what_is_refused(arguments: Any, message: str, plans: list[nz.Plan]) -> None:
    with pytest.raises(PlanError, match=message):
        nz.compare(*arguments(plans))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"runs": 1}, "at least 2; found 1"),
        ({"runs": True}, "found True"),
        ({"seed": -1}, "found -1"),
        ({"workload": "a"}, "workload= is a Workload, found str"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: dict[str, Any], message: str, plans: list[nz.Plan]
) -> None:
    with pytest.raises(PlanError, match=message):
        nz.compare(plans, COUNTS, **arguments)


def test_plans_for_other_data_are_refused(plans: list[nz.Plan]) -> None:
    schema = nz.Schema.from_sizes({"a": 8})
    other = nz.plan(nz.Workload([nz.Query(schema, ["a"])]), budget=nz.zCDP(0.5))
    with pytest.raises(PlanError, match="'auto' is about another schema"):
        nz.compare([plans[0], other])


def test_what_a_plan_cannot_answer_is_refused(plans: list[nz.Plan]) -> None:
    coarse = nz.plan(nz.Workload([nz.Query(SCHEMA, ["a"])]), budget=nz.zCDP(0.5))
    with pytest.raises(nz.NoiseplanError, match="a × b"):
        nz.compare([plans[0], coarse])
    with pytest.raises(nz.NoiseplanError, match="a × b"):
        nz.compare([plans[0], coarse], COUNTS, simulate=True, runs=2)


def test_people_need_a_column(plans: list[nz.Plan]) -> None:
    several = nz.plan(ASKED, budget=nz.zCDP(0.5), max_rows=2)
    records = {"a": [0, 1], "b": [2, 2], "id": [1, 1]}
    with pytest.raises(PlanError, match="each person with up to 2 records"):
        nz.compare([several], records, simulate=True)
    with pytest.raises(DataError, match="person column 'name'"):
        nz.compare([several], records, person="name")


def test_rows_beyond_memory_are_refused(
    plans: list[nz.Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    from noiseplan.comparing import simulating

    monkeypatch.setattr(simulating, "MOST_ROWS", 31)
    assert nz.compare(plans).best == "optimal"
    with pytest.raises(PlanError, match="at most 31 rows, and the workload has 32"):
        nz.compare(plans, COUNTS, simulate=True)
