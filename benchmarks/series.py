"""Prefix sums and ranges over very many values: how near the bound, how fast, how it grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final
from unittest import mock

import numpy as np

import noiseplan as nz
from benchmarks.domains import BUDGET
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import ROOT, cpu_seconds, in_own_process, peak_bytes
from noiseplan.draw.picture import Picture
from noiseplan.draw.svg import curves
from noiseplan.planning import limits

MEGABYTES: Final = 2**20
VALUE: Final = nz.Identity()
FACTORS: Final[Mapping[str, nz.Factor]] = {"prefix": nz.Prefix(), "ranges": nz.Ranges()}
# Values, and the most seconds and distance from the bound that are allowed.
LARGE: Final = (
    ("prefix", 100_000, 10.0, 0.035),
    ("prefix", 1_000_000, 60.0, 0.035),
    ("ranges", 4_096, 10.0, 0.03),
    ("ranges", 100_000, 30.0, 0.03),
)
GROWTH: Final = (10_000, 30_000, 100_000, 300_000, 1_000_000)
PICTURE: Final = ROOT / "docs" / "images" / "growth.svg"


def tables(quick: bool) -> Iterator[Table]:
    """Beside the bound by singular values, beside optima, and by size."""
    yield large(quick)
    yield small((64, 128) if quick else (64, 128, 256, 512))
    if not quick:
        yield before()
        yield growth()
    yield grouped((100,) if quick else (200, 400))
    yield grouped_long((2_000,) if quick else (2_048, 8_192))
    yield crossed(2_000 if quick else 525_600)


def one(name: str, values: int) -> nz.Workload:
    """One attribute asked by one factor."""
    schema = nz.Schema.from_sizes({"time": values})
    return nz.Workload([nz.Query(schema, {"time": FACTORS[name]})])


def singular_bound(name: str, values: int) -> float:
    """‖W‖_*²/n: the least total variance, by singular values in closed form."""
    k = np.arange(1, values + 1)
    if name == "prefix":
        found = 1 / (2 * np.sin((2 * k - 1) * np.pi / (4 * values + 2)))
    else:
        found = np.sqrt(values + 1) / (2 * np.sin(k * np.pi / (2 * values + 2)))
    return float(found.sum() ** 2 / values)


def large(quick: bool) -> Table:
    """Planning by the thousand and by the million."""
    rows: list[tuple[Cell, ...]] = []
    for name, values, most, distance in LARGE:
        if quick:
            values = min(values, 10_000)
        done = in_own_process("benchmarks.series", "planned", name, values)
        above = np.sqrt(done["total"] / singular_bound(name, values)) - 1
        rows.append(
            (
                name,
                f"{values:,}",
                f"{above:.2%}",
                f"{distance:.1%}",
                brief(done["seconds"]),
                brief(most),
                f"{done['bytes'] / MEGABYTES:,.0f} MB",
                bool(above <= distance and done["seconds"] <= most),
            )
        )
    return Table(
        title="Very many values",
        sentence="One attribute, all prefix sums or all ranges, exact discrete noise on whole "
        "rows. RMSE above the bound by singular values, which no linear mechanism beats; CPU "
        "seconds of planning and printing the plan.",
        source="the bound by singular values in closed form.",
        columns="queries | values | above | limit | seconds | limit | memory | verdict",
        rows=tuple(rows),
        claims=(all_rows("within the limits", rows),),
    )


def planned(name: str, values: int) -> dict[str, float]:
    """Seconds of planning and certifying, in a process of its own."""
    workload = one(name, values)

    def work() -> nz.Plan:
        plan = nz.plan(workload, budget=BUDGET)
        str(plan)
        return plan

    seconds, plan = cpu_seconds(work, 1)
    return {"seconds": seconds, "total": plan.total_variance, "bytes": peak_bytes()}


def as_series(workload: nz.Workload, **how: Any) -> nz.Plan:
    """Planned as a long attribute is, however short it is."""
    with mock.patch.multiple(limits, LONG_VALUES=4, SERIES_VALUES=4):
        return nz.plan(workload, budget=BUDGET, noise="gaussian", **how)


def small(sizes: tuple[int, ...]) -> Table:
    """The same way of planning at sizes whose optimum is known."""
    rows: list[tuple[Cell, ...]] = []
    for values in sizes:
        schema = nz.Schema.from_sizes({"time": values})
        for names in (("prefix",), ("ranges",), ("prefix", "values")):
            each = FACTORS | {"values": VALUE}
            workload = nz.Workload([nz.Query(schema, {"time": each[name]}) for name in names])
            plan = as_series(workload)
            best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
            above = plan.rmse / best.rmse - 1
            rows.append((f"{values:,}", " and ".join(names), f"{above:.2%}"))
    return Table(
        title="Small sizes, beside the exact optimum",
        sentence="RMSE above the exact optimum, if attributes of few values were planned so "
        "(they are not: up to 1,024 values the optimum itself is found).",
        source="the optimum over all linear Gaussian mechanisms, certified.",
        columns="values | queries | above the optimum",
        rows=tuple(rows),
        claims=(),
    )


def before() -> Table:
    """Beside matrices over the values, which planned attributes of some thousand values before."""
    rows: list[tuple[Cell, ...]] = []
    for name in FACTORS:
        workload = one(name, 1_100)
        seconds, plan = cpu_seconds(partial(nz.plan, workload, budget=BUDGET), 1)
        with mock.patch.object(limits, "SERIES_VALUES", 10**9):
            long, matrix = cpu_seconds(partial(nz.plan, workload, budget=BUDGET), 1)
        above = plan.rmse / matrix.rmse - 1
        rows.append((name, f"{above:.2%}", brief(seconds), brief(long), bool(above <= 0.03)))
    return Table(
        title="Beside matrices over the values",
        sentence="1,100 values: RMSE of the series above that of the plan by matrices, and CPU "
        "seconds of both. The time of matrices grows with the third power of the values.",
        source="the plan of attributes of up to 1,024 values.",
        columns="queries | above | seconds | by matrices | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most 3 % above", rows),),
    )


def grown(values: int) -> dict[str, float]:
    """Seconds of planning, and of release and all answers with their errors."""
    workload = one("prefix", values)
    planning, plan = cpu_seconds(partial(nz.plan, workload, budget=BUDGET), 1)
    counts = np.random.default_rng(0).poisson(3.0, workload.schema.shape)

    def work() -> None:
        _ = plan.release(counts).answer(workload.query(0)).std_error

    return {"planning": planning, "answering": cpu_seconds(work, 1)[0]}


def growth() -> Table:
    """Planning and answering by the number of values, with a picture."""
    rows: list[tuple[Cell, ...]] = []
    points: dict[str, list[tuple[float, float]]] = {}
    first: dict[str, float] = {}
    for values in GROWTH:
        done = in_own_process("benchmarks.series", "grown", values)
        first = first or done
        times = max(done[what] / first[what] for what in done)
        for what, seconds in done.items():
            points.setdefault(what, []).append((values, seconds))
        rows.append(
            (
                f"{values:,}",
                brief(done["planning"]),
                brief(done["answering"]),
                f"{times:.0f}",
                bool(times <= 200),
            )
        )
    _draw(points)
    return Table(
        title="Growth",
        sentence="All prefix sums of one attribute: planning, then counting, noise and all answers "
        "with their errors. ![Seconds by the number of values](../images/growth.svg)",
        source="the same with 10,000 values.",
        columns="values | planning | answering | times at most | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most 200 times from 10,000 to a million", rows),),
    )


def _draw(points: dict[str, list[tuple[float, float]]]) -> None:
    """Draw seconds by the number of values: one curve for each kind of work."""
    drawing = curves(list(points.values()), ("values", "seconds"))
    title, notes = "Prefix sums of very many values", ["CPU seconds of one core"]
    Picture(title, notes, drawing, list(points)).save(PICTURE)


def by_tens(values: int) -> nz.Workload:
    """Prefix sums, groups of ten, single values and totals, every table alike."""
    schema = nz.Schema.from_sizes({"time": values, "region": 4})
    tens = nz.Levels(10, leaves=False, total=False)
    asked = [
        {"time": nz.Prefix(), "region": VALUE},
        {"time": tens, "region": VALUE},
        {"time": VALUE},
        {"region": VALUE},
    ]
    return nz.Workload([nz.Query(schema, factors) for factors in asked]).weighted("tables")


def grouped(sizes: tuple[int, ...]) -> Table:
    """Groups that count as much as all prefix sums, beside optima."""
    rows: list[tuple[Cell, ...]] = []
    for values in sizes:
        workload = by_tens(values)
        for objective in (nz.TotalVariance(), nz.WorstVariance()):
            total = isinstance(objective, nz.TotalVariance)
            plan = as_series(workload, objective=objective)
            how = "optimal" if total else "residual"
            best = nz.plan(
                workload, budget=BUDGET, noise="gaussian", objective=objective, planner=how
            )
            value, least = (p.total_variance if total else p.worst_variance for p in (plan, best))
            rows.append((f"{values:,}", str(objective), how, f"{value / least - 1:.1%}"))
    return Table(
        title="Groups that count as much as all prefix sums",
        sentence="Prefix sums by region, groups of ten by region, single values, regions, every "
        "table alike. Variance above that of the other planner, if attributes of few values "
        "were planned so.",
        source="the exact optimum for total variance, planner='residual' for the worst.",
        columns="values | objective | beside | variance above",
        rows=tuple(rows),
        claims=(),
    )


def grouped_long(sizes: tuple[int, ...]) -> Table:
    """The same where nothing but the certificate tells."""
    rows: list[tuple[Cell, ...]] = []
    for values in sizes:
        workload = by_tens(values)
        seconds, plan = cpu_seconds(partial(nz.plan, workload, budget=BUDGET), 1)
        certified, certificate = cpu_seconds(plan.certify, 1)
        gap = certificate.gap
        rows.append(
            (f"{values:,}", brief(seconds), brief(certified), f"{gap:.1%}", bool(gap <= 0.1))
        )
    return Table(
        title="The same groups of thousands of values",
        sentence="Total variance above the bound, and CPU seconds of planning and of certifying.",
        source="its own certificate: no linear Gaussian mechanism has less total variance.",
        columns="values | seconds | certifying | certified | verdict",
        rows=tuple(rows),
        claims=(all_rows("certified to 10 %", rows),),
    )


def minutes(values: int) -> nz.Workload:
    """A year's minutes by region: up to each, each alone, by day; and the regions."""
    schema = nz.Schema.from_sizes({"minute": values, "region": 8})
    day = nz.Levels(1440 if values > 10_000 else 100, leaves=False, total=False)
    return nz.Workload(
        [
            nz.Query(schema, {"minute": nz.Prefix(), "region": VALUE}, name="up to, by region"),
            nz.Query(schema, {"minute": VALUE}, name="minutes"),
            nz.Query(schema, {"minute": day, "region": VALUE}, name="days, by region"),
            nz.Query(schema, ["region"], name="regions"),
        ]
    )


