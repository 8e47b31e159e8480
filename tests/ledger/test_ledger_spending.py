"""Charging releases: what is recorded, what is refused, and what the refusal says."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from pathlib import Path

import pytest
from ledger_helpers import discrete, filled

import noiseplan as nz
from noiseplan.errors import BudgetError, NoiseplanError
from noiseplan.ledger import BudgetExceeded, Ledger, LedgerError, UnknownDataset
from noiseplan.privacy import GDP, ApproxDP, Guarantee, PureDP, zCDP

# ---------------------------------------------------------------------- charging


def test_a_charge_is_recorded_before_its_block_runs(ledger: Ledger) -> None:
    with ledger.charge("census", discrete(0.5), purpose="tables", plan_hash="ab12") as entry:
        seen = Ledger(ledger.path).entries("census")  # what any other process sees now
        assert seen == (entry,)
        assert Ledger(ledger.path).balance("census").spent.rho == 0.25
    assert (entry.status, entry.purpose, entry.plan_hash) == ("reserved", "tables", "ab12")
    (released,) = ledger.entries("census")
    assert (released.id, released.status) == (entry.id, "released")


@pytest.mark.parametrize("error", [ValueError("age 47"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failed_block_stays_charged(ledger: Ledger, error: BaseException) -> None:
    with pytest.raises(type(error)), ledger.charge("census", discrete(0.5)):
        raise error
    (entry,) = ledger.entries()
    assert (entry.status, entry.note) == ("failed", type(error).__name__)
    assert ledger.balance("census").spent.rho == 0.25
    assert "age 47" not in ledger.export(), "a message may show data"


def test_nothing_runs_in_the_block_of_a_refused_charge(ledger: Ledger) -> None:
    ran = []
    with pytest.raises(BudgetExceeded), ledger.charge("census", discrete(3.0)):
        ran.append("noise")
    assert not ran
    assert ledger.entries() == ()


def test_a_release_is_not_lost_when_only_the_remark_fails(ledger: Ledger) -> None:
    with (
        pytest.warns(RuntimeWarning, match="entry 3 is charged and stays reserved"),
        ledger.charge("census", discrete(0.5)),
    ):
        moved = ledger.path.rename(ledger.path.with_name("moved.ledger"))
    (entry,) = Ledger(moved).entries()
    assert entry.status == "reserved"


def test_the_first_error_is_the_one_to_see(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError) as caught, ledger.charge("census", discrete(0.5)):
        ledger.path.rename(ledger.path.with_name("moved.ledger"))
        _ = 1 / 0
    assert "entry 3 stays reserved, and charged" in caught.value.__notes__[0]


def test_an_entry_is_settled_once(ledger: Ledger) -> None:
    entry = ledger.spend("census", discrete(0.5))
    ledger.mark_released(entry, note="in folder out/")
    assert ledger.entries()[0].note == "in folder out/"
    for settle in (ledger.mark_released, ledger.mark_failed):
        with pytest.raises(LedgerError, match="entry 3 is released already"):
            settle(entry.id)
    with pytest.raises(LedgerError, match="no entry 99"):
        ledger.mark_failed(99)


def test_the_order_of_opening_and_of_charging_is_kept(folder: Path) -> None:
    ledger = filled(folder / "a.ledger")
    assert ledger.datasets() == ("census", "panel", "études")
    assert [entry.dataset for entry in ledger.entries()] == ["census", "panel", "census"]
    assert [entry.purpose for entry in ledger.entries("panel")] == ["quarter 1"]
    assert [entry.status for entry in ledger.entries()] == ["released", "failed", "reserved"]
    assert {entry.by for entry in ledger.entries()} == {"tester"}
    assert [record.position for record in ledger.history()] == list(range(1, 11))
    kinds = [record.json()["kind"] for record in ledger.history("census")]
    assert kinds == ["dataset", "reserved", "released", "budget", "reserved"]


def test_plans_charge_what_they_cost(ledger: Ledger) -> None:
    """A plan made with what is left fits, whatever was spent before."""
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 3, "b": 4}), up_to=2)
    for noise in ("discrete", "gaussian", "discrete"):
        left = ledger.balance("census").left()
        assert left is not None
        plan = nz.plan(workload, budget=zCDP(left.rho / 3), noise=noise)
        ledger.spend("census", plan.privacy)
    left = ledger.balance("census").left()
    assert left is not None
    ledger.spend("census", nz.plan(workload, budget=left, noise="discrete").privacy)
    assert ledger.balance("census").spent.rho > 0.999


# ---------------------------------------------------------------------- refusals


def test_the_refusal_says_asked_spent_left_and_what_fits(ledger: Ledger) -> None:
    ledger.spend("census", discrete(1.5))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.spend("census", discrete(1.0))
    error = caught.value
    assert isinstance(error, BudgetError)
    assert isinstance(error, NoiseplanError)
    assert (error.asked, error.spent) == (discrete(1.0), discrete(1.5))
    assert error.fits == zCDP(0.25)
    assert error.balance == ledger.balance("census")
    for part in (
        "dataset 'census'", "budget ρ = 1 (zCDP)", "asked ρ = 0.5;", "spent ρ = 0.75;",
        "left ρ = 0.25;", "nothing was recorded", "budget=zCDP(0.25) fits", "change_budget",
    ):  # fmt: skip
        assert part in str(error)
    ledger.spend("census", zCDP(0.25))


def test_what_is_said_to_fit_does(folder: Path) -> None:
    """Also when the printed number is copied."""
    ledger = Ledger(folder / "a.ledger", create=True)
    for i, asked in enumerate((1.0, 0.07, 0.066229660980345469)):
        name = f"d{i}"
        ledger.open_dataset(name, ApproxDP(1.0, 1e-9))
        ledger.spend(name, PureDP(0.125))
        with pytest.raises(BudgetExceeded) as caught:
            ledger.spend(name, Guarantee(asked))
        printed = str(caught.value).split("budget=ApproxDP(")[1].split(", 1e-09)")[0]
        assert float(printed) == 0.875
        left = caught.value.fits
        assert isinstance(left, ApproxDP)
        ledger.spend(name, Guarantee(ApproxDP(float(printed), 1e-9).gaussian_pcost()))
        assert float(printed) > 0.999 * left.epsilon


def test_a_refusal_by_the_last_digit_tells_the_two_numbers_apart(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match=r"zCDP\(1\.0\) fits"):
        ledger.spend("census", discrete(math.nextafter(2.0, 3)))


def test_refusals_when_nothing_is_left(ledger: Ledger) -> None:
    ledger.spend("census", discrete(2.0))
    with pytest.raises(BudgetExceeded, match="left nothing") as caught:
        ledger.spend("census", discrete(1e-300))
    assert caught.value.fits is None
    assert "fits" not in str(caught.value).split("nothing was recorded")[1]
    ledger.spend("census", discrete(0.0))


def test_a_release_without_protection(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match="no protection at all"):
        ledger.spend("census", Guarantee(math.inf))


def test_a_refusal_survives_pickling(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        ledger.spend("census", discrete(5.0))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.asked, copy.balance) == (
        str(caught.value), caught.value.asked, caught.value.balance,
    )  # fmt: skip


def test_what_can_never_be_charged_says_what_to_change(ledger: Ledger) -> None:
    ledger.open_dataset("panel", GDP(1.0))
    with pytest.raises(BudgetError, match="change the budget to zCDP") as caught:
        ledger.spend("panel", discrete(0.1))
    assert not isinstance(caught.value, BudgetExceeded)
    with pytest.raises(BudgetError, match="neighbours='add-remove'"):
        ledger.spend("panel", Guarantee(0.1, neighbours="replace"))
    with pytest.raises(BudgetError, match=r"plan\.privacy or zCDP\(0\.01\); got 0\.1"):
        ledger.spend("panel", 0.1)  # type: ignore[arg-type]
    assert ledger.entries() == ()


def test_laws_that_a_ledger_does_not_know_are_refused(ledger: Ledger) -> None:
    """A law that is new elsewhere must not be added up as if it were an old one."""
    strange = discrete(0.1)
    object.__setattr__(strange, "law", "laplace")
    with pytest.raises(BudgetError, match="got 'laplace'"):
        ledger.spend("census", strange)
    assert ledger.entries() == ()


# ---------------------------------------------------------------------- budgets


def test_opening_again_changes_nothing(ledger: Ledger) -> None:
    ledger.spend("census", discrete(0.5))
    head = ledger.head()
    assert ledger.open_dataset("census", zCDP(1.0)).spent.rho == 0.25
    assert ledger.head() == head


@pytest.mark.parametrize("other", [{"budget": zCDP(2.0)}, {"neighbours": "replace"}])
def test_opening_again_with_other_terms_is_refused(ledger: Ledger, other: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(LedgerError, match="changes on record only"):
        ledger.open_dataset("census", **({"budget": zCDP(1.0)} | other))


def test_changing_a_budget(ledger: Ledger) -> None:
    ledger.spend("census", discrete(2.0))
    assert ledger.change_budget("census", zCDP(1.5), reason="a vote").left() == zCDP(0.5)
    ledger.spend("census", discrete(1.0))
    with pytest.raises(BudgetError, match=r"has spent ρ = 1\.5"):
        ledger.change_budget("census", zCDP(1.4999999999999998), reason="a vote")
    with pytest.raises(BudgetError, match="not within μ = 10"):  # zCDP shows no GDP
        ledger.change_budget("census", GDP(10.0), reason="a vote")
    for reason in ("", "  \n"):
        with pytest.raises(LedgerError, match="for a stated reason"):
            ledger.change_budget("census", zCDP(9.0), reason=reason)
    assert ledger.balance("census").budget == zCDP(1.5)
    assert "a vote" in ledger.export()


def test_a_gaussian_history_may_move_to_gdp(ledger: Ledger) -> None:
    ledger.spend("census", Guarantee(1.0))
    assert ledger.change_budget("census", GDP(1.0), reason="a vote").left() is None


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("method", ["balance", "entries", "history", "events"])
def test_unknown_datasets(ledger: Ledger, method: str) -> None:
    with pytest.raises(UnknownDataset, match=r"no dataset 'cencus'.*'census'"):
        getattr(ledger, method)("cencus")
    with pytest.raises(LookupError):
        ledger.spend("cencus", discrete(0.1))


def test_a_ledger_without_datasets(folder: Path) -> None:
    empty = Ledger(folder / "a.ledger", create=True)
    assert empty.datasets() == ()
    with pytest.raises(UnknownDataset, match=r"none yet.*open_dataset"):
        empty.balance("census")


def test_two_spellings_of_a_name_are_not_two_budgets(ledger: Ledger) -> None:
    ledger.open_dataset("caf\u00e9", zCDP(1.0))
    ledger.open_dataset("cafe\u0301", zCDP(1.0))  # the same name in other code points
    assert ledger.datasets() == ("census", "caf\u00e9")
    for name in ("Census", "CENSUS", "ｃｅｎｓｕｓ", "Caf\u00e9"):
        with pytest.raises(LedgerError, match=r"second budget|looks like another sign"):
            ledger.open_dataset(name, zCDP(1.0))


NAMES = [
    "",
    " census",
    "census ",
    "a\nb",
    "a\tb",
    "\x1b[2J",
    "\ud800",
    "x" * 201,
    "\u202e",
    7,
    None,
]


@pytest.mark.parametrize("name", NAMES)
def test_bad_names(ledger: Ledger, name: object) -> None:
    with pytest.raises(LedgerError, match="dataset"):
        ledger.open_dataset(name, zCDP(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["\x00", "\x1b]0;title\x07", "\udfff", "x" * 10_001, 3, b"x"])
def test_bad_texts(ledger: Ledger, text: object) -> None:
    before = ledger.path.read_bytes()
    for kind in ("purpose", "plan_hash"):
        with pytest.raises(LedgerError, match=kind):
            ledger.spend("census", discrete(0.1), **{kind: text})  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="note"):
        ledger.open_dataset("other", zCDP(1.0), note=text)  # type: ignore[arg-type]
    assert ledger.path.read_bytes() == before


# ---------------------------------------------------------------------- the object


def test_a_ledger_prints_and_pickles(folder: Path) -> None:
    ledger = filled(folder / "a.ledger")
    assert str(ledger).splitlines()[0] == f"ledger {str(ledger.path)!r}: 10 rows"
    assert str(ledger).count("dataset '") == 3
    copy = pickle.loads(pickle.dumps(ledger))
    assert copy.head() == ledger.head()
    entry = copy.spend("census", discrete(0.1))
    assert entry.by == "tester"
    assert repr(copy) == repr(ledger) == f"Ledger({str(ledger.path)!r})"


def test_the_folder_may_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ledger = Ledger("a.ledger", create=True)
    ledger.open_dataset("census", zCDP(1.0))
    monkeypatch.chdir("/")
    assert ledger.balance("census").entries == 0


def test_making_a_ledger_that_is_there_keeps_it(ledger: Ledger) -> None:
    assert Ledger(ledger.path, create=True).datasets() == ("census",)


def test_totals_are_exact_sums(ledger: Ledger) -> None:
    costs = [0.1, 1e-17, 5e-324, 0.3, 1e-9]
    for cost in costs:
        ledger.spend("census", discrete(cost))
    total = sum(map(Fraction, costs))
    balance = Ledger(ledger.path).balance("census")
    assert balance.sums.total == total
    assert Fraction(balance.spent.pcost) >= total > Fraction(math.nextafter(balance.spent.pcost, 0))


def test_a_cost_may_be_said_in_its_own_currency(ledger: Ledger) -> None:
    """A bare number is 2ρ; whoever means ρ says so."""
    entries = [ledger.spend("census", cost) for cost in (zCDP(0.01), PureDP(0.1), GDP(0.1))]
    assert [entry.guarantee.rho for entry in entries] == pytest.approx([0.01, 0.005, 0.005])
    assert [entry.guarantee.law for entry in entries] == ["zcdp", "pure", "gaussian"]
    again = Ledger(ledger.path).entries("census")
    assert [entry.guarantee.pure_epsilon for entry in again] == [None, 0.1, None]
    with ledger.charge("census", zCDP(0.02)) as entry:
        pass
    assert entry.guarantee.rho == 0.02
    with pytest.raises(BudgetError, match="does not say what composes"):
        ledger.spend("census", ApproxDP(1.0, 1e-9))
    with pytest.raises(BudgetError, match="or zCDP"):
        ledger.spend("census", 0.01)  # type: ignore[arg-type]
