"""Data-aware answers: worked examples, privacy audited, errors beside those of others, time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import noiseplan as nz
from benchmarks.aware_published import (
    audited_epsilon,
    candidates,
    frequencies,
    published_partition,
)
from benchmarks.aware_shapes import CELLS, KNOWN, Counts, reduced, shapes
from benchmarks.least_partition import least_cost_partition, partition_cost
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from noiseplan.counting import CountTensor
from noiseplan.matrices import RangesMatrix
from noiseplan.mechanisms.partition.buckets import LineWorkload, expand
from noiseplan.mechanisms.partition.halving import Halves, HalvingSelector, draw_downwards
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.partition_prior import Candidates
from noiseplan.mechanisms.partition.selection import Selector, draw_backwards
from noiseplan.noise import SeededSource, SimulationSampler
from noiseplan.planning.planners.dawa import plan_buckets
from noiseplan.strategies.hierarchies import tree

Array = NDArray[np.float64]
WORKED: Final = np.array([2, 3, 8, 1, 0, 2, 0, 4, 2, 4])
EPSILONS: Final = (0.01, 0.1, 0.5)
# Privelet's expected error of a random interval of 4,096 cells, times ε.
PRIVELET: Final = 20.63


class Peer(NamedTuple):
    """The reference implementation on a data set: RMSE at 10⁴ and 10⁵ records."""

    few: float
    many: float


PEERS: Final = {
    "HepPh": Peer(67.4, 142.9),
    "Patents": Peer(66.1, 110.2),
    "Nettrace": Peer(55.9, 60.4),
    "Adult": Peer(58.1, 85.7),
    "Medical Cost": Peer(77.9, 140.6),
}


def tables(quick: bool) -> Iterator[Table]:
    """From what can be checked exactly to what can only be seen."""
    yield worked_examples()
    yield likeness()
    yield audit(quick)
    yield prefix_sums(quick)
    yield intervals(quick)
    yield gaussian(quick)
    yield plane(quick)
    yield seconds(quick)


# ---------------------------------------------------------------------- worked examples


def worked_examples() -> Table:
    """T15 to T17 of the specification, as the dissertation has them."""
    costs = IntervalCosts.of(WORKED)
    rows: list[tuple[Cell, ...]] = []

    def row(what: str, found: float, wanted: float) -> None:
        rows.append((what, f"{found:.6f}", f"{wanted:.6f}", bool(abs(found / wanted - 1) < 1e-6)))

    for second, stated, least, powers in (
        (1.0, 10.666667, 10.0, 10.0),
        (0.5, 14.666667, 14.666667, 16.0),
        (0.1, 46.666667, 27.2, 37.0),
    ):  # fmt: skip
        name = f"1/ε₂ = {1 / second:g}"
        row(
            f"cost of the example, {name}",
            partition_cost(costs, np.array([0, 2, 3, 7, 10]), 1 / second),
            stated,
        )
        row(f"least cost, {name}", _least(Candidates.every(10, 10), WORKED, 1 / second), least)
        row(f"powers of two, {name}", _least(candidates(10), WORKED, 1 / second), powers)
    for length, wanted in ((2, 1.0), (3, 4 / 3), (5, 1.6), (8, 1.75)):
        row(f"how far a record moves the deviation of {length} cells", _sensitivity(length), wanted)
    for cells, wanted in ((32, 5984.0), (64, 41238.5417), (256, 1599541.0949), (512, 9511703.2632)):
        row(f"greedy tree, all ranges of {cells}", tree(RangesMatrix(cells).gram())[0], wanted)
    return Table(
        title="Worked examples of chapter 6",
        sentence="Costs of partitions, sensitivities, and the greedy allocation at ε₂ = 1.",
        source="the dissertation's example and formulas, recomputed.",
        columns="figure | measured | must show | verdict",
        rows=tuple(rows),
        claims=(all_rows("every value", rows),),
    )


def _least(asked: Candidates, counts: Counts, charge: float) -> float:
    start, stop, _ = asked.intervals
    return least_cost_partition(asked, IntervalCosts.of(counts).deviation(start, stop) + charge)[0]


def _sensitivity(length: int) -> float:
    start, stop, found = np.array([0]), np.array([length]), 0.0
    for own in range(6):
        x = np.full(length, 3)
        x[0] = own
        more = x + (np.arange(length) == 0)
        before, after = (IntervalCosts.of(y).deviation(start, stop)[0] for y in (x, more))
        found = max(found, abs(after - before))
    return found


def likeness() -> Table:
    """How near the made-up vectors are to the data sets."""
    rows: list[tuple[Cell, ...]] = []
    asked = candidates(CELLS)
    for name, counts in _shapes().items():
        known, cost = KNOWN[name], _least(asked, counts, 10.0)
        rows.append(
            (
                name, f"{counts.sum():,}", f"{known.records:,}", f"{(counts == 0).mean():.3f}",
                f"{known.empty:.3f}", f"{cost:,.0f}", f"{known.cost:,.0f}",
                f"{cost / known.cost:.2f}",
            )
        )  # fmt: skip
    ratios = [float(str(row[-1])) for row in rows]
    close = max(*ratios, *(1 / r for r in ratios))
    return Table(
        title="Vectors like the seven data sets",
        sentence=(
            "The data sets are not part of this project. Vectors of 4,096 cells are made to their "
            "records, empty cells and least cost (powers of two, 1/ε₂ = 10)."
        ),
        source="the public vectors, as recomputed for Table 6.1 (Nettrace and Adult put right).",
        columns="shape | records | data set | empty | data set | least cost | data set | ratio",
        rows=tuple(rows),
        claims=(Claim(f"least costs within a factor of 2 (largest {close:.2f})", close < 2),),
    )


@cache
def _shapes() -> dict[str, Counts]:
    return shapes()


# ---------------------------------------------------------------------- privacy


def audit(quick: bool) -> Table:
    """No records against one, many times over: what ε the frequencies prove."""
    runs = 50_000 if quick else 200_000
    rows: list[tuple[Cell, ...]] = []
    for cells in (4, 5):
        none = np.zeros(cells, dtype=np.int64)
        one = none + (np.arange(cells) == 1)
        halving = HalvingSelector.within(1.0, Halves(cells, 4))
        chains = Selector.within(1.0, Candidates.every(cells, cells))
        for what, selector in (("by halving", halving), ("of any length", chains)):
            own = [_drawn(selector, x, runs // 10, seed) for seed, x in ((1, none), (2, one))]
            found = audited_epsilon(*own)
            name = f"drawn partition {what}, {cells} cells"
            rows.append((name, f"{found:.3f}", "≤ 1", found <= 1))
        for clamp in (False, True):
            both = [frequencies(x, runs, seed, clamp) for seed, x in ((1, none), (2, one))]
            found = audited_epsilon(*both)
            name = "published, with the clamp" if clamp else "published, without the clamp"
            wanted, right = ("> 1", found > 1) if clamp else ("≤ 1", found <= 1)
            rows.append((f"{name}, {cells} cells", f"{found:.3f}", wanted, right))
    return Table(
        title="The first step audited at ε₁ = 1",
        sentence=(
            f"Frequencies of every partition over {runs:,} runs ({runs // 10:,} of the drawn one) "
            "on two neighbours give a lower bound on ε, false once in a million. That of the drawn "
            "partition must not exceed its claim; the clamped one's does, so it is not ε₁-private."
        ),
        source="the claim ε₁ = 1; the clamp replaces noisy costs by max(cost, 1/ε₂), 1/ε₂ = 1.",
        columns="first step | ε at least | must show | verdict",
        rows=tuple(rows),
        claims=(all_rows("as stated", rows),),
    )


def _drawn(
    selector: Selector | HalvingSelector, counts: Counts, runs: int, seed: int
) -> NDArray[np.int64]:
    source, cells = SeededSource(seed), len(counts)
    if isinstance(selector, Selector):
        draw = partial(draw_backwards, selector.filtered(counts), source)
    else:
        draw = partial(draw_downwards, selector.sums(counts), cells, source)
    found = np.zeros(2 ** (cells - 1), dtype=np.int64)
    for _ in range(runs):
        found[sum(1 << int(edge - 1) for edge in draw()[1:-1])] += 1
    return found


# ---------------------------------------------------------------------- errors


def _prefixes(cells: int) -> nz.Workload:
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    return nz.Workload([nz.Query(schema, {"v": nz.Prefix()})])


def prefix_sums(quick: bool) -> Table:
    """The reference implementation's figures: prefix sums of 1,024 cells, ε = 0.1."""
    runs, workload = (4 if quick else 20), _prefixes(1024)
    plan = nz.plan(workload, budget=nz.PureDP(0.1), planner="dawa")
    blind = nz.plan(workload, budget=nz.PureDP(0.1)).rmse
    rows: list[tuple[Cell, ...]] = []
    for name, peer in PEERS.items():
        for records, reference in ((10**4, peer.few), (10**5, peer.many)):
            counts = reduced(_shapes()[name], 1024, records)
            truth = np.cumsum(counts)
            squares, claimed = [], []
            for seed in range(runs):
                answer = plan.release(counts, seed=seed).answer(workload[0])
                squares.append(float(np.mean((answer.estimate - truth) ** 2)))
                claimed.append(float(np.mean(answer.estimated_error**2)))
            rmse = math.sqrt(np.mean(squares))
            noise = float(np.std(squares)) / math.sqrt(runs) / (2 * rmse)
            rows.append(
                (
                    name, f"{records:,}", f"{rmse:.1f} ± {noise:.1f}", f"{reference:.1f}",
                    f"{rmse / reference:.2f}", f"{rmse / blind:.2f}",
                    f"{math.sqrt(np.mean(claimed)) / rmse:.2f}", rmse - 2 * noise <= reference,
                )
            )  # fmt: skip
    return Table(
        title="Prefix sums of 1,024 cells at ε = 0.1",
        sentence=(
            f"Root mean squared error over {runs} releases (± one standard error), on shapes like "
            f"the data sets; its ratio to the reference DAWA, to the best plan that looks at no "
            f"data ({blind:.1f}), and the ratio of the estimated error to the true one."
        ),
        source=(
            "the public DAWA on the data sets themselves (20 trials), whose first step is not "
            "private as calibrated."
        ),
        columns="shape | records | RMSE | must show | ratio | to blind | estimated | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most the reference, within two standard errors", rows),),
    )


