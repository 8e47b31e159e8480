"""Residuals over some attributes, crossed with rows of any kind over the cells of the others.

    measured on A:   ω_A = (⊗_{i∈A} U_i ⊗ B_A) x_{A∪D} + σ_A z        A among the split attributes
    answer of Q:     Σ_A ⊗ (W_iV_i if i∈A else W_iτ_i) ⊗ W_D B_A⁺ ω_A
    variance:        Σ_A σ²_A ⊗ (W_iV_iV_iᵀW_iᵀ or (W_iτ_i)²) ⊗ W_D(B_AᵀB_A)⁺W_Dᵀ

The split attributes have one U_i for all sets A, with I = τ_i1ᵀ + V_iU_i: so residuals of different
sets do not see each other, and each is a small problem over the cells of the others, D, of which
there are few. Plans that measure the attributes in D by different rows have all of this in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json, immutable
from noiseplan.errors import PlanError, QueryError, StorageError
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.base import (
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    floats,
    undetermined,
)
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import Blocks
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.mechanisms.crossed_pieces import Piece, as_floats
from noiseplan.mechanisms.crossed_queries import Asked, Frame, Set
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_fit
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise.law import Noise, Sampler, lattice_of
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query
from noiseplan.schema import Schema
from noiseplan.texts import counted


@immutable
@dataclass(frozen=True, eq=False)
class Part:
    """A set of split attributes, and the rows over D's cells that its residual is measured by."""

    split: Set
    rows: DenseMechanism

    @cached_property
    def fit(self) -> LeastSquares:
        return LeastSquares(self.rows.strategy)

    @property
    def variance(self) -> float:
        """Of the noise on each number."""
        return float(np.asarray(self.rows.noise.variance).reshape(-1)[0])

    @cached_property
    def back(self) -> Array:
        """B⁺: what was measured to D's cells."""
        return np.asarray(self.fit.spread @ self.rows.strategy.T)


@immutable
@dataclass(frozen=True, eq=False)
class PartPiece(Piece):
    """A part by its number, which has the frame's own rows on split attributes."""

    number: int
    part: Part

    @property
    def split(self) -> Set:
        return self.part.split

    @property
    def cell_rows(self) -> Array:
        return self.part.rows.strategy

    @property
    def sigma2(self) -> float:
        return self.part.rows.noise.one

    def numbers(self, measured: Measurements) -> Array:
        return as_floats(measured.values[self.number])

    def put(self, values: Sequence[Array], cells: Array) -> None:
        values[self.number][...] = cells @ self.cell_rows.T


