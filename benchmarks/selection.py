"""How long planning takes, the making of the workload included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import noiseplan as nz
from benchmarks import published
from benchmarks.domains import ADULT, BUDGET, Domain, synth
from benchmarks.tables import Cell, Claim, Table, brief
from benchmarks.timing import cpu_seconds


def _select(
    sizes: tuple[int, ...], numeric: int, ways: str, factor: nz.Factor | None, worst: bool
) -> Callable[[], nz.Plan]:
    objective = nz.WorstVariance() if worst else nz.TotalVariance()

    def work() -> nz.Plan:
        domain = Domain("timed", sizes, numeric)  # anew each time, so that nothing is remembered
        return nz.plan(domain.workload(ways, factor), budget=BUDGET, objective=objective)

    return work


WORK: Final = {
    "10^100, ≤3-way, total": _select(synth(10, 100).sizes, 100, "≤3", None, worst=False),
    "10^100, ≤3-way, worst": _select(synth(10, 100).sizes, 100, "≤3", None, worst=True),
    "10^200, ≤3-way, total": _select(synth(10, 200).sizes, 200, "≤3", None, worst=False),
    "10^200, ≤3-way, worst": _select(synth(10, 200).sizes, 200, "≤3", None, worst=True),
    "Adult, ≤3-way, prefix and marginals, total": _select(
        ADULT.sizes, ADULT.numeric, "≤3", nz.Prefix(), worst=False
    ),
    "20^20, 5-way prefix, total": _select(synth(20, 20).sizes, 20, "5", nz.Prefix(), worst=False),
    "20^20, 7-way prefix, total": _select(synth(20, 20).sizes, 20, "7", nz.Prefix(), worst=False),
}


def tables(quick: bool) -> Iterator[Table]:
    """One table."""
    nz.plan(synth(10, 2).workload("1"), budget=BUDGET)  # so that lazy imports are not timed
    measured = {
        label: cpu_seconds(work, repeats=1 if quick else 3)[0] for label, work in WORK.items()
    }
    rows = [_row(label, published.SELECTION_SECONDS[label], t) for label, t in measured.items()]
    yield Table(
        title="Selection: CPU seconds to plan",
        sentence=(
            "From attribute sizes to a plan: schema, workload, optimisation, and the noise of "
            "every subset. The best of several runs."
        ),
        source=(
            "the RP+ paper's Tables 2, 21 and 22, on its own machine; its authors' programs on "
            "one core."
        ),
        columns="workload and objective | paper | peer | noiseplan | limit | verdict",
        rows=tuple(rows),
        claims=(Claim("every limit kept", all(row[-1] is not False for row in rows)),),
    )


def _row(label: str, cell: published.Selection, seconds: float) -> tuple[Cell, ...]:
    kept: Cell = "–" if cell.limit is None else seconds <= cell.limit
    return (label, brief(cell.paper), brief(cell.peer), brief(seconds), brief(cell.limit), kept)
