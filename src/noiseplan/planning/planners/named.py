"""Plans that measure a strategy by name, or one that a user brings, with either noise.

Eigen-designs over more cells than one matrix is made for unasked take work that goes with the rank.
The rows T of a `RowBasis` are orthogonal over the cells, and their Gram matrix is the workload's:
T_i b/‖T_i b‖ are its eigenvectors and ‖T_i b‖² its eigenvalues. Weights are found as over all cells
(`strategies.eigen`), and sums of tables are measured. Columns are not filled up: rows of single
cells would make the rank that of all cells.

Workloads of more numbers than that way takes are planned by one matrix, up to `GRAM_VALUES` cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf, prod
from typing import Final

import numpy as np

from noiseplan.errors import setting
from noiseplan.matrices import Transform, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.matrices.transforms import PROFILE_VALUES
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.product import Factor, ProductMechanism
from noiseplan.noise import Noise
from noiseplan.planning.candidate import Candidate, Considered, Planner
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.limits import EXPLICIT_CELLS, GRAM_VALUES
from noiseplan.planning.noise_within import (
    gaussian_within,
    laplace_within,
    largest_square,
    matrix_mechanism,
)
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.planners import row_space_plans
from noiseplan.planning.planners.laplace_matrix import measured_rows
from noiseplan.planning.problem import Problem
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import Guarantee
from noiseplan.schema import Schema
from noiseplan.strategies.catalogue import eigen_weights, strategy_matrix
from noiseplan.strategies.column_norms import total_error
from noiseplan.strategies.eigen import EigenQueries, Weigh
from noiseplan.strategies.given_rows import Strategy

# Products of small domains are written out as one matrix, which other rooms can work with; not
# where that has too many numbers, as trees over many attributes have.
WRITTEN_OUT, WRITTEN_NUMBERS = 1024, 2**22
# Numbers that a product may measure: 128 MB of them.
MOST_NUMBERS: Final = 2**24
# Rounding to integers tilts the rows; where they do not determine every cell, this much of L1
# columns goes to the cells themselves, so that every query still has an answer.
EVERY_CELL: Final = 1e-3

# How many times the total variance of single cells a strategy has before that is said, and how near
# eigenvalues are that are one.
WORSE_THAN_CELLS: Final = 1.1
SAME_VALUE: Final = 1e-9

# Rows times cells that are written out: half a GiB.
MOST_ENTRIES: Final = 2**26


def refuses(problem: Problem) -> str | None:
    """What a strategy that is not optimised cannot do, and what is too large."""
    if problem.budget is None or not isinstance(problem.goal, TotalVariance):
        return (
            setting("planner", problem.name)
            + " plans the total variance under a budget; use "
            + setting("planner", "auto")
            + " or 'optimal' for other objectives and targets"
        )
    if problem.factors is not None:
        return _too_large(problem.name, problem.factors)
    if problem.size > EXPLICIT_CELLS and isinstance(problem.strategy, Strategy):
        return (
            setting("planner", problem.name)
            + f" plans domains of at most {EXPLICIT_CELLS:,} cells, and the schema has "
            f"{problem.size:,}; use "
            + setting("planner", "auto")
            + ", or 'hierarchical' and 'wavelet', which need no matrix over all cells"
        )
    return None


def _too_large(name: str, factors: tuple[Factor, ...]) -> str | None:
    numbers = prod(factor.shape[0] for factor in factors)
    if numbers > MOST_NUMBERS:
        return (
            setting("planner", name)
            + f" would measure {numbers:,} numbers, and at most {MOST_NUMBERS:,} are measured of a "
            "whole domain; use " + setting("planner", "auto") + ", which measures tables"
        )
    longest = max((f.shape[1] for f in factors if isinstance(f, Transform)), default=0)
    if longest > PROFILE_VALUES:
        return (
            setting("planner", name)
            + f" takes attributes of at most {PROFILE_VALUES:,} values, and one has {longest:,}; "
            "use " + setting("planner", "auto")
        )
    return None


def _laplace_rows(problem: Problem, rows: Array, gram: Array) -> Candidate:
    straight = problem.drawn.takes(lambda: _whole(rows))
    rows = rows if straight else _determining(rows)
    return measured_rows(problem, rows, problem.name, public_total=False)


def _gaussian_rows(problem: Problem, rows: Array, gram: Array) -> Candidate:
    allowed = problem.allowed
    assert allowed is not None  # there is a budget
    schema, neighbours = problem.workload.schema, problem.neighbours
    mechanism, cost = matrix_mechanism(schema, rows, allowed, problem.numbers, neighbours)
    figures = RowFigures(problem.design, mechanism)
    figures.require_answers(mechanism)
    dearer = largest_square(rows, neighbours) / largest_square(rows, "add-remove")
    loss = figures.total_variance / (dearer * total_error(rows, gram) / allowed) - 1
    privacy = Guarantee(cost, problem.drawn.accounting, neighbours)
    known = Unstated(problem.workload, privacy, exact=problem.integer)
    return Candidate(problem.name, mechanism, privacy, figures, known, loss)


@dataclass(frozen=True)
class Scaled:
    """Noise that is scaled to a norm of columns: how rows are measured with it within a budget."""

    rows: Callable[[Problem, Array, Array], Candidate]
    within: Callable[[Problem, Fraction], tuple[Noise, Guarantee]]
    # What a variance is above that of continuous noise, from the largest ‖a‖_p^p of a column and
    # what a record may cost.
    loss: Callable[[float, float, float], float]
    most_cells: int = EXPLICIT_CELLS  # written out as one matrix

    def solve(self, problem: Problem) -> Candidate:
        """The plan that measures this strategy, scaled to the budget."""
        with one_thread(problem.design):
            if problem.factors is not None:
                return self._product(problem, problem.factors)
            gram, schema = problem.design.gram(), problem.workload.schema
            assert problem.strategy is not None  # as `takes` says
            rows = strategy_matrix(problem.strategy, schema, gram, problem.scaling.norm)
            return self.rows(problem, rows, gram)

    def _product(self, problem: Problem, factors: tuple[Factor, ...]) -> Candidate:
        """Of a product entries are integers already, and a record touches so many by one each."""
        schema = problem.workload.schema
        unit = _product_mechanism(schema, factors, problem.drawn)
        touched = Fraction(unit.changed(problem.neighbours))  # whole numbers, since entries are
        noise, privacy = self.within(problem, touched)
        mechanism = _product_mechanism(schema, factors, noise)
        figures = RowFigures(problem.design, mechanism)
        known = Unstated(problem.workload, privacy, exact=problem.integer)
        loss = self.loss(float(noise.variance[0]), float(touched), problem.price or 0.0)
        return Candidate(problem.name, mechanism, privacy, figures, known, loss)

    @property
    def planner(self) -> Planner:
        """What plans a strategy by its name."""
        return Planner((), self.solve, refuses, self.most_cells)

    @property
    def product(self) -> Planner:
        """The same of products, which are measured and solved by fast transforms, over any number
        of cells."""
        return Planner((), self.solve, refuses)


GAUSSIAN: Final = Scaled(_gaussian_rows, gaussian_within, lambda v, norm, cost: v * cost / norm - 1)
LAPLACE: Final = Scaled(
    _laplace_rows, laplace_within, lambda v, norm, ε: v / (2 * norm**2 / ε**2) - 1.0
)


def _product_mechanism(
    schema: Schema, factors: tuple[Factor, ...], noise: Noise
) -> DenseMechanism | ProductMechanism:
    """As one matrix where the domain is small, by transforms beyond."""
    numbers = prod(factor.shape[0] for factor in factors)
    if schema.size <= WRITTEN_OUT and numbers * schema.size <= WRITTEN_NUMBERS:
        rows = kronecker_dense([factor.dense() for factor in factors])
        return DenseMechanism(schema, rows, noise)
    return ProductMechanism(schema, factors, noise)


def _whole(strategy: Array) -> bool:
    """Whether all entries are 0 or of one size: then integers are no rounding."""
    size = np.abs(strategy)
    return bool(np.isin(size, (0.0, size.max())).all())


def _determining(strategy: Array) -> Array:
    """The same with a little of every cell, where rows do not determine all cells."""
    if np.linalg.matrix_rank(strategy, tol=1e-7) == strategy.shape[1]:
        return strategy
    return np.concatenate([strategy, EVERY_CELL * np.eye(strategy.shape[1])])


def remarks(problem: Problem, candidate: Candidate) -> Considered:
    """List the reservations about a strategy by name, over few cells.

    Under pure DP single cells mostly do better than rows that were made for L2 norms, singular
    vectors and eigenvectors above all (Li 2013, 3.4.2.2). Repeated eigenvalues have many bases.
    """
    if problem.size > WRITTEN_OUT:
        return ()
    found: list[tuple[str, str]] = []
    gram = problem.design.gram()
    if problem.drawn.law == "laplace":
        changed = 1 if problem.neighbours == "add-remove" else 2
        each = float(laplace_within(problem, Fraction(changed))[0].variance[0])
        times = candidate.figures.total_variance / (each * float(np.trace(gram)) or inf)
        if times > WORSE_THAN_CELLS:
            found.append(("identity", f"total variance about {times:.2g} times smaller"))
    if eigen_weights(problem.strategy) is not None:
        values = EigenQueries.of(gram).values
        if (np.diff(values) > -SAME_VALUE * values[:-1]).any():
            found.append(("repeated eigenvalues", "errors may depend on the order of the cells"))
    return tuple(found)


def eigen_planner(name: str, weigh: Weigh) -> Planner:
    """What plans a design by its name."""
    beyond = Planner((name,), partial(_solve_eigen, weigh=weigh), _refuses_eigen)
    return Planner((name,), GAUSSIAN.solve, refuses, EXPLICIT_CELLS, beyond)


def _refuses_eigen(problem: Problem) -> str | None:
    return _rank_too_high(problem) if problem.size > GRAM_VALUES else None


def _rank_too_high(problem: Problem) -> str | None:
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


def _solve_eigen(problem: Problem, weigh: Weigh) -> Candidate:
    if _rank_too_high(problem) is not None:
        return GAUSSIAN.solve(problem)
    search = row_space_plans.Search(problem)
    rows = np.asarray(search.basis.basis)[::-1]  # the largest first
    over = search.basis.columns.applied(rows)
    lengths = np.sqrt(np.einsum("ij,ij->i", over, over))
    queries = EigenQueries(over / lengths[:, None], lengths**2)
    u = weigh(queries)
    total = float((queries.values / u).sum() * (u @ queries.loads).max())
    return search.unproved(rows * (np.sqrt(u) / lengths)[:, None], total)
