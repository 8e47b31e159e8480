"""The data of a look and of what follows it: read once, and measured step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from noiseplan.counting import Projectable, count_tables
from noiseplan.counting.counted_tables import Tables
from noiseplan.counting.records import Records
from noiseplan.counting.tensor import CountTensor
from noiseplan.ledger.text_checks import note
from noiseplan.mechanisms.price import NOTHING, Paid
from noiseplan.noise.randomness import derived_seed
from noiseplan.planning.plan import Plan
from noiseplan.release.open_data import admitted, opened
from noiseplan.release.release import Release, ReleaseOptions, make_release


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
    def of(cls, data: object, plans: Sequence[Plan], how: ReleaseOptions) -> Circumstances:
        """Count what any of the plans may measure, the look's first: the data are read once, for
        the look and for what follows, and nothing that is read later can differ."""
        kept = how.copy()
        person = kept.pop("person", None)
        # The longest purpose that a step will have: refused before the look is paid for.
        longest = f"{kept.get('purpose') or ''}: plan {len(plans) - 1} after the look"
        if kept.get("ledger") is not None:
            note("purpose", longest)
        with admitted(plans[0], kept) as admission:
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
