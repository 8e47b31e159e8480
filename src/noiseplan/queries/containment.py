"""Whether a workload contains another: the eigenvalues of the difference of their Gram matrices.

W₁ ≡ W₂ if W₁ᵀW₁ = W₂ᵀW₂: every strategy serves them alike. W₂ contains W₁ if W₂ᵀW₂ − W₁ᵀW₁ has no
negative eigenvalue: some workload equivalent to W₂ has the rows of W₁, so that the least error of
W₁ is no more than that of W₂.

The eigenvalues of D = Σ_q c_q ⊗M_qi (below) are read off axis by axis. Where all M of
an axis commute they are sums of the same projections, M = Σ_j e_j P_j, and D falls into one part
for every choice of j on every axis: of tables of counts, one number for every set of attributes.
Axes whose M do not commute stay in the parts as matrices, and must be small.

References
----------
C. Li, dissertation, 2013, Definitions 4.1 and 4.2, Propositions 4.1 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, first_of, joined_kinds, unique_rows
from noiseplan.errors import QueryError
from noiseplan.matrices import DenseMatrix, IdentityMatrix, Matrix, kronecker_dense
from noiseplan.matrices.base import AT_ONCE, DENSE_LIMIT, Array
from noiseplan.queries.columns import QueryColumns, joined, merged
from noiseplan.queries.query import Query
from noiseplan.schema import Schema

# Values of an attribute whose matrices are diagonalised, and cells of a product of such matrices
# that is factorised: half a minute or so.
MOST_VALUES, MOST_CELLS = 2048, 8192
# Steps to the size of the largest eigenvalue, of which a tenth more or less makes no difference.
POWER_STEPS: Final = 20
# Terms of projections, and numbers of matrices kept at a time.
MOST_NUMBERS: Final = 2**26
# Eigenvalues are equal, and matrices commute, up to this.
ALIKE: Final = 1e-9
# Eigenvalues below this share of the largest are none.
NOTHING: Final = 1e-13

# Sums are nothing where they are below this share of what was added and taken away.
ROUNDING: Final = 1e-10
# Random vectors that the difference is looked at with.
DRAWS: Final = 8


def nonnegative(difference: GramDifference) -> bool:
    """Whether D has no negative eigenvalue."""
    if not (difference.coefficients < 0).any() or difference.zero:
        return True
    return not difference.surely_negative and _Parts.of(difference).nonnegative()


@dataclass(frozen=True, eq=False)
class _Resolved:
    """The pieces of an axis as sums of parts: projections, or (`matrices`) the pieces themselves.

    `values` is pieces × parts; the part `summed` is 11ᵀ/n, which `matrices` has last.
    """

    values: Array
    summed: int | None
    matrices: Array | None = None

    @classmethod
    def of(cls, axis: Axis) -> _Resolved:
        """Projections where all pieces commute."""
        n = axis.cells
        if all(isinstance(piece, IdentityMatrix) for piece in axis.pieces):
            both = axis.summed and n > 1  # I/n = 11ᵀ/n² + (I − 11ᵀ/n)/n
            return cls(np.full((1, 2 if both else 1), 1.0 / n), 0 if axis.summed else None)
        matrices = _over_classes(axis)
        used = matrices if axis.summed else matrices[:-1]
        mixed = np.tensordot(np.random.default_rng(0).uniform(1, 2, len(used)), used, axes=1)
        turn = np.linalg.eigh(mixed)[1]
        turned = turn.T @ used @ turn
        values = np.einsum("kii->ki", turned).copy()
        sizes = np.abs(values).max(axis=1, keepdims=True)
        beside = np.abs(turned - values[:, :, None] * np.eye(len(turn))).max(axis=(1, 2))
        if (beside > ALIKE * sizes[:, 0]).any():
            return cls(np.eye(len(axis.pieces)), None, matrices)
        values[np.abs(values) <= NOTHING * sizes] = 0.0
        different = np.unique(np.round(values / sizes, 9) + 0.0, axis=1, return_index=True)[1]
        values = values[:, different]
        summed = int(values[-1].argmax()) if axis.summed else None
        return cls(values[: len(axis.pieces)], summed)


def _over_classes(axis: Axis) -> Array:
    """M of every piece and 11ᵀ/n over classes of cells that no piece tells apart.

    A class of m cells is one direction, its cells over √m: that turns, and changes no eigenvalue.
    """
    kinds = joined_kinds([piece.column_kinds() for piece in axis.pieces])
    first, lengths = first_of(kinds), np.sqrt(np.bincount(kinds))
    _check_size(len(first), len(axis.pieces) * len(first) ** 2, MOST_VALUES)
    grams = [_gram(piece, first) for piece in axis.pieces]
    scale = np.multiply.outer(lengths, lengths) / axis.cells
    return np.array([*grams, np.ones((len(first), len(first)))]) * scale


def _gram(piece: Matrix, columns: IntArray) -> Array:
    """WᵀW of some columns."""
    if piece.shape[0] * piece.shape[1] <= AT_ONCE:
        return DenseMatrix(piece.take_columns(columns)).gram()
    return piece.gram()[np.ix_(columns, columns)]


def _check_size(cells: int, numbers: int, most: int = MOST_CELLS) -> None:
    if cells > most or numbers > MOST_NUMBERS:
        raise QueryError(
            f"whether one workload contains the other takes the eigenvalues of a matrix over "
            f"{cells:,} cells that they tell apart, above the limit of {most:,} cells and "
            f"{MOST_NUMBERS:,} numbers in all: compare their parts, or declare fewer values"
        )


@dataclass(frozen=True, eq=False)
class _Parts:
    """D in parts: rows of `codes` are terms, each a product of parts, −1 standing for 11ᵀ/n."""

    axes: tuple[_Resolved, ...]
    axis_of: IntArray  # of each part, and −1 last
    place: IntArray  # of each part within its axis
    codes: IntArray
    coefficients: Array

    @classmethod
    def of(cls, difference: GramDifference) -> _Parts:
        axes = tuple(_Resolved.of(axis) for axis in difference.axes)
        counts = [axis.values.shape[1] for axis in axes]
        axis_of = np.append(np.repeat(np.arange(len(axes)), counts), -1)
        place = np.concatenate([*(np.arange(count) for count in counts), [-1]])
        return cls(axes, axis_of, place, *_expanded(difference, axes))

    def nonnegative(self) -> bool:
        """Whether no part of D has a negative eigenvalue."""
        whole = np.array([axis.matrices is None for axis in self.axes] + [True])[self.axis_of]
        part = unique_rows(compact(np.where(whole[self.codes], self.codes, -1)))[1]
        if whole.all():
            sums = np.bincount(part, weights=self.coefficients)
            sizes = np.bincount(part, weights=np.abs(self.coefficients))
            return bool((sums >= -ALIKE * sizes).all())
        order = np.argsort(part, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(part[order])) + 1)
        return all(self._nonnegative(terms) for terms in groups)

    def _nonnegative(self, terms: IntArray) -> bool:
        """The same for terms that agree on all axes of projections."""
        coefficients, codes = self.coefficients[terms], self.codes[terms]
        if (coefficients >= 0).all():
            return True
        chosen = [
            (axis.matrices, np.where(self.axis_of[codes] == a, self.place[codes], -1).max(axis=1))
            for a, axis in enumerate(self.axes)
        ]
        # What all terms have in common is a factor, and has no negative eigenvalue.
        stacks = [m[place] for m, place in chosen if m is not None and np.ptp(place)]
        cells = prod(stack.shape[1] for stack in stacks)
        _check_size(cells, cells**2)
        total = np.zeros((cells, cells))
        for c, *factors in zip(coefficients, *stacks, strict=True):
            total += kronecker_dense([np.full((1, 1), c), *factors])
        return _no_eigenvalue_below(total, -ALIKE)


def _no_eigenvalue_below(matrix: Array, share: float) -> bool:
    """Whether no eigenvalue is below a negative share of the largest: by a factorisation, which
    exists for D + tI if and only if no eigenvalue of D is −t or less.

    Examples
    --------
    >>> _no_eigenvalue_below(np.diag([1.0, 0.0]), -1e-9), _no_eigenvalue_below(-np.eye(2), -1e-9)
    (True, False)
    """
    largest = _largest(matrix)
    if largest > 0:
        matrix.flat[:: len(matrix) + 1] -= share * largest
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return largest == 0
    return True


def _largest(matrix: Array) -> float:
    """About the largest size of an eigenvalue, by powers of the matrix."""
    vector = np.random.default_rng(0).standard_normal(len(matrix))
    size = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.linalg.norm(vector))
        if length == 0:
            return 0.0
        vector = matrix @ (vector / length)
        size = max(size, float(np.linalg.norm(vector)))
    return size


def _expanded(difference: GramDifference, axes: tuple[_Resolved, ...]) -> tuple[IntArray, Array]:
    """Every term as products of parts: the product of the sums that its pieces are."""
    count, target, value = _tables(axes)
    start, codes, coefficients = np.cumsum(count) - count, difference.codes, difference.coefficients
    terms = float(count[codes].astype(np.float64).prod(axis=1).sum())
    _check_size(0, int(min(terms * codes.shape[1], 2.0**62)))
    done: list[IntArray] = []
    for column in range(codes.shape[1]):
        often = count[codes[:, column]]
        rows = np.repeat(np.arange(len(codes)), often)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(often) - often, often)
        entry = start[codes[rows, column]] + within
        codes, coefficients = codes[rows], coefficients[rows] * value[entry]
        done = [*(parts[rows] for parts in done), target[entry]]
    return compact(np.column_stack(done)), coefficients


def _tables(axes: tuple[_Resolved, ...]) -> tuple[IntArray, IntArray, Array]:
    """How many parts each piece has, and all of these with their values; last, −1 is itself."""
    counts, targets, values, first = [], [], [], 0
    for axis in axes:
        piece, part = np.nonzero(axis.values)
        counts.append(np.bincount(piece, minlength=len(axis.values)))
        targets.append(np.where(part == axis.summed, -1, first + part))
        values.append(axis.values[piece, part])
        first += axis.values.shape[1]
    last = np.array([-1])
    return (
        np.concatenate([*counts, np.ones(1, dtype=np.int64)]),
        np.concatenate([*targets, last]),
        np.concatenate([*values, np.ones(1)]),
    )


# ---------------------------------------------------------------------- differences of Grams
#
# What one workload asks beyond another: the difference of their Gram matrices, never written out.
#
# With W the rows of a query over one attribute (or over a few that a dense matrix ties together, an
# *axis* of n cells) the Gram matrix of a workload is a sum of Kronecker products. Over ∏n, and
# without what both workloads have in common,
#
#     D = Σ_q c_q ⊗_i M_qi ,    M = WᵀW/n where q asks about axis i, 11ᵀ/n where it sums over it,
#
# with c the weights of one and minus those of the other. Every M is symmetric, so that D = 0 if and
# only if x ↦ Σ_q c_q ∏_i x_iᵀM_qi x_i vanishes at one x = ⊗x_i drawn at random: no more than
# products with vectors, over any domain.


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
