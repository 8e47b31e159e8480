"""What integer rows cost beside continuous noise, however many attributes are multiplied."""

from __future__ import annotations

from typing import Final

import numpy as np

import noiseplan as nz
from benchmarks.domains import BUDGET, synth
from benchmarks.tables import Cell, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from noiseplan.counting import CountTensor
from noiseplan.noise import ExactSampler, SystemSource

# What is promised of the total variance.
MOST_LOSS: Final = 1e-3
# (values, attributes, ways) of prefix sums; domains that are small enough are measured too.
CASES: Final = (
    (10, 5, 5), (10, 6, 6), (8, 7, 7), (6, 8, 8), (4, 10, 10), (10, 10, 10), (20, 20, 7),
)  # fmt: skip
MEASURED_CELLS: Final = 2**22
RECORDS: Final = 2**31


def rounding() -> Table:
    """Total variances side by side, and the time to measure 2³¹ records."""
    rows = tuple(_row(*case) for case in CASES)
    return Table(
        title="What integers cost",
        sentence=(
            "All k-way prefix sums with exact discrete noise beside continuous noise, and CPU "
            "seconds to measure a table of 2³¹ records where the domain is small. From σ = 2⁴⁸ on "
            "noise does not fit 64 bits."
        ),
        source="continuous noise of the same budget; at most 0.1 % more variance.",
        columns="workload | RMSE, continuous | RMSE, discrete | lost | largest σ | s | verdict",
        rows=rows,
        claims=(all_rows("at most 0.1 % of variance", rows),),
    )


def _row(n: int, d: int, k: int) -> tuple[Cell, ...]:
    workload = synth(n, d).workload(str(k), nz.Prefix())
    discrete, continuous = (
        nz.plan(workload, budget=BUDGET, noise=noise) for noise in ("discrete", "gaussian")
    )
    lost = discrete.total_variance / continuous.total_variance - 1
    return (
        f"{k}-way of {n}^{d}",
        f"{continuous.rmse:.4f}",
        f"{discrete.rmse:.4f}",
        f"{lost:.3%}",
        f"2^{np.log2(discrete.mechanism.noise.largest) / 2:.0f}",
        _seconds(discrete),
        lost <= MOST_LOSS,
    )


def _seconds(plan: nz.Plan) -> str:
    schema = plan.workload.schema
    if schema.size > MEASURED_CELLS:
        return "–"
    shares = np.full(schema.size, 1 / schema.size)
    counts = np.random.default_rng(1).multinomial(RECORDS, shares).reshape(schema.shape)
    tables, sampler = CountTensor(schema, counts), ExactSampler("gaussian", SystemSource())
    return brief(cpu_seconds(lambda: plan.mechanism.measure(tables.marginals, sampler), 1)[0])
