"""Questions in one line of text: `age=prefix, sex` or `age=25..34 | 35..44, earnings=20..`.

    question   part, part, …          attributes that are not named are summed over
    part       attribute              one row per value
               level                  one row per group of it: county, or geo.county; several
                                      levels of one attribute within each other
               attribute=factor       what is asked of it: see `factor_text`
               statistic(…)           at most one: mean(age), share(sex); see `read_statistic`

Names with any of `, = | + ..` in them are written in quotes, single or double.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noiseplan.errors import NoiseplanError, QueryError, remedy
from noiseplan.queries.factor_text import WORDS, read_factor, split, unquoted
from noiseplan.queries.factors import Custom, Factor, Identity
from noiseplan.queries.named_levels import Level
from noiseplan.queries.parsing import Comparison, parse
from noiseplan.queries.query import Query
from noiseplan.queries.within_levels import AskedLevel, within
from noiseplan.schema import Attribute, Hierarchical, Schema
from noiseplan.texts import listed, suggestion, unknown_attribute

if TYPE_CHECKING:
    from noiseplan.queries import Workload

_EXAMPLE = '"age=prefix, sex"'
_CALL = re.compile(r"\s*(\w+)\((.*)\)\s*", re.DOTALL)
# What can be asked beside counts, with an example each.
STATISTICS = {
    "mean": "mean(age)",
    "median": "median(income)",
    "quantile": "quantile(age, 0.25, 0.75)",
    "share": "share(sex)",
    "ratio": "ratio(sex=F, sex=M)",
}


def read_question(text: str, schema: Schema, workload: Workload | None = None) -> Query:
    """The query that a line of text asks; a name given in `workload` goes first.

    Examples
    --------
    >>> from noiseplan.schema import Categorical, Ordinal
    >>> schema = Schema({"age": Ordinal(range(100)), "sex": Categorical(["F", "M"])})
    >>> read_question("age=..17 | 18..64 | 65.., sex", schema)
    Query(age=..17 | 18..64 | 65.., sex: 6 rows)
    """
    named = None if workload is None else named_query(text, workload)
    if named is not None:
        return named
    asked: dict[str, list[AskedLevel]] = {}  # of each attribute, once or level by level
    for part in split(text, ",×"):
        name, equals, ask = _partition(part)
        if not name:
            raise QueryError(
                f"a question names attributes, as in {_EXAMPLE}; found {text!r}. The schema has "
                f"{listed(schema.names)}"
            )
        if not equals and name == "total" and name not in schema:
            continue
        called = name
        name, level = schema.levels.get(name, (name, ""))
        if name not in schema:
            raise QueryError(unknown_attribute(name, schema, schema.level_names))
        plain = Level(level) if level else Identity()
        factor = read_factor(ask, name, schema[name], level) if equals else plain
        own = schema[name]
        level = level or (own.levels[0] if isinstance(own, Hierarchical) else "")
        if any(level == other.level for other in asked.get(name, [])):
            raise QueryError(f"{called!r} is named twice in {text!r}")
        asked.setdefault(name, []).append(AskedLevel(" ".join(part.split()), level, factor))
    factors = {name: _together(parts, schema[name]) for name, parts in asked.items()}
    # Of some values, the question itself is the best name.
    chosen = any(isinstance(factor, Custom) for factor in factors.values())
    return Query(schema, factors, name=" ".join(text.split()) if chosen else None)


def _together(parts: list[AskedLevel], attribute: Attribute) -> Factor:
    """What is asked of one attribute; of one with levels, by several of them."""
    if len(parts) == 1 or not isinstance(attribute, Hierarchical):
        return parts[0].factor
    return within(parts, attribute)


def named_query(text: str, workload: Workload) -> Query | None:
    """The query of the workload that was given this name, or whose made name it is."""
    try:
        return workload[text.strip()]
    except QueryError:
        return None


def ask_query(text: str, schema: Schema, workload: Workload | None = None) -> Query:
    """The same; of what is no question but reads as a condition, where that is asked."""
    try:
        return read_question(text, schema, workload)
    except NoiseplanError as error:
        try:
            tree = parse(text)
        except QueryError:
            raise error from None
        if isinstance(tree, Comparison) and tree.sign == "=":
            raise  # a question in form: as a condition its name or value would be as unknown
        call = f"Workload.predicates(schema, [{text!r}])[0]"
        raise QueryError(
            f"{text} is a condition, and asked as one: " + remedy("ask condition", call, text)
        ) from None


@dataclass(frozen=True)
class AskedStatistic:
    """`mean(age), region`: which statistic, of what, and the groups it is asked for."""

    kind: str
    arguments: tuple[str, ...]
    by: str


def read_statistic(text: str, schema: Schema) -> AskedStatistic | None:
    """The statistic that a line of text asks; None where it asks for counts.

    Examples
    --------
    >>> read_statistic("quantile(age, 0.25, 0.75), sex", Schema.from_sizes({"age": 9, "sex": 2}))
    AskedStatistic(kind='quantile', arguments=('age', '0.25', '0.75'), by='sex')
    """
    parts = split(text, ",×")
    found = [None if part.strip() in schema else _CALL.fullmatch(part) for part in parts]
    calls = [call for call in found if call is not None]
    others = [part for part, call in zip(parts, found, strict=True) if call is None]
    if not calls:
        return None
    kind, inside = calls[0].groups()
    if kind not in STATISTICS:
        meant = f"; write {inside}={kind}" if kind in WORDS else ""
        examples = ", ".join(STATISTICS.values())
        raise QueryError(
            f"{kind!r} is no statistic: there are {examples}{suggestion(kind, STATISTICS)}{meant}"
        )
    if len(calls) > 1:
        raise QueryError(f"one statistic is asked at a time, as in {STATISTICS[kind]}, region")
    arguments = tuple(argument.strip() for argument in split(inside, ","))
    return AskedStatistic(kind, arguments, ",".join(others).strip())


def _partition(part: str) -> tuple[str, bool, str]:
    """ "age = prefix" as ("age", True, "prefix")."""
    name, *rest = split(part, "=")
    return unquoted(name.strip()), bool(rest), "=".join(rest).strip()


def question_of(factors: Sequence[str]) -> str:
    """Attributes as a question, for messages and examples."""
    return ", ".join(f'"{name}"' if re.search(r"[,=|+×'\s]", name) else name for name in factors)
