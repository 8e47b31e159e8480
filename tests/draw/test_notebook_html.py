"""What notebooks show: the printed facts, complete, escaped, with nothing loaded from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import noiseplan as nz
from browsers import chromium

HOSTILE = "<script>alert('1')</script>"
TURNED = "abc\u202edef"  # turns the direction of what follows
# What may stand in an output: structure, text, and small pictures.
ALLOWED = {
    "div", "style", "p", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td",
    "svg", "rect", "line", "br", "pre",
}  # fmt: skip


class Read(HTMLParser):
    """The tags of an output, their attributes, and its text without the style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.tags[-1] != "style" or "{" not in data:
            self.text += data
        if self.tags[-1] in {"th", "td"}:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def schema() -> nz.Schema:
    return nz.Schema(
        {
            HOSTILE: nz.Categorical(["a&b", HOSTILE, TURNED]),
            "age": nz.Ordinal(range(30)),
            "pay": nz.Binned([0, 10, 20, 40]),
        }
    )


@pytest.fixture(scope="module")
def workload(schema: nz.Schema) -> nz.Workload:
    below = nz.Query(schema, {"age": nz.Prefix()}, name=f"up to each {HOSTILE}", weight=2.0)
    return nz.Workload.marginals(schema, up_to=2) + below


@pytest.fixture(scope="module")
def plan(workload: nz.Workload) -> nz.Plan:
    return nz.plan(workload, budget=nz.zCDP(0.5))


@pytest.fixture(scope="module")
def data() -> dict[str, object]:
    draw = np.random.default_rng(5)
    kinds = np.array(["a&b", HOSTILE, TURNED])
    return {
        HOSTILE: kinds[draw.integers(0, 3, 900)],
        "age": draw.integers(0, 30, 900),
        "pay": draw.uniform(0, 40, 900),
    }


@pytest.fixture(scope="module")
def release(plan: nz.Plan, data: dict[str, object]) -> nz.Release:
    return plan.release(data)


@pytest.fixture(scope="module")
def outputs(
    schema: nz.Schema, workload: nz.Workload, plan: nz.Plan, release: nz.Release
) -> dict[str, str]:
    """Of every kind of thing that shows itself, what it shows."""
    planners = {HOSTILE: "residual", "plain": "residual+"}
    made = {n: nz.plan(workload, budget=nz.zCDP(0.5), planner=p) for n, p in planners.items()}
    line = nz.Schema.from_sizes({"age": 64})
    aware = nz.plan(
        nz.Workload([nz.Query(line, {"age": nz.Prefix()})]), budget=nz.PureDP(1.0), planner="dawa"
    )
    shown = {
        "schema": schema,
        "workload": workload,
        "plan": plan,
        "release": release,
        "answer": release.answer(nz.Query(schema, [HOSTILE])),
        "statistic": release.median("age"),
        "comparison": nz.compare(made),
        "data-aware plan": aware,
        "data-aware release": aware.release({"age": [1, 2, 2, 40] * 50}, seed=1),
    }
    return {name: thing._repr_html_() for name, thing in shown.items()}


