"""What one record meets of the rows of a workload: Σ_j c_j |w_j(x)|^p for prices c_j of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.domain.largest_sum import Table, added, large_sum, largest_sum
from noiseplan.matrices import IdentityMatrix, Matrix, kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.queries import Query, Workload


@immutable
@dataclass(frozen=True, eq=False)
class QueryCosts:
    """|w|^p of one query's rows, as factors over its attributes."""

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    factors: tuple[Matrix | Array, ...]  # one for each attribute, or one over all of them

    @classmethod
    def of(cls, query: Query, power: int) -> QueryCosts:
        attributes = tuple(map(query.schema.index, query.attributes))
        sizes = tuple(query.schema.shape[a] for a in attributes)
        return cls(attributes, sizes, tuple(_powers(piece, power) for piece in query.pieces))

    def table(self, prices: Array) -> Table:
        """Σ_j c_j |w_j|^p in every cell of the query's table; over fewer attributes where all
        values of one are alike, as they are in plain tables with noise of one size."""
        if self._unit is not None and (prices == prices[0]).all():
            return Table(self._unit.attributes, prices[0] * self._unit.values)
        turned = [f if isinstance(f, Matrix) else f.T for f in self.factors]
        rows = tuple(f.shape[0] for f in self.factors)
        values = kronecker_apply(turned, prices.reshape(*rows, 1))
        return Table(self.attributes, values.reshape(self.sizes))

    @cached_property
    def _unit(self) -> Table | None:
        """The table of prices of one, of a product."""
        if len(self.factors) != len(self.attributes):
            return None
        total, kept = np.ones(()), []
        for attribute, factor in zip(self.attributes, self.factors, strict=True):
            line = np.ones(1) if isinstance(factor, Matrix) else factor.sum(axis=0)
            if np.ptp(line):
                kept.append(attribute)
                total = np.multiply.outer(total, line)
            else:
                total = total * line[0]
        return Table(tuple(kept), np.asarray(total))

    def by_row(self, reduced: Callable[[Array], Array]) -> Array:
        """A number of each row that is the product of those of its factors."""
        found = np.ones(1)
        for factor in self.factors:
            own = np.ones(factor.shape[0]) if isinstance(factor, Matrix) else reduced(factor)
            found = np.multiply.outer(found, own).reshape(-1)
        return found

    def at(self, cell: Sequence[int]) -> Array:
        """|w_j|^p of every row in one cell of the whole domain."""
        values = [cell[a] for a in self.attributes]
        if len(self.factors) != len(self.attributes):
            values = [int(np.ravel_multi_index(values, self.sizes))]
        found = np.ones(1)
        for factor, value in zip(self.factors, values, strict=True):
            found = np.multiply.outer(found, _column(factor, value)).reshape(-1)
        return found


def _powers(piece: Matrix, power: int) -> Matrix | Array:
    return piece if isinstance(piece, IdentityMatrix) else np.abs(piece.dense()) ** power


def _column(factor: Matrix | Array, value: int) -> Array:
    if isinstance(factor, Matrix):
        return np.asarray(factor.take(np.array([value]))[0])  # of the identity, which is symmetric
    return np.asarray(factor[:, value])


@immutable
@dataclass(frozen=True, eq=False)
class RecordCosts:
    """The same for all queries of a workload, rows one after another."""

    workload: Workload
    power: int

    @cached_property
    def queries(self) -> list[QueryCosts]:
        return [QueryCosts.of(query, self.power) for query in self.workload]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        return list(pairwise(np.cumsum([0, *self.workload.sizes.tolist()]).tolist()))

    def largest(self, prices: Array) -> tuple[float, IntArray]:
        """What no record is above, and a record that meets it (or nearly so)."""
        return self._found(largest_sum(self._tables(prices)))

    def large(self, prices: Array) -> tuple[float, IntArray]:
        """A record that meets much, and how much: quick, and often the largest."""
        return self._found(large_sum(self._tables(prices)))

    def _tables(self, prices: Array) -> list[Table]:
        """What records meet, by the attributes it depends on."""
        by_set: dict[tuple[int, ...], list[Table]] = {}
        for query, (start, stop) in zip(self.queries, self._places, strict=True):
            table = query.table(prices[start:stop])
            by_set.setdefault(table.attributes, []).append(table)
        return [added(tables) for tables in by_set.values()]

    def _found(self, found: tuple[float, dict[int, int]]) -> tuple[float, IntArray]:
        cell = np.zeros(len(self.workload.schema), dtype=np.int64)
        cell[list(found[1])] = list(found[1].values())
        return found[0], cell

    def by_row(self, reduced: Callable[[Array], Array]) -> Array:
        """A number of each row that is the product of those of its factors."""
        return np.concatenate([query.by_row(reduced) for query in self.queries])

    def at(self, cell: IntArray) -> Array:
        """|w_j|^p of every row for a record in this cell."""
        return np.concatenate([query.at(cell.tolist()) for query in self.queries])
