"""One strategy over all cells with Laplace noise, where no product of strategies fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, all_whole, distinct_rows
from noiseplan.errors import setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.tables import TablesMechanism
from noiseplan.optimize.laplace_allocation import Loss
from noiseplan.optimize.p_identity import (
    STEPS,
    best_of_many,
    best_p_identity,
    improve,
    improve_rows,
    strategy,
)
from noiseplan.planning.attribute_strategies import FAINT, without_total
from noiseplan.planning.candidate import Candidate, Planner
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.limits import LAPLACE_CELLS
from noiseplan.planning.noise_within import laplace_within, largest_change
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.planners import table_plans
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import largest, own_loss, p_norm, smooth_loss
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.progress import progress

BITS = 14
# So many times the largest entry is a public total.
MANY_TIMES = 2.0**10
# Above so many cells that are told apart a descent takes many seconds, and few are made.
DEAR_CELLS = 800
# Cells are one if their columns agree to so many digits.
TOLD_DIGITS = 14
# How much of the budget the identity has where the rows of tables are the start.
IDENTITY_SHARE = 0.1
# Starts are one that differ by no more: tables shared out at another ε are so far apart.
NEAR_START = 1e-2


def refuses(problem: Problem) -> str | None:
    """Rows of the workload that are no integers, where integers are measured."""
    if problem.planner != "workload" or problem.size > LAPLACE_CELLS:
        return None
    if problem.drawn.takes(lambda: all_whole(_rows(problem.design))):
        return None
    what = (
        "whole numbers in them"
        if np.ptp(problem.workload.columns.weights) == 0
        else "whole numbers; times the roots of their weights they are not: give all "
        "queries one weight"
    )
    return (
        setting("planner", "workload")
        + f" measures the workload's own rows, and discrete noise needs {what}; use "
        + setting("planner", "auto")
        + ", or "
        + setting("noise", "laplace")
        + " to simulate"
    )


def solve(problem: Problem) -> Candidate:
    """The workload's own rows, or the best p-identity strategy over the domain."""
    with one_thread(problem.design):
        if problem.planner == "workload":
            rows = _rows(problem.design)
            return measured_rows(problem, rows, "workload", whole=True)
        return p_identity(problem, rows_of(table_plans.measuring(problem, "auto")))


def p_identity(problem: Problem, rows: Array, anew: bool = True) -> Candidate:
    """The best p-identity strategy found; rows of another plan are one place to start, the only one
    if not `anew`."""
    found = better_than(problem, rows, inf, anew)
    assert found is not None  # nothing is better than what is infinitely bad
    return found


def better_than(problem: Problem, rows: Array, known: float, anew: bool = True) -> Candidate | None:
    """The same, if its total variance is below what is `known` with continuous noise."""
    gram, public = problem.design.gram(), problem.neighbours == "replace"
    cells, groups = _told_apart(gram)
    extra, whole = _extra(rows, groups), gram[np.ix_(cells, cells)]
    told = without_total(whole) if public else whole
    unit = 2.0 / problem.epsilon**2
    search, kept = _Search(problem, told, extra, anew), _KEPT.get()
    again = next((found for before, found in kept or () if before.alike(search)), None)
    if again is not None:
        value, theta = again
    elif len(cells) > DEAR_CELLS:
        with progress("searching for one matrix", 2 * STEPS) as advance:
            value, theta = best_of_many(told, extra, known / unit, advance)
    elif anew or extra is None:
        value, theta = best_p_identity(told, extra)
    else:
        value, theta = improve(told, extra)
    if value * unit >= known:
        return None
    if again is None and not isinstance(problem.goal, TotalVariance):
        rows = np.vstack([query.dense()[:, cells] for query in problem.workload])
        centred = rows - rows.mean(axis=1, keepdims=True)
        rows = centred if public and told is not whole else rows
        # A loss of the user's own is of variances as they are; others are the same in any unit.
        unit = problem.epsilon if isinstance(problem.goal, ConvexLoss) else 1.0
        theta = improve_rows(rows / unit, row_loss(problem), theta)
    if again is None and kept is not None:
        kept.append((search, (value, theta)))
    matrix = strategy(np.where(theta > FAINT * theta.max(), theta, 0.0))[:, groups]
    return measured_rows(problem, matrix, "p-identity over all cells")


@dataclass(frozen=True, eq=False)
class _Search:
    """What a search for Θ depends on, but for ε, by which all variances are divided alike."""

    problem: Problem
    told: Array
    extra: Array | None
    anew: bool

    def alike(self, other: _Search) -> bool:
        """Whether it is another search's, up to where exactly that starts."""
        mine, theirs = self.problem, other.problem
        if isinstance(mine.goal, ConvexLoss) or mine.goal != theirs.goal or self.anew != other.anew:
            return False
        pairs = ((self.told, other.told), (mine.workload.sizes, theirs.workload.sizes),
                 (mine.design.priorities, theirs.design.priorities))  # fmt: skip
        if not all(np.array_equal(one, two) for one, two in pairs):
            return False
        one, two = self.extra, other.extra
        if one is None or two is None:
            return one is two
        return one.shape == two.shape and np.allclose(one, two, rtol=NEAR_START, atol=NEAR_START)


