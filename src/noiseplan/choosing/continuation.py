"""What a plan still costs after earlier releases, and the release that measures only that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from noiseplan.choosing.budget_that_fits import budget_that_fits
from noiseplan.choosing.joined_plans import Origin, Union, described, guarantee_of, require_alike
from noiseplan.choosing.mechanism_family import Family
from noiseplan.choosing.which_family import family_for
from noiseplan.counting import Projectable
from noiseplan.counting.person_cap import PersonCap
from noiseplan.errors import PlanError, remedy
from noiseplan.ledger import BudgetExceeded
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.cost import with_mu2
from noiseplan.planning.plan import Plan
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import Guarantee
from noiseplan.privacy.rounding import text_up
from noiseplan.queries import Query
from noiseplan.release.ledger_charge import require_charged
from noiseplan.release.open_data import Admission, admitted, opened
from noiseplan.release.provenance import Provenance
from noiseplan.release.rehearsal import Checked, Finding, check
from noiseplan.release.release import Release, ReleaseOptions, make_release

COMBINED = "combined"
ONE_SOURCE = (
    "make both releases from one source, open_source(data, schema, person=…, cap=…), in one program"
)
OTHER_RECORDS = (
    remedy("argument", "person=", "[people] person")
    + " would choose among the records of each, and the earlier release counted others, or "
    "was read from a folder, which does not keep which: " + remedy("whole plan", ONE_SOURCE)
)
NOT_THE_SAME_RECORDS = (
    "the earlier release counted some records of each, chosen at random, and these data "
    "would show others: give it the same source, or the same data with the same "
    + remedy("argument", "person=", "[people] person")
    + " and number of records"
)


def completed(family: Family[Any], target: Plan, parts: Sequence[Release]) -> Release:
    """The target's release, from releases of parts that amount to it, with the brands and records
    of all."""
    numbers = [(part.plan.mechanism, part.measurements) for part in parts]
    measured, stated = family.recreated(target.mechanism, numbers)
    plan = target
    if stated is not None:  # other variances than the target's: these are what errors are made of
        plan = replace(
            target, mechanism=stated, noise=COMBINED, figures=RowFigures(target.design, stated)
        )
    provenance = Provenance.joined(part.provenance for part in parts)
    return replace(parts[-1], plan=plan, measurements=measured, provenance=provenance)


@dataclass(frozen=True, eq=False, repr=False)
class Continuation:
    """What is still to be measured for a plan after an earlier release of the same data.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> tables = [nz.Workload.marginals(schema, k=k) for k in (1, 2)]
    >>> first, second = (nz.plan(asked, budget=nz.zCDP(0.5)) for asked in tables)
    >>> more = second.given(first.release({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99}))
    >>> more.privacy.rho < 0.5  # less than the second plan costs on its own
    True
    """

    plan: Plan
    earlier: Release
    rest: Plan | None
    family: Family[Any]

    @classmethod
    def of(cls, plan: Plan, earlier: object) -> Continuation:
        if not isinstance(earlier, Release):
            raise PlanError(
                f"given() takes an earlier release of the same data, found {type(earlier).__name__}"
            )
        # Whose records they are is kept with those that were counted, if the plan did not say it.
        owned = earlier.plan.owned if earlier.choice is None else plan.owned
        require_alike(plan, replace(earlier.plan, owned=owned))
        target, have = plan.mechanism, earlier.plan.mechanism
        try:
            family = family_for([target, have], plan.privacy.neighbours)
            shared = family.shared(target, have)
        except PlanError as error:
            raise PlanError(
                error.message
                + ". Release the plan by itself, at its whole cost: "
                + remedy("whole plan", "plan.release(data, …)")
                + "; nothing of what was measured is taken off it then"
            ) from None
        mechanism = family.rest(target, shared)
        if mechanism is None:
            return cls(plan, earlier, None, family)
        privacy = guarantee_of(mechanism, plan)
        return cls(plan, earlier, replace(plan, mechanism=mechanism, privacy=privacy), family)

    @property
    def privacy(self) -> Guarantee:
        """What is still to be spent."""
        return self.plan.privacy.at(0.0) if self.rest is None else self.rest.privacy

    @property
    def total(self) -> Guarantee:
        """What the earlier release and this one cost together."""
        whose = self.plan.privacy.whose  # as the records were counted for both
        first, second = (replace(g, whose=whose) for g in (self.earlier.plan.privacy, self.privacy))
        return first.compose(second)

    @property
    def _stated(self) -> Guarantee:
        """The same as the plan states it: no less than its own noise is priced when it is read.

        The noise of the earlier release may be on a coarser lattice than the plan's.
        """
        total = self.total
        own = with_mu2(total, [self.plan.mechanism]).mu2
        known = None if own is None or total.mu2 is None else max(own, total.mu2)
        return replace(total, mu2=known)

    @property
    def saved(self) -> float:
        """The share of the plan's privacy cost that need not be spent again."""
        whole = self.plan.privacy.pcost
        return 1.0 - self.privacy.pcost / whole if whole else 0.0

    def release(self, data: object, **how: Unpack[ReleaseOptions]) -> Release:
        """Measure what is left, and put it together with the earlier release.

        The result answers what either plan does, no less precisely, from all that was measured.

        Parameters
        ----------
        data
            The data of the earlier release. Where at most so many records of each person were
            counted, the same ones must be counted again: from the source that was opened for the
            earlier release, or from the same records, in any order and in any kind of source, with
            the same `person`. That takes the earlier release itself, in the process that made it:
            no copy knows which records they were.
        how
            `ledger`, `dataset`, `purpose`, `person`, `seed` and `randomness`, as `Plan.release`
            takes them. The earlier release must be charged to the same dataset of the same ledger.
            A seed must be another one than the earlier release's.
        """
        self._require_one_ledger(how)
        parts = [self.earlier]
        if self.rest is not None:
            try:
                parts.append(self._measured(self.rest, data, how))
            except BudgetExceeded as error:
                raise self._told(error) from None
        mechanisms = [part.plan.mechanism for part in parts]
        united = self.family.together(mechanisms)
        if self.family.covers(self.plan.mechanism, united):
            done = completed(self.family, self.plan, parts)
            if done.plan is self.plan:
                return replace(done, plan=replace(self.plan, privacy=self._stated))
        asked = Union.of([self.earlier.plan, self.plan])
        objective = "none: what several releases tell together"
        origin = Origin.like(self.plan, COMBINED, objective, COMBINED)
        plan = described(asked, united, self.total, origin)
        return completed(self.family, plan, parts)

    def check(self, data: object, **how: Unpack[ReleaseOptions]) -> Checked:
        """What `release` would cost, and all that would stop it; spends nothing.

        `how` is what `Plan.check` takes. The earlier release is not among those that this one will
        disagree with: it is built on it.
        """
        try:
            self._require_one_ledger(how)
            if self.rest is None:  # and so no record is read, whosoever it is
                return Checked((Finding("cost", "nothing: the earlier release tells all of it"),))
            self._require_the_same_people(data, how.get("person"))
        except PlanError as error:
            return Checked((Finding("earlier release", error.message, error),))
        found = check(self.rest, data, how, built_on=self.earlier.recorded)
        return replace(found, findings=tuple(map(self._found, found.findings)))

    def _measured(self, rest: Plan, data: object, how: ReleaseOptions) -> Release:
        person = how.pop("person", None)
        with admitted(rest, how) as admission:
            source = self._same_records(admission, data, person)
        return make_release(rest, source, **how)

    def _found(self, finding: Finding) -> Finding:
        if not isinstance(finding.error, BudgetExceeded):
            return finding
        error = self._told(finding.error)
        return replace(finding, said=error.message, error=error)

    def _told(self, error: BudgetExceeded) -> BudgetExceeded:
        """The same refusal with the budget of a whole plan of which what is left would fit.

        What is left in the ledger pays for the rest of a plan, and is no budget of the whole: the
        earlier release often tells all that a plan within it would.
        """
        whole = budget_that_fits(self.plan, self.earlier.plan.mechanism, self.family, error.fits)
        return error.told_for_rest_of(self.plan.budget, whole)

    def _require_the_same_people(self, data: object, person: str | None) -> None:
        """Refuse what is known before any record is read: other records of each person."""
        people = self._people()
        if person is not None and people is None:
            raise PlanError(OTHER_RECORDS)
        if people is not None and person is None and getattr(data, "choice", None) is None:
            raise PlanError(NOT_THE_SAME_RECORDS)

    def _require_one_ledger(self, how: Mapping[str, Any]) -> None:
        """Both are charged to one dataset of one ledger, or to none."""
        ledger = how.get("ledger")
        if ledger is not None:
            require_charged(self.earlier, ledger, how.get("dataset"))
        elif self.earlier.recorded and self.rest is not None:
            raise PlanError(
                f"the earlier release is on a ledger ({self.earlier.recorded}), and what is left "
                f"would be measured beside it: add "
                + remedy("argument", "ledger=, dataset=", "[ledger] file and dataset")
            )

    def _people(self) -> PersonCap | None:
        """Which records of each person the earlier release counted; refused if it has forgotten."""
        chosen = self.earlier.choice
        people = None if chosen is None else chosen.recalled()
        if chosen is not None and people is None:
            raise PlanError(
                "the earlier release counted some records of each, chosen at random, and "
                "was pickled, copied or read from a folder, which does not keep which: make both "
                "releases in one program, or release the whole plan: "
                + remedy("whole plan", "plan.release(data, person=…)")
            )
        return people

    def _same_records(self, admission: Admission, data: object, person: str | None) -> Projectable:
        """The data opened as for the earlier release; refused where other records would count."""
        people = self._people()
        source = opened(admission, data, person, None if people is None else people.key)
        again = getattr(source, "choice", None)
        if again is None and people is None:
            return source
        if again is not None and people is not None and again.recalled() == people:
            return source
        if people is not None:
            raise PlanError(NOT_THE_SAME_RECORDS)
        raise PlanError(OTHER_RECORDS)

    def __repr__(self) -> str:
        return f"Continuation({self.plan!r}; still ρ = {text_up(self.privacy.rho)})"

    def __str__(self) -> str:
        spent, left = self.earlier.plan.privacy, self.privacy
        measures = "nothing" if self.rest is None else self.rest.mechanism.describe()
        return "\n".join(
            [
                f"What is left of a plan of ρ = {text_up(self.plan.privacy.rho)}",
                f"  spent    ρ = {text_up(spent.rho)}, by the earlier release",
                f"  costs    ρ = {text_up(left.rho)} more; {100 * self.saved:.1f}% of the plan's "
                f"own cost is saved",
                f"  measures {measures}",
            ]
        )


