"""Answers: one query's estimates, errors and intervals, and whatever has such tables to show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from noiseplan._doors import through
from noiseplan.errors import QueryError
from noiseplan.escaping import visible_name
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.agreement import cautions
from noiseplan.noise.moments import half_width_factor
from noiseplan.queries import Query
from noiseplan.queries.level_parts import LevelPart, level_parts
from noiseplan.queries.query import attribute_names
from noiseplan.schema import Schema
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.mechanisms.base import Mechanism
    from noiseplan.planning.workload_errors import Figures
    from noiseplan.queries import Workload

T = TypeVar("T")
# An answer with so many times the largest error that was planned for is hardly measured; this is
# looked at in plans of no more kinds of tables.
HARDLY: Final = 20.0
MOST_KINDS: Final = 1000
FRAMES = ("pandas", "polars", "pyarrow")
# Columns of numbers beside the cells, which no attribute is called like.
NUMBERS = ("estimate", "std_error", "lower", "upper")
Limits = tuple[Array, Array]
Columns = dict[str, list[Hashable] | Array]


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """Estimates of a query's rows with what is known of their errors.

    `noise_error` is the standard error of the noise, which of an unbiased answer is all there is:
    `std_error`. Intervals cover the noise only, not the data's own errors. `simultaneous` intervals
    hold for all rows at once with probability `level`, pointwise ones each for itself.

    Answers from buckets that were drawn from the data are biased as well. Their `noise_error` is
    exact for the buckets that were drawn (unless `approximate`: very large queries have it computed
    for 512 rows, and read between them); `bias_error` estimates what even sharing within buckets
    does to the answer, which only the data know. Where that was measured it holds on average over
    rows and releases, not for each: the measurement is noisy, so that in spiky data the error of a
    table is often stated by a fifth too small, and rows that meet a cell which towers over the
    others of its bucket have more; where it was not measured such cells are left out. `lower` and
    `upper` reach as far as an unbiased answer with the error of both would; they are a guide, no
    confidence interval.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, 2.0, 4.0], 4.0)])
    >>> print(release.answer(nz.Query(schema, ["age"])))
    age  estimate  std_error  lower  upper
      0       7.0        2.0    3.1   10.9
      1       2.0        2.0   -1.9    5.9
      2       4.0        2.0    0.1    7.9
    95% pointwise intervals, covering noise only
    """

    query: Query
    estimate: Array
    noise_error: Array
    level: float = 0.95
    simultaneous: bool = False
    origin: str = ""
    laplace: bool = False  # whether the noise is Laplace, with its longer tails
    brand: str = ""  # what a reader must know, where the answer is not for publishing
    bias_error: Array | None = None  # estimated; None where answers are unbiased
    approximate: bool = False  # of most rows even the noise is read between others
    limits: Limits | None = None  # how far intervals reach down and up, where no factor tells
    planned: Figures | None = None  # the errors of the tables that were planned for
    apart: tuple[Mechanism, Workload] | None = None  # where queries were measured apart
    left_out: tuple[str, ...] = ()  # which records were counted, where some may be left out
    method = ""  # of computing the errors: they are known

    @property
    def name(self) -> str:
        """What the query is called."""
        return self.query.name

    @property
    def std_error(self) -> Array:
        """The exact standard error of every row; a biased answer has none that anybody knows."""
        if self.bias_error is not None:
            raise AttributeError(
                "no std_error here: the answer is biased, and its error an estimate, "
                ".estimated_error; .noise_error is the part of the noise"
            )
        return self.noise_error

    @property
    def estimated_error(self) -> Array:
        """√(noise² + bias²): an estimate, because the bias depends on the data."""
        if self.bias_error is None:
            raise AttributeError(
                "no estimated_error here: the answer is unbiased, and its error known, .std_error"
            )
        return np.hypot(self.noise_error, self.bias_error)

    @property
    def error(self) -> Array:
        """The error of every row, known or estimated."""
        return self.noise_error if self.bias_error is None else self.estimated_error

    @property
    def typical_error(self) -> float:
        """The root mean square of the errors of all rows."""
        return float(np.sqrt(np.mean(self.error**2)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing: errors far above all that was planned for, which tables of the
        release agree where not all do, and that records were left out."""
        agreeing = () if self.apart is None else cautions(*self.apart)
        return (*self._hardly_measured(), *agreeing, *self.left_out)

    def _hardly_measured(self) -> tuple[str, ...]:
        planned = self.planned
        if planned is None or len(planned.design.roles.type_count) > MOST_KINDS:
            return ()
        usual = float(np.sqrt(planned.type_worst.max()))
        largest = float(np.max(self.error, initial=0.0))
        if not usual > 0 or not largest > HARDLY * usual:  # nothing is known where it is no number
            return ()
        return (
            f"hardly measured: {self.error_name}s of up to {largest:,.4g}, where those of the "
            f"plan's own queries are {usual:,.4g} at most; it was not planned for: add it to the "
            f"workload",
        )

    @property
    def error_name(self) -> str:
        """What the error is called: known, or estimated."""
        return "standard error" if self.bias_error is None else "estimated error"

    @property
    def covers(self) -> str:
        """What the limits cover."""
        return "noise only" if self.bias_error is None else "noise, bias as estimated"

    @property
    def _reach(self) -> Array:
        rows = self.query.rows if self.simultaneous else 1
        return half_width_factor(self.level, rows, self.laplace) * self.error

    @property
    def lower(self) -> Array:
        return self.estimate - (self._reach if self.limits is None else self.limits[0])

    @property
    def upper(self) -> Array:
        return self.estimate + (self._reach if self.limits is None else self.limits[1])

    def columns(self, order: Sequence[str] | None = None) -> Columns:
        """The tidy table as columns: the cells, estimate, std_error, lower, upper.

        Of biased answers estimated_error stands in the place of std_error. `order` names the
        query's attributes in the order that columns and rows should follow; the schema's unless
        given. An attribute called like one of the four is shown as "estimate (attribute)" and so
        on.
        """
        cells, places = self.query.row_labels(), np.arange(self.query.rows)
        if order is not None:
            levels = self.query.schema.levels
            axes = [self.query.attributes.index(levels.get(n, (n,))[0]) for n in order]
            places = places.reshape(self.query.shape).transpose(axes).ravel()
            headings = [self.query.headings[axis] for axis in axes]
            cells = {  # called as they were asked for
                name: [cells[heading][place] for place in places]
                for name, heading in zip(order, headings, strict=True)
            }
        numbers = self.numbers().items()
        return {**renamed(cells), **{name: values[places] for name, values in numbers}}

    def numbers(self) -> dict[str, Array]:
        """The columns of numbers."""
        return {
            "estimate": self.estimate,
            "std_error" if self.bias_error is None else "estimated_error": self.error,
            "lower": self.lower,
            "upper": self.upper,
        }

    def axes(self) -> dict[str, Sequence[Hashable]]:
        """The columns of cells, each by its labels along an attribute, not by row."""
        if self.query.joint is not None:
            return dict(self.query.row_labels())
        schema, factors = self.query.schema, self.query.factors.items()
        labels = [factor.row_labels(schema[name]) for name, factor in factors]
        return renamed(dict(zip(self.query.headings, labels, strict=True)))

    def by_level(self) -> list[Answer]:
        """One answer for each level of a query on several, with the same numbers."""
        parts = level_parts(self.query)
        if len(parts) == 1:
            return [self]
        shape = self.query.shape
        limits = (self._reach, self._reach) if self.simultaneous else self.limits

        def rows(numbers: Array, part: LevelPart) -> Array:
            return numbers.reshape(shape)[part.rows].reshape(-1)

        return [
            replace(
                self,
                query=part.query,
                estimate=rows(self.estimate, part),
                noise_error=rows(self.noise_error, part),
                bias_error=None if self.bias_error is None else rows(self.bias_error, part),
                # Those that hold for all rows at once are of the whole.
                limits=None if limits is None else (rows(limits[0], part), rows(limits[1], part)),
            )
            for part in parts
        ]

    def frame(self, library: str | None = None, order: Sequence[str] | None = None) -> Any:
        """The tidy table as a data frame of "pandas", "polars" or "pyarrow".

        By default of the library the data came in, else of the first of the three installed.
        """
        return tidy_frame(self.columns(order), library or self.origin, self.brand)

    def __repr__(self) -> str:
        error = f"{self.error_name} {self.typical_error:.4g}"
        return f"Answer({self.name}: {counted(self.query.rows, 'row')}, {error})"

    def __str__(self) -> str:
        return self.text(20)

    def text(self, most: int | None = None) -> str:
        """The table in aligned columns: its first rows, or all."""
        lines = aligned(self.columns(), self.query.rows, most)
        note = self.reading
        return "\n".join([*lines, f"{note}; {self.brand}" if self.brand else note, *self.notes])

    def _repr_html_(self) -> str:
        return str(through("answer.html")(self))

    @property
    def rows(self) -> int:
        """How many rows the query has."""
        return self.query.rows

    @property
    def digits(self) -> int:
        """Decimal places of the numbers that are shown."""
        return 1

    @property
    def reading(self) -> str:
        """How the limits are to be read."""
        if self.bias_error is None:
            return reading(self.level, self.simultaneous)
        level = f"{100 * self.level:g}%"
        kind = "all rows together" if self.simultaneous else "each row"
        noise = "approximate" if self.approximate else "exact"
        return (
            f"estimated errors: {noise} noise and an estimated bias, too small where single cells "
            f"tower over their bucket, over a table often by a fifth and in single rows by more; "
            f"limits at {level} for {kind} if the estimates hold"
        )


