"""One strategy over all cells of a small domain, where no product of strategies fits."""

from __future__ import annotations

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.explicit.pidentity import best_p_identity, strategy
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.dense import DenseMechanism
from noiseplan.planning.bounds import workload_gram
from noiseplan.planning.design import Design
from noiseplan.planning.figures import RowFigures
from noiseplan.planning.pure.made import PureMade
from noiseplan.planning.pure.scales import cost_of, require_drawable, scales_within
from noiseplan.planning.pure.strategies import largest_norm, to_integers
from noiseplan.privacy import Guarantee

# Domains over which one matrix is tried unasked, and made when asked for.
SMALL_CELLS, EXPLICIT_CELLS = 256, 2048
BITS = 14


def plan_matrix(design: Design, epsilon: float, planner: str, integer: bool) -> PureMade:
    """The best p-identity strategy over the domain, or the workload's own rows."""
    size = design.workload.schema.size
    if size > EXPLICIT_CELLS:
        raise PlanError(
            f"planner={planner!r} plans domains of at most {EXPLICIT_CELLS:,} cells, and the "
            f"schema has {size:,}; use planner='auto'"
        )
    if planner == "workload":
        matrix = _rows(design)
        if integer and not (matrix == np.rint(matrix)).all():
            raise PlanError(
                "planner='workload' measures the workload's own rows, and discrete noise needs "
                "whole numbers in them; use planner='auto', or noise='laplace' to simulate"
            )
        return _made(design, epsilon, matrix, "workload", integer)
    gram = workload_gram(design)
    rows = _rows(design) if design.workload.rows <= size else None
    _, theta = best_p_identity(gram, rows)
    matrix = strategy(np.where(theta > 1e-6 * theta.max(), theta, 0.0))
    return _made(design, epsilon, matrix, "p-identity over all cells", integer)


def _rows(design: Design) -> Array:
    """Every row of the workload, times the root of its weight where weights differ."""
    weights = design.workload.columns.weights
    even = np.ptp(weights) == 0
    return np.vstack(
        [q.dense() * (1.0 if even else np.sqrt(q.weight)) for q in design.workload]
    )  # fmt: skip


def _made(design: Design, epsilon: float, matrix: Array, name: str, integer: bool) -> PureMade:
    matrix = matrix[np.abs(matrix).any(axis=1)]
    ideal = _value(design, epsilon, matrix)
    if integer and name != "workload":
        matrix = to_integers(matrix, BITS)
    norm = largest_norm(matrix)
    scales = scales_within([norm], [1], np.ones(1), epsilon)
    if integer:
        require_drawable(scales)
    scale = float(scales[0])
    mechanism = DenseMechanism(design.workload.schema, matrix, 2 * scale**2, integer, scale)
    figures = RowFigures(design, mechanism)
    value = float(design.type_weight @ figures.sums())
    cost = Guarantee.pure(cost_of([norm], [1], scales))
    return PureMade(mechanism, cost, figures, value, name, value / ideal - 1.0)


def _value(design: Design, epsilon: float, matrix: Array) -> float:
    """Σ weight · variance with continuous noise, before anything is rounded."""
    scale = float(largest_norm(matrix)) / epsilon
    inverse = np.linalg.pinv(matrix, rcond=1e-10)
    return float(2 * scale**2 * np.einsum("ir,ij,jr->", inverse, workload_gram(design), inverse))
