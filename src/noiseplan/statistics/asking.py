"""Questions in a line of text, answered: counts, and statistics of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noiseplan.errors import QueryError
from noiseplan.queries.factor_text import unquoted
from noiseplan.queries.questions import (
    STATISTICS,
    AskedStatistic,
    ask_query,
    named_query,
    read_statistic,
)
from noiseplan.statistics.attribute_values import Values
from noiseplan.statistics.quantiles import quantile
from noiseplan.statistics.ratios import mean, ratio, share
from noiseplan.statistics.statistic import Intervals, Statistic

if TYPE_CHECKING:
    from noiseplan.release.answers import Answer
    from noiseplan.release.release import Release


def ask(
    release: Release, question: str, values: Values | None, how: Intervals
) -> Answer | Statistic:
    """What a line of text asks: a query of the workload by name, a statistic, or a query.

    `values` are the numbers that a mean is made of, as `mean` takes them.
    """
    if not isinstance(question, str):
        raise QueryError(
            f"a question is a line of text, as in ask('sex, age=25..34'); found {question!r}; "
            f"a query is asked with answer(query)"
        )
    schema, workload = release.schema, release.plan.workload
    asked = None
    if named_query(question, workload) is None:
        asked = read_statistic(question, schema)
    if values is not None and (asked is None or asked.kind != "mean"):
        raise QueryError(
            f"{question!r} takes no numbers for values: these are of means, as in mean(age)"
        )
    if asked is not None:
        return _statistic(release, asked, values, how)
    query = ask_query(question, schema, workload)
    return release.answer(query, level=how.level, simultaneous=how.simultaneous)


def _statistic(
    release: Release, asked: AskedStatistic, values: Values | None, how: Intervals
) -> Statistic:
    match asked.kind, asked.arguments:
        case "mean", (attribute,):
            return mean(release, unquoted(attribute), asked.by, values, how)
        case "median", (attribute,):
            return quantile(release, unquoted(attribute), None, asked.by, how)
        case "quantile", (attribute, *chances) if chances:
            listed = [_number(text, asked) for text in chances]
            return quantile(release, unquoted(attribute), listed, asked.by, how)
        case "share", parts if parts != ("",):
            return share(release, ", ".join(parts), asked.by, how)
        case "ratio", (one, other):
            return ratio(release, one, other, asked.by, how)
    raise QueryError(
        f"{asked.kind}({', '.join(asked.arguments)}) is not asked so: write "
        f"{STATISTICS[asked.kind]}, and the groups behind it"
    )


def _number(text: str, asked: AskedStatistic) -> float:
    try:
        return float(text)
    except ValueError:
        raise QueryError(
            f"{text!r} is no number: write {STATISTICS[asked.kind]}, the attribute first and then "
            f"probabilities"
        ) from None
