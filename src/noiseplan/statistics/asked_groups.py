"""What a statistic is asked of, and for which groups, as queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from noiseplan.errors import PlanError, QueryError, UnanswerableError, remedy, setting
from noiseplan.queries import Factor, Level, Query
from noiseplan.queries.questions import question_of, read_question

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
    return f"{what} by {groups.name}" if groups.attributes or groups.named else what


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
        factors = [each[name] for each in asked if name in each]
        levels = {f.levels for f in factors if isinstance(f, Level)}
        alone = len(levels) == 1 and all(isinstance(f, Level) for f in factors)
        level = levels.pop() if alone else ()
        found[name] = schema.level_name(name, level[0]) if len(level) == 1 else name
    return found


def _sums_call(needed: Mapping[str, str], summed: str) -> str:
    """The query for a table with prefix sums of one attribute."""
    levels = {n: f"Level({c.removeprefix(n + '.')!r})" for n, c in needed.items() if c != n}
    factors = dict.fromkeys(needed, "Identity()") | levels | {summed: "Prefix()"}
    return f"Query(schema, {{{', '.join(f'{n!r}: {f}' for n, f in factors.items())}}})"


def _with_sums(names: Sequence[str], summed: str) -> str:
    """The question for a table with prefix sums of one attribute."""
    return ", ".join(question_of([n]) + ("=prefix" if n == summed else "") for n in names)
