"""Files of plans and of collected reports: what answers need, complete, and checked when read.

A file is a ZIP of arrays, which NumPy reads: JSON under "facts", the device's file under
"randomizer", for each table its Gram matrix and the prior of its reconstruction, the workload, and
the hash of all of that. It says everything, so that nothing need be planned a second time: two
machines may well find two plans that are equally good, and reports of one are foreign to the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from noiseplan.arrays import Arrays, Json, beginning_with
from noiseplan.errors import NoiseplanError, PlanError, StorageError, remedy
from noiseplan.local.device.counting_randomizers import (
    ShiftRandomizer,
    SplitRandomizer,
    SubsetRandomizer,
    TableRandomizer,
)
from noiseplan.local.device.integer_chances import WHOLE
from noiseplan.local.device.noisy_sums import SumRandomizer
from noiseplan.local.device.randomizer import MAGIC, Randomizer
from noiseplan.local.device.randomizer_file import NONSENSE, randomizer_from_bytes
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.strategies.additive import AdditiveStrategy
from noiseplan.local.strategies.shifts import Group, ShiftStrategy
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.local.strategies.subsets import SubsetStrategy
from noiseplan.local.user_types import LARGEST_SQUARE, Types
from noiseplan.matrices.base import Array
from noiseplan.paths import checked_path, to_disk
from noiseplan.queries import Workload
from noiseplan.queries.workload_files import read_workload, write_workload
from noiseplan.storage.files import canonical, hash_of, read_arrays, write_arrays

HASH = "sha256"  # of everything else in the file
Made = TypeVar("Made")
ZIP = b"PK\x03\x04"


@dataclass(frozen=True, eq=False)
class Answering:
    """What devices draw from, how reports are answered, and what was asked."""

    randomizer: Randomizer
    reconstruction: Reconstruction
    workload: Workload | None
    """None in files that were written before they kept it."""

    def parts(self) -> tuple[Json, Arrays]:
        """As JSON and arrays."""
        tables = self.reconstruction.parts
        facts: Json = {
            "plan": self.randomizer.hash,
            "tables": [{"epsilon": t.strategy.epsilon, "rows": t.types.rows} for t in tables],
        }
        arrays: Arrays = {"randomizer": np.frombuffer(self.randomizer.to_bytes(), np.uint8)}
        first: dict[int, int] = {}  # the first of equal tables, which share what they know
        alike = [first.setdefault(id(table.known), j) for j, table in enumerate(tables)]
        for j in sorted(set(alike)):
            arrays[f"gram_{j}"] = tables[j].types.gram
            strategy = tables[j].strategy
            if isinstance(strategy, TableStrategy):
                arrays[f"prior_{j}"] = strategy.prior
        if len(first) < len(tables):
            facts["alike"] = alike
        if self.workload is not None:
            facts["names"] = [table.strategy.name for table in tables]
            facts["workload"], asked = write_workload(self.workload)
            arrays |= {f"workload_{name}": array for name, array in asked.items()}
        return facts, arrays

    @classmethod
    def of(cls, facts: Json, arrays: Arrays) -> Answering:
        """Undo `parts`; nothing is taken on trust."""
        randomizer = randomizer_from_bytes(arrays["randomizer"].tobytes())
        if randomizer.hash != facts["plan"]:
            raise StorageError("the file is of another plan than its randomizer")
        tables: tuple[Randomizer, ...] = (randomizer,)
        shares, split = [1.0], isinstance(randomizer, SplitRandomizer)
        if isinstance(randomizer, SplitRandomizer):
            tables, shares = randomizer.tables, (randomizer.shares / WHOLE).tolist()
        names = facts.get("names", [table.kind for table in tables])
        alike = facts.get("alike", range(len(tables)))
        parts: list[Part] = []
        for j, (about, name, i) in enumerate(zip(facts["tables"], names, alike, strict=True)):
            if i == j:
                parts.append(_part(about | {"name": name}, tables[j], shares[j], arrays, j))
            else:
                parts.append(_like(parts[i], tables[i], tables[j], shares[j]))
        workload = _workload(facts, arrays, randomizer)
        return cls(randomizer, Reconstruction(tuple(parts), split), workload)


def _part(about: Json, table: Randomizer, share: float, arrays: Arrays, number: int) -> Part:
    """One table, from its integers, Gram matrix and prior."""
    gram, prior = arrays[f"gram_{number}"], arrays.get(f"prior_{number}")
    check_floats("gram", gram, (table.types, table.types))
    if prior is not None:
        check_shares("prior", prior, table.types)
    kind = np.arange(table.types) if table.cells is None else table.cells
    types = Types(table.schema, kind, gram, float(about["rows"]))
    return Part(types, _behind(table, about, prior), share)


def _like(other: Part, theirs: Randomizer, table: Randomizer, share: float) -> Part:
    """A table that differs from another one in the names of its attributes alone."""
    if theirs.chances_hash != table.chances_hash or table.schema.shape != theirs.schema.shape:
        raise StorageError("tables that should be alike draw from different chances")
    return replace(other, types=replace(other.types, schema=table.schema), share=share)


def _behind(device: Randomizer, about: Json, prior: Array | None) -> Strategy:
    """The chances that a randomizer's integers stand for."""
    epsilon, name = stated_epsilon(about, device), str(about["name"])
    if isinstance(device, TableRandomizer):
        return TableStrategy.of(device.table / WHOLE, epsilon, prior, name)
    if isinstance(device, ShiftRandomizer):
        shares = device.shares / WHOLE
        return ShiftStrategy(Group(device.shape), device.patterns, shares, epsilon, name)
    if isinstance(device, SubsetRandomizer):
        sizes = tuple(device.sizes.tolist())
        return SubsetStrategy(device.count, epsilon, sizes, device.shares / WHOLE, name)
    if isinstance(device, SumRandomizer):
        law = device.law, epsilon, device.delta, name
        return AdditiveStrategy(device.rows, device.scale, *law)
    raise PlanError(f"no strategy is known behind {type(device).__name__}")


