"""Releases on a ledger: charged before they are made, and looked up by those that build on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from noiseplan.errors import PlanError
from noiseplan.planning.plan import Plan

if TYPE_CHECKING:
    from noiseplan.ledger import Entry, Ledger
    from noiseplan.release.release import Release

# Between two entries of one release that was made in two steps.
BETWEEN = "; "
# Two charges of one plan may fall short of its cost by the rounding of what was left to pay.
ROUNDING = Fraction(1, 10**9)


@contextmanager
def charged(
    plan: Plan,
    ledger: Ledger | str | os.PathLike[str],
    dataset: str | None,
    purpose: str,
    follows: str = "",
) -> Iterator[str]:
    """Charge a ledger around the block that makes the release; where it is recorded.

    `follows` is where the look is recorded that the release completes, if its price is that of
    both together less the look's; the ledger sees to it that this happens once.
    """
    from noiseplan.storage import plan_hash

    assert dataset is not None  # checked before the data were opened
    cost = plan.privacy.as_zcdp  # a ledger adds up zCDP, and pure DP is that too
    own = getattr(plan, "hash", None)  # of a plan of another kind
    digest = plan_hash(plan) if own is None else own()
    book = _opened(ledger)
    charge = book.charge(
        dataset, cost, purpose=purpose, plan_hash=digest, max_rows=plan.max_rows,
        follows=_entry_of(follows, book, dataset) if follows else None,
    )  # fmt: skip
    with charge as entry:
        yield _text(entry)


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
            f"plan.release(data, ledger=…, dataset={dataset!r})"
        )


def _entry_of(recorded: str, ledger: Ledger, dataset: str) -> Entry:
    """The last entry of a release that was made in one step or more."""
    last = recorded.split(BETWEEN)[-1]
    for entry in ledger.entries(dataset):
        if _text(entry) == last:
            return entry
    raise PlanError(
        f"the look is not on record in this ledger (it is {last}), and only what is left would be "
        f"charged: nothing was measured. Use the ledger that the look was charged to"
    )


def _opened(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    from noiseplan.ledger import Ledger

    return ledger if isinstance(ledger, Ledger) else Ledger(ledger)


def _text(entry: Entry) -> str:
    return f"entry {entry.id} of dataset {entry.dataset!r}, charged {entry.time}"
