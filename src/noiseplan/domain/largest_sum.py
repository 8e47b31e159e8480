"""The largest sum of tables that share attributes, without looking at every cell of the domain.

    max_x Σ_t T_t(x_t) ,    T_t a table over a few attributes

is found attribute by attribute: all tables over one are added up, and its largest entry is taken.
Values that no table tells apart are one value, so attributes that all values of which look alike
cost nothing. Where a sum of tables has too many cells, it is split in two, each with a largest
entry of its own: no cell has more than both together, so what is found is never too small.

References
----------
R. Dechter and I. Rish, "Mini-buckets: a general scheme for bounded inference", JACM 50 (2003).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, first_of, immutable, joined_kinds
from noiseplan.matrices.base import Array, exactly_equal_columns

# Cells of the largest table that is made: 32 MB.
MOST_CELLS: Final = 2**22
# Tables up to which values that none tells apart are looked for.
MOST_COMPARED: Final = 1000
# Times that every attribute is looked at again, on the way to a cell that none beside is better
# than, and tables whose best cells the way starts from.
SWEEPS: Final = 20
STARTS: Final = 6


@immutable
@dataclass(frozen=True, eq=False)
class Table:
    """Numbers over the values of some attributes, in ascending order."""

    attributes: tuple[int, ...]
    values: Array


def added(tables: Iterable[Table]) -> Table:
    """The sum, over all attributes of all."""
    listed = list(tables)
    every = tuple(sorted({a for table in listed for a in table.attributes}))
    total: Array = np.zeros((1,) * len(every))
    for table in listed:
        place = [every.index(a) for a in table.attributes]
        gaps = tuple(i for i in range(len(every)) if i not in place)
        total = total + np.expand_dims(table.values, gaps)
    return Table(every, total)


def largest_sum(tables: Sequence[Table]) -> tuple[float, dict[int, int]]:
    """A number that no cell is above, and a cell that has it: a value of each attribute that
    counts. Where tables had to be split, the number may be too large, and the cell another.

    Examples
    --------
    >>> one, two = Table((0,), np.array([1.0, 4.0])), Table((0, 1), np.array([[5.0, 0], [0, 1]]))
    >>> largest_sum([one, two])
    (6.0, {0: 0, 1: 0})
    """
    left, firsts = _values_told_apart(tables)
    steps: list[tuple[int, list[Table]]] = []
    sizes = {a: len(own) for a, own in firsts.items()}
    while any(table.attributes for table in left):
        attribute = _fewest_cells(left, sizes)
        mine = [table for table in left if attribute in table.attributes]
        sums = [added(some) for some in _within(mine)]
        left = [table for table in left if attribute not in table.attributes]
        left += [_largest_over(table, attribute) for table in sums]
        steps.append((attribute, sums))
    cell: dict[int, int] = {}
    for attribute, sums in reversed(steps):
        cell[attribute] = int(np.argmax(sum(_line(table, attribute, cell) for table in sums)))
    found = {a: int(firsts[a][value]) for a, value in sorted(cell.items())}
    return float(sum(float(table.values) for table in left)), found


def large_sum(tables: Sequence[Table]) -> tuple[float, dict[int, int]]:
    """A cell that no change of one value makes larger, from the best cells of some tables: quick,
    and often the largest."""
    every = sorted({a for table in tables for a in table.attributes})
    by_attribute = {a: [t for t in tables if a in t.attributes] for a in every}
    best: tuple[float, dict[int, int]] = (-np.inf, {})
    for start in sorted(tables, key=lambda table: -float(table.values.max()))[:STARTS]:
        cell = dict.fromkeys(every, 0)
        place = np.unravel_index(int(start.values.argmax()), start.values.shape)
        cell |= dict(zip(start.attributes, map(int, place), strict=True))
        _climb(by_attribute, cell)
        value = float(sum(t.values[tuple(cell[a] for a in t.attributes)] for t in tables))
        best = max(best, (value, cell), key=lambda found: found[0])
    return best


def _climb(by_attribute: dict[int, list[Table]], cell: dict[int, int]) -> None:
    """Change one value after another for the best, until none is better."""
    for _ in range(SWEEPS):
        before = dict(cell)
        for attribute, tables in by_attribute.items():
            line = np.sum([_line(table, attribute, cell) for table in tables], axis=0)
            if line[cell[attribute]] < line.max():
                cell[attribute] = int(np.argmax(line))
        if cell == before:
            break


def _fewest_cells(tables: Iterable[Table], sizes: dict[int, int]) -> int:
    """The attribute whose tables have a sum of the fewest cells."""
    near: dict[int, set[int]] = {}
    for table in tables:
        for attribute in table.attributes:
            near.setdefault(attribute, set()).update(table.attributes)
    return min(near, key=lambda a: (prod(sizes[b] for b in near[a]), a))


def _cells(tables: Iterable[Table]) -> int:
    """Cells of the sum of some tables."""
    sizes = {a: n for t in tables for a, n in zip(t.attributes, t.values.shape, strict=True)}
    return prod(sizes.values())


def _within(tables: list[Table]) -> list[list[Table]]:
    """The tables in groups whose sums are small enough: one group, where that can be.

    Else the sums have no more than so many cells all together, however many tables there are.
    """
    if _cells(tables) <= MOST_CELLS:
        return [tables]
    groups: list[list[Table]] = []
    for table in sorted(tables, key=lambda table: -table.values.size):
        for group in groups[-1:]:
            if _cells([*group, table]) <= MOST_CELLS // len(tables):
                group.append(table)
                break
        else:
            groups.append([table])
    return groups


def _largest_over(table: Table, attribute: int) -> Table:
    axis = table.attributes.index(attribute)
    rest = tuple(a for a in table.attributes if a != attribute)
    return Table(rest, table.values.max(axis=axis))


def _line(table: Table, attribute: int, cell: dict[int, int]) -> Array:
    """The entries along one attribute, in the cell chosen so far."""
    return table.values[tuple(slice(None) if a == attribute else cell[a] for a in table.attributes)]


def _values_told_apart(tables: Sequence[Table]) -> tuple[list[Table], dict[int, IntArray]]:
    """The tables over values that differ in some table, and the first value of each kind."""
    if len(tables) > MOST_COMPARED:
        sizes = (zip(table.attributes, table.values.shape, strict=True) for table in tables)
        return list(tables), {a: np.arange(n) for pairs in sizes for a, n in pairs}
    kinds: dict[int, list[IntArray]] = {}
    for table in tables:
        for axis, a in enumerate(table.attributes):
            front = np.moveaxis(table.values, axis, -1)
            own = exactly_equal_columns(front.reshape(-1, front.shape[-1]))
            kinds.setdefault(a, []).append(own)
    firsts = {a: first_of(joined_kinds(some)) for a, some in kinds.items()}
    return [Table(t.attributes, _taken(t, firsts)) for t in tables], firsts


def _taken(table: Table, firsts: dict[int, IntArray]) -> Array:
    return table.values[np.ix_(*(firsts[a] for a in table.attributes))]
