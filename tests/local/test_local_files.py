"""Files made to fill a device's memory or time: refused before anything is taken for them."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_oracles import one

import noiseplan as nz
from noiseplan.errors import StorageError
from noiseplan.local.device import noisy_sums
from noiseplan.local.device.randomizer import (
    MAGIC,
    VERSION,
    Room,
)
from noiseplan.local.device.randomizer_file import randomizer_from_bytes, read_randomizer
from noiseplan.local.device.wire import ReportError
from noiseplan.storage.files import hash_of, read_arrays, write_arrays

FEW = 8 << 20  # bytes


@contextmanager
def little_memory(limit: int = FEW) -> Iterator[None]:
    """What is done inside takes no more than so many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= limit
    finally:
        tracemalloc.stop()


def schema_of(cells: int) -> dict[str, Any]:
    return nz.Schema.from_sizes({"a": cells}).to_dict()


def file_of(
    kind: str,
    facts: dict[str, Any],
    arrays: dict[str, np.ndarray],
    cells: int = 2,
    promised: dict[str, list[int]] | None = None,
    behind: int = 0,
) -> bytes:
    """A randomizer's file with a right hash, whatever it says; zeros follow where asked for."""
    told = [[n, a.dtype.str, (promised or {}).get(n, list(a.shape))] for n, a in arrays.items()]
    head = {"kind": kind, "schema": schema_of(cells), "facts": facts, "arrays": told}
    text = json.dumps(head, sort_keys=True).encode()
    content = struct.pack("<I", len(text)) + text + b"".join(a.tobytes() for a in arrays.values())
    packer, hashed = zlib.compressobj(9), hashlib.sha256(content)
    packed = [packer.compress(content)]
    for _ in range(behind >> 20):
        packed.append(packer.compress(bytes(1 << 20)))
        hashed.update(bytes(1 << 20))
    body = b"".join([*packed, packer.flush()])
    return struct.pack("<4sBI", MAGIC, VERSION, len(body)) + body + hashed.digest()


