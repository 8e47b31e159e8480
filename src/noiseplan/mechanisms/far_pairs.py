"""How far apart two records can be where every set of attributes is measured by the same bases.

With a_i, b_i the squared lengths of the columns of U_i for the values of both, c_i their inner
product, the two cost Σ_A σ_A⁻² (∏_{i∈A} a_i + ∏_{i∈A} b_i − 2 ∏_{i∈A} c_i).

That is linear in (a_i, b_i, c_i) of each attribute, and falls in no a_i or b_i. If it does not rise
with c_i either, a pair of values with longer columns and a smaller product costs as much; if it
rises, values that agree, (β_i, β_i, β_i), do. So few pairs of each attribute stand for all of them:
where no other has both columns as long and as small a product. Values with columns of about the
same length may be taken together, with the longest and the smallest product: never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb, log2
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.matrices.kronecker import kronecker_apply
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.pair_distances import EPS

# Pairs of records that are all looked at: those of 18 attributes that agree or do not.
MOST_PAIRS: Final = 1 << 18
# The same of attributes that may be exchanged, where noise is shared for all of them at once.
MOST_ROWS: Final = 1 << 17
# Into how many kinds of length the values of an attribute are put, the finest first. Each halves
# the one before, so that a coarser price is never the lower.
LENGTHS: Final = (1024, 256, 64, 32, 16, 8, 4, 2, 1)


def far_values(basis: Basis, lengths: int) -> Array:
    """(a, b, c) of the pairs of values that stand for all others, the first for those that agree.

    Examples
    --------
    >>> basis = Basis.from_rows(np.array([[2.0, 0.5, -1.0], [0.0, 1.0, 0.0]]))
    >>> far_values(basis, 4)[:3].round(9).tolist()
    [[4.0, 4.0, 4.0], [4.0, 1.25, 1.0], [4.0, 1.0, -2.0]]
    """
    beta = basis.sensitivity
    products = basis.pairs if isinstance(basis, MatrixBasis) else None
    if products is None:
        return np.array([[beta, beta, beta], [beta, beta, basis.lowest]])
    own = np.diagonal(products)
    order = np.argsort(-own, kind="stable")
    apart = products[np.ix_(order, order)]
    np.fill_diagonal(apart, np.inf)
    starts = _starts(len(own), lengths)
    least = np.minimum.reduceat(np.minimum.reduceat(apart, starts, axis=0), starts, axis=1)
    first, second = np.nonzero(least < least_before(least))
    squares = own[order][starts]  # the longest of each kind
    found = np.column_stack([squares[first], squares[second], least[first, second]])
    # No inner product is off by more: each is a sum of so many numbers.
    off = 4 * (basis.rows + 4) * EPS * beta
    return np.asarray(np.vstack([np.full(3, beta), found]) + np.array([off, off, -off]))


def least_before(products: Array) -> Array:
    """Of each entry of a table, the least of those not after it in rows and columns, but itself.

    Examples
    --------
    >>> least_before(np.array([[3.0, 2.0], [5.0, 1.0]])).tolist()
    [[inf, 3.0], [3.0, 2.0]]
    """
    least = np.minimum.accumulate(np.minimum.accumulate(products, axis=0), axis=1)
    before = np.full_like(products, np.inf)
    before[1:] = least[:-1]
    before[:, 1:] = np.minimum(before[:, 1:], least[:, :-1])
    return before


def _starts(values: int, lengths: int) -> IntArray:
    """Where kinds begin if values from the longest to the shortest are put into so many."""
    count = min(values, lengths)
    return np.asarray(-(-np.arange(count) * values // count))


def farthest_pair(precision: Array, bases: Sequence[Basis]) -> float:
    """The largest cost of two records, or a little more: by as many kinds of length as pairs of
    records can be looked at.

    `precision` has 1/σ² of all 2^d sets of attributes; bit i: the attribute measured by bases[i].
    """
    lengths = affordable(bases, np.ones(len(bases), dtype=np.int64))
    far = [far_values(basis, lengths) for basis in reversed(bases)]
    cost, largest = np.zeros(1), 0.0
    for part, sign in ((0, 1.0), (1, 1.0), (2, -2.0)):
        factors = [np.column_stack([np.ones(len(f)), f[:, part]]) for f in far]
        products = kronecker_apply(factors, precision.reshape(*(2,) * len(bases), 1))
        cost, largest = cost + sign * products, max(largest, float(np.abs(products).max()))
    return float(cost.max() + 8 * (len(bases) + 4) * EPS * largest)


def pair_costs(counts: IntArray, members: IntArray, bases: Sequence[Basis]) -> Array | None:
    """Pairs of records × kinds of sets: what each kind adds, times σ².

    As `residual_cost.pattern_costs` has it for columns of equal length, by the pairs of values that
    stand for all others; nothing where these are too many.
    """
    lengths = affordable(bases, members, MOST_ROWS)
    if lengths == 1:
        return None
    tables = [
        _sums_of_products(far_values(basis, lengths), int(n), int(most))
        for basis, n, most in zip(bases, members, counts.max(axis=0), strict=True)
    ]
    picks = np.indices([len(t) for t in tables]).reshape(len(tables), -1)
    parts = [t[p][:, :, a] for t, p, a in zip(tables, picks, counts.T, strict=True)]
    first, second, both = np.moveaxis(np.prod(parts, axis=0), 1, 0)
    return np.asarray(np.maximum(first + second - 2.0 * both, 0.0))


def _sums_of_products(far: Array, members: int, most: int) -> Array:
    """Choices × (a, b, c) × k: sums of all products of k of them, for each choice with repetition
    of a pair of values for every member."""
    chosen = np.array(list(combinations_with_replacement(range(len(far)), members)))
    sums = np.zeros((len(chosen), 3, most + 1))
    sums[:, :, 0] = 1.0
    for member in chosen.T:
        sums[:, :, 1:] += far[member][:, :, None] * sums[:, :, :-1]
    return sums


def affordable(bases: Sequence[Basis], members: IntArray, rows: float = np.inf) -> int:
    """The most kinds of length by which pairs of records are few enough; 1 where none are.

    `members` is how many attributes have each basis; there are at most so many rows, one for each
    choice with repetition of pairs of values for them.
    """
    for lengths in LENGTHS:
        often = [len(far_values(basis, lengths)) for basis in bases]
        each = list(zip(often, members.tolist(), strict=True))
        chosen = sum(log2(comb(many + n - 1, n)) for many, n in each)
        if sum(n * log2(many) for many, n in each) <= log2(MOST_PAIRS) and chosen <= log2(rows):
            return lengths
    return 1
