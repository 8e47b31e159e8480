"""Randomizers whose reports are counted: tables, shifted patterns, random subsets, a split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.local.device.integer_chances import (
    WHOLE,
    below,
    chances,
    nested_subsets,
    shapes_epsilon,
    table_epsilon,
)
from noiseplan.local.device.randomizer import LARGEST_TABLE, Parts, Randomizer, Reports, Stored
from noiseplan.local.device.wire import Payloads, ReportError, bytes_for, packed, unpacked
from noiseplan.noise.randomness import Source

# A table with more entries off the two values of their row than this share is stored whole.
MOST_EXCEPTIONS = 0.05


class Numbered(Randomizer):
    """Reports are numbers from 0 to outputs − 1."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many reports there are."""

    @property
    def payload_bytes(self) -> int:
        return bytes_for(self.outputs)

    @property
    def no_reports(self) -> Reports:
        return np.empty(0, dtype=np.int64)

    def pack(self, reports: Reports) -> Payloads:
        return packed(reports, self.payload_bytes)

    def unpack(self, payloads: Payloads) -> tuple[Reports, NDArray[np.bool_]]:
        reports = unpacked(payloads)
        return reports, self.valid(reports)

    def valid(self, reports: Reports) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = (reports >= 0) & (reports < self.outputs)
        return inside

    def tally(self, reports: Reports) -> IntArray:
        return np.bincount(reports, minlength=self.outputs).astype(np.int64)


@final
@immutable
@dataclass(frozen=True, eq=False, repr=False)
class TableRandomizer(Numbered):
    """Thresholds for every type: an integer of 62 random bits is looked up among them."""

    kind = "table"
    table: IntArray  # outputs × types, columns of sum 2⁶²

    def _check(self) -> None:
        table = self.table
        fits = table.dtype == np.int64 and table.ndim == 2 and table.size > 0
        if not fits or table.min() <= 0 or table.max() > WHOLE:
            raise ReportError("a table of chances is a matrix of integers from 1 to 2^62")
        total = np.zeros(self.types, dtype=np.int64)
        for row in table:  # from 2⁶² at most one more leads to 2⁶³ at most, which turns negative
            total += row
            if total.min() < 0 or total.max() > WHOLE:
                break
        if (total != WHOLE).any():
            raise ReportError("the chances of every type add up to 2^62")

    @property
    def types(self) -> int:
        return int(self.table.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.table.shape[0])

    @cached_property
    def epsilon(self) -> float:
        return table_epsilon(self.table)

    @cached_property
    def _thresholds(self) -> IntArray:
        """Of each type (row): the integer from which on the next report is drawn."""
        return np.ascontiguousarray(np.cumsum(self.table, axis=0).T)

    def draw(self, types: IntArray, source: Source) -> Reports:
        words = chances(source, len(types))
        reports = np.full(len(types), -1, dtype=np.int64)
        # All users of one type together: its thresholds stay in the cache.
        order = np.argsort(types, kind="stable")
        ends = np.searchsorted(types[order], np.arange(self.types + 1))
        for u in np.unique(types):
            mine = order[ends[u] : ends[u + 1]]
            reports[mine] = np.searchsorted(self._thresholds[u], words[mine], side="right")
        if (reports < 0).any():
            raise ReportError(f"types are numbered from 0 to {self.types - 1}; nothing was drawn")
        return reports

    def _parts(self) -> Parts:
        facts = {"types": self.types}
        low, high = self.table.min(axis=1), self.table.max(axis=1)
        is_high = self.table == high[:, None]
        odd = np.flatnonzero(~is_high & (self.table != low[:, None]))
        if len(odd) > MOST_EXCEPTIONS * self.table.size:
            return facts, {"table": self.table}
        return facts, {
            "low": low,
            "high": high,
            "bits": np.packbits(is_high, axis=None),
            "places": odd.astype(np.int64),
            "entries": self.table.ravel()[odd],
        }

    @classmethod
    def _rebuilt(cls, stored: Stored) -> TableRandomizer:
        arrays = stored.arrays
        if "table" in arrays:
            return cls(stored.schema, stored.cells, arrays["table"])
        low, high = arrays["low"], arrays["high"]
        is_high = stored.bits(len(low), int(stored.facts["types"]))
        if low.shape != high.shape or low.ndim != 1:
            raise ReportError("a table has one low and one high chance for every report")
        table = np.where(is_high, high[:, None], low[:, None])
        table.ravel()[arrays["places"]] = arrays["entries"]
        return cls(stored.schema, stored.cells, table)