def intervals(quick: bool) -> Table:
    """Random intervals of 4,096 cells: the dissertation's Table 6.2, on shapes like its data."""
    runs = 2 if quick else 20
    blind = _blind(_ranges(), _ends())
    rows: list[tuple[Cell, ...]] = []
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        for name in _shapes():
            each = _releases(epsilon, name, runs)
            ours, spread = float(np.mean(each)), float(np.std(each)) / math.sqrt(runs - 1)
            theirs = float(np.mean(_clamped(epsilon, name, runs)))
            privelet = PRIVELET / epsilon
            rows.append(
                (
                    f"{epsilon:g}", name, f"{brief(ours)} ± {brief(spread)}", brief(theirs),
                    f"{ours / theirs:.2f}", f"{privelet / ours:.2f}",
                    f"{blind / epsilon / ours:.2f}",
                )
            )  # fmt: skip
    ratio = np.array([[float(str(cell)) for cell in row[4:]] for row in rows])
    typical = float(np.exp(np.log(ratio[:, 0]).mean()))
    least = float(ratio[:, 1].min())
    easy = max(float(str(row[5])) for row in rows if row[1] == "Nettrace")
    lost = float(1 / ratio[:, 2].min())
    return Table(
        title="Random intervals of 4,096 cells",
        sentence=(
            f"Mean absolute error of 2,000 uniform intervals over {runs} releases (± one standard "
            f"error); that of the "
            "published clamped partition (not private) with the same second step at its share of a "
            "quarter, over as many; how many times the error of Privelet (expected), and of this "
            "library's own measurements of all cells, is larger. The clamped version looks at the "
            f"data more than its ε₁ says; beside it the error is {typical:.2f} times as large in "
            f"the geometric mean, at most {ratio[:, 0].max():.1f} times. Beside measuring all "
            f"cells it is at most {lost:.2f} times as large."
        ),
        source="the dissertation's Table 6.2 for the order: DAWA, then Privelet; ratios 1 to 13.",
        columns="ε | shape | error | clamped | ratio | Privelet / ours | blind / ours",
        rows=tuple(rows),
        claims=(
            Claim(f"below Privelet everywhere (least ratio {least:.2f})", least > 1),
            Claim(f"largest gain over Privelet on Nettrace {easy:.1f}", easy > 4),
            Claim(
                f"within 1.05 of the clamped version's error, geometric mean ({typical:.2f})",
                typical < 1.05,
            ),
        ),
    )  # fmt: skip


