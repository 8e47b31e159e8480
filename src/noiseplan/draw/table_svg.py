"""Tables as SVG: dots or bars with their intervals, and relative errors below.

The same drawings stand on pages, in notebooks and in files. Logarithmic axes say so. Intervals too
short to see are shown as percentages as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from numbers import Real
from os import PathLike
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from noiseplan.draw.html import Markup, element, joined
from noiseplan.draw.picture import PIXELS, ChartError, Picture, letters, shown, side_by_side
from noiseplan.draw.svg import SERIES, Drawing, Scale, chart, keys, label, short, ticks
from noiseplan.escaping import visible_name
from noiseplan.queries import Query
from noiseplan.queries.query import attribute_names
from noiseplan.texts import shortened

if TYPE_CHECKING:
    from noiseplan.release.answers import Answer
    from noiseplan.release.release import Release

WIDTH, HIGH, RELATIVE = 640, 250, 120  # of a chart, its plot, and that of percentages
PANEL: Final = (440, 180)  # of a panel in a picture, and its plot
LEFT, RIGHT, ABOVE, BELOW = 84, 14, 34, 58  # room around a plot
LETTER, BAND = 12.5, 21.0  # of a label on a page, which a phone enlarges; of a bar down the page
VISIBLE: Final = 4.0  # pixels; a shorter half interval hides behind its own dot
NUMBER: Final = 7  # letters of a number on an axis, with room around it
INLINE: Final = 20  # letters of a label that stands left of its bars; a longer one is above them
FEW: Final = 8  # fewer values along an ordered attribute are bars
MOST_BARS: Final = 80  # down one page
MOST_PANELS: Final = 12
MOST_CELLS: Final = 100  # in one plot, when they are of more than two series
MOST_TICKS: Final = 8
MOST_ALONG: Final = 400  # dots along an axis; more would stand on the same pixels
MOST_POINTS: Final = 4000  # dots of all series
PERCENT: Final = "± in % of the estimate (logarithmic)"


@dataclass(frozen=True)
class Line:
    """One series of a table: its name and its cells along the attribute."""

    name: str
    low: Sequence[float]
    value: Sequence[float]
    high: Sequence[float]

    def percents(self) -> list[float | None]:
        """Return half of each interval in percent of its number; None for 100 or more."""
        cells = zip(self.low, self.value, self.high, strict=True)
        return [
            0.0 if c == a else None if c - a >= 2 * abs(b) else 50 * (c - a) / abs(b)
            for a, b, c in cells
        ]

    def at(self, places: Sequence[int]) -> Line:
        """Return the cells at these places."""
        low, value, high = ([x[i] for i in places] for x in (self.low, self.value, self.high))
        return Line(self.name, low, value, high)


@dataclass(frozen=True)
class Along:
    """The attribute that a chart is laid out along; `at` has its labels as numbers, if they are."""

    name: str
    labels: Sequence[str]
    at: Sequence[float] | None = None

    @classmethod
    def of(cls, name: str, values: Sequence[object], ordered: bool) -> Along:
        """Write labels as texts; those of an ordered attribute that are numbers set their place."""
        plain = [float(x) for x in values if isinstance(x, Real)]
        numbers = ordered and len(plain) == len(values)
        return cls(name, [visible_name(str(x)) for x in values], plain if numbers else None)

    @property
    def positions(self) -> list[float]:
        """Return where the labels stand: as numbers, or one behind the other."""
        return list(map(float, range(len(self.labels)) if self.at is None else self.at))

    def kept(self, places: Sequence[int]) -> Along:
        """Return the labels at these places."""
        at = None if self.at is None else [self.at[i] for i in places]
        return replace(self, labels=[self.labels[i] for i in places], at=at)

    def ticks(self, room: float, letter: float) -> list[tuple[float, str]]:
        """Return as many labels as `room` pixels below the axis can hold, and where they stand."""
        if self.at is not None:
            return [(v, short(v, plain=True)) for v in ticks(min(self.at), max(self.at), most=6)]
        texts = [shortened(text, 14) for text in self.labels]
        fitting = max(int(room / (letter * (max(map(letters, texts)) + 1))), 2)
        every = -(-len(texts) // fitting)
        return [(float(i), texts[i]) for i in range(0, len(texts), every)]


# ---------------------------------------------------------------------- on a page, and alone


def table_markup(title: str, along: Along, lines: Sequence[Line], ordered: bool) -> Markup | str:
    """Draw a table for a page, or nothing where no chart suits it.

    An `ordered` attribute is an axis with dots; any other has a bar for each of its values.
    """
    cells = len(along.labels) * len(lines)
    if len(along.labels) < 2 or (not ordered and cells > MOST_BARS):
        return ""
    panels = ordered and len(lines) > 2 and cells > MOST_CELLS
    if len(lines) > (MOST_PANELS if panels else SERIES):
        return ""
    plot, words = Plot(along, lines, lines, ordered), _words(along)
    if not panels:
        drawn = chart(title, words, plot.drawing())
        return drawn if len(lines) == 1 else joined([keys([line.name for line in lines]), drawn])
    figures = [
        element(
            "figure",
            element("figcaption", line.name),
            chart(f"{title}, {line.name}", words, replace(plot, lines=[line]).drawing()),
        )
        for line in lines
    ]
    return element("div", joined(figures), class_="panels")


def table_picture(
    title: str,
    along: Along,
    lines: Sequence[Line],
    ordered: bool,
    notes: Sequence[str],
    *,
    by: str = "groups",
    unit: str = "records",
) -> Picture:
    """Draw a table as a picture of its own; of very many values some, and its notes say which.

    Of values along an axis every so many are drawn, of others and of groups the largest.
    """
    for line in lines:
        for text, *cell in zip(along.labels, line.low, line.value, line.high, strict=True):
            if not all(map(math.isfinite, cell)):
                raise ChartError(f"cell {text!r} {line.name!r}: a number of it is not finite")
    notes, size = list(notes), len(along.labels)
    if len(lines) > MOST_PANELS:
        notes.append(f"the {MOST_PANELS} largest of {len(lines):,} {by}")
        lines = [lines[i] for i in _largest([sum(line.value) for line in lines], MOST_PANELS)]
    if ordered:
        places, words = _every(size, min(MOST_ALONG, MOST_POINTS // len(lines)))
    else:
        most = max(MOST_BARS // min(len(lines), SERIES), FEW)
        places, words = range(size), ""
        if size > most:
            sums = zip(*(line.value for line in lines), strict=True)
            places, words = _largest(list(map(sum, sums)), most), f"the {most} largest"
    if words:
        notes.append(f"{words} of {size:,} values of {along.name}")
    along, lines = along.kept(places), [line.at(places) for line in lines]
    cells = len(along.labels) * len(lines)
    plot = Plot(along, lines, lines, ordered, unit, PIXELS)
    if len(lines) <= SERIES and not (ordered and len(lines) > 2 and cells > MOST_CELLS):
        return Picture(title, notes, plot.drawing(), [line.name for line in lines])
    wide, high = PANEL
    panels = [
        (line.name, replace(plot, lines=[line], width=wide, high=high).drawing()) for line in lines
    ]
    return Picture(title, notes, side_by_side(panels, 2))


def answer_picture(
    answer: Answer, title: str, names: Sequence[str], unit: str = "records"
) -> Picture:
    """Draw the answer to a table of one or two attributes, the first of `names` along the chart.

    The second is along the chart where it alone has more values than there are colours.
    """
    schema, factors = answer.query.schema, answer.query.factors
    labels = {name: list(factor.row_labels(schema[name])) for name, factor in factors.items()}
    if len(labels[names[0]]) <= SERIES < len(labels[names[-1]]):
        names = names[::-1]
    shape, place = tuple(map(len, labels.values())), list(labels).index(names[0])
    lows, values, highs = (
        np.moveaxis(x.reshape(shape), place, 0).reshape(shape[place], -1).T.tolist()
        for x in (answer.lower, answer.estimate, answer.upper)
    )
    groups = [f"{name}: {text}" for name in names[1:] for text in labels[name]] or [""]
    lines = [Line(*line) for line in zip(groups, lows, values, highs, strict=True)]
    ordered = schema[names[0]].ordered and shape[place] >= FEW
    notes = [f"{100 * answer.level:g} % intervals, noise only", *answer.left_out]
    notes += filter(None, [answer.brand])
    along = Along.of(names[0], labels[names[0]], ordered)
    by = f"values of {names[-1]}"
    return table_picture(title, along, lines, ordered, notes, by=by, unit=unit)


def table_chart(
    release: Release,
    *attributes: str,
    level: float = 0.95,
    path: str | PathLike[str] | None = None,
) -> Any:
    """Draw a released table of one or two attributes, for notebooks or to a file.

    The first attribute is laid out along the chart, the second distinguished by colour; the other
    way round where only the second has too many values for colours.
    """
    names = attribute_names(attributes, release.schema)
    if not 1 <= len(names) <= 2:
        found = f"{len(names)} attributes" if names else "none"
        raise ChartError(
            f"a chart has one or two attributes, as in plot('age', 'sex'); found {found}. Larger "
            f"tables: release.table({', '.join(map(repr, names)) or '...'})"
        )
    answer = release.answer(Query(release.schema, names), level=level)
    return shown(answer_picture(answer, " by ".join(names), names), path)


def _largest(totals: Sequence[float], most: int) -> list[int]:
    """Return the places of the largest numbers, in order of place."""
    return sorted(sorted(range(len(totals)), key=lambda i: -totals[i])[:most])


def _every(size: int, most: int) -> tuple[Sequence[int], str]:
    """Return the places of every so many values, a round step, and the last; which these are."""
    if size <= most:
        return range(size), ""
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(step for step in steps if (size - 1) // step + 2 <= most)
    places = [*range(0, size, step)]
    last = "" if places[-1] == size - 1 else ", and the last,"
    ending = "nd" if step == 2 else "th"  # others end in 0 or 5
    return sorted({*places, size - 1}), f"every {step:,}{ending}{last}"


# ---------------------------------------------------------------------- one plot


@dataclass(frozen=True)
class Plot:
    """A plot of some lines of a table; the lines in `scaled` set its scale."""

    along: Along
    lines: Sequence[Line]
    scaled: Sequence[Line]
    ordered: bool
    unit: str = "records"
    letter: float = LETTER
    width: int = WIDTH
    high: int = HIGH

    def drawing(self) -> Drawing:
        """Draw dots along an axis, or bars down the page."""
        return self._dots() if self.ordered else self._bars()

    def _dots(self) -> Drawing:
        """Draw dots at the estimates, on rules from lower to upper end."""
        low, steps = _axis(self.scaled)
        up, at = Scale(low, steps[-1], ABOVE + self.high, ABOVE), self.along.positions
        across = Scale(min(at), max(at), LEFT + 10, self.width - RIGHT - 10)
        room = across.stop - across.start
        step = room / len(at) / len(self.lines)
        size, spread = max(2.0, min(5.0, 0.8 * step)), min(0.6 * step, 18.0 / len(self.lines))
        middle = (len(self.lines) - 1) / 2  # lines are moved apart: no interval hides another
        places = [
            [across.at(x) + (i - middle) * spread for x in at] for i in range(len(self.lines))
        ]
        parts = [self._rule(up.at(value), short(value)) for value in steps]
        for i, (line, xs) in enumerate(zip(self.lines, places, strict=True)):
            cells = list(zip(xs, line.low, line.value, line.high, strict=True))
            rules = "".join(f"M{x:.1f} {up.at(a):.1f}V{up.at(c):.1f}" for x, a, _, c in cells)
            dots = "".join(f"M{x:.1f} {up.at(b):.1f}h0" for x, _, b, _ in cells)
            parts.append(f'<path class="err s{i}" d="{rules}"/>')
            parts.append(f'<path class="dots s{i}" stroke-width="{size:.1f}" d="{dots}"/>')
        below, bottom = self._percents(places, steps[-1] - low)
        for value, text in self.along.ticks(room, self.letter):
            x = across.at(value)
            parts.append(label(x, bottom + 20, text, "end" if x > self.width - 60 else "middle"))
        parts.append(label(self.width - RIGHT, bottom + 46, self.along.name, "end"))
        parts.append(label(0, ABOVE - 14, f"estimate ({self.unit})", "start"))
        return Drawing("".join([*parts, below]), self.width, bottom + BELOW)

    def _percents(self, places: Sequence[Sequence[float]], span: float) -> tuple[str, float]:
        """Draw relative errors below the plot if intervals are too short; return where it ends."""
        told = [p for line in self.scaled for p in line.percents() if p]
        ends = [x for line in self.scaled for x in zip(line.low, line.high, strict=True)]
        if not told or median(c - a for a, c in ends if c > a) / 2 >= VISIBLE / self.high * span:
            return "", ABOVE + self.high
        top = ABOVE + self.high + ABOVE + 22
        least = math.floor(math.log10(min(*told, 99.0)))
        up = Scale(10.0**least, 100.0, top + RELATIVE, top, log=True)
        parts = [label(0, top - 14, PERCENT, "start")]
        every = max(1, (3 - least) // 4)
        parts += [self._rule(up.at(10.0**p), f"{10.0**p:g} %") for p in range(2, least - 1, -every)]
        for i, (line, xs) in enumerate(zip(self.lines, places, strict=True)):
            dots, marks = [], []
            for x, percent in zip(xs, line.percents(), strict=True):
                if percent is None:
                    marks.append(f"M{x - 3:.1f} {up.at(100.0) + 3:.1f}h6l-3 -6z")
                elif percent:
                    dots.append(f"M{x:.1f} {up.at(percent):.1f}h0")
            parts.append(f'<path class="dots s{i}" stroke-width="4" d="{"".join(dots)}"/>')
            if marks:
                parts.append(f'<path class="s{i}" stroke-width="0" d="{"".join(marks)}"/>')
        if any(p is None for line in self.lines for p in line.percents()):
            parts.append(label(0, top + RELATIVE + 46, "▲ 100 % or more", "start"))
        return "".join(parts), top + RELATIVE

    def _bars(self) -> Drawing:
        """Draw bars down the page, each group next to its label or below it, the axis on top."""
        longest, count = max(map(letters, self.along.labels)), len(self.lines)
        inline = longest <= INLINE
        start = 22 + self.letter * longest if inline else 14
        stop = self.width - 110  # room for percentages
        low, steps = _axis(self.scaled, max(int((stop - start) / self.letter / NUMBER), 2))
        across = Scale(low, steps[-1], start, stop)
        top, head = 2 * ABOVE, 4 if inline else 28
        tall = head + BAND * count + (4 if inline else 8)
        bottom = top + tall * len(self.along.labels)
        parts = [label(0, ABOVE - 16, f"estimate ({self.unit}), by {self.along.name}", "start")]
        for value in steps:
            x = across.at(value)
            parts.append(f'<path class="axis" d="M{x:.1f} {top - 6}V{bottom:.1f}"/>')
            parts.append(label(x, top - 12, short(value), "middle"))
        for place, text in enumerate(self.along.labels):
            y = top + place * tall
            if inline:
                parts.append(label(start - 8, y + head + BAND * count / 2 + 3, text, "end"))
            else:
                parts.append(label(14, y + 22, shortened(text, 44), "start"))
            for i, line in enumerate(self.lines):
                a, b, c = (across.at(each[place]) for each in (line.low, line.value, line.high))
                zero, at = across.at(0.0), y + head + i * BAND
                box = f'x="{min(zero, b):.1f}" y="{at:.1f}" width="{abs(b - zero):.1f}"'
                parts.append(f'<rect class="pale s{i}" {box} height="{BAND - 3}"/>')
                middle = at + BAND / 2 - 1.5
                caps = f"M{a:.1f} {middle - 3:.1f}v6M{c:.1f} {middle - 3:.1f}v6"
                parts.append(f'<path class="err s{i}" d="M{a:.1f} {middle:.1f}H{c:.1f}{caps}"/>')
                percent = line.percents()[place]
                words = f"± {percent:.2g} %" if percent else ""
                beside = "includes 0" if percent is None else words
                parts.append(label(max(zero, b, c) + 8, at + BAND - 6, beside, "start"))
        return Drawing("".join(parts), self.width, bottom + 6)

    def _rule(self, y: float, text: str) -> str:
        """Draw a line across the plot, with its number to the left."""
        across = f'<path class="axis" d="M{LEFT} {y:.1f}H{self.width - RIGHT}"/>'
        return across + label(LEFT - 8, y + 5, text, "end")


def _axis(lines: Sequence[Line], most: int = MOST_TICKS) -> tuple[float, list[float]]:
    """Return the low end of an axis of 0 and all numbers, and its round numbers to the high end."""
    low = min(0.0, *(min(*line.low, *line.value) for line in lines))
    high = max(0.0, *(max(*line.high, *line.value) for line in lines))
    steps = ticks(low, high if high > low else low + 1.0, most)
    if len(steps) < 2:
        steps = ticks(low, high, MOST_TICKS)
    if steps[-1] < high:
        steps.append(2 * steps[-1] - steps[-2])
    return low, steps


def _words(along: Along) -> str:
    count = len(along.labels)
    ends = f"from {along.labels[0]} to {along.labels[-1]}"
    return f"{count} values of {along.name} {ends}; all numbers are in the table"
