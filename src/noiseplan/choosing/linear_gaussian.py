"""Mechanisms given by explicit matrices, Bx + N(0, Σ): for research, beside the planned ones.

Privacy and information depend on a mechanism only through its cost matrix C = BᵀΣ⁻¹B: one
mechanism can be answered from another exactly if its C is below the other's in the Loewner order.

    C_* ⪯ C_i for every i               what all of them tell, and maximal so
    C'_i = C_i − C_*                    the residual: with C_*, exactly mechanism i
    A_*ω_* + A'_iω'_i                   mechanism i's output again, from both

There are many maximal lower bounds C_*. The convention here: of all, the one whose covariance on an
orthonormal basis of the common row space has least trace; no matter which orthonormal basis.

References
----------
Xiao, Wang, Zhang, Kifer, "Answering Private Linear Queries Adaptively using the Common Mechanism",
PVLDB 16(8), 2023 (arXiv 2212.00135).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.choosing.loewner import Convention, common_of_costs, pseudo_inverse
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.integer_cost_matrix import positive_part, root_rows, symmetric
from noiseplan.privacy import Guarantee

# C_a − C_b counts as semidefinite if no eigenvalue is below this share of C_a's size.
SEMIDEFINITE = 1e-9
# Eigenvalues of a difference of covariances below this share of the trace are rounding.
RELATIVE = 1e-12


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """The mechanism Bx + N(0, Σ) on a vector x of counts, one for each kind of record.

    Parameters
    ----------
    queries
        B, rows × cells; rows may be linearly dependent.
    covariance
        Σ, positive definite; a number s stands for sI. The identity unless given.

    Examples
    --------
    >>> table = LinearGaussian([[1, 1], [1, 0], [0, 1]], 2.0)
    >>> table.cost_matrix.tolist(), table.privacy.rho
    ([[1.0, 0.5], [0.5, 1.0]], 0.5)
    """

    queries: Array
    covariance: Array

    def __init__(self, queries: ArrayLike, covariance: ArrayLike = 1.0) -> None:
        b = np.array(queries, dtype=np.float64)
        sigma = np.array(covariance, dtype=np.float64)
        if b.ndim != 2 or not np.isfinite(b).all():
            raise PlanError(f"queries are a finite matrix, rows × cells; found shape {b.shape}")
        if sigma.ndim == 0:
            sigma = sigma * np.eye(len(b))
        if sigma.shape != (len(b), len(b)):
            raise PlanError(
                f"the covariance of {len(b)} rows is a square matrix of that size, or one number; "
                f"found shape {sigma.shape}"
            )
        if not (np.isfinite(sigma).all() and np.allclose(sigma, sigma.T, rtol=1e-9, atol=0.0)):
            raise PlanError("the covariance must be finite and symmetric")
        if len(b) and np.linalg.eigvalsh(sigma)[0] <= 0:
            raise PlanError("the covariance must be positive definite: every row has some noise")
        object.__setattr__(self, "queries", b)
        object.__setattr__(self, "covariance", symmetric(sigma))

    @classmethod
    def from_cost_matrix(cls, cost: Array) -> LinearGaussian:
        """The mechanism with this C, independent rows and unit noise (Algorithm 2)."""
        return cls(root_rows(cost))

    @property
    def cells(self) -> int:
        """How many kinds of records there are."""
        return int(self.queries.shape[1])

    @property
    def rows(self) -> int:
        return len(self.queries)

    # ------------------------------------------------------------------ privacy

    @cached_property
    def cost_matrix(self) -> Array:
        """C = BᵀΣ⁻¹B."""
        return symmetric(self.queries.T @ np.linalg.solve(self.covariance, self.queries))

    @property
    def personal_costs(self) -> Array:
        """C_ii: the privacy cost 2ρᵢ = μᵢ² of each kind of record."""
        return np.diagonal(self.cost_matrix).copy()

    @property
    def privacy(self) -> Guarantee:
        """What everybody is guaranteed: the largest personal cost."""
        return Guarantee(float(self.personal_costs.max(initial=0.0)))

    # ------------------------------------------------------------------ one from another

    def standardised(self) -> LinearGaussian:
        """An equivalent mechanism with independent rows and covariance I (Algorithm 2)."""
        return LinearGaussian.from_cost_matrix(self.cost_matrix)

    def answers(self, other: LinearGaussian) -> bool:
        """Whether `other` can be had from this one exactly: C_other ⪯ C_self (Theorem 3.5)."""
        return below(other.cost_matrix, self.cost_matrix)

    def equivalent(self, other: LinearGaussian) -> bool:
        """Whether both have the same C: equal privacy and equal information (Definition 3.6)."""
        return self.answers(other) and other.answers(self)

    def conversion(self, other: LinearGaussian) -> tuple[Array, Array]:
        """A and K with `other` ≟ A · self + K · N(0, I), in distribution for every x.

        Notes
        -----
        A = B_o C⁺ BᵀΣ⁻¹ (generalised least squares), KKᵀ = Σ_o − B_o C⁺ B_oᵀ.
        """
        if not self.answers(other):
            raise PlanError("the other mechanism tells more than this one: it cannot be made of it")
        inverse = pseudo_inverse(self.cost_matrix)
        a = other.queries @ inverse @ np.linalg.solve(self.covariance, self.queries).T
        missing = other.covariance - other.queries @ inverse @ other.queries.T
        return a, noise_root(missing, float(np.trace(other.covariance)))

    def together(self, *others: LinearGaussian) -> LinearGaussian:
        """All of them run with independent noise, as one mechanism: cost matrices add."""
        parts = (self, *others)
        sigma = np.zeros((sum(p.rows for p in parts),) * 2)
        start = 0
        for part in parts:
            end = start + part.rows
            sigma[start:end, start:end] = part.covariance
            start = end
        return LinearGaussian(np.vstack([p.queries for p in parts]), sigma)

    def best_covariance(self, queries: ArrayLike) -> Array:
        """The covariance with which this mechanism answers other queries best: W C⁺ Wᵀ."""
        w = np.asarray(queries, dtype=np.float64)
        _, basis = positive_part(self.cost_matrix)
        outside = np.abs(w - (w @ basis) @ basis.T).max(initial=0.0)
        if outside > 1e-7 * np.abs(w).max(initial=0.0):
            raise PlanError("the queries are not determined by what this mechanism measures")
        return symmetric(w @ pseudo_inverse(self.cost_matrix) @ w.T)


def noise_root(missing: Array, scale: float) -> Array:
    """K with KKᵀ = `missing`, a difference of covariances of this size; rounding left out."""
    values, vectors = np.linalg.eigh(symmetric(missing))
    return np.asarray(vectors * np.sqrt(np.where(values > RELATIVE * scale, values, 0.0)))


def below(small: Array, large: Array) -> bool:
    """small ⪯ large, up to rounding."""
    scale = max(float(np.abs(large).max(initial=0.0)), float(np.abs(small).max(initial=0.0)))
    return bool(np.linalg.eigvalsh(symmetric(large - small))[0] >= -SEMIDEFINITE * scale)


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
        raise PlanError(
            f"the mechanisms are about {[m.cells for m in mechanisms]} cells: they must be about "
            f"the same ones"
        )
    rows, covariance = common_of_costs([m.cost_matrix for m in mechanisms], convention)
    return LinearGaussian(rows, covariance)


def chain(
    mechanisms: Sequence[LinearGaussian], convention: Convention = "orthonormal"
) -> list[LinearGaussian]:
    """CM_{1..n}, CM_{2..n}, …, M_n, each answerable from the next.

    Notes
    -----
    From the back: CM_{i..n} is the common mechanism of M_i and CM_{i+1..n}. Least-trace solutions
    computed separately need not form a chain; these do, by construction.

    Examples
    --------
    >>> coarse, fine = LinearGaussian([[1, 1, 1]], 1.0), LinearGaussian(np.eye(3), 0.5)
    >>> [round(link.privacy.rho, 6) for link in chain([coarse, fine])]
    [0.333333, 1.0]
    """
    links = [mechanisms[-1]]
    for mechanism in reversed(mechanisms[:-1]):
        links.append(common_mechanism([mechanism, links[-1]], convention))
    return links[::-1]


def residual(mechanism: LinearGaussian, common: LinearGaussian) -> LinearGaussian:
    """What is still to be measured after the common mechanism: C' = C − C_* (Algorithm 3).

    Its rows are B' with B'ᵀB' = C', eigenvalues that are no more than rounding left out.

    Examples
    --------
    >>> coarse, fine = LinearGaussian([[1, 1, 1]], 1.0), LinearGaussian(np.eye(3), 0.5)
    >>> shared = common_mechanism([coarse, fine])
    >>> rest = residual(fine, shared)
    >>> np.allclose(shared.cost_matrix + rest.cost_matrix, fine.cost_matrix)
    True
    """
    if not below(common.cost_matrix, mechanism.cost_matrix):
        raise PlanError(
            "the first mechanism does not tell what the second does: nothing can be left of it, "
            "for it is no common mechanism"
        )
    values, vectors = np.linalg.eigh(symmetric(mechanism.cost_matrix - common.cost_matrix))
    keep = values > 1e-10 * np.abs(mechanism.cost_matrix).max(initial=0.0)
    return LinearGaussian((vectors[:, keep] * np.sqrt(values[keep])).T)


@dataclass(frozen=True, eq=False)
class Recreation:
    """A mechanism's output from those of the common mechanism and of its residual (Algorithm 4).

    `from_common` and `from_residual` are A_* and A'; `covariance` is that of the result, which is
    Σ where the mechanism's rows are independent and smaller where they are not: consistent rows.

    Examples
    --------
    >>> coarse, fine = LinearGaussian([[1, 1, 1]], 1.0), LinearGaussian(np.eye(3), 0.5)
    >>> shared = common_mechanism([coarse, fine])
    >>> way = Recreation.of(fine, shared, residual(fine, shared))
    >>> np.allclose(way.covariance, fine.covariance)
    True
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
