"""The queries of a workload as columns of numbers, so that a million tables stay cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from noiseplan.arrays import IntArray, unique_rows, widened
from noiseplan.errors import QueryError, remedy
from noiseplan.matrices.base import Array
from noiseplan.queries.factors import Factor, Total
from noiseplan.queries.query import Query
from noiseplan.schema import Schema


@dataclass(frozen=True, eq=False)
class QueryColumns:
    """The queries of a workload as columns; row q is query q.

    `attributes[q]` holds the attribute numbers of query q in ascending order, padded with −1;
    `factors[q]` the index of each attribute's factor in `distinct`, padded likewise;
    `joint[q]` the index of its dense matrix in `matrices`, or −1; `names` those that were given.
    """

    attributes: IntArray
    factors: IntArray
    weights: Array
    joint: IntArray
    distinct: tuple[Factor, ...]
    matrices: tuple[Array, ...]
    names: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.weights)

    def taken(self, rows: IntArray) -> QueryColumns:
        """Some of the queries, each at most once, with the factors and matrices that they have."""
        place = {int(old): new for new, old in enumerate(rows)}
        named = {place[q]: name for q, name in self.names.items() if q in place}
        factors, distinct = _used(self.factors[rows])
        joint, matrices = _used(self.joint[rows])
        return QueryColumns(
            self.attributes[rows],
            factors,
            self.weights[rows],
            joint,
            tuple(self.distinct[i] for i in distinct),
            tuple(self.matrices[i] for i in matrices),
            dict(sorted(named.items())),
        )


def _used(numbers: IntArray) -> tuple[IntArray, list[int]]:
    """Numbers from zero on of those that are left, and which these are; −1 stays."""
    used = np.unique(numbers[numbers >= 0])
    return np.where(numbers >= 0, np.searchsorted(used, numbers), -1), used.tolist()


def columns_of(schema: Schema, queries: Sequence[Query]) -> QueryColumns:
    """Columns from query objects."""
    width = max(len(query.attributes) for query in queries)
    distinct: dict[Factor, int] = {}
    matrices: list[Array] = []
    attributes = np.full((len(queries), width), -1)
    factors = np.full((len(queries), width), -1)
    joint = np.full(len(queries), -1)
    for q, query in enumerate(queries):
        on = [schema.index(n) for n in query.attributes]
        attributes[q, : len(on)] = on
        kinds = [distinct.setdefault(f, len(distinct)) for f in query.factors.values()]
        factors[q, : len(on)] = kinds
        if query.joint is not None:
            joint[q] = len(matrices)
            matrices.append(query.joint)
    weights = np.array([query.weight for query in queries])
    names = {q: query.named for q, query in enumerate(queries) if query.named}
    return QueryColumns(
        attributes, factors, weights, joint, tuple(distinct), tuple(matrices), names
    )


def joined(a: QueryColumns, b: QueryColumns) -> QueryColumns:
    """The queries of a, then those of b."""
    width = max(a.attributes.shape[1], b.attributes.shape[1])
    number = {f: i for i, f in enumerate(dict.fromkeys(a.distinct + b.distinct))}
    renumber = np.array([number[f] for f in b.distinct] + [-1])  # last: the padding −1
    return QueryColumns(
        np.concatenate([widened(a.attributes, width), widened(b.attributes, width)]),
        np.concatenate([widened(a.factors, width), widened(renumber[b.factors], width)]),
        np.concatenate([a.weights, b.weights]),
        np.concatenate([a.joint, np.where(b.joint >= 0, b.joint + len(a.matrices), -1)]),
        tuple(number),
        a.matrices + b.matrices,
        dict(a.names) | {q + len(a): name for q, name in b.names.items()},
    )


def without_totals(c: QueryColumns) -> QueryColumns:
    """Drop attributes whose factor is `Total()`: they are summed over, as if not named."""
    totals = [i for i, f in enumerate(c.distinct) if isinstance(f, Total)]
    gone = np.isin(c.factors, totals)
    order = np.argsort(gone, axis=1, kind="stable")  # what stays moves to the front, in its order
    attributes = np.take_along_axis(np.where(gone, -1, c.attributes), order, axis=1)
    factors = np.take_along_axis(np.where(gone, -1, c.factors), order, axis=1)
    return replace(c, attributes=attributes, factors=factors)


def merged(c: QueryColumns) -> QueryColumns:
    """Merge equal queries: weights add, the first place and the first given name stay.

    Queries that were given different names stay apart, since targets refer to them by name.
    """
    number: dict[bytes, int] = {}
    ids = [number.setdefault(_digest(matrix), i) for i, matrix in enumerate(c.matrices)]
    matrix = np.array([*ids, -1])[c.joint]  # last: no matrix
    first, kind = unique_rows(np.column_stack([c.attributes, c.factors, matrix]))
    if c.names:
        split = _split_by_name(kind, c.names)
        _, first, kind = np.unique(split, return_index=True, return_inverse=True)
    if len(first) == len(c):
        return c
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    names: dict[int, str] = {}
    for q, name in c.names.items():
        names.setdefault(int(place[kind[q]]), name)
    kept = replace(c, names={}).taken(first[order])
    weights = np.bincount(place[kind], weights=c.weights).astype(np.float64)
    return replace(kept, weights=weights, names=dict(sorted(names.items())))


def _digest(matrix: Array) -> bytes:
    """Equal for equal matrices; short, since a matrix may be as large as memory allows."""
    return blake2b(np.ascontiguousarray(matrix).data).digest()


# What tells two queries apart.
NAMED = remedy("name query", "Query(..., name=...)")


def _split_by_name(kind: IntArray, names: Mapping[int, str]) -> IntArray:
    """Give equal queries of different names kinds of their own; refuse one name for two kinds."""
    split = kind.copy()
    kind_of: dict[str, int] = {}
    first_name: dict[int, str] = {}
    fresh: dict[str, int] = {}
    for q, name in names.items():
        mine = int(kind[q])
        if kind_of.setdefault(name, mine) != mine:
            raise QueryError(
                f"two different queries are both called {name!r}: give each a name of its own, "
                + NAMED
            )
        if first_name.setdefault(mine, name) != name:
            split[q] = len(kind) + fresh.setdefault(name, len(fresh))
    return split
