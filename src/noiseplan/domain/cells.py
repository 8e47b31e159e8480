"""Smaller domains on which the same queries can be asked, and how queries and counts get there.

Values that no query tells apart are one value, and attributes that no query names are summed over
(`MergedValues`); on top of it, cells that no query tells apart are one cell (`Classes`). A record
is in one cell of the smaller domain, so sensitivities are what they were. Cells that no query
counts stay a class of their own: the smaller domain holds every record.

One domain is larger (`SpareValues`): some attributes have one more value, which no record has. Sums
over the values that records have are then sums like any other, and need not be told by themselves.

References
----------
C. Li, dissertation, 2013, section 2.1: semantic equivalence (Definition 2.5) and minimised
workloads (Definition 2.6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, first_of, immutable
from noiseplan.domain.gram import same_but_for_rounding
from noiseplan.errors import UnanswerableError
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.queries import Custom, Factor, Query
from noiseplan.schema import Attribute, Categorical, Ordinal, Schema

# Counts of some sets of attributes, one set a row: sets × n_1 × … × n_k.
Marginals = Callable[[IntArray], NDArray[np.number]]


class Cells(ABC):
    """Another domain: `schema` is the one queries come in, `inner` the one they are taken to."""

    # Whether nothing is merged, and some values are more than records have.
    spare: ClassVar[bool] = False

    schema: Schema

    @property
    @abstractmethod
    def inner(self) -> Schema:
        """The smaller domain."""

    @property
    def words(self) -> str:
        """What it is, for people."""
        return f"the queries tell {self.inner.size:,} of {self.schema.size:,} apart"

    @abstractmethod
    def query(self, query: Query) -> Query:
        """The same rows over the smaller domain; refuses queries that tell more apart."""

    @abstractmethod
    def outer_sets(self, sets: IntArray) -> IntArray:
        """The sets of attributes to count by, for sets of attributes of the smaller domain."""

    @abstractmethod
    def marginals(self, marginals: Marginals) -> Marginals:
        """Tables of the smaller domain, summed from tables of the schema."""

    @abstractmethod
    def of_cells(self) -> IntArray:
        """The cell of the smaller domain of every cell of the schema; for small schemas."""


@final
@immutable
@dataclass(frozen=True, eq=False)
class MergedValues(Cells):
    """Attributes that queries name, each with the values that no query tells apart merged.

    `positions` are those of the attributes in the schema, ascending; `groups` has the group of
    every value of each, numbered by their first values.
    """

    schema: Schema
    positions: IntArray
    groups: tuple[IntArray, ...]

    @cached_property
    def inner(self) -> Schema:
        pairs = zip(self.positions.tolist(), self.groups, strict=True)
        return Schema(
            {self.schema.names[i]: _merged(self.schema.attributes[i], g) for i, g in pairs}
        )

    @cached_property
    def _group_of(self) -> dict[str, IntArray]:
        return dict(zip(self.inner.names, self.groups, strict=True))

    def query(self, query: Query) -> Query:
        _check_schema(query, self.schema)
        outside = [name for name in query.attributes if name not in self.inner]
        if outside:
            raise UnanswerableError(
                f"{query.name!r} needs {outside}, which the plan does not measure; it measures "
                f"{list(self.inner.names)}. Add a query on {outside} to the workload"
            )
        names, weight = list(query.attributes), query.weight
        if query.joint is not None:
            matrix = self._joint(query, query.joint)
            return Query(self.inner, names, matrix=matrix, weight=weight, name=query.name)
        factors = {n: self._factor(query, n, f) for n, f in query.factors.items()}
        return Query(self.inner, factors, weight=weight, name=query.name)

    def _factor(self, query: Query, name: str, factor: Factor) -> Factor:
        groups, attribute = self._group_of[name], self.schema[name]
        if self.inner[name] is attribute:
            return factor
        matrix, first = factor.matrix(attribute), first_of(groups)
        if prod(matrix.shape) > DENSE_LIMIT:  # not written out: columns are compared by formula
            kinds = matrix.column_kinds()[None].astype(np.float64)
            _require_same(query, name, kinds, kinds[:, first][:, groups])
            kept = matrix.take_columns(first)
        else:
            rows = matrix.dense()
            kept = rows[:, first]
            _require_same(query, name, rows, kept[:, groups])
        return Custom(kept, factor.label or "values", list(factor.row_labels(attribute)))

    def _joint(self, query: Query, joint: Array) -> Array:
        cube = joint.reshape(len(joint), *(self.schema[n].size for n in query.attributes))
        for axis, name in enumerate(query.attributes, 1):
            groups = self._group_of[name]
            kept = cube.take(first_of(groups), axis=axis)
            _require_same(query, name, cube, kept.take(groups, axis=axis))
            cube = kept
        return cube.reshape(len(joint), -1)

    def outer_sets(self, sets: IntArray) -> IntArray:
        return self.positions[sets]

    def marginals(self, marginals: Marginals) -> Marginals:
        def merged(sets: IntArray) -> NDArray[np.number]:
            counts = np.asarray(marginals(self.outer_sets(sets)))
            summed = [self._summed(c, row) for c, row in zip(counts, sets.tolist(), strict=True)]
            return np.stack(summed)

        return merged

    def _summed(self, counts: NDArray[np.number], attributes: Sequence[int]) -> NDArray[np.number]:
        for axis, attribute in enumerate(attributes):
            groups = self.groups[attribute]
            order = np.argsort(groups, kind="stable")
            starts = np.searchsorted(groups[order], np.arange(groups.max() + 1))
            counts = np.add.reduceat(counts.take(order, axis=axis), starts, axis=axis)
        return counts

    def of_cells(self) -> IntArray:
        place = dict(zip(self.positions.tolist(), self.groups, strict=True))
        sizes = zip(self.schema.shape, range(len(self.schema)), strict=True)
        found = np.zeros(1, dtype=np.int64)
        for size, i in sizes:
            groups = place.get(i, np.zeros(size, dtype=np.int64))
            found = (found[:, None] * (int(groups.max()) + 1) + groups).ravel()
        return found


@final
@immutable
@dataclass(frozen=True, eq=False)
class Classes(Cells):
    """Classes of cells that no query tells apart, as one attribute.

    `values` merges values first; `classes` has the class of each cell of that domain, numbered by
    their first cells.
    """

    values: MergedValues
    classes: IntArray

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.values.schema

    @cached_property
    def inner(self) -> Schema:
        return Schema({"class": Ordinal(range(int(self.classes.max()) + 1))})

    @cached_property
    def first(self) -> IntArray:
        """The first cell of each class."""
        return first_of(self.classes)

    @cached_property
    def members(self) -> Array:
        """How many cells of the whole domain are in each class."""
        each = [np.bincount(groups) / len(groups) for groups in self.values.groups]
        shares = reduce(np.multiply.outer, each).ravel()
        return float(self.schema.size) * np.bincount(self.classes, shares).astype(np.float64)

    def rows(self, query: Query) -> Array:
        """The rows of a query that is made for these classes, over them."""
        return self.values.query(query).domain_matrix.take_columns(self.first)

    def query(self, query: Query) -> Query:
        merged = self.values.query(query)
        kinds = merged.domain_matrix.column_kinds()
        if (kinds != kinds[self.first][self.classes]).any():
            raise UnanswerableError(
                f"{query.name!r} tells cells apart that no query of the plan's workload tells "
                f"apart: add it to the workload"
            )
        rows = merged.domain_matrix.take_columns(self.first)
        return Query(self.inner, ["class"], matrix=rows, weight=query.weight, name=query.name)

    def outer_sets(self, sets: IntArray) -> IntArray:
        return self.values.positions[None, :] if sets.shape[1] else self.values.positions[None, :0]

    def marginals(self, marginals: Marginals) -> Marginals:
        merged = self.values.marginals(marginals)
        every = np.arange(len(self.values.positions))[None, :]

        def summed(sets: IntArray) -> NDArray[np.number]:
            if not sets.shape[1]:
                return np.asarray(marginals(self.outer_sets(sets)))
            counts = np.asarray(merged(every)).ravel()
            found = np.zeros(int(self.classes.max()) + 1, dtype=counts.dtype)
            np.add.at(found, self.classes, counts)
            return np.repeat(found[None, :], len(sets), axis=0)

        return summed

    def of_cells(self) -> IntArray:
        return self.classes[self.values.of_cells()]


@final
@immutable
@dataclass(frozen=True, eq=False)
class SpareValues(Cells):
    """One more value, the last, of the attributes at `positions`, ascending; no record has it."""

    spare: ClassVar[bool] = True

    schema: Schema
    positions: IntArray

    @cached_property
    def inner(self) -> Schema:
        pairs = enumerate(zip(self.schema.names, self.schema.attributes, strict=True))
        return Schema({n: _and_one(a) if i in self.positions else a for i, (n, a) in pairs})

    @property
    def words(self) -> str:
        names = " and ".join(self.schema.names[i] for i in self.positions)
        return f"{names} without a total of its own"

    @property
    def names(self) -> list[str]:
        """The attributes that have one more value."""
        return [self.schema.names[i] for i in self.positions]

    def query(self, query: Query) -> Query:
        """A sum over an attribute is one over the values that records have."""
        _check_schema(query, self.schema)
        named = [n for n in self.schema.names if n in query.factors or n in self.names]
        if query.joint is not None:
            matrix = self._joint(query, query.joint, named)
            return Query(self.inner, named, matrix=matrix, weight=query.weight, name=query.name)
        factors = {n: self._factor(n, query.factors.get(n)) for n in named}
        return Query(self.inner, factors, weight=query.weight, name=query.name)

    def _factor(self, name: str, factor: Factor | None) -> Factor:
        attribute = self.schema[name]
        if name not in self.names and factor is not None:
            return factor
        if factor is None:
            return Custom(np.append(np.ones(attribute.size), 0.0)[None, :], "all")
        rows = np.pad(factor.matrix(attribute).dense(), ((0, 0), (0, 1)))
        return Custom(rows, factor.label or "values", list(factor.row_labels(attribute)))

    def _joint(self, query: Query, joint: Array, named: list[str]) -> Array:
        sizes = [self.schema[n].size for n in named]
        inside = [n in query.attributes for n in named]
        own = [size if there else 1 for size, there in zip(sizes, inside, strict=True)]
        cube = np.broadcast_to(joint.reshape(len(joint), *own), (len(joint), *sizes))
        wider = [(0, int(n in self.names)) for n in named]
        return np.pad(cube, [(0, 0), *wider]).reshape(len(joint), -1)

    def outer_sets(self, sets: IntArray) -> IntArray:
        return sets

    def marginals(self, marginals: Marginals) -> Marginals:
        def widened(sets: IntArray) -> NDArray[np.number]:
            counts, place = np.asarray(marginals(sets)), np.isin(sets, self.positions)
            if (place == place[0]).all():
                return np.pad(counts, [(0, 0), *((0, int(spare)) for spare in place[0])])
            return np.concatenate([widened(row[None, :]) for row in sets])

        return widened

    def of_cells(self) -> IntArray:
        cells = np.arange(self.inner.size).reshape(self.inner.shape)
        return cells[tuple(slice(n) for n in self.schema.shape)].ravel()


def _and_one(attribute: Attribute) -> Attribute:
    values = range(attribute.size + 1)
    return Ordinal(values) if attribute.ordered else Categorical(values)


def _merged(attribute: Attribute, groups: IntArray) -> Attribute:
    """The attribute itself where no values are merged, otherwise one with so many values."""
    count = int(groups.max()) + 1
    if count == attribute.size:
        return attribute
    return Ordinal(range(count)) if attribute.ordered else Categorical(range(count))


def _check_schema(query: Query, schema: Schema) -> None:
    if query.schema != schema:
        raise UnanswerableError("the query is about another schema than the plan")


def _require_same(query: Query, name: str, rows: Array, merged: Array) -> None:
    """Refuse a query that tells values of a group apart; last digits do not count."""
    if not same_but_for_rounding(rows, merged):
        raise UnanswerableError(
            f"{query.name!r} tells values of {name!r} apart that no query of the plan's workload "
            f"tells apart: add a query with this factor on {name!r} to the workload"
        )
