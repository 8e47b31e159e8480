"""Queries against blocks along a long attribute: what each asks of every measured set.

The rows of a query on the long attribute are what its blocks know (`LongBlock`): nodes of a tree,
spans of values; on the others every set A inside the query has the part ⊗_{i∈A} W_iV_i ⊗_{i∉A}
W_iτ_i, as in the residual mechanism. A dense matrix over several attributes is taken apart in the
same way, row by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, immutable, subsets
from noiseplan.errors import UnanswerableError
from noiseplan.matrices import Matrix, TotalMatrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.long_block import AnyBlock, LongRows
from noiseplan.queries import Query

if TYPE_CHECKING:
    from noiseplan.mechanisms.long_attribute import LongMechanism

# What is left of a row by rounding, as a share of it.
ROUNDING: Final = 1e-10

# Estimates of a numbered block.
Estimates = Callable[[int], list[Array]]


def asked_of(mechanism: LongMechanism, query: Query) -> Asked:
    """A query, ready to be answered."""
    if query.joint is not None:
        return AskedMatrix(mechanism, query)
    return AskedTable(mechanism, query)


@immutable
@dataclass(frozen=True, eq=False)
class Asked(ABC):
    """A query against what is measured."""

    mechanism: LongMechanism
    query: Query

    @abstractmethod
    def require(self) -> None:
        """Raise `UnanswerableError` unless it lies in the span of what is measured."""

    @abstractmethod
    def answer(self, estimates: Estimates) -> Array:
        """The estimate of every row."""

    @abstractmethod
    def variance(self) -> Array:
        """The variance of every row."""

    @abstractmethod
    def spread(self, block: AnyBlock) -> LongRows | None:
        """What every row asks of every number of a set: (rows · numbers) along the attribute.

        None where the set is not inside the query, or not needed.
        """

    def covariance(self, other: Asked) -> Array:
        """Of every row with every row of another query: Σ_A Σ over the numbers of A."""
        total = np.zeros((self.query.rows, other.query.rows))
        for block in self.mechanism.blocks:
            mine, theirs = self.spread(block), other.spread(block)
            if mine is not None and theirs is not None:
                count = mine.count // self.query.rows
                each = block.covariance(mine, theirs).reshape(
                    self.query.rows, count, other.query.rows, count
                )
                total += np.einsum("rdsd->rs", each)
        return total

    @cached_property
    def others(self) -> list[int]:
        """The attributes asked for besides the long one, by number."""
        index = self.mechanism.schema.index
        return [i for i in map(index, self.query.attributes) if i != self.mechanism.place]

    def require_attributes(self) -> None:
        """Refuse attributes that are not measured at all."""
        mechanism = self.mechanism
        missing = [mechanism.schema.names[i] for i in self.others if mechanism.basis_of[i] < 0]
        if missing:
            raise UnanswerableError(
                f"{self.query.name!r} needs {missing}, which the plan does not measure: add a "
                f"query on {missing} to the workload"
            )

    def require_measured(self, chosen: tuple[int, ...], rows: list[LongRows | None]) -> None:
        """Refuse rows along the attribute that a set of others is not measured at."""
        mechanism = self.mechanism
        block = next((b for b in mechanism.blocks if b.others == chosen), None)
        if block is not None and None not in self.over(block, rows):
            return
        names = [mechanism.schema.names[i] for i in sorted((*chosen, mechanism.place))]
        raise UnanswerableError(
            f"{self.query.name!r} needs {' × '.join(names)} measured together at this level, and "
            f"the plan does not: add the query to the workload" + mechanism.measured_at(rows)
        )

    def untold(self, attribute: int) -> UnanswerableError:
        """What to say where values of another attribute are not told apart."""
        name = self.mechanism.schema.names[attribute]
        return UnanswerableError(
            f"{self.query.name!r} tells values of {name!r} apart that no query of the plan's "
            f"workload tells apart: add a query with this factor on {name!r} to the workload"
        )

    def over(self, block: AnyBlock, rows: list[LongRows | None]) -> list[LongRows | None]:
        """Rows as a block is measured; None where they ask for more."""
        return [None if each is None else block.seen(each) for each in rows]


@immutable
@dataclass(frozen=True, eq=False)
class AskedTable(Asked):
    """A product of factors."""

    @cached_property
    def place(self) -> int:
        """Where the long attribute stands among the query's; −1 if it is summed over."""
        name = self.mechanism.schema.names[self.mechanism.place]
        return self.query.attributes.index(name) if name in self.query.attributes else -1

    @cached_property
    def factors(self) -> dict[int, Matrix]:
        """The factor of every other attribute."""
        index = self.mechanism.schema.index
        pairs = zip(self.query.attributes, self.query.matrices(), strict=True)
        return {index(n): m for n, m in pairs if index(n) != self.mechanism.place}

    @cached_property
    def pieces(self) -> list[LongRows | None]:
        """Rows along the long attribute."""
        size = self.mechanism.schema.shape[self.mechanism.place]
        matrix = TotalMatrix(size) if self.place < 0 else self.query.matrices()[self.place]
        return list(self.mechanism.rows_of(matrix))

    def require(self) -> None:
        self.require_attributes()
        for i, factor in self.factors.items():
            if not self.mechanism.basis(i).spans(factor):
                raise self.untold(i)
        for chosen in self._needed():
            self.require_measured(chosen, self.pieces)

    def _needed(self) -> Iterator[tuple[int, ...]]:
        """The sets of other attributes whose residual is not zero for the query."""
        asked = self.others
        residual = {i: bool(self._residual[i].any()) for i in asked}
        summed = {i: bool(self._sums[i].any()) for i in asked}
        for chosen in subsets(asked):
            if all(residual[i] if i in chosen else summed[i] for i in asked):
                yield chosen

    @cached_property
    def _residual(self) -> dict[int, Array]:
        """(WVVᵀWᵀ)_qq of every row, of every other attribute."""
        return {i: self.mechanism.basis(i).residual_rows(f) for i, f in self.factors.items()}

    @cached_property
    def _sums(self) -> dict[int, Array]:
        """Wτ of every row; zero where it is no more than rounding."""
        found = {}
        for i, factor in self.factors.items():
            centre = self.mechanism.basis(i).centre
            sums = factor.matmul(centre[:, None])[:, 0]
            size = np.sqrt(factor.row_squares() * (centre @ centre))
            found[i] = np.where(np.abs(sums) <= ROUNDING * size, 0.0, sums)
        return found

    def _inside(self) -> Iterator[tuple[int, AnyBlock]]:
        """Measured sets inside the query."""
        for number, block in enumerate(self.mechanism.blocks):
            if set(block.others) <= set(self.others):
                yield number, block

    def _pieces(self, block: AnyBlock) -> list[LongRows] | None:
        """All rows as a block sees them; None where it tells too little, and is not needed."""
        found = self.over(block, self.pieces)
        return None if None in found else [rows for rows in found if rows is not None]

    def answer(self, estimates: Estimates) -> Array:
        """The estimate of every row, some of them at a time."""
        steps = [self._step(i) for i in self.others]
        shape = tuple(self.mechanism.basis(i).rows + 1 for i in self.others)
        inside = [(number, block, self._pieces(block)) for number, block in self._inside()]
        counts = [0 if rows is None else rows.count for rows in self.pieces]
        result = np.empty(self._shape(sum(counts)))
        by_node, begin = np.moveaxis(result, self._axis, -1), 0
        for piece, count in enumerate(counts):
            for part in batches(count, prod(shape), BATCH_CELLS):
                tensor = np.zeros((*shape, part.stop - part.start))
                for number, block, pieces in inside:
                    if pieces is not None:
                        some = block.estimate(estimates(number), pieces[piece].part(part))
                        tensor[self._numbers_of(block)] = some
                by_node[..., begin + part.start : begin + part.stop] = _applied(steps, tensor)
            begin += count
        return result.ravel()

    def _numbers_of(self, block: AnyBlock) -> tuple[slice | int, ...]:
        """Where a set's numbers are among (1 + numbers) of each attribute."""
        return tuple(slice(1, None) if i in block.others else 0 for i in self.others)

    @property
    def _axis(self) -> int:
        """Where the long attribute is among the axes of an answer."""
        return len(self.others) if self.place < 0 else self.place

    def _shape(self, nodes: int) -> tuple[int, ...]:
        """Rows of every attribute in the query's order."""
        shape = [len(self._sums[i]) for i in self.others]
        shape.insert(self._axis, nodes)
        return tuple(shape)

    def _step(self, i: int) -> tuple[Array | Matrix, Matrix | None]:
        """[Wτ | WV], or [τ | V] and the factor where that is less work."""
        factor, basis = self.factors[i], self.mechanism.basis(i)
        inverse = basis.inverse
        if isinstance(inverse, Matrix) or factor.shape[0] > factor.shape[1]:
            return inverse, factor
        return basis.split(factor), None

    def variance(self) -> Array:
        """Σ_A V_A(rows) ∏_{i∈A} (WVVᵀWᵀ) ∏_{i∉A} (Wτ)²."""
        of_nodes, of_others = [], []
        for _, block in self._inside():
            pieces = self._pieces(block)
            if pieces is not None:
                of_nodes.append(np.concatenate([block.variance(rows) for rows in pieces]))
                of_others.append(
                    [
                        self._residual[i] if i in block.others else self._sums[i] ** 2
                        for i in self.others
                    ]
                )
        total = np.array(of_nodes).T @ np.array([_outer(parts) for parts in of_others])
        by_node = total.reshape(-1, *(len(self._sums[i]) for i in self.others))
        return np.ascontiguousarray(np.moveaxis(by_node, 0, self._axis)).ravel()

    def variance_sum(self) -> float:
        """Σ of the variances of all rows."""
        total = 0.0
        for _, block in self._inside():
            own = sum(block.variance_sum(rows) for rows in self._pieces(block) or ())
            parts = [
                self._residual[i] if i in block.others else self._sums[i] ** 2 for i in self.others
            ]
            total += own * prod(float(part.sum()) for part in parts)
        return total

    def spread(self, block: AnyBlock) -> LongRows | None:
        pieces = self._pieces(block) if set(block.others) <= set(self.others) else None
        if pieces is None:
            return None
        nodes = len(self.others)
        rows = sp.vstack([block.weights(each) for each in pieces])
        parts = [self._split(i, i in block.others) for i in self.others]
        # (rows of each attribute, numbers of each) × along, then in the order of the query.
        column = kronecker_dense([part.reshape(-1, 1) for part in parts])
        whole = sp.csr_array(sp.kron(column, rows))
        shape = [n for part in parts for n in part.shape] + [rows.shape[0]]
        grid = np.arange(prod(shape)).reshape(shape)
        own = [2 * i for i in range(nodes)]
        own.insert(self._axis, 2 * nodes)
        order = np.transpose(grid, [*own, *(2 * i + 1 for i in range(nodes))])
        rows_of_block: LongRows = block.of_weights(sp.csr_array(whole[order.ravel()]))
        return rows_of_block

    def _split(self, i: int, residual: bool) -> Array:
        """WV, or Wτ as one column."""
        found = self.mechanism.basis(i).split(self.factors[i])
        return found[:, 1:] if residual else found[:, :1]

    def covariance(self, other: Asked) -> Array:
        """Of tables ⊗_i W_iV_i(W'_iV_i)ᵀ or W_iτ_i(W'_iτ_i)ᵀ, and of rows along."""
        if not isinstance(other, AskedTable):
            return super().covariance(other)
        order = sorted({*self.others, *other.others})
        mine, theirs = self._places(order), other._places(order)
        total = np.zeros((self.query.rows, other.query.rows))
        for _, block in self._inside():
            ours, yours = self._pieces(block), other._pieces(block)
            if ours is None or yours is None or not set(block.others) <= set(other.others):
                continue
            along = np.block([[block.covariance(a, b) for b in yours] for a in ours])
            pieces = [self._both(other, i, i in block.others) for i in order]
            total += kronecker_dense([*pieces, along])[np.ix_(mine, theirs)]
        return total

    def _both(self, other: AskedTable, i: int, residual: bool) -> Array:
        """The product of what both ask of an attribute; one that is not named has one row."""
        one = TotalMatrix(self.mechanism.schema.shape[i])
        basis = self.mechanism.basis(i)
        a, b = (basis.split(each.factors.get(i, one)) for each in (self, other))
        return a[:, 1:] @ b[:, 1:].T if residual else np.outer(a[:, 0], b[:, 0])

    def _places(self, order: list[int]) -> IntArray:
        """Where each row of the query is among rows ordered by other attributes first."""
        sizes = [self.factors[i].shape[0] if i in self.factors else 1 for i in order]
        count = self.query.rows // prod(sizes)
        grid = np.arange(prod(sizes) * count).reshape(*sizes, count)
        kept = tuple(slice(None) if i in self.factors else 0 for i in order)
        return np.moveaxis(grid[kept], -1, self._axis).ravel()