def crossed(values: int) -> Table:
    """A year of minutes with another attribute, every row alike, and every table alike."""
    rows: list[tuple[Cell, ...]] = []
    for words, workload in (
        ("every row alike", minutes(values)),
        ("every table alike", minutes(values).weighted("tables")),
    ):
        seconds, plan = cpu_seconds(partial(nz.plan, workload, budget=BUDGET), 1)
        gap = plan.certify().gap
        errors = [float(np.sqrt(plan.variance(query).mean())) for query in workload]
        rows.append((words, brief(seconds), f"{gap:.1%}", *(f"{error:.1f}" for error in errors)))
    best = float(rows[0][2].rstrip("%")) if isinstance(rows[0][2], str) else 100.0
    return Table(
        title="Minutes of a year, by region",
        sentence=f"{values:,} minutes and 8 regions: prefix sums by region, single minutes, days "
        "by region, regions. Standard errors of each table. Days are too many to be measured "
        "beside so long a series; where they count as much as all prefix sums together, the "
        "certificate says how far the plan may be from the best.",
        source="its own certificate: no linear Gaussian mechanism has less total variance.",
        columns="weights | seconds | certified | up to | minutes | days | regions",
        rows=tuple(rows),
        claims=(Claim(f"every row alike: certified to {best:.1f} %", best <= 15.0),),
    )
