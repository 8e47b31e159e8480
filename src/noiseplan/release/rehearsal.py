"""A release rehearsed: all that could stop it is looked for, and nothing is spent.

Privacy
-------
The ledger is asked first, as for a release, and no record is read if it refuses. What is then told
of the data is what a refusal tells: whether every value is declared, in which columns not, whether
every record belongs to somebody, and whether there are any. Numbers and values are for custodians
who ask for them. That the data were read is entered in the ledger before anything is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.counting import count_tables, open_source
from noiseplan.counting.refusals import NO_RECORDS, reading
from noiseplan.errors import DataError, DataRefused, NoiseplanError
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Budget, Guarantee, PureDP
from noiseplan.privacy.doubts import doubts
from noiseplan.privacy.people import unit_text
from noiseplan.privacy.rounding import text_up
from noiseplan.release.open_data import Admission, ReleaseOptions, opened, refuse_too_many
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.ledger import Balance

WELL: Final = "nothing at fault"
NOTICE: Final = (
    "This tells something of the data that no noise covers: it is for the custodian, and not to "
    "be published."
)
SHOWN: Final = 12


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: fine, a warning, or what would stop a release."""

    about: str
    said: str
    error: NoiseplanError | None = None
    warning: bool = False


@dataclass(frozen=True)
class Checked:
    """What `plan.check(data)` found. Print it; `ok` says whether a release would go through.

    `read` says whether records were read, and `recorded` where a ledger keeps that they were.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5})
    >>> plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.5))
    >>> plan.check({"age": [0, 1, 1]}).ok
    True
    """

    findings: tuple[Finding, ...]
    read: bool = False
    recorded: str = ""

    def with_problem(self, about: str, error: NoiseplanError) -> Checked:
        """The same with one more thing that would stop a release."""
        return replace(self, findings=(*self.findings, Finding(about, error.message, error)))

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What would stop a release."""
        return tuple(finding for finding in self.findings if finding.error is not None)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What would not stop it, and is worth a second look."""
        return tuple(finding for finding in self.findings if finding.warning)

    @property
    def ok(self) -> bool:
        """Whether a release would go through now."""
        return not self.problems

    def lines(self, worded: Callable[[NoiseplanError], str] = str) -> list[str]:
        """What was found, and what may be done with it; `worded` words errors."""
        wide = max(len(finding.about) for finding in self.findings) + 2
        below = "\n" + " " * (wide + 2)
        found = [
            f"  {each.about:<{wide}}" + _marked(each, worded).replace("\n", below)
            for each in self.findings
        ]
        end = "A release would go through." if self.ok else "A release would be refused."
        if not self.read:
            return [*found, f"{end} Nothing was spent, and no record was read."]
        kept = f" It is on record: {self.recorded}." if self.recorded else ""
        return [*found, f"{end} Nothing was spent.", f"{NOTICE}{kept}"]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _marked(finding: Finding, worded: Callable[[NoiseplanError], str]) -> str:
    if finding.error is not None:
        return f"REFUSED: {worded(finding.error)}"
    return f"warning: {finding.said}" if finding.warning else finding.said


def check(plan: Plan, data: object, how: ReleaseOptions, built_on: str = "") -> Checked:
    """What a release of these data would be refused for, by the ledger or for what they hold.

    `built_on` is where the releases are recorded that it completes, which it agrees with.
    """
    owned = how.get("person") is not None or not plan.of_records
    alone = f"one {plan.unit}, of whom one record counts" if owned else "one record"
    cost = unit_text(plan.max_rows, plan.unit) or alone
    found = [Finding("cost", f"{_price(plan.privacy)}, for {cost}")]
    found += [
        Finding("privacy", each, warning=True) for each in doubts(plan.budget or plan.privacy)
    ]
    try:
        admission = Admission.of(plan, how)
    except NoiseplanError as error:
        return refused_by_ledger(error, *found)
    found.append(Finding("ledger", _ledger(admission)))
    before = admission.account.disagreeing(plan, built_on)
    found += [Finding("before", each, warning=True) for each in before]
    seen, told = _looked_through(admission, data, how.get("person"))
    read = bool(told)
    detailed = admission.details or any(getattr(each.error, "detailed", False) for each in seen)
    recorded = admission.account.note_check(plan, told, detailed) if read else ""
    return Checked((*found, *seen), read, recorded)


