"""A look at what plans have in common, and the choice that follows from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from noiseplan.choosing.choice import Choice, remaining
from noiseplan.choosing.continuation import completed, rest_of
from noiseplan.choosing.joined_plans import guarantee_of
from noiseplan.counting import Projectable, count_tables
from noiseplan.counting.counted_tables import Tables
from noiseplan.counting.records import Records
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import PlanError
from noiseplan.ledger.text_checks import note
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.price import NOTHING, Paid
from noiseplan.noise.seeds import derived_seed
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Guarantee
from noiseplan.queries import Query
from noiseplan.release.answer import Answer
from noiseplan.release.open_data import admitted, opened
from noiseplan.release.release import Release, ReleaseOptions, make_release

if TYPE_CHECKING:
    from noiseplan.choosing.rules import Recommendation, Rule


_CLAIMING = Lock()


@dataclass(frozen=True, eq=False, repr=False)
class Circumstances:
    """Where the data are and how releases of them are made: the same for every step.

    Confidential, as the data are. Seeds differ from step to step: the same noise twice would show
    the counts beneath.
    """

    source: Projectable
    how: ReleaseOptions
    step: int = 0

    @classmethod
    def of(cls, data: object, choice: Choice, how: ReleaseOptions) -> Circumstances:
        """Count what any of the plans may measure: the data are read once, for the look and for
        what follows, and nothing that is read later can differ."""
        kept = how.copy()
        person = kept.pop("person", None)
        # The longest purpose that a step will have: refused before the look is paid for.
        longest = f"{kept.get('purpose') or ''}: plan {len(choice.plans)} after the look"
        if kept.get("ledger") is not None:
            note("purpose", longest)
        plans = (choice.common, *choice.plans)
        with admitted(choice.common, kept) as admission:
            source = opened(admission, data, person)
            counted = count_tables(source, [s for p in plans for s in p.mechanism.sets])
        return cls(counted, kept)

    @property
    def counted(self) -> bool:
        """Whether all that may be measured is at hand, and cannot change any more."""
        source = self.source
        if isinstance(source, Tables):
            return len(source.stretches) <= 1 or isinstance(source.source, Records)
        return isinstance(source, Records | CountTensor)

    def release(self, plan: Plan, what: str, follows: str = "", before: Paid = NOTHING) -> Release:
        """Charge, count and measure."""
        how = self.how.copy()
        if how.get("ledger") is not None:
            purpose = how.get("purpose")
            how["purpose"] = f"{purpose}: {what}" if purpose else what
        seed = how.get("seed")
        if seed is not None and self.step:
            how["seed"] = derived_seed(seed, self.step)
        return make_release(plan, self.source, follows=follows, before=before, **how)

    def next(self) -> Circumstances:
        return replace(self, step=self.step + 1)


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """What the plans have in common, measured; one of them may follow, once.

    It answers like any release. Stopping here costs the look and no more.

    Notes
    -----
    What follows is charged the plan's cost less the look's, which is right once: whoever pays least
    for the look has most left to pay. So a look is neither copied nor sent to another process, and
    a ledger lets its entry be followed once at that price. Whatever is measured after it again,
    because a first try broke off, is charged all that it costs on its own.
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

    def table(
        self,
        *attributes: str,
        level: float = 0.95,
        simultaneous: bool = False,
        frame: str | None = None,
    ) -> Any:
        """A table as a tidy frame; see `Release.table`."""
        return self.release.table(*attributes, level=level, simultaneous=simultaneous, frame=frame)

    def answer(
        self, query: Query | str, *, level: float = 0.95, simultaneous: bool = False
    ) -> Answer:
        """The answer to a query that all plans can answer; see `Release.answer`."""
        return self.release.answer(query, level=level, simultaneous=simultaneous)

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

    def recommend(self, rule: Rule) -> Recommendation:
        """What a rule makes of the look, with its reasons; costs nothing.

        Parameters
        ----------
        rule
            `SignalToNoise(share, ratio)`, `Posterior(...)`, `ConfidenceRegion(...)`, or a function
            of the look that returns a plan, its place, or None to stop.
        """
        from noiseplan.choosing.rules import recommended

        return recommended(self, rule)

    def choose(self, plan: Plan | int | Recommendation) -> Release:
        """Measure what is left of a plan, and put both together: that plan's release.

        The two charges add up to the plan's privacy cost. A look can be followed once; more is
        asked with `another_plan.given(release)`.
        """
        from noiseplan.choosing.rules import Recommendation

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

    def follow(self, rule: Rule) -> Release:
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
            family, left = self.choice.family, remaining(target.privacy, self.privacy)
            rest = rest_of(family, target, self.plan, left)
            parts, paid = [self.release], self._paid
            if rest is not None:
                last = self._measured(rest, what)
                parts.append(last)
                paid = paid.and_for(rest.mechanism, last.plan.privacy)
        except BaseException:  # refused or broken off: it may be tried again, and is charged again
            self._followed.clear()
            raise
        return completed(family, target, parts), paid

    def _measured(self, rest: Plan, what: str) -> Release:
        """What is left, at the price of the difference where that is right, else at its own."""
        from noiseplan.ledger import AlreadyFollowed

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
