"""Subset selection and RAPPOR at any number of types, by symmetry instead of by matrices.

Outputs are subsets of the types: a subset of size k has the row shape e inside, 1 outside. All
subsets of one size are equally likely, so only the chance of each size is free. Subset selection
has one size; RAPPOR, which flips the bits of a one-hot vector, is the mixture with

    ω_k ∝ C(n, k) e^{ε(n−k−1)/2} (k e + n − k) .

Everything follows from E(a, b, c), the mean over k-subsets of products of powers of the row's
entries at distinct places. For the histogram subset selection with the best size is the exact
optimum: it meets the lower bound of `noiseplan.local.search.variance_bounds`.

References
----------
Ye and Barg (2018), "Optimal schemes for discrete distribution estimation under locally differential
privacy"; Erlingsson, Pihur and Korolova (2014), "RAPPOR".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, exp, prod
from typing import final

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.local.device.counting_randomizers import SubsetRandomizer
from noiseplan.local.device.integer_chances import high_chances, rounded_shares
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.strategies.strategy import Strategy
from noiseplan.matrices.base import Array
from noiseplan.schema import Schema

# Sizes with a smaller chance than this are left out of RAPPOR's mixture.
NEVER = 1e-18


@final
@immutable
@dataclass(frozen=True, eq=False)
class SubsetStrategy(Strategy):
    """Report a random subset of the types; only its size distribution is free.

    Parameters
    ----------
    types
        n.
    epsilon
        A subset is e times as likely for a type inside it as for one outside.
    sizes, chances
        The sizes of subsets reported, and how often each is.
    """

    count: int
    epsilon: float
    sizes: tuple[int, ...]
    chances: Array
    name: str = "subset selection"

    @property
    def types(self) -> int:
        return self.count

    @property
    def outputs(self) -> int:
        return sum(comb(self.count, k) for k in self.sizes)

    @cached_property
    def row_sums(self) -> Array:
        """σ_k = k e + n − k of the row shape of each size."""
        k = np.array(self.sizes, dtype=np.float64)
        return k * exp(self.epsilon) + self.count - k

    def _mean_powers(self, *powers: int) -> Array:
        return np.array([mean_powers(self.count, k, exp(self.epsilon), powers) for k in self.sizes])

    @cached_property
    def _levels(self) -> tuple[float, float]:
        """α and β of X = α I + β 11ᵀ."""
        weights = self.chances * (self.count / self.row_sums) ** 2
        beta = float(weights @ self._mean_powers(1, 1)) if self.count > 1 else 0.0
        return float(weights @ self._mean_powers(2)) - beta, beta

    @cached_property
    def _inverse(self) -> Array:
        """X⁻¹ = (I − β 11ᵀ/(α + nβ))/α, where subsets tell types apart at all."""
        alpha, beta = self._levels
        if self.count == 1:
            return np.ones((1, 1))
        return np.asarray((np.eye(self.count) - beta / (alpha + self.count * beta)) / alpha)

    @property
    def tells_all_apart(self) -> bool:
        return True

    @cached_property
    def information(self) -> Array:
        alpha, beta = self._levels
        return alpha * np.eye(self.count) + beta

    def moments(self, rows: Array) -> Array:
        squares, sums = rows**2, rows.sum(axis=1, keepdims=True)
        crossed = 2 * (rows * (sums - rows))
        return self._third_moments(squares, squares.sum(axis=1, keepdims=True), crossed, sums**2)

    def total_moments(self, gram: Array) -> Array:
        # M = X⁻¹GX⁻¹ with X⁻¹ = (I − c 11ᵀ)/α, through row sums of G only.
        alpha, beta = self._levels
        c = beta / (alpha + self.count * beta)
        rows, total = gram.sum(axis=1), float(gram.sum())
        diagonal = (np.diagonal(gram) - 2 * c * rows + c * c * total) / alpha**2
        row_sums = (1 - self.count * c) * (rows - c * total) / alpha**2
        whole = (1 - self.count * c) ** 2 * total / alpha**2
        crossed = 2 * (row_sums - diagonal)
        return self._third_moments(diagonal, diagonal.sum(), crossed, whole)

    @cached_property
    def _cubes(self) -> tuple[float, float, float]:
        """Σ_k ω_k (n/σ_k)³ E of a cube, of a square and another entry, of three entries."""
        weights = self.chances * (self.count / self.row_sums) ** 3
        cube, square, single = (
            float(weights @ self._mean_powers(*p)) if len(p) <= self.count else 0.0
            for p in ((3,), (2, 1), (1, 1, 1))
        )
        return cube, square, single

    def _third_moments(
        self, here: Array, trace: Array | float, crossed: Array, whole: Array | float
    ) -> Array:
        """Σ_k ω_k (n/σ_k)³ E[p_u pᵀMp] from M_uu, tr M, Σ_{w≠u}(M_uw + M_wu) and 1ᵀM1."""
        cube, square, single = self._cubes
        mixed: Array = square * (trace - here + crossed) + single * (whole - trace - crossed)
        return cube * here + mixed

    def score_ends(self, rows: Array) -> tuple[Array, Array]:
        """(n/σ_k)(Σc + (e − 1) Σ_{u ∈ B} c_u), extreme for the k smallest and the k largest c."""
        ordered = np.sort(rows, axis=1)
        sums = np.hstack([np.zeros((len(rows), 1)), np.cumsum(ordered, axis=1)])
        sizes, total = np.array(self.sizes), sums[:, -1:]
        weights, gain = self.count / self.row_sums, exp(self.epsilon) - 1
        least = weights * (total + gain * sums[:, sizes])
        most = weights * (total + gain * (total - sums[:, self.count - sizes]))
        return least.min(axis=1), most.max(axis=1)

    def cross_moments(self, left: Array, right: Array, counts: Array) -> Array:
        cube, square, single = self._cubes
        users = float(counts.sum())
        either = counts[:, None] + counts
        kernel = square * either + single * (users - either)
        np.fill_diagonal(kernel, cube * counts + square * (users - counts))
        product: Array = left @ kernel @ right.T
        return product

    def evidence(self, tally: IntArray) -> Array:
        weights = self.count / self.row_sums
        inside = (weights * (exp(self.epsilon) - 1)) @ tally[:, 1:]
        return np.asarray(float(weights @ tally[:, 0]) + inside)

    def randomizer(self, schema: Schema, cells: IntArray | None) -> Randomizer:
        sizes = np.array(self.sizes, dtype=np.int64)
        high = high_chances(sizes, self.count, self.epsilon)
        shares = rounded_shares(self.chances)
        return SubsetRandomizer(schema, cells, self.count, sizes, shares, high)


def mean_powers(n: int, k: int, ratio: float, powers: Sequence[int]) -> float:
    """E of ∏ p_i^{a_i} at distinct places, p the row of a uniform k-subset (ratio inside, else 1).

    Examples
    --------
    >>> mean_powers(4, 1, 3.0, (2,))
    3.0
    """
    total = 0.0
    for inside in product((False, True), repeat=len(powers)):
        up = sum(inside)
        chance = _falling(k, up) * _falling(n - k, len(powers) - up) / _falling(n, len(powers))
        total += chance * prod(ratio**a for a, i in zip(powers, inside, strict=True) if i)
    return total


def _falling(n: int, places: int) -> int:
    return prod(range(n - places + 1, n + 1))


def subset_selection(types: int, epsilon: float, size: int) -> SubsetStrategy:
    """All subsets of one size."""
    return SubsetStrategy(types, epsilon, (size,), np.ones(1))


def histogram_size(types: int, epsilon: float) -> int:
    """The size k that maximises n(k e² + n − k)/(k e + n − k)²: best for the histogram."""
    k = np.arange(1, max(types, 2), dtype=np.float64)
    e = exp(epsilon)
    spread = types * (k * e * e + types - k) / (k * e + types - k) ** 2
    return int(k[spread.argmax()])


def rappor(types: int, epsilon: float) -> SubsetStrategy:
    """The one-hot vector of a type with every bit flipped with chance 1/(1 + e^{ε/2})."""
    k = np.arange(types + 1, dtype=np.float64)
    from scipy.special import gammaln

    choices = gammaln(types + 1) - gammaln(k + 1) - gammaln(types - k + 1)
    logs = choices - epsilon * k / 2 + np.log(k * exp(epsilon) + types - k)
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    kept = np.flatnonzero(chances > NEVER)
    weights = chances[kept] / chances[kept].sum()
    return SubsetStrategy(types, epsilon, tuple(kept.tolist()), weights, "RAPPOR")
