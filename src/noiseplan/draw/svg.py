"""Pictures as inline SVG, drawn here: no library, no network, readable in light and dark.

Small bars stand inside tables, beside their numbers, and are hidden from screen readers. Charts
have a title and a description. Colours come from the page's style.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from noiseplan.draw.html import Markup, element, joined
from noiseplan.privacy.rounding import text_up

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


def chart(title: str, description: str, content: str, height: float = HEIGHT) -> Markup:
    """A picture with a name and a description for those who do not see it."""
    box = f"0 0 {WIDTH} {height:g}"
    return element(
        "svg",
        Markup(content),
        class_="chart",
        viewBox=box,
        role="img",
        aria_label=f"{title}. {description}",
    )


def budget_chart(costs: Sequence[float], errors: Sequence[float], here: int) -> Markup:
    """Error against budget, both on logarithmic axes; the plan's own point stands out."""
    across = Scale(costs[0], costs[-1], LEFT, WIDTH - RIGHT, log=True)
    up = Scale(min(errors), max(errors), HEIGHT - BOTTOM, TOP, log=min(errors) > 0)
    points = [(across.at(c), up.at(e)) for c, e in zip(costs, errors, strict=True)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [_frame(), f'<path class="curve" d="{path}"/>']
    for i, ((x, y), cost, error) in enumerate(zip(points, costs, errors, strict=True)):
        kind, size = ("here", 7) if i == here else ("s0 point", 4)
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>')
        anchor = "start" if i == 0 else "end" if i == len(costs) - 1 else "middle"
        if i in (0, here, len(costs) - 1):
            parts.append(label(x, HEIGHT - BOTTOM + 22, text_up(cost, 3), anchor))
            parts.append(label(LEFT - 8, y + 5, short(error), "end"))
    parts.append(label(LEFT, TOP - 12, "average error (logarithmic)", "start"))
    parts.append(label(WIDTH - RIGHT, HEIGHT - 4, "budget ρ (logarithmic)", "end"))
    words = ", ".join(f"{e:.3g} at ρ = {text_up(c, 3)}" for c, e in zip(costs, errors, strict=True))
    return chart("Root mean squared error against the privacy budget ρ", words, "".join(parts))


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


def _frame() -> str:
    base = HEIGHT - BOTTOM
    return f'<path class="axis" d="M{LEFT} {TOP}V{base}H{WIDTH - RIGHT}"/>'


def label(x: float, y: float, words: str, anchor: str) -> str:
    """Words at a place of a picture; `anchor` says which end of them stands there."""
    return str(element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor))


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
