"""Pictures as inline SVG, drawn here: no library, no network, readable in light and dark.

Small bars stand inside tables, beside their numbers, and are hidden from screen readers. Charts
have a title and a description. Colours come from the page's style.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from noiseplan.draw.html import Markup, element, joined
from noiseplan.escaping import visible_name

WIDTH, HEIGHT = 640, 290
LEFT, RIGHT, TOP, BOTTOM = 76, 12, 34, 56  # room around the plot
SERIES = 6  # colours


def share_bar(share: float, over: bool, reach: float = 0.0) -> Markup:
    """A bar from the left, as part of the longest; thinner as far as `reach`, where that is more.

    `over` has the colour of what is above the average.
    """
    width, end = (100 * min(max(part, 0.0), 1.0) for part in (share, reach))
    kind = "over" if over else "fill"
    fill = f'<rect class="{kind}" x="0" y="1" width="{width:.2f}" height="8"/>'
    if end > width:
        fill += f'<rect class="reach" x="{width:.2f}" y="3" width="{end - width:.2f}" height="4"/>'
    return _small(fill)


def stacked_bars(shares: Sequence[float]) -> Markup:
    """One thin bar for each of several, below each other, each in its colour."""
    high = 10 / max(len(shares), 1)
    bars = (
        f'<rect class="s{i}" stroke-width="0" x="0" y="{i * high:.2f}" height="{high * 0.8:.2f}" '
        f'width="{100 * min(max(share, 0.0), 1.0):.2f}"/>'
        for i, share in enumerate(shares)
    )
    return _small("".join(bars))


def interval_bar(low: float, value: float, high: float, ends: tuple[float, float]) -> Markup:
    """A bar from 0 to an estimate, and its interval, between the ends of the table's range."""
    start, stop = ends
    span = (stop - start) or 1.0
    a, b, c, zero = (100 * (x - start) / span for x in (low, value, high, 0.0))
    parts = [
        f'<line class="zero" x1="{zero:.2f}" x2="{zero:.2f}" y1="0" y2="10"/>'
        if 0 <= zero <= 100
        else "",
        f'<rect class="est" x="{min(b, zero):.2f}" width="{abs(b - zero):.2f}" y="1" height="8"/>',
        f'<rect class="ci" x="{a:.2f}" width="{max(c - a, 0.0):.2f}" y="3" height="4"/>',
        f'<line class="dot" x1="{b:.2f}" x2="{b:.2f}" y1="0" y2="10"/>',
    ]
    return _small("".join(parts))


def _small(content: str) -> Markup:
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f"{content}</svg>"
    )


@dataclass(frozen=True)
class Scale:
    """From numbers to positions, straight or logarithmic."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, x = self.low, self.high, value
        if self.log:
            low, high, x = (math.log(v) for v in (low, high, value))
        share = (x - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.stop - self.start)


def chart(title: str, description: str, drawing: Drawing) -> Markup:
    """Put a drawing on a page, with a name and a description for those who do not see it."""
    box = f"0 0 {drawing.width:g} {drawing.height:g}"
    return element(
        "svg",
        Markup(drawing.content),
        class_="chart",
        viewBox=box,
        role="img",
        aria_label=f"{title}. {description}",
    )


@dataclass(frozen=True)
class Drawing:
    """Axes and marks as SVG, and the room that they take in pixels."""

    content: str = field(repr=False)
    width: float
    height: float


def curves(
    lines: Sequence[Sequence[tuple[float, float]]],
    titles: tuple[str, str],
    here: tuple[float, float] | None = None,
) -> Drawing:
    """Draw curves through points on two logarithmic axes; the point `here` stands out."""
    xs, ys = ([point[i] for line in lines for point in line] for i in (0, 1))
    bottom = HEIGHT - BOTTOM
    along, up = round_numbers(min(xs), max(xs)), round_numbers(min(ys), max(ys))
    across = Scale(along[0], along[-1], LEFT, WIDTH - RIGHT - 16, log=True)
    rising = Scale(up[0], up[-1], bottom, TOP, log=True)
    parts = []
    for y in thinned(up, 8):
        parts.append(f'<path class="axis" d="M{LEFT} {rising.at(y):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(label(LEFT - 8, rising.at(y) + 5, short(y), "end"))
    for x in thinned(along, 8):
        parts.append(f'<path class="axis" d="M{across.at(x):.1f} {bottom}v6"/>')
        parts.append(label(across.at(x), bottom + 24, short(x), "middle"))
    for i, line in enumerate(lines):
        points = [(across.at(x), rising.at(y)) for x, y in line]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path class="curve s{i}" d="{path}"/>')
        parts += [
            f'<circle class="s{i} point" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points
        ]
    if here is not None:
        x, y = across.at(here[0]), rising.at(here[1])
        parts.append(f'<circle class="here" cx="{x:.1f}" cy="{y:.1f}" r="7"/>')
    parts.append(label(0, TOP - 14, f"{titles[1]} (logarithmic)", "start"))
    parts.append(label(WIDTH - RIGHT, HEIGHT - 6, f"{titles[0]} (logarithmic)", "end"))
    return Drawing("".join(parts), WIDTH, HEIGHT)


def keys(names: Sequence[str]) -> Markup:
    """Which colour is which series."""
    items = [
        element(
            "li",
            Markup(
                f'<svg class="key" viewBox="0 0 10 10" aria-hidden="true">'
                f'<circle class="s{i}" cx="5" cy="5" r="4"/></svg> '
            ),
            name,
        )
        for i, name in enumerate(names)
    ]
    return element("ul", joined(items), class_="keys", aria_label="colours")


def label(x: float, y: float, words: str, anchor: str, kind: str | None = None) -> str:
    """Write words at a place of a picture; `anchor` says which end of them stands there."""
    named = visible_name(words)
    return str(element("text", named, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=kind))


def short(value: float, *, plain: bool = False) -> str:
    """A tick in a few letters: 1,500, 20k, 3M; `plain` numbers, such as years, as they are."""
    if value < 0:
        return f"−{short(-value, plain=plain)}"
    if plain:
        return f"{value:.12g}"
    for least, unit, name in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / unit:.3g}{name}"
    return f"{value:,.0f}" if value == round(value) or value >= 100 else f"{value:.3g}"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends: 0, and a few more."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= most)
    first = math.ceil(low / step)
    return [step * i for i in range(first, math.floor(high / step) + 1)]


def round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2, 5, 10, … from at most `low` to at least `high`: a logarithmic axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
    start = max(step for step in steps if step <= low)
    stop = min(step for step in steps if step >= high and step > start)
    return [step for step in steps if start <= step <= stop]


def thinned(steps: Sequence[float], most: int) -> list[float]:
    """Return the numbers of a logarithmic axis to be labelled: all, or some powers of ten."""
    if len(steps) <= most:
        return list(steps)
    powers = [step for step in steps if f"{step:.0e}".startswith("1")]
    return powers[:: -(-len(powers) // most)]
