"""The columns b_x of all cells x of a domain, and two questions about all of them at once.

    moments   Σ_x λ_x b_x b_xᵀ ,        squares   b_xᵀ S b_x  for every x .

Rows come in tables: in a table of k rows and m places a cell has the entries of the place it is in.
Most tables count every place by itself (k = m, a column has one 1 for each of them), and both
questions are sums over pairs of tables: `PairedColumns` never writes b_x out. With many tables of
few rows, products of dense columns are faster: `DenseColumns` makes some of them at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from noiseplan.optimize.array_namespace import AnyArray, like, namespace_of, to_backend, to_numpy

# Numbers of dense columns that are made at a time.
AT_ONCE: Final = 1 << 22
# Nanoseconds of one core, about: a cell of a pair of tables; an entry of a dense column, and a
# product of two.
PAIR, ENTRY, PRODUCT = 10.0, 3.0, 0.04


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Cell x has the entries `values[:, places[x]]` in the rows of a table.

    `plain`: place i is row i, and places beyond the rows are in none.
    """

    values: AnyArray  # rows × places
    places: AnyArray
    plain: bool

    @staticmethod
    def of(values: AnyArray, places: AnyArray) -> TableColumns:
        """The same, looked at."""
        shape = tuple(values.shape)
        plain = shape[0] <= shape[1] and bool((to_numpy(values) == np.eye(*shape)).all())
        return TableColumns(values, places, plain)

    def reduced(self, sums: AnyArray) -> AnyArray:
        """V s: rows of what is given for places."""
        return sums[: len(self.values)] if self.plain else self.values @ sums

    def spread(self, form: AnyArray) -> AnyArray:
        """Vᵀ s: for places, of what is given for rows."""
        rows, places = self.values.shape
        if not self.plain:
            return self.values.T @ form
        if rows == places:
            return form
        none = like(np.zeros((places - rows, form.shape[1])), form)
        return namespace_of(form).concatenate([form, none])

    def some(self, cells: Any) -> TableColumns:
        """Of some cells only."""
        return TableColumns(self.values, self.places[cells], self.plain)

    def on(self, backend: str) -> TableColumns:
        """The same moved to another library or device."""
        values, places = to_backend(self.values, backend), to_backend(self.places, backend)
        return TableColumns(values, places, self.plain)


@dataclass(frozen=True, eq=False)
class Columns(ABC):
    """b_x for all cells, the rows of one table after those of another."""

    tables: list[TableColumns]

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.tables[0].places)

    @cached_property
    def spans(self) -> list[slice]:
        """The rows of each table."""
        ends = np.cumsum([len(table.values) for table in self.tables]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.spans[-1].stop)

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long a question takes on one core."""

    @abstractmethod
    def moments(self, weights: AnyArray) -> AnyArray:
        """Σ_x λ_x b_x b_xᵀ."""

    @abstractmethod
    def squares(self, form: AnyArray) -> AnyArray:
        """b_xᵀ S b_x for every cell, S symmetric."""

    def applied(self, sums: AnyArray) -> AnyArray:
        """C b_x for every cell: sums × cells."""
        spans = zip(self.spans, self.tables, strict=True)
        return sum((sums[:, span] @ table.values)[:, table.places] for span, table in spans)

    def some(self, cells: Any) -> Columns:
        """Those of some cells only."""
        return type(self)([table.some(cells) for table in self.tables])

    def on(self, backend: str) -> Columns:
        """The same moved to another library or device."""
        return type(self)([table.on(backend) for table in self.tables])


def paired_seconds(cells: int, places: list[int]) -> float:
    """By pairs of tables with so many places."""
    pairs = len(places) * (len(places) + 1) / 2
    return (pairs * cells * PAIR + sum(places) ** 2 * ENTRY) * 1e-9


def dense_seconds(cells: int, rows: int) -> float:
    """By dense columns of so many rows."""
    return cells * rows * (rows * PRODUCT + ENTRY) * 1e-9


def columns_of(tables: list[TableColumns]) -> Columns:
    """In the way that is faster."""
    return min(PairedColumns(tables), DenseColumns(tables), key=lambda ways: ways.seconds)


@final
class PairedColumns(Columns):
    """By pairs of tables.

    Examples
    --------
    >>> one, two = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> both = PairedColumns([TableColumns.of(np.eye(2), places) for places in (one, two)])
    >>> both.moments(np.array([1.0, 2.0, 4.0])).tolist()
    [[3.0, 0.0, 1.0, 2.0], [0.0, 4.0, 0.0, 4.0], [1.0, 0.0, 1.0, 0.0], [2.0, 4.0, 0.0, 6.0]]
    >>> both.squares(np.ones((4, 4))).tolist()
    [4.0, 4.0, 4.0]
    """

    @property
    def seconds(self) -> float:
        return paired_seconds(self.cells, [table.values.shape[1] for table in self.tables])

    def moments(self, weights: AnyArray) -> AnyArray:
        found = like(np.zeros((self.rows, self.rows)), weights)
        count = namespace_of(weights).bincount
        for t, u, both, shape in self._pairs():
            one, other = self.tables[t], self.tables[u]
            sums = count(both, weights, minlength=shape[0] * shape[1]).reshape(shape)
            block = other.reduced(one.reduced(sums).T)
            found[self.spans[u], self.spans[t]] = block
            found[self.spans[t], self.spans[u]] = block.T
        return found

    def squares(self, form: AnyArray) -> AnyArray:
        total: Any = 0.0
        for t, u, both, _ in self._pairs():
            half = self.tables[t].spread(form[self.spans[t], self.spans[u]])
            once = self.tables[u].spread(half.T).T.reshape(-1)[both]
            total = total + (once if t == u else 2.0 * once)
        return total

    def _pairs(self) -> Iterator[tuple[int, int, AnyArray, tuple[int, int]]]:
        """Pairs, the place of each cell in the table of both, and that table's shape."""
        for t, one in enumerate(self.tables):
            for u, other in enumerate(self.tables[: t + 1]):
                shape = one.values.shape[1], other.values.shape[1]
                yield t, u, one.places * shape[1] + other.places, shape


@final
class DenseColumns(Columns):
    """Written out, some at a time."""

    @property
    def seconds(self) -> float:
        return dense_seconds(self.cells, self.rows)

    def moments(self, weights: AnyArray) -> AnyArray:
        total: Any = 0.0
        for some, columns in self._some():
            total = total + (columns * weights[some]) @ columns.T
        return total

    def squares(self, form: AnyArray) -> AnyArray:
        pieces = [((form @ columns) * columns).sum(0) for _, columns in self._some()]
        return namespace_of(pieces[0]).concatenate(pieces)

    def _some(self) -> Iterator[tuple[slice, AnyArray]]:
        step = max(AT_ONCE // self.rows, 1)
        for start in range(0, self.cells, step):
            some = slice(start, min(start + step, self.cells))
            yield some, self.every if self.cells <= step else self._columns(some)

    @cached_property
    def every(self) -> AnyArray:
        """All of few columns, which are asked for many times."""
        return self._columns(slice(None))

    def _columns(self, some: slice) -> AnyArray:
        join = namespace_of(self.tables[0].values).concatenate
        return join([table.values[:, table.places[some]] for table in self.tables])
