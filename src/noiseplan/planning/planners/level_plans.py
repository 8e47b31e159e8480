"""Plans for levels of a long attribute that ask different things of the others.

Counties by single ages, tracts by bands, blocks by sex: every level of the tree has rows of its own
over the cells of the other attributes (`mechanisms.measured_levels`). They are found for weighted
sums of variances (`planning.level_search`); where single variances count, or a loss of one's own,
the weights are moved: rows of larger variance get more.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Progress
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, Level, LevelsMechanism
from noiseplan.noise import Noise
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.level_problem import MOST_PIECES, LevelProblem
from noiseplan.planning.level_search import Design, Weighting
from noiseplan.planning.long_problem import TreeProblem
from noiseplan.planning.measured_numbers import Numbers
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, WorstVariance
from noiseplan.planning.planners.long_plans import POWERS, AlongPlan, size_bits
from noiseplan.planning.problem import Problem
from noiseplan.planning.threads import LARGE, one_thread_below
from noiseplan.progress import progress

# Cells of the other attributes that rows are written down over, and counts by value and cell.
MOST_CELLS, MOST_COUNTS = 4096, 1 << 27
# Queries that are looked at one by one, and numbers of all Gram matrices over the others.
MOST_QUERIES, MOST_NUMBERS = 1000, 1 << 26
# Seconds that are waited; a total takes so many for each level, piece and cube of classes, and a
# search for single variances so many times as long.
PATIENCE, SECONDS, FOR_SINGLE = 20.0, 8e-9, 8.0
# Rows at a node whose single variances are looked at.
MOST_ROWS: Final = 4096
# Parts of children, as whole numbers, of so many bits where sums leave room.
PART_BITS: Final = 12
# Steps of the weights at each power of a norm, and the least of them beside the largest.
STEPS: Final = 10
LEAST_WEIGHT: Final = 1e-12


def fits(problem: Problem) -> bool:
    """Whether any attribute leaves few enough cells of the others: found without a look at one."""
    roles = problem.design.roles.of_attribute
    sizes = [n for n, role in zip(problem.workload.schema.shape, roles, strict=True) if role >= 0]
    few = len(problem.workload) <= MOST_QUERIES
    return few and prod(sizes) <= MOST_CELLS * max(sizes, default=1)


def solve(whole: TreeProblem) -> Candidate | str:
    """The plan, or why there is none."""
    plan = LevelPlan(whole)
    if plan.untried is not None:
        return plan.untried
    try:
        with one_thread_below(LARGE, plan.width):
            made = plan.candidate()
        made.figures.require_answers(made.mechanism)
    except UnanswerableError:  # what is hardly worth measuring was lost by rounding
        return "not tried for weights so far apart"
    return made


class LevelPlan(AlongPlan):
    """One problem on its way to a plan."""

    taken = "levels with rows of their own"
    whole: TreeProblem

    def __init__(self, whole: TreeProblem) -> None:
        super().__init__(whole)
        self.level_problem = LevelProblem(whole)

    @property
    def width(self) -> int:
        return self.level_problem.classes.size

    @cached_property
    def untried(self) -> str | None:
        """Why levels are not given rows of their own."""
        asked, parents = self.level_problem, self.whole.tree.parents
        levels = {level for own in self.whole.levels for level in own.tolist()}
        if len(levels) < 2 or len(asked.questions) < 2:
            return "not tried where all levels ask the same"
        if asked.cells > MOST_CELLS or len(asked.pieces) > MOST_PIECES:
            return f"not tried, {asked.cells:,} cells of the other attributes"
        numbers = len(asked.questions) * asked.rest_cells**2
        if len(self.whole.levels) > MOST_QUERIES or numbers > MOST_NUMBERS:
            return f"not tried, {len(self.whole.levels):,} queries"
        counts = asked.cells * self.problem.workload.schema.shape[self.whole.place]
        if counts > MOST_COUNTS:
            return f"not tried, {counts:,} counts"
        # Parts of children that are not alike take half of the sum, and each of them at least one.
        if max(int(np.bincount(p).max()) for p in parents) > LARGEST_SUM // 2:
            return "not tried for so many values in one group"
        single = self._power > 1 or isinstance(self.problem.goal, ConvexLoss)
        parts = len(asked.pieces) * len(self.whole.tree.sizes)
        seconds = SECONDS * parts * asked.classes.size**3 * (FOR_SINGLE if single else 1.0)
        if seconds > PATIENCE:
            return f"not tried, about {seconds:,.0f} seconds"
        rows = max(query.rows for query in asked.questions)
        many = self._power > 1 and rows > MOST_ROWS
        return f"not tried, {rows:,} rows at a node" if many else None

    # ------------------------------------------------------------------ weights

    @cached_property
    def _power(self) -> float:
        goal = self.problem.goal
        if isinstance(goal, WorstVariance):
            return np.inf
        return goal.p if isinstance(goal, PNormVariance) else 1.0

    def nodes(self, weights: Array) -> list[Array]:
        """Of all that is asked, the weight of every kind of node with all its like."""
        kinds, copies = self.whole.asked_kinds, self.whole.alike.copies
        return [
            weights[each.query] * each.often * kinds[each.level][each.query] * copies[each.level]
            for each in self.level_problem.asked
        ]

    @cached_property
    def counted(self) -> list[Array]:
        """Of all that is asked, how often it is asked of every kind of node with all its like."""
        kinds, copies = self.whole.asked_kinds, self.whole.alike.copies
        return [
            each.often * (kinds[each.level][each.query] > 0) * copies[each.level]
            for each in self.level_problem.asked
        ]

    def even(self, weights: Array) -> Weighting:
        """One weight for each query, at all nodes it asks for."""
        asked = self.level_problem
        grams = [asked.grams[each.over] for each in asked.asked]
        return Weighting(asked, self.nodes(weights), grams)

    def tilted(self, weights: list[Array]) -> Weighting:
        """Weights of rows × kinds of nodes, as a product of both: exact where nodes are alike."""
        asked, nodes, grams = self.level_problem, [], []
        bases = self.nodes(self.whole.weights)
        for each, base, weight in zip(asked.asked, bases, weights, strict=True):
            rows = asked.rows[each.over]
            # Every row stands for all values of attributes asked by value.
            grams.append((rows.T * _of_rows(weight, base) * len(rows)) @ rows)
            nodes.append(weight.mean(axis=0) * base)
        return Weighting(asked, nodes, grams)

    # ------------------------------------------------------------------ the search

    @property
    def design(self) -> Design:
        """The best that is found for what is to be small."""
        return self._searched[0]

    @cached_property
    def _searched(self) -> tuple[Design, list[Array] | None]:
        """The same, and the last weights of rows and kinds of nodes, where these were moved."""
        goal, tilt = self.problem.goal, None
        loss = goal if isinstance(goal, ConvexLoss) else None
        steps = STEPS * len(POWERS) if loss is not None or self._power > 1 else 0
        with progress("Planning the levels", 1 + steps) as advance:
            best = self.even(self.whole.weights).best()
            advance(1)
            if loss is not None:
                best = self._for_loss(loss, best, advance)
            elif steps:
                best, tilt = self._for_norm(best, advance)
        return best, tilt

    def _for_loss(self, goal: ConvexLoss, best: Design, advance: Progress) -> Design:
        """The slope of the loss is a weight for each query: moved until it settles."""
        share = self.whole.weights / self.problem.workload.sizes
        cost = self.problem.allowed or 1.0
        weights, value = self.whole.weights, goal.value(share * self.sums(best) / cost)
        design = best
        for _ in range(STEPS * len(POWERS)):
            slope = share * goal.slope(share * self.sums(design) / cost)
            weights = np.sqrt(weights * np.maximum(slope, 0.0))
            weights = np.maximum(weights, LEAST_WEIGHT * weights.max())
            design = self.even(weights).best(design.x, rounds=2)
            reached = goal.value(share * self.sums(design) / cost)
            if reached < value:
                best, value = design, reached
            advance(1)
        return best

    def _for_norm(self, best: Design, advance: Progress) -> tuple[Design, list[Array]]:
        """Rows of larger variance get more weight: μ ← μ (v^{p−1}/μ)^{1/p}."""
        design, least = best, self.norm(best)
        weights = [np.ones_like(v) for v in self.single(best)]
        own = [float(self.whole.weights[each.query]) for each in self.level_problem.asked]
        powers = POWERS if self._power == np.inf else (self._power,) * len(POWERS)
        for power in np.repeat(powers, STEPS):
            single = self.single(design)
            largest = max(float(v.max()) for v in single)
            weights = [
                w ** (1 - 1 / power) * (v / largest) ** ((power - 1) / power)
                for w, v in zip(weights, single, strict=True)
            ]
            # Of the product with the query's own weight: what has less of it is lost by rounding,
            # and would seem to have no variance.
            most = max(float(w.max()) * each for w, each in zip(weights, own, strict=True))
            weights = [
                np.maximum(w / most, LEAST_WEIGHT / each)
                for w, each in zip(weights, own, strict=True)
            ]
            design = self.tilted(weights).best(design.x, rounds=2)
            reached = self.norm(design)
            if reached < least:
                best, least = design, reached
            advance(1)
        return best, weights

    def single(self, design: Design) -> list[Array]:
        """The weighted variance of rows × kinds of nodes, of all that is asked: one row for all
        values of attributes asked by value."""
        asked, kinds = self.level_problem, self.whole.asked_kinds
        squares = [
            [
                sum(
                    scale * np.einsum("rx,rx->r", rows @ spread, rows)
                    for scale, spread in zip(scales, level, strict=True)
                    if scale
                )
                for rows, scales in zip(asked.rows, asked.row_scales, strict=True)
            ]
            for level in design.spreads
        ]
        found = []
        for each in asked.asked:
            along = np.array(design.components.variances[each.level])
            rows = np.array([squares[c][each.over] for c in range(each.level + 1)]).T
            weight = self.whole.weights[each.query] * kinds[each.level][each.query]
            found.append(design.cost * weight * (rows @ along))
        return found

    def norm(self, design: Design) -> float:
        """(Σ v^p)^{1/p} of all rows at all nodes."""
        single = self.single(design)
        largest = max(float(v.max()) for v in single)
        if self._power == np.inf:
            return largest
        pairs = zip(single, self.counted, self._alike_rows, strict=True)
        total = sum(
            n * float(((v / largest) ** self._power @ nodes).sum()) for v, nodes, n in pairs
        )
        return float(largest * total ** (1 / self._power))

    @cached_property
    def _alike_rows(self) -> list[float]:
        """Of all that is asked, how many rows one stands for: values of what is asked by value."""
        asked = self.level_problem
        rows = [
            query.rows / len(own) for query, own in zip(asked.questions, asked.rows, strict=True)
        ]
        return [rows[each.over] for each in asked.asked]

    def sums(self, design: Design) -> Array:
        """Σ of the row variances of each query."""
        total, even = np.zeros(len(self.whole.levels)), self.even(np.ones(len(self.whole.levels)))
        counted = even.counted_by(design.spreads)
        for each, nodes, traces in zip(self.level_problem.asked, even.nodes, counted, strict=True):
            along = design.components.variances[each.level]
            total[each.query] += design.cost * sum(
                trace * float(k @ nodes) for trace, k in zip(traces, along, strict=True)
            )
        return total

    # ------------------------------------------------------------------ the mechanism

    def of_scale(self, scale: float) -> LevelsMechanism:
        schema, exact = self.problem.workload.schema, self.problem.integer
        levels = tuple(
            Level(rows, parts, Noise("gaussian", scale * size, exact))
            for rows, parts, size in zip(self._rows, self._parts, self._rounded, strict=True)
        )
        place, tree = self.whole.place, self.whole.tree
        return LevelsMechanism(schema, place, self.level_problem.others, tree, levels, exact)

    @cached_property
    def _written_out(self) -> list[Array]:
        """Rows of every level over all cells of the others."""
        return [self.level_problem.written_out(rows) for rows in self.design.rows]

    @cached_property
    def _rows(self) -> list[Array]:
        """The same in numbers that are measured: of cells told apart, and of no others."""
        numbers, found = self.problem.numbers, []
        for level, rows in enumerate(self._written_out):
            told = self.level_problem.told_apart(level)
            found.append(told.widened(numbers.strategy(told.columns(rows))))
        return found

    @cached_property
    def _parts(self) -> list[Array]:
        """t of every node."""
        shares = self.whole.alike.spread(self.design.components.share)
        below = zip(shares[1:], self.whole.tree.parents, strict=True)
        numbers = self.problem.numbers
        return [np.ones(1), *(_parts(numbers, share, parent) for share, parent in below)]

    @cached_property
    def _sizes(self) -> list[Array]:
        """σ² of the nodes with siblings, for records that cost about one."""
        spreads = self.whole.alike.spread(self.design.components.spread)
        found = []
        for level, (spread, parts) in enumerate(zip(spreads, self._parts, strict=True)):
            unit = (self._rows[level] ** 2).sum() / (self._written_out[level] ** 2).sum()
            if level == 0:
                found.append(unit * spread)
                continue
            parent = self.whole.tree.parents[level - 1]
            total = np.bincount(parent, weights=parts)[parent]
            kept = (np.bincount(parent) > 1)[parent]
            found.append((unit * spread * total * parts)[kept])
        return found

    @cached_property
    def _rounded(self) -> list[Array]:
        """The same of few bits, where there are many and integers are drawn: times one number they
        are as many different ones."""
        bits = size_bits(sum(len(np.unique(size)) for size in self._sizes))
        return [self.problem.drawn.above(size, bits).size for size in self._sizes]

    # ------------------------------------------------------------------ how good it is

    def total_bound(self, weights: Array) -> float:
        own = np.array_equal(weights, self.whole.weights)
        return self._own_bound if own else self.even(weights).bound(self.design.x)

    @cached_property
    def _own_bound(self) -> float:
        """For the weights that were asked, kinds of leaves together where that is the objective."""
        return self.even(self.whole.weights).bound(self.design.x, together=self._power == 1)

    def objective_bound(self, cost: float) -> float:
        goal, weights = self.problem.goal, self.whole.weights
        if isinstance(goal, ConvexLoss):  # f(v') ≥ f(v) + ∇f(v)ᵀ(v' − v)
            share, sums = weights / self.problem.workload.sizes, self.sums(self.design) / cost
            value, slope = goal.value(share * sums), share * goal.slope(share * sums)
            return value - float(slope @ sums) + self.total_bound(slope) / cost
        if self._power == 1:
            return self.total_bound(weights) / cost
        best, tilt = self._searched
        single = self.single(best)
        largest = max(float(v.max()) for v in single)
        powers = POWERS if self._power == np.inf else (self._power,)
        tried = [[(v / largest) ** (p - 1) for v in single] for p in powers]
        tried += [] if tilt is None else [tilt]
        found = [self._dual(each, cost) for each in tried]
        most = int(np.argmax(found))
        return max(found[most], self._dual(tried[most], cost, together=True))

    def _dual(self, weights: list[Array], cost: float, together: bool = False) -> float:
        """‖v‖_p ≥ Σ y v/‖y‖_q for any y, here a product of weights of rows and of nodes."""
        dual = 1.0 if self._power == np.inf else self._power / (self._power - 1)
        weighted = self.nodes(self.whole.weights)
        total = 0.0
        for base, one, weight, alike in zip(
            weighted, self.counted, weights, self._alike_rows, strict=True
        ):
            of_rows = _of_rows(weight, base) * len(weight)
            of_nodes = weight.mean(axis=0)
            total += alike * float((of_rows**dual).sum() * (of_nodes**dual @ one))
        bound = self.tilted(weights).bound(self.design.x, together)
        return float(bound / total ** (1 / dual) / cost)


def _of_rows(weights: Array, nodes: Array) -> Array:
    """What rows have of weights of rows × nodes, in all one."""
    found = weights @ nodes
    return np.asarray(found / max(float(found.sum()), LEAST_WEIGHT))


def _parts(numbers: Numbers, share: Array, parent: IntArray) -> Array:
    """Numbers that are measured, in the proportion of what children are of their parent."""
    least, most = (np.full(int(parent.max()) + 1, start) for start in (np.inf, 0.0))
    np.minimum.at(least, parent, share)
    np.maximum.at(most, parent, share)
    even = most <= least * (1 + 1e-9)
    unit = np.where(even, 1.0 / most, np.minimum(2.0**PART_BITS / most, LARGEST_SUM / 2.0))
    smallest = numbers.scaled(1.0 / unit, unit)  # one, where it is whole
    return np.maximum(numbers.scaled(share, unit[parent]), smallest[parent])
