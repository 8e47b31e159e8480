"""An interior-point method for the prices of rows and cells.

    minimise t  over Σ ≻ 0  subject to  h_j ≤ 1 for every row,  o_i + g_i ≤ t for every cell

(o_i: what a cell costs already) has the dual: maximise 2N(μ, λ) − Σ μ_j + Σ o_iλ_i over prices
μ, λ ≥ 0 with Σ λ_i = 1. N is smooth and concave, and its second derivative costs a dozen matrix
products (`balance`); so Newton steps on prices z, slacks σ and the level t, with z_iσ_i driven to
zero. Some ten steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from noiseplan.explicit.balance import Balance
from noiseplan.explicit.mixing import Ascent
from noiseplan.matrices.base import Array

# How much of the way to the nearest zero a step may go.
NEARLY = 0.995
# Of the fixed point: its memory; of the logarithm of a price: the longest step, the lowest point.
MEMORY, FARTHEST, SMALLEST = 6, 3.0, -40.0


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows over the roots of their targets (m × r), cells (r × n), what the cells cost already."""

    rows: Array
    cells: Array
    offsets: Array

    def balance(self, row: Array, cell: Array) -> Balance:
        """The best covariance for given prices."""
        return Balance.of(self.rows, self.cells, row, cell)


@dataclass(frozen=True, eq=False)
class Prices:
    """Where the method stands."""

    row: Array
    cell: Array
    level: float
    slack: Array

    @property
    def both(self) -> Array:
        return np.concatenate([self.row, self.cell])


@dataclass(frozen=True, eq=False)
class Verdict:
    """What prices prove and what their covariance reaches.

    The covariance over its largest variance meets every target at the level `value`; no covariance
    does at a level below `bound`.
    """

    value: float
    bound: float
    factor: Array
    costs: Array

    @staticmethod
    def of(problem: Problem, row: Array, cell: Array, balance: Balance) -> Verdict:
        """Judge prices of any scale."""
        largest = float(balance.variances.max())
        costs = problem.offsets + largest * balance.costs
        bound = float(balance.total**2 / row.sum() + problem.offsets @ cell) / float(cell.sum())
        return Verdict(float(costs.max()), bound, balance.factor / np.sqrt(largest), costs)


Done = Callable[[Verdict, Array, Array], bool]


def warmed(
    problem: Problem, row: Array, cell: Array, done: Done, steps: int
) -> tuple[Array, Array, bool]:
    """The fixed point μ ← μ h/N, λ ← λ g/N, for cells that cost nothing yet.

    Where rows and cells are alike by symmetry this is all it takes; elsewhere it is a good start.
    Returns the prices of the best bound, and whether they are good enough.
    """
    m, ascent, best = len(row), Ascent(MEMORY, FARTHEST), (row, cell, 0.0)
    point = np.log(np.concatenate([row, cell]))
    for _ in range(steps):
        row, cell = _probability(point[:m]), _probability(point[m:])
        balance = problem.balance(row, cell)
        if done(Verdict.of(problem, row, cell, balance), row, cell):
            return row, cell, True
        if balance.total > best[2]:
            best = (row, cell, balance.total)
        values = np.concatenate([balance.variances, balance.costs]) / balance.total
        change = np.log(np.maximum(values, 1e-9))
        point = ascent.next(point, balance.total, change, np.concatenate([row, cell]))
    return best[0], best[1], False


def _probability(logs: Array) -> Array:
    weights = np.exp(np.maximum(logs - logs.max(), SMALLEST))
    return np.asarray(weights / weights.sum())


def start(problem: Problem, row: Array, cell: Array) -> Prices:
    """Prices scaled so that Σ μ_j = N, as at the optimum, with slacks that are surely positive."""
    row, cell = row / row.sum(), cell / cell.sum()
    row = row * problem.balance(row, cell).total ** 2
    balance = problem.balance(row, cell)
    level = float((balance.costs + problem.offsets).max())
    limits = _limits(problem, level)
    values = np.concatenate([balance.variances, balance.costs])
    least = 0.1 * max(1.0, float(balance.costs.max()))
    return Prices(row, cell, level, np.maximum(limits - values, least))


def improve(problem: Problem, prices: Prices, done: Done, steps: int = 60) -> tuple[Prices, int]:
    """Newton steps until `done`, or until `steps` were taken."""
    for step in range(steps):
        balance = problem.balance(prices.row, prices.cell)
        if done(Verdict.of(problem, prices.row, prices.cell, balance), prices.row, prices.cell):
            return prices, step
        prices = _step(problem, prices, balance)
    return prices, steps


def _limits(problem: Problem, level: float) -> Array:
    return np.concatenate([np.ones(len(problem.rows)), level - problem.offsets])


def _step(problem: Problem, prices: Prices, balance: Balance) -> Prices:
    """Predict with no centring, then correct with as much as the prediction calls for."""
    m, z, slack = len(prices.row), prices.both, prices.slack
    values = np.concatenate([balance.variances, balance.costs])
    root = np.sqrt(z)  # Newton's equations in dz/√z: of even scale where prices vanish
    weight = np.concatenate([np.zeros(m), root[m:]])
    factor = _factor(balance.curvature(root), weight, slack)
    along = cho_solve(factor, weight)
    outside = values - _limits(problem, prices.level)
    missing = 1.0 - prices.cell.sum()

    def direction(target: Array) -> tuple[Array, Array, float]:
        """dz, dσ, dt that make z∘σ = target and Σ λ_i = 1 to first order."""
        moved = cho_solve(factor, root * outside + target / root)
        rise = (weight @ moved - missing) / (weight @ along)
        dz = root * (moved - rise * along)
        return dz, (target - slack * dz) / z - slack, float(rise)

    mean = float(z @ slack) / len(z)
    dz, ds, _ = direction(np.zeros(len(z)))
    reached = (z + _length(z, dz) * dz) @ (slack + _length(slack, ds) * ds) / len(z)
    centre = (reached / mean) ** 3 * mean
    dz, ds, dt = direction(np.maximum(centre - dz * ds, 0.0))
    far, deep = NEARLY * _length(z, dz), NEARLY * _length(slack, ds)
    z, slack = z + far * dz, slack + deep * ds
    return Prices(z[:m], z[m:], prices.level + deep * dt, slack)


def _factor(curvature: NDArray[np.float32], weight: Array, slack: Array) -> tuple[Array, bool]:
    """The factor of √z(T + κEEᵀ)√z + diag(σ), E the cells.

    T vanishes along z itself; there Σ λ_i = 1 decides, and EEᵀ makes the matrix regular. It changes
    the level found, not the direction: `rise` absorbs it.
    """
    matrix = curvature.astype(np.float64)
    trace = float(np.trace(matrix))
    matrix += (trace / float(weight @ weight) * weight) * weight[:, None]
    diagonal = np.diag_indices(len(slack))
    matrix[diagonal] += slack
    for exponent in (-9, -8, -7, -6, -5):
        try:
            return cho_factor(matrix, lower=True)
        except np.linalg.LinAlgError:  # the curvature is rounded: shift by as much
            matrix[diagonal] += 10.0**exponent * trace
    return cho_factor(matrix, lower=True)


def _length(values: Array, change: Array) -> float:
    """The longest step, at most one, that keeps every value from falling below zero."""
    falling = change < 0
    if not falling.any():
        return 1.0
    return float(min(1.0, (-values[falling] / change[falling]).min()))
