"""Cells and their sum: the one workload whose optima are formulas.

W = [I; 1ᵀ] over d cells. By symmetry Σ = aI + b11ᵀ: a cell has variance a + b, the sum da + d²b,
and every record costs (a + (d−1)b)/(a² + dab).

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Theorems 6, 7, 8, 14, 15.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from noiseplan.errors import PlanError


@dataclass(frozen=True)
class Exchangeable:
    """Σ = aI + b11ᵀ over d cells.

    Examples
    --------
    >>> noise = fitness_optimum(cells=5)
    >>> [round(v, 6) for v in (noise.cell_variance, noise.sum_variance, noise.cost)]
    [1.0, 1.0, 1.666667]
    """

    cells: int
    a: float
    b: float

    @property
    def cell_variance(self) -> float:
        return self.a + self.b

    @property
    def sum_variance(self) -> float:
        return self.cells * self.a + self.cells**2 * self.b

    @property
    def cost(self) -> float:
        """Δ² of every record."""
        return (self.a + (self.cells - 1) * self.b) / (self.a**2 + self.cells * self.a * self.b)


def fitness_optimum(cells: int, cell_target: float = 1.0, sum_target: float = 1.0) -> Exchangeable:
    """The least cost with these targets (Theorem 15); a loose sum needs only the cells."""
    d, k = _checked(cells), sum_target / cell_target
    if k >= d:
        return Exchangeable(d, cell_target, 0.0)
    scale = cell_target / (d * (d - 1))
    return Exchangeable(d, (d * d - k) * scale, (k - d) * scale)


def squares_optimum(cells: int, cost: float = 1.0, w: float = 1.0) -> Exchangeable:
    """The least Σ cell variances + (sum variance)/w² at a cost (Theorem 14).

    With Σ⁻¹ = xI + y11ᵀ and x + y = cost, the sum is 1/(x + dy) and d − 1 directions have 1/x; the
    best split of the cost is a closed form.
    """
    d = _checked(cells)
    root = w * sqrt(d + w * w)
    share, over = (d - 1) * w * w - root, (d - 2) * w * w - 1
    if share * over <= 0:
        raise PlanError(f"no closed form for {d} cells and w = {w:g}: use dense_optimum")
    x = cost * share / over
    y = cost - x
    return Exchangeable(d, 1.0 / x, -y / (x * x + d * x * y))


def _checked(cells: int) -> int:
    if cells < 2:
        raise PlanError(f"cells and their sum need at least two cells, found {cells}")
    return cells
