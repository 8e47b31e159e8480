"""Fewer passes over the records: tables that several others can be summed from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final

# A set of attributes, as positions in ascending order.
Members: TypeAlias = tuple[int, ...]

# Tables are not merged beyond this: counters that leave the cache slow every record down.
_LARGEST: Final = 1 << 16
# Records per cell that a merged table should have at least; below, its cells cost more than it
# saves.
_RECORDS_PER_CELL: Final = 64
# Pairs of a table and a group that are looked at, so that thousands of tables stay cheap.
_PAIRS: Final = 1 << 20


def cells(members: Iterable[int], shape: Sequence[int]) -> int:
    """Return the number of cells of a table."""
    return math.prod(shape[member] for member in members)


@final
class Containers:
    """Finds, for a set of attributes, the smallest of some tables that contains it.

    Notes
    -----
    ``with_attribute[a]`` has bit t set when the t-th smallest table contains the attribute a, so
    the lowest bit of the conjunction over a set is the smallest table that contains it.
    """

    def __init__(self, tables: Iterable[Members], shape: Sequence[int]) -> None:
        self._sorted = sorted(tables, key=lambda table: cells(table, shape))
        places: dict[int, list[int]] = {}
        for place, table in enumerate(self._sorted):
            for member in table:
                places.setdefault(member, []).append(place)
        self._everywhere = (1 << len(self._sorted)) - 1
        self._with_attribute = {a: _bits(where, len(self._sorted)) for a, where in places.items()}

    def find(self, members: Members) -> Members | None:
        """Return the smallest table that contains the set, or None."""
        found = self._everywhere
        for member in members:
            found &= self._with_attribute.get(member, 0)
        return self._sorted[(found & -found).bit_length() - 1] if found else None


def maximal(sets: Iterable[Members], shape: Sequence[int]) -> list[Members]:
    """Return the sets that no other contains; the tables of all others are sums of theirs.

    Examples
    --------
    >>> maximal([(0,), (0, 1), (), (2,)], shape=(2, 2, 2))
    [(0, 1), (2,)]
    """
    by_width: dict[int, list[Members]] = {}
    for members in dict.fromkeys(sets):
        by_width.setdefault(len(members), []).append(members)
    kept: list[Members] = []
    for width in sorted(by_width, reverse=True):
        level = by_width[width]
        if kept:
            larger = Containers(kept, shape)
            level = [members for members in level if larger.find(members) is None]
        kept += level
    return kept


def covering(tables: Sequence[Members], shape: Sequence[int], records: int) -> list[Members]:
    """Return tables to count instead, each of the given ones being a sum of one of them.

    Counting a table of n cells costs about ``records · (1 + n/2¹⁶) + 16n``: every record once,
    slower as the counters leave the cache, and a few steps for each cell. The largest tables come
    first, and each one joins the group where it adds the least to this cost, or founds one of its
    own if that is cheaper.

    Examples
    --------
    >>> covering([(0, 1), (0, 2), (1, 2)], shape=(2, 3, 4), records=10_000)
    [(0, 1, 2)]
    >>> covering([(0, 1), (0, 2), (1, 2)], shape=(2, 3, 4), records=10)
    [(1, 2), (0, 2), (0, 1)]
    """
    limit = min(_LARGEST, records // _RECORDS_PER_CELL)
    ordered = sorted(tables, key=lambda table: cells(table, shape), reverse=True)
    if not ordered or limit < 2 * cells(ordered[-1], shape):
        return ordered
    window = max(8, _PAIRS // len(ordered))
    sets: list[set[int]] = []
    sizes: list[int] = []
    for table in ordered:
        alone = cells(table, shape)
        best, least = -1, _cost(alone, records)
        for group in range(max(0, len(sets) - window), len(sets)):
            joined = sizes[group] * cells((m for m in table if m not in sets[group]), shape)
            if joined == sizes[group]:
                # Nothing to add; and attributes with one value change no cost.
                best, least = group, 0.0
                break
            if joined <= limit:
                added = _cost(joined, records) - _cost(sizes[group], records)
                if added < least:
                    best, least = group, added
        if best < 0:
            sets.append(set(table))
            sizes.append(alone)
        else:
            sets[best] |= set(table)
            sizes[best] = cells(sets[best], shape)
    return maximal([tuple(sorted(members)) for members in sets], shape)


def _cost(count: int, records: int) -> float:
    return records * (1.0 + count / _LARGEST) + 16.0 * count


def _bits(places: list[int], length: int) -> int:
    flags = bytearray(length // 8 + 1)
    for place in places:
        flags[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(flags, "little")
