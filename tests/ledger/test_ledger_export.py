"""Exports: read by other programs, and composed by another accountant."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from ledger_helpers import curved, discrete, filled

from noiseplan.ledger import Ledger, LedgerError, UnknownDataset
from noiseplan.ledger.export import event_of, noise_multiplier
from noiseplan.privacy import GDP, ApproxDP, Guarantee, gaussian_pcost

# ---------------------------------------------------------------------- JSON


def test_json_can_be_checked_without_noiseplan(folder: Path) -> None:
    ledger = filled(folder / "a.ledger")
    content = json.loads(ledger.export())
    previous = "0" * 64
    for number, row in enumerate(content["history"], start=1):
        stated = row.pop("hash")
        text = json.dumps(row, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == stated
        assert (row["position"], row["previous"]) == (number, previous)
        previous = stated
    assert content["head"] == str(ledger.head()) == f"{number}:{previous}"


def test_json_balances_follow_from_the_history(folder: Path) -> None:
    content = json.loads(filled(folder / "a.ledger").export())
    spent = {each["dataset"]: each["spent"]["pcost"] for each in content["datasets"]}
    charged = dict.fromkeys(spent, Fraction(0))
    for row in content["history"]:
        if row["kind"] == "reserved":
            charged[row["dataset"]] += Fraction(row["pcost"])
    assert {name: Fraction(cost) >= charged[name] for name, cost in spent.items()} == dict.fromkeys(
        spent, True
    )
    assert spent == pytest.approx({name: float(cost) for name, cost in charged.items()})
    census = content["datasets"][0]
    assert census["budget"] == {"currency": "zCDP", "rho": 2.0}
    assert census["left"]["rho"] == pytest.approx(1.7)
    assert (census["entries"], census["note"]) == (2, "people of 2030")


def test_one_dataset_alone(folder: Path) -> None:
    ledger = filled(folder / "a.ledger")
    content = json.loads(ledger.export(dataset="panel"))
    assert [each["dataset"] for each in content["datasets"]] == ["panel"]
    assert [row["kind"] for row in content["history"]] == ["dataset", "reserved", "failed"]
    for format in ("json", "csv", "dp-accounting"):
        with pytest.raises(UnknownDataset):
            ledger.export(format, dataset="nobody")  # type: ignore[arg-type]


def test_unknown_formats(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="'json', 'csv', 'dp-accounting'; got 'xml'"):
        ledger.export("xml")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- CSV


def test_csv_has_a_line_per_row(folder: Path) -> None:
    ledger = filled(folder / "a.ledger")
    lines = list(csv.DictReader(io.StringIO(ledger.export("csv"))))
    assert [int(line["position"]) for line in lines] == list(range(1, 11))
    assert lines[4]["rho"] == "0.25"
    assert (lines[4]["entry"], lines[5]["entry"]) == ("5", "5")
    assert lines[9]["purpose"] == "left reserved\nwith a second line"
    assert json.loads(lines[1]["budget"]) == {"currency": "zCDP", "rho": 1.0}
    assert lines[8]["reason"] == "a vote of the board"
    assert [line["hash"] for line in lines] == [row.hash for row in ledger.history()]


def test_csv_says_all_that_is_added_up(folder: Path) -> None:
    """Whoever has the table and the budget can add it up again."""
    ledger = Ledger(folder / "a.ledger", create=True)
    ledger.open_dataset("d", ApproxDP(1.0, 1e-6))
    for cost in (Guarantee.pure(0.5), curved(0.004), Guarantee.pure(0.01)):
        ledger.spend("d", cost)
    first, second, third = list(csv.DictReader(io.StringIO(ledger.export("csv"))))[2:]
    assert (first["epsilon"], first["mu2"], first["limit"]) == ("0.5", "", "")
    assert (float(second["mu2"]), second["epsilon"]) == (curved(0.004).mu2, "")
    assert float(second["limit"]) == gaussian_pcost(0.5, 1e-6)
    assert (third["epsilon"], third["limit"]) == ("0.01", "")


@pytest.mark.parametrize("purpose", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\n=1", "'=1"])
def test_csv_holds_no_formulas(ledger: Ledger, purpose: str) -> None:
    ledger.spend("census", discrete(0.1), purpose=purpose)
    (*_, line) = csv.DictReader(io.StringIO(ledger.export("csv")))
    assert line["purpose"] == f"'{purpose}"


# ---------------------------------------------------------------------- dp-accounting


def epsilon(accountant: Any, event: Any, delta: float) -> float:
    return float(accountant.compose(event).get_epsilon(delta))


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_continuous_releases_compose_to_the_same_epsilon(ledger: Ledger, delta: float) -> None:
    """Their privacy loss distribution is numerical, ours the closed form."""
    ledger.open_dataset("panel", GDP(1.0))
    for release in (Guarantee(0.1), curved(0.3), Guarantee(1 / 3), curved(0.02)):
        ledger.spend("panel", release)
    theirs = epsilon(PLDAccountant(), ledger.events("panel"), delta)
    ours = ledger.balance("panel").spent.epsilon(delta)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert ours <= theirs * (1 + 1e-9)  # theirs rounds its losses up


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_discrete_releases_compose_to_the_same_epsilon(ledger: Ledger, delta: float) -> None:
    """Theirs takes the best of a grid of orders, ours of all orders."""
    for pcost in (0.1, 0.3, 1 / 3, 0.02):
        ledger.spend("census", discrete(pcost))
    theirs = epsilon(RdpAccountant(), ledger.events("census"), delta)
    ours = ledger.balance("census").spent.epsilon(delta)
    assert ours <= theirs * (1 + 1e-12)
    assert ours == pytest.approx(theirs, rel=5e-3)


def test_mixed_releases_compose_by_zcdp(ledger: Ledger) -> None:
    for guarantee in (Guarantee(0.2), discrete(0.1), Guarantee(0.05), Guarantee(0.0)):
        ledger.spend("census", guarantee)
    theirs = epsilon(RdpAccountant(), ledger.events("census"), 1e-9)
    ours = ledger.balance("census").spent
    assert (ours.law, ours.mu2) == ("zcdp", None)
    assert ours.epsilon(1e-9) <= theirs * (1 + 1e-12)
    assert ours.epsilon(1e-9) == pytest.approx(theirs, rel=5e-3)


def test_a_full_approximate_budget_is_full_for_them_too(folder: Path) -> None:
    """What fills our budget reaches ε in their accounting, and not a little more."""
    ledger = Ledger(folder / "a.ledger", create=True)
    budget = ApproxDP(1.0, 1e-6)
    ledger.open_dataset("d", budget)
    for _ in range(3):
        left = ledger.balance("d").left()
        assert left is not None
        ledger.spend("d", Guarantee(left.gaussian_pcost() / 2))
    ledger.spend("d", Guarantee(ledger.balance("d").room))
    theirs = PLDAccountant().compose(ledger.events("d"))
    assert theirs.get_epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)
    assert theirs.get_delta(1.0) == pytest.approx(1e-6, rel=1e-3)


def test_the_text_names_the_same_events(folder: Path) -> None:
    """Three lines of a reader's own make the objects from the text."""
    ledger = filled(folder / "a.ledger")
    ledger.spend("census", discrete(0.0))
    content = json.loads(ledger.export("dp-accounting"))
    assert content["format"] == "dp-accounting events"
    for name, events in content["datasets"].items():
        made = []
        for each in events:
            arguments = {key: each[key] for key in each.keys() - {"event", "entry"}}
            made.append(getattr(dp_accounting, each["event"])(**arguments))
        assert dp_accounting.ComposedDpEvent(made) == ledger.events(name)
        assert [each["entry"] for each in events] == [entry.id for entry in ledger.entries(name)]
    one = json.loads(ledger.export("dp-accounting", "panel"))["datasets"]
    assert one == {"panel": content["datasets"]["panel"]}