_Kept = list[tuple[_Search, tuple[float, Array]]]
_KEPT: ContextVar[_Kept | None] = ContextVar("searches that are kept", default=None)


@contextmanager
def searched_once() -> Iterator[None]:
    """Around plans of one problem at several ε: the same matrix is searched for once."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def row_loss(problem: Problem) -> Loss:
    """The objective, of the variances of all rows."""
    goal, sizes, weights = problem.goal, problem.workload.sizes, problem.design.priorities
    each = sp.csr_array(sp.diags_array(np.repeat(weights, sizes)))
    if isinstance(goal, WorstVariance):
        return largest(each)
    if isinstance(goal, PNormVariance):
        return smooth_loss(each, p_norm(goal.p, np.ones(len(each.data))), goal)
    assert isinstance(goal, ConvexLoss)
    mine = np.repeat(np.arange(len(sizes)), sizes)
    mean = (np.repeat(weights / sizes, sizes), (mine, np.arange(len(mine))))
    return smooth_loss(sp.csr_array(mean), own_loss(goal), goal)


def _told_apart(gram: Array) -> tuple[IntArray, IntArray]:
    """The first of the cells that no query tells apart from each other, and the group of each.

    Groups are sorted by their columns: the blocks of cells that a search starts from are then of
    cells asked alike. In the order of the domain plans were up to a fifth worse.
    """
    scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    # Of its own size: what a light query tells apart must not vanish beside a heavy one.
    unit = np.column_stack([gram / scale / scale[:, None], scale / scale.max()])
    return distinct_rows(np.round(unit, TOLD_DIGITS))


def rows_of(candidate: Candidate) -> Array:
    """The rows of a plan over all cells, each over the size of its noise, all in one unit."""
    return _written_out(candidate.mechanism)


def _written_out(mechanism: Mechanism) -> Array:
    if isinstance(mechanism, ReducedMechanism):
        return _written_out(mechanism.small)[:, mechanism.cells.of_cells()]
    tables = isinstance(mechanism, TablesMechanism)
    return mechanism.dense_rows() if tables else mechanism.unit_rows()


def _extra(rows: Array, groups: IntArray) -> Array | None:
    """The rows of another plan over groups of cells, in units of a faint identity."""
    rows = rows[:, np.unique(groups, return_index=True)[1]]
    several = np.abs(rows[np.count_nonzero(rows, axis=1) > 1])
    if not 0 < len(several) <= rows.shape[1]:
        return None
    weights = several / (several.sum(axis=0).max() * IDENTITY_SHARE)
    return np.asarray(weights)


def _rows(design: Design) -> Array:
    """Every row of the workload, times the root of its weight where weights differ."""
    weights = design.workload.columns.weights
    even = np.ptp(weights) == 0
    roots = np.ones(len(weights)) if even else np.sqrt(weights)
    return np.vstack([q.dense() * root for q, root in zip(design.workload, roots, strict=True)])


def measured_rows(
    problem: Problem, matrix: Array, name: str, whole: bool = False, public_total: bool = True
) -> Candidate:
    """The mechanism that measures these rows, with its exact cost.

    For integer noise the rows are rounded to integers first, unless they are `whole` already.
    Where records are replaced a `public_total` is measured too, unless it is not to be.
    """
    design = problem.design
    matrix = matrix[np.abs(matrix).any(axis=1)]
    public = public_total and problem.neighbours == "replace"
    ideal = _value(problem, with_total(matrix) if public else matrix)
    if not whole:
        matrix = problem.numbers.rows(matrix, BITS)
    matrix = with_total(matrix) if public else matrix
    noise, privacy = laplace_within(problem, largest_change(matrix, problem.neighbours))
    mechanism = DenseMechanism(problem.workload.schema, matrix, noise)
    figures = RowFigures(design, mechanism)
    figures.require_answers(mechanism)
    loss = float(design.type_weight @ figures.type_variances) / ideal - 1.0
    known = Unstated(problem.workload, privacy, exact=problem.integer)
    return Candidate(name, mechanism, privacy, figures, known, loss)


def with_total(matrix: Array) -> Array:
    """Rows and the total, so many times that noise hardly counts: where records are replaced it is
    public, and no two of them differ in it."""
    return np.vstack([matrix, np.full(matrix.shape[1], MANY_TIMES * np.abs(matrix).max())])


def _value(problem: Problem, matrix: Array) -> float:
    """Σ weight · variance with continuous noise, before anything is rounded."""
    scale = float(largest_change(matrix, problem.neighbours)) / problem.epsilon
    return float(2 * scale**2 * (problem.design.gram() * LeastSquares(matrix).spread).sum())


PLANNER: Final = Planner(("matrix", "workload"), solve, refuses, LAPLACE_CELLS)
