"""One set of other attributes, measured at every node of a tree: estimates and their covariances.

Estimates are those of least squares (`domain.tree`). A node's estimate is

    x_c = (m_c − g_c Σ m) + g_c x_v ,      g_c = u_c/S_v ,

where m is what the subtree tells alone, and the first part is independent of x_v and of all other
parts. So a sum Σ w_c x_c has the variance of those parts, level by level, with w_v = Σ g_c w_c for
the level above:

    Σ_c u_c w_c² − (Σ_c u_c w_c)²/S_v ,    at the root  V w² .

Of the nodes up to one, all weights are 1 before it and 0 behind it at every level, as Σ_c g_c = 1:
only the parents of the node in which the sum ends add anything, so that sums up to every node take
one number a level each.

Rows over the values of the attribute are rows over the nodes of its tree, where these can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, first_of, immutable
from noiseplan.domain.tree import Shape, Tree, TreeVariances
from noiseplan.errors import QueryError
from noiseplan.matrices import (
    DenseMatrix,
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.long_answers import ROUNDING
from noiseplan.mechanisms.long_block import LongBlock, largest_weights
from noiseplan.noise.law import Noise

# Rows of other matrices over the long attribute are written down up to so many numbers.
MOST_WEIGHTS: Final = 1 << 24


@immutable
@dataclass(frozen=True, eq=False)
class NodeRows:
    """Rows over the nodes of one level: single nodes, any weights on them, or sums of all nodes up
    to some.

    Weights of a row that differ by no more than its limit are the same: by rounding of the largest,
    unless rows were computed from larger ones.
    """

    level: int
    nodes: IntArray | None = None
    weights: sp.csr_array | None = None
    up_to: IntArray | None = None
    limits: Array | None = None

    @property
    def count(self) -> int:
        """How many rows."""
        if self.nodes is not None:
            return len(self.nodes)
        if self.up_to is not None:
            return len(self.up_to)
        assert self.weights is not None
        return int(self.weights.shape[0])

    def part(self, rows: slice) -> NodeRows:
        """Some of the rows."""
        if self.nodes is not None:
            return replace(self, nodes=self.nodes[rows])
        if self.up_to is not None:
            return replace(self, up_to=self.up_to[rows])
        assert self.weights is not None
        limits = None if self.limits is None else self.limits[rows]
        return replace(self, weights=sp.csr_array(self.weights[rows]), limits=limits)

    def sparse(self, size: int) -> sp.csr_array:
        """The rows over all nodes of the level."""
        if self.up_to is not None:
            raise QueryError(
                f"{len(self.up_to):,} prefix sums of {size:,} values are too many numbers to be "
                f"written down for this: ask for fewer of them"
            )
        if self.nodes is None:
            assert self.weights is not None
            return self.weights
        count = len(self.nodes)
        entries = np.ones(count), (np.arange(count), self.nodes)
        return sp.csr_array(entries, shape=(count, size))

    def over(self, tree: Tree, level: int) -> NodeRows | None:
        """The same over a level above, where rows give all children of a node the same weight."""
        if level >= self.level:
            return self
        if self.weights is None:
            return None
        weights, limits = self.weights, self.limits
        limits = ROUNDING * largest_weights(weights) if limits is None else limits
        for at in range(self.level, level, -1):
            first = sp.csr_array(weights[:, tree.starts[at - 1]])
            if (largest_weights(first[:, tree.parents[at - 1]] - weights) > limits).any():
                return None
            weights = first
        return NodeRows(level, weights=weights, limits=limits)

    def down(self, tree: Tree, level: int) -> sp.csr_array:
        """The same over the nodes of a later level: a node is the sum of its children."""
        rows = self.sparse(tree.sizes[self.level])
        for parent in tree.parents[self.level : level]:
            rows = sp.csr_array(rows[:, parent])
        return rows


@immutable
@dataclass(frozen=True, eq=False)
class TreeBlock(LongBlock[NodeRows]):
    """The numbers of other attributes in the set, and the noise of each level's nodes."""

    tree: Tree
    others: tuple[int, ...]
    noise: tuple[Noise, ...]

    @property
    def depth(self) -> int:
        """The last level that is measured."""
        return len(self.noise) - 1

    @property
    def counts(self) -> tuple[int, ...]:
        """Nodes of each measured level."""
        return self.tree.sizes[: len(self.noise)]

    def cost_along(self) -> Array:
        cost = np.zeros((len(self.tree.of_value),) * 2)
        for level, noise in enumerate(self.noise):
            node = self.tree.node_of_value(level)
            cost += (node[:, None] == node) / noise.size[node]
        return cost

    def prices_along(self) -> Array:
        return self.price()[self.tree.node_of_value(self.depth)]

    def on_lattice(self, exact: int) -> TreeBlock:
        return replace(self, noise=tuple(noise.on_lattice(exact) for noise in self.noise))

    @cached_property
    def shape(self) -> Shape:
        """Every node by itself."""
        parents = self.tree.parents[: self.depth]
        return Shape(parents, tuple(np.ones(len(p)) for p in parents))

    @cached_property
    def precision(self) -> list[Array]:
        """One over the variance of the noise that is really drawn."""
        return [1.0 / noise.variance for noise in self.noise]

    @cached_property
    def variances(self) -> TreeVariances:
        """What every node's estimate has for variance, of each number of the set."""
        return TreeVariances.of(self.shape, self.precision)

    def price(self) -> Array:
        """Σ 1/σ² on the way to every node of the last measured level."""
        return self.tree.path_sums([1.0 / noise.size for noise in self.noise])

    def estimates(self, measured: Sequence[NDArray[np.number]]) -> list[Array]:
        """x of every level, from the noisy numbers (…, nodes) of every level."""
        flat = [each.reshape(-1, each.shape[-1]) for each in measured]
        result = [np.empty(each.shape) for each in flat]
        for some in batches(len(flat[0]), self.counts[-1], BATCH_CELLS):
            found = self._passes([each[some].astype(np.float64) for each in flat])
            for whole, part in zip(result, found, strict=True):
                whole[some] = part
        return [found.reshape(each.shape) for found, each in zip(result, measured, strict=True)]

    def _passes(self, measured: list[Array]) -> list[Array]:
        """Up the tree, to what each subtree tells alone, and down."""
        found, alone, sums = self.variances, measured, [measured[0]] * self.depth
        for level in range(self.depth, 0, -1):
            sums[level - 1] = np.add.reduceat(alone[level], self.tree.starts[level - 1], axis=-1)
            own = self.precision[level - 1] * measured[level - 1]
            alone[level - 1] = found.upward[level - 1] * (
                own + sums[level - 1] / found.below[level - 1]
            )
        result = [alone[0]]
        for level in range(1, self.depth + 1):
            step = (result[-1] - sums[level - 1]).take(self.tree.parents[level - 1], axis=-1)
            step *= self.gains[level - 1]
            step += alone[level]
            result.append(step)
        return result

    @cached_property
    def gains(self) -> list[Array]:
        """g of the nodes of every level but the root's."""
        found, parents = self.variances, self.tree.parents
        return [
            found.upward[level] / found.below[level - 1][parents[level - 1]]
            for level in range(1, self.depth + 1)
        ]

    # ------------------------------------------------------------------ rows

    def seen(self, rows: NodeRows) -> NodeRows | None:
        return rows.over(self.tree, self.depth)

    def weights(self, rows: NodeRows) -> sp.csr_array:
        return rows.down(self.tree, self.depth)

    def of_weights(self, weights: sp.csr_array) -> NodeRows:
        return NodeRows(self.depth, weights=weights)

    def values(self, estimates: list[Array]) -> Array:
        return estimates[self.depth]

    def estimate(self, estimates: list[Array], rows: NodeRows) -> Array:
        values = estimates[rows.level]
        if rows.nodes is not None:
            return values.take(rows.nodes, axis=-1)
        if rows.up_to is not None:
            return np.cumsum(values, axis=-1).take(rows.up_to, axis=-1)
        flat = rows.sparse(values.shape[-1]) @ values.reshape(-1, values.shape[-1]).T
        return np.asarray(flat).T.reshape(*values.shape[:-1], -1)

    def variance(self, rows: NodeRows) -> Array:
        if rows.nodes is not None:
            return self.variances.final[rows.level][rows.nodes]
        if rows.up_to is not None:
            return self._variance_up_to(rows)
        found, total = self.variances, np.zeros(rows.count)
        weights = rows.sparse(self.counts[rows.level])
        for level in range(rows.level, 0, -1):
            spread, inside, weights = self._step(weights, level)
            total += weights_squared(spread, found.upward[level])
            total -= weights_squared(inside, 1.0 / found.below[level - 1])
        return np.asarray(total + weights_squared(weights, found.final[0]))

    def covariance(self, rows: NodeRows, others: NodeRows) -> Array:
        if rows.up_to is not None:
            return self._covariance_up_to(rows, others)
        if others.up_to is not None:
            return self._covariance_up_to(others, rows).T
        found, total = self.variances, np.zeros((rows.count, others.count))
        sizes, pair = self.counts, (rows, others)
        weights = [sp.csr_array((each.count, sizes[self.depth])) for each in pair]
        for level in range(self.depth, -1, -1):
            for i, each in enumerate(pair):
                if each.level == level:
                    weights[i] = each.sparse(sizes[level])
            if level == 0:
                break
            (a, a_in, a_up), (b, b_in, b_up) = (self._step(w, level) for w in weights)
            total += _product(a, found.upward[level], b)
            total -= _product(a_in, 1.0 / found.below[level - 1], b_in)
            weights = [a_up, b_up]
        a, b = weights
        return np.asarray(total + _product(a, found.final[0], b))

    def _step(self, weights: sp.csr_array, level: int) -> tuple[sp.csr_array, ...]:
        """w, Σ_c u_c w_c by parent, and the weights of the level above."""
        found, parent = self.variances, self.tree.parents[level - 1]
        size = len(parent)
        entries = np.ones(size), (np.arange(size), parent)
        to_parents = sp.csr_array(entries, shape=(size, self.counts[level - 1]))
        own = found.upward[level]
        inside = sp.csr_array((weights * own) @ to_parents)
        above = sp.csr_array((weights * (own / found.below[level - 1][parent])) @ to_parents)
        return weights, inside, above

    def _steps_up(self, rows: NodeRows) -> Iterator[_Step]:
        """The way up from the nodes in which sums end."""
        assert rows.up_to is not None
        found, node, weight = self.variances, rows.up_to, np.ones(rows.count)
        for level in range(rows.level, 0, -1):
            own, parent = found.upward[level], self.tree.parents[level - 1][node]
            begin = self.tree.starts[level - 1][parent]
            before = before_node(own, node, begin)
            share = (before + own[node] * weight) / found.below[level - 1][parent]
            yield _Step(level, node, begin, parent, weight, before, share)
            node, weight = parent, share

    def _variance_up_to(self, rows: NodeRows) -> Array:
        found, total, last = self.variances, np.zeros(rows.count), np.ones(rows.count)
        for step in self._steps_up(rows):
            own = found.upward[step.level][step.node]
            total += step.before + own * step.weight**2
            total -= step.share**2 * found.below[step.level - 1][step.parent]
            last = step.share
        return np.asarray(total + found.final[0][0] * last**2)

    def _covariance_up_to(self, rows: NodeRows, others: NodeRows) -> Array:
        """With a few rows of any other kind; sums are of the last level."""
        found, total = self.variances, np.zeros((rows.count, others.count))
        weights, last = others.sparse(self.counts[others.level]).toarray().T, np.ones(rows.count)
        for step in self._steps_up(rows):
            last = step.share
            if step.level > others.level:
                continue
            above, own = step.level - 1, found.upward[step.level][:, None] * weights
            sums = np.add.reduceat(own, self.tree.starts[above])
            total += before_node(own, step.node, step.begin) + step.weight[:, None] * own[step.node]
            total -= step.share[:, None] * sums[step.parent]
            weights = sums / found.below[above][:, None]
        return np.asarray(total + found.final[0][0] * last[:, None] * weights[0])


