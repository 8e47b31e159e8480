"""Data-aware plans and valid tables, whose errors are known by simulation only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor

SIZE = 32
SCHEMA = nz.Schema({"x": nz.Ordinal(range(SIZE))})
RANGES = nz.Workload([nz.Query(SCHEMA, {"x": nz.Ranges()})])
EVEN = np.full(SIZE, 30)


def test_a_data_aware_plan_is_judged_by_its_own_releases() -> None:
    """Errors by hand, from releases with the seeds that a comparison uses."""
    from noiseplan.noise.randomness import derived_seed

    plan = nz.plan(RANGES, budget=nz.PureDP(0.5), planner="dawa")
    found = nz.compare([plan], EVEN, runs=6, seed=4)
    (query,) = RANGES
    truth = query.dense() @ EVEN
    errors = [
        plan.release(EVEN, seed=derived_seed(4, 0, run)).answer(query).estimate - truth
        for run in range(6)
    ]
    assert found.figures["dawa"].rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_even_data_favour_the_data_aware_plan() -> None:
    """Even data are one bucket: far less noise, and no bias. The margin is several-fold."""
    plans = {
        "aware": nz.plan(RANGES, budget=nz.PureDP(0.5), planner="dawa"),
        "independent": nz.plan(RANGES, budget=nz.PureDP(0.5), planner="tree"),
    }
    found = nz.compare(plans, EVEN, runs=40)
    assert found.best == "aware"
    assert found.figures["independent"].rmse_error == 0
    assert found.figures["aware"].rmse_error > 0
    assert found.same_privacy
    assert "lowest rmse: aware" in str(found)


def test_valid_tables_beside_unbiased_ones() -> None:
    """Nearly empty tables: what is pulled up to zero is nearer to the truth, and biased."""
    schema = nz.Schema.from_sizes({"a": 20, "b": 5})
    counts = np.zeros((20, 5), dtype=int)
    counts[0, 0] = 50
    asked = nz.Workload([nz.Query(schema, ["a", "b"])])
    plan = nz.plan(asked, budget=nz.zCDP(0.02))
    found = nz.compare(
        {"unbiased": plan, "valid": (plan, lambda release: release.valid())},
        CountTensor(schema, counts), runs=20,
    )  # fmt: skip
    assert found.figures["valid"].rmse < found.figures["unbiased"].rmse
    assert found.figures["valid"].bias > 0


class Short:
    """Answers with one number, whatever is asked."""

    def answer(self, query: nz.Query) -> list[float]:
        return [0.0]


@pytest.mark.parametrize(
    ("after", "words"),
    [(lambda r: 3, "found int, which has none"), (lambda r: Short(), "of Short has 1 numbers")],
)
def test_what_follows_a_release_must_answer(after: Callable[[object], object], words: str) -> None:
    schema = nz.Schema({"v": nz.Ordinal(range(8))})
    workload = nz.Workload([nz.Query(schema, {"v": nz.Prefix()})])
    plan = nz.plan(workload, budget=nz.zCDP(0.5))
    with pytest.raises(nz.NoiseplanError, match=words):
        nz.compare([(plan, after)], np.ones(8, dtype=np.int64), runs=2)
