"""What every mechanism answers, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

Marginals = Callable[[IntArray], NDArray[np.number]]
# Standard noise of a shape; or, for integer mechanisms, integers of a shape and given variances.
Sampler = Callable[..., NDArray[np.number]]


@dataclass(frozen=True, eq=False)
class Measurements:
    """The noisy numbers, in arrays whose layout the mechanism knows."""

    values: tuple[NDArray[np.number], ...]


class Mechanism(Protocol):
    """Measure once; then answer queries with their exact errors, from the measurements alone."""

    @property
    def schema(self) -> Schema: ...

    @property
    def numbers(self) -> int:
        """How many noisy numbers are measured."""

    @property
    def steps(self) -> int:
        """In how many steps measuring reports its progress."""

    @property
    def sets(self) -> list[IntArray]:
        """The sets of attributes that measuring counts by, as it will ask for them."""

    def describe(self) -> str:
        """What is measured, in a few words."""

    def cost_matrix(self) -> Array:
        """BᵀΣ⁻¹B of what is measured, domain × domain, for small domains."""

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Callable[[int], None] = ...
    ) -> Measurements:
        """`marginals(sets)` gives counts (sets, n_1, …, n_k); `sample(shape)` standard noise."""

    def require(self, query: Query) -> None:
        """Raise `UnanswerableError` unless the query lies in the span of what is measured."""

    def answer(self, measured: Measurements, query: Query) -> Array:
        """The unbiased estimate of every row."""

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        """All answers in batches of equal shape: positions, and estimates, the batch last."""

    def variance(self, query: Query) -> Array:
        """The exact variance of every row."""

    def covariance(self, query: Query, other: Query) -> Array:
        """The exact covariance of every row of one query with every row of another."""
