"""A released table as a page shows it: its axes, its numbers, and the digits that they deserve."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.matrices.base import Array
from noiseplan.queries import Identity, Prefix, Query
from noiseplan.release.answers import Answer


@dataclass(frozen=True)
class Axis:
    """One attribute of a table: its heading, its labels, whether their order means something."""

    name: str
    labels: tuple[Hashable, ...]
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Cells:
    """Numbers with intervals along some axes; axes of one label alone are told in `fixed`.

    `value` is what is shown, within `low` and `high` unless `valid` says that it is another number
    than the estimate that the interval is of.
    """

    name: str
    axes: tuple[Axis, ...]
    fixed: str
    value: Array
    low: Array
    high: Array
    reading: str  # of the interval, in words
    error: str  # the typical one, in words
    valid: bool = False

    @classmethod
    def of(cls, answer: Answer) -> Cells:
        """An answer, its numbers in the shape of its axes."""
        every = table_axes(answer.query)
        axes = tuple(axis for axis in every if len(axis) > 1)
        shape = tuple(len(axis) for axis in axes)
        fixed = [f"{axis.name}: {axis.labels[0]}" for axis in every if len(axis) == 1]
        # A single condition is called what its only row is called.
        told = "" if answer.query.joint is not None else ", ".join(fixed)
        low, high = answer.lower.reshape(shape), answer.upper.reshape(shape)
        reading = f"the {100 * answer.level:g} % interval, which covers {answer.covers}"
        error = f"{answer.error_name} {answer.typical_error:.3g}"
        value = answer.estimate.reshape(shape)
        return cls(answer.name, axes, told, value, low, high, reading, error)

    def made_valid(self, values: ArrayLike) -> Cells:
        """The same table with valid numbers in place of the unbiased ones."""
        return replace(self, value=np.asarray(values, float).reshape(self.value.shape), valid=True)

    @property
    def half(self) -> Array:
        """Half the interval."""
        return np.asarray((self.high - self.low) / 2)

    @property
    def size(self) -> int:
        return int(self.value.size)

    def turned(self, order: tuple[int, ...]) -> Cells:
        """The same with its axes in another order."""
        turned = [each.transpose(order) for each in (self.value, self.low, self.high)]
        axes = tuple(self.axes[i] for i in order)
        return replace(self, axes=axes, value=turned[0], low=turned[1], high=turned[2])

    def first(self, lines: int, columns: int) -> Cells:
        """The first labels along the first two axes."""
        counts = (lines, columns)
        axes = [
            replace(axis, labels=axis.labels[:count])
            for axis, count in zip(self.axes, counts, strict=False)
        ]
        parts = [each[:lines, :columns] for each in (self.value, self.low, self.high)]
        every = (*axes, *self.axes[2:])
        return replace(self, axes=every, value=parts[0], low=parts[1], high=parts[2])

    def at(self, place: tuple[int, ...]) -> Cells:
        """The table at one place along its last axes."""
        left = len(self.axes) - len(place)
        index: tuple[slice | int, ...] = (*[slice(None)] * left, *place)
        parts = [np.asarray(each[index]) for each in (self.value, self.low, self.high)]
        return replace(self, axes=self.axes[:left], value=parts[0], low=parts[1], high=parts[2])


def table_axes(query: Query) -> tuple[Axis, ...]:
    """The axes of a query's table."""
    if query.joint is not None:
        return tuple(Axis(name, tuple(labels)) for name, labels in query.row_labels().items())
    found = []
    for heading, (name, factor) in zip(query.headings, query.factors.items(), strict=True):
        attribute = query.schema[name]
        ordered = attribute.ordered and isinstance(factor, Identity | Prefix)
        found.append(Axis(heading, tuple(factor.row_labels(attribute)), ordered))
    return tuple(found)


# ---------------------------------------------------------------------- digits


@dataclass(frozen=True)
class Digits:
    """How many decimal places the numbers of a table are shown with; below 0 they are rounded.

    Two digits of the smallest error are told, and the numbers to the same place: more would be
    noise.

    Examples
    --------
    >>> Digits.fitting(np.array([34.2, 51.0]), np.array([1234.56])).number(-1234.56)
    '−1,235'
    >>> Digits.fitting(np.array([1234.0]), np.array([45678.9])).number(45678.9)
    '45,700'
    >>> Digits.fitting(np.array([0.34]), np.array([1.0, 2.5])).number(2.5)
    '2.50'
    """

    places: int
    error_places: int

    @classmethod
    def fitting(cls, half: Array, values: Array) -> Digits:
        """For numbers with these errors; whole numbers get no decimals."""
        whole = bool(np.all(values == np.round(values)))
        told = half[(half > 0) & np.isfinite(half)]
        if not told.size:
            return cls(0 if whole else 3, 0)
        places = 1 - math.floor(math.log10(float(told.min())))
        return cls(min(places, 0) if whole else min(places, 6), min(places, 6))

    def number(self, value: float) -> str:
        """A number to its last place, with a proper minus sign."""
        return _shown(value, self.places)

    def error(self, half: float) -> str:
        """An error to the same place."""
        return _shown(half, self.error_places)


def _shown(value: float, places: int) -> str:
    if not math.isfinite(value):
        return "–"
    rounded = round(value, places) or 0.0  # no zero below zero
    return f"{rounded:,.{max(places, 0)}f}".replace("-", "−")


def relative(value: float, half: float) -> str:
    """An error in percent of its number; a dash where the interval includes 0, or there is none."""
    if not math.isfinite(value) or not math.isfinite(half) or half >= abs(value):
        return "–"
    percent = 100 * half / abs(value)
    digits = ".2g" if percent < 1 else ".1f" if percent < 10 else ".0f"
    return f"{percent:{digits}} %"
