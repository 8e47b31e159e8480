"""Files that were damaged or made to do harm: folders, randomizers, packets, memories, ledgers.

Good files are mutilated at random, with their checksums made to fit again more often than not, and
read. Each is refused in words or read; reading ends soon and takes little memory. The tests run the
same experiment at a smaller size.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import random
import shutil
import signal
import struct
import tempfile
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import noiseplan as nz
from benchmarks.tables import Cell, Claim, Table, brief
from noiseplan.ledger import Ledger
from noiseplan.local.device.randomizer import MAGIC, VERSION
from noiseplan.privacy import Guarantee
from noiseplan.storage.files import hash_of, read_arrays, read_json, write_arrays
from noiseplan.storage.plans import defining_hash

SECONDS: Final = 5.0  # of CPU, after which reading one file is taken to hang
MEMORY: Final = 128 << 20  # bytes; the files are a few kilobytes long
HOSTILE: Final[tuple[Any, ...]] = (
    0, -1, 1, 2**31, 2**63, 10**30, -(10**12), 10**9, 1 << 20, 1e308, 1e-308, "", "x", None, True,
    [], {}, [[]], [0] * 3, "inf", "nan", "1e400", {"float": "nan"}, {"date": "9999-99-99"},
    "\x1b[2J", "9" * 5000,
)  # fmt: skip


@dataclass
class Outcome:
    """What came of reading mutilated files of one kind."""

    tried: int = 0
    refused: int = 0
    unchanged: int = 0
    otherwise: int = 0
    raw: int = 0
    hangs: int = 0
    peak: int = 0
    worst: str = ""

    @property
    def met(self) -> bool:
        """Whether everything was refused in words or read, soon and in little memory."""
        return not self.raw and not self.hangs and self.peak <= MEMORY


@dataclass(frozen=True)
class Kind:
    """How good files of one kind are made, mutilated and read."""

    make: Callable[[Path], None]
    mutilate: Callable[[random.Random, Path], None]
    read: Callable[[Path], Any]


def attacks(cases: int, seed: int = 1) -> Table:
    """So many mutilated files of every kind."""
    found = {name: campaign(name, seed, cases) for name in KINDS}
    rows: list[tuple[Cell, ...]] = [
        (
            name, f"{o.tried:,}", f"{o.refused:,}", f"{o.unchanged:,}", f"{o.otherwise:,}",
            str(o.raw), str(o.hangs), brief(o.peak / (1 << 20)), o.met,
        )
        for name, o in found.items()
    ]  # fmt: skip
    tried = sum(o.tried for o in found.values())
    raw, hangs = (sum(getattr(o, name) for o in found.values()) for name in ("raw", "hangs"))
    peak = max(o.peak for o in found.values())
    return Table(
        title="Files that were damaged or made to do harm",
        sentence=(
            "Good files of a few kilobytes, mutilated at random (bits, lengths, JSON, arrays, "
            "headers that promise too much), with checksums made to fit again more often than not, "
            "and read. «Otherwise» is what says something else and is well formed: hashes tell "
            "damage, not forgery. «Raw» are exceptions without words of ours, «hangs» more than "
            f"{SECONDS:g} CPU seconds; memory is the largest of one reading, in MiB."
        ),
        source="the files themselves, before they were mutilated.",
        columns="kind | tried | refused in words | unchanged | otherwise | raw | hangs | MiB | met",
        rows=tuple(rows),
        claims=(
            Claim(f"no raw exceptions in {tried:,} readings: {raw}", raw == 0),
            Claim(f"no hangs: {hangs}", hangs == 0),
            Claim(f"at most {MEMORY >> 20} MiB: {peak / (1 << 20):.0f} MiB", peak <= MEMORY),
        ),
    )


def campaign(
    name: str, seed: int, cases: int | None = None, seconds: float | None = None
) -> Outcome:
    """Mutilate and read files of one kind, so many or for so long; the same for the same seed."""
    kind, rng, outcome = KINDS[name], random.Random(f"{name} {seed}"), Outcome()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as parent, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good, copy = Path(parent, "good"), Path(parent, "copy")
        good.mkdir()
        kind.make(good)
        before = kind.read(good)
        while outcome.tried < (math.inf if cases is None else cases):
            if seconds is not None and time.perf_counter() - started > seconds:
                break
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(good, copy)
            kind.mutilate(rng, copy)
            _read_one(kind, copy, before, outcome)
    return outcome


class _Hung(BaseException):
    """Reading takes too long."""


def _read_one(kind: Kind, folder: Path, before: Any, outcome: Outcome) -> None:
    outcome.tried += 1
    tracemalloc.start()
    try:
        with _at_most(SECONDS):
            same = kind.read(folder) == before
        outcome.unchanged += same
        outcome.otherwise += not same
    except nz.errors.NoiseplanError:
        outcome.refused += 1
    except _Hung:
        outcome.hangs += 1
        outcome.worst = f"case {outcome.tried}: hangs"
    except BaseException as error:  # whatever it is: that it is not ours is what counts
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome.raw += 1
        outcome.worst = f"case {outcome.tried}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        outcome.peak = max(outcome.peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise `_Hung` after so many CPU seconds."""

    def stop(*_: object) -> None:
        raise _Hung

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# ---------------------------------------------------------------------- what is mutilated


