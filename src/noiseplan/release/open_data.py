"""Data opened for a plan: the ledger is asked first, and every refusal is put down there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.counting import Projectable, open_source
from noiseplan.counting.counted_tables import Tables
from noiseplan.counting.projectable import Countable
from noiseplan.counting.refusals import (
    NO_RECORDS,
    TOO_MANY,
    UNCOUNTABLE,
    reading,
    refused,
    showing,
)
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import DataRefused, PlanError, remedy
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.mechanisms.price import NOTHING, Paid, require_price
from noiseplan.noise import NoiseSampler, Source
from noiseplan.noise.law import SIMULATED
from noiseplan.noise.samplers import sampler_for
from noiseplan.planning.plan import Plan
from noiseplan.privacy.people import PERSON
from noiseplan.release.ledger_charge import Account, Whose
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.ledger import Ledger


class CheckOptions(TypedDict, total=False):
    """What `Plan.check` takes beside the data, for those who pass it on."""

    ledger: Ledger | str | os.PathLike[str] | None
    dataset: str | None
    purpose: str
    person: str | None
    details: bool


class ReleaseOptions(CheckOptions, total=False):
    """What `Plan.release` takes beside the data."""

    seed: int | None
    randomness: Source | None


@dataclass(frozen=True, eq=False)
class Admission:
    """Leave to read data for a plan: made before a record is read, and never from the data."""

    plan: Plan
    sampler: NoiseSampler
    account: Account
    follows: str
    details: bool

    @classmethod
    def of(
        cls, plan: Plan, how: ReleaseOptions, follows: str = "", before: Paid = NOTHING
    ) -> Admission:
        """Refuse what the data need not be read for: bad options, and what the budget lacks."""
        sampler = sampler_for(plan.noise, how.get("seed"), how.get("randomness"))
        if plan.loaded:
            raise PlanError(
                "this plan was read from a folder, and what a folder says of its noise and cost is "
                "not taken on trust; to release again, plan again: "
                "nz.plan(release.plan.workload, …)"
            )
        account = Account.of(how.get("ledger"), how.get("dataset"), how.get("purpose") or "")
        require_price(plan.mechanism, plan.privacy, plan.max_rows, before)
        account.ask(plan, sampler, follows)
        return cls(plan, sampler, account, follows, bool(how.get("details", False)))

    def warn_of_nothing(self) -> None:
        """Say that there are no records, which is told of the data: on record, then aloud."""
        self.account.note_check(self.plan, NO_RECORDS, False)
        warnings.warn(
            "the data hold no records, and are released all the same: is it the right file, and "
            "the right pattern?",
            RuntimeWarning,
            stacklevel=4,
        )

    @contextmanager
    def charged(self, whose: Whose) -> Iterator[str]:
        """Charge the account around the block that measures; where it is recorded.

        `whose` are the records that are counted.
        """
        with (
            self.account.charged(self.plan, self.sampler, self.follows, whose) as recorded,
            showing(self.details),
        ):
            yield recorded


@contextmanager
def admitted(
    plan: Plan, how: ReleaseOptions, follows: str = "", before: Paid = NOTHING
) -> Iterator[Admission]:
    """Around everything that reads data for a plan; `before` is what its price is the rest of.

    Privacy
    -------
    The ledger is asked before the block: what does not fit is refused before a record is read.
    What is refused within it for what the data hold answers a question about them, and is entered
    in the ledger by its kind.
    """
    admission = Admission.of(plan, how, follows, before)
    refusal: DataRefused | None = None
    try:
        with reading(admission.details):
            yield admission
    except DataRefused as error:
        refusal = error
    if refusal is not None:
        try:
            admission.account.note_refusal(plan, refusal.kind, refusal.detailed)
        except Exception as error:
            error.__context__ = None  # that it could not be entered is all that anybody is told
            raise error from None
        raise refusal


def opened(
    admission: Admission, data: object, person: str | None, key: bytes | None = None
) -> Projectable:
    """The data with no more records of a person than the plan is priced for.

    Parameters
    ----------
    admission
        Of the plan, which says how many.
    data, person
        As `Plan.release` takes them.
    key
        What an earlier choice among the records of each person was derived from, to repeat it.
    """
    plan = admission.plan
    owned = plan.owned or plan.max_rows > 1 or plan.unit != PERSON
    if owned and person is None and not _bounded(data):
        whom = "people" if plan.unit == PERSON else f"each {plan.unit}"
        raise PlanError(
            f"the plan is for {whom} with up to {counted(plan.max_rows, 'record')}: say whose "
            f"record each is, "
            + remedy("name person", "release(data, person='id')")
            + ", so that no more of anybody are counted"
            + remedy("argument", "; counts of no more are given as CountTensor(schema, counts)", "")
        )
    admission.account.require_same_people(plan, whose_records(data, person))
    cap = plan.max_rows if person is not None else 1
    source = open_source(data, plan.workload.schema, person=person, cap=cap, key=key)
    held, priced = getattr(source, "max_rows", 1), plan.max_rows
    if held > priced:
        raise PlanError(
            f"the data hold up to {held} records of one {plan.unit}, and the plan is priced for "
            f"{priced}; open the data with cap={priced}, or plan for {held}"
        )
    return source


def whose_records(data: object, person: str | None) -> Whose:
    """Whose records these are, as far as anybody has said."""
    if person is not None or (isinstance(data, Countable | Tables) and data.choice is not None):
        return "persons"
    return "counts" if _bounded(data) else "nobody"


def _bounded(data: object) -> bool:
    """Whether somebody has seen to it that no person has too many records.

    Records that were opened without `person=` are nobody's, counted beforehand or not; ready-made
    counts are their maker's.
    """
    if isinstance(data, Countable | Tables):
        return data.choice is not None
    # Asked of the class, as they are opened: a frame has its columns for attributes.
    return hasattr(type(data), "marginals") and isinstance(data, Projectable)


def refuse_too_many(plan: Plan, source: Projectable) -> bool:
    """Refuse more records than are released, before anything is spent; whether there are any.

    What no source of this package does is asked of others table by table: counts of fractions, or
    arrays that are no counts, would be refused while measuring, after the charge.

    The number is the same for all plans. Were it each plan's own, plans could be made whose
    refusals tell the number of records, digit by digit.
    """
    if plan.noise in SIMULATED:  # a simulation, which has no limit
        return True
    sets = plan.mechanism.sets
    if isinstance(source, Countable | Tables | CountTensor):
        found = float(np.asarray(source.marginals(sets[0][:1])).sum())
    else:
        found = max(_counted(source, some) for some in sets)
    if found > RECORDS:
        raise refused(
            TOO_MANY,
            f"the data have more than {RECORDS:,} records, which is as many as are released; "
            f"release parts of the data. Nothing was spent.",
        )
    return found > 0


def _counted(source: Projectable, sets: IntArray) -> float:
    """The records that each of these sets counts; refused where these are no counts of records."""
    # A plain array: others may compare their numbers in ways of their own.
    counts, sizes = np.asarray(source.marginals(sets)), source.schema.shape
    shape = (len(sets), *(sizes[i] for i in sets[0]))
    if counts.shape != shape or counts.dtype.kind not in "biuf":
        raise refused(
            UNCOUNTABLE,
            f"the source's counts of {len(sets)} sets should be an array of numbers of shape "
            f"{shape}: one axis for the sets, and one for each attribute. Nothing was spent.",
            f"the source's counts have shape {counts.shape} and are of {counts.dtype}, and should "
            f"be numbers of shape {shape}. Nothing was spent.",
        )
    whole = np.isfinite(counts) & (counts == np.floor(counts))
    if not whole.all():
        raise refused(
            UNCOUNTABLE,
            "the source's counts are not whole numbers of records; privacy is promised per record, "
            "so a source must count records, as a file or a frame does. Nothing was spent.",
        )
    return float(counts.sum(dtype=np.float64)) / len(sets)
