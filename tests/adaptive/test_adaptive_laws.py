"""The law of what is chosen: means, covariances and distributions, against plans at once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from adaptive_plans import COUNTS, MIXED, SCHEMA, data, plan

import noiseplan as nz
from depth import depth, seeds
from integer_oracles import Measured, true_variance
from noiseplan.choosing.common_and_rest import ByMatrices
from noiseplan.counting import CountTensor
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.planning.measured_numbers import INTEGERS
from noiseplan.planning.plan import Plan
from oracles import flat, probe


def statistics(make: Callable[[int], np.ndarray], runs: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([make(seed) for seed in range(runs)])
    return values.mean(axis=0), np.cov(values.T)


def close(found: tuple[np.ndarray, np.ndarray], mean: np.ndarray, cov: np.ndarray, n: int) -> None:
    """Six standard errors each: a false alarm is rarer than one in a million for the lot."""
    spread = np.sqrt(np.diagonal(cov))
    assert (np.abs(found[0] - mean) <= 6 * spread / np.sqrt(n)).all()
    assert (np.abs(found[1] - cov) <= 6 * np.outer(spread, spread) * np.sqrt(2 / n)).all()


ASKED = nz.Query(SCHEMA, ["age", "sex"])


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_the_chosen_release_has_the_plans_law(noise: str) -> None:
    runs = depth(300, 100)
    choice = nz.adaptive([plan(1, noise=noise), plan(2, noise=noise)])

    def adaptively(seed: int) -> np.ndarray:
        release = choice.look(data(), seed=seed).choose(1)
        return release.answer(ASKED).estimate

    target = choice.plans[1]
    truth = ASKED.dense() @ COUNTS.ravel()
    close(statistics(adaptively, runs), truth, target.covariance(ASKED, ASKED), runs)
    assert choice.look(data(), seed=1).choose(1).plan is target


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("chosen", [0, 1])
def test_mean_and_covariance_by_the_linear_map(
    noise: str, chosen: int, measured_plans: list[Plan]
) -> None:
    """The recreated numbers as a linear map of those measured, found by feeding unit vectors.

    Its product with the rows measured must be the plan's rows, and with the noise, the plan's.
    """
    choice = nz.adaptive([plan(1, noise=noise), plan(2, noise=noise)])
    choice.look(data(), seed=0).choose(chosen)
    parts = [p.mechanism for p in measured_plans]
    sizes = [p.numbers for p in parts]
    columns = []
    for number in range(sum(sizes)):
        unit = np.split(np.eye(sum(sizes))[number], [sizes[0]])
        measurements = [_shaped(p, values) for p, values in zip(parts, unit, strict=True)]
        made, _ = choice.family.recreated(
            choice.plans[chosen].mechanism, list(zip(parts, measurements, strict=True))
        )
        columns.append(flat(made))
    linear = np.array(columns).T
    found = [_rows_and_noise(p, noise) for p in (*measured_plans, choice.plans[chosen])]
    rows, spread = (np.concatenate([f[i] for f in found[:2]]) for i in (0, 1))
    assert np.allclose(linear @ rows, found[2][0], atol=1e-9 * np.abs(found[2][0]).max())
    covariance = (linear * spread) @ linear.T
    assert np.allclose(covariance, np.diag(found[2][1]), atol=1e-9 * found[2][1].max())


def _shaped(mechanism: ResidualMechanism, values: np.ndarray) -> Measurements:
    shapes = [(*block.shape, len(block)) for block in mechanism.blocks]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    pieces = zip(np.split(values, ends), shapes, strict=True)
    return Measurements(tuple(piece.reshape(shape) for piece, shape in pieces))


def _rows_and_noise(plan: Plan, noise: str) -> tuple[np.ndarray, np.ndarray]:
    if noise == "gaussian":
        return probe(plan)
    found = Measured.of(plan)
    return np.array(found.rows, dtype=float), np.array([true_variance(s) for s in found.sigma2])


def test_continuous_noise_has_the_same_distribution_function() -> None:
    """One cell, standardised: Kolmogorov's distance to the normal law, limit 1e-7 by chance."""
    from scipy.special import ndtr

    choice, runs = nz.adaptive([plan(k, noise="gaussian") for k in (1, 2)]), depth(400, 130)
    query = nz.Query(SCHEMA, {"age": nz.Custom([[1, 0, 0, 0]]), "sex": nz.Custom([[1, 0]])})
    truth = float((query.dense() @ COUNTS.ravel())[0])
    error = float(choice.plans[1].std_error(query)[0])
    found = np.sort(
        [choice.look(data(), seed=s).choose(1).answer(query).estimate[0] for s in range(runs)]
    )
    distance = np.abs(ndtr((found - truth) / error) - (np.arange(runs) + 0.5) / runs).max()
    assert distance <= np.sqrt(np.log(2 / 1e-7) / (2 * runs))


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_the_law_on_explicit_matrices(noise: str) -> None:
    runs = depth(300, 100)
    plans = [plan(k, factors=MIXED, planner="optimal", noise=noise) for k in (1, 2)]
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByMatrices)
    query = nz.Query(SCHEMA, MIXED)

    def adaptively(seed: int) -> np.ndarray:
        return choice.look(data(), seed=seed).choose(1).answer(query).estimate

    expected = plans[1].covariance(query, query)
    close(statistics(adaptively, runs), query.dense() @ COUNTS.ravel(), expected, runs)
    chosen = choice.look(data(), seed=0).choose(1).plan
    assert np.allclose(chosen.covariance(query, query), expected, rtol=1e-4)