def mutilated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bits turned, bytes lost, put in, doubled, or blanked."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, length = rng.randrange(len(changed) + 1), rng.choice([1, 4, 50, 500])
        match rng.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                del changed[at : at + length]
            case 3:
                changed[at:at] = rng.randbytes(length)
            case 4:
                changed[at:at] = changed[at : at + length] * rng.choice([1, 3])
            case _:
                changed[at : at + length] = bytes([rng.choice([0, 255])]) * length
    return bytes(changed)


def mutilated_json(rng: random.Random, content: Any) -> Any:
    """A value or two replaced by a hostile one, or left out."""
    content = deepcopy(content)
    for _ in range(rng.choice([1, 1, 2])):
        places = [(held, key) for held, key in _places(content)]
        if not places:
            break
        held, key = rng.choice(places)
        if rng.random() < 0.1:
            del held[key]
        else:
            held[key] = deepcopy(rng.choice(HOSTILE))
    return content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    keys = content if isinstance(content, dict) else range(len(content))
    for key in list(keys):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _places(content[key])


def mutilated_array(rng: random.Random, array: Any) -> Any:
    """Other numbers, another type, another shape."""
    array = np.array(array)
    match rng.randrange(6):
        case 0 if array.size:
            with np.errstate(all="ignore"):
                wild = rng.choice([0, -1, 2**31, 2**62, -(2**62), 1e300, -1e300, np.nan, np.inf])
                array.flat[rng.randrange(array.size)] = np.array(wild).astype(array.dtype)
        case 1:
            array = array.astype(rng.choice(["f4", "f8", "i8", "u1", "?", "S3"]))
        case 2:
            array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
        case 3:
            array = array.ravel() if array.ndim > 1 else array[None]
        case 4:
            array = np.concatenate([array, array]) if array.ndim else array
        case _:
            array = np.zeros(rng.choice([(0,), (), (1, 1, 1), (10**5,)]), array.dtype)
    return array


def mutilated_arrays(rng: random.Random, path: Path) -> None:
    """Arrays changed, lost or renamed, in a whole ZIP file or in one that lies."""
    arrays = read_arrays(path)
    name = rng.choice(sorted(arrays))
    match rng.randrange(4):
        case 0:
            del arrays[name]
        case 1:
            arrays[rng.choice(sorted(arrays))] = arrays[name]
        case _:
            arrays[name] = mutilated_array(rng, arrays[name])
    write_arrays(path, arrays)
    if rng.random() < 0.2:
        _lying_zip(rng, path)


