"""How often intervals of statistics hold the truth, by simulation with fixed seeds.

Six groups of each kind, released 250 times: 1,500 intervals, whose share that holds is known to
±0.0056 (one standard error) if the level is 0.95; four of these are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

import noiseplan as nz
from depth import depth
from noiseplan.statistics.ratios import Quotient
from noiseplan.statistics.statistic import Statistic

COPIES, RELEASES = 6, depth(250, 80)
INCOMES = depth(1_000, 100)
SLACK = 4 * np.sqrt(0.05 * 0.95 / (COPIES * RELEASES))
# Counts by bin; the last is open.
KINDS = {
    "usual": [100, 300, 200, 50],
    "tiny": [1, 2, 0, 1],  # fewer records than a standard error of the noise
    "small": [12, 20, 15, 8],  # noise makes negative counts, and sums that fall
    "hollow": [60, 0, 0, 60],  # quantiles at the edges of empty bins
    "open": [5, 5, 10, 200],  # the median lies in the open bin
    "empty": [0, 0, 0, 0],
}
EDGES = [0.0, 10.0, 20.0, 40.0]
SCHEMA = nz.Schema(
    {
        "group": nz.Categorical([f"{kind} {i}" for kind in KINDS for i in range(COPIES)]),
        "income": nz.Binned([*EDGES, np.inf]),
        "grade": nz.Ordinal(range(1, 5)),  # the same counts, as values
        "pay": nz.Binned([-4.0, 0.0, 10.0, 20.0, 50.0]),  # the same counts, in closed bins
    }
)
TABLE = np.repeat(list(KINDS.values()), COPIES, axis=0)
COUNTS = np.zeros(SCHEMA.shape)
for _code in range(4):
    COUNTS[:, _code, _code, _code] = TABLE[:, _code]
BUDGETS = {"gaussian": nz.zCDP(0.02), "laplace": nz.PureDP(0.5)}


@cache
def plan(noise: str) -> nz.Plan:
    asked = [nz.Query(SCHEMA, ["group", name]) for name in ("income", "grade", "pay")]
    return nz.plan(nz.Workload(asked), budget=BUDGETS[noise])


def releases(noise: str) -> Iterator[nz.Release]:
    for seed in range(RELEASES):
        yield plan(noise).release(COUNTS, seed=seed)


def held(
    noise: str,
    ask: Callable[[nz.Release], Statistic],
    truth: np.ndarray,
    most: np.ndarray | None = None,
) -> dict[str, float]:
    """The share of intervals that hold the truth, by kind of group; all from it to `most`."""
    inside = np.zeros(len(truth))
    for release in releases(noise):
        found = ask(release)
        inside += (found.lower <= truth) & ((truth if most is None else most) <= found.upper)
    return dict(zip(KINDS, inside.reshape(len(KINDS), COPIES).mean(axis=1) / RELEASES, strict=True))


def per_group(values: list[float]) -> np.ndarray:
    return np.repeat(values, COPIES)


# From where to where the median may be: a bin, and in hollow groups a place between bins.
MEDIANS = per_group([10, 10, 10, 15, 40, np.nan]), per_group([20, 20, 20, 15, np.inf, np.nan])


@pytest.mark.parametrize("noise", BUDGETS)
def test_medians_of_bins_are_held_wherever_records_lie(noise: str) -> None:
    """The whole bin of the true median is inside, so any place of its records is."""
    found = held(noise, lambda release: release.median("income", by="group"), *MEDIANS)
    for kind in ("usual", "tiny", "small", "hollow", "open"):
        assert found[kind] >= 0.95 - SLACK, kind


def test_quantiles_of_bins_are_held_wherever_records_lie() -> None:
    """The first quarter ends in the second bin, or within a single record of the first."""
    least, most = per_group([10, np.nan, 10, 0, 40, np.nan]), per_group([20, 0, 20, 10, np.inf, 0])
    found = held("gaussian", lambda r: r.quantile("income", 0.25, by="group"), least, most)
    assert min(found[kind] for kind in ("usual", "small", "hollow", "open")) >= 0.95 - SLACK


def test_edges_that_the_noise_puts_aside_are_left_out() -> None:
    """Far from every edge the interval is one bin: it is no wider than what bins leave open."""
    release = next(releases("gaussian"))
    usual = release.median("income", by="group")
    assert usual.lower[:COPIES].tolist() == [10.0] * COPIES
    assert usual.upper[:COPIES].tolist() == [20.0] * COPIES


def test_medians_of_values_have_at_least_their_level() -> None:
    truth = per_group([2, 2, 2, 1, 4, np.nan])
    found = held("gaussian", lambda release: release.median("grade", by="group"), truth)
    for kind in ("usual", "tiny", "small", "hollow", "open"):
        assert found[kind] >= 0.95 - SLACK, kind


def mean_grade(counts: list[int]) -> float:
    return float(np.arange(1, 5) @ counts / max(sum(counts), 1))


def test_means_have_their_level() -> None:
    """Fieller's set is exact; where it is unbounded, all grades are in it."""
    truth = per_group([mean_grade(counts) for counts in KINDS.values()])
    found = held("gaussian", lambda release: release.mean("grade", by="group"), truth)
    for kind in ("usual", "hollow", "open"):
        assert found[kind] == pytest.approx(0.95, abs=SLACK), kind
    for kind in ("tiny", "small"):
        assert found[kind] >= 0.95 - SLACK, kind


