"""Privacy profiles: what each kind of record pays, which of two plans is kinder, what is left over.

The profile of a strategy is the diagonal of its cost matrix: entry i is the squared cost of records
in cell i, and √entry their own μ of Gaussian differential privacy. Two plans of equal cost are
ordered by their profiles, sorted from the largest down and compared like words.

Among all covariances that meet the targets at least cost one has the smallest profile in that order
(fitness for use, Theorem 16). It is found level by level: the largest entry is made as small as it
can be, the cells that need it are fixed there, and the others are made smaller in turn.

What the profile leaves below its largest entry is free: any further Gaussian release whose own
profile fits in between changes nothing of the privacy cost.

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Definitions 4 and 5, Theorems 11, 16, 17.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.fitness import Fitness, least_cost, solved_apart
from noiseplan.optimize.interior_point import PriceProblem, Verdict, improve, start
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.rows_with_targets import Demands, checked_rows, per_row

# The relative gap to which every level is solved.
SHARP = 1e-9
# What is left of a vector outside a span, relative, if it lies in it.
SPANNED = 1e-7
# Room left to a row that is met exactly, in units of its target.
ROOM = 1e-6
# Two entries of profiles closer than this are equal.
EQUAL = 1e-9


def profile_of(strategy: Array) -> Array:
    """The squared privacy cost of records in each cell: diag(AᵀA)."""
    return np.asarray(np.einsum("ri,ri->i", strategy, strategy))


def compared(one: Array, other: Array, equal: float = EQUAL) -> int:
    """−1, 0 or 1 as the first profile is smaller than, equal to or larger than the second.

    Examples
    --------
    >>> compared(np.array([1.0, 2.0, 1.0]), np.array([2.0, 2.0, 2.0]))
    -1
    """
    a, b = np.sort(one)[::-1], np.sort(other)[::-1]
    different = np.flatnonzero(np.abs(a - b) > equal * np.maximum(np.abs(a), np.abs(b)))
    if not len(different):
        return 0
    return -1 if a[different[0]] < b[different[0]] else 1


def refined_cost(workload: Matrix | Array, targets: float | Array = 1.0) -> Fitness:
    """The strategy of least cost and, among those, of smallest profile.

    Examples
    --------
    >>> found = refined_cost(np.eye(2), np.array([1.0, 4.0]))
    >>> found.profile.round(4).tolist()
    [1.0, 0.25]
    """
    rows = workload.dense() if isinstance(workload, Matrix) else checked_rows(workload)
    return solved_apart(rows, per_row(targets, len(rows)), lambda part, own, _: _refined(part, own))


def _refined(rows: Array, targets: Array) -> Fitness:
    """The same for rows and cells that all belong together."""
    first = least_cost(rows, targets, tolerance=SHARP)
    demands = Demands.of(rows, targets, None)
    kept, scale = demands.reduction.first, np.sqrt(first.cost)  # in its units costs are about one
    measured = (first.strategy[:, kept] @ np.linalg.pinv(demands.cells)) / scale
    asked = demands.rows() / scale
    sigma = np.asarray(np.linalg.inv(measured.T @ measured), dtype=np.float64)
    face = _Face(asked, demands.cells, np.ones(demands.count), np.zeros(len(kept)))
    sigma = face.refined(sigma, _binding(first.cell_prices[kept], first.profile[kept]))
    sigma = sigma / (first.cost * float(_forms(asked, sigma).max()))
    strategy = demands.strategy(np.asarray(np.linalg.cholesky(sigma), dtype=np.float64))
    return replace(first, strategy=strategy, cost=demands.cost(strategy))


Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Face:
    """The covariances still open once some cells are fixed: a problem of the same kind, smaller.

    Where the cells fixed span V, every optimal S = Σ⁻¹ agrees on V (Theorem 17). In an orthonormal
    basis (V, P) with A = VᵀSV and C = VᵀSP only the Schur complement Z ≻ 0 of A is free, and with
    Q = P − VA⁻¹C

        Σ = VA⁻¹Vᵀ + Q Z⁻¹ Qᵀ ,    S = S₀ + P Z Pᵀ :

    variances and costs are known parts plus those of the covariance Z⁻¹ in fewer dimensions.
    """

    rows: Array
    cells: Array
    targets: Array  # what is left of each row's target
    offsets: Array  # what each cell costs already

    def refined(self, sigma: Array, paying: Mask) -> Array:
        """The covariance of smallest profile, given one of least level and what binds there."""
        span, values, _ = np.linalg.svd(self.cells[:, paying])
        known = int((values > SPANNED * values[0]).sum())
        if known == len(self.cells):
            return sigma
        inside, across = span[:, :known], span[:, known:]
        precision = np.asarray(np.linalg.inv(sigma), dtype=np.float64)
        solved = np.linalg.solve(inside.T @ precision @ inside, inside.T)  # A⁻¹Vᵀ
        base, lift = inside @ solved, across - inside @ (solved @ precision @ across)
        # Z as it is now:
        own = np.asarray(np.linalg.inv(across.T @ sigma @ across), dtype=np.float64)
        rows, cells = self.rows @ lift, across.T @ self.cells
        # A row met exactly by what is known has nothing left; Z moves it by rounding only.
        targets = np.maximum(self.targets - _forms(self.rows, base), ROOM)
        offsets = self.offsets + _forms(self.cells.T, precision) - _forms(cells.T, own)
        row = _lengths(rows) > SPANNED * _lengths(self.rows)
        cell = _lengths(cells.T) > SPANNED * _lengths(self.cells.T)
        smaller = _Face(rows[row], cells[:, cell], targets[row], offsets[cell])
        inner = smaller.refined(*smaller.solved())
        return np.asarray(base + lift @ inner @ lift.T, dtype=np.float64)

    def solved(self) -> tuple[Array, Mask]:
        """A covariance of least level, and the cells that need it."""
        rows = self.rows / np.sqrt(self.targets)[:, None]
        problem = PriceProblem(rows, self.cells, self.offsets, 0.1 * SHARP)
        found: list[tuple[Verdict, Array]] = []

        def judge(verdict: Verdict, row: Array, cell: Array) -> bool:
            found.append((verdict, cell))
            return verdict.value - verdict.bound <= SHARP * verdict.value

        begin = start(problem, np.ones(len(rows)), np.ones(self.cells.shape[1]))
        improve(problem, begin, judge)
        # Covariance and prices of one step: both must be good for slack and price to be told apart.
        best, cell = min(found, key=lambda item: item[0].value - item[0].bound)
        return np.asarray(best.factor @ best.factor.T), _binding(cell, best.costs)


def _binding(prices: Array, values: Array) -> Mask:
    """Where the limit is needed: the price is large where the slack is small."""
    binding = prices / prices.max() > 1.0 - values / values.max()
    binding[np.argmax(prices)] = True
    return np.asarray(binding)


def _lengths(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=1))


def _forms(rows: Array, matrix: Array) -> Array:
    """The quadratic form of every row."""
    return np.asarray(np.einsum("jk,jk->j", rows @ matrix, rows))


@dataclass(frozen=True, eq=False)
class Spare:
    """What a strategy's profile leaves free, cell by cell."""

    strategy: Array
    room: Array

    @staticmethod
    def of(strategy: Array, cost: float | None = None) -> Spare:
        """The room below the cost: the largest entry of the profile if not given."""
        profile = profile_of(strategy)
        highest = float(profile.max()) if cost is None else cost
        if profile.max() > highest * (1 + EQUAL):
            raise PlanError(f"the strategy costs {profile.max():g}, above the cost {highest:g}")
        room = np.maximum(highest - profile, 0.0)
        room[room <= EQUAL * highest] = 0.0
        return Spare(strategy, room)

    def measuring(self, gram: Array) -> Array:
        """The free rows that serve queries with this Gram matrix best, by themselves.

        Cells without room are left alone: what of a query lies on them is answered from the
        strategy itself, or not at all.
        """
        open_cells = np.flatnonzero(self.room > 0)
        part = gram[np.ix_(open_cells, open_cells)]
        if not part.any():
            return np.zeros((0, len(gram)))
        lengths = np.sqrt(self.room[open_cells])
        found = dense_optimum(part / np.outer(lengths, lengths))
        extra = np.zeros((len(found.strategy), len(gram)))
        extra[:, open_cells] = found.strategy * lengths
        return extra
