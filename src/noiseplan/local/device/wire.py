"""Reports as bytes: one by one with a tag, or many in a packet with the plan's whole hash.

A payload is as short as the number of possible reports allows. A single report is the first four
bytes of the plan's hash and the payload. A packet is

    "NZRP"  version (1)  hash (32)  width (2)  count (8)  CRC-32 (4)  payloads (count × width)

with little-endian numbers. Files may hold any number of packets one after the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import SEEK_END
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import NoiseplanError

MAGIC = b"NZRP"
VERSION = 1
TAG_BYTES = 4
_HEADER = struct.Struct("<4sB32sHQI")
_FIRST_LOOK, _PIECE = 1 << 8, 1 << 20
# Bytes of payload in one packet; more is taken for damage.
LARGEST = 1 << 30

Payloads = NDArray[np.uint8]


class ReportError(NoiseplanError, ValueError):
    """A report cannot be made, or is not one of the plan's."""


@dataclass(frozen=True)
class Packet:
    """What a packet says of itself, and its payloads; None where it is foreign or damaged."""

    digest: bytes
    width: int
    count: int
    payloads: Payloads | None


def packed(codes: NDArray[np.integer], width: int) -> Payloads:
    """Numbers as little-endian payloads of so many bytes, one row each."""
    return codes.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]


def unpacked(payloads: Payloads) -> NDArray[np.int64]:
    """Numbers from payloads; what does not fit 63 bits becomes negative."""
    full = np.zeros((len(payloads), 8), dtype=np.uint8)
    full[:, : payloads.shape[1]] = payloads
    return full.view("<i8").ravel()


def bytes_for(outputs: int) -> int:
    """The least number of bytes that tell so many reports apart.

    Examples
    --------
    >>> bytes_for(256), bytes_for(257), bytes_for(1)
    (1, 2, 1)
    """
    return max((max(outputs - 1, 1).bit_length() + 7) // 8, 1)


def to_packet(payloads: Payloads, digest: bytes) -> bytes:
    """Many reports in one piece."""
    if payloads.nbytes > LARGEST:
        raise ReportError(f"a packet holds at most {LARGEST:,} bytes: write several")
    body = np.ascontiguousarray(payloads).tobytes()
    head = (MAGIC, VERSION, digest, payloads.shape[1], len(payloads), zlib.crc32(body))
    return _HEADER.pack(*head) + body


def packets_of(stream: BinaryIO, digest: bytes, width: int) -> Iterator[Packet]:
    """The packets of a stream, in order; what lies between packets counts as one damaged packet.

    The bodies of packets of another plan or width, or longer than what is left, are not read: a
    stream of headers that promise much costs no more than its length.
    """
    begin = stream.tell()
    end = stream.seek(0, SEEK_END)
    stream.seek(begin)
    while True:
        begin = stream.tell()
        head = stream.read(_HEADER.size)
        if not head:
            return
        packet = _packet(stream, head, digest, width, end - begin - len(head))
        yield packet
        # The length itself may be damaged: the next packet is looked for right behind the word.
        if packet.payloads is None and not _find_next(stream, begin + 1):
            return


def _packet(stream: BinaryIO, head: bytes, own: bytes, own_width: int, left: int) -> Packet:
    if len(head) < _HEADER.size or head[:4] != MAGIC or head[4] != VERSION:
        return Packet(b"", 0, 1, None)
    _, _, digest, width, count, checksum = _HEADER.unpack(head)
    if width == 0 or width * count > min(LARGEST, left):
        return Packet(digest, width, 1, None)
    if digest != own or width != own_width:
        return Packet(digest, width, count, None)
    body = _read(stream, width * count)
    if len(body) < width * count or zlib.crc32(body) != checksum:
        return Packet(digest, width, count if len(body) == width * count else 1, None)
    return Packet(digest, width, count, np.frombuffer(body, np.uint8).reshape(count, width))


def _read(stream: BinaryIO, size: int) -> bytes:
    """At most so many bytes, without asking for more memory than there are bytes."""
    pieces, left = [], size
    while left > 0:
        piece = stream.read(min(left, _PIECE))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _find_next(stream: BinaryIO, start: int) -> bool:
    """Move to the first magic word from `start` on; False if there is none."""
    stream.seek(start)
    tail, size = b"", _FIRST_LOOK
    while piece := stream.read(size):
        size = min(2 * size, _PIECE)  # what is near is found without reading far
        text = tail + piece
        at = text.find(MAGIC)
        if at >= 0:
            stream.seek(at - len(text), 1)
            return True
        tail = text[-(len(MAGIC) - 1) :]
    return False