def _lying_zip(rng: random.Random, path: Path) -> None:
    """A bomb of zeros, members that overlap, or a header that promises the world."""
    match rng.randrange(3):
        case 0:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("strategy.npy", bytes(1 << 24))
        case 1:
            data = path.read_bytes()
            end = data.rfind(b"PK\x05\x06")
            start = struct.unpack_from("<I", data, end + 16)[0]
            entries, count = data[start:end], struct.unpack_from("<H", data, end + 8)[0]
            again = b"".join(_renamed(entries, i) for i in range(500))
            tail = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 500 * count % 65536,
                               500 * count % 65536, len(again), start, 0)  # fmt: skip
            path.write_bytes(data[:start] + again + tail)
        case _:
            path.write_bytes(path.read_bytes().replace(b"'shape': (", b"'shape': (9", 1))


def _renamed(entries: bytes, number: int) -> bytes:
    """A directory of a ZIP file with other names for the same bytes."""
    return entries.replace(b".npy", b"%04d" % number)


# ---------------------------------------------------------------------- folders


SCHEMA: Final = nz.Schema(
    {
        "a": nz.Ordinal(range(5)),
        "b": nz.Categorical(["x", "y", "z"]),
        "c": nz.Binned([0, 1, 2]),
    }
)
LINE: Final = nz.Schema({"x": nz.Ordinal(range(64))})


def _workload() -> nz.Workload:
    return nz.Workload(
        [
            nz.Query(SCHEMA, {"a": nz.Prefix(), "b": nz.Identity()}, name="n"),
            nz.Query(SCHEMA, ["c"]),
            nz.Query(SCHEMA, {"a": nz.Levels(2)}),
        ]
    )


PLANS: Final[dict[str, Callable[[], Any]]] = {
    "residual": lambda: nz.plan(_workload(), budget=nz.zCDP(0.5), planner="residual"),
    "the default": lambda: nz.plan(_workload(), budget=nz.zCDP(0.5)),
    "Laplace tables": lambda: nz.plan(_workload(), budget=nz.PureDP(0.5)),
    "one matrix": lambda: nz.plan(_workload(), budget=nz.zCDP(0.5), planner="optimal"),
    "product": lambda: nz.plan(_workload(), budget=nz.zCDP(0.5), planner="wavelet", max_rows=2),
    "data-aware": lambda: nz.plan(
        nz.Workload([nz.Query(LINE, {"x": nz.Prefix()})]), budget=nz.PureDP(1.0), planner="dawa"
    ),
}


