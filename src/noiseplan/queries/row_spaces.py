"""Row spaces: all that the rows of a query determine, and what two queries both determine.

A query W answers c·x for every c in its row space. Two queries tell a common number where their
row spaces meet in more than 0. Of products that is a question for each attribute alone,

    (⊗ A_i) ∩ (⊗ B_i) = ⊗ (A_i ∩ B_i),

where an attribute that is summed over has the space of the row 1. So a table and its margin, prefix
sums and the values they sum, levels of one hierarchy and two tables with a common margin all meet;
conditions on different values do not.

A space is kept as the *kinds* of the columns, 0 where every row is zero, and rows over the kinds.
Most queries tell their kinds apart: then the space is all that is level on each kind, and two such
spaces meet in what is level on the connected parts of both, zero where either is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final, final

import numpy as np

from noiseplan.arrays import IntArray, numbered
from noiseplan.matrices import Matrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.queries.factors import Factor, Identity, Prefix, Ranges
from noiseplan.queries.levels import Levels
from noiseplan.queries.named_levels import Level
from noiseplan.schema import Attribute

# Kinds of columns, and numbers, of spaces that are told by rows.
MOST_KINDS, MOST_NUMBERS = 1024, 2**21
# Directions of two spaces that are nearer than this are the same.
ALIKE: Final = 1e-7
# No direction is near another if all squares of cosines are below one by this.
APART: Final = 1e-9
# Rows whose part beside others is smaller than this share of the largest are their sums.
NOTHING: Final = 1e-10


@final
@dataclass(frozen=True, eq=False)
class RowSpace:
    """Kinds of columns from 0 on, 0 for columns of zeros, and rows over the others.

    Without rows, all that is level on each kind.

    Examples
    --------
    >>> import noiseplan as nz
    >>> age = nz.Ordinal(range(6))
    >>> pairs, triples = (row_space(nz.Levels(n, leaves=False), age) for n in (2, 3))
    >>> pairs.rank, triples.rank, pairs.common(triples)        # the total alone is in both
    (3, 2, 1)
    """

    kinds: IntArray
    rows: Array | None = None

    @property
    def told(self) -> int:
        """How many kinds there are beside zeros."""
        return int(self.kinds.max())

    @cached_property
    def rank(self) -> int:
        """How many numbers it holds."""
        return self.told if self.rows is None else len(self._basis)

    @property
    def whole(self) -> bool:
        """Whether it holds every value."""
        return self.rank == len(self.kinds)

    @cached_property
    def total(self) -> bool:
        """Whether it holds the sum of all values."""
        return self.common(RowSpace(np.ones_like(self.kinds))) == 1

    def common(self, other: RowSpace) -> int | None:
        """How many numbers are in both; None where that takes too long to find."""
        if self.rows is None and other.rows is None:
            return _level_on_both(self.kinds, other.kinds)
        first, _ = numbered(self.kinds * (other.told + 1) + other.kinds)
        if len(first) > MOST_KINDS:
            return None
        one, two = sorted((space._directions(first) for space in (self, other)), key=len)
        return _shared(one, two)

    @cached_property
    def _basis(self) -> Array:
        """Orthonormal rows with the same span, over the kinds."""
        if self.rows is None:
            return np.eye(self.told)
        largest = np.abs(self.rows).max(axis=1, keepdims=True)
        _, sizes, directions = np.linalg.svd(
            self.rows / np.maximum(largest, np.finfo(float).tiny), full_matrices=False
        )
        return np.asarray(directions[sizes > NOTHING * sizes[0]])

    def _directions(self, columns: IntArray) -> Array:
        """Orthonormal rows with the same span over some columns, which have all the kinds."""
        kinds = self.kinds[columns]
        over = np.concatenate([np.zeros((self.rank, 1)), self._basis], axis=1)[:, kinds]
        if np.count_nonzero(kinds) == self.told:  # each kind once
            return over
        if self.rows is None:
            return np.asarray(over / np.linalg.norm(over, axis=1, keepdims=True))
        return np.asarray(np.linalg.qr(over.T)[0].T)


def _shared(one: Array, other: Array) -> int:
    """In how many directions two spaces meet, by orthonormal rows of each.

    What is left of the directions of one beside the other has the sines of the angles between them
    as its sizes. Their squares are had at once, but small ones not exactly.
    """
    cosines = one @ other.T
    if np.linalg.eigvalsh(cosines @ cosines.T)[-1] < 1 - APART:
        return 0
    sines = np.linalg.svd(one - cosines @ other, compute_uv=False)
    return len(one) - int((sines > ALIKE).sum())


def row_space(factor: Factor, attribute: Attribute) -> RowSpace | None:
    """What a factor tells of an attribute; None where that is too large to be found."""
    matrix = factor.matrix(attribute)
    kinds = _counted(matrix.column_kinds())
    if isinstance(factor, Identity | Prefix | Ranges) or _by_one_level(factor, attribute, kinds):
        return RowSpace(kinds)
    return _by_rows(matrix, kinds)


def matrix_space(matrix: Matrix) -> RowSpace | None:
    """What the rows of a matrix tell of its columns; None where that is too large to be found."""
    return _by_rows(matrix, _counted(matrix.column_kinds()))


def product(spaces: Sequence[RowSpace]) -> RowSpace | None:
    """⊗ of spaces, the last fastest; None where that is too large."""
    kinds = np.ones(1, dtype=np.int64)
    for space in spaces:
        either = kinds[:, None] * (space.kinds > 0)
        kinds = np.where(either > 0, (either - 1) * space.told + space.kinds, 0).reshape(-1)
    if all(space.rows is None for space in spaces):
        return RowSpace(kinds)
    blocks = [np.eye(space.told) if space.rows is None else space.rows for space in spaces]
    if prod(block.size for block in blocks) > MOST_NUMBERS:
        return None
    return RowSpace(kinds, kronecker_dense(blocks))


def _by_rows(matrix: Matrix, kinds: IntArray) -> RowSpace | None:
    told = int(kinds.max())
    if told > MOST_KINDS or matrix.shape[0] * told > MOST_NUMBERS:
        return None
    first = np.unique(kinds, return_index=True)[1][-told:]
    space = RowSpace(kinds, matrix.take_columns(first))
    return RowSpace(kinds) if space.rank == told else space


def _by_one_level(factor: Factor, attribute: Attribute, kinds: IntArray) -> bool:
    """Whether one of the factor's levels tells apart all that the factor does."""
    if isinstance(factor, Level):
        each: Sequence[Factor] = [Level(level) for level in factor.levels]
    elif isinstance(factor, Levels):
        each = [*factor.single(), *([Identity()] if factor.leaves else [])]
    else:
        return False
    return any(level.matrix(attribute).shape[0] >= int(kinds.max()) for level in each)


def _counted(kinds: IntArray) -> IntArray:
    """Kinds numbered 1, 2, … in the order they first come; 0 stays."""
    first, number = numbered(kinds)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    counted = rank[number] + 1
    if not kinds.all():
        zero = counted[kinds == 0][0]
        counted = np.where(kinds == 0, 0, counted - (counted > zero))
    return np.asarray(counted)


def _level_on_both(one: IntArray, other: IntArray) -> int:
    """Connected parts of kinds that share a column, less those that hold a column of zeros."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # heavy at start-up

    beside = int(one.max()) + 1
    shape = (beside + int(other.max()) + 1,) * 2
    graph = coo_array((np.ones(len(one)), (one, beside + other)), shape=shape)
    _, part = connected_components(graph, directed=False)
    zeros = [part[number] for kinds, number in ((one, 0), (other, beside)) if not kinds.all()]
    used = np.unique(part[one])
    return int((~np.isin(used, zeros)).sum())
