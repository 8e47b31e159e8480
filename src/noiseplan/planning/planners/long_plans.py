"""Plans along one long attribute: bases of the others, noise of every set, what is certified."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.long_attribute import AlongAttribute
from noiseplan.noise.moments import FINE_BITS
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.certificates import Stated
from noiseplan.planning.long_problem import LongProblem
from noiseplan.planning.objectives import RelativeError
from noiseplan.planning.problem import Problem
from noiseplan.planning.residual_mechanism import numbered
from noiseplan.planning.row_terms import all_rows, worst_rows
from noiseplan.planning.solve import group_inverses, role_bases, type_matrix
from noiseplan.planning.threads import LARGE, one_thread_below
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import Guarantee
from noiseplan.privacy.rounding import margin

# Planners that plan along a long attribute where there is one.
NAMES: Final = ("auto", "residual")
# p of norms that come near the largest, one after the other.
POWERS: Final = (8.0, 32.0, 128.0, 512.0)
# Integer rows of the other attributes have entries of so many bits.
BITS: Final = 10
LEAST_STEPS, LEAST_GAP = 12, 1e-4
# Sizes are rounded so many times, each time with what the last left of the budget.
ROUNDS: Final = 6
# No more than this share of the budget is left, where that can be reached.
SPENT: Final = 1e-9
# Beyond so many sizes of noise they keep few bits: every one that is drawn has its own table.
FEW_SIZES, SIZE_BITS = 500, 8


def size_bits(sizes: int) -> int:
    """The bits that so many sizes of noise are rounded to."""
    return FINE_BITS if sizes <= FEW_SIZES else SIZE_BITS


def untried(problem: Problem) -> str | None:
    """What a long attribute is not planned for."""
    if problem.neighbours == "replace":
        return "records are replaced"
    relative = isinstance(problem.goal, RelativeError)
    return problem.scaling.not_long or ("relative errors are asked for" if relative else None)


def tried(problem: Problem) -> bool:
    """Whether a long attribute is planned for what is asked."""
    return problem.planner in NAMES and untried(problem) is None and not problem.strategies


def least_meeting(targets: Array, found: Candidate, at: Callable[[float], Candidate]) -> Candidate:
    """The least cost that is found to meet targets, from what is planned `at` some cost: variances
    fall about as one over it."""
    best = None
    for _ in range(LEAST_STEPS):
        scale = found.figures.target_scale(targets)
        if scale <= 1 and (best is None or found.privacy.pcost < best.privacy.pcost):
            best = found
        if 1 - LEAST_GAP <= scale <= 1:
            break
        found = at(found.privacy.pcost * scale * (1 + LEAST_GAP / 4))
    if best is None:
        raise PlanError("no plan was found that meets the targets: this is a bug")
    return best


@dataclass(frozen=True, eq=False)
class Bases:
    """Bases of the other attributes, and what they make of every query and set."""

    whole: LongProblem
    of_role: dict[int, Basis]

    @cached_property
    def sums(self) -> list[Array]:
        """Σ of row variances for one row along, queries × sets, of each kind."""
        return self.whole.asked(type_matrix(self.whole.design, self.of_role))

    @cached_property
    def price(self) -> Array:
        """p of each set."""
        betas = {r: basis.sensitivity for r, basis in self.of_role.items()}
        plain = {r for r, role in enumerate(self.whole.design.roles.roles) if role.plain}
        free = {r: beta for r, beta in betas.items() if r not in plain}
        return self.whole.design.privacy_weights(self.whole.design.sensitivities(free))

    def rows(self, power: float) -> tuple[list[Array], list[Array], list[IntArray]]:
        """Rows that count for a norm, over the sets, of each kind; how often each occurs, and of
        which query it is."""
        whole, inverses = self.whole, group_inverses(self.whole.design, self.of_role)
        if power == np.inf:
            each, owner = worst_rows(whole.design, inverses)
            often = np.ones(len(owner))
        else:
            each, owner, often = all_rows(whole.design, inverses)
        type_of = whole.type_of_query
        rows, counts, queries = [], [], []
        for kind in range(len(whole.sizes)):
            asking = np.flatnonzero(whole.often[:, kind])
            mine = [np.flatnonzero(owner == type_of[query]) for query in asking]
            chosen = np.concatenate([np.zeros(0, dtype=np.int64), *mine])
            query = np.repeat(asking, [len(m) for m in mine])
            rows.append(whole.weights[query, None] * each[chosen].toarray())
            counts.append(often[chosen] * whole.often[query, kind])
            queries.append(query)
        return rows, counts, queries


class AlongPlan(ABC):
    """One problem on its way to a plan along a long attribute, whatever is measured."""

    taken: ClassVar[str]
    whole: LongProblem

    def __init__(self, whole: LongProblem) -> None:
        self.whole, self.problem = whole, whole.problem

    @property
    def width(self) -> int:
        """Of the matrices that are multiplied: small ones take one thread (`threads`)."""
        return self.whole.width

    # ------------------------------------------------------------------ the mechanism

    def candidate(self) -> Candidate:
        """The plan that spends the budget, or meets the targets for the least."""
        cost = self.problem.allowed
        if cost is None:
            return least_meeting(1.0 / self.whole.weights, self._at(1.0), self._at)
        return self._at(cost)

    def _at(self, cost: float) -> Candidate:
        problem, mechanism = self.problem, self._mechanism(cost)
        spent, law = mechanism.record_cost("add-remove"), problem.drawn.accounting
        privacy = Guarantee(spent, law, problem.neighbours)
        figures = RowFigures(problem.design, mechanism)
        made = Candidate(problem.name, mechanism, privacy, figures, Stated(0.0))
        taken = ((self.taken, "taken"),)
        return replace(made, optimality=LongOptimality(self, made), considered=taken)

    def _mechanism(self, cost: float) -> AlongAttribute:
        """What is measured for this cost; sizes of exact noise are rounded, and the rest is used.

        Rounding up leaves some of the budget: smaller noise, rounded again, comes nearer to it.
        """
        scale, best = 1.0 / cost, None
        for _ in range(ROUNDS):
            found = self.of_scale(scale)
            spent = found.record_cost("add-remove")
            if spent <= cost:
                best = found
            if (1 - SPENT) * cost <= spent <= cost:
                break
            scale *= spent / cost * (1 + margin(1))
        if best is None:
            raise PlanError("no noise was found that keeps the budget: this is a bug")
        return best

    @abstractmethod
    def of_scale(self, scale: float) -> AlongAttribute:
        """What is measured, with so many times the noise of records that cost one."""

    # ------------------------------------------------------------------ how good it is

    @abstractmethod
    def total_bound(self, weights: Array) -> float:
        """The least Σ weight · variance for records that cost one; a weight for every query."""

    @abstractmethod
    def objective_bound(self, cost: float) -> float:
        """The least that the objective can be at this cost; for targets, their scale."""


class LongPlan(AlongPlan):
    """Bases of the others and sets of them, each measured along the attribute."""

    def __init__(self, whole: LongProblem) -> None:
        super().__init__(whole)
        design, numbers = whole.design, self.problem.numbers
        rows = {r: numbers.lattice(u, 2.0**BITS) for r, u in whole.rows.items()}
        self.bases = Bases(whole, role_bases(design, rows))
        self.measured = numbered(role_bases(design, rows, numbers.basis))
        # Kinds of rows × sets: whether any query asks for it.
        self.needed = np.array([kind.max(axis=0) for kind in self.bases.sums]) > 0
        self.sets = np.flatnonzero(self.needed.any(axis=0))
        self.asked = [kind[:, self.sets] for kind in self.bases.sums]

    def parts(self) -> tuple[tuple[Basis, ...], IntArray]:
        """Bases, and which each attribute has."""
        bases, basis_of = self.measured
        return bases, basis_of[self.whole.design.roles.of_attribute]

    @cached_property
    def units(self) -> Array:
        """nI − 11ᵀ, which integers are measured by, is n times an orthogonal basis."""
        design, unit = self.whole.design, self.problem.numbers.unit
        sizes = [unit(role.size) if role.plain else 1 for role in design.roles.roles]
        units = np.exp(design.terms.privacy_powers @ (2 * np.log(sizes)))
        return np.asarray(units[self.sets])

    def others(self, b: int) -> tuple[int, ...]:
        """The attributes of a set."""
        subset = self.whole.design.terms.subset_roles[self.sets[b]]
        roles = self.whole.design.roles.roles
        return tuple(sorted(int(roles[r].members[0]) for r in subset if r >= 0))


class LongOptimality:
    """What is known of such a plan, when it is asked for (`certificates.Optimality`)."""

    proved: bool | None = None

    def __init__(self, plan: AlongPlan, made: Candidate) -> None:
        self._plan, self._made = plan, made

    @cached_property
    def lower_bound(self) -> float:
        """Of the total variance."""
        own = self._plan.problem.workload.columns.weights
        with one_thread_below(LARGE, self._plan.width):
            return self._plan.total_bound(own) / self._made.privacy.pcost

    @property
    def known(self) -> float:
        """At once, so that saved plans have it: nothing else knows what is along."""
        return self.lower_bound

    @cached_property
    def gap(self) -> float | None:
        """How far the objective may be above the best."""
        plan, cost = self._plan, self._made.privacy.pcost
        targeted = plan.problem.priorities is not None
        value = reached(plan.problem, self._made) / (cost if targeted else 1.0)
        if targeted and plan.problem.allowed is None:  # met a hair better than asked
            value = max(value, 1.0)
        with one_thread_below(LARGE, plan.width):
            bound = plan.objective_bound(cost)
        if bound <= 0:
            return None
        # Discrete noise of less than one count falls below bounds for continuous noise, and its
        # powers below the smallest numbers there are.
        return 1.0 - bound / value if value > bound else 0.0
