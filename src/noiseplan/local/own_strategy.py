"""Strategies that users bring: a matrix of chances, its ε computed exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.local.device.integer_chances import log_up
from noiseplan.local.strategies.strategy import TableStrategy, check_strategy
from noiseplan.matrices.base import Array
from noiseplan.schema import Schema


def own_strategy(schema: Schema, chances: Any, epsilon: float | None) -> TableStrategy:
    """The strategy of a matrix Q, possible reports × cells, within ε or within its own.

    The integers that devices draw from lie within ε whatever rounding does; Q itself may exceed it
    by rounding alone.
    """
    matrix = _checked(schema, chances)
    met = matrix_epsilon(matrix)
    within = met if epsilon is None else epsilon
    check_strategy(matrix, within)
    return TableStrategy.of(matrix, within, name="own strategy").rounded()


# Chances below this are no numbers to be reckoned with.
LEAST_CHANCE: Final = 1e-200


def matrix_epsilon(chances: Array) -> float:
    """ln max_o (max_u Q[o, u]/min_u Q[o, u]) of the numbers as they are, rounded up."""
    low, high = chances.min(axis=1), chances.max(axis=1)
    impossible = (low <= 0) & (high > 0)
    if impossible.any():
        raise PlanError(
            f"report {int(impossible.argmax())} of the strategy is possible for some values and "
            f"impossible for others, which is private at no ε: give it a chance for every value"
        )
    if not (high > 0).any() or (low[high > 0] < LEAST_CHANCE).any():
        raise PlanError(
            f"a strategy gives every possible report a chance of at least {LEAST_CHANCE:g} for "
            f"every value, and its columns add up to one"
        )
    pairs = zip(high[high > 0].tolist(), low[high > 0].tolist(), strict=True)
    return log_up(max(Fraction(most) / Fraction(least) for most, least in pairs))


def _checked(schema: Schema, chances: Any) -> Array:
    try:
        matrix = np.asarray(chances, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    fits = matrix.ndim == 2 and matrix.shape[1] == schema.size and len(matrix) > 0
    if not fits or not np.isfinite(matrix).all():
        raise PlanError(
            f"a strategy has one row for each possible report and one column for each of the "
            f"{schema.size:,} cells of {list(schema.names)}, the last attribute fastest, all "
            f"finite; found shape {matrix.shape}"
        )
    return matrix