@final
@immutable
@dataclass(frozen=True, eq=False, repr=False)
class ShiftRandomizer(Numbered):
    """A pattern, then a place in it, which says by how much the pattern is shifted.

    Report r·n + s is pattern r shifted by s. With chance h_r/2⁶² the place is one of the high ones,
    else one of the low ones; the shift is the user's type minus the place.
    """

    kind = "shifts"
    shape: tuple[int, ...]
    patterns: NDArray[np.bool_]
    shares: IntArray  # how often each pattern is used, of sum 2⁶²
    high: IntArray  # the chance of a high place in each pattern

    def _check(self) -> None:
        fits = self.patterns.ndim == 2 and all(
            isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in self.shape
        )
        if not fits or prod(self.shape) != self.types or not _integers(self.high, self.patterns):
            raise ReportError("patterns have one place per type, and one chance of a high place")
        check_shares(self.shares, len(self.patterns))

    @property
    def types(self) -> int:
        return int(self.patterns.shape[1])

    @property
    def outputs(self) -> int:
        return self.patterns.size

    @cached_property
    def epsilon(self) -> float:
        return shapes_epsilon(self.high, self._sizes, self.types)

    @cached_property
    def _sizes(self) -> IntArray:
        return np.asarray(self.patterns.sum(axis=1), dtype=np.int64)

    @cached_property
    def _places(self) -> IntArray:
        """Of each pattern (row) all places, the high ones first."""
        return np.argsort(~self.patterns, axis=1, kind="stable").astype(np.int64)

    def draw(self, types: IntArray, source: Source) -> Reports:
        count = len(types)
        ends = np.cumsum(self.shares)
        pattern = np.searchsorted(ends, chances(source, count), side="right")
        size = self._sizes[pattern]
        is_high = chances(source, count) < self.high[pattern]
        # A place of either kind, so that what is drawn does not depend on which one is used.
        high_place = below(source, np.maximum(size, 1))
        low_place = size + below(source, np.maximum(self.types - size, 1))
        place = self._places[pattern, np.where(is_high, high_place, low_place)]
        axes = zip(
            np.unravel_index(types, self.shape),
            np.unravel_index(place, self.shape),
            self.shape,
            strict=True,
        )
        shift = np.ravel_multi_index([(u - p) % n for u, p, n in axes], self.shape)
        return np.asarray(pattern * self.types + shift, dtype=np.int64)

    def tally(self, reports: Reports) -> IntArray:
        return super().tally(reports).reshape(self.patterns.shape)

    def _parts(self) -> Parts:
        bits = np.packbits(self.patterns, axis=None)
        facts = {"shape": list(self.shape)}
        return facts, {"bits": bits, "shares": self.shares, "high": self.high}

    @classmethod
    def _rebuilt(cls, stored: Stored) -> ShiftRandomizer:
        shape, shares = tuple(stored.facts["shape"]), stored.arrays["shares"]
        if len(shape) > 64 or any(type(n) is not int or not 1 <= n <= LARGEST_TABLE for n in shape):
            raise ReportError("types are shifted along at most 64 axes, each with a size")
        patterns = stored.bits(len(shares), prod(shape))
        high = stored.arrays["high"]
        return cls(stored.schema, stored.cells, shape, patterns, shares, high)


@final
@immutable
@dataclass(frozen=True, eq=False, repr=False)
class SubsetRandomizer(Randomizer):
    """A size, then a subset of that size: with chance h/2⁶² one that holds the user's type."""

    kind = "subsets"
    count: int
    sizes: IntArray
    shares: IntArray  # how often each size is used, of sum 2⁶²
    high: IntArray  # the chance that a subset of each size holds the type

    def _check(self) -> None:
        fits = _integers(self.sizes, self.sizes) and _integers(self.high, self.sizes)
        if (
            not fits
            or not self.sizes.size
            or not 0 <= self.sizes.min() <= self.sizes.max() <= self.count
        ):
            raise ReportError(f"subsets have 0 to {self.count} types, and one chance each")
        check_shares(self.shares, len(self.sizes))

    @property
    def types(self) -> int:
        return self.count

    @property
    def payload_bytes(self) -> int:
        return (self.count + 7) // 8

    @cached_property
    def epsilon(self) -> float:
        return shapes_epsilon(self.high, self.sizes, self.count)

    def draw(self, types: IntArray, source: Source) -> Reports:
        count = len(types)
        which = np.searchsorted(np.cumsum(self.shares), chances(source, count), side="right")
        inside = chances(source, count) < self.high[which]
        larger, smaller = nested_subsets(source, self.count - 1, self.sizes[which])
        # The others stand at their own numbers, but for the last type, which takes the place of the
        # user's own: a uniform subset of them is the same whatever they are called.
        users, last = np.arange(count), self.count - 1
        held = np.empty((count, self.count), dtype=np.bool_)
        smaller |= ~inside[:, None]
        np.logical_and(larger, smaller, out=held[:, :last])  # the smaller one is part of the larger
        if last:
            held[:, last] = held[users, np.minimum(types, last - 1)]
        held[users, types] = inside
        return held

    @property
    def no_reports(self) -> Reports:
        return np.empty((0, self.count), dtype=np.bool_)

    def pack(self, reports: Reports) -> Payloads:
        return np.packbits(reports, axis=1)

    def unpack(self, payloads: Payloads) -> tuple[Reports, NDArray[np.bool_]]:
        bits = np.unpackbits(payloads, axis=1).astype(bool)
        reports: Reports = bits[:, : self.count]
        stray = bits[:, self.count :].any(axis=1)
        return reports, self.valid(reports) & ~stray

    def valid(self, reports: Reports) -> NDArray[np.bool_]:
        return np.isin(reports.sum(axis=1), self.sizes)

    def tally(self, reports: Reports) -> IntArray:
        """Per size: how many reports, then how many that hold each type."""
        size = reports.sum(axis=1)
        counted = np.zeros((len(self.sizes), self.count + 1), dtype=np.int64)
        for row, k in enumerate(self.sizes):
            mine = reports[size == k]
            counted[row, 0] = len(mine)
            counted[row, 1:] = mine.sum(axis=0)
        return counted

    def _parts(self) -> Parts:
        facts = {"count": self.count}
        return facts, {"sizes": self.sizes, "shares": self.shares, "high": self.high}

    @classmethod
    def _rebuilt(cls, stored: Stored) -> SubsetRandomizer:
        integers = (stored.arrays[name] for name in ("sizes", "shares", "high"))
        return cls(stored.schema, stored.cells, int(stored.facts["count"]), *integers)


