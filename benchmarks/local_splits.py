"""Local plans that once took minutes or never ended: splits, equal tables, closed forms."""

from __future__ import annotations

import time
from dataclasses import dataclass

import noiseplan as nz
from benchmarks.tables import Cell, Table, all_rows, brief


@dataclass(frozen=True)
class Case:
    """What is asked at ε = 1, the CPU seconds it may take, and the least users known."""

    name: str
    workload: nz.Workload
    seconds: float
    users: float | None = None


def _prefixes(sizes: dict[str, int]) -> nz.Workload:
    schema = nz.Schema.from_sizes(sizes)
    return nz.Workload([nz.Query(schema, {name: nz.Prefix()}) for name in sizes])


def _cases() -> list[Case]:
    wide = nz.Schema.from_sizes({f"q{i}": 10 for i in range(100)})
    tall = nz.Schema.from_sizes({"value": 1000})
    apart = _prefixes({"a": 12, "b": 16})
    split = nz.local.plan(apart, 1.0, mechanism="split", cells=1).samples()
    return [
        Case("histogram of 1,000 values", nz.Workload([nz.Query(tall, ["value"])]), 1.0),
        Case("prefix sums of 12 and of 16 values, apart", apart, 20.0, split),
        Case("all pairs of 100 attributes of 10 values", nz.Workload.marginals(wide, k=2), 60.0),
    ]


def table() -> Table:
    """Users and seconds."""
    rows: list[tuple[Cell, ...]] = []
    for case in _cases():
        started = time.process_time()
        plan = nz.local.plan(case.workload, 1.0)
        took = time.process_time() - started
        samples, bound = plan.samples(), plan.samples(case="bound")
        good = took <= case.seconds and (case.users is None or samples <= case.users * (1 + 1e-9))
        figures = samples, bound, samples / bound, took, case.seconds
        rows.append((case.name, f"{len(plan.parts):,}", *map(brief, figures), good))
    return Table(
        title="Local plans: closed forms and splits",
        sentence=(
            "Users needed for a normalized variance of 0.01 in the worst case at ε = 1; over how "
            "many tables they are split; CPU seconds of one core, and how many are allowed."
        ),
        source="the lower bound for any mechanism over the whole domain.",
        columns="asked | tables | measured | bound | over bound | seconds | allowed | verdict",
        rows=tuple(rows),
        claims=(all_rows("within the time, and no worse than the split asked for", rows),),
    )
