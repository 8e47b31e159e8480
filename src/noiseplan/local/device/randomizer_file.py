"""Randomizers from their files: nothing is taken on trust, neither sizes nor ε."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from functools import partial
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import remedy
from noiseplan.local.device.counting_randomizers import (
    ShiftRandomizer,
    SplitRandomizer,
    SubsetRandomizer,
    TableRandomizer,
)
from noiseplan.local.device.noisy_sums import SumRandomizer
from noiseplan.local.device.randomizer import (
    LARGEST_HEAD,
    LARGEST_TABLE,
    LENGTHS,
    MAGIC,
    VERSION,
    Randomizer,
    Room,
    Stored,
)
from noiseplan.local.device.wire import ReportError
from noiseplan.paths import checked_path
from noiseplan.schema import Schema

_KINDS: dict[str, type[Randomizer]] = {
    made.kind: made
    for made in (TableRandomizer, ShiftRandomizer, SubsetRandomizer, SplitRandomizer, SumRandomizer)
}
# What the arrays of a file may hold: whole numbers, and bits packed into bytes.
_DTYPES = ("<i8", "|u1")
# What reading facts that make no sense may end in.
NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_BROKEN = (*NONSENSE, struct.error, zlib.error)
_PIECE = 1 << 20

Numbers = NDArray[np.uint8]


def load_randomizer(path: str | Path) -> Randomizer:
    """Read a randomizer written by `Randomizer.save`.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     device = load_randomizer(plan.randomizer().save(f"{folder}/start-up.randomizer"))
    >>> isinstance(device.report(2), bytes)
    True
    """
    try:
        data = checked_path(path, ReportError).read_bytes()
    except OSError as error:
        raise ReportError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    return randomizer_from_bytes(data)


def randomizer_from_bytes(data: bytes) -> Randomizer:
    """A randomizer from its file; refused if a single bit of it changed, or if it has no ε.

    What the file promises is compared with what such files can hold before memory is taken for it.
    """
    return read_randomizer(data, Room(len(data)))


def read_randomizer(data: bytes, room: Room, *, in_split: bool = False) -> Randomizer:
    """The same within the room that is left; a table of a split is no split itself."""
    if len(data) < LENGTHS.size or data[:4] != MAGIC:
        how = remedy("save randomizer", "plan.randomizer().save(...)")
        raise ReportError("this is no randomizer's file; make one with " + how)
    _, version, length = LENGTHS.unpack_from(data)
    body, digest = data[LENGTHS.size : LENGTHS.size + length], data[LENGTHS.size + length :]
    if version != VERSION:
        raise ReportError(f"the file has version {version}, and this program reads {VERSION}")
    try:
        head, start, numbers = _inflated(body, room)
    except _BROKEN as error:
        if isinstance(error, ReportError):
            raise
        head, start, numbers = {}, b"", np.empty(0, np.uint8)
    hashed = hashlib.sha256(start)
    hashed.update(numbers.data)
    if hashed.digest() != digest:
        raise ReportError("the randomizer's file is damaged: its hash does not fit; fetch it anew")
    try:
        made = _made(head, numbers, room, in_split)
    except _BROKEN as error:
        raise ReportError(f"the randomizer's file holds no randomizer: {error}") from None
    if made.digest != digest:
        raise ReportError("the randomizer's file was written by another version of this program")
    if not isfinite(made.epsilon):
        raise ReportError("the randomizer's file is not private at any ε: nothing is drawn from it")
    return made


def _inflated(body: bytes, room: Room) -> tuple[dict[str, Any], bytes, Numbers]:
    """What a file says of itself, the same as bytes, and its numbers: never more than it says,
    nor more than a table over its cells can have."""
    stream = zlib.decompressobj()
    first = stream.decompress(body, 4)
    (size,) = struct.unpack("<I", first)
    room.check(size, room.head)
    room.take(size)
    text = stream.decompress(stream.unconsumed_tail, max(size, 1))
    head = json.loads(text)
    promised = sum(_bytes_promised(dtype, shape) for _, dtype, shape in head["arrays"])
    room.take(promised)
    schema = Schema.from_dict(head["schema"])
    if head["kind"] != SplitRandomizer.kind and _few_cells(schema):
        # Numbers of twice as many reports as there are cells, and of a thousand in any case.
        Room.check(promised, 8 * schema.size * max(2 * schema.size, 1024) + LARGEST_HEAD)
    numbers, at = np.empty(promised, np.uint8), 0  # filled in place: joining takes twice as much
    while piece := stream.decompress(stream.unconsumed_tail, min(promised - at, _PIECE) + 1):
        if len(piece) > promised - at:
            break
        numbers[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    if not stream.eof or at != promised:
        raise ValueError("the content is not as long as it says")
    numbers.flags.writeable = False
    return head, first + text, numbers


def _bytes_promised(dtype: str, shape: list[int]) -> int:
    if dtype not in _DTYPES:
        raise ValueError(f"an array has the type {dtype}, and tables are whole numbers")
    if len(shape) > 2 or any(type(n) is not int or not 0 <= n < 1 << 40 for n in shape):
        raise ValueError(f"an array has the shape {shape}")
    return np.dtype(dtype).itemsize * prod(shape)


def _made(head: Mapping[str, Any], numbers: Numbers, room: Room, in_split: bool) -> Randomizer:
    arrays, at = {}, 0
    for name, dtype, shape in head["arrays"]:
        arrays[name] = np.frombuffer(numbers, dtype, prod(shape), at).reshape(shape)
        at += arrays[name].nbytes
    cells = arrays.pop("cells", None)
    schema = Schema.from_dict(head["schema"])
    split = head["kind"] == SplitRandomizer.kind
    if split and in_split:
        raise ReportError("a table of a split is a split itself")
    if not split and not _few_cells(schema):
        raise ReportError(f"a table has at most {LARGEST_TABLE:,} cells, and this one has more")
    inner = partial(read_randomizer, room=room, in_split=True)
    return _KINDS[head["kind"]]._rebuilt(Stored(schema, cells, head["facts"], arrays, room, inner))


def _few_cells(schema: Schema) -> bool:
    cells = 1
    for size in schema.shape:  # the product of all may have millions of digits
        cells = min(cells * size, LARGEST_TABLE + 1)
    return cells <= LARGEST_TABLE
