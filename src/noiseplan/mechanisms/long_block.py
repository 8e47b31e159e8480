"""What is measured along a long attribute, for one set of others: what its rows are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.matrices.base import Array


class LongRows(Protocol):
    """Rows along a long attribute, in whatever form its blocks know."""

    @property
    def count(self) -> int:
        """How many rows."""

    def part(self, rows: slice) -> LongRows:
        """Some of the rows."""


Rows = TypeVar("Rows", bound=LongRows)


class LongBlock(ABC, Generic[Rows]):
    """The numbers of other attributes in a set, measured along the long one.

    Estimates are a list of arrays (numbers of the others …, along the attribute).
    """

    others: tuple[int, ...]

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """Numbers of each measured array along the attribute."""

    @abstractmethod
    def cost_along(self) -> Array:
        """BᵀΣ⁻¹B along the attribute, values × values, for few values."""

    @abstractmethod
    def prices_along(self) -> Array:
        """Its diagonal, for any number of values."""

    @abstractmethod
    def on_lattice(self, exact: int) -> LongBlock[Rows]:
        """With continuous noise of the same sizes."""

    @abstractmethod
    def estimates(self, measured: Sequence[NDArray[np.number]]) -> list[Array]:
        """Of all that is measured, from the noisy numbers (…, along the attribute)."""

    @abstractmethod
    def seen(self, rows: Rows) -> Rows | None:
        """Rows as this block measures them; None where they tell more apart than it does."""

    @abstractmethod
    def weights(self, rows: Rows) -> sp.csr_array:
        """Seen rows, over all that is estimated along the attribute."""

    @abstractmethod
    def of_weights(self, weights: sp.csr_array) -> Rows:
        """Undo `weights`."""

    @abstractmethod
    def values(self, estimates: list[Array]) -> Array:
        """The estimates that `weights` are over."""

    @abstractmethod
    def estimate(self, estimates: list[Array], rows: Rows) -> Array:
        """Seen rows of what was estimated, (…, rows)."""

    @abstractmethod
    def variance(self, rows: Rows) -> Array:
        """The variance of every seen row, of each number of the others."""

    def variance_sum(self, rows: Rows) -> float:
        """Σ of the variances of all seen rows."""
        return float(self.variance(rows).sum())

    @abstractmethod
    def covariance(self, rows: Rows, others: Rows) -> Array:
        """Of every seen row of one with every row of the other."""


AnyBlock = LongBlock[Any]


def largest_weights(rows: sp.csr_array) -> Array:
    """The largest weight of every row, without its sign."""
    return np.asarray(abs(rows).max(axis=1).toarray()).ravel()
