"""P-identity strategies by gradient: the best few rows to add to the identity, for Laplace noise.

A p-identity strategy measures every value and p weighted sums of values,

    A = [I; Θ] D ,   D = diag(1/(1 + Σ_r Θ_rj)) ,   Θ ≥ 0 (p × n) ,

so that every column has L1 norm one: one record costs the same whatever its value. With G = WᵀW the
sum of variances of W at unit noise is tr(G (AᵀA)⁻¹), and by Woodbury's formula

    (AᵀA)⁻¹ = D⁻¹ (I − Θᵀ(I + ΘΘᵀ)⁻¹Θ) D⁻¹ ,

which costs O(n²p) with its gradient instead of O(n³).

References
----------
McKenna, Miklau, Hay and Machanavajjhala, "Optimizing error of high-dimensional statistical queries
under differential privacy", 2018 (the strategy class, OPT_0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.laplace_allocation import Loss
from noiseplan.optimize.lbfgs import Smooth, descend

Told = Callable[[int], None]
# Steps of the gradient, and the gain below which it ends.
STEPS: Final = 250
GAIN: Final = 1e-7
# For single rows: what all steps of one power may take, and how many that may be.
ROW_WORK, ROW_STEPS = 1e9, (20, 200)
# What all steps of one descent may take where there are many values, in multiplications: some half
# minute. Fewer steps than the least lead nowhere.
MOST_WORK, LEAST_STEPS = 4e11, 60
# After so many steps a descent is given up that is still so many times above what it is to beat.
GIVEN_UP: Final = ((40, 1.5), (80, 1.2), (120, 1.06))
# Every so many values one row, as far as rows start out random or as blocks.
VALUES_PER_ROW: Final = 16
# Rows start at this weight, with a little disorder so that none moves as another does.
WEIGHT, DISORDER = 0.5, 0.02
# Below, blocks are the second start; from there on random rows; of many values the tree is the only
# start, because each costs seconds and none does better.
FEW, MANY = 128, 512


def best_p_identity(gram: Array, extra: Array | None = None) -> tuple[float, Array]:
    """The best Θ found from several starts for the Gram matrix G, and its tr(G (AᵀA)⁻¹).

    `extra` is one more Θ to start from, such as a short workload's own rows.
    """
    found = [improve(gram, start) for start in starts(len(gram), extra)]
    return min(found, key=lambda pair: pair[0])


def starts(size: int, extra: Array | None = None) -> Iterator[Array]:
    """Where the gradient starts: a binary tree of blocks, blocks alone, random rows; `extra`."""
    rng = np.random.default_rng(0)
    blocks = max(size // VALUES_PER_ROW, 1)
    shapes = [tree_of_blocks(size, max(blocks // 2, 1))]
    if size < FEW:
        shapes.append(equal_blocks(size, max(blocks, 2)))
    for shape in shapes:
        yield WEIGHT * shape + DISORDER * rng.random(shape.shape)
    if FEW <= size < MANY:
        yield rng.random((blocks, size))
    if extra is not None and len(extra):
        yield np.abs(extra)


def best_of_many(
    gram: Array, rows: Array | None, known: float = inf, told: Told = lambda steps: None
) -> tuple[float, Array]:
    """The same where every step is dear: from a tree, and from rows that are good already.

    Rows are followed as squares of numbers, a step of which is cheaper and goes farther. What stays
    far above what is `known` is given up. `told` hears of every step.
    """
    tree, found = next(starts(len(gram))), []
    if rows is not None and (steps := affordable_steps(*rows.T.shape)) >= LEAST_STEPS:
        disorder = np.random.default_rng(0).random(rows.shape)
        start = rows + DISORDER * rows.max(axis=1, keepdims=True) * disorder
        found.append(_followed(gram, start, _Ends(steps, True, known, told)))
        known = min(known, found[0][0])
    steps = affordable_steps(*tree.T.shape)
    found.append(_followed(gram, tree, _Ends(steps, False, known, told)))
    return min(found, key=lambda pair: pair[0])


def affordable_steps(size: int, rows: int) -> int:
    """Steps that half a minute has room for: one multiplies G and four products with Θ."""
    return int(min(STEPS, MOST_WORK / (2 * size * rows * (size + 4 * rows))))


@dataclass(frozen=True)
class _Ends:
    """How far a descent goes, and in what: Θ itself, not below zero, or its root."""

    steps: int
    squared: bool
    known: float
    told: Told

    def options(self) -> dict[str, float]:
        return {"maxiter": self.steps, "maxfun": 2 * self.steps, "ftol": GAIN}

    def watch(self, scale: float) -> Callable[[float], bool]:
        """Whether enough was seen of a descent, asked after every step."""
        taken = 0

        def enough(value: float) -> bool:
            nonlocal taken
            taken += 1
            self.told(1)
            return any(taken == at and value * scale > far * self.known for at, far in GIVEN_UP)

        return enough


def _followed(gram: Array, start: Array, ends: _Ends) -> tuple[float, Array]:
    scale, shape = float(np.trace(gram)) or 1.0, start.shape
    unit, enough = gram / scale, ends.watch(scale)

    def error(x: Array) -> tuple[float, Array]:
        return _error(unit, x.reshape(shape))

    def of_roots(x: Array) -> tuple[float, Array]:
        value, slope = error(x * x)
        return value, 2.0 * x * slope

    if ends.squared:
        value, root = descend(of_roots, np.sqrt(start).ravel(), ends.options(), enough=enough)
        return value * scale, (root * root).reshape(shape)
    value, theta = descend(error, start.ravel(), ends.options(), least=0.0, enough=enough)
    return value * scale, theta.reshape(shape)


def equal_blocks(size: int, count: int) -> Array:
    """`count` rows that sum consecutive values, about equally many each."""
    edges = np.rint(np.linspace(0, size, min(count, size) + 1)).astype(int)
    values = np.arange(size)
    return ((edges[:-1, None] <= values) & (values < edges[1:, None])).astype(float)


def tree_of_blocks(size: int, leaves: int) -> Array:
    """Blocks, pairs of blocks, and so on to the whole."""
    levels = []
    while True:
        levels.append(equal_blocks(size, leaves))
        if leaves <= 1:
            return np.vstack(levels)
        leaves //= 2


def improve(gram: Array, start: Array) -> tuple[float, Array]:
    """Follow the gradient of the error from one Θ."""
    scale, shape = float(np.trace(gram)) or 1.0, start.shape
    unit = gram / scale
    ends = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": GAIN}
    value, best = descend(lambda x: _error(unit, x.reshape(shape)), start.ravel(), ends, least=0.0)
    return value * scale, best.reshape(shape)


def _error(gram: Array, theta: Array) -> tuple[float, Array]:
    """tr(G (AᵀA)⁻¹) and its gradient.

    With a = 1/D, K = (I + ΘΘᵀ)⁻¹ and X = D⁻¹GD⁻¹Θᵀ it is Σ_i a_i² G_ii − tr(KΘX); Θ moves K and a.
    """
    a = 1.0 + theta.sum(axis=0)
    core = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    diagonal = np.diagonal(gram)
    seen = a[:, None] * (gram @ (a[:, None] * theta.T))  # X
    inner, mixed = core @ seen.T, core @ (theta @ seen)  # KXᵀ, KΘX
    value = (a * a) @ diagonal - np.trace(mixed)
    by_theta = -2.0 * (inner - (mixed @ core) @ theta)
    by_a = 2.0 * (a * diagonal - (inner * theta).sum(axis=0) / a)
    return float(value), (by_theta + by_a).ravel()


def improve_rows(rows: Array, loss: Loss, start: Array) -> Array:
    """Follow the gradient of a loss of single rows' variances, from one Θ.

    Its gradient is that of Σ_r λ_r v_r, λ the slopes of the loss where it is: of the error of the
    same rows with other weights.
    """
    shape, owners, best = start.shape, loss.rows.T.tocsr(), start
    steps = int(np.clip(ROW_WORK / (len(rows) * rows.shape[1] ** 2), *ROW_STEPS))
    ends = {"maxiter": steps, "maxfun": 2 * steps, "ftol": GAIN}

    def smooth(x: Array, one: Smooth) -> tuple[float, Array]:
        theta = x.reshape(shape)
        value, slope = one(loss.rows @ row_variances(rows, theta))
        weighted = rows * np.sqrt(2.0 * np.maximum(owners @ slope, 0.0))[:, None]
        return value, _error(weighted.T @ weighted, theta)[1]

    at = start
    for one in loss.smooth:
        _, x = descend(partial(smooth, one=one), at.ravel(), ends, least=0.0)
        at = x.reshape(shape)
        best = min(best, at, key=lambda theta: loss.at(row_variances(rows, theta)))
    return best


def row_variances(rows: Array, theta: Array) -> Array:
    """2 w (AᵀA)⁻¹ wᵀ of every row w: its variance at b = 1."""
    scaled = rows * (1.0 + theta.sum(axis=0))
    seen = scaled @ theta.T
    core = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    left = np.einsum("rj,rj->r", scaled, scaled) - np.einsum("rp,rp->r", seen @ core, seen)
    return np.asarray(2.0 * np.maximum(left, 0.0))


def strategy(theta: Array) -> Array:
    """A = [I; Θ] D, every column of L1 norm one."""
    scale = 1.0 / (1.0 + theta.sum(axis=0))
    return np.vstack([np.diag(scale), theta * scale])
