"""The kinds of randomizers: a table of chances, shifted patterns, random subsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.drawing import below, chances, subsets
from noiseplan.local.integers import WHOLE, high_epsilon, table_epsilon
from noiseplan.local.randomizer import Randomizer, Reports
from noiseplan.local.wire import Payloads, ReportError, bytes_for, packed, unpacked
from noiseplan.noise.randomness import Source
from noiseplan.schema import Schema

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

    def pack(self, reports: Reports) -> Payloads:
        return packed(reports, self.payload_bytes)

    def unpack(self, payloads: Payloads) -> tuple[Reports, NDArray[np.bool_]]:
        reports = unpacked(payloads)
        return reports, self.valid(reports)

    def valid(self, reports: Reports) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = (reports >= 0) & (reports < self.outputs)
        return inside

    def _counted(self, reports: Reports) -> IntArray:
        return np.bincount(reports, minlength=self.outputs).astype(np.int64)


@final
@dataclass(frozen=True, eq=False, repr=False)
class TableRandomizer(Numbered):
    """Thresholds for every type: an integer of 62 random bits is looked up among them."""

    kind = "table"
    schema: Schema
    cells: IntArray | None
    table: IntArray  # outputs × types, columns of sum 2⁶²

    def __post_init__(self) -> None:
        if (self.table.sum(axis=0) != WHOLE).any() or (self.table <= 0).any():
            raise ReportError("a table of chances has positive integers with columns of sum 2^62")

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
        reports = np.empty(len(types), dtype=np.int64)
        # All users of one type together: its thresholds stay in the cache.
        order = np.argsort(types, kind="stable")
        ends = np.searchsorted(types[order], np.arange(self.types + 1))
        for u in np.unique(types):
            mine = order[ends[u] : ends[u + 1]]
            reports[mine] = np.searchsorted(self._thresholds[u], words[mine], side="right")
        return reports

    def tally(self, reports: Reports) -> IntArray:
        return self._counted(reports)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        low, high = self.table.min(axis=1), self.table.max(axis=1)
        is_high = self.table == high[:, None]
        odd = np.flatnonzero(~is_high & (self.table != low[:, None]))
        if len(odd) > MOST_EXCEPTIONS * self.table.size:
            return {"table": self.table}
        return {
            "low": low,
            "high": high,
            "bits": np.packbits(is_high, axis=None),
            "places": odd.astype(np.int64),
            "entries": self.table.ravel()[odd],
        }

    def _facts(self) -> dict[str, Any]:
        return {"types": self.types}

    @classmethod
    def _rebuilt(
        cls,
        schema: Schema,
        cells: IntArray | None,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> TableRandomizer:
        if "table" in arrays:
            return cls(schema, cells, arrays["table"])
        low, high = arrays["low"], arrays["high"]
        shape = len(low), int(facts["types"])
        bits = np.unpackbits(arrays["bits"], count=shape[0] * shape[1]).reshape(shape)
        table = np.where(bits == 1, high[:, None], low[:, None])
        table.ravel()[arrays["places"]] = arrays["entries"]
        return cls(schema, cells, table)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ShiftRandomizer(Numbered):
    """A pattern, then a place in it, which says by how much the pattern is shifted.

    Report r·n + s is pattern r shifted by s. With chance h_r/2⁶² the place is one of the high ones,
    else one of the low ones; the shift is the user's type minus the place.
    """

    kind = "shifts"
    schema: Schema
    cells: IntArray | None
    shape: tuple[int, ...]
    patterns: NDArray[np.bool_]
    shares: IntArray  # how often each pattern is used, of sum 2⁶²
    high: IntArray  # the chance of a high place in each pattern

    def __post_init__(self) -> None:
        fits = int(np.prod(self.shape)) == self.patterns.shape[1]
        if not fits or int(self.shares.sum()) != WHOLE or (self.shares < 0).any():
            raise ReportError("patterns have one place per type, and shares of sum 2^62")

    @property
    def types(self) -> int:
        return int(self.patterns.shape[1])

    @property
    def outputs(self) -> int:
        return self.patterns.size

    @cached_property
    def epsilon(self) -> float:
        pairs = set(zip(self.high.tolist(), self._sizes.tolist(), strict=True))
        return max(high_epsilon(h, k, self.types) for h, k in pairs)

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
        index = below(source, np.where(is_high, size, self.types - size))
        place = self._places[pattern, np.where(is_high, index, size + index)]
        axes = zip(
            np.unravel_index(types, self.shape),
            np.unravel_index(place, self.shape),
            self.shape,
            strict=True,
        )
        shift = np.ravel_multi_index([(u - p) % n for u, p, n in axes], self.shape)
        return np.asarray(pattern * self.types + shift, dtype=np.int64)

    def tally(self, reports: Reports) -> IntArray:
        return self._counted(reports).reshape(self.patterns.shape)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        bits = np.packbits(self.patterns, axis=None)
        return {"bits": bits, "shares": self.shares, "high": self.high}

    def _facts(self) -> dict[str, Any]:
        return {"shape": list(self.shape)}

    @classmethod
    def _rebuilt(
        cls,
        schema: Schema,
        cells: IntArray | None,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> ShiftRandomizer:
        shape = tuple(facts["shape"])
        form = len(arrays["shares"]), int(np.prod(shape))
        bits = np.unpackbits(arrays["bits"], count=form[0] * form[1]).reshape(form)
        return cls(schema, cells, shape, bits == 1, arrays["shares"], arrays["high"])


@final
@dataclass(frozen=True, eq=False, repr=False)
class SubsetRandomizer(Randomizer):
    """A size, then a subset of that size: with chance h/2⁶² one that holds the user's type."""

    kind = "subsets"
    schema: Schema
    cells: IntArray | None
    count: int
    sizes: IntArray
    shares: IntArray  # how often each size is used, of sum 2⁶²
    high: IntArray  # the chance that a subset of each size holds the type

    def __post_init__(self) -> None:
        if int(self.shares.sum()) != WHOLE or (self.shares < 0).any():
            raise ReportError("shares of sizes are integers of sum 2^62")

    @property
    def types(self) -> int:
        return self.count

    @property
    def payload_bytes(self) -> int:
        return (self.count + 7) // 8

    @cached_property
    def epsilon(self) -> float:
        pairs = zip(self.high.tolist(), self.sizes.tolist(), strict=True)
        return max(high_epsilon(h, k, self.count) for h, k in pairs)

    def draw(self, types: IntArray, source: Source) -> Reports:
        count = len(types)
        which = np.searchsorted(np.cumsum(self.shares), chances(source, count), side="right")
        inside = chances(source, count) < self.high[which]
        others = subsets(source, self.count - 1, self.sizes[which] - inside)
        # The other types keep their order around the user's own.
        held = np.empty((count, self.count), dtype=bool)
        columns = np.arange(self.count - 1)
        place = columns + (columns >= types[:, None])
        np.put_along_axis(held, place, others, axis=1)
        held[np.arange(count), types] = inside
        return held

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
        size = reports.sum(axis=1)
        counted = np.zeros((len(self.sizes), self.count + 1), dtype=np.int64)
        for row, k in enumerate(self.sizes):
            mine = reports[size == k]
            counted[row, 0] = len(mine)
            counted[row, 1:] = mine.sum(axis=0)
        return counted

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"sizes": self.sizes, "shares": self.shares, "high": self.high}

    def _facts(self) -> dict[str, Any]:
        return {"count": self.count}

    @classmethod
    def _rebuilt(
        cls,
        schema: Schema,
        cells: IntArray | None,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> SubsetRandomizer:
        return cls(
            schema, cells, int(facts["count"]), arrays["sizes"], arrays["shares"], arrays["high"]
        )
