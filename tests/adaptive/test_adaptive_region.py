"""Tables that agree with a look: their spreads, against tables drawn one by one and thrown away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.choosing import ConfidenceRegion
from noiseplan.choosing.choice import Look
from noiseplan.choosing.confidence_region import FEWEST, Region, _between_roots, drawn, independent
from noiseplan.counting import CountTensor


def look_at(counts: np.ndarray, factors: dict[str, nz.Factor] | None = None) -> Look:
    """At what tables of one attribute and of two have in common."""
    schema = nz.Schema.from_sizes({f"x{i}": n for i, n in enumerate(counts.shape)})
    ks = (1, min(2, counts.ndim))
    plans = [
        nz.plan(
            nz.Workload.marginals(schema, k=k, factors=f), budget=nz.zCDP(0.5), noise="gaussian"
        )
        for k, f in zip(ks, (None, factors), strict=True)
    ]
    return nz.adaptive(plans).look(CountTensor(schema, counts), seed=1)


def rejected(look: Look, level: float, count: int, seed: int = 0) -> np.ndarray:
    """Tables from the region, evenly: from a larger body of which all that is outside is dropped.

    That body is an ellipsoid of what was measured times a box of what was not: |nᵀx| ≤ max|n| Σx
    for x ≥ 0.
    """
    from scipy.stats import chi2

    rng = np.random.default_rng(seed)
    mechanism = look.plan.mechanism
    rows, values = mechanism.unit_rows(), mechanism.unit_values(look.release.measurements)
    estimate = np.linalg.lstsq(rows, values, rcond=None)[0]
    _, scales, right = np.linalg.svd(rows)
    rank = int((scales > 1e-9 * scales[0]).sum())
    ball = rng.normal(size=(count, rank))
    ball *= rng.random((count, 1)) ** (1 / rank) / np.linalg.norm(ball, axis=1, keepdims=True)
    known = ball * np.sqrt(chi2.ppf(level, rank)) / scales[:rank] + right[:rank] @ estimate
    x = known @ right[:rank]
    box = np.abs(right[rank:]).max(axis=1) * x.sum(axis=1).max()
    x = x + (box * rng.uniform(-1, 1, size=(count, len(box)))) @ right[rank:]
    return x[(x >= 0).all(axis=1)]


def rows_of(look: Look) -> np.ndarray:
    return np.vstack([query.dense() for plan in look.choice.plans for query in plan.workload])


# ---------------------------------------------------------------------- spreads


CASES = {
    "large cells": np.full((2, 2), 1000),
    "small cells": np.array([[9, 2], [4, 1]]),
    "three attributes": np.full((2, 2, 2), 100),
    "a few people": np.array([[3, 0], [1, 2]]),
    "wider": np.array([[40, 3, 20], [5, 60, 1]]),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES)
def test_spreads_are_those_of_tables_drawn_one_by_one(case: str) -> None:
    look = look_at(CASES[case])
    rows = rows_of(look)
    truth = rejected(look, 0.95, 400_000) @ rows.T
    assert len(truth) > 2000
    found = drawn(Region.of(look.release, 0.95), rows, 4 * FEWEST, 100_000, seed=0)
    assert found.worth >= 4 * FEWEST
    values = found.points @ rows.T
    # Four standard errors: of a mean √(v/n), of a variance no more than √(2/n) of it.
    reach = 4 * np.sqrt(1 / found.worth + 1 / len(truth))
    assert (np.abs(values.mean(axis=0) - truth.mean(axis=0)) <= reach * truth.std(axis=0)).all()
    assert np.allclose(values.var(axis=0), truth.var(axis=0), rtol=np.sqrt(2) * reach)


def test_a_table_of_large_cells_in_closed_form() -> None:
    """What is not told of a 2 × 2 table is one number, anywhere between −n and n: n²/3."""
    advice = look_at(np.full((2, 2), 1000)).recommend(ConfidenceRegion())
    assert advice.figures["plan 1: variance of a row now"] == pytest.approx(1000**2 / 3, rel=0.1)
    assert advice.figures["independent tables drawn"] >= FEWEST
    assert advice.number == 1


def test_the_advice_is_that_of_the_spreads() -> None:
    """Eight cells of a hundred: tables of two attributes are what is not known."""
    look = look_at(np.full((2, 2, 2), 100))
    truth = rejected(look, 0.95, 400_000)
    gains = []
    for plan in look.choice.plans:
        now = np.concatenate([(truth @ q.dense().T).var(axis=0) for q in plan.workload])
        alone = np.concatenate([plan.variance(q) for q in plan.workload])
        gains.append(np.maximum(now - alone, 0).mean())
    advice = look.recommend(ConfidenceRegion())
    assert advice.number == int(np.argmax(gains)) == 1
    for number, gain in enumerate(gains):
        now, then = (
            advice.figures[f"plan {number}: variance of a row {w}"] for w in ("now", "with it")
        )
        assert now - then == pytest.approx(gain, rel=0.15, abs=0.02)


def test_what_is_measured_obliquely() -> None:
    """Sums up to each value beside the values: ellipsoids that lie across the cells."""
    schema = nz.Schema.from_sizes({"x": 5})
    asked = ({"x": nz.Prefix()}, {"x": nz.Identity()})
    plans = [
        nz.plan(nz.Workload([nz.Query(schema, one)]), budget=nz.zCDP(rho), noise="gaussian")
        for one, rho in zip(asked, (0.02, 0.5), strict=True)
    ]
    look = nz.adaptive(plans).look(CountTensor(schema, np.array([90, 0, 3, 40, 1])), seed=1)
    rows = rows_of(look)
    truth = rejected(look, 0.95, 400_000) @ rows.T
    found = drawn(Region.of(look.release, 0.95), rows, 4 * FEWEST, 100_000, seed=0)
    reach = 4 * np.sqrt(2 / found.worth + 2 / len(truth))
    assert np.allclose((found.points @ rows.T).var(axis=0), truth.var(axis=0), rtol=reach)


def test_points_fill_the_region_evenly() -> None:
    """Two cells with a total near t: a thin strip, on which one cell is uniform on (0, t)."""
    schema = nz.Schema.from_sizes({"a": 2})
    total, cells = (
        nz.plan(nz.Workload([nz.Query(schema, asked)]), budget=nz.zCDP(5.0), noise="gaussian")
        for asked in ([], ["a"])
    )
    look = nz.adaptive([total, cells]).look(CountTensor(schema, np.array([30, 70])), seed=1)
    region = Region.of(look.release, 0.95)
    points = drawn(region, np.eye(2), 2000, 100_000, seed=0).points
    assert (points >= 0).all()
    assert (np.sum(region.away(points) ** 2, axis=1) <= region.size * (1 + 1e-9)).all()
    seen = look.answer(nz.Query(schema, {}))
    reach = 1.959964 * seen.std_error[0]  # one degree of freedom
    assert np.abs(points.sum(axis=1) - seen.estimate[0]).max() <= reach * (1 + 1e-6)
    share = np.sort(points[:, 0] / points.sum(axis=1))
    distance = np.abs(share - (np.arange(len(share)) + 0.5) / len(share)).max()
    assert distance <= np.sqrt(np.log(2 / 1e-6) / (2 * 2000))


def test_estimates_below_zero_still_have_a_region() -> None:
    schema = nz.Schema.from_sizes({"a": 2})
    plans = [
        nz.plan(nz.Workload([nz.Query(schema, asked)]), budget=nz.zCDP(5.0))
        for asked in ([], ["a"])
    ]
    for seed in range(4):
        look = nz.adaptive(plans).look(CountTensor(schema, np.zeros(2, dtype=int)), seed=seed)
        region = Region.of(look.release, 0.5)
        assert (drawn(region, np.eye(2), FEWEST, 100_000, seed=0).points >= 0).all()


# ---------------------------------------------------------------------- convergence


def test_walks_that_do_not_converge_are_refused() -> None:
    look = look_at(np.full((4, 4, 3), 50))
    with pytest.raises(nz.NoiseplanError, match=r"were not drawn evenly.*steps=\d+"):
        look.recommend(ConfidenceRegion(steps=300))
    with pytest.raises(nz.NoiseplanError, match="at least 640 draws"):
        ConfidenceRegion(draws=100)


def test_what_walks_are_worth() -> None:
    """Independent points all of them; of x' = φx + noise, (1 − φ)/(1 + φ) of them."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4000, 32, 1))
    assert independent(noise) == pytest.approx(4000 * 32, rel=0.5)
    walk = np.zeros_like(noise)
    for i in range(1, len(walk)):
        walk[i] = 0.98 * walk[i - 1] + noise[i]
    assert independent(walk) == pytest.approx(4000 * 32 / 99, rel=0.5)


