"""Attributes: what one column of the table may hold, and the code of each value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import SchemaError, remedy
from noiseplan.schema.encoding import (
    Codes,
    LabelTable,
    as_known_numbers,
    as_moments,
    as_numbers,
    encode_consecutive,
    microseconds,
    stand_for_missing,
)
from noiseplan.schema.labels import (
    CLIPPED,
    Label,
    check_writable,
    checked_edges,
    checked_labels,
    checked_missing,
    edge_text,
    evenly_from_json,
    evenly_to_json,
    label_from_json,
    label_to_json,
    said,
    shortened,
)

# Kinds of other modules, by the name they are saved with.
SAVED_KINDS: dict[str, Callable[[Mapping[str, Any]], Attribute]] = {}


@dataclass(frozen=True)
class Attribute(ABC):
    """What one column may hold: ``size`` values, numbered 0 to ``size - 1``.

    The domain is declared and public; it is never read off the data. Make one of
    `Categorical`, `Ordinal`, `Binned` and `Hierarchical`. Each may declare a cell for missing
    values, the last one: it is outside order, ranges, sums up to a value and bins.

    Examples
    --------
    >>> import noiseplan as nz
    >>> region = nz.Categorical(["north", "south"])
    >>> isinstance(region, Attribute), region.size, region.labels
    (True, 2, ('north', 'south'))
    """

    missing: str | None = field(default=None, init=False)
    """The name of the cell of missing values, where one was declared."""

    ordered: ClassVar[bool]
    """Whether the codes have a meaningful order, so that prefix sums and ranges make sense."""

    @property
    @abstractmethod
    def labels(self) -> tuple[Label, ...]:
        """The name of each code."""

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.labels)

    @property
    def stated(self) -> int:
        """How many values there are beside the cell of missing ones: the codes from 0 on."""
        return self.size - (self.missing is not None)

    @property
    def unknown_code(self) -> int:
        """The code of a value that is not declared: -1, unless a category catches it."""
        return -1

    @property
    def null_code(self) -> int:
        """The code of a missing value: -1, unless a cell or a category was declared for it."""
        return self.unknown_code if self.missing is None else self.size - 1

    def encode(self, values: NDArray[Any] | Sequence[object]) -> Codes:
        """Return the code of each value, -1 where the value is not in the domain or is missing.

        Lists are read as they stand (NumPy would make ``[1, "a"]`` two strings). Missing are None,
        NaN, NaT, what is masked, and the name of the cell of missing values.
        """
        array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
        flat = np.ma.getdata(array).ravel()
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of a record
            codes = self._encode(flat)
        if self.missing is not None:
            unknown = np.flatnonzero(codes == self.unknown_code)
            gone = stand_for_missing(flat[unknown], self.missing)
            codes[unknown[gone]] = self.null_code
        codes = codes.reshape(array.shape)
        if isinstance(array, np.ma.MaskedArray):
            codes[np.ma.getmaskarray(array)] = self.null_code
        return codes

    @abstractmethod
    def _encode(self, values: NDArray[Any]) -> Codes:
        """Codes of a flat array without a mask; missing values have the code of unknown ones."""

    def _declare_missing(self, missing: object) -> None:
        """Keep the name of the cell, which is none of the labels there are already."""
        name = checked_missing(missing, self.labels, type(self).__name__)
        self.__dict__.pop("labels", None)  # found anew, with the cell
        object.__setattr__(self, "missing", name)

    def _said_of_missing(self) -> str:
        return "" if self.missing is None else f", missing values are {self.missing!r}"

    def _missing_argument(self) -> str:
        return "" if self.missing is None else f", missing={self.missing!r}"

    def span_label(self, first: int, last: int) -> Label:
        """What a range of codes is called: "20 … 29"; the value itself where there is only one."""
        labels = self.labels
        return labels[first] if first == last else f"{labels[first]} … {labels[last]}"

    def up_to_label(self, last: int) -> Label:
        """What all codes up to one are called: "≤ 29"."""
        return f"≤ {self.labels[last]}"

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what the attribute holds."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return a form that JSON can hold; :meth:`from_dict` undoes it.

        It has `missing` only where a cell was declared, as what was saved before there were any.
        """

    @staticmethod
    def from_dict(saved: Mapping[str, object]) -> Attribute:
        """Rebuild an attribute from what :meth:`to_dict` returned.

        Examples
        --------
        >>> Attribute.from_dict(Ordinal(range(3)).to_dict())
        Ordinal(range(0, 3))
        """
        if (read := SAVED_KINDS.get(str(saved.get("kind")))) is not None:
            return read(saved)
        missing: Any = saved.get("missing") if isinstance(saved, Mapping) else None
        match saved:
            case {"kind": "categorical", "values": list(values), "other": other}:
                label: Any = None if other is None else label_from_json(other)
                return Categorical(map(label_from_json, values), other=label, missing=missing)
            case {"kind": "ordinal", "range": [int(start), int(stop)]}:
                return Ordinal(range(start, stop), missing=missing, clip=saved.get("clip") is True)
            case {"kind": "ordinal", "evenly": dict(spaced)}:
                return Ordinal(evenly_from_json(spaced), missing=missing)
            case {"kind": "ordinal", "values": list(values)}:
                return Ordinal(map(label_from_json, values), missing=missing)
            case {"kind": "binned", "edges": list(edges), "clip": bool(clip)}:
                ends = [float(e) if e in ("inf", "-inf") else label_from_json(e) for e in edges]
                return Binned(ends, clip=clip, missing=missing)  # type: ignore[arg-type]
        raise SchemaError(
            f"{saved!r} is no saved attribute; one looks like {Ordinal(range(3)).to_dict()!r}."
        )