def _releases(epsilon: float, name: str, runs: int) -> list[float]:
    """Errors of releases of a shape."""
    plan, counts = _aware_plan(epsilon), _shapes()[name]
    return [_off(plan.release(counts, seed=s).counts, counts, _ends()) for s in range(runs)]


def _clamped(epsilon: float, name: str, runs: int) -> list[float]:
    """Errors with the published clamped partition."""
    counts = _shapes()[name]
    return [_off(_published(_ranges(), counts, epsilon, s), counts, _ends()) for s in range(runs)]


@cache
def _aware_plan(epsilon: float) -> nz.Plan:
    return nz.plan(_ranges(), budget=nz.PureDP(epsilon), planner="dawa")


@cache
def _ranges() -> nz.Workload:
    schema = nz.Schema({"v": nz.Ordinal(range(CELLS))})
    return nz.Workload([nz.Query(schema, {"v": nz.Ranges()})])


@cache
def _ends() -> NDArray[np.int64]:
    """Where 2,000 uniform intervals start and stop."""
    ends = np.sort(np.random.default_rng(0).integers(0, CELLS + 1, (2000, 2)), axis=1)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + (ends[:, 0] < CELLS))
    return ends


def _off(estimate: Array, counts: Counts, ends: NDArray[np.int64]) -> float:
    error = np.concatenate([[0.0], np.cumsum(estimate - counts)])
    return float(np.abs(error[ends[:, 1]] - error[ends[:, 0]]).mean())


