"""One attribute's split into its sum and its residual.

Choose U such that M = [1ᵀ; U] is invertible, and split the inverse, T = M⁻¹ = [τ | V]:

    1ᵀτ = 1,   Uτ = 0,   1ᵀV = 0,   UV = I,   I = τ1ᵀ + VU .

Every query factor then splits as W = (Wτ)1ᵀ + (WV)U: a part that needs only the sum over the
attribute, and a part that needs the residual U. τ = 1/n gives ResidualPlanner(+); a free τ makes
the split oblique, and better.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array, Matrix

# Squared norms this much smaller than what their factors could make are taken for rounding.
ROUNDING = 1e-26
# T must invert M to this precision: answers are no better than that.
INVERTED = 1e-7


@dataclass(frozen=True, eq=False)
class Basis:
    """U (rows × n), τ (n) and V (n × rows) of one attribute.

    Values that are never told apart may share columns of U; then I = τ1ᵀ + VU holds for every
    factor that does not tell them apart, which `spans` checks.
    """

    measure: Array
    centre: Array
    recover: Array

    @classmethod
    def orthogonal(cls, size: int) -> Basis:
        """An orthonormal basis of 1^⊥: U Uᵀ = I, UᵀU = I − 11ᵀ/n, τ = 1/n (ResidualPlanner).

        The rows are those of the Householder reflection that takes 1/√n to the first unit vector.
        """
        axis = np.full(size, size**-0.5)
        axis[0] -= 1.0
        norm = axis @ axis
        mirror = np.eye(size) - (2.0 / norm if norm else 0.0) * np.outer(axis, axis)
        rows = mirror[1:]
        return cls(rows, np.full(size, 1.0 / size), np.ascontiguousarray(rows.T))

    @classmethod
    def integer(cls, size: int) -> Basis:
        """nI − 11ᵀ: the same residual measured by integers, with as many numbers as values.

        U†U = I − 11ᵀ/n, and VVᵀ = (I − 11ᵀ/n)/n²: with n² times the variance it is the orthogonal
        basis over again (ResidualPlanner+, Algorithm 3).
        """
        centred = size * np.eye(size) - 1.0
        return cls(centred, np.full(size, 1.0 / size), centred / size**2)

    @classmethod
    def from_rows(cls, measure: Array, groups: IntArray | None = None) -> Basis:
        """The basis measured by U over groups of values (each value its own group by default).

        Raises `numpy.linalg.LinAlgError` where M is singular for all that numbers can tell.
        """
        count = measure.shape[1]
        matrix = np.vstack([np.ones(count), measure])
        inverse = np.linalg.inv(matrix)
        if not np.abs(matrix @ inverse - np.eye(count)).max() <= INVERTED:
            raise np.linalg.LinAlgError("the measured rows and the sum are linearly dependent")
        if groups is not None:
            members = np.bincount(groups, minlength=count)
            measure, inverse = measure[:, groups], (inverse / members[:, None])[groups]
        return cls(np.ascontiguousarray(measure), inverse[:, 0].copy(), inverse[:, 1:].copy())

    @property
    def size(self) -> int:
        return int(self.measure.shape[1])

    @property
    def rows(self) -> int:
        return int(self.measure.shape[0])

    @cached_property
    def forward(self) -> Array:
        """M = [1ᵀ; U]: counts to sum and residual."""
        return np.vstack([np.ones(self.size), self.measure])

    @cached_property
    def inverse(self) -> Array:
        """T = [τ | V]: sum and residual back to counts."""
        return np.column_stack([self.centre, self.recover])

    @cached_property
    def gram(self) -> Array:
        """UᵀU, n × n: what one record's value costs against another's."""
        return self.measure.T @ self.measure

    @cached_property
    def sensitivity(self) -> float:
        """β, the largest squared column norm of U (zero when nothing is measured)."""
        return float(np.max(np.einsum("ri,ri->i", self.measure, self.measure), initial=0.0))

    @cached_property
    def spread(self) -> Array:
        """VVᵀ, n × n: the noise of the residual part, in counts."""
        return self.recover @ self.recover.T

    def spans(self, factor: Matrix) -> bool:
        """Whether W = (Wτ)1ᵀ + (WV)U, so that the factor can be answered from this basis."""
        if self.rows == self.size - 1:
            return True
        lost = np.eye(self.size) - self.inverse @ self.forward
        length = np.sqrt(factor.quadratic_rows(np.eye(self.size)))[:, None]
        # A few columns at a time: a factor may have half a million rows.
        blocks = (lost[:, start : start + 32] for start in range(0, self.size, 32))
        return all((np.abs(factor.matmul(block)) <= 1e-9 * length).all() for block in blocks)
