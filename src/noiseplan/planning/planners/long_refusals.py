"""Why no planner can plan an attribute of so many values, and what can be asked instead."""

from __future__ import annotations

from itertools import count
from typing import Final

from noiseplan.errors import TooManyValues, remedy, setting
from noiseplan.planning import limits
from noiseplan.planning.long_problem import asked_by_value
from noiseplan.planning.objectives import RelativeError
from noiseplan.planning.planners.long_plans import NAMES, untried
from noiseplan.planning.problem import Problem
from noiseplan.queries import Prefix, Ranges
from noiseplan.schema import Attribute
from noiseplan.schema.labels import IN_BINS

# Bins that are proposed: planned in seconds with any budget, also for several tables of them, where
# twice as many may take a minute and a thousand some minutes.
FEW_BINS: Final = 250


def require_short(problem: Problem) -> None:
    """Refuse attributes that are planned neither along their values nor by a matrix of them."""
    design, reason = problem.design, untried(problem)
    most = limits.SEARCHED_VALUES if reason and problem.planner in NAMES else limits.GRAM_VALUES
    every = enumerate(design.roles.roles)
    roles = [r for r, role in every if not role.plain and design.group_count(r) > most]
    if not roles:
        return
    place = int(design.roles.roles[roles[0]].members[0])
    name = problem.workload.schema.names[place]
    raise TooManyValues(_said(problem, place, most, reason), name)


def _said(problem: Problem, place: int, most: int, reason: str | None) -> str:
    schema = problem.workload.schema
    attribute, has = schema.attributes[place], _sizes(problem, [place])
    only: str
    if problem.planner not in NAMES:
        only = f"{has}, and at most {most:,} are planned by " + setting("planner", problem.name)
        return (
            only
            + ". To plan it, "
            + _merge(attribute, most)
            + ", or use "
            + setting("planner", "auto")
        )
    if reason is not None:
        only = (
            f"{has}, and more than {most:,} are planned as they are, one by one, when {reason}: "
            f"not by prefix sums, ranges, levels (Levels) or rows of your own. "
        )
        return only + "To plan it, " + _merge(attribute, most) + ", or choose " + _instead(problem)
    others = _others(problem, place)
    if others:
        return _one_at_a_time(problem, place, others[0])
    only = (
        f"{has}, and more than {most:,} are planned by their values, by levels that lie within "
        f"each other (Levels), or by prefix sums, ranges and groups in order; not by these "
        f"queries. "
    )
    return only + "To plan it, " + _merge(attribute, most) + ", or ask for these"


def _sizes(problem: Problem, places: list[int]) -> str:
    """How many values each of some attributes has."""
    schema = problem.workload.schema
    each = [f"{schema.names[i]!r} has {schema.attributes[i].size:,}" for i in sorted(places)]
    return " and ".join(each) + " values"


def _instead(problem: Problem) -> str:
    """What can be chosen under which long attributes are planned: all of it."""
    if problem.neighbours == "replace":
        return setting("neighbours", "add-remove")
    if isinstance(problem.goal, RelativeError):
        return "another objective"
    example = remedy("zCDP budget", "budget=zCDP(0.1)", "0.1")
    return "a budget of zCDP or (ε, δ), as in " + example + ", with records added or removed"


def _others(problem: Problem, place: int) -> list[int]:
    """Other attributes that are too long to stand beside one that is planned along its values."""
    most = _beside(problem, place)
    sizes = enumerate(problem.workload.schema.shape)
    found = [i for i, n in sizes if i != place and n > most]
    return [i for i in found if not asked_by_value(problem.workload, i)]


def _beside(problem: Problem, place: int) -> int:
    """How many values other attributes may have: more beside sums in order than beside levels."""
    columns = problem.workload.columns
    numbers = set(columns.factors[columns.attributes == place].tolist())
    along = any(isinstance(columns.distinct[n], Prefix | Ranges) for n in numbers)
    return limits.SERIES_VALUES if along else limits.LONG_VALUES


def _one_at_a_time(problem: Problem, place: int, other: int) -> str:
    schema, most = problem.workload.schema, _beside(problem, place)
    only = (
        f"{_sizes(problem, [place, other])}, and prefix sums, ranges or levels of one attribute so "
        f"long are planned at a time: any other is asked by its values alone, or has at most "
        f"{most:,}. Plan one of them by itself, with a part of the budget; or, of "
        f"{schema.names[other]!r}, "
    )
    return only + _merge(schema.attributes[other], most)


def _merge(attribute: Attribute, most: int) -> str:
    """How few values would do."""
    if not attribute.ordered:
        return f"merge values: a coarser code, of at most {most:,}"
    wide = _round_number(attribute.size / min(most, FEW_BINS))
    bins = -(-attribute.size // wide)
    said = f"merge values: {bins:,} bins of {wide:,} each, say, which are planned in seconds, as "
    return said + IN_BINS


def _round_number(least: float) -> int:
    """The first of 1, 2, 5, 10, 20, 50, … that is not below.

    Examples
    --------
    >>> [_round_number(least) for least in (0.3, 3.0, 20.0, 20.1)]
    [1, 5, 20, 50]
    """
    every = (int(digit + "0" * zeros) for zeros in count() for digit in "125")
    return next(number for number in every if number >= least)
