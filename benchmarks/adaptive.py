"""Adaptive releases: published budget shares, the census case study, speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

import noiseplan as nz
from benchmarks.common_choices import marginals
from benchmarks.common_choices import tables as choices
from benchmarks.tables import Cell, Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from benchmarks.tracts import synthetic_tracts
from noiseplan.choosing import LinearGaussian, Recreation, chain, common_mechanism, residual
from noiseplan.choosing.common_and_rest import ByMatrices
from noiseplan.planning.measured_numbers import INTEGERS

Array = NDArray[np.float64]

AGES: Final = {
    "Total": (0, 103),
    "Age4": (0, 18, 45, 65, 103),
    "Age9": (0, 5, 18, 25, 35, 45, 55, 65, 75, 103),
    "Age23": (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80,
              85, 103),
}  # fmt: skip
DEVIATIONS: Final = (2, 4, 6, 8, 10, 12)
SHARE, RATIO = 0.5, 20.0
SPLIT: Final = 0.1  # of the budget that the baseline spends on a population count
SCALE_LIMIT, EXPLICIT_LIMIT = 5.0, 3.0
GROWTH: Final = 1e-11  # of variances, by rounding
SEVERAL_LIMITS: Final = {128: 2.0, 256: 10.0, 512: 60.0}  # of seconds, by cells


def tables(quick: bool) -> Iterator[Table]:
    """Shares, the case study, speed."""
    yield shares()
    yield nested()
    yield from choices(3_000 if quick else 40_000)
    yield case_study(3_000 if quick else 20_000)
    yield different_rows()
    yield whole_numbers(12 if quick else 54)
    yield speed((128,) if quick else tuple(SEVERAL_LIMITS))


# ---------------------------------------------------------------------- published figures


def shares() -> Table:
    """The share of the budget that the common mechanism carries."""
    race, brazil = (2,) * 7, (101, 2)
    cases = [
        ("7 binary attributes: 1-way or 2-way", race, (1, 2), 0.75),
        ("7 binary attributes: 1-way or all cells", race, (1, 7), 8 / 128),
        ("age (101) and sex: 1-way or 2-way", brazil, (1, 2), 102 / 202),
    ]
    rows: list[tuple[Cell, ...]] = []
    for name, sizes, ways, published in cases:
        found = common_mechanism([marginals(sizes, k) for k in ways]).privacy.pcost
        rows.append(
            (
                name,
                f"{100 * published:.4g} %",
                f"{100 * found:.9g} %",
                abs(found - published) < 1e-9,
            )
        )
    return Table(
        title="Budget share of what is common",
        sentence="What the look carries of the budget of either plan; nothing of it is wasted.",
        source="Tables 2 to 6 of the paper on the common mechanism.",
        columns="choice | published | noiseplan | verdict",
        rows=tuple(rows),
        claims=(all_rows("the published shares, to nine digits", rows),),
    )


def _histogram(edges: Sequence[int]) -> LinearGaussian:
    ages = np.array([[a <= i < b for i in range(103)] for a, b in pairwise(edges)], dtype=float)
    return LinearGaussian(np.kron(np.eye(2), ages))


def nested() -> Table:
    """Variances of the chain of common mechanisms of four bucketisations of ages."""
    plans = [_histogram(edges) for edges in AGES.values()]
    links = chain(plans)
    expected = [[23], [4, 8, 5, 6], [1, 3, 4, 2, 2, 2, 3, 3, 3]]
    rows: list[tuple[Cell, ...]] = []
    for i, (plan, counts) in enumerate(zip(plans[:3], expected, strict=True)):
        covariance = links[i].best_covariance(plan.queries)
        right = np.allclose(covariance, np.diag(counts * 2), atol=1e-8)
        holds = links[i + 1].answers(links[i])
        found = np.diagonal(covariance)[: len(counts)].round(9)
        names = ", ".join(list(AGES)[i:])
        rows.append((names, str(counts), str([f"{v:g}" for v in found]).replace("'", ""),
                     bool(right and holds)))  # fmt: skip
    return Table(
        title="Nested histograms of ages",
        sentence=(
            "Variances of the cells of the coarsest, in units of the noise of one bucket, when all "
            "named bucketisations are still to choose from; each is answerable from the next."
        ),
        source="closed forms: the number of buckets of the finest inside each cell.",
        columns="still to choose from | closed form | noiseplan | verdict",
        rows=tuple(rows),
        claims=(all_rows("the closed forms, and the chain holds", rows),),
    )


# ---------------------------------------------------------------------- the case study


@dataclass(frozen=True)
class Outcome:
    """Of every tract: the bucketisation that is right, and those that were chosen."""

    right: NDArray[np.int64]
    adaptive: NDArray[np.int64]
    exact_counts: NDArray[np.int64]
    split: NDArray[np.int64]


def _first_failure(passed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first stage whose finer plan does not keep enough cells precise; the last if none."""
    failed = np.column_stack([~passed, np.ones(len(passed), dtype=bool)])
    return np.argmax(failed, axis=1)


