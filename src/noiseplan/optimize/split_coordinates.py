"""Coordinates for U: any matrix, its columns scaled to length one, with the inverse of M = [1ᵀ; U].

Unit columns make β = 1. Letting columns be shorter was tried and never lowered an optimum but for
records that are replaced, by next to nothing over all objectives.

Where factors ask nothing of some directions, U would gain by leaving them out, and M would become
singular. A restraint on the size of T, too small to be felt anywhere else, keeps a trace of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

# The objectives are logarithms, so this much of ‖T‖²/n costs that share of the optimum; directions
# that nobody asks about keep about RESTRAINT^¼ of their length.
RESTRAINT: Final = 1e-10


@dataclass(frozen=True, eq=False)
class Point:
    """A U, mostly with unit columns, and the inverse of M."""

    rows: Array  # U
    lengths: Array | None  # of the columns before they were scaled, if they were
    inverse: Array  # T = [τ | V]

    @classmethod
    def at(cls, raw: Array) -> Point:
        lengths = np.sqrt(np.einsum("ri,ri->i", raw, raw))
        rows = raw / lengths
        return cls(rows, lengths, _inverse(rows))

    @classmethod
    def still(cls, rows: Array) -> Point:
        """A U as it is, its columns of any length."""
        return cls(rows, None, _inverse(rows))

    def pull_back(self, d_inverse: Array, d_unit: Array | float = 0.0) -> Array:
        """The gradient with respect to raw U, from those with respect to T and to U itself."""
        d_rows = self._d_rows(d_inverse) + d_unit
        if self.lengths is None:
            return np.asarray(d_rows)
        along = np.einsum("ri,ri->i", self.rows, d_rows)
        return np.asarray((d_rows - self.rows * along) / self.lengths)

    def column_prices(self, d_inverse: Array) -> Array:
        """What the objective would gain from longer columns: the multipliers of ‖u_j‖ ≤ 1."""
        return np.asarray(-np.einsum("ri,ri->i", self.rows, self._d_rows(d_inverse)))

    def _d_rows(self, d_inverse: Array) -> Array:
        # M = [1ᵀ; U], T = M⁻¹: dT = −T dM T, so the gradient with respect to M is −Tᵀ G Tᵀ.
        d_matrix: Array = -(self.inverse.T @ d_inverse @ self.inverse.T)
        return d_matrix[1:]


def _inverse(rows: Array) -> Array:
    """M⁻¹ of M = [1ᵀ; U]."""
    matrix = np.ones((len(rows) + 1, rows.shape[1]))
    matrix[1:] = rows
    return np.asarray(np.linalg.inv(matrix))


@dataclass(frozen=True)
class Chart:
    """All free roles' U as one vector."""

    shapes: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, rows: dict[int, Array]) -> Chart:
        return cls({r: (u.shape[0], u.shape[1]) for r, u in rows.items()})

    @staticmethod
    def pack(rows: dict[int, Array]) -> Array:
        return np.concatenate([u.ravel() for u in rows.values()])

    def points(self, x: Array) -> dict[int, Point]:
        found, start = {}, 0
        for r, (a, b) in self.shapes.items():
            found[r] = Point.at(x[start : start + a * b].reshape(a, b))
            start += a * b
        return found

    def restraint(self, points: dict[int, Point], gradients: dict[int, Array]) -> float:
        """RESTRAINT · Σ ‖T‖²/n, and its gradient added to those with respect to every T."""
        value = 0.0
        for r, point in points.items():
            weight = RESTRAINT / len(point.inverse)
            value += weight * float(np.einsum("ij,ij->", point.inverse, point.inverse))
            gradients[r] += 2.0 * weight * point.inverse
        return value

    def pull_back(
        self,
        points: dict[int, Point],
        gradients: dict[int, Array],
        units: Mapping[int, Array] = MappingProxyType({}),
    ) -> Array:
        """The gradient with respect to the vector, from those by every T, and by U itself."""
        pulled = [points[r].pull_back(gradients[r], units.get(r, 0.0)) for r in self.shapes]
        return np.concatenate([one.ravel() for one in pulled])
