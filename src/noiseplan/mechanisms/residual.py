"""The residual mechanism: measure residuals of tables, put any table back together from them.

    measured on A:   ω_A = (⊗_{i∈A} U_i) x_A + σ_A z            z independent standard noise
    answer of Q_B:   Σ_{A⊆B} ⊗_{i∈B} (W_iV_i if i∈A else W_iτ_i) ω_A
    Cov(Q_B, Q_C):   Σ_{A⊆B∩C} σ²_A ⊗_i F_i

The answer is unbiased and the only linear one, because the measured rows are linearly independent;
so all answers agree with each other. A block with rows of its own has U_{A,i} and V_{A,i} in place
of U_i and V_i, or one matrix in place of their product; τ_i is the same for all.

References
----------
ResidualPlanner+ (arXiv 2305.08175), Algorithms 1, 2, 5, 6 and Theorem 7.2, with a free τ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import repeat
from math import prod
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json, immutable, subsets, unique_rows
from noiseplan.errors import PlanError, StorageError
from noiseplan.matrices import IdentityMatrix, Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import (
    Errors,
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    floats,
)
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.basis_files import read_bases, read_own, write_bases, write_own
from noiseplan.mechanisms.blocks import BATCH_CELLS, Block, Blocks, batches
from noiseplan.mechanisms.crossed_pieces import Piece, block_pieces
from noiseplan.mechanisms.crossed_queries import Frame
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_fit
from noiseplan.mechanisms.own_answers import Asked, over_domain
from noiseplan.mechanisms.residual_cost import require_noise, residual_cost, same_bases
from noiseplan.mechanisms.residual_errors import (
    attribute_sets,
    noise_inside,
    own_blocks_inside,
    row_covariances,
    row_variances,
    variances_on_sets,
)
from noiseplan.mechanisms.span import require_in_span
from noiseplan.noise.law import Noise, Sampler, lattice_of
from noiseplan.noise.moments import discrete_gaussian_parameter
from noiseplan.privacy import Neighbours
from noiseplan.queries import Identity, Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

# Cells of domains whose cost matrix is written down.
COST_CELLS: Final = 4096


@immutable
@dataclass(frozen=True, eq=False)
class ResidualMechanism(Mechanism):
    """Bases and noise variances; everything else follows from them."""

    kind: ClassVar[str] = "residual"
    public_total: ClassVar[bool] = True
    undivided: ClassVar[str | None] = None

    schema: Schema
    blocks: Blocks
    noise: Noise = field(init=False, repr=False)  # that of all blocks

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", self.blocks.noise)
        if self.blocks.has_own:
            self.blocks.require_own()
        axes = {id(axis): axis for block in self.blocks for axis in block.axes}
        require_fit(self.noise, (axis.measure for axis in axes.values()))

    def on_lattice(self, exact: int) -> Mechanism:
        return replace(self, blocks=self.blocks.with_noise(lambda noise: noise.on_lattice(exact)))

    # ------------------------------------------------------------------ privacy

    def record_cost(self, neighbours: Neighbours) -> float:
        found = self.cost_with([], neighbours)
        if found is None:
            raise PlanError("an attribute measured by different rows has no known cost")
        return found

    def cost_with(self, others: list[Mechanism], neighbours: Neighbours) -> float | None:
        try:
            every = [self.blocks, *(mechanism.residual_blocks() for mechanism in others)]
        except PlanError:  # one of them measures something else
            return None
        blocks = [block for each in every for block in each]
        own = any(each.has_own for each in every)
        if not (own or same_bases(blocks)):
            return None
        return residual_cost(blocks, neighbours)

    def require_noise(self, neighbours: Neighbours) -> None:
        require_noise(self.blocks.blocks, neighbours)

    # ------------------------------------------------------------------ compared

    def residual_blocks(self) -> Blocks:
        return self.blocks

    def axes(self) -> Iterator[tuple[int, Basis | None, Basis]]:
        for block in self.blocks:
            for place, basis in enumerate(block.bases):
                for i in np.unique(block.sets[:, place]).tolist():
                    yield i, None if block.whole else block.axes[place], basis

    def pieces(self, frame: Frame) -> Iterator[Piece]:
        return block_pieces(frame, self.blocks.blocks)

    def as_stated(self) -> Mechanism:
        """With the parameters σ² of discrete noise that has its variances, or a little larger ones.

        Parts of parameters σ_j² that are put together with weights σ²/σ_j², where 1/σ² = Σ 1/σ_j²,
        have the variance Σ (σ²/σ_j²)² v(σ_j²) ≥ v(σ²), since v(s)/s grows with s. So σ² is at most
        the parameter of that variance, and what it costs is not overstated.
        """

        def parameters(noise: Noise) -> Noise:
            return noise.of_size(discrete_gaussian_parameter(noise.size))

        return replace(self, blocks=self.blocks.with_noise(parameters))

    def cost_matrix(self) -> Array:
        """BᵀΣ⁻¹B of what is measured, domain × domain, for small domains.

        A subset measured exactly (σ² = 0, the total when one record may replace another) is left
        out: it does not depend on whose record is replaced.
        """
        size = self.schema.size
        if size > COST_CELLS:
            raise PlanError(
                f"the cost matrix of a domain of {size:,} cells: the limit is {COST_CELLS:,}"
            )
        cost = np.zeros((size, size))
        for block in self.blocks:
            grams = [axis.gram for axis in block.axes]
            for row, sigma2 in zip(block.sets, block.sigma2, strict=True):
                if sigma2 > 0 and block.whole:
                    rows = over_domain(block, row, self._every_value)
                    cost += rows.T @ rows / sigma2
                elif sigma2 > 0:
                    place = {int(a): g for a, g in zip(row, grams, strict=True)}
                    pieces = [
                        place.get(i, np.ones((n, n))) for i, n in enumerate(self.schema.shape)
                    ]
                    cost += kronecker_dense(pieces) / sigma2
        return cost

    def cell_costs(self) -> Array:
        """The diagonal alone: an entry of ⊗G_i is a product of their diagonals."""
        costs = np.zeros(self.schema.shape)
        for block in self.blocks:
            each = [np.diagonal(axis.gram) for axis in block.axes]
            for row, sigma2 in zip(block.sets, block.sigma2, strict=True):
                if sigma2 > 0 and block.whole:
                    rows = over_domain(block, row, self._every_value)
                    costs += (rows**2).sum(axis=0).reshape(costs.shape) / sigma2
                elif sigma2 > 0:
                    shape = np.ones(costs.ndim, dtype=np.int64)
                    shape[row] = [len(diagonal) for diagonal in each]
                    costs += reduce(np.multiply.outer, each, np.ones(())).reshape(shape) / sigma2
        return costs.ravel()

    @property
    def numbers(self) -> int:
        """How many noisy numbers are measured."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def steps(self) -> int:
        """In how many steps measuring reports its progress: one for each subset."""
        return len(self.blocks)

    @property
    def sets(self) -> list[IntArray]:
        """The sets of attributes that measuring counts by, one array for each block."""
        return [block.sets for block in self.blocks]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(*block.shape, len(block)) for block in self.blocks]

    def describe(self) -> str:
        subsets = counted(len(self.blocks), "subset")
        return f"{counted(self.numbers, 'noisy number')} on {subsets} of attributes"

    # ------------------------------------------------------------------ measuring

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count, transform and add noise, block by block in batches."""
        values = []
        for block in self.blocks:
            noisy: NDArray[np.number] = np.empty((*block.shape, len(block)), block.noise.dtype)
            rows = [axis.measure for axis in block.axes]
            cells = prod(max(axis.size, axis.rows) for axis in block.axes)
            for part in batches(len(block), cells, BATCH_CELLS):
                counts = marginals(block.sets[part])
                counts = counts.reshape(len(counts), *(axis.size for axis in block.axes))
                found = noisy_residuals(rows, counts, block.noise[part], sample)
                if found.dtype != noisy.dtype:  # integers that 64 bits do not hold, rounded
                    noisy = noisy.astype(np.float64)
                noisy[..., part] = found
                progress(len(counts))
            values.append(noisy)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ answering

    def coordinates(self, measured: Measurements, sets: IntArray) -> Array:
        """All ω_A with A inside each given set, as one tensor per set, the batch last.

        Index 0 on an axis is the sum over that attribute, 1, 2, … its residual. Zero where a block
        has rows of its own.
        """
        bases = self.blocks.bases_on(sets[0])
        tensor = np.zeros((*(basis.rows + 1 for basis in bases), len(sets)))
        for pattern in subsets(range(len(bases))):
            inner = sets[:, list(pattern)]
            part = tuple(slice(1, None) if i in pattern else 0 for i in range(len(bases)))
            for number, mine, place in self.blocks.find(inner).groups():
                if self.blocks.blocks[number].own is None:
                    source = _take_last(measured.values[number], place)
                    tensor[part][..., mine if len(mine) < len(sets) else slice(None)] = source
        return tensor

    def answers(self, measured: Measurements, query: Query, sets: IntArray) -> Array:
        """Answers to one query on many attribute sets that share their bases, the batch last."""
        factors = query.matrices()
        tensor = self.coordinates(measured, sets)
        bases = self.blocks.bases_on(sets[0])
        steps: list[Array | Matrix] = []
        after = []
        for factor, basis in zip(factors, bases, strict=True):
            # W T as one small matrix; a factor with more rows than values is applied afterwards.
            inverse = basis.inverse
            late = isinstance(inverse, Matrix) or factor.shape[0] > factor.shape[1]
            steps.append(inverse if late else basis.split(factor))
            after.append(factor if late else None)
        result = kronecker_apply(steps, tensor)
        for axis, factor_left in enumerate(after):
            if factor_left is not None:
                result = np.moveaxis(factor_left.matmul(np.moveaxis(result, axis, 0)), 0, axis)
        if self.blocks.has_own:
            self._add_own(result, measured, factors, sets)
        return result

    def _add_own(
        self, result: Array, measured: Measurements, factors: Sequence[Matrix], sets: IntArray
    ) -> None:
        """What blocks with rows of their own add to these factors on these sets."""
        centres = [basis.centre for basis in self.blocks.bases_on(sets[0])]
        for pattern, number, mine, place in self.blocks.own_inside(sets):
            asked = Asked(factors, centres, pattern, self.blocks.blocks[number])
            result[..., mine] += asked.of_numbers(_take_last(measured.values[number], place))

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        return partial(self.answer, measured)

    def answer(self, measured: Measurements, query: Query) -> Array:
        self.require(query)
        return self.completed(measured, query)

    def require_completed(self, query: Query) -> None:
        several = [name for name in query.attributes if self.schema[name].size > 1]
        if query.schema != self.schema or self.block_on(several) is None:
            self.require(query)

    def completed(self, measured: Measurements, query: Query) -> Array:
        """Σ_{A⊆B} over the sets that are measured, whether or not their rows tell all of Q_B."""
        sets = self.set_of(query.attributes)
        if query.joint is None:
            return np.ascontiguousarray(self.answers(measured, query, sets)[..., 0]).ravel()
        bases = self.blocks.bases_on(sets[0])
        cells = kronecker_apply([b.inverse for b in bases], self.coordinates(measured, sets))
        self._add_own(cells, measured, [IdentityMatrix(b.size) for b in bases], sets)
        return query.joint @ cells.ravel()

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        """A workload's answers in batches of equal shape: positions, and estimates, batch last."""
        for group in self.alike_queries(workload):
            query = workload.query(int(group[0]))
            for part in batches(len(group), query.rows, BATCH_CELLS):
                chosen = group[part]
                if query.joint is not None:
                    yield chosen, self.answer(measured, query)[:, None]
                else:
                    sets = attribute_sets(workload, query, chosen)
                    yield chosen, self.answers(measured, query, sets)

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        """The exact variance of every row."""
        self.require(query)
        return row_variances(self, query)

    completed_variance = row_variances

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        return self.answer(measured, query), Errors(np.sqrt(self.completed_variance(query)))

    def covariance(self, query: Query, other: Query) -> Array:
        """The exact covariance of every row of one query with every row of another."""
        self.require(query)
        self.require(other)
        return row_covariances(self, query, other)

    def alike_queries(self, workload: Workload) -> list[IntArray]:
        columns = workload.columns
        bases = np.append(self.blocks.basis_of, -1)[columns.attributes]
        named = columns.attributes >= 0  # an attribute without a basis is no padding
        _, kind = unique_rows(np.column_stack([bases, named, columns.factors, columns.joint]))
        order = np.argsort(kind, kind="stable")
        return np.split(order, np.cumsum(np.bincount(kind))[:-1])

    def variances_alike(self, workload: Workload, group: IntArray) -> Array:
        query = workload.query(int(group[0]))
        if query.joint is not None:
            return super().variances_alike(workload, group)
        return variances_on_sets(self, query, attribute_sets(workload, query, group))

    def noise_alike(self, workload: Workload, group: IntArray) -> IntArray:
        query = workload.query(int(group[0]))
        if query.joint is not None:
            return super().noise_alike(workload, group)
        sets = attribute_sets(workload, query, group)
        inside = np.vstack([noise_inside(self, sets), own_blocks_inside(self, sets)])
        return np.unique(inside, axis=1, return_inverse=True)[1].ravel()

    def answered_alike(self, workload: Workload, group: IntArray) -> IntArray:
        query = workload.query(int(group[0]))
        sets = attribute_sets(workload, query, group)
        kind = np.full(len(group), -1)
        if (self.blocks.basis_of[sets[0]] < 0).any():
            return kind
        possible = np.ones(len(group), dtype=bool)
        if query.joint is None and all(
            isinstance(factor, Identity) and self.schema[name].size > 1
            for name, factor in query.factors.items()
        ):  # nothing less than the residual of all attributes will do
            possible = np.isfinite(self.blocks.variance(sets))
        if possible.any():
            measured = np.isfinite(noise_inside(self, sets[possible]))
            inside = np.vstack([measured, own_blocks_inside(self, sets[possible])])
            kind[possible] = unique_rows(inside.T.astype(np.int64))[1]
        return kind

    # ------------------------------------------------------------------ written out

    def unit_rows(self) -> Array:
        if not self.noise.size.all():
            raise PlanError("what is measured exactly, as a public total, has no unit of noise")
        parts = []
        for block in self.blocks:
            for row, sigma2 in zip(block.sets, block.sigma2, strict=True):
                parts.append(over_domain(block, row, self._every_value) / np.sqrt(sigma2))
        return np.concatenate([np.zeros((0, self.schema.size)), *parts])

    def unit_values(self, measured: Measurements) -> Array:
        parts = [
            (np.moveaxis(values, -1, 0).reshape(len(block), -1).T / np.sqrt(block.sigma2)).T.ravel()
            for block, values in zip(self.blocks, measured.values, strict=True)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def measured_queries(self, most: int) -> list[Query]:
        sets = [row for some in reversed(self.sets) for row in some.tolist()][:most]
        return [Query(self.schema, [self.schema.names[i] for i in row]) for row in sets]

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        bases, arrays = write_bases(self.blocks.bases, self.blocks.basis_of)
        for i, block in enumerate(self.blocks):
            arrays[f"block_{i}_sets"], arrays[f"block_{i}_sigma2"] = block.sets, block.sigma2
        content: Json = {
            "kind": self.kind,
            "integer": self.blocks.exact,
            "bases": bases,
            "blocks": len(self.blocks.blocks),
        }
        if self.blocks.has_own:
            content["own"] = [
                write_own(i, block.own, arrays) for i, block in enumerate(self.blocks)
            ]
        return content, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> ResidualMechanism:
        bases, basis_of = read_bases(content, arrays, schema)
        exact = lattice_of(content["integer"])
        every = Blocks((), bases, basis_of, exact)
        own = content.get("own")
        if own is None:  # not as a list, which could be of any length
            own = repeat(None, content["blocks"])
        elif len(own) != content["blocks"]:
            raise StorageError("the blocks with rows of their own are not those that are there")
        blocks = tuple(_read_block(i, saved, arrays, every) for i, saved in enumerate(own))
        return cls(schema, replace(every, blocks=blocks))

    # ------------------------------------------------------------------ what is there

    require = require_in_span

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are measured."""
        names = zip(self.schema.names, self.blocks.basis_of, strict=True)
        return tuple(n for n, basis in names if basis >= 0)

    def basis(self, name: str) -> Basis:
        """The basis of a measured attribute."""
        return self.blocks.bases[int(self.blocks.basis_of[self.schema.index(name)])]

    def noise_variance(self, names: Sequence[str]) -> float:
        """Variance of the noise on these attributes, infinite if nothing is measured there."""
        return float(self.blocks.variance(self.set_of(names))[0])

    def block_on(self, names: Sequence[str]) -> Block | None:
        """The block that measures the residual on these attributes, if any does."""
        number = int(self.blocks.find(self.set_of(names)).number[0])
        return None if number < 0 else self.blocks.blocks[number]

    @property
    def _every_value(self) -> dict[int, IntArray]:
        return {i: np.arange(n) for i, n in enumerate(self.schema.shape)}

    def set_of(self, names: Sequence[str]) -> IntArray:
        """The numbers of these attributes, as one set."""
        return np.array([[self.schema.index(n) for n in names]], dtype=np.int64)


def _take_last(values: NDArray[np.number], place: IntArray) -> NDArray[np.number]:
    """values[..., place], as a view where the places follow each other."""
    if len(place) and (np.diff(place) == 1).all() and place[0] >= 0:
        return values[..., place[0] : place[0] + len(place)]
    return np.take(values, place, axis=-1)


def _read_block(i: int, saved: Json | None, arrays: Arrays, every: Blocks) -> Block:
    sets, sigma2 = arrays[f"block_{i}_sets"], floats(arrays, f"block_{i}_sigma2", 1)
    if sets.ndim != 2 or sets.dtype.kind != "i" or len(sets) != len(sigma2) or not len(sets):
        raise StorageError(f"block {i} has parts that do not fit each other")
    if sets.size and not (sets.min() >= 0 and sets.max() < len(every.basis_of)):
        raise StorageError(f"block {i} measures an attribute that is not there")
    signature = every.basis_of[sets]
    if (signature < 0).any() or (signature != signature[0]).any() or (sigma2 < 0).any():
        raise StorageError(f"block {i} mixes attributes of different bases, or has no noise")
    if (np.diff(sets, axis=1) <= 0).any():
        raise StorageError(f"block {i} has sets of attributes that are not in ascending order")
    noise = Noise("gaussian", sigma2, every.exact)
    bases = tuple(every.bases[b] for b in signature[0])
    own = None if saved is None else read_own(i, saved, arrays, bases)
    return Block(sets.astype(np.int64), noise, bases, own)
