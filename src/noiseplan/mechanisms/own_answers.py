"""What the numbers of one block are in a query, and its rows over the whole domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.matrices import Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block, batches

# Rows × numbers that are written out together.
SPLIT = 1 << 22


@immutable
@dataclass(frozen=True, eq=False)
class Asked:
    """A query's factors W_i on attributes of which those at the places `pattern` are a block's.

    answer   ⊗ (W_iV_{A,i} inside, W_iτ_i outside) ω_A,   or   ⊗ (W_i, W_iτ_i) V_A ω_A
    """

    factors: Sequence[Matrix]
    centres: Sequence[Array]
    pattern: tuple[int, ...]
    block: Block

    def of_numbers(self, numbers: NDArray[np.number]) -> Array:
        """What measured numbers of the block (shape, batch) add to the rows (rows …, batch)."""
        if self.block.whole:
            return self.of_cells(self.block.axes[0].recover @ numbers.astype(np.float64))
        inside = iter(self.block.axes)
        steps = [
            factor.matmul(next(inside).recover if i in self.pattern else centre[:, None])
            for i, (factor, centre) in enumerate(zip(self.factors, self.centres, strict=True))
        ]
        return kronecker_apply(steps, self._cube(self.block.shape, numbers))

    def of_cells(self, cells: Array) -> Array:
        """What counts of the block's cells (cells, batch) add to the rows (rows …, batch)."""
        steps = [
            factor if i in self.pattern else factor.matmul(centre[:, None])
            for i, (factor, centre) in enumerate(zip(self.factors, self.centres, strict=True))
        ]
        return kronecker_apply(steps, self._cube(self.block.sizes, cells))

    def _cube(self, sizes: Sequence[int], values: NDArray[np.number]) -> Array:
        """One axis for each attribute of the query, of length one outside the block."""
        inside = iter(sizes)
        shape = [next(inside) if i in self.pattern else 1 for i in range(len(self.factors))]
        return np.asarray(values, dtype=np.float64).reshape(*shape, values.shape[-1])

    def row_variances(self) -> Array:
        """The variance of every row, in units of the noise on the block."""
        if self.block.whole:
            return self._of_whole()
        inside = iter(self.block.axes)
        pieces = [
            next(inside).residual_rows(factor)
            if i in self.pattern
            else factor.matmul(centre[:, None])[:, 0] ** 2
            for i, (factor, centre) in enumerate(zip(self.factors, self.centres, strict=True))
        ]
        return kronecker_dense([piece[:, None] for piece in pieces])[:, 0]

    def _of_whole(self) -> Array:
        """A few numbers at a time: a query may have half a million rows."""
        (axis,) = self.block.axes
        rows = np.zeros(prod(factor.shape[0] for factor in self.factors))
        for part in batches(axis.rows, len(rows), SPLIT):
            split = self.of_cells(axis.recover[:, part]).reshape(len(rows), -1)
            rows += np.einsum("rj,rj->r", split, split)
        return rows

    def recovery(self) -> Array:
        """rows × numbers: what each number of a block of one matrix adds to each row."""
        (axis,) = self.block.axes
        return self.of_cells(axis.recover).reshape(-1, axis.rows)


def over_domain(block: Block, row: IntArray, values: Mapping[int, IntArray]) -> Array:
    """What a block measures of one of its sets, rows × cells, over some values of attributes."""
    if block.whole:
        cube = np.asarray(block.axes[0].measure).reshape(-1, *block.sizes)
        cube = cube[np.ix_(np.arange(len(cube)), *(values[a] for a in row.tolist()))]
        sizes = [len(own) if a in row else 1 for a, own in values.items()]
        every = (len(cube), *map(len, values.values()))
        return np.broadcast_to(cube.reshape(-1, *sizes), every).reshape(len(cube), -1)
    axes = dict(zip(row.tolist(), block.axes, strict=True))
    pieces = [
        dense_rows(axes[a])[:, own] if a in axes else np.ones((1, len(own)))
        for a, own in values.items()
    ]
    return kronecker_dense(pieces)


def dense_rows(axis: Basis) -> Array:
    """U as numbers."""
    return axis.measure if isinstance(axis.measure, np.ndarray) else axis.measure.dense()