@pytest.mark.parametrize("edges", [[-4, 0, 10, 20], [0, 10, 20, 50]], ids=["lower", "upper"])
def test_means_of_bins_are_held_where_all_records_lie_at_an_edge(edges: list[float]) -> None:
    """The hardest places: the interval is short of the truth by noise alone, half of 5 % of it."""
    truth = per_group([float(np.dot(edges, c)) / max(sum(c), 1) for c in KINDS.values()])
    found = held("gaussian", lambda release: release.mean("pay", by="group"), truth)
    for kind in ("usual", "hollow", "open"):
        assert found[kind] == pytest.approx(0.975, abs=SLACK), kind
    for kind in ("tiny", "small"):
        assert found[kind] >= 0.975 - SLACK, kind


def test_means_of_bins_hold_both_extreme_means_together() -> None:
    ends = [
        per_group([float(np.dot(edges, c)) / max(sum(c), 1) for c in KINDS.values()])
        for edges in ([-4, 0, 10, 20], [0, 10, 20, 50])
    ]
    found = held("laplace", lambda release: release.mean("pay", by="group"), *ends)
    assert min(found[kind] for kind in ("usual", "hollow", "open", "small")) >= 0.95 - SLACK


@pytest.mark.few(2)
@pytest.mark.parametrize(("bins", "rho"), [(4, 0.5), (40, 0.5), (12, 1e-3), (40, 1e-4)])
def test_medians_and_means_of_incomes_are_those_of_the_records(bins: int, rho: float) -> None:
    """Incomes before they are put into bins, drawn anew and released 1,000 times."""
    random = np.random.default_rng(bins)
    sample = random.lognormal(10.1, 0.7, 100_000)
    edges = [0.0, *np.quantile(sample, np.arange(1, bins) / bins).round(-2), 200_000.0]
    closed, ended = nz.Binned(edges), nz.Binned([*edges[:-1], np.inf])
    schema = nz.Schema({"closed": closed, "open": ended})
    made = nz.plan([nz.Query(schema, [name]) for name in schema.names], budget=nz.zCDP(rho))
    held = np.zeros(3)
    for seed in range(INCOMES):
        incomes = np.minimum(random.lognormal(10.1, 0.7, 4_000).round(2), 200_000.0)
        release = made.release(np.diag(np.histogram(incomes, edges)[0]), seed=seed)
        found = [release.median("closed"), release.median("open"), release.mean("closed")]
        truth = [np.median(incomes), np.median(incomes), incomes.mean()]
        held += [f.lower[0] <= t <= f.upper[0] for f, t in zip(found, truth, strict=True)]
        if rho == 0.5 and bins < 40:  # the median is near an edge, and in one of two bins
            assert edges[bins // 2 - 1] <= found[1].lower[0]
            assert found[1].upper[0] <= edges[bins // 2 + 1]
    assert (held >= 0.95 * INCOMES).all(), held


def test_shares_and_ratios_have_their_level() -> None:
    shares = per_group([sum(counts[2:]) / max(sum(counts), 1) for counts in KINDS.values()])
    found = held("gaussian", lambda release: release.share("income=20..", by="group"), shares)
    assert found["usual"] == pytest.approx(0.95, abs=SLACK)
    assert min(found[kind] for kind in ("tiny", "small", "hollow", "open")) >= 0.95 - SLACK
    ratios = per_group([counts[2] / max(counts[1], 1) for counts in KINDS.values()])
    found = held("gaussian", lambda r: r.ratio("grade=3", "grade=2", by="group"), ratios)
    assert found["usual"] == pytest.approx(0.95, abs=SLACK)
    assert min(found[kind] for kind in ("tiny", "small", "open")) >= 0.95 - SLACK


@pytest.mark.parametrize("size", [0.5, 2.0, 2.5, 3.0, 5.0, 30.0])
@pytest.mark.parametrize("truth", [0.0, 0.02, 0.5, 1.0])
def test_intervals_within_what_is_possible_have_their_level(size: float, truth: float) -> None:
    """Shares of groups from half a standard error of their total to thirty, 40,000 times each.

    A share and its rest have noise of their own, as two cells have. Where everything is far from
    the ends of what is possible the level is met from both sides.
    """
    one, rest = np.random.default_rng(int(100 * size + 10 * truth)).normal(size=(2, 40_000))
    d = size * np.sqrt(2) + one + rest
    kept = d > 0  # the others have no interval but everything
    n = truth * size * np.sqrt(2) + one
    v, c, w = (np.full(len(d), x) for x in (1.0, 1.0, 2.0))
    low, high = (end[kept] for end in Quotient(n, d, v, c, w).interval(1.959964, (0.0, 1.0)))
    assert (low >= 0).all() and (high <= 1).all() and (low < high).all()
    inside = (np.count_nonzero((low <= truth) & (truth <= high)) + np.count_nonzero(~kept)) / len(d)
    assert inside >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / len(d))
    if size == 30.0 and truth == 0.5:
        assert inside == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / len(d)))


