"""The residual mechanism: measure residuals of tables, put any table back together from them.

    measured on A:   ω_A = (⊗_{i∈A} U_i) x_A + σ_A z            z independent standard noise
    answer of Q_B:   Σ_{A⊆B} ⊗_{i∈B} (W_iV_i if i∈A else W_iτ_i) ω_A
    Cov(Q_B, Q_C):   Σ_{A⊆B∩C} σ²_A ⊗_i F_i

The answer is unbiased and the only linear one, because the measured rows are linearly independent;
so all answers agree with each other.

References
----------
ResidualPlanner+ (arXiv 2305.08175), Algorithms 1, 2, 5, 6 and Theorem 7.2, with a free τ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices import DenseMatrix, Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Blocks, batches, subset_patterns
from noiseplan.queries import Query
from noiseplan.schema import Schema

# Cells handled at a time while measuring and reconstructing: 256 Ki doubles stay in the cache.
BATCH_CELLS = 1 << 18
COVARIANCE_LIMIT = 50_000_000

Sampler = Callable[[tuple[int, ...]], Array]


@dataclass(frozen=True, eq=False)
class Measurements:
    """ω of every block, shape (rows_1, …, rows_k, subsets of the block): the noisy numbers."""

    values: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class ResidualMechanism:
    """Bases and noise variances; everything else follows from them."""

    schema: Schema
    blocks: Blocks

    # ------------------------------------------------------------------ privacy

    def cost_matrix(self, limit: int = 4096) -> Array:
        """BᵀΣ⁻¹B of what is measured, domain × domain, for small domains.

        A subset measured exactly (σ² = 0, the total when one record may replace another) is left
        out: it does not depend on whose record is replaced.
        """
        size = self.schema.size
        if size > limit:
            raise PlanError(f"the cost matrix of a domain of {size:,} cells: the limit is {limit:,}")
        cost = np.zeros((size, size))
        for block in self.blocks:
            grams = [basis.gram for basis in block.bases]
            for row, sigma2 in zip(block.sets, block.sigma2, strict=True):
                if sigma2 > 0:
                    place = {int(a): g for a, g in zip(row, grams, strict=True)}
                    pieces = [place.get(i, np.ones((n, n))) for i, n in enumerate(self.schema.shape)]
                    cost += kronecker_dense(pieces) / sigma2
        return cost

    @property
    def numbers(self) -> int:
        """How many noisy numbers are measured."""
        return sum(block.numbers for block in self.blocks)

    # ------------------------------------------------------------------ measuring

    def measure(
        self,
        marginals: Callable[[IntArray], Array],
        sample: Sampler,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Measurements:
        """Count, transform and add noise, block by block in batches.

        `marginals(sets)` returns plain counts (sets, n_1, …, n_k); `sample(shape)` standard noise.
        """
        values = []
        for block in self.blocks:
            noisy = np.empty((*block.shape, len(block)))
            rows = [basis.measure for basis in block.bases]
            cells = prod(basis.size for basis in block.bases)
            for part in batches(len(block), cells, BATCH_CELLS):
                counts = np.asarray(marginals(block.sets[part]))
                batch = np.ascontiguousarray(np.moveaxis(counts, 0, -1), dtype=np.float64)
                exact = kronecker_apply(rows, batch)
                noise = sample(exact.shape)
                noise *= np.sqrt(block.sigma2[part])
                np.add(exact, noise, out=noisy[..., part])
                progress(len(block.sets[part]))
            values.append(noisy)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ answering

    def coordinates(self, measured: Measurements, sets: IntArray) -> Array:
        """All ω_A with A inside each given set, as one tensor per set, the batch last.

        Index 0 on an axis is the sum over that attribute, 1, 2, … its residual.
        """
        bases = self._bases(sets[0])
        tensor = np.zeros((*(basis.rows + 1 for basis in bases), len(sets)))
        for pattern in subset_patterns(len(bases)):
            inner = sets[:, list(pattern)]
            number = self.blocks.block_for(inner[0])
            if number < 0 or 0 in self._rows(inner[0]):
                continue
            place = self.blocks.blocks[number].find(inner)
            part = tuple(slice(1, None) if i in pattern else 0 for i in range(len(bases)))
            source = _take_last(measured.values[number], place)
            tensor[part] = np.where(place >= 0, source, 0.0) if (place < 0).any() else source
        return tensor

    def answers(self, measured: Measurements, query: Query, sets: IntArray) -> Array:
        """Answers to one query shape on many attribute sets that share their bases, the batch last."""
        factors = query.matrices()
        tensor = self.coordinates(measured, sets)
        bases = self._bases(sets[0])
        steps, after = [], []
        for factor, basis in zip(factors, bases, strict=True):
            # W T as one small matrix; a factor with more rows than values is applied afterwards.
            tall = factor.shape[0] > factor.shape[1]
            steps.append(basis.inverse if tall else factor.matmul(basis.inverse))
            after.append(factor if tall else None)
        result = kronecker_apply(steps, tensor)
        for axis, late in enumerate(after):
            if late is not None:
                result = np.moveaxis(late.matmul(np.moveaxis(result, axis, 0)), 0, axis)
        return result

    def answer(self, measured: Measurements, query: Query) -> Array:
        """The unbiased estimate of every row of a query."""
        self.require(query)
        sets = self._set(query)
        if query.joint is None:
            return np.ascontiguousarray(self.answers(measured, query, sets)[..., 0]).ravel()
        cells = kronecker_apply([b.inverse for b in self._bases(sets[0])], self.coordinates(measured, sets))
        return query.joint @ cells.ravel()

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        """The exact variance of every row: Σ_{A⊆B} σ²_A ∏_{i∈A} (WVVᵀWᵀ)_qq ∏_{i∈B∖A} (Wτ)²_q."""
        self.require(query)
        if query.joint is not None:
            return np.diagonal(self.covariance(query, query)).copy()
        pairs = []
        for factor, basis in zip(query.matrices(), self._bases(self._set(query)[0]), strict=True):
            summed = factor.matmul(basis.centre[:, None])[:, 0] ** 2
            pairs.append(np.column_stack([summed, factor.quadratic_rows(basis.spread)]))
        return kronecker_apply(pairs, self._sigma2_tensor(query.attributes)[..., None]).ravel()

    def covariance(self, query: Query, other: Query) -> Array:
        """The exact covariance of every row of one query with every row of another."""
        self.require(query)
        self.require(other)
        if query.rows * other.rows > COVARIANCE_LIMIT:
            raise PlanError(
                f"the covariance of {query.rows:,} × {other.rows:,} rows has more than "
                f"{COVARIANCE_LIMIT:,} numbers; ask for fewer rows, e.g. with Custom([[...]])"
            )
        if query.joint is not None or other.joint is not None:
            return self._dense_covariance(query, other)
        return self._kronecker_covariance(query, other)

    def _kronecker_covariance(self, query: Query, other: Query) -> Array:
        names = [n for n in self.schema.names if n in query.factors or n in other.factors]
        common = [n for n in names if n in query.factors and n in other.factors]
        tensor = self._sigma2_tensor(tuple(common), finite=True)
        tensor = tensor.reshape([2 if n in common else 1 for n in names] + [1])
        pieces, shape = [], []
        for name in names:
            basis = self._basis(self.schema.index(name))
            left, right = (self._split(q, name, basis) for q in (query, other))
            shape += [left.shape[0], right.shape[0]]
            summed = np.outer(left[:, 0], right[:, 0]).ravel()
            if name in common:
                residual = (left[:, 1:] @ right[:, 1:].T).ravel()
                pieces.append(np.column_stack([summed, residual]))
            else:
                pieces.append(summed[:, None])
        # axes come as (rows, other's rows) per attribute; sort them into (rows …, other's rows …)
        cube = kronecker_apply(pieces, tensor)[..., 0].reshape(shape)
        axes = [*range(0, len(shape), 2), *range(1, len(shape), 2)]
        return cube.transpose(axes).reshape(query.rows, other.rows)

    def _split(self, query: Query, name: str, basis: Basis) -> Array:
        """[Wτ | WV] of the query's factor; the number one where the query sums over the attribute."""
        if name not in query.factors:
            return np.ones((1, 1))
        return query.factors[name].matrix(self.schema[name]).matmul(basis.inverse)

    def _dense_covariance(self, query: Query, other: Query) -> Array:
        common = [n for n in query.attributes if n in other.factors]
        total = np.zeros((query.rows, other.rows))
        for pattern in subset_patterns(len(common)):
            inside = tuple(common[i] for i in pattern)
            sets = np.array([[self.schema.index(n) for n in inside]], dtype=np.int64)
            sigma2 = float(self.blocks.sigma2(sets)[0])
            if np.isfinite(sigma2):
                left, right = (self._recovery(q, inside) for q in (query, other))
                total += sigma2 * left @ right.T
        return total

    def _recovery(self, query: Query, inside: tuple[str, ...]) -> Array:
        """rows × ω_A: what each measured number of A = `inside` adds to each row."""
        steps = [
            basis.recover if name in inside else basis.centre[:, None]
            for name in query.attributes
            for basis in [self._basis(self.schema.index(name))]
        ]
        if query.joint is not None:
            return query.joint @ kronecker_dense(steps)
        pieces = [f.matmul(s) for f, s in zip(query.matrices(), steps, strict=True)]
        return kronecker_dense(pieces)

    def _sigma2_tensor(self, names: Sequence[str], finite: bool = True) -> Array:
        """σ²_A of every A inside a set of attributes, shape (2, …, 2); index 1 means inside A."""
        attributes = np.array([self.schema.index(n) for n in names], dtype=np.int64)
        tensor = np.zeros((2,) * len(names))
        for pattern in subset_patterns(len(names)):
            sigma2 = float(self.blocks.sigma2(attributes[list(pattern)][None, :])[0])
            place = tuple(int(i in pattern) for i in range(len(names)))
            # An unmeasured subset inside an answerable query has coefficient zero (`require`).
            tensor[place] = sigma2 if np.isfinite(sigma2) else 0.0
        return tensor

    # ------------------------------------------------------------------ what can be answered

    def require(self, query: Query) -> None:
        """Raise `UnanswerableError` unless the query lies in the span of what is measured."""
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        missing = [n for n in query.attributes if self.basis_number(self.schema.index(n)) < 0]
        if missing:
            raise UnanswerableError(
                f"{query.name!r} needs {missing}, which the plan does not measure; it measures "
                f"{self._measured_names()}. Add a query on {missing} to the workload"
            )
        self._require_span(query)
        for pattern in subset_patterns(len(query.attributes)):
            names = tuple(query.attributes[i] for i in pattern)
            if not self._measures(names) and self._needs(query, names):
                raise UnanswerableError(
                    f"{query.name!r} needs {' × '.join(names) or 'the total'} measured together, "
                    f"and the plan does not: add a query on {list(names)} to the workload"
                )

    def _require_span(self, query: Query) -> None:
        factors: list[Matrix]
        if query.joint is None:
            factors = query.matrices()
        else:
            cube = query.joint.reshape(-1, *(self.schema[n].size for n in query.attributes))
            factors = [
                DenseMatrix(np.moveaxis(cube, axis, -1).reshape(-1, cube.shape[axis]))
                for axis in range(1, cube.ndim)
            ]
        for name, factor in zip(query.attributes, factors, strict=True):
            if not self._basis(self.schema.index(name)).spans(factor):
                raise UnanswerableError(
                    f"{query.name!r} tells values of {name!r} apart that no query of the plan's "
                    f"workload tells apart: add a query with this factor on {name!r} to the workload"
                )

    def _measures(self, names: tuple[str, ...]) -> bool:
        sets = np.array([[self.schema.index(n) for n in names]], dtype=np.int64)
        return bool(np.isfinite(self.blocks.sigma2(sets)[0])) or 0 in self._rows(sets[0])

    def _needs(self, query: Query, names: tuple[str, ...]) -> bool:
        """Whether ω_A enters the query with a coefficient other than zero."""
        if query.joint is not None:
            scale = float(np.abs(query.joint).max())
            return bool(np.abs(self._recovery(query, names)).max(initial=0.0) > 1e-12 * scale)
        for name, factor in zip(query.attributes, query.matrices(), strict=True):
            basis = self._basis(self.schema.index(name))
            part = basis.spread if name in names else np.outer(basis.centre, basis.centre)
            size = factor.quadratic_rows(np.eye(basis.size)).max()
            if factor.quadratic_rows(part).max() <= 1e-20 * size:
                return False
        return True

    def _measured_names(self) -> list[str]:
        return [n for i, n in enumerate(self.schema.names) if self.blocks.basis_of[i] >= 0]

    # ------------------------------------------------------------------ small helpers

    @cached_property
    def _trivial(self) -> Basis:
        return Basis(np.zeros((0, 1)), np.ones(1), np.zeros((1, 0)))

    def basis_number(self, attribute: int) -> int:
        return int(self.blocks.basis_of[attribute])

    def _basis(self, attribute: int) -> Basis:
        return self.blocks.bases[self.blocks.basis_of[attribute]]

    def _bases(self, attributes: IntArray) -> list[Basis]:
        return [self._basis(int(a)) for a in attributes]

    def _rows(self, attributes: IntArray) -> list[int]:
        return [basis.rows for basis in self._bases(attributes)]

    def _set(self, query: Query) -> IntArray:
        return np.array([[self.schema.index(n) for n in query.attributes]], dtype=np.int64)


def _take_last(values: Array, place: IntArray) -> Array:
    """values[..., place], as a view where the places follow each other."""
    if len(place) and (np.diff(place) == 1).all() and place[0] >= 0:
        return values[..., place[0] : place[0] + len(place)]
    return np.take(values, place, axis=-1)
