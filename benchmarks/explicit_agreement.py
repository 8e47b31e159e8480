"""Agreement: the exact optimum against every strategy, residual plans against the optimum."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

import numpy as np

import noiseplan as nz
from benchmarks.domains import BUDGET
from benchmarks.tables import Cell, Claim, Table, all_rows
from noiseplan.strategies.catalogue import STRATEGIES

RESIDUAL_LIMIT: Final = 0.01


def tables(quick: bool) -> Iterator[Table]:
    """Who is at or below whom."""
    yield optimal_below_all(quick)
    yield residual_near_optimal(quick)


def optimal_below_all(quick: bool) -> Table:
    """The exact optimum against every strategy by name."""
    rows: list[tuple[Cell, ...]] = []
    for name, workload in _workloads(quick).items():
        best = nz.plan(workload, budget=BUDGET, planner="optimal", noise="gaussian")
        errors = {
            planner: nz.plan(workload, budget=BUDGET, planner=planner, noise="gaussian")
            for planner in (*STRATEGIES, "hierarchical-4", "residual")
        }
        nearest = min(errors, key=lambda planner: errors[planner].total_variance)
        ratio = errors[nearest].total_variance / best.total_variance
        texts = (name, f"{best.total_variance:.6g}", nearest, f"{ratio:.6f}")
        rows.append((*texts, ratio >= 1 - 1e-6))
    return Table(
        title="The optimum is at or below every strategy",
        sentence=f"{len(STRATEGIES) + 2} strategies on each workload; the nearest is shown.",
        source="total variances of plans at privacy cost 1.",
        columns="workload | optimal | nearest | ratio to optimal | verdict",
        rows=tuple(rows),
        claims=(all_rows("optimal at or below all", rows),),
    )


def _workloads(quick: bool) -> dict[str, nz.Workload]:
    one = nz.Schema.from_sizes({"a": 32 if quick else 128})
    two = nz.Schema.from_sizes({"a": 8, "b": 6})
    three = nz.Schema.from_sizes({"a": 6, "b": 4, "c": 5})
    rng = np.random.default_rng(9)
    few = np.sort(rng.integers(0, 40, size=(20, 2)), axis=1)
    cells = np.arange(40)
    some = ((few[:, :1] <= cells) & (cells <= few[:, 1:])).astype(float)
    wide = nz.Schema.from_sizes({"a": 40})
    return {
        "all ranges": nz.Workload([nz.Query(one, {"a": nz.Ranges()})]),
        "prefix sums": nz.Workload([nz.Query(one, {"a": nz.Prefix()})]),
        "20 random ranges": nz.Workload([nz.Query(wide, {"a": nz.Custom(some)})]),
        "ranges × prefix": nz.Workload([nz.Query(two, {"a": nz.Ranges(), "b": nz.Prefix()})]),
        "two-way tables": nz.Workload.marginals(three, k=2),
        "two-way range tables": nz.Workload.marginals(
            three, k=2, factors=dict.fromkeys("abc", nz.Ranges())
        ),
        "random rows": nz.Workload(
            [nz.Query(wide, {"a": nz.Custom(rng.standard_normal((30, 40)))})]
        ),
    }


def residual_near_optimal(quick: bool) -> Table:
    """Residual plans with one factor per attribute against the exact optimum."""
    rows = []
    for seed in range(4 if quick else 16):
        workload = _one_factor(seed)
        plan = nz.plan(workload, budget=BUDGET, planner="residual", noise="gaussian")
        bounds = nz.bounds(workload, exact=True)
        assert bounds.optimum is not None
        gap = plan.total_variance / bounds.at(BUDGET) - 1
        label = f"{'×'.join(map(str, workload.schema.shape))}, {len(workload)} queries"
        rows.append((label, f"{gap:.3%}", f"{RESIDUAL_LIMIT:.0%}", gap <= RESIDUAL_LIMIT))
    largest = max(float(row[1].rstrip("%")) for row in rows)
    return Table(
        title="Residual plans against the optimum, domains of up to 1,000 cells",
        sentence="Random unions of tables with one factor per attribute; gap to a certified bound.",
        source="the exact optimum over all cells.",
        columns="domain | gap | limit | verdict",
        rows=tuple(rows),
        claims=(
            all_rows("within the limit", rows),
            Claim(f"largest gap {largest:.3f} %", largest <= 100 * RESIDUAL_LIMIT),
        ),
    )


def _one_factor(seed: int) -> nz.Workload:
    """Two or three attributes of up to 30 or 10 values, each with one factor wherever it occurs."""
    rng = np.random.default_rng([41, seed])
    count = 2 + seed % 2
    most = 30 if count == 2 else 10
    schema = nz.Schema.from_sizes({f"a{i}": int(rng.integers(3, most + 1)) for i in range(count)})
    factors = (nz.Identity(), nz.Prefix(), nz.Ranges())
    of = {name: factors[rng.integers(3)] for name in schema.names}
    every = [s for k in range(1, count + 1) for s in combinations(schema.names, k)]
    chosen = rng.permutation(len(every))[: rng.integers(2, len(every) + 1)]
    return nz.Workload(
        nz.Query(schema, {n: of[n] for n in every[i]}, weight=float(np.exp(rng.uniform(-1.5, 1.5))))
        for i in sorted(chosen)
    )