@final
@dataclass(frozen=True, init=False, repr=False)
class Categorical(Attribute):
    """Values without order: names, kinds, places.

    Parameters
    ----------
    values
        The values, each a str, int, float, bool, date or datetime.
    other
        The name of one more category, which catches every value that is not declared, missing
        values included unless they have a cell. Without it such values are refused when data are
        counted.
    missing
        The name of a cell for missing values, and for nothing else; the last one.

    Examples
    --------
    >>> sex = Categorical(["F", "M"], other="not stated")
    >>> sex.encode(["M", "F", "x", None]).tolist()
    [1, 0, 2, 2]
    >>> Categorical(["F", "M"], missing="not stated").encode(["M", "x", None]).tolist()
    [1, -1, 2]
    """

    values: tuple[Label, ...]
    other: Label | None
    ordered: ClassVar[bool] = False

    def __init__(
        self,
        values: Iterable[object],
        other: Label | None = None,
        missing: str | None = None,
    ) -> None:
        labels = checked_labels(values, "Categorical")
        if other is not None:
            if other in labels:
                raise SchemaError(
                    "Categorical: "
                    + remedy("argument", f"other={other!r}", f"other = {other!r}")
                    + " is also declared as a value; choose another name, or leave it out of the "
                    "values: "
                    + remedy("declare other", f"Categorical([...], other={other!r})", repr(other))
                    + "."
                )
            (other,) = checked_labels([other], "Categorical")
        object.__setattr__(self, "values", labels)
        object.__setattr__(self, "other", other)
        if missing is not None:
            self._declare_missing(missing)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        known = self.values if self.other is None else (*self.values, self.other)
        return known if self.missing is None else (*known, self.missing)

    @property
    def unknown_code(self) -> int:
        return -1 if self.other is None else len(self.values)

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(self.values, self.unknown_code)

    def _encode(self, values: NDArray[Any]) -> Codes:
        return self._table.encode(values)

    def describe(self) -> str:
        caught = "" if self.other is None else f", anything else is {self.other!r}"
        return f"categorical: {shortened(self.values, said)}{caught}{self._said_of_missing()}"

    def to_dict(self) -> dict[str, object]:
        other = None if self.other is None else label_to_json(self.other)
        values = [label_to_json(value) for value in self.values]
        saved = {"kind": "categorical", "values": values, "other": other}
        return saved if self.missing is None else {**saved, "missing": self.missing}

    def __repr__(self) -> str:
        other = "" if self.other is None else f", other={self.other!r}"
        return f"Categorical([{shortened(self.values)}]{other}{self._missing_argument()})"


