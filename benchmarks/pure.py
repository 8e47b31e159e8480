"""Pure differential privacy: strategies of one ordered attribute, and tables at scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

import noiseplan as nz
from benchmarks.domains import ADULT, CPS, Domain, synth
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from noiseplan.matrices import PrefixMatrix, RangesMatrix
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise
from noiseplan.optimize.p_identity import best_p_identity

# At this ε a Laplace number of scale 1/ε has variance one.
EPSILON: Final = math.sqrt(2.0)
LARGEST: Final = 1024
# Planning a hundred attributes may take so long.
SECONDS: Final = 2.0
# Planners that know tables of any size, and what is gained on them where queries are alone.
BY_NAME: Final = ("identity", "p-identity", "tree", "wavelet", "workload")
GAINED: Final = 0.6
# How near plans come to a search over all strategies, and what a published one found.
NEAR, PUBLISHED = 1.03, 35.399


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
    """One ordered attribute; marginals, for the total and the worst; bounds; tiny domains."""
    yield one_attribute(quick)
    yield at_scale(quick)
    yield worst_variance(quick)
    yield how_low(quick)
    yield exact_program(quick)
    yield each_alone()


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
    rows = [_scale_row(*row) for row in _marginals(quick)]
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


def _marginals(quick: bool) -> list[tuple[str, Domain, str]]:
    asked: list[tuple[str, Domain, str]] = [
        ("CPS, ≤3-way", CPS, "≤3"),
        ("Adult, ≤2-way", ADULT, "≤2"),
        ("Adult, ≤3-way", ADULT, "≤3"),
        ("2^10, ≤3-way", synth(2, 10), "≤3"),
        ("2^20, ≤3-way", synth(2, 20), "≤3"),
        ("10^10, ≤3-way", synth(10, 10), "≤3"),
        ("10^100, ≤3-way", synth(10, 100), "≤3"),
    ]
    return asked[:-1] if quick else asked


def _scale_row(name: str, domain: Domain, ways: str) -> tuple[Cell, ...]:
    workload = domain.workload(ways)
    seconds, plan = cpu_seconds(lambda: nz.plan(workload, budget=nz.PureDP(1.0)), 1)
    alone = float(np.sqrt(2.0)) * len(workload)
    return (
        name, f"{len(workload):,}", brief(alone), f"{plan.mechanism.steps:,}", brief(plan.rmse),
        f"{plan.rmse / alone:.3f}", brief(seconds), plan.rmse < alone and seconds <= SECONDS,
    )  # fmt: skip


def each_alone() -> Table:
    """Tables of too many numbers to be fitted to each other."""
    rows = [_alone_row(*row) for row in _too_many().items()]
    return Table(
        title="Each query alone, Laplace noise",
        sentence=(
            "Total variance at ε = 1 of tables with more than 4,096 numbers together: the best "
            "plan of all that is asked for by name, and the default, which may measure each query "
            "by itself."
        ),
        source=f"the least of the planners {', '.join(BY_NAME)}.",
        columns="workload | numbers | by name | noiseplan | ratio | taken | seconds | verdict",
        rows=tuple(rows),
        claims=(
            all_rows("no worse than any planner asked for by name", rows),
            Claim(
                f"less than {GAINED:.0%} of their variance in one case at least",
                any(float(str(row[4])) < GAINED for row in rows),
            ),
        ),
    )


def _too_many() -> dict[str, nz.Workload]:
    cells = nz.Schema.from_sizes({"a": 30, "b": 100, "c": 42})
    ages = nz.Schema.from_sizes({"age": 100, "region": 60, "industry": 45})
    days = nz.Schema.from_sizes({"day": 64, "place": 70, "kind": 12})
    each, tens = nz.Identity(), nz.Levels(10, leaves=False, total=False)
    return {
        "overlapping bands, 100 × 42 cells": nz.Workload(
            [nz.Query(cells, {"a": each, "b": _bands(100)}), nz.Query(cells, ["b", "c"])]
        ),
        "ages up to each and in tens, regions": nz.Workload(
            [
                nz.Query(ages, {"age": nz.Prefix()}),
                nz.Query(ages, ["region", "industry"]),
                nz.Query(ages, {"age": tens, "region": each}),
                nz.Query(ages, {"age": nz.Prefix(), "region": each}),
            ]
        ),
        "days up to each, 64 × 70 cells": nz.Workload(
            [nz.Query(days, {"day": nz.Prefix(), "kind": each}), nz.Query(days, ["day", "place"])]
        ),
        "bands of days, prefix sums, 64 × 70 cells": nz.Workload(
            [
                nz.Query(days, {"day": _bands(64), "kind": nz.Prefix()}),
                nz.Query(days, ["day", "place"]),
                nz.Query(days, {"place": nz.Prefix()}),
            ]
        ),
    }


def _bands(size: int) -> nz.Factor:
    """The first half of the values, and the middle half."""
    quarters = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0]])
    return nz.Custom(np.kron(quarters, np.ones((1, size // 4))))


def _alone_row(name: str, workload: nz.Workload) -> tuple[Cell, ...]:
    how = {"budget": nz.PureDP(1.0), "noise": "laplace"}
    others = min(nz.plan(workload, planner=p, **how).total_variance for p in BY_NAME)
    seconds, plan = cpu_seconds(lambda: nz.plan(workload, **how), 1)
    ratio = plan.total_variance / others
    return (
        name, f"{workload.rows:,}", f"{others:,.0f}", f"{plan.total_variance:,.0f}", f"{ratio:.3f}",
        plan.considered[0][0], brief(seconds), ratio <= 1 + 1e-6,
    )  # fmt: skip


def worst_variance(quick: bool) -> Table:
    """The largest variance, against measuring each table that is asked for."""
    rows = [_worst_row(*row) for row in _marginals(quick)]
    return Table(
        title="The worst variance, Laplace noise",
        sentence=(
            "The largest standard error at ε = 1 with discrete noise: ε shared equally among all "
            "tables, which is the best for the worst of them where each is answered from itself; "
            "as planned for the total; and as planned for the worst."
        ),
        source="the Laplace mechanism on every table, ε shared equally.",
        columns="workload | each alone | for the total | for the worst | ratio | seconds | verdict",
        rows=tuple(rows),
        claims=(all_rows("better than each table alone and than the plan for the total", rows),),
    )


def _worst_row(name: str, domain: Domain, ways: str) -> tuple[Cell, ...]:
    workload, budget = domain.workload(ways), nz.PureDP(1.0)
    alone = float(np.sqrt(2.0)) * len(workload)
    total = nz.plan(workload, budget=budget).worst_variance ** 0.5
    seconds, plan = cpu_seconds(
        lambda: nz.plan(workload, budget=budget, objective=nz.WorstVariance()), 1
    )
    found = plan.worst_variance**0.5
    return (
        name, brief(alone), brief(total), brief(found), f"{found / alone:.3f}", brief(seconds),
        found < alone and found <= total * (1 + 1e-9),
    )  # fmt: skip


def how_low(quick: bool) -> Table:
    """How far plans are from what is proved to be the least."""
    asked = [
        (f"{kind} {n}", Domain(f"{n}", (n,), 1).workload("1", factor))
        for kind, factor in FACTORS.items()
        for n in (8, 64, 256)
    ]
    asked += [(name, domain.workload(ways)) for name, domain, ways in _marginals(quick)]
    rows = [_bound_row(*row) for row in asked]
    return Table(
        title="How low can it go, Laplace noise",
        sentence=(
            "The total variance at ε = 1 with discrete noise, over the bound for all linear "
            "mechanisms, and over the bound for all plans of tables measured in the same way."
        ),
        source="`plan.lower_bound` and `plan.tables_bound`, which are proved.",
        columns="workload | over all mechanisms | within 10 times | over tables | within twice",
        rows=tuple(rows),
        claims=(
            Claim(
                f"within ten times the bound for all mechanisms: {sum(r[2] is True for r in rows)} "
                f"of {len(rows)} rows",
                all(row[2] is True for row in rows),
            ),
            all_rows("within twice the bound for tables", rows),
        ),
    )


def _bound_row(name: str, workload: nz.Workload) -> tuple[Cell, ...]:
    plan = nz.plan(workload, budget=nz.PureDP(1.0))
    over = plan.total_variance / plan.lower_bound
    tables = plan.total_variance / (plan.tables_bound or np.nan)
    return name, f"{over:,.4g}", over <= 10, f"{tables:.3f}", tables <= 2


def exact_program(quick: bool) -> Table:
    """Plans against the best strategy that a search over all of them finds."""
    asked = [("prefix", 4), ("prefix", 8), ("prefix", 10), ("prefix", 12), ("ranges", 8)]
    rows = [_program_row(kind, n, starts=20 if quick else 80) for kind, n in asked]
    return Table(
        title="The exact program over tiny domains, Laplace noise",
        sentence=(
            "Total squared error at ε = √2 with continuous noise: the best of 80 searches over all "
            "strategies (Program 3.4.1, every column of L1 norm one), and the plan."
        ),
        source=(
            "a local search over all strategies; C. Li's program with a published search finds "
            f"{PUBLISHED} for 8 prefix sums."
        ),
        columns="workload | searched | noiseplan | ratio | verdict",
        rows=tuple(rows),
        claims=(all_rows(f"at most {100 * NEAR - 100:.0f} % above what is found", rows),),
    )


def _program_row(kind: str, n: int, starts: int) -> tuple[Cell, ...]:
    found = searched(MATRICES[kind](n).gram(), starts)
    workload = Domain(f"{n}", (n,), 1).workload("1", FACTORS[kind])
    error = nz.plan(workload, budget=nz.PureDP(EPSILON), noise="laplace").total_variance
    return (
        f"{kind} {n}", f"{found:.3f}", f"{error:.3f}", f"{error / found:.4f}", error <= NEAR * found
    )  # fmt: skip


def searched(gram: Array, starts: int) -> float:
    """min tr(G (AᵀA)⁻¹) over square A with columns of L1 norm one, A_ij = b|b| / Σ_i b²."""
    rng, n = np.random.default_rng(0), len(gram)

    def error(x: Array) -> tuple[float, Array]:
        b = x.reshape(n, n)
        norm = (b**2).sum(axis=0)
        a = b * np.abs(b) / norm
        inverse = np.linalg.inv(a.T @ a + 1e-12 * np.eye(n))
        by_a = -2 * a @ inverse @ gram @ inverse
        by_b = 2 * np.abs(b) / norm * by_a - 2 * b / norm * (a * by_a).sum(axis=0)
        return float(np.trace(gram @ inverse)), by_b.ravel()

    near = (np.eye(n) + rng.normal(scale=0.5, size=(n, n)) for _ in range(starts))
    return min(minimise(error, start.ravel(), steps=2000, gain=1e-12)[0] for start in near)
