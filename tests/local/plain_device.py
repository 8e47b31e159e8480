"""A device written from docs/local.md alone, with Python's standard library: the page's oracle.

It knows nothing of noiseplan. `random` is a function that gives so many random bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from datetime import date, timedelta
from itertools import accumulate
from math import prod
from typing import Any

Random = Callable[[int], bytes]


def read_file(data: bytes) -> dict[str, Any]:
    """What a device's file holds: kind, sizes of attributes, facts, arrays of whole numbers."""
    magic, version, length = struct.unpack_from("<4sBI", data)
    assert (magic, version) == (b"NZRD", 1)
    content, digest = zlib.decompress(data[9 : 9 + length]), data[9 + length :]
    assert hashlib.sha256(content).digest() == digest
    (size,) = struct.unpack_from("<I", content)
    head, at = json.loads(content[4 : 4 + size]), 4 + size
    arrays = {}
    for name, dtype, shape in head["arrays"]:
        count, width = prod(shape), int(dtype[2])
        form = f"<{count}{'q' if dtype == '<i8' else 'B'}"
        arrays[name] = list(struct.unpack_from(form, content, at))
        at += count * width
    attributes = {attribute["name"]: attribute for attribute in head["schema"]["attributes"]}
    return head | {"values": arrays, "digest": digest, "attributes": attributes, "data": data}


def report(file: dict[str, Any], codes: dict[str, int], random: Random) -> Any:
    """One report: the tag and the payload."""
    return file["digest"][:4] + draw(file, codes, random)


def code_of(attribute: dict[str, Any], value: Any) -> int | None:
    """The code of a value; None where it is refused. None, as a value, is a missing one."""
    if value is None and "missing" in attribute:
        return size_of(attribute) - 1
    if attribute["kind"] == "binned":
        return bin_of(attribute, value)
    known = labels_of(attribute)
    if value in known:
        return known.index(value)
    if attribute.get("clip") and value is not None and value > known[-1]:
        return len(known) - 1
    return None if attribute.get("other") is None else len(known)


def bin_of(attribute: dict[str, Any], value: Any) -> int | None:
    edges = [plain(edge) for edge in attribute["edges"]]
    if value is None or (not attribute["clip"] and not edges[0] <= value <= edges[-1]):
        return None
    return min(sum(edge <= value for edge in edges[1:]), len(edges) - 2)


def labels_of(attribute: dict[str, Any]) -> list[Any]:
    if "range" in attribute:
        return list(range(*attribute["range"]))
    if "evenly" in attribute:
        spaced = attribute["evenly"]
        step = timedelta(microseconds=spaced["step"])
        return [plain(spaced["first"]) + step * i for i in range(spaced["count"])]
    return [plain(value) for value in attribute["values"]]


def plain(label: Any) -> Any:
    """Days, and edges without an end, as Python has them."""
    if label in ("inf", "-inf"):
        return float(label)
    return date.fromisoformat(label["date"]) if isinstance(label, dict) else label


def size_of(attribute: dict[str, Any]) -> int:
    binned = attribute["kind"] == "binned"
    stated = len(attribute["edges"]) - 1 if binned else len(labels_of(attribute))
    return stated + (attribute.get("other") is not None) + ("missing" in attribute)


