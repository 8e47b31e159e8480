"""What a mechanism does, written out as matrices: rows, noise and the way back, by definition.

Rows are found by measuring one record at a time without noise, the way back by measuring no record
with one unit of noise at a time. None of the formulas of the package is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

import noiseplan as nz
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.noise import Noise
from oracles import table_counts

Array = np.ndarray[Any, Any]


def every_set(many: int) -> list[tuple[int, ...]]:
    """All sets of so many attributes, the empty one first."""
    return [c for width in range(many + 1) for c in combinations(range(many), width)]


@dataclass
class Drawn:
    """A sampler that adds given numbers in order, and notes the size of each noise asked for."""

    values: Array
    sizes: list[float]
    used: int = 0

    def __call__(self, shape: tuple[int, ...], noise: Noise) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        given = self.values[self.used : self.used + count].reshape(shape)
        self.sizes += np.broadcast_to(noise.size, shape).ravel().tolist()
        self.used += count
        return given.astype(np.int64) if noise.exact else given.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Written:
    """A mechanism over a small domain, written out."""

    mechanism: Mechanism

    def measured(self, counts: Array, noise: Array | None = None) -> tuple[Measurements, Drawn]:
        """What is measured of some counts, with this noise on its numbers."""
        given = np.zeros(self.mechanism.numbers) if noise is None else noise
        sampler = Drawn(given, [])
        shaped = np.asarray(counts).reshape(self.mechanism.schema.shape)
        return self.mechanism.measure(table_counts(shaped), sampler), sampler

    @cached_property
    def sizes(self) -> Array:
        """The size of the noise on every number, as it is asked for."""
        return np.array(self.measured(np.zeros(self.mechanism.schema.size, np.int64))[1].sizes)

    @cached_property
    def variances(self) -> Array:
        """The variance of the noise on every number."""
        noise = self.mechanism.noise
        return np.array([Noise(noise.law, size, noise.exact).variance[0] for size in self.sizes])

    def answers(self, query: nz.Query, counts: Array, noise: Array | None = None) -> Array:
        """The answer of the mechanism to these counts with this noise."""
        return self.mechanism.answer(self.measured(counts, noise)[0], query)

    def noise_map(self, query: nz.Query) -> Array:
        """rows × numbers: what one unit of noise on each number does to the answer."""
        none = np.zeros(self.mechanism.schema.size, np.int64)
        units = np.eye(self.mechanism.numbers)
        return np.array([self.answers(query, none, unit) for unit in units]).T

    def covariance(self, query: nz.Query, other: nz.Query) -> Array:
        """Of the answers, from the noise that is really added."""
        return (self.noise_map(query) * self.variances) @ self.noise_map(other).T


def least_squares(rows: Array, variances: Array, left: Array, right: Array) -> Array:
    """W (BᵀΣ⁻¹B)⁺ W'ᵀ: the covariance of the best linear unbiased estimates."""
    inverse = np.linalg.pinv(rows / np.sqrt(variances)[:, None], rcond=1e-11)
    return np.asarray((left @ inverse) @ (right @ inverse).T)


def dearest(rows: Array, sizes: Array, power: int, neighbours: str) -> float:
    """The largest cost of a record over all records, or of a pair over all pairs."""
    columns = list(rows.T)
    if neighbours == "replace":
        columns = [a - b for a, b in combinations(columns, 2)]
    return max(float((np.abs(column) ** power / sizes).sum()) for column in columns)
