"""One answered query: estimates, exact standard errors, intervals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.escaping import visible_name
from noiseplan.matrices.base import Array
from noiseplan.noise.intervals import half_width_factor
from noiseplan.queries import Query

FRAMES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class Answer:
    """Estimates of a query's rows with what is known of their noise.

    Intervals cover the noise only, not the data's own errors. `simultaneous` intervals hold for all
    rows at once with probability `level`, pointwise ones each for itself.
    """

    query: Query
    estimate: Array
    std_error: Array
    level: float = 0.95
    simultaneous: bool = False
    origin: str = ""
    laplace: bool = False  # whether the noise is Laplace, with its longer tails
    brand: str = ""  # what a reader must know, where the answer is not for publishing

    @property
    def _reach(self) -> Array:
        rows = self.query.rows if self.simultaneous else 1
        return half_width_factor(self.level, rows, self.laplace) * self.std_error

    @property
    def lower(self) -> Array:
        return self.estimate - self._reach

    @property
    def upper(self) -> Array:
        return self.estimate + self._reach

    def columns(self, order: Sequence[str] | None = None) -> dict[str, list[Hashable] | Array]:
        """The tidy table as columns: the cells, estimate, std_error, lower, upper.

        `order` names the query's attributes in the order that columns and rows should follow;
        the schema's unless given.
        An attribute called like one of these four is shown as "estimate (attribute)" and so on.
        """
        numbers = {
            "estimate": self.estimate, "std_error": self.std_error,
            "lower": self.lower, "upper": self.upper,
        }  # fmt: skip
        cells, places = self.query.row_labels(), np.arange(self.query.rows)
        if order is not None:
            axes = [self.query.attributes.index(name) for name in order]
            places = places.reshape(self.query.shape).transpose(axes).ravel()
            cells = {name: [cells[name][place] for place in places] for name in order}
        labels: dict[str, list[Hashable] | Array] = {
            f"{name} (attribute)" if name in numbers else name: values
            for name, values in cells.items()
        }
        return labels | {name: values[places] for name, values in numbers.items()}

    def frame(self, library: str | None = None, order: Sequence[str] | None = None) -> Any:
        """The tidy table as a data frame of "pandas", "polars" or "pyarrow".

        By default of the library the data came in, else of the first of the three installed.
        """
        return tidy_frame(self.columns(order), library or self.origin)

    def __str__(self) -> str:
        return self.text(20)

    def text(self, most: int | None = None) -> str:
        """The table in aligned columns: its first rows, or all."""
        lines = aligned(self.columns(), self.query.rows, most)
        kind = "simultaneous" if self.simultaneous else "pointwise"
        said = f"; {self.brand}" if self.brand else ""
        lines.append(f"{100 * self.level:g}% {kind} intervals, covering noise only{said}")
        return "\n".join(lines)


def aligned(
    columns: Mapping[str, list[Hashable] | Array], rows: int, most: int | None
) -> list[str]:
    """Lines of text: the headings, then the first rows or all of them."""
    shown = rows if most is None else min(most, rows)
    text = {
        visible_name(name): [_shown(value) for value in list(values)[:shown]]
        for name, values in columns.items()
    }
    widths = {name: max(len(name), *map(len, cells)) for name, cells in text.items()}
    lines = ["  ".join(f"{name:>{w}}" for name, w in widths.items())]
    for row in zip(*text.values(), strict=True):
        cells = zip(row, widths.values(), strict=True)
        lines.append("  ".join(f"{cell:>{w}}" for cell, w in cells))
    return lines + ([f"… {rows - shown:,} more rows"] if rows > shown else [])


def _shown(value: Hashable) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else visible_name(str(value))


def tidy_frame(columns: Mapping[str, Any], library: str) -> Any:
    """Columns as a data frame of a library; an empty name takes the first installed."""
    import narwhals.stable.v2 as nw

    found = {name: _one_type(values) for name, values in columns.items()}
    return nw.from_dict(found, backend=frame_library(library)).to_native()


def _one_type(values: list[Hashable] | Array) -> list[Hashable] | Array:
    """Labels of several types, such as 20 and "20 … 29", as text: a column has one type."""
    if isinstance(values, list) and len({type(value) for value in values}) > 1:
        return [str(value) for value in values]
    return values


def frame_library(wanted: str) -> Any:
    if wanted:
        if wanted not in FRAMES:
            raise QueryError(f"frames come from {', '.join(FRAMES)}; found {wanted!r}")
        return wanted
    for name in FRAMES:
        if find_spec(name) is not None:
            return name
    raise QueryError(
        "a data frame needs pandas, polars or pyarrow installed (pip install pandas); without one, "
        "release.answer(query) has .estimate, .std_error, .lower, .upper as arrays"
    )
