"""Workloads: everything that is to be answered together."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Final, SupportsIndex, final

import numpy as np
from numpy.typing import NDArray

from noiseplan._doors import through
from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.escaping import visible_name
from noiseplan.matrices import KroneckerMatrix, Matrix
from noiseplan.matrices.base import Array
from noiseplan.queries.columns import NAMED, QueryColumns, columns_of, joined, merged
from noiseplan.queries.families import WorkloadMakers
from noiseplan.queries.name_lookup import NameLookup
from noiseplan.queries.query import SEPARATOR, Query
from noiseplan.schema import Schema
from noiseplan.texts import counted

_SHOWN = 12
_COMPARED = 1000  # names among which one that was mistyped is looked for
_WEIGHTINGS = {"rows": 0.0, "tables": 1.0, "sqrt": 0.5}


# Cells over which workloads are compared, which takes some seconds; and the share of their size up
# to which two Gram matrices, or an eigenvalue and zero, are the same.
COMPARED_CELLS: Final = 4096
SAME_GRAM: Final = 1e-10


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Workload(WorkloadMakers):
    """Everything to be answered together. Workloads add up; equal queries merge, weights add.

    `one * other` is the crossproduct of workloads about different attributes.

    Examples
    --------
    >>> schema = Schema.from_sizes({"age": 10, "sex": 2, "region": 4})
    >>> workload = Workload.marginals(schema, up_to=2)
    >>> len(workload), workload.rows
    (7, 85)
    >>> workload["age × sex"]
    Query(age × sex: 20 rows)
    >>> print(workload.subset([1, 4]) + Query(schema, ["sex"], weight=3))
    3 queries, 32 rows, over age, sex, region
      age        10 rows
      age × sex  20 rows
      sex         2 rows  weight 3
    """

    schema: Schema
    columns: QueryColumns

    def __init__(self, queries: Iterable[Query]) -> None:
        listed = _checked_queries(queries)
        schema = listed[0].schema
        for query in listed:
            _check_same_schema(query.schema, schema)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "columns", merged(columns_of(schema, listed)))

    @classmethod
    def from_columns(cls, schema: Schema, columns: QueryColumns) -> Workload:
        """A workload from checked columns, without looking at single queries."""
        workload = cls.__new__(cls)
        object.__setattr__(workload, "schema", schema)
        object.__setattr__(workload, "columns", columns)
        return workload

    def __add__(self, other: Workload | Query) -> Workload:
        if isinstance(other, Query):
            other = Workload([other])
        if not isinstance(other, Workload):
            return NotImplemented
        _check_same_schema(other.schema, self.schema)
        return self.from_columns(self.schema, merged(joined(self.columns, other.columns)))

    def __mul__(self, other: Workload | Query) -> Workload:
        """Every query with every query of the other, which asks about different attributes.

        Rows multiply, and so do weights; the schema is that of both. What both schemas have must
        be declared alike.

        Examples
        --------
        >>> ages = Workload.prefix(Schema.from_sizes({"age": 10}))
        >>> places = Workload.marginals(Schema.from_sizes({"sex": 2, "region": 4}), k=1)
        >>> print(ages * places)
        2 queries, 60 rows, over age, sex, region
          prefix(age) × sex     20 rows
          prefix(age) × region  40 rows
        """
        if isinstance(other, Query):
            other = Workload([other])
        if not isinstance(other, Workload):
            return NotImplemented
        schema = joined_schema(self.schema, other.schema)
        return Workload(crossed(schema, list(self), list(other)))

    def equivalent(self, other: Workload) -> bool:
        """Whether both have the same Gram matrix Σ weight · WᵀW: no strategy tells them apart.

        Every plan then has the same total variance for both, whatever rows they are written as.

        Examples
        --------
        >>> schema = Schema.from_sizes({"x": 2})
        >>> cells = Workload.marginals(schema, k=1)
        >>> cells.equivalent(Workload.from_matrix([[0.6, 0.8], [-0.8, 0.6]], schema))
        True
        """
        beyond, size = self._beyond(other)
        return bool(np.abs(beyond).max() <= SAME_GRAM * size)

    def contains(self, other: Workload) -> bool:
        """Whether this Gram matrix minus the other's has no negative eigenvalue.

        Some workload equivalent to this one then has all rows of the other (those of a query of
        weight w are √w times as long), and no plan has a larger total variance for the other.

        Examples
        --------
        >>> schema = Schema.from_sizes({"age": 10, "sex": 2})
        >>> tables = Workload.marginals(schema, k=2)
        >>> tables.contains(Workload.marginals(schema, k=1))
        False
        >>> Workload.all_ranges(schema).contains(tables)
        True
        """
        beyond, size = self._beyond(other)
        return bool(np.linalg.eigvalsh(beyond)[0] >= -SAME_GRAM * size)

    def _beyond(self, other: object) -> tuple[Array, float]:
        """Return the difference of both Gram matrices over all cells, and the larger one's size."""
        if not isinstance(other, Workload):
            raise QueryError(f"a workload is compared with a Workload, found {other!r}")
        _check_same_schema(other.schema, self.schema, "workloads are compared over one schema")
        if self.schema.size > COMPARED_CELLS:
            raise QueryError(
                f"workloads are compared cell by cell, over at most {COMPARED_CELLS:,} cells, and "
                f"the schema has {self.schema.size:,}: compare the same queries over fewer values"
            )
        cells = (self.schema.size, self.schema.size)
        grams = [
            sum((q.weight * q.domain_matrix.gram() for q in each), start=np.zeros(cells))
            for each in (self, other)
        ]
        return grams[0] - grams[1], max(float(np.linalg.norm(gram, 2)) for gram in grams)

    def __len__(self) -> int:
        return len(self.columns.weights)

    def __iter__(self) -> Iterator[Query]:
        return (self.query(i) for i in range(len(self)))

    def __getitem__(self, key: SupportsIndex | str) -> Query:
        if isinstance(key, str):
            return self.query(self.position(key))
        try:
            position = operator.index(key)
        except TypeError:
            raise QueryError(
                f"a query is found by name or by position, not by {key!r}; "
                f"for several, use subset([...])"
            ) from None
        if not -len(self) <= position < len(self):
            raise QueryError(f"no query at position {position}: the workload has {len(self):,}")
        return self.query(position % len(self))

    def query(self, position: int) -> Query:
        """The query at a position (from 0)."""
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
        """The position of the query of that name; names that were given go first."""
        if not isinstance(name, str):
            raise QueryError(f"the name of a query is a text, as in 'age × sex'; found {name!r}")
        if name in self._lookup.given:
            return self._lookup.given[name]
        found = self._lookup.made(name)
        if len(found) == 1:
            return found[0]
        if found:
            raise QueryError(
                f"{len(found)} queries are called {name!r}: give them names of their own, " + NAMED
            )
        names = [self.query(i).name for i in range(min(_COMPARED, len(self)))]
        known = ", ".join(map(repr, names[:8])) + " …" * (len(self) > 8)
        near = get_close_matches(str(name), names, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise QueryError(f"no query is called {name!r}; the workload has {known}{meant}")

    @cached_property
    def _lookup(self) -> NameLookup:
        return NameLookup(self)

    def asked(self, query: object) -> Query:
        """A query as it is, or the one of that name.

        A made name is also found in parts and in another order: "sex, age" or ["sex", "age"] for
        "age × sex". The rows come in the order of the query.
        """
        if isinstance(query, str):
            exact = query in self._lookup.given or self._lookup.made(query)
            found = [] if exact else self._lookup.listed(_parts(query))
            return self.query(found[0]) if len(found) == 1 else self[query]
        if isinstance(query, Workload | list | tuple):
            parts = [part for part in query if isinstance(part, str)]
            found = self._lookup.listed(parts) if len(parts) == len(query) else []
            if len(found) == 1:
                return self.query(found[0])
            raise QueryError(
                "queries are asked one by one: {q.name: release.answer(q) for q in workload}, or "
                "all of the workload by release.answers()"
            )
        if not isinstance(query, Query):
            raise QueryError(
                f"a query is a Query, or the name of one in the workload; found {query!r}. Write "
                f"Query(schema, {list(self.schema.names[:2])!r})"
            )
        return query

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each query."""
        c = self.columns
        rows_of = np.ones((len(self.schema) + 1, len(c.distinct) + 1), dtype=np.int64)
        for a, f in self.pairs():
            rows_of[a, f] = self.matrix(a, f).shape[0]
        log_rows = np.log2(rows_of)
        if c.attributes.shape[1] * float(log_rows.max()) >= 62:
            _check_countable(c, log_rows)
        size = np.ones(len(c.weights), dtype=np.int64)
        for attribute, factor in zip(c.attributes.T, c.factors.T, strict=True):
            size *= rows_of[attribute, factor]  # the padding −1 reads the last ones
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
        if self.sizes.sum(dtype=np.float64) < 2**62:
            return int(self.sizes.sum())
        return sum(self.sizes.tolist())

    def matrix(self, attribute: int, factor: int) -> Matrix:
        """The matrix of a factor (by its number) on an attribute (by its number)."""
        return self.columns.distinct[factor].matrix(self.schema.attributes[attribute])

    def weighted(self, scheme: str) -> Workload:
        """The same queries under a weighting scheme, multiplied onto the present weights.

        "rows": every row counts the same (as it is); "tables": every table counts the same,
        whatever its size (1/rows); "sqrt": in between (1/√rows). A table is a query here, so each
        condition of `predicates`, one row, counts as much as a whole table; conditions that are
        to count as one table together have a weight of one over their number.

        Examples
        --------
        >>> schema = Schema.from_sizes({"age": 10, "sex": 2})
        >>> minors = Workload.predicates(schema, ["age < 2", "age < 5"], weight=1 / 2)
        >>> print((Workload.marginals(schema, k=1) + minors).weighted("tables"))
        4 queries, 14 rows, over age, sex
          age      10 rows  weight 0.1
          sex       2 rows  weight 0.5
          age < 2   1 row   weight 0.5
          age < 5   1 row   weight 0.5
        """
        if scheme not in _WEIGHTINGS:
            raise QueryError(f"unknown weighting {scheme!r}; choose from {list(_WEIGHTINGS)}")
        weights = self.columns.weights / self.sizes ** _WEIGHTINGS[scheme]
        return self.from_columns(self.schema, replace(self.columns, weights=weights))

    def subset(self, positions: Sequence[int] | IntArray | NDArray[np.bool_]) -> Workload:
        """Some of the queries, by position (or by a mask), in the order given."""
        chosen = np.asarray(positions)
        if not chosen.size:
            raise QueryError("a workload needs at least one query: subset([0])")
        try:
            keep = np.arange(len(self))[chosen]
        except IndexError as error:
            raise QueryError(f"subset: positions are 0 to {len(self) - 1}: {error}") from None
        if keep.ndim != 1 or not len(keep) or len(np.unique(keep)) < len(keep):
            raise QueryError("subset takes a list of different positions, at least one")
        return self.from_columns(self.schema, self.columns.taken(keep))

    def __repr__(self) -> str:
        return f"Workload({self._counts()})"

    def _counts(self) -> str:
        return f"{counted(len(self), 'query', 'queries')}, {counted(self.rows, 'row')}"

    def _repr_html_(self) -> str:
        return str(through("workload.html")(self))

    def __str__(self) -> str:
        names = [visible_name(name) for name in self.schema.names]
        if len(names) > 8:
            names = [*names[:3], "…", names[-1]]
        lines = [f"{self._counts()}, over {', '.join(names)}"]
        queries = [self.query(i) for i in range(min(_SHOWN, len(self)))]
        called = [visible_name(query.name) for query in queries]
        wide = max(map(len, called))
        far = max(len(f"{query.rows:,}") for query in queries)
        for name, query in zip(called, queries, strict=True):
            rows = "row " if query.rows == 1 else "rows"
            weight = f"  weight {query.weight:g}" if query.weight != 1 else ""
            lines.append(f"  {name:<{wide}}  {query.rows:>{far},} {rows}{weight}".rstrip())
        if len(self) > _SHOWN:
            lines.append(f"  … and {len(self) - _SHOWN:,} more")
        return "\n".join(lines)


def as_workload(asked: Workload | Query | Iterable[Query]) -> Workload:
    """A workload as it is, or of one query or a list of them; others are left to be refused."""
    if isinstance(asked, Query):
        return Workload([asked])
    return Workload(asked) if isinstance(asked, list | tuple) else asked  # type: ignore[return-value]


def _checked_queries(queries: object) -> list[Query]:
    if isinstance(queries, Query) or not isinstance(queries, Iterable):
        raise QueryError(f"a workload is made of a list of queries; write Workload([{queries!r}])")
    listed = list(queries)
    if not listed:
        raise QueryError(
            "a workload needs at least one query, e.g. Workload.marginals(schema, k=1)"
        )
    for query in listed:
        if not isinstance(query, Query):
            raise QueryError(
                f"a workload is made of queries, found {query!r}; "
                f"write Workload([Query(schema, ['age', 'sex'])])"
            )
    return listed


def _check_same_schema(
    found: Schema, schema: Schema, rule: str = "a workload has one schema"
) -> None:
    if found is schema or found == schema:
        return
    if found.names != schema.names:
        raise QueryError(
            f"{rule}: found the attributes {list(found.names)} beside {list(schema.names)}"
        )
    pairs = zip(schema.names, found.attributes, schema.attributes, strict=True)
    name, one, other = next((n, a, b) for n, a, b in pairs if a != b)
    raise QueryError(f"{rule}: {name!r} is {one!r} beside {other!r}")


def _parts(name: str) -> list[str]:
    """The parts of a name that is written as a question is."""
    return [part.strip() for part in name.replace(SEPARATOR.strip(), ",").split(",")]


def _check_countable(c: QueryColumns, log_rows: NDArray[np.float64]) -> None:
    """Refuse a query with more rows than a 64-bit number can count."""

    logs = np.where(c.joint < 0, log_rows[c.attributes, c.factors].sum(axis=1), 0.0)
    if logs.max() >= 62:
        raise QueryError(
            f"query {int(logs.argmax())} of the workload has about 10^{logs.max() * 0.30103:.0f} "
            f"rows, too many to answer: ask for smaller tables"
        )


# ---------------------------------------------------------------------- crossproducts
#
# The crossproduct of two workloads: every query of one with every query of the other.
#
# Over disjoint attributes a row v of one and a row w of the other become v ⊗ w, which counts the
# records that both describe. Products of factors stay products of factors; only where one of the
# two is a dense matrix over several attributes is the other written out beside it.
#
# References
# ----------
# C. Li, dissertation, 2013, Definition 4.12 and Theorem 4.13: crossproduct and conjunction.


def joined_schema(one: Schema, other: Schema) -> Schema:
    """The attributes of one, then those of the other that are new."""
    if one == other:
        return one
    for name in one.names:
        if name in other and one[name] != other[name]:
            raise QueryError(
                f"workloads that are crossed declare alike what they share, and {name!r} is "
                f"{one[name]!r} in one and {other[name]!r} in the other"
            )
    pairs = zip(other.names + one.names, other.attributes + one.attributes, strict=True)
    found = dict(pairs)
    return Schema({name: found[name] for name in dict.fromkeys(one.names + other.names)})


def crossed(schema: Schema, one: Sequence[Query], other: Sequence[Query]) -> list[Query]:
    """Every query of one with every query of the other, over the joined schema."""
    unclear = _repeated(one) | _repeated(other)
    return [_product(schema, a, b, unclear) for a in one for b in other]


def _repeated(queries: Sequence[Query]) -> set[str]:
    """Names that several queries have, since they were made from attributes."""
    return {name for name, often in Counter(query.name for query in queries).items() if often > 1}


def _product(schema: Schema, one: Query, other: Query, unclear: set[str]) -> Query:
    both = [name for name in one.attributes if name in other.factors]
    if both:
        raise QueryError(
            f"{one.name!r} and {other.name!r} both ask about {', '.join(map(repr, both))}: queries "
            f"that are crossed ask about different attributes"
        )
    # A name that was given stays, beside that of the other; a total without one says nothing.
    parts = [query.name for query in (one, other) if query.named or query.attributes]
    given = (one.named or other.named) and not unclear.intersection(parts)
    weight, name = one.weight * other.weight, SEPARATOR.join(parts) if given else None
    if one.joint is None and other.joint is None:
        return Query(schema, {**one.factors, **other.factors}, weight=weight, name=name)
    matrix = KroneckerMatrix((*one.pieces, *other.pieces)).dense()
    names = (*one.attributes, *other.attributes)
    return Query(schema, names, matrix=matrix, weight=weight, name=name)