def _line(workload: nz.Workload) -> LineWorkload:
    return LineWorkload(workload, ("v",), np.arange(CELLS))


def _published(workload: nz.Workload, counts: Counts, epsilon: float, seed: int) -> Array:
    rng = np.random.default_rng([seed, 7])
    edges = published_partition(counts, 0.25 * epsilon, 0.75 * epsilon, rng)
    buckets = plan_buckets(nz.plan, _line(workload), edges, nz.PureDP(0.75 * epsilon), "laplace")
    values = buckets.measure(counts, SimulationSampler("laplace", seed))
    return expand(buckets.estimate(values), edges)


def _blind(workload: nz.Workload, ends: NDArray[np.int64]) -> float:
    """The expected error at ε = 1 of measuring every cell by storeys, which look at no data."""
    edges = np.arange(CELLS + 1)
    buckets = plan_buckets(nz.plan, _line(workload), edges, nz.PureDP(1.0), "laplace")
    cells = np.arange(CELLS)
    rows = ((ends[:300, :1] <= cells) & (cells < ends[:300, 1:])).astype(float)
    variance = np.einsum("ij,ji->i", rows, buckets.covariance_times(rows.T))
    return float(np.sqrt(2 / np.pi) * np.sqrt(np.maximum(variance, 0.0)).mean())


def gaussian(quick: bool) -> Table:
    """The same by zCDP: the draw costs ε²/8, so it may see more."""
    runs, workload = (2 if quick else 20), _prefixes(1024)
    budget = nz.zCDP(0.005)
    plan = nz.plan(workload, budget=budget, planner="dawa")
    blind = nz.plan(workload, budget=budget, planner="optimal").rmse
    rows: list[tuple[Cell, ...]] = []
    for name, counts in _shapes().items():
        x = reduced(counts, 1024, 10**4)
        truth = np.cumsum(x)
        off = [
            np.mean((plan.release(x, seed=s).answer(workload[0]).estimate - truth) ** 2)
            for s in range(runs)
        ]
        rmse = math.sqrt(np.mean(off))
        rows.append((name, f"{rmse:.1f}", f"{blind:.1f}", f"{rmse / blind:.2f}"))
    ratios = np.array([float(str(row[-1])) for row in rows])
    mean, worst = float(np.exp(np.log(ratios).mean())), float(ratios.max())
    return Table(
        title="Prefix sums of 1,024 cells by zCDP, ρ = 0.005",
        sentence=f"RMSE of 10,000 records over {runs} releases with discrete Gaussian noise.",
        source="the exact optimum of linear Gaussian mechanisms, which look at no data.",
        columns="shape | data-aware | optimum without data | ratio",
        rows=tuple(rows),
        claims=(
            Claim(f"{mean:.2f} of the optimum without data, geometric mean", mean < 1),
            Claim(f"nowhere a sixth above it (largest {worst:.2f})", worst < 7 / 6),
        ),
    )