@immutable
@dataclass(frozen=True, eq=False)
class CrossedMechanism(Mechanism):
    """Parts, each with rows and noise of its own."""

    kind: ClassVar[str] = "crossed"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"
    undivided: ClassVar[str | None] = None

    schema: Schema
    frame: Frame
    parts_of: tuple[Part, ...]

    def __post_init__(self) -> None:
        require_fit(self.noise, [axis.measure for axis in self.frame.bases.values()])

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        sizes = [part.rows.noise.one for part in self.parts_of]
        exact = max((part.rows.noise.exact for part in self.parts_of), default=False)
        return Noise("gaussian", np.array(sizes, dtype=np.float64), exact)

    def on_lattice(self, exact: int) -> Mechanism:
        parts = [
            replace(p, rows=replace(p.rows, noise=p.rows.noise.on_lattice(exact)))
            for p in self.parts_of
        ]
        return replace(self, parts_of=tuple(parts))

    @cached_property
    def by_set(self) -> dict[Set, Part]:
        return {part.split: part for part in self.parts_of}

    # ------------------------------------------------------------------ compared

    def residual_blocks(self) -> Blocks:
        raise PlanError("one of the plans holds what others had in common")

    def axes(self) -> Iterator[tuple[int, Basis | None, Basis]]:
        yield from ((i, basis, basis) for i, basis in self.frame.bases.items())
        for i in self.frame.whole:
            yield i, None, Basis.orthogonal(self.schema.shape[i])

    def pieces(self, frame: Frame) -> Iterator[Piece]:
        if not self.frame.same(frame):
            raise PlanError("the plans differ in rows that were put together already")
        yield from (PartPiece(number, part) for number, part in enumerate(self.parts_of))

    # ------------------------------------------------------------------ what is measured

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [
            (*(axis.rows for axis in self.frame.axes(part.split)), part.rows.numbers)
            for part in self.parts_of
        ]

    @property
    def numbers(self) -> int:
        return sum(prod(shape) for shape in self.shapes)

    @property
    def steps(self) -> int:
        return len(self.parts_of)

    @property
    def sets(self) -> list[IntArray]:
        return [self.frame.table(part.split) for part in self.parts_of]

    def describe(self) -> str:
        cells = f"{self.frame.cells.size:,} cells of {', '.join(self.frame.cells.names)}"
        numbers, subsets = counted(self.numbers, "noisy number"), counted(self.steps, "subset")
        return f"{numbers} on {subsets} crossed with {cells}"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        values = []
        for part in self.parts_of:
            table = np.asarray(marginals(self.frame.table(part.split)))
            rows = [*(axis.measure for axis in self.frame.axes(part.split)), part.rows.strategy]
            counts = self.frame.crossed(part.split, table)
            values.append(noisy_residuals(rows, counts, part.rows.noise, sample)[..., 0])
            progress(1)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ privacy

    @cached_property
    def crossed_costs(self) -> Array:
        """Of each of D's cells, Σ_A ∏ β_i (B_AᵀB_A)_dd / σ²_A: what no record of it exceeds."""
        found = np.zeros(self.frame.cells.size)
        for part in self.parts_of:
            columns = np.einsum("ri,ri->i", part.rows.strategy, part.rows.strategy)
            beta = prod(axis.sensitivity for axis in self.frame.axes(part.split))
            found += beta * columns / part.rows.noise.one
        return found

    def costs_in(self, frame: Frame) -> Array | None:
        return self.crossed_costs if self.frame.same(frame) else None

    def record_cost(self, neighbours: Neighbours) -> float:
        found = self.cost_with([], neighbours)
        assert found is not None  # nothing beside it
        return found

    def cost_with(self, others: list[Mechanism], neighbours: Neighbours) -> float | None:
        """Cell by cell of D, where all are crossed alike; (a − b)² ≤ 2a² + 2b² to replace one."""
        every = [self, *others]
        costs = [costs for m in every if (costs := m.costs_in(self.frame)) is not None]
        if len(costs) < len(every):
            return None
        if neighbours == "replace" and self.schema.size <= CELL_BY_CELL:
            return cell_by_cell(every, neighbours)
        for mechanism in every:
            mechanism.require_noise(neighbours)
        largest = float(np.sum(costs, axis=0).max(initial=0.0))
        # Sums over the parts of sums over a part's rows: so many terms, and no more, are added.
        rows = [shape[-1] for mechanism in every for shape in mechanism.shapes]
        terms = len(rows) + max(rows, default=0)
        record = product_up(largest, 1 + margin(terms))
        return record if neighbours == "add-remove" else 4 * record

    def cost_matrix(self) -> Array:
        every = self.schema.shape
        split = [i for i in range(len(every)) if i not in self.frame.whole]
        cost = np.zeros((self.schema.size,) * 2)
        for part in self.parts_of:
            inside = [
                self.frame.bases[i].gram if i in part.split else np.ones((every[i],) * 2)
                for i in split
            ]
            cost += kronecker_dense([*inside, part.rows.cost_matrix()])
        order = np.arange(self.schema.size).reshape(every)
        order = np.argsort(order.transpose(*split, *self.frame.whole).ravel())
        return cost[np.ix_(order, order)]

    # ------------------------------------------------------------------ answering

    def _asked(self, query: Query) -> tuple[Asked, list[Part]]:
        """The query and the parts it is answered from, if they determine it."""
        asked, found = Asked.of(self.frame, query), []
        told = asked.spanned()
        for split in asked.sets() if told else ():
            part = self.by_set.get(split)
            if part is None or not part.fit.determines(asked.over_cells(split)):
                told = False
                break
            found.append(part)
        if not told:
            raise undetermined(query, "what is measured")
        return asked, found

    def require(self, query: Query) -> None:
        self._asked(query)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        cells = self._cells(measured)
        return lambda query: _answer(*self._asked(query), cells)

    def _cells(self, measured: Measurements) -> dict[Set, Array]:
        """Of every set, residual coordinates … × D's cells."""
        pairs = zip(self.parts_of, measured.values, strict=True)
        return {p.split: np.asarray(v, dtype=np.float64) @ p.back.T for p, v in pairs}

    def require_completed(self, query: Query) -> None:
        asked = Asked.of(self.frame, query)
        part, names = self.by_set.get(asked.split), self.frame.cells.names
        own = tuple(name for name in query.attributes if name in names)
        if part is None or not part.rows.tells_together(own):
            self.require(query)

    def _measured_of(self, query: Query) -> tuple[Asked, list[Part]]:
        """The query and the parts that tell anything of it."""
        asked = Asked.of(self.frame, query)
        return asked, [self.by_set[split] for split in asked.sets() if split in self.by_set]

    def completed(self, measured: Measurements, query: Query) -> Array:
        return _answer(*self._measured_of(query), self._cells(measured))

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        return _variance(*self._asked(query))

    def completed_variance(self, query: Query) -> Array:
        return _variance(*self._measured_of(query))

    def covariance(self, query: Query, other: Query) -> Array:
        (one, mine), (two, theirs) = self._asked(query), self._asked(other)
        found = np.zeros((query.rows, other.rows))
        for part in (part for part in mine if part in theirs):
            numbers = prod(axis.rows for axis in self.frame.axes(part.split))
            columns = numbers * self.frame.cells.size
            if max(query.rows, other.rows) * max(columns, query.rows, other.rows) > DENSE_LIMIT:
                raise QueryError(
                    f"the covariance of {query.name!r} and {other.name!r} takes more than "
                    f"{DENSE_LIMIT:,} numbers: ask for fewer rows, or for variance(query)"
                )
            left = one.dense(part.split) @ part.fit.spread
            right = two.dense(part.split).reshape(other.rows, -1)
            found += part.variance * (left.reshape(query.rows, -1) @ right.T)
        return found

    # ------------------------------------------------------------------ written out

    def measured_queries(self, most: int) -> list[Query]:
        names = self.schema.names
        return [Query(self.schema, [names[i] for i in p.split]) for p in self.parts_of[:most]]

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        frame = self.frame
        basis_of = np.full(len(self.schema), -1)
        basis_of[list(frame.bases)] = np.arange(len(frame.bases))
        bases, arrays = write_bases(tuple(frame.bases.values()), basis_of)
        arrays["whole"], arrays["sigma2"] = np.array(frame.whole), self.noise.size
        for i, part in enumerate(self.parts_of):
            arrays[f"part_{i}_set"] = np.array(part.split, dtype=np.int64)
            arrays[f"part_{i}_strategy"] = part.rows.strategy
        exact = self.noise.exact
        return {"kind": self.kind, "integer": exact, "bases": bases}, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> CrossedMechanism:
        bases, basis_of = read_bases(content, arrays, schema)
        whole, sizes = _attributes(arrays["whole"], schema), floats(arrays, "sigma2", 1)
        split = {int(i): bases[basis_of[i]] for i in np.flatnonzero(basis_of >= 0)}
        if not whole or split.keys() & set(whole) or not (sizes > 0).all():
            raise StorageError("the mechanism has attributes of two kinds, or has no noise")
        frame, exact = Frame(schema, split, whole), lattice_of(content["integer"])
        parts = [
            _read_part(i, arrays, frame, Noise("gaussian", float(size), exact))
            for i, size in enumerate(sizes)
        ]
        if len({part.split for part in parts}) < len(parts):
            raise StorageError("a set of attributes is measured by two parts")
        return cls(schema, frame, tuple(parts))


