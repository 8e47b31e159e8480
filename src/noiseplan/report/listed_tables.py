"""One table of a page: a line for each number with its error, and a chart where one helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from noiseplan.draw.html import Column, Markup, element, table
from noiseplan.draw.svg import interval_bar, short
from noiseplan.draw.table_svg import Along, Line, table_picture
from noiseplan.matrices.base import Array
from noiseplan.report.table_cells import Axis, Cells, Digits, relative

LONG: Final = 24  # lines from which a list scrolls by itself
PERCENT: Final = "% is ± of the number, – where the interval includes 0"
# Fewer values along an ordered attribute than this are bars; more than the other crowd a page.
FEW: Final = 8
MOST_ALONG: Final = 200


def listed_table(cells: Cells, shown: int) -> Markup:
    """The cells, the number, half the interval, the same in percent, and the picture of both."""
    value, low, high, half = (x.ravel() for x in (cells.value, cells.low, cells.high, cells.half))
    digits = Digits.fitting(half, value)
    errors = [digits.error(float(x)) for x in half[:shown]]
    once = len(set(errors)) == 1 and shown > 1
    labels = _labels(cells)[:shown]
    ends = _ends(low[:shown], value[:shown], high[:shown])
    rows = []
    for i, (cell, error) in enumerate(zip(labels, errors, strict=True)):
        number, own = float(value[i]), [] if once else [error]
        bar = interval_bar(float(low[i]), number, float(high[i]), ends)
        percent = relative(number, float(half[i]))
        rows.append([*cell, digits.number(number), *own, percent, bar])
    said = f"{'' if not once else f' {errors[0]},'} half {cells.reading}"
    what = "valid; the unbiased estimate has" if cells.valid else "estimate"
    title = ", ".join(filter(None, [cells.name, cells.fixed]))
    caption = f"{title}: {what} ±{said}; {PERCENT}"
    return table(caption, _columns(cells, once, ends), rows, long=shown >= LONG)


def _columns(cells: Cells, once: bool, ends: tuple[float, float]) -> list[Column]:
    names = [axis.name for axis in cells.axes] or ["all"]
    scale = element(
        "span", *(element("span", short(end)) for end in ends), class_="ends", aria_hidden="true"
    )
    return [
        *map(Column, names),
        Column("valid" if cells.valid else "estimate", number=True),
        *([] if once else [Column("±", number=True)]),
        Column("± %", number=True, spare=True),
        Column("interval", hidden=True, shown=scale),
    ]


def _labels(cells: Cells) -> list[list[object]]:
    """The labels of every line, the last axis fastest."""
    if not cells.axes:
        return [["all"]]
    places = np.indices(cells.value.shape).reshape(len(cells.axes), -1).T
    return [[axis.labels[i] for axis, i in zip(cells.axes, row, strict=True)] for row in places]


def _ends(low: Array, value: Array, high: Array) -> tuple[float, float]:
    least = min(0.0, float(low.min()), float(value.min()))
    return least, max(0.0, float(high.max()), float(value.max()))


def single_numbers(tables: Sequence[Cells]) -> Markup:
    """Tables of one number, together."""
    rows = []
    for cells in tables:
        value, half = float(cells.value.ravel()[0]), float(cells.half.ravel()[0])
        digits = Digits.fitting(cells.half, cells.value)
        name = ", ".join(filter(None, [cells.name, cells.fixed]))
        rows.append([name, digits.number(value), digits.error(half), relative(value, half)])
    heads = ["what is counted", "valid" if tables[0].valid else "estimate", "±", "± %"]
    columns = [Column(head, number=i > 0) for i, head in enumerate(heads)]
    caption = f"Single numbers ± half {tables[0].reading}; {PERCENT}"
    return table(caption, columns, rows, long=len(rows) >= LONG)


def cells_picture(cells: Cells) -> Markup | str:
    """Dots along an ordered attribute, or bars; lists of one attribute are bars themselves."""
    if len(cells.axes) not in (1, 2):
        return ""
    order = _order(cells)
    turned = cells.turned(order)
    axis = turned.axes[0]
    ordered = axis.ordered and len(axis) >= FEW
    if len(axis) > MOST_ALONG or (len(order) == 1 and not ordered):
        return ""
    across = turned.value.reshape(len(axis), -1).shape[1]
    names = [f"{turned.axes[1].name}: {x}" for x in turned.axes[1].labels] if across > 1 else [""]
    columns = [x.reshape(len(axis), -1).T.tolist() for x in (turned.low, turned.value, turned.high)]
    lines = [Line(*line) for line in zip(names, *columns, strict=True)]
    along = Along(axis.name, [str(x) for x in axis.labels], _numbers(axis) if ordered else None)
    return table_picture(f"{cells.name}, along {axis.name}", along, lines, ordered)


def _order(cells: Cells) -> tuple[int, ...]:
    """The attribute along the chart first: an ordered one if there is one, else the longer."""
    rank = [(axis.ordered and len(axis) >= FEW, len(axis)) for axis in cells.axes]
    return tuple(sorted(range(len(rank)), key=lambda i: rank[i], reverse=True))


def _numbers(axis: Axis) -> list[float] | None:
    """The labels as numbers, if all of them are."""
    plain = [float(x) for x in axis.labels if isinstance(x, int | float)]
    return plain if len(plain) == len(axis) else None
