"""Plain marginals: the RP columns of Tables 4, 5, 19–22 and 25–30, to the printed digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import noiseplan as nz
from benchmarks import published
from benchmarks.domains import BUDGET, REAL, synth
from benchmarks.tables import Cell, Table, all_rows, decimals

# The tables print three decimals and sometimes truncate.
TOLERANCE: Final = 1e-3
COLUMNS: Final = (
    "workload | RMSE, paper | RMSE, noiseplan | largest variance, paper | "
    "largest variance, noiseplan | proved optimal | verdict"
)
SLOWEST_COUNT: Final = 200


def tables(quick: bool) -> Iterator[Table]:
    """The real domains, then attributes of growing size, then growing numbers of attributes."""
    yield real_domains()
    yield growing_sizes()
    yield growing_counts(quick)


def real_domains() -> Table:
    """Adult, CPS and Loans."""
    domains = {domain.name: domain for domain in REAL}
    rows = [
        _row(f"{name}, {ways}{'' if ways == 'small' else '-way'}", domains[name].workload(ways), at)
        for (name, ways), at in published.REAL_MARGINALS.items()
    ]
    return _table(
        "Marginals of Adult, CPS and Loans",
        "Two plans per workload, one for the total and one for the largest variance; "
        '"small" is every table of at most 5000 cells.',
        "Tables 4, 5 and 25–30 of the RP+ paper, RP columns (Gurobi where two solvers are given).",
        rows,
    )


def growing_sizes() -> Table:
    """Five attributes of 2 to 1024 values."""
    rows = [
        _row(f"{n}^5, ≤3-way", synth(n, 5).workload("≤3"), at)
        for n, at in published.SYNTH_BY_SIZE.items()
    ]
    return _table(
        "Marginals, five attributes of growing size",
        "All tables of at most three of five attributes.",
        "Tables 19 and 20 of the RP+ paper, RP columns.",
        rows,
    )


def growing_counts(quick: bool) -> Table:
    """2 to 200 attributes of ten values."""
    rows = [
        _row(f"10^{d}, ≤3-way", synth(10, d).workload("≤3"), at)
        for d, at in published.SYNTH_BY_COUNT.items()
        if not (quick and d == SLOWEST_COUNT)
    ]
    return _table(
        "Marginals, growing numbers of attributes",
        "All tables of at most three attributes of ten values.",
        "Tables 21 and 22 of the RP+ paper, RP columns; the largest variance at d = 200, which the "
        "paper could not compute, by a separate program.",
        rows,
    )


def _row(label: str, workload: nz.Workload, paper: published.Marginals) -> tuple[Cell, ...]:
    total = nz.plan(workload, budget=BUDGET, noise="gaussian")
    worst = nz.plan(workload, budget=BUDGET, noise="gaussian", objective=nz.WorstVariance())
    optimal = total.optimal and worst.optimal
    away = max(abs(total.rmse - paper.rmse), abs(worst.worst_variance - paper.worst))
    return (
        label,
        decimals(paper.rmse, 3),
        decimals(total.rmse, 4),
        decimals(paper.worst, 3),
        decimals(worst.worst_variance, 4),
        "yes" if optimal else "no",
        away <= TOLERANCE and optimal,
    )


def _table(title: str, sentence: str, source: str, rows: list[tuple[Cell, ...]]) -> Table:
    what = f"both figures within {TOLERANCE:g} of the printed ones, both plans proved optimal"
    claim = all_rows(what, rows)
    return Table(
        title=title,
        sentence=sentence,
        source=source,
        columns=COLUMNS,
        rows=tuple(rows),
        claims=(claim,),
    )
