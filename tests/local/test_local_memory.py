"""One report per value and per user, whoever asks and from wherever; files that are no plan."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
from local_oracles import one

import noiseplan as nz
from noiseplan.local.device.counting_randomizers import (
    ShiftRandomizer,
    SplitRandomizer,
    TableRandomizer,
)
from noiseplan.local.device.integer_chances import WHOLE, high_chance
from noiseplan.local.device.noisy_sums import SumRandomizer
from noiseplan.local.device.randomizer import (
    LENGTHS,
    MAGIC,
    VERSION,
    Randomizer,
)
from noiseplan.local.device.randomizer_file import randomizer_from_bytes
from noiseplan.local.device.wire import ReportError
from noiseplan.noise import SeededSource

SCHEMA = nz.Schema.from_sizes({"v": 3})
TWO = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60]], dtype=np.int64)


@pytest.fixture(scope="module")
def randomizer() -> Randomizer:
    """Over 64 values two independent draws are almost never the same."""
    made = nz.local.plan(one(64, nz.Prefix()), 0.5, mechanism="randomized response")
    return made.randomizer()


# ------------------------------------------------------------------------------ memory


def test_two_memories_of_one_file_give_one_report(randomizer: Randomizer, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    first, second = nz.local.Memory(randomizer, path), nz.local.Memory(randomizer, path)
    for value in range(10):
        assert first.report(value, source=SeededSource(value)) == second.report(value)
        assert second.report(value + 20) == first.report(value + 20)
    for memory in (first, second, nz.local.Memory(randomizer, path)):
        assert memory.spent == pytest.approx(20 * randomizer.epsilon)
        assert memory.spent >= 20 * randomizer.epsilon


@pytest.mark.parametrize("on_disk", [True, False])
def test_threads_get_one_report_per_value(
    randomizer: Randomizer, tmp_path: Path, on_disk: bool
) -> None:
    path = tmp_path / "memory.json" if on_disk else None
    shared = nz.local.Memory(randomizer, path)
    found: list[list[bytes]] = [[] for _ in range(6)]
    start = Barrier(6)

    def ask(worker: int) -> None:
        mine = nz.local.Memory(randomizer, path) if on_disk and worker % 2 else shared
        start.wait()
        found[worker] = [mine.report(value) for value in range(12)]

    threads = [Thread(target=ask, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(reports == found[0] for reports in found)
    assert len(found[0]) == 12
    assert shared.spent == pytest.approx(12 * randomizer.epsilon)


def test_programs_get_one_report_per_value(randomizer: Randomizer, tmp_path: Path) -> None:
    plan, path = randomizer.save(tmp_path / "plan"), tmp_path / "memory.json"
    code = (
        "import sys, noiseplan as nz\n"
        "memory = nz.local.Memory(nz.local.load_randomizer(sys.argv[1]), sys.argv[2])\n"
        "print([memory.report(value).hex() for value in range(30)])"
    )
    command = [sys.executable, "-c", code, str(plan), str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in running]
    assert said[0] == said[1] != ""
    assert nz.local.Memory(randomizer, path).spent == pytest.approx(30 * randomizer.epsilon)


FORKED = """
import json, os, sys
import noiseplan as nz
from noiseplan.errors import NoiseplanError

def said(ask):
    try:
        return ask()
    except NoiseplanError as error:
        return str(error)

device = nz.local.load_randomizer(sys.argv[1])
alone, kept = nz.local.Memory(device), nz.local.Memory(device, sys.argv[2])
first = alone.report(1)
kept._turn.acquire()  # as if another thread were drawing
if os.fork():
    os.wait()
    kept._turn.release()
    print(json.dumps([kept.report(7).hex(), alone.report(1) == first, alone.spent]))
else:
    asks = lambda: kept.report(7).hex(), lambda: alone.report(1), lambda: alone.spent
    print(json.dumps([said(ask) for ask in asks]), flush=True)