def reading(level: float, simultaneous: bool, covers: str = "noise only") -> str:
    """How intervals that cover all there is to cover are to be read."""
    kind = "simultaneous" if simultaneous else "pointwise"
    return f"{100 * level:g}% {kind} intervals, covering {covers}"


def renamed(cells: Mapping[str, T], numbers: Collection[str] = NUMBERS) -> dict[str, T]:
    """Columns of cells, those called like a column of numbers by another name."""
    return {f"{n} (attribute)" if n in numbers else n: values for n, values in cells.items()}


def aligned(
    columns: Mapping[str, list[Hashable] | Array],
    rows: int,
    most: int | None,
    digits: int | None = 1,
) -> list[str]:
    """Lines of text: the headings, then the first rows or all of them."""
    shown = rows if most is None else min(most, rows)
    text = shown_columns(columns, shown, digits)
    widths = {name: max(len(name), *map(len, cells)) for name, cells in text.items()}
    lines = ["  ".join(f"{name:>{w}}" for name, w in widths.items())]
    for row in zip(*text.values(), strict=True):
        cells = zip(row, widths.values(), strict=True)
        lines.append("  ".join(f"{cell:>{w}}" for cell, w in cells))
    return lines + ([f"… {rows - shown:,} more rows"] if rows > shown else [])


