"""The matrix mechanism in the local model: every user adds noise to the numbers of their type.

A user of type u sends A e_u + ξ, the collector adds everything up, and least squares does the rest.
With noise variance s² the information matrix is X = AᵀA/s², and every type has the same variance
tr[X⁺G]. Noise is added once per user, not once, so that many more users are needed than where
reports are counted.

"matrix l1": discrete Laplace noise, pure ε. "matrix l2": discrete Gaussian noise, (ε, δ).

References
----------
Li, Miklau, Hay, McGregor and Rastogi (2015) and McKenna et al. (2018) for the strategies; Edmonds,
Nikolov and Ullman (2020) for their use in the local model.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError
from noiseplan.local.device.noisy_sums import LAWS, SumRandomizer, largest_distance
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.strategies.strategy import Strategy
from noiseplan.matrices.base import Array
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.p_identity import best_p_identity, strategy
from noiseplan.privacy import ApproxDP
from noiseplan.privacy.conversions import discrete_gaussian_variance
from noiseplan.privacy.rounding import fraction_up
from noiseplan.schema import Schema

# The largest entry of a strategy becomes this integer: rounding is then far below the noise.
GRID = 1 << 24


@final
@immutable
@dataclass(frozen=True, eq=False)
class AdditiveStrategy(Strategy):
    """Integers of each type, with discrete noise on every one of them.

    Parameters
    ----------
    rows
        A as integers, k × n.
    scale
        Of the noise: scale of the discrete Laplace law, or σ² of the discrete Gaussian.
    law
        "laplace" or "gaussian".
    """

    rows: IntArray
    scale: Fraction
    law: str
    epsilon: float
    delta: float
    name: str
    counts_users = False  # only the noisy sums are kept

    @property
    def types(self) -> int:
        return int(self.rows.shape[1])

    @property
    def outputs(self) -> int:
        """Integers have no largest one; as many as 64 bits each can hold."""
        return 1 << (64 * len(self.rows))

    @cached_property
    def noise_variance(self) -> float:
        """s² of one number."""
        return LAWS[self.law].variance(self.scale)

    @cached_property
    def information(self) -> Array:
        rows = self.rows.astype(np.float64)
        return rows.T @ rows / self.noise_variance

    def moments(self, rows: Array) -> Array:
        answers = self.applied(rows)
        noise = np.einsum("ij,ij->i", answers, rows)
        return np.asarray(noise[:, None] + answers**2)

    def score_ends(self, rows: Array) -> tuple[Array, Array]:
        """Jumps whose Poisson law has the larger generating function: ±2b for Laplace noise.

        −ln(1 − x²) ≤ (e^{2x} − 1 − 2x)/2 for 0 ≤ x < 1, both with the variance of scale b. Of
        Gaussian noise there are none.
        """
        weights = np.abs(rows @ self.rows.T.astype(np.float64)) / self.noise_variance
        reach = LAWS[self.law].jump(self.scale) * weights.max(axis=1)
        return -reach, reach

    def cross_moments(self, left: Array, right: Array, counts: Array) -> Array:
        answers = self.applied(left), self.applied(right)
        noise: Array = float(counts.sum()) * (answers[0] @ right.T)
        return noise + (answers[0] * counts) @ answers[1].T

    def total_moments(self, gram: Array) -> Array:
        self.coefficients(gram)  # refuses what is not measured
        return float((self._inverse * gram).sum()) + np.diagonal(gram)

    def evidence(self, tally: IntArray) -> Array:
        return np.asarray(tally @ self.rows.astype(np.float64) / self.noise_variance)

    def randomizer(self, schema: Schema, cells: IntArray | None) -> Randomizer:
        return SumRandomizer(schema, cells, self.rows, self.law, self.scale, self.delta)


def additive_strategy(
    gram: Array, epsilon: float, mechanism: str, delta: float = 1e-6
) -> AdditiveStrategy:
    """The matrix mechanism with the best strategy found, for Laplace or Gaussian noise.

    All types have the same variance, so that the worst is the mean.
    """
    if len(gram) == 1:
        raise PlanError(
            f"mechanism {mechanism!r} adds noise to what types of users differ by, and the "
            f"workload asks for nothing but their number, which is public: leave mechanism out"
        )
    rows, scale, law, delta = MAKERS[mechanism](gram, epsilon, delta)
    scale = Fraction(fraction_up(scale))  # more noise, never less
    return AdditiveStrategy(rows, scale, law, epsilon, delta, mechanism)


def _laplace(gram: Array, epsilon: float, _: float) -> Made:
    """Every type and some weighted sums of types."""
    rows = _integers(strategy(best_p_identity(gram)[1]))
    return rows, Fraction(largest_distance(rows, 1)) / Fraction(epsilon), "laplace", 0.0


def _gaussian(gram: Array, epsilon: float, delta: float) -> Made:
    """The best rows of all."""
    rows, asked = _integers(dense_optimum(gram).strategy), ApproxDP(epsilon, delta)
    distance = largest_distance(rows, 2)
    scale = discrete_gaussian_variance(distance, asked.epsilon, asked.delta)
    return rows, scale, "gaussian", delta


def _integers(weights: Array) -> IntArray:
    return np.asarray(np.round(weights * (GRID / np.abs(weights).max())), dtype=np.int64)


# Rows, the scale of their noise, its law, and δ.
Made = tuple[IntArray, Fraction, str, float]
MAKERS: Final = {"matrix l1": _laplace, "matrix l2": _gaussian}
