"""Levels: a hierarchy of groups of values, as one factor."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError, SchemaError
from noiseplan.matrices import (
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    StackMatrix,
    TotalMatrix,
    padded,
)
from noiseplan.queries.factors import Factor, check_ordered, checked_row_label
from noiseplan.schema import Attribute, Label
from noiseplan.schema.labels import checked_label

# A width, the group of each value in order, or the (value, group) items of a mapping.
_Level: TypeAlias = int | tuple[Hashable, ...] | frozenset[tuple[Hashable, Hashable]]

# Labels of groups, and the group of each value.
_Grouping: TypeAlias = tuple[list[Hashable], IntArray]

_ALLOWED = "a level is a width, a mapping from value to group, or a sequence of groups"


@final
@dataclass(frozen=True, init=False, repr=False)
class Levels(Factor):
    """A hierarchy of groups of values: counties within states, years within decades.

    Parameters
    ----------
    levels
        From fine to coarse. Each is an integer (groups of that many consecutive values), a mapping
        from value to group (it may know more values than the attribute has), or a sequence with the
        group of each value in order. The rows of a level follow the first value of each group.
        A cell for missing values is in no group, and neither among the leaves nor in the total.
    leaves
        Also one row per value, first (default).
    total
        Also one row for all values together, last (default).

    Examples
    --------
    >>> from noiseplan.schema import Categorical, Ordinal
    >>> Levels(5, 10).matrix(Ordinal(range(20))).shape      # 20 values, 4 + 2 groups, the total
    (27, 20)
    >>> region = Categorical(["Kent", "Essex", "Fife"])
    >>> Levels({"Kent": "England", "Essex": "England", "Fife": "Scotland"}).row_labels(region)
    ['Kent', 'Essex', 'Fife', 'England', 'Scotland', 'total']
    """

    groups: tuple[_Level, ...]
    leaves: bool
    total: bool
    # The groups of each attribute that was asked about, which take long to find in long ones.
    _known: dict[int, tuple[Attribute, list[_Grouping]]] = field(
        compare=False, hash=False, repr=False
    )

    label = "levels"

    def __init__(
        self,
        *levels: int | Mapping[Hashable, Hashable] | Sequence[Hashable],
        leaves: bool = True,
        total: bool = True,
    ) -> None:
        object.__setattr__(self, "groups", tuple(_frozen_level(level) for level in levels))
        object.__setattr__(self, "leaves", bool(leaves))
        object.__setattr__(self, "total", bool(total))
        object.__setattr__(self, "_known", {})
        if not (levels or leaves or total):
            raise QueryError(
                "Levels() without groups, leaves or total has no rows; name a level, as in "
                "Levels(10, leaves=False, total=False)"
            )

    def check(self, name: str, attribute: Attribute) -> None:
        for number, level in enumerate(self.groups):
            if isinstance(level, int):
                check_ordered(f"Levels({level})", name, attribute)
            _grouped(level, attribute, f"level {number} of Levels on {name!r}")

    def _groupings(self, attribute: Attribute) -> list[_Grouping]:
        """Labels of the groups of each level, and the group of each value."""
        found = self._known.get(id(attribute))
        if found is None:
            each = [_grouped(level, attribute, "Levels") for level in self.groups]
            found = self._known[id(attribute)] = attribute, each  # kept, so that its id is its own
        return found[1]

    def matrix(self, attribute: Attribute) -> Matrix:
        blocks: list[Matrix] = [IdentityMatrix(attribute.stated)] if self.leaves else []
        blocks += [GroupMatrix(group) for _, group in self._groupings(attribute)]
        if self.total:
            blocks.append(TotalMatrix(attribute.stated))
        return padded(StackMatrix(tuple(blocks)), attribute.size)

    def single(self) -> list[Levels]:
        """Each level of groups on its own."""
        made = [Levels(leaves=False, total=True) for _ in self.groups]
        for one, level in zip(made, self.groups, strict=True):
            object.__setattr__(one, "groups", (level,))
            object.__setattr__(one, "total", False)
        return made

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        labels: list[Hashable] = list(_stated(attribute)) if self.leaves else []
        for names, _ in self._groupings(attribute):
            labels += names
        total = "total" if attribute.missing is None else f"all but {attribute.missing}"
        return [*labels, total] if self.total else labels

    def __repr__(self) -> str:
        levels = [_described(level) for level in self.groups]
        flags = ["leaves=False"] * (not self.leaves) + ["total=False"] * (not self.total)
        return f"Levels({', '.join(levels + flags)})"


def _stated(attribute: Attribute) -> tuple[Label, ...]:
    return attribute.labels[: attribute.stated]


def _frozen_level(level: object) -> _Level:
    """A level as something that can be compared and hashed, whatever order a mapping came in."""
    if isinstance(level, (bool, str, bytes)):
        raise QueryError(f"{_ALLOWED}; found {level!r}")
    if isinstance(level, (int, np.integer)):
        if level < 1:
            raise QueryError(f"a level of {level} values per group: the width must be at least 1")
        return int(level)
    if isinstance(level, Mapping):
        return frozenset((value, _group(group)) for value, group in _of_values(level))
    if isinstance(level, Iterable):
        return tuple(_group(group) for group in level)
    raise QueryError(f"{_ALLOWED}; found {level!r}")


def _of_values(level: Mapping[Hashable, Hashable]) -> Iterator[tuple[Hashable, Hashable]]:
    """The items of a mapping, those left out whose key no attribute can have."""
    for value, group in level.items():
        with suppress(SchemaError):
            yield checked_label(value, "Levels"), group


def _group(group: object) -> Hashable:
    return checked_row_label(group, "Levels", f"{_ALLOWED}; a group is a text or a number")


def _grouped(level: _Level, attribute: Attribute, where: str) -> _Grouping:
    """The label of each group, and the number of the group of each value."""
    if isinstance(level, int):
        size = attribute.stated
        spans = [(start, min(start + level, size) - 1) for start in range(0, size, level)]
        return [attribute.span_label(*span) for span in spans], np.arange(size) // level
    of_value = _groups_of_values(level, attribute, where)
    labels = list(dict.fromkeys(of_value))
    number = {label: i for i, label in enumerate(labels)}
    return labels, np.array([number[group] for group in of_value], dtype=np.int64)


def _groups_of_values(
    level: tuple[Hashable, ...] | frozenset[tuple[Hashable, Hashable]],
    attribute: Attribute,
    where: str,
) -> list[Hashable]:
    if isinstance(level, tuple):
        if len(level) != attribute.stated:
            raise QueryError(
                f"{where} gives {len(level)} groups for {attribute.stated} values: "
                f"one group per value"
            )
        return list(level)
    groups = dict(level)
    missing = [label for label in _stated(attribute) if label not in groups]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise QueryError(
            f"{where} names no group for {', '.join(map(repr, missing[:5]))}{more}: "
            f"a mapping goes from value to group, {{'Kent': 'England', …}}, and every value of the "
            f"attribute needs one"
        )
    return [groups[label] for label in _stated(attribute)]


def _described(level: _Level) -> str:
    if isinstance(level, int):
        return str(level)
    groups = set(level) if isinstance(level, tuple) else {group for _, group in level}
    return f"<{len(level)} values in {len(groups)} groups>"
