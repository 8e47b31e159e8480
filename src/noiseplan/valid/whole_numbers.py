"""Whole numbers: tables of up to two attributes that agree, wider ones with their total.

A table of one attribute is rounded by largest remainders. A table of two attributes has whole row
and column sums then, and is rounded by a flow: every cell goes to the number below or above it, as
long as rows and columns can be served in this way; what is left goes where there is room. Tables
with impossible cells are rounded before their margins, which are then the sums of them. For three
and more attributes it is in general not known (it is NP-hard to tell) whether whole numbers with
given margins exist: these tables are rounded each for itself, with the right total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import DataError
from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set, fit_margin

Open = Callable[[Set], Array | None]
# A number that is whole but for rounding.
WHOLE = 1e-7


def whole_tables(
    tables: Mapping[Set, Array], total: int, possible: Open = lambda _: None
) -> dict[Set, IntArray]:
    """All tables in whole numbers; those of at most two attributes agree on their margins.

    `possible` says which cells of a table can be positive, None where all can. Tables of two
    attributes with closed cells are rounded first, and their margins follow from them: whole
    margins that were rounded beforehand need not have a table without the closed cells.
    """
    found: dict[Set, IntArray] = {}
    for name, table in tables.items():
        if len(name) <= 1 and np.abs(table - np.rint(table)).max() <= WHOLE:
            found[name] = np.rint(table).astype(np.int64)  # public, or zero
    closed: list[Set] = [s for s in tables if len(s) == 2 and possible(s) is not None]
    closed = [s for s in closed if all((i,) in tables for i in s)]
    while closed:  # those that hang on what is settled before the others
        name = max(closed, key=lambda s: sum((i,) in found for i in s))
        closed.remove(name)
        found[name] = _whole_closed(tables[name], name, found, total)
        found |= {(i,): found[name].sum(axis=1 - place) for place, i in enumerate(name)}
    for name in sorted(tables, key=len):
        if name in found:
            continue
        if len(name) == 2 and all((i,) in found for i in name):
            found[name] = whole_two_way(tables[name], found[name[:1]], found[name[1:]])
        else:
            found[name] = whole_shares(tables[name], total)
    return {name: found[name] for name in tables}


def _whole_closed(table: Array, name: Set, found: Mapping[Set, IntArray], total: int) -> IntArray:
    """A table of two attributes in whole numbers, zero where it is zero now."""
    rows, columns = found.get(name[:1]), found.get(name[1:])
    if rows is not None and columns is not None:
        return whole_two_way(table, rows, columns, closed=True)
    near = np.where(table < 1e-12, 0.0, table)
    near *= total / (float(near.sum()) or 1.0)
    for goal, axis in ((rows, 0), (columns, 1)):
        if goal is not None:
            fit_margin(near, (0, 1), (axis,), goal)
    return whole_near(near)


def whole_near(table: Array) -> IntArray:
    """Every cell, row sum and column sum to the whole number below or above it.

    The table's total is whole. A further column and row hold what its sums miss to the next whole
    number; all sums of the larger table are whole, and then a flow rounds every cell of it.

    Examples
    --------
    >>> whole_near(np.array([[0.5, 0.5], [0.0, 1.0]])).sum(axis=1).tolist()
    [1, 1]
    """
    height, width = table.shape
    larger = np.zeros((height + 1, width + 1))
    larger[:-1, :-1] = table
    sums, across = table.sum(axis=1), table.sum(axis=0)
    larger[:-1, -1] = np.ceil(sums - WHOLE) - sums
    larger[-1, :-1] = np.ceil(across - WHOLE) - across
    larger = np.maximum(larger, 0.0)
    rows, columns = (np.rint(larger.sum(axis=a)).astype(np.int64) for a in (1, 0))
    whole = np.floor(larger + WHOLE).astype(np.int64)
    for room in ((larger > whole).astype(np.int64), int(rows.sum()) * (larger > 0)):
        whole += _flow(room, rows - whole.sum(axis=1), columns - whole.sum(axis=0))
    return whole[:-1, :-1]


def whole_shares(table: Array, total: int) -> IntArray:
    """Whole numbers near a table that add up to `total`: the largest remainders are rounded up.

    Examples
    --------
    >>> whole_shares(np.array([1.4, 2.3, 0.3]), 4).tolist()
    [2, 2, 0]
    """
    shares = table.ravel() / (float(table.sum()) or 1.0)
    scaled = shares * total
    floors = np.floor(scaled + 1e-9)
    missing = total - int(floors.sum())
    order = np.argsort(floors - scaled, kind="stable")  # the largest remainder first
    order = order[scaled[order] > 0] if scaled.any() else order
    if missing > 0:
        np.add.at(floors, np.resize(order, missing), 1.0)
    elif missing < 0:
        up = order[floors[order] > 0][::-1]
        floors[up[:-missing]] -= 1.0
    return floors.astype(np.int64).reshape(table.shape)


def whole_two_way(
    table: Array, rows: IntArray, columns: IntArray, closed: bool = False
) -> IntArray:
    """Whole numbers near a table with the given row and column sums.

    `closed`: cells that are zero stay so, and where that cannot be it is refused.

    Examples
    --------
    >>> near = np.array([[0.5, 0.5], [0.5, 1.5]])
    >>> whole_two_way(near, np.array([1, 2]), np.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    near = _fitted(table, rows, columns)
    whole = np.floor(near + 1e-9).astype(np.int64)
    _lower(whole, rows)
    _lower(whole.T, columns)
    largest = int(rows.sum())
    rounded_up = (near > whole).astype(np.int64)
    rooms = [rounded_up, largest * (near > 0)]
    for room in rooms if closed else [*rooms, np.full_like(whole, largest)]:
        whole += _flow(room, rows - whole.sum(axis=1), columns - whole.sum(axis=0))
    if (whole.sum(axis=1) != rows).any():
        raise DataError(
            "these tables have impossible cells in so many places that no way was found to round "
            "all of them to whole numbers that agree: leave out integers=True, or some of the "
            "impossible cells"
        )
    return whole


def _fitted(table: Array, rows: IntArray, columns: IntArray) -> Array:
    """The table by proportions to its new margins, which are less than one away."""
    table = np.where(table < 1e-12, 0.0, table)
    for _ in range(20):
        for goal, axis in ((columns, 1), (rows, 0)):
            fit_margin(table, (0, 1), (axis,), goal)
    return table


def _lower(whole: IntArray, most: IntArray) -> None:
    """Take what is too much in a row from its largest cells, in place."""
    for i in np.flatnonzero(whole.sum(axis=1) > most):
        excess = int(whole[i].sum() - most[i])
        for j in np.argsort(-whole[i], kind="stable"):
            taken = min(excess, int(whole[i, j]))
            whole[i, j] -= taken
            excess -= taken


def _flow(room: IntArray, rows: IntArray, columns: IntArray) -> IntArray:
    """As much as can be sent from rows to columns through cells with so much room."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    found = np.zeros_like(room)
    if not rows.any():
        return found
    height, width = room.shape
    source, sink = height + width, height + width + 1
    i, j = np.nonzero((room > 0) & (rows[:, None] > 0) & (columns[None, :] > 0))
    start = np.concatenate([i, np.full(height, source), height + np.arange(width)])
    stop = np.concatenate([height + j, np.arange(height), np.full(width, sink)])
    most = np.concatenate([room[i, j], rows, columns]).clip(max=np.iinfo(np.int32).max)
    graph = coo_array((most.astype(np.int32), (start, stop)), shape=(sink + 1, sink + 1)).tocsr()
    flow = maximum_flow(graph, source, sink).flow.tocoo()
    sent = (flow.row < height) & (flow.col >= height) & (flow.col < source) & (flow.data > 0)
    found[flow.row[sent], flow.col[sent] - height] = flow.data[sent]
    return found
