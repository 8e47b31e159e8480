"""Any sequence of calls, against a model with plain dictionaries and exact fractions."""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from ledger_helpers import MEMORY

from depth import examples
from noiseplan.errors import BudgetError
from noiseplan.ledger import BudgetExceeded, Head, Ledger, LedgerError, UnknownDataset
from noiseplan.privacy import (
    GDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbours,
    gaussian_pcost,
    zCDP,
    zcdp_rho,
)

BUDGETS = st.sampled_from(
    [zCDP(0.5), zCDP(1.0), GDP(1.0), GDP(1.5), ApproxDP(5.0, 1e-6), ApproxDP(0.5, 1e-9)]
)
NEIGHBOURS = st.sampled_from(["add-remove", "replace"])
AMOUNTS = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 1.0, 1e-17, 0.003])
GUARANTEES = st.one_of(
    st.builds(Guarantee, AMOUNTS, st.sampled_from(["gaussian", "zcdp"]), NEIGHBOURS),
    st.builds(lambda x, of: Guarantee(x, "zcdp", of, mu2=1.25 * x), AMOUNTS, NEIGHBOURS),
    st.builds(Guarantee.pure, AMOUNTS, NEIGHBOURS),
)
BOUNDS = st.sampled_from([None, 2, 3, 4])
Charge = tuple[Guarantee, int]  # and for how many records of a person


@dataclass
class Sums:
    """What a list of charges comes to, by the rules in plain words."""

    rule: str
    aside: Fraction
    total: Fraction


def epsilon_of(each: Guarantee) -> Fraction | None:
    return None if each.pure_epsilon is None else Fraction(each.pure_epsilon)


def mu2_of(each: Guarantee) -> Fraction | None:
    return None if each.mu2 is None else Fraction(each.mu2)


def summed(budget: Budget, bound: int | None, charges: list[Charge]) -> Sums | None:
    """Every way to cut the list in two, the first part aside; None if none of them fits."""
    paid = [
        (each, 1 if bound is None else math.ceil(Fraction(bound, rows)))
        for each, rows in charges
        if each.pcost > 0
    ]
    if isinstance(budget, zCDP):
        total = sum((Fraction(e.pcost) * s**2 for e, s in paid), Fraction(0))
        return Sums("zcdp", Fraction(0), total) if total <= 2 * Fraction(budget.rho) else None
    if isinstance(budget, GDP):
        found = [mu2_of(e) for e, _ in paid]
        if None in found:
            return None
        total = sum((mu2_of(e) or 0) * s**2 for e, s in paid) + Fraction(0)
        fits = total <= Fraction(budget.gaussian_pcost())
        return Sums("curve", Fraction(0), total) if fits else None
    assert isinstance(budget, ApproxDP)
    first = aside = Fraction(0)
    cut = 0
    for each, steps in paid:
        epsilon = epsilon_of(each)
        first = aside + (epsilon or 0) * steps
        if epsilon is None or first > Fraction(budget.epsilon):
            break
        cut, aside = cut + 1, first
    rest = paid[cut:]
    if not rest:
        return Sums("aside", aside, Fraction(0))
    left = Fraction(budget.epsilon) - aside
    if left <= 0:
        return None
    below = float(left) if Fraction(float(left)) <= left else math.nextafter(float(left), 0)
    most = Fraction(gaussian_pcost(below, budget.delta))
    rho2 = 2 * Fraction(zcdp_rho(below, budget.delta))
    steps, mu2 = rest[0][1], mu2_of(rest[0][0])
    if mu2 is not None and mu2 * steps**2 <= most:
        if any(mu2_of(e) is None for e, _ in rest):
            return None
        total = sum((mu2_of(e) or 0) * s**2 for e, s in rest) + Fraction(0)
        return Sums("curve", aside, total) if total <= most else None
    total = sum(Fraction(e.pcost) * s**2 for e, s in rest) + Fraction(0)
    return Sums("zcdp", aside, total) if total <= rho2 else None


@dataclass
class Dataset:
    """What the model knows: everything is recomputed from the list of charges."""

    budget: Budget
    neighbours: Neighbours
    bound: int | None
    charges: dict[int, tuple[Guarantee, int, str]] = field(default_factory=dict)

    def sums(self, budget: Budget, bound: int | None, *extra: Charge) -> Sums | None:
        known = [(guarantee, rows) for guarantee, rows, _ in self.charges.values()]
        return summed(budget, bound, [*known, *extra])


