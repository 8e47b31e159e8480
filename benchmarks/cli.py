"""How long the command line takes from a cold start."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.tables import Table, all_rows, decimals
from noiseplan.data import cpssw8_path, example_study

# Command → seconds on the wall that it may take; None where nothing was promised.
COMMANDS: Final = {
    "noiseplan --help": None,
    "noiseplan plan wages.toml": 1.5,
    "noiseplan release wages.toml wages.parquet -o out": None,
    "noiseplan answer out age": None,
    "noiseplan report out": None,
    "noiseplan demo": 10.0,
}


def tables(quick: bool) -> Iterator[Table]:
    """One table."""
    runs = 2 if quick else 5
    rows = []
    for command, limit in COMMANDS.items():
        wall, cpu = best_of(command, runs)
        rows.append((
            f"`{command}`", decimals(wall, 2), decimals(cpu, 2), decimals(limit, 1),
            "–" if limit is None else decimals(wall / limit, 2), limit is None or wall < limit,
        ))  # fmt: skip
    yield Table(
        title="Cold starts",
        sentence=(
            "Seconds on the wall and of the processor, from starting the interpreter to the end of "
            "the command, on the demonstration's survey; the best of several."
        ),
        source="what a person at a terminal will wait for.",
        columns="command | wall | CPU | must show | ratio | verdict",
        rows=tuple(rows),
        claims=(all_rows("within the time allowed", rows),),
    )


def best_of(command: str, runs: int) -> tuple[float, float]:
    """Wall and CPU seconds of the fastest run, each in a fresh folder."""
    measured = [timed(command) for _ in range(runs)]
    return min(wall for wall, _ in measured), min(cpu for _, cpu in measured)


def timed(command: str) -> tuple[float, float]:
    """One run, in a folder with the study, its data and, where it is needed, a release."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "wages.toml").write_bytes(example_study("wages").read_bytes())
        (Path(folder) / "wages.parquet").symlink_to(cpssw8_path())
        if " out" in command and " -o " not in command:
            run("noiseplan release wages.toml wages.parquet -o out", folder)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        run(command, folder)
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def run(command: str, folder: str) -> None:
    """`noiseplan …` in this interpreter's environment."""
    arguments = [sys.executable, "-m", *command.split()]
    subprocess.run(arguments, cwd=folder, check=True, stdout=subprocess.DEVNULL)