def test_explicit_costs_by_brute_force(measured_plans: list[Plan]) -> None:
    plans = [plan(k, factors=MIXED, planner="optimal", noise="discrete") for k in (1, 2)]
    release = nz.adaptive(plans).look(data(), seed=3).choose(1)
    look, rest = map(Measured.of, measured_plans)
    both = Measured(look.rows + rest.rows, look.sigma2 + rest.sigma2)
    assert look.rho("add-remove") <= Fraction(measured_plans[0].privacy.rho)
    assert both.rho("add-remove") <= Fraction(plans[1].privacy.rho)
    assert float(both.rho("add-remove")) == pytest.approx(plans[1].privacy.rho, rel=1e-4)
    # What the release states is the best that can be made of both, exactly.
    w = ASKED.dense()
    assert np.allclose(release.covariance(ASKED, ASKED), both.covariance(w), rtol=1e-6)


@pytest.mark.parametrize("sizes", [(4, 2, 3), (6, 4), (16,)])
@pytest.mark.parametrize("chosen", [0, 1])
def test_whole_numbers_cost_explicit_matrices_little(
    sizes: tuple[int, ...], chosen: int, measured_plans: list[Plan]
) -> None:
    """At most 2·10⁻⁸ more or less here, by the covariance of what was really measured."""
    schema = nz.Schema.from_sizes({f"x{i}": n for i, n in enumerate(sizes)})
    sums = nz.Workload([nz.Query(schema, {"x0": nz.Prefix()})])
    plans = [
        nz.plan(asked, budget=nz.zCDP(0.005), noise="discrete")
        for asked in (sums, nz.Workload.marginals(schema, k=min(2, len(sizes))))
    ]
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByMatrices)
    release = choice.look(CountTensor(schema, np.ones(sizes, dtype=int)), seed=1).choose(chosen)
    parts = [Measured.of(p) for p in measured_plans]
    law = Measured([b for p in parts for b in p.rows], [s for p in parts for s in p.sigma2])
    for query in plans[chosen].workload:
        really = np.diagonal(law.covariance(query.dense()))
        assert np.allclose(release.variance(query), really, rtol=1e-8, atol=0)
        more = really / plans[chosen].variance(query) - 1
        assert (np.abs(more) <= 2e-8).all()


