"""What `print(plan)` and `print(release)` show, by whether errors are known before the data are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, final

import numpy as np

from noiseplan.queries import Identity
from noiseplan.texts import counted
from noiseplan.words import partition_plan, plan
from noiseplan.words.privacy import counted_words, decided_words

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan, TableKind
    from noiseplan.release.release import Release


# Queries among which an example of what can be asked is looked for.
LOOKED_AT = 100


class Telling(ABC):
    """What is said of plans of a kind; nothing of errors that nobody knows."""

    # Columns that the names of facts take, where facts stand below each other.
    width: ClassVar[int]

    @abstractmethod
    def plan(self, made: Plan) -> str:
        """What `print(plan)` shows."""

    @abstractmethod
    def facts(self, made: Plan, read: str) -> str:
        """The same but for the tables, which may be drawn; `read` says what was read for it."""

    @abstractmethod
    def noise(self, made: Plan) -> str:
        """What noise would be drawn."""

    @abstractmethod
    def release(self, made: Release) -> str:
        """What `print(release)` shows."""

    def rmse(self, made: Plan) -> float | None:
        """The average error, where it is known."""
        return None

    def average(self, made: Plan) -> str:
        """The same in words."""
        return "depends on the data"

    def largest(self, made: Plan) -> str:
        """The largest standard error."""
        return "–"

    def nearness(self, made: Plan) -> str:
        """How near it is to the best."""
        return "–"

    def tables(self, made: Plan) -> list[TableKind]:
        """The errors of every table."""
        return []


@final
class KnownErrors(Telling):
    """Of plans that look at no data."""

    width = 12

    def plan(self, made: Plan) -> str:
        return plan.describe(made)

    def facts(self, made: Plan, read: str) -> str:
        return "\n".join(plan.facts(made, read))

    def noise(self, made: Plan) -> str:
        return plan.noise_words(made)

    def release(self, made: Release) -> str:
        return describe_release(made)

    def rmse(self, made: Plan) -> float | None:
        return made.rmse

    def average(self, made: Plan) -> str:
        return f"{made.rmse:.4g}"

    def largest(self, made: Plan) -> str:
        return plan.largest_text(float(np.sqrt(np.max(made.type_worst))))

    def nearness(self, made: Plan) -> str:
        return plan.proved_sentence(made) or "not proved for this objective"

    def tables(self, made: Plan) -> list[TableKind]:
        return plan.table_rows(made)


@final
class UnknownErrors(Telling):
    """Of plans that the data complete."""

    width = 13

    def plan(self, made: Plan) -> str:
        return partition_plan.describe(made)

    def facts(self, made: Plan, read: str) -> str:
        return partition_plan.describe(made)

    def noise(self, made: Plan) -> str:
        return partition_plan.noise_words(made)

    def release(self, made: Release) -> str:
        return partition_plan.describe_release(made)


KNOWN: Final = KnownErrors()
UNKNOWN: Final = UnknownErrors()


def telling(made: Plan) -> Telling:
    """Who tells this plan: the one place that asks."""
    return UNKNOWN if made.data_aware else KNOWN


def plan_text(made: Plan) -> str:
    """What `print(plan)` shows."""
    return telling(made).plan(made)


def release_text(made: Release) -> str:
    """What `print(release)` shows."""
    return telling(made.plan).release(made)


# ---------------------------------------------------------------------- a release


def describe_release(release: Release) -> str:
    """What `print(release)` shows."""
    facts = (f"  {name:<7}  {text}" for name, text in named_facts(release).items())
    return "\n".join([headline(release), *facts])


def headline(release: Release) -> str:
    """How much a release answers."""
    workload = release.plan.workload
    queries = counted(len(workload), "query", "queries")
    return f"Release of {queries}, {counted(workload.rows, 'row', 'rows')}"


def named_facts(release: Release) -> dict[str, str]:
    """What is known of a release, by name."""
    plan = release.plan
    return {
        "privacy": _promise(plan),
        "noise": release.brand,
        "holds": f"{counted(plan.measured_numbers, 'noisy number')}; RMSE {plan.rmse:.4g}",
        **({} if release.choice is None else {"counted": counted_words(plan)}),
        "ask": f"{_example(plan)}, .answer(query), .covariance(query, other)",
    }


def _example(plan: Plan) -> str:
    """A call that this release answers: a table of two attributes, of one, or what was asked."""
    asked = list(islice(plan.workload, LOOKED_AT))
    plain = [q for q in asked if q.joint is None and set(q.factors.values()) == {Identity()}]
    for count in (2, 1):
        for query in plain:
            if len(query.attributes) == count:
                return f".table({', '.join(map(repr, query.attributes))})"
    return f".answer({asked[0].name!r})"


def _promise(plan: Plan) -> str:
    privacy, asked = plan.privacy, decided_words(plan)
    if not math.isfinite(privacy.pcost):
        return "not known here: the measurements were made elsewhere"
    whose = "as the maker of the tables states it" if plan.noise == "given" else "spent once"
    spent = privacy.describe().splitlines()[0]
    return f"{asked} ({spent}), {whose}" if asked else f"{spent}, {whose}"
