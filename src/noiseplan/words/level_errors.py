"""The errors of a plan by level: how precise every level of a hierarchical attribute is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from noiseplan.queries import Identity, Level, Query
from noiseplan.queries.level_parts import level_parts
from noiseplan.queries.query import SEPARATOR, factor_name
from noiseplan.schema import Hierarchical, Schema

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

MOST_TABLES: Final = 60  # more are no picture
MOST_ROWS: Final = 20_000_000  # whose errors are worth computing for one
EVERYBODY: Final = "all"  # a table that sums over the attribute


class LevelError(NamedTuple):
    """One table of one level: the standard error over its rows, and the smallest and largest."""

    level: str
    table: str
    std_error: float
    smallest: float
    largest: float


def level_errors(plan: Plan) -> list[LevelError]:
    """Every table by level, the coarsest first; nothing unless levels of one attribute are asked.

    The first hierarchical attribute counts, and tables that sum over it stand first.
    """
    workload = plan.workload
    name = hierarchy(workload.schema)
    if name is None or len(workload) > MOST_TABLES:
        return []
    parts = [part.query for query in workload for part in level_parts(query)]
    placed = [(level_of(query, name), query) for query in parts]
    if len({place for place, _ in placed} - {None}) < 2:
        return []
    found = sorted((-place[0], i) for i, (place, _) in enumerate(placed) if place is not None)
    return [_errors(plan, placed[i][1], name) for _, i in found if placed[i][1].rows <= MOST_ROWS]


def hierarchy(schema: Schema) -> str | None:
    """The first hierarchical attribute, if there is one."""
    kinds = zip(schema.names, schema.attributes, strict=True)
    return next((name for name, kind in kinds if isinstance(kind, Hierarchical)), None)


def level_of(query: Query, name: str) -> tuple[int, str] | None:
    """The level of an attribute that a query asks for: its place, 0 for the leaves, and its name;
    None if it is none. Tables that sum over the attribute come behind the coarsest."""
    attribute = query.schema[name]
    assert isinstance(attribute, Hierarchical)
    place = _place(query, name)
    return None if place is None else (place, (*attribute.levels, EVERYBODY)[place])


def _place(query: Query, name: str) -> int | None:
    attribute, factor = query.schema[name], query.factors.get(name)
    assert isinstance(attribute, Hierarchical)
    if query.joint is not None:
        return None
    if factor is None:
        return len(attribute.levels)
    if isinstance(factor, Level):
        return attribute.level_index(factor.levels[0])
    return 0 if isinstance(factor, Identity) else None


def _errors(plan: Plan, query: Query, name: str) -> LevelError:
    """A query is called by its given name, or by what it asks of the other attributes."""
    level = level_of(query, name)
    assert level is not None  # only such queries come here
    others = [factor_name(query.schema, n, f) for n, f in query.factors.items() if n != name]
    variance = plan.variance(query)
    errors = np.sqrt([variance.mean(), variance.min(), variance.max()]).tolist()
    return LevelError(level[1], query.named or SEPARATOR.join(others) or "total", *errors)
