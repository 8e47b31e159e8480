"""The campaign of attacks: that it holds, and that it would notice a fault of each kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from depth import depth

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `benchmarks` is not installed

from benchmarks import attacks, attacks_costs, attacks_kills

from noiseplan.choosing import joined_plans
from noiseplan.privacy import Guarantee
from noiseplan.release import open_data


def test_costs_hold_on_every_way_to_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks_costs, "QUICK_CASES", depth(3, 2))
    table = attacks_costs.table(quick=True, seed=11)
    assert table.met, table.markdown()


def test_a_cost_that_is_understated_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of a plan at half its price, past a gate that was left open."""
    stated = joined_plans.cost_of

    def half(*arguments: Any) -> Guarantee:
        found = stated(*arguments)
        return Guarantee(found.pcost / 2, found.law, found.neighbours)

    monkeypatch.setattr(joined_plans, "cost_of", half)
    monkeypatch.setattr(open_data, "require_price", lambda *_: None)
    found = attacks_costs.campaign(0.0, seed=1, least=4)
    assert found["given"].understated + found["given twice"].understated > 0
    assert found["plan"].understated == 0


def test_a_plan_measured_from_a_folder_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from noiseplan.choosing import choice

    monkeypatch.setattr(choice, "require_alike", lambda *_: None)
    found = attacks_costs.campaign(0.0, seed=1, least=2)
    assert found["saved, loaded, given"].raw > 0


def test_killed_releases_leave_nothing_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks_kills, "QUICK_TIMES", depth(8, 4))
    table = attacks_kills.table(quick=True)
    assert table.met, table.markdown()


def test_a_release_beside_the_ledger_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    study = attacks_kills.STUDY.replace('[ledger]\nfile = "study.ledger"\ndataset = "people"', "")
    monkeypatch.setattr(attacks_kills, "STUDY", study)
    found = attacks_kills.kill(3, seed=1)
    assert found.unrecorded == found.folders > 0


def test_the_campaign_runs_as_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attacks_costs, "QUICK_CASES", 2)  # one may cost nothing
    monkeypatch.setattr(attacks, "tables", lambda *_: [attacks_costs.table(quick=True)])
    assert attacks.main(["--minutes", "0.1", "--seed", "3"]) == 0
    assert "no cost understated" in capsys.readouterr().out
