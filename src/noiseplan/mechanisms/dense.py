"""An explicit matrix mechanism over a small domain: measure Ax + z, answer WA⁺(Ax + z)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.counts import integer_residuals
from noiseplan.mechanisms.mechanism import Marginals, Measurements, Sampler
from noiseplan.noise.moments import discrete_gaussian_variance, discrete_laplace_variance
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema


@dataclass(frozen=True, eq=False)
class DenseMechanism:
    """Strategy A (rows × domain) with independent noise of parameter σ² on every row.

    The cost matrix is AᵀA/σ²; the best linear unbiased estimate of Wx is WA⁺ω with covariance
    σ² WA⁺A⁺ᵀWᵀ, for W in the row space of A. With `integer`, A has integer entries and the noise is
    discrete. With a `scale` the noise is Laplace of that scale, and σ² = 2·scale².
    """

    schema: Schema
    strategy: Array
    sigma2: float = 1.0
    integer: bool = False
    scale: float | None = None

    @cached_property
    def _inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(self.strategy, rcond=1e-10), dtype=np.float64)

    @property
    def _noise(self) -> float:
        """The variance of the noise on a row."""
        if not self.integer:
            return self.sigma2
        if self.scale is not None:
            return float(discrete_laplace_variance(np.array([self.scale]))[0])
        return float(discrete_gaussian_variance(np.array([self.sigma2]))[0])

    @property
    def numbers(self) -> int:
        return len(self.strategy)

    @property
    def steps(self) -> int:
        return 1

    @property
    def sets(self) -> list[IntArray]:
        return [np.arange(len(self.schema), dtype=np.int64)[None, :]]

    def describe(self) -> str:
        return f"{self.numbers:,} noisy numbers over all {self.schema.size:,} cells"

    def cost_matrix(self) -> Array:
        return self.strategy.T @ self.strategy / self.sigma2

    def measure(
        self,
        marginals: Marginals,
        sample: Sampler,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Measurements:
        (every,) = self.sets
        counts = np.asarray(marginals(every)).reshape(1, -1)
        progress(1)
        if self.integer:
            exact = integer_residuals([self.strategy], counts)[:, 0]
            parameter = self.sigma2 if self.scale is None else self.scale
            noise = sample((self.numbers, 1), np.array([parameter]))[:, 0]
            return Measurements((exact + noise,))
        size = np.sqrt(self.sigma2) if self.scale is None else self.scale
        noise = sample((self.numbers,)) * size
        return Measurements((self.strategy @ counts[0] + noise,))

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        rows = query.dense()
        missed = np.abs(rows - (rows @ self._inverse) @ self.strategy).max(axis=1)
        if (missed > 1e-7 * np.abs(rows).max(axis=1)).any():
            raise UnanswerableError(
                f"{query.name!r} is not determined by what the plan measures: add a query on "
                f"{list(query.attributes)} with these rows to the workload"
            )

    def _weights(self, query: Query) -> Array:
        """WA⁺: how each row is put together from the measured numbers."""
        self.require(query)
        return query.dense() @ self._inverse

    def answer(self, measured: Measurements, query: Query) -> Array:
        return np.asarray(self._weights(query) @ measured.values[0], dtype=np.float64)

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        for position, query in enumerate(workload):
            estimates = self.answer(measured, query).reshape(*query.shape, 1)
            yield np.array([position]), estimates

    def variance(self, query: Query) -> Array:
        weights = self._weights(query)
        return np.asarray(self._noise * np.einsum("ri,ri->r", weights, weights))

    def covariance(self, query: Query, other: Query) -> Array:
        product: Array = self._weights(query) @ self._weights(other).T
        return self._noise * product
