"""Pure differential privacy: strategies of one ordered attribute, and tables at scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

import noiseplan as nz
from benchmarks.domains import ADULT, CPS, Domain, synth
from benchmarks.tables import Cell, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from noiseplan.matrices import PrefixMatrix, RangesMatrix
from noiseplan.optimize.p_identity import best_p_identity

# At this ε a Laplace number of scale 1/ε has variance one.
EPSILON: Final = math.sqrt(2.0)
LARGEST: Final = 1024
# Planning a hundred attributes may take so long.
SECONDS: Final = 2.0


class Peer(NamedTuple):
    """HDMM's OPT_0 with p = n/16: total squared error at ε = √2, and its CPU seconds."""

    error: float
    seconds: float


OPT_0: Final = {
    ("prefix", 64): Peer(916.88, 0.009),
    ("prefix", 256): Peer(6918.30, 0.38),
    ("prefix", 1024): Peer(47438.24, 9.25),
    ("ranges", 64): Peer(32299.68, 0.014),
    ("ranges", 256): Peer(1.07531e6, 0.17),
    ("ranges", 1024): Peer(3.27214e7, 5.81),
}
MATRICES: Final = {"prefix": PrefixMatrix, "ranges": RangesMatrix}
FACTORS: Final[dict[str, nz.Factor]] = {"prefix": nz.Prefix(), "ranges": nz.Ranges()}


def tables(quick: bool) -> Iterator[Table]:
    """One ordered attribute; marginals."""
    yield one_attribute(quick)
    yield at_scale(quick)


def one_attribute(quick: bool) -> Table:
    """P-identity strategies against the published optimiser's."""
    chosen = {key: peer for key, peer in OPT_0.items() if not (quick and key[1] == LARGEST)}
    rows = [_strategy_row(kind, n, peer) for (kind, n), peer in chosen.items()]
    return Table(
        title="One ordered attribute, Laplace noise",
        sentence=(
            "Total squared error at ε = √2 of the plan, and CPU seconds to choose the strategy and "
            "to make the whole plan."
        ),
        source="HDMM's OPT_0 with p = n/16, its own program on one core.",
        columns=(
            "workload | HDMM | seconds | noiseplan | ratio | seconds | ratio | whole plan | verdict"
        ),
        rows=tuple(rows),
        claims=(all_rows("error at most HDMM's, at most twice its seconds", rows),),
    )


def _strategy_row(kind: str, n: int, peer: Peer) -> tuple[Cell, ...]:
    gram = MATRICES[kind](n).gram()
    repeats = 1 if n == LARGEST else 7
    seconds, _ = cpu_seconds(lambda: best_p_identity(gram), repeats)
    workload = Domain(f"{n}", (n,), 1).workload("1", FACTORS[kind])
    whole, plan = cpu_seconds(
        lambda: nz.plan(workload, budget=nz.PureDP(EPSILON), noise="laplace"), 1
    )
    error = plan.total_variance
    return (
        f"{kind} {n}", f"{peer.error:,.6g}", brief(peer.seconds),
        f"{error:,.6g}", f"{error / peer.error:.4f}", brief(seconds),
        f"{seconds / peer.seconds:.2f}", brief(whole),
        error <= peer.error and seconds <= 2 * peer.seconds,
    )  # fmt: skip


def at_scale(quick: bool) -> Table:
    """Which tables are measured, against measuring each table that is asked for."""
    asked: list[tuple[str, Domain, str]] = [
        ("CPS, ≤3-way", CPS, "≤3"),
        ("Adult, ≤2-way", ADULT, "≤2"),
        ("Adult, ≤3-way", ADULT, "≤3"),
        ("2^10, ≤3-way", synth(2, 10), "≤3"),
        ("2^20, ≤3-way", synth(2, 20), "≤3"),
        ("10^10, ≤3-way", synth(10, 10), "≤3"),
        ("10^100, ≤3-way", synth(10, 100), "≤3"),
    ]
    rows = [_scale_row(*row) for row in asked if not (quick and row[1].name.startswith("10^100"))]
    return Table(
        title="Marginals at scale, Laplace noise",
        sentence=(
            "RMSE at ε = 1 with discrete noise: ε shared equally among all tables that are asked "
            "for, each answered from itself; and as planned."
        ),
        source="the Laplace mechanism on every table, ε shared equally.",
        columns="workload | tables | each alone | measured | noiseplan | ratio | seconds | verdict",
        rows=tuple(rows),
        claims=(
            all_rows(f"better than each table alone, planned within {SECONDS:g} s", rows),
        ),
    )  # fmt: skip


def _scale_row(name: str, domain: Domain, ways: str) -> tuple[Cell, ...]:
    workload = domain.workload(ways)
    seconds, plan = cpu_seconds(lambda: nz.plan(workload, budget=nz.PureDP(1.0)), 1)
    alone = float(np.sqrt(2.0)) * len(workload)
    return (
        name, f"{len(workload):,}", brief(alone), f"{plan.mechanism.steps:,}", brief(plan.rmse),
        f"{plan.rmse / alone:.3f}", brief(seconds), plan.rmse < alone and seconds <= SECONDS,
    )  # fmt: skip
