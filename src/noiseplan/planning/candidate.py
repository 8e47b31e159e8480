"""Planners, and what they propose: a mechanism, its price, its errors, how good it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.row_variances import variance_batches
from noiseplan.planning.certificates import Optimality
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    RelativeError,
    TotalVariance,
)
from noiseplan.planning.problem import Problem
from noiseplan.planning.small_workload import Asked
from noiseplan.planning.workload_errors import Figures
from noiseplan.privacy import Guarantee

ASKED: Final = "asked for"
# Planners by name, each with the reason why it was taken, or was not.
Considered = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mechanism for a problem, by the planner of this name. `loss`: of variance, for integers."""

    name: str
    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    optimality: Optimality
    loss: float = 0.0
    considered: Considered = ()


@dataclass(frozen=True)
class Planner:
    """A way to plan: what it is called, what it proposes, and why it cannot plan a problem.

    Over more than `most_cells` it is given the classes of cells that queries tell apart; where
    these are more too, `beyond` plans.
    """

    names: tuple[str, ...]
    solve: Callable[[Problem], Candidate]
    refuses: Callable[[Problem], str | None] = lambda problem: None
    most_cells: int | None = None
    beyond: Planner | None = None


def reached(problem: Problem, candidate: Candidate) -> float:
    """What is to be small; for targets, what meeting them costs."""
    figures, goal = candidate.figures, problem.goal
    if problem.priorities is not None:  # at a cost c they are met up to a scale that goes as 1/c
        return candidate.privacy.pcost * figures.target_scale(1.0 / problem.priorities)
    if isinstance(goal, TotalVariance):
        return figures.total_variance
    if isinstance(goal, PNormVariance):
        return p_norm_of(goal.p, problem, candidate.mechanism)
    if isinstance(goal, RelativeError):
        asked, mechanism = Asked(figures.design), candidate.mechanism
        assert isinstance(mechanism, DenseMechanism)  # nothing else plans them
        gram = asked.gram(asked.relative_weights(goal))
        return float((gram * mechanism.cell_covariance()).sum())
    if isinstance(goal, ConvexLoss):
        return loss_of(goal, figures)
    return figures.worst_variance


def loss_of(goal: ConvexLoss, figures: Figures) -> float:
    """A loss of one's own, of weight · mean variance of every query."""
    roles, rows = figures.design.roles, figures.design.type_rows
    means = roles.type_priority * figures.type_variances / rows
    return goal.value(means[roles.type_of_query])


def p_norm_of(p: float, problem: Problem, mechanism: Mechanism) -> float:
    """(Σ (weight · variance)^p)^(1/p) over all rows."""
    weights = problem.workload.columns.weights
    batches = variance_batches(mechanism, problem.workload)
    parts = [(rows * weights[positions]).ravel() for positions, rows in batches]
    norms = np.array([np.linalg.norm(part, p) for part in parts])
    return float(np.linalg.norm(norms, p))