def test_walks_that_got_nowhere_are_worth_little() -> None:
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(400, 32, 2))
    free = np.cumsum(steps, axis=0)  # the same at any scale, however far the walls are
    drift = steps + np.linspace(0, 5, 400)[:, None, None]
    mixed = np.concatenate([steps, 1e-9 * free], axis=2)
    assert max(map(independent, (free, drift, mixed))) < FEWEST / 2
    assert independent(np.concatenate([steps, 7.1 + 1e-15 * steps], axis=2)) == 0
    assert independent(np.concatenate([steps, np.zeros_like(steps)], axis=2)) > FEWEST


SIZES = st.just(0.0) | st.floats(1e-30, 1e6)


@examples(200)
@given(SIZES, st.sampled_from([-1, 1]), SIZES, SIZES)
def test_ends_of_a_line(curve: float, sign: int, lean: float, room: float) -> None:
    lean *= sign
    low, high = (float(end[0]) for end in _between_roots(*map(np.atleast_1d, (curve, lean, room))))
    assert low <= 0 <= high
    for end in (low, high):
        if np.isfinite(end):
            terms = np.array([curve * end**2, 2 * lean * end, -room])
            assert abs(terms.sum()) <= 1e-9 * np.abs(terms).sum()
    if curve > 0:
        assert np.isfinite([low, high]).all()
