"""Local mechanisms: a step of the descent, draws on a device, reports on a server."""

from __future__ import annotations

from tempfile import TemporaryFile

import numpy as np
from scipy.special import chdtrc

import noiseplan as nz
from benchmarks.local_published import ITERATION_SECONDS
from benchmarks.local_workloads import local_workload
from benchmarks.tables import Cell, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from noiseplan.local.search.descent import Descent, random_start
from noiseplan.local.strategies.subsets import SubsetStrategy
from noiseplan.noise import SystemSource

ITERATION_LIMITS = {64: None, 256: None, 512: None, 1024: 1.5}
DRAWS, DRAWS_PER_SECOND = 1_000_000, 1e6
REPORTS, REPORTS_PER_SECOND = 10_000_000, 5e6
# Packets of so many reports in a stream.
STREAM = 10
# A right sampler misses it once in a million runs of the table.
RARE = 1e-6
DEVICES = (
    ("Prefix", 64, 1.0, "auto"), ("Prefix", 16, 4.0, "auto"), ("Histogram", 64, 1.0, "auto"),
    ("3-Way", 64, 1.0, "auto"), ("Histogram", 64, 1.0, "hadamard blocks"),
    ("Prefix", 64, 1.0, "hierarchical"), ("Histogram", 64, 1.0, "subset selection"),
    ("Histogram", 64, 1.0, "rappor"),
)  # fmt: skip


def iterations(quick: bool) -> Table:
    """One step of the descent: gradients, bounds of the rows, projection."""
    rows: list[tuple[Cell, ...]] = []
    for types, limit in ITERATION_LIMITS.items():
        if quick and types > 512:
            continue
        strategy, lower = random_start(4 * types, types, 1.0, np.random.default_rng(0))
        problem = Descent.of(np.eye(types), np.full(types, 1 / types), 1.0)
        here = problem.at(strategy, lower)
        length = 0.01 * float(np.linalg.norm(strategy) / np.linalg.norm(here.slope.gradient))
        seconds, _ = cpu_seconds(lambda p=problem, h=here, s=length: p.step(h, s), repeats=5)
        good = limit is None or seconds <= limit
        published = ITERATION_SECONDS.get(types)
        rows.append((f"{types:,}", brief(published), brief(limit), brief(seconds), good))
    return Table(
        title="Local descent: one iteration",
        sentence="CPU seconds of one core for n types and 4n outputs, histogram, ε = 1.",
        source="the published optimiser, machine not stated.",
        columns="types | published | at most | measured | verdict",
        rows=tuple(rows),
        claims=(all_rows("within the limit", rows),),
    )


def devices() -> Table:
    """Draws per second in bulk, and their law for every type."""
    rows: list[tuple[Cell, ...]] = []
    for name, types, epsilon, mechanism in DEVICES:
        plan = nz.local.plan(local_workload(name, types), epsilon, mechanism=mechanism)
        randomizer = plan.randomizer()
        users = np.random.default_rng(0).integers(0, randomizer.types, DRAWS)
        seconds, drawn = cpu_seconds(lambda r=randomizer, u=users: r.draw(u, SystemSource()))
        lowest = _lowest_p(plan, users, drawn)
        speed = DRAWS / seconds
        lawful = lowest is None or lowest >= RARE
        good = speed >= DRAWS_PER_SECOND and lawful and randomizer.epsilon <= epsilon
        size, width = len(randomizer.to_bytes()), randomizer.payload_bytes
        rows.append(
            (f"{name}, {types} types, ε = {epsilon:g}, {mechanism}", f"{size:,}", str(width),
             f"{randomizer.epsilon:.15g}", brief(speed / 1e6), brief(lowest), good)
        )  # fmt: skip
    return Table(
        title="Local randomisers: speed and law",
        sentence=(
            f"Million draws per CPU second of one core, {DRAWS:,} users of all types at once, "
            "randomness from the operating system; the device's file and payload in bytes; ε "
            "recomputed from the integers; the lowest p-value of χ² over all types, times their "
            "number (subsets are too many to be counted one by one; their law is tested over few "
            "types)."
        ),
        source="the chances of the plan.",
        columns="plan | file | payload | ε met | million draws/s | lowest p | verdict",
        rows=tuple(rows),
        claims=(
            all_rows(
                f"at least {DRAWS_PER_SECOND / 1e6:g} million a second, law and ε right", rows
            ),
        ),
    )


