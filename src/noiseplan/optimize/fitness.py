"""Fitness for use: the least privacy that meets a target for the variance of every query.

    minimise α  over Σ ≻ 0  subject to  b_iᵀΣ⁻¹b_i ≤ α ,  w_jΣw_jᵀ ≤ c_j .

Its dual is a factorisation norm: for any prices μ of rows and λ of cells that add up to one each,
‖diag(μ/c)^{1/2} W diag(λ)^{1/2}‖²_* is a lower bound of α, and the largest one is α. The strategy
returned has cost matrix X = BᵀΣ⁻¹B; measured with unit noise it meets every target, and its privacy
cost is the largest diagonal entry of X.

A workload with many rows is solved for some of them, and rows that miss their targets join until
none is left.

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Problems 1 and 2, Theorem 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.components import solved_apart
from noiseplan.optimize.fitness_result import Fitness
from noiseplan.optimize.interior_point import Done, PriceProblem, Verdict, improve, start, warmed
from noiseplan.optimize.rows_with_targets import Demands, checked_rows, per_row

# Beyond this many rows the problem is solved for some of them at a time.
ROWS_AT_ONCE = 5000
WARMING = 12
# No price is below this share of the tolerance times the average.
FLOOR = 0.1
# Then the first solutions need not be sharp, and rows this close to their targets stay.
LOOSE, CLOSE = 1e-3, 0.98
# The nuclear norm is off by a few units in the last place.
NUCLEAR_ERROR = 1e-13


def least_cost(
    workload: Matrix | Array,
    targets: float | Array = 1.0,
    *,
    limits: Array | None = None,
    tolerance: float = 1e-6,
    watch: Callable[[float], None] = lambda gap: None,
) -> Fitness:
    """The least privacy cost at which every row's variance is at most its target (Problem 1).

    Parameters
    ----------
    workload
        Rows over cells.
    targets
        One variance for all rows, or one for each.
    limits
        Relative privacy limits of cells, one if not given: cell i may cost `limits[i]` times α, and
        α is what is minimised.
    tolerance
        The relative gap between cost and bound at which to stop.

    Examples
    --------
    >>> found = least_cost(np.array([[1.0, 0.0], [1.0, 1.0]]))  # two prefix sums, unit variances
    >>> round(found.cost, 5)
    1.33333
    """
    if isinstance(workload, Matrix):
        return _least_cost(workload, targets, limits, tolerance, watch)
    rows, every = checked_rows(workload), per_row(targets, len(workload))
    if limits is not None and np.shape(limits) != (rows.shape[1],):
        raise PlanError(f"one limit per cell: found {np.shape(limits)}, not ({rows.shape[1]},)")

    def solve(part: Array, wanted: Array, cells: IntArray) -> Fitness:
        own = None if limits is None else np.asarray(limits, dtype=np.float64)[cells]
        return _least_cost(part, wanted, own, tolerance, watch)

    return solved_apart(rows, every, solve)


def _least_cost(
    workload: Matrix | Array,
    targets: float | Array,
    limits: Array | None,
    tolerance: float,
    watch: Callable[[float], None],
) -> Fitness:
    search = _PriceSearch(Demands.of(workload, targets, limits), tolerance, watch)
    search.run()
    return search.result()


class _PriceSearch:
    """The prices of the rows looked at so far, and the best strategy found from them."""

    def __init__(self, demands: Demands, tolerance: float, watch: Callable[[float], None]) -> None:
        self.demands, self.tolerance, self.watch = demands, tolerance, watch
        self.cost, self.lower, self.steps = np.inf, 0.0, 0
        self.factor: Array = np.zeros((0, 0))
        self.active = demands.first_rows(ROWS_AT_ONCE)
        self.row = np.full(len(self.active), 1.0 / len(self.active))
        self.cell = np.full(demands.cells.shape[1], 1.0 / demands.cells.shape[1])
        self.certified = (self.active, self.row, self.cell)

    def run(self) -> None:
        """Solve, look at all rows, let those that miss their targets join; until none does."""
        aim = self.tolerance if len(self.active) == self.demands.count else LOOSE
        while True:
            self._solve(aim)
            if len(self.active) == self.demands.count:
                return
            ratios = self.demands.ratios(self.factor)
            worst = float(ratios.max())
            if self.cost * worst <= self.lower * (1.0 + self.tolerance):
                self.cost, self.factor = self.cost * worst, self.factor / np.sqrt(worst)
                return
            # No sharper than rows still unseen deserve.
            aim = max(self.tolerance, min(LOOSE, 0.1 * (worst - 1.0)))
            self._exchange(ratios)

    def _exchange(self, ratios: Array) -> None:
        """Rows well within their targets leave, rows beyond them join."""
        stay = (ratios[self.active] > CLOSE) | (self.row > 1e-6 * self.row.mean())
        active, row = self.active[stay], self.row[stay]
        outside = ratios.copy()
        outside[active] = 0.0
        new = np.argsort(outside)[::-1][: max(ROWS_AT_ONCE - len(active), ROWS_AT_ONCE // 8)]
        new = new[outside[new] > 1.0]
        self.row = np.concatenate([row, np.full(len(new), 0.1 * row.mean())])
        self.active = np.concatenate([active, new])
        self.cost = np.inf

    def _solve(self, aim: float) -> None:
        """Prices of the active rows and of the cells: a fixed point, then Newton's method."""
        rows, cells = self.demands.rows(self.active), self.demands.cells
        problem = PriceProblem(rows, cells, np.zeros(cells.shape[1]))
        judge = self._judge(1.0, aim)
        self.row, self.cell, done = warmed(problem, self.row, self.cell, judge, WARMING)
        if done:
            return
        scale = problem.balance(self.row, self.cell).total  # then the cost is about one
        problem = replace(problem, rows=rows / scale, least=FLOOR * aim)
        begin = start(problem, self.row, self.cell)
        prices, steps = improve(problem, begin, self._judge(scale, aim))
        self.steps += steps
        self.row, self.cell = prices.row / prices.row.sum(), prices.cell / prices.cell.sum()

    def _judge(self, scale: float, aim: float) -> Done:
        """Keep the best covariance and the best bound; is the gap closed?"""

        def judge(verdict: Verdict, row: Array, cell: Array) -> bool:
            if scale**2 * verdict.value < self.cost:
                self.cost = scale**2 * verdict.value
                self.factor = verdict.factor / scale
            if scale**2 * verdict.bound > self.lower:
                self.lower = scale**2 * verdict.bound
                self.certified = (self.active, row / row.sum(), cell / cell.sum())
            self.watch(self.cost / self.lower - 1.0)
            return self.cost <= self.lower * (1.0 + 0.5 * aim)

        return judge

    def result(self) -> Fitness:
        active, row, cell = self.certified
        weighted = np.sqrt(row)[:, None] * self.demands.rows(active)
        weighted = (weighted @ self.demands.cells) * np.sqrt(cell)
        # The bound anew, from the prices alone: what is claimed does not rest on the search.
        nuclear = float(np.linalg.svd(weighted, compute_uv=False).sum())
        strategy = self.demands.strategy(self.factor)
        return Fitness(
            strategy,
            self.demands.cost(strategy),
            nuclear**2 * (1.0 - NUCLEAR_ERROR * len(weighted)),
            self.demands.row_prices(active, row),
            self.demands.cell_prices(cell),
            self.steps,
        )
