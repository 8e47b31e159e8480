"""What a query asks of residuals that are crossed with cells: see `crossed`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable, subsets
from noiseplan.errors import UnanswerableError
from noiseplan.matrices import DenseMatrix, Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import ROUNDING, Basis
from noiseplan.mechanisms.own_answers import dense_rows
from noiseplan.queries import Query
from noiseplan.schema import Schema

Set = tuple[int, ...]

# What a basis leaves of a query's rows, as a share of them: more than rounding makes.
LOST = 1e-9


@immutable
@dataclass(frozen=True, eq=False)
class Frame:
    """Attributes that are split into sum and residual, with their bases; and D, which are not."""

    schema: Schema
    bases: Mapping[int, Basis]
    whole: Set  # D, ascending

    @cached_property
    def cells(self) -> Schema:
        """The attributes in D alone."""
        names = self.schema.names
        return Schema({names[i]: self.schema.attributes[i] for i in self.whole})

    def same(self, other: Frame) -> bool:
        """Whether what is measured in both can be added up."""
        return other is self or (
            self.whole == other.whole
            and all(
                other.bases[i].same_rows(basis)
                for i, basis in self.bases.items()
                if i in other.bases
            )
        )

    def axes(self, split: Set) -> list[Basis]:
        return [self.bases[i] for i in split]

    def table(self, split: Set) -> IntArray:
        """The attributes of the table that a set is measured from, as one set."""
        return np.array([sorted((*split, *self.whole))], dtype=np.int64)

    def crossed(self, split: Set, table: NDArray[Any]) -> NDArray[Any]:
        """A table of these attributes, (1, n, …), with D's cells as its last axis."""
        (attributes,) = self.table(split).tolist()
        order = [1 + attributes.index(i) for i in (*split, *self.whole)]
        sizes = [self.bases[i].size for i in split]
        return table.transpose(0, *order).reshape(1, *sizes, self.cells.size)


@immutable
@dataclass(frozen=True, eq=False)
class Asked(ABC):
    """A query over split attributes and D's cells."""

    frame: Frame
    query: Query

    @staticmethod
    def of(frame: Frame, query: Query) -> Asked:
        if query.schema != frame.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        known = {*frame.bases, *frame.whole}
        strange = [n for n in query.attributes if frame.schema.index(n) not in known]
        if strange:
            raise UnanswerableError(
                f"{query.name!r} needs {strange}, which the plan does not measure: add a query on "
                f"{strange} to the workload"
            )
        return (AskedFactors if query.joint is None else AskedCells)(frame, query)

    @cached_property
    def split(self) -> Set:
        """Its split attributes."""
        every = [self.frame.schema.index(name) for name in self.query.attributes]
        return tuple(i for i in every if i in self.frame.bases)

    def sets(self) -> Iterator[Set]:
        """The sets whose residual is more than rounding in it."""
        return filter(self._needs, subsets(self.split))

    @abstractmethod
    def _needs(self, inside: Set) -> bool: ...

    @abstractmethod
    def spanned(self) -> bool:
        """Whether the bases of the split attributes tell all that it asks."""

    @abstractmethod
    def over_cells(self, inside: Set) -> Matrix:
        """The rows over D's cells that a set must determine."""

    @abstractmethod
    def answer(self, inside: Set, cells: Array) -> Array:
        """What residual coordinates … × D's cells add to its rows."""

    @abstractmethod
    def variance(self, inside: Set, spread: Array) -> Array:
        """The variance of its rows where D's cells have this covariance, for each coordinate."""

    @abstractmethod
    def dense(self, inside: Set) -> Array:
        """Its rows × residual coordinates × D's cells."""


