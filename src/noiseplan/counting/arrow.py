"""Columns of codes out of an Arrow stream, read in place and without PyArrow.

An engine hands over the address of a struct of functions, laid out as the Arrow C stream interface
says (https://arrow.apache.org/docs/format/CStreamInterface.html): one returns the next batch, whose
buffers are looked at as NumPy arrays, and each batch is released before the next one is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from ctypes import byref
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.refusals import UNREADABLE, refused

Codes: TypeAlias = list[NDArray[np.unsignedinteger]]

_KINDS: Final = {b"C": np.uint8, b"S": np.uint16, b"I": np.uint32}
_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


# A pointer to a struct is its address here, and what is behind it is looked at where it is needed.
_MEMBERS: Final[dict[str, Any]] = {
    "text": ctypes.c_char_p,
    "number": ctypes.c_int64,
    "address": ctypes.c_void_p,
    "addresses": ctypes.POINTER(ctypes.c_void_p),
    "end": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    "fill": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "tell": ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p),
}


def _struct(members: str) -> Any:
    """A struct of these members, each written as name:kind."""
    named = (member.split(":") for member in members.split())
    fields = [(name, _MEMBERS[kind]) for name, kind in named]
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


_ArrowSchema = _struct(
    "format:text name:text metadata:address flags:number n_children:number children:addresses "
    "dictionary:address release:end private_data:address"
)
_ArrowArray = _struct(
    "length:number null_count:number offset:number n_buffers:number n_children:number "
    "buffers:addresses children:addresses dictionary:address release:end private_data:address"
)
_ArrowStream = _struct(
    "get_schema:fill get_next:fill get_last_error:tell release:end private_data:address"
)


def code_batches(exported: Any, source: str) -> Generator[Codes, None, None]:
    """Yield the columns of every batch; they are gone when the next batch is asked for.

    Parameters
    ----------
    exported
        Anything with ``__arrow_c_stream__`` whose columns are unsigned integers without nulls.
    source
        What the stream reads, for messages.
    """
    capsule = exported.__arrow_c_stream__()
    stream = _ArrowStream.from_address(_pointer(capsule, b"arrow_array_stream"))
    try:
        kinds = _column_kinds(stream, source)
        while True:
            batch = _ArrowArray()
            _check(stream, stream.get_next(byref(stream), byref(batch)), source)
            if not batch.release:
                return
            try:
                yield [_column(batch, n, kind) for n, kind in enumerate(kinds)]
            finally:
                batch.release(byref(batch))
    finally:
        # The capsule would do this too, but only when it is collected: until then the connection
        # is busy with the stream.
        if stream.release:
            stream.release(byref(stream))


def _column_kinds(stream: Any, source: str) -> list[Any]:
    schema = _ArrowSchema()
    _check(stream, stream.get_schema(byref(stream), byref(schema)), source)
    try:
        found = schema.children[: schema.n_children]
        children = map(_ArrowSchema.from_address, found)
        return [_KINDS[child.format] for child in children]
    finally:
        schema.release(byref(schema))


def _column(batch: Any, place: int, kind: Any) -> NDArray[np.unsignedinteger]:
    column = _ArrowArray.from_address(batch.children[place])
    if column.null_count > 0 or (column.null_count < 0 and column.buffers[0]):
        raise AssertionError("codes have no nulls")
    if not batch.length:
        return np.empty(0, dtype=kind)
    skipped = (batch.offset + column.offset) * np.dtype(kind).itemsize
    size = batch.length * np.dtype(kind).itemsize
    raw = (ctypes.c_uint8 * size).from_address(column.buffers[1] + skipped)
    return np.frombuffer(raw, dtype=kind)


def _check(stream: Any, status: int, source: str) -> None:
    if status:
        reason = stream.get_last_error(byref(stream)) or b"no reason was given"
        written = reason.decode("utf-8", "replace")
        raise refused(
            UNREADABLE,
            f"cannot read {source}: a record or the file is not as it should be.",
            f"cannot read {source}: {written}",
        )
