"""One matrix over the whole domain as a mechanism: integer entries, its noise, its exact cost."""

from __future__ import annotations

import numpy as np

from noiseplan.domain.gram import Reduction
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise import Noise
from noiseplan.noise.discrete import LARGEST_VARIANCE
from noiseplan.noise.sizes import FINE_BITS, size_above
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.schema import Schema

# Entries of an integer matrix. Rounding changes a variance by about 2^−bits; where the identity was
# mixed in, by about cells · 4^−bits over its share, so that four thousand cells need this many.
EXPLICIT_BITS = 22
# Share of the identity in an integer matrix that would be singular; it costs as much variance.
FULL_RANK = 1e-5
# Cholesky pivots with unit diagonal from which on rounding cannot make a matrix singular.
ROOMY_PIVOT = 1e-3
# Targets are met by this much more than they ask, so that no rounding can tell otherwise.
CLEARLY = 1e-9


def matrix_mechanism(
    schema: Schema, strategy: Array, budget: float, integer: bool
) -> tuple[DenseMechanism, float]:
    """The mechanism that spends a budget, and its cost: the largest squared column over σ²."""
    if integer:
        strategy = integer_strategy(strategy)
    return _with_noise(schema, strategy, _largest_column(strategy) / budget, integer)


def mechanism_at(
    schema: Schema, strategy: Array, sigma2: float, integer: bool
) -> tuple[DenseMechanism, float]:
    """The mechanism with noise of at most σ² on (already integer) rows, and its cost."""
    # Two steps of the last bit down, at most one up again.
    return _with_noise(schema, strategy, sigma2 * (1.0 - 2.0 ** (2 - FINE_BITS)), integer)


def _with_noise(
    schema: Schema, strategy: Array, sigma2: float, integer: bool
) -> tuple[DenseMechanism, float]:
    over = margin(len(strategy))
    sigma2 = size_above(sigma2 * (1 + 2 * over))
    if integer:
        require_variance(sigma2)
    mechanism = DenseMechanism(schema, strategy, Noise("gaussian", sigma2, integer))
    return mechanism, product_up(_largest_column(strategy) / sigma2, 1 + over)


def require_variance(sigma2: float) -> None:
    """Refuse discrete noise that does not fit."""
    if sigma2 > LARGEST_VARIANCE:
        raise PlanError(
            "the budget is so small that the noise does not fit 64-bit integers: plan for a "
            "larger budget, or use " + setting("noise", "gaussian") + " to simulate"
        )


def _largest_column(strategy: Array) -> float:
    return float(np.max(np.einsum("ri,ri->i", strategy, strategy)))


def integer_strategy(strategy: Array) -> Array:
    """An integer matrix for almost the same cost matrix, with a row for every cell told apart.

    Cells with equal columns stay together, and cells that are not measured stay out. Among the rest
    rounding would tilt a row space that is not everything, and queries would fall out of it; so
    where the cost matrix is nearly singular a little of the identity is mixed in first.
    """
    told = Reduction.of_columns(strategy)
    if not told.trivial:
        return told.widened(integer_strategy(told.columns(strategy)))
    cost = strategy.T @ strategy
    root = _upper_root(cost)
    if root is None:
        mixed = (1 - FULL_RANK) * cost
        mixed[np.diag_indices(len(cost))] += FULL_RANK * np.diagonal(cost).max()
        root = np.asarray(np.linalg.cholesky(mixed).T)
    rounded = np.rint(root / np.abs(root).max() * 2**EXPLICIT_BITS)
    # Of a cell that is hardly measured something is left: the matrix stays regular.
    every = np.diag_indices(len(rounded))
    rounded[every] = np.maximum(rounded[every], 1.0)
    return np.asarray(rounded)


def with_every_cell(strategy: Array) -> Array:
    """The same with a little of the identity, so that it determines everything."""
    extra = np.sqrt(FULL_RANK * _largest_column(strategy)) * np.eye(strategy.shape[1])
    return np.concatenate([np.sqrt(1 - FULL_RANK) * strategy, extra])


def _upper_root(cost: Array) -> Array | None:
    """R with RᵀR = C, triangular; nothing if C is nearly singular."""
    try:
        root = np.asarray(np.linalg.cholesky(cost).T)
    except np.linalg.LinAlgError:
        return None
    lengths = np.sqrt(np.diagonal(cost))
    return root if (np.diagonal(root) / lengths).min() ** 2 > ROOMY_PIVOT else None
