"""The exact optimum in the row space of a workload: its rank matters, not the number of cells.

Rows w_j = l_j T b over columns b_x, T with r independent rows; record weights λ and row weights μ,
both probabilities. With K₁ = T (Σ_x λ_x b_x b_xᵀ) Tᵀ and K₂ = Σ_j μ_j l_jᵀl_j (r × r each), the
best covariance for these weights solves Σ K₂ Σ = K₁. In the basis F of Σ = FFᵀ both are diag(s),

    N = Σ s ,   variances h_j = ‖l_j F‖² ,   costs g_x = ‖F⁻¹T b_x‖² ,   Σ μ_j h_j = Σ λ_x g_x = N .

No mechanism of cost one has a lower worst variance than N², and Σ reaches max h · max g. For the
total variance K₂ is the identity and stays: no total is below N², and Σ reaches N · max g.
N is concave with gradient (h, g)/2: weights are multiplied by powers of h/N and g/N, mixed with
their past (`anderson`).

For the p-norm of the variances μ has ‖μ‖_q = 1, 1/p + 1/q = 1: then ‖h‖_p ≥ Σ μ_j h_j ≥ N² at cost
one, by Hölder, and Σ reaches ‖h‖_p · max g. At the optimum h_j = N μ_j^{q−1}, so μ_j is multiplied
by a power of h_j/(N μ_j^{q−1}); p = ∞ is the worst variance.

References
----------
`optimum` and `interior_point` have the same programs over all cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.array_namespace import AnyArray, like, namespace_of, to_numpy
from noiseplan.optimize.cell_columns import Columns
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR, RANK_FLOOR
from noiseplan.optimize.optimum import (
    CHEAP_STEPS,
    FARTHEST,
    FULL_STEP,
    MEMORY,
    SMALLEST_WEIGHT,
    Watch,
)
from noiseplan.optimize.priced_rows import PricedRows

# No row's weight is below this share of the largest, so that no direction is without a price.
LEAST_PRICE = 1e-9
MOST_STEPS = 400
TINY: Final = 1e-300
# Seconds of one core, for each rank cubed: of a step.
CUBE: Final = 3e-10
USUAL_STEPS: Final = 12
# With single variances there are so many times more steps, and each has so many more products.
SINGLE_STEPS, SINGLE_CUBES = 2.0, 1.4
# Where a question about all cells takes so many times longer than the rest of a step, some are
# looked at by themselves: so many more at a time for each rank, less those that weigh less than
# this share of the mean; all again when they are level to this part of the gap.
CELLS_LONGER, AT_ONCE, LIGHT, FINER = 5.0, 50, 0.1, 10.0
# Single variances that weigh next to nothing are hidden by rounding: the bound is near its end, and
# plans are no longer better. A search that is compared with a plan ends where so many steps have
# left this share of the gap.
STANDING, STANDS = 10, 0.9

DIFFER_TOO_MUCH: Final = (
    "the sizes of weights, targets or entries differ too much for double precision: bring them "
    "nearer to each other, or leave out what is negligible"
)


@dataclass(frozen=True, eq=False)
class RowSpaceOptimum:
    """Rows C with ‖C b_x‖² ≤ 1 for every cell, the value they reach, what none is below, and by
    which prices.

    There are no rows, and the value is infinite, where the search ended without hope.
    """

    rows: AnyArray
    value: float
    bound: float
    row_prices: AnyArray  # none where the total is to be small
    cell_prices: AnyArray
    steps: int

    @property
    def gap(self) -> float:
        """How far the value may be above the best, relative."""
        return self.value / self.bound - 1.0


@dataclass(frozen=True, eq=False)
class RowBasis:
    """T, with r independent rows over those of the columns, and B with w = (AB)T for rows w = A b.

    R M Rᵀ = Q diag(v) Qᵀ for M = Σ_x b_x b_xᵀ/n and the rows asked for, RᵀR = AᵀA. Rows with v = 0
    are zero at every cell; T = QᵀR has the others, and T M Tᵀ = diag(v) gives B = M Tᵀ diag(v)⁻¹.
    """

    columns: Columns
    basis: AnyArray
    back: AnyArray

    @staticmethod
    def of(root: AnyArray, columns: Columns) -> RowBasis:
        """From R and the columns of all cells."""
        xp = namespace_of(root)
        moments = columns.moments(like(np.full(columns.cells, 1.0 / columns.cells), root))
        values, vectors = xp.linalg.eigh(root @ moments @ root.T)
        least = RANK_FLOOR * len(values) * float(values[-1])
        kept = np.flatnonzero(to_numpy(values) > least).tolist()
        basis = vectors[:, kept].T @ root
        return RowBasis(columns, basis, moments @ basis.T / values[kept])

    @property
    def rank(self) -> int:
        """r."""
        return len(self.basis)

    def least_total(
        self, tolerance: float, watch: Watch = lambda gap: None, hopeless: float = np.inf
    ) -> RowSpaceOptimum:
        """The least total variance of all rows, to a relative gap.

        The search ends before where no total below `hopeless` is left.
        """
        return _Climb(self, None, tolerance).run(watch, hopeless)

    def least_norm(
        self,
        rows: PricedRows,
        power: float,
        tolerance: float,
        watch: Watch = lambda gap: None,
        hopeless: float = np.inf,
    ) -> RowSpaceOptimum:
        """The same for the p-norm of the variances of rows l_j, which are AB of those asked for.

        p > 1; the largest of them for p = ∞. With a number that is `hopeless` it ends, too, where
        steps bring plan and bound no nearer to each other.
        """
        return _Climb(self, rows, tolerance, power).run(watch, hopeless)


def usual_seconds(question: float, rank: int, single: bool = False) -> float:
    """About how long the optimum takes on one core, if a question about all cells takes so long.

    `single`: whether it is of the variances of single rows, and not of their total.
    """
    if single:
        return SINGLE_STEPS * USUAL_STEPS * (2.0 * question + SINGLE_CUBES * CUBE * rank**3)
    return USUAL_STEPS * (2.0 * question + CUBE * rank**3)


class _Climb:
    """The ascent over the logarithms of λ and μ, with the best plan and the best bound so far.

    Where a question about all cells takes longer than the rest, only some cells are looked at, at
    first any: a bound needs no weight on others. When these are level all are looked at again, and
    some of those that pay too much join them. A value is told after a look at all cells only.
    """

    def __init__(
        self, asked: RowBasis, rows: PricedRows | None, tolerance: float, power: float = np.inf
    ) -> None:
        self.asked, self.rows, self.tolerance = asked, rows, tolerance
        self.power, self.dual = power, 1.0 if power == np.inf else power / (power - 1.0)
        self.xp, self.columns = namespace_of(asked.basis), asked.columns
        self.kept: AnyArray = None  # the numbers of the cells looked at; None: all
        # Which were left out once: if they come back it is for good, or there is no end of it.
        self.once = like(np.zeros(self.columns.cells), asked.basis)
        moving = 0 if rows is None else rows.count
        self.point = like(np.zeros(self.columns.cells + moving), asked.basis)
        self.ascent = Ascent(MEMORY, FARTHEST)
        self.value, self.bound = float("inf"), 0.0
        self.gaps: list[float] = []  # after each step
        self.best: AnyArray = None
        self.certified: tuple[AnyArray, AnyArray] = (None, None)

    def run(self, watch: Watch, hopeless: float) -> RowSpaceOptimum:
        """Climb until the gap closes, or nothing below `hopeless` is left, or to be gained."""
        if self.asked.columns.seconds > CELLS_LONGER * CUBE * self.asked.rank**3:
            self._join(like(np.full(self.asked.columns.cells, np.inf), self.point))
        steps = max(MOST_STEPS, CHEAP_STEPS // self.asked.rank)
        for step in range(1, steps + 1):
            shares = self._shares()
            found, costs = self._visit(shares)
            everywhere = self._everywhere(found, costs, last=step == steps)
            if everywhere is not None:
                self._keep(found, float(everywhere.max()))
            self.gaps.append(self.value / self.bound - 1.0)
            watch(self.gaps[-1])
            if self.gaps[-1] <= self.tolerance or self.bound >= hopeless:
                break
            if hopeless < np.inf and self._stands:
                break
            if self.kept is not None and everywhere is not None:
                self._join(everywhere * (self._reached(found) / self.bound))
            else:
                self._move(found, costs, shares)
                self._leave_out()
        rows = None if self.best is None else self.best @ self.asked.basis
        return RowSpaceOptimum(rows, self.value, self.bound, *self._prices(), step)

    def _prices(self) -> tuple[AnyArray, AnyArray]:
        """μ and λ of the best bound."""
        (shares, kept), every = self.certified, self.once * 0.0
        many = len(every) if kept is None else len(kept)
        every[slice(None) if kept is None else kept] = shares[:many]
        return shares[many:], every

    @property
    def level(self) -> float:
        """The gap among the cells looked at from which on all are looked at again."""
        return max(self.tolerance / 2.0, min(self.value / max(self.bound, TINY) - 1.0, 1.0) / FINER)

    @property
    def _stands(self) -> bool:
        """Whether the last steps have hardly brought plan and bound nearer to each other."""
        if self.rows is None or len(self.gaps) <= STANDING:
            return False
        return self.gaps[-1] > STANDS * self.gaps[-1 - STANDING]

    def _shares(self) -> AnyArray:
        """λ and μ that sum to one each."""
        weights, many = self.xp.exp(self.point), self.columns.cells
        cells, rows = weights[:many], weights[many:]
        if self.rows is None:
            return cells / cells.sum()
        rows = (rows / float(rows.max())).clip(min=LEAST_PRICE)
        rows = rows / float((rows**self.dual).sum()) ** (1.0 / self.dual)
        return self.xp.concatenate([cells / cells.sum(), rows])

    def _reached(self, found: Priced) -> float:
        """What is to be small, at a largest cost of one."""
        if found.variances is None:
            return found.total
        largest = float(found.variances.max())
        if self.power == np.inf:
            return largest
        shares = (found.variances / largest) ** self.power
        return float(largest * float(shares.sum()) ** (1.0 / self.power))

    def _visit(self, shares: AnyArray) -> tuple[Priced, AnyArray]:
        """The best covariance for these weights, and what it costs the cells looked at."""
        basis, many = self.asked.basis, self.columns.cells
        inner = basis @ self.columns.moments(shares[:many]) @ basis.T
        found = Priced.of(inner, self.rows, shares[many:])
        if found.bound > self.bound:
            self.bound, self.certified = found.bound, (shares, self.kept)
        return found, self._costs(self.columns, found)

    def _costs(self, columns: Columns, found: Priced) -> AnyArray:
        rows = found.inverse @ self.asked.basis
        return columns.squares(rows.T @ rows).clip(min=TINY)

    def _everywhere(self, found: Priced, costs: AnyArray, last: bool) -> AnyArray | None:
        """What it costs all cells; nothing while those looked at pay too much already."""
        if self.kept is None:
            return costs
        too_much = self._reached(found) * float(costs.max()) > self.bound * (1.0 + self.level)
        if too_much and not last:
            return None
        return self._costs(self.asked.columns, found)

    def _keep(self, found: Priced, largest: float) -> None:
        """Keep the plan if it is the best so far."""
        reached = self._reached(found) * largest
        if reached < self.value:
            self.value, self.best = reached, found.inverse / largest**0.5

    def _move(self, found: Priced, costs: AnyArray, shares: AnyArray) -> None:
        """One step of the ascent."""
        residual = FULL_STEP * self._log(costs / found.total)
        if self.rows is not None:
            prices, dual = shares[len(costs) :], self.dual
            # Where prices bring themselves back, steps are shorter: h falls as their root at most.
            step = FULL_STEP / (1.0 + FULL_STEP * (dual - 1.0))
            rows = self._log(found.variances / found.total) - (dual - 1.0) * self._log(prices)
            residual = self.xp.concatenate([residual, step * rows])
            shares = self.xp.concatenate([shares[: len(costs)], prices**dual])
        point = self.ascent.next(self.point, found.bound, residual, shares)
        self.point = (point - point.max()).clip(min=SMALLEST_WEIGHT)

    def _log(self, values: AnyArray) -> AnyArray:
        """A row of zeros has no variance, and no price."""
        return self.xp.log(values.clip(min=TINY))

    def _leave_out(self) -> None:
        """Go on with the cells that weigh, if not all are looked at and these are few."""
        if self.kept is None:
            return
        many = self.columns.cells
        weights = self.xp.exp(self.point[:many])
        heavy = (weights > LIGHT * float(weights.sum()) / many) | (self.once[self.kept] > 0)
        if int(heavy.sum()) < many // 2:
            some = self.xp.nonzero(heavy)[0]
            self.once[self.kept] = 1.0
            self.once[self.kept[some]] = 0.0
            self._look_at(self.kept[some], weights[some])

    def _join(self, ratios: AnyArray) -> None:
        """Look at some more of the cells that pay too much, from the mean weight of the others."""
        dear, most = np.flatnonzero(to_numpy(ratios) > 1.0 + self.level), AT_ONCE * self.asked.rank
        if len(dear) > most:
            dear = np.random.default_rng(0).choice(dear, most, replace=False)
        weights = like(np.zeros(len(ratios)), self.point)
        earlier = self.xp.exp(self.point[: self.columns.cells])
        weights[dear.tolist()] = float(earlier.mean())
        if self.kept is not None:
            weights[self.kept] = earlier
        kept = self.xp.nonzero(weights > 0)[0]
        self._look_at(kept, weights[kept])

    def _look_at(self, cells: AnyArray, weights: AnyArray) -> None:
        rows = self.point[self.columns.cells :]
        self.point = self.xp.concatenate([self.xp.log(weights), rows])
        self.kept, self.columns = cells, self.asked.columns.some(cells)
        self.ascent = Ascent(MEMORY, FARTHEST)


@dataclass(frozen=True, eq=False)
class Priced:
    """F⁻¹ of the best covariance for some weights, N, h where μ moves, and the bound."""

    inverse: AnyArray
    total: float
    variances: AnyArray
    bound: float

    @staticmethod
    def of(inner: AnyArray, rows: PricedRows | None, prices: AnyArray) -> Priced:
        """From K₁, l_j and μ: K₂ = CCᵀ, CᵀK₁C = U diag(s²) Uᵀ, F⁻¹ = diag(s)^{−1/2} UᵀCᵀ."""
        xp = namespace_of(inner)
        lower: AnyArray = None if rows is None else _lower(rows.moments(prices))
        values, vectors = xp.linalg.eigh(inner if lower is None else lower.T @ inner @ lower)
        singular = xp.sqrt(values.clip(min=float(values[-1]) * 1e-18))
        inverse, variances = (vectors / xp.sqrt(singular)).T, None
        if rows is not None:
            factor = xp.linalg.solve(lower.T, vectors * xp.sqrt(singular))
            inverse, variances = inverse @ lower.T, rows.variances(factor)
        return Priced(inverse, float(singular.sum()), variances, _surely(values))


def bound_at(inner: AnyArray, moments: AnyArray) -> float:
    """N² of K₁ and K₂, rounded down, whatever their ranks."""
    xp = namespace_of(inner)
    values, vectors = xp.linalg.eigh(inner)
    root = vectors * xp.sqrt(values.clip(min=0.0))
    return _surely(xp.linalg.eigvalsh(root.T @ moments @ root))


def _surely(values: AnyArray) -> float:
    """(Σ √v)² of eigenvalues v ascending, rounded down."""
    off = EIGENVALUE_ERROR * len(values) * float(values[-1])
    return float(namespace_of(values).sqrt((values - off).clip(min=0.0)).sum()) ** 2


def _lower(matrix: AnyArray) -> AnyArray:
    try:
        return namespace_of(matrix).linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        raise PlanError(DIFFER_TOO_MUCH) from None
