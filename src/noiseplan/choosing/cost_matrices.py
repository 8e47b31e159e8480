"""Cost matrices over a small domain: of mechanisms, of what is left, and the way back."""

from __future__ import annotations

import numpy as np

from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.optimize.integer_cost_matrix import positive_part, symmetric
from noiseplan.planning.measured_numbers import Numbers
from noiseplan.schema import Schema

# Cells over which matrices are preferred to other ways, and those over which they are all there is:
# some ten seconds and half a gigabyte.
EXPLICIT_CELLS, MOST_CELLS = 1024, 2048


def carried(
    numbers: Numbers, schema: Schema, cost: Array, within: Array, room: Array | None = None
) -> DenseMechanism:
    """A mechanism whose cost matrix is this one; in integers, slightly below it.

    `within` is a cost matrix whose row space contains this one's: nothing outside of it is
    measured. `room` is what every cell may still pay, where they differ.
    """
    rows, sigma2 = np.zeros((0, len(cost))), 1.0
    if cost.any():
        rows, sigma2 = numbers.rows_of_cost(cost, within, room)
    return DenseMechanism(schema, rows, numbers.noise(sigma2))


def rest_cost(target: Array, have: Array, negligible: float) -> Array:
    """The positive part of target − have, relative to the target: what is still to be measured.

    Shares of a direction's precision that are `negligible` are not.

    Notes
    -----
    In coordinates in which the target is the identity its eigenvalues are the shares of each
    direction's precision that are missing; none is negative where `have` is common to both.
    """
    values, vectors = positive_part(target)
    across, back = vectors / np.sqrt(values), vectors * np.sqrt(values)
    shares, turn = np.linalg.eigh(symmetric(across.T @ (target - have) @ across))
    keep = shares > negligible
    rows = back @ turn[:, keep]
    return symmetric((rows * np.minimum(shares[keep], 1.0)) @ rows.T)


def cost_of(mechanism: Mechanism) -> Array:
    """BᵀΣ⁻¹B over the domain; raises `PlanError` where that is too large to write down."""
    require_few_cells(mechanism.schema.size)
    return symmetric(mechanism.cost_matrix())


def require_few_cells(size: int, why: str = "") -> None:
    """Refuse a domain over which no matrix is written down, and say what goes to any size."""
    if size > MOST_CELLS:
        raise PlanError(
            why
            + f"explicit matrices go up to {MOST_CELLS:,} cells, and the schema has {size:,}; "
            + "plans of any size go together where both have "
            + setting("planner", "residual")
        )
