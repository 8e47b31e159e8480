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

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.laplace_allocation import Loss
from noiseplan.optimize.lbfgs import Smooth, descend

# Steps of the gradient, and the gain below which it ends.
STEPS: Final = 250
GAIN: Final = 1e-7
# For single rows: what all steps of one power may take, and how many that may be.
ROW_WORK, ROW_STEPS = 1e9, (20, 200)
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

    With a = 1/D and K = (I + ΘΘᵀ)⁻¹ it is Σ_ij G_ij a_i a_j (I − ΘᵀKΘ)_ij; Θ moves K and a.
    """
    a = 1.0 + theta.sum(axis=0)
    core = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    solved = core @ theta  # KΘ
    diagonal = np.diagonal(gram)
    spread = gram @ (a[:, None] * theta.T)  # G D⁻¹Θᵀ
    inner = core @ (a[:, None] * spread).T  # KΘ D⁻¹GD⁻¹
    value = (a * a) @ diagonal - np.einsum("pn,pn->", inner, theta)
    by_theta = -2.0 * (inner - (inner @ theta.T) @ solved)
    by_a = 2.0 * (a * diagonal - np.einsum("np,pn->n", spread, solved))
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
