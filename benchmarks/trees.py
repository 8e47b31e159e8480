"""Levels of long attributes: geography at national scale, how near the optimum, how fast."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import noiseplan as nz
from benchmarks.domains import BUDGET
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds, in_own_process, peak_bytes
from noiseplan.planning import limits
from noiseplan.planning.planners import automatic, beside_levels

MEGABYTES: Final = 2**20
VALUE: Final = nz.Identity()
SMALL_CASES: Final = 20
OBJECTIVES: Final = {
    "total": nz.TotalVariance(),
    "worst": nz.WorstVariance(),
    "3-norm": nz.PNormVariance(3),
}
GROWTH: Final = (10_000, 100_000, 1_000_000)


def tables(quick: bool) -> Iterator[Table]:
    """Small trees beside their optimum, then large ones."""
    yield small(6 if quick else SMALL_CASES)
    yield national(quick)
    yield detailed(quick)
    yield conditions(quick)
    yield weighty(quick)
    if not quick:
        yield growth()
    yield apart()


def uneven(leaves: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tract of each leaf and its county: sizes are lognormal, about 20 and 25 in the mean."""
    rng = np.random.default_rng(leaves)
    tracts, counties = leaves // 20, leaves // 500
    tract = _sizes(rng, leaves, tracts, 0.5)
    return tract, _sizes(rng, tracts, counties, 0.6)[tract]


def _sizes(rng: np.random.Generator, items: int, groups: int, spread: float) -> NDArray[np.int64]:
    ends = np.cumsum(rng.lognormal(0.0, spread, groups))
    ends = np.maximum(np.rint(ends / ends[-1] * items), np.arange(1, groups + 1))
    return np.searchsorted(ends, np.arange(items), side="right").astype(np.int64)


def census(leaves: int, even: bool) -> nz.Workload:
    """Places by sex, tracts by age and sex, counties by ages up to each and sex, the nation."""
    schema = nz.Schema.from_sizes({"place": leaves, "age": 20, "sex": 2})
    if even:
        widths: tuple[Any, ...] = (10, 100, 10_000)
        levels = [nz.Levels(width, leaves=False, total=False) for width in widths]
        factors = [{"place": level, "age": VALUE, "sex": VALUE} for level in levels]
    else:
        tract, county = map(_groups, uneven(leaves))
        factors = [{"place": tract, "age": VALUE, "sex": VALUE}]
        factors += [{"place": county, "age": nz.Prefix(), "sex": VALUE}]
    queries = [nz.Query(schema, ["place", "age", "sex"]), nz.Query(schema, ["age", "sex"])]
    return nz.Workload([*queries, *(nz.Query(schema, factor) for factor in factors)])


def small(cases: int) -> Table:
    """Trees of which the optimum is known."""
    rows: list[tuple[Cell, ...]] = []
    for even, limit in ((True, 0.01), (False, 0.05)):
        above, says = [], []
        for seed in range(cases):
            workload = _small_tree(seed, even)
            with mock.patch.object(limits, "LONG_VALUES", 4):
                plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
            best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
            above.append(plan.total_variance / best.certify().bound - 1)
            says.append(plan.certify().gap)
        texts = ("even" if even else "uneven", str(cases), f"{np.mean(above):.2%}")
        rows.append(
            (*texts, f"{max(above):.2%}", f"{limit:.0%}", f"{max(says):.2%}", max(above) <= limit)
        )
    return Table(
        title="Small trees",
        sentence="20 to 60 places in tracts in counties, crossed with two other attributes asked "
        "by value, 120 to 2,000 cells. Total variance above the exact optimum.",
        source="the optimum over all linear Gaussian mechanisms, certified.",
        columns="trees | cases | mean | worst | limit | says at most | verdict",
        rows=tuple(rows),
        claims=(all_rows("within the limit", rows),),
    )


def _small_tree(seed: int, even: bool) -> nz.Workload:
    rng = np.random.default_rng([3, seed])
    leaves = int(rng.integers(2, 6)) * 12
    tract = np.arange(leaves) // 3 if even else np.sort(rng.integers(0, leaves // 3, leaves))
    county = np.arange(leaves) // 12 if even else tract // 4
    schema = nz.Schema.from_sizes({"place": leaves, "age": int(rng.integers(3, 9)), "sex": 2})
    by_tract, by_county = map(_groups, (tract, county))
    weights = rng.uniform(0.3, 3.0, 3)
    return nz.Workload(
        [
            nz.Query(schema, {"place": VALUE, "sex": VALUE}, weight=weights[0]),
            nz.Query(schema, {"place": by_tract, "age": VALUE}, weight=weights[1]),
            nz.Query(schema, {"place": by_county, "age": VALUE, "sex": VALUE}, weight=weights[2]),
            nz.Query(schema, ["age"]),
        ]
    )


