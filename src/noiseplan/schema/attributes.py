"""Attributes: what one column of the table may hold, and the code of each value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import SchemaError, remedy
from noiseplan.schema.encoding import Codes, LabelTable, as_numbers, encode_consecutive
from noiseplan.schema.labels import (
    Label,
    checked_edges,
    checked_labels,
    checked_range,
    label_from_json,
    label_to_json,
    number_text,
    shortened,
)

# Kinds of other modules, by the name they are saved with.
SAVED_KINDS: dict[str, Callable[[Mapping[str, Any]], Attribute]] = {}


@dataclass(frozen=True)
class Attribute(ABC):
    """What one column may hold: ``size`` values, numbered 0 to ``size - 1``.

    The domain is declared and public; it is never read off the data. Make one of
    :class:`Categorical`, :class:`Ordinal`, :class:`Binned` and
    :class:`~noiseplan.schema.hierarchical.Hierarchical`.
    """

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
    def null_code(self) -> int:
        """The code of a missing value: -1, unless a category was declared to catch it."""
        return -1

    def encode(self, values: NDArray[Any] | Sequence[object]) -> Codes:
        """Return the code of each value, -1 where the value is not in the domain or is missing.

        Lists are read as they stand (NumPy would make ``[1, "a"]`` two strings).
        """
        array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
        codes = self._encode(np.ma.getdata(array).ravel()).reshape(array.shape)
        if isinstance(array, np.ma.MaskedArray):
            codes[np.ma.getmaskarray(array)] = self.null_code
        return codes

    @abstractmethod
    def _encode(self, values: NDArray[Any]) -> Codes:
        """Codes of a flat array without a mask."""

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
        """Return a form that JSON can hold; :meth:`from_dict` undoes it."""

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
        match saved:
            case {"kind": "categorical", "values": list(values), "other": other}:
                label = None if other is None else label_from_json(other)
                return Categorical(map(label_from_json, values), other=label)  # type: ignore[arg-type]
            case {"kind": "ordinal", "range": [int(start), int(stop)]}:
                return Ordinal(range(start, stop))
            case {"kind": "ordinal", "values": list(values)}:
                return Ordinal(map(label_from_json, values))
            case {"kind": "binned", "edges": list(edges), "clip": bool(clip)}:
                return Binned(
                    [float(edge) if edge in ("inf", "-inf") else edge for edge in edges], clip=clip
                )
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
        The name of one more category, the last, which catches every value that is not declared,
        missing values included. Without it such values are refused when data are counted.

    Examples
    --------
    >>> sex = Categorical(["F", "M"], other="not stated")
    >>> sex.encode(["M", "F", "x", None]).tolist()
    [1, 0, 2, 2]
    """

    values: tuple[Label, ...]
    other: Label | None
    ordered: ClassVar[bool] = False

    def __init__(self, values: Iterable[object], other: Label | None = None) -> None:
        labels = checked_labels(values, "Categorical")
        if other is not None:
            if other in labels:
                raise SchemaError(
                    f"Categorical: other={other!r} is also declared as a value; choose another "
                    f"name, or leave it out of the values: "
                    + remedy("declare other", f"Categorical([...], other={other!r})", repr(other))
                    + "."
                )
            (other,) = checked_labels([other], "Categorical")
        object.__setattr__(self, "values", labels)
        object.__setattr__(self, "other", other)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        return self.values if self.other is None else (*self.values, self.other)

    @property
    def null_code(self) -> int:
        return -1 if self.other is None else len(self.values)

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(self.values, self.null_code)

    def _encode(self, values: NDArray[Any]) -> Codes:
        return self._table.encode(values)

    def describe(self) -> str:
        caught = "" if self.other is None else f", anything else is {self.other!r}"
        return f"categorical: {shortened(self.values)}{caught}"

    def to_dict(self) -> dict[str, object]:
        other = None if self.other is None else label_to_json(self.other)
        return {
            "kind": "categorical",
            "values": [label_to_json(value) for value in self.values],
            "other": other,
        }

    def __repr__(self) -> str:
        other = "" if self.other is None else f", other={self.other!r}"
        return f"Categorical([{shortened(self.values)}]{other})"


