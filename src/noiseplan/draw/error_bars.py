"""A released table: every estimate with its interval."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from noiseplan.arrays import plain_columns
from noiseplan.draw.chart_layout import HEIGHT, Layout, extent, lay_out, place_cells, read_cells
from noiseplan.draw.figure import (
    NUMBER,
    PALETTE,
    ROW,
    ChartError,
    Spec,
    branded,
    drawn_text,
    figure,
    log_axis,
    shown,
)
from noiseplan.queries import Query
from noiseplan.queries.query import attribute_names

if TYPE_CHECKING:
    from noiseplan.release.release import Release

# Sizes in pixels.
PANEL = 600  # width of a chart that fills the page
NARROWEST = 300
MARGIN_HEIGHT = 120  # of the chart of percentages
CLOSE = 6  # from cell to cell
SMALL = 0.6  # height of a group's own panel, as a share of the whole


def error_bar_spec(
    frame_columns: Mapping[str, Sequence[Any]],
    x: str,
    colour: str | None,
    title: str,
    level: float,
    *,
    unit: str = "records",
) -> Spec:
    """A released table, every estimate with its interval, as a Vega-Lite specification.

    Of very many values some are drawn, and the subtitle says which: every so many of numbers, and
    the largest of categories. Where the intervals are too short to see beside the estimates, a
    second panel shows each as a percentage of its estimate.

    Parameters
    ----------
    frame_columns
        Columns of a tidy table: ``x``, ``colour``, ``estimate``, ``lower`` and ``upper``.
    x
        The column whose values are laid out along the chart.
    colour
        The column told apart by colour, or by panels where there are many cells; or None.
    title
        What the table is, in words.
    level
        Level of the intervals, e.g. 0.95.
    unit
        What is counted.

    Raises
    ------
    ChartError
        If a column is missing, a cell appears twice, there is no cell, or a number is not finite.
    """
    every = read_cells(frame_columns, x, colour)
    layout = lay_out(every)
    cells = place_cells(every, layout)
    lines = [f"{100 * level:g} % intervals, noise only"]
    for words, name in zip(layout.left_out, (x, colour), strict=True):
        if words is not None:
            lines.append(f"{words} {name}")
    charts = [_estimates(layout, cells, x, unit)]
    if layout.margins:
        charts.append(_margins(layout, cells, x))
        if any(cell["margin"] is None for cell in cells):
            lines.append("a triangle at 100 % is an interval that includes 0")
    for chart in charts:
        chart["encoding"] |= _grouping(layout, colour) | {"tooltip": _tooltip(x, colour)}
    return figure(title, lines) | {
        "data": {"values": cells},
        "vconcat" if layout.along == "x" or layout.panels else "hconcat": [
            _per_group(chart, layout, colour) for chart in charts
        ],
        "spacing": 16,
    }


def table_chart(
    release: Release,
    *attributes: str,
    level: float = 0.95,
    path: str | PathLike[str] | None = None,
) -> Any:
    """A released table of one or two attributes with its intervals, for notebooks or to a file.

    The first attribute is laid out along the chart, the second told apart by colour.
    """
    names = attribute_names(attributes, release.schema)
    if not 1 <= len(names) <= 2:
        found = f"{len(names)} attributes" if names else "none"
        raise ChartError(
            f"a chart has one or two attributes, as in plot('age', 'sex'); found {found}. Larger "
            f"tables: release.table({', '.join(map(repr, names)) or '...'})"
        )
    answer = release.answer(Query(release.schema, names), level=level)
    columns = plain_columns(answer.columns())
    drawn = [f"{name} (attribute)" if name not in columns else name for name in names]
    colour = drawn[1] if len(drawn) == 2 else None
    spec = error_bar_spec(columns, drawn[0], colour, " by ".join(names), level)
    for line in (*answer.left_out, answer.brand):
        spec = branded(spec, line)
    return shown(spec, path)


def _estimates(layout: Layout, cells: Sequence[Spec], x: str, unit: str) -> Spec:
    """Dots at the estimates, on rules from lower to upper end."""
    value = {
        "type": "quantitative",
        "title": f"estimate ({unit})",
        "scale": {"domain": extent(cells), "nice": False},
        "axis": {"format": NUMBER, "tickCount": 3 if layout.panels else 6, **_side(layout)},
    }
    # With the percentages right below, the labels there serve both.
    labelled = layout.along == "y" or layout.panels or not layout.margins
    return {
        **_size(layout, HEIGHT),
        "encoding": {layout.along: _position(layout, x if labelled else None)},
        "layer": _layers(layout, value),
    }


def _layers(layout: Layout, value: Spec) -> list[Spec]:
    across = layout.across
    lower, upper, estimate = (value | {"field": name} for name in ("lower", "upper", "estimate"))
    layers: list[Spec] = [
        {"mark": "rule", "encoding": {across: lower, f"{across}2": {"field": "upper"}}},
        {"mark": _dot(layout), "encoding": {across: estimate}},
    ]
    if layout.kind == "nominal":
        layers.insert(0, {"mark": "bar", "encoding": {across: estimate}})
    # Caps would blur the dots of bars too short to see, and run into each other in a dense row.
    if not layout.margins and not _dense(layout):
        turn = "horizontal" if layout.along == "x" else "vertical"
        cap = {"type": "tick", "orient": turn, "size": 5}
        layers += [{"mark": cap, "encoding": {across: end}} for end in (lower, upper)]
    return layers


def _dot(layout: Layout) -> Spec:
    return {"type": "point", "size": 16} if _dense(layout) else {"type": "point"}


def _dense(layout: Layout) -> bool:
    """Whether the cells stand closer together than dots of the usual size are wide."""
    beside = 1 if layout.panels else len(layout.groups)
    room = PANEL / _columns(layout) / (layout.shown * beside)
    return layout.kind == "quantitative" and room < CLOSE


def _margins(layout: Layout, cells: Sequence[Spec], x: str) -> Spec:
    """Half the interval's width, as a percentage of the estimate, on a logarithmic axis."""
    percents = [cell["percent"] for cell in cells if cell["percent"] > 0] or [1.0]
    value = {
        "field": "percent",
        "type": "quantitative",
        "title": ["± % of", "the estimate"] if layout.along == "x" else "± % of the estimate",
        **log_axis(min(percents), max(percents), most=5),
    }
    value["axis"] |= {"labelExpr": "datum.label + ' %'", **_side(layout)}
    shape = {"condition": {"test": "datum.margin === null", "value": "triangle"}, "value": "circle"}
    labelled = layout.along == "x" or layout.panels
    place = _position(layout, x if labelled else None)
    return {
        **_size(layout, MARGIN_HEIGHT),
        "mark": _dot(layout),
        "encoding": {layout.along: place, layout.across: value, "shape": shape},
    }


