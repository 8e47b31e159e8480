"""One attribute as a table measures it: by value, by difference, or by a strategy of its own.

A strategy S with X = SᵀS splits as X = c·11ᵀ + UᵀU, c = 1/(1ᵀX⁻¹1), and M = [1ᵀ; U] has

    M X⁻¹ Mᵀ = diag(1/c, I) .

So F = M X⁻¹Sᵀ turns noisy numbers Sx + z into the best estimate of the sum and of the residual Ux,
with uncorrelated errors: variance 1/c for the sum and 1 for each residual, in units of z's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices import IdentityMatrix, Matrix
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis


@dataclass(frozen=True, eq=False)
class View:
    """What is measured of an attribute, and how sum and residual follow from it.

    `reduce` is F; its first row is the sum where `total`, the variance of the sum, is a number.
    `residual` is the variance of each residual. Both are in units of the variance of the noise.
    """

    kind: str
    measure: Array | Matrix
    reduce: Array | Matrix
    total: float | None
    residual: float = 1.0

    @property
    def rows(self) -> int:
        """Numbers measured along the attribute."""
        return int(self.measure.shape[0])

    @property
    def size(self) -> int:
        """Values of the attribute."""
        return int(self.measure.shape[1])


def by_value(size: int, basis: Basis) -> View:
    """Every value: S = I."""
    return View("values", IdentityMatrix(size), basis.forward, float(size))


def by_difference(basis: Basis) -> View:
    """The one residual of an attribute of two values, x₁ − x₂; its sum is left to other tables."""
    unit = float(np.asarray(basis.measure)[0, 0])  # U = unit · [1, −1]
    return View("difference", np.array([[1.0, -1.0]]), np.array([[unit]]), None, unit**2)


def by_strategy(strategy: Array, groups: IntArray) -> tuple[View, Basis]:
    """S over groups of values, and the basis in which its errors are uncorrelated.

    Raises `numpy.linalg.LinAlgError` where S does not determine the groups.
    """
    cost = strategy.T @ strategy
    inverse = np.linalg.inv(cost)
    total = float(inverse.sum())
    values, vectors = np.linalg.eigh(cost - 1.0 / total)
    # The smallest eigenvalue is zero: its direction, X⁻¹1, is the sum's.
    rows = np.sqrt(np.maximum(values[1:], 0.0))[:, None] * vectors[:, 1:].T
    basis = Basis.from_rows(rows, groups)
    reduce = np.vstack([np.ones(len(cost)), rows]) @ inverse @ strategy.T
    return View("strategy", np.ascontiguousarray(strategy[:, groups]), reduce, total), basis
