"""Independent noise on each table, on its cells where these cost less than the rows asked of it; or
on a matrix of its own (`table_matrix`), where it is asked for and costs less than both.

A cell is what a query tells apart: the groups of values of an attribute whose columns in a factor
are the same. Of every factor of a product, its rows or its groups are measured, whichever is less:
norms and prices of products are products. Noise of size s on cells answers the row w over them with
the variance ‖w‖² v(s). To plan for that is to plan for noise on the C cells, which count as much as
the rows made of them:

| what is small | weight of a cell |
| --- | --- |
| total variance | weight · Σ_w ‖w‖² / C |
| p-norm | weight · (Σ_w ‖w‖^2p / C)^(1/p) |
| worst variance, targets | weight · max_w ‖w‖² |
| a loss of one's own | weight · mean of ‖w‖² |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, all_whole
from noiseplan.matrices import IdentityMatrix
from noiseplan.matrices.base import Array, Matrix
from noiseplan.mechanisms.pair_distances import columns_apart, different_columns
from noiseplan.mechanisms.workload_rows import MOST_ROWS
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.objectives import ConvexLoss
from noiseplan.planning.problem import Problem
from noiseplan.planning.table_matrix import (
    FEWEST_SEARCHED,
    MOST_WORK,
    TableMatrix,
    first_of_groups,
    norm_power,
)
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.queries import Custom, Identity, Query, Workload

# Numbers of all differences of two cells of a table that are looked at.
PAIRED: Final = 2**26
# Rows that are asked for times numbers that are measured: what one tells of the other in seconds.
MOST_PAIRS: Final = 2**24
# Of fewer cells, and of one row, no matrix is better than the cells or the rows.
FEW_CELLS: Final = 3


@dataclass(frozen=True, eq=False)
class SomeByCells:
    """A problem, and how some of its queries are measured by cells."""

    problem: Problem
    ways: dict[int, _Way | TableMatrix]  # by the number of the query

    @classmethod
    def of(cls, problem: Problem, matrices: bool = False) -> SomeByCells | str | None:
        """None where all rows are as good, or no matrix is better if these are asked for; why it is
        not tried, where that is too much to be put together."""
        queries = list(problem.workload)
        least = _least_measured(queries)
        if _is_too_much(least, problem.workload):
            return None if all(map(_plain, queries)) else _untried(least, problem.workload)
        ways = [_Way.of(query, problem) for query in queries]
        better = _by_matrices(ways, problem.workload) if matrices else {}
        grouped = {i: way for i, way in enumerate(ways) if way.grouped}
        instead: dict[int, _Way | TableMatrix] = {**grouped, **better}
        if not (better if matrices else grouped):
            return None
        measured = sum(instead.get(i, way).numbers for i, way in enumerate(ways))
        if _is_too_much(measured, problem.workload):
            return _untried(measured, problem.workload)
        return cls(problem, instead)

    def forward(self, problem: Problem) -> Problem:
        """The same about what is measured instead of some of its queries."""
        queries = [
            self.ways[i].measured(f"table {i}", fitting=problem.targets is None)
            if i in self.ways
            else Query(q.schema, q.factors, matrix=q.joint, weight=q.weight, name=f"query {i}")
            for i, q in enumerate(problem.workload)
        ]
        targets = problem.targets
        if targets is not None:
            each = [self.ways[i].counts if i in self.ways else 1.0 for i in range(len(queries))]
            targets = np.asarray(targets) / each
        return replace(problem, workload=Workload(queries), targets=targets)

    @property
    def of_one_size(self) -> frozenset[object]:
        """The keys of what is measured with noise of one size, whatever its rows are."""
        matrices = [way for way in self.ways.values() if isinstance(way, TableMatrix)]
        return frozenset(way.measured("measured").key for way in matrices)

    def back(self, candidate: Candidate) -> Candidate:
        """What the same measurements tell of the queries themselves."""
        problem, mechanism = self.problem, candidate.mechanism
        known = Unstated(problem.workload, candidate.privacy, exact=problem.integer)
        figures = RowFigures(problem.design, mechanism)
        return replace(candidate, figures=figures, optimality=known)


def all_searched(problem: Problem) -> bool:
    """Whether matrices of their own are looked for of all tables, and not only of some."""
    asked = problem.workload
    if _is_too_much(_least_measured(asked), asked):
        return False
    ways = [_Way.of(query, problem) for query in asked]
    work = sum({way.query.key: _search_work(way) for way in ways}.values())
    return work <= MOST_WORK and not _is_too_much(sum(max(w.cells, w.fewest) for w in ways), asked)


def _least_measured(queries: Iterable[Query]) -> int:
    """Before a row is looked at: some tables have more of them than can be written down."""
    return sum(prod(min(piece.shape) for piece in query.pieces) for query in queries)


def _search_work(way: _Way) -> int:
    """Of a search for a matrix; none where there is nothing better than rows or cells."""
    few = way.cells < FEW_CELLS or way.query.rows == 1 or _plain(way.query)
    return 0 if few else max(way.cells, FEWEST_SEARCHED) ** 3


def _by_matrices(ways: list[_Way], asked: Workload) -> dict[int, TableMatrix]:
    """The matrices that are better than rows or cells of their tables; of small tables first, and
    until it is known that all together are too much."""
    found: dict[object, TableMatrix | None] = {}
    better: dict[int, TableMatrix] = {}
    work, measured = 0, sum(way.fewest for way in ways)
    for i, way in sorted(enumerate(ways), key=lambda pair: pair[1].cells):
        if way.query.key not in found:
            more = _search_work(way)
            work += more
            if work > MOST_WORK:
                break
            found[way.query.key] = TableMatrix.of(way.query, way.problem) if more else None
        matrix = found[way.query.key]
        if matrix is not None and matrix.value < way.value:
            better[i] = replace(matrix, query=way.query)
        measured += better.get(i, way).numbers - way.fewest
        if _is_too_much(measured, asked):
            break
    return better


def _is_too_much(measured: int, asked: Workload) -> bool:
    return measured > MOST_ROWS or measured * asked.rows > MOST_PAIRS


def _untried(measured: int, asked: Workload) -> str:
    return f"not tried, {measured:,} numbers for {asked.rows:,} rows"


def _plain(query: Query) -> bool:
    """Whether its rows are the cells of its table."""
    factors = query.factors.values()
    return query.joint is None and all(isinstance(f, Identity) for f in factors)


@dataclass(frozen=True, eq=False)
class _Way:
    """A query, and the pieces of it of which groups of values are measured instead of rows."""

    query: Query
    problem: Problem
    pieces: tuple[_Piece, ...]
    grouped: frozenset[int]

    @classmethod
    def of(cls, query: Query, problem: Problem) -> _Way:
        """The way that costs least: every piece by the better of its two, or none, or all."""
        pieces = tuple(_Piece(piece, problem) for piece in query.pieces)
        told = [i for i, piece in enumerate(pieces) if not piece.by_value]
        if not told:
            return cls(query, problem, pieces, frozenset())
        better = [i for i in told if pieces[i].better_by_groups]
        ways = [cls(query, problem, pieces, frozenset(some)) for some in (better, [], told)]
        return min((way for way in ways if way.possible), key=lambda way: way.value)

    @property
    def cells(self) -> int:
        """How many are told apart."""
        return prod(piece.groups for piece in self.pieces)

    @property
    def fewest(self) -> int:
        """Numbers that are measured of it in any way."""
        return prod(min(piece.rows, piece.groups) for piece in self.pieces)

    @property
    def possible(self) -> bool:
        """Whether its noise can be added to the rows that it measures."""
        rows = (p.matrix for i, p in enumerate(self.pieces) if i not in self.grouped)
        return self.problem.drawn.takes(lambda: all(all_whole(matrix.dense()) for matrix in rows))

    @property
    def value(self) -> float:
        """The norm of all variances at a cost of one, but for what all ways have in common."""
        norms = (p.norm(i in self.grouped) for i, p in enumerate(self.pieces))
        return self._dearest**self.problem.drawn.degree * prod(norms)

    @property
    def _dearest(self) -> float:
        """What a record meets at most; or half of what two are apart."""
        product = prod(p.dearest for i, p in enumerate(self.pieces) if i not in self.grouped)
        table = self.query.matrix.shape[1]
        if self.problem.neighbours == "add-remove" or self.numbers * table**2 > PAIRED:
            return product
        columns = different_columns(self.measured("measured").matrix.dense())
        return min(product, columns_apart(columns, self.problem.drawn.power) / 2)

    @property
    def numbers(self) -> int:
        """How many are measured."""
        return prod(p.groups if i in self.grouped else p.rows for i, p in enumerate(self.pieces))

    @property
    def counts(self) -> float:
        """How much a number that is measured counts, in units of a row."""
        each = [p.counts for i, p in enumerate(self.pieces) if i in self.grouped]
        return prod(each)

    def measured(self, name: str, fitting: bool = False) -> Query:
        """What is measured; `fitting`: with the weight that it has for the objective."""
        query, schema = self.query, self.query.schema
        weight = query.weight * (self.counts if fitting else 1.0)
        rows = {i: self.pieces[i].rows_of_groups for i in self.grouped}
        if query.joint is not None:
            joint = rows.get(0, query.joint)
            return Query(schema, query.attributes, matrix=joint, weight=weight, name=name)
        factors = {
            attribute: Custom(rows[i]) if i in rows else factor
            for i, (attribute, factor) in enumerate(query.factors.items())
        }
        return Query(schema, factors, weight=weight, name=name)


@dataclass(frozen=True, eq=False)
class _Piece:
    """A matrix of a query, measured by its rows or by the groups of values that it tells apart."""

    matrix: Matrix
    problem: Problem

    @property
    def by_value(self) -> bool:
        """Whether its rows are the values."""
        return isinstance(self.matrix, IdentityMatrix)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.matrix.shape[0]

    @cached_property
    def _first(self) -> IntArray:
        """The first value of every group; of rows that look at none, any value."""
        seen = first_of_groups(self.matrix)
        return seen if len(seen) else np.zeros(1, dtype=np.int64)

    @property
    def groups(self) -> int:
        """How many groups of values it tells apart."""
        return len(self._first)

    @property
    def rows_of_groups(self) -> Array:
        """A row for every group."""
        kinds = self.matrix.column_kinds()
        return np.asarray(kinds == kinds[self._first][:, None], dtype=np.float64)

    @cached_property
    def dearest(self) -> float:
        """‖a‖ of the dearest column."""
        power = self.problem.drawn.power
        return float((np.abs(self.matrix.dense()) ** power).sum(axis=0).max())

    @property
    def better_by_groups(self) -> bool:
        """Whether noise on groups is less than noise on rows, at the cost of one record."""
        drawn = self.problem.drawn
        if not drawn.takes(lambda: all_whole(self.matrix.dense())):
            return True
        rows = drawn.times_larger(self.dearest) * self.norm(grouped=False)
        return self.norm(grouped=True) < rows

    def norm(self, grouped: bool) -> float:
        """Of the variances of its rows."""
        return self._norm(self._squares if grouped else np.ones(self.rows))

    @cached_property
    def _squares(self) -> Array:
        """‖w‖² of every row over groups."""
        return np.asarray((self.matrix.take_columns(self._first) ** 2).sum(axis=1))

    def _norm(self, variances: Array) -> float:
        return float(np.linalg.norm(variances, norm_power(self.problem.goal)))

    @property
    def counts(self) -> float:
        """How much a group counts, in units of a row."""
        if isinstance(self.problem.goal, ConvexLoss):
            return float(self._squares.mean())
        return self._norm(self._squares) / self._norm(np.ones(self.groups))
