"""Released tables as inline SVG: dots or bars with their intervals, and relative errors beside.

The same pictures as `error_bars` draws for notebooks, for pages that load nothing. Axes have
titles, and logarithmic ones say so. Intervals too short to see are shown as percentages as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from noiseplan.draw.chart_layout import MOST_CELLS, VISIBLE
from noiseplan.draw.html import Markup, element, joined
from noiseplan.draw.svg import SERIES, Scale, chart, keys, label, short, ticks
from noiseplan.texts import shortened

WIDTH, HIGH, RELATIVE = 640, 250, 120  # of a chart, its plot, and that of percentages
LEFT, RIGHT, ABOVE, BELOW = 84, 14, 34, 58  # room around a plot
LETTER, BAND = 12.5, 21.0  # of a label on a phone; of a bar down the page
MOST_BARS: Final = 80  # down one page
MOST_PANELS: Final = 12
SHORT: Final = 6  # letters of a label, of which five stand below an axis
TITLE: Final = "estimate (records)"
PERCENT: Final = "± in % of the estimate (logarithmic)"


@dataclass(frozen=True)
class Line:
    """One series of a table: its name and its cells along the attribute."""

    name: str
    low: Sequence[float]
    value: Sequence[float]
    high: Sequence[float]

    def percents(self) -> list[float | None]:
        """Half of each interval in percent of its number; None where that would be 100 or more."""
        cells = zip(self.low, self.value, self.high, strict=True)
        return [None if c - a >= 2 * abs(b) else 50 * (c - a) / abs(b) for a, b, c in cells]


@dataclass(frozen=True)
class Along:
    """The attribute that a chart is laid out along; `at` has its labels as numbers, if they are."""

    name: str
    labels: Sequence[str]
    at: Sequence[float] | None = None

    @property
    def positions(self) -> list[float]:
        """Where the labels stand: as numbers, or one behind the other."""
        return list(map(float, range(len(self.labels)) if self.at is None else self.at))

    def ticks(self) -> list[tuple[float, str]]:
        """A few labels to be written below the axis."""
        if self.at is not None:
            return [(v, short(v, plain=True)) for v in ticks(min(self.at), max(self.at), most=6)]
        last, long = len(self.labels) - 1, max(map(len, self.labels)) > SHORT
        steps = 2 if long else 4
        chosen = sorted({round(last * i / steps) for i in range(steps + 1)})
        return [(float(i), shortened(self.labels[i], 14)) for i in chosen]


def table_picture(title: str, along: Along, lines: Sequence[Line], ordered: bool) -> Markup | str:
    """The chart that suits a table, or nothing where none does.

    An `ordered` attribute is an axis with dots; any other has a bar for each of its values.
    """
    count, cells = len(along.labels), len(along.labels) * len(lines)
    if count < 2:
        return ""
    if not ordered:
        if len(lines) > SERIES or cells > MOST_BARS:
            return ""
        return _keyed(lines, _bars(title, along, lines))
    if len(lines) > 2 and cells > MOST_CELLS:
        return _panels(title, along, lines)
    return "" if len(lines) > SERIES else _keyed(lines, _dots(title, along, lines, lines))


def _keyed(lines: Sequence[Line], drawn: Markup) -> Markup:
    return drawn if len(lines) == 1 else joined([keys([line.name for line in lines]), drawn])


def _panels(title: str, along: Along, lines: Sequence[Line]) -> Markup | str:
    """A small chart for each series, all on one scale."""
    if len(lines) > MOST_PANELS:
        return ""
    panels = [
        element(
            "figure",
            element("figcaption", line.name),
            _dots(f"{title}, {line.name}", along, [line], lines),
        )
        for line in lines
    ]
    return element("div", joined(panels), class_="panels")


# ---------------------------------------------------------------------- dots along an axis


def _dots(title: str, along: Along, lines: Sequence[Line], scaled: Sequence[Line]) -> Markup:
    """Dots at the estimates, on rules from lower to upper end; `scaled` set the scale."""
    up = _upward(scaled)
    at = along.positions
    across = Scale(min(at), max(at), LEFT + 10, WIDTH - RIGHT - 10)
    step = (across.stop - across.start) / len(at)
    size = max(1.6, min(5.0, step / len(lines) * 0.8))
    parts = [_grid(up), _axis_title(ABOVE, TITLE)]
    shifts = _shifts(len(lines), step)
    for i, (line, shift) in enumerate(zip(lines, shifts, strict=True)):
        xs = [across.at(x) + shift for x in at]
        cells = list(zip(xs, line.low, line.value, line.high, strict=True))
        rules = "".join(f"M{x:.1f} {up.at(a):.1f}V{up.at(c):.1f}" for x, a, _, c in cells)
        dots = "".join(f"M{x:.1f} {up.at(b):.1f}h0" for x, _, b, _ in cells)
        parts.append(f'<path class="err s{i}" d="{rules}"/>')
        parts.append(f'<path class="dots s{i}" stroke-width="{size:.1f}" d="{dots}"/>')
    places = [[across.at(x) + shift for x in at] for shift in shifts]
    below, bottom = _beside(lines, places, scaled)
    parts.append(below)
    parts += [
        label(across.at(x), bottom + 20, text, _anchor(across.at(x))) for x, text in along.ticks()
    ]
    parts.append(label(WIDTH - RIGHT, bottom + 46, along.name, "end"))
    return chart(title, _words(along), "".join(parts), bottom + BELOW)


def _beside(
    lines: Sequence[Line], xs: Sequence[Sequence[float]], scaled: Sequence[Line]
) -> tuple[str, float]:
    """Relative errors below the plot, where intervals are too short to see; where it then ends."""
    if visible_intervals(scaled, HIGH):
        return "", ABOVE + HIGH
    top = ABOVE + HIGH + ABOVE + 22
    return _relative(lines, xs, top, _percents(scaled)), top + RELATIVE


def _percents(lines: Sequence[Line]) -> tuple[float, float]:
    """The ends of an axis of relative errors, powers of ten."""
    told = [p for line in lines for p in line.percents() if p is not None and p > 0] or [1.0]
    return 10.0 ** math.floor(math.log10(min(told))), 100.0


def _relative(
    lines: Sequence[Line],
    xs: Sequence[Sequence[float]],
    top: float,
    ends: tuple[float, float],
) -> str:
    """Half of every interval as a percentage, on a logarithmic axis below the estimates."""
    low, high = ends
    up = Scale(low, high, top + RELATIVE, top, log=True)
    powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
    parts = [_axis_title(top, PERCENT)]
    every = max(1, len(powers) // 4)
    parts += [_rule(up.at(10.0**p), f"{10.0**p:g} %") for p in list(powers)[::-every]]
    for i, (line, places) in enumerate(zip(lines, xs, strict=True)):
        dots, marks = [], []
        for x, percent in zip(places, line.percents(), strict=True):
            if percent is None:
                marks.append(f"M{x - 3:.1f} {up.at(100.0) + 3:.1f}h6l-3 -6z")
            else:
                dots.append(f"M{x:.1f} {up.at(max(percent, low)):.1f}h0")
        parts.append(f'<path class="dots s{i}" stroke-width="4" d="{"".join(dots)}"/>')
        if marks:
            parts.append(f'<path class="s{i}" stroke-width="0" d="{"".join(marks)}"/>')
    if any(p is None for line in lines for p in line.percents()):
        parts.append(label(0, top + RELATIVE + 46, "▲ 100 % or more", "start"))
    return "".join(parts)


# ---------------------------------------------------------------------- bars


def _bars(title: str, along: Along, lines: Sequence[Line]) -> Markup:
    band = (WIDTH - LEFT - RIGHT) / len(along.labels)
    fits = max(len(text) for text in along.labels) * LETTER <= band
    return _columns(title, along, lines) if fits else _bars_down(title, along, lines)


def _columns(title: str, along: Along, lines: Sequence[Line]) -> Markup:
    """Bars side by side with their intervals, a band for each label."""
    up = _upward(lines)
    band = (WIDTH - LEFT - RIGHT) / len(along.labels)
    wide = min(0.76 * band / len(lines), 48.0)
    parts = [_grid(up), _axis_title(ABOVE, TITLE)]
    shifts = [(i - (len(lines) - 1) / 2) * wide for i in range(len(lines))]
    middles = [LEFT + (place + 0.5) * band for place in range(len(along.labels))]
    for i, line in enumerate(lines):
        cells = zip(middles, line.low, line.value, line.high, strict=True)
        for x, a, b, c in ((middle + shifts[i], *cell) for middle, *cell in cells):
            top, foot = sorted([up.at(b), up.at(0.0)])
            parts.append(_bar(i, x - 0.45 * wide, top, 0.9 * wide, foot - top))
            parts.append(_interval(i, x, up.at(a), up.at(c), upright=True))
    below, bottom = _beside(lines, [[x + s for x in middles] for s in shifts], lines)
    parts.append(below)
    named = zip(middles, along.labels, strict=True)
    parts += [label(x, bottom + 20, text, "middle") for x, text in named]
    parts.append(label(WIDTH - RIGHT, bottom + 46, along.name, "end"))
    return chart(title, _words(along), "".join(parts), bottom + BELOW)


def _bars_down(title: str, along: Along, lines: Sequence[Line]) -> Markup:
    """Bars down the page, each group below its label, the axis on top."""
    low, high = _extent(lines)
    across = Scale(low, high, 14, WIDTH - 110)  # room for percentages
    top = 2 * ABOVE
    tall = 28 + BAND * len(lines) + 8
    bottom = top + tall * len(along.labels)
    parts = [label(0, ABOVE - 16, f"{TITLE}, by {along.name}", "start")]
    for value in ticks(low, high):
        x = across.at(value)
        parts.append(f'<path class="axis" d="M{x:.1f} {top - 6}V{bottom:.1f}"/>')
        parts.append(label(x, top - 12, short(value), "middle"))
    for place, text in enumerate(along.labels):
        y = top + place * tall
        parts.append(label(14, y + 22, shortened(text, 44), "start"))
        for i, line in enumerate(lines):
            a, b, c = (across.at(each[place]) for each in (line.low, line.value, line.high))
            start, stop = sorted([across.at(0.0), b])
            at = y + 28 + i * BAND
            parts.append(_bar(i, start, at, stop - start, BAND - 3))
            parts.append(_interval(i, at + BAND / 2 - 1.5, a, c, upright=False))
            percent = line.percents()[place]
            beside = "includes 0" if percent is None else f"± {percent:.2g} %"
            parts.append(label(max(stop, c) + 8, at + BAND - 4, beside, "start"))
    return chart(title, _words(along), "".join(parts), bottom + 6)


def _bar(series: int, x: float, y: float, wide: float, high: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
    return f'<rect class="pale s{series}" {place}/>'


def _interval(series: int, at: float, start: float, stop: float, upright: bool) -> str:
    """A rule from end to end, with caps."""
    if upright:
        path = (
            f"M{at:.1f} {start:.1f}V{stop:.1f}M{at - 3:.1f} {start:.1f}h6M{at - 3:.1f} {stop:.1f}h6"
        )
    else:
        path = (
            f"M{start:.1f} {at:.1f}H{stop:.1f}M{start:.1f} {at - 3:.1f}v6M{stop:.1f} {at - 3:.1f}v6"
        )
    return f'<path class="err s{series}" d="{path}"/>'


# ---------------------------------------------------------------------- axes


def visible_intervals(lines: Sequence[Line], pixels: float) -> bool:
    """Whether at least half of the intervals are longer than the dots they pass through."""
    low, high = _extent(lines)
    half = median((c - a) / 2 for line in lines for a, c in zip(line.low, line.high, strict=True))
    return pixels * half / (high - low) >= VISIBLE


def _extent(lines: Sequence[Line]) -> tuple[float, float]:
    low = min(0.0, *(min(*line.low, *line.value) for line in lines))
    high = max(0.0, *(max(*line.high, *line.value) for line in lines))
    return (low, high) if high > low else (low, low + 1.0)


def _upward(lines: Sequence[Line]) -> Scale:
    return Scale(*_extent(lines), ABOVE + HIGH, ABOVE)


def _grid(up: Scale) -> str:
    return "".join(_rule(up.at(value), short(value)) for value in ticks(up.low, up.high))


def _rule(y: float, text: str) -> str:
    """A line across the plot, with its number to the left."""
    across = f'<path class="axis" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
    return across + label(LEFT - 8, y + 5, text, "end")


def _axis_title(top: float, words: str) -> str:
    return label(0, top - 14, words, "start")


def _shifts(count: int, step: float) -> list[float]:
    """Series are moved apart a little, so that no bar hides another."""
    spread = min(0.6 * step, 18.0) / count
    return [(i - (count - 1) / 2) * spread for i in range(count)]


def _anchor(x: float) -> str:
    return "end" if x > WIDTH - 60 else "middle"


def _words(along: Along) -> str:
    count = len(along.labels)
    ends = f"from {along.labels[0]} to {along.labels[-1]}"
    return f"{count} values of {along.name} {ends}; all numbers are in the table"
