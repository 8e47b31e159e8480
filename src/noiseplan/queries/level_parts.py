"""A query on several levels of an attribute, taken apart into one query for each level."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from noiseplan.queries.factors import Factor, Identity, Total
from noiseplan.queries.levels import Levels
from noiseplan.queries.named_levels import Level
from noiseplan.queries.query import Query
from noiseplan.schema import Attribute, Hierarchical

# Groups of an attribute of no more values stay one table, as earlier versions wrote them.
SHORT: Final = 256


@dataclass(frozen=True)
class LevelPart:
    """The query about one level, and where its rows lie along each attribute of the whole."""

    query: Query
    rows: tuple[slice, ...]


def level_parts(query: Query) -> list[LevelPart]:
    """One query per level, in the order of the rows; the query itself if it has one level.

    Examples
    --------
    >>> from noiseplan.schema import Hierarchical, Schema
    >>> geo = Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    >>> query = Query(Schema({"geo": geo}), {"geo": Level("county", "tract")})
    >>> [(part.query.name, part.rows) for part in level_parts(query)]
    [('county', (slice(0, 2, None),)), ('tract', (slice(2, 5, None),))]
    """
    if query.joint is not None:
        return [LevelPart(query, (slice(None),))]
    along = [_of_factor(factor, query.schema[name]) for name, factor in query.factors.items()]
    if all(len(parts) == 1 for parts in along):
        return [LevelPart(query, (slice(None),) * len(along))]
    return [_part(query, chosen) for chosen in product(*along)]


# What a level is called, its factor, and its rows.
_Piece = tuple[str, Factor, slice]


def _of_factor(factor: Factor, attribute: Attribute) -> list[_Piece]:
    pieces: list[tuple[str, Factor]] = [("", factor)]
    if isinstance(factor, Level) and len(factor.levels) > 1:
        pieces = [(level, Level(level)) for level in factor.levels]
    elif isinstance(factor, Levels) and _is_split(factor, attribute):
        values, total = _ends(attribute)
        pieces = [("values", values)] * factor.leaves
        pieces += [(f"level {n}", one) for n, one in enumerate(factor.single(), 1)]
        pieces += [("total", total)] * factor.total
    found, start = [], 0
    for word, one in pieces:
        stop = start + one.matrix(attribute).shape[0]
        found.append((word, one, slice(start, stop)))
        start = stop
    return found


def _ends(attribute: Attribute) -> tuple[Factor, Factor]:
    """The values of an attribute and their total: without the cell of missing ones."""
    if attribute.missing is None:
        return Identity(), Total()
    return Levels(total=False), Levels(leaves=False)


def _is_split(factor: Levels, attribute: Attribute) -> bool:
    several = len(factor.groups) + factor.leaves + factor.total > 1
    return several and (isinstance(attribute, Hierarchical) or attribute.size > SHORT)


def _part(query: Query, chosen: tuple[_Piece, ...]) -> LevelPart:
    factors = dict(zip(query.factors, (factor for _, factor, _ in chosen), strict=True))
    made = Query(query.schema, factors)
    by_name = all(isinstance(factor, Level) for word, factor, _ in chosen if word)
    if query.named or not by_name:  # a level that is asked by its name names the table
        words = ", ".join(word for word, _, _ in chosen if word)
        made = Query(query.schema, factors, name=f"{query.name}: {words}")
    return LevelPart(made, tuple(rows for _, _, rows in chosen))
