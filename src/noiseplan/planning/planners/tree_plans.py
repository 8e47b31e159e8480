"""Plans for levels of a long attribute: nodes of its tree, each with a precision of its own.

| objective | what is shared out |
| --- | --- |
| total variance, losses of one's own | a function of the sums of variances of each query |
| worst variance, targets, p-norms | a p-norm over rows and nodes, p rising |

What is found is certified: weights of rows and of records turn it into a weighted sum that no
mechanism can have less of (`optimize.tree_bound`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.tree import TreeVariances
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.mechanisms.tree_block import TreeBlock
from noiseplan.noise import Noise
from noiseplan.optimize.tree_bound import TreeNorm
from noiseplan.optimize.tree_sharing import Goal, Sharing, record_weights
from noiseplan.planning.candidate import NOT_BETTER, TAKEN, WORSE, Candidate, reached
from noiseplan.planning.limits import WORTH_IT
from noiseplan.planning.long_problem import (
    TreeProblem,
    of_rows,
    of_sums,
    sums_of,
    tree_problem,
)
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    WorstVariance,
)
from noiseplan.planning.planners import level_plans
from noiseplan.planning.planners.long_plans import POWERS, LongPlan, size_bits, tried
from noiseplan.planning.problem import Problem
from noiseplan.planning.threads import LARGE, one_thread_below
from noiseplan.progress import progress

# What is hardly worth measuring keeps this share of the best precision.
FAINTEST: Final = 1e-7


def solve(problem: Problem) -> Candidate | None:
    """The plan, where one long attribute is asked by levels; None where that is not so."""
    found = tree_problem(problem) if tried(problem) else None
    if found is None:
        return None
    with one_thread_below(LARGE, found.width):
        best = _TreePlan(found).candidate()
    return best if problem.planner != "auto" else _or_levels(problem, found, best)


def _or_levels(problem: Problem, whole: TreeProblem, tree: Candidate) -> Candidate:
    """One tree for all sets, or rows of its own for each level where that is clearly better."""
    found, name = level_plans.solve(whole), level_plans.LevelPlan.taken
    if isinstance(found, Candidate):
        if reached(problem, found) < WORTH_IT * reached(problem, tree):
            return replace(found, considered=((name, TAKEN), (_TreePlan.taken, WORSE)))
        found = NOT_BETTER
    return replace(tree, considered=((_TreePlan.taken, TAKEN), (name, found)))


class _TreePlan(LongPlan):
    """One problem on its way to a plan."""

    taken = "tree of levels"
    whole: TreeProblem

    def __init__(self, whole: TreeProblem) -> None:
        super().__init__(whole)
        last = np.array([np.flatnonzero(self.needed[:, a])[-1] for a in self.sets])
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

    def of_scale(self, scale: float) -> TreeMechanism:
        problem, whole, exact = self.problem, self.whole, self.problem.integer
        blocks = tuple(
            TreeBlock(
                whole.tree,
                self.others(b),
                tuple(Noise("gaussian", scale * size, exact) for size in levels),
            )
            for b, levels in enumerate(self._sizes)
        )
        schema = problem.workload.schema
        return TreeMechanism(schema, whole.place, *self.parts(), blocks, exact)

    @cached_property
    def _sizes(self) -> list[list[Array]]:
        """σ² of every set and level for records that cost one; few different ones, if exact.

        All of them times one number are as many different sizes, so that none of the budget is
        left by rounding.
        """
        sizes = [
            [unit / each for each in self.whole.alike.spread(omega)]
            for unit, omega in zip(self.units, self.precisions, strict=True)
        ]
        bits = size_bits(sum(len(w) for omega in self.precisions for w in omega))
        above = partial(self.problem.drawn.above, bits=bits)
        return [[above(size).size for size in levels] for levels in sizes]

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

    def total_bound(self, weights: Array) -> float:
        return self.bound(self.even(weights))

    def even(self, each: Array) -> list[Array]:
        """One weight for every query, at every node it asks for."""
        return [each[:, None] * asked for asked in self.whole.asked_kinds]

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
            each.append(whole.asked_kinds[level] * found / sizes[:, None])
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
