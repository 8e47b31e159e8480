"""Rows l_j asked for, in few coordinates, and two questions about all of them at once.

    moments   Σ_j μ_j l_jᵀl_j ,        variances   ‖l_j F‖²  for every row .

Few rows are written out. Millions, as all ranges of some attributes are, stay the formulas they
are: l_j = c_j m_j P with rows m_j of a structured matrix, which answers both in about the time that
one product over its columns takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.array_namespace import AnyArray


class PricedRows(ABC):
    """Rows that have prices."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    @abstractmethod
    def moments(self, prices: AnyArray) -> AnyArray:
        """Σ_j μ_j l_jᵀl_j."""

    @abstractmethod
    def variances(self, factor: AnyArray) -> AnyArray:
        """‖l_j F‖² of every row."""


@final
@dataclass(frozen=True, eq=False)
class WrittenRows(PricedRows):
    """As numbers, rows × coordinates."""

    values: AnyArray

    @property
    def count(self) -> int:
        return len(self.values)

    def moments(self, prices: AnyArray) -> AnyArray:
        return self.values.T @ (self.values * prices[:, None])

    def variances(self, factor: AnyArray) -> AnyArray:
        return ((self.values @ factor) ** 2).sum(1)


@final
@dataclass(frozen=True, eq=False)
class FormulaRows(PricedRows):
    """c_j m_j P of matrices M with one P each: their rows one after another, times `scale`.

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> rows = FormulaRows(((PrefixMatrix(3), np.eye(3)),), np.array([1.0, 1.0, 2.0]))
    >>> rows.variances(np.eye(3)).tolist()
    [1.0, 2.0, 12.0]
    >>> rows.moments(np.array([0.0, 1.0, 0.0])).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """

    parts: tuple[tuple[Matrix, Array], ...]
    scale: Array

    @property
    def count(self) -> int:
        return len(self.scale)

    def moments(self, prices: AnyArray) -> AnyArray:
        ends = np.cumsum([matrix.shape[0] for matrix, _ in self.parts])[:-1]
        shares = np.split(np.asarray(prices) * self.scale**2, ends)
        pairs = zip(self.parts, shares, strict=True)
        return sum(p.T @ matrix.weighted_gram(own) @ p for (matrix, p), own in pairs)

    def variances(self, factor: AnyArray) -> AnyArray:
        forms = [matrix.quadratic_rows(_outer(p @ factor)) for matrix, p in self.parts]
        return self.scale**2 * np.maximum(np.concatenate(forms), 0.0)


def _outer(rows: Array) -> Array:
    return np.asarray(rows @ rows.T)
