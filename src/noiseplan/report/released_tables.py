"""The released tables of a page: every row with its interval, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.draw.html import Column, Markup, element, joined, table
from noiseplan.draw.svg import SERIES, Line, error_bars, interval_bar
from noiseplan.queries.level_parts import level_parts
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.queries import Query
    from noiseplan.release.answer import Answer
    from noiseplan.release.release import Release

# Beyond these a page helps nobody; what is left out is said, with the command that shows it.
MOST_TABLES = 300
MOST_ROWS = 200  # of one table
MOST_ROWS_IN_ALL = 10_000
LARGEST = 200_000  # rows of a table that is worth computing for its first ones
FIRST_ROWS = 60  # of the table that is open from the start
CHART_LABELS = range(8, 151)  # along an attribute


def released_tables(release: Release, level: float) -> Markup:
    """One block per table that opens on demand, and a field to search them."""
    workload = release.plan.workload
    count = min(len(workload), MOST_TABLES)
    blocks = list(_blocks(release, count, level))
    note: Markup | str = ""
    if count < len(workload):
        note = element(
            "p",
            f"The first {count:,} of {len(workload):,} tables are shown; noiseplan answer prints "
            f"any of them.",
            class_="muted",
        )
    return joined([_tools(count), note, *blocks])


def _tools(count: int) -> Markup:
    search = element("label", "Search ", Markup('<input type="search" aria-controls="released">'))
    return element(
        "div",
        search,
        element("button", "Open or close all", type="button"),
        element("output", f"{count} tables", role="status", class_="muted"),
        class_="tools no-script-hidden",
    )


def _blocks(release: Release, count: int, level: float) -> Iterator[Markup]:
    left, opened = MOST_ROWS_IN_ALL, False
    asked = (release.plan.workload.query(position) for position in range(count))
    for whole, query in ((q, part.query) for q in asked for part in level_parts(q)):
        rows = counted(query.rows, "row")
        if query.rows > LARGEST or left <= 0:
            yield _closed(query, rows, _elsewhere(whole, "too large for this page"))
            continue
        answer = release.answer(query, level=level)
        shown = min(query.rows, MOST_ROWS, left)
        left -= shown
        picture = _picture(answer)
        content = [picture, _rows(answer, shown)]
        if shown < query.rows:
            content.append(_elsewhere(whole, f"the first {shown:,} rows are shown"))
        first = bool(picture) and query.rows <= FIRST_ROWS and not opened
        opened = opened or first  # one small table stands open, to show what there is
        yield _closed(
            query, f"{rows}, {answer.error_name} {answer.typical_error:.3g}", *content, opened=first
        )


def _closed(query: Query, facts: str, *content: object, opened: bool = False) -> Markup:
    summary = element("summary", query.name, " ", element("span", facts, class_="muted"))
    return element(
        "details", summary, *content, class_="released", data_name=query.name, open=opened
    )


def _elsewhere(query: Query, why: str) -> Markup:
    command = element("code", f'noiseplan answer RELEASE "{query.name}" --csv')
    said = f"{query.rows:,} rows: {why}. All of them: the files in tables/, or "
    return element("p", said, command, class_="muted")


def _rows(answer: Answer, shown: int) -> Markup:
    """The cells, the estimate, half the interval, and the picture of both."""
    query = answer.query
    labels = query.row_labels()
    low, value, high = answer.lower, answer.estimate, answer.upper
    ends = (float(min(0.0, low.min())), float(max(0.0, high.max())))
    names = list(labels) or ["all"]
    columns = [*map(Column, names), Column("estimate", number=True), Column("±", number=True)]
    columns.append(Column("interval", hidden=True))
    rows = []
    for i in range(shown):
        cells = [values[i] for values in labels.values()] or ["all"]
        half = float(high[i] - value[i])
        bar = interval_bar(float(low[i]), float(value[i]), float(high[i]), ends)
        rows.append([*cells, _number(float(value[i]), half), _half(half), bar])
    caption = (
        f"{query.name}: estimate ± half the {100 * answer.level:g} % interval, which covers "
        f"{answer.covers}"
    )
    return table(caption, columns, rows)


def _number(value: float, half: float) -> str:
    """As many decimals as the interval leaves meaning to."""
    places = 0 if half >= 2 or (half == 0 and value == round(value)) else 1 if half >= 0.2 else 3
    return f"{value:,.{places}f}"


def _half(half: float) -> str:
    return f"{half:,.0f}" if half >= 10 else f"{half:.2g}"


def _picture(answer: Answer) -> Markup | str:
    """A chart along the longest attribute, where the table has a shape that can be drawn."""
    query = answer.query
    if query.joint is not None or not query.shape:
        return ""
    axis = int(np.argmax(query.shape))
    length, series = query.shape[axis], query.rows // query.shape[axis]
    if length not in CHART_LABELS or series > SERIES:
        return ""
    name = query.headings[axis]
    per_axis = [list(dict.fromkeys(values)) for values in query.row_labels().values()]
    if len(per_axis[axis]) != length:  # two rows of one label
        return ""
    drawn = []
    others = [labels for i, labels in enumerate(per_axis) if i != axis]
    cubes = [
        np.moveaxis(numbers.reshape(query.shape), axis, -1).reshape(series, length)
        for numbers in (answer.lower, answer.estimate, answer.upper)
    ]
    for i in range(series):
        position = np.unravel_index(i, [len(labels) for labels in others]) if others else ()
        title = ", ".join(str(labels[p]) for labels, p in zip(others, position, strict=True))
        drawn.append(Line(title, *(cube[i].tolist() for cube in cubes)))
    return error_bars(f"{query.name}, along {name}", [str(v) for v in per_axis[axis]], drawn)
