"""Nodes of a tree beside their siblings: what is measured of them, and how their sums vary.

See `mechanisms.measured_levels` for the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.domain.tree import Tree
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.tree_block import NodeRows, before_node
from noiseplan.noise.law import Noise
from noiseplan.privacy.rounding import margin


@immutable
@dataclass(frozen=True, eq=False)
class Siblings:
    """Nodes of one level beside their siblings: what of them is measured, and how they vary."""

    parent: IntArray
    starts: IntArray
    parts: Array  # t
    kept: NDArray[np.bool_]  # whether a node has siblings
    sizes: Array  # the parameters of the noise, zero where there is none
    variances: Array  # and what is really drawn

    @staticmethod
    def of(tree: Tree, level: int, parts: Array, noise: Noise) -> Siblings:
        parent, starts = tree.parents[level - 1], tree.starts[level - 1]
        kept = (np.bincount(parent) > 1)[parent]
        sizes, variances = np.zeros(len(parent)), np.zeros(len(parent))
        sizes[kept], variances[kept] = noise.size, noise.variance
        return Siblings(parent, starts, parts, kept, sizes, variances)

    @cached_property
    def total(self) -> Array:
        """s, at every node."""
        return self.sums(self.parts)[self.parent]

    @cached_property
    def share(self) -> Array:
        """g."""
        return np.asarray(self.parts / self.total)

    @cached_property
    def spread(self) -> Array:
        """d'."""
        return np.asarray(self.variances / self.total**2)

    @cached_property
    def spread_sum(self) -> Array:
        """D' of every parent."""
        return self.sums(self.spread)

    def sums(self, values: Array) -> Array:
        """Σ over the children of each parent, of (…, nodes)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=-1))

    @cached_property
    def to_parents(self) -> sp.csr_array:
        """Nodes × parents."""
        count = len(self.parent)
        entries = np.ones(count), (np.arange(count), self.parent)
        return sp.csr_array(entries, shape=(count, len(self.starts)))

    def single(self) -> Array:
        """What a node by itself has of this level's variance."""
        own = self.spread * (1.0 - 2.0 * self.share)
        return np.asarray(own + self.share**2 * self.spread_sum[self.parent])

    def price(self) -> Array:
        """What a record of each node pays for a unit column: (s − t)²/d of its own number, and t²/d
        of those of its siblings, which is what all of them pay less its own.

        Each of the siblings of a node pays at least the sum that this is taken from, so that what
        it loses by rounding is small beside what the dearest record pays.
        """
        squares = self._squares
        beside = np.maximum(self.sums(squares)[self.parent] - squares, 0.0)
        return np.asarray((self.total - self.parts) ** 2 / self._noisy + beside)

    def surely(self) -> Array:
        """The same, and no less than that for any node by itself, the cheapest too."""
        children = int(np.bincount(self.parent).max())
        return self.price() + margin(children) * self.sums(self._squares)[self.parent]

    @property
    def _noisy(self) -> Array:
        """The parameters of the noise, without end where nothing is measured."""
        return np.where(self.kept, self.sizes, np.inf)

    @property
    def _squares(self) -> Array:
        """t²/d."""
        return np.asarray(self.parts**2 / self._noisy)

    def differences(self, of_nodes: NDArray[np.number]) -> NDArray[np.number]:
        """s x_j − t_j x_p of the nodes with siblings, (nodes, cells): integers where all of these
        are."""
        whole = np.issubdtype(of_nodes.dtype, np.integer) and (self.parts % 1 == 0).all()
        kind = np.int64 if whole else np.float64
        parts, total = (each.astype(kind)[self.kept, None] for each in (self.parts, self.total))
        above = np.add.reduceat(of_nodes, self.starts, axis=0)[self.parent[self.kept]]
        return np.asarray(of_nodes[self.kept] * total - above * parts)

    def down(self, measured: Array, above: Array) -> Array:
        """x̂ of the nodes, from B⁺ω of those with siblings and x̂ of the parents, (…, nodes)."""
        whole = np.zeros((*measured.shape[:-1], len(self.parent)))
        whole[..., self.kept] = measured
        back = (above - self.sums(whole) / self.total[self.starts])[..., self.parent]
        return np.asarray(self.share * back + whole / self.total)

    def up(self, weights: sp.csr_array, by: Array) -> sp.csr_array:
        """Σ_j w_j by_j of the children of each parent, for rows w over the nodes."""
        return sp.csr_array((weights * by) @ self.to_parents)


