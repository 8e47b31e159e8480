"""The rows of some queries under each other, and their products with others, at any domain size.

A row of a Kronecker query is a product of vectors, one for each attribute, ones where it is summed
over; and a product of two such rows over the whole domain is a product of small ones:

    ⟨⊗v_i, ⊗u_i⟩ = ∏_i ⟨v_i, u_i⟩ / n_i .

Products are means over the cells, not sums: no number of cells is too large for them.

A row of a dense query is a table over a few attributes; what two rows have to do with each other
is said by the tables of the attributes C they share, all others summed over:

    ⟨w, u⟩ = Σ_{x_C} w(x_C) u(x_C) / ∏_{i in either} n_i .
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noiseplan.arrays import IntArray, first_of, immutable, joined_kinds
from noiseplan.errors import QueryError
from noiseplan.matrices.base import DENSE_LIMIT, Array, exactly_equal_columns
from noiseplan.queries import Query
from noiseplan.schema import Schema


@immutable
@dataclass(frozen=True, eq=False)
class ProductRows:
    """Rows ⊗v_i: `vectors[i]` are those of attribute i, ones first; `places` say which each has."""

    numbers: IntArray
    vectors: tuple[Array, ...]
    places: IntArray

    def products(self, other: ProductRows) -> Array:
        """⟨row, other row⟩ for all pairs."""
        found = np.ones((len(self.numbers), len(other.numbers)))
        both = zip(self.vectors, other.vectors, self.places.T, other.places.T, strict=True)
        for own, theirs, place, there in both:
            found *= (own @ theirs.T / own.shape[1])[np.ix_(place, there)]
        return found

    def at(self, cells: IntArray) -> Array:
        """The entries in some cells, given by their values: rows × cells."""
        found = np.ones((len(self.numbers), len(cells)))
        for vectors, place, values in zip(self.vectors, self.places.T, cells.T, strict=True):
            named = np.flatnonzero(place)
            found[named] *= vectors[:, values][place[named]]
        return found


@immutable
@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows given over a table of some attributes: rows × n_1 × … × n_k."""

    numbers: IntArray
    attributes: tuple[int, ...]
    values: Array

    def over(self, kept: tuple[int, ...]) -> Array:
        """The same over some of the attributes, the others summed over: rows × cells."""
        gone = tuple(1 + i for i, a in enumerate(self.attributes) if a not in kept)
        return np.asarray(self.values.sum(axis=gone)).reshape(len(self.values), -1)

    def at(self, cells: IntArray) -> Array:
        """The entries in some cells, given by their values: rows × cells."""
        return self.values[(slice(None), *cells[:, list(self.attributes)].T)]