def test_no_interval_leaves_what_is_possible() -> None:
    """Neither means, shares nor ratios of counts, of groups of any size."""
    for seed, release in zip(range(40), releases("gaussian"), strict=False):
        grades = release.mean("grade", by="group")
        shares = release.share("grade", by="group")
        ratios = release.ratio("grade=3", "grade=2", by="group")
        for found, least, most in ((grades, 1, 4), (shares, 0, 1), (ratios, 0, np.inf)):
            assert (found.lower >= least).all() and (found.upper <= most).all(), seed
            assert (found.lower < found.upper).all(), seed
            nothing = (found.lower == least) & (found.upper == most)
            np.testing.assert_array_equal(np.isnan(found.estimate), nothing)
            beyond = int(((found.estimate < least) | (found.estimate > most)).sum())
            notes = " ".join(found.notes)
            assert (f"not determined ({nothing.sum():,} of" in notes) == nothing.any()
            assert (f"beyond what is possible ({beyond:,} of" in notes) == (beyond > 0)


def test_simultaneous_intervals_hold_together() -> None:
    counts = [*KINDS.values()][:3]
    truth = per_group([mean_grade(each) for each in counts])
    together = 0
    for release in releases("gaussian"):
        found = release.mean("grade", by="group", simultaneous=True)
        kept = slice(0, len(truth))
        together += bool(((found.lower[kept] <= truth) & (truth <= found.upper[kept])).all())
    assert together / RELEASES >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / RELEASES)


def test_groups_that_noise_alone_could_make_have_no_estimate() -> None:
    release = next(releases("gaussian"))
    median, mean = release.median("income", by="group"), release.mean("grade", by="group")
    last = slice(-COPIES, None)  # the empty groups
    totals = release.answer(nz.Query(SCHEMA, ["group"]))
    small = totals.estimate <= 1.959964 * totals.std_error
    assert small[last].sum() >= COPIES - 1 and not small[:COPIES].any()
    assert np.isnan(mean.estimate)[small].all() and not np.isnan(mean.estimate)[:COPIES].any()
    np.testing.assert_array_equal(mean.lower[small], 1.0)
    np.testing.assert_array_equal(mean.upper[small], 4.0)
    np.testing.assert_array_equal(median.lower[small], 0.0)
    np.testing.assert_array_equal(median.upper[small], np.inf)
    assert f"({small.sum()} of {len(small)})" in median.notes[0]
    assert "–" in str(mean.text())
    known = ~np.isnan(np.asarray(median.estimate))
    assert (median.lower <= median.estimate)[known].all()
    assert (median.estimate <= median.upper)[known].all()
