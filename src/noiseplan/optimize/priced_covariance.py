"""The covariance that balances priced rows against priced cells.

Rows L (m × r) are asked, cells B (r × n) are protected, W = LB. For prices μ of the rows' variances
and λ of the cells' costs,

    min over Σ ≻ 0 of  Σ_j μ_j h_j + Σ_i λ_i g_i ,    h_j = l_jΣl_jᵀ ,  g_i = b_iᵀΣ⁻¹b_i ,

is 2N with N = ‖diag(μ)^{1/2} W diag(λ)^{1/2}‖_*. With K₁ = B diag(λ) Bᵀ and K₂ = Lᵀ diag(μ) L the
best Σ solves Σ K₂ Σ = K₁; in the basis where Σ = I both are diag(s), N = Σ s.

*Curvature.* N is concave with gradient (h, g)/2. In that basis, with rows f_j of L and columns e_i
of B, its second derivative is −T/2 where

    T = Σ_kl (z_k z'_k)(z_l z'_l)/(s_k + s_l) ,   z, z' among f_j, e_i ;  minus for one f and one e.

Since 1/x is a sum of a dozen exponentials, T is a sum of a dozen squared matrix products.

References
----------
The program is Problem 1 of Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing
fitness-for-use of differentially private linear queries", PVLDB 14 (2021); its dual is a
factorisation norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from noiseplan.matrices.base import Array

# Spacing of the exponentials in log-time: 1.2 makes 1/x good to a few parts in a thousand, which is
# all a Newton direction needs.
SPACING = 1.2
LOWEST, HIGHEST = -3.0, 1.2


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
