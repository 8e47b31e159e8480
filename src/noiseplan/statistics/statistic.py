"""A statistic computed from released counts: its numbers, their intervals, and how these come."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from noiseplan._doors import through
from noiseplan.matrices.base import Array
from noiseplan.noise.moments import half_width_factor
from noiseplan.release.answers import NUMBERS, aligned, reading, renamed, tidy_frame
from noiseplan.texts import counted

# What is said of the estimate where the interval is what is known.
EXTRA: Final = (
    "interpolated: an extra without a known error, as if records lay evenly inside each bin"
)
# Digits behind the point that a text shows at most.
_MOST_DIGITS = 12
# Numbers, or values of an attribute that are none, such as "low"; None where nothing is known.
Figures = Array | list[Hashable]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Intervals:
    """What intervals are asked for."""

    level: float = 0.95
    simultaneous: bool = False

    def reach(self, rows: int, laplace: bool) -> float:
        """z: how many standard errors an interval reaches.

        Several rows share the error 1 − level equally (Bonferroni): the ends of an interval may be
        those of two different numbers, for which the inequality of Šidák is not known to hold.

        Examples
        --------
        >>> ten, one = Intervals(0.95, simultaneous=True), Intervals(0.995)
        >>> f"{ten.reach(10, laplace=False):.6f} {one.reach(1, laplace=False):.6f}"
        '2.807034 2.807034'
        """
        alone = half_width_factor(self.level, 1, laplace)  # refuses what is no level
        if not self.simultaneous:
            return alone
        return half_width_factor(1.0 - (1.0 - self.level) / rows, 1, laplace)


@dataclass(frozen=True, eq=False, repr=False)
class Statistic:
    """One number for each group, with an interval, computed from released counts alone.

    `method` says how the errors were found, and `notes` what a reader must know of single groups. A
    group too small to tell has no estimate (NaN), and an interval of all that is possible. The
    intervals cover the noise, not the data's own errors. Quantiles have no `std_error`: their
    intervals are not symmetric.

    Of an attribute in bins the intervals cover the noise and every place that a record may have
    inside its bin. They are the result; the estimate is `interpolated`, as if records lay evenly
    inside each bin, to the digits that its interval leaves a meaning. No error of it is known, and
    its column is called "interpolated".

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema({"size": nz.Ordinal(["small", "large"])})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["size"], [70.0, 20.0], 4.0)])
    >>> print(release.median("size"))
    estimate  lower  upper
       small  small  small
    95% pointwise intervals, covering noise only
    intervals by inverting exact tests at every value (Woodruff)
    """

    name: str
    cells: Mapping[str, list[Hashable]]
    estimate: Figures
    lower: Figures
    upper: Figures
    method: str
    std_error: Array | None = None
    level: float = 0.95
    simultaneous: bool = False
    origin: str = ""  # the library the data came in
    brand: str = ""  # what a reader must know, where the release is not for publishing
    notes: tuple[str, ...] = ()
    interpolated: bool = False  # of bins: the interval is what is known

    @property
    def rows(self) -> int:
        """How many numbers there are."""
        return len(self.estimate)

    def columns(self) -> dict[str, list[Hashable] | Array]:
        """The tidy table as columns: the groups, estimate, std_error (not of quantiles), limits;
        of bins the limits, and then what is interpolated."""
        if self.interpolated:
            known = {"lower": self.lower, "upper": self.upper, "interpolated": self.estimate}
            return {**renamed(self.cells, (*NUMBERS, *known)), **known}
        numbers = {"estimate": self.estimate, "lower": self.lower, "upper": self.upper}
        if self.std_error is not None:
            numbers = {"estimate": self.estimate, "std_error": self.std_error} | numbers
        return {**renamed(self.cells), **numbers}

    def frame(self, library: str | None = None) -> Any:
        """The same as a data frame of "pandas", "polars" or "pyarrow"."""
        return tidy_frame(self.columns(), library or self.origin, self.brand)

    def text(self, most: int | None = None) -> str:
        """The table in aligned columns, its first rows or all; then how it was found."""
        lines = aligned(self.columns(), self.rows, most, self.digits)
        said = [self.reading, self.method, *self.notes, self.brand]
        return "\n".join([*lines, *filter(None, said)])

    def _repr_html_(self) -> str:
        return str(through("answer.html")(self))

    @property
    def covers(self) -> str:
        """What the limits cover."""
        return "noise and any place inside bins" if self.interpolated else "noise only"

    @property
    def reading(self) -> str:
        """How the limits are to be read."""
        return reading(self.level, self.simultaneous, self.covers)

    @property
    def digits(self) -> int | None:
        """So many that a usual error has two digits; 0 where all numbers are whole, and None where
        every number is rounded already."""
        if self.interpolated:
            return None
        numbers = [each for each in (self.estimate, self.lower, self.upper) if _numeric(each)]
        if len(numbers) < 3 or all(_whole(each) for each in numbers):
            return 0
        error = (numbers[2] - numbers[1]) / 4 if self.std_error is None else self.std_error
        known = error[np.isfinite(error) & (error > 0)]
        usual = float(np.median(known)) if known.size else 0.1
        return int(np.clip(1 - np.floor(np.log10(usual)), 0, _MOST_DIGITS))

    def __str__(self) -> str:
        return self.text(20)

    def __repr__(self) -> str:
        return f"Statistic({self.name}: {counted(self.rows, 'row')})"


def _numeric(figures: Figures) -> TypeGuard[Array]:
    return isinstance(figures, np.ndarray)


def _whole(numbers: Array) -> bool:
    known = numbers[np.isfinite(numbers)]
    return bool((known == np.round(known)).all())


def too_small(small: Mask, z: float) -> tuple[str, ...]:
    """What is said of groups that noise alone could have made."""
    found = int(np.count_nonzero(small))
    if not found:
        return ()
    return (
        f"no estimate where the total of a group is less than {z:.3g} standard errors "
        f"({found:,} of {small.size:,}): there the interval is all that is possible",
    )


# ---------------------------------------------------------------------- of bins
#
# A quarter of an interval's width stands for a standard error. What is interpolated has one digit
# of it, computed limits have two and are rounded outward; limits that are edges stay what they are.


def interpolated(value: Array, lower: Array, upper: Array) -> Array:
    """Interpolated values with the digits that intervals of finite width leave a meaning.

    Examples
    --------
    >>> interpolated(np.array([24_886.7]), np.array([20_000.0]), np.array([30_000.0])).tolist()
    [25000.0]
    """
    return np.clip(_at(np.round, value, _places(lower, upper)), lower, upper)


def outward(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Computed limits with two digits of their error, never less than they hold.

    Examples
    --------
    >>> [end.tolist() for end in outward(np.array([22_104.3]), np.array([32_187.9]))]
    [[22100.0], [32200.0]]
    """
    places = 1 + _places(lower, upper)
    return _at(np.floor, lower, places), _at(np.ceil, upper, places)


def _places(lower: Array, upper: Array) -> Array:
    """The decimal place of the first digit of a quarter of the width."""
    width = upper - lower
    return np.asarray(-np.floor(np.log10(np.where(width > 0, width, 1.0) / 4)))


def _at(rounding: Callable[[Array], Array], values: Array, places: Array) -> Array:
    """Values rounded at their decimal places; exact powers of ten keep them short."""
    fine, coarse = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    return np.asarray(rounding(values * fine / coarse) / fine * coarse)
