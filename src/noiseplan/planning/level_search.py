"""Rows of their own for the levels of a tree, for the least weighted sum of variances.

Two things are found in turn, each for the other as it is:

| what | by |
| --- | --- |
| how levels and nodes share what a record may cost | `optimize.tree_components` |
| the precision of each level over the others | `optimize.level_precisions` |

On a tree whose nodes are all alike the levels are paid for together, which is the optimum; on any
other that is tried by the path of records in the mean, leaves paying what their own path leaves,
beside levels that each make every cell pay the same, so that every record does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.optimize.level_bound import LARGEST, Together, norm_of_levels
from noiseplan.optimize.level_precisions import best_precisions
from noiseplan.optimize.tree_bound import TreeNorm, nodes_above
from noiseplan.optimize.tree_components import Components, ComponentSearch, Counted
from noiseplan.planning.level_problem import LevelProblem

# The gaps of precisions: on the way, and at the end.
ROUGH, FINE = 1e-2, 2e-4
# Rounds of tree and precisions, and what another one must gain.
ROUNDS, WORTH_A_ROUND = 6, 1e-4
# Paths × cells up to which every record pays for itself; and where weights are still moved.
MOST_PAYERS, FEW_PAYERS = 1 << 18, 1 << 11
# A level that costs this share of the dearest is paid by nobody: its price is as good as any.
UNPAID: Final = 1e-12
# Kinds of nodes of the first level that are bounded one by one.
MOST_PARTS: Final = 12
# What records pay at most, tried between the mean and the dearest.
EVENED: Final = 6

# Of every level, for every piece.
Pieces = list[list[Array]]


@dataclass(frozen=True, eq=False)
class Design:
    """What is measured of the tree and of the others, for records that cost at most `cost`."""

    x: Array
    components: Components
    rows: Pieces  # over classes
    spreads: Pieces  # Y⁺ of every level and piece
    cost: float


def _spreads(rows: Pieces) -> Pieces:
    """Y⁺ of every level and piece."""
    return [[LeastSquares(each).spread for each in level] for level in rows]


@dataclass(frozen=True, eq=False)
class Weighting:
    """What is asked with weights: of the kinds of nodes, and in the Gram matrices of rows."""

    problem: LevelProblem
    nodes: list[Array]
    grams: list[Array]

    # ------------------------------------------------------------------ the search

    def best(self, start: Array | None = None, rounds: int = ROUNDS) -> Design:
        """The least Σ weight · variance that is found."""
        alike = self.problem.whole.alike
        x = ComponentSearch(alike, np.ones(len(alike.copies))).start() if start is None else start
        most = MOST_PAYERS if rounds == ROUNDS else FEW_PAYERS
        paid = partial(self._paid_together, most=most)
        if self._even:
            return self._in_turn(x, rounds, paid)
        design = self._in_turn(x, rounds, self._levelled)
        together = self._in_turn(design.x, 1, paid)
        return min(design, self._evened(together), key=self.value)

    @cached_property
    def _even(self) -> bool:
        """Whether all nodes of a level are alike."""
        return all(len(each) == 1 for each in self.problem.whole.alike.copies)

    def _in_turn(
        self, x: Array, rounds: int, make: Callable[[Components, float], tuple[Pieces, Array]]
    ) -> Design:
        """Rows of all levels for the tree as it is, and the tree for these rows, while it gains."""
        alike, least = self.problem.whole.alike, np.inf
        prices, designs = np.ones(len(alike.copies)), list[Design]()
        values = list[float]()
        for turn in range(rounds):
            components = ComponentSearch(alike, prices).at(x)
            rows, prices = make(components, ROUGH if turn == 0 and rounds > 1 else FINE)
            spreads = _spreads(rows)
            designs.append(self._made(x, components, rows, spreads))
            x, components = ComponentSearch(alike, prices).best(self._counted(spreads), x)
            designs.append(self._made(x, components, rows, spreads))
            values += map(self.value, designs[-2:])
            value = min(values[-2:])
            if value > (1 - WORTH_A_ROUND) * least:
                break
            least = value
        return designs[values.index(min(values))]

    def _levelled(self, components: Components, tolerance: float) -> tuple[Pieces, Array]:
        """Rows of every level for which every cell pays the same, each level by itself."""
        needed, one = self._needed(components), np.ones(1)
        rows = [self._precisions([level], one, tolerance)[0][0] for level in needed]
        return rows, np.ones(len(rows))

    def _paid_together(
        self, components: Components, tolerance: float, most: int = MOST_PAYERS
    ) -> tuple[Pieces, Array]:
        """Rows of all levels that are paid for together, by the prices of all paths, or of one in
        the mean where these are many; and what a unit of each costs the records that count."""
        paths = np.unique(components.path_prices(), axis=0)
        if paths.shape[0] * len(self.grams[0]) > most:
            paths = self._path(components)[None, :]
        rows, weights = self._precisions(self._needed(components), paths, tolerance)
        squares = np.array([self.problem.row_squares(level) for level in rows])
        paying = paths.T @ weights  # levels × cells
        of_level = np.einsum("cx,cx->c", paying, squares) / np.maximum(
            paying.sum(axis=1), np.finfo(float).tiny
        )
        return rows, np.where(of_level > UNPAID * of_level.max(), of_level, 1.0)

    def _evened(self, made: Design) -> Design:
        """Leaves pay what their way leaves of what all may pay, from the mean to the dearest."""
        search = ComponentSearch(self.problem.whole.alike, np.ones(len(made.rows)))
        squares = np.array([self.problem.row_squares(level) for level in made.rows])
        found = [made]
        for most in np.geomspace(1.0, made.cost, EVENED) if made.cost > 1 + WORTH_A_ROUND else ():
            components = search.within(made.components, squares, float(most))
            found.append(self._made(made.x, components, made.rows, made.spreads))
        return min(found, key=self.value)

    def _path(self, components: Components) -> Array:
        """What records pay for each level, in the mean."""
        often = self.problem.whole.alike.copies[-1]
        return np.asarray(often @ components.path_prices() / often.sum())

    def _precisions(self, needed: Pieces, prices: Array, tolerance: float) -> tuple[Pieces, Array]:
        """Rows of levels and pieces that are paid for together, and the weights of the cells."""
        asked, keys, cells = self.problem, self._keys(needed), len(self.grams[0])
        none = np.zeros((0, cells))
        rows = [[none for _ in level] for level in needed]
        if not keys:  # what is asked of a level is lost by rounding beside the others
            return rows, np.full((*prices.shape[:-1], cells), 1.0 / cells)
        shares = asked.dimensions / asked.values
        grams = [asked.dimensions[p] * needed[c][p] for c, p in keys]
        found = best_precisions(
            grams, np.stack([prices[..., c] * shares[p] for c, p in keys], axis=-1), tolerance
        )
        for (c, p), own in zip(keys, found.rows, strict=True):
            rows[c][p] = own
        return rows, found.weights

    @staticmethod
    def _keys(needed: Pieces) -> list[tuple[int, int]]:
        """Levels and pieces of which anything is asked."""
        return [(c, p) for c, level in enumerate(needed) for p, h in enumerate(level) if h.any()]

    def _made(self, x: Array, components: Components, rows: Pieces, spreads: Pieces) -> Design:
        squares = np.array([self.problem.row_squares(level) for level in rows])
        path = np.unique(components.path_prices(), axis=0)
        parts = batches(len(path), squares.shape[1], BATCH_CELLS)
        cost = max(float((path[part] @ squares).max()) for part in parts)
        return Design(x, components, rows, spreads, cost)

    def value(self, design: Design) -> float:
        """Σ weight · variance of records that cost one."""
        dimensions, total = self.problem.dimensions, 0.0
        for level, spreads in zip(self._needed(design.components), design.spreads, strict=True):
            for n, h, spread in zip(dimensions, level, spreads, strict=True):
                total += n * float((h * spread).sum())
        return design.cost * total

    # ------------------------------------------------------------------ sums over what is asked

    def _needed(self, components: Components) -> Pieces:
        """H of every component and piece."""
        asked, zero = self.problem, np.zeros_like(self.grams[0])
        found = [[zero.copy() for _ in asked.pieces] for _ in self.problem.whole.alike.copies]
        for each, nodes, gram in zip(asked.asked, self.nodes, self.grams, strict=True):
            for c, k in enumerate(components.variances[each.level]):
                for p in np.flatnonzero(asked.scales[each.over]):
                    found[c][p] += float(k @ nodes) * asked.scales[each.over, p] * gram
        return found

    def counted_by(self, spreads: Pieces) -> list[list[float]]:
        """Of all that is asked, what k of each component counts for."""
        asked = self.problem
        found = []
        for each, gram in zip(asked.asked, self.grams, strict=True):
            scales = asked.scales[each.over] * asked.dimensions
            needed = np.flatnonzero(scales)
            levels = spreads[: each.level + 1]
            found.append(
                [sum(scales[p] * float((gram * y[p]).sum()) for p in needed) for y in levels]
            )
        return found

    def _counted(self, spreads: Pieces) -> Counted:
        """φ of every component: what k of kinds of nodes counts for."""
        copies = self.problem.whole.alike.copies
        last = len(copies) - 1
        found = [[np.zeros(len(copies[at])) for at in range(c, last + 1)] for c in range(last + 1)]
        pairs = zip(self.problem.asked, self.nodes, self.counted_by(spreads), strict=True)
        for each, nodes, traces in pairs:
            for c, trace in enumerate(traces):
                found[c][each.level - c] += trace * nodes
        return found

    # ------------------------------------------------------------------ bounds

    def bound(self, x: Array, together: bool = True) -> float:
        """What no mechanism has less of: exact where all nodes of a level are alike, or where kinds
        of leaves are few and looked at together, which takes longer."""
        if self._even:
            return self._even_bound()
        found = self._bound_together(x) if together else None
        if found is not None:
            return found
        parts = self._parts() if together else []
        return max(self._bound_of_product(x), sum(part._bound_of_product(x) for part in parts))

    def _parts(self) -> list[Weighting]:
        """What is asked of each kind of node of the first level, where these are few: whatever
        serves all has no less for any of them than the best for it alone, with weights of its own
        for cells. Of what is asked of the whole nothing is left."""
        shape, last = self.problem.whole.alike.shape, len(self.problem.whole.alike.copies) - 1
        above = [nodes_above(shape, level) for level in range(1, last + 1)]
        kinds = len(self.problem.whole.alike.copies[1]) if last else 0
        if not 1 < kinds <= MOST_PARTS:
            return []
        return [
            replace(
                self,
                nodes=[
                    nodes * (above[each.level - 1][1] == kind if each.level else 0.0)
                    for each, nodes in zip(self.problem.asked, self.nodes, strict=True)
                ],
            )
            for kind in range(kinds)
        ]

    def _bound_of_product(self, x: Array) -> float:
        """By weights of leaves times weights of cells."""
        alike, asked = self.problem.whole.alike, self.problem
        search = ComponentSearch(alike, np.ones(len(alike.copies)))
        components = search.at(x)
        rows, _ = self._levelled(components, FINE)
        leaves = search.record_weights(self._counted(_spreads(rows)), x)
        needed, prices = self._needed(components), self._path(components)
        cells = self._precisions(needed, prices, FINE)[1] / asked.values
        norms = [
            n * norm_of_levels(TreeNorm(alike, leaves), self._by_kind(p), cells)
            for p, n in enumerate(asked.dimensions)
        ]
        return float(sum(norms) ** 2)

    def _bound_together(self, x: Array) -> float | None:
        """By weights of leaves × cells, where kinds of leaves are few."""
        alike, asked = self.problem.whole.alike, self.problem
        if len(alike.copies[-1]) * len(self.grams[0]) > LARGEST:
            return None
        components = self._in_turn(x, ROUNDS, self._paid_together).components
        paths, path = np.unique(components.path_prices(), axis=0, return_inverse=True)
        path = path.reshape(-1)
        weights = self._precisions(self._needed(components), paths, FINE)[1]
        copies = alike.copies[-1]
        start = weights[path] * (copies / np.bincount(path, weights=copies)[path])[:, None]
        pieces = [self._by_kind(p) for p in range(len(asked.dimensions))]
        often = asked.dimensions / np.sqrt(asked.values)
        return Together(alike, pieces, often).best_norm(start) ** 2

    def _even_bound(self) -> float:
        """Components of an even tree are orthogonal: d_c dimensions, of d_c/N of every leaf."""
        asked, zero = self.problem, np.zeros_like(self.grams[0])
        sizes = np.array([each[0] for each in self.problem.whole.alike.copies])
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
        asked, found = self.problem, []
        for level, copies in enumerate(self.problem.whole.alike.copies):
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
