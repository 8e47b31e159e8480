"""How near the optimum plans are where a record may be replaced by another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import noiseplan as nz
from benchmarks.domains import BUDGET
from benchmarks.tables import Cell, Table, all_rows, brief
from benchmarks.timing import cpu_seconds

LIMIT: Final = 0.02
PREFIX, CELLS, RANGES = nz.Prefix(), nz.Identity(), nz.Ranges()


def tables(quick: bool) -> Iterator[Table]:
    """Products whose optimum is known, and wider ones by what they prove."""
    yield against_the_optimum(quick)
    yield certified(quick)


def _workload(size: int, width: int, *queries: tuple[nz.Factor | None, ...]) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": size for i in range(width)})
    named = [{n: f for n, f in zip(schema.names, q, strict=True) if f is not None} for q in queries]
    return nz.Workload([nz.Query(schema, factors) for factors in named])


def _pairs(size: int, width: int) -> nz.Workload:
    """All tables of prefix sums of two attributes."""
    schema = nz.Schema.from_sizes({f"a{i}": size for i in range(width)})
    return nz.Workload.marginals(schema, k=2, factors=dict.fromkeys(schema.names, PREFIX))


def _turning(size: int) -> nz.Workload:
    """Three attributes, by prefix sums of two and cells of the third, in turn; and all cells."""
    turns = ((PREFIX, PREFIX, CELLS), (CELLS, PREFIX, PREFIX), (PREFIX, CELLS, PREFIX))
    return _workload(size, 3, *turns, (CELLS, CELLS, CELLS))


def _of_all_kinds(size: int) -> nz.Workload:
    """Ranges, cells and prefix sums, a different one of an attribute in every table."""
    two = ((RANGES, CELLS, None), (CELLS, None, PREFIX), (None, PREFIX, RANGES))
    return _workload(size, 3, *two, (PREFIX, None, None))


def _planned(workload: nz.Workload, planner: str) -> tuple[float, nz.Plan]:
    how: dict[str, Any] = {"neighbours": "replace", "noise": "gaussian", "planner": planner}
    return cpu_seconds(partial(nz.plan, workload, budget=BUDGET, **how), 1)


def against_the_optimum(quick: bool) -> Table:
    """The family alone, where the default would take the optimum itself."""
    cases = {
        "prefix 8²": _workload(8, 2, (PREFIX, PREFIX)),
        "prefix 16²": _workload(16, 2, (PREFIX, PREFIX)),
        "prefix and cells 8²": _workload(8, 2, (PREFIX, PREFIX), (CELLS, CELLS)),
        "ranges 12²": _workload(12, 2, (RANGES, RANGES)),
        "prefix 6³": _workload(6, 3, (PREFIX, PREFIX, PREFIX)),
        "prefix 6³, all pairs": _pairs(6, 3),
        "prefix and cells in turn, 6³": _turning(6),
        "ranges, cells and prefix sums, 6³": _of_all_kinds(6),
    }
    rows: list[tuple[Cell, ...]] = []
    for name, workload in list(cases.items())[: 1 if quick else None]:
        seconds, plan = _planned(workload, "residual")
        _, optimal = _planned(workload, "optimal")
        gap = plan.total_variance / optimal.total_variance - 1
        values = (f"{plan.total_variance:,.2f}", f"{optimal.total_variance:,.2f}", f"{gap:.2%}")
        rows.append((name, *values, f"{LIMIT:.0%}", brief(seconds), gap <= LIMIT))
    return Table(
        title="Products whose optimum is known",
        sentence='`planner="residual"`, total variance; CPU seconds of planning it. By default the '
        "optimum itself is taken over so few cells.",
        source='`planner="optimal"`, over all pairs of records.',
        columns="workload | total variance | optimum | above | limit | seconds | verdict",
        rows=tuple(rows),
        claims=(all_rows("within 2 % of the optimum", rows),),
    )


def certified(quick: bool) -> Table:
    """By default, where the optimum is not tried."""
    cases = {
        "prefix 5⁴, all pairs": _pairs(5, 4),
        "prefix 9³, all pairs": _pairs(9, 3),
        "prefix and cells in turn, 9³": _turning(9),
        "ranges, cells and prefix sums, 9³": _of_all_kinds(9),
        "prefix 12³, all pairs": _pairs(12, 3),
    }
    rows: list[tuple[Cell, ...]] = []
    for name, workload in list(cases.items())[: 1 if quick else None]:
        seconds, plan = _planned(workload, "auto")
        gap = plan.total_variance / plan.certify().bound - 1
        values = (f"{workload.schema.size:,}", f"{plan.total_variance:,.2f}", f"{gap:.2%}")
        rows.append((name, *values, f"{LIMIT:.0%}", brief(seconds), gap <= LIMIT))
    return Table(
        title="Products of more cells",
        sentence="By default: what `plan.certify()` proves. Up to 1,024 cells the optimum over all "
        "pairs is taken; up to 2,048, where attributes are exchangeable, pairs of records pay for "
        "every block; beyond, blocks are searched for one record.",
        source="the certified bound over all linear Gaussian mechanisms.",
        columns="workload | cells | total variance | above | limit | seconds | verdict",
        rows=tuple(rows),
        claims=(all_rows("certified to 2 %", rows),),
    )
