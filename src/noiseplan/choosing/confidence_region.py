"""Points drawn evenly from a convex body by random walks, until they are seen to have converged.

Notes
-----
From where a walker stands a line is drawn, and a point evenly from the part of it inside: evenly
distributed points stay so, whatever the directions are, if only they are not drawn by the place.
How soon they are reached depends on the directions. A body that is long one way and thin another
needs lines along both: the eigenvectors of BᵀB, and products of a cell or of a difference of two
in every attribute. Products that change hardly anything that was measured run along the long side;
many of them, of different cells, are taken at once, as if only x ≥ 0 were asked, and are taken back
where they leave the region: that, too, keeps evenly distributed points so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, subsets
from noiseplan.choosing.common_and_rest import cost_of
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.integer_cost_matrix import root_rows
from noiseplan.release.release import Release

# Walkers that start at one point, and steps of the first round; every other round is twice as long.
WALKERS: Final = 32
FIRST: Final = 256
# Ways to stir that a round has.
STIRS: Final = 64
# Each half of a walk is worth so many independent points at least: R̂ = √(1 + 1/10) = 1.05.
FEWEST: Final = 2 * WALKERS * 10
# A quantity whose variance is a smaller share of its square did not move: all else is rounding.
STILL: Final = 1e-18
# Products of differences that change what is measured by a smaller share are worth stirring.
FAINT: Final = 0.02

# How far the first point is moved away from the walls x = 0, as a share of the mean count.
INWARD = 0.5


@dataclass(frozen=True, eq=False)
class Drawn:
    """Points drawn evenly (as rows), and how many independent ones they are worth."""

    points: Array
    worth: float


def drawn(region: Region, rows: Array, draws: int, steps: int, seed: int) -> Drawn:
    """Points of a region that are worth so many independent ones, for each of the rows.

    Raises `PlanError` where they are not after that many steps: then nothing is known of them.
    """
    generator = np.random.default_rng(seed)
    x, done, keep = np.tile(region.start, (WALKERS, 1)), 0, 2 * ceil(2 * draws / WALKERS)
    while done < steps:
        every = ceil(max(FIRST, done) / keep)
        lines, kept = Lines.of(region, generator), []
        for _ in range(keep):
            x = lines.walked(x, every, generator)
            kept.append(x)
        done += every * keep
        points = np.array(kept)
        worth = independent(points @ rows.T)
        if worth >= draws:
            return Drawn(points.reshape(-1, x.shape[1]), worth)
    raise PlanError(
        f"in {done:,} steps the tables that agree with the look were not drawn evenly: they are "
        f"worth {worth:.0f} independent ones, and {draws:,} are needed. Allow more, "
        f"ConfidenceRegion(steps={4 * done}), or take Posterior()"
    )


def independent(values: Array) -> float:
    """How many independent points walks are worth, for the quantity that mixes worst.

    Parameters
    ----------
    values
        Points in time × walkers × quantities.

    Notes
    -----
    With m halves of walks, ESS = m Var(x) / Var(means of the halves): n points of one half that
    were independent would have means with Var(x) / n. Halves differ where walkers did not get
    about, and where all of them still drift.
    """
    halves = np.array(np.split(values, 2)).mean(axis=1).reshape(-1, values.shape[-1])
    spread, between = values.var(axis=(0, 1)), halves.var(axis=0, ddof=1)
    size = np.square(values).mean(axis=(0, 1))
    worth = len(halves) * spread / np.maximum(between, np.finfo(float).tiny)
    worth = np.where(spread > STILL * size, worth, 0.0)[size > 0]
    return float(np.min(worth, initial=values.shape[0] * values.shape[1]))


@dataclass(frozen=True, eq=False)
class Lines:
    """The directions of a round, as rows d, with their Bd; and cells to stir."""

    region: Region
    directions: Array
    images: Array
    stirs: list[IntArray]

    @classmethod
    def of(cls, region: Region, generator: np.random.Generator) -> Lines:
        rank, cells = region.rows.shape
        across, along = np.split(np.linalg.svd(region.rows)[2], [rank])
        products = _products(region.shape, 2 * cells, generator)
        often = np.tile(across, (3 * cells // rank, 1))  # half of all lines
        directions = np.vstack([often, along, products])
        free = _free_sets(region, generator)
        chosen = [free[i % len(free)] for i in range(STIRS if free else 0)]
        stirs = [_corners(region.shape, attributes, generator) for attributes in chosen]
        return cls(region, directions, directions @ region.rows.T, stirs)

    def walked(self, x: Array, steps: int, generator: np.random.Generator) -> Array:
        """Where walkers (one in each row) are after some steps."""
        for _ in range(steps):
            x = self._stepped(x, generator)
            if self.stirs:
                x = self._stirred(x, generator)
        return x

    def _stepped(self, x: Array, generator: np.random.Generator) -> Array:
        """Every walker along a line of its own."""
        pick = generator.integers(len(self.directions), size=len(x))
        along, image, away = self.directions[pick], self.images[pick], self.region.away(x)
        # From x to x + t d the squared length |y|² changes by 2 t (y·Bd) + t² |Bd|².
        lean, curve = np.sum(away * image, axis=1), np.sum(image**2, axis=1)
        low, high = _between_roots(curve, lean, self.region.size - np.sum(away**2, axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            walls = -x / along
        low = np.maximum(low, np.max(walls, axis=1, initial=-np.inf, where=along > 0))
        high = np.minimum(high, np.min(walls, axis=1, initial=np.inf, where=along < 0))
        return _moved(x, along, low[:, None], high[:, None], generator)

    def _stirred(self, x: Array, generator: np.random.Generator) -> Array:
        """Every walker in many blocks at once; those who would leave the region stay."""
        moved = _stirred(x, self.stirs[generator.integers(len(self.stirs))], generator)
        inside = np.sum(self.region.away(moved) ** 2, axis=1) <= self.region.size
        return np.where(inside[:, None], moved, x)


def _moved(
    x: Array, along: Array, low: Array, high: Array, generator: np.random.Generator
) -> Array:
    """Evenly from between low and high; rounding may leave nothing there, or pass a wall."""
    step = low + np.maximum(high - low, 0.0) * generator.random(low.shape)
    return np.maximum(x + step * along, 0.0)


def _between_roots(curve: Array, lean: Array, room: Array) -> tuple[Array, Array]:
    """Where curve t² + 2 lean t ≤ room, around t = 0; to the end of the line if curve = 0.

    Of the two roots one is written as a quotient by the other, so that nothing cancels.
    """
    room = np.maximum(room, 0.0)
    longer = np.abs(lean) + np.sqrt(lean**2 + curve * room)
    near = np.divide(room, longer, out=np.where(curve > 0, 0.0, np.inf), where=longer > 0)
    far = np.divide(longer, curve, out=np.full_like(longer, np.inf), where=curve > 0)
    return np.where(lean > 0, -far, -near), np.where(lean > 0, near, far)


# ---------------------------------------------------------------------- directions


def _free_sets(region: Region, generator: np.random.Generator) -> list[tuple[int, ...]]:
    """The least sets of attributes whose products of differences hardly change Bx."""
    found: list[tuple[int, ...]] = []
    many = [a for a, size in enumerate(region.shape) if size > 1]
    for chosen in filter(None, subsets(many)):
        if any(set(less) <= set(chosen) for less in found):
            continue
        probe = generator.standard_normal(region.shape)
        for a in chosen:
            probe = probe - probe.mean(axis=a, keepdims=True)
        if np.abs(region.rows @ probe.ravel()).max() <= FAINT * np.abs(region.rows).max():
            found.append(chosen)
    return found


def _corners(
    shape: tuple[int, ...], chosen: tuple[int, ...], generator: np.random.Generator
) -> IntArray:
    """Cells in blocks, no cell in two: corners × blocks, the signs of ⊗ (1, −1) in this order.

    The values of each chosen attribute are paired at random, and a block has both of every pair.
    """
    cells = np.arange(prod(shape)).reshape(shape)
    for done, a in enumerate(chosen):
        first, second = generator.permutation(shape[a])[: shape[a] // 2 * 2].reshape(2, -1)
        cells = np.stack([cells.take(first, a + done), cells.take(second, a + done)], axis=done)
    return cells.reshape(2 ** len(chosen), -1)


def _stirred(x: Array, corners: IntArray, generator: np.random.Generator) -> Array:
    """A step for every block, from wall to wall; no block has a cell of another."""
    sign = np.ones(1)
    while len(sign) < len(corners):
        sign = np.concatenate([sign, -sign])
    cells = x[:, corners]
    low, high = -cells[:, sign > 0].min(axis=1), cells[:, sign < 0].min(axis=1)
    moved = x.copy()
    moved[:, corners] = _moved(cells, sign[:, None], low[:, None], high[:, None], generator)
    return moved


def _products(shape: tuple[int, ...], count: int, generator: np.random.Generator) -> Array:
    """Directions ⊗ u, each u a value of an attribute, or one value less another, evenly."""
    each = np.arange(count)
    found = np.ones((count, 1))
    for size in shape:
        value = generator.integers(size, size=count)
        other = (value + generator.integers(1, max(size, 2), size=count)) % size
        one = np.zeros((count, size))
        one[each, other] = -(generator.random(count) < 0.5).astype(float)
        one[each, value] = 1.0
        found = np.einsum("ki,kj->kij", found, one).reshape(count, -1)
    return found


# ---------------------------------------------------------------------- the region of a look


@dataclass(frozen=True, eq=False)
class Region:
    """{x ≥ 0 : |B(x − x̂)|² ≤ z}: an ellipsoid, without end where B tells nothing, and no more
    negative counts."""

    rows: Array
    estimate: Array
    size: float
    start: Array
    shape: tuple[int, ...]  # of the table of counts

    @classmethod
    def of(cls, look: Release, level: float) -> Region:
        from scipy.optimize import nnls
        from scipy.special import chdtri

        if not 0 < level < 1:
            raise PlanError(f"the level of a region is between 0 and 1, found {level}")
        mechanism = look.plan.mechanism
        rows = root_rows(cost_of(mechanism))
        if not _tell_the_total(rows):
            raise PlanError(
                "the look does not tell the total, so the region has no end: take Posterior(), or "
                "plans that measure the total"
            )
        measured = mechanism.unit_rows(), mechanism.unit_values(look.measurements)
        estimate = np.asarray(np.linalg.lstsq(*measured, rcond=1e-10)[0], dtype=np.float64)
        best, _ = nnls(rows, rows @ estimate, maxiter=50 * rows.shape[1])
        least = float(np.sum((rows @ (best - estimate)) ** 2))
        quantile = float(chdtri(len(rows), 1.0 - level))
        # Estimates far below zero: the region is widened until it has tables of counts in it.
        wide = max(quantile, least + 0.1 * quantile)
        region = cls(rows, estimate, wide, best, mechanism.schema.shape)
        return replace(region, start=region._inside(best))

    def away(self, x: Array) -> Array:
        """B(x − x̂), for points as rows: no longer than √z inside."""
        return np.asarray((x - self.estimate) @ self.rows.T)

    def _inside(self, best: Array) -> Array:
        """A point away from all walls."""
        middle = np.full(len(best), max(float(best.mean()), 1.0))
        share = INWARD
        while np.sum(self.away((1 - share) * best + share * middle) ** 2) > self.size:
            share /= 2
        return np.asarray((1 - share) * best + share * middle)


def _tell_the_total(rows: Array) -> bool:
    ones = np.ones(rows.shape[1])
    found = np.linalg.lstsq(rows.T, ones, rcond=None)[0]
    return bool(np.abs(ones - rows.T @ found).max() <= 1e-7)