@final
@immutable
@dataclass(frozen=True, eq=False, repr=False)
class SplitRandomizer(Numbered):
    """One of several randomizers, drawn with public chances; reports are numbered through."""

    kind = "split"
    tables: tuple[Numbered, ...]
    shares: IntArray  # of sum 2⁶²

    def __post_init__(self) -> None:
        # The domain as a whole has no list of types: it may be of any size.
        self._check()

    def _check(self) -> None:
        check_shares(self.shares, len(self.tables))
        if self.cells is not None:
            raise ReportError("the types of a split are those of its tables, not of all cells")
        for table in self.tables:
            for name in table.schema.names:
                if name not in self.schema or table.schema[name] != self.schema[name]:
                    raise ReportError(
                        f"a table of the split has {name!r} with other values than the whole; "
                        f"attributes are those of {list(self.schema.names)}"
                    )

    @property
    def types(self) -> int:
        return self.schema.size

    @cached_property
    def _starts(self) -> IntArray:
        return np.concatenate([[0], np.cumsum([table.outputs for table in self.tables])])

    @property
    def outputs(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def epsilon(self) -> float:
        """Which table it is tells nothing, so the largest ε of the tables."""
        return max(table.epsilon for table in self.tables)

    def draw(self, types: IntArray, source: Source) -> Reports:
        axes = np.unravel_index(types, self.schema.shape)
        return self._draw(dict(zip(self.schema.names, axes, strict=True)), source)

    def _draw(self, codes: Mapping[str, IntArray], source: Source) -> Reports:
        count = len(next(iter(codes.values())))
        which = np.searchsorted(np.cumsum(self.shares), chances(source, count), side="right")
        reports = np.empty(count, dtype=np.int64)
        for j, table in enumerate(self.tables):
            mine = np.flatnonzero(which == j)
            types = table.types_from({name: codes[name][mine] for name in table.schema.names})
            reports[mine] = table.draw(types, source) + self._starts[j]
        return reports

    def _parts(self) -> Parts:
        files = {
            f"table_{j}": np.frombuffer(table.to_bytes(), np.uint8)
            for j, table in enumerate(self.tables)
        }
        return {"tables": len(self.tables)}, {"shares": self.shares, **files}

    @classmethod
    def _rebuilt(cls, stored: Stored) -> SplitRandomizer:
        tables = []
        for j in range(int(stored.facts["tables"])):
            file = stored.arrays[f"table_{j}"].tobytes()
            table = stored.inner(file)
            if not isinstance(table, Numbered):
                raise ReportError(f"table {j} of a split has reports without numbers")
            tables.append(table)
        return cls(stored.schema, stored.cells, tuple(tables), stored.arrays["shares"])


def check_shares(shares: IntArray, count: int) -> None:
    """How often each of some public choices is made: integers of sum 2⁶²."""
    fits = shares.shape == (count,) and shares.dtype == np.int64
    if not fits or (shares < 0).any() or sum(shares.tolist()) != WHOLE:
        raise ReportError(f"{count} shares are as many integers of at least 0 and of sum 2^62")


def _integers(numbers: NDArray[Any], one_for_each: NDArray[Any]) -> bool:
    """Whether these are integers of 64 bits, as many as there are rows of the others."""
    return numbers.shape == (len(one_for_each),) and numbers.dtype == np.int64
