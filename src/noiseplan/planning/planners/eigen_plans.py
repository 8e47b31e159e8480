"""Eigen-designs over more cells than one matrix is made for unasked: work goes with the rank.

The rows T of a `RowBasis` are orthogonal over the cells, and their Gram matrix is the workload's:
T_i b/‖T_i b‖ are its eigenvectors and ‖T_i b‖² its eigenvalues. Weights are found as over all cells
(`strategies.eigen`), and sums of tables are measured. Columns are not filled up: rows of single
cells would make the rank that of all cells.

Workloads of more numbers than that way takes are planned by one matrix, up to `GRAM_VALUES` cells.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from noiseplan.errors import setting
from noiseplan.planning.candidate import Candidate, Planner
from noiseplan.planning.limits import EXPLICIT_CELLS, GRAM_VALUES
from noiseplan.planning.planners import named, row_space_plans
from noiseplan.planning.problem import Problem
from noiseplan.strategies.eigen import EigenQueries, Weigh

# Rows times cells that are written out: half a GiB.
MOST_ENTRIES: Final = 2**26


def planner_for(name: str, weigh: Weigh) -> Planner:
    """What plans a design by its name."""
    beyond = Planner((name,), partial(_solve, weigh=weigh), _refuses)
    return Planner((name,), named.solve, named.refuses, EXPLICIT_CELLS, beyond)


def _refuses(problem: Problem) -> str | None:
    return _too_large(problem) if problem.size > GRAM_VALUES else None


def _too_large(problem: Problem) -> str | None:
    """Why the rank is not low enough."""
    refusal = row_space_plans.refuses(problem)
    if refusal is not None:
        return refusal
    entries = row_space_plans.Search(problem).tables.size * row_space_plans.told_apart(problem)
    if entries <= MOST_ENTRIES:
        return None
    return (
        setting("planner", problem.name)
        + f" writes down what each of its rows costs each cell, at most {MOST_ENTRIES:,} numbers, "
        f"and these are {entries:,}; use " + setting("planner", "optimal")
    )


def _solve(problem: Problem, weigh: Weigh) -> Candidate:
    if _too_large(problem) is not None:
        return named.solve(problem)
    search = row_space_plans.Search(problem)
    rows = np.asarray(search.basis.basis)[::-1]  # the largest first
    over = search.basis.columns.applied(rows)
    lengths = np.sqrt(np.einsum("ij,ij->i", over, over))
    queries = EigenQueries(over / lengths[:, None], lengths**2)
    u = weigh(queries)
    total = float((queries.values / u).sum() * (u @ queries.loads).max())
    return search.unproved(rows * (np.sqrt(u) / lengths)[:, None], total)
