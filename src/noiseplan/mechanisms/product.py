"""One strategy per attribute, measured as their product by fast transforms.

    measured:   y = (⊗A_i) x + z ,    z independent of variance σ²
    estimated:  x̂ = (⊗A_i⁺) y ,      covariance σ² ⊗(A_iᵀA_i)⁻¹

Nothing of the size domain × domain is ever made: measuring and estimating pass over the cells a few
times, and the variance of a product of factors is a product over attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import UnanswerableError
from noiseplan.matrices import (
    IdentityMatrix,
    Matrix,
    TotalMatrix,
    Transform,
    kronecker_apply,
    kronecker_dense,
)
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Marginals, Measurements, Sampler
from noiseplan.mechanisms.exact_residuals import batch_last, integer_residuals, with_noise
from noiseplan.noise.moments import number_variance
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

Factor = Transform | IdentityMatrix


@dataclass(frozen=True, eq=False)
class ProductMechanism:
    """⊗A_i with independent noise of parameter σ² on every number; A_i have entries 0 and ±1.

    With a `scale` the noise is Laplace of that scale, and σ² = 2·scale². With `integer` it is
    discrete.
    """

    schema: Schema
    factors: tuple[Factor, ...]
    sigma2: float
    integer: bool = False
    scale: float | None = None

    @property
    def _noise(self) -> float:
        """The variance of the noise on a number."""
        return number_variance(self.sigma2, self.scale, self.integer)

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(factor.shape[0] for factor in self.factors)

    @property
    def numbers(self) -> int:
        return prod(self._shape)

    @property
    def steps(self) -> int:
        return 1

    @property
    def sets(self) -> list[IntArray]:
        return [np.arange(len(self.schema), dtype=np.int64)[None, :]]

    def describe(self) -> str:
        return f"{self.numbers:,} noisy numbers over all {self.schema.size:,} cells"

    def cost_matrix(self) -> Array:
        return kronecker_dense([factor.gram() for factor in self.factors]) / self.sigma2

    # ------------------------------------------------------------------ measuring

    def measure(
        self,
        marginals: Marginals,
        sample: Sampler,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Measurements:
        (every,) = self.sets
        counts = np.asarray(marginals(every)).reshape(1, *self.schema.shape)
        progress(1)
        if self.integer:
            whole = integer_residuals(self.factors, counts).reshape(-1)
            parameter = self.sigma2 if self.scale is None else self.scale
            noise = sample((self.numbers, 1), np.array([parameter]))[:, 0]
            return Measurements((with_noise(whole, noise),))
        size = np.sqrt(self.sigma2) if self.scale is None else self.scale
        exact = kronecker_apply(self.factors, batch_last(counts)).reshape(-1)
        return Measurements((exact + sample((self.numbers,)) * size,))

    # ------------------------------------------------------------------ answering

    def estimate(self, measured: Measurements) -> Array:
        """The best estimate of every cell, as a tensor of the schema's shape."""
        tensor = measured.values[0].astype(np.float64).reshape(self._shape)
        for axis, factor in enumerate(self.factors):
            if isinstance(factor, Transform):
                moved = factor.recover(np.moveaxis(tensor, axis, 0))
                tensor = np.moveaxis(moved, 0, axis)
        return tensor

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")

    def _answer(self, cells: Array, query: Query) -> Array:
        self.require(query)
        return query.apply(cells)

    def answer(self, measured: Measurements, query: Query) -> Array:
        return self._answer(self.estimate(measured), query)

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        cells = self.estimate(measured)
        for position, query in enumerate(workload):
            estimates = self._answer(cells, query).reshape(*query.shape, 1)
            yield np.array([position]), estimates

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        self.require(query)
        inside, outside = self._split(query)
        if query.joint is not None:
            spread = self._spread(query.joint, inside)
            forms = np.einsum("rc,rc->r", spread, query.joint)
        else:
            pairs = zip(query.matrices(), inside, strict=True)
            forms = reduce(_outer, [_row_forms(*pair) for pair in pairs], np.ones(1))
        return np.asarray(self._noise * outside * forms)

    def covariance(self, query: Query, other: Query) -> Array:
        self.require(query)
        self.require(other)
        if query.joint is None and other.joint is None:
            pairs = zip(_pieces(query), _pieces(other), self.factors, strict=True)
            return self._noise * kronecker_dense([_cross(*pair) for pair in pairs])
        rows, columns = query.dense(), other.dense()
        return np.asarray(self._noise * (rows @ self._spread(columns, self.factors).T))

    def _split(self, query: Query) -> tuple[list[Factor], float]:
        """The factors of the query's attributes, and 1ᵀ(AᵀA)⁻¹1 of all others."""
        pairs = list(zip(self.schema.names, self.factors, strict=True))
        inside = [factor for name, factor in pairs if name in query.factors]
        rest = [factor for name, factor in pairs if name not in query.factors]
        return inside, prod(_of_the_sum(factor) for factor in rest)

    def _spread(self, rows: Array, inside: Sequence[Factor]) -> Array:
        """Rows of a dense query times ⊗(AᵀA)⁻¹ of its attributes."""
        sizes = [factor.shape[1] for factor in inside]
        tensor = np.ascontiguousarray(rows.T).reshape(*sizes, len(rows))
        moved = kronecker_apply([_profile(factor) for factor in inside], tensor)
        return np.asarray(moved.reshape(-1, len(rows)).T)


def _profile(factor: Factor) -> Matrix | Array:
    """(AᵀA)⁻¹."""
    return factor.profile if isinstance(factor, Transform) else factor


def _row_forms(rows: Matrix, factor: Factor) -> Array:
    """diag(W (AᵀA)⁻¹ Wᵀ) along one attribute."""
    if isinstance(factor, Transform):
        return rows.quadratic_rows(factor.profile)
    return rows.row_squares()


def _of_the_sum(factor: Factor) -> float:
    """1ᵀ(AᵀA)⁻¹1: the variance of the sum over an attribute."""
    return float(factor.profile.sum()) if isinstance(factor, Transform) else float(factor.size)


def _outer(one: Array, other: Array) -> Array:
    return np.asarray(np.multiply.outer(one, other).reshape(-1))


def _pieces(query: Query) -> list[Matrix]:
    """The matrix of every attribute of the schema: a row of ones where it is summed over."""
    own = dict(zip(query.factors, query.matrices(), strict=True))
    schema = query.schema
    pairs = zip(schema.names, schema.shape, strict=True)
    return [own[name] if name in own else TotalMatrix(size) for name, size in pairs]


def _cross(one: Matrix, other: Matrix, factor: Factor) -> Array:
    """W (AᵀA)⁻¹ Vᵀ along one attribute."""
    profile = factor.profile if isinstance(factor, Transform) else np.eye(factor.size)
    return np.asarray(one.matmul(np.ascontiguousarray(other.matmul(profile).T)))
