"""Column norms and what follows from them: scaling, filling up, errors."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

# L1 is what Laplace noise is scaled to, L2 what Gaussian noise is.
Norm = Literal["L1", "L2"]
# A cell has a row of its own if its entry would be this share of the longest column: a smaller one
# is rounding, and would tell directions that nobody measured.
WORTH_FILLING: Final = 1e-5
# Singular values below this share of the largest are rounding.
NOISE_FLOOR: Final = 1e-9
# Pivots of AᵀA above this share of its largest entry: A has full column rank beyond doubt.
SAFE_PIVOT: Final = 1e-10
# What is left of a workload outside a row space, relative, if it lies in it.
SPANNED: Final = 1e-7


def column_norms(strategy: Array, norm: Norm) -> Array:
    """The L1 or L2 norm of every column: what a record in that cell costs."""
    if norm == "L1":
        return np.asarray(np.abs(strategy).sum(axis=0))
    return np.asarray(np.sqrt(np.einsum("ri,ri->i", strategy, strategy)))


def scaled(strategy: Array, norm: Norm) -> Array:
    """The same strategy with a largest column norm of one."""
    largest = float(column_norms(strategy, norm).max(initial=0.0))
    if not largest > 0:
        raise PlanError("the strategy measures nothing: all its rows are zero")
    return strategy / largest


def completed(strategy: Array, norm: Norm = "L2") -> Array:
    """With a row of its own for every cell whose column is shorter than the longest.

    It raises no largest norm, so it is free; every query with some weight on such a cell gains.

    Notes
    -----
    The entry is √(S² − ‖a_j‖²) for L2 and S − ‖a_j‖₁ for L1, S the largest norm (section 3.4.3).

    Examples
    --------
    >>> completed(np.array([[1.0, 0.6]])).tolist()
    [[1.0, 0.6], [0.0, 0.8]]
    """
    norms = column_norms(strategy, norm)
    longest = float(norms.max())
    room = longest - norms if norm == "L1" else np.sqrt(np.maximum(longest**2 - norms**2, 0.0))
    short = room > WORTH_FILLING * longest
    return np.concatenate([strategy, np.diag(room)[short]])


def total_error(strategy: Array, gram: Array, norm: Norm = "L2") -> float:
    """Δ² tr(G (AᵀA)⁺), in units of the noise's variance: Δ is the largest column norm.

    Examples
    --------
    >>> ranges = np.array([[4.0, 3, 2, 1], [3, 6, 4, 2], [2, 4, 6, 3], [1, 2, 3, 4]])
    >>> total_error(np.eye(4), ranges)
    20.0
    """
    longest = float(column_norms(strategy, norm).max())
    factor = _full_rank_factor(strategy)
    if factor is not None:
        from scipy.linalg import cho_solve

        return longest**2 * float(np.trace(cho_solve((factor, True), gram)))
    inverse = np.linalg.pinv(strategy, rcond=NOISE_FLOOR)
    return longest**2 * float(np.einsum("ij,ij->", gram @ inverse, inverse))


def _full_rank_factor(strategy: Array) -> Array | None:
    """The triangular factor of AᵀA, where A surely determines every cell."""
    if len(strategy) < strategy.shape[1]:
        return None
    gram = strategy.T @ strategy
    try:
        factor = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(factor) ** 2
    return np.asarray(factor) if pivots.min() > SAFE_PIVOT * np.diagonal(gram).max() else None


def supports(strategy: Array, gram: Array) -> bool:
    """Whether every query with this Gram matrix is a combination of the strategy's rows."""
    if _full_rank_factor(strategy) is not None:
        return True
    _, values, right = np.linalg.svd(strategy, full_matrices=False)
    kept = right[values > NOISE_FLOOR * values.max(initial=0.0)]
    outside = gram - (gram @ kept.T) @ kept
    return bool(np.abs(outside).max(initial=0.0) <= SPANNED * np.abs(gram).max())
