"""Releases on a ledger: charged before they are made, and looked up by those that build on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from noiseplan.errors import PlanError, remedy
from noiseplan.noise import NoiseSampler
from noiseplan.planning.plan import Plan
from noiseplan.privacy.people import PERSON
from noiseplan.queries import Workload
from noiseplan.release.provenance import BETWEEN
from noiseplan.texts import one_line

if TYPE_CHECKING:
    from noiseplan.ledger import Entry, Ledger
    from noiseplan.ledger.events import Reserved, Tables
    from noiseplan.release.release import Release

# Whose records are counted: as a column says, as nobody says, or as who made the counts knows.
Whose = Literal["persons", "nobody", "counts"]
# Charges of one plan may fall short of the cost it states by the rounding of what was left to pay,
# and by what matrices in integers measure less; each of them covered what was measured.
ROUNDING = Fraction(1, 10**7)
# Tables of a release that are kept in a ledger, and letters of a name.
MOST_TABLES: Final = 200
LONGEST_NAME: Final = 120


@dataclass(frozen=True, eq=False)
class Account:
    """The dataset of a ledger that bears releases; without a ledger, nothing is recorded.

    Every charge for noise goes through here, and here is where the noise must be private.
    """

    ledger: Ledger | None
    dataset: str = ""
    purpose: str = ""

    @classmethod
    def of(
        cls, ledger: Ledger | str | os.PathLike[str] | None, dataset: str | None, purpose: str = ""
    ) -> Account:
        """The account that a release names, checked for sense."""
        if ledger is None:
            if dataset is not None or purpose:
                raise PlanError(
                    "dataset= and purpose= belong to a ledger, and none was given: nothing would "
                    "be recorded. Add ledger=, or leave them out"
                )
            return cls(None)
        if dataset is None:
            raise PlanError(
                "name the dataset that is charged: release(data, ledger=…, dataset='…')"
            )
        return cls(_opened(ledger), dataset, purpose)

    def ask(self, plan: Plan, sampler: NoiseSampler, follows: str = "") -> None:
        """Refuse a release that would not be charged. Nothing is recorded, and no data needed."""
        if self.ledger is None:
            return
        from noiseplan.ledger import BudgetExceeded
        from noiseplan.ledger.errors import other_people, used_up

        require_private(sampler)
        charge = self._charge(plan, follows)
        try:
            balance = self.ledger.admit(charge)
        except BudgetExceeded as error:
            raise error.told_in(plan.budget) from None
        if balance.used_up and not follows:  # what completes a look was admitted with it
            raise used_up(charge.guarantee, balance)
        if balance.units and plan.unit not in balance.units:
            raise other_people(plan.unit, balance)

    def require_same_people(self, plan: Plan, whose: Whose) -> None:
        """Refuse records that do not add up with those of earlier releases, before any is read."""
        if self.ledger is not None:
            self.ledger.require_same_people(_told_whose(self._charge(plan, ""), plan, whose))

    @contextmanager
    def charged(
        self, plan: Plan, sampler: NoiseSampler, follows: str = "", whose: Whose = "counts"
    ) -> Iterator[str]:
        """Charge the ledger around the block that makes the release; where it is recorded.

        `follows` is where the look is recorded that the release completes, if its price is that of
        both together less the look's; the ledger sees to it that this happens once. `whose` are the
        records that are counted. What does not fit, or does not add up, is refused here once more,
        in the transaction that records the charge: others may have spent since it was asked.
        """
        if self.ledger is None:
            yield ""
            return
        require_private(sampler)
        act = replace(self._charge(plan, follows), tables=published(plan.workload))
        with self.ledger.charging(_told_whose(act, plan, whose)) as entry:
            yield _text(entry)

    def _charge(self, plan: Plan, follows: str) -> Reserved:
        """What is charged for a plan, and for whom."""
        from noiseplan.ledger.ledger import reserved

        completed = self._entry(follows)
        act = reserved(
            self.dataset, plan.privacy, self.purpose, plan.hash(), plan.max_rows, completed
        )
        unit = None if plan.unit == PERSON else plan.unit
        return replace(act, unit=unit)

    def note_refusal(self, plan: Plan, kind: str, detailed: bool) -> None:
        """Enter that the data were refused, before anybody is told so."""
        if self.ledger is not None:
            self.ledger.note_refusal(
                self.dataset, kind, details=detailed, purpose=self.purpose, plan_hash=plan.hash()
            )

    def note_check(self, plan: Plan, found: str, detailed: bool) -> str:
        """Enter that the data were read without a release, before anybody is told what was found.

        Where it is recorded; nothing where there is no ledger.
        """
        if self.ledger is None:
            return ""
        self.ledger.note_check(
            self.dataset, found, details=detailed, purpose=self.purpose, plan_hash=plan.hash()
        )
        return f"dataset {self.dataset!r} of {self.ledger.path.name}"

    def require_first(self, plan: Plan, built_on: str = "") -> None:
        """Refuse a plan that was released of this dataset before, and is charged once more."""
        from noiseplan.ledger.errors import AlreadyReleased

        same = _of_this_plan(plan, _but_for(built_on, self._entries()))
        if same:
            raise AlreadyReleased(
                f"{_named(same)} was charged for this very plan, and that release answers at no "
                f"cost. A second one costs as much again, with other numbers. Nothing was spent. "
                f"To make it all the same: " + remedy("release again", "again=True")
            )

    def disagreeing(self, plan: Plan, built_on: str = "") -> list[str]:
        """Return what is to be said of earlier releases that the plan is not built on."""
        every = self._entries()
        others = _but_for(built_on, every)
        said = self._earlier(plan, others, not built_on) if others else []
        return said + self._other_units(plan, every)

    def _entries(self) -> list[Entry]:
        """The releases of the dataset that did not fail."""
        every = [] if self.ledger is None else self.ledger.entries(self.dataset)
        return [entry for entry in every if entry.status != "failed"]

    def _earlier(self, plan: Plan, entries: list[Entry], alone: bool) -> list[str]:
        """Return a warning of earlier releases; `alone`: the plan continues no release yet."""
        same = _of_this_plan(plan, entries)
        if same:
            return [
                f"{_named(same)} released this very plan: every table will be there twice, with "
                f"noise of its own and so with other numbers. The earlier release answers at no "
                f"cost"
            ]
        said = (
            f"{_named(entries)} is an earlier release of this dataset; its numbers and these will "
            f"differ"
        )
        # Only one release is continued, and none with Laplace noise.
        laplace = plan.privacy.laplace or all(entry.cost.laplace for entry in entries)
        build = alone and not laplace
        return [said + f". Continue it instead: {_how_to_build(plan)}" * build]

    def _other_units(self, plan: Plan, entries: list[Entry]) -> list[str]:
        """Whether earlier releases were for others than this one: persons, households."""
        others = dict.fromkeys(
            entry.unit for entry in entries if entry.stated_unit not in (None, plan.unit)
        )
        if not others:
            return []
        return [
            f"earlier releases were priced for a {' and a '.join(others)}, and this one is for a "
            f"{plan.unit}: the budget adds up costs for both, and to the smaller of them those of "
            f"the larger may be worth four times as much"
        ]

    def _entry(self, follows: str) -> Entry | None:
        """The last entry of a release that was made in one step or more."""
        if not follows or self.ledger is None:
            return None
        for entry in self.ledger.entries(self.dataset):
            if follows.endswith(_text(entry)):
                return entry
        raise PlanError(
            f"the look is not on record in this ledger (it is {follows}), and only what is left "
            f"would be charged: nothing was measured. Use the ledger that the look was charged to"
        )


def require_charged(
    earlier: Release, ledger: Ledger | str | os.PathLike[str], dataset: str | None
) -> None:
    """Refuse to build on a release whose cost this dataset does not bear.

    What is left of a plan is charged on its own; with the earlier release in another ledger, or in
    none, the dataset would show less than was spent on its people.
    """
    if dataset is None:
        raise PlanError("name the dataset that is charged: release(data, ledger=…, dataset='…')")
    entries = [e for e in _opened(ledger).entries(dataset) if _text(e) in earlier.recorded]
    on_record = BETWEEN.join(map(_text, entries))
    paid = sum((Fraction(entry.guarantee.pcost) for entry in entries), Fraction(0))
    cost = Fraction(earlier.plan.privacy.pcost) * (1 - ROUNDING)
    if on_record != earlier.recorded or not on_record or paid < cost:
        raise PlanError(
            f"the earlier release is not charged to dataset {dataset!r} of this ledger (it is "
            f"{earlier.recorded or 'not recorded at all'}), and only what is left would be. Use "
            f"the ledger and dataset of the earlier release, or release the whole plan: "
            + remedy("whole plan", f"plan.release(data, ledger=…, dataset={dataset!r})")
        )


def _told_whose(act: Reserved, plan: Plan, whose: Whose) -> Reserved:
    """The charge with what is known of whose records one of each is, or that nothing is."""
    if plan.max_rows > 1:  # said by the number
        return act
    if whose == "persons" or plan.owned:
        return replace(act, unit=plan.unit)
    return replace(act, of_nobody=True) if whose == "nobody" and act.unit is None else act


def published(workload: Workload) -> Tables:
    """Return the first tables of a workload for a ledger: of each its name and its attributes."""
    some = islice(workload, MOST_TABLES)
    return tuple(
        tuple(one_line(text, LONGEST_NAME) for text in (query.name, *query.attributes))
        for query in some
    )


def _opened(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    from noiseplan.ledger import Ledger

    return ledger if isinstance(ledger, Ledger) else Ledger(ledger)


def _of_this_plan(plan: Plan, entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.plan_hash == plan.hash()]


def _but_for(built_on: str, entries: list[Entry]) -> list[Entry]:
    """The entries of releases that a plan is not built on."""
    return [entry for entry in entries if _text(entry) not in built_on.split(BETWEEN)]


def _named(entries: list[Entry]) -> str:
    last = entries[-1]
    purpose = f" ({last.purpose})" if last.purpose else ""
    others = f", and {len(entries) - 1} before it," if len(entries) > 1 else ""
    return f"entry {last.id} of {last.time[:10]}{purpose}{others}"


def _how_to_build(plan: Plan) -> str:
    if plan.max_rows == 1:
        return "noiseplan release --given FOLDER, or plan.given(earlier) in Python"
    return (
        "plan.given(earlier) in Python, in the program that made it,\nsince records of one unit "
        "are chosen at random and no file keeps which"
    )


def _text(entry: Entry) -> str:
    return f"entry {entry.id} of dataset {entry.dataset!r}, charged {entry.time}"


def require_private(sampler: NoiseSampler) -> None:
    """Refuse to record a release whose noise protects nobody, whatever it is called."""
    if not sampler.private:
        raise PlanError(
            f"a ledger records releases to be published, and this one has {sampler.brand}: plan "
            f"with the default noise and "
            + remedy("seed or ledger", "leave out seed= to publish, or ledger= to test")
        )