class _Step(NamedTuple):
    """Of sums of nodes: where they end at a level, and where its parent begins; w there, Σ u of the
    siblings before it, and w of the parent."""

    level: int
    node: IntArray
    begin: IntArray
    parent: IntArray
    weight: Array
    before: Array
    share: Array


def before_node(own: Array, node: IntArray, begin: IntArray) -> Array:
    """Σ of the siblings before each node."""
    sums = np.cumsum(own, axis=0) - own
    return np.asarray(sums[node] - sums[begin])


def _product(a: sp.csr_array, by: Array, b: sp.csr_array) -> Array:
    """A diag(by) Bᵀ, as numbers."""
    return np.asarray(sp.csr_array((a * by) @ b.T).toarray())


def weights_squared(weights: sp.csr_array, by: Array) -> Array:
    """Σ w² · by, of every row."""
    return np.asarray(weights.power(2) @ by)


def node_rows(matrix: Matrix, tree: Tree) -> Iterator[NodeRows | None]:
    """What rows over the values ask of the tree, piece by piece; None where it cannot tell."""
    for part in stacked_parts(matrix):
        yield _rows_of_part(part, tree)


def _rows_of_part(matrix: Matrix, tree: Tree) -> NodeRows | None:
    group = groups_of(matrix)
    found = None if group is None else tree.level_of(group)
    if found is not None:
        return NodeRows(found[0], nodes=found[1][: matrix.shape[0]])
    if matrix.shape[0] * matrix.shape[1] > MOST_WEIGHTS and group is None:
        return _up_to(matrix, tree)
    rows = sp.csr_array(matrix.dense()) if group is None else _of_groups(group, matrix.shape[0])
    return by_node(rows, tree, ROUNDING * largest_weights(rows))