def shown_columns(
    columns: Mapping[str, list[Hashable] | Array], rows: int, digits: int | None
) -> dict[str, list[str]]:
    """The first rows of columns as they are shown, by the headings they are shown under.

    Without `digits` every number has its own.
    """
    number = "z,.15g" if digits is None else f"z,.{digits}f"  # z: no zero below zero
    return {
        visible_name(name): [
            _shown(value, number if isinstance(values, np.ndarray) else "")
            for value in list(values)[:rows]
        ]
        for name, values in columns.items()
    }


def _shown(value: Hashable, number: str) -> str:
    if value is None or value != value:  # not known
        return "–"
    if number and isinstance(value, float):
        return format(value, number)
    return visible_name(str(value))


def tidy_frame(columns: Mapping[str, Any], library: str, warning: str) -> Any:
    """Columns as a data frame of a library; an empty name takes the first installed.

    What is not for publishing has the `warning` among the frame's attributes in pandas, in the
    metadata of its schema in pyarrow. Polars has no place for it.
    """
    import narwhals.stable.v2 as nw

    found = {name: _one_type(values) for name, values in columns.items()}
    known: Any = library if library in FRAMES else frame_library(library)
    made: Any = nw.from_dict(found, backend=known).to_native()
    if warning and hasattr(made, "attrs"):
        made.attrs["warning"] = warning
    if warning and hasattr(made, "replace_schema_metadata"):
        return made.replace_schema_metadata({"warning": warning})
    return made


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


class Tables(ABC):
    """Tables of some attributes, whatever their numbers are."""

    @property
    def origin(self) -> str:
        """The library the data came in, which frames are made of unless another is named."""
        return ""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The attributes that may be asked about."""

    @abstractmethod
    def columns(self, *attributes: str, level: float = 0.95, simultaneous: bool = False) -> Columns:
        """The columns of `table`."""

    def table(
        self,
        *attributes: str,
        level: float = 0.95,
        simultaneous: bool = False,
        frame: str | None = None,
    ) -> Any:
        """The table of some attributes as a tidy frame: the cells, the numbers, lower, upper.

        Attributes are named one by one, in a list or in one text, "age, sex". Columns and rows
        follow the order in which they are named. A release also takes the name of one of its
        queries, in the query's order. `frame` chooses
        "pandas", "polars" or "pyarrow"; by default the library the data came in.
        """
        columns = self.columns(*attributes, level=level, simultaneous=simultaneous)
        # Of a release, or of what valid tables are made of; counted reports have neither.
        made = getattr(self, "provenance", None) or getattr(self, "source", None)
        return tidy_frame(columns, frame or self.origin, getattr(made, "warning", ""))


class Answers(Tables):
    """Answers to queries with what is known of their errors: a release, a look, counted reports."""

    @abstractmethod
    def answer(self, query: Query, *, level: float = 0.95, simultaneous: bool = False) -> Answer:
        """The answer to a query, and its error."""

    def named(self, name: str) -> Query | None:
        """The query of that name, where queries have names."""
        return None

    def columns(self, *attributes: str, level: float = 0.95, simultaneous: bool = False) -> Columns:
        (name,) = attributes if len(attributes) == 1 else (None,)
        if isinstance(name, str) and name not in self.schema:
            query = self.named(name)
            if query is not None:
                return self.answer(query, level=level, simultaneous=simultaneous).columns()
        names = attribute_names(attributes, self.schema)
        query = Query(self.schema, names)
        return self.answer(query, level=level, simultaneous=simultaneous).columns(names)
