"""Tables on a page: crossed, the ± said once where it is the same, or listed, a line a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from noiseplan.draw.html import Column, Markup, element, joined, region, table
from noiseplan.draw.svg import interval_bar, short
from noiseplan.draw.table_svg import FEW, Along, Line, table_markup
from noiseplan.matrices.base import Array
from noiseplan.report.table_cells import Axis, Cells, Digits, relative

MOST_COLUMNS: Final = 32
MOST_SLICES: Final = 60
# Errors that differ by no more than this are told as one, the largest.
ALIKE: Final = 1.15
LONG: Final = 16  # lines from which a table scrolls by itself
LONG_LIST: Final = 24  # and a list
PERCENT: Final = "% is ± of the number, – where the interval includes 0"
MOST_ALONG: Final = 200  # values of a chart; more crowd a page


class Crossed(NamedTuple):
    """Cross-tables as markup, the numbers in them, and what they are the first of, in words."""

    markup: Markup
    values: Array
    first: str


def laid_out(cells: Cells) -> tuple[int, ...]:
    """The order of the axes: the longest down the page, the next across, the others by choice."""
    order = sorted(range(len(cells.axes)), key=lambda i: (-len(cells.axes[i]), i))
    if len(order) > 2 and len(cells.axes[order[1]]) > MOST_COLUMNS:
        order[1], order[2] = order[2], order[1]
    return tuple(order)


def cross_tables(cells: Cells, most_lines: int, most_numbers: int) -> Crossed:
    """The table, or one for each value of the other attributes.

    Each has at most `most_lines` lines, and all together at most `most_numbers` numbers, unless
    these are less than a line.
    """
    turned = cells.turned(laid_out(cells))
    across, others = min(len(turned.axes[1]), MOST_COLUMNS), turned.axes[2:]
    lines = min(len(turned.axes[0]), most_lines, max(most_numbers // across, 1))
    digits, part = Digits.fitting(turned.half, turned.value), turned.first(lines, across)
    if not others:
        return Crossed(crossed(part, digits), part.value, _first(turned, part.value.shape))
    most = min(max(most_numbers // (lines * across), 1), MOST_SLICES)
    places = list(islice(product(*(range(len(axis)) for axis in others)), most))
    slices = [(_chosen(others, place), part.at(place)) for place in places]
    tables = [(title, crossed(one, digits, title)) for title, one in slices]
    name = " and ".join(axis.name for axis in others)
    values = np.stack([one.value for _, one in slices], axis=-1)
    every = prod(len(axis) for axis in others)
    more = [f"{len(places):,} of {every:,} tables by {name}"] if len(places) < every else []
    first = " and ".join([*filter(None, [_first(turned, values.shape)]), *more])
    return Crossed(sliced(name, tables), values, first)


def _first(cells: Cells, shape: tuple[int, ...]) -> str:
    """How much of the lines and columns is shown."""
    parts = [
        f"{count:,} of {len(axis):,} {what}"
        for axis, count, what in zip(cells.axes, shape, ("lines", "columns"), strict=False)
        if count < len(axis)
    ]
    return " and ".join(parts)


def _chosen(axes: Sequence[Axis], place: Sequence[int]) -> str:
    chosen = zip(axes, place, strict=True)
    return ", ".join(f"{axis.name}: {axis.labels[i]}" for axis, i in chosen)


def sliced(name: str, tables: Sequence[tuple[str, Markup]]) -> Markup:
    """One table for each choice: opened one by one, or by a list to choose from with scripts."""
    blocks = [
        element("details", element("summary", title), content, class_="slice", open=i == 0)
        for i, (title, content) in enumerate(tables)
    ]  # the page's script makes a list to choose from of these
    return element("div", joined(blocks), class_="slices", data_choice=name)


def crossed(cells: Cells, digits: Digits, title: str = "") -> Markup:
    """One cross-table: the first axis down the page, the second across."""
    down, across = cells.axes
    errors = Errors.of(cells.half, digits)
    shown = np.vectorize(digits.number, otypes=[object])(cells.value)
    corner = element("th", f"{down.name} ↓  {across.name} →", scope="col", class_="corner")
    heads = [
        element("th", element("span", label, class_="head"), scope="col", class_="n")
        for label in across.labels
    ]
    if errors.by_line:
        heads.append(element("th", "±", scope="col", class_="n"))
    head = [element("tr", corner, joined(heads))]
    if errors.by_column:
        same = [element("td", f"± {error}", class_="n muted") for error in errors.texts[0]]
        head.append(element("tr", element("th", "±", scope="row"), joined(same)))
    body = [
        element("tr", element("th", down.labels[i], scope="row"), joined(errors.line(shown[i], i)))
        for i in range(len(down))
    ]
    words = ", ".join(filter(None, [cells.name, cells.fixed, title]))
    caption = f"{words}: {_what(cells)}{errors.words(cells.reading)}"
    inner = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", joined(head)),
        element("tbody", joined(body)),
        class_="crossed",
    )
    return region(inner, caption, long=len(down) >= LONG)


def _what(cells: Cells) -> str:
    return "valid counts; the unbiased estimates have" if cells.valid else "estimate"


class Errors:
    """The ± of a cross-table, told as briefly as it can be."""

    def __init__(self, texts: Array, largest: str, alike: bool) -> None:
        self.texts, self.largest, self.alike = texts, largest, alike
        self.once = alike or len(set(texts.ravel())) == 1
        self.by_line = not self.once and bool((texts == texts[:, :1]).all())
        self.by_column = not (self.once or self.by_line) and bool((texts == texts[:1]).all())

    @classmethod
    def of(cls, half: Array, digits: Digits) -> Errors:
        tell: Callable[[Array], Array] = np.vectorize(digits.error, otypes=[object])
        alike = bool(half.min() > 0 and half.max() <= ALIKE * half.min())
        return cls(tell(half), digits.error(float(half.max())), alike)

    def line(self, numbers: Array, place: int) -> list[Markup]:
        """The cells of one line, each with its own ± where there is no other way."""
        own = self.texts[place]
        if self.once or self.by_column:
            return [element("td", text, class_="n") for text in numbers]
        if self.by_line:
            cells = [element("td", text, class_="n") for text in numbers]
            return [*cells, element("td", own[0], class_="n muted")]
        return [
            element("td", text, " ", element("small", f"± {error}"), class_="n")
            for text, error in zip(numbers, own, strict=True)
        ]

    def words(self, reading: str) -> str:
        """What the caption says of them."""
        if not self.once:
            return f" ± half {reading}"
        most = "at most " if len(set(self.texts.ravel())) > 1 else ""
        return f" ± {most}{self.largest}, half {reading}"


# ---------------------------------------------------------------------- listed


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
    return table(caption, _columns(cells, once, ends), rows, long=shown >= LONG_LIST)


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
    return table(caption, columns, rows, long=len(rows) >= LONG_LIST)


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
    along = Along.of(axis.name, axis.labels, ordered)
    return table_markup(f"{cells.name}, along {axis.name}", along, lines, ordered)


def _order(cells: Cells) -> tuple[int, ...]:
    """The attribute along the chart first: an ordered one if there is one, else the longer."""
    rank = [(axis.ordered and len(axis) >= FEW, len(axis)) for axis in cells.axes]
    return tuple(sorted(range(len(rank)), key=lambda i: rank[i], reverse=True))
