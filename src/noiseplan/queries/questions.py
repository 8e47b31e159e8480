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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.errors import NoiseplanError, QueryError, remedy
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.queries.factor_text import WORDS, read_factor, split, unquoted
from noiseplan.queries.factors import Custom, Factor, Identity, Total
from noiseplan.queries.named_levels import Level
from noiseplan.queries.parsing import Comparison, parse
from noiseplan.queries.query import Query
from noiseplan.schema import Attribute, Hierarchical, Schema
from noiseplan.schema.nested_columns import PATH
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

# What is said of a row, part by part, and its weights on the leaves.
_Row = tuple[tuple[str, ...], Array]


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
        factor = read_factor(ask, called, schema[name], level) if equals else plain
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


# ---------------------------------------------------------------------- levels within levels


@dataclass(frozen=True)
class AskedLevel:
    """What a question asks of one level: how the part was written, the level, and its factor."""

    written: str
    level: str
    factor: Factor

    @property
    def plain(self) -> bool:
        """Whether every group is asked for."""
        return isinstance(self.factor, Level | Identity)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels whose groups are asked for, where all of them are."""
        return self.factor.levels if isinstance(self.factor, Level) else (self.level,)


def within(parts: Sequence[AskedLevel], attribute: Hierarchical) -> Factor:
    """The rows that lie in a row of every part: those of the finer levels within the coarser ones.

    Examples
    --------
    >>> geo = Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    >>> county = Custom([[1, 1, 0]], "county=a", ["county a"])
    >>> found = within([AskedLevel("tract", "tract", Level("tract")),
    ...                 AskedLevel("county=a", "county", county)], geo)
    >>> found.row_labels(geo), found.matrix(geo).dense().tolist()
    (('a1', 'a2'), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    """
    ordered = sorted(parts, key=lambda part: -attribute.level_index(part.level))
    told = [part for part in ordered if not isinstance(part.factor, Total)]
    if not told:
        return parts[0].factor
    if all(part.plain and len(part.levels) == 1 for part in told):
        return told[-1].factor  # each of its groups lies in one of every coarser level
    name = ", ".join(part.written for part in ordered)
    chosen = [part for part in told if not part.plain] + [part for part in told if part.plain]
    rows: list[_Row] = [((), np.ones(attribute.size))]
    for part in chosen:
        rows = list(_written_down(rows, part, attribute, name))
    if not rows:
        raise QueryError(f"{name}: no value lies in all of these, so there is nothing to count")
    return Custom(np.array([mask for _, mask in rows]), name, _labels([said for said, _ in rows]))


def _written_down(
    rows: list[_Row], part: AskedLevel, attribute: Hierarchical, name: str
) -> Iterator[_Row]:
    """What is left of all rows within each row of a part, unless that is too much."""
    most = DENSE_LIMIT // attribute.size
    for number, piece in enumerate(
        piece for row in rows for piece in _pieces(row, part, attribute)
    ):
        if number >= most:
            raise QueryError(
                f"{name}: more than {most:,} rows over {attribute.size:,} values, which are too "
                f"many to choose; ask for the whole level, {part.level}, or for fewer groups"
            )
        yield piece


def _pieces(row: _Row, part: AskedLevel, attribute: Hierarchical) -> Iterator[_Row]:
    """What is left of a row within each row of a part."""
    said, mask = row
    if not part.plain:
        labels = part.factor.row_labels(attribute)
        for label, own in zip(labels, part.factor.matrix(attribute).dense(), strict=True):
            if (mask * own).any():
                yield (*said, str(label)), mask * own
        return
    for level in part.levels:
        group, labels = attribute.group_of(level), attribute.level_labels(level)
        several = len(part.levels) > 1
        for number in np.unique(group[mask != 0]).tolist():
            label = f"{level} {labels[number]}" if several else str(labels[number])
            yield (*said, label), mask * (group == number)


def _labels(said: Sequence[tuple[str, ...]]) -> list[str]:
    """The labels of the rows; what all of them have in common is said by the question itself."""
    columns = list(zip(*said, strict=True))
    telling = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    return [PATH.join(parts) for parts in zip(*telling, strict=True)]
