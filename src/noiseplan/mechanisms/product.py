"""One strategy per attribute, measured as their product by fast transforms.

    measured:   y = (⊗A_i) x + z ,    z independent of variance σ²
    estimated:  x̂ = (⊗A_i⁺) y ,      covariance σ² ⊗(A_iᵀA_i)⁻¹

Nothing of the size domain × domain is ever made: measuring and estimating pass over the cells a few
times, and the variance of a product of factors is a product over attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Final, Literal

import numpy as np

from noiseplan.arrays import Arrays, Json, immutable
from noiseplan.errors import StorageError, UnanswerableError
from noiseplan.matrices import (
    HaarMatrix,
    IdentityMatrix,
    KroneckerMatrix,
    Matrix,
    Transform,
    TreeMatrix,
    kronecker_apply,
    kronecker_dense,
)
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Marginals, Measurements, Mechanism, Progress
from noiseplan.mechanisms.exact_residuals import noisy_residuals
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import quotient_up
from noiseplan.queries import Query
from noiseplan.schema import Schema

Factor = Transform | IdentityMatrix


# Values of an attribute whose columns are compared; of more, the inner products are only bounded.
COMPARED: Final = 1024


def _least_of(factor: Factor) -> int:
    """The least inner product of two columns, or less."""
    if isinstance(factor, IdentityMatrix):
        return 0 if factor.shape[1] > 1 else 1
    return int(factor.gram().min()) if factor.shape[1] <= COMPARED else -factor.touched


@immutable
@dataclass(frozen=True, eq=False)
class ProductMechanism(Mechanism):
    """⊗A_i with independent noise of one size on every number; A_i have entries 0 and ±1."""

    kind: ClassVar[str] = "product"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"
    from_sizes: ClassVar[bool] = True

    schema: Schema
    factors: tuple[Factor, ...]
    noise: Noise

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(factor.shape[0] for factor in self.factors)

    @property
    def numbers(self) -> int:
        return prod(self._shape)

    def floating(self) -> Mechanism:
        return replace(self, noise=self.noise.floating())

    def record_cost(self, neighbours: Neighbours) -> float:
        return quotient_up(self.changed(neighbours), self.noise.one)

    def changed(self, neighbours: Neighbours) -> int:
        """Σ |a|^p of the column of a record, by how many numbers it changes; of the difference of
        two columns at most."""
        touched = prod(factor.touched for factor in self.factors)
        if neighbours == "add-remove":
            return touched
        return self.noise.apart(touched, self._least_product)

    @property
    def _least_product(self) -> int:
        """No two columns have a smaller inner product."""
        low = high = 1
        for factor in self.factors:
            least, most = _least_of(factor), factor.touched
            ends = (low * least, low * most, high * least, high * most)
            low, high = min(ends), max(ends)
        return low

    def cost_matrix(self) -> Array:
        return kronecker_dense([factor.gram() for factor in self.factors]) / self.noise.nominal

    def cell_costs(self) -> Array:
        each = [np.diagonal(factor.gram())[:, None] for factor in self.factors]
        return kronecker_dense(each)[:, 0] / self.noise.nominal

    # ------------------------------------------------------------------ measuring

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        (every,) = self.sets
        counts = np.asarray(marginals(every)).reshape(1, *self.schema.shape)
        progress(1)
        found = noisy_residuals(self.factors, counts, self.noise, sample)
        return Measurements((found.reshape(-1),))

    # ------------------------------------------------------------------ answering

    def estimate(self, measured: Measurements) -> Array:
        """The best estimate of every cell, as a tensor of the schema's shape."""
        tensor = measured.values[0].astype(np.float64).reshape(self._shape)
        for axis, factor in enumerate(self.factors):
            tensor = np.moveaxis(factor.recover(np.moveaxis(tensor, axis, 0)), 0, axis)
        return tensor

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")

    def _answer(self, cells: Array, query: Query) -> Array:
        self.require(query)
        return query.apply(cells)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        cells = self.estimate(measured)
        return lambda query: self._answer(cells, query)

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        self.require(query)
        inside, outside = self._split(query)
        if query.joint is not None:
            spread = self._spread(query.joint, inside)
            forms = np.einsum("rc,rc->r", spread, query.joint)
        else:
            pairs = zip(query.matrices(), inside, strict=True)
            forms = kronecker_dense([_row_forms(*pair)[:, None] for pair in pairs])[:, 0]
        return np.asarray(self.noise.variance * outside * forms)

    def covariance(self, query: Query, other: Query) -> Array:
        self.require(query)
        self.require(other)
        one, two = query.domain_matrix, other.domain_matrix
        if isinstance(one, KroneckerMatrix) and isinstance(two, KroneckerMatrix):
            pairs = zip(one.factors, two.factors, self.factors, strict=True)
            return self.noise.variance * kronecker_dense([_cross(*pair) for pair in pairs])
        rows, columns = query.dense(), other.dense()
        return np.asarray(self.noise.variance * (rows @ self._spread(columns, self.factors).T))

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

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        factors = [_write_factor(factor) for factor in self.factors]
        return {"kind": self.kind, **self.noise.parts(), "factors": factors}, {}

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> ProductMechanism:
        sizes, noise = [saved["size"] for saved in content["factors"]], float(content["sigma2"])
        if sizes != list(schema.shape) or not 0 < noise < np.inf:
            raise StorageError(
                "the strategies do not fit the schema, or their noise is no variance"
            )
        factors = tuple(_read_factor(saved) for saved in content["factors"])
        return cls(schema, factors, Noise.from_parts(content, "the strategies'"))


def _write_factor(factor: Factor) -> Json:
    if isinstance(factor, TreeMatrix):
        return {"kind": "tree", "size": factor.size, "branching": factor.branching}
    kind = "haar" if isinstance(factor, HaarMatrix) else "identity"
    return {"kind": kind, "size": factor.shape[1]}


def _read_factor(saved: Mapping[str, Any]) -> Factor:
    match saved:
        case {"kind": "tree", "size": int(size), "branching": int(branching)}:
            return TreeMatrix(size, branching)
        case {"kind": "haar", "size": int(size)}:
            return HaarMatrix(size)
        case {"kind": "identity", "size": int(size)}:
            return IdentityMatrix(size)
    raise StorageError(f"unknown strategy {saved!r}: was it saved by a newer noiseplan?")


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


def _cross(one: Matrix, other: Matrix, factor: Factor) -> Array:
    """W (AᵀA)⁻¹ Vᵀ along one attribute."""
    profile = factor.profile if isinstance(factor, Transform) else np.eye(factor.size)
    return np.asarray(one.matmul(np.ascontiguousarray(other.matmul(profile).T)))
