"""Sums of cells that count for themselves: levels, groups, ranges, conditions, and their margins.

A sum of many cells is often known far better than they are. If only cells counted, lifting the
negative ones would raise the sum of a thin group by many of its standard errors, and what was
measured of the sum itself would be lost. So rows L over the cells of a table count beside it, by

    Σ_r w_r (Lx − ẑ)_r² ,     w_r = c_r / (N·k·Var ẑ_r) ,     c_r = (Σ_j |L_rj|)² / Σ_j L_rj² ,

with N cells, c_r of them in a row, and at most k rows on one cell: rows that part the cells weigh
as much together as the table of these sums would, (1/R)·Σ_r (Lx − ẑ)_r²/Var ẑ_r where all R are
alike; and coarse rows among fine ones weigh as much as a level of their own.

Prefix sums are running sums of plain rows, L = C·R, where C sums up to each row, and are kept as R:
their multipliers are λ' = Cᵀλ, so that Lᵀλ = Rᵀλ' (see :mod:`.solver`).

With c cells of standard error σ below a sum of standard error s ≤ σ√c, lifting moves that sum by
about 0.8·s/(cσ) ≤ 0.8/√c of its standard errors, where without it it would be 0.4·cσ/s ≥ 0.4·√c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod

import numpy as np
import scipy.sparse as sp

from noiseplan.matrices import GroupMatrix, IdentityMatrix, Matrix, PrefixMatrix
from noiseplan.matrices.base import Array
from noiseplan.queries import Identity, Level, Query
from noiseplan.queries.factors import Factor
from noiseplan.schema import Hierarchical
from noiseplan.valid.family import KEPT_WIDTH, Set, TableFamily, margin, spread
from noiseplan.valid.unbiased_tables import Unbiased, is_plain

# Rows of more coefficients than these, written out or not zero, do not count for themselves.
MOST_WRITTEN, MOST_NUMBERS = 2**29, 20_000_000
# Coefficients written out at a time.
AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Sums:
    """Rows L over the attributes `inside` of a table, their unbiased answers ẑ and variances."""

    title: str
    table: Set
    inside: Set
    rows: sp.csr_array  # of running sums: R
    estimate: Array
    variance: Array  # positive
    times: float  # how often they count
    # Rows before, along and behind what is summed up; along it no two have a cell in common.
    running: tuple[int, int, int] | None = None

    @cached_property
    def layers(self) -> int:
        """k, the most rows that a cell is in."""
        most = int(np.bincount(self.rows.indices).max())
        return most if self.running is None else most * self.running[1]

    @cached_property
    def squares(self) -> sp.csr_array:
        """The coefficients squared."""
        return self.rows**2

    @cached_property
    def weights(self) -> Array:
        """w_r."""
        ones = np.ones(self.rows.shape[1])
        cells = self.summed(abs(self.rows) @ ones) ** 2 / self.summed(self.squares @ ones)
        return self.times * cells / (self.rows.shape[1] * self.layers * self.variance)

    @property
    def possible(self) -> Array:
        """ẑ, but for sums of counts that are negative: zero."""
        least = np.asarray(self.rows.min(axis=1).todense()).ravel()
        return np.where(least >= 0, np.maximum(self.estimate, 0.0), self.estimate)

    def of(self, table: Array) -> Array:
        """L x."""
        return self.summed(self.plain(table))

    def plain(self, table: Array) -> Array:
        """R x."""
        return np.asarray(self.rows @ margin(table, self.table, self.inside).ravel())

    def summed(self, plain: Array) -> Array:
        """C v; v itself where the rows are no running sums."""
        return plain if self.running is None else self._along(np.cumsum(self._cube(plain), axis=1))

    def parted(self, summed: Array) -> Array:
        """C⁻¹ v: what each running sum adds to the one before."""
        if self.running is None:
            return summed
        return self._along(np.diff(self._cube(summed), axis=1, prepend=0.0))

    def multipliers(self, turned: Array) -> Array:
        """λ = C⁻ᵀ λ'."""
        if self.running is None:
            return turned
        return self._along(-np.diff(self._cube(turned), axis=1, append=0.0))

    def bands(self, diagonal: Array, give: Array) -> Array:
        """diag(d) + C⁻¹ diag(e) C⁻ᵀ, of which only neighbours along the sums are not zero.

        Its diagonal, and above that what is beside it, in the order of :meth:`lined_up`.
        """
        lined, own = self._lines(diagonal), self._lines(give)
        before = np.zeros_like(own)
        before[:, 1:] = own[:, :-1]
        return np.stack([-before.ravel(), (lined + own + before).ravel()])

    def lined_up(self, rows: Array) -> Array:
        """Rows with those that follow each other in a running sum beside each other."""
        return self._lines(rows).ravel()

    def back_in_order(self, lined: Array) -> Array:
        """The opposite of :meth:`lined_up`."""
        assert self.running is not None
        before, along, behind = self.running
        return self._along(lined.reshape(before, behind, along).swapaxes(1, 2))

    def _lines(self, rows: Array) -> Array:
        assert self.running is not None
        return self._cube(rows).swapaxes(1, 2).reshape(-1, self.running[1])

    def _cube(self, rows: Array) -> Array:
        return rows.reshape(self.running)

    @staticmethod
    def _along(cube: Array) -> Array:
        return np.ascontiguousarray(cube).reshape(-1)

    def turned(self, multipliers: Array, shape: tuple[int, ...]) -> Array:
        """Rᵀλ', to be added to the table."""
        return spread((self.rows.T @ multipliers).reshape(shape), self.inside, self.table)