def _answer(asked: Asked, parts: list[Part], cells: Mapping[Set, Array]) -> Array:
    each = [asked.answer(part.split, cells[part.split]) for part in parts]
    return np.asarray(np.sum([np.zeros(asked.query.rows), *each], axis=0))


def _variance(asked: Asked, parts: list[Part]) -> Array:
    each = [part.variance * asked.variance(part.split, part.fit.spread) for part in parts]
    return np.asarray(np.sum([np.zeros(asked.query.rows), *each], axis=0))


def _attributes(saved: NDArray[Any], schema: Schema) -> Set:
    """Ascending numbers of attributes."""
    if saved.ndim != 1 or saved.dtype.kind != "i" or (np.diff(saved) <= 0).any():
        raise StorageError("a set of attributes is not in ascending order")
    if saved.size and not (saved[0] >= 0 and saved[-1] < len(schema)):
        raise StorageError("the mechanism measures an attribute that is not there")
    return tuple(saved.tolist())


def _read_part(i: int, arrays: Arrays, frame: Frame, noise: Noise) -> Part:
    split = _attributes(arrays[f"part_{i}_set"], frame.schema)
    strategy = floats(arrays, f"part_{i}_strategy", 2)
    if not set(split) <= frame.bases.keys() or strategy.shape[1] != frame.cells.size:
        raise StorageError(f"part {i} does not fit the attributes of the mechanism")
    return Part(split, DenseMechanism(frame.cells, strategy, noise))
