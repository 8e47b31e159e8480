"""Data opened for a plan, and refused where the plan's price does not cover them."""

from __future__ import annotations

import numpy as np

from noiseplan.counting import Projectable, open_source
from noiseplan.errors import DataError, PlanError
from noiseplan.planning.plan import Plan


def opened(plan: Plan, data: object, person: str | None, key: bytes | None = None) -> Projectable:
    """The data with no more records of a person than the plan is priced for.

    Parameters
    ----------
    plan
        Says how many.
    data, person
        As `Plan.release` takes them.
    key
        What an earlier choice among the records of each person was derived from, to repeat it.
    """
    if plan.max_rows > 1 and person is None and not isinstance(data, Projectable):
        raise PlanError(
            f"the plan is for people with up to {plan.max_rows} records: say whose record each is, "
            f"release(data, person='id'), so that no more of anybody are counted"
        )
    cap = plan.max_rows if person is not None else 1
    source = open_source(data, plan.workload.schema, person=person, cap=cap, key=key)
    refuse_unpriced(plan, source)
    return source


def refuse_unpriced(plan: Plan, source: Projectable) -> None:
    """Refuse data with more records of a person than the plan is priced for."""
    held, priced = getattr(source, "max_rows", 1), getattr(plan, "max_rows", 1)
    if held > priced:
        raise PlanError(
            f"the data hold up to {held} records of one person, and the plan is priced for "
            f"{priced}; open the data with cap={priced}, or plan for {held}"
        )


def refuse_too_many(plan: Plan, source: Projectable) -> None:
    """Refuse more records than the plan's integers can hold, before anything is spent."""
    most = getattr(plan.mechanism, "records", None)
    if most is None:
        return
    found = int(np.asarray(source.marginals(plan.mechanism.sets[0][:1])).sum())
    if found > most:
        raise DataError(
            f"the data have more than {most:,} records, which is as many as the integers of this "
            f"plan can hold; plan tables of fewer attributes, or release parts of the data. "
            f"Nothing was spent. (How many records there are may be confidential.)"
        )