def _position(layout: Layout, title: str | None) -> Spec:
    """Axis of the categories; without a title it has no labels either."""
    place: Spec = {"field": "at", "type": layout.kind, "title": title}
    axis: Spec = {"labels": title is not None, "ticks": title is not None, "grid": False}
    if layout.kind == "quantitative":
        scale: Spec = {"zero": False, "nice": False, "padding": 14}
        return place | {"scale": scale, "axis": axis | {"format": ".12~g"}}
    axis |= {"ticks": False, "labelAngle": 0, "labelPadding": 6}
    if layout.along == "y" and not layout.panels:
        # Above its labels, and not turned on its side.
        axis |= {"titleAngle": 0, "titleAlign": "right", "titleX": -6, "titleY": -6}
    return place | {"sort": layout.places, "scale": {"type": "band", "padding": 0.25}, "axis": axis}


def _side(layout: Layout) -> Spec:
    """A long list is read from the top, so its axis of numbers is there too."""
    return {"orient": "top"} if layout.along == "y" and not layout.panels else {}


def _size(layout: Layout, height: int) -> Spec:
    """Width and height of a chart that is `height` high when categories stand side by side."""
    if layout.panels:
        listed = layout.along == "y"
        tall = layout.shown * ROW if listed else round(SMALL * height)
        return {"width": PANEL // _columns(layout), "height": tall}
    count = len(layout.groups)
    if layout.along == "y":
        width = PANEL * height // (HEIGHT + MARGIN_HEIGHT)
        return {"width": width, "height": layout.shown * max(ROW, 9 * count + 4)}
    room = layout.shown * max(64, 16 * count)
    fills = layout.kind == "quantitative" or room > PANEL
    return {"width": PANEL if fills else max(room, NARROWEST), "height": height}


def _columns(layout: Layout) -> int:
    """Panels in a row."""
    if not layout.panels:
        return 1
    return 2 if len(layout.groups) <= 4 else 3


def _grouping(layout: Layout, colour: str | None) -> Spec:
    """Tell the groups of one panel apart, by colour and by standing side by side."""
    if colour is None or layout.panels:
        return {"color": {"value": PALETTE[0]}}
    group = {"field": "group", "type": "nominal", "sort": layout.groups, "title": colour}
    few = len(layout.groups) <= len(PALETTE)
    shades = {"range": PALETTE} if few else {"scheme": {"name": "viridis", "extent": [0, 0.9]}}
    colours = {"color": group | {"scale": {"domain": layout.groups, **shades}}}
    return colours | ({f"{layout.along}Offset": group} if layout.kind == "nominal" else {})


def _per_group(chart: Spec, layout: Layout, colour: str | None) -> Spec:
    """Repeat the chart for each group where one panel would be crowded."""
    if not layout.panels:
        return chart
    # JSON quotes a name as the expression language does.
    name = json.dumps(drawn_text(f"{colour}: "))
    heading = {"calculate": f"{name} + datum.group", "as": "panel"}
    order = [f"{colour}: {group}" for group in layout.groups]
    return {
        "transform": [heading],
        "facet": {"field": "panel", "type": "nominal", "sort": order, "title": None},
        "columns": _columns(layout),
        "spec": chart,
        "spacing": 14,
    }


def _tooltip(x: str, colour: str | None) -> list[Spec]:
    attributes: list[Spec] = [{"field": "place", "title": x}]
    if colour:
        attributes.append({"field": "group", "title": colour})
    numbers = [{"field": name, "format": ",.1f"} for name in ("estimate", "lower", "upper")]
    return [*attributes, *numbers, {"field": "margin", "title": "± %", "format": ".2g"}]