def draw(file: dict[str, Any], codes: dict[str, int], random: Random) -> Any:
    number, outputs = numbered(file, codes, random)
    if file["kind"] == "subsets":
        return number
    width = max(((max(outputs - 1, 1)).bit_length() + 7) // 8, 1)
    return number.to_bytes(width, "little")


def numbered(file: dict[str, Any], codes: dict[str, int], random: Random) -> Any:
    values = file["values"]
    if file["kind"] == "split":
        tables = [read_file(bytes(values[f"table_{j}"])) for j in range(file["facts"]["tables"])]
        chosen = first_above(values["shares"], word62(random))
        before = sum(outputs_of(table) for table in tables[:chosen])
        number, _ = numbered(tables[chosen], codes, random)
        return before + number, sum(map(outputs_of, tables))
    cell = 0
    for name, attribute in file["attributes"].items():
        cell = cell * size_of(attribute) + codes[name]
    kind = values["cells"][cell] if "cells" in values else cell
    draws = {"table": from_table, "shifts": from_shifts, "subsets": from_subsets}
    return draws[file["kind"]](file, kind, random), outputs_of(file)


def outputs_of(file: dict[str, Any]) -> int:
    values = file["values"]
    if file["kind"] == "table":
        columns = file["facts"]["types"]
        return len(values["table"]) // columns if "table" in values else len(values["low"])
    if file["kind"] == "shifts":
        return len(values["shares"]) * prod(file["facts"]["shape"])
    return 0


def from_table(file: dict[str, Any], kind: int, random: Random) -> int:
    values, columns = file["values"], file["facts"]["types"]
    if "table" in values:
        column = values["table"][kind::columns]
    else:
        high = bits(values["bits"], len(values["low"]) * columns)[kind::columns]
        pairs = zip(values["low"], values["high"], strict=True)
        column = [both[up] for both, up in zip(pairs, high, strict=True)]
        for place, entry in zip(values["places"], values["entries"], strict=True):
            if place % columns == kind:
                column[place // columns] = entry
    return first_above(column, word62(random))


def from_shifts(file: dict[str, Any], kind: int, random: Random) -> int:
    values, shape = file["values"], file["facts"]["shape"]
    n = prod(shape)
    pattern = first_above(values["shares"], word62(random))
    is_high = word62(random) < values["high"][pattern]
    ups = bits(values["bits"], n * len(values["shares"]))[pattern * n : (pattern + 1) * n]
    high, low = [p for p in range(n) if ups[p]], [p for p in range(n) if not ups[p]]
    # Both are drawn, whichever is used.
    one, other = below(random, max(len(high), 1)), below(random, max(len(low), 1))
    place = high[one] if is_high else low[other]
    shift = 0
    for u, p, size in zip(places(kind, shape), places(place, shape), shape, strict=True):
        shift = shift * size + (u - p) % size
    return pattern * n + shift


def from_subsets(file: dict[str, Any], kind: int, random: Random) -> bytes:
    values, n = file["values"], file["facts"]["count"]
    which = first_above(values["shares"], word62(random))
    size, inside = values["sizes"][which], word62(random) < values["high"][which]
    larger, smaller = nested(random, n - 1, size)
    held = [*(smaller if inside else larger), False]
    if n > 1:  # the last type stands at the place of the user's own
        held[n - 1] = held[min(kind, n - 2)]
    held[kind] = inside
    packed = bytearray((n + 7) // 8)
    for u, there in enumerate(held):
        packed[u // 8] |= there << (7 - u % 8)
    return bytes(packed)


def nested(random: Random, items: int, size: int) -> tuple[list[bool], list[bool]]:
    if size > items or not size:
        return [size > items] * items, [size > items] * items
    while True:
        keys = struct.unpack(f"<{items}H", random(2 * items))
        last = sorted(keys)[size - 1]
        larger, smaller = [k <= last for k in keys], [k < last for k in keys]
        if sum(larger) == size and sum(smaller) == size - 1:
            return larger, smaller


def word62(random: Random) -> int:
    return int.from_bytes(random(8), "little") >> 2


def below(random: Random, bound: int) -> int:
    while True:
        word = int.from_bytes(random(8), "little")
        if word - word % bound <= 2**64 - bound:
            return word % bound


def first_above(chances: list[int], word: int) -> int:
    return next(i for i, end in enumerate(accumulate(chances)) if word < end)


def bits(packed: list[int], count: int) -> list[int]:
    return [packed[i // 8] >> (7 - i % 8) & 1 for i in range(count)]


def places(number: int, shape: list[int]) -> list[int]:
    found = []
    for size in reversed(shape):
        number, place = divmod(number, size)
        found.append(place)
    return found[::-1]