@pytest.mark.parametrize("seed", seeds(8))
def test_explicit_matrices_differ_by_no_more_than_the_page_says(seed: int) -> None:
    """Random plans of several factors: cost matrices of both steps beside the plan's own."""
    rng = np.random.default_rng(seed)
    schema = nz.Schema.from_sizes({name: int(rng.integers(2, 6)) for name in "ab"})
    factors = [nz.Identity(), nz.Prefix(), nz.Ranges(), nz.Levels(2, leaves=False, total=False)]

    def drawn() -> Plan:
        asked = [{name: factors[rng.integers(4)] for name in names} for names in ("a", "ab", "b")]
        weights = rng.uniform(0.3, 3.0, len(asked)).tolist()
        queries = [nz.Query(schema, f, weight=w) for f, w in zip(asked, weights, strict=True)]
        return nz.plan(nz.Workload(queries[: rng.integers(1, 4)]), budget=nz.zCDP(0.05))

    plans, family = [drawn(), drawn()], ByMatrices(INTEGERS)
    common = family.common([each.mechanism for each in plans])
    for chosen in plans:
        rest = family.rest(chosen.mechanism, common)
        parts = [part for part in (common, rest) if part is not None and part.numbers]
        united = sum(part.cost_matrix() for part in parts)
        wanted = chosen.mechanism.cost_matrix()
        assert np.diagonal(united).max() <= np.diagonal(wanted).max() * (1 + 1e-12)
        for part in parts:
            rows = part.strategy
            assert np.array_equal(rows, np.rint(rows)) and np.abs(rows).max() < 2**53
        for query in chosen.workload:
            w = query.dense()
            really, before = (
                np.diagonal(w @ np.linalg.pinv(cost, rcond=1e-10, hermitian=True) @ w.T)
                for cost in (united, wanted)
            )
            assert (np.abs(really / before - 1) <= 2e-7).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_a_mixture_of_kinds_goes_by_matrices(noise: str) -> None:
    plans = [plan(1, noise=noise), plan(2, factors=MIXED, planner="optimal", noise=noise)]
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByMatrices)
    release = choice.look(data(), seed=1).choose(plans[0])
    assert release.plan.workload is plans[0].workload
    if noise == "gaussian":  # whole numbers make a little more noise than the plan asks for
        assert release.plan is plans[0]
    query = nz.Query(SCHEMA, ["region"])
    errors = [
        choice.look(data(), seed=s).choose(0).answer(query).estimate - COUNTS.sum(axis=(0, 1))
        for s in range(300)
    ]
    spread = plans[0].std_error(query)
    assert (np.abs(np.mean(errors, axis=0)) < 6 * spread / np.sqrt(300)).all()
    assert np.allclose(np.std(errors, axis=0), spread, rtol=6 / np.sqrt(600))


def test_noise_of_less_than_a_count_states_its_own_variance(measured_plans: list[Plan]) -> None:
    """Two discrete Gaussians of small σ² have less variance than their parameters: all exact."""
    schema = nz.Schema.from_sizes({"a": 2})
    total = nz.Workload([nz.Query(schema, {})])
    coarse, fine = (nz.plan(total, budget=nz.zCDP(r), noise="discrete") for r in (0.7, 2.0))
    counts = CountTensor(schema, np.array([3, 9]))
    release = nz.adaptive([coarse, fine]).look(counts, seed=1).choose(fine)
    assert release.plan.noise == "combined"
    first, second = (Measured.of(p).sigma2[0] for p in measured_plans)
    weights = [float(1 / s) for s in (first, second)]
    variance = sum(w**2 * true_variance(s) for w, s in zip(weights, (first, second), strict=True))
    expected = variance / sum(weights) ** 2
    assert release.variance(nz.Query(schema, {}))[0] == pytest.approx(expected, rel=1e-9)
    assert expected < float(1 / (1 / first + 1 / second))
    with pytest.raises(nz.NoiseplanError, match="made already"):
        release.plan.release(counts)
