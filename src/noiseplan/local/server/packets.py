"""Packets read from bytes that may be damaged, or made to waste the reader's time.

As long as packets are whole they are read one after the other. Behind the first that is not, what
is left is looked over once: where headers of this plan stand, and what the CRC-32 of the bytes up
to each of their ends is. Which of them are whole follows by arithmetic, however many headers
promise the same bytes, so that reading costs a few times the length of the stream and no more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import SEEK_END
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.device.wire import HEADER, LARGEST, MAGIC, VERSION, Payloads, check_width

_PIECE = 1 << 20
_FIRST_LOOK = 1 << 6
_WORD = MAGIC + bytes([VERSION])
_POLYNOMIAL = 0xEDB88320  # of CRC-32, its bits reversed

Registers = NDArray[np.uint32]


@dataclass(frozen=True)
class Packet:
    """What a packet says of itself, and its payloads; None where it is foreign or damaged."""

    digest: bytes
    width: int
    count: int
    payloads: Payloads | None

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return HEADER.size + self.width * self.count


def packets_of(stream: BinaryIO, digest: bytes, width: int) -> Iterator[Packet]:
    """The packets of a stream, in order; what lies between packets counts as one damaged packet.

    Every packet of this plan that is whole is found, whatever stands before it, unless it lies
    inside another one that is.
    """
    check_width(width)
    own = _WORD + digest + width.to_bytes(2, "little")  # what the headers of the plan begin with
    at = stream.tell()
    end = stream.seek(0, SEEK_END)
    while at < end:
        packet = _packet(stream, at, end, own)
        if packet is None:
            yield from _amid_damage(stream, at, end, own)
            return
        yield packet
        at += packet.size


def _amid_damage(stream: BinaryIO, at: int, end: int, own: bytes) -> Iterator[Packet]:
    """What is whole, and what is lost before, between and behind it."""
    for start in _whole(stream, at, end, own):
        yield from _lost(stream, at, start)
        packet = _packet(stream, start, end, own)
        if packet is None:  # the file changed while it was read
            at = start
            break
        yield packet
        at = start + packet.size
    yield from _lost(stream, at, end)


def _packet(stream: BinaryIO, at: int, end: int, own: bytes) -> Packet | None:
    """The packet of this plan that begins here, if it is whole."""
    stream.seek(at)
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size or not head.startswith(own):
        return None
    _, _, digest, width, count, checksum = HEADER.unpack(head)
    size = width * count
    if size > min(LARGEST, end - at - HEADER.size):
        return None
    body = _read(stream, size)
    if len(body) < size or zlib.crc32(body) != checksum:
        return None
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


# ---------------------------------------------------------------------- what is lost


def _lost(stream: BinaryIO, at: int, until: int) -> Iterator[Packet]:
    """Foreign packets and damage, in a stretch that holds no whole packet of this plan.

    Only their numbers are told, and none of them has more reports than the stretch has room for.
    """
    while at < until:
        stream.seek(at)
        lost = _claim(stream.read(min(HEADER.size, until - at)), until - at)
        yield lost
        if lost.width:
            at += lost.size
        else:  # its length is not to be believed: the next one is looked for
            beyond = HEADER.size if lost.digest else 1
            at = _next_word(stream, at + beyond, until)


def _claim(head: bytes, room: int) -> Packet:
    """What a header says, as far as that can be."""
    if len(head) < HEADER.size or not head.startswith(_WORD):
        return Packet(b"", 0, 1, None)
    _, _, digest, width, count, _ = HEADER.unpack(head)
    if width == 0 or width * count > min(LARGEST, room - HEADER.size):
        return Packet(digest, 0, 1, None)
    return Packet(digest, width, count, None)


def _next_word(stream: BinaryIO, start: int, until: int) -> int:
    """Where the next header may begin; `until` if nowhere."""
    stream.seek(start)
    at, tail, size = start, b"", _FIRST_LOOK
    while at < until and (piece := stream.read(min(size, until - at))):
        text = tail + piece
        found = text.find(_WORD)
        if found >= 0:
            return at - len(tail) + found
        at, size = at + len(piece), min(2 * size, _PIECE)  # what is near is found at once
        tail = text[-(len(_WORD) - 1) :]
    return until


# ---------------------------------------------------------------------- what is whole


def _whole(stream: BinaryIO, begin: int, end: int, own: bytes) -> Iterator[int]:
    """Where the whole packets of this plan begin, none inside another."""
    starts, sizes, sums = _headers(stream, begin, end, own)
    bodies = starts + HEADER.size
    places, where = np.unique(np.concatenate([bodies, bodies + sizes]), return_inverse=True)
    before, after = np.split(_sums_up_to(stream, begin, places)[where], 2)
    # CRC(ab) = CRC(a), taken through as many zeros as b has bytes, plus CRC(b).
    fine = after == _through_zeros(before, sizes) ^ sums
    free = begin
    for start, size in zip(starts[fine].tolist(), sizes[fine].tolist(), strict=True):
        if start >= free:
            yield start
            free = start + HEADER.size + size


def _headers(
    stream: BinaryIO, begin: int, end: int, own: bytes
) -> tuple[IntArray, IntArray, Registers]:
    """Headers of this plan whose bodies fit: where they begin, sizes of bodies, checksums."""
    found = []
    for at, text in _overlapping(stream, begin):
        place = text.find(own)
        while 0 <= place <= len(text) - HEADER.size:
            *_, width, count, checksum = HEADER.unpack_from(text, place)
            size = width * count
            if size <= min(LARGEST, end - at - place - HEADER.size):
                found.append((at + place, size, checksum))
            place = text.find(own, place + 1)
    columns = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2].astype(np.uint32)


def _overlapping(stream: BinaryIO, at: int) -> Iterator[tuple[int, bytes]]:
    """The stream in pieces, each with its place, so that every header is whole in one of them."""
    stream.seek(at)
    tail = b""
    while piece := stream.read(_PIECE):
        text = tail + piece
        yield at - len(tail), text
        at, tail = at + len(piece), text[-(HEADER.size - 1) :]


def _sums_up_to(stream: BinaryIO, begin: int, places: IntArray) -> Registers:
    """CRC-32 of all bytes up to each place; places ascend."""
    stream.seek(begin)
    at, running, sums = begin, 0, []
    for place in places.tolist():
        while at < place and (piece := stream.read(min(place - at, _PIECE))):
            running, at = zlib.crc32(piece, running), at + len(piece)
        sums.append(running)
    return np.array(sums, dtype=np.uint32)


def _through_zeros(registers: Registers, counts: IntArray) -> Registers:
    """CRC-32 registers after so many zero bytes each: a linear map over bits, by squaring."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    images = bits  # of the single bits, under one zero byte; then under two, four, …
    for _ in range(8):
        images = (images >> np.uint32(1)) ^ np.where(images & 1, np.uint32(_POLYNOMIAL), 0)
    while counts.any():
        registers = np.where(counts & 1, _mapped(images, registers), registers)
        images, counts = _mapped(images, images), counts >> 1
    return registers


def _mapped(images: Registers, registers: Registers) -> Registers:
    """Registers under the linear map that takes bit i to the i-th image."""
    result = np.zeros_like(registers)
    for i, image in enumerate(images):
        result ^= np.where(registers >> np.uint32(i) & 1, image, np.uint32(0))
    return result
