"""Expected errors as dots on lines: of every table of a plan, and of several plans side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from noiseplan.draw.figure import (
    INK,
    MOST_ROWS,
    PALETTE,
    ROW,
    ChartError,
    Spec,
    error_axis,
    figure,
    shown,
)
from noiseplan.words.level_errors import LevelError, level_errors
from noiseplan.words.plan import kind_name

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

WIDTH = 380  # pixels between the names and the numbers
DOT = 13  # pixels from plan to plan
MOST_QUERIES = 12  # lines of dots before a picture stops helping; then one line for all
EVERYTHING = "all rows"


# ---------------------------------------------------------------------- the tables of a plan


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
    ordered: bool = False,
) -> Spec:
    """The expected error of every table of a plan, the least accurate first, for Vega-Lite.

    Parameters
    ----------
    rows
        One per table: its name and standard error, and optionally the standard errors of its most
        and least accurate cell.
    title
        What the plan is, in words.
    unit
        What is counted.
    ordered
        Whether the rows stay in the order given.

    Raises
    ------
    ChartError
        If there is no row, or a standard error is not a finite number of at least 0.
    """
    tables = [_forest_record(row) for row in rows]
    if not ordered:
        tables.sort(key=lambda record: -record["std_error"])
    if not tables:
        raise ChartError("no table to draw: give at least one row of (name, standard error)")
    lines = ["from the plan alone: no data was read"]
    if any(table["largest"] > table["smallest"] for table in tables):
        lines.append("dot: root mean square over the cells; line: most to least accurate cell")
    if len(tables) > MOST_ROWS:
        which = "first" if ordered else "least accurate"
        lines.append(f"the {MOST_ROWS} {which} of {len(tables)} tables")
        tables = tables[:MOST_ROWS]
    low = min(table["smallest"] for table in tables)
    high = max(table["largest"] for table in tables)
    return figure(title, lines) | {
        "data": {"values": tables},
        "width": WIDTH,
        "height": {"step": ROW},
        "encoding": {"y": _names()},
        "layer": _forest_layers(error_axis(low, high, low, f"standard error ({unit})")),
    }


def plan_chart(plan: Plan, path: str | PathLike[str] | None = None) -> Any:
    """The expected standard error of every kind of table, or of every level; also to a file."""
    by_level = level_errors(plan)
    if by_level:
        return shown(level_spec(by_level), path)
    rows = [ForestRow(kind_name(kind), kind["std_error"]) for kind in plan.fairness()]
    return shown(forest_spec(rows), path)


def level_spec(errors: Sequence[LevelError]) -> Spec:
    """The expected error of every table, level by level from the coarsest, for Vega-Lite."""
    rows = [ForestRow(f"{e.level}: {e.table}", *e[2:]) for e in errors]
    return forest_spec(rows, title="Expected standard error by level", ordered=True)


def _forest_record(row: ForestRow | tuple[str, float]) -> Spec:
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


def _forest_layers(value: Spec) -> list[Spec]:
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


# ---------------------------------------------------------------------- plans side by side


def comparison_spec(
    plans: Mapping[str, Sequence[Any]], queries: Mapping[str, Sequence[Any]], runs: int
) -> Spec:
    """Vega-Lite specification of the errors of plans.

    Parameters
    ----------
    plans
        Columns with a row per plan: plan, rmse, rmse_error, simulated.
    queries
        The same with a row per query and plan, and the column query.
    runs
        How many runs were simulated.
    """
    names = list(plans["plan"])
    if not names:
        raise ChartError("no plan to draw: compare at least one")
    if len(names) > len(PALETTE):
        raise ChartError(
            f"{len(names)} plans are more than can be told apart by colour; compare at most "
            f"{len(PALETTE)} in one picture"
        )
    lines = ["root mean square error over the rows of a query"]
    if any(plans["simulated"]):
        lines.append(f"hollow: simulated in {runs} runs, bars of 2 Monte Carlo standard errors")
    values = [_record(plans, i, EVERYTHING) for i in range(len(names))]
    if 1 < len(set(queries["query"])) <= MOST_QUERIES:
        every = range(len(queries["query"]))
        values += [_record(queries, i, str(queries["query"][i])) for i in every]
    axis = error_axis(
        min((v["low"] for v in values if v["low"] > 0), default=0.0),
        max(v["high"] for v in values),
        min(v["rmse"] for v in values),
        "root mean square error (records)",
    )
    return figure("Expected error of each plan", lines) | {
        "data": {"values": values},
        "width": WIDTH,
        "height": {"step": DOT, "for": "offset"},
        "encoding": {
            "y": {"field": "query", "type": "nominal", "sort": None, "title": None},
            "yOffset": {"field": "plan", "type": "nominal", "sort": names},
            "color": {
                "field": "plan",
                "type": "nominal",
                "sort": names,
                "scale": {"domain": names, "range": list(PALETTE[: len(names)])},
                "title": None,
                "legend": {"symbolType": "circle", "symbolStrokeWidth": 3},
            },
        },
        "layer": _layers(axis),
    }


def _record(columns: Mapping[str, Sequence[Any]], i: int, query: str) -> Spec:
    rmse, error = float(columns["rmse"][i]), float(columns["rmse_error"][i])
    simulated = bool(columns["simulated"][i])
    return {
        "query": query,
        "plan": columns["plan"][i],
        "rmse": rmse,
        "low": max(rmse - 2 * error, 0.0),
        "high": rmse + 2 * error,
        "simulated": simulated,
        "label": f"{rmse:.3g}",
    }


def _layers(axis: Spec) -> list[Spec]:
    dots = {"type": "point", "size": 45, "strokeWidth": 2}
    at = {"x": axis | {"field": "rmse"}}
    return [
        {
            "mark": {"type": "rule"},
            "encoding": {"x": axis | {"field": "low"}, "x2": {"field": "high"}},
        },
        {
            "transform": [{"filter": "!datum.simulated"}],
            "mark": dots | {"filled": True},
            "encoding": at,
        },
        {
            "transform": [{"filter": "datum.simulated"}],
            "mark": dots | {"filled": False, "fill": "white"},
            "encoding": at,
        },
        {
            "mark": {"type": "text", "align": "left", "fontSize": 10},
            "encoding": {
                "x": {"value": WIDTH + 10},
                "text": {"field": "label"},
                "color": {"value": INK},
            },
        },
    ]
