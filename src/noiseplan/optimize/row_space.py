"""The exact optimum in the row space of a workload: its rank matters, not the number of cells.

Rows w_j = l_j T b over columns b_x, T with r independent rows; record weights λ and row weights μ,
both probabilities. With K₁ = T (Σ_x λ_x b_x b_xᵀ) Tᵀ and K₂ = Σ_j μ_j l_jᵀl_j (r × r each), the
best covariance for these weights solves Σ K₂ Σ = K₁. In the basis F of Σ = FFᵀ both are diag(s),

    N = Σ s ,    variances h_j = ‖l_j F‖² ,    costs g_x = ‖F⁻¹T b_x‖² ,    Σ μ_j h_j = Σ λ_x g_x = N .

No mechanism of cost one has a lower worst variance than N², and Σ reaches max h · max g. For the
total variance K₂ is the identity and stays: no total is below N², and Σ reaches N · max g.
N is concave with gradient (h, g)/2: weights are multiplied by powers of h/N and g/N, mixed with
their past (`anderson`).

References
----------
`optimum` and `priced_covariance` have the same programs over all cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.array_namespace import AnyArray, like, namespace_of, to_numpy
from noiseplan.optimize.cell_columns import Columns
from noiseplan.optimize.optimum import FARTHEST, MEMORY, SMALLEST_WEIGHT, Watch
from noiseplan.optimize.tolerances import EIGENVALUE_ERROR, RANK_FLOOR

# Powers of g and h: where λ moves alone, and where μ moves too.
ALONE, TOGETHER = 2.0, 1.0
# No row's weight is below this share of the largest, so that no direction is without a price.
LEAST_PRICE = 1e-9
MOST_STEPS = 400


@dataclass(frozen=True, eq=False)
class RowSpaceOptimum:
    """Rows C with ‖C b_x‖² ≤ 1 for every cell, the value they reach, what none is below."""

    rows: AnyArray
    value: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """How far the value may be above the best, relative."""
        return self.value / self.bound - 1.0


@dataclass(frozen=True, eq=False)
class RowSpace:
    """T, with r independent rows over those of the columns, and B with w = (AB)T for rows w = A b.

    R M Rᵀ = Q diag(v) Qᵀ for M = Σ_x b_x b_xᵀ/n and the rows asked for, RᵀR = AᵀA. Rows with v = 0
    are zero at every cell; T = QᵀR has the others, and T M Tᵀ = diag(v) gives B = M Tᵀ diag(v)⁻¹.
    """

    columns: Columns
    basis: AnyArray
    back: AnyArray

    @staticmethod
    def of(root: AnyArray, columns: Columns) -> RowSpace:
        """From R and the columns of all cells."""
        xp = namespace_of(root)
        moments = columns.moments(like(np.full(columns.cells, 1.0 / columns.cells), root))
        values, vectors = xp.linalg.eigh(root @ moments @ root.T)
        least = RANK_FLOOR * len(values) * float(values[-1])
        kept = np.flatnonzero(to_numpy(values) > least).tolist()
        basis = vectors[:, kept].T @ root
        return RowSpace(columns, basis, moments @ basis.T / values[kept])

    @property
    def rank(self) -> int:
        """r."""
        return len(self.basis)

    def least_total(self, tolerance: float, watch: Watch = lambda gap: None) -> RowSpaceOptimum:
        """The least total variance of all rows, to a relative gap."""
        return _Climb(self, None).run(tolerance, watch)

    def least_worst(
        self, rows: AnyArray, tolerance: float, watch: Watch = lambda gap: None
    ) -> RowSpaceOptimum:
        """The least largest variance of rows A, given over those of the columns."""
        return _Climb(self, rows @ self.back).run(tolerance, watch)


class _Climb:
    """The ascent over the logarithms of λ and μ, with the best plan and the best bound so far."""

    def __init__(self, space: RowSpace, rows: AnyArray | None) -> None:
        self.space, self.rows = space, rows
        self.cells, self.xp = space.columns.cells, namespace_of(space.basis)
        self.value, self.bound = float("inf"), 0.0
        self.best: AnyArray = None

    def run(self, tolerance: float, watch: Watch) -> RowSpaceOptimum:
        """Climb until the gap closes."""
        xp, moving = self.xp, 0 if self.rows is None else len(self.rows)
        ascent = Ascent(MEMORY, FARTHEST)
        point = like(np.zeros(self.cells + moving), self.space.basis)
        step = 0
        for step in range(1, MOST_STEPS + 1):
            shares = self._shares(xp.exp(point))
            bound, ratios = self._visit(shares)
            watch(self.value / self.bound - 1.0)
            if self.value <= self.bound * (1.0 + tolerance):
                break
            residual = (TOGETHER if moving else ALONE) * xp.log(ratios.clip(min=1e-300))
            point = ascent.next(point, bound, residual, shares)
            point = (point - point.max()).clip(min=SMALLEST_WEIGHT)
        return RowSpaceOptimum(self.best, self.value, self.bound, step)

    def _shares(self, weights: AnyArray) -> AnyArray:
        """λ and μ that sum to one each."""
        cells, rows = weights[: self.cells], weights[self.cells :]
        if self.rows is None:
            return cells / cells.sum()
        rows = rows.clip(min=float(rows.max()) * LEAST_PRICE)
        return self.xp.concatenate([cells / cells.sum(), rows / rows.sum()])

    def _visit(self, shares: AnyArray) -> tuple[float, AnyArray]:
        """The bound at these weights, and g/N, h/N; what is best is kept."""
        basis, columns = self.space.basis, self.space.columns
        inner = basis @ columns.moments(shares[: self.cells]) @ basis.T
        found = _Priced.of(inner, self.rows, shares[self.cells :])
        rows = found.inverse @ basis
        costs = columns.squares(rows.T @ rows)
        largest = float(costs.max())
        value = largest * (found.total if self.rows is None else float(found.variances.max()))
        if value < self.value:
            self.value, self.best = value, rows / largest**0.5
        self.bound = max(self.bound, found.bound)
        both = costs if self.rows is None else self.xp.concatenate([costs, found.variances])
        return found.bound, both / found.total


@dataclass(frozen=True, eq=False)
class _Priced:
    """F⁻¹ of the best covariance for some weights, N, h where μ moves, and the bound."""

    inverse: AnyArray
    total: float
    variances: AnyArray
    bound: float

    @staticmethod
    def of(inner: AnyArray, rows: AnyArray | None, prices: AnyArray) -> _Priced:
        """From K₁, l_j and μ: K₂ = CCᵀ, CᵀK₁C = U diag(s²) Uᵀ, F⁻¹ = diag(s)^{−1/2} UᵀCᵀ."""
        xp = namespace_of(inner)
        lower = None if rows is None else _lower(rows.T @ (rows * prices[:, None]))
        values, vectors = xp.linalg.eigh(inner if lower is None else lower.T @ inner @ lower)
        singular = xp.sqrt(values.clip(min=float(values[-1]) * 1e-18))
        inverse, variances = (vectors / xp.sqrt(singular)).T, None
        if lower is not None:
            factor = xp.linalg.solve(lower.T, vectors * xp.sqrt(singular))
            inverse, variances = inverse @ lower.T, ((rows @ factor) ** 2).sum(1)
        off = EIGENVALUE_ERROR * len(values) * float(values[-1])
        bound = float(xp.sqrt((values - off).clip(min=0.0)).sum()) ** 2
        return _Priced(inverse, float(singular.sum()), variances, bound)


def _lower(matrix: AnyArray) -> AnyArray:
    try:
        return namespace_of(matrix).linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        raise PlanError(
            "the sizes of weights, targets or entries differ too much for double precision: bring "
            "them nearer to each other, or leave out what is negligible"
        ) from None
