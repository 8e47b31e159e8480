"""Errors over a whole workload, one number per type of query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.planning.design import Design
from noiseplan.planning.rows import worst_rows
from noiseplan.planning.solve import group_inverses, type_matrix


class Figures(ABC):
    """Variances of a plan's query types; queries of one type have the same."""

    @abstractmethod
    def sums(self) -> Array:
        """Sum of the row variances of one query of each type."""

    @abstractmethod
    def largest(self) -> Array:
        """Largest row variance of a query of each type."""


@dataclass(frozen=True, eq=False)
class ResidualFigures(Figures):
    """From the bases and the noise of each type of subset, without touching a single row."""

    design: Design
    bases: dict[int, Basis]
    sigma2: Array

    def _noise(self) -> Array:
        """σ² of each subset type, zero where it is not measured (and not needed)."""
        return np.where(np.isfinite(self.sigma2), self.sigma2, 0.0)

    def sums(self) -> Array:
        return np.asarray(type_matrix(self.design, self.bases) @ self._noise())

    def largest(self) -> Array:
        rows, owner = worst_rows(self.design, group_inverses(self.design, self.bases))
        worst = np.zeros(self.design.terms.queries)
        np.maximum.at(worst, owner, rows @ self._noise())
        return worst


@dataclass(frozen=True, eq=False)
class RowFigures(Figures):
    """From the variance of every row of one query of each type; for small domains."""

    design: Design
    mechanism: Mechanism

    def _variances(self) -> list[Array]:
        first = np.unique(self.design.roles.type_of_query, return_index=True)[1]
        return [self.mechanism.variance(self.design.workload.query(int(q))) for q in first]

    def sums(self) -> Array:
        return np.array([variances.sum() for variances in self._variances()])

    def largest(self) -> Array:
        return np.array([variances.max() for variances in self._variances()])
