"""Row shapes: taking strategies apart into them, improving them, drawing good ones at random.

A shape is a set of types, those with the high chance e·w; the others have w.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.local.strategies.shifts import Bits
from noiseplan.matrices.base import Array

# Flips of shapes that are in use already.
SHORT_CLIMB = 5


def levels(shapes: Bits, ratio: float) -> Array:
    """Patterns in {1, e}."""
    return np.where(shapes, ratio, 1.0)


def nested(chances: Array, ratio: float, most: int | None = None) -> tuple[Bits, Array]:
    """Every row as a mixture of two-valued rows: the exact refinement of a strategy.

    With z the least entry of a row and y = (q/z − 1)/(e − 1) sorted downwards, the row is the sum
    of the patterns of its k largest entries with weights z (y_(k) − y_(k+1)). The information
    matrix grows, since a aᵀ is convex in a, so the objective never rises.

    Parameters
    ----------
    chances
        Q, outputs × types.
    ratio
        e.
    most
        Keep only this many patterns, the heaviest; their weights then add up to less than Q.

    Returns
    -------
    Patterns (k × types) and their weights.
    """
    low = chances.min(axis=1)
    y = np.clip((chances / low[:, None] - 1) / (ratio - 1), 0.0, 1.0)
    order = np.argsort(-y, axis=1, kind="stable")
    falling = np.take_along_axis(y, order, axis=1)
    ends = np.ones((len(y), 1))
    steps = np.hstack([ends, falling]) - np.hstack([falling, 0 * ends])
    weights = low[:, None] * steps  # weight of the k largest, k = 0 … n
    kept = np.flatnonzero(weights.ravel() > 1e-15 * weights.max())
    if most is not None and len(kept) > most:
        kept = kept[np.argsort(-weights.ravel()[kept], kind="stable")[:most]]
    row, size = np.divmod(kept, y.shape[1] + 1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(y.shape[1])[None, :], axis=1)
    return rank[row] < size[:, None], weights.ravel()[kept]


@dataclass(frozen=True, eq=False)
class Pricing:
    """What shapes are judged by: the gain of a pattern, pᵀMp/(p·π) − ν·p, helps if positive."""

    curvature: Array  # M
    prices: Array  # ν
    prior: Array  # π
    ratio: float  # e

    def gains(self, shapes: Bits) -> Array:
        """The gain of every shape."""
        p = levels(shapes, self.ratio)
        squares = np.einsum("ij,ij->i", p @ self.curvature, p)
        gains: Array = squares / (p @ self.prior) - p @ self.prices
        return gains

    def climb(self, shapes: Bits, steps: int) -> tuple[Bits, Array]:
        """Flip one type of every shape at a time, the best each time, to raise what it would bring.

        Returns
        -------
        The shapes reached and their gains.
        """
        curvature, prices, prior, ratio = self.curvature, self.prices, self.prior, self.ratio
        shapes = shapes.copy()
        p = levels(shapes, ratio)
        products = p @ curvature
        square = np.einsum("ij,ij->i", products, p)
        mass, paid = p @ prior, p @ prices
        gains = square / mass - paid
        diagonal = np.diagonal(curvature)
        active = np.arange(len(shapes))
        for _ in range(steps):
            change = np.where(shapes[active], 1 - ratio, ratio - 1)
            squares = square[active, None] + change * (2 * products[active] + change * diagonal)
            masses = mass[active, None] + change * prior
            trial = squares / masses - (paid[active, None] + change * prices)
            best = trial.argmax(axis=1)
            at = np.arange(len(active)), best
            better = trial[at] > gains[active] + 1e-9 * np.abs(paid[active])
            active, at = active[better], (at[0][better], at[1][better])
            if not len(active):
                break
            step = change[at]
            square[active], mass[active], gains[active] = squares[at], masses[at], trial[at]
            paid[active] += step * prices[at[1]]
            products[active] += step[:, None] * curvature[at[1]]
            shapes[active, at[1]] ^= True
        return shapes, gains


def all_shapes(types: int) -> Bits:
    """Every shape that tells types apart, 2ⁿ − 2 of them."""
    numbers = np.arange(1, 2**types - 1)
    return np.asarray((numbers[:, None] >> np.arange(types)) & 1 == 1)


def surcharge(shapes: Bits, gains: Array, ratio: float) -> float:
    """By how much the sum of all prices must rise, at least 0, for no shape to gain any more.

    Raising every price by δ takes δ Σp off the gain of p. Since rounding errs in proportion to Σp
    too, what follows is as exact for a large ε as for a small one.
    """
    count = int(shapes.shape[1])
    sums = count + (ratio - 1) * shapes.sum(axis=1)
    return count * max(float((gains / sums).max()), 0.0)


def drawn(gram: Array, prior: Array, epsilon: float, count: int, rng: np.random.Generator) -> Bits:
    """Random shapes whose second moments come near the ideal information matrix.

    The bound would be met by X ∝ (PGP)^{1/2} off the direction of the total. A Gaussian vector cut
    off at the quantile that makes types high with chance f = 1/(e + 1) has indicators of any
    correlation ρ' = h(ρ), an increasing function of its own; so take Gaussians with h⁻¹ of the
    ideal correlations. They come in orthogonal sets, which halves the sampling error.
    """
    from scipy.special import ndtri

    types = len(gram)
    share = 1 / (exp(epsilon) + 1)
    ideal = ideal_information(gram, prior)
    size = np.sqrt(np.maximum(np.diagonal(ideal), 1e-300))
    correlation = ideal / np.outer(size, size)
    cut, latent = _indicator_correlations(share)
    wanted = np.interp(correlation, cut, latent)
    np.fill_diagonal(wanted, 1.0)
    values, vectors = np.linalg.eigh(wanted)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    root /= np.sqrt(np.maximum(np.einsum("ij,ij->i", root, root), 1e-12))[:, None]
    sets = [np.linalg.qr(rng.standard_normal((types, types)))[0] for _ in range(-(-count // types))]
    gaussians = np.sqrt(types) * np.vstack(sets)[:count] @ root.T
    shapes: Bits = gaussians > ndtri(1 - share)
    return _telling(shapes, rng)


def ideal_information(gram: Array, prior: Array) -> Array:
    """Diag(r)⁻¹ (centred Diag(r) G Diag(r))^{1/2} Diag(r)⁻¹, r = √π: where the bound is met."""
    root = np.sqrt(prior)
    centre = np.eye(len(gram)) - np.outer(root, root)
    values, vectors = np.linalg.eigh(centre @ (gram * np.outer(root, root)) @ centre)
    middle = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    scaled: Array = middle / np.outer(root, root)
    return scaled


def _indicator_correlations(share: float) -> tuple[Array, Array]:
    """h on a grid: correlation of two cut-off Gaussians (ascending), and of the Gaussians."""
    from scipy.special import ndtr, ndtri

    threshold = float(ndtri(1 - share))
    grid = np.linspace(-0.999, 0.999, 201)
    x = np.linspace(threshold, threshold + 9, 2001)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    above = ndtr((grid[:, None] * x - threshold) / np.sqrt(1 - grid**2)[:, None])
    both = np.trapezoid(density * above, x, axis=1)
    return (both - share**2) / (share * (1 - share)), grid


def _telling(shapes: Bits, rng: np.random.Generator) -> Bits:
    """Shapes that are empty or full tell nothing: one type of them is flipped."""
    flat = (shapes.sum(axis=1) % shapes.shape[1]) == 0
    at: IntArray = rng.integers(shapes.shape[1], size=int(flat.sum()))
    shapes[np.flatnonzero(flat), at] ^= True
    return shapes