def refused_by_ledger(error: NoiseplanError, *before: Finding) -> Checked:
    """What is told where the ledger refuses: no record is read then."""
    said = Finding("ledger", error.message, error)
    return Checked((*before, said, Finding("data", "not read, since the release is refused")))


def _ledger(admission: Admission) -> str:
    account, plan = admission.account, admission.plan
    if account.ledger is None:
        return "none is named: a release would not be recorded"
    balance = account.ledger.balance(account.dataset)
    left = balance.after(plan.privacy, plan.max_rows, plan.unit)
    told = plan.budget if isinstance(plan.budget, PureDP) else None
    now, after = _left(balance, told), _left(left, told)
    return f"dataset {account.dataset!r} admits it\nnow    {now}\nafter  {after}"


def _price(privacy: Guarantee) -> str:
    """Return the cost in words: ε of pure DP with the ρ that it implies, else ρ."""
    pure = (f"pure ε = {text_up(own)}, which implies " for own in privacy.own_figures.values())
    return "".join(pure) + f"ρ = {text_up(privacy.rho)}"


def _left(balance: Balance, told: Budget | None) -> str:
    from noiseplan.ledger.balance import left_text

    return f"left {left_text(balance, told)}"


def _looked_through(
    admission: Admission, data: object, person: str | None
) -> tuple[list[Finding], str]:
    """What is found in the data, and the kind of it for a ledger; none where no record was read."""
    refusal: NoiseplanError
    try:
        with reading(admission.details):
            source = opened(admission, data, person)
            source = count_tables(source, [np.array([[0]])])
            refuse_too_many(admission.plan, source)
            records = int(np.asarray(source.marginals(np.array([[0]]))).sum())
            return _well(admission, data, records, person)
    except NoiseplanError as error:
        refusal = error
    kind = refusal.kind if isinstance(refusal, DataRefused) else ""
    return [Finding("data", refusal.message, refusal)], kind


def _well(
    admission: Admission, data: object, records: int, person: str | None
) -> tuple[list[Finding], str]:
    """What is said of data that fit."""
    plan = admission.plan
    names = plan.workload.schema.names
    listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" * (len(names) > SHOWN))
    found = [Finding("data", f"can be read, and every value is declared: {listed}")]
    if not records:
        said = "they hold no records: is it the right file, and the right pattern?"
        found.append(Finding("records", said, warning=True))
    elif admission.details:
        found.append(Finding("records", f"{counted(records, 'record')} would be counted (private)"))
        risky = doubts(plan.budget, records) if plan.budget else []
        known = doubts(plan.budget) if plan.budget else []
        found += [Finding("privacy", each, warning=True) for each in risky if each not in known]
    if person is None:
        alone = "each record is taken to be a person's only one"
        found.append(Finding("persons", alone if plan.of_records else "bounded by the data"))
    else:
        most = counted(plan.max_rows, "record")
        left_out = _left_out(data, plan, records) if admission.details else ""
        said = f"every record belongs to somebody; of each, at most {most} would count{left_out}"
        found.append(Finding("persons", said))
    return found, WELL if records else NO_RECORDS


def _left_out(data: object, plan: Plan, records: int) -> str:
    """How many records of people with many do not count, where the data can be read again."""
    try:
        every = open_source(data, plan.workload.schema)
        total = int(np.asarray(every.marginals(np.array([[0]]))).sum())
    except DataError:
        return ""
    return f", and {counted(total - records, 'record')} beyond that would not (private)"