KINDS = [
    "schema", "workload", "plan", "release", "answer", "statistic", "comparison",
    "data-aware plan", "data-aware release",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_runs_and_nothing_is_loaded(outputs: dict[str, str], kind: str) -> None:
    read = Read(outputs[kind])
    assert set(read.tags) <= ALLOWED
    assert not {name for name in read.attributes if name.startswith("on")}
    assert not read.attributes & {"href", "src", "style"}
    assert "http" not in outputs[kind]
    assert "url(" not in outputs[kind]
    assert "\u202e" not in outputs[kind]


@pytest.mark.parametrize("kind", ["schema", "workload", "plan", "release", "answer", "comparison"])
def test_hostile_names_are_shown_as_they_are(outputs: dict[str, str], kind: str) -> None:
    assert "alert('1')" in Read(outputs[kind]).text.replace("\\'", "'")


def test_rules_of_style_are_about_the_output_alone(outputs: dict[str, str]) -> None:
    style = re.search(r"<style>(.*?)</style>", outputs["plan"], re.DOTALL)
    assert style is not None
    selectors = re.findall(r"([^{}]+)\{", style[1])
    assert len(selectors) > 10
    for selector in selectors:
        assert all(part.strip().startswith(".nz") for part in selector.split(","))


def test_every_kind_of_shape_has_a_colour(outputs: dict[str, str]) -> None:
    """A shape without a rule is black, on a dark page too."""
    style = re.search(r"<style>(.*?)</style>", outputs["plan"], re.DOTALL)
    assert style is not None
    rules = dict(re.findall(r"svg \.(\w+) \{ (fill|stroke):", style[1]))
    shapes = set(re.findall(r'<(rect|line) class="(\w+)"', "".join(outputs.values())))
    assert {kind for _, kind in shapes} == {"fill", "est", "ci", "zero", "dot"}
    for tag, kind in shapes:
        assert rules.get(kind) == {"rect": "fill", "line": "stroke"}[tag], kind


# Of every rectangle: class, colour and opacity; and the paper that it stands on.
PAINTED = """() => [getComputedStyle(document.body).backgroundColor,
  [...document.querySelectorAll(".nz rect")].map((shape) => {
    const style = getComputedStyle(shape);
    return [shape.getAttribute("class"), style.fill, Number(style.opacity)]; })]"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_stand_out_in_light_and_dark(outputs: dict[str, str], scheme: str) -> None:
    def channels(colour: str) -> np.ndarray:
        return np.array(list(map(float, re.findall(r"[\d.]+", colour)))[:3]) / 255

    def luminance(colour: np.ndarray) -> float:
        linear = np.where(colour <= 0.04, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def contrast(one: np.ndarray, other: np.ndarray) -> float:
        low, high = sorted([luminance(one), luminance(other)])
        return (high + 0.05) / (low + 0.05)

    page = f"<meta name=color-scheme content='light dark'><body>{''.join(outputs.values())}"
    with chromium() as browser:
        opened = browser.new_page(color_scheme=scheme)
        opened.set_content(page.replace("<body>", "<body style='background: Canvas'>"))
        ground, shapes = opened.evaluate(PAINTED)
    paper = channels(ground)
    assert (luminance(paper) > 0.5) == (scheme == "light")
    found = {}
    for kind, fill, opacity in shapes:
        found[kind] = opacity * channels(fill) + (1 - opacity) * paper
        assert channels(fill).any(), f"{kind} is black"
        assert contrast(found[kind], paper) > 1.3, kind
    assert set(found) == {"fill", "est", "ci"}
    assert contrast(found["ci"], found["est"]) > 1.1


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_plan_shows_what_it_prints(plan: nz.Plan, outputs: dict[str, str]) -> None:
    read = Read(outputs["plan"])
    head, *facts = str(plan).split("\n\n")[0].splitlines()
    assert head in read.text
    for line in facts:
        fact = words(line.removeprefix("  ")[12:] if line[2] != " " else line)
        assert fact in words(read.text), fact
    errors = {row[0]: row[2] for row in read.rows[1:]}
    assert len(errors) == len(plan.fairness())
    for kind in plan.fairness():
        alike = f" and {kind['tables'] - 1} alike" if kind["tables"] > 1 else ""
        name = kind["table"] + alike
        assert errors[name] == f"{kind['std_error']:.4g}"
    assert list(map(float, errors.values())) == sorted(map(float, errors.values()), reverse=True)


def test_bars_are_as_long_as_the_errors(plan: nz.Plan, outputs: dict[str, str]) -> None:
    widths = list(map(float, re.findall(r'class="fill"[^>]* width="([\d.]+)"', outputs["plan"])))
    errors = [kind["std_error"] for kind in plan.fairness()]
    assert widths == pytest.approx([100 * error / max(errors) for error in errors], abs=0.01)


def test_an_answer_shows_its_rows_and_how_to_read_them(
    release: nz.Release, outputs: dict[str, str]
) -> None:
    answer = release.answer(nz.Query(release.schema, [HOSTILE]))
    read = Read(outputs["answer"])
    assert len(read.rows) == 1 + 3
    for row, estimate, error in zip(read.rows[1:], answer.estimate, answer.std_error, strict=True):
        assert row[1] == f"{estimate:,.1f}"
        assert row[2] == f"{error:,.1f}"
    assert outputs["answer"].count('class="ci"') == 3
    assert "95% pointwise intervals, covering noise only" in read.text


def test_long_answers_say_how_many_rows_are_left_out(release: nz.Release) -> None:
    read = Read(release.answer("age")._repr_html_())
    assert len(read.rows) == 1 + 20
    assert "… 10 more rows" in read.text


def test_a_release_that_protects_nobody_says_so_first(
    plan: nz.Plan, release: nz.Release, data: dict[str, object]
) -> None:
    seeded = plan.release(data, seed=3)
    assert 'class="warn"' in seeded._repr_html_()
    assert "NOT PRIVATE" in Read(seeded.answer("age")._repr_html_()).text
    assert 'class="warn"' not in release._repr_html_()


def test_texts_in_intervals_have_no_picture() -> None:
    """The ends of a median of words are words."""
    schema = nz.Schema({"size": nz.Ordinal(["small", "middle", "large"])})
    made = nz.from_noisy_tables(schema, [nz.NoisyTable(["size"], [70.0, 20.0, 40.0], 4.0)])
    shown = made.median("size")._repr_html_()
    assert "small" in shown
    assert "<svg" not in shown


def test_what_is_interpolated_in_bins_is_called_so() -> None:
    schema = nz.Schema({"pay": nz.Binned([0, 10, 20, 30])})
    made = nz.from_noisy_tables(schema, [nz.NoisyTable(["pay"], [70.0, 200.0, 40.0], 4.0)])
    shown = made.median("pay")._repr_html_()
    assert Read(shown).rows == [
        ["lower", "upper", "interpolated", ""],
        ["10", "20", "14", ""],
    ]
    assert "covering noise and any place inside bins" in shown and "<svg" in shown


def test_a_workload_says_what_is_asked(workload: nz.Workload, outputs: dict[str, str]) -> None:
    rows = Read(outputs["workload"]).rows[1:]
    asked = {row[0]: row[1:] for row in rows}
    assert asked["total"] == ["all records", "1", "1"]
    assert asked["age × pay"] == ["age: each value, pay: each value", "90", "1"]
    assert asked[f"up to each {HOSTILE}"] == ["age: prefix", "30", "2"]
    assert len(rows) == len(workload)
