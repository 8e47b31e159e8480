"""Small domains: how far plans are from the exact optimum, and whether their errors are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

import numpy as np

import noiseplan as nz
from benchmarks.bruteforce import largest_difference, measured
from benchmarks.domains import BUDGET, synth
from benchmarks.optimum import dual_optimum, solver_optimum
from benchmarks.tables import Cell, Claim, Table, all_rows

PCOST: Final = 1.0
ONE_FACTOR_LIMIT: Final = 0.01
SEVERAL_FACTORS_LIMIT: Final = 0.10
EXACTNESS: Final = 1e-9
CASES: Final = 40
QUICK_CASES: Final = 10
# The general solver takes seconds beyond this.
SOLVER_CELLS: Final = 30
SOLVER_CASES: Final = 3
FACTORS: Final[tuple[nz.Factor, ...]] = (nz.Identity(), nz.Prefix(), nz.Ranges())


@dataclass(frozen=True)
class Result:
    """What one random workload showed."""

    gap: float  # total variance above the optimum, relative
    spent: float  # brute-force privacy cost
    difference: float  # of variances and covariances from the dense formula, relative
    disagreement: float | None  # of the two ways to the optimum, relative


def tables(quick: bool) -> Iterator[Table]:
    """One factor per attribute, then several."""
    count = QUICK_CASES if quick else CASES
    groups = {
        "one factor per attribute": (_drawn(one_factor, count), ONE_FACTOR_LIMIT),
        "all 2-way prefix tables of 5×5×5": ([all_two_way_prefix()], ONE_FACTOR_LIMIT),
        "several factors on one attribute": (_drawn(several_factors, count), SEVERAL_FACTORS_LIMIT),
        "the same, some of them of low rank": (_drawn(low_rank, count), SEVERAL_FACTORS_LIMIT),
    }
    yield optimality({name: (judged_all(w), limit) for name, (w, limit) in groups.items()})


def _drawn(draw: Callable[[int], nz.Workload], count: int) -> list[nz.Workload]:
    return [draw(seed) for seed in range(count)]


def optimality(groups: dict[str, tuple[list[Result], float]]) -> Table:
    """The table of all groups."""
    rows = [_row(name, results, limit) for name, (results, limit) in groups.items()]
    every = [result for results, _ in groups.values() for result in results]
    within = all_rows("total variance within the limit of the optimum", rows)
    return Table(
        title="Small domains against the exact optimum",
        sentence=(
            "Random weighted unions of tables on 2 or 3 attributes of 2 to 5 values. The gap is "
            "that of the total variance above a certified lower bound on the optimum of all "
            "linear Gaussian mechanisms; errors and privacy are checked against what is "
            "measured, number by number."
        ),
        source="the convex optimum, by its dual iteration with a certificate of 0.001 %.",
        columns="workloads | cases | mean gap | largest gap | limit | verdict",
        rows=tuple(rows),
        claims=(within, *_exactness(every)),
    )


def _exactness(results: list[Result]) -> Iterator[Claim]:
    """What must hold in every case, whatever the gap."""
    spent = max((r.spent - PCOST for r in results), key=abs)
    yield Claim(
        f"privacy cost by brute force equal to the budget: largest difference {spent:+.1e}",
        -1e-6 <= spent <= EXACTNESS,
    )
    difference = max(r.difference for r in results)
    yield Claim(
        f"variances and covariances equal to the dense formula: largest relative difference "
        f"{difference:.1e}",
        difference <= EXACTNESS,
    )
    checked = [r.disagreement for r in results if r.disagreement is not None]
    if checked:
        text = f"the optimum agrees with cvxpy and Clarabel in {len(checked)} cases"
        yield Claim(f"{text}: largest relative difference {max(checked):.1e}", max(checked) <= 1e-4)


def _row(name: str, results: list[Result], limit: float) -> tuple[Cell, ...]:
    gaps = [r.gap for r in results]
    mean, largest = float(np.mean(gaps)), max(gaps)
    texts = (name, f"{len(gaps)}", f"{mean:.3%}", f"{largest:.3%}", f"{limit:.0%}")
    return (*texts, largest <= limit)


def judged_all(workloads: list[nz.Workload]) -> list[Result]:
    """Plan each workload and judge it; the first few small ones also by the general solver."""
    small = [i for i, workload in enumerate(workloads) if workload.schema.size <= SOLVER_CELLS]
    return [judged(workload, i in small[:SOLVER_CASES]) for i, workload in enumerate(workloads)]


def judged(workload: nz.Workload, by_solver: bool = False) -> Result:
    """One workload."""
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    gram = sum(q.weight * (dense := q.dense()).T @ dense for q in workload)
    lower, upper = dual_optimum(np.asarray(gram))
    truth = measured(plan)
    disagreement = None
    if by_solver:
        middle = 0.5 * (lower + upper)
        disagreement = abs(solver_optimum(np.asarray(gram)) / middle - 1)
    return Result(
        gap=plan.total_variance / lower - 1,
        spent=truth.pcost,
        difference=largest_difference(plan, truth),
        disagreement=disagreement,
    )


# ---------------------------------------------------------------------- the random workloads


def one_factor(seed: int) -> nz.Workload:
    """Each attribute has one factor wherever it occurs."""
    rng = np.random.default_rng([1, seed])
    schema = _schema(rng)
    of_attribute = {name: _factor(rng) for name in schema.names}
    return nz.Workload(
        nz.Query(schema, {n: of_attribute[n] for n in names}, weight=_weight(rng))
        for names in _tables(rng, schema)
    )


def several_factors(seed: int) -> nz.Workload:
    """Each table has its own factors, so that an attribute may have several."""
    rng = np.random.default_rng([2, seed])
    schema = _schema(rng)
    return nz.Workload(
        nz.Query(schema, {n: _factor(rng) for n in names}, weight=_weight(rng))
        for names in _tables(rng, schema)
    )


def low_rank(seed: int) -> nz.Workload:
    """As `several_factors`, but a quarter of the factors are random and tell few values apart."""
    rng = np.random.default_rng([3, seed])
    schema = _schema(rng)
    return nz.Workload(
        nz.Query(schema, {n: _factor(rng, schema[n].size) for n in names}, weight=_weight(rng))
        for names in _tables(rng, schema)
    )


def all_two_way_prefix() -> nz.Workload:
    """The hardest workload known for one factor per attribute."""
    return synth(5, 3).workload("2", nz.Prefix())


def _factor(rng: np.random.Generator, size: int = 0) -> nz.Factor:
    """Identity, prefix sums or ranges; given a size, in one case of four a random 0/1 matrix."""
    kind = rng.integers(len(FACTORS) + (size > 0))
    if kind < len(FACTORS):
        return FACTORS[kind]
    rows = rng.integers(0, 2, size=(rng.integers(1, size + 1), size)).astype(float)
    rows[~rows.any(axis=1), 0] = 1.0  # a row of zeros asks nothing
    return nz.Custom(rows)


def _schema(rng: np.random.Generator) -> nz.Schema:
    count = int(rng.integers(2, 4))
    return nz.Schema.from_sizes({f"a{i}": int(rng.integers(2, 6)) for i in range(count)})


def _tables(rng: np.random.Generator, schema: nz.Schema) -> list[tuple[str, ...]]:
    """A few tables of at least one attribute, drawn without repetition."""
    sizes = range(1, len(schema) + 1)
    every = [*chain.from_iterable(combinations(schema.names, size) for size in sizes)]
    chosen = rng.permutation(len(every))[: rng.integers(1, len(every) + 1)]
    return [every[i] for i in sorted(chosen)]


def _weight(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(-1.5, 1.5)))
