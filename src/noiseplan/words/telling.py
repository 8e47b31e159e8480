"""Who tells a plan and its release: by whether its errors are known before the data are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, final

import numpy as np

from noiseplan.words import partition_plan, plan, release

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan, TableKind
    from noiseplan.release.release import Release


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
        return release.describe(made)

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
