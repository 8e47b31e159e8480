"""Level: the groups of one level of a hierarchical attribute, or of several, by name."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import final

from noiseplan.errors import QueryError, SchemaError, remedy
from noiseplan.matrices import GroupMatrix, IdentityMatrix, Matrix, StackMatrix
from noiseplan.queries.factors import Factor
from noiseplan.schema import Attribute, Hierarchical, Schema


@final
@dataclass(frozen=True, init=False, repr=False)
class Level(Factor):
    """One row per group of a level: every county of a hierarchy of places.

    The attribute is a `Hierarchical` one, which knows the groups.

    Parameters
    ----------
    levels
        The name of a level; or of several, whose rows follow each other in the order named, and
        which are written and shown as one table each.

    Examples
    --------
    >>> geo = Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    >>> Level("county").row_labels(geo)
    ('a', 'b')
    >>> Level("county", "tract").row_labels(geo)
    ('county a', 'county b', 'tract a1', 'tract a2', 'tract b1')
    """

    levels: tuple[str, ...]
    # The matrix on each attribute that was asked about: groups are sorted once.
    _known: dict[int, tuple[Attribute, Matrix]] = field(compare=False, hash=False, repr=False)

    def __init__(self, *levels: str) -> None:
        for level in levels:
            if not isinstance(level, str):
                raise QueryError(f"a level is called by its name, Level('county'); found {level!r}")
        if not levels:
            raise QueryError("Level() names no level; write Level('county')")
        if len(set(levels)) < len(levels):
            raise QueryError(f"{self._written(levels)} names a level twice")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "_known", {})

    @property
    def label(self) -> str:
        return " + ".join(self.levels)

    def check(self, name: str, attribute: Attribute) -> None:
        if not isinstance(attribute, Hierarchical):
            raise QueryError(
                f"{self!r} needs a hierarchical attribute, but {name!r} is "
                f"{type(attribute).__name__}: declare it as "
                + remedy("declare hierarchical", "Hierarchical({level: [...], ...})")
                + ", or "
                + remedy("other factor", "use Levels({value: group, ...})")
            )
        for level in self.levels:
            try:
                attribute.level_index(level)
            except SchemaError as error:
                raise QueryError(f"{self!r} on {name!r}: {error}") from None

    def called(self, schema: Schema, attribute: str) -> str:
        """What a table of it is called: "county", or "geo.county" where that could be another."""
        return " + ".join(schema.level_name(attribute, level) for level in self.levels)

    def matrix(self, attribute: Attribute) -> Matrix:
        found = self._known.get(id(attribute))
        if found is None:
            blocks = tuple(_matrix(_hierarchy(attribute), level) for level in self.levels)
            made = blocks[0] if len(blocks) == 1 else StackMatrix(blocks)
            found = self._known[id(attribute)] = attribute, made  # kept, so that its id is its own
        return found[1]

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        kind = _hierarchy(attribute)
        if len(self.levels) == 1:
            return kind.level_labels(self.levels[0])
        # One label may be of groups at two levels.
        return tuple(
            f"{level} {label}" for level in self.levels for label in kind.level_labels(level)
        )

    def __reduce__(self) -> tuple[object, ...]:
        return Level, self.levels

    @staticmethod
    def _written(levels: tuple[str, ...]) -> str:
        return f"Level({', '.join(map(repr, levels))})"

    def __repr__(self) -> str:
        return self._written(self.levels)


def _matrix(attribute: Hierarchical, level: str) -> Matrix:
    leaves = attribute.level_index(level) == 0
    return IdentityMatrix(attribute.size) if leaves else GroupMatrix(attribute.group_of(level))


def _hierarchy(attribute: Attribute) -> Hierarchical:
    if not isinstance(attribute, Hierarchical):
        raise QueryError(f"levels by name are of hierarchical attributes, not of {attribute!r}")
    return attribute
