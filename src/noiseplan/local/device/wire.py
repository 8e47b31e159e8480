"""Reports as bytes: one by one with a tag, or many in a packet with the plan's whole hash.

A payload is as short as the number of possible reports allows. A single report is the first four
bytes of the plan's hash and the payload. A packet is

    "NZRP"  version (1)  hash (32)  width (2)  count (8)  CRC-32 (4)  payloads (count × width)

with little-endian numbers. Files may hold any number of packets one after the other.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import NoiseplanError, remedy

MAGIC = b"NZRP"
VERSION = 1
TAG_BYTES = 4
HEADER = struct.Struct("<4sB32sHQI")
# Bytes of payload in one packet; more is taken for damage.
LARGEST = 1 << 30
WIDEST = (1 << 16) - 1  # bytes of one payload, as a header can say it

Payloads = NDArray[np.uint8]


class ReportError(NoiseplanError, ValueError):
    """A report cannot be made, or is not one of the plan's."""


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
    check_width(payloads.shape[1])
    if payloads.nbytes > LARGEST:
        raise ReportError(f"a packet holds at most {LARGEST:,} bytes: write several")
    body = np.ascontiguousarray(payloads).tobytes()
    head = (MAGIC, VERSION, digest, payloads.shape[1], len(payloads), zlib.crc32(body))
    return HEADER.pack(*head) + body


def check_width(width: int) -> None:
    """Refuse payloads that are too long for packets."""
    if width > WIDEST:
        raise ReportError(
            f"packets hold payloads of at most {WIDEST:,} bytes, and these have {width:,}: send "
            f"reports one by one, "
            + remedy(
                "argument",
                "randomizer.report(value) and aggregator.add(report)",
                "noiseplan local randomize DEVICE NAME=VALUE",
            )
        )