@final
@dataclass(frozen=True, init=False, repr=False)
class Ordinal(Attribute):
    """Values in the order declared, so that prefix sums and ranges make sense.

    Parameters
    ----------
    values
        The values, as in :class:`Categorical`.
    missing
        The name of a cell for missing values: the last, and outside the order.
    clip
        Count numbers above the last of consecutive whole numbers with it; it is then called
        ``"99+"``. Numbers below the first are refused as ever: they often stand for something else.

    Examples
    --------
    >>> Ordinal(range(18, 65)).encode([18, 64.0, 30.5, 65, None]).tolist()
    [0, 46, -1, -1, -1]
    >>> Ordinal(["low", "middle", "high"]).encode(["high"]).tolist()
    [2]
    >>> Ordinal(range(3), missing="not stated").encode([2, None, float("nan")]).tolist()
    [2, 3, 3]
    >>> Ordinal(range(3), clip=True).labels
    (0, 1, '2+')
    """

    values: tuple[Label, ...] | range  # consecutive integers are always kept as a range
    clip: bool
    ordered: ClassVar[bool] = True

    def __init__(
        self, values: Iterable[object], missing: str | None = None, clip: bool = False
    ) -> None:
        if isinstance(values, range) and values and values.step == 1:
            for end in (values[0], values[-1]):
                check_writable(end, "Ordinal")
        else:
            values = as_range(checked_labels(values, "Ordinal"))
        if clip and not isinstance(values, range):
            raise SchemaError(
                "Ordinal: clip counts numbers above the last value with it, which takes "
                "consecutive whole numbers, as in "
                + remedy(
                    "argument",
                    "Ordinal(range(100), clip=True)",
                    "{ ordinal = { from = 0, to = 99 }, clip = true }",
                )
                + "; other numbers are put into bins, "
                + CLIPPED
                + "."
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "clip", bool(clip))
        if missing is not None:
            self._declare_missing(missing)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        known = tuple(self.values)
        if self.clip:
            known = (*known[:-1], f"{known[-1]}+")
        return known if self.missing is None else (*known, self.missing)

    @property
    def size(self) -> int:
        return len(self.values) + (self.missing is not None)

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(self.values, self.unknown_code)

    def _encode(self, values: NDArray[Any]) -> Codes:
        if isinstance(self.values, range) and values.dtype.kind in "iuf":
            codes = encode_consecutive(values, self.values)
        else:
            codes = self._table.encode(values)
        if self.clip:
            codes[as_numbers(values) > self.values[-1]] = len(self.values) - 1  # type: ignore[operator]
        return codes

    def describe(self) -> str:
        above = " and above" * self.clip
        return f"ordinal: {shortened(self.values, said)}{above}{self._said_of_missing()}"

    def to_dict(self) -> dict[str, object]:
        saved: dict[str, object] = {"kind": "ordinal"}
        if isinstance(self.values, range):
            saved["range"] = [self.values.start, self.values.stop]
        elif (spaced := evenly_to_json(self.values)) is not None:
            saved["evenly"] = spaced
        else:
            saved["values"] = [label_to_json(value) for value in self.values]
        if self.clip:
            saved["clip"] = True
        return saved if self.missing is None else {**saved, "missing": self.missing}

    def __repr__(self) -> str:
        shown = f"[{shortened(self.values)}]"
        if isinstance(self.values, range):
            shown = f"range({self.values.start}, {self.values.stop})"
        return f"Ordinal({shown}{self._missing_argument()}{', clip=True' * self.clip})"


