"""Conversions: printed values, other libraries, high precision, outward rounding, edges."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import privacy_oracles as oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import BudgetError
from noiseplan.privacy import (
    conversions,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_pcost,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from noiseplan.privacy.conversions import discrete_gaussian_epsilon, discrete_gaussian_variance

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dp_accounting import gaussian_mechanism
    from dp_accounting.pld import privacy_loss_distribution

TIGHT = 2e-11  # promised relative excess of δ
INVERSE = 1e-9  # relative loss of the inverses, for δ up to 0.999

repeatable = examples(150)


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


costs = log_uniform(-8, 4)
epsilons = st.one_of(st.just(0.0), log_uniform(-6, 2), st.floats(0, 500))
deltas = st.one_of(log_uniform(-300, -1), log_uniform(-15, -1), st.floats(0.1, 0.999))


@st.composite
def points(draw: st.DrawFn) -> tuple[float, float]:
    """(pcost, ε), half of them where δ lies between 10⁻³⁰⁰ and 1 − 10⁻³⁰⁰."""
    cost = draw(costs)
    if draw(st.booleans()):
        return cost, draw(epsilons)
    standardised = draw(st.floats(-37, 37))  # ε/μ − μ/2
    return cost, min(500.0, max(0.0, standardised * math.sqrt(cost) + cost / 2))


# ---------------------------------------------------------------- printed values


@pytest.mark.parametrize(
    ("pcost", "epsilon", "printed"),
    [
        (1, 0.1, "0.3523252"),
        (1, 0.5, "0.2384217"),
        (1, 1, "0.1269367"),
        (1, 2, "0.02092364"),
        (1, 5, "5.793722e-7"),
        (0.1, 1, "1.098105e-4"),
        (4, 1, "0.5098617"),
    ],
)
def test_delta_of_the_specification(pcost: float, epsilon: float, printed: str) -> None:
    assert oracle.agrees(gaussian_delta(pcost, epsilon), printed)


@pytest.mark.parametrize(
    ("epsilon", "delta", "printed"),
    [
        (1, 1e-5, "0.0718514047"),
        (1, 1e-6, "0.0560289638"),
        (2, 1e-5, "0.2515540969"),
        (0.5, 1e-9, "0.0087771597"),
        (10, 1e-10, "2.1433973042"),
    ],
)
def test_pcost_of_the_specification(epsilon: float, delta: float, printed: str) -> None:
    assert oracle.agrees(gaussian_pcost(epsilon, delta), printed)


@pytest.mark.parametrize(
    ("rho", "delta", "zcdp", "exact"),
    [
        (0.005, 1e-10, "0.603536", "0.574640"),
        (0.1, 1e-6, "2.141939", "1.994527"),
        (0.5, 1e-10, "6.839329", "6.547924"),
        (2.56, 1e-6, "13.567773", "12.779481"),
        (10, 1e-10, "39.227757", "37.828138"),
    ],
)
def test_table_of_measured_accountants(rho: float, delta: float, zcdp: str, exact: str) -> None:
    assert oracle.agrees(zcdp_epsilon(rho, delta), zcdp)
    assert oracle.agrees(gaussian_epsilon(2 * rho, delta), exact)


# ---------------------------------------------------------------- another library


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_dp_accounting_closed_form(mu: float, delta: float) -> None:
    theirs = gaussian_mechanism.get_epsilon_gaussian(sigma=1 / mu, delta=delta)
    assert gaussian_epsilon(mu * mu, delta) == pytest.approx(theirs, rel=1e-9)
    sigma = gaussian_mechanism.get_sigma_gaussian(epsilon=mu, delta=delta)
    assert gaussian_pcost(mu, delta) == pytest.approx(sigma**-2, rel=1e-9)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_dp_accounting_privacy_loss_distribution(mu: float) -> None:
    interval = 1e-3
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        1 / mu, value_discretization_interval=interval
    )
    for epsilon in (0.5, 1.0, 2.0):  # pessimistic, to within one step of its grid
        bound = theirs.get_delta_for_epsilon(epsilon)
        assert gaussian_delta(mu * mu, epsilon + interval) <= bound * (1 + 1e-6)
        assert bound * (1 - 1e-6) <= gaussian_delta(mu * mu, epsilon - interval)


# ---------------------------------------------------------------- outward rounding


@repeatable
@given(points())
def test_gaussian_delta_is_rounded_up(point: tuple[float, float]) -> None:
    truth, found = oracle.gaussian_delta(*point), gaussian_delta(*point)
    assert found >= truth
    if truth > 1e-300:
        assert found <= truth * (1 + TIGHT)
    if truth > 0.9:  # near 1 it is 1 − δ that carries the digits
        rest = oracle.gaussian_complement(*point)
        assert 1 - found >= rest * (1 - TIGHT) - 3e-16


@repeatable
@given(points())
def test_zcdp_delta_is_rounded_up(point: tuple[float, float]) -> None:
    rho, epsilon = point[0] / 2, point[1]
    assume(rho - epsilon < 100)  # beyond it the oracle would need more digits, and δ rounds to 1
    truth, found = oracle.zcdp_delta(rho, epsilon), zcdp_delta(rho, epsilon)
    # The oracle's own minimum is good to 10⁻³⁰; ours may not lie below it by more.
    assert found >= truth * (1 - 1e-30)
    if truth > 1e-300:
        assert found <= truth * (1 + TIGHT)


@repeatable
@given(points())
def test_margin_is_twice_the_error(point: tuple[float, float]) -> None:
    pcost, epsilon = point
    truth, rest = oracle.gaussian_delta(*point), oracle.gaussian_complement(*point)
    assume(truth > 1e-300 and rest > 1e-10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversions, "MARGIN", 0.0)
        patch.setattr(conversions, "up", lambda value, ulps=1: value)  # it comes on top
        bare = conversions.gaussian_curve(*point)
    u = (epsilon - pcost / 2) / math.sqrt(pcost)
    allowed = 32.0 / 2 * conversions.EPS * (1 + abs(u)) ** 2
    if u < 0 and pcost >= 0.25:
        assert abs(rest - (1 - bare)) <= rest * allowed + 3e-16
    else:
        assert abs(truth - bare) <= truth * allowed


@repeatable
@given(costs, deltas)
def test_gaussian_epsilon_is_least_and_rounded_up(pcost: float, delta: float) -> None:
    epsilon = gaussian_epsilon(pcost, delta)
    assert oracle.gaussian_delta(pcost, epsilon) <= delta
    less = epsilon * (1 - INVERSE) - 1e-11 * min(1.0, math.sqrt(pcost))
    assert less <= 0 or oracle.gaussian_delta(pcost, less) > delta


@repeatable
@given(epsilons, deltas)
def test_gaussian_pcost_is_largest_and_rounded_down(epsilon: float, delta: float) -> None:
    pcost = gaussian_pcost(epsilon, delta)
    if pcost > 1e-300:  # 2πδ² leaves the range of floats when ε = 0 and δ < 10⁻¹⁵⁰
        assert oracle.gaussian_delta(pcost, epsilon) <= delta
        assert oracle.gaussian_delta(pcost * (1 + INVERSE), epsilon) > delta


@repeatable
@given(costs.filter(lambda cost: cost < 200), deltas)
def test_zcdp_epsilon_is_least_and_rounded_up(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    assume(rho - epsilon < 100)
    assert oracle.zcdp_delta(rho, epsilon) <= delta
    less = epsilon * (1 - INVERSE) - 1e-11 * min(1.0, math.sqrt(rho))
    assert less <= 0 or oracle.zcdp_delta(rho, less) > delta


@repeatable
@given(epsilons, deltas)
def test_zcdp_rho_is_largest_and_rounded_down(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    if rho > 1e-90:  # the oracle looks at orders up to e¹¹⁰
        assert oracle.zcdp_delta(rho, epsilon) <= delta
        assert oracle.zcdp_delta(rho * (1 + INVERSE), epsilon) > delta


@repeatable
@given(points())
def test_the_curve_without_scipy_is_rounded_up(point: tuple[float, float]) -> None:
    pcost, epsilon = point
    truth = oracle.gaussian_delta(pcost, epsilon)
    found = conversions.plain_gaussian_curve(pcost, epsilon)
    assert truth <= found
    if pcost < 100 and epsilon >= 0.001 and 1e-12 < truth < 0.1:
        assert found <= truth * (1 + 1e-8)


# ---------------------------------------------------------------- discrete noise on integers


def _lattice_delta(apart: tuple[int, ...], variance: float, epsilon: float) -> float:
    """Σ_x (p(x) − e^ε p(x − a))₊ over a box of integer vectors that holds all but 10⁻³⁰."""
    reach = math.ceil(12 * math.sqrt(variance)) + max(map(abs, apart))
    line = np.arange(-reach, reach + 1)
    total = np.exp(-(line**2) / (2 * variance)).sum()
    here, there = np.ones(()), np.ones(())
    for shift in apart:
        here = np.multiply.outer(here, np.exp(-(line**2) / (2 * variance)) / total)
        moved = np.exp(-((line - shift) ** 2) / (2 * variance)) / total
        there = np.multiply.outer(there, moved)
    return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())


@pytest.mark.parametrize("apart", [(1,), (5,), (3, 1), (7, -4), (2, 2, 1)])
@pytest.mark.parametrize("variance", [3, 6, 30, 100])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_discrete_noise_on_integers_is_as_private_as_stated(
    apart: tuple[int, ...], variance: int, delta: float
) -> None:
    """Every output of the lattice added up: δ at the ε stated is not above the one asked for."""
    distance = sum(a * a for a in apart)
    epsilon = discrete_gaussian_epsilon(distance, Fraction(variance), delta)
    assert _lattice_delta(apart, variance, epsilon) <= delta * (1 + 1e-9)
    assert epsilon <= zcdp_epsilon(distance / (2 * variance), delta) * (1 + 1e-12)
    if variance == 100 and epsilon > 0:  # near the continuous law, whose ε is a little smaller
        assert epsilon <= 1.04 * gaussian_epsilon(distance / variance, delta)


@repeatable
@given(log_uniform(-3, 1), log_uniform(-12, -1), st.integers(1, 10**18))
def test_the_variance_of_discrete_noise_is_enough(
    epsilon: float, delta: float, distance: int
) -> None:
    variance = discrete_gaussian_variance(distance, epsilon, delta)
    assert discrete_gaussian_epsilon(distance, variance, delta) <= epsilon
    continuous = distance / gaussian_pcost(epsilon, delta)
    assert float(variance) <= continuous * (1 + 1e-7) + 4


# ---------------------------------------------------------------- order


@repeatable
@given(costs, costs, epsilons, epsilons)
def test_delta_rises_with_cost_and_falls_with_epsilon(
    one: float, two: float, three: float, four: float
) -> None:
    cost, dearer = sorted([one, two])
    epsilon, looser = sorted([three, four])
    for delta in (gaussian_delta, zcdp_delta):
        assert delta(cost, looser) <= delta(cost, epsilon) * (1 + TIGHT)
        assert delta(cost, epsilon) <= delta(dearer, epsilon) * (1 + TIGHT)


@repeatable
@given(epsilons, epsilons, deltas, deltas)
def test_allowed_cost_rises_with_both(one: float, two: float, three: float, four: float) -> None:
    epsilon, looser = sorted([one, two])
    delta, laxer = sorted([three, four])
    for cost in (gaussian_pcost, zcdp_rho):
        assert cost(epsilon, delta) <= cost(looser, delta) * (1 + INVERSE)
        assert cost(epsilon, delta) <= cost(epsilon, laxer) * (1 + INVERSE)


@repeatable
@given(points(), deltas)
def test_zcdp_never_promises_more_than_the_gaussian_holds(
    point: tuple[float, float], delta: float
) -> None:
    pcost, epsilon = point
    upper = zcdp_delta(pcost / 2, epsilon) * (1 + TIGHT)
    assert gaussian_delta(pcost, epsilon) <= upper + 1e-300  # below it roundings are all there is
    assert gaussian_epsilon(pcost, delta) <= zcdp_epsilon(pcost / 2, delta) * (1 + INVERSE)
    assert 2 * zcdp_rho(epsilon, delta) <= gaussian_pcost(epsilon, delta) * (1 + INVERSE)


@repeatable
@given(costs, deltas)
def test_there_and_back_again_loses_little_and_gains_nothing(pcost: float, delta: float) -> None:
    for to, back in ((gaussian_epsilon, gaussian_pcost), (zcdp_epsilon, zcdp_rho)):
        epsilon = to(pcost, delta)
        if epsilon > 0:
            assert back(epsilon, delta) >= pcost * (1 - 1e-12)
            assert back(epsilon, delta) <= pcost * (1 + 1e-6) + 1e-12


# ---------------------------------------------------------------- edges


@pytest.mark.parametrize(
    ("delta_of", "epsilon_of", "cost_of"),
    [
        (gaussian_delta, gaussian_epsilon, gaussian_pcost),
        (zcdp_delta, zcdp_epsilon, zcdp_rho),
    ],
)
def test_ends_of_the_scales(delta_of, epsilon_of, cost_of) -> None:  # type: ignore[no-untyped-def]
    inf = math.inf
    assert delta_of(0, 0) == delta_of(0, 1) == delta_of(1, inf) == delta_of(inf, inf) == 0
    assert delta_of(inf, 3) == 1
    assert delta_of(1, 1e308) == math.ulp(0.0)
    assert delta_of(1e308, 0) == 1
    assert epsilon_of(0, 0) == epsilon_of(0, 0.5) == epsilon_of(1, 1) == epsilon_of(inf, 2) == 0
    assert epsilon_of(1, 0) == epsilon_of(inf, 0.5) == inf
    assert epsilon_of(1e-4, 0.5) == 0
    assert cost_of(1, 0) == cost_of(0, 0) == cost_of(0, 1e-200) == 0
    assert cost_of(1, 1) == cost_of(inf, 0) == cost_of(0, 1) == inf
    assert 30 < epsilon_of(1, math.ulp(0.0)) < 60
    assert epsilon_of(1e308, 0.5) > 1e307
    assert 1e307 < cost_of(1e308, 0.5) < inf


def test_subnormal_and_underflowing_deltas_stay_above_the_truth() -> None:
    for epsilon in (36.0, 37.0, 38.0, 38.5, 39.0, 39.06, 40.0, 40.5, 41.0, 60.0):
        assert gaussian_delta(1.0, epsilon) >= oracle.gaussian_delta(1.0, epsilon) > 0
        assert zcdp_delta(0.5, epsilon) >= oracle.zcdp_delta(0.5, epsilon) > 0


def test_numpy_scalars_and_integers_are_numbers() -> None:
    assert gaussian_delta(np.float64(1), np.int64(1)) == gaussian_delta(1, 1.0)
    assert zcdp_delta(np.float32(0.5), 1) == zcdp_delta(0.5, 1.0)
    assert type(gaussian_pcost(np.float64(1), 1e-5)) is float


@pytest.mark.parametrize("bad", [-1, -1e-300, math.nan, "1", True, None, 1j, np.ones(2)])
def test_what_is_no_cost_is_refused(bad: object) -> None:
    allowed = r"must be a number at least 0 \(infinity included\); got "
    for function, first, second in [
        (gaussian_delta, "pcost", "epsilon"),
        (gaussian_epsilon, "pcost", "delta"),
        (gaussian_pcost, "epsilon", "delta"),
        (zcdp_delta, "rho", "epsilon"),
        (zcdp_epsilon, "rho", "delta"),
        (zcdp_rho, "epsilon", "delta"),
    ]:
        with pytest.raises(BudgetError, match=f"^{first} {allowed}"):
            function(bad, 0.5)  # type: ignore[arg-type]
        with pytest.raises(BudgetError, match=f"^{second} {allowed}"):
            function(0.5, bad)  # type: ignore[arg-type]


def test_quadrature_constants() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(8)
    np.testing.assert_allclose(conversions.NODES, (nodes + 1) / 2, rtol=1e-14)
    np.testing.assert_allclose(conversions.WEIGHTS, weights / 2, rtol=1e-13)
