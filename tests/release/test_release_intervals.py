"""How many standard errors an interval reaches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noiseplan as nz
from noiseplan.errors import QueryError
from noiseplan.noise.moments import half_width_factor


@pytest.mark.parametrize("level", [1e-6, 0.1, 0.5, 0.9, 0.95, 0.99, 1 - 1e-12])
@pytest.mark.parametrize("rows", [1, 2, 10, 1000])
def test_the_factor_is_a_normal_quantile(level: float, rows: int) -> None:
    outside = -np.expm1(np.log(level) / rows)  # of each single interval
    assert half_width_factor(level, rows) == pytest.approx(stats.norm.isf(outside / 2), rel=1e-9)
    if level < 0.999 and rows < 100:
        expected = stats.norm.ppf((1 + level ** (1 / rows)) / 2)
        assert half_width_factor(level, rows) == pytest.approx(expected, rel=1e-6)


def test_known_factors() -> None:
    assert half_width_factor(0.95, 1) == pytest.approx(1.959963984540054, rel=1e-12)
    assert half_width_factor(0.99, 1) == pytest.approx(2.5758293035489004, rel=1e-12)
    assert half_width_factor(0.95, 10) == pytest.approx(2.7995, abs=1e-3)


def test_many_rows_do_not_lose_precision() -> None:
    """A billion rows: 1 − level^(1/rows) is far below the rounding of 1."""
    factor = half_width_factor(0.95, 10**9)
    assert stats.norm.sf(factor) * 2 * 1e9 == pytest.approx(-np.log(0.95), rel=1e-6)


def test_factors_grow_with_level_and_rows() -> None:
    levels = [half_width_factor(level, 5) for level in (0.5, 0.8, 0.95, 0.999)]
    rows = [half_width_factor(0.95, n) for n in (1, 2, 5, 50)]
    assert levels == sorted(levels)
    assert rows == sorted(rows)
    assert len(set(levels)) == len(set(rows)) == 4


@pytest.mark.parametrize("level", [0, 1, 1.0, -0.1, 95, np.nan, "0.95", None, True])
def test_a_level_lies_between_0_and_1(level: object) -> None:
    with pytest.raises(QueryError, match="between 0 and 1"):
        half_width_factor(level, 1)


def test_half_widths_of_a_plan() -> None:
    schema = nz.Schema.from_sizes({"a": 5, "b": 2})
    query = nz.Query(schema, {"a": nz.Prefix()})
    plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5))
    errors = np.sqrt(plan.variance(query))
    np.testing.assert_allclose(plan.std_error(query), errors)
    np.testing.assert_allclose(plan.half_width(query), 1.959963984540054 * errors)
    np.testing.assert_allclose(plan.half_width(query, 0.9), stats.norm.ppf(0.95) * errors)
    every = stats.norm.ppf((1 + 0.9**0.2) / 2)
    np.testing.assert_allclose(plan.half_width(query, 0.9, simultaneous=True), every * errors)
    with pytest.raises(QueryError, match="between 0 and 1"):
        plan.half_width(query, 90)


def test_answers_carry_the_half_widths_of_the_plan() -> None:
    schema = nz.Schema.from_sizes({"a": 5, "b": 2, "c": 2})
    query = nz.Query(schema, {"a": nz.Prefix()})
    plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5))
    release = plan.release(np.ones((5, 2, 2), dtype=int), seed=0)
    for simultaneous in (False, True):
        answer = release.answer(query, level=0.8, simultaneous=simultaneous)
        reach = plan.half_width(query, 0.8, simultaneous)
        np.testing.assert_allclose(answer.upper - answer.estimate, reach)
        np.testing.assert_allclose(answer.estimate - answer.lower, reach)
        assert answer.level == 0.8
        assert answer.simultaneous is simultaneous
    with pytest.raises(QueryError, match="between 0 and 1"):
        _ = release.answer(query, level=1.5).upper
