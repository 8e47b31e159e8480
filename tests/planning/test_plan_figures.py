"""Errors over a workload against its single rows, where queries alike are not treated alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.mechanisms.row_variances import sums_and_largest

LETTERS = nz.Categorical(["w", "x", "y", "z"])
SCHEMA = nz.Schema({"a": nz.Ordinal(range(4)), "b": LETTERS, "c": LETTERS})


def check(plan: nz.Plan, rel: float = 1e-6) -> None:
    """All figures of a plan from the variance of every row."""
    rows = [plan.variance(query) for query in plan.workload]
    weights = [query.weight for query in plan.workload]
    assert plan.rmse == pytest.approx(np.sqrt(np.concatenate(rows).mean()), rel=rel)
    pairs = list(zip(weights, rows, strict=True))
    assert plan.total_variance == pytest.approx(sum(w * r.sum() for w, r in pairs), rel=rel)
    assert plan.worst_variance == pytest.approx(max(w * r.max() for w, r in pairs), rel=rel)
    sums, largest = sums_and_largest(plan.mechanism, plan.workload)
    assert sums == pytest.approx([r.sum() for r in rows], rel=rel)
    assert largest == pytest.approx([r.max() for r in rows], rel=rel)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("planner", ["hierarchical", "wavelet", "eigen", "identity", "optimal"])
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_strategies_that_tell_exchangeable_attributes_apart(
    planner: str, noise: str, k: int
) -> None:
    """Trees are built over ordered attributes only, which plain tables do not tell apart."""
    asked = nz.Workload.marginals(SCHEMA, k=k)
    check(nz.plan(asked, budget=nz.zCDP(0.5), planner=planner, noise=noise))


@pytest.mark.parametrize("planner", ["auto", "matrix", "tree", "identity"])
def test_pure_plans(planner: str) -> None:
    asked = nz.Workload.marginals(SCHEMA, k=1) + nz.Workload.marginals(SCHEMA, k=2)
    check(nz.plan(asked, budget=nz.PureDP(1.0), planner=planner))


@examples(25)
@given(st.lists(st.sampled_from(["a", "b", "c", "ab", "bc", "ac"]), min_size=1, unique=True),
       st.integers(0, 2**32 - 1))  # fmt: skip
def test_tables_made_elsewhere_each_with_its_own_noise(tables: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    given_tables = [
        nz.NoisyTable(list(names), np.zeros(4 ** len(names)), float(10 ** rng.uniform(-2, 2)))
        for names in tables
    ]
    check(nz.from_noisy_tables(SCHEMA, given_tables).plan)


def test_equal_tables_of_different_noise_in_figures() -> None:
    counts = [1.0, 2.0, 3.0, 4.0]
    release = nz.from_noisy_tables(
        SCHEMA, [nz.NoisyTable(["b"], counts, 1.0), nz.NoisyTable(["c"], counts, 100.0)]
    )
    # The total is averaged by precision, 1/4 and 1/400; three residuals of each table are its own.
    total = 1 / (1 / 4 + 1 / 400)
    expected = [(total / 4 + 3 * noise) / 4 for noise in (1.0, 100.0)]
    assert release.plan.rmse == pytest.approx(np.sqrt(np.mean(expected)))
    assert release.plan.worst_variance == pytest.approx(expected[1])


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_what_several_releases_tell_together(noise: str) -> None:
    def plan(name: str, rho: float) -> nz.Plan:
        asked = nz.Workload([nz.Query(SCHEMA, [name])])
        return nz.plan(asked, budget=nz.zCDP(rho), noise=noise)

    data: dict[str, Any] = {"a": [0, 1], "b": ["w", "x"], "c": ["y", "y"]}
    first = plan("b", 0.01).release(data, seed=1)
    both = plan("c", 5.0).given(first).release(data, seed=2)
    assert {query.name for query in both.plan.workload} == {"b", "c"}
    check(both.plan)


def test_a_workload_asked_twice_with_other_weights() -> None:
    asked = nz.Workload(
        [nz.Query(SCHEMA, ["b"], weight=2.0), nz.Query(SCHEMA, ["b"]), nz.Query(SCHEMA, ["a", "c"])]
    )
    check(nz.plan(asked, budget=nz.zCDP(0.5), planner="hierarchical"))
    check(nz.plan(asked, budget=nz.zCDP(0.5)))