def test_failed_and_reserved_releases_are_events_as_well(folder: Path) -> None:
    ledger = filled(folder / "a.ledger")
    assert {entry.status for entry in ledger.entries()} == {"released", "failed", "reserved"}
    events = [*ledger.events("census").events, *ledger.events("panel").events]
    assert len(events) == len(ledger.entries()) == 3


@given(st.floats(1e-300, 1e300))
def test_no_event_is_cheaper_than_the_release(pcost: float) -> None:
    multiplier = Fraction(noise_multiplier(pcost))
    assert 1 / multiplier**2 >= Fraction(pcost)
    above = Fraction(math.nextafter(float(multiplier), math.inf))
    assert 1 / above**2 < Fraction(pcost)
    _, arguments = event_of(discrete(pcost))
    assert 2 * Fraction(arguments["rho"]) >= Fraction(pcost)


def test_exports_do_not_need_dp_accounting(folder: Path) -> None:
    filled(folder / "a.ledger")
    code = (
        "import sys\n"
        "sys.modules['dp_accounting'] = None\n"  # as if it were not installed
        "from noiseplan.ledger import Ledger, LedgerError\n"
        "ledger = Ledger(sys.argv[1])\n"
        "for format in ('json', 'csv', 'dp-accounting'):\n"
        "    assert ledger.export(format)\n"
        "try:\n"
        "    ledger.events('census')\n"
        "except LedgerError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "a.ledger")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "pip install dp-accounting" in done.stdout


def test_charging_and_exporting_load_nothing_heavy(folder: Path) -> None:
    code = (
        "import sys; from noiseplan.ledger import Ledger; from noiseplan.privacy import *\n"
        "ledger = Ledger(sys.argv[1], create=True)\n"
        "ledger.open_dataset('d', zCDP(1.0)); ledger.spend('d', Guarantee(0.5))\n"
        "ledger.export(); ledger.verify()\n"
        "heavy = ('scipy', 'pandas', 'duckdb', 'dp_accounting', 'click', 'rich')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "a.ledger")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_an_empty_dataset_exports(ledger: Ledger) -> None:
    ledger.open_dataset("panel", GDP(1.0))
    assert json.loads(ledger.export("dp-accounting"))["datasets"] == {}
    assert ledger.events("panel").events == []
    assert ledger.balance("panel").left() == GDP(1.0)
