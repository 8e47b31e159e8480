"""Pictures: marks stand where the axis puts their numbers, texts are escaped, nothing is loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.draw.error_dots import ForestRow, forest_picture
from noiseplan.draw.picture import ChartError, Picture
from noiseplan.draw.svg import curves, round_numbers, thinned
from noiseplan.draw.table_svg import Along, Line, table_picture
from noiseplan.errors import StorageError

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture: Any) -> ElementTree.Element:
    return ElementTree.fromstring(picture._repr_svg_())


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


def texts(picture: Any) -> list[str]:
    return [each.text or "" for each in parsed(picture).iter(f"{SVG}text")]


def number(text: str) -> float:
    text = text.replace("k", "e3").replace("M", "e6")
    return float(text.replace(",", "").replace("−", "-").removesuffix(" %"))


def axes(root: ElementTree.Element, pattern: str) -> Iterator[tuple[float, float]]:
    """Where the lines of an axis are, and the numbers written next to them."""
    for group in root.iter():
        for line, text in zip(group, list(group)[1:], strict=False):
            if found := re.fullmatch(pattern, line.get("d") or ""):
                yield float(found[1]), number(text.text or "")


RISING = r"M84 ([\d.]+)H.*"


def line_through(points: list[tuple[float, float]], log: bool = False) -> Callable[[Any], Any]:
    """The number that a place stands for; the labels of the axis must lie on one line."""
    places, numbers = np.array(points).T
    assert len(places) >= 3
    shown = np.log(numbers) if log else numbers
    slope, start = np.polyfit(places, shown, 1)
    np.testing.assert_allclose(start + slope * places, shown, atol=abs(slope))  # one pixel
    return lambda x: np.exp(start + slope * np.array(x)) if log else start + slope * np.array(x)


def below(root: ElementTree.Element) -> list[tuple[float, float]]:
    """Places and numbers of the axis below errors, without its title."""
    written = [t for t in root.iter(f"{SVG}text") if t.get("text-anchor") == "middle"][:-1]
    return [(float(t.get("x", "")), number(t.text or "")) for t in written]


def found(element: ElementTree.Element, pattern: str) -> Any:
    """The numbers of every part of a path: an array for each number of the pattern."""
    parts = re.findall(pattern.replace("#", r"([\d.]+)"), element.get("d", ""))
    return np.array(parts, dtype=float).T


def released(attributes: dict[str, Any]) -> nz.Release:
    schema = nz.Schema(attributes)
    counts = np.random.default_rng(1).poisson(400, schema.shape)
    plan = nz.plan(nz.Workload.marginals(schema, up_to=len(schema)), budget=nz.zCDP(0.001))
    return plan.release(CountTensor(schema, counts), seed=1)


AGES = released({"sex": nz.Categorical(["F", "M"]), "age": nz.Ordinal(range(21, 65))})


def lines(values: Sequence[Sequence[float]], half: float = 80.0) -> list[Line]:
    return [
        Line(f"g{j}", [x - half for x in v], v, [x + half for x in v]) for j, v in enumerate(values)
    ]


def drawn_table(size: int, count: int = 1, ordered: bool = False, half: float = 80.0) -> Picture:
    labels: Any = range(size) if ordered else [f"county {i}" for i in range(size)]
    cells = lines([[1000.0 + i + j for i in range(size)] for j in range(count)], half)
    return table_picture("A title", Along.of("place", labels, ordered), cells, ordered, [])


def test_dots_stand_at_their_numbers() -> None:
    root = parsed(AGES.plot("age", "sex"))
    upward = list(axes(root, RISING))
    to_count = line_through(upward)
    pixel = abs(to_count(1.0) - to_count(0.0))
    rules, dots = of_class(root, "err"), of_class(root, "dots")
    every = []
    answer = AGES.answer(nz.Query(AGES.schema, ["age", "sex"]))
    assert list(answer.columns()["sex"][:2]) == ["F", "F"]  # the ages of women come first
    cells = np.array([answer.lower, answer.estimate, answer.upper]).reshape(3, 2, 44)
    for (low, value, high), rule, dot in zip(cells.transpose(1, 0, 2), rules, dots, strict=True):
        _, start, stop = found(rule, "M# #V#")
        x, y = found(dot, "M# #h0")
        np.testing.assert_allclose(to_count([start, y, stop]), [low, value, high], atol=pixel)
        assert stop.min() >= min(place for place, _ in upward)
        every.append(x)
    assert np.all(np.diff(np.array(every), axis=0) > 1)  # no interval hides another
    labelled = {t.text: float(t.get("x", "")) for t in root.iter(f"{SVG}text")}
    for age in (30, 40, 50, 60):
        assert np.mean(every, axis=0)[age - 21] == pytest.approx(labelled[str(age)], abs=0.2)


@pytest.mark.parametrize("label", ["area {}", "the long name of the area called {}"])
def test_bars_end_at_their_numbers(label: str) -> None:
    names = [label.format(i) for i in range(20)]
    values = [[float(100 - (7 + j) * i) for i in range(20)] for j in range(2)]  # some below zero
    drawn = table_picture("title", Along("area", names), lines(values, 9.0), False, [])
    root = parsed(drawn)
    to_count = line_through(list(axes(root, r"M([\d.]+) [\d.]+V.*")))
    bars, rules = of_class(root, "pale"), of_class(root, "err")
    for x, bar, rule in zip(np.transpose(values).ravel(), bars, rules, strict=True):
        start, wide = float(bar.get("x", "")), float(bar.get("width", ""))
        np.testing.assert_allclose(to_count([start, start + wide]), sorted([0, x]), atol=0.5)
        low, _, high = found(rule, "M# #H#")[:, 0]
        np.testing.assert_allclose(to_count([low, high]), [x - 9, x + 9], atol=0.5)
    assert {*names, "± 9 %", "includes 0", "g0", "g1"} <= set(texts(drawn))


def test_short_intervals_are_shown_as_percentages_too() -> None:
    half = 10.0 ** (np.arange(29) / 10 - 1.5)
    line = Line("", [*(1000 - half), -9.0], [1000.0] * 29 + [0.5], [*(1000 + half), 10.0])
    along = Along.of("age", range(30), ordered=True)
    root = parsed(table_picture("title", along, [line], True, []))
    upward = list(axes(root, RISING))
    below_plot = [each for each in upward if each[0] > upward[0][0]]
    _, y = found(of_class(root, "dots")[-1], "M# #h0")
    np.testing.assert_allclose(line_through(below_plot, log=True)(y), half / 10, rtol=0.05)
    assert "▲ 100 % or more" in [each.text for each in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("largest", [9.0, 900.0])
def test_errors_stand_at_their_numbers(largest: float) -> None:
    rows = [ForestRow("sex", 1.0), ForestRow("age", largest, 0.8, 2 * largest), ("all", 4.0)]
    picture = forest_picture(rows, unit="workers")
    root = parsed(picture)
    to_error = line_through(below(root), log=largest > 20)
    dots = [float(each.get("cx", "")) for each in of_class(root, "point")]
    np.testing.assert_allclose(to_error(dots), [largest, 4.0, 1.0], rtol=0.02)  # the largest first
    low, _, high = found(of_class(root, "err")[0], "M# #H#")[:, 0]
    np.testing.assert_allclose(to_error([low, high]), [0.8, 2 * largest], rtol=0.02)
    if largest < 20:  # a logarithmic axis may end between labels
        assert high <= max(place for place, _ in below(root)) + 0.1
    title = "standard error (workers)" + ", logarithmic" * (largest > 20)
    assert {"sex", "age", "all", title} <= set(texts(picture))


def test_compared_plans_stand_at_their_errors() -> None:
    schema = nz.Schema.from_sizes({"a": 20, "b": 3})
    asked = nz.Workload([nz.Query(schema, {"a": nz.Prefix()}), nz.Query(schema, ["a", "b"])])
    names = ("auto", "identity", "workload")
    plans = {name: nz.plan(asked, budget=nz.zCDP(0.5), planner=name) for name in names}
    compared = nz.compare(plans)
    root = parsed(compared.plot())
    to_error = line_through(below(root))
    dots = [
        (sorted(each.get("class", "").split())[1], float(each.get("cx", "")))
        for each in of_class(root, "point")
    ]
    assert [kind[-2:] for kind, _ in dots] == ["s0", "s1", "s2"] + 3 * ["s0", "s1", "s2"]
    expected = [*compared.columns()["rmse"], *compared.columns("query")["rmse"]]
    np.testing.assert_allclose(to_error([x for _, x in dots[3:]]), expected, atol=0.02)


def test_curves_pass_through_their_points() -> None:
    points = [(1e4, 0.03), (3e5, 0.5), (1e6, 2.8)]
    root = parsed(Picture("t", [], curves([points], ("values", "seconds")), ["seconds"]))
    to_seconds = line_through([*axes(root, r"M76 ([\d.]+)H.*")], log=True)
    to_values = line_through([*axes(root, r"M([\d.]+) \d+v6")], log=True)
    (path,) = of_class(root, "curve")
    x, y = found(path, "# #")
    np.testing.assert_allclose(np.transpose([to_values(x), to_seconds(y)]), points, rtol=0.05)


def test_logarithmic_axes_have_round_numbers() -> None:
    for low, high, labelled in (
        (1.0, 1.0, [1.0, 2.0]),
        (2.0, 40.0, [2.0, 5.0, 10.0, 20.0, 50.0]),
        (0.03, 700.0, [0.1, 1.0, 10.0, 100.0, 1000.0]),
        (1e-9, 1e9, [1e-9, 1e-5, 1e-1, 1e3, 1e7]),
    ):
        steps = round_numbers(low, high)
        assert steps[0] <= low <= high <= steps[-1]
        assert thinned(steps, 5) == pytest.approx(labelled)


KINDS: dict[str, Callable[[], Any]] = {
    "bars": lambda: drawn_table(4, 2),
    "one bar": lambda: drawn_table(1),
    "bars of many groups": lambda: drawn_table(3, 9),
    "bars down the page": lambda: drawn_table(100, 2),
    "dots": lambda: drawn_table(44, 2, ordered=True),
    "many dots": lambda: drawn_table(600, ordered=True, half=1.0),
    "dots of many groups": lambda: drawn_table(50, 9, ordered=True, half=1.0),
    "nothing but zeros": lambda: table_picture(
        "A title", Along("a", ["x", "y"]), lines([[0, 0]], 0.0), False, []
    ),
    "below zero": lambda: table_picture("A title", Along("a", ["x"]), lines([[-90]]), False, []),
    "around zero": lambda: table_picture(
        "A title", Along("a", ["x" * 20, "y"]), lines([[0, 0]] * 7, 0.8), False, []
    ),
    "errors": lambda: forest_picture([(f"table {i}", 1.0 + i) for i in range(20)], title="A title"),
    "no errors": lambda: forest_picture([("known", 0.0)], title="A title"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_valid_and_stays_inside(kind: str) -> None:
    picture = KINDS[kind]()
    root = parsed(picture)
    assert root.tag == f"{SVG}svg" and len(repr(picture)) < 500 and "A title" in texts(picture)
    loading = r"https?:[^\"]*|url\(|href|@import|<script|<image|nan|inf"
    assert re.findall(loading, picture._repr_svg_()) == [SVG.strip("{}")]
    wide, high = (float(root.get(name, "")) for name in ("width", "height"))
    assert all(-1 <= x <= wide + 1 and -1 <= y <= high + 1 for x, y in _placed(root, 0.0, 0.0))


def _placed(element: ElementTree.Element, x: float, y: float) -> Iterator[tuple[float, float]]:
    if moved := re.match(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
        x, y = x + float(moved[1]), y + float(moved[2])
    own = [(element.get(prefix + "x"), element.get(prefix + "y")) for prefix in ("", "c")]
    for left, top in [*own, *re.findall(r"M([\d.-]+) ([\d.-]+)", element.get("d", ""))]:
        if left is not None and top is not None:
            yield x + float(left), y + float(top)
    for child in element:
        yield from _placed(child, x, y)


@pytest.mark.parametrize(("size", "step"), [(400, 1), (401, 2), (100_000, 500), (262_800, 1000)])
def test_long_axes_are_thinned_to_a_round_step_and_keep_their_ends(size: int, step: int) -> None:
    picture = drawn_table(size, ordered=True)
    (dots,) = of_class(parsed(picture), "dots")[:1]
    assert found(dots, "M# #h0").shape[1] == len({*range(0, size, step), size - 1})
    thinned = f"every {step:,}{'nd' if step == 2 else 'th'}"
    assert any(text.startswith(thinned) for text in texts(picture)) == (step > 1)
    assert len(picture._repr_svg_()) < 100_000


def test_of_many_names_groups_and_tables_the_largest_are_drawn() -> None:
    names, groups = texts(drawn_table(100_000)), texts(drawn_table(50, 20, ordered=True))
    tables = texts(forest_picture([(f"table {i}", 1.0 + i) for i in range(100)]))
    assert [x for x in names if "county" in x] == [f"county {i}" for i in range(99_920, 100_000)]
    assert [x for x in groups if re.fullmatch(r"g\d+", x)] == [f"g{i}" for i in range(8, 20)]
    assert [x for x in tables if x[:6] == "table "] == [f"table {i}" for i in range(99, 59, -1)]
    assert "the 80 largest of 100,000 values of place" in names
    assert "the 12 largest of 20 groups" in groups
    assert "the 40 least accurate of 100 tables" in tables


def test_the_second_attribute_is_along_the_chart_where_it_is_too_long_for_colours() -> None:
    assert AGES.plot("sex", "age").drawing == AGES.plot("age", "sex").drawing


def test_ordered_texts_are_dots_with_as_many_labels_as_fit() -> None:
    picture = released({"pay": nz.Binned(range(0, 165, 10))}).plot("pay")
    assert len(of_class(parsed(picture), "dots")) == 1
    bins = [text for text in texts(picture) if text.startswith("[")]
    assert 3 <= len(bins) < 16 and bins[0] == "[0, 10)"


def test_a_long_note_and_many_names_take_several_lines() -> None:
    names = [f"the plan called number {i}" for i in range(7)]
    picture = Picture("t", ["word " * 60], drawn_table(1).drawing, names)
    assert sum(text.startswith("word") for text in texts(picture)) == 4
    assert len({key.get("cy") for key in of_class(parsed(picture), "point")}) == 3


# Names, and how they are written.
WRITTEN = {
    "</script><script>alert(1)</script>": "</script><script>alert(1)</script>",
    "esc\x1b[2J": "esc\\x1b[2J",
    'quoted\\"b': 'quoted\\"b',
    "\u2028line": "\\u2028line",
    "a\nb": "a\\nb",
    "<!-- ]]> <b>": "<!-- ]]> <b>",
    "'&amp;": "'&amp;",
    "right\u202eto left": "right\\u202eto left",
}


@pytest.mark.parametrize("place", range(0, len(WRITTEN), 2))
def test_hostile_names_and_labels_are_escaped(place: int, tmp_path: Path) -> None:
    one, other = list(WRITTEN)[place], list(WRITTEN)[place + 1]
    schema = nz.Schema(
        {
            one: nz.Categorical([f"{i}{text}" for i, text in enumerate(list(WRITTEN) * 4)]),
            other: nz.Categorical(list(WRITTEN)[:4]),
        }
    )
    plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.5))
    first = next(iter(WRITTEN))
    release = plan.release({one: [f"0{first}"] * 9, other: [first] * 9}, seed=1)
    compared = nz.compare({one: plan, other: plan})
    drawn = {
        (one,): [release.plot(one), plan.plot()],
        (other,): [release.plot(other)],
        (one, other): [release.plot(one, other), compared.plot()],
    }
    for names, picture in [(names, each) for names, some in drawn.items() for each in some]:
        told = "".join(texts(picture))
        assert told.isprintable()
        assert all(WRITTEN[name] in told for name in names)
        tags = {each.tag.removeprefix(SVG) for each in parsed(picture).iter()}
        assert tags <= {"svg", "style", "rect", "text", "g", "path", "circle"}
        page = picture.save(tmp_path / "page.html").read_text(encoding="utf-8")
        assert not re.search("<script|<!--|<b>|\x1b|\u2028|\u202e", page)


def test_files(tmp_path: Path) -> None:
    picture = drawn_table(4, 2)
    svg = picture.save(tmp_path / "a.svg")
    assert ElementTree.parse(svg).getroot().tag == f"{SVG}svg"
    page = picture.save(f"{tmp_path}/a.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and picture._repr_svg_() in page
    assert "default-src 'none'" in page
    for name in ("a.png", "a.pdf", "a"):
        with pytest.raises(ChartError, match=r"must be \.svg or \.html.*open the \.svg in a brows"):
            picture.save(tmp_path / name)
    with pytest.raises(StorageError, match="there is no folder"):
        picture.save(tmp_path / "missing" / "a.svg")


def test_what_cannot_be_drawn() -> None:
    for error in (math.nan, math.inf, -1.0):
        with pytest.raises(ChartError, match=r"'age' is .*must be finite"):
            forest_picture([("age", error)])
    with pytest.raises(ChartError, match="no table to draw"):
        forest_picture([])
    with pytest.raises(ChartError, match="cell 'x' 'g0': a number of it is not finite"):
        table_picture("t", Along("a", ["x"]), lines([[math.inf]]), False, [])
    for attributes in ((), ("age", "sex", "x")):
        with pytest.raises(nz.NoiseplanError, match="one or two attributes"):
            AGES.plot(*attributes)


def test_a_picture_says_that_records_are_left_out_and_that_it_is_not_for_publishing() -> None:
    schema = nz.Schema.from_sizes({"a": 3})
    plan = nz.plan(nz.Query(schema, ["a"]), budget=nz.zCDP(0.1), max_rows=2)
    made = plan.release({"id": [1, 1, 1, 2], "a": [0, 1, 2, 2]}, person="id", seed=1).plot("a")
    assert made.notes[1].startswith("Of each person at most 2")
    assert "NOT PRIVATE" in made.notes[-1]