def _groups(of_place: NDArray[np.int64]) -> nz.Levels:
    return nz.Levels(of_place.tolist(), leaves=False, total=False)


def national(quick: bool) -> Table:
    """A nation's tree, from plan to tables."""
    limits = {(100_000, False): (60.0, 2048, 0.10), (1_000_000, True): (10.0, None, 0.01)}
    rows: list[tuple[Cell, ...]] = []
    for (leaves, even), (most, memory, certified) in limits.items():
        if quick:
            leaves //= 10
        done = in_own_process("benchmarks.trees", "planned", leaves, even)
        met = done["seconds"] <= most and done["gap"] <= certified
        met &= memory is None or done["bytes"] <= memory * MEGABYTES
        rows.append(
            (
                f"{leaves:,} leaves, {'even' if even else 'uneven'}",
                f"{done['rows']:,}",
                brief(done["seconds"]),
                brief(most),
                f"{done['bytes'] / MEGABYTES:,.0f} MB",
                f"{done['gap']:.2%}",
                f"{certified:.0%}",
                met,
            )
        )
    speed = in_own_process("benchmarks.trees", "released", 10_000 if quick else 100_000)
    fast = speed["rows"] / speed["seconds"]
    return Table(
        title="A nation's places by age and sex",
        sentence="Every place, tract and county by 20 ages and sex (counties by ages up to each "
        "in the uneven tree), and the nation: 100,000 places in 5,000 tracts in 200 counties, or "
        "a million in five even levels. Planning with exact discrete noise.",
        source="its own certificate: no linear Gaussian mechanism has less total variance.",
        columns="tree | rows | seconds | limit | memory | certified | limit | verdict",
        rows=tuple(rows),
        claims=(
            all_rows("within the limits", rows),
            Claim(
                f"release and all tables of the uneven tree: {fast / 1e6:.1f} million cells a CPU "
                "second (5 wanted)",
                fast >= 5e6,
            ),
        ),
    )


def detailed(quick: bool) -> Table:
    """Levels that ask for different things of the others."""
    rows: list[tuple[Cell, ...]] = []
    sizes = (2_400, 10_000) if quick else (2_400, 100_000)
    for leaves, even in ((sizes[0], True), (sizes[1], True), (sizes[0], False), (sizes[1], False)):
        for name, how in (
            OBJECTIVES.items() if leaves == sizes[0] else [("total", nz.TotalVariance())]
        ):
            workload = by_detail(leaves, even)
            asked = {"budget": BUDGET, "noise": "gaussian", "objective": how}
            seconds, plan = cpu_seconds(partial(nz.plan, workload, **asked), 1)
            proof = plan.certify()
            one = nz.plan(workload, **asked, planner="residual").certify().value
            limit = 0.01 if even else 0.05
            rows.append(
                (
                    f"{leaves:,}, {'even' if even else 'uneven'}",
                    name,
                    f"{proof.value:.6g}",
                    f"{one / proof.value:.2f}",
                    f"{proof.gap:.2%}",
                    f"{limit:.0%}",
                    brief(seconds),
                    proof.gap <= limit,
                )
            )
    return Table(
        title="Levels that ask for different things",
        sentence="Counties by 40 ages up to each, sex and five origins, tracts by bands of ages "
        "and sex and by origin, places by sex; every table counts the same. The objective, beside "
        "one tree with one set of rows for all levels, and what is certified.",
        source="its own certificate; the limits were chosen after first figures were seen.",
        columns="places | objective | value | one tree, times | certified | limit | seconds"
        " | verdict",
        rows=tuple(rows),
        claims=(all_rows("certified to the limit", rows),),
    )


