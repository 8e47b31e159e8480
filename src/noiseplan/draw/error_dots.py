"""Expected errors as dots on lines: of every table of a plan, and of several plans side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from noiseplan.draw.picture import PALETTE, PIXELS, ChartError, Picture, letters, shown
from noiseplan.draw.svg import Drawing, Scale, label, round_numbers, short, thinned, ticks
from noiseplan.escaping import visible_name
from noiseplan.texts import shortened
from noiseplan.words.level_errors import level_errors
from noiseplan.words.plan import kind_name

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

WIDTH, STEP, GAP = 380, 18, 6  # pixels between names and numbers, of a dot, between groups
LETTERS: Final = 44  # of a name
MOST_ROWS: Final = 40  # lines before a picture stops helping
MOST_QUERIES: Final = 12  # of a comparison; then one line for all
WIDE: Final = 20.0  # ratio of largest to smallest above which an axis is logarithmic
EVERYTHING: Final = "all rows"


class Mark(NamedTuple):
    """A number on its line from `low` to `high`, with its colour; hollow where simulated."""

    value: float
    low: float
    high: float
    text: str
    series: int = 0
    hollow: bool = False


class ForestRow(NamedTuple):
    """Expected standard error of one table: over all its cells, and of its best and worst cell."""

    table: str
    std_error: float
    smallest: float | None = None
    largest: float | None = None


def forest_picture(
    rows: Sequence[ForestRow | tuple[str, float]],
    *,
    title: str = "Expected standard error of each table",
    unit: str = "records",
    ordered: bool = False,
) -> Picture:
    """Draw expected errors of tables, the least accurate first unless they are `ordered`."""
    tables = [(str(row[0]), _mark(ForestRow(*row))) for row in rows]
    if not ordered:
        tables.sort(key=lambda table: -table[1].value)
    if not tables:
        raise ChartError("no table to draw: give at least one row of (name, standard error)")
    notes = ["from the plan alone: no data was read"]
    if any(mark.high > mark.low for _, mark in tables):
        notes.append("dot: root mean square over the cells; line: most to least accurate cell")
    if len(tables) > MOST_ROWS:
        which = "first" if ordered else "least accurate"
        notes.append(f"the {MOST_ROWS} {which} of {len(tables)} tables")
    groups = [(name, [mark]) for name, mark in tables[:MOST_ROWS]]
    return Picture(title, notes, dot_rows(groups, f"standard error ({unit})"))


def plan_chart(plan: Plan, path: str | PathLike[str] | None = None) -> Any:
    """Draw the expected standard error of every kind of table, or of every level."""
    if by_level := level_errors(plan):
        levels = [ForestRow(f"{each.level}: {each.table}", *each[2:]) for each in by_level]
        title = "Expected standard error by level"
        return shown(forest_picture(levels, title=title, ordered=True), path)
    rows = [ForestRow(kind_name(kind), kind["std_error"]) for kind in plan.fairness()]
    return shown(forest_picture(rows), path)


def comparison_picture(
    plans: Mapping[str, Sequence[Any]], queries: Mapping[str, Sequence[Any]], runs: int
) -> Picture:
    """Draw the errors of plans from the columns of a comparison by plan and by query."""
    names = list(plans["plan"])
    if not names:
        raise ChartError("no plan to draw: compare at least one")
    if len(names) > len(PALETTE):
        raise ChartError(
            f"{len(names)} plans are more than there are colours; compare at most {len(PALETTE)} "
            f"in one picture"
        )
    notes = ["root mean square error over the rows of a query"]
    if any(plans["simulated"]):
        notes.append(f"hollow: simulated in {runs} runs, bars of 2 Monte Carlo standard errors")
    groups = {EVERYTHING: [_simulated(plans, i, names) for i in range(len(names))]}
    if 1 < len(set(queries["query"])) <= MOST_QUERIES:
        for i, query in enumerate(queries["query"]):
            groups.setdefault(f"{query}", []).append(_simulated(queries, i, names))
    drawing = dot_rows(list(groups.items()), "root mean square error (records)")
    return Picture("Expected error of each plan", notes, drawing, names)


def dot_rows(groups: Sequence[tuple[str, Sequence[Mark]]], title: str) -> Drawing:
    """Draw marks in groups down the page: names left, numbers right, the axis below."""
    names = [shortened(visible_name(name), LETTERS) for name, _ in groups]
    marks = [mark for _, each in groups for mark in each]
    left = PIXELS * max(map(letters, names)) + 12
    across, steps = _axis(marks, left)
    right = left + WIDTH + 14
    bottom = sum(len(each) * STEP + GAP for _, each in groups)
    parts = []
    for step in steps:
        parts.append(f'<path class="axis" d="M{across.at(step):.1f} 0V{bottom + 4}"/>')
        parts.append(label(across.at(step), bottom + 20, _tick(step), "middle"))
    y = 0.0
    for name, (_, each) in zip(names, groups, strict=True):
        high = len(each) * STEP + GAP
        parts.append(label(left - 12, y + high / 2 + 4.5, name, "end"))
        for i, mark in enumerate(each):
            parts += _drawn(mark, across, y + GAP / 2 + (i + 0.5) * STEP, right)
        y += high
    ending = ", logarithmic" if across.log else ""
    parts.append(label(left + WIDTH / 2, bottom + 42, title + ending, "middle"))
    width = right + PIXELS * max(letters(mark.text) for mark in marks)
    return Drawing("".join(parts), width, bottom + 48)


def _drawn(mark: Mark, across: Scale, y: float, right: float) -> list[str]:
    low, value, high = (across.at(max(x, across.low)) for x in (mark.low, mark.value, mark.high))
    kind = "hollow" if mark.hollow else "point"
    return [
        f'<path class="axis" d="M{across.start:.1f} {y:.1f}H{across.stop:.1f}"/>',
        f'<path class="err s{mark.series}" d="M{low:.1f} {y:.1f}H{high:.1f}"/>',
        f'<circle class="s{mark.series} {kind}" cx="{value:.1f}" cy="{y:.1f}" r="4.5"/>',
        label(right, y + 4.5, mark.text, "start"),
    ]


def _axis(marks: Sequence[Mark], left: float) -> tuple[Scale, list[float]]:
    """Return an axis from 0, or logarithmic where the numbers differ by much, and its labels."""
    least, high = min(mark.value for mark in marks), max(mark.high for mark in marks)
    if least > 0 and high / least > WIDE:
        steps = round_numbers(min(mark.low for mark in marks if mark.low > 0), high)
        return Scale(steps[0], steps[-1], left, left + WIDTH, log=True), thinned(steps, 8)
    steps = ticks(0.0, high or 1.0, most=6)
    if steps[-1] < high:
        steps.append(steps[-1] + steps[1])
    return Scale(0.0, steps[-1], left, left + WIDTH), steps


def _tick(value: float) -> str:
    return f"{value:.3g}" if value < 1 else short(value)


def _mark(row: ForestRow) -> Mark:
    table, error, smallest, largest = row
    low, high = (float(error if end is None else end) for end in (smallest, largest))
    if not all(math.isfinite(value) and value >= 0 for value in (low, error, high)):
        found = f"{error}" if smallest is None else f"{error} ({smallest} to {largest})"
        raise ChartError(f"standard error of {table!r} is {found}: it must be finite and ≥ 0")
    text = _three(error) if low == high else f"{_three(error)} ({_three(low)} to {_three(high)})"
    return Mark(float(error), low, high, text)


def _three(value: float) -> str:
    """Write three significant digits, or all of the whole part: 0.0123, 4.5, 1,860."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _simulated(columns: Mapping[str, Sequence[Any]], i: int, names: Sequence[str]) -> Mark:
    value, reach = float(columns["rmse"][i]), 2 * float(columns["rmse_error"][i])
    series, hollow = names.index(columns["plan"][i]), bool(columns["simulated"][i])
    return Mark(value, max(value - reach, 0.0), value + reach, _three(value), series, hollow)
