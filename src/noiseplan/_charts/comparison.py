"""Errors of several plans side by side: a line per query, a dot per plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noiseplan._charts.figure import (
    INK,
    NUMBER,
    PALETTE,
    ChartError,
    Spec,
    figure,
    log_axis,
)

WIDTH = 380  # pixels of the axis
DOT = 13  # pixels from plan to plan
MOST_QUERIES = 12  # lines of dots before a picture stops helping; then one line for all
WIDE = 20.0  # ratio of largest to smallest above which the axis is logarithmic
EVERYTHING = "all rows"


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
            f"{len(PALETTE)} in one picture, or use .table()"
        )
    lines = ["root mean square error over the rows of a query"]
    if any(plans["simulated"]):
        lines.append(f"hollow: simulated in {runs} runs, bars of 2 Monte Carlo standard errors")
    values = [_record(plans, i, EVERYTHING) for i in range(len(names))]
    if 1 < len(set(queries["query"])) <= MOST_QUERIES:
        every = range(len(queries["query"]))
        values += [_record(queries, i, str(queries["query"][i])) for i in every]
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
        "layer": _layers(_axis(values)),
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


def _axis(values: Sequence[Spec]) -> Spec:
    title = {"title": "root mean square error (records)"}
    low, high = min(v["rmse"] for v in values), max(v["high"] for v in values)
    if low > 0 and high / low > WIDE:
        drawn = min(v["low"] for v in values if v["low"] > 0)
        return {"type": "quantitative", **log_axis(drawn, high, most=8), **title}
    return {"type": "quantitative", "axis": {"format": NUMBER, "tickCount": 6}, **title}


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
