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
other each level makes every cell pay the same, so that every record does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, Level, LevelsMechanism
from noiseplan.noise import Noise
from noiseplan.optimize.level_bound import norm_of_levels
from noiseplan.optimize.level_precisions import best_precisions
from noiseplan.optimize.tree_bound import TreeNorm
from noiseplan.optimize.tree_components import Components, ComponentSearch, Counted
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.level_problem import MOST_PIECES, LevelProblem
from noiseplan.planning.long_problem import TreeProblem
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, WorstVariance
from noiseplan.planning.planners.long_plans import POWERS, AlongPlan, size_bits
from noiseplan.progress import progress

# Cells of the other attributes that rows are written down over; classes of those that are not asked
# by value alone, over which precisions are searched for; and counts by value and cell.
MOST_CELLS, MOST_CLASSES, MOST_COUNTS = 4096, 400, 1 << 27
# Rows at a node whose single variances are looked at.
MOST_ROWS: Final = 4096
# The gaps of precisions: on the way, and at the end.
ROUGH, FINE = 1e-2, 2e-4
# Rounds of tree and precisions, and what another one must gain.
ROUNDS, WORTH_A_ROUND = 6, 1e-4
# Parts of children, as whole numbers, of so many bits where sums leave room.
PART_BITS: Final = 12
# Steps of the weights at each power of a norm, and the least of them beside the largest.
STEPS: Final = 10
LEAST_WEIGHT: Final = 1e-12

# Of every level, for every piece.
Pieces = list[list[Array]]


def solve(whole: TreeProblem) -> Candidate | str:
    """The plan, or why there is none."""
    plan = LevelPlan(whole)
    return plan.untried or plan.candidate()


@dataclass(frozen=True, eq=False)
class Design:
    """What is measured of the tree and of the others, for records that cost at most `cost`."""

    x: Array
    components: Components
    rows: Pieces  # over classes
    cost: float

    @cached_property
    def spreads(self) -> Pieces:
        """Y⁺ of every level and piece."""
        return [[LeastSquares(each).spread for each in level] for level in self.rows]


