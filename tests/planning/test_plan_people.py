"""Plans for people with several records: priced for all of them, released with no more."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError
from oracles import cost_of, probe

SCHEMA = nz.Schema.from_sizes({"a": 4, "b": 3})
WORKLOAD = nz.Workload.marginals(SCHEMA, up_to=2, factors={"a": nz.Prefix()})


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.ApproxDP(1.0, 1e-6)])
def test_no_group_of_records_costs_more(rows: int, budget: nz.zCDP | nz.ApproxDP) -> None:
    """Every way to place up to so many records, by brute force."""
    plan = nz.plan(WORKLOAD, budget=budget, max_rows=rows, noise="gaussian")
    cost = cost_of(*probe(plan))
    worst = 0.0
    for places in combinations_with_replacement(range(SCHEMA.size), rows):
        moved = np.bincount(places, minlength=SCHEMA.size).astype(float)
        worst = max(worst, float(moved @ cost @ moved))
    assert 0.999 * plan.privacy.pcost <= worst <= plan.privacy.pcost
    assert plan.privacy.within(budget)
    assert plan.max_rows == rows


def test_standard_errors_grow_with_the_records() -> None:
    one, three = (
        nz.plan(WORKLOAD, budget=nz.zCDP(0.5), max_rows=k, noise="discrete") for k in (1, 3)
    )
    assert three.rmse == pytest.approx(3 * one.rmse, rel=1e-3)
    assert "all records of one person, at most 3" in str(three)


def test_pure_budgets_are_shared_evenly() -> None:
    plan = nz.plan(WORKLOAD, budget=nz.PureDP(1.0), max_rows=4)
    assert plan.privacy.pure_epsilon is not None
    assert 0.99 <= plan.privacy.pure_epsilon <= 1.0


def test_of_each_person_so_many_records_are_kept(tmp_path: Path) -> None:
    plan = nz.plan(WORKLOAD, budget=nz.zCDP(1e6), max_rows=2, noise="discrete")
    data = {"a": [0] * 5 + [1, 2], "b": [0] * 7, "id": ["x"] * 5 + ["y", "z"]}
    release = plan.release(data, person="id")
    assert release.answer("total").estimate[0] == pytest.approx(4, abs=0.01)
    release.save(tmp_path / "out", tables=[])
    again = nz.load(tmp_path / "out")
    assert again.plan.max_rows == 2
    words = (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
    assert "one person, with at most 2 records" in words
    for published in (release, again):  # the same whether one record was left out or a thousand
        for answer in (published.answer("total"), published.median("a"), published.share("b")):
            assert "Of each person at most 2 records were counted" in str(answer)
            assert "Of each person at most 2 records were counted" in answer._repr_html_()
    few = plan.release({"a": [0], "b": [0], "id": ["x"]}, person="id")
    assert few.answer("total").notes == release.answer("total").notes


@pytest.mark.parametrize("rows", [0, -1, 2.5, True, "3"])
def test_what_is_no_number_of_records(rows: object) -> None:
    with pytest.raises(PlanError, match="how many records one person may have"):
        nz.plan(WORKLOAD, budget=nz.zCDP(0.5), max_rows=rows)  # type: ignore[arg-type]


def test_replacing_several_records_costs_their_square() -> None:
    one = nz.plan(WORKLOAD, budget=nz.zCDP(0.5 / 9), neighbours="replace")
    three = nz.plan(WORKLOAD, budget=nz.zCDP(0.5), max_rows=3, neighbours="replace")
    assert three.privacy.neighbours == "replace"
    assert 9 * one.privacy.pcost == pytest.approx(three.privacy.pcost, rel=1e-9)
    assert three.total_variance == pytest.approx(one.total_variance, rel=1e-9)
    assert "other values in the records of one person, at most 3" in str(three)


@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.ApproxDP(1.0, 1e-9), nz.GDP(0.5)])
def test_a_public_total_costs_persons_nothing(budget: nz.zCDP | nz.ApproxDP | nz.GDP) -> None:
    """Where the number of records is public, no replaced records of a person change the total."""
    total = nz.Query(WORKLOAD.schema, {})
    plan = nz.plan(total, budget=budget, max_rows=3, neighbours="replace")
    counts = CountTensor(WORKLOAD.schema, np.full(WORKLOAD.schema.shape, 7))
    assert (plan.privacy.pcost, plan.privacy.mu2, plan.total_variance) == (0.0, 0.0, 0.0)
    assert plan.release(counts).answer(total).estimate.tolist() == [7 * WORKLOAD.schema.size]
