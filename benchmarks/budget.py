"""What a budget buys: (ε, δ) by the exact curve, by Laplace noise, and by other programs."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np

import noiseplan as nz
from benchmarks import mixed_workloads
from benchmarks.domains import synth
from benchmarks.small_domains import low_rank, several_factors
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import ROOT, cpu_seconds
from noiseplan.draw.picture import Picture
from noiseplan.draw.svg import curves
from noiseplan.noise.moments import discrete_laplace_variance

S: Final = nz.Schema.from_sizes
DISCRETE: Final = "discrete Gaussian"
CONTINUOUS: Final = "gaussian"
# The pairs of (ε, δ), how near the least variance plans must come, and by how much the intervals of
# a privacy loss are rounded in dp_accounting.
PAIRS: Final = (
    (1.0, 1e-9, 1.005, 1e-4),
    (1.0, 1e-6, 1.005, 1e-4),
    (0.1, 1e-9, 1.005, 1e-4),
    (0.5, 1e-5, 1.005, 1e-4),
    (0.01, 1e-12, 1.005, 2e-5),
    (5.0, 1e-6, 1.08, 1e-3),
)
BESIDE_CONTINUOUS: Final = 1.0025
OF_DEMONSTRATION: Final = 1.002
AS_LONG: Final = 1.3
NEVER_WORSE: Final = 1.01
MOST_TABLES: Final = 60
PICTURE: Final = ROOT / "docs" / "images" / "budget-buys.svg"
DELTAS: Final = (1e-6, 1e-9)
NINE: Final = nz.ApproxDP(1.0, 1e-9)


def tables(quick: bool) -> Iterator[Table]:
    """The least variance, continuous noise, the first task, workloads, equal tables, seconds."""
    yield least_variance()
    yield beside_continuous()
    yield first_task()
    yield by_workload()
    yield equal_tables()
    yield seconds(quick)
    yield beside_pure(2 if quick else 8)


# ---------------------------------------------------------------------- the least variance


def counts(tables: int) -> nz.Workload:
    """So many counts, to each of which some record belongs that belongs to all."""
    schema = S({"cell": tables + 1})
    rows = 1.0 - np.eye(tables, tables + 1)
    return nz.Workload([nz.Query(schema, ["cell"], matrix=rows)])


def planned_variance(tables: int, budget: nz.Budget, noise: str = DISCRETE) -> float:
    """Return the variance of each of so many counts, as planned."""
    plan = nz.plan(counts(tables), budget=budget, noise=noise, planner="workload")
    return plan.total_variance / tables


def least_by_pld(tables: int, epsilon: float, delta: float, near: float, interval: float) -> float:
    """Return the least σ² of discrete Gaussian noise on so many counts, by privacy losses."""
    pld: Any = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")

    def spent(variance: float) -> float:
        one = pld.from_discrete_gaussian_mechanism(
            math.sqrt(variance), sensitivity=1, value_discretization_interval=interval,
            use_connect_dots=True,
        )  # fmt: skip
        composed = one if tables == 1 else one.self_compose(tables)
        return float(composed.get_epsilon_for_delta(delta))

    low, high = 0.85 * near, 1.03 * near
    while high / low > 1.0002:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if spent(middle) <= epsilon else (middle, high)
    return high


def least_variance() -> Table:
    """One count and twenty, beside the least variance that privacy losses admit."""
    rows = [_least_row(tables, *pair) for tables in (1, 20) for pair in PAIRS]
    return Table(
        title="Counts beside the least variance",
        sentence=(
            "One count, and twenty to which one record may belong: their variance over the least "
            "that discrete Gaussian noise needs for (ε, δ) by privacy loss distributions, if zCDP "
            "is all that is used, and as planned; and over that of continuous noise."
        ),
        source="dp_accounting, `connect the dots`, rounded upward, in the same run.",
        columns=(
            "counts | ε | δ | zCDP, over the least | planned, over the least | limit | "
            "planned, over continuous noise | verdict"
        ),
        rows=tuple(rows),
        claims=(all_rows("within the limit", rows),),
    )


def _least_row(
    tables: int, epsilon: float, delta: float, limit: float, interval: float
) -> tuple[Cell, ...]:
    budget = nz.ApproxDP(epsilon, delta)
    ours = planned_variance(tables, budget)
    least = least_by_pld(tables, epsilon, delta, ours, interval)
    by_zcdp = planned_variance(tables, nz.zCDP(budget.zcdp_rho()))
    continuous = planned_variance(tables, budget, CONTINUOUS)
    ratios = (f"{by_zcdp / least:.3f}", f"{ours / least:.4f}", f"{limit:g}")
    told = (f"{tables}", f"{epsilon:g}", f"{delta:g}")
    return (*told, *ratios, f"{ours / continuous:.4f}", bool(ours <= limit * least))


# ---------------------------------------------------------------------- continuous noise


@cache
def workloads() -> dict[str, nz.Workload]:
    """Workloads of all kinds, from one table to twenty."""
    people = nz.Schema(
        {
            "age": nz.Ordinal(range(20)),
            "sex": nz.Categorical(["F", "M"]),
            "region": nz.Categorical(["north", "south", "east", "west"]),
        }
    )
    hundred = S({"age": 100})
    return {
        "histogram of 100 cells": nz.Workload([nz.Query(hundred, ["age"])]),
        "3 tables of 2 attributes, prefix sums": nz.Workload.marginals(
            people, k=2, factors={"age": nz.Prefix()}
        ),
        "prefix sums of 100 values": nz.Workload([nz.Query(hundred, {"age": nz.Prefix()})]),
        "ranges of 64 values": nz.Workload([nz.Query(S({"a": 64}), {"a": nz.Ranges()})]),
        **{
            f"all {k}-way tables of {d} attributes": nz.Workload.marginals(fives(d), k=k)
            for k, d in ((1, 4), (1, 8), (1, 12), (2, 4), (2, 5), (2, 6), (2, 8), (3, 5))
        },
        "the demonstration": mixed_workloads.demonstration(),
    }


def fives(attributes: int) -> nz.Schema:
    """Return attributes of five values."""
    return S({f"a{i}": 5 for i in range(attributes)})


def beside_continuous() -> Table:
    """The total variance over that of continuous noise at the same (ε, δ), where ε ≤ 1."""
    pairs = [(epsilon, delta) for epsilon, delta, *_ in PAIRS if epsilon <= 1]
    rows = []
    for name, workload in workloads().items():
        limit = OF_DEMONSTRATION if name == "the demonstration" else BESIDE_CONTINUOUS
        found = [_over_continuous(workload, nz.ApproxDP(*pair)) for pair in pairs]
        shown = (f"{ratio:.4f}" for ratio in found)
        rows.append((name, *shown, f"{limit:g}", bool(max(found) <= limit)))
    return Table(
        title="Whole numbers beside continuous noise",
        sentence="Total variance of exact discrete Gaussian noise over that of continuous noise "
        "within the same ε and δ.",
        source="the exact curve of the continuous Gaussian mechanism (Balle and Wang 2018).",
        columns=" | ".join(
            ["workload", *(f"{epsilon:g}, {delta:g}" for epsilon, delta in pairs), "limit",
             "verdict"]
        ),
        rows=tuple(rows),
        claims=(all_rows("within the limit", rows),),
    )  # fmt: skip


def _over_continuous(workload: nz.Workload, budget: nz.Budget) -> float:
    ours, continuous = (
        nz.plan(workload, budget=budget, noise=noise).total_variance
        for noise in (DISCRETE, CONTINUOUS)
    )
    return ours / continuous


# ---------------------------------------------------------------------- the first task


def first_task() -> Table:
    """County by sex: a histogram, in which one record changes one count."""
    schema = S({"county": 100, "sex": 2})
    workload = nz.Workload([nz.Query(schema, ["county", "sex"])])
    rows = []
    for delta in DELTAS:
        budget = nz.ApproxDP(1.0, delta)
        ours = nz.plan(workload, budget=budget).rmse
        gaussian = nz.plan(workload, budget=budget, noise=DISCRETE).rmse
        laplace, theirs = _opendp_laplace(1.0), _opendp_gaussian(1.0, delta)
        figures = [f"{error:.3f}" for error in (laplace, theirs, gaussian, ours)]
        met = ours <= min(laplace, theirs) * (1 + 1e-6) and gaussian <= theirs
        rows.append((f"{delta:g}", *figures, bool(met)))
    return Table(
        title="The first task: counts of county × sex",
        sentence="Standard error of each of 200 counts at ε = 1, of which one record changes one.",
        source="OpenDP's discrete Laplace mechanism, and its discrete Gaussian mechanism by its "
        "conversion from zCDP, with the least scale that it admits, in the same run.",
        columns="δ | OpenDP Laplace | OpenDP Gaussian | Gaussian, planned | planned | verdict",
        rows=tuple(rows),
        claims=(all_rows("no more than either of OpenDP's", rows),),
    )


def _opendp_laplace(epsilon: float) -> float:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    scale = dp.binary_search_param(
        lambda scale: dp.m.make_laplace(*space, scale=scale), d_in=1, d_out=epsilon
    )
    return float(np.sqrt(discrete_laplace_variance(np.array([scale]))[0]))


def _opendp_gaussian(epsilon: float, delta: float) -> float:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)

    def made(scale: float) -> Any:
        measured = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        return dp.c.make_fix_delta(measured, delta=delta)

    return float(dp.binary_search_param(made, d_in=1.0, d_out=(epsilon, delta)))


def _opendp() -> Any:
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    return dp


# ---------------------------------------------------------------------- workloads


def by_workload() -> Table:
    """Root mean squared errors at ε = 1, with pure ε and with δ."""
    rows = [_workload_row(name, workload) for name, workload in workloads().items()]
    return Table(
        title="What ε = 1 buys, by workload",
        sentence="Root mean squared error at ε = 1: with pure DP; and at each δ with Gaussian "
        "noise by zCDP alone, by the exact curve, and as planned, with the better noise. The "
        "verdict is on what is made small, the total variance.",
        source="its own plans, each within the same budget.",
        columns="workload | pure | "
        + " | ".join(f"{d:g}: by zCDP | by the curve | planned" for d in DELTAS)
        + " | verdict",
        rows=tuple(rows),
        claims=(
            all_rows("at most 1 % more variance than pure DP, and no more than Gaussian", rows),
        ),
    )


def _workload_row(name: str, workload: nz.Workload) -> tuple[Cell, ...]:
    def made(budget: nz.Budget, noise: str = "discrete") -> nz.Plan:
        return nz.plan(workload, budget=budget, noise=noise)

    pure, met = made(nz.PureDP(1.0)), True
    plans = [pure]
    for delta in DELTAS:
        budget = nz.ApproxDP(1.0, delta)
        curve, best = made(budget, DISCRETE), made(budget)
        plans += [made(nz.zCDP(budget.zcdp_rho())), curve, best]
        most = min(NEVER_WORSE * pure.total_variance, curve.total_variance * (1 + 1e-9))
        met = met and best.total_variance <= most
    return (name, *(f"{plan.rmse:.4g}" for plan in plans), bool(met))


# ---------------------------------------------------------------------- equal tables


def laplace_error(epsilon: float, tables: int) -> float:
    """Return the standard error of a count in each of so many tables, which share ε."""
    return float(np.sqrt(discrete_laplace_variance(np.array([tables / epsilon]))[0]))


def gaussian_error(epsilon: float, delta: float, tables: int) -> float:
    """Return the same with continuous Gaussian noise, which whole numbers come up to."""
    return math.sqrt(tables / nz.ApproxDP(epsilon, delta).gaussian_pcost())


def equal_tables() -> Table:
    """Standard errors by the number of tables, and a picture of them."""
    draw()
    rows = []
    for tables in (1, 2, 3, 5, 8, 10, 15, 16, 20, 30, 60):
        laplace = laplace_error(1.0, tables)
        gaussian = [gaussian_error(1.0, delta, tables) for delta in DELTAS]
        planned = [
            nz.plan(counts(tables), budget=nz.ApproxDP(1.0, delta), noise=noise, planner="workload")
            for noise in ("discrete Laplace", DISCRETE)
            for delta in DELTAS
        ]
        errors = [math.sqrt(plan.total_variance / tables) for plan in planned]
        expected = (laplace, laplace, *gaussian)
        met = all(a <= b * 1.002 for a, b in zip(errors, expected, strict=True))
        rows.append((f"{tables}", *(f"{x:.3f}" for x in (laplace, *gaussian)), bool(met)))
    crossing = [_crossing(1.0, delta) for delta in DELTAS]
    return Table(
        title="Equal tables",
        sentence="Standard error of a count in each of so many tables at ε = 1: as the number of "
        "tables with Laplace noise, as its root with Gaussian noise. ![Standard error by the "
        "number of tables, for both noises](../images/budget-buys.svg)",
        source="the laws of the noise; plans of the same counts come within 0.1 % of them.",
        columns="tables | Laplace | " + " | ".join(f"Gaussian, δ = {d:g}" for d in DELTAS)
        + " | verdict",
        rows=tuple(rows),
        claims=(
            all_rows("planned errors at most 0.2 % above", rows),
            Claim(f"Laplace noise is better up to {crossing[0]} tables at δ = 1e-6, and up to "
                  f"{crossing[1]} at 1e-9", crossing == [8, 15]),
        ),
    )  # fmt: skip


def _crossing(epsilon: float, delta: float) -> int:
    """Return the largest number of equal tables that Laplace noise serves better."""
    return max(
        tables
        for tables in range(1, MOST_TABLES + 1)
        if laplace_error(epsilon, tables) <= gaussian_error(epsilon, delta, tables)
    )


def draw() -> None:
    """Draw the picture of `docs/how-to-choose.md`."""
    kinds: dict[str, Callable[[int], float]] = {"Laplace noise": lambda k: laplace_error(1.0, k)}
    for delta in DELTAS:
        kinds[f"Gaussian noise, δ = {delta:g}"] = (
            lambda k, delta=delta: gaussian_error(1.0, delta, k)  # type: ignore[misc]
        )
    shown = [1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30, 40, MOST_TABLES]
    lines = [[(tables, error(tables)) for tables in shown] for error in kinds.values()]
    drawing = curves(lines, ("tables", "standard error of a count"))
    notes = ["Standard error of a count at ε = 1, in each of so many equal tables"]
    Picture("What a budget buys", notes, drawing, list(kinds)).save(PICTURE)


# ---------------------------------------------------------------------- seconds


def mixed(random: int) -> Iterator[tuple[str, nz.Workload]]:
    """Workloads that ask attributes by several factors, and so many random ones."""
    yield "the demonstration", mixed_workloads.demonstration()
    yield "blocks in tracts in counties", mixed_workloads.hierarchy()
    yield from mixed_workloads.places_and_ages().items()
    yield from mixed_workloads.two_resolutions().items()
    for seed in range(random):
        yield f"random mixed {seed}", mixed_workloads.random_mixed(seed)


def beside_pure(random: int) -> Table:
    """What the rough search for Laplace plans misses, beside the whole search."""
    rows: list[tuple[Cell, ...]] = []
    for name, workload in mixed(random):
        ours = nz.plan(workload, budget=NINE).total_variance
        whole, pure = cpu_seconds(lambda w=workload: nz.plan(w, budget=nz.PureDP(1.0)), 1)
        ratio = ours / pure.total_variance
        rows.append((name, f"{ratio:.3f}", brief(whole), bool(ratio <= NEVER_WORSE)))
    return Table(
        title="Beside the whole search of pure DP",
        sentence="Total variance as planned for ε = 1 at δ = 1e-9 over that of the plan for pure "
        "ε = 1, which is a stronger promise; and the CPU seconds of that plan.",
        source="its own plans with `PureDP(1.0)`, whose searches for matrices take seconds.",
        columns="workload | planned, over pure | seconds of pure | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most 1 % above", rows),),
    )


def timed_workloads(quick: bool) -> Iterator[tuple[str, nz.Workload]]:
    """Workloads of several factors, of conditions, of prefix sums, small ones and large ones."""
    yield from mixed(2 if quick else 8)
    for seed in range(2 if quick else 6):
        yield f"small, several factors {seed}", several_factors(seed)
    for seed in range(2 if quick else 4):
        yield f"small, low rank {seed}", low_rank(seed)
    for attributes, k in ((5, 2), (5, 3), (5, 4), (10, 3)):
        domain = synth(10, attributes)
        yield f"prefix sums 10^{attributes}, {k}-way", domain.workload(f"{k}", nz.Prefix())
    for count in (20, 50):
        yield f"{count} conditions", mixed_workloads.conjunctions(count)
    schema = S({"age": 90, "sex": 2, "race": 6, "hours": 99})
    up_to: dict[str, nz.Factor] = {"age": nz.Prefix(), "hours": nz.Prefix()}
    yield "census-like, 2-way prefix sums", nz.Workload.marginals(schema, k=2, factors=up_to)
    one: dict[str, nz.Factor] = {"age": nz.Prefix()}
    yield "census-like, up to 2-way", nz.Workload.marginals(schema, up_to=2, factors=one)


def seconds(quick: bool) -> Table:
    """Planning with both noises compared, and with Gaussian noise alone."""
    nz.plan(counts(2), budget=NINE)  # so that lazy imports are not timed
    rows: list[tuple[Cell, ...]] = []
    sums = np.zeros(2)
    for name, workload in timed_workloads(quick):
        alone, gaussian = _planned_in(workload, DISCRETE)
        both, plan = _planned_in(workload, "discrete")
        sums += alone, both
        taken = "Laplace" if plan.noise == "discrete Laplace" else "Gaussian"
        gain = plan.total_variance / gaussian.total_variance
        rows.append((name, brief(alone), brief(both), f"{both / alone:.2f}", taken, f"{gain:.3f}"))
    ratio = float(sums[1] / sums[0])
    return Table(
        title="Seconds of planning, with Laplace noise and without",
        sentence="CPU seconds to plan for ε = 1 at δ = 1e-9: Gaussian noise alone, and both noises "
        "compared; the noise that was taken, and its total variance over that of Gaussian noise.",
        source="planning with noise='discrete Gaussian'.",
        columns="workload | Gaussian alone | both | ratio | taken | variance",
        rows=tuple(rows),
        claims=(
            Claim(
                f"at most {AS_LONG:g} times as long in sum: {sums[1]:.0f} s over {sums[0]:.0f} s, "
                f"{ratio:.2f} times",
                ratio <= AS_LONG,
            ),
        ),
    )


def _planned_in(workload: nz.Workload, noise: str) -> tuple[float, nz.Plan]:
    def work() -> nz.Plan:
        return nz.plan(nz.Workload(list(workload)), budget=NINE, noise=noise)

    once, plan = cpu_seconds(work, 1)
    return (once, plan) if once > 1 else (min(once, cpu_seconds(work, 2)[0]), plan)
