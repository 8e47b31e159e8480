"""One ordered attribute of up to 1024 values: prefix sums and all ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import noiseplan as nz
from benchmarks import published
from benchmarks.domains import BUDGET, Domain
from benchmarks.tables import Cell, Claim, Table, all_rows, brief, decimals
from benchmarks.timing import cpu_seconds

FACTORS: Final[dict[str, nz.Factor]] = {"prefix": nz.Prefix(), "ranges": nz.Ranges()}
LARGEST: Final = 1024
# "In seconds to a minute" is what a user is told to expect of 1024 values.
SECONDS: Final = 60.0


def tables(quick: bool) -> Iterator[Table]:
    """64, 256 and 1024 values."""
    cells = {
        (kind, n): cell
        for (kind, n), cell in published.ONE_ORDERED.items()
        if not (quick and n == LARGEST)
    }
    measured = {key: _planned(*key) for key in cells}
    rows = [_row(key, cells[key], *measured[key]) for key in cells]
    slowest = max(seconds for seconds, _ in measured.values())
    yield Table(
        title="One ordered attribute",
        sentence="RMSE and CPU seconds of planning.",
        source=(
            "HDMM's OPT_0 and jax_privacy's dense factorisation, their own programs on one core; "
            "the SVD bound is below every mechanism and not always attained."
        ),
        columns=(
            "workload | HDMM | seconds | jax_privacy | seconds | SVD bound | noiseplan | seconds "
            "| verdict"
        ),
        rows=tuple(rows),
        claims=(
            all_rows("RMSE at most HDMM's and jax_privacy's", rows),
            Claim(f"at most {SECONDS:g} s each: slowest {slowest:.3g} s", slowest <= SECONDS),
        ),
    )


def _planned(kind: str, n: int) -> tuple[float, float]:
    workload = Domain(f"{n}", (n,), 1).workload("1", FACTORS[kind])
    repeats = 1 if n == LARGEST else 3
    seconds, plan = cpu_seconds(lambda: nz.plan(workload, budget=BUDGET, noise="gaussian"), repeats)
    return seconds, plan.rmse


def _row(
    key: tuple[str, int], cell: published.Ordered, seconds: float, rmse: float
) -> tuple[Cell, ...]:
    rivals = [v for v in (cell.hdmm, cell.jax) if v is not None]
    return (
        f"{key[0]}, {key[1]} values",
        decimals(cell.hdmm, 4),
        brief(cell.hdmm_seconds),
        decimals(cell.jax, 4),
        brief(cell.jax_seconds),
        decimals(cell.svd_bound, 4),
        decimals(rmse, 4),
        brief(seconds),
        rmse <= min(rivals) + 0.5e-4,
    )