@immutable
@dataclass(frozen=True, eq=False)
class AskedMatrix(Asked):
    """One dense matrix over a few attributes."""

    @cached_property
    def _cube(self) -> Array:
        """Rows × values of the long attribute × values of each other."""
        schema, query = self.mechanism.schema, self.query
        cube = np.asarray(query.joint).reshape(-1, *(schema[n].size for n in query.attributes))
        name = schema.names[self.mechanism.place]
        if name not in query.attributes:
            return cube[:, None]
        return np.moveaxis(cube, 1 + query.attributes.index(name), 1)

    def _residual(self, chosen: tuple[int, ...]) -> Array:
        """The query's part on a set, over the values of its attributes."""
        cube = self._cube
        for axis, i in reversed(list(enumerate(self.others, 2))):
            summed = np.tensordot(cube, self.mechanism.basis(i).centre, (axis, 0))
            cube = cube - np.expand_dims(summed, axis) if i in chosen else summed
        return cube

    @cached_property
    def _limits(self) -> Array:
        """What is no more than rounding of the largest entry, of every row."""
        return ROUNDING * _largest(self._cube) * prod(self._cube.shape[2:])

    def require(self) -> None:
        self.require_attributes()
        for chosen in subsets(self.others):
            cube = self._residual(chosen)
            if (_largest(cube) <= self._limits).all():
                continue
            for axis, i in enumerate(chosen, 2):
                basis, along = self.mechanism.basis(i), np.moveaxis(cube, axis, -1)
                lost = along - along @ basis.recover @ _numbers(basis.measure)
                if (_largest(lost) > self._limits).any():
                    raise self.untold(i)
            self.require_measured(chosen, [self._along(chosen, cube)])

    def _along(self, chosen: tuple[int, ...], cube: Array) -> LongRows | None:
        """(rows · numbers of the set) along the attribute, from the part over values."""
        limits = self._limits
        for axis, i in enumerate(chosen, 2):
            back = self.mechanism.basis(i).recover
            cube = np.moveaxis(np.tensordot(cube, back, (axis, 0)), -1, axis)
            limits = np.multiply.outer(limits, np.abs(back).sum(axis=0))
        flat = np.moveaxis(cube, 1, -1)
        flat = flat.reshape(-1, flat.shape[-1])
        return self.mechanism.rows_of_values(sp.csr_array(flat), limits.ravel())

    def spread(self, block: AnyBlock) -> LongRows | None:
        if not set(block.others) <= set(self.others):
            return None
        rows = self._along(block.others, self._residual(block.others))
        found = None if rows is None else block.seen(rows)
        return None if found is None else block.of_weights(block.weights(found))

    def answer(self, estimates: Estimates) -> Array:
        total = np.zeros(self.query.rows)
        for number, block in enumerate(self.mechanism.blocks):
            rows = self.spread(block)
            if rows is not None:
                values = block.values(estimates(number))
                flat = values.reshape(-1, values.shape[-1])
                each = block.weights(rows).toarray().reshape(len(total), *flat.shape)
                total += np.einsum("rdn,dn->r", each, flat)
        return total

    def variance(self) -> Array:
        total = np.zeros(self.query.rows)
        for block in self.mechanism.blocks:
            rows = self.spread(block)
            if rows is not None:
                total += block.variance(rows).reshape(len(total), -1).sum(axis=1)
        return total


def _largest(cube: Array) -> Array:
    """The largest entry of every row, without its sign."""
    return np.asarray(np.abs(cube).reshape(len(cube), -1).max(axis=1))


def _outer(parts: list[Array]) -> Array:
    """∏ of one entry of each, all combinations as one row after the other."""
    return reduce(np.multiply.outer, parts, np.ones(())).ravel()


def _applied(steps: list[tuple[Array | Matrix, Matrix | None]], tensor: Array) -> Array:
    """The steps of every attribute, one after the other."""
    found = kronecker_apply([step for step, _ in steps], tensor)
    for axis, (_, late) in enumerate(steps):
        if late is not None:
            found = np.moveaxis(late.matmul(np.moveaxis(found, axis, 0)), 0, axis)
    return found


def _numbers(measure: Array | Matrix) -> Array:
    return measure.dense() if isinstance(measure, Matrix) else measure