def _passed(cells: Array, error: Array) -> NDArray[np.bool_]:
    return np.asarray(np.mean(cells >= RATIO * error, axis=1) >= SHARE)


def simulate(tracts: NDArray[np.int64], deviation: float, seed: int) -> Outcome:
    """Choose for every tract, three ways, with noise of this standard deviation on a bucket."""
    rng = np.random.default_rng(seed)
    x = tracts.reshape(len(tracts), -1).astype(float)
    plans = [LinearGaussian(p.queries, deviation**2) for p in map(_histogram, AGES.values())]
    links = chain(plans)
    # A cell of plan i is precise enough if it is when made of plan i + 1.
    errors = [
        np.sqrt(np.diagonal(finer.best_covariance(coarse.queries)))
        for coarse, finer in pairwise(plans)
    ]
    truth = [x @ plan.queries.T for plan in plans[:3]]
    right = _first_failure(
        np.column_stack([_passed(c, e) for c, e in zip(truth, errors, strict=True)])
    )
    seen = _looks(x, links, rng)
    passed = []
    for plan, link, output, error in zip(plans, links, seen, errors, strict=False):
        inverse = np.linalg.pinv(link.queries)
        passed.append(_passed(output @ (plan.queries @ inverse).T, error))
    adaptive = _first_failure(np.column_stack(passed))
    people = x.sum(axis=1)
    variance = deviation**2 / SPLIT
    noisy = people + rng.normal(0, np.sqrt(variance), len(people))
    limits = _thresholds(people, right)
    return Outcome(
        right, adaptive, np.searchsorted(limits, people, side="right"),
        np.searchsorted(limits, noisy, side="right"),
    )  # fmt: skip


def _looks(x: Array, links: Sequence[LinearGaussian], rng: np.random.Generator) -> list[Array]:
    """The outputs of the chain of common mechanisms, each lifted from the one before."""
    first = links[0]
    noise = rng.standard_normal((len(x), first.rows)) @ np.linalg.cholesky(first.covariance).T
    outputs = [x @ first.queries.T + noise]
    for have, wanted in pairwise(links[:3]):
        rest = residual(wanted, have)
        again = Recreation.of(wanted, have, rest)
        more = x @ rest.queries.T + rng.standard_normal((len(x), rest.rows))
        outputs.append(outputs[-1] @ again.from_common.T + more @ again.from_residual.T)
    return outputs


def _thresholds(people: Array, right: NDArray[np.int64]) -> Array:
    """The three limits on exact population counts that are right most often: not private."""
    order = np.argsort(people)
    limits = []
    for stage in range(3):
        above = (right > stage)[order]
        # Cutting before place k: those below count as not above, the others as above.
        score = (
            np.concatenate([[0], np.cumsum(~above)])
            + above.sum()
            - np.concatenate([[0], np.cumsum(above)])
        )
        k = int(np.argmax(score))
        limits.append(people[order[k]] if k < len(people) else np.inf)
    return np.maximum.accumulate(np.array(limits))


def case_study(count: int) -> Table:
    """How finely to publish ages by sex, tract by tract."""
    tracts = synthetic_tracts(count)
    rows: list[tuple[Cell, ...]] = []
    carried = (1 / 23, 1 / 4, 1.0)  # the look's share when it decides on Total, Age4, Age9
    for deviation in DEVIATIONS:
        found = simulate(tracts, float(deviation), seed=deviation)
        at = np.bincount(found.right, minlength=4) / count
        accuracy = [
            float(np.mean(choice == found.right))
            for choice in (found.adaptive, found.exact_counts, found.split)
        ]
        decided = np.minimum(found.adaptive, 2)
        saved = float(np.mean(np.array(carried)[decided]))
        rows.append(
            (
                f"1/{2 * deviation**2}",
                *(f"{100 * share:.2f}" for share in at),
                f"{100 * accuracy[0]:.2f}",
                f"{100 * accuracy[1]:.2f}",
                f"{100 * accuracy[2]:.2f}",
                f"{1 / (1 - SPLIT):.3f}",
                f"{100 * saved:.1f}",
                bool(accuracy[0] > max(accuracy[1:])),
            )
        )
    return Table(
        title="How finely to publish ages, tract by tract",
        sentence=(
            f"{count:,} synthetic tracts (`benchmarks/tracts.py`). Right is, by the true counts, "
            f"the finest bucketisation before one whose own noise would leave fewer than half of "
            f"the coarser cells with {RATIO:g} standard errors. Shares of tracts for which each is "
            f"right; how often it was chosen by the common mechanisms (point estimates), by limits "
            f"on the exact population that were fitted to the truth, and by the same limits on a "
            f"population count that takes {100 * SPLIT:g} % of the budget; how much larger the "
            f"noise of the histogram then is; and what the deciding look would have cost."
        ),
        source="the baselines beside it; the paper's Table 7 has the same columns for real tracts.",
        columns=(
            "ρ | Total % | Age4 % | Age9 % | Age23 % | adaptive right % | exact population % | "
            "noisy population % | its variance | look, % of ρ | verdict"
        ),
        rows=tuple(rows),
        claims=(all_rows("adaptive more often right than both, and less noise", rows),),
    )


