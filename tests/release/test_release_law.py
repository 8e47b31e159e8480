"""The law of a release: thousands of them on a tiny domain, against the plan's exact covariance.

Error rates: each check fails for a right implementation with probability below 1e-6 (seeds are
fixed, so it never does), and notices noise 10 % too small or too large with probability above
0.999.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import noiseplan as nz
from noiseplan.counting.tensor import CountTensor
from noiseplan.release.answers import Answer
from oracles import flat, probe, table_counts

RELEASES = 1000
TINY = 1e-6  # two-sided error rate of every check


def tiny_workload() -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    matrix = np.array([[1.0, 0, 0, 2, 0, -1], [0, 1, 1, 0, 0, 3]])
    return nz.Workload(
        [
            nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()}),
            nz.Query(schema, ["a"], weight=2.0),
            nz.Query(schema, {"b": nz.Ranges()}),
            nz.Query(schema, ["a", "b"], matrix=matrix, name="dense"),
        ]
    )


COUNTS = np.array([[5, 0], [3, 9], [0, 2]])


def covariance_of(plan: nz.Plan) -> np.ndarray:
    """Of all rows of all queries together."""
    queries = list(plan.workload)
    return np.block([[plan.covariance(p, q) for q in queries] for p in queries])


def exact_answers(plan: nz.Plan) -> np.ndarray:
    return np.concatenate([q.dense() @ COUNTS.ravel() for q in plan.workload])


def law_holds(answers: np.ndarray, exact: np.ndarray, covariance: np.ndarray) -> dict[str, bool]:
    """Whether releases × rows look like N(exact, covariance), by several independent views."""
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-10 * values[-1]
    error = answers - exact
    white = error @ (vectors[:, keep] / np.sqrt(values[keep]))
    count, rank = white.shape
    low, high = stats.chi2.ppf([TINY / 2, 1 - TINY / 2], count * rank)
    second = white.T @ white / count - np.eye(rank)
    # entries: variance 1/count off the diagonal, 2/count on it
    sigmas = np.abs(second) * np.sqrt(count) / np.sqrt(1 + np.eye(rank))
    limit = stats.norm.isf(TINY / 2 / rank**2)
    return {
        # directions without variance stay without error: answers agree with each other
        "consistent": bool(
            np.abs(error @ vectors[:, ~keep]).max(initial=0.0) < 1e-7 * np.sqrt(values[-1])
        ),
        "mean": bool(count * (white.mean(axis=0) ** 2).sum() < stats.chi2.ppf(1 - TINY, rank)),
        "size": bool(low < (white**2).sum() < high),
        "covariance": bool(sigmas.max() < limit),
        "normal": bool(stats.kstest(white.ravel(), "norm").pvalue > TINY),
    }


def simulate(plan: nz.Plan, change: Callable[[np.ndarray], np.ndarray], seed: int) -> np.ndarray:
    """Answers from `RELEASES` measurements, with standard normal noise that was tampered with.

    The measured numbers are independent rows, so the only linear answer to Wx is WB⁺ times them.
    """
    rng = np.random.default_rng(seed)
    b, _ = probe(plan)
    recover = np.vstack([q.dense() for q in plan.workload]) @ np.linalg.pinv(b)
    marginals = table_counts(COUNTS)
    measured = [
        flat(
            plan.mechanism.measure(
                marginals, lambda s, noise: change(rng.standard_normal(s)) * np.sqrt(noise.size)
            )
        )
        for _ in range(RELEASES)
    ]
    return np.array(measured) @ recover.T


def tiny_plan(noise: str) -> nz.Plan:
    return nz.plan(tiny_workload(), budget=nz.zCDP(0.7), noise=noise)


@pytest.fixture(scope="module", params=["discrete", "gaussian"])
def plan(request: pytest.FixtureRequest) -> nz.Plan:
    return tiny_plan(request.param)


@pytest.fixture(scope="module")
def released(plan: nz.Plan) -> list[list[Answer]]:
    """Through the front door, with seeds: an answer to each query each time."""
    data = CountTensor(plan.workload.schema, COUNTS)
    queries = list(plan.workload)
    releases = (plan.release(data, seed=seed) for seed in range(RELEASES))
    return [[release.answer(query) for query in queries] for release in releases]


@pytest.fixture(scope="module")
def answers(released: list[list[Answer]]) -> np.ndarray:
    return np.array([np.concatenate([a.estimate for a in one]) for one in released])


def test_releases_have_the_law_of_the_plan(plan: nz.Plan, answers: np.ndarray) -> None:
    found = law_holds(answers, exact_answers(plan), covariance_of(plan))
    assert all(found.values()), found


def test_the_test_notices_too_little_noise() -> None:
    """Halved noise, or 10 % too little, fails; the same experiment with the right noise passes."""
    plan = tiny_plan("gaussian")
    exact, covariance = exact_answers(plan), covariance_of(plan)
    assert all(law_holds(simulate(plan, lambda z: z, 1), exact, covariance).values())
    for scale in (0.5, 0.9, 1.1):
        found = law_holds(simulate(plan, lambda z, s=scale: z * s, 1), exact, covariance)
        assert not found["size"], scale


def test_the_test_notices_correlated_noise_and_bias() -> None:
    plan = tiny_plan("gaussian")
    exact, covariance = exact_answers(plan), covariance_of(plan)
    repeated = simulate(plan, lambda z: np.broadcast_to(z[:1], z.shape).copy(), 2)
    assert not law_holds(repeated, exact, covariance)["covariance"]
    shifted = simulate(plan, lambda z: z, 3) + 0.5
    assert not law_holds(shifted, exact, covariance)["mean"]
    uniform = simulate(plan, lambda z: np.sqrt(12) * (stats.norm.cdf(z) - 0.5), 4)
    assert not law_holds(uniform, exact, covariance)["normal"]


def test_releases_of_a_plan_for_the_worst_variance() -> None:
    plan = nz.plan(
        tiny_workload(), budget=nz.GDP(0.8), objective=nz.WorstVariance(), noise="gaussian"
    )
    found = law_holds(simulate(plan, lambda z: z, 5), exact_answers(plan), covariance_of(plan))
    assert all(found.values()), found


def test_releases_when_records_are_replaced() -> None:
    plan = nz.plan(tiny_workload(), budget=nz.zCDP(0.3), neighbours="replace", noise="gaussian")
    found = law_holds(simulate(plan, lambda z: z, 6), exact_answers(plan), covariance_of(plan))
    assert all(found.values()), found


# --------------------------------------------------------------------------- intervals


def covered(
    released: list[list[Answer]], number: int, level: float, simultaneous: bool
) -> np.ndarray:
    """releases × rows of one query: whether the interval holds the true count."""
    exact = released[0][number].query.dense() @ COUNTS.ravel()
    inside = []
    for one in released:
        answer = replace(one[number], level=level, simultaneous=simultaneous)
        inside.append((answer.lower <= exact) & (exact <= answer.upper))
    return np.array(inside)


def binomial_limits(level: float) -> tuple[float, float]:
    low, high = stats.binom.ppf([TINY / 2, 1 - TINY / 2], RELEASES, level)
    return low, high


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_pointwise_intervals_cover(released: list[list[Answer]], level: float) -> None:
    low, high = binomial_limits(level)
    for number in range(len(released[0])):
        hits = covered(released, number, level, simultaneous=False).sum(axis=0)
        assert ((low <= hits) & (hits <= high)).all(), (number, hits)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_simultaneous_intervals_cover_all_rows_at_once(
    released: list[list[Answer]], level: float
) -> None:
    """At least `level`, by Šidák; and pointwise intervals do not, so the difference matters."""
    low, _ = binomial_limits(level)
    for number in range(len(released[0])):
        hits = covered(released, number, level, simultaneous=True).all(axis=1).sum()
        assert hits >= low, number
    assert covered(released, 0, level, simultaneous=False).all(axis=1).sum() < low


def test_independent_rows_are_covered_exactly() -> None:
    """One plain table: its cells are independent, and Šidák's level is exact."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    plan = nz.plan(nz.Workload([nz.Query(schema, ["a", "b"])]), budget=nz.zCDP(0.5))
    np.testing.assert_allclose(
        plan.covariance(plan.workload[0], plan.workload[0]), np.eye(6), atol=1e-9
    )
    data = CountTensor(schema, COUNTS)
    released = [
        [plan.release(data, seed=seed).answer(plan.workload[0])] for seed in range(RELEASES)
    ]
    hits = covered(released, 0, 0.8, simultaneous=True).all(axis=1).sum()
    low, high = binomial_limits(0.8)
    assert low <= hits <= high