def plane(quick: bool) -> Table:
    """Two attributes along the Hilbert curve: quadrants and windows of clustered records."""
    side, runs = 64, (1 if quick else 20)
    schema = nz.Schema({"x": nz.Ordinal(range(side)), "y": nz.Ordinal(range(side))})
    rng = np.random.default_rng(3)
    windows = np.zeros((200, side, side))
    for window, (row, column) in zip(windows, rng.integers(0, side - 8, (200, 2)), strict=True):
        window[row : row + 8, column : column + 8] = 1
    asked = {
        "quadrants": nz.Query(schema, {"x": nz.Prefix(), "y": nz.Prefix()}),
        "8 × 8 windows": nz.Query(schema, ["x", "y"], matrix=windows.reshape(200, -1)),
    }
    rows: list[tuple[Cell, ...]] = []
    for what, query in asked.items():
        workload = nz.Workload([query])
        blind = nz.plan(workload, budget=nz.PureDP(0.1)).rmse
        plan = nz.plan(workload, budget=nz.PureDP(0.1), planner="dawa")
        for records in (10**4, 10**5):
            table = _clusters(side, records)
            truth = query.dense() @ table.ravel()
            squares, claimed = [], []
            for seed in range(runs):
                release = plan.release(CountTensor(schema, table), seed=seed)
                estimate = query.over(("x", "y")).matmul(np.ravel(release.counts))
                squares.append(np.mean((estimate - truth) ** 2))
                if not seed:  # errors of so many rows take long
                    claimed.append(np.mean(release.answer(query).estimated_error ** 2))
            rmse, estimated = math.sqrt(np.mean(squares)), math.sqrt(np.mean(claimed))
            rows.append(
                (
                    what, f"{records:,}", f"{rmse:.1f}", f"{blind:.1f}", f"{rmse / blind:.2f}",
                    f"{estimated / rmse:.2f}",
                )
            )  # fmt: skip
    mean = float(np.exp(np.mean([np.log(float(str(row[4]))) for row in rows])))
    return Table(
        title="Two attributes of 64 values at ε = 0.1",
        sentence=(
            f"RMSE over {runs} releases of records in six clusters, for all quadrants (prefix sums "
            "of both attributes) and 200 windows; the ratio of the estimated error (of the first "
            "release) to the true one. Nothing is compared with single cells here: where every "
            "cell differs from the next, the plan without data is better, and more so with more "
            "cells."
        ),
        source="the best plan of this library that looks at no data.",
        columns="queries | records | data-aware | without data | ratio | estimated",
        rows=tuple(rows),
        claims=(Claim(f"{mean:.2f} of the error without data, geometric mean", mean < 1),),
    )


def _clusters(side: int, records: int) -> Counts:
    rng = np.random.default_rng(0)
    x, y = np.mgrid[:side, :side]
    shape = np.zeros((side, side))
    for _ in range(6):
        (a, b), width = rng.uniform(5, side - 5, 2), rng.uniform(1, 5)
        shape += rng.random() * np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * width**2)) / width**2
    drawn = rng.multinomial(records, (shape / shape.sum()).ravel())
    return drawn.reshape(side, side).astype(np.int64)


# ---------------------------------------------------------------------- time


def seconds(quick: bool) -> Table:
    """CPU seconds of a whole release: partition, plan of the buckets, noise."""
    rows: list[tuple[Cell, ...]] = []
    for name in ("Nettrace", "HepPh", "Income"):
        took = _seconds(_shapes()[name], 3)
        rows.append((f"4,096 cells, {name}", brief(took), "1", brief(took), took <= 1))
    cells = 2 ** (16 if quick else 20)
    rng = np.random.default_rng(0)
    smooth = rng.poisson(np.exp(np.cumsum(rng.normal(0, 0.005, cells))))
    took = _seconds(smooth, 1)
    rows.append((f"{cells:,} cells", brief(took), "60", brief(took / 60), took <= 60))
    return Table(
        title="Seconds of a data-aware release",
        sentence="CPU seconds at ε = 0.1, buckets by halving; the smallest of three runs.",
        source="at most a second for 4,096 cells, at most a minute for 2²⁰.",
        columns="cells | measured | must show at most | ratio | verdict",
        rows=tuple(rows),
        claims=(all_rows("in time", rows),),
    )


def _seconds(counts: Counts, repeats: int) -> float:
    plan = nz.plan(_prefixes(len(counts)), budget=nz.PureDP(0.1), planner="dawa")
    if repeats > 1:
        plan.release(counts, seed=1)  # tables are made once
    return cpu_seconds(lambda: plan.release(counts, seed=2).counts, repeats)[0]
