"""What a plan really measures, taken apart number by number on a small domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import noiseplan as nz
from noiseplan.counting import CountTensor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Noisy number j is (B x)_j plus noise of standard deviation σ_j."""

    matrix: Array
    sigma: Array

    @property
    def pcost(self) -> float:
        """The largest diagonal entry of BᵀΣ⁻¹B."""
        return float(((self.matrix / self.sigma[:, None]) ** 2).sum(axis=0).max())

    def recovery(self) -> Array:
        """A⁺ of A = Σ^{-1/2}B: W (BᵀΣ⁻¹B)⁺ W'ᵀ, the covariance of W and W', is (WA⁺)(W'A⁺)ᵀ."""
        return np.asarray(np.linalg.pinv(self.matrix / self.sigma[:, None], rcond=1e-12))


def measured(plan: nz.Plan) -> Measured:
    """Run the plan's own measuring on one record of each kind without noise, and on noise alone."""
    schema = plan.workload.schema
    records = np.eye(schema.size, dtype=np.int64)
    columns = [_numbers(plan, record.reshape(schema.shape), 0.0) for record in records]
    empty = np.zeros(schema.shape, dtype=np.int64)
    return Measured(np.column_stack(columns), _numbers(plan, empty, 1.0))


def _numbers(plan: nz.Plan, counts: NDArray[np.int64], noise: float) -> Array:
    source: Any = CountTensor(plan.workload.schema, counts)
    found = plan.mechanism.measure(
        source.marginals,
        lambda shape, size: np.broadcast_to(noise * np.sqrt(np.asarray(size)), shape),
    )
    return np.concatenate([block.ravel() for block in found.values])


def largest_difference(plan: nz.Plan, truth: Measured, limit: int = 1_000_000) -> float:
    """How far the plan's variances and covariances are from the dense formula, relative.

    Pairs of queries with more than `limit` covariances are left out; their variances are not.
    """
    queries = list(plan.workload)
    inverse = truth.recovery()
    recovered = [query.dense() @ inverse for query in queries]
    variances = [np.einsum("ij,ij->i", r, r) for r in recovered]
    worst = np.float64(0.0)
    for i, query in enumerate(queries):
        away = np.abs(plan.variance(query) - variances[i]) / variances[i]
        worst = np.maximum(worst, away.max())  # which keeps a NaN, so that it is not overlooked
        for j in range(i + 1):
            if query.rows * queries[j].rows <= limit:
                scale = np.sqrt(np.outer(variances[i], variances[j]))
                expected = recovered[i] @ recovered[j].T
                away = np.abs(plan.covariance(query, queries[j]) - expected) / scale
                worst = np.maximum(worst, away.max())
    return float(worst)