# ---------------------------------------------------------------------- different rows


def _over_a_million_cells() -> dict[str, nz.Plan]:
    schema = nz.Schema.from_sizes({"age": 100, "sex": 2, "region": 64, "edu": 10, "income": 10})
    each, prefix = nz.Identity(), nz.Prefix()
    bands = {n: nz.Levels(n, leaves=False, total=False) for n in (5, 10)}
    asked = {
        "tables": [{"age": each, "sex": each}, {"region": each, "edu": each}],
        "bands of 10": [
            {"age": bands[10], "sex": each, "region": each},
            {"age": each, "sex": each},
        ],
        "bands of 5": [{"age": bands[5], "edu": each}, {"age": each, "region": each}],
        "prefix sums": [{"age": prefix, "region": each}, {"income": prefix, "edu": each}],
    }
    return {
        name: nz.plan(
            nz.Workload([nz.Query(schema, factors) for factors in queries]), budget=nz.zCDP(0.05)
        )
        for name, queries in asked.items()
    }


def different_rows() -> Table:
    """Plans that measure one attribute by different rows: as they are, or on common rows."""
    plans = _over_a_million_cells()
    rows: list[tuple[Cell, ...]] = []
    for one, two in combinations(plans, 2):
        pair = [plans[one], plans[two]]
        seconds, choice = cpu_seconds(lambda pair=pair: nz.adaptive(pair), repeats=1)
        anew = nz.adaptive(pair, common_rows=True)
        worse = max(b.rmse / a.rmse for a, b in zip(pair, anew.plans, strict=True))
        kept = all(a is b for a, b in zip(pair, choice.plans, strict=True))
        rows.append(
            (f"{one} or {two}", " and ".join(f"{p.rmse:.4g}" for p in choice.plans),
             " and ".join(f"{p.rmse:.4g}" for p in anew.plans), f"{100 * (worse - 1):.1f} %",
             f"{100 * min(choice.shares):.3g} %", f"{100 * min(anew.shares):.3g} %",
             brief(seconds), kept and seconds <= SCALE_LIMIT)
        )  # fmt: skip
    return Table(
        title="Plans on different rows over 1.28 million cells",
        sentence=(
            "Errors of two plans that measure ages by different rows, as they are chosen from; on "
            "common rows (`common_rows=True`), and how much larger that makes the worse one; what "
            "the look carries of the budget, both ways; CPU seconds to find it."
        ),
        source="the plans by themselves, and the limit of 5 s.",
        columns=(
            "plans | RMSE | on common rows | worse by | look | on common rows | seconds | verdict"
        ),
        rows=tuple(rows),
        claims=(all_rows(f"plans keep their errors, within {SCALE_LIMIT:g} s", rows),),
    )


# ---------------------------------------------------------------------- whole numbers


def _drawn(rng: np.random.Generator, schema: nz.Schema) -> nz.Plan:
    """One to three tables of two attributes, of random factors and weights."""
    factors = [nz.Identity(), nz.Prefix(), nz.Ranges(), nz.Levels(2, leaves=False, total=False)]
    asked = [{name: factors[rng.integers(4)] for name in names} for names in ("a", "ab", "b")]
    queries = [nz.Query(schema, each, weight=float(rng.uniform(0.3, 3.0))) for each in asked]
    return nz.plan(nz.Workload(queries[: rng.integers(1, 4)]), budget=nz.zCDP(0.05))


def _grown(seed: int) -> Iterator[Array]:
    """By how much every variance grows, for either choice of two plans."""
    rng, family = np.random.default_rng(seed), ByMatrices(INTEGERS)
    schema = nz.Schema.from_sizes({name: int(rng.integers(2, 6)) for name in "ab"})
    plans = [_drawn(rng, schema), _drawn(rng, schema)]
    common = family.common([plan.mechanism for plan in plans])
    for plan in plans:
        rest = family.rest(plan.mechanism, common)
        parts = [part for part in (common, rest) if part is not None and part.numbers]
        rows = np.concatenate([query.dense() for query in plan.workload])
        really, planned = (
            np.diagonal(rows @ np.linalg.pinv(cost, rcond=1e-10, hermitian=True) @ rows.T)
            for cost in (sum(p.cost_matrix() for p in parts), plan.mechanism.cost_matrix())
        )
        yield really / planned - 1


