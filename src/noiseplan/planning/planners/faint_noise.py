"""Rows of small integers, which are the best where discrete noise is of less than one count.

The variance of such noise is far below that of continuous noise of the same cost, about
2e^(−1/(2σ²)): whatever spreads a record over many rows, or has rows of large integers, has more
of it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, QueryError
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.noise_within import gaussian_within
from noiseplan.planning.objectives import PNormVariance, TotalVariance, WorstVariance
from noiseplan.planning.planners import named, noise_on_rows
from noiseplan.planning.problem import Problem
from noiseplan.planning.table_matrix import norm_power

# Cells that faint noise is tried on.
MOST_CELLS: Final = 2**20


def _own_rows(problem: Problem, best: Candidate) -> Candidate | None:
    """Noise on the rows themselves, where it is of less than one count on some of them.

    The heaviest query has about the share √V_q / Σ√V_q of the budget, V_q being its weighted rows.
    """
    weight = np.sqrt(problem.design.priorities * problem.workload.sizes)
    share = float(weight.max() / weight.sum())
    if (problem.allowed or 0.0) * share < 1 or noise_on_rows.untried(problem) is not None:
        return None
    try:
        return noise_on_rows.solve(problem)
    # Variances that differ too much for double precision, or of too many rows to be worked out; or
    # nothing differs between records.
    except (np.linalg.LinAlgError, QueryError, PlanError):
        return None


def _every_cell(problem: Problem, best: Candidate) -> Candidate | None:
    """Noise of less than one count on every cell.

    No row has less than the variance of a cell, which tells at once where this is worse.
    """
    # Noise on cells is the same whatever norm of the variances counts.
    normed = isinstance(problem.goal, WorstVariance | PNormVariance)
    objective = TotalVariance() if normed else problem.objective
    cells = replace(problem, planner="identity", objective=objective)
    if problem.size > MOST_CELLS or named.refuses(cells) is not None:
        return None
    noise, _ = gaussian_within(problem, Fraction(1))  # which alone is said to be faint
    power, priorities = norm_power(problem.goal), problem.design.priorities
    rows = float(np.linalg.norm(priorities * problem.workload.sizes ** (1 / power), power))
    worse = rows * float(noise.variance[0]) >= reached(problem, best)
    return None if worse else named.GAUSSIAN.solve(cells)


# Each against the best so far, in turn.
CHALLENGERS: Final = (("own rows", _own_rows), ("identity", _every_cell))
