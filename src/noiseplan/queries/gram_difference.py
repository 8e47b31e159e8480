"""What one workload asks beyond another: the difference of their Gram matrices, never written out.

With W the rows of a query over one attribute (or over a few that a dense matrix ties together, an
*axis* of n cells) the Gram matrix of a workload is a sum of Kronecker products. Over ∏n, and
without what both workloads have in common,

    D = Σ_q c_q ⊗_i M_qi ,    M = WᵀW/n where q asks about axis i, 11ᵀ/n where it sums over it,

with c the weights of one and minus those of the other. Every M is symmetric, so that D = 0 if and
only if x ↦ Σ_q c_q ∏_i x_iᵀM_qi x_i vanishes at one x = ⊗x_i drawn at random: no more than products
with vectors, over any domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import QueryError
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.queries.columns import QueryColumns, joined, merged
from noiseplan.queries.query import Query
from noiseplan.schema import Schema

# Sums are nothing where they are below this share of what was added and taken away.
ROUNDING: Final = 1e-10
# Random vectors that the difference is looked at with.
DRAWS: Final = 8


@dataclass(frozen=True, eq=False)
class Axis:
    """Cells of one attribute or of some, and the different rows asked of them, numbered on."""

    cells: int
    pieces: tuple[Matrix, ...]
    first: int  # the number of the first piece
    summed: bool  # whether some query sums over it

    @property
    def numbers(self) -> range:
        """Of all pieces."""
        return range(self.first, self.first + len(self.pieces))


@dataclass(frozen=True, eq=False)
class GramDifference:
    """D. `codes[t]` holds the pieces of term t, descending, padded with −1: the axis is summed."""

    axes: tuple[Axis, ...]
    codes: IntArray
    coefficients: Array

    @property
    def zero(self) -> bool:
        """Whether D = 0."""
        return not len(self.codes) or not (np.abs(self._forms) > ROUNDING).any()

    @property
    def surely_negative(self) -> bool:
        """Whether xᵀDx < 0 was seen for some x."""
        return bool((self._forms < -ROUNDING).any())

    @cached_property
    def _forms(self) -> Array:
        """xᵀDx of random x, relative to the sizes of its terms."""
        random = np.random.default_rng(0)
        return np.array([self._form(random) for _ in range(DRAWS)])

    def _form(self, random: np.random.Generator) -> float:
        forms = [form for axis in self.axes for form in _forms(axis, random)]
        terms = self.coefficients * np.array([*forms, 1.0])[self.codes].prod(axis=1)
        return float(terms.sum() / np.abs(terms).sum())


def gram_difference(schema: Schema, one: QueryColumns, other: QueryColumns) -> GramDifference:
    """D of two workloads over the same schema."""
    left = _beyond(one, other)
    axes: list[Axis] = []
    codes: list[IntArray] = []
    for on in _tied(left):
        kind, pieces = _pieces(schema, left, on)
        cells = prod(schema.shape[a] for a in on)
        first = axes[-1].numbers.stop if axes else 0
        axes.append(Axis(cells, pieces, first, bool((kind < 0).any())))
        codes.append(np.where(kind >= 0, first + kind, -1))
    rows = np.column_stack([*codes, np.full(len(left), -1)])
    return GramDifference(tuple(axes), compact(rows), left.weights)


def compact(rows: IntArray) -> IntArray:
    """Rows with what is not −1 moved to the front, descending; columns of −1 alone go."""
    found = -np.sort(-rows, axis=1)
    return found[:, : max(int((found >= 0).sum(axis=1).max(initial=0)), 1)]


def _beyond(one: QueryColumns, other: QueryColumns) -> QueryColumns:
    """The queries of both, those of the other taken away, without those that cancel."""
    both = replace(joined(one, other), names={})
    signs = np.repeat([1.0, -1.0], [len(one), len(other)])
    sizes = merged(both).weights
    signed = merged(replace(both, weights=signs * both.weights))
    return signed.taken(np.flatnonzero(np.abs(signed.weights) > ROUNDING * sizes))


def _tied(c: QueryColumns) -> list[list[int]]:
    """All attributes that queries name, together where a dense matrix is over several."""
    axes = [{int(a)} for a in np.unique(c.attributes) if a >= 0]
    for attributes in c.attributes[c.joint >= 0]:
        on = {int(a) for a in attributes if a >= 0}
        touched = [axis for axis in axes if axis & on]
        axes = [axis for axis in axes if not axis & on] + [set().union(*touched)]
    return [sorted(axis) for axis in axes]


def _pieces(schema: Schema, c: QueryColumns, on: list[int]) -> tuple[IntArray, tuple[Matrix, ...]]:
    """The number of the rows each query asks of the axis, −1 for their sum, and all of these."""
    product = (c.joint < 0)[:, None]
    told = [np.where((c.attributes == a) & product, c.factors, -1).max(axis=1) for a in on]
    inside = np.isin(c.attributes[:, 0], on) & (c.joint >= 0)
    keys = np.column_stack([*told, np.where(inside, c.joint, -1)])
    asked = (keys >= 0).any(axis=1)
    first, kind = unique_rows(keys[asked])
    numbers = np.full(len(c), -1)
    numbers[asked] = kind
    rows = keys[asked][first].tolist()
    return numbers, tuple(_over(schema, c, on, row) for row in rows)


def _over(schema: Schema, c: QueryColumns, on: list[int], key: list[int]) -> Matrix:
    """The rows of one piece over the cells of its axis."""
    names, (*factors, joint) = [schema.names[a] for a in on], key
    if joint >= 0:
        attributes = c.attributes[c.joint == joint][0]
        inner = [schema.names[a] for a in attributes if a >= 0]
        return Query(schema, inner, matrix=c.matrices[joint]).over(names)
    pairs = zip(names, factors, strict=True)
    return Query(schema, {name: c.distinct[f] for name, f in pairs if f >= 0}).over(names)


def _forms(axis: Axis, random: np.random.Generator) -> list[float]:
    """xᵀMx of every piece, for a random x with xᵀ11ᵀx = n."""
    x = random.standard_normal(axis.cells)
    x += (np.sqrt(axis.cells) - x.sum()) / axis.cells
    for piece in axis.pieces:
        if piece.shape[0] > DENSE_LIMIT:
            raise QueryError(
                f"workloads are compared by their answers, and one has {piece.shape[0]:,} of them "
                f"over {axis.cells:,} cells, above the limit of {DENSE_LIMIT:,}: compare the same "
                f"queries over fewer values"
            )
    return [float((piece.matmul(x) ** 2).sum()) / axis.cells for piece in axis.pieces]
