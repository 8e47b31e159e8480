"""Measuring with secure noise beside measuring with floats: all tables of at most three attributes.

Every d runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import noiseplan as nz
from benchmarks.at_scale import SIZE, ConstantCounts
from benchmarks.domains import BUDGET, synth
from benchmarks.tables import Cell, Table, all_rows, brief
from benchmarks.timing import cpu_seconds, in_own_process, peak_bytes
from noiseplan.noise import ExactSampler, SimulationSampler, SystemSource

COUNTS: Final = (20, 40, 100)
LARGEST: Final = 100
LIMIT: Final = 8.0


def measuring(quick: bool) -> Table:
    """Discrete noise from the operating system against floating-point noise from a seed."""
    counts = [d for d in COUNTS if not (quick and d == LARGEST)]
    figures = {d: in_own_process("benchmarks.noise_scale", "figures", d) for d in counts}
    rows = tuple(_row(d, f) for d, f in figures.items())
    return Table(
        title="Measuring all ≤3-way tables with secure noise",
        sentence=(
            "CPU seconds to transform counts, draw noise and add it, counting left out: floats "
            "with NumPy's generator, and integers with exact discrete Gaussian noise from the "
            "operating system. All of it is timed, nothing extrapolated. The integer way measures "
            "10 numbers for each attribute of a table, the continuous way 9."
        ),
        source=f"the continuous way; at most {LIMIT:g} times its seconds.",
        columns=(
            "domain | discrete draws | largest σ | continuous | discrete | ratio | million draws a "
            "second | peak MiB | verdict"
        ),
        rows=rows,
        claims=(all_rows(f"at most {LIMIT:g}× the continuous time", rows),),
    )


def _row(d: int, f: dict[str, Any]) -> tuple[Cell, ...]:
    ratio = f["discrete_s"] / f["continuous_s"]
    return (
        f"10^{d}",
        f"{f['numbers']:,}",
        f"{f['sigma']:.3g}",
        brief(f["continuous_s"]),
        brief(f["discrete_s"]),
        f"{ratio:.2f}",
        f"{f['numbers'] / f['discrete_s'] / 1e6:.0f}",
        f"{f['peak'] / 2**20:,.0f}",
        ratio <= LIMIT,
    )


def figures(d: int) -> dict[str, float]:
    """Both ways at one d, in this process."""
    workload = synth(SIZE, d).workload("≤3")
    repeats = 1 if d == LARGEST else 3
    discrete = nz.plan(workload, budget=BUDGET, noise="discrete").mechanism
    secure = ExactSampler("gaussian", SystemSource())
    discrete_s, _ = cpu_seconds(
        lambda: discrete.measure(ConstantCounts().marginals, secure).values[0].size, repeats
    )
    peak = peak_bytes()
    continuous = nz.plan(workload, budget=BUDGET, noise="gaussian").mechanism
    continuous_s, _ = cpu_seconds(
        lambda: (
            continuous.measure(ConstantCounts().marginals, SimulationSampler("gaussian", 1))
            .values[0]
            .size
        ),
        repeats,
    )
    return {
        "numbers": discrete.numbers,
        "sigma": float(np.sqrt(max(block.sigma2.max() for block in discrete.blocks))),  # type: ignore[attr-defined]
        "continuous_s": continuous_s,
        "discrete_s": discrete_s,
        "peak": peak,
    }
