"""Factors: what is asked about one attribute.

A query is a Kronecker product of factors, one per attribute; an attribute not named is summed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.schema import Attribute


class Factor(ABC):
    """What is asked about one attribute: a matrix with one column per value of the attribute."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A word for names and reports, such as "prefix"; empty for the identity."""

    @abstractmethod
    def matrix(self, attribute: Attribute) -> Matrix:
        """The rows asked for, as a matrix over the attribute's values."""

    @abstractmethod
    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        """One label per row."""

    def check(self, name: str, attribute: Attribute) -> None:
        """Raise `QueryError` if the factor makes no sense on this attribute."""


@dataclass(frozen=True)
class Identity(Factor):
    """One row per value: the plain table."""

    label = ""

    def matrix(self, attribute: Attribute) -> Matrix:
        return IdentityMatrix(attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return attribute.labels


@dataclass(frozen=True)
class Total(Factor):
    """One row, the sum over all values: the same as not naming the attribute."""

    label = "total"

    def matrix(self, attribute: Attribute) -> Matrix:
        return TotalMatrix(attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return ["total"]


def _check_ordered(word: str, name: str, attribute: Attribute) -> None:
    if not attribute.ordered:
        raise QueryError(
            f"{word} needs an ordered attribute, but {name!r} is {type(attribute).__name__}: "
            f"declare it as Ordinal([...]) or Binned([...]), or use Identity() or Levels(...)"
        )


@dataclass(frozen=True)
class Prefix(Factor):
    """One row per value v: how many have a value up to and including v."""

    label = "prefix"

    def matrix(self, attribute: Attribute) -> Matrix:
        return PrefixMatrix(attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return [f"≤ {label}" for label in attribute.labels]

    def check(self, name: str, attribute: Attribute) -> None:
        _check_ordered("Prefix()", name, attribute)


@dataclass(frozen=True)
class Ranges(Factor):
    """One row per interval of consecutive values: those of length 1 first, the total last."""

    label = "ranges"

    def matrix(self, attribute: Attribute) -> Matrix:
        return RangesMatrix(attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        labels = attribute.labels
        pairs = zip(*RangesMatrix(attribute.size).bounds(), strict=True)
        return [f"{labels[a]} … {labels[b]}" if a < b else labels[a] for a, b in pairs]

    def check(self, name: str, attribute: Attribute) -> None:
        _check_ordered("Ranges()", name, attribute)


@dataclass(frozen=True, init=False)
class Levels(Factor):
    """A hierarchy of groups of values: counties within states, years within decades.

    Parameters
    ----------
    levels
        From fine to coarse. Each is an integer (groups of that many consecutive values), a mapping
        from value to group, or a sequence with the group of each value in order.
    leaves
        Also one row per value (default).
    total
        Also one row for all values together (default).

    Examples
    --------
    >>> from noiseplan.schema import Ordinal
    >>> Levels(5, 10).matrix(Ordinal(range(20))).shape      # 20 values, 4 + 2 groups, the total
    (27, 20)
    """

    groups: tuple[int | tuple[Hashable, ...] | tuple[tuple[Hashable, Hashable], ...], ...]
    leaves: bool
    total: bool

    def __init__(
        self,
        *levels: int | Mapping[Hashable, Hashable] | Sequence[Hashable],
        leaves: bool = True,
        total: bool = True,
    ) -> None:
        object.__setattr__(self, "groups", tuple(_frozen_level(level) for level in levels))
        object.__setattr__(self, "leaves", bool(leaves))
        object.__setattr__(self, "total", bool(total))
        if not (levels or leaves or total):
            raise QueryError("Levels() without groups, leaves or total has no rows")

    label = "levels"

    def check(self, name: str, attribute: Attribute) -> None:
        for number, level in enumerate(self.groups):
            _groups_of_values(level, attribute, f"level {number} of Levels on {name!r}")
            if isinstance(level, int):
                _check_ordered(f"Levels({level})", name, attribute)

    def _members(self, attribute: Attribute) -> list[tuple[list[Hashable], Array]]:
        """Of each level, the group labels and the 0/1 matrix groups × values."""
        members = []
        for level in self.groups:
            of_value = _groups_of_values(level, attribute, "Levels")
            labels = list(dict.fromkeys(of_value))
            index = {label: i for i, label in enumerate(labels)}
            matrix = np.zeros((len(labels), attribute.size))
            matrix[[index[g] for g in of_value], np.arange(attribute.size)] = 1.0
            members.append((labels, matrix))
        return members

    def matrix(self, attribute: Attribute) -> Matrix:
        blocks: list[Matrix] = [IdentityMatrix(attribute.size)] if self.leaves else []
        blocks += [DenseMatrix(matrix) for _, matrix in self._members(attribute)]
        if self.total:
            blocks.append(TotalMatrix(attribute.size))
        return StackMatrix(tuple(blocks))

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        labels: list[Hashable] = list(attribute.labels) if self.leaves else []
        for level, _ in self._members(attribute):
            labels += level
        return [*labels, "total"] if self.total else labels


_FrozenLevel = int | tuple[Hashable, ...] | tuple[tuple[Hashable, Hashable], ...]


class _MappedLevel(tuple[tuple[Hashable, Hashable], ...]):
    """A level given as a mapping from value to group, kept hashable."""


def _frozen_level(level: int | Mapping[Hashable, Hashable] | Sequence[Hashable]) -> _FrozenLevel:
    if isinstance(level, bool):
        raise QueryError("a level is a width, a mapping or a sequence, not a truth value")
    if isinstance(level, (int, np.integer)):
        if level < 1:
            raise QueryError(f"a level of {level} values per group: the width must be at least 1")
        return int(level)
    if isinstance(level, Mapping):
        return _MappedLevel(level.items())
    if isinstance(level, (str, bytes)):
        raise QueryError(f"a level is a width, a mapping or a sequence, not the text {level!r}")
    return tuple(level)


def _groups_of_values(level: _FrozenLevel, attribute: Attribute, where: str) -> list[Hashable]:
    """The group of each value of the attribute, in the order of its codes."""
    labels = attribute.labels
    if isinstance(level, int):
        starts = range(0, attribute.size, level)
        ends = [min(start + level, attribute.size) - 1 for start in starts]
        names = [f"{labels[a]} … {labels[b]}" for a, b in zip(starts, ends, strict=True)]
        return [names[code // level] for code in range(attribute.size)]
    if isinstance(level, _MappedLevel):
        groups = dict(level)
        missing = [label for label in labels if label not in groups]
        if missing:
            raise QueryError(f"{where} names no group for {missing[:5]} of the attribute's values")
        return [groups[label] for label in labels]
    if len(level) != attribute.size:
        raise QueryError(
            f"{where} gives {len(level)} groups for {attribute.size} values: one group per value"
        )
    return list(level)


@dataclass(frozen=True, init=False, eq=False)
class Custom(Factor):
    """Any rows: a matrix with one column per value of the attribute.

    Examples
    --------
    >>> Custom([[1] * 65 + [0] * 35]).values.shape
    (1, 100)
    """

    values: Array
    name: str

    def __init__(self, matrix: object, name: str | None = None) -> None:
        values = _checked_matrix(matrix, "Custom")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "name", name or f"custom[{len(values)} rows]")

    @property
    def label(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.values.shape, self.values.tobytes()

    def check(self, name: str, attribute: Attribute) -> None:
        if self.values.shape[1] != attribute.size:
            raise QueryError(
                f"Custom on {name!r} has {self.values.shape[1]} columns, but {name!r} has "
                f"{attribute.size} values: one column per value"
            )

    def matrix(self, attribute: Attribute) -> Matrix:
        return DenseMatrix(self.values)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return [f"row {i}" for i in range(len(self.values))]


def _checked_matrix(matrix: object, where: str) -> Array:
    """A finite two-dimensional array with at least one row that is not zero."""
    try:
        values = np.array(matrix, dtype=float)
    except (TypeError, ValueError) as error:
        raise QueryError(f"{where} needs a matrix of numbers: {error}") from None
    if values.ndim != 2 or not values.size:
        raise QueryError(
            f"{where} needs a matrix with at least one row and one column, found shape "
            f"{values.shape}; a single row is written [[...]]"
        )
    if not np.isfinite(values).all():
        raise QueryError(f"{where} needs finite numbers, found NaN or infinity")
    if not values.any():
        raise QueryError(f"{where} has only zeros: there is nothing to answer")
    return values