def conditions(quick: bool) -> Table:
    """Conditions beside such tables, which name some places."""
    rows: list[tuple[Cell, ...]] = []
    leaves = 2_400 if quick else 20_000
    schema, size = by_detail(leaves, True).schema, leaves // 8
    asked = {
        "one county": [f"place < {size} and age < 18"],
        "ten tracts": [
            f"place >= {20 * t} and place < {20 * t + 20} and sex = 1" for t in range(10)
        ],
        "single places": ["place in (3, 77, 1200) and age < 18"],
        "one with or": [f"place < {size} or age < 18"],
    }
    for name, how in {"total": nz.TotalVariance(), "worst": nz.WorstVariance()}.items():
        tables = nz.Workload([nz.Query(schema, q.factors) for q in by_detail(leaves, True)])
        plans: dict[str, Any] = {"budget": BUDGET, "noise": "gaussian", "objective": how}
        alone = nz.plan(tables, **plans)
        for called, texts in asked.items():
            workload = tables + nz.Workload.predicates(schema, texts)
            seconds, plan = cpu_seconds(partial(nz.plan, workload, **plans), 1)
            proof = plan.certify()
            more = max(plan.variance(q).mean() / alone.variance(q).mean() for q in tables)
            limit = 0.01 if name == "total" else 0.35
            least = (f"{more - 1:.2%}", f"{proof.gap:.2%}", f"{limit:.0%}", brief(seconds))
            rows.append((called, name, *least, proof.gap <= limit and seconds <= 20))
    return Table(
        title="Conditions beside levels",
        sentence=f"Conditions on some of {leaves:,} places beside the same tables, every row "
        "counting the same: how much larger the variances of any table are than without "
        "conditions, and how far above the tables' own bound the plan is certified to be.",
        source="its own certificate; the limits, and that of 20 seconds, were chosen after first "
        "figures were seen. Before, such a plan took minutes.",
        columns="conditions | objective | tables, more | certified | limit | seconds | verdict",
        rows=tuple(rows),
        claims=(all_rows("certified to the limit in time", rows),),
    )


def weighty(quick: bool) -> Table:
    """Conditions that count as much as a table, without and with nodes of their own."""
    rows: list[tuple[Cell, ...]] = []
    for name, workload, small in _weighty(quick):
        how = {"budget": BUDGET, "noise": "gaussian"}
        patient = mock.patch.object(automatic, "or_optimum", lambda problem, best: best)
        long = mock.patch.object(limits, "LONG_VALUES", 4 if small else limits.LONG_VALUES)
        with patient, long:
            with mock.patch.object(beside_levels, "split_off", lambda asked: None):
                before = nz.plan(workload, **how).certificate.value
            seconds, plan = cpu_seconds(partial(nz.plan, workload, **how), 1)
        told = plan.certificate
        best = told.bound
        if small:
            best = nz.plan(workload, planner="optimal", **how).certify().bound
        above = [value / best - 1 for value in (before, told.value)]
        limit = 0.08 if small else 0.3
        figures = (f"{above[0]:.1%}", f"{above[1]:.1%}", f"{told.gap:.1%}", f"{limit:.0%}")
        rows.append((name, *figures, brief(seconds), above[1] <= limit and seconds <= 20))
    return Table(
        title="Conditions that count as tables",
        sentence='Conditions beside tables of counties, tracts and places, `weighted("tables")`: '
        "total variance above the optimum where that is known (24 to 150 places), else above what "
        "is certified, without and with nodes of their own for conditions; and what the plan says.",
        source="the certified optimum over all linear Gaussian mechanisms, or the plan's own "
        "certificate; the limits, and that of 20 seconds, were chosen after first figures were "
        "seen.",
        columns="workload | without | with | says | limit | seconds | verdict",
        rows=tuple(rows),
        claims=(all_rows("within the limit in time", rows),),
    )


def _weighty(quick: bool) -> Iterator[tuple[str, nz.Workload, bool]]:
    """Names, workloads, and whether the optimum is known."""
    county, tract, place = "county = 'b' and age < 2", "tract = 'c1' and sex = 'F'", "age < 2"
    for tracts, places in ((2, 4), (4, 5), (5, 10)):
        codes = [f"{c}{t}{p}" for c in "abc" for t in range(tracts) for p in "abcdefghij"[:places]]
        asked = {
            "a county": [county],
            "a county and a tract": [county, tract],
            "a county, a tract and a place": [county, tract, f"place = '{codes[0]}' and {place}"],
        }
        for called, texts in asked.items():
            workload = _by_code(codes, texts)
            yield f"{len(codes)} places, {called}", workload, True
    for leaves, even in ((2_400, True), (2_400, False), *(() if quick else ((20_000, True),))):
        own = by_detail(leaves, even)
        tables = nz.Workload([nz.Query(own.schema, q.factors) for q in own])
        some = {
            "an eighth": [f"place < {leaves // 8} and age < 18"],
            "ten tracts": [
                f"place >= {20 * t} and place < {20 * t + 20} and sex = 1" for t in range(10)
            ],
        }
        for called, texts in some.items():
            if even or called == "an eighth":
                workload = (tables + nz.Workload.predicates(own.schema, texts)).weighted("tables")
                how = "even" if even else "uneven"
                yield f"{leaves:,} places, {how}, {called}", workload, False


