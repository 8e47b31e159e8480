"""The privacy unit: one record, or so many of one person; both only where a bound is on record."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from ledger_helpers import discrete, rows

from noiseplan.errors import BudgetError
from noiseplan.ledger import AlreadyFollowed, Balance, BudgetExceeded, Ledger, LedgerError
from noiseplan.ledger.events import Reserved, act_json, read_act
from noiseplan.privacy import GDP, Guarantee, zCDP

OLD = "visits (one person, at most 3 records)"


def charged_before(ledger: Ledger, purpose: str) -> None:
    """A charge as the first ledgers wrote it: the unit is part of the purpose."""
    ledger._history.add(lambda _: Reserved("census", discrete(0.1), purpose, "", None))


@pytest.mark.parametrize(("first", "second"), [(1, 2), (3, 1), (2, 3)])
def test_units_are_not_mixed(ledger: Ledger, first: int, second: int) -> None:
    entry = ledger.spend("census", discrete(0.1), max_rows=first)
    assert (entry.max_rows, ledger.balance("census").max_rows) == (first, first)
    before = ledger.head()
    with pytest.raises(BudgetError, match=r"such costs do not add up, and nothing was recorded"):
        ledger.spend("census", discrete(0.1), max_rows=second)
    assert ledger.head() == before
    ledger.spend("census", discrete(0.1), max_rows=first)
    assert Ledger(ledger.path).balance("census").max_rows == first


def test_every_dataset_has_a_unit_of_its_own(ledger: Ledger) -> None:
    ledger.open_dataset("visits", zCDP(1.0))
    ledger.spend("census", discrete(0.1))
    ledger.spend("visits", discrete(0.1), max_rows=4)
    assert "at most 4 records" in str(ledger)
    assert json.loads(ledger.export())["datasets"][1]["max_rows"] == 4
    lines = ledger.export("csv").splitlines()
    column = lines[0].split(",").index("max_rows")
    assert [line.split(",")[column] for line in lines[-2:]] == ["1", "4"]


def test_threads_that_charge_at_once_agree_on_a_unit(ledger: Ledger) -> None:
    def charge(number: int) -> int | None:
        try:
            return (
                Ledger(ledger.path)
                .spend("census", discrete(0.001), max_rows=1 + number % 3)
                .max_rows
            )
        except BudgetError:
            return None

    with ThreadPoolExecutor(8) as threads:
        units = {unit for unit in threads.map(charge, range(24)) if unit is not None}
    assert len(units) == 1
    assert {entry.max_rows for entry in ledger.entries()} == units


class TestBounds:
    """How many records one person has in the data, on record: costs are added up for a person."""

    @pytest.mark.parametrize(
        ("bound", "unit", "steps"),
        [(3, 1, 3), (5, 2, 3), (4, 2, 2), (3, 3, 1), (2, 7, 1), (1, 4, 1)],
    )
    def test_costs_grow_with_the_square_of_the_steps(
        self, ledger: Ledger, bound: int, unit: int, steps: int
    ) -> None:
        ledger.open_dataset("visits", zCDP(100.0), max_rows=bound)
        entry = ledger.spend("visits", discrete(0.1), max_rows=unit)
        spent = Fraction(0.1) * steps**2
        assert ledger.balance("visits").sums.total == spent
        assert (entry.max_rows, entry.factor, entry.guarantee.pcost) == (unit, steps**2, 0.1)
        assert entry.cost.pcost >= spent
        assert Ledger(ledger.path).entries("visits") == ledger.entries("visits")
        assert ledger.entries("visits")[0].cost == entry.cost
        assert ledger.balance("visits").max_rows == bound
        ledger.spend("visits", discrete(0.2), max_rows=bound)
        assert ledger.balance("visits").sums.total == spent + Fraction(0.2)

    def test_group_privacy_is_that_of_gaussian_noise(self) -> None:
        """An independent count: a person's b records move a mean by b, one record by 1."""
        balance = replace(Balance.opened("visits", zCDP(100.0)), bound=4)
        one_record = Fraction(1, 8)  # 1/σ² with σ² = 8
        whole_person = Fraction(4) ** 2 * one_record
        assert balance.factor(1) * one_record == whole_person

    def test_a_bound_declared_later_converts_what_was_spent(self, ledger: Ledger) -> None:
        first = ledger.spend("census", discrete(0.01))
        with pytest.raises(BudgetError, match="do not add up") as error:
            ledger.spend("census", discrete(0.02), max_rows=3)
        assert "another dataset" not in str(error.value)
        assert "ledger.change_budget('census', …, reason=…, max_rows=…)" in str(error.value)
        budget = ledger.balance("census").budget
        ledger.change_budget("census", budget, reason="at most three visits", max_rows=3)
        ledger.spend("census", discrete(0.02), max_rows=3)
        again = Ledger(ledger.path)
        assert again.balance("census").sums.total == 9 * Fraction(0.01) + Fraction(0.02)
        assert [entry.factor for entry in again.entries()] == [9, 1]
        assert again.entries()[0].id == first.id
        assert "one person, at most 3 records" in str(again.balance("census"))
        again.verify()

    def test_what_was_spent_must_fit_as_converted(self, ledger: Ledger) -> None:
        budget = ledger.balance("census").budget
        ledger.spend("census", discrete(1.0))
        before = ledger.head()
        with pytest.raises(BudgetError, match=r"ρ = 0\.5 already.* for one person, at most 3"):
            ledger.change_budget("census", budget, reason="three visits", max_rows=3)
        assert ledger.head() == before

    def test_a_bound_is_not_lowered(self, ledger: Ledger) -> None:
        ledger.open_dataset("visits", zCDP(1.0), max_rows=3)
        with pytest.raises(BudgetError, match="declared to hold up to 3 records of one person"):
            ledger.change_budget("visits", zCDP(1.0), reason="fewer", max_rows=2)
        ledger.change_budget("visits", zCDP(1.0), reason="more", max_rows=5)
        ledger.change_budget("visits", zCDP(2.0), reason="the budget alone")
        assert ledger.balance("visits").bound == 5

    def test_opening_again_states_the_same_bound(self, ledger: Ledger) -> None:
        ledger.open_dataset("visits", zCDP(1.0), max_rows=3)
        before = ledger.head()
        ledger.open_dataset("visits", zCDP(1.0))
        ledger.open_dataset("visits", zCDP(1.0), max_rows=3)
        assert ledger.head() == before
        with pytest.raises(LedgerError, match="is open with the budget"):
            ledger.open_dataset("visits", zCDP(1.0), max_rows=4)

    def test_records_of_a_person_may_be_replaced(self, ledger: Ledger) -> None:
        ledger.open_dataset("visits", zCDP(1.0), neighbours="replace", max_rows=2)
        assert ledger.balance("visits").neighbours == "replace"

    def test_what_fits_is_said_for_the_unit_that_was_asked(self, ledger: Ledger) -> None:
        ledger.open_dataset("visits", zCDP(0.9), max_rows=3)
        with pytest.raises(BudgetExceeded, match=r"asked ρ = 4.5 for one person, at m") as error:
            ledger.spend("visits", discrete(1.0))
        assert error.value.fits is not None
        assert error.value.fits.rho == pytest.approx(0.1, rel=1e-12)
        ledger.spend("visits", discrete(2 * error.value.fits.rho))
        again = pickle.loads(pickle.dumps(error.value))
        assert again.fits == error.value.fits

    def test_other_accountants_are_told_the_converted_cost(self, ledger: Ledger) -> None:
        ledger.open_dataset("visits", zCDP(5.0), max_rows=2)
        ledger.spend("visits", discrete(0.5))
        told = json.loads(ledger.export("dp-accounting", "visits"))["datasets"]["visits"]
        assert [event["rho"] for event in told] == [1.0]

    def test_rows_without_a_bound_are_written_as_before(self, ledger: Ledger) -> None:
        ledger.change_budget("census", zCDP(3.0), reason="more")
        assert all("max_rows" not in row for row in rows(ledger.path))


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3"])
def test_what_is_no_bound_is_refused(ledger: Ledger, wrong: object) -> None:
    with pytest.raises(BudgetError, match="max_rows is how many records"):
        ledger.open_dataset("visits", zCDP(1.0), max_rows=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3", None])
def test_what_is_no_number_of_records_is_refused(ledger: Ledger, wrong: object) -> None:
    with pytest.raises(BudgetError, match="max_rows is how many records"):
        ledger.spend("census", discrete(0.1), max_rows=wrong)  # type: ignore[arg-type]


class TestOldLedgers:
    """Rows without the field, which say the unit in their purpose, and were not checked for it."""

    def test_they_open_and_go_on_with_their_unit(self, ledger: Ledger) -> None:
        charged_before(ledger, OLD)
        assert "max_rows" not in rows(ledger.path)[-1]
        again = Ledger(ledger.path)
        assert [entry.max_rows for entry in again.entries()] == [3]
        with pytest.raises(BudgetError, match="charged for one person, at most 3 records"):
            again.spend("census", discrete(0.1))
        again.spend("census", discrete(0.1), max_rows=3)
        assert again.verify().count == 4

    @pytest.mark.parametrize("purposes", [("tables", OLD), (OLD, "tables")])
    def test_a_mixture_protects_the_fewest_records(
        self, ledger: Ledger, purposes: tuple[str, str]
    ) -> None:
        for purpose in purposes:
            charged_before(ledger, purpose)
        again = Ledger(ledger.path)
        assert sorted(entry.max_rows for entry in again.entries()) == [1, 3]
        assert again.balance("census").max_rows == 1
        with pytest.raises(BudgetError, match="charged for one record"):
            again.spend("census", discrete(0.1), max_rows=3)
        again.spend("census", discrete(0.1), max_rows=1)
        assert Ledger(ledger.path).balance("census").max_rows == 1

    def test_what_a_purpose_says_counts_only_there(self, ledger: Ledger) -> None:
        ledger.spend("census", discrete(0.1), purpose=OLD)
        assert rows(ledger.path)[-1]["max_rows"] == 1
        assert ledger.balance("census").max_rows == 1


class TestFollowing:
    """The price of what is left after an entry holds once, whoever asks for it."""

    def test_an_entry_is_followed_once(self, ledger: Ledger) -> None:
        first = ledger.spend("census", discrete(0.1))
        second = ledger.spend("census", discrete(0.1), follows=first)
        assert (second.follows, first.follows) == (first.id, None)
        before = ledger.head()
        for opened in (ledger, Ledger(ledger.path)):
            with pytest.raises(AlreadyFollowed, match=f"entry {first.id} of dataset 'census'"):
                opened.spend("census", discrete(0.1), follows=first.id)
        assert ledger.head() == before
        assert ledger.spend("census", discrete(0.1), follows=second).follows == second.id
        assert [entry.follows for entry in Ledger(ledger.path).entries()][:2] == [None, first.id]

    @pytest.mark.parametrize("pure", [0, 1])
    def test_pure_dp_is_not_charged_by_differences(self, ledger: Ledger, pure: int) -> None:
        """Of two halves of ε a pair of neighbours may get nothing by the first, all by the second,
        and squares add up to half of what that costs."""
        costs = [discrete(0.1), discrete(0.1)]
        costs[pure] = Guarantee.pure(0.1)
        first = ledger.spend("census", costs[0])
        before = ledger.head()
        with pytest.raises(BudgetError, match="not for pure DP"):
            ledger.spend("census", costs[1], follows=first)
        assert ledger.head() == before
        ledger.spend("census", costs[1])

    def test_differences_are_for_as_many_records(self, ledger: Ledger) -> None:
        """Of three records that one price counts and the other does not, little would be left."""
        ledger.open_dataset("visits", zCDP(9.0), max_rows=3)
        first = ledger.spend("visits", discrete(0.9), max_rows=3)
        with pytest.raises(BudgetError, match="3 records of one person, and what completes it of"):
            ledger.spend("visits", discrete(0.1), max_rows=1, follows=first)
        ledger.spend("visits", discrete(0.1), max_rows=3, follows=first)

    def test_a_difference_of_mu2_alone_is_charged(self, ledger: Ledger) -> None:
        """A second measurement with less noise per number, of records that paid less before, leaves
        2ρ as it was and raises the lattice loss by which all of it is priced."""
        ledger.open_dataset("visits", GDP(1.0))
        first = ledger.spend("visits", Guarantee(0.5, "zcdp", mu2=0.5))
        with pytest.raises(BudgetExceeded):
            ledger.spend("visits", Guarantee(0.0, "zcdp", mu2=0.6), follows=first)
        with pytest.raises(BudgetError, match="is all that is known"):
            ledger.spend("visits", Guarantee(0.0, "zcdp"), follows=first)
        ledger.spend("visits", Guarantee(0.0, "zcdp", mu2=0.25), follows=first)
        assert ledger.balance("visits").sums.total == Fraction(3, 4)
        ledger.spend("visits", Guarantee(0.0, "zcdp"))  # by itself it tells nothing

    def test_a_failed_follower_is_one(self, ledger: Ledger) -> None:
        first = ledger.spend("census", discrete(0.1))
        with (
            pytest.raises(ZeroDivisionError),
            ledger.charge("census", discrete(0.1), follows=first),
        ):
            raise ZeroDivisionError
        with pytest.raises(AlreadyFollowed):
            ledger.spend("census", discrete(0.1), follows=first)

    def test_what_does_not_fit_follows_nothing(self, ledger: Ledger) -> None:
        first = ledger.spend("census", discrete(0.1))
        with pytest.raises(BudgetError):
            ledger.spend("census", discrete(1e6), follows=first)
        ledger.spend("census", discrete(0.1), follows=first)

    def test_entries_of_others_are_not_followed(self, ledger: Ledger) -> None:
        ledger.open_dataset("visits", zCDP(1.0))
        first = ledger.spend("census", discrete(0.1))
        with pytest.raises(LedgerError, match="belongs to 'census'"):
            ledger.spend("visits", discrete(0.1), follows=first)
        with pytest.raises(LedgerError, match="no entry 99"):
            ledger.spend("census", discrete(0.1), follows=99)
        before = ledger.head()
        for wrong in (True, float(first.id), str(first.id)):
            with pytest.raises(LedgerError, match="follows is an entry or its number"):
                ledger.spend("census", discrete(0.1), follows=wrong)  # type: ignore[arg-type]
        assert ledger.head() == before


@pytest.mark.parametrize("wrong", [0, -3, 1.0, True, "2", None])
def test_rows_with_a_wrong_unit_are_not_read(wrong: object) -> None:
    act = Reserved("census", discrete(0.1), "", "", 2)
    assert read_act(act_json(act)) == act
    with pytest.raises(ValueError, match="max_rows is"):
        read_act({**act_json(act), "max_rows": wrong})


def test_a_balance_without_entries_has_no_unit_yet(folder: Path) -> None:
    ledger = Ledger(folder / "budget.ledger", create=True)
    assert ledger.open_dataset("census", zCDP(1.0)).max_rows is None
