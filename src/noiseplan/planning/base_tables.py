"""A workload as few tables of whole numbers that span its rows, and all cells as places in them.

A query ⊗F_i is a table ⊗V_i: where the rows of F_i tell every class of values apart, V_i counts the
classes, else it has independent rows of F_i. F_i = A_iV_i then, and a query whose factors can all
be read off the V_i of a table that is there already (a marginal of it, bands of its values) needs
no table of its own. Over the rows b of all tables, W = A b: what is asked is Γ = AᵀA, and one
record with the cell x changes the counts by the column b_x (`optimize.cell_columns`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np
from scipy.linalg import qr

from noiseplan.arrays import IntArray, all_whole, first_of, joined_kinds
from noiseplan.matrices import DenseMatrix, KroneckerMatrix, Matrix, TotalMatrix
from noiseplan.matrices.base import Array
from noiseplan.matrices.kronecker import kronecker_dense
from noiseplan.optimize.cell_columns import (
    Columns,
    TableColumns,
    columns_of,
    dense_seconds,
    paired_seconds,
)
from noiseplan.optimize.gram_roots import SAFE_PIVOT, root_of
from noiseplan.optimize.priced_rows import FormulaRows, PricedRows, WrittenRows
from noiseplan.planning.workload_types import Design
from noiseplan.queries import Custom, Identity, Query, Workload
from noiseplan.schema import Schema

# Rows differ from what they are said to be by no more than this, relative.
SAME = 1e-9
# Random vectors that tell different rows apart.
PROBES = 3
# Entries are whole multiples of the smallest over one of these, or not taken for whole numbers.
DIVISORS = range(1, 13)
# Up to so many numbers rows are written out.
WRITTEN_OUT = 20_000_000
# The attributes that one factor is about: one, or several for a matrix.
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Base:
    """V: independent rows over the values of one attribute (or cells of several)."""

    rows: Array

    @staticmethod
    def of(factor: Matrix) -> Base:
        """Classes of values if the factor's rows tell them apart, else independent rows of it."""
        kinds = factor.column_kinds()
        found, first = np.unique(kinds, return_index=True)
        found, first = found[found > 0], first[found > 0]
        if len(found) <= factor.shape[0] and _regular(_gram(factor, first)):
            return Base((kinds == found[:, None]) * 1.0)
        return Base(_independent_rows(factor.dense()))

    @property
    def whole(self) -> bool:
        """Whether all entries are whole numbers."""
        return all_whole(self.rows)

    @cached_property
    def places(self) -> IntArray:
        """The class of each value, by equal columns, those of zeros last."""
        kinds = joined_kinds([np.unique(row, return_inverse=True)[1] for row in self.rows])
        zero = ~self.rows[:, first_of(kinds)].any(axis=0)
        order = np.argsort(np.argsort(zero, kind="stable"), kind="stable")
        return np.asarray(order[kinds])

    @cached_property
    def values(self) -> Array:
        """The rows over the classes that are not zero."""
        found = self.rows[:, first_of(self.places)]
        return found[:, found.any(axis=0)]

    @cached_property
    def _inverse(self) -> Array:
        if ((self.rows != 0).sum(axis=0) <= 1).all():  # rows that share no value are orthogonal
            return np.ascontiguousarray((self.rows / (self.rows**2).sum(axis=1)[:, None]).T)
        return np.asarray(np.linalg.pinv(self.rows), dtype=np.float64)

    def reads(self, factor: Matrix) -> bool:
        """Whether F = AV for some A: with probability one by random vectors."""
        probes = np.random.default_rng(0).normal(size=(self.rows.shape[1], PROBES))
        off = factor.matmul(probes - self._inverse @ (self.rows @ probes))
        return bool((np.abs(off) <= SAME * np.abs(factor.matmul(np.abs(probes))).max()).all())

    def coefficients(self, factor: Matrix) -> Array:
        """A with F = AV."""
        return factor.matmul(self._inverse)

    def gram(self, factor: Matrix) -> Array:
        """AᵀA."""
        if factor.shape[0] <= factor.shape[1]:
            found = self.coefficients(factor)
            return found.T @ found
        return self._inverse.T @ factor.gram() @ self._inverse


def _gram(factor: Matrix, columns: IntArray) -> Array:
    """FᵀF of some columns."""
    if factor.shape[0] > factor.shape[1]:
        return factor.gram()[np.ix_(columns, columns)]
    some = factor.take_columns(columns)
    return some.T @ some


def _regular(gram: Array) -> bool:
    lengths = np.sqrt(np.diagonal(gram))
    try:
        pivots = np.diagonal(np.linalg.cholesky(gram / np.outer(lengths, lengths)))
    except np.linalg.LinAlgError:
        return False
    return bool(pivots.min() ** 2 > SAFE_PIVOT)


