"""From blocks with rows of their own to a mechanism: at a budget, or at the least cost for targets.

Everything is worked out from the rows that are measured: the cost by the mechanism itself, the
sums of variances from the traces of its rows, numbers or integers, whatever they were planned to
be. Nothing is taken over from the search.

Rows A over the
values of a block have A = M u with M = AQ, so Ψ = MᵀM/σ², and of a kind k of questions

    variance  σ² tr(h_k M⁺M⁺ᵀ) ,       cost of a record  ‖A e_x‖²/σ² .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices import kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block, Blocks, OwnRows, own_basis, whole_basis
from noiseplan.mechanisms.exact_residuals import LARGEST
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise import Noise
from noiseplan.optimize.integer_rounding import centred, kernel_rows
from noiseplan.planning.block_payers import spread
from noiseplan.planning.block_search import Apart, Form, Together
from noiseplan.planning.block_types import BlockTypes, Centres
from noiseplan.planning.measured_numbers import INTEGERS, REALS, Numbers
from noiseplan.planning.residual_mechanism import numbered, placements
from noiseplan.planning.solve import role_bases
from noiseplan.planning.workload_errors import Figures, RowFigures
from noiseplan.planning.workload_types import Design

# Directions that nothing is asked of are measured too where rows are integers, by so much of the
# strongest: rounding would tilt the others out of what can be answered.
FAINTEST: Final = 2.0**-8

Parts = dict[int, IntArray]

NO_ATTRIBUTES: Final = np.zeros((1, 0), dtype=np.int64)


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
        for i, (slot, own_spread) in enumerate(zip(slots, self._spreads, strict=True)):
            own = {p: float((own_spread * (h @ own_spread)).sum()) for p, h in slot.grams.items()}
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


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Rows of every block for given τ, up to a common scale of the noise.

    `parts` are the integers t of τ = t/Σt; `numbers` is what is measured. The
    noise is `factor` times that of the rows; `unit` is the mechanism for a factor of one.
    """

    types: BlockTypes
    centres: Centres
    rows: tuple[BlockRows, ...]
    parts: Parts
    numbers: Numbers = REALS
    factor: float = 1.0
    unit: ResidualMechanism | None = None

    @classmethod
    def of(cls, found: Together | Apart, parts: Parts) -> BlockPlan:
        """What a search has found."""
        rows = []
        scales = found.scales.tolist()
        for form, point, scale in zip(found.search.forms, found.points, scales, strict=True):
            if not form.block.slots and float(point.costs[0]) > 0:
                rows.append(BlockRows(form, (), 1.0 / (scale * float(point.costs[0]))))
            elif form.block.slots and all(len(part) for part in point.rows):
                rows.append(BlockRows(form, tuple(point.rows), 1.0 / scale))
        return cls(found.search.types, found.search.centres, tuple(rows), parts)

    @cached_property
    def record_costs(self) -> Array:
        """Of each block, what its subsets cost every record for noise of size one, or at most."""
        shape = self.types.shape
        if not self.types.enumerable:
            most = [b.form.block.most(b.sigma2 * b.costs) for b in self.rows]
            return np.array(most)[:, None]
        each = [spread(b.form.block, b.sigma2 * b.costs, shape) for b in self.rows]
        return np.array([np.broadcast_to(costs, shape).ravel() for costs in each])

    @property
    def value(self) -> float:
        """The total variance at cost one, of adding or removing a record."""
        total = sum(b.form.block.sets * b.variance for b in self.rows)
        return total * float((self.precision @ self.record_costs).max())

    @property
    def precision(self) -> Array:
        return np.array([1.0 / b.sigma2 for b in self.rows])

    def rounded(self, length: float) -> BlockPlan:
        """With integer rows whose columns are of about this length."""
        every = []
        for b in self.rows:
            own = [(s.members @ self.parts[s.role]).astype(np.int64) for s in b.form.block.slots]
            every.append(b.rounded(length, own))
        return replace(self, rows=tuple(every), numbers=INTEGERS)

    @property
    def _units(self) -> Array:
        """nI − 11ᵀ is n times an orthogonal basis of a plain attribute: n² times the variance."""
        return np.array([prod(map(self.numbers.unit, self._plain(b))) ** 2.0 for b in self.rows])

    @property
    def noise(self) -> Noise:
        """The noise on the numbers of each block."""
        sizes = np.array([b.sigma2 for b in self.rows]) * self._units
        return self._scaled(self.numbers.noise(sizes))

    def _scaled(self, noise: Noise) -> Noise:
        """So many times the noise; discrete noise has sizes of few bits, rounded up."""
        sizes = noise.size * self.factor
        return noise.above(sizes)

    @property
    def variances(self) -> Array:
        """Of each block, in units of orthogonal bases on plain attributes."""
        return np.asarray(self.noise.variance / self._units)

    def scaled(self, factor: float) -> BlockPlan:
        """With so many times the noise of the rows."""
        return replace(self, factor=factor, unit=self.unit or self._assembled())

    @property
    def records(self) -> float:
        """How many records a table may have for every number measured to stay below 2⁶²."""
        largest = [prod(float(np.abs(a).max(initial=1.0)) for a in b.rows) for b in self.rows]
        plain = [prod(max(n - 1, 1) for n in self._plain(b)) for b in self.rows]
        return float(LARGEST / np.max(np.multiply(largest, plain), initial=1.0))

    def _plain(self, rows: BlockRows) -> list[int]:
        """Sizes of a block's plain attributes."""
        design = self.types.design
        every = design.terms.subset_roles[rows.form.block.number]
        return [design.roles.roles[r].size for r in every if r >= 0 and r not in design.free]

    def type_sums(self) -> Array:
        """Query types × blocks: the sum of variances of one query, for noise of size one."""
        terms = self.types.design.terms
        weights = self.types.term_weights(self.centres, np.ones(terms.queries))[0]
        weights = weights * terms.subset_count[terms.subset]
        columns = [np.bincount(terms.query, b.by_term(weights), terms.queries) for b in self.rows]
        return np.array(columns, dtype=np.float64).T

    # ------------------------------------------------------------------ the mechanism

    @cached_property
    def mechanism(self) -> ResidualMechanism:
        """What is measured."""
        unit = self.unit or self._assembled()
        return replace(unit, blocks=unit.blocks.with_noise(self._scaled))

    def _assembled(self) -> ResidualMechanism:
        design = self.types.design
        of_role = self._bases()
        bases, number = numbered(of_role)
        basis_of = number[design.roles.of_attribute]
        sizes = np.array([b.sigma2 for b in self.rows]) * self._units
        pairs = zip(self.rows, sizes.tolist(), strict=True)
        blocks = [block for rows, size in pairs for block in self._blocks(rows, size, of_role)]
        if self.types.public:
            blocks.append(Block(NO_ATTRIBUTES, self.numbers.noise(np.zeros(1)), ()))
        return ResidualMechanism(
            design.workload.schema, Blocks(tuple(blocks), bases, basis_of, self.numbers.exact)
        )

    def _bases(self) -> dict[int, Basis]:
        """Any bases of these τ: no block is measured by them, which has rows of its own.

        Each row compares a value with the most frequent one, t_j e_i − t_i e_j, so that r·t = 0.
        """
        rows = {}
        for r, parts in self.parts.items():
            most, every = int(np.argmax(parts)), np.arange(len(parts))
            rows[r] = np.diag(np.full(len(parts), float(parts[most])))[every != most]
            rows[r][:, most] = -parts[every != most]
        return role_bases(self.types.design, rows, self.numbers.basis)

    def _blocks(self, rows: BlockRows, size: float, of_role: dict[int, Basis]) -> Iterator[Block]:
        """The subsets of a type; those whose roles come in the same order share a block."""
        design, block = self.types.design, rows.form.block
        subset = design.terms.subset_roles[block.number]
        if not (subset >= 0).any():
            yield Block(NO_ATTRIBUTES, self.numbers.noise(np.full(1, size)), ())
            return
        sets = placements(design, subset)
        roles = design.roles.of_attribute[sets]
        for order in np.unique(roles, axis=0):
            mine = sets[(roles == order).all(axis=1)]
            mine = mine[np.lexsort(mine.T[::-1])]
            noise = self.numbers.noise(np.full(len(mine), size))
            bases = tuple(of_role[int(r)] for r in order)
            own = self._own(rows, order.tolist(), of_role) if block.slots else None
            yield Block(mine, noise, bases, own)

    def _own(self, rows: BlockRows, order: list[int], of_role: dict[int, Basis]) -> OwnRows:
        """The rows over the values of attributes with these roles in this order."""
        block, groups = rows.form.block, self.types.design.groups
        values = {slot.role: slot.groups[groups[slot.role]] for slot in block.slots}
        if rows.whole:  # exchangeable slots may be taken in any order
            left, axes = list(enumerate(block.roles)), []
            for role in order:
                place = next(pair for pair in left if pair[1] == role)
                left.remove(place)
                axes.append(place[0] + 1)
            cube = rows.rows[0].reshape(-1, *block.values).transpose(0, *axes)
            for axis, role in enumerate(order, start=1):
                cube = cube.take(values[role], axis=axis)
            centres = [of_role[role].centre for role in order]
            return OwnRows((whole_basis(cube.reshape(len(cube), -1), centres),), whole=True)
        along = dict(zip(block.roles, rows.rows, strict=True))
        parts = {
            r: own_basis(along[r][:, values[r]], of_role[r].centre)
            if r in along
            else self.numbers.matrix_basis(of_role[r].size)
            for r in set(order)
        }
        return OwnRows(tuple(parts[role] for role in order))


@dataclass(frozen=True, eq=False)
class BlockFigures(Figures):
    """Sums of variances from the traces of the rows; the largest one by one."""

    plan: BlockPlan

    @property
    def design(self) -> Design:  # type: ignore[override]  # as good as a field
        return self.plan.types.design

    @cached_property
    def type_variances(self) -> Array:
        return self.plan.type_sums() @ self.plan.variances

    @cached_property
    def type_worst(self) -> Array:
        return RowFigures(self.design, self.plan.mechanism).type_worst
