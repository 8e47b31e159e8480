"""An interior-point method for the prices of rows and cells.

    minimise t  over Σ ≻ 0  subject to  h_j ≤ 1 for every row,  o_i + g_i ≤ t for every cell

(o_i: what a cell costs already) has the dual: maximise 2N(μ, λ) − Σ μ_j + Σ o_iλ_i over prices
μ, λ ≥ 0 with Σ λ_i = 1. N is smooth and concave, and its second derivative costs a dozen matrix
products (`balance`); so Newton steps on prices z, slacks σ and the level t, with z_iσ_i driven to
zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular

from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent

# Newton steps; some ten are the rule.
MOST_STEPS = 60
# How much of the way to the nearest zero a step may go.
NEARLY = 0.995
# The share of the promised fall a step must bring, the shortest step, what rounding may hide, and
# how far a slack may be from the one its price calls for.
DESCENT, SHORTEST, HIDDEN, MISMATCH = 1e-3, 1e-4, 1e-12, 1e6
# How much nearer the edge one step may aim: bolder ones lose the way where prices vanish.
BOLDEST = 0.15
# Of the fixed point: its memory; of the logarithm of a price: the longest step, the lowest point.
MEMORY, FARTHEST, SMALLEST = 6, 3.0, -40.0

# Spacing of the exponentials in log-time: 1.2 makes 1/x good to a few parts in a thousand, which is
# all a Newton direction needs.
SPACING = 1.2
LOWEST, HIGHEST = -3.0, 1.2


@dataclass(frozen=True, eq=False)
class PriceProblem:
    """Rows over the roots of their targets (m × r), cells (r × n), what the cells cost already.

    No price falls below `least` times the average of its kind. Where rows and cells do not matter
    their prices would vanish together and leave their covariance to chance; the bound this gives
    away is the fraction `least`.
    """

    rows: Array
    cells: Array
    offsets: Array
    least: float = 1e-9

    def balance(self, row: Array, cell: Array) -> PricedCovariance:
        """The best covariance for given prices."""
        return PricedCovariance.of(self.rows, self.cells, row, cell)

    @property
    def floor(self) -> Array:
        """The least price of every row and cell."""
        m, n = len(self.rows), self.cells.shape[1]
        return self.least * np.concatenate([np.full(m, 1.0 / m), np.full(n, 1.0 / n)])

    def limits(self, level: float) -> Array:
        """What variances and new costs may be: one, and the level less what is paid already."""
        return np.concatenate([np.ones(len(self.rows)), level - self.offsets])


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
    def of(problem: PriceProblem, row: Array, cell: Array, balance: PricedCovariance) -> Verdict:
        """Judge prices of any scale."""
        largest = float(balance.variances.max())
        costs = problem.offsets + largest * balance.costs
        bound = float(balance.total**2 / row.sum() + problem.offsets @ cell) / float(cell.sum())
        return Verdict(float(costs.max()), bound, balance.factor / np.sqrt(largest), costs)


Done = Callable[[Verdict, Array, Array], bool]


def warmed(
    problem: PriceProblem, row: Array, cell: Array, done: Done, steps: int
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


def start(problem: PriceProblem, row: Array, cell: Array) -> Prices:
    """Prices scaled so that Σ μ_j = N, as at the optimum, and slacks to match.

    Every price times its slack is at least τ, the gap per constraint: what is priced gets little
    slack, what has slack a small price.
    """
    m, both = len(row), np.concatenate([row / row.sum(), cell / cell.sum()])
    both = np.maximum(both, 2.0 * problem.floor)
    both[:m] *= problem.balance(both[:m], both[m:]).total ** 2
    for _ in range(2):  # raising prices moves the values a little: once more
        balance = problem.balance(both[:m], both[m:])
        verdict = Verdict.of(problem, both[:m], both[m:], balance)
        centre = max(verdict.value - verdict.bound, problem.least) / len(both)
        level = float((balance.costs + problem.offsets).max())
        spare = problem.limits(level) - np.concatenate([balance.variances, balance.costs])
        both = np.maximum(both, problem.floor + centre / np.maximum(spare, np.sqrt(centre)))
        both[m:] /= both[m:].sum()  # and stays one: directions keep the sum
    slack = np.maximum(spare, centre / (both - problem.floor))
    return Prices(both[:m], both[m:], level, slack)


def improve(problem: PriceProblem, prices: Prices, done: Done) -> tuple[Prices, int]:
    """Newton steps until `done`, or until `MOST_STEPS` were taken."""
    balance = problem.balance(prices.row, prices.cell)
    for step in range(MOST_STEPS):
        if done(Verdict.of(problem, prices.row, prices.cell, balance), prices.row, prices.cell):
            return prices, step
        prices, balance = _Newton(problem, prices, balance).step()
    return prices, MOST_STEPS


class _Newton:
    """One step from given prices, whose balance is known; `room` is what they are above the floor.

    The equations are those of room ∘ σ = τ, in dz/√room: of even scale where prices vanish.
    """

    def __init__(self, problem: PriceProblem, prices: Prices, balance: PricedCovariance) -> None:
        self.problem, self.prices, self.balance = problem, prices, balance
        m, self.slack = len(prices.row), prices.slack
        self.room = prices.both - problem.floor
        self.root = np.sqrt(self.room)
        self.weight = np.concatenate([np.zeros(m), self.root[m:]])
        self.factor = _factor(balance.curvature(self.root), self.weight, self.slack)
        self.along = cho_solve(self.factor, self.weight)
        values = np.concatenate([balance.variances, balance.costs])
        self.outside = values - problem.limits(prices.level)

    def direction(self, target: Array) -> tuple[Array, Array, float]:
        """dz, dσ, dt that make room ∘ σ = target and Σ λ_i = 1 to first order."""
        moved = cho_solve(self.factor, self.root * self.outside + target / self.root)
        missing = 1.0 - float(self.prices.cell.sum())
        rise = (self.weight @ moved - missing) / (self.weight @ self.along)
        dz = self.root * (moved - rise * self.along)
        return dz, (target - self.slack * dz) / self.room - self.slack, float(rise)

    def step(self) -> tuple[Prices, PricedCovariance]:
        """Predict without centring, correct with as much as that calls for; shorten if need be."""
        room, slack, size = self.room, self.slack, len(self.room)
        mean = float(room @ slack) / size
        dz, ds, _ = self.direction(np.zeros(size))
        nearer = (room + _length(room, dz) * dz) @ (slack + _length(slack, ds) * ds)
        reached = float(nearer) / size
        share = max((reached / mean) ** 3, BOLDEST)
        # No closer to the edge than the floor of the prices is worth.
        centre = max(share * mean, 0.1 * self.problem.least / size)
        found = self.moved(self.direction(np.maximum(centre - dz * ds, 0.0)), 1.0, centre)
        plain, share = self.direction(np.full(size, centre)), 1.0
        while found is None:
            found = self.moved(plain, share, centre if share > SHORTEST else np.inf)
            share *= 0.5
        return found

    def moved(
        self, direction: tuple[Array, Array, float], share: float, centre: float
    ) -> tuple[Prices, PricedCovariance] | None:
        """Where a share of the way leads; nothing if the barrier function does not fall there."""
        (dz, ds, dt), m = direction, len(self.prices.row)
        far = share * NEARLY * _length(self.room, dz)
        deep = share * NEARLY * _length(self.slack, ds)
        room, slack = self.room + far * dz, self.slack + deep * ds
        z = room + self.problem.floor
        balance = self.problem.balance(z[:m], z[m:])
        if np.isfinite(centre):
            gradient = -self.outside - centre / self.room
            gradient[m:] -= self.prices.level
            promised = far * float(gradient @ dz)
            before = self.barrier(self.room, self.balance, centre)
            if self.barrier(room, balance, centre) - before > (
                DESCENT * promised + HIDDEN * self.balance.total
            ):
                return None
            slack = np.clip(slack, centre / room / MISMATCH, MISMATCH * centre / room)
        return Prices(z[:m], z[m:], self.prices.level + deep * dt, slack), balance

    def barrier(self, room: Array, balance: PricedCovariance, centre: float) -> float:
        """−2N + Σ μ_j − Σ o_iλ_i − τ Σ log room."""
        m, z = len(self.prices.row), room + self.problem.floor
        linear = float(z[:m].sum() - self.problem.offsets @ z[m:])
        return linear - 2.0 * balance.total - centre * float(np.log(room).sum())


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


# ---------------------------------------------------------------------- priced covariances
#
# The covariance that balances priced rows against priced cells.
#
# Rows L (m × r) are asked, cells B (r × n) are protected, W = LB. For prices μ of the rows'
# variances and λ of the cells' costs,
#
#     min over Σ ≻ 0 of  Σ_j μ_j h_j + Σ_i λ_i g_i ,    h_j = l_jΣl_jᵀ ,  g_i = b_iᵀΣ⁻¹b_i ,
#
# is 2N with N = ‖diag(μ)^{1/2} W diag(λ)^{1/2}‖_*. With K₁ = B diag(λ) Bᵀ and K₂ = Lᵀ diag(μ) L the
# best Σ solves Σ K₂ Σ = K₁; in the basis where Σ = I both are diag(s), N = Σ s.
#
# *Curvature.* N is concave with gradient (h, g)/2. In that basis, with rows f_j of L and columns
# e_i of B, its second derivative is −T/2 where
#
#     T = Σ_kl (z_k z'_k)(z_l z'_l)/(s_k + s_l) ,   z, z' among f_j, e_i ;  minus for one f, one e.
#
# Since 1/x is a sum of a dozen exponentials, T is a sum of a dozen squared matrix products.
#
# References
# ----------
# The program is Problem 1 of Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing
# fitness-for-use of differentially private linear queries", PVLDB 14 (2021); its dual is a
# factorisation norm.


@dataclass(frozen=True, eq=False)
class PricedCovariance:
    """Σ for given prices, in the basis where it is the identity.

    Attributes
    ----------
    singular
        s: K₁ = K₂ = diag(s) in this basis.
    rows, cells
        f_j (m × r) and e_i (n × r) in this basis: h = ‖f_j‖², g = ‖e_i‖².
    factor
        F with Σ = FFᵀ in the given basis.
    """

    singular: Array
    rows: Array
    cells: Array
    factor: Array

    @staticmethod
    def of(rows: Array, cells: Array, row_prices: Array, cell_prices: Array) -> PricedCovariance:
        """Solve ΣK₂Σ = K₁ for rows L (m × r) and cells B (r × n)."""
        protected = (cells * cell_prices) @ cells.T
        lower = _cholesky((rows.T * row_prices) @ rows)
        values, vectors = eigh(lower.T @ protected @ lower, driver="evd", overwrite_a=True)
        singular = np.sqrt(np.maximum(values, values[-1] * 1e-20))
        factor = solve_triangular(lower, vectors * np.sqrt(singular), trans="T", lower=True)
        inverse = (vectors / np.sqrt(singular)).T @ lower.T
        return PricedCovariance(singular, rows @ factor, (inverse @ cells).T, factor)

    @property
    def total(self) -> float:
        """N, half the least priced sum."""
        return float(self.singular.sum())

    @property
    def variances(self) -> Array:
        """h: the variance of every row, in units of its target."""
        return np.asarray(np.einsum("jk,jk->j", self.rows, self.rows))

    @property
    def costs(self) -> Array:
        """g: the privacy cost of every cell."""
        return np.asarray(np.einsum("ik,ik->i", self.cells, self.cells))

    def curvature(self, scale: Array) -> NDArray[np.float32]:
        """T_ij · scale_i · scale_j, rows first, then cells; in single precision."""
        both = np.concatenate([self.rows, self.cells]) * np.sqrt(scale)[:, None]
        both = both.astype(np.float32)
        result = np.zeros((len(both), len(both)), dtype=np.float32)
        for time, weight in zip(*exponentials(self.singular), strict=True):
            damped = both * np.exp(-0.5 * time * self.singular).astype(np.float32)
            product = damped @ damped.T
            np.multiply(product, product, out=product)
            product *= np.float32(weight)
            result += product
        m = len(self.rows)
        result[:m, m:] *= -1.0
        result[m:, :m] *= -1.0
        return result


def exponentials(singular: Array) -> tuple[Array, Array]:
    """Times t and weights w with Σ w e^{−t x} ≈ 1/x for x = s_k + s_l.

    1/x = ∫ e^{u − x e^u} du, by the trapezoidal rule; what lies below the first node, where the
    integrand is e^u, is added to its weight.

    Examples
    --------
    >>> s = np.array([1.0, 30.0, 500.0])
    >>> t, w = exponentials(s)
    >>> x = np.add.outer(s, s)
    >>> bool(np.abs(x * (w * np.exp(-np.multiply.outer(x, t))).sum(axis=-1) - 1).max() < 0.01)
    True
    """
    first = -np.log(2.0 * singular.max()) + LOWEST
    last = -np.log(2.0 * singular.min()) + HIGHEST
    nodes = np.linspace(first, last, int(np.ceil((last - first) / SPACING)) + 1)
    step = nodes[1] - nodes[0]
    times = np.exp(nodes)
    weights = times * step
    weights[0] = weights[0] / (1.0 - np.exp(-step))
    return times, weights


def _cholesky(matrix: Array) -> Array:
    """The lower factor; a matrix singular to rounding gets the least shift that helps."""
    shift = 0.0
    for exponent in (-15, -13, -11, -9):
        try:
            return np.asarray(cholesky(matrix + shift * np.eye(len(matrix)), lower=True))
        except np.linalg.LinAlgError:
            shift = 10.0**exponent * float(np.trace(matrix))
    return np.asarray(cholesky(matrix + shift * np.eye(len(matrix)), lower=True))
