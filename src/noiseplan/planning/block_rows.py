"""What blocks measure: rows over their values, as numbers or as integers, and what these reach.

Everything is worked out from the rows themselves, whatever they were planned to be. Rows A over the
values of a block have A = M u with M = AQ, so Ψ = MᵀM/σ², and of a kind k of questions

    variance  σ² tr(h_k M⁺M⁺ᵀ) ,       cost of a record  ‖A e_x‖²/σ² .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices import kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.optimize.kernel_rounding import centred, kernel_rows
from noiseplan.planning.block_search import Form

# Directions that nothing is asked of are measured too where rows are integers, by so much of the
# strongest: rounding would tilt the others out of what can be answered.
FAINTEST: Final = 2.0**-8


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The rows of a block, along each slot or over all its cells, and the noise on them."""

    form: Form
    rows: tuple[Array, ...]
    sigma2: float = 1.0

    @property
    def whole(self) -> bool:
        """Whether one matrix over all cells is measured."""
        return len(self.rows) != len(self.form.block.slots)

    @property
    def variance(self) -> float:
        """The weighted sum of variances of one subset."""
        return self.sigma2 * float(self.by_term(self.form.terms).sum())

    def by_term(self, weights: Array) -> Array:
        """Of each term with these weights, its variance for noise of size one."""
        block = self.form.block
        found = weights * (block.mix.T @ self.kind_traces)
        for (term, _), rows in zip(block.joints, self.form.joints, strict=True):
            split = rows @ self._spreads[0] if self.rows else rows
            found[term] = weights[term] * float((split**2).sum())
        return np.asarray(found)

    @cached_property
    def costs(self) -> Array:
        """What each record costs one subset, an axis for each slot."""
        squares = [np.einsum("ri,ri->i", rows, rows) for rows in self.rows]
        if self.whole:
            squares[0] = squares[0].reshape(self.form.block.values)
        return np.asarray(reduce(np.multiply.outer, squares, np.float64(1.0))) / self.sigma2

    @cached_property
    def kind_traces(self) -> Array:
        """tr(h_k M⁺M⁺ᵀ) of every kind."""
        block = self.form.block
        slots = block.slots
        if self.whole:
            tensor = self._spreads[0].reshape(*(len(slot.frame) - 1 for slot in slots), -1)
            asked = [
                [slot.grams[int(p)] for slot, p in zip(slots, kind, strict=True)]
                for kind in block.kinds
            ]
            return np.array([float((tensor * kronecker_apply(h, tensor)).sum()) for h in asked])
        traces = np.ones(len(block.kinds))
        for i, (slot, spread) in enumerate(zip(slots, self._spreads, strict=True)):
            own = {p: float((spread * (h @ spread)).sum()) for p, h in slot.grams.items()}
            traces *= [own[int(p)] for p in block.kinds[:, i]]
        return traces

    @cached_property
    def _spreads(self) -> list[Array]:
        """M⁺."""
        return [_inverse(m) for m in self.coordinates]

    @cached_property
    def coordinates(self) -> list[Array]:
        """M of each matrix."""
        frames = [slot.frame for slot in self.form.block.slots]
        if not self.whole:
            return [rows @ frame for rows, frame in zip(self.rows, frames, strict=True)]
        tensor = self.rows[0].T.reshape(*self.form.block.values, -1)
        return [kronecker_apply([f.T for f in frames], tensor).reshape(-1, len(self.rows[0])).T]

    def rounded(self, length: float, parts: Sequence[IntArray]) -> BlockRows:
        """Integer rows with columns of about this length or longer; `parts` are t of each slot."""
        if self.whole:
            columns = kronecker_dense(self.form.columns)
            scaled = [_scaled(_full(self.coordinates[0]) @ columns, length)]
            found = [centred(np.rint(scaled[0]), parts)]
        else:
            both = zip(self.coordinates, self.form.columns, strict=True)
            scaled = [_scaled(_full(m) @ u, length) for m, u in both]
            found = [kernel_rows(rows, t) for rows, t in zip(scaled, parts, strict=True)]
        small = tuple(_without_divisor(rows) for rows in found)
        # Up to rounding they are the same rows, each so many times as long.
        growth = [_longest(b) / _longest(a) for a, b in zip(self.rows, small, strict=True)]
        return BlockRows(self.form, small, self.sigma2 * float(np.prod(growth)) ** 2)


def _scaled(rows: Array, length: float) -> Array:
    return rows * (length / _longest(rows))


def _without_divisor(rows: Array) -> Array:
    return np.asarray(rows / (float(np.gcd.reduce(rows.astype(np.int64), axis=None)) or 1.0))


def _longest(rows: Array) -> float:
    return float(np.sqrt(np.einsum("ri,ri->i", rows, rows).max(initial=0.0))) or 1.0


def _inverse(matrix: Array) -> Array:
    """M⁺, M of independent rows."""
    if matrix.shape[0] == matrix.shape[1]:
        return np.asarray(np.linalg.inv(matrix))
    return np.asarray(np.linalg.pinv(matrix))


def _full(coordinates: Array) -> Array:
    """M with no singular value below a share of the largest, as many rows as coordinates."""
    _, values, right = np.linalg.svd(coordinates, full_matrices=True)
    if len(values) == len(right) and values[-1] >= FAINTEST * values[0]:
        return coordinates
    every = np.zeros(len(right))
    every[: len(values)] = values
    return np.asarray(np.maximum(every, FAINTEST * values[0])[:, None] * right)