def asked_sums(source: Unbiased, family: TableFamily) -> list[Sums]:
    """The workload's sums and the levels of hierarchies, where a table of the family holds them."""
    asked = {query.key: query for query in _candidates(source, family)}
    found = (_sums(source, family, query) for query in asked.values())
    return [one for one in found if one is not None]


def _candidates(source: Unbiased, family: TableFamily) -> Iterator[Query]:
    every = set(family.every)
    for one, queries in source.queries.items():
        if one in every or any(set(one) <= set(table) for table in family.tables):
            for query in queries:
                yield from (part for part in _with_margins(query) if not is_plain(part))
    for one in family.every:
        yield from (query for query in _by_level(source, one) if not is_plain(query))


def _with_margins(query: Query) -> Iterator[Query]:
    """A query, and the same summed over all but one or two of its attributes."""
    yield query
    if query.joint is None:
        for width in range(1, min(KEPT_WIDTH, len(query.factors) - 1) + 1):
            for kept in combinations(query.factors.items(), width):
                yield Query(query.schema, dict(kept))


def _by_level(source: Unbiased, one: Set) -> Iterator[Query]:
    """A table at every level of its hierarchical attributes."""
    names = source.names(one)
    kinds = [source.schema[name] for name in names]
    levels: list[list[Factor]] = [
        [Identity(), *(Level(level) for level in kind.levels[1:])]
        if isinstance(kind, Hierarchical)
        else [Identity()]
        for kind in kinds
    ]
    return (Query(source.schema, dict(zip(names, f, strict=True))) for f in product(*levels))


def _sums(source: Unbiased, family: TableFamily, query: Query) -> Sums | None:
    """Its rows and answers; None where they are too many, or were not told."""
    running, plain = _running(query)
    rows = _rows(plain)
    told = None if rows is None else source.told(query)
    if told is None:
        return None
    estimate, variance = told
    if running is not None and not (variance > 0).all():
        running, rows = None, _rows(query.pieces)  # some are left out below
    if rows is None:
        return None
    noisy = np.flatnonzero((variance > 0) & (np.diff(rows.indptr) > 0))
    if not len(noisy):
        return None
    inside = source.numbers(query.attributes)
    above = [table for table in family.tables if set(inside) <= set(table)]
    table = min(above, key=family.cells)
    times = float(np.sqrt(len(above)))  # as margins of several tables do
    told_of = (rows[noisy], estimate[noisy], variance[noisy])
    return Sums(query.name, table, inside, *told_of, times, running)


def _rows(pieces: Sequence[Matrix]) -> sp.csr_array | None:
    """Their product written out; None where it has too many coefficients."""
    if any(prod(piece.shape) > MOST_WRITTEN and not _sparse(piece) for piece in pieces):
        return None
    written = [_written(piece) for piece in pieces]
    if prod(piece.nnz for piece in written) > MOST_NUMBERS:
        return None
    found = written[0]
    for piece in written[1:]:
        found = sp.csr_array(sp.kron(found, piece, "csr"))
    return found


def _running(query: Query) -> tuple[tuple[int, int, int] | None, Sequence[Matrix]]:
    """Where the rows are running sums along one attribute; and the matrices that are summed up."""
    pieces = list(query.pieces)
    places = [n for n, piece in enumerate(pieces) if isinstance(piece, PrefixMatrix)]
    if not places or any((p.row_squares() == 0).any() for p in pieces):  # rows of nothing
        return None, pieces
    place = max(places, key=lambda n: pieces[n].shape[0])
    before, behind = (
        prod(p.shape[0] for p in some) for some in (pieces[:place], pieces[place + 1 :])
    )
    along = pieces[place].shape[0]
    pieces[place] = IdentityMatrix(along)
    return (before, along, behind), pieces


def _sparse(matrix: Matrix) -> bool:
    """Whether it is written down without its zeros."""
    return isinstance(matrix, GroupMatrix | IdentityMatrix)


def _written(matrix: Matrix) -> sp.csr_array:
    """A matrix as its coefficients that are not zero."""
    rows, columns = matrix.shape
    if _sparse(matrix):
        groups = matrix.group if isinstance(matrix, GroupMatrix) else np.arange(columns)
        return sp.csr_array((np.ones(columns), (groups, np.arange(columns))), shape=matrix.shape)
    parts = np.array_split(np.arange(rows), -(-rows * columns // AT_ONCE))
    return sp.csr_array(sp.vstack([sp.csr_array(matrix.take(part)) for part in parts]))