def _up_to(matrix: Matrix, tree: Tree) -> NodeRows | None:
    """Prefix sums of values that are the last nodes, in this order; None for all else."""
    inner = matrix.inner if isinstance(matrix, PaddedMatrix) else matrix
    values = np.arange(inner.shape[1])
    told = isinstance(inner, PrefixMatrix) and np.array_equal(tree.of_value[: len(values)], values)
    return NodeRows(tree.depth, up_to=values) if told else None


def groups_of(matrix: Matrix) -> IntArray | None:
    """The group of every value, where rows count groups that hold all of them; None for others.

    Values that are never counted, missing ones, are groups of their own, behind the others.
    """
    if isinstance(matrix, PaddedMatrix):
        inner = groups_of(matrix.inner)
        more = np.arange(matrix.columns - matrix.inner.shape[1])
        return None if inner is None else np.append(inner, matrix.inner.shape[0] + more)
    if isinstance(matrix, TotalMatrix):
        return np.zeros(matrix.size, dtype=np.int64)
    if isinstance(matrix, IdentityMatrix):
        return np.arange(matrix.size)
    if isinstance(matrix, DenseMatrix):
        return _written_groups(matrix.values)
    return matrix.group if isinstance(matrix, GroupMatrix) else None


def _written_groups(rows: Array) -> IntArray | None:
    """The same of a matrix that is written down: every value is in one row, and each has some."""
    ones = rows == 1
    apart = (ones.sum(axis=0) == 1).all() and ones.any(axis=1).all()
    return ones.argmax(axis=0) if apart and np.count_nonzero(rows) == rows.shape[1] else None


def _of_groups(group: IntArray, count: int) -> sp.csr_array:
    """A row for each of the first groups, over the values."""
    entries = np.ones(len(group)), (group, np.arange(len(group)))
    return sp.csr_array(entries, shape=(int(group.max()) + 1, len(group)))[:count]


def by_node(rows: sp.csr_array, tree: Tree, limits: Array) -> NodeRows | None:
    """Rows over the values as rows over the last nodes; None where one tells more apart than its
    limit."""
    weights = sp.csr_array(rows[:, first_of(tree.of_value)])
    told = (largest_weights(weights[:, tree.of_value] - rows) <= limits).all()
    return NodeRows(tree.depth, weights=weights, limits=limits) if told else None
