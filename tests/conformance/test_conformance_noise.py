"""Every law of noise: draws against the law by its definition, and variances as stated."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from probes import (
    NOISES,
    draws,
    law_table,
    law_variance,
    noise_names,
    promise,
    sampler_type,
    sampler_types,
    side_by_side,
    stated_variances,
)
from scipy import stats

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.noise import Noise

# By what plans call the noise: the law it has, and parameters (σ², or b) to try.
LAWS = {
    "discrete": ("gaussian", (0.05, 0.3, 1.0, 7.3, 400.0)),
    "gaussian": ("gaussian", (0.3, 7.3)),
    "discrete Laplace": ("laplace", (0.1, 0.4, 1.0, 7.3, 60.0)),
    "laplace": ("laplace", (0.4, 7.3)),
}
CASES = [(noise, size) for noise, (_, sizes) in LAWS.items() for size in sizes]
EXACT = [noise for noise in LAWS if NOISES[noise][1]]
COUNT = 40_000
# A right sampler is that unlucky once in a million; the seeds are fixed.
UNLIKELY = 1e-6


def moment_bound(law: str, parameter: float, exact: bool) -> tuple[float, float]:
    """The variance, and the variance of a square."""
    if exact and parameter <= 1000:
        values, chances = law_table(law, parameter)
        second, fourth = values**2 @ chances, values**4 @ chances
        return float(second), float(fourth - second**2)
    variance = law_variance(law, parameter, exact)
    return variance, (2.0 if law == "gaussian" else 5.0) * variance**2


@pytest.mark.parametrize(("noise", "parameter"), CASES)
def test_draws_follow_the_law(noise: str, parameter: float) -> None:
    law, exact = NOISES[noise]
    sample = draws(noise, parameter, COUNT, seed=7)
    if not exact:
        size = np.sqrt(parameter) if law == "gaussian" else parameter
        continuous = stats.norm if law == "gaussian" else stats.laplace
        assert stats.kstest(sample / size, continuous.cdf).pvalue > UNLIKELY
        return
    assert sample.dtype == np.int64
    values, chances = law_table(law, parameter)
    common = np.flatnonzero(chances * COUNT >= 10)
    inside = slice(common[0], common[-1] + 1)
    found = np.array([(sample == k).sum() for k in values[inside]])
    observed, expected = [*found, COUNT - found.sum()], [*chances[inside] * COUNT]
    expected.append(COUNT - sum(expected))
    if expected[-1] < 10:  # what is rarer belongs to the rarest that is looked at
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    if len(expected) > 1:
        assert stats.chisquare(observed, expected).pvalue > UNLIKELY


@pytest.mark.parametrize(("noise", "parameter"), CASES)
def test_the_mean_and_the_variance_of_draws(noise: str, parameter: float) -> None:
    law, exact = NOISES[noise]
    sample = draws(noise, parameter, COUNT, seed=8).astype(np.float64)
    variance, spread = moment_bound(law, parameter, exact)
    assert abs(sample.mean()) < 5 * np.sqrt(variance / COUNT)
    assert abs((sample**2).mean() - variance) < 5 * np.sqrt(spread / COUNT)


@pytest.mark.parametrize("noise", LAWS)
def test_large_noise_too(noise: str) -> None:
    law, exact = NOISES[noise]
    for parameter in (1e4, 12_345_678.9, 1e13):
        sample = draws(noise, parameter, 10_000, seed=9).astype(np.float64)
        variance, spread = moment_bound(law, parameter, exact)
        assert abs(sample.mean()) < 5 * np.sqrt(variance / 10_000)
        assert abs((sample**2).mean() - variance) < 5 * np.sqrt(spread / 10_000)


@pytest.mark.parametrize(
    ("noise", "parameter"), [*CASES, *((n, s) for n in LAWS for s in (5e3, 1e8))]
)
def test_the_stated_variance_is_that_of_the_law(noise: str, parameter: float) -> None:
    truth = law_variance(*NOISES[noise][:1], parameter, NOISES[noise][1])
    for stated in stated_variances(noise, parameter):
        assert stated == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("noise", EXACT)
def test_every_column_has_its_own_noise(noise: str) -> None:
    law, _ = NOISES[noise]
    parameters = np.array([4.0, 0.3, 0.0, 90.0, 0.3])
    found = side_by_side(noise, parameters, COUNT, seed=3)
    assert found.shape == (COUNT, 5)
    assert not found[:, 2].any()
    for column, parameter in zip(found.T.astype(np.float64), parameters, strict=True):
        if parameter:
            variance, spread = moment_bound(law, float(parameter), True)
            assert abs((column**2).mean() - variance) < 5 * np.sqrt(spread / COUNT)
    # Columns are drawn apart, those of one parameter too.
    varied = np.corrcoef(found[:, [0, 1, 3, 4]].T.astype(np.float64)) - np.eye(4)
    assert np.abs(varied).max() < 5 / np.sqrt(COUNT)


@pytest.mark.parametrize("noise", LAWS)
def test_seeds_and_what_is_said_of_them(noise: str) -> None:
    exact = NOISES[noise][1]
    one, again, other = (draws(noise, 9.0, 200, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert not np.array_equal(draws(noise, 9.0, 200, None), draws(noise, 9.0, 200, None))
    private, brand = promise(noise, 1)
    assert not private and "NOT PRIVATE" in brand
    private, brand = promise(noise, None)
    assert private is exact
    assert ("for simulation" in brand) is not exact


def test_every_law_has_joined() -> None:
    assert noise_names() == set(LAWS) == set(NOISES)
    assert sampler_types() == {sampler_type(noise) for noise in LAWS}
    assert {noise: law for noise, (law, _) in LAWS.items()} == {
        n: law for n, (law, _) in NOISES.items()
    }


@pytest.mark.parametrize("noise", LAWS)
def test_what_a_law_says_of_sizes_and_costs(noise: str) -> None:
    law, exact = NOISES[noise]
    one = Noise.named(noise, 3.0)
    continuous = stats.norm(scale=np.sqrt(3.0)) if law == "gaussian" else stats.laplace(scale=3.0)
    assert one.mean_size == pytest.approx(2 * continuous.expect(lambda x: x, lb=0.0))
    assert one.budget(0.25) == (nz.zCDP(0.125) if law == "gaussian" else nz.PureDP(0.25))
    # A cost c is that of the size 1/c, if one of size one costs one.
    larger = Noise.named(noise, 1 / 0.25).nominal / Noise.named(noise, 1.0).nominal
    assert one.times_larger(0.25) == pytest.approx(1 / larger[0])
    refusals = [] if law == "gaussian" else [PlanError]
    with pytest.raises(tuple(refusals)) if refusals else nullcontext():
        one.require_squares(PlanError("no squares"))
    assert one.require_drawable() is one
    huge = Noise.named(noise, 2.0**481)
    with pytest.raises(PlanError, match=r"too large|at most 2\^48") if exact else nullcontext():
        huge.require_drawable()


@pytest.mark.parametrize("noise", LAWS)
def test_columns_are_no_farther_apart_than_is_said(noise: str) -> None:
    one = Noise.named(noise)
    columns = np.random.default_rng(4).integers(-1, 2, (200, 6))
    columns = columns[np.abs(columns).sum(axis=1) == 4]
    power = 2 if NOISES[noise][0] == "gaussian" else 1
    apart = (np.abs(columns[:, None] - columns) ** power).sum(axis=2)
    products = columns @ columns.T
    bounds = [[one.apart(4, int(product)) for product in row] for row in products]
    assert (apart <= bounds).all()
    assert (apart == bounds).any()