class LevelPlan(AlongPlan):
    """One problem on its way to a plan."""

    taken = "levels with rows of their own"
    whole: TreeProblem

    def __init__(self, whole: TreeProblem) -> None:
        super().__init__(whole)
        self.level_problem = LevelProblem(whole)

    @cached_property
    def untried(self) -> str | None:
        """Why levels are not given rows of their own."""
        asked, parents = self.level_problem, self.whole.tree.parents
        levels = {level for own in self.whole.levels for level in own.tolist()}
        if len(levels) < 2 or len(asked.questions) < 2:
            return "not tried where all levels ask the same"
        if asked.cells > MOST_CELLS or len(asked.pieces) > MOST_PIECES:
            return f"not tried, {asked.cells:,} cells of the other attributes"
        counts = asked.cells * self.problem.workload.schema.shape[self.whole.place]
        if counts > MOST_COUNTS or max(int(np.bincount(p).max()) for p in parents) > LARGEST_SUM:
            return f"not tried, {counts:,} counts"
        if asked.classes.size > MOST_CLASSES:
            return f"not tried, {asked.classes.size:,} classes of cells of the other attributes"
        rows = max(query.rows for query in asked.questions)
        single = self._power > 1 and rows > MOST_ROWS
        return f"not tried, {rows:,} rows at a node" if single else None

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

    def even(self, weights: Array) -> Weighting:
        """One weight for each query, at all nodes it asks for."""
        asked = self.level_problem
        grams = [asked.grams[each.over] for each in asked.asked]
        return Weighting(self, self.nodes(weights), grams)

    def tilted(self, weights: list[Array]) -> Weighting:
        """Weights of rows × kinds of nodes, as a product of both: exact where nodes are alike."""
        asked, nodes, grams = self.level_problem, [], []
        bases = self.nodes(self.whole.weights)
        for each, base, weight in zip(asked.asked, bases, weights, strict=True):
            rows = asked.rows[each.over]
            # Every row stands for all values of attributes asked by value.
            grams.append((rows.T * _of_rows(weight, base) * len(rows)) @ rows)
            nodes.append(weight.mean(axis=0) * base)
        return Weighting(self, nodes, grams)

    # ------------------------------------------------------------------ the search

    @property
    def design(self) -> Design:
        """The best that is found for what is to be small."""
        return self._searched[0]

    @cached_property
    def _searched(self) -> tuple[Design, list[Array] | None]:
        """The same, and the last weights of rows and kinds of nodes, where these were moved."""
        goal, tilt = self.problem.goal, None
        with progress("Planning the levels", 1) as advance:
            best = self.even(self.whole.weights).best()
            if isinstance(goal, ConvexLoss):
                best = self._for_loss(goal, best)
            elif self._power > 1:
                best, tilt = self._for_norm(best)
            advance(1)
        return best, tilt

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

    def _for_norm(self, best: Design) -> tuple[Design, list[Array]]:
        """Rows of larger variance get more weight: μ ← μ (v^{p−1}/μ)^{1/p}."""
        design, least = best, self.norm(best)
        weights = [np.ones_like(v) for v in self.single(best)]
        powers = POWERS if self._power == np.inf else (self._power,) * len(POWERS)
        for power in np.repeat(powers, STEPS):
            single = self.single(design)
            largest = max(float(v.max()) for v in single)
            weights = [
                w ** (1 - 1 / power) * (v / largest) ** ((power - 1) / power)
                for w, v in zip(weights, single, strict=True)
            ]
            most = max(float(w.max()) for w in weights)
            weights = [np.maximum(w / most, LEAST_WEIGHT) for w in weights]
            design = self.tilted(weights).best(design.x, rounds=2)
            reached = self.norm(design)
            if reached < least:
                best, least = design, reached
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
        often = self.nodes(np.ones(len(self.whole.levels)))
        pairs = zip(single, often, self._alike_rows, strict=True)
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
        if not self.problem.integer:
            return shares
        below = zip(shares[1:], self.whole.tree.parents, strict=True)
        return [np.ones(1), *(_whole_parts(share, parent) for share, parent in below)]

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
        return self.even(weights).bound(self.design.x)

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
        return max(self._dual(each, cost) for each in (*tried, tilt) if each is not None)

    def _dual(self, weights: list[Array], cost: float) -> float:
        """‖v‖_p ≥ Σ y v/‖y‖_q for any y, here a product of weights of rows and of nodes."""
        dual = 1.0 if self._power == np.inf else self._power / (self._power - 1)
        weighted = self.nodes(self.whole.weights)
        often = self.nodes(np.ones(len(self.whole.levels)))
        total = 0.0
        for base, one, weight, alike in zip(
            weighted, often, weights, self._alike_rows, strict=True
        ):
            of_rows = _of_rows(weight, base) * len(weight)
            of_nodes = weight.mean(axis=0)
            total += alike * float((of_rows**dual).sum() * (of_nodes**dual @ one))
        bound = self.tilted(weights).bound(self.design.x)
        return float(bound / total ** (1 / dual) / cost)


