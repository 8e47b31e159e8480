"""Packets amid damage: what is whole is found, and reading costs as much as there is to read."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.device.wire import HEADER, ReportError, to_packet
from noiseplan.local.server import packets
from noiseplan.local.server.packets import packets_of

DIGEST, WIDTH = bytes(range(32)), 2


class Watched(io.BytesIO):
    """A stream that counts what is read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.taken += len(piece)
        return piece


def header(count: int, checksum: int = 7, digest: bytes = DIGEST, width: int = WIDTH) -> bytes:
    return struct.pack("<4sB32sHQI", b"NZRP", 1, digest, width, count, checksum)


def nested(length: int, width: int = WIDTH, digest: bytes = DIGEST, ragged: int = 0) -> bytes:
    """Headers without bodies, each of which promises all that follows, or nearly."""
    heads = length // HEADER.size
    left = [(heads - i - 1) * HEADER.size - i * ragged for i in range(heads)]
    return b"".join(header(max(n, 0) // width, 7, digest, width) for n in left)


ADVERSARIAL = {
    "nested": nested(1 << 16),
    "nested, ends apart": nested(1 << 16, ragged=2),
    "half of it each": header(1 << 14) * ((1 << 16) // HEADER.size),
    "empty ones": header(0) * ((1 << 16) // HEADER.size),
    "empty ones that are whole": header(0, 0) * ((1 << 16) // HEADER.size),
    "of another plan": nested(1 << 16, digest=bytes(32)),
    "of another width": nested(1 << 16, width=3),
    "first words": b"NZRP" * (1 << 14),
    "words and versions": b"NZRP\x01" * (1 << 14),
    "beginnings": (b"NZRP\x01" + DIGEST + b"\x02\x00") * 1600,
    "nothing": bytes(1 << 16),
    "one that fails late": header(1 << 15) + bytes(1 << 16),
}


@pytest.mark.parametrize("stream", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_work_is_a_few_times_the_length(stream: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []

    class Counting:
        @staticmethod
        def crc32(data: bytes, start: int = 0) -> int:
            hashed.append(len(data))
            return zlib.crc32(data, start)

    monkeypatch.setattr(packets, "zlib", Counting)
    watched = Watched(stream)
    found = list(packets_of(watched, DIGEST, WIDTH))
    assert watched.taken <= 6 * len(stream)
    assert sum(hashed) <= 3 * len(stream)
    assert len(found) <= len(stream) // 5 + 1
    # Nor are more reports said to be lost than there is room for.
    assert sum(packet.count for packet in found) <= len(stream)


def piece_of_a_stream(rng: random.Random) -> bytes:
    good = to_packet(
        np.frombuffer(rng.randbytes(2 * rng.randrange(9)), np.uint8).reshape(-1, 2), DIGEST
    )
    kinds = [
        good,
        good,
        good[: rng.randrange(len(good) + 1)],
        header(rng.randrange(60)),
        header(rng.randrange(60), digest=bytes(32)),
        rng.randbytes(rng.randrange(20)),
        b"NZRP\x01" + DIGEST[: rng.randrange(33)],
        to_packet(np.frombuffer(good + b"." * (len(good) % 2), np.uint8).reshape(-1, 2), DIGEST),
    ]
    piece = bytearray(rng.choice(kinds))
    if piece and rng.random() < 0.2:
        piece[rng.randrange(len(piece))] ^= 1 << rng.randrange(8)
    return bytes(piece)


def whole_by_trying(stream: bytes) -> list[bytes]:
    """The payloads of whole packets: every place is tried, whatever that costs."""
    found, at = [], 0
    while at <= len(stream) - HEADER.size:
        magic, version, digest, width, count, checksum = HEADER.unpack_from(stream, at)
        body = stream[at + HEADER.size :][: width * count]
        own = (magic, version, digest, width) == (b"NZRP", 1, DIGEST, WIDTH)
        if own and len(body) == width * count and zlib.crc32(body) == checksum:
            found.append(body)
            at += HEADER.size + len(body)
        else:
            at += 1
    return found


@examples(300)
@given(st.integers(0, 10**9))
def test_all_that_is_whole_is_found(seed: int) -> None:
    rng = random.Random(seed)
    stream = b"".join(piece_of_a_stream(rng) for _ in range(rng.randrange(1, 9)))
    found = packets_of(io.BytesIO(stream), DIGEST, WIDTH)
    good = [packet.payloads.tobytes() for packet in found if packet.payloads is not None]
    assert good == whole_by_trying(stream)


def test_what_is_whole_is_found_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "_PIECE", 64)  # smaller than a packet, larger than a header
    for seed in range(100):
        rng = random.Random(seed)
        stream = b"".join(piece_of_a_stream(rng) for _ in range(8))
        found = packets_of(io.BytesIO(stream), DIGEST, WIDTH)
        good = [packet.payloads.tobytes() for packet in found if packet.payloads is not None]
        assert good == whole_by_trying(stream)


@pytest.fixture(scope="module")
def plan() -> nz.local.LocalPlan:
    schema = nz.Schema.from_sizes({"a": 4})
    return nz.local.plan(nz.Query(schema, ["a"]), epsilon=1.0)


def test_one_sender_cannot_hide_the_reports_of_others(
    plan: nz.local.LocalPlan, tmp_path: Path
) -> None:
    device = plan.randomizer()
    width = device.payload_bytes
    honest = device.packet(device.reports(np.zeros(500, dtype=int)))
    for hostile in (nested(1 << 14, width, device.digest), header(1, 0, device.digest, width)):
        path = tmp_path / "reports"
        path.write_bytes(honest + hostile + honest)
        for made in (plan.aggregator(), plan.aggregator()):
            assert made.read(path) == 1000
            assert made.users == 1000
            assert made.rejected.total() <= len(hostile)


def test_streams_and_files_are_read_alike(plan: nz.local.LocalPlan, tmp_path: Path) -> None:
    device = plan.randomizer()
    honest = device.packet(device.reports(np.zeros(50, dtype=int)))
    content = honest + nested(1 << 12, device.payload_bytes, device.digest) + honest[:-1] + honest
    path = tmp_path / "reports"
    path.write_bytes(content)

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    states = []
    for source in (path, io.BytesIO(content), Pipe(content)):
        made = plan.aggregator()
        assert made.read(source) == 100
        states.append((made.tally.tolist(), made.users, made.rejected))
    assert states[0] == states[1] == states[2]


def test_small_packets_are_counted_together(
    plan: nz.local.LocalPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tally has as many numbers as there are reports: it is not made for every packet."""
    device = plan.randomizer()
    reports = device.reports(np.arange(3000) % 4)
    one_each = b"".join(device.packet(reports[i : i + 1]) for i in range(3000))
    singles = [device.tag + payload.tobytes() for payload in device.pack(reports)]
    tallied: Counter[str] = Counter()
    tally = type(device).tally

    def counting(self: Randomizer, given: Any) -> Any:
        tallied["calls"] += 1
        return tally(self, given)

    first, second = plan.aggregator(), plan.aggregator()
    monkeypatch.setattr(type(device), "tally", counting)
    assert first.add_packet(one_each) == 3000
    assert second.add_many(singles) == 3000
    for made in (first, second):
        assert (made.tally == tally(device, reports)).all()
    assert tallied["calls"] <= 2


def test_pieces_that_fill_up_are_all_counted(
    plan: nz.local.LocalPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noiseplan.local.server import aggregator

    monkeypatch.setattr(aggregator, "COUNTED_AT_ONCE", 7)
    monkeypatch.setattr(aggregator, "PIECES_AT_ONCE", 3)
    device = plan.randomizer()
    reports = device.reports(np.arange(100) % 4)
    made = plan.aggregator()
    sizes = [0, 1, 2, 30, 1, 1, 1, 20]
    ends = np.cumsum(sizes)
    stream = b"".join(device.packet(reports[e - n : e]) for n, e in zip(sizes, ends, strict=True))
    assert made.add_packet(stream) == ends[-1]
    assert (made.tally == device.tally(reports[: ends[-1]])).all()


def test_payloads_too_long_for_packets_are_named() -> None:
    with pytest.raises(ReportError, match="one by one"):
        to_packet(np.zeros((1, 1 << 16), np.uint8), DIGEST)
    with pytest.raises(ReportError, match="one by one"):
        list(packets_of(io.BytesIO(b"x"), DIGEST, 1 << 16))