class LedgerMachine(RuleBasedStateMachine):
    """Two objects on one file take turns, as two processes would."""

    entries: Bundle[int] = Bundle("entries")

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        path = self.folder / "a.ledger"
        self.ledgers = [Ledger(path, create=True), Ledger(path)]
        self.model: dict[str, Dataset] = {}
        self.heads: list[Head] = []

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.ledgers[0].verify(self.heads[-1] if self.heads else None)
            shutil.rmtree(self.folder)

    @property
    def ledger(self) -> Ledger:
        self.ledgers.reverse()
        return self.ledgers[0]

    @rule(name=st.sampled_from("ab"), budget=BUDGETS, neighbours=NEIGHBOURS, bound=BOUNDS)
    def open_dataset(
        self, name: str, budget: Budget, neighbours: Neighbours, bound: int | None
    ) -> None:
        known = self.model.get(name)
        try:
            self.ledger.open_dataset(name, budget, neighbours=neighbours, max_rows=bound)
        except LedgerError:
            assert known is not None
            same = (known.budget, known.neighbours) == (budget, neighbours)
            assert not same or bound not in (None, known.bound)
        else:
            self.model.setdefault(name, Dataset(budget, neighbours, bound))
            assert self.model[name].budget == budget

    @rule(name=st.sampled_from("abc"), budget=BUDGETS, bound=BOUNDS)
    def change_budget(self, name: str, budget: Budget, bound: int | None) -> None:
        known = self.model.get(name)
        try:
            self.ledger.change_budget(name, budget, reason="because", max_rows=bound)
        except UnknownDataset:
            assert known is None
        except BudgetError:
            assert known is not None
            lowered = bound is not None and bound < (known.bound or 0)
            assert lowered or known.sums(budget, bound or known.bound) is None
        else:
            assert known is not None
            known.budget, known.bound = budget, bound or known.bound
            assert known.sums(budget, known.bound) is not None

    @rule(target=entries, name=st.sampled_from("abc"), guarantee=GUARANTEES, rows=st.integers(1, 4))
    def spend(self, name: str, guarantee: Guarantee, rows: int) -> int:
        known = self.model.get(name)
        rows = 1 if known is None or known.bound is None else rows
        try:
            entry = self.ledger.spend(name, guarantee, max_rows=rows)
        except UnknownDataset:
            assert known is None
        except BudgetError as error:
            assert known is not None
            alike = guarantee.neighbours == known.neighbours
            if alike:
                assert known.sums(known.budget, known.bound, (guarantee, rows)) is None
            before = known.sums(known.budget, known.bound)
            assert before is not None
            shown = before.rule != "curve" or guarantee.mu2 is not None
            assert isinstance(error, BudgetExceeded) == (alike and shown)
        else:
            assert known is not None
            assert guarantee.neighbours == known.neighbours
            known.charges[entry.id] = (guarantee, rows, "reserved")
            assert known.sums(known.budget, known.bound) is not None
            return entry.id
        return 0

    @rule(number=entries, fail=st.booleans())
    def settle(self, number: int, fail: bool) -> None:
        outcome = "failed" if fail else "released"
        owner = next((each for each in self.model.values() if number in each.charges), None)
        ledger = self.ledger
        try:
            (ledger.mark_failed if fail else ledger.mark_released)(number)
        except LedgerError:
            assert owner is None or owner.charges[number][2] != "reserved"
        else:
            assert owner is not None
            guarantee, rows, status = owner.charges[number]
            assert status == "reserved"
            owner.charges[number] = (guarantee, rows, outcome)

    @rule()
    def note_the_head(self) -> None:
        head = self.ledger.head()
        for earlier in self.heads:
            self.ledger.verify(earlier)
        self.heads.append(head)

    @rule()
    def open_anew(self) -> None:
        self.ledgers[0] = Ledger(self.ledgers[0].path)

    @invariant()
    def agrees(self) -> None:
        ledger = self.ledger
        assert set(ledger.datasets()) == set(self.model)
        for name, known in self.model.items():
            balance = ledger.balance(name)
            assert (balance.budget, balance.neighbours) == (known.budget, known.neighbours)
            sums = known.sums(known.budget, known.bound)
            assert sums == Sums(balance.rule, balance.sums.aside, balance.sums.total)
            assert balance.entries == len(known.charges)
            found = {e.id: (e.guarantee, e.max_rows, e.status) for e in ledger.entries(name)}
            assert found == known.charges


LedgerMachine.TestCase.settings = examples(25, stateful_step_count=30)
TestLedger = LedgerMachine.TestCase