LOW = np.array([1], dtype="<i8")
NONE = np.zeros(0, dtype="<i8")
BITS = np.zeros(1, dtype="|u1")
TABLE = {"low": LOW, "high": 2 * LOW, "bits": BITS, "places": NONE, "entries": NONE}
SHIFTS = {"bits": BITS, "shares": LOW << 62, "high": LOW}
HOSTILE = {
    "more types than bits": file_of("table", {"types": 10**8}, TABLE),
    "more types than cells": file_of("table", {"types": 8}, TABLE),
    "a negative number of types": file_of("table", {"types": -8}, TABLE),
    "a large domain": file_of("table", {"types": 10**8}, TABLE, cells=10**8),
    "cells that are not there": file_of(
        "table", {"types": 2}, TABLE | {"cells": NONE}, 2, {"cells": [10**9]}
    ),
    "an array as large as the memory": file_of(
        "table", {"types": 2}, TABLE, promised={"low": [10**12]}, behind=16 << 20
    ),
    "an array of many axes": file_of("table", {"types": 2}, TABLE, promised={"low": [1] * 99}),
    "an array of a huge size": file_of("table", {"types": 2}, TABLE, promised={"low": [10**400]}),
    "zeros behind the arrays": file_of("table", {"types": 2}, TABLE, behind=64 << 20),
    "patterns over a large group": file_of("shifts", {"shape": [10**4, 10**4]}, SHIFTS),
    "a group of many axes": file_of("shifts", {"shape": [2] * 10**5}, SHIFTS),
    "a group of huge axes": file_of("shifts", {"shape": [10**4000] * 60}, SHIFTS),
    "subsets of many": file_of(
        "subsets", {"count": 10**9}, {"sizes": LOW, "shares": LOW << 62, "high": LOW}
    ),
    "many tables": file_of("split", {"tables": 10**12}, {"shares": LOW << 62}),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_promises_are_compared_before_memory_is_taken(data: bytes) -> None:
    with little_memory(), pytest.raises(ReportError, match="the randomizer's file"):
        randomizer_from_bytes(data)


@pytest.mark.parametrize("whole", [True, False])
def test_a_table_is_in_memory_once(whole: bool) -> None:
    """A short file may stand for a large table; what is then refused was not copied before."""
    types, rows = 1024, 2048
    if whole:
        arrays = {"table": np.ones((rows, types), dtype="<i8")}
    else:
        bits = np.full(rows * types // 8, 0x55, dtype="|u1")
        low = np.ones(rows, dtype="<i8")
        arrays = TABLE | {"low": low, "high": 2 * low, "bits": bits}
    data = file_of("table", {"types": types}, arrays, cells=types)
    table = 8 * rows * types
    assert len(data) < table // 500
    with little_memory(int(1.4 * table)), pytest.raises(ReportError, match="add up to"):
        randomizer_from_bytes(data)


def test_content_without_a_head_is_not_unpacked() -> None:
    body = zlib.compress(bytes(64 << 20), 9)
    data = struct.pack("<4sBI", MAGIC, VERSION, len(body)) + body + bytes(32)
    with little_memory(), pytest.raises(ReportError, match="damaged"):
        randomizer_from_bytes(data)


def test_a_head_is_no_longer_than_files_have_them() -> None:
    text = b'"' + b" " * (64 << 20) + b'"'
    content = struct.pack("<I", len(text)) + text
    body = zlib.compress(content, 9)
    digest = hashlib.sha256(content).digest()
    data = struct.pack("<4sBI", MAGIC, VERSION, len(body)) + body + digest
    del text, content
    with little_memory(), pytest.raises(ReportError, match="the randomizer's file"):
        randomizer_from_bytes(data)


def test_splits_do_not_nest() -> None:
    """Files within files could grow a thousandfold at every level."""
    schema = nz.Schema.from_sizes({"a": 2, "b": 2})
    marginals = nz.Workload.marginals(schema, k=1)
    split = nz.local.plan(marginals, 1.0, mechanism="split", cells=2).randomizer()
    inner = split.to_bytes()
    assert randomizer_from_bytes(inner).digest == split.digest
    arrays = {"shares": LOW << 62, "table_0": np.frombuffer(inner, np.uint8)}
    with pytest.raises(ReportError, match="a split itself"):
        randomizer_from_bytes(file_of("split", {"tables": 1}, arrays))


def test_tables_of_a_split_share_its_room() -> None:
    schema = nz.Schema.from_sizes({"a": 6, "b": 6})
    marginals = nz.Workload([nz.Query(schema, {name: nz.Prefix()}) for name in schema.names])
    split = nz.local.plan(marginals, 1.0, mechanism="split", cells=6).randomizer()
    spent = []
    for device in (*split.tables, split):
        room = Room(0)
        read_randomizer(device.to_bytes(), room)
        spent.append(Room(0).left - room.left)
    assert min(spent) > 0
    assert spent[-1] > sum(spent[:-1])


def test_a_table_larger_than_any_plans_is_refused() -> None:
    rows = 1 << 16
    low = np.full(rows, 1 << 46, dtype="<i8")
    bits = np.zeros(rows * 4096 // 8, dtype="|u1")
    arrays = {"low": low, "high": low, "bits": bits, "places": NONE, "entries": NONE}
    big = file_of("table", {"types": 4096}, arrays, cells=4096)
    with little_memory(128 << 20), pytest.raises(ReportError, match="fill the memory"):
        randomizer_from_bytes(big)


def test_distances_of_large_numbers_are_not_looked_at_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types = 512
    rows = np.full((types, types), 1 << 60, dtype="<i8")
    facts = {"law": "laplace", "scale": ["1", "1"], "delta": 0.0}
    data = file_of("sums", facts, {"rows": rows}, cells=types)
    monkeypatch.setattr(
        noisy_sums, "largest_distance", lambda *_: pytest.fail("they were looked at")
    )
    with pytest.raises(ReportError, match="too many"):
        randomizer_from_bytes(data)


@pytest.mark.parametrize(
    "mechanism",
    ["auto", "randomized response", "hadamard", "subset selection", "matrix l1", "matrix l2"],
)
def test_files_of_larger_plans_are_still_read(mechanism: str) -> None:
    made = nz.local.plan(one(200, nz.Identity()), 1.0, mechanism=mechanism).randomizer()
    assert randomizer_from_bytes(made.to_bytes()).digest == made.digest


def test_the_largest_tables_are_still_read() -> None:
    """Randomized response over as many cells as a table may have: a file of a few kilobytes."""
    made = nz.local.plan(one(8, nz.Identity()), 1.0, mechanism="randomized response").randomizer()
    assert made.kind == "table"
    low, rest = 1 << 40, (1 << 62) - 4095 * (1 << 40)
    table = np.full((4096, 4096), low, dtype=np.int64)
    np.fill_diagonal(table, rest)
    large = type(made)(nz.Schema.from_sizes({"a": 4096}), None, table)
    data = large.to_bytes()
    assert len(data) < 20_000
    assert randomizer_from_bytes(data).digest == large.digest


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cannot be read"):
        nz.local.load_randomizer(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="cannot be read"):
        nz.local.load_aggregator(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("gram_0", np.ones((7, 3)), "shape"),
        ("gram_0", np.full((4, 4), np.inf), "moderate"),
        ("prior_0", np.ones((7, 3)), "shape"),
        ("prior_0", np.array([0.0, 0.5, 0.25, 0.25]), "shares"),
        ("prior_0", np.full(4, 1e300), "moderate"),
        ("tally", np.ones((7, 3)), "shape"),
        ("tally", np.array([-1, 0, 0, 0]), "at least 0"),
    ],
)
def test_arrays_of_an_aggregator_are_those_of_a_plan(
    name: str, array: np.ndarray, said: str, tmp_path: Path
) -> None:
    plan = nz.local.plan(one(4, nz.Prefix()), 1.0, mechanism="randomized response")
    path = plan.aggregator().save(tmp_path / "state")
    arrays = read_arrays(path)
    del arrays["sha256"]
    arrays[name] = array
    arrays["sha256"] = np.frombuffer(bytes.fromhex(hash_of({}, arrays)), np.uint8)
    write_arrays(path, arrays)
    with pytest.raises(StorageError, match=said):
        nz.local.load_aggregator(path)


def test_a_table_has_no_more_numbers_than_its_cells_explain() -> None:
    """A megabyte of zeros, packed, would be a gigabyte of a table over three cells."""
    arrays = {"low": np.zeros(1 << 23, dtype="<i8")}
    big = file_of("table", {"types": 3}, arrays, cells=3)
    assert len(big) < 1 << 20
    with little_memory(32 << 20), pytest.raises(ReportError, match="fill the memory"):
        randomizer_from_bytes(big)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_paths_that_no_system_has_are_refused_in_words(path: str) -> None:
    plan = nz.local.plan(one(3, nz.Identity()), 1.0)
    with pytest.raises(ReportError, match="no path"):
        plan.randomizer().save(path)
    with pytest.raises(ReportError, match="no path"):
        nz.local.load_randomizer(path)
    with pytest.raises(ReportError, match="no path"):
        nz.local.Memory(plan.randomizer(), path)
    with pytest.raises(StorageError, match="no path"):
        plan.aggregator().save(path)
    with pytest.raises(StorageError, match="no path"):
        nz.local.load_aggregator(path)