@final
@dataclass(frozen=True, init=False, repr=False)
class Ordinal(Attribute):
    """Values in the order declared, so that prefix sums and ranges make sense.

    Examples
    --------
    >>> Ordinal(range(18, 65)).encode([18, 64.0, 30.5, 65, None]).tolist()
    [0, 46, -1, -1, -1]
    >>> Ordinal(["low", "middle", "high"]).encode(["high"]).tolist()
    [2]
    """

    values: tuple[Label, ...] | range  # consecutive integers are always kept as a range
    ordered: ClassVar[bool] = True

    def __init__(self, values: Iterable[object]) -> None:
        if isinstance(values, range) and values and values.step == 1:
            values = checked_range(values)
        else:
            values = as_range(checked_labels(values, "Ordinal"))
        object.__setattr__(self, "values", values)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        return tuple(self.values)

    @property
    def size(self) -> int:
        return len(self.values)

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(self.labels, self.null_code)

    def _encode(self, values: NDArray[Any]) -> Codes:
        if isinstance(self.values, range) and values.dtype.kind in "iuf":
            return encode_consecutive(values, self.values)
        return self._table.encode(values)

    def describe(self) -> str:
        return f"ordinal: {shortened(self.values)}"

    def to_dict(self) -> dict[str, object]:
        if isinstance(self.values, range):
            return {"kind": "ordinal", "range": [self.values.start, self.values.stop]}
        return {"kind": "ordinal", "values": [label_to_json(value) for value in self.values]}

    def __repr__(self) -> str:
        if isinstance(self.values, range):
            return f"Ordinal(range({self.values.start}, {self.values.stop}))"
        return f"Ordinal([{shortened(self.values)}])"


@final
@dataclass(frozen=True, init=False, repr=False)
class Binned(Attribute):
    """Numbers put into bins whose edges are public.

    Bins are closed on the left and open on the right, the last one closed on both sides, as in
    :func:`numpy.histogram`.

    Parameters
    ----------
    edges
        Strictly increasing numbers, one more than there are bins. The first may be ``-inf`` and
        the last ``inf``.
    clip
        Put numbers beyond the edges into the first and last bin instead of refusing them.

    Examples
    --------
    >>> income = Binned([0, 10_000, 50_000])
    >>> income.labels
    ('[0, 10000)', '[10000, 50000]')
    >>> income.encode([0, 9_999.5, 10_000, 50_000, -1]).tolist()
    [0, 0, 1, 1, -1]
    """

    edges: tuple[float, ...]
    clip: bool
    ordered: ClassVar[bool] = True

    def __init__(self, edges: Iterable[float], clip: bool = False) -> None:
        object.__setattr__(self, "edges", checked_edges(edges))
        object.__setattr__(self, "clip", bool(clip))

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        written = [number_text(edge) for edge in self.edges]
        inner = [f"[{low}, {high})" for low, high in pairwise(written[:-1])]
        return (*inner, f"[{written[-2]}, {written[-1]}]")

    def span_label(self, first: int, last: int) -> Label:
        closed = "]" if last == self.size - 1 else ")"
        return f"[{number_text(self.edges[first])}, {number_text(self.edges[last + 1])}{closed}"

    def up_to_label(self, last: int) -> Label:
        sign = "≤" if last == self.size - 1 else "<"
        return f"{sign} {number_text(self.edges[last + 1])}"

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    def _encode(self, values: NDArray[Any]) -> Codes:
        numbers = as_numbers(values)
        bins = np.searchsorted(np.array(self.edges), numbers, side="right") - 1
        bins[numbers == self.edges[-1]] = self.size - 1
        if self.clip:
            bins = np.clip(bins, 0, self.size - 1)
        inside = (bins >= 0) & (bins < self.size) & ~np.isnan(numbers)
        return np.where(inside, bins, -1).astype(np.int64)

    def describe(self) -> str:
        bins = "1 bin" if self.size == 1 else f"{self.size} bins"
        first, last = number_text(self.edges[0]), number_text(self.edges[-1])
        clipped = ", numbers beyond go to the end bins" if self.clip else ""
        return f"binned: {bins} from {first} to {last}{clipped}"

    def to_dict(self) -> dict[str, object]:
        # JSON has no infinity, so it is written "inf".
        edges = [edge if math.isfinite(edge) else str(edge) for edge in self.edges]
        return {"kind": "binned", "edges": edges, "clip": self.clip}

    def __repr__(self) -> str:
        return f"Binned([{', '.join(map(number_text, self.edges))}]{', clip=True' * self.clip})"


def as_range(labels: tuple[Label, ...]) -> tuple[Label, ...] | range:
    """Consecutive integers as a range; all other labels as they are."""
    if not all(type(label) is int for label in labels):
        return labels
    consecutive = range(labels[0], labels[0] + len(labels))  # type: ignore[arg-type, operator]
    return consecutive if labels == tuple(consecutive) else labels
