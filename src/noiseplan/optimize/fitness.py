"""Fitness for use: the least privacy that meets a target for the variance of every query.

    minimise α  over Σ ≻ 0  subject to  b_iᵀΣ⁻¹b_i ≤ α ,  w_jΣw_jᵀ ≤ c_j .

Its dual is a factorisation norm: for any prices μ of rows and λ of cells that add up to one each,
‖diag(μ/c)^{1/2} W diag(λ)^{1/2}‖²_* is a lower bound of α, and the largest one is α. The strategy
returned has cost matrix X = BᵀΣ⁻¹B; measured with unit noise it meets every target, and its privacy
cost is the largest diagonal entry of X.

Few rows are priced by Newton's method, to as many digits as are asked for; very many by the fixed
point of their prices (`row_space_optimum`).

Rows and cells are joined where a row counts a cell; what is not connected does not influence each
other. Every component is solved by itself: the largest cost decides, the others pay what they need.

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Problems 1 and 2, Theorem 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.cell_columns import TableColumns, columns_of
from noiseplan.optimize.interior_point import Done, PriceProblem, Verdict, improve, start, warmed
from noiseplan.optimize.row_space_optimum import RowBasis
from noiseplan.optimize.rows_with_targets import Demands, checked_rows, per_row

# Beyond this many rows Newton's method, which looks at all pairs of them, takes too long.
FEW_ROWS = 5000
WARMING = 12
# No price is below this share of the tolerance times the average.
FLOOR = 0.1
# The nuclear norm is off by a few units in the last place.
NUCLEAR_ERROR = 1e-13


@dataclass(frozen=True, eq=False)
class Component:
    """Rows and cells that belong together."""

    rows: IntArray
    cells: IntArray


def components(matrix: Array) -> Iterator[Component]:
    """The connected parts of a workload; rows of zeros and cells no row counts belong to none.

    Examples
    --------
    >>> parts = components(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]))
    >>> [(part.rows.tolist(), part.cells.tolist()) for part in parts]
    [([0], [0, 2]), ([1], [1])]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = sum(matrix.shape)
    row, cell = np.nonzero(matrix)
    joined = coo_array((np.ones(len(row)), (row, cell + len(matrix))), shape=(size, size))
    _, label = connected_components(joined, directed=False)
    of_row, of_cell = label[: len(matrix)], label[len(matrix) :]
    for part in dict.fromkeys(of_row.tolist()):
        cells = np.flatnonzero(of_cell == part)
        if len(cells):
            yield Component(np.flatnonzero(of_row == part), cells)


def solved_apart(
    matrix: Array, targets: Array, solve: Callable[[Array, Array, IntArray], Fitness]
) -> Fitness:
    """Solve every component by itself and put the strategies side by side.

    `solve` gets the rows, targets and cells (by number) of one. Bound and prices are those of the
    component that needs most.
    """
    parts = list(components(matrix))
    found = [
        solve(matrix[np.ix_(part.rows, part.cells)], targets[part.rows], part.cells)
        for part in parts
    ]
    most = int(np.argmax([one.bound for one in found]))
    strategy = np.zeros((sum(len(one.strategy) for one in found), matrix.shape[1]))
    start = 0
    for part, one in zip(parts, found, strict=True):
        stop = start + len(one.strategy)
        strategy[start:stop, part.cells] = one.strategy
        start = stop
    row_prices, cell_prices = np.zeros(len(matrix)), np.zeros(matrix.shape[1])
    row_prices[parts[most].rows] = found[most].row_prices
    cell_prices[parts[most].cells] = found[most].cell_prices
    return Fitness(
        strategy,
        max(one.cost for one in found),
        found[most].bound,
        row_prices,
        cell_prices,
        sum(one.steps for one in found),
    )