def whole_numbers(pairs: int) -> Table:
    """What explicit common mechanisms in integers add to variances."""
    grown = np.concatenate([more for seed in range(pairs) for more in _grown(seed)])
    parts = {"half of them": 0.5, "nine of ten": 0.9, "all": 1.0}
    rows: list[tuple[Cell, ...]] = []
    for name, share in parts.items():
        most = float(np.quantile(grown, share))
        rows.append((name, f"{most:.1e}", f"{GROWTH:.0e}", most <= GROWTH))
    return Table(
        title="What whole numbers add to variances",
        sentence=f"{2 * pairs} choices between two random plans over two attributes of 2 to 5 "
        f"values, by explicit common mechanisms with discrete noise: how much larger the variances "
        f"of {len(grown):,} rows are than those of the plan at once, as shares. The largest fall "
        f"is {max(-float(grown.min()), 0.0):.1e}. Common rows have no such loss.",
        source="one part in 10¹¹, as on common rows.",
        columns="variances | grown by at most | limit | verdict",
        rows=tuple(rows),
        claims=(all_rows("at most one part in 10¹¹", rows),),
    )


# ---------------------------------------------------------------------- speed


def _hundred(noise: str) -> list[nz.Plan]:
    schema = nz.Schema.from_sizes({f"a{i}": 10 for i in range(100)})
    workload = nz.Workload.marginals(schema, up_to=3)
    uneven = workload + nz.Query(schema, ["a0", "a1"], weight=50.0)
    return [
        nz.plan(w, budget=nz.zCDP(rho), noise=noise)
        for w, rho in ((workload, 0.5), (uneven, 0.6), (workload.weighted("tables"), 0.5))
    ]


def _random_pair(cells: int) -> list[LinearGaussian]:
    rng = np.random.default_rng(0)
    return [LinearGaussian(rng.normal(size=(rows, cells))) for rows in (cells, cells - 300)]


def _explicit() -> float:
    first, second = _random_pair(1000)
    common = common_mechanism([first, second])
    return Recreation.of(first, common, residual(first, common)).covariance[0, 0]


def _several(cells: int) -> list[nz.Plan]:
    """Three plans of random conditions, which have no rows in common."""
    schema, rng = nz.Schema.from_sizes({"a": cells // 4, "b": 4}), np.random.default_rng(0)
    matrices = rng.integers(0, 2, size=(3, cells, cells)).astype(float)
    queries = [nz.Query(schema, ["a", "b"], matrix=matrix) for matrix in matrices]
    return [nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5)) for query in queries]


def speed(several: Sequence[int]) -> Table:
    """CPU seconds of the largest cases."""
    rows: list[tuple[Cell, ...]] = []
    for noise in ("gaussian", "discrete"):
        plans = _hundred(noise)
        seconds, choice = cpu_seconds(lambda plans=plans: nz.adaptive(plans))
        rows.append(
            (f"three plans of ≤3-way tables, 100 attributes, {noise} noise",
             f"{len(choice.workload):,} queries in common", brief(seconds), brief(SCALE_LIMIT),
             brief(seconds / SCALE_LIMIT), seconds <= SCALE_LIMIT)
        )  # fmt: skip
    seconds, _ = cpu_seconds(_explicit)
    rows.append(
        ("two explicit matrices over 1,000 cells, with residual and recreation", "",
         brief(seconds), brief(EXPLICIT_LIMIT), brief(seconds / EXPLICIT_LIMIT),
         seconds <= EXPLICIT_LIMIT)
    )  # fmt: skip
    for cells in several:
        plans, limit = _several(cells), SEVERAL_LIMITS[cells]
        seconds, choice = cpu_seconds(lambda plans=plans: nz.adaptive(plans), repeats=1)
        rows.append(
            (f"three plans without common rows, {cells} cells",
             f"{100 * choice.shares[0]:.3g} % of the budget", brief(seconds), brief(limit),
             brief(seconds / limit), seconds <= limit)
        )  # fmt: skip
    return Table(
        title="Speed of finding what is common",
        sentence="CPU seconds, best of three; of three plans without common rows, once.",
        source="the limits set for this package.",
        columns="case | result | measured | must show | ratio | verdict",
        rows=tuple(rows),
        claims=(
            Claim(
                f"at most {SCALE_LIMIT:g} s at scale, {EXPLICIT_LIMIT:g} s for two matrices, 10 s "
                f"for three of 256 cells and 60 s of 512",
                all(row[-1] is True for row in rows),
            ),
        ),
    )
