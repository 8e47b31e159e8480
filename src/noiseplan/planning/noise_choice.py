"""Choose between Gaussian noise and Laplace noise within an (ε, δ) budget.

Pure ε-differential privacy is (ε, δ)-differential privacy at every δ, so Laplace noise may be taken
too. Standard errors of k equal tables grow as k with Laplace noise and as √k with Gaussian noise:
few tables are better off with the first (docs/how-to-choose.md shows where the lines cross).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from noiseplan.errors import BudgetError, NoiseplanError
from noiseplan.mechanisms.cost import with_mu2
from noiseplan.noise.law import FINEST
from noiseplan.planning.candidate import TAKEN, Candidate, reached
from noiseplan.planning.objectives import TotalVariance, WorstVariance
from noiseplan.planning.planners import automatic
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import GDP, ApproxDP, PureDP, zCDP

Solve = Callable[[Problem], Candidate]
# Laplace plans are searched in full where a rough one has at most so many times the objective of
# the Gaussian one: the search has never gained more.
NEAR: Final = 4.0
# Over more cells of several attributes the full search takes seconds, and gained nothing but where
# rows or cells of each table were better than tables planned together.
SEARCHED_CELLS: Final = 512


def planned(problem: Problem, solve: Solve) -> tuple[Problem, Candidate]:
    """Return the better candidate within the budget, and the problem that it solves.

    For Laplace noise the problem has the budget `PureDP(epsilon)`. `solve` plans a problem with the
    one noise that it names.
    """
    if not isinstance(problem.budget, ApproxDP):
        return problem, by_exact_curve(problem, solve)
    pure = replace(problem, budget=PureDP(problem.budget.epsilon))
    if problem.drawn.law == "laplace":
        return pure, solve(pure)
    gaussian = by_exact_curve(problem, solve)
    if problem.noise != "discrete" or problem.name != "auto" or problem.strategies:
        return problem, gaussian
    laplace = _laplace(pure, solve, NEAR * _value(problem, gaussian))
    if laplace is None:
        return problem, gaussian
    if _value(pure, laplace) < _value(problem, gaussian):
        return pure, _beside(problem, laplace, "discrete Gaussian noise", gaussian)
    return problem, _beside(problem, gaussian, "discrete Laplace noise", laplace)


def by_exact_curve(problem: Problem, solve: Solve) -> Candidate:
    """Return the candidate with one noise, on a lattice fine enough for the exact Gaussian curve.

    (ε, δ) and GDP budgets limit μ² ≤ ℓ·2ρ, with the lattice loss ℓ ≤ `noise.law.MOST_LOSS`. Where
    integers are too coarse for that, noise is drawn on multiples of 1/k. Where the noise is very
    small (`problem.faint`), integers with the conversion from zCDP are planned too, and the better
    of both is returned.
    """
    limit, found = problem.budget, solve(problem)
    if not problem.integer or not isinstance(limit, ApproxDP | GDP):
        return found
    fine = _fine_enough(problem, found)
    if isinstance(limit, GDP):
        if fine is None:
            raise BudgetError(
                f"{limit} leaves hardly any noise, too little for noise on multiples of "
                f"1/{FINEST} to be as private as continuous noise: take a smaller budget"
            )
        return fine
    if fine is not None and not problem.faint:
        return fine
    coarse = solve(replace(problem, budget=zCDP(limit.zcdp_rho())))
    return coarse if fine is None else min(fine, coarse, key=lambda each: _value(problem, each))


def _fine_enough(problem: Problem, found: Candidate) -> Candidate | None:
    """Return the candidate with noise on as fine a lattice as needed; None where none is."""
    assert problem.budget is not None
    if with_mu2(found.privacy, [found.mechanism]).within(problem.budget):
        return found
    finer = found.mechanism.noise.finer()
    if finer > FINEST:
        return None
    mechanism = found.mechanism.on_lattice(finer)
    return replace(found, mechanism=mechanism, figures=RowFigures(problem.design, mechanism))


def _laplace(pure: Problem, solve: Solve, most: float) -> Candidate | None:
    """Return the Laplace plan, from a rough search where that is above `most`; None if refused."""
    try:
        rough = solve(replace(pure, rough=True))
        small = pure.design.roles.attributes < 2 or pure.size <= SEARCHED_CELLS
        cells = rough.considered[:1] == ((automatic.OF_CELLS, TAKEN),)
        if _value(pure, rough) > most or not (small or cells):
            return rough
        return min(rough, solve(pure), key=lambda each: _value(pure, each))
    except (NoiseplanError, np.linalg.LinAlgError):  # an objective or rows that it has no plan for
        return None


def _value(problem: Problem, candidate: Candidate) -> float:
    """Return the value of the objective; for targets, the factor by which they are relaxed."""
    if problem.priorities is not None:
        return candidate.figures.target_scale(1.0 / problem.priorities)
    return reached(problem, candidate)


def _beside(problem: Problem, taken: Candidate, name: str, other: Candidate) -> Candidate:
    """Return the candidate with the error of the other noise noted in `considered`."""
    (label, mine), (_, theirs) = _figure(problem, taken), _figure(problem, other)
    said = f"{label} {theirs:.4g} instead of {mine:.4g}"
    return replace(taken, considered=(*taken.considered, (name, said)))


def _figure(problem: Problem, candidate: Candidate) -> tuple[str, float]:
    figures, goal = candidate.figures, problem.goal
    if problem.priorities is not None:
        return "targets relaxed by", _value(problem, candidate)
    if isinstance(goal, WorstVariance):
        return "largest weighted standard error", float(np.sqrt(figures.worst_variance))
    if isinstance(goal, TotalVariance):
        often = figures.design.roles.type_count
        mean = float(often @ figures.type_variances) / problem.workload.rows
        return "RMSE", float(np.sqrt(mean))
    return str(goal), _value(problem, candidate)
