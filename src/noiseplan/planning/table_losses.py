"""What is to be small, of the variances of residuals that tables of Laplace noise tell."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from noiseplan.matrices.base import Array
from noiseplan.optimize.laplace_allocation import Loss, logarithm
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.planning.attribute_strategies import RoleStrategy, bases_of
from noiseplan.planning.largest_variance import POWERS
from noiseplan.planning.objectives import ConvexLoss, Objective, TotalVariance, WorstVariance
from noiseplan.planning.solve import loss_rows, p_norm, type_matrix, worst_variances
from noiseplan.planning.workload_types import Design


def table_loss(design: Design, strategies: dict[int, RoleStrategy], goal: Objective) -> Loss:
    """The objective, of residuals' variances."""
    bases = bases_of(strategies)
    if isinstance(goal, WorstVariance):
        return largest(worst_variances(design, bases))
    matrix = type_matrix(design, bases)
    if isinstance(goal, TotalVariance):
        return Loss.total(np.asarray(design.type_weight @ matrix))
    return smooth_loss(*loss_rows(design, bases, goal, matrix), goal)


def largest(rows: sp.csr_array) -> Loss:
    """The largest of all variances, by p-norms that come ever nearer to it."""
    powers = tuple(logarithm(p_norm(p, np.ones(rows.shape[0]))) for p in POWERS)
    return Loss(rows, _largest, powers)


def smooth_loss(rows: sp.csr_array, loss: Smooth, goal: Objective) -> Loss:
    """A smooth loss; one of the user's own need not be positive, and has no logarithm."""
    if isinstance(goal, ConvexLoss):
        return Loss(rows, goal.value, (loss,))
    return Loss(rows, lambda variances: loss(variances)[0], (logarithm(loss),))


def _largest(variances: Array) -> float:
    return float(variances.max())