def joint_covariance(earlier: Release, later: Release, query: Query, other: Query) -> Array:
    """Cov(earlier answer to `query`, later answer to `other`), rows × rows.

    Parameters
    ----------
    earlier, later
        A release and one that was made of it: by `look.choose`, or by `plan.given(earlier)`.

    Notes
    -----
    The later answers are the best linear unbiased ones from all that was measured, so that what
    the earlier ones differ from them is not correlated with them: Cov(earlier, later) =
    Cov(later, later).

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> tables = [nz.Workload.marginals(schema, k=k) for k in (1, 2)]
    >>> first, second = (nz.plan(asked, budget=nz.zCDP(0.5)) for asked in tables)
    >>> people = {"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99}
    >>> earlier = first.release(people)
    >>> later = second.given(earlier).release(people)
    >>> sex = nz.Query(schema, ["sex"])
    >>> joint_covariance(earlier, later, sex, sex).shape
    (2, 2)
    """
    earlier.plan.mechanism.require(query)
    if later.plan.mechanism.agreeing([query, other]) is not None:
        raise PlanError(
            "the later answers are means of what was measured apart, and not the best that all of "
            "it tells: what they have in common with earlier ones is not known. Covariances within "
            "one release are, release.covariance(query, other)"
        )
    return later.covariance(query, other)
