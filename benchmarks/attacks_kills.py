"""Releases killed at random points: what is left on the ledger, in the folder and on the disk."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

import noiseplan as nz
from benchmarks.tables import Claim, Table

STUDY: Final = """
[schema]
age = { ordinal = { from = 0, to = 9 } }
sex = { categorical = ["F", "M"] }
[[tables]]
up_to = 2
[budget]
zcdp = 0.001
[people]
person = "id"
max_rows = 2
[ledger]
file = "study.ledger"
dataset = "people"
"""
RECORDS: Final = 20_000
QUICK_TIMES: Final = 8  # killed in a quick run


@dataclass
class Kills:
    """What was found after releases were killed."""

    killed: int = 0
    finished: int = 0
    folders: int = 0
    entries: int = 0
    unrecorded: int = 0  # releases on disk that the ledger does not have
    broken: int = 0  # ledgers that cannot be read, or folders that are not whole
    left: int = 0  # temporary folders that are still there after one more release


def kill(times: int, seed: int) -> Kills:
    """Run the command line's release again and again, and kill it within the time it takes."""
    draw, found = random.Random(seed), Kills()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _prepare(folder, draw)
        took = min(_release(folder, warm, None) for warm in (-1, 0))
        for number in range(1, times + 1):
            delay = draw.uniform(0, 1.1 * took)
            if _release(folder, number, delay) < 0:
                found.killed += 1
            else:
                found.finished += 1
            _look(folder, number, found)
        _release(folder, times + 1, None)
        _look(folder, times + 1, found)
        found.left = len(list((folder / "temporary").iterdir()))
        found.entries = len(nz.Ledger(folder / "study.ledger").entries("people"))
    return found


def _prepare(folder: Path, draw: random.Random) -> None:
    (folder / "temporary").mkdir()
    (folder / "study.toml").write_text(STUDY)
    lines = [
        f"{draw.randrange(RECORDS // 3)},{draw.randrange(10)},{draw.choice('FM')}"
        for _ in range(RECORDS)
    ]
    (folder / "people.csv").write_text("id,age,sex\n" + "\n".join(lines) + "\n")
    ledger = nz.Ledger(folder / "study.ledger", create=True)
    ledger.open_dataset("people", nz.zCDP(1000.0))


def _release(folder: Path, number: int, delay: float | None) -> float:
    """Seconds it took; negative if it was killed first."""
    child = _processes().Process(target=_work, args=(folder, number))
    started = time.perf_counter()
    child.start()
    child.join(delay)
    if child.is_alive() and child.pid is not None:
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        return -1.0
    if delay is None and not (folder / f"out{number}").is_dir():
        raise RuntimeError("the release itself failed")
    return time.perf_counter() - started


@cache
def _processes() -> ForkServerContext:
    """Processes that have imported everything, and know nothing of this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["noiseplan.cli.release", __name__])
    return context


def _work(folder: Path, number: int) -> None:
    from noiseplan.cli import main

    os.chdir(folder)
    tempfile.tempdir = str(folder / "temporary")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    again = ["release", "study.toml", "people.csv", "--again", "-o", f"out{number}"]
    main(again, standalone_mode=False)


def _look(folder: Path, number: int, found: Kills) -> None:
    try:
        ledger = nz.Ledger(folder / "study.ledger")
        ledger.verify()
        recorded = {entry.id for entry in ledger.entries("people")}
    except nz.NoiseplanError as error:
        print(error, flush=True)
        found.broken += 1
        return
    out = folder / f"out{number}"
    if not out.exists() or not any(out.iterdir()):
        return
    found.folders += 1
    try:
        release = nz.load(out)
    except nz.NoiseplanError as error:
        print(error, flush=True)
        found.broken += 1
        return
    found.unrecorded += not any(f"entry {i} " in release.recorded for i in recorded)


def table(quick: bool, seed: int = 1, times: int = 200) -> Table:
    """Killed between the first byte read and the last one written."""
    found = kill(QUICK_TIMES if quick else times, seed)
    counts = (
        found.killed, found.finished, found.folders, found.entries,
        found.unrecorded, found.broken, found.left,
    )  # fmt: skip
    return Table(
        title="Releases killed at random points",
        sentence=(
            "The command line releases tables of a file of persons to a new folder, and is killed "
            "at a random moment (signal 9). Then the ledger is verified, and a folder that is "
            "there is loaded. After one more release nothing that the killed ones had among "
            "temporary files is left."
        ),
        source="what must hold: no folder without its entry, none that is half there.",
        columns="killed | finished | folders | entries | unrecorded | broken | left | verdict",
        rows=(
            (*map(str, counts), not (found.unrecorded or found.broken or found.left)),
        ),
        claims=(
            Claim("every folder is whole and on the ledger", not (found.unrecorded + found.broken)),
            Claim("no entry is missing", found.entries >= found.folders),
            Claim(f"temporary folders left behind: {found.left}", found.left == 0),
        ),
    )  # fmt: skip
