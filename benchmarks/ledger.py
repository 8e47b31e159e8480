"""The ledger under stress: many processes at once, processes killed at any point, long histories.

The tests run the same experiments at a smaller size.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final, Literal, get_args

from benchmarks.tables import Claim, Table, brief
from benchmarks.timing import cpu_seconds
from noiseplan.ledger import BudgetExceeded, Ledger
from noiseplan.privacy import Guarantee, zCDP

PROCESSES, EACH, KILLS = 8, 200, 200
COST: Final = Guarantee(2.0**-10, law="zcdp")
DATASET: Final = "people"
REHEARSAL: Final = "rehearsal"
# Where a file costs no disk: for long histories that are made only to be read.
MEMORY: Final = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
Costs = Literal["equal", "mixed"]


def tables(quick: bool) -> Iterator[Table]:
    """Crowds, kills, speed."""
    yield crowds(PROCESSES, EACH // 10 if quick else EACH)
    yield kills(KILLS // 10 if quick else KILLS)
    yield speed(200, 2000 if quick else 20_000)


# ---------------------------------------------------------------------- many processes at once


@dataclass(frozen=True)
class Crowd:
    """What processes that charged one dataset at the same time were told, and what is on file."""

    granted: list[int]
    refused: list[float]
    recorded: list[int]
    spent: Fraction
    limit: Fraction
    room: float
    seconds: float

    @property
    def overspent(self) -> Fraction:
        return max(self.spent - self.limit, Fraction(0))

    @property
    def lost(self) -> int:
        """Charges that were granted and are not on file, or granted twice under one number."""
        return len(self.granted) - len(set(self.granted) & set(self.recorded))

    @property
    def unaccounted(self) -> int:
        """Charges on file that nobody was granted."""
        return len(set(self.recorded) - set(self.granted))

    @property
    def wrongly_refused(self) -> int:
        """Refusals of what would still fit in the end: what is left only ever shrinks."""
        return sum(cost <= self.room for cost in self.refused)


def crowd(
    processes: int,
    each: int,
    admitted: int,
    costs: Costs = "equal",
    start: Literal["spawn", "fork"] = "spawn",
    folder: Path | None = None,
) -> Crowd:
    """Let `processes` × `each` charges meet a budget for about `admitted` of them."""
    context = multiprocessing.get_context(start)
    with temporary_ledger(admitted, folder) as ledger:
        together, told = context.Barrier(processes), context.Queue()
        workers = [
            context.Process(target=_charge, args=(ledger.path, each, costs, seed, together, told))
            for seed in range(processes)
        ]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        answers = [told.get(timeout=600) for _ in workers]
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - started
        ledger.verify()
        balance, entries = ledger.balance(DATASET), ledger.entries(DATASET)
        return Crowd(
            [number for granted, _ in answers for number in granted],
            [cost for _, refused in answers for cost in refused],
            [entry.id for entry in entries],
            sum((Fraction(entry.guarantee.pcost) for entry in entries), Fraction(0)),
            Fraction(2 * zCDP(_budget(admitted)).rho),
            balance.room,
            seconds,
        )


def _charge(
    path: Path, each: int, costs: str, seed: int, together: Barrier, told: Queue[object]
) -> None:
    draw = random.Random(seed)
    ledger = Ledger(path)
    granted, refused = [], []
    together.wait()
    for _ in range(each):
        cost = COST.pcost * (1.0 if costs == "equal" else draw.uniform(0.5, 1.5))
        try:
            with ledger.charge(DATASET, Guarantee(cost, law="zcdp")) as entry:
                granted.append(entry.id)
        except BudgetExceeded:
            refused.append(cost)
    told.put((granted, refused))


def crowds(processes: int, each: int) -> Table:
    """Budgets that admit fewer than are asked for."""
    asked = processes * each
    rows, met = [], True
    admitted = asked * 5 // 8
    for costs in get_args(Costs):
        found = crowd(processes, each, admitted, costs)
        counts = found.lost, found.unaccounted, found.wrongly_refused
        exact = costs == "mixed" or len(found.granted) == admitted
        fine = found.overspent == 0 and not any(counts) and exact
        met = met and fine
        figures = admitted, len(found.granted), len(found.refused), brief(float(found.overspent))
        cells = map(str, (*figures, *counts, brief(found.seconds)))
        rows.append((f"{asked:,} of {costs} cost", *cells, fine))
    return Table(
        title=f"Ledger: {processes} processes × {each} charges",
        sentence=(
            "Every process charges the same dataset as fast as it can, and writes down what it "
            "was granted. Then the file is verified and compared with what they wrote down."
        ),
        source="the budget and exact rational sums.",
        columns=(
            "asked | budget for | granted | refused | overspent | lost | unaccounted | "
            "wrongly refused | seconds | verdict"
        ),
        rows=tuple(rows),
        claims=(Claim("never overspent, none lost, none refused without need", met),),
    )


# ---------------------------------------------------------------------- killed at any point


@dataclass(frozen=True)
class Kills:
    """What processes told before they were killed, and what is on file."""

    times: int
    told: int
    recorded: int
    missing: int
    broken: int
    in_transaction: int


def kill(times: int, folder: Path | None = None) -> Kills:
    """Charge in a child process, kill it within the next few charges, and look."""
    told: list[int] = []
    broken = in_transaction = 0
    with temporary_ledger(10**6, folder) as ledger:
        longest = 4 * _wall_seconds(ledger, 5)
        journal = ledger.path.with_name(f"{ledger.path.name}-journal")
        for _ in range(times):
            told += _killed_child(ledger.path, random.uniform(0, longest))
            in_transaction += journal.exists()
            try:
                Ledger(ledger.path).verify()
            except Exception as error:  # whatever it is, the file could not be used again
                print(error, flush=True)
                broken += 1
        recorded = {entry.id for entry in ledger.entries()}
        recorded -= {entry.id for entry in ledger.entries() if entry.purpose == REHEARSAL}
    missing = len(set(told) - recorded)
    return Kills(times, len(told), len(recorded), missing, broken, in_transaction)


def _killed_child(path: Path, delay: float) -> list[int]:
    """The numbers that a child told, each from inside its charge, until it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):  # nothing of the parent's may run on here
            os.close(reading)
            ledger = Ledger(path)
            while True:
                with ledger.charge(DATASET, COST) as entry:
                    os.write(writing, b"%d\n" % entry.id)
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        first = pipe.readline()  # it is charging now
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return [int(line) for line in (first + pipe.read()).split()]


