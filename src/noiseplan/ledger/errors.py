"""What can go wrong with a ledger. Unless the message says otherwise, nothing was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from noiseplan.errors import BudgetError, Message, NoiseplanError, PlanError, remedy
from noiseplan.ledger.balance import Balance, cost_text, fitting, left_text, spent_text, times
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, zCDP
from noiseplan.privacy.people import PERSON, unit_text

if TYPE_CHECKING:
    from noiseplan.ledger.events import Reserved
    from noiseplan.ledger.state import Entry

BETWEEN: Final = ";\n  "
# The option of a command that states a budget, by its currency.
OPTIONS: Final[dict[type[Budget], str]] = {
    zCDP: "--zcdp RHO",
    GDP: "--gdp MU",
    ApproxDP: "--approx-dp EPSILON DELTA",
}


class LedgerError(NoiseplanError, RuntimeError):
    """The ledger cannot be used as asked: its file, its names or the order of calls.

    Examples
    --------
    >>> from noiseplan.ledger import Ledger
    >>> try:
    ...     Ledger("not there/budget.ledger")
    ... except LedgerError as error:
    ...     print("not there" in str(error))
    True
    """


class LedgerDamaged(LedgerError):
    """The file is not the history that was written: edited, truncated, or broken by its disk.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Head, Ledger
    >>> from noiseplan.privacy import zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     head = ledger.head()
    ...     try:
    ...         ledger.verify(expected_head=Head(head.count, "0" * 64))
    ...     except LedgerDamaged as error:
    ...         print("budget.ledger" in str(error))
    True
    """


class LedgerBusy(LedgerError, TimeoutError):
    """Other processes held the ledger for longer than its timeout.

    Examples
    --------
    >>> issubclass(LedgerBusy, TimeoutError)  # worth another try
    True
    """


class UnknownDataset(LedgerError, LookupError):
    """The ledger has no dataset of that name.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     try:
    ...         ledger.balance("cencus")
    ...     except UnknownDataset as error:
    ...         print("'census'" in str(error))
    True
    """


class AlreadyFollowed(LedgerError):
    """An entry was completed before at the price of what was left to pay, which holds once.

    Examples
    --------
    >>> issubclass(AlreadyFollowed, LedgerError)  # charge what it costs on its own instead
    True
    """


class AlreadyReleased(LedgerError):
    """The plan was released of the dataset before, and a second release was not asked for.

    Examples
    --------
    >>> issubclass(AlreadyReleased, LedgerError)  # the first release answers at no cost
    True
    """


class BudgetExceeded(BudgetError):
    """A release does not fit in what is left of a dataset's budget; nothing was recorded.

    Attributes
    ----------
    asked
        The guarantee of the release that was refused.
    spent
        The guarantee of everything charged before it.
    fits
        What is left as a budget to plan with, rounded down; None if nothing is. Of what completes
        an earlier release it is what the rest may cost, and the whole plan may cost more.
    balance
        The dataset's budget and what is spent of it.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     try:
    ...         ledger.spend("census", Guarantee(4.0, law="zcdp"), purpose="too much")
    ...     except BudgetExceeded as error:
    ...         print(error.asked.rho, error.fits)
    2.0 ρ = 1 (zCDP)
    """

    def __init__(
        self, message: str, asked: Guarantee, balance: Balance, max_rows: int | None = None
    ) -> None:
        super().__init__(message)
        self.asked = asked
        self.balance = balance
        self._max_rows = max_rows

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[object, ...]]:
        # So that it survives the way out of a worker process.
        return BudgetExceeded, (self.message, self.asked, self.balance, self._max_rows)

    @property
    def spent(self) -> Guarantee:
        return self.balance.spent

    @property
    def fits(self) -> Budget | None:
        return self.balance.left(self._max_rows)

    def told_in(self, currency: Budget | None) -> BudgetExceeded:
        """Return the same refusal in the currency of the budget that was planned with."""
        advice = _fitting_plan(self.asked, self.balance, self._max_rows or 1, currency)
        return self._told(currency, advice)

    def told_for_rest_of(
        self, currency: Budget | None, whole: tuple[str, str] | None
    ) -> BudgetExceeded:
        """Return the same refusal of what is left of a plan after an earlier release.

        `whole` is the budget of a plan of which what is left would fit, as a call and as a line of
        a study, where one is known.
        """
        advice: Message | None = None
        if whole is not None:
            call, line = whole
            words = f"a plan with budget={call} fits, given the same release"
            advice = remedy("whole budget that fits", words, line)
        return self._told(currency, advice)

    def _told(self, currency: Budget | None, advice: Message | None) -> BudgetExceeded:
        message = _exceeded(self.asked, self.balance, self._max_rows or 1, currency, advice)
        return BudgetExceeded(message, self.asked, self.balance, self._max_rows)


LIST_ENTRIES = remedy("list entries", "ledger.entries()")


def refusal(asked: Guarantee, balance: Balance, max_rows: int = 1) -> BudgetError:
    """Why a release is not charged: asked, spent, left, and what would fit."""
    where = f"dataset {balance.dataset!r}"
    if asked.neighbours != balance.neighbours:
        return BudgetError(
            f"{where} has a budget for neighbours {balance.neighbours!r}; the release guarantees "
            f"{asked.neighbours!r}. "
            + remedy(
                "plan with neighbours",
                f"Plan it with neighbours={balance.neighbours!r}",
                balance.neighbours,
            )
        )
    if asked.mu2 is None and balance.rule == "curve":
        fits = fitting(balance, max_rows, None)
        plan: Message | str = ""
        if fits is not None:
            plan = "Gaussian noise has a μ: " + _plan_that_fits(*fits) + "; or "
        return BudgetError(
            f"{where} adds up μ² (Gaussian DP), and of this release ρ = {asked.rho:.6g} (zCDP) is "
            f"all that is known; nothing was recorded. "
            + plan
            + "change the budget to zCDP: "
            + change_budget(balance.dataset, zCDP, "zCDP(…)")
        )
    advice = _fitting_plan(asked, balance, max_rows)
    message = _exceeded(asked, balance, max_rows, None, advice)
    return BudgetExceeded(message, asked, balance, max_rows)


def used_up(asked: Guarantee, balance: Balance) -> BudgetExceeded:
    """Why no record is read for a dataset without budget: a refusal, or a check, tells something
    of the data at any price, and at none."""
    return BudgetExceeded(
        f"dataset {balance.dataset!r} has used up its budget {balance.budget}, and its records are "
        f"not read any more, for whatever costs nothing or next to nothing either; nothing was "
        f"recorded. "
        + change_budget(balance.dataset, type(balance.budget))
        + " raises the budget, on record",
        asked,
        balance,
    )


def _exceeded(
    asked: Guarantee,
    balance: Balance,
    max_rows: int,
    currency: Budget | None,
    fits: Message | None,
) -> Message:
    """Return asked, spent and left in lines; `fits` is what would fit, in words."""
    lines = [
        f"dataset {balance.dataset!r}: this release does not fit in what is left of the budget "
        f"{balance.budget}",
        f"asked {_asked_text(asked, balance, max_rows)}",
        f"spent {spent_text(balance)}",
        f"left {left_text(balance, currency)}; nothing was recorded",
    ]
    change = change_budget(balance.dataset, type(balance.budget)) + " raises the budget, on record"
    advice = change if fits is None or balance.used_up else fits + "; " + change
    return BETWEEN.join(lines) + BETWEEN + advice


def other_unit(asked: Reserved, balance: Balance, of_nobody: bool = False) -> BudgetError:
    """Why a release for so many records of a person is not charged beside those for others.

    `of_nobody`: whether it was not said before whose records they were.
    """
    priced, found = _unit(asked.records, asked.whose), balance.unit or "one record"
    rows, dataset = balance.max_rows, balance.dataset
    planned = f"Plan with max_rows={rows}"
    if of_nobody:  # one record of each person would be refused next
        advice = remedy("plan for records", "Plan without max_rows, and release without person")
    elif asked.records == 1:  # whose records they are may not have been said yet
        advice = remedy("plan for people", planned, rows)
    else:
        advice = remedy("plan with rows", planned, rows)
    if balance.neighbours == "add-remove":
        bound = f"ledger.change_budget({dataset!r}, …, reason=…, max_rows=…)"
        advice += (
            f". If the records that one {asked.whose} has in the data are bounded, put that on "
            f"record: "
            + remedy("bound rows", bound, dataset, OPTIONS[type(balance.budget)])
            + " converts all costs to so many records"
        )
    return BudgetError(
        f"dataset {balance.dataset!r} was charged for {found}, and this release is priced for "
        f"{priced}: such costs do not add up, and nothing was recorded. " + advice
    )


def other_people(unit: str, balance: Balance) -> BudgetError:
    """Why a release for a person is not charged beside those for a household, nor the reverse.

    Of a household with more records than are counted, one person less brings in records of the
    others: to that person it costs up to four times what it costs the household.
    """
    first = balance.units[0]
    return BudgetError(
        f"dataset {balance.dataset!r} was charged for a {' and a '.join(balance.units)}, and this "
        f"release is for a {unit}: such costs do not add up, and nothing was recorded. Release for "
        f"a {first} as before: "
        + remedy("plan with unit", f"plan.with_unit({first!r}).release(data, person=…)", first)
    )


def nobody_after_persons(entry: Entry) -> PlanError:
    """Why records of nobody are not counted where one record of each person was."""
    return PlanError(
        f"dataset {entry.dataset!r} was charged for a {entry.unit} of whom one record counts "
        f"({_named(entry)}), and it is not said whose these records are: all of one {entry.unit} "
        f"would count. Nothing was spent. Name the column, "
        + remedy("name person", "release(data, person='id')")
        + "; where each record is another's, one of row numbers"
    )


def persons_after_nobody(entry: Entry, unit: str, budget: Budget) -> PlanError:
    """Why one record of each person is not counted where records of nobody were."""
    bound = f"ledger.change_budget({entry.dataset!r}, …, reason=…, max_rows=…)"
    return PlanError(
        f"dataset {entry.dataset!r} was charged for single records, without saying whose they are "
        f"({_named(entry)}): all of one {unit} counted there, and here one does, so that the costs "
        f"do not add up. Nothing was spent. Put on record how many records one {unit} has in the "
        f"data at most, 1 where each is another's: "
        + remedy("bound rows", bound, entry.dataset, OPTIONS[type(budget)])
        + " converts all costs to so many"
    )


def _named(entry: Entry) -> str:
    return f"entry {entry.id} of {entry.time[:10]}"


def change_budget(dataset: str, currency: type[Budget], budget: str = "…") -> Message:
    """Return the call, or the command, that changes a budget to another one of a currency."""
    call = f"ledger.change_budget({dataset!r}, {budget}, reason=…)"
    return remedy("change budget", call, dataset, OPTIONS[currency])


def _unit(max_rows: int, unit: str = PERSON) -> str:
    return unit_text(max_rows, unit) or "one record"


def _asked_text(asked: Guarantee, balance: Balance, max_rows: int) -> str:
    """What was asked, in the unit of the balance."""
    factor = balance.factor(max_rows)
    text = cost_text(times(asked, factor), balance)
    if factor == 1:
        return text
    return f"{text} for {balance.unit or 'one record'}, from {_unit(max_rows)}"


def _fitting_plan(
    asked: Guarantee, balance: Balance, max_rows: int, currency: Budget | None = None
) -> Message | None:
    """Return the plan that would fit, in the currency that was asked in; None if nothing is left.

    With as many digits as tell it from what was asked.
    """
    rounded = fitting(balance, max_rows, currency)
    if rounded is None:
        return None
    near = balance.fits(asked.at(asked.amount * (1 - 1e-5)), max_rows)
    call, line = (near and fitting(balance, max_rows, currency, exact=True)) or rounded
    return _plan_that_fits(call, line)


def _plan_that_fits(call: str, line: str) -> Message:
    return remedy("budget that fits", f"a plan with budget={call} fits", line)