@final
@dataclass(frozen=True, init=False, repr=False)
class Binned(Attribute):
    """Numbers, or dates and times, put into bins whose edges are public.

    Bins are closed on the left and open on the right, the last one closed on both sides, as in
    `numpy.histogram`.

    Parameters
    ----------
    edges
        Strictly increasing numbers, one more than there are bins. The first may be ``-inf`` and
        the last ``inf``. Or dates, or dates and times without a zone; a day is its midnight.
    clip
        Put numbers beyond the edges into the first and last bin instead of refusing them.
    missing
        The name of a cell for missing values: the last, and no bin.

    Examples
    --------
    >>> income = Binned([0, 10_000, 50_000])
    >>> income.labels
    ('[0, 10000)', '[10000, 50000]')
    >>> income.encode([0, 9_999.5, 10_000, 50_000, -1]).tolist()
    [0, 0, 1, 1, -1]
    """

    edges: tuple[float, ...] | tuple[date, ...]
    clip: bool
    ordered: ClassVar[bool] = True

    def __init__(
        self, edges: Iterable[float | date], clip: bool = False, missing: str | None = None
    ) -> None:
        object.__setattr__(self, "edges", checked_edges(edges))
        object.__setattr__(self, "clip", bool(clip))
        if missing is not None:
            self._declare_missing(missing)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        written = list(map(edge_text, self.edges))
        inner = [f"[{low}, {high})" for low, high in pairwise(written[:-1])]
        known = (*inner, f"[{written[-2]}, {written[-1]}]")
        return known if self.missing is None else (*known, self.missing)

    def span_label(self, first: int, last: int) -> Label:
        if last == self.stated:
            return super().span_label(first, last)
        closed = "]" if last == self.stated - 1 else ")"
        return f"[{edge_text(self.edges[first])}, {edge_text(self.edges[last + 1])}{closed}"

    def up_to_label(self, last: int) -> Label:
        sign = "≤" if last == self.stated - 1 else "<"
        return f"{sign} {edge_text(self.edges[last + 1])}"

    @property
    def dated(self) -> bool:
        """Whether the edges are dates or times."""
        return isinstance(self.edges[0], date)

    @cached_property
    def places(self) -> tuple[float, ...]:
        """The edges as numbers to search among: of dates and times, microseconds since 1970."""
        return tuple(microseconds(e) if isinstance(e, date) else e for e in self.edges)

    def place_of(self, text: str) -> float | None:
        """The number, or the moment as microseconds, that a text writes; None if it does not."""
        try:
            return microseconds(datetime.fromisoformat(text)) if self.dated else float(text)
        except (ValueError, TypeError):  # the latter for a time with a zone
            return None

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + (self.missing is not None)

    def _encode(self, values: NDArray[Any]) -> Codes:
        numbers, known = as_moments(values) if self.dated else as_known_numbers(values)
        bins = np.searchsorted(np.array(self.places), numbers, side="right") - 1
        bins[numbers == self.places[-1]] = self.stated - 1
        if self.clip:
            bins = np.clip(bins, 0, self.stated - 1)
        inside = (bins >= 0) & (bins < self.stated) & known
        return np.where(inside, bins, -1).astype(np.int64)

    def describe(self) -> str:
        bins = "1 bin" if self.stated == 1 else f"{self.stated} bins"
        first, last = edge_text(self.edges[0]), edge_text(self.edges[-1])
        held = "dates" if self.dated else "numbers"
        clipped = f", {held} beyond go to the end bins" if self.clip else ""
        return f"binned: {bins} from {first} to {last}{clipped}{self._said_of_missing()}"

    def to_dict(self) -> dict[str, object]:
        # JSON has no infinity, so it is written "inf".
        edges = [
            label_to_json(e) if isinstance(e, date) or math.isfinite(e) else str(e)
            for e in self.edges
        ]
        saved = {"kind": "binned", "edges": edges, "clip": self.clip}
        return saved if self.missing is None else {**saved, "missing": self.missing}

    def __repr__(self) -> str:
        edges = ", ".join(repr(e) if isinstance(e, date) else edge_text(e) for e in self.edges)
        return f"Binned([{edges}]{', clip=True' * self.clip}{self._missing_argument()})"


def as_range(labels: tuple[Label, ...]) -> tuple[Label, ...] | range:
    """Consecutive integers as a range; all other labels as they are."""
    if not all(type(label) is int for label in labels):
        return labels
    consecutive = range(labels[0], labels[0] + len(labels))  # type: ignore[arg-type, operator]
    return consecutive if labels == tuple(consecutive) else labels
