"""The chart of a table of one or two attributes, where one helps."""

from __future__ import annotations

from typing import Final

from noiseplan.draw.html import Markup
from noiseplan.draw.table_svg import Along, Line, table_picture
from noiseplan.report.table_cells import Axis, Cells

# Fewer values along an ordered attribute than this are bars; more than the other crowd a page.
FEW: Final = 8
MOST_ALONG: Final = 200


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
    along = Along(axis.name, [str(x) for x in axis.labels], _numbers(axis) if ordered else None)
    return table_picture(f"{cells.name}, along {axis.name}", along, lines, ordered)


def _order(cells: Cells) -> tuple[int, ...]:
    """The attribute along the chart first: an ordered one if there is one, else the longer."""
    rank = [(axis.ordered and len(axis) >= FEW, len(axis)) for axis in cells.axes]
    return tuple(sorted(range(len(rank)), key=lambda i: rank[i], reverse=True))


def _numbers(axis: Axis) -> list[float] | None:
    """The labels as numbers, if all of them are."""
    plain = [float(x) for x in axis.labels if isinstance(x, int | float)]
    return plain if len(plain) == len(axis) else None
