"""The cells of a table as records, and how they are best laid out on a page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from statistics import median
from typing import Any, Literal

from noiseplan.draw.figure import MOST_ROWS, ChartError, Spec

HEIGHT = 280  # pixels along the estimates
VISIBLE = 4.0  # pixels; a shorter half error bar hides behind its own dot

MOST_LABELS = 12  # categories that stand side by side with legible labels
LONGEST_LABEL = 12  # letters, likewise
MOST_CELLS = 100  # cells in one panel, when they are of more than two groups
MOST_ALONG = 400  # numbers along an axis; more would stand on the same pixels
MOST_POINTS = 4000  # cells in all panels together, which the chart engine draws in a second

Place = int | float | str


@dataclass(frozen=True)
class Layout:
    """How the cells of a table are drawn.

    Parameters
    ----------
    along
        Channel of the categories: ``"x"`` has them side by side, ``"y"`` down the page.
    kind
        Kind of their axis, as Vega-Lite names it.
    places
        The categories that are drawn, in the order of the table.
    groups
        The values told apart by colour or by panel that are drawn, in the order of the table.
    left_out
        What is not drawn, in words; the name of the column follows.
    panels
        Whether each group has a panel of its own.
    margins
        Whether a second chart shows the intervals as percentages.
    """

    along: Literal["x", "y"]
    kind: Literal["nominal", "quantitative"]
    places: tuple[Any, ...]
    groups: tuple[str, ...]
    left_out: tuple[str | None, str | None]  # of places, of groups
    panels: bool
    margins: bool

    @property
    def shown(self) -> int:
        """How many categories are drawn."""
        return len(self.places)

    @property
    def across(self) -> str:
        """Channel of the estimates."""
        return "y" if self.along == "x" else "x"


def read_cells(
    frame_columns: Mapping[str, Sequence[Any]], x: str, colour: str | None
) -> list[Spec]:
    """One record per cell of the table, in its order, with the names the charts use."""
    attributes = [x, colour] if colour else [x]
    missing = [n for n in [*attributes, "estimate", "lower", "upper"] if n not in frame_columns]
    if missing:
        raise ChartError(
            f"no column {missing[0]!r} to draw; the table has {', '.join(map(repr, frame_columns))}"
        )
    places = _of_one_kind([_plain(value) for value in frame_columns[x]])
    groups = [str(value) for value in frame_columns[colour]] if colour else [""] * len(places)
    if not places:
        raise ChartError(f"no cell to draw: column {x!r} is empty")
    if len(set(zip(places, groups, strict=True))) < len(places):
        drawn = " and ".join(map(repr, attributes))
        raise ChartError(
            f"several cells share their values of {drawn}: the table has more attributes than the "
            f"chart; draw the table of {drawn} alone, or one slice of this one"
        )
    numbers = [map(float, frame_columns[name]) for name in ("estimate", "lower", "upper")]
    return [_cell(*values) for values in zip(places, groups, *numbers, strict=True)]


def _cell(place: Place, group: str, estimate: float, lower: float, upper: float) -> Spec:
    if not all(map(math.isfinite, (estimate, lower, upper))):
        raise ChartError(f"cell {place!r} {group!r}: {estimate} ({lower} to {upper}) is not finite")
    half = (upper - lower) / 2
    # A percentage of an estimate that may be 0 says nothing; None marks it.
    margin = None if lower <= 0 <= upper else abs(100 * half / estimate)
    return {
        "place": place,
        "group": group,
        "estimate": estimate,
        "lower": lower,
        "upper": upper,
        "half": half,
        "margin": margin,
        "percent": 100.0 if margin is None else min(margin, 100.0),
    }


def _plain(value: Any) -> Place:
    """Return a number as int or float, anything else as its label."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    number = float(value)
    return int(number) if number.is_integer() else number


def _of_one_kind(places: list[Place]) -> list[Place]:
    """Labels, where some are: 98 beside 99+ is one; a chart does not sort numbers among texts."""
    texts = any(isinstance(place, str) for place in places)
    return [str(place) for place in places] if texts else places


