"""Weighted wavelets and weighted trees over ordered values, every column of L1 norm one at most.

References
----------
Li, "Algorithms for answering linear queries under differential privacy", Program 5.1.3 (weights of
a basis, with the constraint |Q|ᵀu ≤ 1) and Program 6.4.1 (greedy budgets of a tree, as in DAWA).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

# Steps and gap of the weights of a basis; a tree's shares are tried on this grid.
STEPS, GAP = 500, 1e-7
SHARES: Final = np.arange(100) / 100.0


def halves(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """(start, middle, stop) of every inner node of the binary tree over a range, parents first."""
    if stop - start > 1:
        middle = (start + stop + 1) // 2
        yield start, middle, stop
        yield from halves(start, middle)
        yield from halves(middle, stop)


def haar(size: int) -> Array:
    """The total, and for every node of a binary tree its left half minus its right half."""
    rows = [np.ones(size)]
    for start, middle, stop in halves(0, size):
        row = np.zeros(size)
        row[start:middle], row[middle:stop] = 1.0, -1.0
        rows.append(row)
    return np.array(rows)


def weigh(basis: Array, gram: Array) -> tuple[float, Array]:
    """The best weights u of the rows of an invertible Q: tr(G (AᵀA)⁻¹) for A = diag(u)Q, and A.

    Notes
    -----
    With c_i = (Q⁻ᵀGQ⁻¹)_ii minimise Σ c_i/u_i² subject to |Q|ᵀu ≤ 1. For prices y of the columns,
    u_i = (c_i/(|Q|y)_i)^{1/3} is the best up to scale; a column that is overdrawn becomes dearer,
    y_j ← y_j (|Q|ᵀu)_j, until none is.
    """
    inverse, size = np.linalg.inv(basis), np.abs(basis)
    costs = np.einsum("ji,ji->i", inverse, gram @ inverse)
    costs = np.maximum(costs, 1e-12 * costs.max())
    prices, best, found = np.ones(len(basis)), np.inf, np.ones(len(basis))
    for _ in range(STEPS):
        weights = np.cbrt(costs / (size @ prices))
        load = size.T @ weights
        fitted = weights / load.max()
        value = float((costs / fitted**2).sum())
        if value < best:
            best, found = value, fitted
        if load.max() <= (1 + GAP) * (prices @ load) / prices.sum():
            break
        prices = prices * load / load.max()
    return best, found[:, None] * basis


@dataclass(frozen=True, eq=False)
class _Subtree:
    """The budgets of the nodes under a node, and what they make of the values there."""

    start: int
    stop: int
    rows: list[tuple[int, int, float]]  # (start, stop, budget) of nodes with a budget
    inverse: Array  # (YᵀD²Y)⁻¹ over the values
    trace: float  # tr(G M⁻¹)


def tree(gram: Array) -> tuple[float, Array]:
    """A binary tree with greedy budgets: tr(G (AᵀA)⁻¹), and A with paths that sum to one.

    Bottom up, every node takes the share λ of the budget of the nodes under it that serves the
    workload best; deep nodes count the queries that cross them less (decay), because their
    ancestors, still without budget, will serve those.
    """
    root = _subtree(gram, 0, len(gram), 0)
    rows = np.zeros((len(root.rows), len(gram)))
    for number, (start, stop, budget) in enumerate(root.rows):
        rows[number, start:stop] = budget
    return root.trace, rows


def _subtree(gram: Array, start: int, stop: int, depth: int) -> _Subtree:
    if stop - start == 1:
        cost = float(gram[start, start])
        return _Subtree(start, stop, [(start, stop, 1.0)], np.ones((1, 1)), cost)
    middle = (start + stop + 1) // 2
    left = _subtree(gram, start, middle, depth + 1)
    right = _subtree(gram, middle, stop, depth + 1)
    return _with_root(gram[start:stop, start:stop], left, right, 2.0 ** (-depth / 2))


def _with_root(gram: Array, left: _Subtree, right: _Subtree, decay: float) -> _Subtree:
    size, cut = len(gram), left.stop - left.start
    below = np.zeros((size, size))
    below[:cut, :cut], below[cut:, cut:] = left.inverse, right.inverse
    towards = below.sum(axis=1)  # B1
    whole = float(towards @ gram @ towards)
    apart = float(towards[:cut] @ gram[:cut, :cut] @ towards[:cut])
    apart += float(towards[cut:] @ gram[cut:, cut:] @ towards[cut:])
    spread, before = float(towards.sum()), left.trace + right.trace
    counted = decay * whole + (1 - decay) * apart
    kept = (1 - SHARES) ** 2
    pull = SHARES**2 / (kept + SHARES**2 * spread)
    best = int(np.argmin((before - counted * pull) / kept))
    share, gain = float(SHARES[best]), float(pull[best])
    inverse = (below - gain * np.outer(towards, towards)) / kept[best]
    rows = [(a, b, budget * (1 - share)) for a, b, budget in left.rows + right.rows]
    if share > 0:
        rows.append((left.start, right.stop, share))
    # The parent reckons with what the queries inside this range will cost, without decay.
    trace = (before - whole * gain) / float(kept[best])
    return _Subtree(left.start, right.stop, rows, inverse, trace)
