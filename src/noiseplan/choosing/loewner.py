"""Bounds of several symmetric matrices in the Loewner order: P ⪯ Σ if Σ − P is semidefinite.

The order is no lattice: a set of matrices has many least upper bounds. The one of least trace is
taken here, in closed form for two matrices and by a certified search for more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np

from noiseplan.choosing.least_trace import least_trace
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.integer_cost_matrix import positive_part, symmetric

Convention = Literal["orthonormal", "free"]

# A direction that leaves a row space by less than this (a sine) lies in it.
INSIDE: Final = 1e-7


def pseudo_inverse(matrix: Array) -> Array:
    """C⁺ of a semidefinite C, with the rank that `positive_part` sees."""
    values, vectors = positive_part(matrix)
    return np.asarray((vectors / values) @ vectors.T)


def intersection(bases: Sequence[Array]) -> Array:
    """Orthonormal columns that span what all spans have in common.

    Parameters
    ----------
    bases
        One matrix each, d × rank, with orthonormal columns.

    Notes
    -----
    Directions of the first are kept while they lie in the next: with V the next basis, those right
    singular vectors of S − VVᵀS whose singular value, the sine of an angle, is zero.
    """
    shared = bases[0]
    for basis in bases[1:]:
        if basis.shape[1] == len(basis):
            continue
        if shared.shape[1] == len(shared):
            shared = basis
            continue
        outside = shared - basis @ (basis.T @ shared)
        _, sines, right = np.linalg.svd(outside, full_matrices=True)
        sines = np.concatenate([sines, np.zeros(len(right) - len(sines))])
        shared = shared @ right[sines <= INSIDE].T
    return shared


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


def least_bound(matrices: Sequence[Array], convention: Convention = "orthonormal") -> Array:
    """The Σ of least trace with P ⪯ Σ for every given P, or the basis-free one of two.

    Parameters
    ----------
    matrices
        Positive definite matrices of one size.
    convention
        `"orthonormal"`: least trace. It depends on the basis the matrices are written in, which
        should be orthonormal. `"free"`: for two matrices, the least trace in the basis in which
        one of them is the identity; any other basis gives the same mechanism.
    """
    if convention not in get_args(Convention):
        raise PlanError(f"convention is 'orthonormal' or 'free', found {convention!r}")
    if len(matrices) == 1:
        return matrices[0]
    if len(matrices) > 2:
        if convention == "free":
            raise PlanError(
                f"the convention 'free' is for two mechanisms, found {len(matrices)}; use "
                f"'orthonormal', or chain(mechanisms), which takes two at a time"
            )
        return least_trace(matrices)[0]
    return _of_two(*matrices) if convention == "orthonormal" else _free(*matrices)


def _of_two(p: Array, q: Array) -> Array:
    """(P + Q)/2 + |P − Q|/2, where |·| takes absolute values of eigenvalues (Stott)."""
    values, vectors = np.linalg.eigh(symmetric(p - q))
    return symmetric((p + q) / 2 + (vectors * (np.abs(values) / 2)) @ vectors.T)


def _free(p: Array, q: Array) -> Array:
    """T diag(max(1, e)) Tᵀ for P = TTᵀ and Q = T diag(e) Tᵀ."""
    lower = np.linalg.cholesky(p)
    half = np.linalg.solve(lower, q)
    values, vectors = np.linalg.eigh(symmetric(np.linalg.solve(lower, half.T)))
    t = lower @ vectors
    return symmetric((t * np.maximum(values, 1.0)) @ t.T)