def lay_out(cells: Sequence[Spec]) -> Layout:
    """Many numbers go on a numeric axis; many or long labels are listed down the page."""
    places = tuple(dict.fromkeys(cell["place"] for cell in cells))
    count = len(places)
    numeric = count > MOST_LABELS and not any(isinstance(place, str) for place in places)
    upright = count <= MOST_LABELS and max(len(str(place)) for place in places) <= LONGEST_LABEL
    groups, fewer_groups = _largest(cells, "group")
    most = min(MOST_ALONG, MOST_POINTS // len(groups))
    places, fewer_places = _thinned(places, most) if numeric else _largest(cells, "place")
    return Layout(
        along="x" if numeric or upright else "y",
        kind="quantitative" if numeric else "nominal",
        places=places,
        groups=groups,
        left_out=(fewer_places, fewer_groups),
        panels=len(groups) > 2 and len(places) * len(groups) > MOST_CELLS,
        margins=not _bars_visible(cells),
    )


def _largest(cells: Sequence[Spec], field: str) -> tuple[tuple[Any, ...], str | None]:
    """The values with the largest estimates, in the order of the table; which these are."""
    totals: dict[Any, float] = {}
    for cell in cells:
        totals[cell[field]] = totals.get(cell[field], 0.0) + cell["estimate"]
    if len(totals) <= MOST_ROWS:
        return tuple(totals), None
    kept = set(sorted(totals, key=lambda value: -totals[value])[:MOST_ROWS])
    words = f"the {MOST_ROWS} largest of {len(totals):,} values of"
    return tuple(value for value in totals if value in kept), words


def _thinned(places: tuple[Any, ...], most: int) -> tuple[tuple[Any, ...], str | None]:
    """Every so many of the numbers, a round step, and the last of them; which these are."""
    if len(places) <= most:
        return places, None
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if (len(places) - 1) // step + 2 <= most)
    rising = sorted(places)
    kept = tuple(dict.fromkeys([*rising[::step], rising[-1]]))
    ending = "nd" if step == 2 else "th"  # others end in 0 or 5
    last = "" if rising[-1] == rising[::step][-1] else ", and the last,"
    return kept, f"every {step:,}{ending}{last} of {len(places):,} values of"


def _bars_visible(cells: Sequence[Spec]) -> bool:
    """Whether at least half of the error bars are longer than the dots they pass through."""
    low, high = extent(cells)
    half: float = median(cell["half"] for cell in cells)
    return HEIGHT * half / (high - low) >= VISIBLE


def extent(cells: Sequence[Spec]) -> tuple[float, float]:
    """Range of the axis of estimates: all intervals, and 0, with a little room at the ends."""
    low = min(0.0, *(cell["lower"] for cell in cells))
    high = max(0.0, *(cell["upper"] for cell in cells))
    room = 0.03 * (high - low) or 1.0
    return (low - room if low < 0 else low), high + room


def place_cells(cells: Sequence[Spec], layout: Layout) -> list[Spec]:
    """Keep the cells that are shown, and say where on the axis each stands."""
    places, shift = set(layout.places), _shifts(layout)
    return [
        cell | {"at": _moved(cell["place"], shift[cell["group"]])}
        for cell in cells
        if cell["place"] in places and cell["group"] in shift
    ]


def _shifts(layout: Layout) -> dict[str, float]:
    """On a numeric axis the groups are moved apart a little, so that no bar hides another."""
    if layout.kind == "nominal" or layout.panels:
        return dict.fromkeys(layout.groups, 0.0)
    spacing = (max(layout.places) - min(layout.places)) / (layout.shown - 1)
    step, middle = 0.6 * spacing / len(layout.groups), (len(layout.groups) - 1) / 2
    return {group: step * (index - middle) for index, group in enumerate(layout.groups)}


def _moved(place: Place, shift: float) -> Place:
    return place if isinstance(place, str) or not shift else place + shift
