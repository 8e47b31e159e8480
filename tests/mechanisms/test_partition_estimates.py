"""Answers from bucket totals: by forms over cells, by rows, and by definition, all the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.partition import estimates
from noiseplan.mechanisms.partition.buckets import LineWorkload, line
from noiseplan.mechanisms.partition.estimates import Estimates, Gauge

Array = np.ndarray[Any, Any]
LINE = nz.Schema({"age": nz.Ordinal(range(12)), "sex": nz.Categorical(["F", "M"])})
PLANE = nz.Schema({"x": nz.Ordinal(range(4)), "y": nz.Ordinal(range(3))})
EDGES = np.array([0, 1, 5, 6, 12])


@dataclass(frozen=True)
class Known:
    """As much of what is measured of buckets as estimates ask for."""

    edges: Array
    covariance: Array

    def covariance_times(self, columns: Array) -> Array:
        return np.asarray(self.covariance @ columns)


def made(
    schema: nz.Schema,
    asked: tuple[str, ...],
    seed: int = 0,
    unevenness: float | None = None,
    norm: float | None = None,
) -> Estimates:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    totals = rng.normal(20, 15, 4)
    workload = nz.Workload([nz.Query(schema, list(asked))])
    order = line(tuple(schema[name].size for name in asked))
    known: Any = Known(EDGES, root @ root.T)
    gauge = Gauge(3.0, unevenness, norm, 50.0)
    return Estimates(LineWorkload(workload, asked, order), known, totals, gauge)


def by_definition(made: Estimates, rows: Array) -> tuple[Array, Array, Array]:
    """Estimate, noise and squared bias of rows over the cells in the order of the table."""
    lined = rows[:, made.line.order]
    parts = [lined[:, a:b] for a, b in itertools.pairwise(EDGES)]
    mean = np.column_stack([part.mean(axis=1) for part in parts])
    spread = np.column_stack([part.var(axis=1) for part in parts])
    covariance = made.buckets.covariance  # type: ignore[attr-defined]
    noise = np.einsum("rb,bc,rc->r", mean, covariance, mean)
    return mean @ made.totals, noise, spread @ made.hidden


@pytest.mark.parametrize("cells", [4096, 0], ids=["by forms", "by rows"])
@given(st.integers(0, 10**6))
def test_one_attribute(cells: int, seed: int) -> None:
    found = made(LINE, ("age",), seed)
    factors = [nz.Identity(), nz.Prefix(), nz.Ranges(), nz.Levels(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "BY_FORMS", cells)
        patch.setattr(estimates, "AT_ONCE", 30)  # a few rows at a time
        for factor in factors:
            query = nz.Query(LINE, {"age": factor})
            rows = factor.matrix(LINE["age"]).dense()
            estimate, noise, bias = by_definition(found, rows)
            np.testing.assert_allclose(found.estimate(query), estimate, atol=1e-9)
            for stated, truth in zip(found.errors(query), (noise, bias), strict=True):
                np.testing.assert_allclose(stated, truth, atol=1e-8 * (1 + truth.max()))


@given(st.integers(0, 10**6))
def test_two_attributes_along_the_curve(seed: int) -> None:
    found = made(PLANE, ("x", "y"), seed)
    assert found.cells.shape == (4, 3)
    assert found.cells.sum() == pytest.approx(found.totals.sum())
    for factors in ({"x": nz.Ranges(), "y": nz.Prefix()}, {"y": nz.Identity()}, {}):
        query = nz.Query(PLANE, factors)
        estimate, noise, bias = by_definition(found, query.dense())
        np.testing.assert_allclose(found.estimate(query), estimate, atol=1e-9)
        for stated, truth in zip(found.errors(query), (noise, bias), strict=True):
            np.testing.assert_allclose(stated, truth, atol=1e-8 * (1 + truth.max()))


def test_the_total_has_no_bias() -> None:
    found = made(LINE, ("age",))
    noise, bias = found.errors(nz.Query(LINE, {}))
    assert noise[0] > 0 and bias[0] == pytest.approx(0.0, abs=1e-9)


def test_what_may_hide_in_a_bucket() -> None:
    """T + (h/2)²: h is what the partition does not tell apart, or a share of what was measured."""
    plain = made(LINE, ("age",))
    totals = np.maximum(plain.totals, 0.0)
    np.testing.assert_allclose(plain.hidden, totals + (np.minimum(totals, 3.0) / 2) ** 2)
    even = made(LINE, ("age",), unevenness=0.0)  # no more than chance makes of it
    np.testing.assert_allclose(even.hidden, totals)
    uneven = made(LINE, ("age",), unevenness=1e4)
    assert (uneven.hidden >= plain.hidden).all()
    widths = np.diff(EDGES)
    chance = (widths * np.minimum(totals / widths, np.sqrt(2 * totals / widths / np.pi))).sum()
    missed = np.minimum(totals, 3.0)
    shared = missed * (1e4 - chance) / missed.sum()
    np.testing.assert_allclose(uneven.hidden, totals + (shared / 2) ** 2)


def test_a_measured_norm_is_shared_out_by_the_squares_of_totals() -> None:
    """So that Σ (1 − 1/L)·hidden is the norm squared, less its noise; never less than expected."""
    plain, quiet = made(LINE, ("age",)), made(LINE, ("age",), norm=-5.0)
    np.testing.assert_array_equal(quiet.hidden, plain.hidden)
    loud, within = made(LINE, ("age",), norm=400.0), 1 - 1 / np.diff(EDGES)
    assert within @ loud.hidden == pytest.approx(400.0**2 - 50)
    beyond = loud.hidden - plain.hidden
    totals = np.maximum(plain.totals, 0.0)
    np.testing.assert_allclose(beyond / beyond.sum(), totals**2 / (totals**2).sum())


def test_very_large_queries_are_read_between_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    found, query = made(LINE, ("age",)), nz.Query(LINE, {"age": nz.Ranges()})
    exact = found.errors(query)
    assert not found.approximate(query)
    for name, value in (("BY_FORMS", 0), ("EVERY_ROW", 10), ("SAMPLED", 20)):
        monkeypatch.setattr(estimates, name, value)
    assert found.approximate(query)
    rows = np.unique(np.linspace(0, query.rows - 1, 20).astype(np.int64))
    for stated, truth in zip(found.errors(query), exact, strict=True):
        assert len(stated) == query.rows
        np.testing.assert_allclose(stated[rows], truth[rows], atol=1e-8 * truth.max())
        assert stated.max() <= truth.max() * (1 + 1e-9)


def test_what_is_not_measured_is_refused() -> None:
    with pytest.raises(UnanswerableError, match="'sex'"):
        made(LINE, ("age",)).estimate(nz.Query(LINE, ["sex"]))
