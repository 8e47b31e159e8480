"""Cells of groups of values: counties for places, bands for ages, as a schema of their own.

A release may tell single ages by county and nothing of them by place. Over groups that part the
values of an attribute such a table is plain again: with G the matrix of groups, a query over groups
is W, and over values WG. Whatever asks the same of all values of a group goes one way and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError, SchemaError
from noiseplan.matrices import GroupMatrix
from noiseplan.queries import Custom, Identity, Level, Query
from noiseplan.queries.factors import Factor
from noiseplan.schema import Attribute, Categorical, Hierarchical, Schema

# Coefficients of a factor that are written out to see whether it asks for whole groups.
MOST_WRITTEN: Final = 2**24


def groups_of(factor: Factor, attribute: Attribute) -> IntArray | None:
    """The group of each value, where every value is in one row of the factor; else None.

    Examples
    --------
    >>> from noiseplan.queries import Levels, Prefix
    >>> from noiseplan.schema import Ordinal
    >>> groups_of(Levels(2, leaves=False, total=False), Ordinal(range(4))).tolist()
    [0, 0, 1, 1]
    >>> groups_of(Prefix(), Ordinal(range(4))) is None
    True
    """
    matrix = factor.matrix(attribute)
    if isinstance(matrix, GroupMatrix):
        return matrix.group
    if prod(matrix.shape) > MOST_WRITTEN:
        return None
    rows = matrix.dense()
    parts = np.isin(rows, (0.0, 1.0)).all() and (rows.sum(axis=0) == 1.0).all()
    return rows.argmax(axis=0) if parts and rows.any(axis=1).all() else None


def is_table(query: Query) -> bool:
    """Whether its rows are cells: values, or groups that part them."""
    named = query.factors.items()
    return query.joint is None and all(groups_of(f, query.schema[n]) is not None for n, f in named)


def common_groups(schema: Schema, tables: Sequence[Query]) -> dict[str, Factor]:
    """Of each attribute that no table asks for by its values, the groups that all are made of.

    Levels of a hierarchy lie in each other: tables of several are made of the finest.
    """
    found = {name: _finest(name, schema[name], tables) for name in schema.names}
    return {name: factor for name, factor in found.items() if factor is not None}


def _finest(name: str, attribute: Attribute, tables: Sequence[Query]) -> Factor | None:
    asked = list(dict.fromkeys(q.factors[name] for q in tables if name in q.factors))
    if not asked or any(isinstance(factor, Identity) for factor in asked):
        return None
    if isinstance(attribute, Hierarchical) and all(isinstance(f, Level) for f in asked):
        named = [level for f in asked if isinstance(f, Level) for level in f.levels]
        finest = min(named, key=attribute.level_index)
        return Level(finest) if attribute.level_index(finest) else None
    if len(asked) > 1:
        raise QueryError(
            f"these tables group the values of {name!r} in different ways; tables that are made "
            f"valid together have the same cells: make each valid for itself"
        )
    if groups_of(asked[0], attribute) is None:
        raise QueryError(
            f"{tables[0].name!r} is no table of cells: rows of {asked[0]!r} on {name!r} overlap, "
            f"or leave values out; name its attributes and levels, as in ['age', 'sex']"
        )
    return asked[0]


@dataclass(frozen=True, eq=False)
class CoarserCells:
    """Some attributes of a schema by groups of their values."""

    values: Schema
    grouped: Mapping[str, Factor]  # rows part the values of the attribute

    @cached_property
    def names(self) -> dict[str, str]:
        """What each attribute is called: a level by its own name."""
        found = dict(zip(self.values.names, self.values.names, strict=True))
        for name, factor in self.grouped.items():
            if isinstance(factor, Level):
                found[name] = factor.called(self.values, name)
        return found

    @cached_property
    def schema(self) -> Schema:
        """The schema whose values are the groups."""
        return Schema({self.names[name]: self._attribute(name) for name in self.values.names})

    def _attribute(self, name: str) -> Attribute:
        kind, factor = self.values[name], self.grouped.get(name)
        if factor is None:
            return kind
        if isinstance(factor, Level) and isinstance(kind, Hierarchical):
            return kind.above(factor.levels[0])
        try:
            return Categorical(list(factor.row_labels(kind)))
        except SchemaError:  # labels that no value can have
            return Categorical([str(label) for label in factor.row_labels(kind)])

    @cached_property
    def _group_of(self) -> dict[str, IntArray]:
        found = {name: groups_of(f, self.values[name]) for name, f in self.grouped.items()}
        return {name: groups for name, groups in found.items() if groups is not None}

    # ------------------------------------------------------------------ to values and back

    def of_values(self, query: Query) -> Query:
        """A query about groups as one about values."""
        back = {new: old for old, new in self.names.items()}
        if query.joint is not None:
            return self._joint(query, self.values)
        factors = {back[name]: self._widened(back[name], f) for name, f in query.factors.items()}
        return Query(self.values, factors, weight=query.weight, name=query.named)

    def _widened(self, name: str, factor: Factor) -> Factor:
        grouping = self.grouped.get(name)
        if grouping is None or isinstance(factor, Level):
            return factor
        if isinstance(factor, Identity):
            return grouping
        kind = self.schema[self.names[name]]
        rows = factor.matrix(kind).dense()[:, self._group_of[name]]
        return Custom(rows, labels=list(factor.row_labels(kind)))

    def of_groups(self, query: Query) -> Query | None:
        """A query about values as one about groups; None where it tells values of one apart."""
        if query.joint is not None:
            return (
                None
                if set(query.attributes) & set(self.grouped)
                else self._joint(query, self.schema)
            )
        factors: dict[str, Factor] = {}
        for name, factor in query.factors.items():
            narrowed = self._narrowed(name, factor)
            if narrowed is None:
                return None
            factors[self.names[name]] = narrowed
        return Query(self.schema, factors, weight=query.weight, name=query.named)

    def _narrowed(self, name: str, factor: Factor) -> Factor | None:
        grouping = self.grouped.get(name)
        if grouping is None or factor == grouping:
            return factor if grouping is None else Identity()
        kind, coarse = self.values[name], self.schema[self.names[name]]
        if isinstance(factor, Level) and isinstance(coarse, Hierarchical):
            return factor if set(factor.levels) <= set(coarse.levels) else None
        matrix = factor.matrix(kind)
        if isinstance(factor, Level | Identity) or prod(matrix.shape) > MOST_WRITTEN:
            return None
        rows, groups = matrix.dense(), self._group_of[name]
        first = np.unique(groups, return_index=True)[1]
        if not (rows == rows[:, first][:, groups]).all():
            return None
        return Custom(rows[:, first], labels=list(factor.row_labels(kind)))

    def _joint(self, query: Query, schema: Schema) -> Query:
        """A dense matrix over attributes that are not grouped."""
        grouped = [
            name for name in query.attributes if name in {self.names[n] for n in self.grouped}
        ]
        if grouped:
            raise QueryError(
                f"a matrix over {list(query.attributes)} is not asked of groups of "
                f"{', '.join(map(repr, grouped))}: ask by factors, or of the release itself"
            )
        names, joint = list(query.attributes), query.joint
        return Query(schema, names, matrix=joint, weight=query.weight, name=query.named)