@immutable
@dataclass(frozen=True, eq=False)
class NodeSums:
    """Sums of nodes: what each component has of their covariances.

    `root` is the variance of the whole, and `below` are the levels under it.
    """

    root: float
    below: Sequence[Siblings]

    @cached_property
    def single(self) -> list[Array]:
        """Of every level, components × nodes: the variance of each node by itself."""
        found = [np.full((1, 1), self.root)]
        for siblings in self.below:
            above = found[-1][:, siblings.parent] * siblings.share**2
            found.append(np.vstack([above, siblings.single()]))
        return found

    def variance(self, rows: NodeRows) -> Array:
        """Components × rows."""
        if rows.nodes is not None:
            return self.single[rows.level][:, rows.nodes]
        if rows.up_to is not None:
            return self._variance_up_to(rows)
        weights = rows.sparse(self._size(rows.level))

        def each_row(one: sp.csr_array, two: sp.csr_array) -> Array:
            return np.asarray(one.multiply(two).sum(axis=1)).ravel()

        return self._pairs(weights, weights, rows.level, each_row)

    def covariance(self, rows: NodeRows, others: NodeRows) -> Array:
        """Components × rows × rows; what lies below the upper level of two is apart."""
        if rows.up_to is not None:
            return self._covariance_up_to(rows, others)
        if others.up_to is not None:
            return self._covariance_up_to(others, rows).transpose(0, 2, 1)
        level = min(rows.level, others.level)
        one, two = (self._at(each, level) for each in (rows, others))
        return self._pairs(one, two, level, lambda a, b: np.asarray((a @ b.T).toarray()))

    def _size(self, level: int) -> int:
        return len(self.below[level - 1].parent) if level else 1

    def _at(self, rows: NodeRows, level: int) -> sp.csr_array:
        """Weights of rows as they are inherited by a level above."""
        weights = rows.sparse(self._size(rows.level))
        for at in range(rows.level, level, -1):
            weights = self.below[at - 1].up(weights, self.below[at - 1].share)
        return weights

    def _pairs(
        self,
        one: sp.csr_array,
        two: sp.csr_array,
        level: int,
        product: Callable[[sp.csr_array, sp.csr_array], Array],
    ) -> Array:
        """Covariances of rows over the nodes of a level, by component."""
        found = []
        for siblings in reversed(self.below[:level]):
            own = product(sp.csr_array(one * siblings.spread), two)
            a, a_side = (siblings.up(one, by) for by in (siblings.share, siblings.spread))
            b, b_side = (siblings.up(two, by) for by in (siblings.share, siblings.spread))
            joint = product(sp.csr_array(a * siblings.spread_sum), b)
            found.append(own - product(a, b_side) - product(a_side, b) + joint)
            one, two = a, b
        found.append(self.root * product(one, two))
        return np.array(found[::-1])

    def _variance_up_to(self, rows: NodeRows) -> Array:
        """Of sums of all nodes up to some: siblings before the last node count once, the last with
        its weight, and those behind it not."""
        assert rows.up_to is not None
        node, weight, found = rows.up_to, np.ones(rows.count), []
        for siblings in reversed(self.below[: rows.level]):
            parent = siblings.parent[node]
            begin, spread = siblings.starts[parent], siblings.spread
            before = before_node(spread, node, begin)
            share = before_node(siblings.share, node, begin) + weight * siblings.share[node]
            side, own = (before + weight**power * spread[node] for power in (1, 2))
            found.append(own - 2.0 * share * side + share**2 * siblings.spread_sum[parent])
            node, weight = parent, share
        found.append(weight**2 * self.root)
        return np.array(found[::-1])

    def _covariance_up_to(self, rows: NodeRows, others: NodeRows) -> Array:
        """Of such sums with a few rows of any other kind."""
        assert rows.up_to is not None
        node, weight, found = rows.up_to, np.ones(rows.count), []
        level = min(rows.level, others.level)
        dense = self._at(others, level).toarray().T
        for at in range(rows.level, 0, -1):
            siblings = self.below[at - 1]
            parent = siblings.parent[node]
            begin, spread = siblings.starts[parent], siblings.spread
            share = before_node(siblings.share, node, begin) + weight * siblings.share[node]
            if at <= level:
                side = before_node(spread, node, begin) + weight * spread[node]
                own = spread[:, None] * dense
                above = np.add.reduceat(siblings.share[:, None] * dense, siblings.starts)
                beside = np.add.reduceat(own, siblings.starts)[parent]
                each = before_node(own, node, begin) + weight[:, None] * own[node]
                each = each - share[:, None] * beside - side[:, None] * above[parent]
                joint = siblings.spread_sum[parent][:, None] * above[parent]
                found.append(each + share[:, None] * joint)
                dense = above
            node, weight = parent, share
        found.append(self.root * weight[:, None] * dense)
        return np.array(found[::-1])