def _saved(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from noiseplan.counting import CountTensor

        plan = PLANS[name]()
        counts = CountTensor(plan.schema, np.ones(plan.schema.shape, dtype=np.int64))
        plan.release(counts, seed=1).save(folder / "out")

    return make


def _mutilate_folder(rng: random.Random, folder: Path) -> None:
    out = folder / "out"
    name = rng.choice(["plan.json"] * 3 + ["certificate.json", "plan.npz", "measurements.npz"])
    path = out / name
    if rng.random() < 0.2:
        path.write_bytes(mutilated_bytes(rng, path.read_bytes()))
    elif name.endswith(".json"):
        path.write_text(json.dumps(mutilated_json(rng, json.loads(path.read_text()))))
    else:
        mutilated_arrays(rng, path)
    if rng.random() < 0.8:
        signed_again(out)


def signed_again(out: Path) -> None:
    """Make all hashes fit again, where there is something to hash."""
    try:
        certificate = json.loads((out / "certificate.json").read_text())
        saved, arrays = read_json(out / "plan.json"), read_arrays(out / "plan.npz")
        aware = saved.pop("buckets", None) is not None
        certificate["plan_sha256"] = (hash_of if aware else defining_hash)(saved, arrays)
        (out / "certificate.json").write_text(json.dumps(certificate))
    except (nz.errors.NoiseplanError, ValueError, TypeError):
        pass
    names = [line.split("  ", 1)[1] for line in (out / "SHA256SUMS").read_text().splitlines()]
    sums = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (out / "SHA256SUMS").write_text("".join(sums))


def _read_folder(folder: Path) -> str:
    release = nz.load(folder / "out")
    return str(release) + "".join(str(release.answer(q)) for q in list(release.plan.workload)[:3])


# ---------------------------------------------------------------------- devices and their server


@cache
def _local_plans() -> tuple[Any, ...]:
    small = nz.Schema.from_sizes({"a": 6})
    table, wide = nz.Query(small, {"a": nz.Prefix()}), nz.Schema.from_sizes({"a": 6, "b": 3})
    ways: tuple[dict[str, Any], ...] = (
        {}, {"mechanism": "hadamard"}, {"mechanism": "subset selection"}, {"mechanism": "matrix l2"}
    )  # fmt: skip
    both = nz.Workload.marginals(wide, k=1)
    shifted = nz.local.plan(nz.Query(small, ["a"]), 1.0)
    split = nz.local.plan(both, 1.0, mechanism="split", cells=6)
    return (*(nz.local.plan(table, 1.0, **way) for way in ways), shifted, split)


def _make_randomizers(folder: Path) -> None:
    for i, plan in enumerate(_local_plans()):
        plan.randomizer().save(folder / f"{i}.randomizer")


def _mutilate_randomizers(rng: random.Random, folder: Path) -> None:
    chosen = rng.choice(sorted(folder.iterdir()))
    data = chosen.read_bytes()
    changed = mutilated_randomizer(rng, data) if rng.random() < 0.7 else mutilated_bytes(rng, data)
    chosen.write_bytes(changed)


def mutilated_randomizer(rng: random.Random, data: bytes) -> bytes:
    """Another head, other arrays or a bomb, with a hash that fits."""
    content = zlib.decompress(data[9:-32])
    (size,) = struct.unpack_from("<I", content)
    head, body = json.loads(content[4 : 4 + size]), content[4 + size :]
    match rng.randrange(5):
        case 0:
            body = mutilated_bytes(rng, body)
        case 1:
            body += bytes(rng.choice([1, 1 << 16, 1 << 24]))
        case 2:
            grown = rng.choice(head["arrays"])
            grown[2] = [rng.choice([10**3, 10**6, 10**9, 10**18])]
            body += bytes(1 << 20)
        case _:
            head = mutilated_json(rng, head)
    text = json.dumps(head, sort_keys=True).encode()
    content = struct.pack("<I", len(text)) + text + body
    packed = zlib.compress(content, 9)
    head_of_file = struct.pack("<4sBI", MAGIC, VERSION, len(packed))
    return head_of_file + packed + hashlib.sha256(content).digest()


def _read_randomizers(folder: Path) -> list[str]:
    """All of them, and what each reports: files that say what they are must also be of use."""
    made = [nz.local.load_randomizer(path) for path in sorted(folder.iterdir())]
    for device in made:
        device.reports({name: device.schema[name].labels[:1] for name in device.schema.names})
    return [device.hash for device in made]


def _make_packets(folder: Path) -> None:
    device = _local_plans()[0].randomizer()
    values = np.arange(600) % 6
    pieces = [device.packet(device.reports(values[i : i + 100])) for i in range(0, 600, 100)]
    (folder / "packets").write_bytes(b"".join(pieces))


def _mutilate_packets(rng: random.Random, folder: Path) -> None:
    path = folder / "packets"
    data = path.read_bytes()
    if rng.random() < 0.5:
        device = _local_plans()[0].randomizer()
        heads = [
            struct.pack("<4sB32sHQI", b"NZRP", 1, device.digest, device.payload_bytes,
                        rng.choice([0, 10, rng.randrange(10**4), 2**40, 2**63]), 7)
            for _ in range(rng.randrange(1, 300))
        ]  # fmt: skip
        at = rng.randrange(len(data) + 1)
        data = data[:at] + b"".join(heads) + data[at:]
    path.write_bytes(mutilated_bytes(rng, data))


def _read_packets(folder: Path) -> Any:
    made = _local_plans()[0].aggregator()
    read = made.read(folder / "packets")
    again = _local_plans()[0].aggregator()
    if again.read(io.BytesIO((folder / "packets").read_bytes())) != read or read > 10**6:
        raise AssertionError("the same packets were counted in two ways")
    return made.tally.tolist()


def _make_aggregator(folder: Path) -> None:
    for i, plan in enumerate(_local_plans()[:1] + _local_plans()[-1:]):
        made = plan.aggregator()
        names = plan.randomizer().schema.names
        made.add_many(plan.randomizer().reports({name: [0, 1, 2] for name in names}))
        made.save(folder / f"{i}.aggregator")


def _mutilate_aggregator(rng: random.Random, folder: Path) -> None:
    path = rng.choice(sorted(folder.iterdir()))
    if rng.random() < 0.3:
        path.write_bytes(mutilated_bytes(rng, path.read_bytes()))
        return
    arrays = read_arrays(path)
    facts = json.loads(arrays["facts"].tobytes())
    if rng.random() < 0.5:
        text = json.dumps(mutilated_json(rng, facts)).encode()
        arrays["facts"] = np.frombuffer(text, np.uint8)
    elif rng.random() < 0.3:
        file = mutilated_randomizer(rng, arrays["randomizer"].tobytes())
        arrays["randomizer"] = np.frombuffer(file, np.uint8)
    else:
        name = rng.choice(sorted(arrays))
        arrays[name] = mutilated_array(rng, arrays[name])
    arrays.pop("sha256", None)
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}
    numbers["sha256"] = np.frombuffer(bytes.fromhex(hash_of({}, numbers)), np.uint8)
    write_arrays(path, numbers)