def _independent_rows(rows: Array) -> Array:
    """As many as the rank, each a multiple of one of these, in whole numbers if there are such."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(min=1e-300)
    upper, order = qr(unit.T, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(upper))
    return np.array([_whole(rows[i]) for i in sorted(order[: len(pivots)][pivots > SAME])])


def _whole(row: Array) -> Array:
    """The row in units of its smallest entry, or of a simple part of it, where that is whole."""
    unit = row / np.abs(row[row != 0]).min()
    for divisor in DIVISORS:
        near = np.rint(unit * divisor)
        if (np.abs(unit * divisor - near) <= SAME * np.abs(near)).all():
            return np.asarray(near / (np.gcd.reduce(near.astype(np.int64)) or 1))
    return row


@dataclass(frozen=True, eq=False)
class BaseTable:
    """⊗V_i over the attributes of one query."""

    schema: Schema
    bases: dict[Names, Base]

    @property
    def rows(self) -> int:
        """How many numbers it counts."""
        return prod(len(base.rows) for base in self.bases.values())

    @property
    def attributes(self) -> set[str]:
        """The attributes that it does not sum over."""
        return {name for names in self.bases for name in names}

    @property
    def whole(self) -> bool:
        """Whether it counts in whole numbers."""
        return all(base.whole for base in self.bases.values())

    @property
    def query(self) -> Query:
        """What it counts, as a query."""
        for names, base in self.bases.items():
            if len(names) > 1:
                return Query(self.schema, list(names), matrix=base.rows)
        return Query(self.schema, {n: _factor(base) for (n,), base in self.bases.items()})

    def factors(self, query: Query) -> list[Matrix] | None:
        """The factors of a query on the attributes of this table, if it can be read off it."""
        own = pieces(query)
        if not own.keys() <= self.bases.keys():
            return None
        found = [own.get(n, TotalMatrix(base.rows.shape[1])) for n, base in self.bases.items()]
        pairs = zip(self.bases.values(), found, strict=True)
        return found if all(base.reads(factor) for base, factor in pairs) else None

    def gram(self, factors: list[Matrix]) -> Array:
        """AᵀA of a query with these factors."""
        pairs = zip(self.bases.values(), factors, strict=True)
        return kronecker_dense([base.gram(factor) for base, factor in pairs])

    def way(self, factors: list[Matrix]) -> Matrix:
        """A with F = A⊗V_i for a query with these factors."""
        pairs = zip(self.bases.values(), factors, strict=True)
        return KroneckerMatrix(tuple(DenseMatrix(b.coefficients(factor)) for b, factor in pairs))

    def columns(self, axes: dict[str, IntArray]) -> TableColumns:
        """Of cells given by the value of every attribute, in arrays that broadcast."""
        one = (1,) * max(len(axes), 1)  # a total has no values, and broadcasts as all others do
        place, none, size = np.zeros(one, dtype=np.int64), np.zeros(one, dtype=bool), 1
        for names, base in self.bases.items():
            sizes = [self.schema[n].size for n in names]
            cell = np.ravel_multi_index(np.broadcast_arrays(*(axes[n] for n in names)), sizes)
            own, many = base.places[cell], base.values.shape[1]
            place, none, size = place * many + own, none | (own == many), size * many
        values = kronecker_dense([base.values for base in self.bases.values()])
        if none.any():
            place[none] = size
            values = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        return TableColumns.of(values, place)


def _factor(base: Base) -> Identity | Custom:
    identity = base.rows.shape[0] == base.rows.shape[1] and (base.rows == np.eye(len(base.rows)))
    return Identity() if np.all(identity) else Custom(base.rows)


def pieces(query: Query) -> dict[Names, Matrix]:
    """The factors of a query by the attributes they are about."""
    if query.joint is not None:
        return {query.attributes: DenseMatrix(query.joint)}
    return {(n,): m for n, m in zip(query.attributes, query.matrices(), strict=True)}


@dataclass(frozen=True, eq=False)
class BaseTables:
    """The tables of a workload, and for each query its table and its factors there."""

    design: Design
    tables: list[BaseTable] = field(default_factory=list)
    homes: dict[int, tuple[int, list[Matrix]]] = field(default_factory=dict)

    @staticmethod
    def of(design: Design) -> BaseTables:
        """The largest tables first, the others where they fit."""
        found = BaseTables(design)
        queries = list(design.workload)
        size = [prod(min(m.shape) for m in pieces(q).values()) for q in queries]
        for number in sorted(range(len(queries)), key=lambda i: -size[i]):
            found._settle(number, queries[number])
        return found

    def _settle(self, number: int, query: Query) -> None:
        for t, table in enumerate(self.tables):
            factors = table.factors(query)
            if factors is not None:
                self.homes[number] = t, factors
                return
        own = pieces(query)
        table = BaseTable(query.schema, {n: Base.of(factor) for n, factor in own.items()})
        self.homes[number] = len(self.tables), list(own.values())
        self.tables.append(table)

    @property
    def workload(self) -> Workload:
        """What the tables count, as queries."""
        return Workload([table.query for table in self.tables])

    @cached_property
    def spans(self) -> list[slice]:
        """The rows of each table among all."""
        ends = np.cumsum([table.rows for table in self.tables]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def size(self) -> int:
        """How many numbers all tables count."""
        return int(self.spans[-1].stop)

    @property
    def whole(self) -> bool:
        """Whether all of them are whole."""
        return all(table.whole for table in self.tables)

    @property
    def largest(self) -> Array:
        """Return the largest entry of every row, without its sign."""
        each = (
            [np.abs(base.rows).max(axis=1, keepdims=True) for base in table.bases.values()]
            for table in self.tables
        )
        return np.concatenate([kronecker_dense(entries)[:, 0] for entries in each])

    def seconds(self, cells: int) -> float:
        """About how long one core takes for a question about the columns of so many cells."""
        return min(
            paired_seconds(cells, [table.rows for table in self.tables]),
            dense_seconds(cells, self.size),
        )

    def root(self, of_rows: Callable[[Query], Array] | None = None) -> Array:
        """R with RᵀR = Γ: of all queries by their weights, and of single rows by theirs."""
        gram = [np.zeros((table.rows, table.rows)) for table in self.tables]
        for number, (t, factors) in self.homes.items():
            table, weight = self.tables[t], self.design.priorities[number]
            if of_rows is None:
                gram[t] += weight * table.gram(factors)
            else:
                each = of_rows(self.design.workload.query(number))
                gram[t] += weight * table.way(factors).weighted_gram(each)
        found = np.zeros((self.size, self.size))
        for span, own in zip(self.spans, gram, strict=True):
            root = root_of(own)  # of fewer rows where weights differ by more than digits tell
            found[span.start : span.start + len(root), span] = root
        return found

    @property
    def owners(self) -> IntArray:
        """The query of each of `rows`."""
        numbers = list(self.homes)
        return np.repeat(numbers, self.design.workload.sizes[numbers])

    def rows(self, back: Array) -> PricedRows:
        """A B of all rows asked for, over the roots of their targets, or times those of weights."""
        parts = tuple(
            (self.tables[t].way(factors), back[self.spans[t]]) for t, factors in self.homes.values()
        )
        scale = np.sqrt(self.design.priorities)[list(self.homes)]
        scales = np.repeat(scale, [matrix.shape[0] for matrix, _ in parts])
        if len(scales) * back.shape[1] > WRITTEN_OUT:
            return FormulaRows(parts, scales)
        return WrittenRows(np.concatenate([m.matmul(b) for m, b in parts]) * scales[:, None])

    def columns(self) -> Columns:
        """Those of one cell of each class that is told apart, and counted at all."""
        named = zip(self.design.workload.schema.names, self.design.roles.of_attribute, strict=True)
        first = {n: first_of(self.design.groups[role]) for n, role in named if role >= 0}
        axes = dict(zip(first, np.ix_(*first.values()), strict=True))
        shape = [len(values) for values in first.values()] or [1]
        tables = [table.columns(axes) for table in self.tables]
        some = np.unravel_index(_told_apart(tables, shape), shape)
        found = [replace(table, places=_at(table.places, some)) for table in tables]
        counted = sum(np.abs(t.values).sum(axis=0)[t.places] for t in found) > 0
        return columns_of([table.some(counted) for table in found])


def _told_apart(tables: list[TableColumns], shape: list[int]) -> IntArray:
    """One cell of each class: cells with the same sum of random numbers, one for each place of each
    table, are told apart by no table."""
    random, sums = np.random.default_rng(0), np.zeros(shape, dtype=np.uint64)
    for table in tables:
        numbers = random.integers(2**64, size=table.values.shape[1], dtype=np.uint64)
        sums += numbers[table.places]
    return np.unique(sums, return_index=True)[1]


def _at(places: IntArray, cells: tuple[IntArray, ...]) -> IntArray:
    """Entries of an array that broadcasts over the cells."""
    pairs = zip(places.shape, cells, strict=True)
    kept = tuple(cell for size, cell in pairs if size > 1)
    return np.broadcast_to(places.reshape([n for n in places.shape if n > 1])[kept], len(cells[0]))
