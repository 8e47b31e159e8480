"""What those who pay ask of a block, in weights: single records, or pairs of which one replaces
the other.

With P = uᵀΨu over the cells of a block, records of the weights λ cost Σ_x λ_x P_xx, and pairs

    Σ_xy λ_xy (P_xx + P_yy − 2P_xy) = tr(FP) ,    F = 2 (diag(Λ1) − Λ) ,   Λ = λ made symmetric,

so that K = Z F Zᵀ takes the place of Z diag(λ) Zᵀ (`block_precision`). Of a product P = ⊗P_i, one
attribute pays by F_i = 2 (diag(own) − cross): own sums Λ1 with the P_j of all others at the values
of one record, cross sums Λ with those at the values of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from noiseplan.matrices.base import Array


class Priced(Protocol):
    """An attribute whose precision is known."""

    @property
    def costs(self) -> Array:
        """The diagonal of P."""

    @property
    def gram(self) -> Array:
        """P."""


class Load(ABC):
    """Weights of all who pay for a block: vectors of cells, or forms over them."""

    @property
    @abstractmethod
    def whole(self) -> Array:
        """Over all cells of the block."""

    @abstractmethod
    def along(self, place: int, attributes: Sequence[Priced]) -> Array:
        """Over the values of one attribute, the others being as they are."""


@final
@dataclass(frozen=True, eq=False)
class RecordLoad(Load):
    """λ of every record, an axis for each attribute.

    Examples
    --------
    >>> RecordLoad(np.array([[1.0, 2.0], [3.0, 4.0]])).whole.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    weights: Array

    @property
    def whole(self) -> Array:
        return self.weights.ravel()

    def along(self, place: int, attributes: Sequence[Priced]) -> Array:
        return _at_one(self.weights, place, attributes)


@final
@dataclass(frozen=True, eq=False)
class PairLoad(Load):
    """Λ1, an axis for each attribute, and Λ, an axis for each attribute of either record.

    Examples
    --------
    >>> half = np.array([[0.0, 0.5], [0.5, 0.0]])
    >>> PairLoad(half.sum(axis=1), half).whole.tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    own: Array
    cross: Array

    @property
    def whole(self) -> Array:
        return _form(self.own.ravel(), self.cross.reshape(self.own.size, -1))

    def along(self, place: int, attributes: Sequence[Priced]) -> Array:
        cross = self.cross
        for j in reversed(range(self.own.ndim)):
            if j != place:
                cross = at_both(cross, j, attributes[j].gram)
        return _form(_at_one(self.own, place, attributes), cross)


def _form(own: Array, cross: Array) -> Array:
    return np.asarray(2.0 * (np.diag(own) - cross))


def _at_one(weights: Array, place: int, attributes: Sequence[Priced]) -> Array:
    """Summed over all attributes but one, the others by what one record costs."""
    for j in reversed(range(weights.ndim)):
        if j != place:
            weights = np.tensordot(weights, attributes[j].costs, axes=(j, 0))
    return weights


def at_both(cross: Array, place: int, gram: Array) -> Array:
    """Λ summed over an attribute of both records, by its P at their values."""
    return np.tensordot(cross, gram, axes=((place, place + cross.ndim // 2), (0, 1)))