def _by_code(codes: list[str], texts: list[str]) -> nz.Workload:
    geo = nz.Hierarchical.from_codes(codes, {"county": 1, "tract": 2}, leaf="place")
    sex = nz.Categorical(["F", "M"])
    schema = nz.Schema({"geo": geo, "age": nz.Ordinal(range(4)), "sex": sex})
    tables = [
        nz.Query(schema, {"geo": nz.Level("county"), "age": nz.Prefix(), "sex": VALUE}),
        nz.Query(schema, {"geo": nz.Level("tract"), "age": nz.Levels(2, leaves=False)}),
        nz.Query(schema, {"geo": VALUE, "sex": VALUE}),
    ]
    return (nz.Workload(tables) + nz.Workload.predicates(schema, texts)).weighted("tables")


def by_detail(leaves: int, even: bool) -> nz.Workload:
    """Less detail at finer levels."""
    schema = nz.Schema.from_sizes({"place": leaves, "age": 40, "sex": 2, "origin": 5})
    if even:
        tract, county = (nz.Levels(n, leaves=False, total=False) for n in (20, leaves // 8))
    else:
        tract, county = map(_groups, uneven(leaves))
    bands = nz.Levels(5, leaves=False, total=False)
    factors: list[dict[str, Any]] = [
        {"place": county, "age": nz.Prefix(), "sex": VALUE, "origin": VALUE},
        {"place": tract, "age": bands, "sex": VALUE},
        {"place": tract, "origin": VALUE},
        {"place": VALUE, "sex": VALUE},
    ]
    return nz.Workload([nz.Query(schema, each) for each in factors]).weighted("tables")


def planned(leaves: int, even: bool) -> dict[str, float]:
    """Seconds of planning and certifying, in a process of its own."""
    workload = census(leaves, even)
    seconds, plan = cpu_seconds(partial(nz.plan, workload, budget=BUDGET), 1)
    gap = plan.certify().gap
    return {"seconds": seconds, "gap": gap, "rows": workload.rows, "bytes": peak_bytes()}


def released(leaves: int) -> dict[str, float]:
    """Seconds from counts to all tables with their errors."""
    workload = census(leaves, even=False)
    plan = nz.plan(workload, budget=BUDGET)
    counts = np.random.default_rng(0).poisson(0.3, workload.schema.shape)

    def work() -> None:
        release = plan.release(counts)
        for query in workload:
            _ = release.answer(query).std_error

    return {"seconds": cpu_seconds(work, 2)[0], "rows": workload.rows}


def growth() -> Table:
    """Planning time by the number of values."""
    rows: list[tuple[Cell, ...]] = []
    first = 0.0
    for leaves in GROWTH:
        seconds = in_own_process("benchmarks.trees", "planned", leaves, False)["seconds"]
        first = first or seconds
        rows.append(
            (f"{leaves:,}", brief(seconds), f"{seconds / first:.1f}", seconds <= 200 * first)
        )
    return Table(
        title="Growth",
        sentence="The uneven tree with more places: 20 in a tract and 25 tracts in a county in "
        "the mean.",
        source="the same with 10,000 places.",
        columns="places | seconds | times | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most 200 times from 10,000 to a million", rows),),
    )


def apart() -> Table:
    """What tables cost that are planned each by itself, as is usual."""
    workload = census(10_000, even=False).weighted("tables")
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    rows: list[tuple[Cell, ...]] = []
    sums = np.zeros(2)
    for query in workload:
        alone = _alone(query, BUDGET.rho / len(workload)).rmse
        together = float(np.sqrt(plan.variance(query).mean()))
        sums += [alone**2, together**2]
        rows.append((query.name, f"{alone:.2f}", f"{together:.2f}", f"{alone / together:.2f}"))
    gain = 1 - sums[1] / sums[0]
    return Table(
        title="Beside tables planned apart",
        sentence="10,000 places: root mean square errors with an equal share of the budget for "
        "each table, each planned as well as it can be alone, and with one plan for all in which "
        "each counts the same. Tables planned apart contradict each other, too.",
        source="the practice of a share for each level, chosen by hand.",
        columns="table | apart | one plan | times",
        rows=tuple(rows),
        claims=(Claim(f"the mean variance of all tables falls by {gain:.1%}", gain > 0),),
    )


def _alone(query: nz.Query, rho: float) -> nz.Plan:
    """A query as the only one, its places as values of their own."""
    places = query.shape[0] if "place" in query.attributes else 1
    schema = nz.Schema.from_sizes({"place": places, "age": 20, "sex": 2})
    factors = {**query.factors, "place": VALUE}
    one = nz.Workload([nz.Query(schema, factors)])
    return nz.plan(one, budget=nz.zCDP(rho), noise="gaussian")
