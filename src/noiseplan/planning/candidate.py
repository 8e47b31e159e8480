"""Planners, and what they propose: a mechanism, its price, its errors, how good it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.row_variances import variance_batches
from noiseplan.planning.certificates import Optimality
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    RelativeError,
    TotalVariance,
)
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import Figures
from noiseplan.privacy import Guarantee
from noiseplan.queries import Query

ASKED: Final = "asked for"
TAKEN, WORSE, NOT_BETTER = "taken", "clearly worse", "not clearly better"
UNMEASURED: Final = "cannot be measured"
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
        return relative_of(goal, problem, candidate.mechanism)
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


def relative_of(goal: RelativeError, problem: Problem, mechanism: Mechanism) -> float:
    """Σ weight · variance over the square that the error of each row is compared with."""
    asked = zip(problem.workload, problem.design.priorities, strict=True)
    return float(sum(w * (inverse_squares(goal, q) @ mechanism.variance(q)) for q, w in asked))


def inverse_squares(goal: RelativeError, query: Query) -> Array:
    """One over the square that the error of each row is compared with."""
    rows = query.domain_matrix
    return 1.0 / goal.squares(rows.row_squares(), rows.matmul)
