"""A mechanism over another domain, mostly a smaller one, on which the same queries can be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json, beginning_with, immutable
from noiseplan.domain.cells import Cells, Classes, MergedValues, SpareValues
from noiseplan.errors import PlanError, StorageError
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.base import (
    Errors,
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    saved_kind,
)
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.queries import Query
from noiseplan.schema import Schema

# Arrays of the mechanism over the smaller domain are told apart by this.
SMALL = "small_"
# And those of its cells by this.
CELLS = "cells_"


@immutable
@dataclass(frozen=True, eq=False)
class ReducedMechanism(Mechanism):
    """`small` measures and answers over `cells.inner`; queries and counts are carried there."""

    kind: ClassVar[str] = "reduced"

    cells: Cells
    small: Mechanism

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.cells.schema

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        return self.small.noise

    @property
    def numbers(self) -> int:
        return self.small.numbers

    @property
    def steps(self) -> int:
        return self.small.steps

    @property
    def sets(self) -> list[IntArray]:
        return [self.cells.outer_sets(sets) for sets in self.small.sets]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return self.small.shapes

    def check(self, measured: Measurements) -> None:
        self.small.check(measured)

    def on_lattice(self, exact: int) -> Mechanism:
        return replace(self, small=self.small.on_lattice(exact))

    def with_noise_times(self, factor: float) -> Mechanism | None:
        small = self.small.with_noise_times(factor)
        return None if small is None else replace(self, small=small)

    def record_cost(self, neighbours: Neighbours) -> float:
        return self.small.record_cost(neighbours)

    @property
    def priced(self) -> Mechanism:
        return self.small.priced

    @property
    def inner(self) -> tuple[Mechanism, ...]:
        return (self.small,)

    def with_inner(self, inner: tuple[Mechanism, ...]) -> ReducedMechanism:
        (small,) = inner
        return replace(self, small=small)

    def require_noise(self, neighbours: Neighbours) -> None:
        self.small.require_noise(neighbours)

    def describe(self) -> str:
        return f"{self.small.describe()}; {self.cells.words}"

    @property
    def caution(self) -> str:  # type: ignore[override]
        return self.small.caution

    def cost_matrix(self) -> Array:
        if self.schema.size**2 > DENSE_LIMIT:
            raise PlanError(
                f"the cost matrix over {self.schema.size:,} cells does not fit memory; over the "
                f"{self.cells.inner.size:,} measured it is plan.mechanism.small.cost_matrix()"
            )
        cells = self.cells.of_cells()
        return self.small.cost_matrix()[np.ix_(cells, cells)]

    def cell_costs(self) -> Array:
        return self.small.cell_costs()[self.cells.of_cells()]

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        return self.small.measure(self.cells.marginals(marginals), sample, progress)

    def require(self, query: Query) -> None:
        self.small.require(self.cells.query(query))

    def agreeing(self, queries: Sequence[Query]) -> list[list[int]] | None:
        return self.small.agreeing([self.cells.query(query) for query in queries])

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        answer = self.small.answering(measured)
        return lambda query: answer(self.cells.query(query))

    def variance(self, query: Query) -> Array:
        return self.small.variance(self.cells.query(query))

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        return self.small.answer_with_errors(measured, self.cells.query(query))

    def covariance(self, query: Query, other: Query) -> Array:
        return self.small.covariance(self.cells.query(query), self.cells.query(other))

    def require_completed(self, query: Query) -> None:
        self.small.require_completed(self.cells.query(query))

    def completed(self, measured: Measurements, query: Query) -> Array:
        return self.small.completed(measured, self.cells.query(query))

    def completed_variance(self, query: Query) -> Array:
        return self.small.completed_variance(self.cells.query(query))

    def unit_rows(self) -> Array:
        return self.small.unit_rows()[:, self.cells.of_cells()]

    def free_rows(self, most: int) -> Array:
        if self.cells.spare:
            return super().free_rows(most)
        raise PlanError(
            f"the plan measures {self.cells.inner.size:,} classes of cells that its queries "
            f"tell apart, and others may not fit them: plan all queries together, or over a domain "
            f"of at most {most:,} cells, found {self.schema.size:,}"
        )

    def unit_values(self, measured: Measurements) -> Array:
        return self.small.unit_values(measured)

    def parts(self) -> tuple[Json, Arrays]:
        """Which values and cells are one, and the mechanism over what is left of them."""
        cells, (content, small) = self.cells, self.small.parts()
        saved: Json = {"kind": self.kind, "small": content}
        own: Arrays = {SMALL + name: array for name, array in small.items()}
        if isinstance(cells, SpareValues):
            return saved, own | {CELLS + "spare": cells.positions}
        values = cells.values if isinstance(cells, Classes) else cells
        assert isinstance(values, MergedValues)
        arrays: Arrays = {CELLS + "attributes": values.positions}
        arrays |= {f"{CELLS}groups_{i}": groups for i, groups in enumerate(values.groups)}
        if isinstance(cells, Classes):
            arrays[CELLS + "classes"] = cells.classes
        return saved, arrays | own

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> ReducedMechanism:
        """Refuses groups that leave a value or a cell out."""
        cells = _read_cells(arrays, schema)
        small, own = content["small"], beginning_with(SMALL, arrays)
        return cls(cells, saved_kind(small["kind"]).from_parts(small, own, cells.inner))


def _read_cells(arrays: Arrays, schema: Schema) -> Cells:
    if CELLS + "spare" in arrays:
        return SpareValues(schema, _positions(arrays[CELLS + "spare"], schema))
    positions = _positions(arrays[CELLS + "attributes"], schema)
    groups = tuple(
        _groups(arrays[f"{CELLS}groups_{i}"], schema.shape[a])
        for i, a in enumerate(positions.tolist())
    )
    values = MergedValues(schema, positions, groups)
    if CELLS + "classes" not in arrays:
        return values
    return Classes(values, _groups(arrays[CELLS + "classes"], values.inner.size))


def _positions(found: Any, schema: Schema) -> IntArray:
    """Attributes of the schema in ascending order."""
    named = found.tolist()
    if found.ndim != 1 or found.dtype.kind != "i" or not named:
        raise StorageError("the attributes of the smaller domain are not a list of numbers")
    if sorted(set(named)) != named or not 0 <= named[0] <= named[-1] < len(schema):
        raise StorageError("the attributes of the smaller domain are not those of the schema")
    return np.asarray(found, dtype=np.int64)


def _groups(found: Any, size: int) -> IntArray:
    """Numbers of groups, every one from 0 on in use, in the order of their first members."""
    if found.shape != (size,) or found.dtype.kind != "i":
        raise StorageError(f"groups of {size:,} members should be so many integers")
    distinct, first = np.unique(found, return_index=True)
    if not np.array_equal(distinct, np.arange(len(distinct))) or (np.diff(first) <= 0).any():
        raise StorageError("groups should be numbered from 0 by their first members")
    return np.asarray(found, dtype=np.int64)