"""


def test_a_forked_process_draws_no_report_of_its_own(
    randomizer: Randomizer, tmp_path: Path
) -> None:
    plan, path = randomizer.save(tmp_path / "plan"), tmp_path / "memory.json"
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(plan), str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    child, parent = map(json.loads, told.splitlines())
    assert child[0] == parent[0]
    for refusal in child[1:]:
        assert "belongs to the process that made it" in refusal
        assert "Memory(randomizer, path)" in refusal
    assert parent[1:] == [True, randomizer.epsilon]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))]
)
def test_copies_share_the_file_or_are_refused(
    randomizer: Randomizer, tmp_path: Path, copied: Callable[[Any], Any]
) -> None:
    with pytest.raises(ReportError, match=r"cannot be copied or pickled.*Memory"):
        copied(nz.local.Memory(randomizer))
    kept = nz.local.Memory(randomizer, tmp_path / "memory.json")
    again = copied(kept)
    for value in range(10):
        assert again.report(value) == kept.report(value)


def test_a_memory_stays_with_its_file_when_the_program_moves(
    randomizer: Randomizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    kept = nz.local.Memory(randomizer, "memory.json")
    monkeypatch.chdir(tmp_path / "elsewhere")
    first = [kept.report(value) for value in range(10)]
    again = nz.local.Memory(randomizer, tmp_path / "memory.json")
    assert [again.report(value) for value in range(10)] == first


def test_files_that_cannot_be_used_are_named(randomizer: Randomizer, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="folder that is not there"):
        nz.local.Memory(randomizer, tmp_path / "nowhere" / "memory.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReportError, match="cannot be read or written"):
        nz.local.Memory(randomizer, tmp_path / "folder")
    (tmp_path / "memory.json.lock").mkdir()
    memory = nz.local.Memory(randomizer, tmp_path / "memory.json")
    with pytest.raises(ReportError, match="nothing was reported"):
        memory.report(3)
    assert memory.spent == 0
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(ReportError, match="no remembered reports"):
        nz.local.Memory(randomizer, deep)


def test_the_file_is_the_users_alone(randomizer: Randomizer, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.with_name("memory.json.new").write_text("left by a crash")
    nz.local.Memory(randomizer, path).report(1)
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.with_name("memory.json.new").exists()


def test_what_is_remembered_is_checked(randomizer: Randomizer, tmp_path: Path) -> None:
    good = randomizer.report(5).hex()
    payload = randomizer.payload_bytes
    wrong: list[Any] = [
        {"5": "00"},
        {"5": good + "00"},
        {"5": ("00" * 4) + good[8:]},
        {"5": good[:8] + "ff" * payload},
        {"64": good},
        {"-1": good},
        [],
    ]
    path = tmp_path / "memory.json"
    for reports in wrong:
        path.write_text(json.dumps({"plan": randomizer.hash, "reports": reports}))
        with pytest.raises(ReportError, match=r"memory\.json"):
            nz.local.Memory(randomizer, path)
    path.write_text(json.dumps({"plan": randomizer.hash, "reports": {"5": good}}))
    assert nz.local.Memory(randomizer, path).report(5).hex() == good


def test_delta_is_counted_too() -> None:
    made = nz.local.plan(one(4, nz.Prefix()), 1.0, mechanism="matrix l2", delta=1e-5).randomizer()
    assert "δ = 1e-05" in repr(made)
    memory = nz.local.Memory(made)
    assert memory.delta == 0.0
    for value in range(3):
        memory.report(value)
    assert Fraction(memory.delta) >= 3 * Fraction(1e-5)
    assert memory.delta == pytest.approx(3e-5)


# ------------------------------------------------------------------------------ one value


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        (nz.Categorical(["x", "y"]), ["x", "y"]),
        (nz.Ordinal(range(3)), [1, 2]),
        (nz.Binned([0, 1, 2]), [0.5, 1.5]),
    ],
)
def test_several_values_are_no_report(attribute: nz.Attribute, values: list[Any]) -> None:
    made = nz.local.plan(nz.Query(nz.Schema({"v": attribute}), ["v"]), 1.0).randomizer()
    several = [values, tuple(values), np.array(values), np.array(values[:1]), [values]]
    for value in [*several, *({"v": value} for value in several)]:
        with pytest.raises(ReportError, match="one value of 'v'"):
            made.report(value)
        with pytest.raises(ReportError, match="one value of 'v'"):
            nz.local.Memory(made).report(value)
    with pytest.raises(ReportError, match="one value of 'v'"):
        made.reports([values, values])
    with pytest.raises(ReportError, match="one value of 'v'"):
        made.reports(values[0])
    assert len(made.report(values[0])) == made.report_bytes
    assert len(made.report({"v": np.asarray(values)[0]})) == made.report_bytes


def test_several_rows_are_no_report() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    for mechanism in ("auto", "split"):
        made = nz.local.plan(nz.Query(schema, ["a", "b"]), 1.0, mechanism=mechanism).randomizer()
        with pytest.raises(ReportError, match="one value of 'a'"):
            made.report({"a": [0, 1], "b": [1, 2]})


# ------------------------------------------------------------------------------ forged files


def test_cells_must_have_types() -> None:
    wrong: list[Any] = [None, [0, 1, -1], [0, 1, 5], [0, 1], [[0, 1, 1]], [0.0, 1.0, 1.0]]
    for cells in wrong:
        with pytest.raises(ReportError, match="type"):
            TableRandomizer(SCHEMA, None if cells is None else np.array(cells), TWO)
    made = TableRandomizer(SCHEMA, np.array([0, 1, 1]), TWO)
    assert randomizer_from_bytes(made.to_bytes()).epsilon == made.epsilon
    for types in ([-1], [2], [0, 7]):
        with pytest.raises((ReportError, IndexError)):
            made.draw(np.array(types), SeededSource(0))


def test_tables_of_a_split_have_its_attributes() -> None:
    all_ = np.array([WHOLE])
    for inner in ({"w": 2}, {"v": 2}):
        table = TableRandomizer(nz.Schema.from_sizes(inner), None, TWO)
        with pytest.raises(ReportError, match="other values than the whole"):
            SplitRandomizer(SCHEMA, None, (table,), all_)
    table = TableRandomizer(nz.Schema.from_sizes({"v": 2}), None, TWO)
    with pytest.raises(ReportError, match="types of a split"):
        SplitRandomizer(table.schema, np.array([0, 1]), (table,), all_)


@pytest.mark.parametrize("shape", [(-2, -3), (6, 1.0), (6, True), (0,), (5,)])
def test_shapes_of_patterns_are_sizes(shape: tuple[Any, ...]) -> None:
    schema = nz.Schema.from_sizes({"v": 6})
    pattern = np.array([[True, *[False] * 5]])
    high = np.array([high_chance(1, 6, 1.0)])
    assert ShiftRandomizer(schema, None, (2, 3), pattern, np.array([WHOLE]), high).epsilon <= 1.0
    with pytest.raises(ReportError):
        ShiftRandomizer(schema, None, shape, pattern, np.array([WHOLE]), high)


@pytest.mark.parametrize(
    ("law", "delta"),
    [("gaussian", d) for d in (0.0, 1.0, 2.0, -1.0, float("nan"))] + [("laplace", 0.5)],
)
def test_delta_is_a_chance(law: str, delta: float) -> None:
    rows = np.array([[100, 0, 50]])
    with pytest.raises(ReportError, match="delta"):
        SumRandomizer(SCHEMA, None, rows, law, Fraction(100), delta)


def test_rows_of_sums_are_moderate_integers() -> None:
    for rows in ([[2**62, 0, 0]], [[-(2**63), 0, 0]], [1, 2, 3], [[0.5, 1, 2]], np.zeros((0, 3))):
        with pytest.raises(ReportError):
            SumRandomizer(SCHEMA, None, np.array(rows), "laplace", Fraction(100), 0.0)


def test_facts_that_make_no_sense_are_refused() -> None:
    def forged(change: Callable[[dict[str, Any]], Any]) -> bytes:
        content = made._content
        (size,) = struct.unpack_from("<I", content)
        head = json.loads(content[4 : 4 + size])
        text = json.dumps(change(head) or head, sort_keys=True).encode()
        content = struct.pack("<I", len(text)) + text + content[4 + size :]
        body = zlib.compress(content)
        return LENGTHS.pack(MAGIC, VERSION, len(body)) + body + hashlib.sha256(content).digest()

    made = SumRandomizer(SCHEMA, None, np.array([[9, 0, 5]]), "laplace", Fraction(10), 0.0)
    assert randomizer_from_bytes(forged(lambda head: None)).epsilon == made.epsilon
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda head: head["facts"].update(scale=["1", "0"]),
        lambda head: head["facts"].update(delta=0.5),
        lambda head: head["facts"].update(law=["laplace"]),
        lambda head: head.update(schema="v"),
        lambda head: head.update(schema=[1]),
        lambda head: head.update(facts=None),
        lambda head: [head],
        lambda head: head.update(arrays=[["rows", "<i8", [-1, 3]]]),
        lambda head: head.update(arrays=[["rows", "<i8", [1, 1]]]),
        lambda head: head.update(schema=nz.Schema.from_sizes({"v": 4}).to_dict()),
    ]
    for change in changes:
        with pytest.raises(ReportError):
            randomizer_from_bytes(forged(change))


def test_the_least_integer_is_no_report() -> None:
    plan = nz.local.plan(one(6, nz.Prefix()), 1.0, mechanism="matrix l1")
    aggregator = plan.aggregator()
    least = np.full((1, *aggregator.tally.shape), np.iinfo(np.int64).min)
    assert aggregator.add_many(least) == 0
    assert not aggregator.tally.any()
    assert aggregator.rejected["malformed"] == 1


def test_names_of_one_file_give_one_report(tmp_path: Path) -> None:
    """A link is followed; a second name of a file would part from the first when it is written."""
    schema = nz.Schema.from_sizes({"a": 64})
    device = nz.local.plan(nz.Query(schema, ["a"]), epsilon=0.5).randomizer()
    first = nz.local.Memory(device, tmp_path / "m.json")
    report = first.report(7)
    (tmp_path / "link.json").symlink_to(tmp_path / "m.json")
    second = nz.local.Memory(device, tmp_path / "link.json")
    assert (second.report(7), second.report(8)) == (report, first.report(8))
    assert (tmp_path / "link.json").is_symlink()
    (tmp_path / "hard.json").hardlink_to(tmp_path / "m.json")
    with pytest.raises(ReportError, match="several names"):
        nz.local.Memory(device, tmp_path / "hard.json")
