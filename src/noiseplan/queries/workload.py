"""Workloads: many queries, kept as columns of numbers so that a million tables stay cheap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import combination_rows, unique_rows
from noiseplan.errors import QueryError
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.queries.factors import Factor, Identity, Total
from noiseplan.queries.query import Query, checked_weight
from noiseplan.schema import Schema

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QueryColumns:
    """The queries of a workload as columns; row q is query q.

    `attributes[q]` holds the attribute numbers of query q in ascending order, padded with −1;
    `factors[q]` the index of each attribute's factor in `distinct`, padded likewise;
    `joint[q]` the index of its dense matrix in `matrices`, or −1.
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


class Workload:
    """Everything to be answered together. Workloads add up; equal queries merge, weights add.

    Examples
    --------
    >>> schema = Schema.from_sizes({"age": 10, "sex": 2, "region": 4})
    >>> workload = Workload.marginals(schema, up_to=2)
    >>> len(workload), workload.rows
    (7, 85)
    """

    def __init__(self, queries: Iterable[Query]) -> None:
        queries = list(queries)
        if not queries:
            raise QueryError("a workload needs at least one query, e.g. Workload.marginals(schema, k=1)")
        for query in queries:
            if not isinstance(query, Query):
                raise QueryError(f"a workload is made of queries, found {query!r}")
        schema = queries[0].schema
        if any(query.schema != schema for query in queries):
            raise QueryError("all queries of a workload must have the same schema")
        self._set(schema, _merged(_columns(schema, queries)))

    def _set(self, schema: Schema, columns: QueryColumns) -> None:
        self.schema = schema
        self.columns = columns

    @classmethod
    def _of(cls, schema: Schema, columns: QueryColumns) -> Workload:
        workload = cls.__new__(cls)
        workload._set(schema, columns)
        return workload

    @classmethod
    def marginals(
        cls,
        schema: Schema,
        *,
        k: int | None = None,
        up_to: int | None = None,
        factors: Mapping[str, Factor] | None = None,
        weight: float = 1.0,
    ) -> Workload:
        """All tables of exactly `k` attributes, or of at most `up_to` (the total included).

        `factors` says what is asked of an attribute wherever it occurs, `Identity()` if not named.
        """
        if (k is None) == (up_to is None):
            raise QueryError("say either k=2 (exactly two attributes) or up_to=2 (at most two)")
        largest = _checked_ways(schema, k if k is not None else up_to)
        chosen = dict.fromkeys(schema.names, Identity()) | dict(factors or {})
        Query(schema, chosen)  # checks names and factors
        distinct = tuple(dict.fromkeys(chosen.values()))
        factor_of = np.array([distinct.index(chosen[n]) for n in schema.names])
        sizes = [largest] if k is not None else range(largest + 1)
        rows = [combination_rows(len(schema), size) for size in sizes]
        attributes = np.concatenate([_padded(r, largest) for r in rows])
        kinds = np.where(attributes >= 0, factor_of[attributes], -1)
        count = len(attributes)
        columns = QueryColumns(
            attributes, kinds, np.full(count, checked_weight(weight)),
            np.full(count, -1), distinct, (),
        )  # fmt: skip
        return cls._of(schema, _merged(_without_totals(columns)))

    def __add__(self, other: Workload | Query) -> Workload:
        if isinstance(other, Query):
            other = Workload([other])
        if not isinstance(other, Workload):
            return NotImplemented
        if other.schema != self.schema:
            raise QueryError("workloads over different schemas cannot be added")
        return self._of(self.schema, _merged(_joined(self.columns, other.columns)))

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Query]:
        return (self.query(i) for i in range(len(self)))

    def __getitem__(self, key: int | str) -> Query:
        if isinstance(key, str):
            return self.query(self.position(key))
        return self.query(range(len(self))[key])

    def query(self, position: int) -> Query:
        """The query at a position."""
        c = self.columns
        on = c.attributes[position]
        names = [self.schema.names[i] for i in on[on >= 0]]
        name, weight = c.names.get(position), float(c.weights[position])
        if c.joint[position] >= 0:
            matrix = c.matrices[c.joint[position]]
            return Query(self.schema, names, matrix=matrix, weight=weight, name=name)
        kinds = [c.distinct[f] for f in c.factors[position][: len(names)]]
        return Query(self.schema, dict(zip(names, kinds, strict=True)), weight=weight, name=name)

    def position(self, name: str) -> int:
        """The position of the query of that name."""
        for position, given in self.columns.names.items():
            if given == name:
                return position
        found = [i for i, query in enumerate(self) if query.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise QueryError(f"{len(found)} queries are called {name!r}: give them names of their own")
        known = ", ".join(repr(query.name) for query, _ in zip(self, range(8), strict=False))
        raise QueryError(f"no query is called {name!r}; the workload has {known}{' …' * (len(self) > 8)}")

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each query."""
        c = self.columns
        rows_of = np.ones((len(self.schema) + 1, len(c.distinct) + 1), dtype=np.int64)
        for a, f in self.pairs():
            rows_of[a, f] = self.matrix(a, f).shape[0]
        size = rows_of[c.attributes, c.factors].prod(axis=1)  # the padding −1 reads the last ones
        for q in np.flatnonzero(c.joint >= 0):
            size[q] = len(c.matrices[c.joint[q]])
        return size

    def pairs(self) -> list[tuple[int, int]]:
        """Every attribute with every factor asked of it, as numbers."""
        c = self.columns
        used = np.zeros((len(self.schema) + 1, len(c.distinct) + 1), dtype=bool)
        kron = c.joint < 0
        used[c.attributes[kron], c.factors[kron]] = True
        return [(int(a), int(f)) for a, f in np.argwhere(used[:-1, :-1])]

    @property
    def rows(self) -> int:
        """Rows of all queries together."""
        return int(self.sizes.sum())

    def matrix(self, attribute: int, factor: int) -> Matrix:
        """The matrix of a factor (by its number) on an attribute (by its number)."""
        return self.columns.distinct[factor].matrix(self.schema.attributes[attribute])

    def weighted(self, scheme: str) -> Workload:
        """The same queries under a weighting scheme, multiplied onto the present weights.

        "rows": every row counts the same (as it is); "tables": every table counts the same, whatever
        its size (1/rows); "sqrt": in between (1/√rows).
        """
        power = {"rows": 0.0, "tables": 1.0, "sqrt": 0.5}
        if scheme not in power:
            raise QueryError(f"unknown weighting {scheme!r}; choose from {list(power)}")
        weights = self.columns.weights / self.sizes ** power[scheme]
        return self._of(self.schema, replace(self.columns, weights=weights))

    def subset(self, positions: Sequence[int] | IntArray) -> Workload:
        """Some of the queries, by position."""
        keep = np.asarray(positions, dtype=np.int64)
        if not len(keep):
            raise QueryError("a workload needs at least one query")
        c = self.columns
        place = {int(old): new for new, old in enumerate(keep)}
        names = {place[i]: name for i, name in c.names.items() if i in place}
        return self._of(
            self.schema,
            replace(c, attributes=c.attributes[keep], factors=c.factors[keep],
                    weights=c.weights[keep], joint=c.joint[keep], names=names),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Workload({len(self):,} queries, {self.rows:,} rows)"

    def __str__(self) -> str:
        shown = 12
        lines = [f"{len(self):,} queries, {self.rows:,} rows, over {self.schema!r}"]
        width = max(len(self.query(i).name) for i in range(min(shown, len(self))))
        for i in range(min(shown, len(self))):
            query = self.query(i)
            weight = f"   weight {query.weight:g}" if query.weight != 1 else ""
            lines.append(f"  {query.name:<{width}}  {query.rows:>12,} rows{weight}")
        if len(self) > shown:
            lines.append(f"  … and {len(self) - shown:,} more")
        return "\n".join(lines)


def _checked_ways(schema: Schema, ways: int | None) -> int:
    if isinstance(ways, bool) or not isinstance(ways, (int, np.integer)):
        raise QueryError(f"the number of attributes per table is an integer, found {ways!r}")
    if not 0 <= ways <= len(schema):
        raise QueryError(f"tables of {ways} attributes: the schema has {len(schema)}")
    return int(ways)


def _padded(rows: IntArray, width: int) -> IntArray:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)


def _columns(schema: Schema, queries: Sequence[Query]) -> QueryColumns:
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
    return QueryColumns(attributes, factors, weights, joint, tuple(distinct), tuple(matrices), names)


def _joined(a: QueryColumns, b: QueryColumns) -> QueryColumns:
    """The queries of a, then those of b."""
    width = max(a.attributes.shape[1], b.attributes.shape[1])
    distinct = tuple(dict.fromkeys(a.distinct + b.distinct))
    renumber = np.array([distinct.index(f) for f in b.distinct] + [-1])  # last: the padding −1
    return QueryColumns(
        np.concatenate([_padded(a.attributes, width), _padded(b.attributes, width)]),
        np.concatenate([_padded(a.factors, width), _padded(renumber[b.factors], width)]),
        np.concatenate([a.weights, b.weights]),
        np.concatenate([a.joint, np.where(b.joint >= 0, b.joint + len(a.matrices), -1)]),
        distinct,
        a.matrices + b.matrices,
        dict(a.names) | {i + len(a): name for i, name in b.names.items()},
    )


def _without_totals(c: QueryColumns) -> QueryColumns:
    """Drop attributes whose factor is `Total()`: they are summed over like any attribute not named."""
    totals = [i for i, f in enumerate(c.distinct) if isinstance(f, Total)]
    if not totals:
        return c
    gone = np.isin(c.factors, totals)
    order = np.argsort(gone, axis=1, kind="stable")  # what stays moves to the front, in its order
    attributes = np.take_along_axis(np.where(gone, -1, c.attributes), order, axis=1)
    factors = np.take_along_axis(np.where(gone, -1, c.factors), order, axis=1)
    return replace(c, attributes=attributes, factors=factors)


def _merged(c: QueryColumns) -> QueryColumns:
    """Merge equal queries: weights add, the first place and the first given name stay.

    Queries that were given different names stay apart, since targets refer to them by name.
    """
    given = list(c.names.values())
    matrix_ids: dict[bytes, int] = {}
    same_matrix = np.array([matrix_ids.setdefault(m.tobytes(), i) for i, m in enumerate(c.matrices)] + [-1])
    key = np.column_stack([c.attributes, c.factors, same_matrix[c.joint]])
    _, kind = unique_rows(key)
    if len(set(given)) < len(given) or c.names:
        kind = _split_by_name(kind, c.names)
    if len(np.unique(kind)) == len(c):
        return c
    _, first, kind = np.unique(kind, return_index=True, return_inverse=True)
    keep = np.sort(first)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    weights = np.bincount(place[kind], weights=c.weights)
    names: dict[int, str] = {}
    for i, name in c.names.items():
        names.setdefault(int(place[kind[i]]), name)
    return replace(c, attributes=c.attributes[keep], factors=c.factors[keep], weights=weights,
                   joint=c.joint[keep], names=names)  # fmt: skip


def _split_by_name(kind: IntArray, names: Mapping[int, str]) -> IntArray:
    """Give queries of one kind but of different names different kinds; refuse one name for two kinds."""
    kind = kind.copy()
    owner: dict[str, int] = {}
    first_name: dict[int, str] = {}
    fresh = int(kind.max()) + 1
    for i, name in names.items():
        of = int(kind[i])
        if owner.setdefault(name, of) != of:
            raise QueryError(f"two different queries are both called {name!r}")
        if first_name.setdefault(of, name) != name:
            kind[i] = fresh + list(owner).index(name)
    return kind

