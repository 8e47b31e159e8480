"""What is measured of one set, as a residual of a frame's times rows over its cells: see `crossed`.

A block of residuals may have other rows on split attributes than the frame, as long as their Gram
matrices are the same but for a factor; its numbers are then those of the frame's rows, in other
units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import immutable
from noiseplan.matrices import kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.basis import Basis, WideBasis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.crossed_queries import Frame, Set
from noiseplan.mechanisms.own_answers import dense_rows, over_domain

# Rows are the same but for a factor if their Gram matrices are, to this share.
ALIKE: Final = 1e-12
# Gram matrices of attributes with more values are not written down to compare them.
COMPARED_VALUES: Final = 1024


class Piece(ABC):
    """A set of split attributes, the rows over D's cells it is measured by, and its numbers."""

    @property
    @abstractmethod
    def split(self) -> Set:
        """The split attributes of the set."""

    @property
    @abstractmethod
    def cell_rows(self) -> Array:
        """The rows over D's cells."""

    @property
    @abstractmethod
    def sigma2(self) -> float:
        """Of the noise, in the units of the frame's rows."""

    @abstractmethod
    def numbers(self, measured: Measurements) -> Array:
        """What was measured, in the frame's rows: residual coordinates …, rows over D."""

    @abstractmethod
    def put(self, values: Sequence[Array], cells: Array) -> None:
        """Write what would have been measured of residual coordinates … × D's cells."""


@immutable
@dataclass(frozen=True, eq=False)
class BlockPiece(Piece):
    """What a block measures of one set.

    Its rows over split attributes have `scale` times the Gram matrix of the frame's.
    """

    frame: Frame
    block: Block
    number: int  # of the block among the mechanism's
    place: int
    rows: Array
    scale: float

    @property
    def cell_rows(self) -> Array:
        return self.rows

    @property
    def _set(self) -> list[int]:
        return [int(i) for i in self.block.sets[self.place]]

    @property
    def split(self) -> Set:
        return tuple(i for i in self._set if i not in self.frame.whole)

    @property
    def sigma2(self) -> float:
        return float(self.block.sigma2[self.place]) / self.scale

    @property
    def _order(self) -> list[int]:
        """The split attributes first, and then D's."""
        return [*self.split, *(i for i in self._set if i in self.frame.whole)]

    def _axes(self) -> dict[int, Basis]:
        return {} if self.block.whole else dict(zip(self._set, self.block.axes, strict=True))

    def numbers(self, measured: Measurements) -> Array:
        values, axes = as_floats(measured.values[self.number][..., self.place]), self._axes()
        if self.block.whole:
            return values
        values = values.transpose([self._set.index(i) for i in self._order])
        steps = [dense_rows(self.frame.bases[i]) @ axes[i].recover for i in self.split]
        return kronecker_apply(steps, values.reshape(*(axes[i].rows for i in self.split), -1))

    def put(self, values: Sequence[Array], cells: Array) -> None:
        axes = self._axes()
        steps = [dense_rows(axes[i]) @ self.frame.bases[i].recover for i in self.split]
        found = kronecker_apply(steps, cells @ self.rows.T)
        if not self.block.whole:
            cube = found.reshape([axes[i].rows for i in self._order])
            found = cube.transpose([self._order.index(i) for i in self._set])
        values[self.number][..., self.place] = found


def block_pieces(frame: Frame, blocks: Sequence[Block]) -> Iterator[BlockPiece]:
    """Every set of every block."""
    for number, block in enumerate(blocks):
        known: dict[Set, tuple[Array, float]] = {}  # by where a set has D's attributes
        for place, row in enumerate(block.sets):
            inner = tuple(int(i) if int(i) in frame.whole else -1 for i in row)
            if inner not in known:
                known[inner] = _over_cells(frame, block, place), _scale(frame, block, place)
            yield BlockPiece(frame, block, number, place, *known[inner])


def _over_cells(frame: Frame, block: Block, place: int) -> Array:
    """The rows of a block over D's cells."""
    sizes, row = {i: frame.schema.shape[i] for i in frame.whole}, block.sets[place]
    if block.whole:
        return over_domain(block, row, {i: np.arange(n) for i, n in sizes.items()})
    axes = dict(zip(row.tolist(), block.axes, strict=True))
    return kronecker_dense(
        [dense_rows(axes[i]) if i in axes else np.ones((1, n)) for i, n in sizes.items()]
    )


def _scale(frame: Frame, block: Block, place: int) -> float:
    """∏ of what its rows over split attributes are longer than the frame's, squared."""
    pairs = [] if block.whole else zip(block.sets[place].tolist(), block.axes, strict=True)
    return prod(scale_of(axis, frame.bases[i]) for i, axis in pairs if i in frame.bases)


def scale_of(axis: Basis, reference: Basis) -> float:
    """s with UᵀU = s times the reference's; zero where there is none."""
    if axis is reference or axis.same_rows(reference):
        return 1.0
    if isinstance(axis, WideBasis) and isinstance(reference, WideBasis):
        return axis.sensitivity / reference.sensitivity
    if axis.size > COMPARED_VALUES:
        return 0.0
    scale = float(np.trace(axis.gram) / max(np.trace(reference.gram), np.finfo(float).tiny))
    apart = np.abs(axis.gram - scale * reference.gram).max(initial=0.0)
    return scale if apart <= ALIKE * scale * reference.sensitivity else 0.0


def as_floats(values: NDArray[Any]) -> Array:
    """Measured numbers as the floating-point numbers they are put together in."""
    return np.asarray(values, dtype=np.float64)
