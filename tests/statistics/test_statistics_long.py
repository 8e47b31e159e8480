"""Quantiles of long attributes: the same as with all rows written out, and with their level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from depth import depth
from noiseplan.counting import CountTensor
from noiseplan.errors import QueryError, UnanswerableError
from noiseplan.mechanisms import tree_block
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.queries import Query
from noiseplan.statistics import quantiles

LONG = 1_030  # enough for a series, few enough for rows

KINDS: dict[str, Any] = {
    "values": nz.Ordinal(range(LONG)),
    "bins": nz.Binned(range(LONG + 1)),
    "open": nz.Binned([*range(LONG), np.inf], missing="none"),
    "missing": nz.Ordinal(range(LONG), missing="none"),
}
ASKED: dict[str, Any] = {
    "series": [{"t": nz.Prefix(), "g": nz.Identity()}],
    "table": [["t", "g"]],
    "both": [{"t": nz.Prefix()}, ["t", "g"]],
    "levels": [{"t": nz.Levels(10, 100), "g": nz.Identity()}, {"t": nz.Levels(500)}],
}


def release_of(kind: str, asked: str) -> nz.Release:
    schema = nz.Schema({"t": KINDS[kind], "g": nz.Categorical(["a", "b", "c"])})
    plan = nz.plan(nz.Workload([Query(schema, each) for each in ASKED[asked]]), budget=nz.zCDP(0.5))
    counts = np.random.default_rng(3).poisson(
        np.linspace(0.2, 3, schema.shape[0])[:, None] * [1.0, 0.1, 0.001], size=schema.shape
    )
    return plan.release(counts, seed=5)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kind", "asked"), list(zip(KINDS, ["series", "table", "both", "both"], strict=True))
)
def test_the_same_as_with_rows_written_out(kind: str, asked: str) -> None:
    release, groups = release_of(kind, asked), {"g": nz.Custom([[1, 1, 0], [0, 1, 1]])}
    curve = quantiles._curve(release, "t", 0.3, groups)
    ((d, error),) = quantiles.long_curves(release, "t", [0.3], groups)
    np.testing.assert_allclose(d, curve.d, atol=1e-8 * np.abs(curve.d).max())
    np.testing.assert_allclose(error**2, curve.error**2, atol=1e-9 * curve.error.max() ** 2)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_prefix_sums_of_levels_are_those_of_rows_written_out(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates, variances and covariances with the total and with single values, of a tree."""
    release = release_of(kind, "levels")
    assert isinstance(release.plan.mechanism, TreeMechanism)
    schema, size = release.schema, release.schema.shape[0]
    sums = Query(schema, {"t": nz.Prefix(), "g": nz.Identity()})
    others = [
        Query(schema, ["g"]),
        Query(schema, {"t": nz.Custom(np.eye(size)[[0, 500, LONG - 1]])}),
        Query(schema, {"t": nz.Custom(np.arange(size)[None] % 7.0), "g": nz.Custom([[1, 2, 0]])}),
    ]
    written = release.answer(sums), [release.covariance(sums, other) for other in others]
    back = [release.covariance(other, sums) for other in others]
    monkeypatch.setattr(tree_block, "MOST_WEIGHTS", 4 * size)
    answer, shared = release.answer(sums), [release.covariance(sums, other) for other in others]
    np.testing.assert_allclose(answer.estimate, written[0].estimate, atol=1e-8 * LONG)
    np.testing.assert_allclose(answer.std_error, written[0].std_error, rtol=1e-9)
    for found, other, expected, turned in zip(shared, others, written[1], back, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(
            release.covariance(other, sums), turned, atol=1e-9 * turned.max()
        )
    with pytest.raises(QueryError, match="too many numbers to be written down"):
        release.covariance(sums, sums)


def test_medians_of_long_trees_of_levels() -> None:
    """More values than rows are written for, by levels alone: within six standard errors."""
    schema = nz.Schema({"t": nz.Ordinal(range(20_000)), "g": nz.Categorical(["a", "b"])})
    asked = nz.Workload([Query(schema, {"t": nz.Levels(10, 100, 1000), "g": nz.Identity()})])
    counts = CountTensor(schema, np.ones(schema.shape, dtype=np.int64) * [3, 1])
    release = nz.plan(asked, budget=nz.zCDP(0.5)).release(counts, seed=3)
    found = release.quantile("t", 0.25, by="g")
    assert (np.abs(found.estimate - 4_999) < 3 * (found.upper - found.lower)).all()
    assert (found.upper - found.lower < 400).all()


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "asked"), [("values", "table"), ("open", "series")])
def test_quantiles_are_those_of_rows_written_out(
    kind: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = release_of(kind, asked)
    short = release.quantile("t", [0.1, 0.5])
    monkeypatch.setattr(quantiles, "MOST_WRITTEN", LONG - 1)
    long = release.quantile("t", [0.1, 0.5])
    assert long.method == short.method
    for name in ("estimate", "lower", "upper"):
        np.testing.assert_allclose(getattr(long, name), getattr(short, name), atol=1e-6)


def test_sums_from_the_other_end_where_the_covariance_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What plain tables of more than 7,000 values take: the covariance is refused there."""
    release = release_of("missing", "table")
    expected = list(quantiles.long_curves(release, "t", [0.3], {"g": nz.Identity()}))

    def refused(*_: object) -> None:
        raise QueryError("too large")

    monkeypatch.setattr(nz.Release, "covariance", refused)
    found = list(quantiles.long_curves(release, "t", [0.3], {"g": nz.Identity()}))
    for (d, error), (other, theirs) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(d, other)
        np.testing.assert_allclose(error**2, theirs**2, atol=1e-9 * theirs.max() ** 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("asked", [{"t": nz.Prefix(), "g": nz.Identity()}, ["t", "g"]])
def test_medians_of_long_attributes_have_their_level(asked: Any) -> None:
    """Intervals of bins hold the noise and the edges, so they hold at least their level."""
    size, groups, releases = 8_000, 10, depth(60, 20)
    schema = nz.Schema(
        {"t": nz.Binned(range(size + 1)), "g": nz.Categorical([str(i) for i in range(groups)])}
    )
    plan = nz.plan(nz.Workload([Query(schema, asked)]), budget=nz.zCDP(0.2))
    counts = np.random.default_rng(1).poisson(2.0, size=schema.shape)
    sums = np.concatenate([np.zeros((1, groups)), counts.cumsum(axis=0)])
    truth = [np.interp(column[-1] / 2, column, np.arange(size + 1)) for column in sums.T]
    held = 0
    for seed in range(releases):
        found = plan.release(counts, seed=seed).median("t", by="g")
        held += np.count_nonzero((found.lower <= truth) & (truth <= found.upper))
    tries = groups * releases
    assert held / tries >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / tries)


def test_a_year_by_minute() -> None:
    schema = nz.Schema({"minute": nz.Ordinal(range(525_600))})
    plan = nz.plan(nz.Workload([Query(schema, {"minute": nz.Prefix()})]), budget=nz.zCDP(0.5))
    values = np.random.default_rng(2).integers(0, 525_600, 20_000)
    found = plan.release({"minute": values}, seed=4).median("minute")
    truth = np.sort(values)[(len(values) - 1) // 2]
    assert found.lower[0] <= truth <= found.upper[0]
    assert found.upper[0] - found.lower[0] < 3_000


def test_what_cannot_be_had_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = nz.Schema({"t": nz.Ordinal(range(7_200)), "g": nz.Categorical(["a", "b"])})
    levels = Query(schema, {"t": nz.Levels(60, leaves=False), "g": nz.Identity()})
    data = {"t": [1, 2, 3], "g": ["a", "a", "b"]}
    release = nz.plan(nz.Workload([levels]), budget=nz.zCDP(1.0)).release(data)
    with pytest.raises(UnanswerableError, match=r"{'t': Prefix\(\), 'g': Identity\(\)}") as refused:
        release.median("t", by="g")
    assert "7,200 values" in str(refused.value)
    more = nz.Workload([levels, Query(schema, {"t": nz.Prefix(), "g": nz.Identity()})])
    assert nz.plan(more, budget=nz.zCDP(1.0)).release(data).median("t", by="g").rows == 2
    monkeypatch.setattr(quantiles, "MOST_PLACES", 10_000)
    with pytest.raises(QueryError, match="up to 1 groups at once, and these are 2"):
        nz.plan(more, budget=nz.zCDP(1.0)).release(data).median("t", by="g")
