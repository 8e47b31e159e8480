"""Compared errors against dense algebra, and simulated ones against what is known exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import depth, examples
from noiseplan.comparing.error_figures import Gathered
from noiseplan.comparing.simulating import true_answer
from noiseplan.counting import CountTensor, open_source

SCHEMA = nz.Schema({"age": nz.Ordinal(range(6)), "sex": nz.Categorical(["F", "M"])})
AGES, BOTH = nz.Query(SCHEMA, {"age": nz.Prefix()}), nz.Query(SCHEMA, ["age", "sex"])
SUM = nz.Query(SCHEMA, ["age", "sex"], matrix=np.arange(12.0)[None, :], name="moment")
ASKED = nz.Workload([AGES, BOTH, SUM])
COUNTS = np.arange(12).reshape(6, 2) ** 2
TENSOR = CountTensor(SCHEMA, COUNTS)

GAUSSIAN: dict[str, dict[str, Any]] = {
    "residual": {"planner": "residual"},
    "residual+": {"planner": "residual+"},
    "optimal": {"planner": "optimal"},
    "eigen": {"planner": "eigen"},
    "worst": {"objective": nz.WorstVariance()},
    "people": {"max_rows": 3},
}


def plan_for(asked: nz.Workload = ASKED, **arguments: Any) -> nz.Plan:
    return nz.plan(asked, **({"budget": nz.zCDP(0.5)} | arguments))


@pytest.mark.parametrize("kind", GAUSSIAN)
def test_exact_errors_are_those_of_dense_algebra(kind: str) -> None:
    plan = plan_for(**GAUSSIAN[kind])
    comparison = nz.compare({kind: plan})
    inverse = np.linalg.inv(plan.cost_matrix())
    variances = [np.einsum("ri,ij,rj->r", q.dense(), inverse, q.dense()) for q in ASKED]
    every = np.concatenate(variances)
    figure = comparison.figures[kind]
    assert figure.rmse == pytest.approx(np.sqrt(every.mean()), rel=1e-6)
    assert figure.worst == pytest.approx(np.sqrt(every.max()), rel=1e-6)
    assert figure.bias == figure.rmse_error == 0
    table = comparison.columns("query")
    assert table["query"] == [query.name for query in ASKED]
    assert table["rows"] == [query.rows for query in ASKED]
    expected = [np.sqrt(variance.mean()) for variance in variances]
    assert table["rmse"] == pytest.approx(expected, rel=1e-6)
    largest = [np.sqrt(variance.max()) for variance in variances]
    assert table["worst"] == pytest.approx(largest, rel=1e-6)


KINDS = GAUSSIAN | {
    "pure": {"budget": nz.PureDP(1.0), "noise": "laplace"},
    "pure discrete": {"budget": nz.PureDP(1.0)},
    "discrete": {"noise": "discrete"},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", KINDS)
def test_simulated_errors_agree_with_exact_ones(kind: str) -> None:
    """Chance of a false alarm: 8 standard errors for one fixed seed, and 40 runs to the error."""
    plan = plan_for(**KINDS[kind])
    exact = nz.compare({kind: plan}).figures[kind]
    runs = depth(400, 120)
    drawn = nz.compare({kind: plan}, TENSOR, simulate=True, runs=runs).figures[kind]
    assert 0 < drawn.rmse_error < 0.1 * drawn.rmse
    assert abs(drawn.rmse - exact.rmse) < 8 * drawn.rmse_error
    assert drawn.worst == pytest.approx(exact.worst, rel=0.4)
    assert drawn.bias < 0.3 * np.sqrt(400 / runs) * drawn.rmse


def test_errors_over_another_workload_than_the_plans() -> None:
    cells = nz.Workload([BOTH])
    comparison = nz.compare({"ages too": plan_for(), "cells": plan_for(cells)}, workload=cells)
    variances = [plan_for().variance(BOTH), plan_for(cells).variance(BOTH)]
    found = [comparison.figures[name].rmse for name in ("ages too", "cells")]
    assert found == pytest.approx([np.sqrt(v.mean()) for v in variances])
    assert comparison.best == "cells"


# ---------------------------------------------------------------------- what runs tell


@examples(40)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_gathered_errors_are_those_of_all_runs_at_once(runs: int, queries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, queries)
    truths = [rng.normal(size=n) for n in sizes]
    answers = [[truth + rng.normal(0.5, 1, len(truth)) for truth in truths] for _ in range(runs)]
    gathered = Gathered(truths, runs)
    for answer in answers:
        gathered.add(answer)
    found = gathered.errors()
    rows = sizes.astype(float)
    errors = np.array([np.concatenate(a) for a in answers]) - np.concatenate(truths)
    figure = found.figure(rows)
    assert figure.rmse == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-9)
    assert figure.worst == pytest.approx(np.sqrt((errors**2).mean(axis=0).max()), rel=1e-9)
    each = (errors**2).mean(axis=1)
    assert figure.rmse_error == pytest.approx(
        each.std(ddof=1) / np.sqrt(runs) / (2 * figure.rmse), rel=1e-6, abs=1e-9
    )
    # Products of two different runs: their mean is the squared bias, with nothing to correct.
    pairs = [errors[a] * errors[b] for a in range(runs) for b in range(runs) if a != b]
    assert rows @ found.bias / rows.sum() == pytest.approx(np.mean(pairs), rel=1e-6, abs=1e-9)


PRIVACY = nz.Guarantee(1.0)


@dataclass
class Off:
    """A plan as data-aware ones are: no exact errors, answers off by a constant, and noise."""

    shift: float
    noise: float
    workload: nz.Workload = ASKED
    privacy: nz.Guarantee = PRIVACY
    planner: str = "off"

    def release(self, data: Any, *, seed: int) -> Off:
        self._source, self._rng = data, np.random.default_rng(seed)
        return self

    def answer(self, query: nz.Query) -> np.ndarray:
        truth = query.dense() @ COUNTS.ravel()
        return truth + self.shift + self._rng.normal(0, self.noise, len(truth))


def test_bias_is_told_from_noise() -> None:
    comparison = nz.compare(
        {"biased": Off(3.0, 1.0), "noisy": Off(0.0, 5.0), "wrong": Off(2.0, 0.0)}, TENSOR
    )
    biased, noisy, wrong = (comparison.figures[n] for n in ("biased", "noisy", "wrong"))
    assert biased.bias_seen
    assert biased.bias == pytest.approx(3.0, abs=0.1)
    assert biased.rmse == pytest.approx(np.sqrt(10), abs=6 * biased.rmse_error)
    assert not noisy.bias_seen
    assert noisy.bias < 2.5
    assert (wrong.bias, wrong.bias_seen, wrong.rmse) == (pytest.approx(2.0), True, 2.0)
    assert wrong.rmse_error == 0


@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_true_answers_are_those_of_the_dense_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, SCHEMA.shape)
    source = CountTensor(SCHEMA, counts)
    matrix = rng.normal(size=(3, 12))
    for query in (
        AGES,
        BOTH,
        nz.Query(SCHEMA, []),
        nz.Query(SCHEMA, {"age": nz.Ranges(), "sex": nz.Identity()}),
        nz.Query(SCHEMA, ["sex", "age"], matrix=matrix),
    ):
        assert true_answer(source, query) == pytest.approx(query.dense() @ counts.ravel())


# ---------------------------------------------------------------------- people


def test_records_left_out_are_errors_too() -> None:
    """Three people with four records each, and two of each counted: half of everything is lost."""
    data = {"age": [1] * 12, "sex": ["F"] * 12, "id": np.repeat([1, 2, 3], 4)}
    total = nz.Workload([nz.Query(SCHEMA, [])])
    plan = plan_for(total, max_rows=2, budget=nz.zCDP(50.0))
    found = nz.compare({"two": plan}, data, person="id", runs=depth(50, 15)).figures["two"]
    assert found.bias == pytest.approx(6.0, abs=0.3)
    whole = plan_for(total, max_rows=4, budget=nz.zCDP(50.0))
    seen = nz.compare({"four": whole}, data, person="id", runs=depth(100, 15)).figures["four"]
    assert not seen.bias_seen


def test_the_records_of_a_person_are_chosen_anew_in_every_run() -> None:
    data = {"age": list(range(6)), "sex": ["F"] * 6, "id": ["one"] * 6}
    plan = plan_for(nz.Workload([BOTH]), budget=nz.zCDP(1e6))
    once, again = (nz.compare([plan], data, person="id", runs=5) for _ in range(2))
    assert once.columns()["rmse"] == again.columns()["rmse"]
    # Every age is counted in one run out of six: E(error²) = 5/6 for each of six cells of twelve.
    runs = depth(120, 30)
    often = nz.compare([plan], data, person="id", runs=runs).figures["auto"]
    assert often.rmse == pytest.approx(np.sqrt(5 / 12), abs=0.01)
    # Three deviations of the share of runs without it; without choosing anew it would be one.
    assert often.worst < np.sqrt(5 / 6 + 3.16 * np.sqrt(5 / 36 / runs))


def test_a_source_that_is_open_already() -> None:
    records = {"age": [0, 1, 1], "sex": ["F", "F", "M"]}
    source = open_source(records, SCHEMA)
    figures = [
        nz.compare([plan_for()], data, simulate=True, runs=5).figures["auto"].rmse
        for data in (records, source)
    ]
    assert figures[0] == figures[1]
