"""Plans for levels of a long attribute: nodes of its tree, each with a precision of its own.

| objective | what is shared out |
| --- | --- |
| total variance, losses of one's own | a function of the sums of variances of each query |
| worst variance, targets, p-norms | a p-norm over rows and nodes, p rising |

What is found is certified: weights of rows and of records turn it into a weighted sum that no
mechanism can have less of (`optimize.tree_bound`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.tree_variances import TreeVariances
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.mechanisms.tree_block import TreeBlock
from noiseplan.noise import Noise
from noiseplan.noise.sizes import FINE_BITS, round_up
from noiseplan.optimize.integer_rounding import to_lattice
from noiseplan.optimize.tree_bound import TreeNorm
from noiseplan.optimize.tree_sharing import Goal, Sharing, record_weights
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.certificates import Stated
from noiseplan.planning.limits import GRAM_VALUES
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    RelativeError,
    WorstVariance,
)
from noiseplan.planning.problem import Problem
from noiseplan.planning.residual_mechanism import numbered
from noiseplan.planning.row_terms import all_rows, worst_rows
from noiseplan.planning.solve import group_inverses, role_bases, type_matrix
from noiseplan.planning.tree_problem import (
    TreeProblem,
    of_rows,
    of_sums,
    sums_of,
    tree_problem,
)
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import Guarantee, Law
from noiseplan.privacy.rounding import margin
from noiseplan.progress import progress

# Planners that take a tree where there is one.
NAMES: Final = ("auto", "residual")
# p of norms that come near the largest, one after the other.
POWERS: Final = (8.0, 32.0, 128.0, 512.0)
# What is hardly worth measuring keeps this share of the best precision.
FAINTEST: Final = 1e-7
# Integer rows have entries of so many bits.
BITS: Final = 10
# Beyond so many sizes of noise they keep few bits: every one that is drawn has its own table.
FEW_SIZES, SIZE_BITS = 500, 8
LEAST_STEPS, LEAST_GAP = 12, 1e-4
# The scale of all sizes is mended so many times at most, against rounding.
ROUNDS: Final = 6


def untried(problem: Problem) -> str | None:
    """What levels of a long attribute are not planned for, as trees."""
    if problem.neighbours == "replace":
        return "records are replaced"
    if problem.laplace:
        return "the budget is one of pure DP"
    return "relative errors are asked for" if isinstance(problem.goal, RelativeError) else None


def solve(problem: Problem) -> Candidate | None:
    """The plan, where one long attribute is asked by levels; None where that is not so."""
    tried = problem.planner in NAMES and untried(problem) is None and not problem.strategies
    found = tree_problem(problem) if tried else None
    return None if found is None else _TreePlan(found).candidate()


def too_long(problem: Problem) -> str | None:
    """Why no other planner can plan an attribute of so many values either."""
    roles = [r for r in range(len(problem.design.groups)) if problem.design.too_long(r)]
    return _refusal(problem, roles[0]) if roles else None


def _refusal(problem: Problem, role: int) -> str:
    reason = untried(problem)
    schema, members = problem.workload.schema, problem.design.roles.roles[role].members
    name = schema.names[int(members[0])]
    why = (
        f"when {reason}"
        if reason
        else f"by planner={problem.name!r}"
        if problem.planner not in NAMES
        else "by these queries"
    )
    return (
        f"{name!r} has {schema[name].size:,} values, and an attribute of more than "
        f"{GRAM_VALUES:,} is planned by its values alone, or by levels that lie within each other "
        f"(Levels), for total variance, worst variance, norms, losses or targets under zCDP or "
        f"(ε, δ), with records added or removed; not {why}. Merge values (Binned, or a coarser "
        f"code), or ask for levels"
    )


@dataclass(frozen=True, eq=False)
class _Bases:
    """Bases of the other attributes, and what they make of every query and set."""

    whole: TreeProblem
    of_role: dict[int, Basis]

    @cached_property
    def sums(self) -> list[Array]:
        """Σ of row variances at a node, queries × sets, of each level."""
        return self.whole.asked(type_matrix(self.whole.design, self.of_role))

    @cached_property
    def price(self) -> Array:
        """p of each set."""
        betas = {r: basis.sensitivity for r, basis in self.of_role.items()}
        plain = {r for r, role in enumerate(self.whole.design.roles.roles) if role.plain}
        free = {r: beta for r, beta in betas.items() if r not in plain}
        return self.whole.design.privacy_weights(self.whole.design.sensitivities(free))

    def rows(self, power: float) -> tuple[list[Array], list[Array], list[IntArray]]:
        """Rows that count for a norm, over the sets, of each level; how often each occurs, and of
        which query it is."""
        whole, inverses = self.whole, group_inverses(self.whole.design, self.of_role)
        if power == np.inf:
            each, owner = worst_rows(whole.design, inverses)
            often = np.ones(len(owner))
        else:
            each, owner, often = all_rows(whole.design, inverses)
        kind = whole.type_of_query
        rows, counts, queries = [], [], []
        for level in range(whole.tree.depth + 1):
            asking = np.flatnonzero(whole.often[:, level])
            mine = [np.flatnonzero(owner == kind[query]) for query in asking]
            chosen = np.concatenate([np.zeros(0, dtype=np.int64), *mine])
            query = np.repeat(asking, [len(m) for m in mine])
            rows.append(whole.weights[query, None] * each[chosen].toarray())
            counts.append(often[chosen] * whole.often[query, level])
            queries.append(query)
        return rows, counts, queries


class _TreePlan:
    """One problem on its way to a plan."""

    def __init__(self, whole: TreeProblem) -> None:
        self.whole, self.problem, design = whole, whole.problem, whole.design
        rows = whole.rows
        if self.problem.integer:
            rows = {r: to_lattice(u, 2.0**BITS) for r, u in rows.items()}
        self.bases = _Bases(whole, role_bases(design, rows))
        self.measured = numbered(role_bases(design, rows, self.problem.integer))
        asked = np.array([level.max(axis=0) for level in self.bases.sums]) > 0
        self.sets = np.flatnonzero(asked.any(axis=0))
        last = np.array([np.flatnonzero(asked[:, a])[-1] for a in self.sets])
        self.asked = [level[:, self.sets] for level in self.bases.sums]
        self.sharing = Sharing(whole.alike, self.bases.price[self.sets], last)

    @cached_property
    def precisions(self) -> list[list[Array]]:
        """ω of every set and level for records that cost one."""
        start = self._start()
        with progress("Planning the tree", len(self._powers)) as advance:
            for power in self._powers:
                start = self.sharing.best(self._goal(power), start)
                advance(1)
        faintest = [FAINTEST * max(float(w.max()) for w in omega) for omega in start]
        return [
            [np.maximum(w, least) for w in omega]
            for omega, least in zip(start, faintest, strict=True)
        ]

    def _start(self) -> list[list[Array]]:
        """Levels that would be measured alone share so."""
        sizes, weights = self.whole.tree.sizes, self.whole.weights
        worth = [np.sqrt(n * (weights @ a)) for n, a in zip(sizes, self.asked, strict=True)]
        return [
            [
                np.full(len(self.whole.alike.copies[level]), each[b] / np.sqrt(price))
                for level, each in enumerate(worth[: depth + 1])
            ]
            for b, (price, depth) in enumerate(
                zip(self.sharing.price, self.sharing.depth, strict=True)
            )
        ]

    # ------------------------------------------------------------------ what is to be small

    @property
    def _powers(self) -> tuple[float, ...]:
        goal = self.problem.goal
        if isinstance(goal, WorstVariance):
            return 1.0, *POWERS
        if isinstance(goal, PNormVariance) and goal.p > 1:
            return 1.0, goal.p
        return (1.0,)

    def _goal(self, power: float) -> Goal:
        if power == 1:
            return of_sums(self.asked, self.whole.alike, self._loss)
        rows, often, _ = self._rows
        return of_rows(rows, often, self.whole.alike, power)

    @cached_property
    def _rows(self) -> tuple[list[Array], list[Array], list[IntArray]]:
        worst = isinstance(self.problem.goal, WorstVariance)
        rows, often, query = self.bases.rows(np.inf if worst else 2.0)
        return [r[:, self.sets] for r in rows], often, query

    def _loss(self, sums: Array) -> tuple[float, Array]:
        goal, weights = self.problem.goal, self.whole.weights
        if isinstance(goal, ConvexLoss):
            share = weights / self.problem.workload.sizes
            return goal.value(share * sums), share * goal.slope(share * sums)
        return float(weights @ sums), weights

    # ------------------------------------------------------------------ the mechanism

    def candidate(self) -> Candidate:
        """The plan that spends the budget, or meets the targets for the least."""
        cost = self.problem.allowed
        if cost is None:
            return self._least()
        return self._at(cost)

    def _at(self, cost: float) -> Candidate:
        problem, mechanism = self.problem, self._mechanism(cost)
        law: Law = "zcdp" if problem.integer else "gaussian"
        privacy = Guarantee(mechanism.record_cost("add-remove"), law, problem.neighbours)
        figures = RowFigures(problem.design, mechanism)
        made = Candidate(problem.name, mechanism, privacy, figures, Stated(0.0))
        taken = (("tree of levels", "taken"),)
        return replace(made, optimality=TreeOptimality(self, made), considered=taken)

    def _least(self) -> Candidate:
        """The least cost that is found to meet the targets: variances fall about as one over it."""
        targets, cost, best = 1.0 / self.whole.weights, 1.0, None
        for _ in range(LEAST_STEPS):
            found = self._at(cost)
            scale = found.figures.target_scale(targets)
            if scale <= 1 and (best is None or found.privacy.pcost < best.privacy.pcost):
                best = found
            if 1 - LEAST_GAP <= scale <= 1:
                break
            cost *= scale * (1 + LEAST_GAP / 4)
        if best is None:
            raise PlanError("no plan was found that meets the targets: this is a bug")
        return best

    def _mechanism(self, cost: float) -> TreeMechanism:
        """What is measured for this cost; sizes of exact noise are rounded, and the rest is used.

        Rounding up leaves some of the budget. All sizes times one number, so that the dearest
        record costs the budget, are as many different sizes as before.
        """
        whole, exact = self.whole, self.problem.integer
        sizes = [
            [unit / cost / each for each in whole.alike.spread(omega)]
            for unit, omega in zip(self._units, self.precisions, strict=True)
        ]
        if exact:
            sizes = [[round_up(size, self._bits) for size in levels] for levels in sizes]
        found, scale = self._of_sizes(sizes), 1.0
        for _ in range(ROUNDS):
            scale *= found.record_cost("add-remove") / cost * (1 + margin(1))
            found = self._of_sizes([[scale * size for size in levels] for levels in sizes])
            if found.record_cost("add-remove") <= cost:
                return found
        raise PlanError("no noise was found that keeps the budget: this is a bug")

    def _of_sizes(self, sizes: list[list[Array]]) -> TreeMechanism:
        problem, whole, exact = self.problem, self.whole, self.problem.integer
        blocks = tuple(
            TreeBlock(
                whole.tree, self._others(b), tuple(Noise("gaussian", s, exact) for s in levels)
            )
            for b, levels in enumerate(sizes)
        )
        bases, basis_of = self.measured
        of_attribute = basis_of[whole.design.roles.of_attribute]
        schema = problem.workload.schema
        return TreeMechanism(schema, whole.place, bases, of_attribute, blocks, exact)

    @property
    def _bits(self) -> int:
        kinds = sum(len(w) for omega in self.precisions for w in omega)
        return FINE_BITS if kinds <= FEW_SIZES else SIZE_BITS

    @cached_property
    def _units(self) -> Array:
        """nI − 11ᵀ, which integers are measured by, is n times an orthogonal basis."""
        design = self.whole.design
        sizes = [r.size if r.plain and self.problem.integer else 1 for r in design.roles.roles]
        units = np.exp(design.terms.privacy_powers @ (2 * np.log(sizes)))
        return np.asarray(units[self.sets])

    def _others(self, b: int) -> tuple[int, ...]:
        """The attributes of a set."""
        subset = self.whole.design.terms.subset_roles[self.sets[b]]
        roles = self.whole.design.roles.roles
        return tuple(sorted(int(roles[r].members[0]) for r in subset if r >= 0))

    # ------------------------------------------------------------------ how good it is

    def bound(self, weights: list[Array]) -> float:
        """The least Σ weight · variance for records that cost one; weights: queries × kinds."""
        alike, sharing = self.whole.alike, self.sharing
        slopes = [
            [alike.copies[at] * (self.asked[at][:, b] @ weights[at]) for at in range(depth + 1)]
            for b, depth in enumerate(sharing.depth)
        ]
        pairs = zip(self.variances, slopes, strict=True)
        gradient = [tree.gradient(slope) for tree, slope in pairs]
        found = record_weights(sharing.price, gradient, sharing.depth)
        norm = TreeNorm(alike, found / found.sum() / alike.copies[-1])
        return max(self._norm(norm, seen, weights) for seen in self._seen) ** 2 * (1 - 1e-9)

    def _norm(self, norm: TreeNorm, seen: list[Array], weights: list[Array]) -> float:
        total = 0.0
        for a in range(self.whole.design.terms.subsets):
            each = [level[:, a] @ w for level, w in zip(seen, weights, strict=True)]
            while each and not each[-1].any():
                each.pop()
            total += norm.root_trace(each) if each else 0.0
        return total

    @cached_property
    def _seen(self) -> list[list[Array]]:
        """What sets count for every query at least, by level; for each way to look at them."""
        return [self.whole.asked(each) for each in self.whole.least()]

    @cached_property
    def variances(self) -> list[TreeVariances]:
        """Of every set, at cost one."""
        return [TreeVariances.of(self.whole.alike.shape, omega) for omega in self.precisions]

    def even(self, each: Array) -> list[Array]:
        """One weight for every query, at every node it asks for."""
        return [np.outer(each, np.ones(len(c))) for c in self.whole.alike.copies]

    def tilted(self, power: float, dual: float) -> tuple[list[Array], float]:
        """Weights on queries' nodes whose sum bounds a p-norm, and ‖y‖ in the dual norm.

        ‖v‖_p ≥ Σ y v/‖y‖_q for any y; here that of a query's rows at a node is the mean of v^{p−1}.
        """
        whole, copies = self.whole, self.whole.alike.copies
        sizes = whole.design.type_rows[whole.type_of_query]
        each = []
        for level, (rows, often, query) in enumerate(zip(*self._rows, strict=True)):
            zero = np.zeros_like(copies[level])
            here = [t.final[level] if level < len(t.final) else zero for t in self.variances]
            of_rows = often[:, None] * (rows @ np.array(here) / self._largest) ** (power - 1)
            found = np.zeros((len(sizes), len(zero)))
            np.add.at(found, query, of_rows)
            each.append(found / sizes[:, None])
        counts = [np.outer(sizes, copies[at]) for at in range(len(each))]
        size = sum(float((n * y**dual).sum()) for n, y in zip(counts, each, strict=True))
        shared = np.maximum(whole.often, 1)  # asked for twice, its sum is counted twice
        weights = [(whole.weights / shared[:, at])[:, None] * y for at, y in enumerate(each)]
        return weights, size ** (1 / dual)

    @cached_property
    def _largest(self) -> float:
        """The largest variance of a row, weighted."""
        goal = of_rows(*self._rows[:2], self.whole.alike, 4096.0)
        return goal([tree.final for tree in self.variances])[0]

    def objective_bound(self, cost: float) -> float:
        """The least that the objective can be at this cost; for targets, their scale."""
        goal = self.problem.goal
        if isinstance(goal, WorstVariance):
            tilted = (self.tilted(power, 1.0) for power in POWERS)
            return max(self.bound(weights) / size for weights, size in tilted) / cost
        if isinstance(goal, PNormVariance) and goal.p > 1:
            weights, size = self.tilted(goal.p, goal.p / (goal.p - 1))
            return self.bound(weights) / size / cost
        if isinstance(goal, ConvexLoss):  # f(v') ≥ f(v) + ∇f(v)ᵀ(v' − v)
            at = [[each / cost for each in tree.final] for tree in self.variances]
            sums = sums_of(self.asked, self.whole.alike, at)
            value, slope = self._loss(sums)
            return value - float(slope @ sums) + self.bound(self.even(slope)) / cost
        return self.bound(self.even(self.whole.weights)) / cost


class TreeOptimality:
    """What is known of a tree plan, worked out when it is asked for (`certificates.Optimality`)."""

    proved: bool | None = None

    def __init__(self, plan: _TreePlan, made: Candidate) -> None:
        self._plan, self._made = plan, made

    @cached_property
    def lower_bound(self) -> float:
        """Of the total variance."""
        own = self._plan.problem.workload.columns.weights
        return self._plan.bound(self._plan.even(own)) / self._made.privacy.pcost

    @property
    def known(self) -> float:
        """At once, so that saved plans have it: nothing else knows the tree."""
        return self.lower_bound

    @cached_property
    def gap(self) -> float | None:
        """How far the objective may be above the best."""
        plan, cost = self._plan, self._made.privacy.pcost
        targeted = plan.problem.priorities is not None
        value = reached(plan.problem, self._made) / (cost if targeted else 1.0)
        bound = plan.objective_bound(cost)
        # Discrete noise of less than one count falls below bounds for continuous noise.
        return max(1.0 - bound / value, 0.0) if bound > 0 else None