def _read_aggregator(folder: Path) -> list[str]:
    asked = nz.Query(nz.Schema.from_sizes({"a": 6}), ["a"])
    found = [nz.local.load_aggregator(path) for path in sorted(folder.iterdir())]
    return [f"{made!r} {made.tally.tolist()}" for made in found] + [str(found[0].answer(asked))]


def _make_memory(folder: Path) -> None:
    memory = nz.local.Memory(_local_plans()[0].randomizer(), folder / "memory.json")
    for value in range(6):
        memory.report(value)


def _mutilate_memory(rng: random.Random, folder: Path) -> None:
    path = folder / "memory.json"
    if rng.random() < 0.4:
        path.write_bytes(mutilated_bytes(rng, path.read_bytes()))
    else:
        path.write_text(json.dumps(mutilated_json(rng, json.loads(path.read_text()))))


def _read_memory(folder: Path) -> Any:
    memory = nz.local.Memory(_local_plans()[0].randomizer(), folder / "memory.json")
    return memory.spent, [memory.report(value) for value in range(2)]


# ---------------------------------------------------------------------- ledgers


def _make_ledger(folder: Path) -> None:
    ledger = Ledger(folder / "ledger", create=True)
    ledger.open_dataset("people", budget=nz.zCDP(10.0))
    for _ in range(5):
        with ledger.charge("people", Guarantee(2.0**-10, law="zcdp")):
            pass


def _mutilate_ledger(rng: random.Random, folder: Path) -> None:
    path = rng.choice(sorted(p for p in folder.iterdir() if p.is_file()))
    path.write_bytes(mutilated_bytes(rng, path.read_bytes()))


def _read_ledger(folder: Path) -> str:
    ledger = Ledger(folder / "ledger")
    ledger.verify()
    return ledger.export() + str(ledger.balance("people"))


KINDS: Final[dict[str, Kind]] = {
    **{
        f"release folder, {name}": Kind(_saved(name), _mutilate_folder, _read_folder)
        for name in PLANS
    },
    "randomizer file": Kind(_make_randomizers, _mutilate_randomizers, _read_randomizers),
    "packets": Kind(_make_packets, _mutilate_packets, _read_packets),
    "aggregator file": Kind(_make_aggregator, _mutilate_aggregator, _read_aggregator),
    "memory file": Kind(_make_memory, _mutilate_memory, _read_memory),
    "ledger": Kind(_make_ledger, _mutilate_ledger, _read_ledger),
}
