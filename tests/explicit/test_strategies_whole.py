"""Discrete noise goes with whole numbers: what is measured changes by its rows, whatever x is."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import noiseplan as nz
from noiseplan.errors import DataError, PlanError
from noiseplan.mechanisms.basis import Basis, WideBasis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.counts import integer_residuals
from noiseplan.mechanisms.dense import DenseMechanism
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.tables import TableBlock, TablesMechanism
from noiseplan.mechanisms.views import View

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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [TENTHS, THIRDS, np.eye(3)], ids=["tenths", "thirds", "cells"])
def test_a_name_changes_nothing_of_what_is_measured(name: str, rows: Array) -> None:
    for budget in (nz.PureDP(1.0), nz.zCDP(0.5)):
        strategy = nz.Strategy(rows, name=name)
        plan = nz.plan(cells(), budget=budget, planner=strategy, noise="discrete")
        mechanism = plan.mechanism
        assert isinstance(mechanism, DenseMechanism)
        assert np.array_equal(mechanism.strategy, np.rint(mechanism.strategy))
        if mechanism.scale is None:
            cost = Fraction(largest_change(mechanism, 2)) / Fraction(mechanism.sigma2)
            assert cost <= Fraction(plan.privacy.pcost) <= 1
        else:
            cost = Fraction(largest_change(mechanism, 1)) / Fraction(mechanism.scale)
            assert cost <= Fraction(plan.privacy.pure_epsilon or 0.0) <= 1


def test_fractions_are_never_measured_with_discrete_noise() -> None:
    schema = nz.Schema.from_sizes({"c": 3})
    for fault in (TENTHS, np.diag([1.0, np.nan, 1.0]), np.diag([1.0, np.inf, 1.0])):
        with pytest.raises(PlanError, match="whole numbers"):
            DenseMechanism(schema, fault, 1.0, integer=True)
    with pytest.raises(PlanError, match="whole numbers"):
        integer_residuals([TENTHS], np.array([[1, 2, 3]]))
    none = np.zeros(1, dtype=np.int64)
    for basis in (Basis.orthogonal(3), WideBasis(3, 0.5)):
        blocks = group_blocks([none[None]], [np.ones(1)], (basis,), none, integer=True)
        with pytest.raises(PlanError, match="whole numbers"):
            ResidualMechanism(schema, blocks, integer=True)
    view = View("strategy", np.eye(3) / 2, np.eye(3), 12.0)
    block = TableBlock(none[None], np.ones(1), (view,), integer=True)
    with pytest.raises(PlanError, match="whole numbers"):
        TablesMechanism(schema, (block,), (Basis.orthogonal(3),), none, integer=True)


@pytest.mark.parametrize("reduced", [False, True])
def test_too_many_records_are_refused_before_anything_is_spent(
    tmp_path: Path, reduced: bool
) -> None:
    """Rows of 2⁴⁶ leave room for 2¹⁶ records less one."""
    sizes = {"a": 2, "b": 2} | ({"z": 1000} if reduced else {})
    schema = nz.Schema.from_sizes(sizes)
    workload = nz.Workload([nz.Query(schema, ["a", "b"], matrix=np.eye(4) * 2.0**46)])
    plan = nz.plan(workload, budget=nz.PureDP(0.5), planner="workload", noise="discrete")
    assert plan.mechanism.records == 2**16 - 1
    ledger = nz.Ledger(tmp_path / "ledger", create=True)
    ledger.open_dataset("d", nz.zCDP(1.0))
    for records, fits in ((2**16, False), (2**16 - 1, True)):
        frame = pd.DataFrame({name: np.zeros(records, int) for name in sizes})
        if not fits:
            with pytest.raises(DataError, match="Nothing was spent"):
                plan.release(frame, ledger=ledger, dataset="d")
            assert ledger.balance("d").spent.pcost == 0.0
        else:
            plan.release(frame, ledger=ledger, dataset="d")
            assert ledger.balance("d").spent.pcost > 0.0


def test_continuous_noise_has_no_limit_on_records() -> None:
    plan = nz.plan(cells(), budget=nz.zCDP(0.5), planner="optimal", noise="gaussian")
    assert plan.mechanism.records is None


def test_layout_in_memory_is_one() -> None:
    rows = np.asfortranarray(TENTHS)
    assert DenseMechanism(cells().schema, rows).strategy.flags.c_contiguous
