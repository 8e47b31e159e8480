"""An explicit matrix mechanism over a small domain: measure Ax + z, answer WA⁺(Ax + z)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError, UnanswerableError
from noiseplan.matrices.base import DENSE_LIMIT, Array, Matrix
from noiseplan.mechanisms.base import Marginals, Measurements, Sampler
from noiseplan.mechanisms.exact_residuals import (
    integer_residuals,
    require_whole,
    with_noise,
)
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.noise.moments import number_variance
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

    def __post_init__(self) -> None:
        # One layout in memory: a strategy read from a file answers to the last digit as it did.
        object.__setattr__(self, "strategy", np.ascontiguousarray(self.strategy))
        if self.integer:
            require_whole([self.strategy])

    @cached_property
    def _fit(self) -> LeastSquares:
        return LeastSquares(self.strategy)

    @property
    def _noise(self) -> float:
        """The variance of the noise on a row."""
        return number_variance(self.sigma2, self.scale, self.integer)

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

    def cell_covariance(self) -> Array:
        """The covariance of the estimates of all cells (of what is determined of them)."""
        return self._noise * self._fit.spread

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
            return Measurements((with_noise(exact, noise),))
        size = np.sqrt(self.sigma2) if self.scale is None else self.scale
        noise = sample((self.numbers,)) * size
        return Measurements((self.strategy @ counts[0] + noise,))

    def require(self, query: Query) -> None:
        self._rows(query)

    def _rows(self, query: Query) -> Matrix:
        """W, if what is measured determines it."""
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        rows = query.domain_matrix
        if not self._fit.determines(rows):
            raise UnanswerableError(
                f"{query.name!r} is not determined by what the plan measures: add a query on "
                f"{list(query.attributes)} with these rows to the workload"
            )
        return rows

    def answer(self, measured: Measurements, query: Query) -> Array:
        return self._rows(query).matmul(self._estimate(measured))

    def _estimate(self, measured: Measurements) -> Array:
        """x̂ = A⁺ω, one estimate per cell."""
        return self._fit.estimate(np.asarray(measured.values[0], dtype=np.float64))

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        cells = self._estimate(measured)
        for position, query in enumerate(workload):
            estimates = self._rows(query).matmul(cells).reshape(*query.shape, 1)
            yield np.array([position]), estimates

    def variance(self, query: Query) -> Array:
        forms = self._rows(query).quadratic_rows(self._fit.spread)
        return np.asarray(self._noise * np.maximum(forms, 0.0))

    def covariance(self, query: Query, other: Query) -> Array:
        one, two = self._rows(query), self._rows(other)
        if one.shape[0] * max(two.shape) > DENSE_LIMIT:
            raise QueryError(
                f"the covariance of {query.name!r} and {other.name!r} has {query.rows:,} × "
                f"{other.rows:,} numbers, above the limit of {DENSE_LIMIT:,}: ask for fewer rows, "
                f"or for variance(query)"
            )
        return self._noise * two.matmul(one.matmul(self._fit.spread).T).T
