"""A statistic computed from released counts: its numbers, their intervals, and how these come."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from noiseplan._doors import through
from noiseplan.matrices.base import Array
from noiseplan.noise.moments import half_width_factor
from noiseplan.release.answers import aligned, reading, renamed, tidy_frame
from noiseplan.texts import counted

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
        """z: how many standard errors an interval reaches."""
        return half_width_factor(self.level, rows if self.simultaneous else 1, laplace)


@dataclass(frozen=True, eq=False, repr=False)
class Statistic:
    """One number for each group, with an interval, computed from released counts alone.

    `method` says how the errors were found, and `notes` what a reader must know of single groups. A
    group too small to tell has no estimate (NaN), and an interval of all that is possible. The
    intervals cover the noise only, not the data's own errors. Quantiles have no `std_error`: their
    intervals are not symmetric.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema({"age": nz.Ordinal(range(3))})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [70.0, 20.0, 40.0], 4.0)])
    >>> print(release.median("age"))
    estimate  lower  upper
           0      0      0
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
    covers = "noise only"

    @property
    def rows(self) -> int:
        """How many numbers there are."""
        return len(self.estimate)

    def columns(self) -> dict[str, list[Hashable] | Array]:
        """The tidy table as columns: the groups, estimate, std_error (not of quantiles), limits."""
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
    def reading(self) -> str:
        """How the limits are to be read."""
        return reading(self.level, self.simultaneous)

    @property
    def digits(self) -> int:
        """So many that a usual error has two digits; none where all numbers are whole."""
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
