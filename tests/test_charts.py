"""Charts: what is drawn, how it adapts to the table, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

import noiseplan as nz
from noiseplan.draw.error_bars import error_bar_spec
from noiseplan.draw.error_dots import ForestRow, forest_spec
from noiseplan.draw.figure import ChartError, log_axis, write
from noiseplan.errors import MissingExtraError, NoiseplanError

Columns = dict[str, list[Any]]


def table(
    rows: list[Any], groups: list[str] | None = None, *, count: float = 1000.0, half: float = 80.0
) -> Columns:
    """A table of equal-width intervals over `rows`, or over `rows` by `groups`."""
    names = groups or [""]
    cells = [(row, group) for row in rows for group in names]
    estimates = [count * (1 + index / len(cells)) for index in range(len(cells))]
    columns: Columns = {
        "place": [row for row, _ in cells],
        "estimate": estimates,
        "lower": [value - half for value in estimates],
        "upper": [value + half for value in estimates],
    }
    return columns | ({"sex": [group for _, group in cells]} if groups else {})


def texts(svg: Path) -> list[str]:
    return re.findall(r"<t(?:ext|span)[^>]*>([^<]+)</t", svg.read_text(encoding="utf-8"))


def spec_of(columns: Columns, colour: str | None = None) -> dict[str, Any]:
    return error_bar_spec(columns, "place", colour, "title", 0.95)


def charts_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return list(spec.get("vconcat") or spec["hconcat"])


def marks_of(chart: dict[str, Any]) -> list[str]:
    marks = [layer["mark"] for layer in chart["layer"]]
    return [mark if isinstance(mark, str) else mark["type"] for mark in marks]


REGIONS = ["north", "south", "east", "west"]
TABLES = {
    "few names": (table(REGIONS), None),
    "few names by group": (table(REGIONS, ["F", "M"]), "sex"),
    "many numbers": (table(list(range(50)), ["F", "M"]), "sex"),
    "many numbers by many groups": (table(list(range(50)), list("abcdefgh")), "sex"),
    "long names": (table([f"the county called number {i}" for i in range(8)]), None),
    "many names": (table([f"county {i}" for i in range(100)], ["F", "M"]), "sex"),
    "many names by many groups": (table([f"c{i}" for i in range(30)], list("abcdefgh")), "sex"),
    "tiny intervals": (table(REGIONS, half=1.0), None),
    "tiny intervals, listed": (table([f"county {i}" for i in range(30)], half=1.0), None),
    "tiny intervals, many groups": (table(list(range(50)), list("abcd"), half=1.0), "sex"),
    "nothing but zeros": (table(REGIONS, count=0.0, half=0.0), None),
    "below zero": (table(REGIONS, count=-100.0), None),
}


class TestErrorBars:
    def test_labels_of_the_picture(self, tmp_path: Path) -> None:
        path = tmp_path / "chart.svg"
        people = table(REGIONS, ["F", "M"])
        spec = error_bar_spec(people, "place", "sex", "People", 0.95, unit="people")
        assert write(spec, path) == path
        expected = {"People", "95 % intervals, noise only", "estimate (people)", "place", "sex"}
        assert expected | {*REGIONS, "F", "M", "1,000"} <= set(texts(path))

    @pytest.mark.parametrize("case", TABLES)
    def test_every_kind_of_table_is_drawn(self, case: str, tmp_path: Path) -> None:
        columns, colour = TABLES[case]
        path = tmp_path / "chart.svg"
        write(error_bar_spec(columns, "place", colour, case, 0.9), path)
        assert case in texts(path)
        assert "90 % intervals, noise only" in texts(path)

    @pytest.mark.few(4)
    @pytest.mark.parametrize("case", TABLES)
    def test_specification_is_valid(self, case: str) -> None:
        columns, colour = TABLES[case]
        # Raises where the specification does not follow Vega-Lite's schema.
        alt.Chart.from_dict(json.loads(json.dumps(spec_of(columns, colour))))

    def test_png_and_html(self, tmp_path: Path) -> None:
        spec = error_bar_spec(table(REGIONS), "place", None, "People", 0.95)
        png = write(spec, tmp_path / "chart.png")
        page = write(spec, tmp_path / "chart.html").read_text(encoding="utf-8")
        assert png.read_bytes().startswith(b"\x89PNG")
        assert "noise only" in page
        assert "<script src" not in page  # opens without a network

    def test_level_is_written_without_rounding_noise(self) -> None:
        spec = error_bar_spec(table(REGIONS), "place", None, "title", 0.999)
        assert spec["title"]["subtitle"] == ["99.9 % intervals, noise only"]

    def test_visible_bars_have_caps_and_no_second_chart(self) -> None:
        (chart,) = charts_of(spec_of(table(REGIONS)))
        assert marks_of(chart) == ["bar", "rule", "point", "tick", "tick"]

    def test_invisible_bars_are_shown_as_percentages(self) -> None:
        spec = spec_of(table(REGIONS, count=1000.0, half=1.0))
        _, margins = charts_of(spec)
        assert margins["encoding"]["y"]["field"] == "percent"
        assert spec["data"]["values"][0]["percent"] == pytest.approx(0.1)

    def test_interval_that_includes_zero_has_no_percentage(self) -> None:
        columns = table(REGIONS, half=1.0)
        columns["estimate"][0], columns["lower"][0], columns["upper"][0] = 0.5, -0.5, 1.5
        spec = spec_of(columns)
        assert spec["data"]["values"][0]["margin"] is None
        assert "a triangle at 100 % is an interval that includes 0" in spec["title"]["subtitle"]

    def test_order_of_the_table_is_kept(self) -> None:
        (chart,) = charts_of(spec_of(table(["low", "middle", "high"])))
        assert list(chart["encoding"]["x"]["sort"]) == ["low", "middle", "high"]

    def test_groups_of_numbers_stand_apart(self) -> None:
        cells = spec_of(table(list(range(20)), ["F", "M"]), "sex")["data"]["values"]
        assert [cell["at"] for cell in cells[:4]] == pytest.approx([-0.15, 0.15, 0.85, 1.15])

    def test_too_many_names_keep_the_largest_and_say_so(self) -> None:
        spec = spec_of(table([f"county {i}" for i in range(100)]))
        shown = [cell["place"] for cell in spec["data"]["values"]]
        assert shown == [f"county {i}" for i in range(60, 100)]
        assert "the 40 largest of 100 values of place" in spec["title"]["subtitle"]

    def test_long_axes_are_thinned_to_a_round_step_and_keep_their_ends(self) -> None:
        spec = spec_of(table(list(range(100_000))))
        shown = [cell["place"] for cell in spec["data"]["values"]]
        assert shown == [*range(0, 100_000, 500), 99_999]
        said = "every 500th, and the last, of 100,000 values of place"
        assert said in spec["title"]["subtitle"]
        assert len(json.dumps(spec)) < 100_000

    @pytest.mark.parametrize(("count", "step"), [(400, 1), (401, 2), (262_800, 1000)])
    def test_numbers_along_an_axis(self, count: int, step: int) -> None:
        spec = spec_of(table(list(range(count))))
        shown = [cell["place"] for cell in spec["data"]["values"]]
        assert shown == sorted({*range(0, count, step), count - 1})
        thinned = f"every {step:,}{'nd' if step == 2 else 'th'}"
        said = any(line.startswith(thinned) for line in spec["title"]["subtitle"])
        assert said == (step > 1)

    def test_long_axes_of_many_groups_have_few_points(self) -> None:
        columns = table(list(range(2000)), [f"g{i}" for i in range(50)], half=1.0)
        spec = spec_of(columns, "sex")
        cells = spec["data"]["values"]
        assert len(cells) <= 4000
        assert {cell["group"] for cell in cells} == {f"g{i}" for i in range(10, 50)}
        assert {cell["place"] for cell in cells} == {*range(0, 2000, 50), 1999}
        assert "the 40 largest of 50 values of sex" in spec["title"]["subtitle"]

    def test_long_lists_of_names_reach_the_chart_as_few(self) -> None:
        spec = spec_of(table([f"block {i}" for i in range(100_000)]))
        assert len(spec["data"]["values"]) == 40
        assert len(json.dumps(spec)) < 100_000
        assert "the 40 largest of 100,000 values of place" in spec["title"]["subtitle"]

    def test_crowded_groups_have_panels(self) -> None:
        (chart,) = charts_of(spec_of(table(list(range(50)), list("abcd")), "sex"))
        assert chart["facet"]["sort"] == ["sex: a", "sex: b", "sex: c", "sex: d"]

    def test_missing_column_is_named(self) -> None:
        with pytest.raises(ChartError, match="no column 'sex' to draw; the table has 'place'"):
            spec_of(table(REGIONS), "sex")

    def test_more_attributes_than_the_chart_has(self) -> None:
        with pytest.raises(ChartError, match="draw the table of 'place' alone"):
            spec_of(table(REGIONS, ["F", "M"]))

    def test_empty_table(self) -> None:
        with pytest.raises(ChartError, match="no cell to draw"):
            spec_of(table([]))

    def test_number_that_is_not_finite(self) -> None:
        with pytest.raises(ChartError, match=r"'north'.*not finite"):
            spec_of(table(REGIONS, half=float("inf")))


class TestForest:
    def test_labels_of_the_picture(self, tmp_path: Path) -> None:
        rows = [ForestRow("gender", 4.2), ForestRow("age ranges", 40.25, 10.0, 1861.0)]
        path = write(forest_spec(rows, unit="workers"), tmp_path / "forest.svg")
        expected = {"gender", "age ranges", "4.2", "40.2 (10 to 1,861)", "standard error (workers)"}
        assert expected <= set(texts(path))

    def test_least_accurate_first(self) -> None:
        spec = forest_spec([("small", 1.0), ("large", 3.0), ("middle", 2.0)])
        assert [row["table"] for row in spec["data"]["values"]] == ["large", "middle", "small"]

    @pytest.mark.parametrize(("largest", "scale"), [(10.0, None), (100.0, "log")])
    def test_wide_range_is_logarithmic(self, largest: float, scale: str | None) -> None:
        layers = forest_spec([("a", 1.0), ("b", largest)])["layer"]
        assert layers[1]["encoding"]["x"].get("scale", {}).get("type") == scale

    def test_zero_error_is_drawn_on_a_linear_axis(self, tmp_path: Path) -> None:
        path = write(forest_spec([("known", 0.0), ("b", 100.0)]), tmp_path / "forest.svg")
        assert "known" in texts(path)

    def test_too_many_tables_keep_the_least_accurate_and_say_so(self) -> None:
        spec = forest_spec([(f"table {i}", 1.0 + i) for i in range(100)])
        assert len(spec["data"]["values"]) == 40
        assert "the 40 least accurate of 100 tables" in spec["title"]["subtitle"]

    def test_specification_is_valid(self) -> None:
        alt.Chart.from_dict(json.loads(json.dumps(forest_spec([("a", 1.0), ("b", 100.0)]))))

    def test_no_table(self) -> None:
        with pytest.raises(ChartError, match="no table to draw"):
            forest_spec([])

    @pytest.mark.parametrize("error", [float("nan"), float("inf"), -1.0])
    def test_error_that_is_no_error(self, error: float) -> None:
        with pytest.raises(ChartError, match=r"'age' is .*must be finite"):
            forest_spec([("age", error)])


class TestFile:
    def test_unknown_suffix(self, tmp_path: Path) -> None:
        with pytest.raises(ChartError, match=r"'a\.pdf': the suffix must be \.svg, \.png or"):
            write(forest_spec([("age", 1.0)]), tmp_path / "a.pdf")

    def test_missing_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(MissingExtraError, match=r'pip install "noiseplan\[plot\]"') as caught:
            write(forest_spec([("age", 1.0)]), tmp_path / "a.svg")
        assert isinstance(caught.value, ImportError)
        assert isinstance(caught.value, NoiseplanError)

    def test_importing_charts_imports_no_drawing_library(self) -> None:
        code = (
            "import sys, noiseplan.draw.error_bars, noiseplan.draw.error_dots; "
            "sys.exit(bool({'altair', 'vl_convert', 'pandas'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (0.3, 0.9, [0.2, 0.5, 1.0]),
        (1.0, 1.0, [1.0, 2.0]),
        (2.0, 40.0, [2.0, 5.0, 10.0, 20.0, 50.0]),
        (0.03, 700.0, [0.1, 1.0, 10.0, 100.0, 1000.0]),
    ],
)
def test_logarithmic_axis_is_labelled_at_round_numbers(
    low: float, high: float, values: list[float]
) -> None:
    axis = log_axis(low, high, most=5)
    start, stop = axis["scale"]["domain"]
    assert axis["axis"]["values"] == pytest.approx(values)
    assert start <= low <= high <= stop


# Names, and what is drawn of them.
DRAWN = {
    "</script><script>alert(1)</script>": "‹/script>‹script>alert(1)‹/script>",
    "esc\x1b[2J": "esc∖x1b[2J",
    'quoted\\"b': 'quoted∖"b',
    "ends in \\": "ends in ∖",
    "\u2028line": "∖u2028line",
    "a\nb": "a∖nb",
    "<!-- <b>": "‹!-- ‹b>",
    "\\u0041": "∖u0041",
    "'&amp;": "'&amp;",
}
HOSTILE = list(DRAWN)


@pytest.mark.parametrize("along", range(0, len(HOSTILE), 2))
def test_hostile_names_and_labels_are_drawn(along: int, tmp_path: Path) -> None:
    """The drawing program aborted the whole process on some, and took others for expressions."""
    one, other = HOSTILE[along], HOSTILE[along - 1]
    schema = nz.Schema(
        {
            one: nz.Categorical([f"{text}{i}" for i, text in enumerate(HOSTILE * 4)]),
            other: nz.Categorical(HOSTILE[:4]),
        }
    )
    plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.5))
    release = plan.release({one: [f"{HOSTILE[0]}0"] * 9, other: [HOSTILE[1]] * 9}, seed=1)
    for number, names in enumerate([(one,), (other,), (one, other)]):
        svg = ElementTree.parse(release.plot(*names, path=tmp_path / f"{number}.svg"))
        told = "".join(svg.getroot().itertext())
        assert DRAWN[names[0]] in told
    ElementTree.parse(plan.plot(tmp_path / "plan.svg"))
    page = release.plot(one, other, path=tmp_path / "page.html").read_text(encoding="utf-8")
    plain = write(spec_of(*TABLES["few names"]), tmp_path / "plain.html").read_text("utf-8")
    for tag in ("<script", "</script", "alert(1)<"):
        assert page.count(tag) == plain.count(tag)
    assert "</script" not in json.dumps(release.plot(one, other).to_dict())
