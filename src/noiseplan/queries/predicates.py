"""Predicates on records as queries: how many records satisfy a condition?

A conjunction of conditions on single attributes is a product of factors, each with one row of zeros
and ones, whatever the number of attributes; so is anything equivalent to one, such as
`not (age < 18 or sex = 'F')`. Other conditions, `age < 18 or sex = 'F'`, become one row over the
cells of the attributes they depend on. The rest of the schema is never touched.

References
----------
C. Li, dissertation, 2013, section 2.1: predicate counting queries over cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import QueryError, SchemaError, remedy
from noiseplan.queries.comparisons import Mask, mask_label, values_where
from noiseplan.queries.factors import Custom, Factor
from noiseplan.queries.parsing import (
    And,
    Comparison,
    Condition,
    Not,
    Or,
    comparisons,
    error_at,
    parse,
    positive,
)
from noiseplan.queries.query import Query
from noiseplan.schema import Schema

# Cells of a condition that is no product: a row of numbers over them is kept.
WIDEST_ROW: Final = 4_194_304
# The same for all predicates of a workload together (400 MB).
MOST_NUMBERS: Final = 50_000_000

# A condition over some attributes: true or false for every combination of groups of their values.
_Grid: TypeAlias = NDArray[np.bool_]


def predicate_query(
    schema: Schema, text: str, *, name: str | None = None, weight: float = 1.0
) -> Query:
    """The query that counts the records of which a condition is true, called by its text.

    Examples
    --------
    >>> schema = Schema.from_sizes({"age": 100, "sex": 2, "region": 4})
    >>> predicate_query(schema, "age < 18 and sex = 1").row_labels()
    {'age': ['0 … 17'], 'sex': ['1']}
    >>> predicate_query(schema, "age < 18 or sex = 1")
    Query(age < 18 or sex = 1: 1 row)
    """
    tree = _by_attribute(positive(parse(text)), schema)
    masks = _masks(tree, schema, text)
    name = text.strip() if name is None else name
    parts = [_simplest(part, masks) for part in _separate(_conjuncts(tree))]
    if not all(part.grid.any() for part in parts):
        raise QueryError(f"{text.strip()}: no record can satisfy this; there is nothing to count")
    if all(part.is_product for part in parts):
        factors: dict[str, Factor] = {}
        for part in parts:
            for attribute, mask in part.projections().items():
                label = mask_label(schema[attribute], mask)
                factors[attribute] = Custom([mask], label.strip() or None, [label])
        return Query(schema, factors, weight=weight, name=name)
    names = [attribute for part in parts for attribute in part.names]
    _check_cells(schema, names, text)
    row = reduce(np.multiply.outer, [part.full() for part in parts])
    return Query(schema, names, matrix=row.reshape(1, -1), weight=weight, name=name)


def predicate_queries(
    schema: Schema,
    predicates: Sequence[str] | Mapping[str, str],
    weight: float | Sequence[float] = 1.0,
) -> list[Query]:
    """One query per predicate, called by its text or, in a mapping, by its key."""
    if not isinstance(schema, Schema):
        raise QueryError(
            f"predicates start with their schema, found {type(schema).__name__}; write "
            f"Workload.predicates(schema, ['age < 18'])"
        )
    named = _named(predicates)
    weights = _weights(weight, len(named))
    queries, kept = [], 0
    for (name, text), each in zip(named, weights, strict=True):
        query = predicate_query(schema, text, name=name, weight=each)
        kept += 0 if query.joint is None else query.joint.size
        if kept > MOST_NUMBERS:
            raise QueryError(
                f"{text.strip()}: up to here, conditions that are no products take {kept:,} "
                f"numbers, above the limit of {MOST_NUMBERS:,}; declare fewer values, or ask for "
                f"their parts joined by 'and', which take none"
            )
        queries.append(query)
    return queries


def _named(predicates: object) -> list[tuple[str | None, str]]:
    example = "Workload.predicates(schema, [\"age < 18 and sex = 'F'\"])"
    if isinstance(predicates, Mapping):
        named: list[tuple[str | None, str]] = list(predicates.items())
    elif isinstance(predicates, str) or not isinstance(predicates, Iterable):
        raise QueryError(f"predicates come as a list, {example}; found {predicates!r}")
    else:
        named = [(None, text) for text in predicates]
    if not named:
        raise QueryError(f"no predicates are given; write {example}")
    return named


def _weights(weight: object, count: int) -> list[float]:
    if not isinstance(weight, Iterable):
        return [weight] * count  # type: ignore[list-item]  # checked by the query
    listed = list(weight)
    if len(listed) != count:
        raise QueryError(
            f"{len(listed)} weights for {count} predicates: give one each, or one for all"
        )
    return listed


# ---------------------------------------------------------------------- parts that share nothing


class _Conjunction:
    """A condition on some attributes: groups of their values, and the truth on their grid."""

    def __init__(self, groups: dict[str, IntArray], grid: _Grid) -> None:
        self.groups, self.grid = groups, grid

    @property
    def names(self) -> list[str]:
        return list(self.groups)

    def projections(self) -> dict[str, Mask]:
        """Of each attribute, the values for which the condition can be true."""
        return {
            name: self._side(axis)[groups]
            for axis, (name, groups) in enumerate(self.groups.items())
        }

    @property
    def is_product(self) -> bool:
        """Whether the condition is the conjunction of its projections."""
        sides = [int(self._side(axis).sum()) for axis in range(self.grid.ndim)]
        return int(self.grid.sum()) == prod(sides)

    def _side(self, axis: int) -> Mask:
        others = tuple(a for a in range(self.grid.ndim) if a != axis)
        return np.asarray(self.grid.any(axis=others))

    def full(self) -> NDArray[np.float64]:
        """The condition over all values, as zeros and ones."""
        if not self.groups:
            return self.grid.astype(np.float64)
        return self.grid[np.ix_(*self.groups.values())].astype(np.float64)


def _by_attribute(tree: Condition, schema: Schema) -> Condition:
    """The tree with levels as comparisons of the attribute they are levels of."""
    if isinstance(tree, Comparison):
        found = schema.levels.get(tree.name)
        if found is None:
            return tree
        return replace(tree, name=found[0], level=found[1], written=tree.name)
    if isinstance(tree, Not):
        return Not(_by_attribute(tree.inner, schema))
    return type(tree)(tuple(_by_attribute(part, schema) for part in tree.parts))


def _masks(tree: Condition, schema: Schema, text: str) -> dict[Comparison, Mask]:
    """The values each comparison is true of."""
    masks: dict[Comparison, Mask] = {}
    for comparison in comparisons(tree):
        try:
            attribute = schema[comparison.name]
        except SchemaError as error:
            raise error_at(text, comparison.at, error.message) from None
        if attribute.size > WIDEST_ROW:
            raise QueryError(
                f"{text.strip()}: {comparison.name} has {attribute.size:,} values, and conditions "
                f"are kept as a row of numbers over at most {WIDEST_ROW:,}; declare fewer values, "
                f"as bins: " + remedy("declare binned", "Binned([0, 5, 20, 100])")
            )
        masks[comparison] = values_where(comparison, attribute, text)
    return masks


def _conjuncts(tree: Condition) -> list[Condition]:
    """Conditions of which the tree is the conjunction."""
    if isinstance(tree, And):
        return [found for part in tree.parts for found in _conjuncts(part)]
    return [tree]


def _separate(conjuncts: list[Condition]) -> list[And]:
    """Conjuncts put together where they share an attribute, so that parts share none."""
    parts: list[tuple[set[str], list[Condition]]] = []
    for conjunct in conjuncts:
        names = {comparison.name for comparison in comparisons(conjunct)}
        touching = [part for part in parts if part[0] & names]
        together = [condition for part in touching for condition in part[1]]
        parts = [part for part in parts if not part[0] & names]
        parts.append((names.union(*(part[0] for part in touching)), [*together, conjunct]))
    return [And(tuple(conditions)) for _, conditions in parts]


def _simplest(part: And, masks: Mapping[Comparison, Mask]) -> _Conjunction:
    """The part over groups of values, without the attributes that it does not depend on."""
    used = list(dict.fromkeys(comparisons(part)))
    names = list(dict.fromkeys(comparison.name for comparison in used))
    groups = {}
    for name in names:
        told = np.column_stack([masks[c].astype(np.int64) for c in used if c.name == name])
        groups[name] = unique_rows(told)[1]
    shape = [int(group.max()) + 1 for group in groups.values()]
    if prod(shape) > WIDEST_ROW:
        raise QueryError(
            f"a condition on {', '.join(names)} splits them into {prod(shape):,} combinations, "
            f"above the limit of {WIDEST_ROW:,}: join fewer conditions by 'or'"
        )
    grid = np.broadcast_to(_evaluated(part, masks, groups), shape)
    for axis in reversed(range(len(names))):
        if (grid == grid.take([0], axis=axis)).all():
            grid = np.asarray(grid.take(0, axis=axis))
            del groups[names[axis]]
    return _Conjunction(groups, grid)


def _evaluated(
    tree: Condition, masks: Mapping[Comparison, Mask], groups: Mapping[str, IntArray]
) -> _Grid:
    """The truth on the grid, broadcast along the attributes that the tree does not name."""
    if isinstance(tree, Comparison):
        group = groups[tree.name]
        mask = np.zeros(int(group.max()) + 1, dtype=bool)
        mask[group] = masks[tree]
        return mask.reshape([-1 if name == tree.name else 1 for name in groups])
    join = np.logical_and if isinstance(tree, And) else np.logical_or
    parts = tree.parts if isinstance(tree, And | Or) else ()
    grids = [_evaluated(part, masks, groups) for part in parts]
    return np.asarray(reduce(join, grids), dtype=bool)


def _check_cells(schema: Schema, names: list[str], text: str) -> None:
    cells = prod(schema[name].size for name in names)
    if cells > WIDEST_ROW:
        raise QueryError(
            f"{text.strip()}: this is no product of conditions on single attributes, and the table "
            f"of {', '.join(names)} has {cells:,} cells, above the limit of {WIDEST_ROW:,}; "
            f"declare fewer values, or ask for its parts joined by 'and'"
        )