def _lowest_p(plan: object, users: np.ndarray, drawn: np.ndarray) -> float | None:
    """χ² of the reports of each type; outputs with few expected draws are put together."""
    strategy = plan.strategy  # type: ignore[attr-defined]
    if isinstance(strategy, SubsetStrategy):
        return None
    chances = strategy.table() if hasattr(strategy, "patterns") else strategy.chances
    lowest = 1.0
    for u in range(strategy.types):
        mine = drawn[users == u]
        expected = chances[:, u] * len(mine)
        seen = np.bincount(mine, minlength=len(expected))
        group = (np.cumsum(expected) // 20).astype(np.int64)
        due, found = np.bincount(group, expected), np.bincount(group, seen)
        kept = due > 5
        statistic = float(((found[kept] - due[kept]) ** 2 / due[kept]).sum())
        lowest = min(lowest, float(chdtrc(max(int(kept.sum()) - 1, 1), statistic)))
    return min(lowest * strategy.types, 1.0)


def servers() -> Table:
    """Reports per second from arrays and from packets."""
    rows: list[tuple[Cell, ...]] = []
    for name, types in (("Prefix", 64), ("3-Way", 64)):
        plan = nz.local.plan(local_workload(name, types), 1.0, effort=0.2)
        randomizer = plan.randomizer()
        users = np.random.default_rng(0).integers(0, types, REPORTS)
        reports = randomizer.draw(users, SystemSource())
        packet = randomizer.packet(reports)
        arrays, _ = cpu_seconds(lambda p=plan, r=reports: p.aggregator().add_many(r))
        packets, _ = cpu_seconds(lambda p=plan, b=packet: p.aggregator().add_packet(b))
        with TemporaryFile() as stream:
            for _ in range(STREAM):
                stream.write(packet)
            stream.seek(0)
            streamed, counted = cpu_seconds(lambda p=plan, s=stream: p.aggregator().read(s), 1)
        speeds = REPORTS / arrays, REPORTS / packets, counted / streamed
        shown = [brief(speed / 1e6) for speed in speeds]
        good = min(speeds) >= REPORTS_PER_SECOND and counted == STREAM * REPORTS
        rows.append((f"{name}, {types} types", *shown, good))
    return Table(
        title="Local aggregation: speed",
        sentence=(
            f"Million reports per CPU second of one core, {REPORTS:,} reports at a time; and "
            f"{STREAM * REPORTS:,} reports read from one file."
        ),
        source="what is asked of a server.",
        columns="plan | from arrays | from packets | from a file | verdict",
        rows=tuple(rows),
        claims=(all_rows(f"at least {REPORTS_PER_SECOND / 1e6:g} million a second", rows),),
    )


def answers() -> Table:
    """Simulated collections: errors against their formulas."""
    rows: list[tuple[Cell, ...]] = []
    for name, epsilon in (("Prefix", 1.0), ("AllRange", 4.0), ("3-Way", 1.0)):
        plan = nz.local.plan(local_workload(name, 16), epsilon)
        counts = np.round(2000 * np.exp(-np.arange(16) / 4)).astype(int)
        truths = [query.dense() @ counts for query in plan.workload]
        expected = float(plan.variances @ plan.types.counts(counts))
        trials = 300
        errors = []
        for seed in range(trials):
            made = plan.simulate(counts, seed=seed)
            answer = [made.answer(query, errors="worst").estimate for query in plan.workload]
            errors.append(
                sum(float(((a - t) ** 2).sum()) for a, t in zip(answer, truths, strict=True))
            )
        mean, deviation = float(np.mean(errors)), float(np.std(errors)) / trials**0.5
        off = (mean - expected) / deviation
        rows.append(
            (f"{name}, ε = {epsilon:g}", brief(expected), brief(mean), f"{off:+.1f}", abs(off) < 5)
        )
    return Table(
        title="Local answers: errors as stated",
        sentence="Total squared error of all rows, exact and over 300 simulated collections.",
        source="the exact variances of the plan.",
        columns="plan | exact | simulated | deviations apart | verdict",
        rows=tuple(rows),
        claims=(all_rows("within five deviations", rows),),
    )