@immutable
@dataclass(frozen=True, eq=False)
class AskedFactors(Asked):
    """A factor for each attribute."""

    @cached_property
    def _factors(self) -> dict[int, Matrix]:
        numbers = map(self.frame.schema.index, self.query.attributes)
        pairs = zip(numbers, self.query.matrices(), strict=True)
        return {i: factor for i, factor in pairs if i in self.frame.bases}

    @cached_property
    def _inner(self) -> Matrix:
        """W_D."""
        own = {n: f for n, f in self.query.factors.items() if n in self.frame.cells}
        return Query(self.query.schema, own).over(self.frame.cells.names)

    def over_cells(self, inside: Set) -> Matrix:
        return self._inner

    def spanned(self) -> bool:
        return all(self.frame.bases[i].spans(factor) for i, factor in self._factors.items())

    def _needs(self, inside: Set) -> bool:
        # A centre is as exact as all rows together tell.
        squares = zip(self._squares(inside), self._factors.values(), strict=True)
        return all(
            (found[:, 0] > ROUNDING * len(found) * f.row_squares()).any() for found, f in squares
        )

    def _squares(self, inside: Set) -> list[Array]:
        """Of every factor, W_iV_iV_iᵀW_iᵀ inside the set and (W_iτ_i)² outside, as columns."""
        return [
            self.frame.bases[i].residual_rows(factor)[:, None]
            if i in inside
            else factor.matmul(self.frame.bases[i].centre[:, None]) ** 2
            for i, factor in self._factors.items()
        ]

    def _steps(self, inside: Set) -> list[Array]:
        """W_iV_i inside the set, W_iτ_i outside."""
        pieces = {i: self.frame.bases[i].split(f) for i, f in self._factors.items()}
        return [p[:, 1:] if i in inside else p[:, :1] for i, p in pieces.items()]

    def answer(self, inside: Set, cells: Array) -> Array:
        sizes = iter(cells.shape)
        shape = [next(sizes) if i in inside else 1 for i in self.split]
        cube = cells.reshape(*shape, -1, 1)
        found = kronecker_apply([*self._steps(inside), self._inner], cube)
        return self._ordered(found.reshape(-1))

    def variance(self, inside: Set, spread: Array) -> Array:
        forms = np.maximum(self._inner.quadratic_rows(spread), 0.0)[:, None]
        return self._ordered(kronecker_dense([*self._squares(inside), forms])[:, 0])

    def dense(self, inside: Set) -> Array:
        rows = kronecker_dense([*self._steps(inside), self._inner.dense()])
        return self._ordered(rows).reshape(len(rows), -1, self.frame.cells.size)

    def _ordered(self, rows: Array) -> Array:
        """Rows by split attributes first, and then by D's, in the query's order (axis 0)."""
        shape = dict(zip(self.query.attributes, self.query.shape, strict=True))
        names = sorted(shape, key=lambda name: name in self.frame.cells)
        cube = rows.reshape([*(shape[name] for name in names), *rows.shape[1:]])
        order = [names.index(name) for name in shape]
        turned = cube.transpose([*order, *range(len(names), cube.ndim)])
        return np.ascontiguousarray(turned).reshape(rows.shape)


@immutable
@dataclass(frozen=True, eq=False)
class AskedCells(Asked):
    """One matrix over all cells of its attributes."""

    @cached_property
    def _cube(self) -> Array:
        """Rows × split attributes … × D's cells."""
        schema, frame = self.query.schema, self.frame
        on = [schema.index(name) for name in self.query.attributes]
        cube = np.asarray(self.query.joint).reshape(-1, *(schema.shape[i] for i in on))
        inside_d = (i for i in frame.whole if i in on)
        cube = cube.transpose(0, *(1 + on.index(i) for i in (*self.split, *inside_d)))
        kept = [schema.shape[i] for i in self.split]
        asked = [schema.shape[i] if i in on else 1 for i in frame.whole]
        every = [schema.shape[i] for i in frame.whole]
        full = np.broadcast_to(cube.reshape(-1, *kept, *asked), (len(cube), *kept, *every))
        return full.reshape(len(cube), *kept, frame.cells.size)

    def spanned(self) -> bool:
        most = LOST * _largest(self._cube)
        for axis, i in enumerate(self.split, 1):
            basis = self.frame.bases[i]
            along = np.moveaxis(self._cube, axis, -1)
            again = (along @ basis.centre)[..., None] + (along @ basis.recover @ dense_rows(basis))
            if (_largest(along - again) > most).any():
                return False
        return True

    def dense(self, inside: Set) -> Array:
        cube = self._cube
        for axis, i in enumerate(self.split, 1):
            basis = self.frame.bases[i]
            piece = basis.recover if i in inside else basis.centre[:, None]
            cube = np.moveaxis(np.moveaxis(cube, axis, -1) @ piece, -1, axis)
        return cube.reshape(len(cube), -1, self.frame.cells.size)

    def _needs(self, inside: Set) -> bool:
        size = (self._cube**2).reshape(len(self._cube), -1).sum(axis=1)
        limit = ROUNDING * len(size) * size
        return bool(((self.dense(inside) ** 2).sum(axis=(1, 2)) > limit).any())

    def over_cells(self, inside: Set) -> Matrix:
        return DenseMatrix(self.dense(inside).reshape(-1, self.frame.cells.size))

    def answer(self, inside: Set, cells: Array) -> Array:
        rows = self.dense(inside)
        return rows.reshape(len(rows), -1) @ cells.reshape(-1)

    def variance(self, inside: Set, spread: Array) -> Array:
        rows = self.dense(inside)
        return np.asarray(np.einsum("rcd,rcd->r", rows @ spread, rows))


def _largest(cube: Array) -> Array:
    """The largest entry of every row, without its sign."""
    return np.asarray(np.abs(cube).reshape(len(cube), -1).max(axis=1, initial=0.0))
