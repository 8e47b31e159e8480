"""Privacy in words: the bound that is stated holds for the best test there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from depth import examples
from noiseplan.privacy import Guarantee
from noiseplan.words.privacy import currencies, promise, success_bound


@examples(30)
@given(pcost=st.floats(1e-6, 30), alarms=st.sampled_from([0.01, 0.05, 0.3]))
def test_the_best_test_against_gaussian_noise_is_within_the_bound(
    pcost: float, alarms: float
) -> None:
    """Neyman and Pearson: the best test of N(0, 1) against N(μ, 1) is a threshold."""
    best = norm.sf(norm.isf(alarms) - math.sqrt(pcost))
    assert success_bound(Guarantee(pcost), alarms) == pytest.approx(best, rel=1e-9)
    stated = success_bound(Guarantee(pcost, law="zcdp"), alarms)  # Gaussian noise is zCDP too
    assert stated >= best * (1 - 1e-12)
    assert alarms <= stated <= 1.0


def test_the_best_test_against_discrete_noise_is_within_the_bound() -> None:
    """The most powerful randomised test between a discrete Gaussian and its shift by one."""
    for variance in (0.3, 2.0, 40.0):
        x = np.arange(-400, 401)
        here = np.exp(-(x**2) / (2 * variance))
        there = np.exp(-((x - 1) ** 2) / (2 * variance))
        here, there = here / here.sum(), there / there.sum()
        order = np.argsort(-there / np.maximum(here, 1e-300), kind="stable")
        alarms, power = np.cumsum(here[order]), np.cumsum(there[order])
        best = float(np.interp(0.05, np.r_[0, alarms], np.r_[0, power]))
        assert best <= success_bound(Guarantee(1 / variance, law="zcdp"))


def test_more_budget_is_less_protection() -> None:
    bounds = [success_bound(Guarantee(cost, law="zcdp")) for cost in np.geomspace(1e-5, 50, 40)]
    assert bounds == sorted(bounds)
    assert bounds[0] < 0.052
    assert bounds[-1] > 0.99


def test_nothing_and_everything() -> None:
    assert success_bound(Guarantee(0.0, law="zcdp")) == 0.05
    assert success_bound(Guarantee(math.inf)) == 1.0
    assert "Nothing about any single record" in promise(Guarantee(0.0))[0]
    assert "not known" in promise(Guarantee(math.inf))[0]
    assert currencies(Guarantee(math.inf)) == []


def test_sentences() -> None:
    (first, second) = promise(Guarantee(0.03, law="zcdp"))
    assert "whether one record is among the data" in first
    assert "false alarm in 5 of 100" in first
    assert "(Without the publication it would be 5 of 100" in second
    assert "which of two records" in promise(Guarantee(0.03, "zcdp", "replace"))[0]
    assert "whether one person" in promise(Guarantee(0.03, "zcdp"), "person")[0]
    assert "weak protection" in promise(Guarantee(20.0))[-1]


def test_currencies_are_rounded_up() -> None:
    values = [each.value for each in currencies(Guarantee(1.0))]
    assert values[:2] == ["ρ = 0.5", "μ = 1"]
    assert values[3] == "ε = 6.17394 at δ = 1e-9"
    assert "not stated" in [each.value for each in currencies(Guarantee(1.0, law="zcdp"))]


def test_pure_privacy() -> None:
    """The best test against Laplace noise: e^ε times the false alarms, while that is below ½."""
    guarantee = Guarantee.pure(0.5)
    assert success_bound(guarantee) == pytest.approx(math.exp(0.5) * 0.05, rel=1e-6)
    assert success_bound(guarantee) >= math.exp(0.5) * 0.05 * (1 - 1e-12)
    assert currencies(guarantee)[0].value == "ε = 0.5, δ = 0"