@immutable
@dataclass(frozen=True, eq=False)
class StackedRows:
    """All rows of some queries, one after another."""

    schema: Schema
    queries: tuple[Query, ...]

    @classmethod
    def of(cls, schema: Schema, queries: Iterable[Query]) -> StackedRows:
        return cls(schema, tuple(queries))

    @cached_property
    def starts(self) -> IntArray:
        """Where the rows of each query begin, and where the last end."""
        return np.cumsum([0, *(query.rows for query in self.queries)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _numbers(self, position: int) -> IntArray:
        return np.arange(self.starts[position], self.starts[position + 1])

    @cached_property
    def products(self) -> ProductRows:
        """The rows of Kronecker queries."""
        shape = self.schema.shape
        vectors = [[np.ones((1, n))] for n in shape]
        known: list[dict[object, int]] = [{} for _ in shape]
        counts = [1] * len(shape)
        numbers, places = [np.zeros(0, np.int64)], [np.zeros((0, len(shape)), np.int64)]
        for position, query in enumerate(self.queries):
            if query.joint is not None:
                continue
            own = np.zeros((query.rows, len(shape)), dtype=np.int64)
            digits = np.unravel_index(np.arange(query.rows), (1, *query.shape))[1:]
            for (name, factor), digit in zip(query.factors.items(), digits, strict=True):
                i = self.schema.index(name)
                if factor not in known[i]:
                    known[i][factor] = counts[i]
                    vectors[i].append(factor.matrix(self.schema[name]).dense())
                    counts[i] += len(vectors[i][-1])
                own[:, i] = known[i][factor] + digit
            numbers.append(self._numbers(position))
            places.append(own)
        _require_room(sum(count * n for count, n in zip(counts, shape, strict=True)))
        stacked = tuple(np.concatenate(some) for some in vectors)
        return ProductRows(np.concatenate(numbers), stacked, np.concatenate(places))

    @cached_property
    def tables(self) -> list[TableRows]:
        """The rows of dense queries."""
        found = []
        for position, query in enumerate(self.queries):
            if query.joint is not None:
                attributes = tuple(map(self.schema.index, query.attributes))
                shape = [self.schema.shape[a] for a in attributes]
                values = query.joint.reshape(-1, *shape)
                found.append(TableRows(self._numbers(position), attributes, values))
        return found

    def gram(self, other: StackedRows) -> Array:
        """⟨row, other row⟩ for all pairs of rows."""
        found = np.zeros((len(self), len(other)))
        found[np.ix_(self.products.numbers, other.products.numbers)] = self.products.products(
            other.products
        )
        for table in self.tables:
            self._cross(found, table, other)
        for table in other.tables:
            other._cross(found.T, table, self)
        return found

    def squares(self) -> Array:
        """⟨row, row⟩: the diagonal of the products of all pairs."""
        found = np.ones(len(self))
        for vectors, place in zip(self.products.vectors, self.products.places.T, strict=True):
            found[self.products.numbers] *= (vectors**2).mean(axis=1)[place]
        for table in self.tables:
            found[table.numbers] = (table.values.reshape(len(table.values), -1) ** 2).mean(axis=1)
        return found

    def _cross(self, found: Array, table: TableRows, other: StackedRows) -> None:
        """The products of one table with all rows of others, written where they belong."""
        for theirs in (*other._as_tables(table.attributes), *other.tables):
            kept = tuple(a for a in table.attributes if a in theirs.attributes)
            either = {*table.attributes, *theirs.attributes}
            cells = prod(self.schema.shape[a] for a in either)
            products = table.over(kept) @ theirs.over(kept).T
            found[np.ix_(table.numbers, theirs.numbers)] = products / cells

    def _as_tables(self, attributes: tuple[int, ...]) -> list[TableRows]:
        """The product rows over some attributes, means over all others, by which they name."""
        rows, shape, found = self.products, self.schema.shape, []
        means = np.ones(len(rows.numbers))
        for i in set(range(len(shape))) - set(attributes):
            means *= rows.vectors[i].mean(axis=1)[rows.places[:, i]]
        named = rows.places[:, list(attributes)] > 0
        for kind in np.unique(named, axis=0):
            mine = np.flatnonzero((named == kind).all(axis=1))
            on = tuple(a for a, is_named in zip(attributes, kind, strict=True) if is_named)
            values = means[mine]
            for a in on:
                values = values[..., None] * rows.vectors[a][rows.places[mine, a]].reshape(
                    len(mine), *(1,) * (values.ndim - 1), -1
                )
                _require_room(values.size)
            found.append(TableRows(rows.numbers[mine], on, values))
        return found

    def at(self, cells: IntArray) -> Array:
        """The entries in some cells, given by their values (cells × attributes): rows × cells."""
        found = np.empty((len(self), len(cells)))
        parts: list[ProductRows | TableRows] = [self.products, *self.tables]
        for part in parts:
            found[part.numbers] = part.at(cells)
        return found

    @cached_property
    def values(self) -> tuple[IntArray, ...]:
        """Of each attribute the first of the values that no row tells apart from each other."""
        found = []
        for i, n in enumerate(self.schema.shape):
            kinds = [exactly_equal_columns(self.products.vectors[i])]
            for table in self.tables:
                if i in table.attributes:
                    front = np.moveaxis(table.values, 1 + table.attributes.index(i), -1)
                    kinds.append(exactly_equal_columns(front.reshape(-1, n)))
            found.append(first_of(joined_kinds(kinds)))
        return tuple(found)


def _require_room(numbers: float) -> None:
    if numbers > DENSE_LIMIT:
        raise QueryError(
            f"the rows of these queries need {numbers:,} numbers, above the limit of "
            f"{DENSE_LIMIT:,}: ask for fewer rows over long attributes"
        )
