"""A release in words: what `print(release)` shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noiseplan.privacy.guarantee import asked_for
from noiseplan.queries import Identity
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan
    from noiseplan.release.release import Release

# Queries among which an example of what can be asked is looked for.
LOOKED_AT = 100


def describe(release: Release) -> str:
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


def counted_words(plan: Plan) -> str:
    """Which records of each person were counted, and that no error covers the others."""
    some = "one record" if plan.max_rows == 1 else f"at most {plan.max_rows} records"
    others = "any others are left out, which no error or interval covers"
    return f"of each {plan.unit} {some}, drawn at random; {others}"


def _example(plan: Plan) -> str:
    """A call that this release answers: a table of two attributes, of one, or what was asked."""
    workload = plan.workload
    asked = [workload.query(position) for position in range(min(len(workload), LOOKED_AT))]
    plain = [q for q in asked if q.joint is None and set(q.factors.values()) == {Identity()}]
    for count in (2, 1):
        for query in plain:
            if len(query.attributes) == count:
                return f".table({', '.join(map(repr, query.attributes))})"
    return f".answer({asked[0].name!r})"


def _promise(plan: Plan) -> str:
    privacy, asked = plan.privacy, asked_for(plan.budget)
    if not math.isfinite(privacy.pcost):
        return "not known here: the measurements were made elsewhere"
    whose = "as the maker of the tables states it" if plan.noise == "given" else "spent once"
    return f"{privacy.describe().splitlines()[0]}, {asked + ', ' if asked else ''}{whose}"