def stated_epsilon(about: Json, device: Randomizer) -> float:
    """What a file says that a report costs; refused below what the device's integers cost."""
    stated = float(about["epsilon"])
    if not stated >= device.epsilon:
        raise StorageError(f"the file states ε = {stated!r}, and its devices have more")
    return stated


def _workload(facts: Json, arrays: Arrays, randomizer: Randomizer) -> Workload | None:
    """What was asked, about attributes as the devices know them."""
    if "workload" not in facts:
        return None
    numbers = sum(array.size for array in arrays.values())
    workload = read_workload(facts["workload"], beginning_with("workload_", arrays), numbers)
    for name in randomizer.schema.names:
        if name not in workload.schema or workload.schema[name] != randomizer.schema[name]:
            raise StorageError(f"{name!r} has other values in the workload than on devices")
    return workload


def check_floats(name: str, found: Array, shape: tuple[int, ...]) -> None:
    """Refuse what are no moderate numbers of this shape."""
    fits = found.shape == shape and found.dtype.kind == "f"
    if not fits or not np.abs(found).max() <= LARGEST_SQUARE:
        raise StorageError(f"{name} should be moderate numbers of shape {shape}")


def check_shares(name: str, found: Array, types: int) -> None:
    """Refuse what are no shares of all types."""
    check_floats(name, found, (types,))
    if (found <= 0).any() or abs(found.sum() - 1) > 1e-6:
        raise StorageError(f"{name} should be shares of all types that add up to 1")


# ---------------------------------------------------------------------- the files themselves


def write_whole(path: str | Path, facts: Json, arrays: Arrays) -> Path:
    """Write a file in one step: a crash leaves the old one whole."""
    path = checked_path(path, StorageError)
    held: Arrays = {"facts": np.frombuffer(canonical(facts).encode(), np.uint8)} | arrays
    held[HASH] = np.frombuffer(bytes.fromhex(hash_of({}, held)), np.uint8)
    beside = path.with_name(path.name + ".new")
    try:
        write_arrays(beside, held)
        to_disk(beside)
        beside.replace(path)
        to_disk(path.parent)
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be written: {error}") from None
    return path


def read_whole(
    path: str | Path, kind: str, formats: tuple[str, ...], make: Callable[[Json, Arrays], Made]
) -> Made:
    """What `make` makes of the facts and arrays of a file; what makes no sense is damage."""
    file = checked_path(path, StorageError)
    _check_head(file, kind)
    arrays = read_arrays(file)
    kept = arrays.pop(HASH, np.empty(0, np.uint8))
    if kept.tobytes().hex() != hash_of({}, arrays):
        raise StorageError(f"{file.name} is damaged: its hash does not fit what it holds")
    try:
        facts: Json = json.loads(arrays["facts"].tobytes())
        if facts["format"] not in formats:
            raise StorageError(
                f"{file.name} has the format {facts['format']!r}, not {formats[0]!r}"
            )
        return make(facts, arrays)
    except NONSENSE as error:
        if isinstance(error, NoiseplanError):
            raise
        raise StorageError(f"{file.name} is no {kind}'s file, or damaged: {error}") from None


def _check_head(file: Path, kind: str) -> None:
    try:
        with file.open("rb") as opened:
            head = opened.read(4)
    except OSError as error:
        raise StorageError(f"{str(file)!r} cannot be read: {error.strerror}") from None
    if head != ZIP:
        said = f"{file.name} is no {kind}'s file, or damaged"
        device = remedy("read randomizer", "load_randomizer reads randomizers")
        raise StorageError(said + "; " + device if head == MAGIC else said)
