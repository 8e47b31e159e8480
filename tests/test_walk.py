"""The walk of one marginal through the code, as docs/design.md draws it, taken for real.

Every function named in the picture must be crossed at its station, in the order drawn. How many
functions and modules the whole walk crosses may only become fewer.

The picture is drawn from here: `python tests/test_walk.py --write`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks` is not installed

from benchmarks.walk import Walk, functions, modules, walked  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "walk.svg"
# What the walk crosses: lower these where it crosses less.
MOST_FUNCTIONS = 510
MOST_MODULES = 77

PUBLIC, PRIVATE, AFTER = "#2b6cb0", "#b7791f", "#2f855a"


@dataclass(frozen=True)
class Step:
    """A function crossed, and what it is there for; `several`: only if people have many records."""

    name: str
    what: str
    several: bool = False


@dataclass(frozen=True)
class Station:
    """A call of a user, with what is crossed on the way."""

    name: str
    call: str
    colour: str
    steps: tuple[Step, ...]


WALK = (
    Station(
        "Schema",
        "schema = nz.Schema({…})",
        PUBLIC,
        (Step("schema.schema:Schema.__init__", "attributes and their values, declared"),),
    ),
    Station(
        "Workload.marginals",
        "workload = nz.Workload.marginals(schema, k=2)",
        PUBLIC,
        (
            Step("queries.families:WorkloadMakers.marginals", "every table of two attributes"),
            Step("queries.workload:Workload.from_columns", "kept as columns of numbers"),
        ),
    ),
    Station(
        "plan",
        "plan = nz.plan(workload, budget=nz.zCDP(0.5))",
        PUBLIC,
        (
            Step("planning.planner:plan", "the arguments become a Problem"),
            Step("planning.problem:Problem.check", "what makes no sense is refused"),
            Step("planning.reductions:Persons.forward", "a reduction: one record each", True),
            Step("planning.planners.automatic:solve", "the planner that is asked for"),
            Step("planning.workload_types:prepare", "what is asked, by types of queries"),
            Step("planning.planners.residual_family:planned", "a split, and σ² of every set"),
            Step("planning.planners.residual_family:made", "a mechanism: the Candidate"),
            Step("planning.reductions:Persons.back", "the way back: a person's price", True),
            Step("planning.finish:finish", "the gate: here a Plan is made"),
            Step("planning.finish:require_sound", "within budget, all answerable"),
        ),
    ),
    Station(
        "release",
        "release = plan.release(data)",
        PRIVATE,
        (
            Step("planning.plan:Plan.release", "a method that leads to a room above"),
            Step("_doors:through", "the door"),
            Step("release.release:make_release", "the order of what follows"),
            Step("release.open_data:Admission.of", "open: leave, before a record is read"),
            Step("mechanisms.price:require_price", "the price covers what is measured"),
            Step("mechanisms.price:probed_cost", "found again by experiment"),
            Step("release.ledger_charge:Account.ask", "the ledger admits it"),
            Step("counting.source:open_source", "the data, wherever they live"),
            Step("counting.counted_tables:count_tables", "count: every record is checked"),
            Step("release.ledger_charge:Account.charged", "charge: on record from here on"),
            Step("mechanisms.residual:ResidualMechanism.measure", "measure: table by table"),
            Step("mechanisms.exact_residuals:noisy_residuals", "Ux + z, in integers"),
            Step("noise.law:Noise.draw", "z, drawn exactly"),
            Step("release.provenance:Provenance.of", "where the noise came from"),
        ),
    ),
    Station(
        "table",
        'release.table("age", "sex")',
        AFTER,
        (
            Step("release.answers:Tables.table", "what all that answers has"),
            Step("release.answers:Answers.columns", "names to a query"),
            Step("release.release:Release.answer", "estimates, errors, intervals"),
            Step("mechanisms.residual:ResidualMechanism.answer", "from the noisy numbers alone"),
            Step("mechanisms.residual_errors:row_variances", "the exact variance of every row"),
            Step("release.answers:tidy_frame", "a data frame"),
        ),
    ),
    Station(
        "save",
        'release.save("out")',
        AFTER,
        (
            Step("_doors:through", "the door"),
            Step("storage.folder:save", "whole, or not at all"),
            Step("mechanisms.residual:ResidualMechanism.parts", "the mechanism, bit for bit"),
            Step("storage.certificate:certificate", "what was promised and spent"),
            Step("storage.table_files:write_tables", "CSV and Parquet"),
        ),
    ),
    Station(
        "load",
        'again = nz.load("out")',
        AFTER,
        (
            Step("storage.folder:load", "without the data"),
            Step("storage.folder:_check_files", "every file has its hash"),
            Step("storage.plans:read_plan", "nothing is planned again"),
            Step("storage.plans:read_mechanism", "by its kind, through from_parts"),
            Step("mechanisms.price:require_price", "its price is not taken on trust"),
            Step("release.provenance:Provenance.read", "private only if known to be"),
        ),
    ),
    Station(
        "answer",
        'again.answer(nz.Query(schema, ["age"]))',
        AFTER,
        (
            Step("release.release:Release.answer", "any query in the span"),
            Step("mechanisms.residual:ResidualMechanism.answer", "at no further cost"),
            Step("mechanisms.residual_errors:row_variances", "with its exact error"),
        ),
    ),
)


def taken(max_rows: int = 1) -> Walk:
    return _taken(max_rows)


@cache  # which takes `taken()` and `taken(1)` for two walks
def _taken(max_rows: int) -> Walk:
    return walked(max_rows)


def left_out(named: Iterable[str], crossed: Sequence[str]) -> str | None:
    """The first name that does not follow those before it among what was crossed."""
    place = 0
    for name in named:
        try:
            place = crossed.index(name, place) + 1
        except ValueError:
            return name
    return None


def test_every_function_in_the_picture_is_crossed_in_that_order() -> None:
    assert [station.name for station in WALK] == list(taken())
    for max_rows in (1, 2):
        for station in WALK:
            named = [step.name for step in station.steps if max_rows > 1 or not step.several]
            missing = left_out(named, taken(max_rows)[station.name])
            assert missing is None, f"{station.call} does not cross {missing} where it is drawn"


def test_reductions_are_crossed_only_where_they_are_needed() -> None:
    for station in WALK:
        several = {step.name for step in station.steps if step.several}
        assert several.isdisjoint(taken()[station.name])


def test_the_walk_crosses_no_more_than_it_did() -> None:
    walk = taken()
    found = len(functions(walk)), len(modules(walk))
    assert found[0] <= MOST_FUNCTIONS, f"{found[0]} functions are crossed"
    assert found[1] <= MOST_MODULES, f"{found[1]} modules are crossed"


def test_only_planning_plans() -> None:
    """Loading and answering run no planner, and prepare no workload."""
    walk = taken()
    for station in ("release", "table", "save", "load", "answer"):
        planned = {name for name in walk[station] if name.startswith("planning.planners.")}
        assert not planned, f"{station} plans again"
        assert "planning.workload_types:prepare" not in walk[station]


def test_noise_is_drawn_and_data_are_counted_only_by_a_release() -> None:
    for station, crossed in taken().items():
        rooms = {name.partition(".")[0] for name in crossed}
        assert ("counting" in rooms) == (station == "release"), station
        assert ("noise.law:Noise.draw" in crossed) == (station == "release"), station


def test_the_check_would_notice() -> None:
    assert left_out(["a", "b"], ["a", "x", "b"]) is None
    assert left_out(["b", "a"], ["a", "x", "b"]) == "a"
    assert left_out(["a", "a"], ["a"]) == "a"
    assert left_out(["c"], ["a"]) == "c"


# ---------------------------------------------------------------------- the picture

WIDE, LINE, HEAD, GAP, LEFT = 860, 21, 34, 26, 16
MODULE, FUNCTION, WHAT = LEFT + 14, LEFT + 292, LEFT + 538
CODE = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
CALL, NAME = (CODE, 15), (CODE, 12)
PLAIN = ("system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif", 13)
LEGEND = ((PUBLIC, "public"), (PRIVATE, "reads data"), (AFTER, "from noisy numbers alone"))


def drawing() -> str:
    """The walk as SVG: a card for each call, a line for each function."""
    pieces, top = [_legend()], 44
    for station in WALK:
        tall = HEAD + LINE * len(station.steps) + 8
        if station is not WALK[0]:
            pieces.append(_arrow(top - GAP, top))
        pieces += _card(station, top, tall)
        top += tall + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{top}" '
        f'viewBox="0 0 {WIDE} {top}"><title>One marginal through the code</title>'
        f'<rect width="{WIDE}" height="{top}" fill="white"/>'
    )
    return "\n".join([head, *pieces, "</svg>"]) + "\n"


def _card(station: Station, top: int, tall: int) -> Iterable[str]:
    yield (
        f'<rect x="{LEFT}" y="{top}" width="{WIDE - 2 * LEFT}" height="{tall}" rx="6" '
        f'fill="{station.colour}" fill-opacity="0.06" stroke="{station.colour}"/>'
    )
    yield _text(LEFT + 14, top + 22, station.call, CALL, station.colour)
    for number, step in enumerate(station.steps):
        y = top + HEAD + LINE * number + 13
        module, _, function = step.name.partition(":")
        ink = "#8795a9" if step.several else "#1a202c"
        what = f"{step.what} *" if step.several else step.what
        yield _text(MODULE, y, module.replace(".", "/") + ".py", NAME, "#718096")
        yield _text(FUNCTION, y, function, NAME, ink)
        yield _text(WHAT, y, what, PLAIN, ink)


def _legend() -> str:
    pieces = [
        f'<circle cx="{LEFT + 8 + 110 * i}" cy="22" r="6" fill="{colour}"/>'
        + _text(LEFT + 20 + 110 * i, 26, word, PLAIN, "#1a202c")
        for i, (colour, word) in enumerate(LEGEND)
    ]
    note = "* only where a person may have several records"
    return "\n".join([*pieces, _text(WHAT, 26, note, PLAIN, "#8795a9")])


def _arrow(start: int, end: int) -> str:
    middle = LEFT + 30
    return (
        f'<path d="M{middle},{start} V{end - 2} m-5,-6 l5,6 l5,-6" fill="none" '
        f'stroke="#718096" stroke-width="1.5"/>'
    )


def _text(x: int, y: int, words: str, font: tuple[str, int], ink: str) -> str:
    family, size = font
    return (
        f'<text x="{x}" y="{y}" font-family="{family}" font-size="{size}" fill="{ink}">'
        f"{escape(words)}</text>"
    )


def test_the_picture_is_drawn_from_here() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawing(), "python tests/test_walk.py --write"


if __name__ == "__main__" and "--write" in sys.argv:
    PICTURE.write_text(drawing(), encoding="utf-8")
