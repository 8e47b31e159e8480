"""What follows from released counts: statistics of them, and questions in a line of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noiseplan._doors import through
from noiseplan.release.answers import Answer, Answers

if TYPE_CHECKING:
    from noiseplan.statistics.asked_groups import Asked
    from noiseplan.statistics.attribute_values import Values
    from noiseplan.statistics.statistic import Statistic


class Derived(Answers):
    """Answers that are more than counts. All of it is post-processing, and costs no privacy.

    Groups, `by`, and what is asked about are named as attributes, "region" or ["region", "sex"], as
    a question, "age=25..34 | 35..44, sex", or as a mapping to factors.
    """

    def ask(
        self,
        question: str,
        *,
        values: Values | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Answer | Statistic:
        """The answer to a question in a line of text, as the command line takes it.

        "sex, age=25..34 | 35..44", "median(income), region", "share(sex), region=North".
        `values` are for a mean, as `mean` takes them.
        """
        answered: Answer | Statistic = self._derived("ask", (question, values), level, simultaneous)
        return answered

    def mean(
        self,
        attribute: str,
        *,
        by: Asked = (),
        values: Values | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Statistic:
        """The mean of an attribute for every group.

        Numbers stand for themselves, bins for their midpoints, unless `values` has others: one for
        each value, or a mapping from some of them, as in {"99+": 104}.
        """
        found: Statistic = self._derived("mean", (attribute, by, values), level, simultaneous)
        return found

    def median(
        self, attribute: str, *, by: Asked = (), level: float = 0.95, simultaneous: bool = False
    ) -> Statistic:
        """The median of an ordered attribute for every group; see `quantile`."""
        found: Statistic = self._derived("quantile", (attribute, None, by), level, simultaneous)
        return found

    def quantile(
        self,
        attribute: str,
        probabilities: Sequence[float] | float,
        *,
        by: Asked = (),
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Statistic:
        """Quantiles of an ordered attribute for every group.

        Of values the first up to which there are enough records; inside a bin records are taken to
        lie evenly.
        """
        found: Statistic = self._derived(
            "quantile", (attribute, probabilities, by), level, simultaneous
        )
        return found

    def share(
        self, what: Asked, *, by: Asked = (), level: float = 0.95, simultaneous: bool = False
    ) -> Statistic:
        """How much of each group has each value: share("sex", by="region") adds up to 1 in a
        region, share("region", by="sex") in a sex, and share(["sex", "region"]) over all."""
        found: Statistic = self._derived("share", (what, by), level, simultaneous)
        return found

    def ratio(
        self,
        what: Asked,
        other: Asked,
        *,
        by: Asked = (),
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Statistic:
        """One count over another, row by row or all over one: ratio("sex=F", "sex=M")."""
        found: Statistic = self._derived("ratio", (what, other, by), level, simultaneous)
        return found

    def _derived(self, kind: str, asked: tuple[object, ...], level: float, together: bool) -> Any:
        how = through("release.intervals")(level, together)
        return through(f"release.{kind}")(self, *asked, how)
