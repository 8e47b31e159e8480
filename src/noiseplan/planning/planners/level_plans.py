"""Plans for levels of a long attribute that ask different things of the others.

Counties by single ages, tracts by bands, blocks by sex: every level of the tree has rows of its own
over the cells of the other attributes (`mechanisms.measured_levels`). Three things are found in
turn, each for the others as they are:

| what | by |
| --- | --- |
| how levels and nodes share what a record may cost | `optimize.tree_components` |
| the precision of each level over the others | `optimize.level_precisions` |
| weights of rows, where single variances count | rows of larger variance get more |

On a tree whose nodes are all alike the levels are paid for together, which is the optimum; on any
other that is tried by the path of records in the mean, leaves paying what their own path leaves,
beside levels that each make every cell pay the same, so that every record does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.gram import Reduction
from noiseplan.errors import UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.matrices.kronecker import kronecker_dense
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, Level, LevelsMechanism
from noiseplan.noise import Noise
from noiseplan.optimize.level_bound import norm_of_levels
from noiseplan.optimize.level_precisions import Precisions, best_precisions
from noiseplan.optimize.tree_bound import TreeNorm
from noiseplan.optimize.tree_components import Components, ComponentSearch, Counted
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.long_problem import TreeProblem
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, WorstVariance
from noiseplan.planning.planners.long_plans import POWERS, AlongPlan, size_bits
from noiseplan.progress import progress
from noiseplan.queries import Query

# Cells of the other attributes that rows are written down over, and those told apart for which
# precisions are searched for.
MOST_CELLS, MOST_CLASSES = 4096, 400
# Numbers of all Gram matrices, and of counts by node and cell.
MOST_NUMBERS, MOST_COUNTS = 1 << 25, 1 << 27
# Rows whose single variances are looked at.
MOST_ROWS: Final = 4096
# The gaps of precisions: on the way, and at the end.
ROUGH, FINE = 1e-2, 2e-4
# Rounds of tree and precisions, and what another one must gain.
ROUNDS, WORTH_A_ROUND = 6, 1e-4
# What records pay at most, tried between the mean and the dearest.
EVENED: Final = 6
# Parts of children, as whole numbers, of so many bits where sums leave room.
PART_BITS: Final = 12
# Steps of the weights of rows at each power of a norm.
STEPS: Final = 6
LEAST_WEIGHT: Final = 1e-12


def untried(whole: TreeProblem) -> str | None:
    """Why levels are not given rows of their own."""
    asked = whole.without[0]
    if len({level for own in whole.levels for level in own.tolist()}) < 2 or len(asked) < 2:
        return "not tried where all levels ask the same"
    cells = prod(whole.problem.workload.schema.shape[i] for i in others_of(whole))
    if cells > MOST_CELLS:
        return f"not tried, {cells:,} cells of the other attributes"
    values = whole.problem.workload.schema.shape[whole.place]
    if cells * values > MOST_COUNTS:
        return f"not tried, {cells * values:,} counts"
    # Parts of children that are not alike take half of the sum, and each of them at least one.
    if max(int(np.bincount(parent).max()) for parent in whole.tree.parents) > LARGEST_SUM // 2:
        return "not tried for so many values in one group"
    return None


def others_of(whole: TreeProblem) -> tuple[int, ...]:
    """The other attributes that queries name."""
    schema = whole.problem.workload.schema
    names = {name for query in whole.without[0] for name in query.attributes}
    return tuple(sorted(schema.index(name) for name in names))


def solve(whole: TreeProblem) -> Candidate | str:
    """The plan, or why there is none."""
    reason = untried(whole)
    if reason is not None:
        return reason
    plan = LevelPlan(whole)
    if plan.untried is not None:
        return plan.untried
    made = plan.candidate()
    try:
        made.figures.require_answers(made.mechanism)
    except UnanswerableError:  # what is hardly worth measuring was lost by rounding
        return "not tried for weights so far apart"
    return made


@dataclass(frozen=True, eq=False)
class Asked:
    """What one query asks at one level: a row of the table of units."""

    query: int  # in the workload
    level: int
    over: int  # which of the Gram matrices of the others
    often: float


@dataclass(frozen=True, eq=False)
class Design:
    """How much of what is measured: components along the tree, precisions over the others."""

    x: Array
    components: Components
    precisions: list[Array]  # rows of every level, over classes
    cost: float  # of the dearest record

    @cached_property
    def spreads(self) -> list[Array]:
        """Y⁺ of every level."""
        return [LeastSquares(rows).spread for rows in self.precisions]


class LevelPlan(AlongPlan):
    """One problem on its way to a plan."""

    taken = "levels with rows of their own"
    whole: TreeProblem

    # ------------------------------------------------------------------ what is asked

    @cached_property
    def others(self) -> tuple[int, ...]:
        return others_of(self.whole)

    @cached_property
    def _grams(self) -> list[Array]:
        """WᵀW of what is asked of the others, each once, over all their cells."""
        schema, found = self.problem.workload.schema, []
        for query in self.whole.without[0]:
            factors = dict(zip(query.attributes, query.matrices(), strict=True))
            parts = [
                factors[name].gram() if name in factors else np.ones((schema.shape[i],) * 2)
                for i, name in ((i, schema.names[i]) for i in self.others)
            ]
            found.append(kronecker_dense(parts) if parts else np.ones((1, 1)))
        return found

    @cached_property
    def classes(self) -> Reduction:
        """Cells of the others that no query tells apart are one."""
        scaled = (gram / np.diagonal(gram).max() for gram in self._grams)
        return Reduction.of_gram(np.sum(list(scaled), axis=0))

    @cached_property
    def grams(self) -> list[Array]:
        """The same over classes."""
        return [self.classes.gram(gram) for gram in self._grams]

    @cached_property
    def rows(self) -> list[Array]:
        """W of what is asked of the others, over classes."""
        return [self.classes.columns(self._dense(query)) for query in self.whole.without[0]]

    def _dense(self, query: Query) -> Array:
        schema = self.problem.workload.schema
        factors = dict(zip(query.attributes, query.matrices(), strict=True))
        parts = [
            factors[name].dense() if name in factors else np.ones((1, schema.shape[i]))
            for i, name in ((i, schema.names[i]) for i in self.others)
        ]
        return kronecker_dense(parts) if parts else np.ones((1, 1))

    @cached_property
    def untried(self) -> str | None:
        """Why it takes too long."""
        classes, single = self.classes.size, self._power > 1
        if classes > MOST_CLASSES or len(self.asked) * classes**2 > MOST_NUMBERS:
            return f"not tried, {classes:,} classes of cells of the other attributes"
        rows = max(query.rows for query in self.whole.without[0])
        return f"not tried, {rows:,} rows at a node" if single and rows > MOST_ROWS else None

    @cached_property
    def asked(self) -> list[Asked]:
        """All that queries ask, level by level."""
        number = self.whole.without[1]
        return [
            Asked(query, level, int(number[query]), float(self.whole.often[query, level]))
            for query, own in enumerate(self.whole.levels)
            for level in sorted(set(own.tolist()))
        ]

    # ------------------------------------------------------------------ weights

    @cached_property
    def _power(self) -> float:
        goal = self.problem.goal
        if isinstance(goal, WorstVariance):
            return np.inf
        return goal.p if isinstance(goal, PNormVariance) else 1.0

    def even(self, weights: Array) -> Weighting:
        """One weight for each query, at all nodes it asks for."""
        kinds, copies = self.whole.asked_kinds, self.whole.alike.copies
        nodes = [
            weights[each.query] * each.often * kinds[each.level][each.query] * copies[each.level]
            for each in self.asked
        ]
        return Weighting(self, nodes, [self.grams[each.over] for each in self.asked])

    # ------------------------------------------------------------------ the search

    @cached_property
    def design(self) -> Design:
        """The best that is found for what is to be small."""
        goal = self.problem.goal
        with progress("Planning the levels", 1) as advance:
            best = self.even(self.whole.weights).best()
            if isinstance(goal, ConvexLoss):
                best = self._for_loss(goal, best)
            elif self._power > 1:
                best = self._for_norm(best)
            advance(1)
        return best

    def _for_loss(self, goal: ConvexLoss, best: Design) -> Design:
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
        return best

    def _for_norm(self, best: Design) -> Design:
        """Rows of larger variance get more weight: μ ← μ (v^{p−1}/μ)^{1/p}."""
        design, found = best, self.norm(best, self._power)
        weights = [np.ones_like(v) for v in self.single(best)]
        for power in self._powers:
            for _ in range(STEPS):
                single = self.single(design)
                largest = max(float(v.max()) for v in single)
                exponent = 1.0 / power
                weights = [
                    w ** (1 - exponent) * (v / largest) ** ((power - 1) * exponent)
                    for w, v in zip(weights, single, strict=True)
                ]
                most = max(float(w.max()) for w in weights)
                weights = [np.maximum(w / most, LEAST_WEIGHT) for w in weights]
                design = self.tilted(weights).best(design.x, rounds=2)
                reached = self.norm(design, self._power)
                if reached < found:
                    best, found = design, reached
        return best

    @property
    def _powers(self) -> tuple[float, ...]:
        return POWERS if self._power == np.inf else (self._power,) * len(POWERS)

    def tilted(self, weights: list[Array]) -> Weighting:
        """Weights of rows × kinds of nodes, as a product of both: exact where nodes are alike."""
        nodes, grams = [], []
        for each, base, weight in zip(
            self.asked, self.even(self.whole.weights).nodes, weights, strict=True
        ):
            rows = self.rows[each.over]
            grams.append((rows.T * _of_rows(weight, base)) @ rows)
            nodes.append(weight.sum(axis=0) * base)
        return Weighting(self, nodes, grams)

    def single(self, design: Design) -> list[Array]:
        """The weighted variance of rows × kinds of nodes, of all that is asked."""
        found = []
        squares = [
            [np.einsum("rx,xy,ry->r", rows, spread, rows, optimize=True) for rows in self.rows]
            for spread in design.spreads
        ]
        kinds = self.whole.asked_kinds
        for each in self.asked:
            k = design.components.variances[each.level]
            rows = np.array([squares[c][each.over] for c in range(each.level + 1)]).T
            weight = self.whole.weights[each.query] * kinds[each.level][each.query]
            found.append(design.cost * weight * (rows @ np.array(k)))
        return found

    def norm(self, design: Design, power: float) -> float:
        """(Σ v^p)^{1/p} of all rows at all nodes."""
        single = self.single(design)
        largest = max(float(v.max()) for v in single)
        if power == np.inf:
            return largest
        copies = self.whole.alike.copies
        total = sum(
            each.often * float(((v / largest) ** power @ copies[each.level]).sum())
            for each, v in zip(self.asked, single, strict=True)
        )
        return float(largest * total ** (1 / power))

    def sums(self, design: Design) -> Array:
        """Σ of the row variances of each query."""
        total = np.zeros(len(self.whole.levels))
        kinds, copies = self.whole.asked_kinds, self.whole.alike.copies
        for each in self.asked:
            nodes = each.often * kinds[each.level][each.query] * copies[each.level]
            for c, k in enumerate(design.components.variances[each.level]):
                trace = float((self.grams[each.over] * design.spreads[c]).sum())
                total[each.query] += design.cost * trace * float(k @ nodes)
        return total

    # ------------------------------------------------------------------ the mechanism

    def of_scale(self, scale: float) -> LevelsMechanism:
        schema, exact = self.problem.workload.schema, self.problem.integer
        levels = tuple(
            Level(rows, parts, Noise("gaussian", scale * size, exact))
            for rows, parts, size in zip(self._rows, self._parts, self._rounded, strict=True)
        )
        place, tree = self.whole.place, self.whole.tree
        return LevelsMechanism(schema, place, self.others, tree, levels, exact)

    @cached_property
    def _rounded(self) -> list[Array]:
        """σ² of few bits, where there are many and integers are drawn: times one number they are
        as many different ones."""
        bits = size_bits(sum(len(np.unique(size)) for size in self._sizes))
        return [self.problem.drawn.above(size, bits).size for size in self._sizes]

    @cached_property
    def _rows(self) -> list[Array]:
        """What each level measures of the others."""
        numbers = self.problem.numbers
        return [self.classes.widened(numbers.strategy(rows)) for rows in self.design.precisions]

    @cached_property
    def _parts(self) -> list[Array]:
        """t of every node."""
        alike, components = self.whole.alike, self.design.components
        shares = alike.spread(components.share)
        if not self.problem.integer:
            return shares
        found = [np.ones(1)]
        for level, share in enumerate(shares[1:], 1):
            found.append(_whole_parts(share, self.whole.tree.parents[level - 1]))
        return found

    @cached_property
    def _sizes(self) -> list[Array]:
        """σ² of the nodes with siblings, for records that cost about one."""
        components, tree = self.design.components, self.whole.tree
        spreads = self.whole.alike.spread(components.spread)
        found = []
        for level, (spread, parts) in enumerate(zip(spreads, self._parts, strict=True)):
            rows, wanted = self._rows[level], self.design.precisions[level]
            unit = (rows**2).sum() / (self.classes.widened(wanted) ** 2).sum()
            if level == 0:
                found.append(unit * spread)
                continue
            parent = tree.parents[level - 1]
            total = np.bincount(parent, weights=parts)[parent]
            kept = (np.bincount(parent) > 1)[parent]
            found.append((unit * spread * total * parts)[kept])
        return found

    # ------------------------------------------------------------------ how good it is

    def bound(self, weighting: Weighting) -> float:
        """The least Σ weight · variance for records that cost one."""
        return weighting.bound(self.design.x)

    def total_bound(self, weights: Array) -> float:
        return self.bound(self.even(weights))

    def objective_bound(self, cost: float) -> float:
        goal, weights = self.problem.goal, self.whole.weights
        if isinstance(goal, ConvexLoss):  # f(v') ≥ f(v) + ∇f(v)ᵀ(v' − v)
            share, sums = weights / self.problem.workload.sizes, self.sums(self.design) / cost
            value, slope = goal.value(share * sums), share * goal.slope(share * sums)
            return value - float(slope @ sums) + self.total_bound(slope) / cost
        if self._power == 1:
            return self.total_bound(weights) / cost
        single = self.single(self.design)
        largest = max(float(v.max()) for v in single)
        powers = POWERS if self._power == np.inf else (self._power,)
        return max(self._dual([(v / largest) ** (p - 1) for v in single], cost) for p in powers)

    def _dual(self, weights: list[Array], cost: float) -> float:
        """‖v‖_p ≥ Σ y v/‖y‖_q for any y, here a product of weights of rows and of nodes."""
        dual = 1.0 if self._power == np.inf else self._power / (self._power - 1)
        weighting, one = self.tilted(weights), self.even(np.ones(len(self.whole.levels)))
        total = 0.0
        for often, weight in zip(one.nodes, weights, strict=True):
            of_rows = _of_rows(weight, often)
            total += float((of_rows**dual).sum() * (weight.sum(axis=0) ** dual @ often))
        return float(self.bound(weighting) / total ** (1 / dual) / cost)


@dataclass(frozen=True, eq=False)
class Weighting:
    """What is asked with weights: of the kinds of nodes, and in the Gram matrices of rows."""

    plan: LevelPlan
    nodes: list[Array]
    grams: list[Array]

    def best(self, start: Array | None = None, rounds: int = ROUNDS) -> Design:
        """The least Σ weight · variance that is found."""
        levels = len(self.plan.whole.alike.copies)
        search = ComponentSearch(self.plan.whole.alike, np.ones(levels))
        x = search.start() if start is None else start
        best, design = np.inf, None
        for turn in range(rounds):
            components = search.at(x)
            found = self._levelled(components, ROUGH if turn == 0 else FINE)
            x, components = search.best(self._counted(found), x)
            made = self._made(x, components, found)
            value = self.value(made)
            done = value > (1 - WORTH_A_ROUND) * best
            if value < best:
                best, design = value, made
            if done:
                break
        assert design is not None
        together = self._together(design)
        return together if self.value(together) < best else design

    def _together(self, design: Design) -> Design:
        """All levels paid for together, once for the tree as it is and once for a better one."""
        first, found = self._of_mean_path(design.x, design.components)
        if self.value(first) > (1 + WORTH_A_ROUND) * self.value(design):
            return design
        price = np.array([found.weights @ (rows**2).sum(axis=0) for rows in found.rows])
        search = ComponentSearch(self.plan.whole.alike, price)
        second, _ = self._of_mean_path(*search.best(self._counted(found.rows), design.x))
        return min(first, second, key=self.value)

    def _of_mean_path(self, x: Array, components: Components) -> tuple[Design, Precisions]:
        """The best precisions at the prices of a record's path in the mean."""
        leaves = self.plan.whole.alike.copies[-1]
        prices = leaves @ components.path_prices() / leaves.sum()
        found = best_precisions(self._needed(components), prices, FINE)
        return self._evened(self._made(x, components, found.rows)), found

    def _evened(self, made: Design) -> Design:
        """Leaves pay what their way leaves of what all may pay, from the mean to the dearest."""
        levels = len(made.precisions)
        search = ComponentSearch(self.plan.whole.alike, np.ones(levels))
        squares = np.array([(rows**2).sum(axis=0) for rows in made.precisions])
        best = made
        for most in np.geomspace(1.0, made.cost, EVENED) if made.cost > 1 + WORTH_A_ROUND else ():
            found = search.within(made.components, squares, float(most))
            each = self._made(made.x, found, made.precisions)
            if self.value(each) < self.value(best):
                best = each
        return best

    def _made(self, x: Array, components: Components, rows: list[Array]) -> Design:
        squares = np.array([(each**2).sum(axis=0) for each in rows])
        different = np.unique(components.path_prices(), axis=0)
        cost = max(
            float((part @ squares).max()) for part in np.array_split(different, 64) if len(part)
        )
        return Design(x, components, rows, cost)

    def value(self, design: Design) -> float:
        """Σ weight · variance of records that cost one."""
        needed = self._needed(design.components)
        pairs = zip(needed, design.spreads, strict=True)
        return design.cost * sum(float((h * spread).sum()) for h, spread in pairs)

    def _needed(self, components: Components) -> list[Array]:
        """H of every component."""
        plan = self.plan
        found = [np.zeros_like(self.grams[0]) for _ in plan.whole.alike.copies]
        for each, nodes, gram in zip(plan.asked, self.nodes, self.grams, strict=True):
            for c, k in enumerate(components.variances[each.level]):
                found[c] += float(k @ nodes) * gram
        return found

    def _levelled(self, components: Components, tolerance: float) -> list[Array]:
        """Rows of every level, for which every cell pays the same, each level by itself."""
        one = np.ones(1)
        return [best_precisions([h], one, tolerance).rows[0] for h in self._needed(components)]

    def _counted(self, rows: list[Array]) -> Counted:
        """φ of every component: what k of kinds of nodes counts for."""
        plan, spreads = self.plan, [LeastSquares(each).spread for each in rows]
        copies = plan.whole.alike.copies
        last = len(copies) - 1
        found = [[np.zeros(len(copies[at])) for at in range(c, last + 1)] for c in range(last + 1)]
        for each, nodes, gram in zip(plan.asked, self.nodes, self.grams, strict=True):
            for c in range(each.level + 1):
                found[c][each.level - c] += float((gram * spreads[c]).sum()) * nodes
        return found

    def bound(self, x: Array) -> float:
        """What no mechanism has less of: exact where all nodes of a level are alike."""
        alike = self.plan.whole.alike
        if all(len(each) == 1 for each in alike.copies):
            return self._even_bound()
        search = ComponentSearch(alike, np.ones(len(alike.copies)))
        rows = self._levelled(search.at(x), FINE)
        leaves = search.record_weights(self._counted(rows), x)
        needed = self._needed(search.at(x))
        cells = best_precisions(needed, np.ones(len(needed)), FINE).weights
        return norm_of_levels(TreeNorm(alike, leaves), self._by_kind(), cells) ** 2

    def _even_bound(self) -> float:
        """Components of an even tree are orthogonal: d_c dimensions, of d_c/N of every leaf."""
        sizes = np.array([each[0] for each in self.plan.whole.alike.copies])
        dimensions = np.diff(sizes, prepend=0.0)
        needed = [np.zeros_like(self.grams[0]) for _ in sizes]
        for each, nodes, gram in zip(self.plan.asked, self.nodes, self.grams, strict=True):
            level = each.level
            for c in range(level + 1):
                needed[c] += (
                    dimensions[c] * sizes[-1] / sizes[level] * (nodes[0] / sizes[level]) * gram
                )
        return best_precisions(needed, dimensions / sizes[-1], FINE).bound

    def _by_kind(self) -> list[tuple[list[Array], IntArray]]:
        """Of every level F for one copy of a node, those that differ; and which each kind has."""
        found = []
        for level, copies in enumerate(self.plan.whole.alike.copies):
            mine = [
                (nodes / copies, gram)
                for each, nodes, gram in zip(self.plan.asked, self.nodes, self.grams, strict=True)
                if each.level == level
            ]
            weights = np.array([nodes for nodes, _ in mine]).reshape(len(mine), len(copies))
            different, kind = np.unique(weights, axis=1, return_inverse=True)
            grams = [gram for _, gram in mine]
            sums = [self._sum(column, grams) for column in different.T]
            found.append((sums, np.asarray(kind).reshape(-1)))
        return found

    def _sum(self, weights: Array, grams: list[Array]) -> Array:
        total = np.zeros_like(self.grams[0])
        for weight, gram in zip(weights, grams, strict=True):
            total += weight * gram
        return total


def _of_rows(weights: Array, nodes: Array) -> Array:
    """What rows have of weights of rows × nodes, in all one."""
    found = weights @ nodes
    return np.asarray(found / max(float(found.sum()), LEAST_WEIGHT))


def _whole_parts(share: Array, parent: IntArray) -> Array:
    """Whole numbers in the proportion of what children are of their parent."""
    least, most = (np.full(int(parent.max()) + 1, start) for start in (np.inf, 0.0))
    np.minimum.at(least, parent, share)
    np.maximum.at(most, parent, share)
    room = np.minimum(2.0**PART_BITS / most, LARGEST_SUM / 2.0)
    even = most <= least * (1 + 1e-9)
    unit = np.where(even, 1.0 / most, room)
    return np.maximum(np.rint(share * unit[parent]), 1.0)
