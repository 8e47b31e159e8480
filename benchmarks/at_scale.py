"""Releasing all tables of at most three of d attributes: counting, noise, putting together, memory.

Every d runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import noiseplan as nz
from benchmarks import published
from benchmarks.domains import BUDGET, synth
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds, in_own_process, peak_bytes
from noiseplan.counting import Projectable, open_source
from noiseplan.noise import SimulationSampler

SIZE: Final = 10
RECORDS: Final = 10_000
COUNTS: Final = (20, 50, 100)
LARGEST: Final = 100
NOISE_LIMIT: Final = 3.0
CELLS_PER_SECOND: Final = 30e6
MEMORY_LIMIT: Final = 2 * 2**30
COPY_CELLS: Final = 1 << 24


def tables(quick: bool) -> Iterator[Table]:
    """Speed, and memory."""
    counts = [d for d in COUNTS if not (quick and d == LARGEST)]
    figures = {d: in_own_process("benchmarks.at_scale", "release_figures", d) for d in counts}
    yield measuring(figures)
    yield reconstruction(figures)
    yield memory(figures)


def measuring(figures: dict[int, Any]) -> Table:
    """Noise must dominate."""
    rows: list[tuple[Cell, ...]] = []
    for d, f in figures.items():
        ratio = f["measure_s"] / f["noise_s"]
        rows.append(
            (
                f"10^{d}",
                f"{f['numbers']:,}",
                brief(published.SCALE_SECONDS[d].measure),
                brief(f["counting_s"]),
                brief(f["measure_s"]),
                brief(f["noise_s"]),
                f"{ratio:.2f}",
                ratio <= NOISE_LIMIT,
            )
        )
    return Table(
        title="Measuring all ≤3-way tables",
        sentence=(
            f"CPU seconds for {RECORDS:,} records: counting; transforming counts, drawing noise "
            "and adding it; and NumPy's `standard_normal` alone for as many numbers."
        ),
        source=(
            "the RP program (counting included; out of memory at d = 100), and `standard_normal`."
        ),
        columns=(
            "domain | noisy numbers | RP program | counting | measuring | noise alone | ratio | "
            "verdict"
        ),
        rows=tuple(rows),
        claims=(all_rows(f"measuring at most {NOISE_LIMIT:g}× the noise alone", rows),),
    )


def reconstruction(figures: dict[int, Any]) -> Table:
    """Cells per second, and whether the errors seen are those promised."""
    rows: list[tuple[Cell, ...]] = []
    for d, f in figures.items():
        rate = f["cells"] / f["reconstruct_s"]
        rival = published.SCALE_SECONDS[d]
        rows.append(
            (
                f"10^{d}",
                f"{f['cells']:,}",
                brief(rival.reconstruct),
                brief(rival.paper_reconstruct),
                brief(f["reconstruct_s"]),
                f"{rate / 1e6:.0f}",
                f"{f['reconstruct_s'] / f['copy_s']:.1f}",
                f"{f['seen_rmse'] / f['rmse']:.4f}",
                rate >= CELLS_PER_SECOND,
            )
        )
    largest = max(figures)
    rate = figures[largest]["cells"] / figures[largest]["reconstruct_s"] / 1e6
    ratios = [f["seen_rmse"] / f["rmse"] for f in figures.values()]
    return Table(
        title="Putting all ≤3-way tables together",
        sentence=(
            "CPU seconds to compute every cell of every table through `release.batches()`, "
            "beside a plain copy of as many numbers. The last figure is the root mean squared "
            "difference from the true counts over the one the plan stated."
        ),
        source="the RP program (out of memory at d = 100) and Table 3 of the RP+ paper.",
        columns=(
            "domain | cells | RP program | paper | noiseplan | million cells a second | times a "
            "copy | error seen / stated | verdict"
        ),
        rows=tuple(rows),
        claims=(
            Claim(
                f"at least {CELLS_PER_SECOND / 1e6:g} million cells a CPU-second: {rate:.0f} at "
                f"d = {largest}",
                all(row[-1] for row in rows),
            ),
            Claim("errors as stated, within 1 %", all(abs(r - 1) <= 0.01 for r in ratios)),
        ),
    )


def memory(figures: dict[int, Any]) -> Table:
    """The peak of the whole: plan, count, measure, and all tables streamed once."""
    rows: list[tuple[Cell, ...]] = []
    for d, f in figures.items():
        beyond = f["peak"] - f["kept"]
        rows.append(
            (
                f"10^{d}",
                f"{f['peak'] / 2**20:,.0f}",
                f"{f['kept'] / 2**20:,.0f}",
                f"{beyond / 2**20:,.0f}",
                beyond <= MEMORY_LIMIT,
            )
        )
    return Table(
        title="Memory of a whole release",
        sentence=(
            "MiB at the peak of a process that plans, counts, measures and streams every table "
            "once, interpreter and libraries included; kept are the noisy numbers, eight bytes "
            "each."
        ),
        source=(
            "the limit of 2 GiB beyond what is kept; the RP program needs 5614 MB at d = 50 and "
            "runs out of memory at d = 100."
        ),
        columns="domain | peak | kept | beyond | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most 2 GiB beyond what is kept", rows),),
    )


# ---------------------------------------------------------------------- in the other process


class TimedSource:
    """A source of counts that notes the CPU seconds spent in it."""

    def __init__(self, source: Projectable) -> None:
        self.source = source
        self.schema = source.schema
        self.origin = source.origin
        self.seconds = 0.0

    def marginals(self, sets: NDArray[np.integer]) -> Any:
        """As the source does."""
        started = time.process_time()
        counts = self.source.marginals(sets)
        self.seconds += time.process_time() - started
        return counts


def release_figures(d: int) -> dict[str, float]:
    """Everything measured at one d."""
    workload = synth(SIZE, d).workload("≤3")
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    figures = _release(plan, d)  # first, for its peak; its release is gone when it returns
    measure, _ = cpu_seconds(
        lambda: plan.mechanism.measure(
            ConstantCounts().marginals, SimulationSampler("gaussian", 1)
        ),
        repeats=2,
    )
    return figures | {
        "numbers": plan.measured_numbers,
        "kept": plan.memory,
        "rmse": plan.rmse,
        "measure_s": measure,
        "noise_s": _noise_seconds(plan.measured_numbers),
    }


def _release(plan: nz.Plan, d: int) -> dict[str, float]:
    """One whole release; the peak is read before anything is run a second time."""
    codes = np.random.default_rng(0).integers(SIZE, size=(RECORDS, d))
    source = TimedSource(open_source(codes, plan.workload.schema))
    release = plan.release(source, seed=1)
    counting = source.seconds
    first, cells = cpu_seconds(lambda: _stream(release), repeats=1)
    peak = peak_bytes()
    again, _ = cpu_seconds(lambda: _stream(release), repeats=2)
    return {
        "peak": peak,
        "cells": cells,
        "counting_s": counting,
        "reconstruct_s": min(first, again),
        "copy_s": _copy_seconds(cells),
        "seen_rmse": _seen_rmse(release, source),
    }


class ConstantCounts:
    """Tables full of ones at no cost, so that measuring is timed apart from counting."""

    def __init__(self) -> None:
        self._ready: dict[int, NDArray[np.int64]] = {}

    def marginals(self, sets: NDArray[np.integer]) -> Any:
        """As many tables as asked for, from one array kept for each number of attributes."""
        tables, ways = sets.shape
        ready = self._ready.get(ways)
        if ready is None or len(ready) < tables:
            ready = self._ready[ways] = np.ones((tables, *(SIZE,) * ways), dtype=np.int64)
        return ready[:tables]


def _stream(release: nz.Release) -> int:
    return sum(estimates.size for _, estimates in release.batches())


def _seen_rmse(release: nz.Release, source: TimedSource) -> float:
    """The root mean squared difference of all answers from the true counts."""
    attributes = release.plan.workload.columns.attributes
    squares, cells = 0.0, 0
    for positions, estimates in release.batches():
        sets = attributes[positions]
        truth = np.moveaxis(source.marginals(sets[:, : estimates.ndim - 1]), 0, -1)
        squares += float(((estimates - truth) ** 2).sum())
        cells += estimates.size
    return float(np.sqrt(squares / cells))


def _noise_seconds(numbers: int, batch: int = 1 << 18) -> float:
    """NumPy's own time for as many normals, in batches that stay in the cache."""
    generator = np.random.default_rng(1)
    ready = np.empty(batch)

    def draw() -> None:
        for start in range(0, numbers, batch):
            generator.standard_normal(out=ready[: min(batch, numbers - start)])

    return cpu_seconds(draw, repeats=3)[0]


def _copy_seconds(cells: int) -> float:
    """The time to copy as many numbers from memory to memory."""
    source, target = np.ones(COPY_CELLS), np.zeros(COPY_CELLS)
    seconds, _ = cpu_seconds(_copy(source, target), repeats=5)
    return seconds * cells / COPY_CELLS


def _copy(source: NDArray[np.float64], target: NDArray[np.float64]) -> Callable[[], None]:
    return lambda: np.copyto(target, source)
