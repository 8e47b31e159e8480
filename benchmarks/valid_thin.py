"""Sums of thin groups: do they stay within their noise when tables are made valid?

The people are made up: groups of very different sizes, ages by a bell with random teeth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

import noiseplan as nz
from benchmarks.tables import Cell, Table, all_rows
from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array

DRAWS: Final = 20
AGES: Final = 90
PEOPLE: Final = (20_000, 12_000, 6_000, 2_000, 538, 120)
BLOCKS: Final = (120, 80, 60, 40, 12, 5)
THIN: Final = 1_000
# Set before any figure was seen.
MOST_RATIO, MOST_BIAS, MOST_MOVE = 1.1, 1.0, 2.0


@dataclass(frozen=True, eq=False)
class Case:
    """Groups some of which are thin, the sums that tell them, and the largest table."""

    name: str
    workload: nz.Workload
    counts: Array
    rho: float
    sums: nz.Query
    cells: nz.Query


def thin_groups(quick: bool) -> Table:
    """Error, bias and moves of the sums, over many draws of noise."""
    rows = [_row(case, 2 if quick else DRAWS) for case in _cases()]
    return Table(
        title="Sums of thin groups",
        sentence=(
            f"Groups of at most {THIN:,} people beside larger ones, {DRAWS} draws of noise: root "
            "mean squared error of their sums, unbiased and valid; the largest mean shift of one "
            "of them in its standard errors; the root mean square by which all sums of the "
            "same query moved; and the error of the largest table's cells, valid to unbiased."
        ),
        source=f"the bars of the project: at most {MOST_RATIO:g} of the unbiased error, a bias of "
        f"at most {MOST_BIAS:g} and moves of {MOST_MOVE:g} standard errors.",
        columns="tables | thin sums | unbiased | valid | ratio | bias | moved | cells | verdict",
        rows=tuple(rows),
        claims=(all_rows("sums of thin groups stay within their noise", rows),),
    )


def _row(case: Case, draws: int) -> tuple[Cell, ...]:
    plan = nz.plan(case.workload, budget=nz.zCDP(case.rho))
    error = np.sqrt(plan.variance(case.sums))
    truth, people = case.sums.apply(case.counts), case.cells.apply(case.counts)
    unbiased, valid, cells = [], [], np.zeros(2)
    for seed in range(draws):
        release = plan.release(case.counts, seed=seed)
        made = release.valid()
        unbiased.append(release.answer(case.sums).estimate - truth)
        valid.append(made.answer(case.sums) - truth)
        told = release.answer(case.cells).estimate, made.answer(case.cells)
        cells += [((t - people) ** 2).mean() for t in told]
    before, after = np.array(unbiased), np.array(valid)
    thin = truth <= THIN
    first, second = (float(np.sqrt((e[:, thin] ** 2).mean())) for e in (before, after))
    moves = (after - before) / error
    bias = float(np.abs(moves.mean(axis=0)[thin]).max())
    moved = float(np.sqrt((moves**2).mean()))
    met = second <= MOST_RATIO * first and bias <= MOST_BIAS and moved <= MOST_MOVE
    return (
        case.name, f"{thin.sum():,} of {len(truth):,}", f"{first:.2f}", f"{second:.2f}",
        f"{second / first:.3f}", f"{bias:.2f}", f"{moved:.2f}",
        f"{np.sqrt(cells[1] / cells[0]):.3f}", met,
    )  # fmt: skip


# --------------------------------------------------------------------------- cases


def _cases() -> Iterator[Case]:
    rng = np.random.default_rng(5)
    yield from _by_place(rng)
    yield from _by_group(rng)


def _by_place(rng: np.random.Generator) -> Iterator[Case]:
    """Counties of blocks, with people whose place is not stated."""
    county = np.repeat(np.arange(len(BLOCKS)), BLOCKS)
    named = {"block": [f"b{i}" for i in range(len(county))], "county": [f"c{i}" for i in county]}
    geo = nz.Hierarchical(named, missing="not stated")
    schema = nz.Schema({"geo": geo, "age": nz.Ordinal(range(AGES))})
    places = [np.flatnonzero(county == c) for c in range(len(BLOCKS))] + [np.array([len(county)])]
    counts = np.zeros(schema.shape)
    for inside, people in zip(places, (*PEOPLE, 538), strict=True):
        counts[inside] = _scattered(rng, len(inside), people)
    counties = nz.Query(schema, ["county"])
    block_by_age = nz.Query(schema, ["block", "age"])
    both = nz.Workload([counties, block_by_age])
    yield Case("county; block × age", both, counts, 0.02, counties, block_by_age)
    alike = both.weighted("tables")
    yield Case("the same, tables alike", alike, counts, 0.02, counties, block_by_age)
    alone = nz.Workload([block_by_age])
    yield Case("block × age", alone, counts, 0.02, counties, block_by_age)
    few = nz.Schema({"block": nz.Ordinal(range(len(BLOCKS) * 6)), "age": nz.Ordinal(range(AGES))})
    fewer = np.concatenate([_scattered(rng, 6, people) for people in PEOPLE])
    groups = {"block": nz.Levels(6, leaves=False, total=False), "age": nz.Identity()}
    by_age = nz.Query(few, groups)
    apart = nz.Workload([by_age, nz.Query(few, ["block"])])
    sums = nz.Query(few, {"block": groups["block"]})
    yield Case("county × age; block (filled in)", apart, fewer, 0.02, sums, by_age)


def _by_group(rng: np.random.Generator) -> Iterator[Case]:
    """Plain groups by age and job, and ranges of ages in groups."""
    schema = nz.Schema.from_sizes({"group": len(PEOPLE), "age": AGES, "job": 10, "sex": 2})
    counts = np.zeros(schema.shape)
    for g, people in enumerate(PEOPLE):
        jobs = rng.dirichlet(np.full(10, 0.6))
        cells = _shares(rng)[:, None] * jobs
        counts[g] = rng.multinomial(people, np.repeat(cells.ravel() / 2, 2)).reshape(AGES, 10, 2)
    tables = [["group", "age", "job"], ["group", "age", "sex"], ["group", "job", "sex"]]
    asked = [nz.Query(schema, names) for names in tables]
    group = nz.Query(schema, ["group"])
    yield Case("group × age × job, and others", nz.Workload(asked), counts, 0.02, group, asked[0])
    inside = nz.Query(schema, {"group": nz.Identity(), "age": nz.Levels(10, 30, leaves=False)})
    by_age = nz.Query(schema, ["group", "age"])
    bands = nz.Workload([inside, by_age])
    yield Case("group × bands of ages; group × age", bands, counts, 0.005, inside, by_age)


def _shares(rng: np.random.Generator) -> Array:
    """Of the ages."""
    bell = np.exp(-(((np.arange(AGES) - 35) / 35.0) ** 2)) * rng.gamma(3.0, 1.0, AGES)
    return np.asarray(bell / bell.sum())


def _scattered(rng: np.random.Generator, places: int, people: int) -> IntArray:
    """People over some places, unevenly, and over ages."""
    cells = rng.dirichlet(np.ones(places))[:, None] * _shares(rng)
    return np.asarray(rng.multinomial(people, cells.ravel()).reshape(places, AGES))
