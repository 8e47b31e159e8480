"""Which answers add up to each other, in words, where a mechanism measures queries apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noiseplan.escaping import visible_name
from noiseplan.mechanisms.base import Mechanism
from noiseplan.queries import Query, Workload
from noiseplan.texts import counted, listed, shortened

# Groups that are named, names of each, and letters of a name.
GROUPS, NAMES, LETTERS = 4, 3, 40
# Queries of larger workloads are not gone through.
MOST_QUERIES: Final = 1000


def agreement(mechanism: Mechanism, workload: Workload) -> str:
    """Names of the queries that agree, group by group; empty where all do, or none.

    Examples
    --------
    >>> import noiseplan as nz
    >>> from noiseplan.mechanisms.side_by_side import SideBySide
    >>> schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    >>> pairs = [nz.Workload.marginals(schema, up_to=2).subset([1, 4]), [nz.Query(schema, ["c"])]]
    >>> parts = [nz.plan(pair, budget=nz.zCDP(0.1)).mechanism for pair in pairs]
    >>> agreement(SideBySide(tuple(parts), True), nz.Workload.marginals(schema, k=1))
    "tables that agree: 'a', 'b'; 1 other agrees with none"
    """
    if len(workload) > MOST_QUERIES:
        return ""
    groups = mechanism.agreeing(list(workload))
    several = [group for group in groups or () if len(group) > 1]
    if not several:
        return ""
    named = [_named([workload.query(place).name for place in group]) for group in several[:GROUPS]]
    more = len(several) - GROUPS
    said = " | ".join(named) + (f" and {counted(more, 'group')} more" if more > 0 else "")
    return f"tables that agree: {said}{_others(len(workload) - sum(map(len, several)))}"


def cautions(mechanism: Mechanism, workload: Workload) -> list[str]:
    """Sentences for readers of the tables: what was measured apart, and which tables agree.

    Empty where all tables agree.
    """
    if not mechanism.caution:
        return []
    agreeing = agreement(mechanism, workload)
    return [mechanism.caution, *([f"T{agreeing[1:]}."] if agreeing else [])]


def agreeing_groups(mechanism: Mechanism, queries: Sequence[Query]) -> list[str] | None:
    """Name the group of each query, "group 1", or "none"; None where all queries agree."""
    groups = mechanism.agreeing(queries)
    if groups is None:
        return None
    names = ["none"] * len(queries)
    for number, group in enumerate((group for group in groups if len(group) > 1), 1):
        for place in group:
            names[place] = f"group {number}"
    return names


def _named(names: list[str]) -> str:
    return listed((shortened(visible_name(name), LETTERS) for name in names), NAMES)


def _others(count: int) -> str:
    return f"; {count:,} other{'s agree' if count > 1 else ' agrees'} with none" if count else ""
