"""The common mechanism of explicit mechanisms, what is left of each, and putting them together.

    C_* ⪯ C_i for every i               what all of them tell, and maximal so
    C'_i = C_i − C_*                    the residual: with C_*, exactly mechanism i
    A_*ω_* + A'_iω'_i                   mechanism i's output again, from both

There are many maximal lower bounds C_*. The convention here: of all, the one whose covariance on an
orthonormal basis of the common row space has least trace; no matter which orthonormal basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noiseplan.choosing.gaussian import LinearGaussian, below, noise_root
from noiseplan.choosing.loewner import (
    Convention,
    intersection,
    least_bound,
    positive_part,
    symmetric,
)
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array


def common_mechanism(
    mechanisms: Sequence[LinearGaussian], convention: Convention = "orthonormal"
) -> LinearGaussian:
    """What all mechanisms tell, and nothing more can be told by all of them (Algorithm 1).

    Examples
    --------
    >>> coarse, fine = LinearGaussian([[1, 1, 1]], 1.0), LinearGaussian(np.eye(3), 0.5)
    >>> shared = common_mechanism([coarse, fine])
    >>> shared.best_covariance([[1, 1, 1]]).round(9).tolist()
    [[1.5]]
    """
    if not mechanisms:
        raise PlanError("a common mechanism needs mechanisms: common_mechanism([first, second])")
    if len({m.cells for m in mechanisms}) > 1:
        raise PlanError(f"the mechanisms are about {[m.cells for m in mechanisms]} cells: they "
                        f"must be about the same ones")  # fmt: skip
    rows, covariance = common_of_costs([m.cost_matrix for m in mechanisms], convention)
    return LinearGaussian(rows, covariance)


def common_of_costs(
    costs: Sequence[Array], convention: Convention = "orthonormal"
) -> tuple[Array, Array]:
    """B_* with orthonormal rows and Σ_* of the common mechanism of these cost matrices.

    Notes
    -----
    The covariance with which mechanism i answers B_* is P_i = B_* C_i⁺ B_*ᵀ; Σ_* is the least
    matrix above all of them (Theorem 5.3).
    """
    parts = [positive_part(cost) for cost in costs]
    shared = intersection([vectors for _, vectors in parts])
    if not shared.shape[1]:
        return np.zeros((0, len(costs[0]))), np.zeros((0, 0))
    covariances = []
    for values, vectors in parts:
        across = (shared.T @ vectors) / np.sqrt(values)
        covariances.append(symmetric(across @ across.T))
    return shared.T, least_bound(covariances, convention)


def chain(
    mechanisms: Sequence[LinearGaussian], convention: Convention = "orthonormal"
) -> list[LinearGaussian]:
    """CM_{1..n}, CM_{2..n}, …, M_n, each answerable from the next.

    Notes
    -----
    From the back: CM_{i..n} is the common mechanism of M_i and CM_{i+1..n}. Least-trace solutions
    computed separately need not form a chain; these do, by construction.
    """
    links = [mechanisms[-1]]
    for mechanism in reversed(mechanisms[:-1]):
        links.append(common_mechanism([mechanism, links[-1]], convention))
    return links[::-1]


def residual(mechanism: LinearGaussian, common: LinearGaussian) -> LinearGaussian:
    """What is still to be measured after the common mechanism: C' = C − C_* (Algorithm 3)."""
    if not below(common.cost_matrix, mechanism.cost_matrix):
        raise PlanError("the first mechanism does not tell what the second does: nothing can be "
                        "left of it, for it is no common mechanism")  # fmt: skip
    return LinearGaussian(residual_rows(mechanism.cost_matrix, common.cost_matrix))


def residual_rows(cost: Array, common: Array) -> Array:
    """B' with B'ᵀB' = C − C_*, where eigenvalues are no more than rounding left out."""
    values, vectors = np.linalg.eigh(symmetric(cost - common))
    keep = values > 1e-10 * np.abs(cost).max(initial=0.0)
    return np.asarray((vectors[:, keep] * np.sqrt(values[keep])).T)


@dataclass(frozen=True, eq=False)
class Recreation:
    """A mechanism's output from those of the common mechanism and of its residual (Algorithm 4).

    `from_common` and `from_residual` are A_* and A'; `covariance` is that of the result, which is
    Σ where the mechanism's rows are independent and smaller where they are not: consistent rows.
    """

    mechanism: LinearGaussian
    from_common: Array
    from_residual: Array
    covariance: Array

    @classmethod
    def of(
        cls, mechanism: LinearGaussian, common: LinearGaussian, rest: LinearGaussian
    ) -> Recreation:
        # B C⁺ with C = C_* + C' = BᵀΣ⁻¹B, which is Σ^{1/2} (BᵀΣ^{−1/2})† of the paper.
        values, vectors = positive_part(mechanism.cost_matrix)
        back = (mechanism.queries @ vectors / values) @ vectors.T
        a = back @ np.linalg.solve(common.covariance, common.queries).T
        b = back @ np.linalg.solve(rest.covariance, rest.queries).T
        covariance = symmetric(a @ common.covariance @ a.T + b @ rest.covariance @ b.T)
        return cls(mechanism, a, b, covariance)

    def __call__(self, common_output: Array, residual_output: Array) -> Array:
        """A_*ω_* + A'ω': unbiased for Bx, equivalent to the mechanism's own output."""
        return np.asarray(self.from_common @ common_output + self.from_residual @ residual_output)

    def missing(self) -> Array:
        """K with KKᵀ = Σ − covariance: add K·N(0, I) for the mechanism's literal law.

        It only takes accuracy away; zero where the mechanism's rows are independent.
        """
        sigma = self.mechanism.covariance
        return noise_root(sigma - self.covariance, float(np.trace(sigma)))