@dataclass(frozen=True, eq=False)
class Fitness:
    """A strategy that meets the targets at least cost, and what is known of that cost.

    Attributes
    ----------
    strategy
        A with AᵀA = X: with independent noise of variance one on every row, the best estimate of a
        row w has the variance w X⁺ wᵀ.
    cost
        Δ² = μ² = 2ρ, the largest diagonal entry of X.
    bound
        No strategy meets the targets at a cost below this.
    row_prices, cell_prices
        The dual prices, each adding up to one: what bounds the cost.
    """

    strategy: Array
    cost: float
    bound: float
    row_prices: Array
    cell_prices: Array
    steps: int

    @property
    def gap(self) -> float:
        """How far the cost may be above the best, relative."""
        return self.cost / self.bound - 1.0

    @property
    def profile(self) -> Array:
        """The privacy cost of every cell's records: the diagonal of X."""
        return np.asarray(np.einsum("ri,ri->i", self.strategy, self.strategy))


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
    demands = Demands.of(workload, targets, limits)
    if demands.count > FEW_ROWS:
        return _of_many(demands, tolerance, watch)
    search = _PriceSearch(demands, tolerance, watch)
    search.run()
    return search.result()


def _of_many(demands: Demands, tolerance: float, watch: Callable[[float], None]) -> Fitness:
    """The fixed point of the prices alone: its steps take little more time for millions of rows."""
    rank, cells = demands.cells.shape
    columns = columns_of([TableColumns.of(demands.cells, np.arange(cells))])
    basis = RowBasis(columns, np.eye(rank), np.eye(rank))
    found = basis.least_worst(demands.priced(), tolerance, watch)
    small = np.asarray(found.rows) @ demands.cells * np.sqrt(found.value) * demands.scale
    strategy = demands.reduction.widened(small)
    prices = demands.row_prices(found.row_prices), demands.cell_prices(found.cell_prices)
    return Fitness(strategy, demands.cost(strategy), found.bound, *prices, found.steps)


class _PriceSearch:
    """The prices of rows and cells, and the best strategy found from them."""

    def __init__(self, demands: Demands, tolerance: float, watch: Callable[[float], None]) -> None:
        self.demands, self.tolerance, self.watch = demands, tolerance, watch
        self.cost, self.lower, self.steps = np.inf, 0.0, 0
        self.factor: Array = np.zeros((0, 0))
        self.rows = demands.rows()
        row = np.full(demands.count, 1.0 / demands.count)
        cell = np.full(demands.cells.shape[1], 1.0 / demands.cells.shape[1])
        self.certified = (row, cell)

    def run(self) -> None:
        """Prices of the rows and of the cells: a fixed point, then Newton's method."""
        rows, cells = self.rows, self.demands.cells
        problem = PriceProblem(rows, cells, np.zeros(cells.shape[1]))
        row, cell, done = warmed(problem, *self.certified, self._judge(1.0), WARMING)
        if done:
            return
        scale = problem.balance(row, cell).total  # then the cost is about one
        problem = replace(problem, rows=rows / scale, least=FLOOR * self.tolerance)
        self.steps = improve(problem, start(problem, row, cell), self._judge(scale))[1]

    def _judge(self, scale: float) -> Done:
        """Keep the best covariance and the best bound; is the gap closed?"""

        def judge(verdict: Verdict, row: Array, cell: Array) -> bool:
            if scale**2 * verdict.value < self.cost:
                self.cost = scale**2 * verdict.value
                self.factor = verdict.factor / scale
            if scale**2 * verdict.bound > self.lower:
                self.lower = scale**2 * verdict.bound
                self.certified = (row / row.sum(), cell / cell.sum())
            self.watch(self.cost / self.lower - 1.0)
            return self.cost <= self.lower * (1.0 + 0.5 * self.tolerance)

        return judge

    def result(self) -> Fitness:
        row, cell = self.certified
        weighted = (np.sqrt(row)[:, None] * self.rows @ self.demands.cells) * np.sqrt(cell)
        # The bound anew, from the prices alone: what is claimed does not rest on the search.
        nuclear = float(np.linalg.svd(weighted, compute_uv=False).sum())
        strategy = self.demands.strategy(self.factor)
        return Fitness(
            strategy,
            self.demands.cost(strategy),
            nuclear**2 * (1.0 - NUCLEAR_ERROR * len(weighted)),
            self.demands.row_prices(row),
            self.demands.cell_prices(cell),
            self.steps,
        )
