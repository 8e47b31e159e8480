"""Aggregators on disk: everything answers need, in one file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noiseplan.arrays import Arrays, IntArray
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.local.device.counting_randomizers import SplitRandomizer
from noiseplan.local.device.integer_chances import WHOLE
from noiseplan.local.device.randomizer import MAGIC, Randomizer
from noiseplan.local.device.randomizer_file import NONSENSE, randomizer_from_bytes
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.local.strategy_integers import strategy_behind
from noiseplan.local.user_types import LARGEST_SQUARE, Types
from noiseplan.matrices.base import Array
from noiseplan.paths import checked_path, to_disk
from noiseplan.storage.files import canonical, hash_of, read_arrays, write_arrays

FORMAT = "noiseplan local aggregator 1"
HASH = "sha256"  # of everything else in the file


class Kept(NamedTuple):
    """What an aggregator is made of."""

    randomizer: Randomizer
    reconstruction: Reconstruction
    tally: IntArray
    users: int
    rejected: Counter[str]
    brand: str


def write_aggregator(aggregator: Kept, path: str | Path) -> Path:
    """Write beside the old file, then put in its place: a crash leaves one of the two whole."""
    path = checked_path(path, StorageError)
    tables = aggregator.reconstruction.parts
    facts = {
        "format": FORMAT,
        "plan": aggregator.randomizer.hash,
        "users": aggregator.users,
        "rejected": dict(aggregator.rejected),
        "brand": aggregator.brand,
        "tables": [{"epsilon": t.strategy.epsilon, "rows": t.types.rows} for t in tables],
    }
    arrays: Arrays = {
        "facts": np.frombuffer(canonical(facts).encode(), np.uint8),
        "randomizer": np.frombuffer(aggregator.randomizer.to_bytes(), np.uint8),
        "tally": aggregator.tally,
    }
    for j, table in enumerate(tables):
        arrays[f"gram_{j}"] = table.types.gram
        if isinstance(table.strategy, TableStrategy):
            arrays[f"prior_{j}"] = table.strategy.prior
    arrays[HASH] = np.frombuffer(bytes.fromhex(hash_of({}, arrays)), np.uint8)
    beside = path.with_name(path.name + ".new")
    write_arrays(beside, arrays)
    to_disk(beside)
    beside.replace(path)
    to_disk(path.parent)
    return path


def read_aggregator(path: str | Path) -> Kept:
    """What `write_aggregator` wrote, checked; the plan is not needed."""
    file = checked_path(path, StorageError)
    try:
        with file.open("rb") as opened:
            head = opened.read(4)
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be read: {error}") from None
    if head != b"PK\x03\x04":
        hint = "; load_randomizer reads randomizers" if head == MAGIC else ""
        raise StorageError(f"{file.name} is no aggregator's file, or damaged{hint}")
    arrays = read_arrays(file)
    try:
        kept = arrays.pop(HASH).tobytes().hex()
        if kept != hash_of({}, arrays):
            raise StorageError(f"{file.name} is damaged: its hash does not fit what it holds")
        facts: dict[str, Any] = json.loads(arrays["facts"].tobytes())
        if facts["format"] != FORMAT:
            raise StorageError(f"{file.name} has the format {facts['format']!r}, not {FORMAT!r}")
        return _rebuilt(facts, arrays)
    except NONSENSE as error:
        if isinstance(error, NoiseplanError):
            raise
        raise StorageError(f"{file.name} is no aggregator's file, or damaged: {error}") from None


def _rebuilt(facts: dict[str, Any], arrays: Arrays) -> Kept:
    randomizer = randomizer_from_bytes(arrays["randomizer"].tobytes())
    if randomizer.hash != facts["plan"]:
        raise StorageError("the reports in the file are of another plan than its randomizer's")
    devices: tuple[Randomizer, ...] = (randomizer,)
    shares, split = [1.0], isinstance(randomizer, SplitRandomizer)
    if isinstance(randomizer, SplitRandomizer):
        devices, shares = randomizer.tables, (randomizer.shares / WHOLE).tolist()
    parts = [
        Part(*_table(device, about, arrays[f"gram_{j}"], arrays.get(f"prior_{j}")), share)
        for j, (device, about, share) in enumerate(
            zip(devices, facts["tables"], shares, strict=True)
        )
    ]
    made = Reconstruction(tuple(parts), split)
    tally = arrays["tally"].astype(np.int64)
    if tally.shape != made.tally_shape:
        raise StorageError(f"reports are counted in shape {tally.shape}, not {made.tally_shape}")
    users = int(facts["users"])
    if users < 0 or (randomizer.kind != "sums" and (tally < 0).any()):
        raise StorageError("reports are counted by numbers of at least 0")
    rejected = Counter({str(why): int(count) for why, count in facts["rejected"].items()})
    return Kept(randomizer, made, tally, users, rejected, str(facts["brand"]))


def _table(
    device: Randomizer, about: dict[str, Any], gram: Array, prior: Array | None
) -> tuple[Types, Strategy]:
    _check_floats("gram", gram, (device.types, device.types))
    if prior is not None:
        _check_floats("prior", prior, (device.types,))
        if (prior <= 0).any() or abs(prior.sum() - 1) > 1e-6:
            raise StorageError("prior should be shares of all types that add up to 1")
    kind = np.arange(device.types) if device.cells is None else device.cells
    types = Types(device.schema, kind, gram, float(about["rows"]))
    return types, strategy_behind(device, float(about["epsilon"]), prior)


def _check_floats(name: str, found: Array, shape: tuple[int, ...]) -> None:
    fits = found.shape == shape and found.dtype.kind == "f"
    if not fits or not np.abs(found).max() <= LARGEST_SQUARE:
        raise StorageError(f"{name} should be moderate numbers of shape {shape}")
