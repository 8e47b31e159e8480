"""How low can the total variance be with Laplace noise? Two bounds that squares alone do not give.

*Tables.* Let tables m have the scales b_m = 1/s_m, at most Σ_m p_m s_m = ε in all, and tell the
residual a with the precision Σ_m c_am s_m²/2. A sum of squares is at most the square of the sum:
with g_am = √c_am the total variance is at least that of

    minimise  Σ_a 2 V_a / u_a² ,   u = g s ,   Σ_m p_m s_m ≤ ε ,

which is convex. For any y ≥ 0 with Σ_a y_a g_am ≤ p_m for all m, Σ_a y_a u_a ≤ ε, so that by Hölder

    Σ_a 2 V_a / u_a²  ≥  2 (Σ_a (V_a y_a²)^{1/3})³ / ε² .

*Volumes.* A mechanism answers W = L A, columns of A of L1 norm at most ε, at the total variance
2‖L‖². So K, the hull of ± the columns of W, lies in L B₁/ε, whose volume in r dimensions is at most
(‖L‖/ε)^r r^{−r/2} times that of the largest shadow of a cross-polytope, of any dimension, in r
dimensions. A shadow's polar body is a section of a cube, of volume at least 2^r (Vaaler 1979); so
by Blaschke and Santaló it has at most v_r²/2^r, v_r the volume of the unit ball; for r ≤ 3 at most
2^r/r! (Ivanov 2018).

References
----------
Bhaskara, Dadush, Krishnaswamy and Talwar, "Unconditional differentially private mechanisms for
linear queries", 2012 (volumes). Vaaler, "A geometric inequality with applications to linear forms",
1979. Ivanov, "On the volume of projections of the cross-polytope", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, pi
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

# Steps towards the best y, and how near to the least of the convex problem is near enough.
STEPS, GAP = 400, 0.005
# Of a power that moves shares to tables that tell more for their price.
STRIDE: Final = 0.5


@dataclass(frozen=True, eq=False)
class Telling:
    """√c and the price p of tables over a grid, each a product over the axes.

    The table k tells the residual j, grid points both, by ∏_r tells[r][k_r, j_r].
    """

    tells: tuple[Array, ...]
    price: Array

    def of_tables(self, residuals: Array) -> Array:
        """Σ_a y_a g_am of all tables."""
        return _along_axes(self.tells, residuals)

    def of_residuals(self, tables: Array) -> Array:
        """u = g s of all residuals."""
        return _along_axes([one.T for one in self.tells], tables)


def _along_axes(matrices: Sequence[Array], grid: Array) -> Array:
    for axis, matrix in enumerate(matrices):
        grid = np.moveaxis(np.tensordot(matrix, grid, (1, axis)), 0, axis)
    return grid


def tables_bound(variance: Array, kinds: Sequence[Telling]) -> float:
    """A lower bound on the total variance at ε = 1 of all shares of ε among these tables.

    `variance` is V over the grid, 0 where no residual is needed.
    """
    shares, best = [1.0 / kind.price for kind in kinds], 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(STEPS):
            told = sum(kind.of_residuals(s) for kind, s in zip(kinds, shares, strict=True))
            y = np.where(variance > 0, variance / told**3, 0.0)
            worth = [kind.of_tables(y) / kind.price for kind in kinds]
            most = max(float(one.max()) for one in worth)
            best = max(best, float(2.0 * np.cbrt(variance * (y / most) ** 2).sum() ** 3))
            spent = sum(float((k.price * s).sum()) for k, s in zip(kinds, shares, strict=True))
            reached = 2.0 * np.where(variance > 0, variance / told**2, 0.0).sum() * spent**2
            if reached <= best * (1 + GAP):
                break
            shares = [s * (w / most) ** STRIDE / spent for s, w in zip(shares, worth, strict=True)]
    return best * (1 - 1e-9)


def disjoint_tables_bound(sizes: Array, weights: Array) -> float:
    """The volume bound at ε = 1 of plain tables of n_i cells that have no attribute in common.

    Columns of W are a cell of each table: P, their hull, is a product of simplices of volumes
    √n/(n − 1)!, at the height h = √(Σ 1/n_i) over the origin. By Brunn and Minkowski the hull of
    ±P has at least the volume 2hP.
    """
    if not len(sizes):
        return 0.0
    rank = 1 + int((sizes - 1).sum())
    each = 0.5 * np.log(sizes) - [lgamma(n) for n in sizes] + 0.5 * (sizes - 1) * np.log(weights)
    volume = log(2.0) + 0.5 * log(float((weights / sizes).sum())) + float(each.sum())
    return 2.0 * rank * exp(2.0 / rank * (volume - _log_shadow(rank))) * (1 - 1e-9)


def _log_shadow(rank: int) -> float:
    """log of what the shadow of a cross-polytope has of volume at most."""
    if rank <= 3:
        return rank * log(2.0) - lgamma(rank + 1)
    return rank * log(pi) - 2.0 * lgamma(rank / 2 + 1) - rank * log(2.0)
