"""A tree by what tells children from their parent: how the levels share what a record may cost.

For every parent p the children j are estimated as a part g_j of p's estimate, Σ g_j = 1, plus what
was measured of their differences. If a record at j pays e_j for that, the best differences have

    g_j = 1/(1 + S e_j) ,   Σ_j g_j = 1 ,   covariance  S (diag(g) − g gᵀ) ,

S one number of each parent. (Children measured with variances u_j = S g_j, their sum apart: a
record at j then pays 1/u_j − 1/S.) The differences of each parent are measured by themselves, so
that a node v of level l has the variance

    Σ_{c ≤ l} k_c(v) ,   k_l(v) = S g_v (1 − g_v) ,   k_c(v) = g_v² k_c(parent of v) ,

component by component, and every level c may measure its differences by rows of its own over the
other attributes: k_c then counts as many times as these rows say (φ).

A node hands to each child what it does not pay for, and children pay a free part of it, which makes
every record pay the same:

    paid_j = b_p (1 − ρ_j) = y_c e_j ,    b_j = b_p ρ_j ,    b = 1 above the root,

y_c the price of level c. Nodes below which nothing is told apart pay all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise
from noiseplan.optimize.tree_sharing import Alike

STEPS, GAIN = 300, 1e-9
# Of Newton's iteration for S, which approaches it from below and ends quadratically.
NEWTON_STEPS: Final = 60
SAME_SUM: Final = 1e-13
# ρ stays inside this logistic range, where it can be found again.
STEEPEST: Final = 30.0

# What a node keeps of what it paid, where others on the way leave nothing.
LEAST_KEPT: Final = 1e-3
# Numbers of leaves × cells that are held at once.
AT_ONCE: Final = 1 << 22

# By component and level from it on: what counts for k_c of every kind of node.
Counted = list[list[Array]]


@dataclass(frozen=True, eq=False)
class Components:
    """What nodes of every level pay for their differences, and how far they vary.

    Arrays are over kinds of nodes (`Alike`). Only children have no differences: e is zero.
    """

    tree: Alike
    paid: list[Array]  # e
    spread: list[Array]  # S of the parent; of the root its own variance
    share: list[Array]  # g

    @cached_property
    def own(self) -> list[Array]:
        """k_l of the nodes of level l."""
        first, *rest = zip(self.spread, self.share, strict=True)
        return [first[0], *(s * g * (1.0 - g) for s, g in rest)]

    @cached_property
    def variances(self) -> list[list[Array]]:
        """k_c of the nodes of every level, for c from zero to that level."""
        found = [[self.own[0]]]
        for level in range(1, len(self.own)):
            parent, square = self.tree.shape.parents[level - 1], self.share[level] ** 2
            found.append([*(k[parent] * square for k in found[-1]), self.own[level]])
        return found

    def path_prices(self) -> Array:
        """e along the way to every kind of leaf, leaves × components."""
        found = self.paid[0][:, None]
        for level in range(1, len(self.paid)):
            parent = self.tree.shape.parents[level - 1]
            found = np.column_stack([found[parent], self.paid[level]])
        return found


def _last_positive(path: Array) -> IntArray:
    """The last column of every row that is not zero; the first is none."""
    return np.asarray(path.shape[1] - 1 - np.argmax(path[:, ::-1] > 0, axis=1))


@dataclass(frozen=True, eq=False)
class ComponentSearch:
    """All ways to share on one tree, levels at the prices y."""

    tree: Alike
    prices: Array

    def start(self) -> Array:
        """Every level pays the same."""
        last = len(self.tree.copies) - 1
        levels = [np.full(len(n), np.log(max(last - at, 1))) for at, n in enumerate(self._kinds)]
        return np.concatenate(levels)

    def best(self, counted: Counted, start: Array) -> tuple[Array, Components]:
        """Where Σ φ k is least, from a start, and what that makes of the tree."""
        _, x = minimise(lambda x: self._value(counted, x), start, steps=STEPS, gain=GAIN)
        return x, self.at(x)

    def at(self, x: Array) -> Components:
        """What ρ, by its logistic numbers, makes of the tree."""
        return self._paid(self._handed(x))

    def _paid(self, handed: list[tuple[float, Array, Array]]) -> Components:
        return self._of([left * (1.0 - rho) / price for price, rho, left in handed])

    def within(self, components: Components, squares: Array, most: float) -> Components:
        """The same, but that records of every cell pay up to `most`, by squares of levels × cells.

        The last node that pays on the way to a leaf pays what the others leave: leaves whose way is
        unlike that of most others do not make these pay for it.
        """
        path, paid = components.path_prices(), [each.copy() for each in components.paid]
        last, leaf = _last_positive(path), np.arange(len(path))
        before = path.copy()
        before[leaf, last] = 0.0
        free = np.empty(len(path))
        for part in np.array_split(leaf, -(-len(leaf) * squares.shape[1] // AT_ONCE)):
            own = squares[last[part]]
            left = np.divide(
                most - before[part] @ squares, own, out=np.full(own.shape, np.inf), where=own > 0
            )
            free[part] = left.min(axis=1)
        node = leaf
        for level in range(len(paid) - 1, -1, -1):
            mine = last == level
            own, rest = paid[level][node[mine]], free[mine]
            # Of a level that has no rows nodes may pay anything: they pay what they did.
            rest = np.where(np.isfinite(rest), rest, own)
            paid[level][node[mine]] = np.maximum(rest, LEAST_KEPT * own)
            node = self.tree.shape.parents[level - 1][node] if level else node
        return self._of(paid)

    def _of(self, paid: list[Array]) -> Components:
        """With the best differences for what nodes pay."""
        spread, share = [], []
        for level, e in enumerate(paid):
            if level == 0:
                spread.append(1.0 / e)
                share.append(np.ones(1))
            else:
                s = self._sums(level, e)[self.tree.shape.parents[level - 1]]
                spread.append(s)
                share.append(1.0 / (1.0 + s * e))
        return Components(self.tree, paid, spread, share)

    # ------------------------------------------------------------------ who pays

    @property
    def _kinds(self) -> list[Array]:
        """Of every level but the last."""
        return self.tree.copies[:-1]

    @cached_property
    def _only(self) -> list[NDArray[np.bool_]]:
        """Nodes without siblings, by level; the root is none of them."""
        shape, found = self.tree.shape, [np.zeros(1, dtype=bool)]
        for level, parent in enumerate(shape.parents, 1):
            found.append((shape.sums(level, shape.often[level - 1]) == 1)[parent])
        return found

    @cached_property
    def _ends(self) -> list[NDArray[np.bool_]]:
        """Nodes below which nothing is told apart, by level."""
        shape, found = self.tree.shape, [np.ones(len(self.tree.copies[-1]), dtype=bool)]
        for level in range(len(self.tree.copies) - 1, 0, -1):
            chain = self._only[level] & found[-1]
            found.append(shape.sums(level, chain.astype(np.float64)) > 0)
        return found[::-1]

    def _rho(self, x: Array) -> list[Array]:
        """ρ of every level."""
        found, begin = [], 0
        for level, copies in enumerate(self.tree.copies):
            if level < len(self._kinds):
                own = x[begin : begin + len(copies)].clip(-STEEPEST, STEEPEST)
                begin += len(copies)
                rho = np.where(self._ends[level], 0.0, 1.0 / (1.0 + np.exp(-own)))
            else:
                rho = np.zeros(len(copies))
            found.append(np.where(self._only[level], 1.0, rho))
        return found

    def _handed(self, x: Array) -> list[tuple[float, Array, Array]]:
        """y, ρ, and b of the parent, by level."""
        found, below = [], np.ones(1)
        for level, rho in enumerate(self._rho(x)):
            left = below if level == 0 else below[self.tree.shape.parents[level - 1]]
            found.append((float(self.prices[level]), rho, left))
            below = left * rho
        return found

    def _sums(self, level: int, e: Array) -> Array:
        """S of every parent of a level, where Σ 1/(1 + S e) = 1; one where there is one child."""
        shape, often = self.tree.shape, self.tree.shape.often[level - 1]
        parent = shape.parents[level - 1]
        count = shape.sums(level, often)
        several = count > 1
        largest = np.zeros(len(count))
        np.maximum.at(largest, parent, e)
        s = np.where(several, (count - 1.0) / np.where(several, largest, 1.0), 1.0)
        for _ in range(NEWTON_STEPS):  # convex and falling, from the left
            g = 1.0 / (1.0 + s[parent] * e)
            off = shape.sums(level, often * g) - 1.0
            if (off[several] <= SAME_SUM * count[several]).all():
                break
            slope = shape.sums(level, often * g * g * e)
            s = s + np.where(several, off / np.where(several, slope, 1.0), 0.0)
        return s

    # ------------------------------------------------------------------ its slope

    def record_weights(self, counted: Counted, x: Array) -> Array:
        """λ of one copy of each kind of leaf: what a cheaper record there would gain; the same of
        all where none would, as where nothing is asked of the last level."""
        _, _, of_paid = self._adjoint(counted, x)
        found = -of_paid[0]
        for level in range(1, len(of_paid)):
            above = found[self.tree.shape.parents[level - 1]]
            # Where the only child pays nothing, what its parent pays is for its records.
            found = np.where(self._only[level], above, -of_paid[level])
        found = np.maximum(found, 0.0) / self.tree.copies[-1]
        found = found if found.any() else np.ones(len(found))
        return np.asarray(found / (found @ self.tree.copies[-1]))

    def _value(self, counted: Counted, x: Array) -> tuple[float, Array]:
        """log Σ φ k, and its slope by x."""
        value, slope, _ = self._adjoint(counted, x)
        return float(np.log(value)), slope / value

    def _adjoint(self, counted: Counted, x: Array) -> tuple[float, Array, list[Array]]:
        """Σ φ k and its slopes, by x and by what the nodes of every level pay: both passes, and
        their adjoint."""
        handed, shape = self._handed(x), self.tree.shape
        found = self._paid(handed)
        last = len(found.own) - 1
        # a_c of every level from c on: what k_c of a node counts for, with all below it.
        below = [list(each) for each in counted]
        for c, levels in enumerate(below):
            for level in range(last, c, -1):
                gain = found.share[level] ** 2 * levels[level - c]
                levels[level - 1 - c] = levels[level - 1 - c] + shape.sums(level, gain)
        value = sum(float(found.own[c] @ below[c][0]) for c in range(last + 1))
        slopes, paid, of_left = [], [], np.zeros(len(self.tree.copies[-1]))
        for level in range(last, -1, -1):
            price, rho, left = handed[level]
            of_paid = self._slope_of_paid(found, below, level) / price
            of_paid = np.where(self._only[level], 0.0, of_paid)
            paid.append(of_paid)
            free = ~(self._ends[level] | self._only[level])
            slopes.append(np.where(free, left * (of_left - of_paid) * rho * (1.0 - rho), 0.0))
            each = (1.0 - rho) * of_paid + rho * of_left
            of_left = shape.sums(level, each) if level else each
        return value, np.concatenate(slopes[:0:-1]), paid[::-1]

    def _slope_of_paid(self, found: Components, below: Counted, level: int) -> Array:
        """∂/∂e of every node of a level."""
        if level == 0:
            return np.asarray(-below[0][0] * found.spread[0] ** 2)
        shape, often = self.tree.shape, self.tree.shape.often[level - 1]
        parent, e = shape.parents[level - 1], found.paid[level]
        s, g, own = found.spread[level], found.share[level], below[level][0]
        inherited = np.zeros_like(g)
        for c, k in enumerate(found.variances[level - 1]):
            inherited += below[c][level - c] * k[parent]
        of_share = 2.0 * g * inherited + own * s * (1.0 - 2.0 * g)
        of_sum = shape.sums(level, own * g * (1.0 - g) - of_share * g * g * e)
        bend = shape.sums(level, often * g * g * e)
        moved = of_sum / np.where(bend > 0, bend, 1.0)
        return np.asarray(-s * g * g * (of_share + often * moved[parent]))
