"""Discrete noise goes with whole numbers: what is measured changes by its rows, whatever x is."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.errors import DataError, PlanError, QueryError
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.basis import Basis, WideBasis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.exact_residuals import RECORDS, integer_residuals
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.tables import TableBlock, TablesMechanism, View
from noiseplan.noise import Noise

Array = np.ndarray
NAMES = ("workload", "matrix", "given strategy", "extended", "p-identity over all cells")


def cells(size: int = 3) -> nz.Workload:
    return nz.Workload([nz.Query(nz.Schema.from_sizes({"c": size}), ["c"])])


def measured(mechanism: Mechanism, counts: list[int]) -> Array:
    """What is measured of these counts, without noise."""
    table = np.array(counts).reshape(1, *mechanism.schema.shape)
    silent = mechanism.measure(lambda sets: table, lambda *shape: np.zeros(shape[0], np.int64))
    return silent.values[0]


def many_counts(size: int) -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [[n, *[0] * (size - 1)] for n in range(60)] + rng.integers(0, 99, (60, size)).tolist()


def largest_change(mechanism: Mechanism, power: int) -> int:
    """max over x and cells of Σ_r |A(x + e) − Ax|^power, by measuring both."""
    size, worst = mechanism.schema.size, 0
    for counts in many_counts(size):
        before = measured(mechanism, counts)
        for cell in range(size):
            more = list(counts)
            more[cell] += 1
            change = np.abs(measured(mechanism, more) - before)
            worst = max(worst, sum(int(c) ** power for c in change))
    return worst


TENTHS = np.vstack([np.eye(3)] + [np.full((1, 3), 0.1)] * 30)
THIRDS = np.vstack([np.eye(3), np.ones((2, 3)) / 3])


@pytest.mark.grid
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [TENTHS, THIRDS, np.eye(3)], ids=["tenths", "thirds", "cells"])
def test_a_name_changes_nothing_of_what_is_measured(name: str, rows: Array) -> None:
    for budget in (nz.PureDP(1.0), nz.zCDP(0.5)):
        strategy = nz.Strategy(rows, name=name)
        plan = nz.plan(cells(), budget=budget, planner=strategy, noise="discrete")
        mechanism = plan.mechanism
        assert isinstance(mechanism, DenseMechanism)
        assert np.array_equal(mechanism.strategy, np.rint(mechanism.strategy))
        if mechanism.noise.law == "gaussian":
            cost = Fraction(largest_change(mechanism, 2)) / Fraction(mechanism.noise.one)
            assert cost <= Fraction(plan.privacy.pcost) <= 1
        else:
            cost = Fraction(largest_change(mechanism, 1)) / Fraction(mechanism.noise.one)
            assert cost <= Fraction(plan.privacy.pure_epsilon or 0.0) <= 1


def test_fractions_are_never_measured_with_discrete_noise() -> None:
    schema = nz.Schema.from_sizes({"c": 3})
    for fault in (TENTHS, np.diag([1.0, np.nan, 1.0]), np.diag([1.0, np.inf, 1.0])):
        with pytest.raises(PlanError, match="whole numbers"):
            DenseMechanism(schema, fault, Noise("gaussian", 1.0, exact=True))
    with pytest.raises(PlanError, match="whole numbers"):
        integer_residuals([TENTHS], np.array([[1, 2, 3]]))
    none = np.zeros(1, dtype=np.int64)
    for basis in (Basis.orthogonal(3), WideBasis(3, 0.5)):
        blocks = group_blocks([none[None]], [np.ones(1)], (basis,), none, exact=True)
        with pytest.raises(PlanError, match="whole numbers"):
            ResidualMechanism(schema, blocks)
    view = View("strategy", np.eye(3) / 2, np.eye(3), 12.0)
    block = TableBlock(none[None], Noise("laplace", 1.0, exact=True), (view,))
    with pytest.raises(PlanError, match="whole numbers"):
        TablesMechanism(schema, (block,), (Basis.orthogonal(3),), none)


@pytest.mark.parametrize("reduced", [False, True])
def test_no_plan_has_a_limit_of_its_own_on_records(tmp_path: Path, reduced: bool) -> None:
    """Rows of 2⁴⁶ leave room for 2¹⁶ records in 64 bits: a refusal there would tell how many."""
    schema = nz.Schema.from_sizes({"a": 2, "b": 2} | ({"z": 1000} if reduced else {}))
    ledger = nz.Ledger(tmp_path / "ledger", create=True)
    ledger.open_dataset("d", nz.zCDP(10.0))
    for entry in (1.0, 2.0**30, 2.0**46):
        query = nz.Query(schema, ["a", "b"], matrix=np.eye(4) * entry)
        asked = nz.Workload([query])
        plan = nz.plan(asked, budget=nz.PureDP(0.5), planner="workload", noise="discrete")
        counts = np.zeros(schema.shape, dtype=np.int64)
        spent = ledger.balance("d").spent.pcost
        counts.flat[0] = RECORDS + 1
        with pytest.raises(DataError, match=r"than 500,000,000,000 records.*Nothing was spent"):
            plan.release(CountTensor(schema, counts), ledger=ledger, dataset="d")
        assert ledger.balance("d").spent.pcost == spent
        for records in (2**16 - 1, 2**16, RECORDS):
            counts.flat[0] = records
            release = plan.release(CountTensor(schema, counts), ledger=ledger, dataset="d")
            answer = release.answer(query)
            away = abs(answer.estimate[0] - entry * records)
            assert away <= 40 * answer.std_error[0] + 1e-12 * entry * records
            release.save(tmp_path / f"{reduced}-{entry}-{records}")
            again = nz.load(tmp_path / f"{reduced}-{entry}-{records}")
            assert np.array_equal(again.answer(query).estimate, answer.estimate)


@pytest.mark.parametrize("entry", [1, 3, 2**22, 2**30 - 1, 2**46, 2**60])
@pytest.mark.parametrize("records", [1, 2**15, 2**16 + 3, 2**32 - 1, 2**40 + 1])
def test_numbers_of_any_size_are_measured_exactly(entry: int, records: int) -> None:
    """64 bits where they hold the sum with the noise, else what a double can tell of it."""
    mechanism = DenseMechanism(
        cells(2).schema, np.diag([entry, 1.0]), Noise("gaussian", 1.0, exact=True)
    )
    found = measured(mechanism, [records, 0])
    if entry * records < 2**63:
        assert found.dtype == np.int64
        assert found.tolist() == [entry * records, 0]
    else:
        assert found.tolist() == [float(entry * records), 0.0]


def test_layout_in_memory_is_one() -> None:
    rows = np.asfortranarray(TENTHS)
    assert DenseMechanism(cells().schema, rows).strategy.flags.c_contiguous


# ---------------------------------------------------------------------- what may be a strategy


@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.PureDP(1.0)], ids=str)
@pytest.mark.parametrize("noise", ["discrete", "continuous"])
def test_a_strategy_of_any_size_is_the_same(budget: nz.Budget, noise: str) -> None:
    continuous = "laplace" if isinstance(budget, nz.PureDP) else "gaussian"
    noise = continuous if noise == "continuous" else noise
    rows = np.vstack([np.eye(3), np.tri(3)])
    for weighted in (False, True):
        totals = {
            nz.plan(
                cells(), budget=budget, planner=nz.Strategy(given, weighted=weighted), noise=noise
            ).total_variance
            for given in (rows, rows * 2.0**900, rows * 2.0**-900, sp.csr_array(rows), rows > 0)
        }
        assert len(totals) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nz.Strategy(np.eye(3) * 1j), "matrix of numbers.*found complex128"),
        (lambda: nz.Strategy("rows"), "matrix of numbers"),
        (lambda: nz.Strategy([[10**400, 1]]), "matrix of numbers"),
        (lambda: nz.Strategy(sp.csr_array((10**5, 10**5))), "when written out"),
        (lambda: nz.Strategy(np.eye(3), name=5), "name of a strategy is a text"),
        (lambda: nz.Strategy(np.eye(3), weighted="no"), "weighted is True or False, found 'no'"),
        (lambda: nz.plan(cells(), budget=nz.zCDP(1), planner=np.eye(3)), r"planner=Strategy\(rows"),
        (lambda: nz.plan(cells(), budget=nz.PureDP(1), planner=np.eye(3)), "found ndarray"),
    ],
)
def test_what_is_no_strategy(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


def test_entries_that_are_no_numbers() -> None:
    with pytest.raises(QueryError, match="matrix of numbers"):
        nz.Workload.from_matrix([[10**400, 1]])


@pytest.mark.parametrize("name", ["extended", "combined", "common", "auto", "optimal"])
def test_a_name_changes_nothing_of_what_is_said(name: str) -> None:
    text, plain = (
        str(nz.plan(cells(), budget=nz.zCDP(0.5), planner=nz.Strategy(np.eye(3), name=n)))
        for n in (name, "plain")
    )
    assert "no data was read" in text
    assert [line.split()[0] for line in text.splitlines() if line] == [
        line.split()[0] for line in plain.splitlines() if line
    ]


def test_the_workloads_own_rows_say_what_is_in_their_way() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    even = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, ["b"])])
    plan = nz.plan(even, budget=nz.PureDP(1.0), planner="workload", noise="discrete")
    assert np.array_equal(plan.mechanism.strategy, np.vstack([q.dense() for q in even]))
    uneven = nz.Workload([nz.Query(schema, ["a"], weight=2.0), nz.Query(schema, ["b"])])
    with pytest.raises(PlanError, match="give all queries one weight"):
        nz.plan(uneven, budget=nz.PureDP(1.0), planner="workload", noise="discrete")
    halves = nz.Workload([nz.Query(schema, {"a": nz.Custom([[0.5, 1, 1]])})])
    with pytest.raises(PlanError, match="whole numbers in them"):
        nz.plan(halves, budget=nz.PureDP(1.0), planner="workload", noise="discrete")


# ---------------------------------------------------------------------- smaller domains


def on(sizes: dict[str, int]) -> nz.Workload:
    asked = ["a < 3 or b < 2", "a = 1 and b > 1", "b > 3", "a > 2 or b = 4"]
    return nz.Workload.predicates(nz.Schema.from_sizes(sizes), asked)


@pytest.mark.parametrize("planner", ["eigen", "fourier", "singular-value", "least-sensitivity"])
def test_laplace_strategies_over_the_classes_that_queries_tell_apart(planner: str) -> None:
    """6,000 cells of which six classes are told apart: as over any other domain with these."""
    wide = on({"a": 6, "b": 5, "z": 200})
    plan = nz.plan(wide, budget=nz.PureDP(1.0), planner=planner, noise="discrete")
    assert isinstance(plan.mechanism, ReducedMechanism)
    small = plan.mechanism.small
    assert isinstance(small, DenseMechanism)
    assert small.noise.law == "laplace"
    spent = Fraction(largest_change(small, 1)) / Fraction(small.noise.one)
    assert spent <= Fraction(plan.privacy.pure_epsilon or 0.0) <= 1
    other = on({"a": 6, "b": 5, "z": 300})
    again = nz.plan(other, budget=nz.PureDP(1.0), planner=planner, noise="discrete")
    for one, two in zip(wide, other, strict=True):
        np.testing.assert_allclose(plan.variance(one), again.variance(two), rtol=1e-2)


def test_free_queries_of_classes() -> None:
    plan = nz.plan(on({"a": 6, "b": 5, "z": 200}), targets=2.0, planner="refined")
    with pytest.raises(PlanError, match=r"classes of cells .* at most 4,096 cells, found 6,000"):
        plan.free_queries(nz.Query(plan.schema, ["b"]))
