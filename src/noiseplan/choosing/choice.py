"""Several plans, what they have in common, a look at that, and the choice that follows from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from threading import Lock
from typing import Any, NoReturn, Unpack

from noiseplan.choosing.circumstances import Circumstances
from noiseplan.choosing.common_rows import on_common_rows
from noiseplan.choosing.continuation import completed
from noiseplan.choosing.joined_plans import Origin, Union, described, guarantee_of, require_alike
from noiseplan.choosing.mechanism_family import Family
from noiseplan.choosing.rules import Recommendation, Rule, recommended
from noiseplan.choosing.usefulness import Usefulness
from noiseplan.choosing.which_family import family_for
from noiseplan.errors import PlanError
from noiseplan.ledger import AlreadyFollowed
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.price import NOTHING, Paid
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Guarantee
from noiseplan.privacy.rounding import fraction_down, text_up
from noiseplan.queries import Query, Workload
from noiseplan.release.answers import Answer, Answers
from noiseplan.release.provenance import Provenance
from noiseplan.release.release import Release, ReleaseOptions
from noiseplan.schema import Schema
from noiseplan.texts import counted

_CLAIMING = Lock()


def adaptive(
    plans: Sequence[Plan], *, sequential: bool = False, common_rows: bool = False
) -> Choice:
    """Look first, choose after: measure what the plans have in common, then top up to one.

    Parameters
    ----------
    plans
        At least two, over one schema, with the same noise and the same kind of neighbours; from
        the coarsest analysis to the finest where decision rules compare neighbouring ones.
    sequential
        The plans will be passed over one by one, from the first. Only plans without common rows
        need to know beforehand: their common mechanism is then found from the back, so that each
        look contains the one before.
    common_rows
        Plan all of them anew on rows common to all, each at its own privacy cost. For plans that
        measure attributes of more than 1,024 cells together by different rows; `choice.plans` has
        the new ones, and `print(choice)` what that costs in error: 8 to 45 % for bands and prefix
        sums of ages that were planned apart.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 10, "sex": 2, "region": 4})
    >>> tables = [nz.Workload.marginals(schema, k=k) for k in (1, 2)]
    >>> one, two = [nz.plan(table, budget=nz.zCDP(0.5)) for table in tables]
    >>> choice = nz.adaptive([one, two])
    >>> records = {"age": [3, 4, 4], "sex": [0, 1, 1], "region": [0, 0, 2]}
    >>> look = choice.look(records)
    >>> release = look.choose(two)
    >>> release.plan is two
    True
    """
    checked = _checked(plans)
    if common_rows:
        return Choice.of(on_common_rows(checked), sequential, originals=checked)
    return Choice.of(checked, sequential)


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Plans to choose from, and the one that measures what they have in common.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> choice.privacy.rho <= 0.5  # of looking and choosing together
    True
    """

    plans: tuple[Plan, ...]
    common: Plan
    family: Family[Any]
    sequential: bool
    originals: tuple[Plan, ...]  # as they were given, where they were planned anew

    @classmethod
    def of(
        cls,
        plans: Sequence[Plan],
        sequential: bool,
        originals: Sequence[Plan] | None = None,
        family: Family[Any] | None = None,
    ) -> Choice:
        mechanisms = [plan.mechanism for plan in plans]
        family = family or _family(mechanisms, plans[0].privacy.neighbours)
        common = family.common(mechanisms, sequential)
        if not common.numbers:
            raise PlanError(
                "the plans have nothing in common: whatever is looked at first would be wasted on "
                "some of them. Choose between them without data, or plan queries that overlap"
            )
        if not family.nested:  # refused here, not after the look was paid for
            for mechanism in mechanisms:
                family.rest(mechanism, common)
        asked = Union.of(plans)
        stated = guarantee_of(common, plans[0])
        # It is below every plan, and so is its cost, whatever was rounded up on the way.
        cheapest = min(plan.privacy.pcost for plan in plans)
        privacy = replace(stated, pcost=min(stated.pcost, cheapest))
        shares = [privacy.pcost / plan.privacy.pcost for plan in plans]
        ends = dict.fromkeys(_percent(share) for share in (min(shares), max(shares)))
        shared = (
            f"what {len(plans)} plans have in common, {' to '.join(ends)} of their privacy cost"
        )
        origin = Origin.like(plans[0], "common", f"none: {shared}", plans[0].noise)
        span = family.span(mechanisms)
        plan = described(asked, common, privacy, origin, span)
        return cls(tuple(plans), plan, family, sequential, tuple(originals or plans))

    # ------------------------------------------------------------------ what it costs

    @property
    def privacy(self) -> Guarantee:
        """What looking and choosing guarantee together, whichever plan it is: the worst one's."""
        return max((plan.privacy for plan in self.plans), key=lambda g: g.pcost)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of each plan's privacy cost that the look carries."""
        return tuple(self.common.privacy.pcost / plan.privacy.pcost for plan in self.plans)

    @cached_property
    def workload(self) -> Workload:
        """What the look answers."""
        return self.common.workload

    def number(self, plan: Plan | int) -> int:
        """The place of a plan among the choices: a plan itself, or its place."""
        if isinstance(plan, int) and not isinstance(plan, bool):
            if 0 <= plan < len(self.plans):
                return plan
        else:
            for number, pair in enumerate(zip(self.plans, self.originals, strict=True)):
                if any(plan is one for one in pair):
                    return number
        raise PlanError(
            f"{plan!r} is none of the {len(self.plans)} plans to choose from: give one of those "
            f"that adaptive([...]) was made of, or its place from 0 to {len(self.plans) - 1}"
        )

    def without(self, plan: Plan | int) -> Choice:
        """The choice that is left when a plan is passed over."""
        gone = self.number(plan)
        if len(self.plans) < 3:
            raise PlanError("two plans are left: take one of them, look.choose(plan)")
        if not self.family.nested and not (self.sequential and gone == 0):
            raise PlanError(
                "plans without common rows can be passed over from the first to the last, and only "
                "if that was said beforehand: adaptive([...], sequential=True)"
            )
        keep = [i for i in range(len(self.plans)) if i != gone]
        plans, originals = [self.plans[i] for i in keep], [self.originals[i] for i in keep]
        # The same family, though those left may have rows in common: it knows what was measured.
        return Choice.of(plans, self.sequential, originals, self.family)

    # ------------------------------------------------------------------ looking

    def look(self, data: object, **how: Unpack[ReleaseOptions]) -> Look:
        """Measure what the plans have in common, once.

        Parameters
        ----------
        data
            As `Plan.release` takes them; opened once, for the look and for what follows.
        how
            `ledger`, `dataset`, `purpose`, `person`, `seed` and `randomness`, as `Plan.release`
            takes them, also for what is measured after choosing. The ledger is charged for the
            look now, and for the rest then.
        """
        around = Circumstances.of(data, (self.common, *self.plans), how)
        paid = NOTHING.and_for(self.common.mechanism, self.common.privacy)
        return Look(self, around.release(self.common, "look"), around, paid)

    def __repr__(self) -> str:
        return f"Choice({len(self.plans)} plans; the look is {self.common!r})"

    def __str__(self) -> str:
        lines = [
            f"Choice of {len(self.plans)} plans, after a look at what they have in common",
            f"  privacy  ρ = {text_up(self.privacy.rho)} at most, whichever is chosen; "
            f"ρ = {text_up(self.common.privacy.rho)} for the look alone",
            f"  look     {counted(len(self.workload), 'query', 'queries')}, "
            f"RMSE {self.common.rmse:.4g}",
        ]
        for number, (plan, share) in enumerate(zip(self.plans, self.shares, strict=True)):
            given = self.originals[number]
            anew = "" if given is plan else f" ({_compared(plan, given)})"
            lines.append(
                f"  plan {number}   {counted(len(plan.workload), 'query', 'queries')}, "
                f"RMSE {plan.rmse:.4g}{anew}; "
                f"the look carries {_percent(share)} of ρ = {text_up(plan.privacy.rho)}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Look(Answers):
    """What the plans have in common, measured; one of them may follow, once.

    It answers like any release. Stopping here costs the look and no more.

    Notes
    -----
    What follows is charged the plan's cost less the look's, which is right once: whoever pays least
    for the look has most left to pay. So a look is neither copied nor sent to another process, and
    a ledger lets its entry be followed once at that price. Whatever is measured after it again,
    because a first try broke off, is charged all that it costs on its own.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> look = choice.look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99})
    >>> look.answer(nz.Query(schema, ["sex"])).estimate.shape
    (2,)
    >>> look.choose(two).plan is two
    True
    """

    choice: Choice
    release: Release
    _around: Circumstances
    _paid: Paid  # all that was measured to get here
    _followed: list[str] = field(default_factory=list)
    _process: int = field(default_factory=os.getpid)

    # ------------------------------------------------------------------ what was seen

    @property
    def plan(self) -> Plan:
        """The plan of what was measured."""
        return self.release.plan

    @property
    def privacy(self) -> Guarantee:
        """What was spent so far."""
        return self.plan.privacy

    @property
    def schema(self) -> Schema:
        """The attributes that may be asked about."""
        return self.release.schema

    @property
    def origin(self) -> str:
        return self.release.origin

    @property
    def provenance(self) -> Provenance:
        """Where the noise came from."""
        return self.release.provenance

    def answer(
        self, query: Query | str, *, level: float = 0.95, simultaneous: bool = False
    ) -> Answer:
        """The answer to a query that all plans can answer; see `Release.answer`."""
        return self.release.answer(query, level=level, simultaneous=simultaneous)

    def named(self, name: str) -> Query | None:
        """The query of what was measured that is called so."""
        return self.release.named(name)

    def variance(self, query: Query | str) -> Array:
        """The exact variance of every row."""
        return self.release.variance(query)

    def save(
        self, folder: str | os.PathLike[str], *, tables: Sequence[Query | str] | None = None
    ) -> None:
        """Write what was seen to a new folder, as `Release.save` does.

        In another program the look is then an earlier release: plan again what was chosen, and
        `plan.given(nz.load(folder)).release(data, ledger=…, dataset=…)` measures what is left of it
        and charges that alone. The plans to choose from are not saved: what a folder says of noise
        and costs is not taken on trust.
        """
        self.release.save(folder, tables=tables)

    # ------------------------------------------------------------------ what follows

    def recommend(self, rule: Rule | None = None) -> Recommendation:
        """What a rule makes of the look, with its reasons; costs nothing.

        Parameters
        ----------
        rule
            `Usefulness(share, ratio)`, which is taken unless another is given;
            `SignalToNoise(share, ratio)`, `Posterior(...)`, `ConfidenceRegion(...)`, or a function
            of the look that returns a plan, its place, or None to stop.
        """
        return recommended(self, Usefulness() if rule is None else rule)

    def choose(self, plan: Plan | int | Recommendation) -> Release:
        """Measure what is left of a plan, and put both together: that plan's release.

        The two charges add up to the plan's privacy cost. A look can be followed once; more is
        asked with `another_plan.given(release)`.
        """
        if isinstance(plan, Recommendation):
            if plan.number is None:
                raise PlanError("the recommendation is to stop here: there is no plan to choose")
            plan = plan.number
        number = self.choice.number(plan)
        target = self.choice.plans[number]
        return self._followed_by(target, f"plan {number} after the look")[0]

    def without(self, plan: Plan | int) -> Look:
        """Pass a plan over, and look closer at what the others have in common.

        Measures what is missing; whichever plan is chosen later, nothing of it is wasted.
        """
        left = self.choice.without(plan)
        release, paid = self._followed_by(left.common, f"look at {len(left.plans)} plans")
        return Look(left, release, self._around.next(), paid)

    def follow(self, rule: Rule | None = None) -> Release:
        """Do what a rule recommends until it has chosen: that plan's release, or the look's own
        where the rule says to stop."""
        advice = self.recommend(rule)
        if advice.number is None:
            return self.release
        if advice.action == "pass over":
            return self.without(advice.number).follow(rule)
        return self.choose(advice)

    def _followed_by(self, target: Plan, what: str) -> tuple[Release, Paid]:
        """The target's release, and what was measured and paid to get there."""
        if os.getpid() != self._process:
            raise self._no_copy("followed in a process forked from the one that made it")
        with _CLAIMING:  # before measuring, or two threads could both follow one look
            if self._followed:
                raise PlanError(
                    f"this look was followed already, by {self._followed[0]}: a second time would "
                    f"cost more than either plan. Ask for the rest of one: plan.given(release)"
                )
            self._followed.append(what)
        try:
            family, left = self.choice.family, self._left(target.privacy)
            rest = family.rest(target.mechanism, self._have)
            parts, paid = [self.release], self._paid
            if rest is not None:
                last = self._measured(replace(target, mechanism=rest, privacy=left), what)
                parts.append(last)
                paid = paid.and_for(rest, last.plan.privacy)
        except BaseException:  # refused or broken off: it may be tried again, and is charged again
            self._followed.clear()
            raise
        return completed(family, target, parts), paid

    @property
    def _have(self) -> Mechanism:
        """Return one mechanism for all that was measured so far.

        After several steps explicit matrices differ from the plan's by rounding, and a record that
        paid more than the plan says has less left to pay.
        """
        family = self.choice.family
        return self.plan.mechanism if family.nested else family.together(self._paid.mechanisms)

    def _left(self, total: Guarantee) -> Guarantee:
        """What is left to pay of a total: the two charges never add up to more than it.

        Notes
        -----
        Whatever pair of neighbours, the second measurement adds no more than C_total − C_paid to
        what the first told about them; so both together cost what the total does, even where each
        alone is dearest for another pair. Less was paid than this look states where it differs
        from the one before by nothing that is measured.
        """
        paid = min(Fraction(self.privacy.pcost), self._paid.price)
        left = fraction_down(Fraction(total.pcost) - paid)
        return replace(total, pcost=max(0.0, left))

    def _measured(self, rest: Plan, what: str) -> Release:
        """What is left, at the price of the difference where that is right, else at its own."""
        around = self._around.next()
        if around.counted:
            try:
                return around.release(rest, what, self.release.recorded, self._paid)
            except AlreadyFollowed:
                pass
        alone = guarantee_of(rest.mechanism, rest)
        return around.release(replace(rest, privacy=alone), what)

    def __copy__(self) -> Look:
        raise self._no_copy("copied")

    def __deepcopy__(self, memo: object) -> Look:
        raise self._no_copy("copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise self._no_copy("pickled")

    def _no_copy(self, what: str) -> PlanError:
        return PlanError(
            f"a look can be followed once, and so it cannot be {what}. Save it, look.save(folder), "
            f"and go on elsewhere with plan.given(nz.load(folder)).release(data, …)"
        )

    def __repr__(self) -> str:
        return f"Look({self.release!r}; {len(self.choice.plans)} plans to choose from)"

    def __str__(self) -> str:
        return f"{self.release}\n  next     .choose(plan) of {len(self.choice.plans)} plans"


def _family(mechanisms: Sequence[Mechanism], neighbours: str) -> Family[Any]:
    try:
        return family_for(mechanisms, neighbours)
    except PlanError as error:
        raise PlanError(
            error.message
            + ". They can be planned anew on common rows, adaptive([...], common_rows=True), at "
            "their own cost: print(choice) says how much larger errors are then, which is from "
            "nothing to some times as large"
        ) from None


def _compared(plan: Plan, given: Plan) -> str:
    """The error of a plan before it was planned anew, and what that changed."""
    change = plan.rmse / given.rmse - 1.0 if given.rmse else 0.0
    now = f"{abs(change):.1%} {'larger' if change >= 0 else 'smaller'} now"
    return f"planned on its own rows: {given.rmse:.4g}, {now}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _checked(plans: object) -> tuple[Plan, ...]:
    listed = tuple(plans) if isinstance(plans, Sequence) else ()
    if len(listed) < 2 or not all(isinstance(plan, Plan) for plan in listed):
        raise PlanError(
            f"adaptive() takes two plans or more: adaptive([plan_a, plan_b]), found {plans!r}"
        )
    if len({id(plan) for plan in listed}) < len(listed):
        raise PlanError("the same plan is there twice: give different ones")
    for number, plan in enumerate(listed):
        require_alike(plan, listed[0])
        if plan.privacy.pcost == 0:
            raise PlanError(
                f"plan {number} costs nothing, so there is nothing to save by looking first: "
                f"release it as it is, and choose among the others"
            )
    return listed
