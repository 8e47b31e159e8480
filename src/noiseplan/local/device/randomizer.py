"""What runs on a device: from a user's value to a randomized report.

NumPy and integers only. A randomizer is a small file with a hash; what it draws from are whole
numbers, so its ε is a fact about the file and not about floating-point arithmetic, and it is
recomputed when the file is read. Randomness comes from the operating system.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.device.wire import TAG_BYTES, Payloads, ReportError, to_packet
from noiseplan.noise.randomness import Source, SystemSource
from noiseplan.paths import checked_path
from noiseplan.privacy.rounding import text_up
from noiseplan.schema import Schema
from noiseplan.texts import suggestion

MAGIC = b"NZRD"
VERSION = 1
LENGTHS = struct.Struct("<4sBI")

Reports = NDArray[Any]
Parts = tuple[dict[str, Any], dict[str, NDArray[Any]]]

LARGEST_TABLE = 4096
"""Beyond this many cells one strategy matrix is out of reach: users are split over tables."""
# Bytes that a file may ask for when it is read, for what it says of itself and for everything
# together; longer files may ask for so many times their length.
LARGEST_HEAD, _MEMORY, _TIMES = 1 << 22, 1 << 29, 64


def _mistyped(found: Sequence[str], missing: Sequence[str]) -> str:
    """The end of a message, where a name that is none looks like one that is missing."""
    near = ((name, suggestion(name, missing)) for name in found)
    return next((f". {name!r} is no attribute{meant}" for name, meant in near if meant), "")


class Room:
    """What is left of the memory that reading one file may take: asked for before it is taken."""

    def __init__(self, length: int) -> None:
        self.head = max(LARGEST_HEAD, _TIMES * length)
        self.left = max(_MEMORY, _TIMES * length)

    def take(self, size: int) -> None:
        """So many bytes more."""
        self.check(size, self.left)
        self.left -= size

    @staticmethod
    def check(size: int, allowed: int) -> None:
        """Refuse more than is allowed."""
        if size > allowed:
            raise ReportError(
                f"the randomizer's file is damaged, or made to fill the memory: it asks for "
                f"{size:,} bytes where {allowed:,} are allowed; fetch it anew"
            )


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file says: attributes, the type of each cell, a kind's own facts and arrays."""

    schema: Schema
    cells: IntArray | None
    facts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    room: Room
    inner: Callable[[bytes], Randomizer]  # reads the file of one of the tables of a split

    def bits(self, rows: int, columns: int) -> NDArray[np.bool_]:
        """The array "bits", eight to a byte, as a matrix of truth values."""
        bits = self.arrays["bits"]
        if columns > self.schema.size or bits.shape != ((rows * columns + 7) // 8,):
            raise ReportError(f"{len(bits):,} bytes of bits are not {rows:,} × {columns:,} of them")
        self.room.take(8 * rows * columns)  # each becomes a number
        flat = np.unpackbits(bits, count=rows * columns)
        return np.asarray(flat.reshape(rows, columns), dtype=np.bool_)


@dataclass(frozen=True, eq=False, repr=False)
class Randomizer(ABC):
    """Chances of reports for each type of user, as integers.

    Privacy
    -------
    One report is `epsilon`-differentially private for the user's whole value. Every further report
    spends as much again: k reports of one user are k·ε-private together. See `Memory` for values
    that are asked for again and again.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> device = plan.randomizer()
    >>> device.epsilon <= 1.0, isinstance(device.report(2), bytes)
    (True, True)
    """

    kind: ClassVar[str]
    schema: Schema
    cells: IntArray | None
    """The type of each cell, where cells are told apart by no query; None where all are."""

    def __post_init__(self) -> None:
        self._check()
        cells = self.cells
        shape = (self.types,) if cells is None else cells.shape
        if shape != (self.schema.size,) or (cells is not None and cells.dtype.kind != "i"):
            raise ReportError(
                f"{self.schema.size:,} cells of {list(self.schema.names)} need a type each, found "
                f"types of shape {shape}"
            )
        if cells is None:
            return
        if int(cells.min()) < 0 or int(cells.max()) >= self.types:
            raise ReportError(f"types are numbered from 0 to {self.types - 1}; a cell has another")

    # ------------------------------------------------------------------ what kinds differ in

    @abstractmethod
    def _check(self) -> None:
        """Refuse integers that are no chances of this kind."""

    @property
    @abstractmethod
    def types(self) -> int:
        """How many types of users there are."""

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """ε of one report, computed from the integers and rounded up."""

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """Length of a payload."""

    @property
    @abstractmethod
    def no_reports(self) -> Reports:
        """An array of no reports, of the shape and type that arrays of reports have."""

    @abstractmethod
    def draw(self, types: IntArray, source: Source) -> Reports:
        """One report for each type given."""

    @abstractmethod
    def pack(self, reports: Reports) -> Payloads:
        """Reports as payloads, one row each."""

    @abstractmethod
    def unpack(self, payloads: Payloads) -> tuple[Reports, NDArray[np.bool_]]:
        """What payloads say, and which of them are reports of this plan."""

    @abstractmethod
    def valid(self, reports: Reports) -> NDArray[np.bool_]:
        """Which of these can be reports of this plan."""

    @abstractmethod
    def tally(self, reports: Reports) -> IntArray:
        """Valid reports, counted."""

    @abstractmethod
    def _parts(self) -> Parts:
        """What a file must say, and the integers."""

    @classmethod
    @abstractmethod
    def _rebuilt(cls, stored: Stored) -> Self:
        """The randomizer that such parts were taken from."""

    # ------------------------------------------------------------------ from values to reports

    def codes_of(self, values: Any) -> dict[str, IntArray]:
        """The code of every user's value of each attribute; values outside the schema are refused.

        `values` maps each attribute to a column of values; for one attribute the column alone.
        """
        names = self.schema.names
        columns = values if isinstance(values, Mapping) else {names[0]: values}
        if not isinstance(values, Mapping) and len(names) > 1:
            raise ReportError(
                f"values map each of {list(names)} to a column of values: pass a dict such as "
                f"{{{names[0]!r}: [...], {names[1]!r}: [...]}}"
            )
        missing = [name for name in names if name not in columns]
        if missing:
            meant = _mistyped([name for name in columns if name not in names], missing)
            raise ReportError(f"no values of {missing}; a report needs all of {list(names)}{meant}")
        codes = {name: self._codes(name, columns[name]) for name in names}
        lengths = {name: len(column) for name, column in codes.items()}
        if len(set(lengths.values())) > 1:
            raise ReportError(f"columns have one value per user each, found {lengths}")
        return codes

    def _codes(self, name: str, column: Any) -> IntArray:
        attribute = self.schema[name]
        codes = attribute.encode(column)
        if codes.ndim != 1:
            raise ReportError(
                f"a user has one value of {name!r}: give one per report, and one report per user; "
                f"found values of shape {codes.shape}"
            )
        if (codes < 0).any():
            raise ReportError(
                f"{int((codes < 0).sum())} of {codes.size} values of {name!r} are not in its "
                f"domain ({attribute.describe()}); nothing was reported"
            )
        return codes

    def types_of(self, values: Any) -> IntArray:
        """The types of many users; see `codes_of`."""
        return self.types_from(self.codes_of(values))

    def types_from(self, codes: Mapping[str, IntArray]) -> IntArray:
        """Types from codes of the attributes."""
        cell = np.zeros(1, dtype=np.int64)
        for name in self.schema.names:
            cell = cell * self.schema[name].size + codes[name]
        return cell if self.cells is None else self.cells[cell]

    def reports(self, values: Any, *, source: Source | None = None) -> Reports:
        """One report for each of many users, for `packet` or an aggregator."""
        return self._draw(self.codes_of(values), source or SystemSource())

    def _draw(self, codes: Mapping[str, IntArray], source: Source) -> Reports:
        return self.draw(self.types_from(codes), source)

    def report(self, value: Any, *, source: Source | None = None) -> bytes:
        """The report of one user as bytes: a tag of the plan, then as few bytes as it needs.

        `value` maps attributes to values; for one attribute it may be the value alone.
        """
        drawn = self.reports(self.columns_of(value), source=source)
        if len(drawn) != 1:  # more would cost ε each
            raise ReportError(f"a report is drawn once, and {len(drawn)} were: nothing is sent")
        return self.tag + self.pack(drawn).tobytes()

    def columns_of(self, value: Any) -> dict[str, list[Any]]:
        """The value of one user as columns of length one."""
        row = value if isinstance(value, Mapping) else {self.schema.names[0]: value}
        if not isinstance(value, Mapping) and len(self.schema.names) > 1:
            raise ReportError(
                f"a value maps each of {list(self.schema.names)} to its value: pass a dict such as "
                f"{{{self.schema.names[0]!r}: ..., {self.schema.names[1]!r}: ...}}"
            )
        return {name: [one] for name, one in row.items()}

    def packet(self, reports: Reports) -> bytes:
        """Many reports in one piece, with the plan's hash."""
        return to_packet(self.pack(reports), self.digest)

    @property
    def report_bytes(self) -> int:
        """Length of a single report, tag included."""
        return TAG_BYTES + self.payload_bytes

    # ------------------------------------------------------------------ as a file

    @cached_property
    def _content(self) -> bytes:
        facts, integers = self._parts()
        arrays = {name: np.ascontiguousarray(a) for name, a in integers.items()}
        if self.cells is not None:
            arrays["cells"] = self.cells
        head = {
            "kind": self.kind,
            "schema": self.schema.to_dict(),
            "facts": facts,
            "arrays": [
                [n, a.dtype.newbyteorder("<").str, list(a.shape)] for n, a in arrays.items()
            ],
        }
        text = json.dumps(head, sort_keys=True, ensure_ascii=True).encode()
        body = b"".join(a.astype(a.dtype.newbyteorder("<")).tobytes() for a in arrays.values())
        return struct.pack("<I", len(text)) + text + body

    @property
    def chances_hash(self) -> bytes:
        """SHA-256 of all but the schema: the same for tables that differ in names alone."""
        facts, integers = self._parts()
        arrays = integers | ({} if self.cells is None else {"cells": self.cells})
        hashed = hashlib.sha256(json.dumps([self.kind, facts], sort_keys=True).encode())
        for name, array in arrays.items():
            hashed.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
        return hashed.digest()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything the randomizer is made of: the plan's name."""
        return hashlib.sha256(self._content).digest()

    @property
    def hash(self) -> str:
        """`digest` in hexadecimal."""
        return self.digest.hex()

    @property
    def tag(self) -> bytes:
        """The first bytes of `digest`, in front of every single report."""
        return self.digest[:TAG_BYTES]

    def to_bytes(self) -> bytes:
        """The file."""
        body = zlib.compress(self._content, 9)
        return LENGTHS.pack(MAGIC, VERSION, len(body)) + body + self.digest

    def save(self, path: str | Path) -> Path:
        """Write the file; `load_randomizer` reads it."""
        path = checked_path(path, ReportError)
        try:
            path.write_bytes(self.to_bytes())
        except OSError as error:
            raise ReportError(f"{str(path)!r} cannot be written: {error}") from None
        return path

    def __repr__(self) -> str:
        delta = getattr(self, "delta", 0.0)
        cost = f"ε = {text_up(self.epsilon)}" + (f", δ = {delta:g}" if delta else "")
        return f"{type(self).__name__}({cost}, plan {self.hash[:12]})"
