"""Whole numbers: tables of up to two attributes that agree, wider ones with their total.

A table of one attribute is rounded by its sums from the first value on, so that no prefix sum or
range is more than one away. A table of two attributes has whole row and column sums then: every
cell goes to the number below or above it, by least squares, as long as rows and columns can be
served in this way; what is left goes where there is room. Tables with impossible cells are rounded
before their margins, which are then the sums of them. For three and more attributes it is in
general not known (it is NP-hard to tell) whether whole numbers with given margins exist: these
tables are rounded each for itself, as tables of two: all attributes but the last, rounded before,
and the last. So they agree with every single attribute, and with their first two. Very large ones,
and those with impossible cells, are rounded by the sums of their cells one after another: the total
is right, and so are sums over the first attribute's values and groups of them, to one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import DataError
from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set, fit_margin

Open = Callable[[Set], Array | None]
# A number that is whole but for rounding.
WHOLE = 1e-7
# Cells that are rounded by least squares: about a second.
MOST_NEAREST = 100_000


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
        elif _by_twos(tables[name], name, found) and possible(name) is None:
            found[name] = _whole_wide(tables[name], name, found)
        else:
            found[name] = whole_shares(tables[name], total)
    return {name: found[name] for name in tables}


def _by_twos(table: Array, name: Set, found: Mapping[Set, IntArray]) -> bool:
    """Whether a wide table is rounded as tables of two, whose margins are whole."""
    margins = [name[:2], *((i,) for i in name)]
    return len(name) > 2 and table.size <= MOST_NEAREST and all(s in found for s in margins)


def _whole_wide(table: Array, name: Set, found: Mapping[Set, IntArray]) -> IntArray:
    """A table of several attributes: all but the last as rows, the last as columns."""
    rows = found.get(name[:-1])
    if rows is None:
        rows = _whole_wide(table.sum(axis=-1), name[:-1], found)
    flat = table.reshape(-1, table.shape[-1])
    return whole_two_way(flat, rows.ravel(), found[name[-1:]]).reshape(table.shape)


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
    """Whole numbers near a table that add up to `total`, and so do cells that follow each other.

    The sums from the first cell on are rounded, so every sum of cells in a row is less than one
    away from what it was, and a cell of zero stays zero. Rounding cells by their remainders would
    empty whole groups of small cells.

    Examples
    --------
    >>> whole_shares(np.array([1.4, 2.3, 0.3]), 4).tolist()
    [1, 3, 0]
    """
    sums = np.cumsum(table.ravel())
    whole = np.rint(sums * (total / (float(sums[-1]) or 1.0))).astype(np.int64)
    if not sums[-1]:  # nothing says where they are
        whole = np.rint(np.arange(1, whole.size + 1) * (total / whole.size)).astype(np.int64)
    return np.diff(whole, prepend=0).reshape(table.shape)


def whole_two_way(
    table: Array, rows: IntArray, columns: IntArray, closed: bool = False
) -> IntArray:
    """Whole numbers near a table with the given row and column sums.

    `closed`: cells that are zero stay so, and where that cannot be it is refused.

    Examples
    --------
    >>> near = np.array([[0.6, 0.4], [0.4, 1.6]])
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
    nearest = _nearest(near - whole, rows - whole.sum(axis=1), columns - whole.sum(axis=0))
    if nearest is not None:
        return whole + nearest
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


def _nearest(remainders: Array, rows: IntArray, columns: IntArray) -> IntArray | None:
    """Which cells are rounded up so that rows and columns are served, by least squares; if any are.

    A cell with remainder f has the squared error f², or (1 − f)² if it is rounded up: the least
    Σ (1 − 2f) z over 0 ≤ z ≤ 1 with these sums, a transport problem, whose corners are whole.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    (i, j), height = np.nonzero(remainders > WHOLE), len(rows)
    if not 0 < i.size <= MOST_NEAREST:
        return None
    place = np.arange(i.size)
    where = np.concatenate([i, height + j]), np.concatenate([place, place])
    shape = height + len(columns), i.size
    sums: Any = coo_array((np.ones(2 * i.size), where), shape=shape).tocsr()
    cost = 1.0 - 2.0 * remainders[i, j]
    needed = np.concatenate([rows, columns])
    found = linprog(cost, A_eq=sums, b_eq=needed, bounds=(0, 1), method="highs-ds")
    if found.x is None:
        return None
    up = np.zeros(remainders.shape, dtype=np.int64)
    up[i, j] = np.rint(found.x).astype(np.int64)
    served = (up.sum(axis=1) == rows).all() and (up.sum(axis=0) == columns).all()
    return up if served else None


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
