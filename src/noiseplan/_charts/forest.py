"""The expected standard error of every table of a plan, as a forest of dots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from noiseplan._charts.figure import (
    INK,
    MOST_ROWS,
    NUMBER,
    PALETTE,
    ROW,
    ChartError,
    Spec,
    figure,
    log_axis,
)

WIDTH = 380  # pixels between the names and the numbers
WIDE = 20.0  # ratio of largest to smallest above which the axis is logarithmic


class ForestRow(NamedTuple):
    """Expected standard error of one table: over all its cells, and of its best and worst cell."""

    table: str
    std_error: float
    smallest: float | None = None
    largest: float | None = None


def forest_spec(
    rows: Sequence[ForestRow | tuple[str, float]],
    *,
    title: str = "Expected standard error of each table",
    unit: str = "records",
) -> Spec:
    """Vega-Lite specification of :func:`noiseplan._charts.forest_chart`."""
    tables = sorted((_record(row) for row in rows), key=lambda record: -record["std_error"])
    if not tables:
        raise ChartError("no table to draw: give at least one row of (name, standard error)")
    lines = ["from the plan alone: no data was read"]
    if any(table["largest"] > table["smallest"] for table in tables):
        lines.append("dot: root mean square over the cells; line: most to least accurate cell")
    if len(tables) > MOST_ROWS:
        lines.append(f"the {MOST_ROWS} least accurate of {len(tables)} tables")
        tables = tables[:MOST_ROWS]
    return figure(title, lines) | {
        "data": {"values": tables},
        "width": WIDTH,
        "height": {"step": ROW},
        "encoding": {"y": _names()},
        "layer": _layers(_errors(tables) | {"title": f"standard error ({unit})"}),
    }


def _record(row: ForestRow | tuple[str, float]) -> Spec:
    table, error, smallest, largest = ForestRow(*row)
    low, high = (float(error if end is None else end) for end in (smallest, largest))
    if not all(math.isfinite(value) and value >= 0 for value in (low, error, high)):
        found = f"{error}" if smallest is None else f"{error} ({smallest} to {largest})"
        raise ChartError(f"standard error of {table!r} is {found}: it must be finite and ≥ 0")
    label = _three(error) if low == high else f"{_three(error)} ({_three(low)} to {_three(high)})"
    ends = {"smallest": low, "largest": high}
    return {"table": table, "std_error": float(error), "label": label, **ends}


def _three(value: float) -> str:
    """Three significant digits, or all of the whole part: 0.0123, 4.5, 1,860."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _names() -> Spec:
    axis = {"grid": True, "ticks": False, "labelPadding": 6}
    return {"field": "table", "type": "nominal", "sort": None, "title": None, "axis": axis}


def _errors(tables: Sequence[Spec]) -> Spec:
    """Axis of standard errors: from 0, or logarithmic where they differ by much."""
    low = min(table["smallest"] for table in tables)
    high = max(table["largest"] for table in tables)
    if low > 0 and high / low > WIDE:
        return {"type": "quantitative", **log_axis(low, high, most=8)}
    return {"type": "quantitative", "axis": {"format": NUMBER, "tickCount": 6}}


def _layers(value: Spec) -> list[Spec]:
    """Lines from best to worst cell, dots, and the numbers in a column right of the axis."""
    ends = {"x": value | {"field": "smallest"}, "x2": {"field": "largest"}}
    column = {"type": "text", "align": "left", "color": INK, "fontSize": 11}
    return [
        {"mark": {"type": "rule", "color": PALETTE[0]}, "encoding": ends},
        {
            "mark": {"type": "point", "color": PALETTE[0]},
            "encoding": {"x": value | {"field": "std_error"}},
        },
        {"mark": column, "encoding": {"x": {"value": WIDTH + 10}, "text": {"field": "label"}}},
    ]
