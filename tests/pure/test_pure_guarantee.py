"""The guarantee of pure DP: ε to the last digit, and what it implies."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pure_oracles import summed_variance

import noiseplan as nz
from noiseplan.errors import BudgetError
from noiseplan.noise.moments import discrete_laplace_variance
from noiseplan.privacy import Guarantee, conversions

epsilons = st.floats(1e-6, 1e3)


@given(epsilons)
def test_epsilon_is_kept_to_the_last_digit(epsilon: float) -> None:
    spent = Guarantee.pure(epsilon)
    assert spent.pure_epsilon == epsilon
    assert spent.within(nz.PureDP(epsilon))
    assert not spent.within(nz.PureDP(np.nextafter(epsilon, 0)))
    assert Fraction(spent.rho) >= Fraction(epsilon) ** 2 / 2


@given(st.lists(epsilons, min_size=1, max_size=8))
def test_pure_costs_add_up(parts: list[float]) -> None:
    total = Guarantee.pure(parts[0]).compose(*map(Guarantee.pure, parts[1:]))
    assert total.law == "pure"
    exact = sum(map(Fraction, parts))
    assert exact <= Fraction(total.pure_epsilon) <= exact * (1 + Fraction(1, 2**51))


def test_with_other_noise_they_are_zcdp() -> None:
    both = Guarantee.pure(0.5).compose(Guarantee(1.0))
    assert (both.law, both.pure_epsilon) == ("zcdp", None)
    assert both.rho == pytest.approx(0.5 + 0.125, abs=1e-15)


def test_epsilon_at_delta_is_the_lesser_of_two() -> None:
    large = Guarantee.pure(20.0)
    assert large.epsilon(1e-9) == 20.0
    wide = Guarantee.pure(0.1).compose(*[Guarantee.pure(0.1)] * 99)  # ε = 10, and ρ = 50 as one
    assert wide.epsilon(1e-9) == wide.pure_epsilon
    small = Guarantee.pure(0.05)
    assert small.epsilon(0.2) == min(0.05, conversions.zcdp_epsilon(small.rho, 0.2))
    assert small.epsilon(0.2) < 0.05
    assert small.delta(0.05) == 0.0
    assert 0 < small.delta(0.01) <= conversions.zcdp_delta(small.rho, 0.01)


def test_within_other_budgets() -> None:
    spent = Guarantee.pure(1.0)
    assert spent.within(nz.ApproxDP(1.0, 1e-30))
    assert spent.within(nz.zCDP(0.5))
    assert not spent.within(nz.zCDP(0.49))
    assert spent.within(nz.GDP(1.2321)) and not spent.within(nz.GDP(1.2320))  # √1.517911
    assert not Guarantee(1e-6).within(nz.PureDP(100.0))


def test_words_and_refusals() -> None:
    assert Guarantee.pure(0.25).describe().startswith("pure DP: ε = 0.25\nzCDP: ρ = 0.03125\n")
    assert "pure DP" in Guarantee.pure(0.25).describe().splitlines()[-2]
    with pytest.raises(BudgetError, match=r"Guarantee\.pure\(epsilon=1\.0\)"):
        Guarantee(1.0, "pure")
    with pytest.raises(BudgetError, match="at least 0"):
        Guarantee.pure(-1.0)


@given(st.fractions(Fraction(1, 50), 1000))
def test_variance_of_the_discrete_law(scale: Fraction) -> None:
    found = discrete_laplace_variance(np.array([float(scale)]))[0]
    assert found == pytest.approx(summed_variance(Fraction(float(scale))), rel=1e-12)
