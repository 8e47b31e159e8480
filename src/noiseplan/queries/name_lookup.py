"""Names made from attributes, read backwards: which queries of a workload are called so?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.queries.factors import Factor, Identity
from noiseplan.queries.query import SEPARATOR, factor_name
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from noiseplan.queries.workload import Workload

# An attribute and a factor of it, as numbers.
Pair = tuple[int, int]
T = TypeVar("T")


class NameLookup:
    """The queries of a workload by their names, sorted once: then each name takes few steps.

    Made names are read rather than all of them written: a workload may have a million tables.
    """

    given: Mapping[str, int]
    _dense: Mapping[str, Sequence[int]]
    _pieces: Mapping[str, Sequence[Pair]]
    _rows: IntArray  # attributes and factors of the queries with made names, in order
    _positions: IntArray

    def __init__(self, workload: Workload) -> None:
        c = workload.columns
        self.given = {name: position for position, name in reversed(list(c.names.items()))}
        unnamed = np.ones(len(c), dtype=bool)
        unnamed[list(c.names)] = False
        dense = np.flatnonzero(unnamed & (c.joint >= 0)).tolist()
        self._dense = _grouped((workload.query(q).name, q) for q in dense)
        schema = workload.schema
        self._pieces = _grouped(
            (name, (a, f))
            for a, f in workload.pairs()
            for name in _names_of(schema, schema.names[a], c.distinct[f])
        )
        plain = np.flatnonzero(unnamed & (c.joint < 0))
        rows = np.column_stack([c.attributes[plain], c.factors[plain]])
        order = np.argsort(unique_rows(rows)[1], kind="stable")
        self._rows, self._positions = rows[order], plain[order]

    def made(self, name: str) -> list[int]:
        """Positions of the queries without a given name that are called `name`."""
        found = list(self._dense.get(name, ()))
        for spelling in _spellings(name, self._pieces):
            found += self._spelled(spelling)
        return sorted(found)

    def listed(self, parts: Sequence[str]) -> list[int]:
        """The same of a name in parts, which may come in any order: ["sex", "age"]."""
        known = [part for part in parts if part in self._pieces]
        if len(known) < len(parts) or not parts:
            return []
        return self.made(SEPARATOR.join(sorted(parts, key=lambda part: self._pieces[part][0])))

    def _spelled(self, spelling: list[Pair]) -> list[int]:
        """The queries with these attributes and factors, found by halving."""
        width = self._rows.shape[1] // 2
        if len(spelling) > width:
            return []
        padding = [(-1, -1)] * (width - len(spelling))
        attributes, factors = np.array(spelling + padding).reshape(-1, 2).T.tolist()
        places, row = range(len(self._rows)), lambda place: self._rows[place].tolist()
        start = bisect_left(places, attributes + factors, key=row)
        end = bisect_right(places, attributes + factors, lo=start, key=row)
        return [int(position) for position in self._positions[start:end]]


def _names_of(schema: Schema, attribute: str, factor: Factor) -> set[str]:
    """What a factor is called; leaves also by their attribute."""
    names = {factor_name(schema, attribute, factor)}
    return names | {attribute} if isinstance(factor, Identity) else names


def _grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for text, item in pairs:
        groups.setdefault(text, []).append(item)
    return groups


def _spellings(
    name: str, pieces: Mapping[str, Sequence[Pair]], after: int = -1
) -> Iterator[list[Pair]]:
    """All ways to read a name as (attribute, factor) numbers with the attributes ascending.

    There may be several, since the name of an attribute can hold any text.
    """
    if after < 0 and name == "total":
        yield []
    yield from ([pair] for pair in pieces.get(name, ()) if pair[0] > after)
    for text, rest in _cuts(name):
        for pair in pieces.get(text, ()):
            if pair[0] > after:
                yield from ([pair, *tail] for tail in _spellings(rest, pieces, pair[0]))


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """The texts before and after every separator."""
    at = name.find(SEPARATOR)
    while at >= 0:
        yield name[:at], name[at + len(SEPARATOR) :]
        at = name.find(SEPARATOR, at + 1)
