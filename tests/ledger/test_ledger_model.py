"""Any sequence of calls, against a model with plain dictionaries and exact fractions."""

from __future__ import annotations

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
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Neighbours, zCDP

BUDGETS = st.sampled_from([zCDP(0.5), zCDP(1.0), GDP(1.0), GDP(1.5), ApproxDP(5.0, 1e-6)])
NEIGHBOURS = st.sampled_from(["add-remove", "replace"])
GUARANTEES = st.builds(
    Guarantee,
    st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 1.0, 1e-17]),
    st.sampled_from(["gaussian", "zcdp"]),
    NEIGHBOURS,
)


@dataclass
class Dataset:
    """What the model knows: everything is recomputed from the list of charges."""

    budget: Budget
    neighbours: Neighbours
    charges: dict[int, tuple[Guarantee, str]] = field(default_factory=dict)

    def within(self, budget: Budget, extra: Guarantee | None = None) -> bool:
        guarantees = [guarantee for guarantee, _ in self.charges.values()]
        guarantees += [] if extra is None else [extra]
        total = sum((Fraction(each.pcost) for each in guarantees), Fraction(0))
        if any(each.law == "zcdp" for each in guarantees):
            if isinstance(budget, GDP):
                return extra is None and total == 0
            return total <= 2 * Fraction(budget.zcdp_rho())
        return total <= Fraction(budget.gaussian_pcost())


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

    @rule(name=st.sampled_from("ab"), budget=BUDGETS, neighbours=NEIGHBOURS)
    def open_dataset(self, name: str, budget: Budget, neighbours: Neighbours) -> None:
        known = self.model.get(name)
        try:
            self.ledger.open_dataset(name, budget, neighbours=neighbours)
        except LedgerError:
            assert known is not None
            assert (known.budget, known.neighbours) != (budget, neighbours)
        else:
            self.model.setdefault(name, Dataset(budget, neighbours))
            assert self.model[name].budget == budget

    @rule(name=st.sampled_from("abc"), budget=BUDGETS)
    def change_budget(self, name: str, budget: Budget) -> None:
        known = self.model.get(name)
        try:
            self.ledger.change_budget(name, budget, reason="because")
        except UnknownDataset:
            assert known is None
        except BudgetError:
            assert known is not None
            assert not known.within(budget)
        else:
            assert known is not None
            assert known.within(budget)
            known.budget = budget

    @rule(target=entries, name=st.sampled_from("abc"), guarantee=GUARANTEES)
    def spend(self, name: str, guarantee: Guarantee) -> int:
        known = self.model.get(name)
        try:
            entry = self.ledger.spend(name, guarantee)
        except UnknownDataset:
            assert known is None
        except BudgetError as error:
            assert known is not None
            alike = guarantee.neighbours == known.neighbours
            assert not (alike and known.within(known.budget, guarantee))
            shown = not (guarantee.law == "zcdp" and isinstance(known.budget, GDP))
            assert isinstance(error, BudgetExceeded) == (alike and shown)
        else:
            assert known is not None
            assert guarantee.neighbours == known.neighbours
            assert known.within(known.budget, guarantee)
            known.charges[entry.id] = (guarantee, "reserved")
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
            assert owner is None or owner.charges[number][1] != "reserved"
        else:
            assert owner is not None
            guarantee, status = owner.charges[number]
            assert status == "reserved"
            owner.charges[number] = (guarantee, outcome)

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
            guarantees = [guarantee for guarantee, _ in known.charges.values()]
            assert (balance.budget, balance.neighbours) == (known.budget, known.neighbours)
            assert balance.total == sum(Fraction(each.pcost) for each in guarantees)
            assert balance.spent == Guarantee(0.0, neighbours=known.neighbours).compose(*guarantees)
            assert balance.entries == len(guarantees)
            found = {each.id: (each.guarantee, each.status) for each in ledger.entries(name)}
            assert found == known.charges


LedgerMachine.TestCase.settings = examples(25, stateful_step_count=30)
TestLedger = LedgerMachine.TestCase