@dataclass(frozen=True, eq=False)
class Weighting:
    """What is asked with weights: of the kinds of nodes, and in the Gram matrices of rows."""

    plan: LevelPlan
    nodes: list[Array]
    grams: list[Array]

    # ------------------------------------------------------------------ the search

    def best(self, start: Array | None = None, rounds: int = ROUNDS) -> Design:
        """The least Σ weight · variance that is found."""
        alike = self.plan.whole.alike
        x = ComponentSearch(alike, np.ones(len(alike.copies))).start() if start is None else start
        if self._even:
            return self._in_turn(x, rounds, self._paid_together)
        design = self._in_turn(x, rounds, self._levelled)
        together = self._in_turn(design.x, 1, self._paid_together)
        return min(design, together, key=self.value)

    @cached_property
    def _even(self) -> bool:
        """Whether all nodes of a level are alike."""
        return all(len(each) == 1 for each in self.plan.whole.alike.copies)

    def _in_turn(
        self, x: Array, rounds: int, make: Callable[[Components, float], tuple[Pieces, Array]]
    ) -> Design:
        """Rows of all levels for the tree as it is, and the tree for these rows, while it gains."""
        alike, least = self.plan.whole.alike, np.inf
        prices, designs = np.ones(len(alike.copies)), []
        for turn in range(rounds):
            components = ComponentSearch(alike, prices).at(x)
            rows, prices = make(components, ROUGH if turn == 0 and rounds > 1 else FINE)
            designs.append(self._made(x, components, rows))
            x, components = ComponentSearch(alike, prices).best(self._counted(rows), x)
            designs.append(self._made(x, components, rows))
            value = min(map(self.value, designs[-2:]))
            if value > (1 - WORTH_A_ROUND) * least:
                break
            least = value
        return min(designs, key=self.value)

    def _levelled(self, components: Components, tolerance: float) -> tuple[Pieces, Array]:
        """Rows of every level for which every cell pays the same, each level by itself."""
        needed, one = self._needed(components), np.ones(1)
        rows = [self._precisions([level], one, tolerance)[0][0] for level in needed]
        return rows, np.ones(len(rows))

    def _paid_together(self, components: Components, tolerance: float) -> tuple[Pieces, Array]:
        """Rows of all levels that are paid for together, by the prices of a path in the mean; and
        what a unit of each costs the records that count."""
        prices = self._path(components)
        rows, weights = self._precisions(self._needed(components), prices, tolerance)
        squares = [self.plan.level_problem.row_squares(level) for level in rows]
        return rows, np.array([weights @ each for each in squares])

    def _path(self, components: Components) -> Array:
        """What records pay for each level, in the mean."""
        often = self.plan.whole.alike.copies[-1]
        return np.asarray(often @ components.path_prices() / often.sum())

    def _precisions(self, needed: Pieces, prices: Array, tolerance: float) -> tuple[Pieces, Array]:
        """Rows of levels and pieces that are paid for together, and the weights of the cells."""
        asked, keys = self.plan.level_problem, self._keys(needed)
        shares = asked.dimensions / asked.values
        grams = [asked.dimensions[p] * needed[c][p] for c, p in keys]
        found = best_precisions(
            grams, np.array([prices[c] * shares[p] for c, p in keys]), tolerance
        )
        none = np.zeros((0, len(self.grams[0])))
        rows = [[none for _ in level] for level in needed]
        for (c, p), own in zip(keys, found.rows, strict=True):
            rows[c][p] = own
        return rows, found.weights

    @staticmethod
    def _keys(needed: Pieces) -> list[tuple[int, int]]:
        """Levels and pieces of which anything is asked."""
        return [(c, p) for c, level in enumerate(needed) for p, h in enumerate(level) if h.any()]

    def _made(self, x: Array, components: Components, rows: Pieces) -> Design:
        squares = np.array([self.plan.level_problem.row_squares(level) for level in rows])
        path = np.unique(components.path_prices(), axis=0)
        parts = batches(len(path), squares.shape[1], BATCH_CELLS)
        cost = max(float((path[part] @ squares).max()) for part in parts)
        return Design(x, components, rows, cost)

    def value(self, design: Design) -> float:
        """Σ weight · variance of records that cost one."""
        dimensions, total = self.plan.level_problem.dimensions, 0.0
        for level, spreads in zip(self._needed(design.components), design.spreads, strict=True):
            for n, h, spread in zip(dimensions, level, spreads, strict=True):
                total += n * float((h * spread).sum())
        return design.cost * total

    # ------------------------------------------------------------------ sums over what is asked

    def _needed(self, components: Components) -> Pieces:
        """H of every component and piece."""
        asked, zero = self.plan.level_problem, np.zeros_like(self.grams[0])
        found = [[zero.copy() for _ in asked.pieces] for _ in self.plan.whole.alike.copies]
        for each, nodes, gram in zip(asked.asked, self.nodes, self.grams, strict=True):
            for c, k in enumerate(components.variances[each.level]):
                for p in np.flatnonzero(asked.scales[each.over]):
                    found[c][p] += float(k @ nodes) * asked.scales[each.over, p] * gram
        return found

    def counted_by(self, spreads: Pieces) -> list[list[float]]:
        """Of all that is asked, what k of each component counts for."""
        asked = self.plan.level_problem
        found = []
        for each, gram in zip(asked.asked, self.grams, strict=True):
            scales = asked.scales[each.over] * asked.dimensions
            needed = np.flatnonzero(scales)
            levels = spreads[: each.level + 1]
            found.append(
                [sum(scales[p] * float((gram * y[p]).sum()) for p in needed) for y in levels]
            )
        return found

    def _counted(self, rows: Pieces) -> Counted:
        """φ of every component: what k of kinds of nodes counts for."""
        spreads = [[LeastSquares(each).spread for each in level] for level in rows]
        copies = self.plan.whole.alike.copies
        last = len(copies) - 1
        found = [[np.zeros(len(copies[at])) for at in range(c, last + 1)] for c in range(last + 1)]
        pairs = zip(
            self.plan.level_problem.asked, self.nodes, self.counted_by(spreads), strict=True
        )
        for each, nodes, traces in pairs:
            for c, trace in enumerate(traces):
                found[c][each.level - c] += trace * nodes
        return found

    # ------------------------------------------------------------------ bounds

    def bound(self, x: Array) -> float:
        """What no mechanism has less of: exact where all nodes of a level are alike."""
        alike, asked = self.plan.whole.alike, self.plan.level_problem
        if self._even:
            return self._even_bound()
        search = ComponentSearch(alike, np.ones(len(alike.copies)))
        components = search.at(x)
        rows, _ = self._levelled(components, FINE)
        leaves = search.record_weights(self._counted(rows), x)
        needed, prices = self._needed(components), self._path(components)
        cells = self._precisions(needed, prices, FINE)[1] / asked.values
        norms = [
            n * norm_of_levels(TreeNorm(alike, leaves), self._by_kind(p), cells)
            for p, n in enumerate(asked.dimensions)
        ]
        return float(sum(norms) ** 2)

    def _even_bound(self) -> float:
        """Components of an even tree are orthogonal: d_c dimensions, of d_c/N of every leaf."""
        asked, zero = self.plan.level_problem, np.zeros_like(self.grams[0])
        sizes = np.array([each[0] for each in self.plan.whole.alike.copies])
        dimensions = np.diff(sizes, prepend=0.0)
        needed = [[zero.copy() for _ in asked.pieces] for _ in sizes]
        for each, nodes, gram in zip(asked.asked, self.nodes, self.grams, strict=True):
            size = sizes[each.level]
            weight = sizes[-1] / size * float(nodes[0]) / size  # of one node, times its leaves
            for c in range(each.level + 1):
                for p, scale in enumerate(asked.scales[each.over]):
                    needed[c][p] += dimensions[c] * weight * scale * gram
        shares, keys = asked.dimensions / asked.values, self._keys(needed)
        prices = np.array([dimensions[c] / sizes[-1] * shares[p] for c, p in keys])
        return best_precisions(
            [asked.dimensions[p] * needed[c][p] for c, p in keys], prices, FINE
        ).bound

    def _by_kind(self, piece: int) -> list[tuple[list[Array], IntArray]]:
        """Of every level F of a piece for one copy of a node, those that differ; and which each
        kind has."""
        asked, found = self.plan.level_problem, []
        for level, copies in enumerate(self.plan.whole.alike.copies):
            mine = [
                (asked.scales[each.over, piece] * nodes / copies, gram)
                for each, nodes, gram in zip(asked.asked, self.nodes, self.grams, strict=True)
                if each.level == level
            ]
            weights = np.array([nodes for nodes, _ in mine]).reshape(len(mine), len(copies))
            different, kind = np.unique(weights, axis=1, return_inverse=True)
            sums = [self._sum(column, [gram for _, gram in mine]) for column in different.T]
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
    even = most <= least * (1 + 1e-9)
    unit = np.where(even, 1.0 / most, np.minimum(2.0**PART_BITS / most, LARGEST_SUM / 2.0))
    return np.maximum(np.rint(share * unit[parent]), 1.0)