def kills(times: int) -> Table:
    """Processes killed with signal 9."""
    found = kill(times)
    fine = found.missing == 0 and found.broken == 0
    row = (found.times, found.in_transaction, found.told, found.recorded)
    rest = (found.missing, found.broken)
    return Table(
        title=f"Ledger: kill −9, {times} times",
        sentence=(
            "A child process charges in a loop and tells the number of each charge from inside "
            "its block, where noise would be drawn. After a random while it is killed. Then the "
            "file is opened and verified, and every number told must be on file."
        ),
        source="what the children told before they died.",
        columns="kills | amid a write | told | on file | under-counted | file broken | verdict",
        rows=((*map(str, (*row, *rest)), fine),),
        claims=(
            Claim("the file verifies every time and never under-counts", fine),
            Claim("some kills hit a write", found.in_transaction > 0),
        ),
    )


# ---------------------------------------------------------------------- long histories


def speed(charges: int, long: int) -> Table:
    """What a charge costs on this disk, and what a long history costs to open."""
    with temporary_ledger(10**6) as ledger:
        cpu, _ = cpu_seconds(lambda: _wall_seconds(ledger, charges), 1)
        wall = _wall_seconds(ledger, charges)
    with temporary_ledger(10**6, MEMORY) as ledger:
        _wall_seconds(ledger, long)
        opening, _ = cpu_seconds(lambda: Ledger(ledger.path))
        looking, _ = cpu_seconds(lambda: ledger.balance(DATASET))
        size = ledger.path.stat().st_size
    rows = (
        ("a charge, CPU ms", brief(1e3 * cpu / charges)),
        ("a charge, wall ms, most of it the disk's", brief(1e3 * wall)),
        (f"opening and checking {long:,} charges, CPU s", brief(opening)),
        ("a balance, once open, CPU ms", brief(1e3 * looking)),
        ("bytes per charge", brief(size / long)),
    )
    return Table(
        title="Ledger: speed",
        sentence="Each charge is a transaction of its own, on disk before the call returns.",
        source="nothing: for orientation.",
        columns="what | measured",
        rows=rows,
        claims=(Claim(f"a history of {long:,} opens within 5 CPU s: {opening:.2f}", opening < 5),),
    )


def _wall_seconds(ledger: Ledger, charges: int) -> float:
    """Seconds of one charge, by the clock."""
    started = time.perf_counter()
    for _ in range(charges):
        ledger.spend(DATASET, COST, purpose=REHEARSAL)
    return (time.perf_counter() - started) / charges


@contextmanager
def temporary_ledger(admitted: int, folder: Path | None = None) -> Iterator[Ledger]:
    """A ledger with a budget for so many charges of `COST`."""
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        ledger = Ledger(Path(inner) / "stress.ledger", create=True)
        ledger.open_dataset(DATASET, zCDP(_budget(admitted)))
        yield ledger


def _budget(admitted: int) -> float:
    return admitted * COST.rho  # exact: a small integer times a power of two
