"""Quantiles of long attributes: the same as with all rows written out, and with their level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import QueryError, UnanswerableError
from noiseplan.queries import Query
from noiseplan.statistics import long_curves, quantiles

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
}


def release_of(kind: str, asked: str) -> nz.Release:
    schema = nz.Schema({"t": KINDS[kind], "g": nz.Categorical(["a", "b", "c"])})
    plan = nz.plan(nz.Workload([Query(schema, each) for each in ASKED[asked]]), budget=nz.zCDP(0.5))
    counts = np.random.default_rng(3).poisson(
        np.linspace(0.2, 3, schema.shape[0])[:, None] * [1.0, 0.1, 0.001], size=schema.shape
    )
    return plan.release(counts, seed=5)


@pytest.mark.parametrize(
    ("kind", "asked"), list(zip(KINDS, ["series", "table", "both", "both"], strict=True))
)
def test_the_same_as_with_rows_written_out(kind: str, asked: str) -> None:
    release, groups = release_of(kind, asked), {"g": nz.Custom([[1, 1, 0], [0, 1, 1]])}
    curve = quantiles._curve(release, "t", 0.3, groups)
    ((d, error),) = long_curves.long_curves(release, "t", [0.3], groups)
    np.testing.assert_allclose(d, curve.d, atol=1e-8 * np.abs(curve.d).max())
    np.testing.assert_allclose(error**2, curve.error**2, atol=1e-9 * curve.error.max() ** 2)


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
    expected = list(long_curves.long_curves(release, "t", [0.3], {"g": nz.Identity()}))

    def refused(*_: object) -> None:
        raise QueryError("too large")

    monkeypatch.setattr(nz.Release, "covariance", refused)
    found = list(long_curves.long_curves(release, "t", [0.3], {"g": nz.Identity()}))
    for (d, error), (other, theirs) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(d, other)
        np.testing.assert_allclose(error**2, theirs**2, atol=1e-9 * theirs.max() ** 2)


@pytest.mark.parametrize("asked", [{"t": nz.Prefix(), "g": nz.Identity()}, ["t", "g"]])
def test_medians_of_long_attributes_have_their_level(asked: Any) -> None:
    """The true median lies inside a bin: its test is exact, so the level is met from both sides."""
    size, groups, releases = 8_000, 10, 60
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
    assert held / tries == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / tries))


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
    levels = Query(schema, {"t": nz.Levels(60), "g": nz.Identity()})
    data = {"t": [1, 2, 3], "g": ["a", "a", "b"]}
    release = nz.plan(nz.Workload([levels]), budget=nz.zCDP(1.0)).release(data)
    with pytest.raises(UnanswerableError, match=r"{'t': Prefix\(\), 'g': Identity\(\)}") as refused:
        release.median("t", by="g")
    assert "7,200 values" in str(refused.value)
    more = nz.Workload([levels, Query(schema, {"t": nz.Prefix(), "g": nz.Identity()})])
    assert nz.plan(more, budget=nz.zCDP(1.0)).release(data).median("t", by="g").rows == 2
    monkeypatch.setattr(long_curves, "MOST_PLACES", 10_000)
    with pytest.raises(QueryError, match="up to 1 groups at once, and these are 2"):
        nz.plan(more, budget=nz.zCDP(1.0)).release(data).median("t", by="g")
