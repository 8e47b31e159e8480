"""Plain attributes of many values: the same plans and answers, without n × n numbers."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import DataError
from noiseplan.mechanisms import basis
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis
from noiseplan.mechanisms.exact_residuals import LARGEST, integer_residuals
from noiseplan.noise.wide_integers import wide
from oracles import add_remove_cost, blue_covariance, cost_of, probe, replace_cost, table_counts

B = nz.zCDP(0.5)
SCHEMA = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 5})


def workload() -> nz.Workload:
    """`a` and `b` plain, `c` with prefix sums."""
    return nz.Workload.marginals(SCHEMA, up_to=2, factors={"c": nz.Prefix()})


@pytest.fixture
def all_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basis, "WIDE", 2)


def new_queries() -> list[nz.Query]:
    """Asked of plain attributes afterwards, with rows that need the sum alone among them."""
    return [
        nz.Query(SCHEMA, {"a": nz.Prefix(), "b": nz.Identity()}),
        nz.Query(SCHEMA, {"a": nz.Ranges()}),
        nz.Query(SCHEMA, {"a": nz.Custom([[1, 1, 1, 1], [1, -1, 0, 2]]), "c": nz.Ranges()}),
        nz.Query(SCHEMA, ["a", "b"], matrix=np.arange(24.0).reshape(2, 12)),
        nz.Query(SCHEMA, []),
    ]


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_wide_and_narrow_are_the_same_plan(
    monkeypatch: pytest.MonkeyPatch, neighbours: str, noise: str
) -> None:
    narrow = nz.plan(workload(), budget=B, neighbours=neighbours, noise=noise)
    monkeypatch.setattr(basis, "WIDE", 2)
    wide = nz.plan(workload(), budget=B, neighbours=neighbours, noise=noise)
    assert isinstance(wide.mechanism.basis("a"), WideBasis)
    assert isinstance(wide.mechanism.basis("c"), MatrixBasis)
    assert wide.privacy.pcost == pytest.approx(narrow.privacy.pcost, rel=1e-11)
    assert wide.privacy.within(B)
    # Several kinds of neighbours are balanced by iteration, and rounding moves where it stops.
    near = 1e-12 if neighbours == "add-remove" else 1e-5
    np.testing.assert_allclose(wide.cost_matrix(), narrow.cost_matrix(), rtol=near, atol=near)
    for query in [*workload(), *new_queries()]:
        np.testing.assert_allclose(
            wide.variance(query), narrow.variance(query), rtol=1e2 * near, atol=1e-13
        )
        other = next(iter(new_queries()))
        np.testing.assert_allclose(
            wide.covariance(query, other), narrow.covariance(query, other), atol=1e2 * near
        )


@pytest.mark.usefixtures("all_wide")
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_cost_and_errors_by_brute_force(neighbours: str) -> None:
    plan = nz.plan(workload(), budget=B, neighbours=neighbours, noise="gaussian")
    rows, sigma2 = probe(plan)
    cost = cost_of(rows, sigma2)
    worst = add_remove_cost(cost) if neighbours == "add-remove" else replace_cost(cost)
    assert 0.9 < worst <= plan.privacy.pcost <= 1.0
    if neighbours == "add-remove":
        for query in [*workload(), *new_queries()]:
            exact = blue_covariance(query.dense(), query.dense(), rows, sigma2)
            np.testing.assert_allclose(plan.variance(query), np.diagonal(exact), rtol=1e-9)


@pytest.mark.usefixtures("all_wide")
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_answers_without_noise_are_the_truth(noise: str, tmp_path: Path) -> None:
    plan = nz.plan(workload(), budget=B, noise=noise)
    x = np.random.default_rng(4).integers(0, 50, SCHEMA.shape)
    kind = np.int64 if noise == "discrete" else np.float64
    measured = plan.mechanism.measure(table_counts(x), lambda shape, *_: np.zeros(shape, kind))
    for query in [*workload(), *new_queries()]:
        found = plan.mechanism.answer(measured, query)
        np.testing.assert_allclose(found, query.dense() @ x.ravel(), atol=1e-8)
    release = plan.release({name: [0, 1, 2] for name in SCHEMA.names})
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    for query in new_queries():
        np.testing.assert_array_equal(again.answer(query).estimate, release.answer(query).estimate)


@pytest.mark.parametrize("make", [Basis.orthogonal, Basis.integer])
def test_formulas_of_a_wide_basis(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = make(6)  # type: ignore[operator]
    monkeypatch.setattr(basis, "WIDE", 2)
    wide = make(6)  # type: ignore[operator]
    assert wide.sensitivity == pytest.approx(narrow.sensitivity)
    assert wide.lowest == pytest.approx(narrow.lowest)
    assert wide.spread_trace == pytest.approx(narrow.spread_trace)
    np.testing.assert_allclose(wide.gram, narrow.gram, atol=1e-12)
    np.testing.assert_allclose(wide.recover @ wide.recover.T, narrow.spread, atol=1e-14)


def test_exact_beyond_doubles() -> None:
    """Residuals from 2⁵³ on are computed in limbs, digit by digit."""
    matrix = WideBasis(300).measure
    counts = np.zeros((1, 300), dtype=np.int64)
    counts[0, 0], counts[0, 1] = 2**50 + 1, 1
    found = wide(integer_residuals([matrix], counts)).python()[:, 0]
    total = 2**50 + 2
    assert found.tolist() == [300 * int(c) - total for c in counts[0]]
    counts[0, 0] = LARGEST // 300
    found = wide(integer_residuals([matrix], counts)).python()[:, 0]
    assert found.tolist() == [300 * int(c) - LARGEST // 300 - 1 for c in counts[0]]
    counts[0, 0] = LARGEST
    with pytest.raises(DataError, match="64 bits"):
        integer_residuals([matrix], counts)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_memory_follows_the_cells_asked_for(noise: str) -> None:
    """A table of 50,000 values by 3: n² numbers would be 20 GB."""
    schema = nz.Schema.from_sizes({"place": 50_000, "sex": 3, "never asked": 10**9})
    asked = nz.Workload([nz.Query(schema, ["place", "sex"]), nz.Query(schema, ["place"])])
    tracemalloc.start()
    plan = nz.plan(asked, budget=B, noise=noise)
    text = str(plan)
    place = np.arange(60_000) % 50_000
    release = plan.release(
        {"place": place, "sex": place % 3, "never asked": np.zeros(60_000, dtype=np.int64)}
    )
    answer = release.answer(asked[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(answer.estimate) == 150_000 and "proved" in text
    assert peak < 200e6
    assert np.abs(answer.estimate - np.bincount(place * 3 + place % 3, minlength=150_000)).max() < (
        8 * answer.std_error.max()
    )
