"""What a statistic is asked of, and for which groups, as queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from noiseplan.errors import PlanError, QueryError, UnanswerableError, remedy, setting
from noiseplan.queries import Custom, Factor, Level, Query
from noiseplan.queries.query import SEPARATOR, factor_name
from noiseplan.queries.questions import question_of, read_question
from noiseplan.schema import Hierarchical

if TYPE_CHECKING:
    from noiseplan.release.release import Release
    from noiseplan.schema import Schema

# Names, a question, attributes with their factors, or a query.
Asked: TypeAlias = str | Sequence[str] | Mapping[str, Factor] | Query


def factors_of(asked: Asked, schema: Schema) -> dict[str, Factor]:
    """What is asked of each attribute; empty where everything is summed over."""
    if isinstance(asked, str):
        asked = read_question(asked, schema) if asked.strip() else ()
    query = asked if isinstance(asked, Query) else Query(schema, asked)
    if query.joint is not None:
        raise QueryError(
            f"groups are made of attributes, each with a factor; {query.name!r} is one matrix over "
            f"{list(query.attributes)}"
        )
    return dict(query.factors)


def together(one: Mapping[str, Factor], by: Mapping[str, Factor], schema: Schema) -> Query:
    """A query of one for every group; an attribute is in one or in the other."""
    both = [name for name in one if name in by]
    if both:
        raise QueryError(
            f"{both[0]!r} is what is asked about, and named in "
            + remedy("argument", "by=", "the groups")
            + " too: name it once, with what is asked of it"
        )
    return Query(schema, {**one, **by})


def called(what: str, groups: Query) -> str:
    """What a statistic is called: "median(income) by region"."""
    return f"{what} by {as_asked(groups)}" if groups.attributes or groups.named else what


def as_asked(query: Query) -> str:
    """The name of a query, with groups of a level as a question has them: "tract=04 × sex"."""
    if query.named or query.joint is not None:
        return query.name
    schema = query.schema
    parts = [
        _group_text(schema, *each) or factor_name(schema, *each) for each in query.factors.items()
    ]
    return SEPARATOR.join(parts) or query.name


def _group_text(schema: Schema, attribute: str, factor: Factor) -> str:
    """Some groups of a level of an attribute; empty for anything else."""
    kind = schema[attribute]
    if not (isinstance(kind, Hierarchical) and isinstance(factor, Custom)):
        return ""
    level, equals, asked = factor.label.partition("=")
    if equals and level in kind.levels:
        return f"{schema.level_name(attribute, level)}={asked}"
    first = schema.levels.get(level.partition(",")[0])  # of several levels, as they were asked
    return factor.label if equals and first and first[0] == attribute else ""


@contextmanager
def answerable(
    release: Release, name: str, asked: Sequence[Mapping[str, Factor]], summed: str = ""
) -> Iterator[None]:
    """Refuse what has no exact errors, and say what to add where a plan does not tell the cells
    of what is `asked` apart, or the prefix sums of the attribute `summed`."""
    biased = (
        f"{name}: errors of statistics are made of the exact covariance of the noise, and answers "
        f"of a data-aware release are biased; release with another planner, "
    )
    release.plan.mechanism.require_unbiased(PlanError(biased + setting("planner", "auto")))
    try:
        yield
    except UnanswerableError:
        needed = _table_for(asked, release.schema)
        names = list(needed.values())
        table = question_of(names)
        if summed:
            size = release.schema[summed].size
            raise UnanswerableError(
                f"{name} cannot be had from this release: {summed!r} has {size:,} values, and the "
                f"plan does not tell prefix sums of so many; add them to the workload, "
                + remedy("add table", _sums_call(needed, summed), _with_sums(names, summed))
            ) from None
        raise UnanswerableError(
            f"{name} cannot be had from this release: the plan does not tell the cells of "
            f"{table} apart; add that table to the workload, "
            + remedy("add table", f"Query(schema, {names!r})", table)
        ) from None


def _table_for(asked: Sequence[Mapping[str, Factor]], schema: Schema) -> dict[str, str]:
    """The coarsest table that tells all of it: its attributes, and what each is called in a
    question, by a level where nothing finer is asked."""
    found = {}
    for name in sorted({name for each in asked for name in each}, key=schema.index):
        kind, factors = schema[name], [each[name] for each in asked if name in each]
        level = _finest(kind, factors) if isinstance(kind, Hierarchical) else None
        found[name] = name if level is None else schema.level_name(name, level)
    return found


def _finest(kind: Hierarchical, factors: Sequence[Factor]) -> str | None:
    """The level at which all of it is told; None for the leaves, unless they are asked by name."""
    levels = [_level_of(kind, factor) for factor in factors]
    known = [level for level in levels if level is not None]
    return min(known, key=kind.level_index) if len(known) == len(levels) else None


def _level_of(kind: Hierarchical, factor: Factor) -> str | None:
    """The coarsest level whose groups a factor counts as a whole."""
    if isinstance(factor, Level):
        return min(factor.levels, key=kind.level_index)
    if not isinstance(factor, Custom):
        return None
    for level in reversed(kind.levels[1:]):
        group = kind.group_of(level)
        first = np.unique(group, return_index=True)[1]
        if np.array_equal(factor.values, factor.values[:, first[group]]):
            return level
    return None


def _sums_call(needed: Mapping[str, str], summed: str) -> str:
    """The query for a table with prefix sums of one attribute."""
    levels = {n: f"Level({c.removeprefix(n + '.')!r})" for n, c in needed.items() if c != n}
    factors = dict.fromkeys(needed, "Identity()") | levels | {summed: "Prefix()"}
    return f"Query(schema, {{{', '.join(f'{n!r}: {f}' for n, f in factors.items())}}})"


def _with_sums(names: Sequence[str], summed: str) -> str:
    """The question for a table with prefix sums of one attribute."""
    return ", ".join(question_of([n]) + ("=prefix" if n == summed else "") for n in names)
