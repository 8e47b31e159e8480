"""Columns of codes out of an Arrow stream, read in place and without PyArrow.

An engine hands over the address of a struct of functions, laid out as the Arrow C stream interface
says (https://arrow.apache.org/docs/format/CStreamInterface.html): one returns the next batch, whose
buffers are looked at as NumPy arrays, and each batch is released before the next one is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.telling import UNREADABLE, refused

Codes: TypeAlias = list[NDArray[np.unsignedinteger]]

_KINDS: Final = {b"C": np.uint8, b"S": np.uint16, b"I": np.uint32}
_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _ArrowSchema(ctypes.Structure):
    pass


class _ArrowArray(ctypes.Structure):
    pass


class _ArrowStream(ctypes.Structure):
    pass


def _function(result: Any, *arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(result, *arguments)


_ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowSchema))),
    ("dictionary", ctypes.POINTER(_ArrowSchema)),
    ("release", _function(None, ctypes.POINTER(_ArrowSchema))),
    ("private_data", ctypes.c_void_p),
]
_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    ("dictionary", ctypes.POINTER(_ArrowArray)),
    ("release", _function(None, ctypes.POINTER(_ArrowArray))),
    ("private_data", ctypes.c_void_p),
]
_ArrowStream._fields_ = [
    (
        "get_schema",
        _function(ctypes.c_int, ctypes.POINTER(_ArrowStream), ctypes.POINTER(_ArrowSchema)),
    ),
    (
        "get_next",
        _function(ctypes.c_int, ctypes.POINTER(_ArrowStream), ctypes.POINTER(_ArrowArray)),
    ),
    ("get_last_error", _function(ctypes.c_char_p, ctypes.POINTER(_ArrowStream))),
    ("release", _function(None, ctypes.POINTER(_ArrowStream))),
    ("private_data", ctypes.c_void_p),
]


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
            _check(stream, stream.get_next(stream, batch), source)
            if not batch.release:
                return
            try:
                yield [_column(batch, n, kind) for n, kind in enumerate(kinds)]
            finally:
                batch.release(batch)
    finally:
        # The capsule would do this too, but only when it is collected: until then the connection
        # is busy with the stream.
        if stream.release:
            stream.release(stream)


def _column_kinds(stream: Any, source: str) -> list[Any]:
    schema = _ArrowSchema()
    _check(stream, stream.get_schema(stream, schema), source)
    try:
        children = [schema.children[n].contents for n in range(schema.n_children)]
        return [_KINDS[child.format] for child in children]
    finally:
        schema.release(schema)


def _column(batch: Any, place: int, kind: Any) -> NDArray[np.unsignedinteger]:
    column = batch.children[place].contents
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
        reason = stream.get_last_error(stream) or b"no reason was given"
        written = reason.decode("utf-8", "replace")
        raise refused(
            UNREADABLE,
            f"cannot read {source}: a record or the file is not as it should be.",
            f"cannot read {source}: {written}",
        )
