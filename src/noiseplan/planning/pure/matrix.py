"""One strategy over all cells of a small domain, where no product of strategies fits."""

from __future__ import annotations

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.tables import TablesMechanism
from noiseplan.noise import Noise
from noiseplan.optimize.p_identity import best_p_identity, strategy
from noiseplan.planning.pure.made import PureMade
from noiseplan.planning.pure.scales import cost_of, require_drawable, scales_within
from noiseplan.planning.pure.strategies import FAINT, largest_norm, to_integers
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Guarantee

# Domains over which one matrix is tried unasked, and made when asked for.
SMALL_CELLS, EXPLICIT_CELLS = 256, 2048
BITS = 14
# Cells are one if their columns agree to so many digits.
TOLD_DIGITS = 14
# How much of the budget the identity has where the rows of tables are the start.
IDENTITY_SHARE = 0.1


def plan_matrix(
    design: Design, epsilon: float, planner: str, integer: bool, tables: PureMade | None = None
) -> PureMade:
    """The best p-identity strategy over the domain, or the workload's own rows.

    `tables` is a plan of tables, whose rows are one place to start from.
    """
    size = design.workload.schema.size
    if size > EXPLICIT_CELLS:
        raise PlanError(
            setting("planner", planner)
            + f" plans domains of at most {EXPLICIT_CELLS:,} cells, and the schema has {size:,}; "
            "use " + setting("planner", "auto")
        )
    if planner == "workload":
        matrix = _rows(design)
        if integer and not (matrix == np.rint(matrix)).all():
            what = (
                "whole numbers in them"
                if np.ptp(design.workload.columns.weights) == 0
                else "whole numbers; times the roots of their weights they are not: give all "
                "queries one weight"
            )
            raise PlanError(
                setting("planner", "workload")
                + f" measures the workload's own rows, and discrete noise needs {what}; use "
                + setting("planner", "auto")
                + ", or "
                + setting("noise", "laplace")
                + " to simulate"
            )
        return made_of_matrix(design, epsilon, matrix, "workload", integer, whole=integer)
    gram = design.gram()
    cells, groups = _told_apart(gram)
    _, theta = best_p_identity(gram[np.ix_(cells, cells)], _extra(tables, groups))
    matrix = strategy(np.where(theta > FAINT * theta.max(), theta, 0.0))[:, groups]
    return made_of_matrix(design, epsilon, matrix, "p-identity over all cells", integer)


def _told_apart(gram: Array) -> tuple[IntArray, IntArray]:
    """The first of the cells that no query tells apart from each other, and the group of each."""
    scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    # Of its own size: what a light query tells apart must not vanish beside a heavy one.
    unit = np.column_stack([gram / scale / scale[:, None], scale / scale.max()])
    rounded = np.round(unit, TOLD_DIGITS) + 0.0
    first, kind = np.unique(rounded, axis=0, return_index=True, return_inverse=True)[1:]
    return first, kind.reshape(-1)


def _extra(tables: PureMade | None, groups: IntArray) -> Array | None:
    """The rows of a plan of tables over groups of cells, in units of a faint identity."""
    if tables is None or not isinstance(tables.mechanism, TablesMechanism):
        return None
    rows = tables.mechanism.dense_rows()[:, np.unique(groups, return_index=True)[1]]
    several = np.abs(rows[np.count_nonzero(rows, axis=1) > 1])
    if not 0 < len(several) <= rows.shape[1]:
        return None
    weights = several / (several.sum(axis=0).max() * IDENTITY_SHARE)
    return np.asarray(weights)


def _rows(design: Design) -> Array:
    """Every row of the workload, times the root of its weight where weights differ."""
    weights = design.workload.columns.weights
    even = np.ptp(weights) == 0
    return np.vstack(
        [q.dense() * (1.0 if even else np.sqrt(q.weight)) for q in design.workload]
    )  # fmt: skip


def made_of_matrix(
    design: Design, epsilon: float, matrix: Array, name: str, integer: bool, whole: bool = False
) -> PureMade:
    """The mechanism that measures these rows, with its exact cost.

    With `integer` noise the rows are rounded to integers first, unless they are `whole` already.
    """
    matrix = matrix[np.abs(matrix).any(axis=1)]
    ideal = _value(design, epsilon, matrix)
    if integer and not whole:
        matrix = to_integers(matrix, BITS)
    norm = largest_norm(matrix)
    scales = scales_within([norm], [1], np.ones(1), epsilon)
    if integer:
        require_drawable(scales)
    mechanism = DenseMechanism(design.workload.schema, matrix, Noise("laplace", scales, integer))
    _require_answers(design, mechanism)
    figures = RowFigures(design, mechanism)
    value = float(design.type_weight @ figures.sums())
    cost = Guarantee.pure(cost_of([norm], [1], scales))
    return PureMade(design, mechanism, cost, figures, value, name, value / ideal - 1.0)


def _require_answers(design: Design, mechanism: DenseMechanism) -> None:
    from noiseplan.planning.planner import require_answers

    require_answers(design, mechanism)


def _value(design: Design, epsilon: float, matrix: Array) -> float:
    """Σ weight · variance with continuous noise, before anything is rounded."""
    scale = float(largest_norm(matrix)) / epsilon
    inverse = np.linalg.pinv(matrix, rcond=1e-10)
    return float(2 * scale**2 * np.einsum("ir,ij,jr->", inverse, design.gram(), inverse))
