"""A first study file, commented, from what is public: names of columns and what they may hold."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date

from noiseplan.queries.questions import question_of
from noiseplan.study.nodes import StudyError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CELLS = re.compile(r";\s*(missing|other)\s*=")
# What is not among the values of others has no place in their order.
_WITH_OTHER = ("{ categorical", "{ hierarchical")
_SPAN = re.compile(r"(-?\d+)\.\.(-?\d+)")
_FORMS = 'age, age=0..99, sex=F,M or "income=bins:0,10000,50000; missing=not stated"'


@dataclass(frozen=True)
class Column:
    """A column and what it may hold, as TOML; empty where that is still to be filled in.

    Of whole numbers from one to another: how many `values` they are, and edges of `bins` over them.
    Of groups within groups: the `finest` level, whose codes the column holds.
    """

    name: str
    holds: str
    note: str = ""
    ordered: bool = False
    values: int = 0
    bins: str = ""
    finest: str = ""


def read_column(text: str) -> Column:
    """`age=0..99`, `sex=F,M`, `income=bins:0,10000,50000`, or just a name.

    Groups within groups are columns of a public code list: `geo=levels:places.csv:tract,county`.
    What may be missing ends in the name of a cell for that: `age=0..99; missing=not stated`; and
    where values that are not listed have one, in that: `ward=A,B; other=elsewhere`.

    Examples
    --------
    >>> read_column("age=0..99").holds
    '{ ordinal = { from = 0, to = 99 } }'
    >>> read_column("age=0..99; missing=not stated").holds
    '{ ordinal = { from = 0, to = 99 }, missing = "not stated" }'
    >>> read_column("ward=A,B; other=elsewhere").holds
    '{ categorical = ["A", "B"], other = "elsewhere" }'
    """
    declared, *behind = _CELLS.split(text)
    column = _column(declared)
    keys, names = behind[::2], [name.strip() for name in behind[1::2]]
    for key, name in zip(keys, names, strict=True):
        if not name or column.note or keys.count(key) > 1:
            raise StudyError(
                f"{text}: {key}= follows what the column may hold, once; write {_FORMS}"
            )
        if key == "other" and not column.holds.startswith(_WITH_OTHER):
            raise StudyError(
                f"{text}: other= is for values without order and for levels, as in "
                f"ward=A,B; other=elsewhere"
            )
        named = f", {key} = {_written(name)} }}"
        column = replace(column, holds=column.holds.removesuffix(" }") + named)
    return column


def _column(text: str) -> Column:
    name, equals, values = (part.strip() for part in text.partition("="))
    if not name:
        raise StudyError(f"a column has a name; write {_FORMS}, found {text!r}")
    if not equals:
        return unknown_column(name)
    span = _SPAN.fullmatch(values)
    if span:
        first, last = int(span[1]), int(span[2])
        if first > last:
            raise StudyError(f"{text}: {first} is above {last}; write {name}={last}..{first}")
        holds = f"{{ ordinal = {{ from = {first}, to = {last} }} }}"
        edges = [str(first + (last - first) * part // 5) for part in range(6)]
        return Column(name, holds, ordered=True, values=last - first + 1, bins=",".join(edges))
    if values.startswith("bins:"):
        edges = [part.strip() for part in values.removeprefix("bins:").split(",")]
        return Column(
            name, f"{{ binned = [{', '.join(_edge(e, text) for e in edges)}] }}", ordered=True
        )
    if values.startswith("levels:"):
        levels = _levels(values.removeprefix("levels:"), text)
        return Column(name, levels, finest=values.rpartition(":")[2].split(",")[0].strip())
    labels = [part.strip() for part in values.split(",")]
    if len(labels) == 1 and ".." in values:
        edges = [edge.strip() for edge in values.split("..")]
        raise StudyError(
            f"{text}: a range is of whole numbers; for others write the edges of bins, dates too: "
            f"{name}=bins:{',…,'.join(edges)}"
        )
    if not all(labels):
        raise StudyError(f"{text}: an empty value; write {_FORMS}")
    written = ", ".join(map(_written, labels))
    return Column(name, f"{{ categorical = [{written}] }}")


def _levels(values: str, column: str) -> str:
    """A code list and its columns, from fine to coarse."""
    file, colon, listed = values.rpartition(":")
    levels = [part.strip() for part in listed.split(",")]
    if not (colon and file.strip()) or len(levels) < 2 or not all(levels):
        raise StudyError(
            f"{column}: levels are columns of a code list, from fine to coarse, as in "
            f"geo=levels:places.csv:tract,county"
        )
    written = ", ".join(map(_written, levels))
    return f"{{ hierarchical = {{ file = {_written(file.strip())}, levels = [{written}] }} }}"


def unknown_column(name: str) -> Column:
    """A column of which only the name is known: a study with it says what is missing."""
    note = "from a code book, never from the data: its values, or for numbers { binned = [0, 10] }"
    return Column(name, "{ categorical = [] }", note)


def _written(label: str) -> str:
    return json.dumps(label, ensure_ascii=False)


def _edge(text: str, column: str) -> str:
    for read in (float, date.fromisoformat):
        with suppress(ValueError):
            read(text)
            return text
    raise StudyError(f"{column}: {text!r} is no edge of a bin; write {_FORMS}")


def study_text(columns: list[Column], title: str = "A first study") -> str:
    """The commented study file."""
    names = [column.name for column in columns]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise StudyError(f"the column {twice[0]!r} is named twice")
    keys = [_key(name) for name in names]
    wide = max(map(len, keys))
    schema = [
        f"{key:<{wide}} = {column.holds}" + (f"  # {column.note}" if column.note else "")
        for key, column in zip(keys, columns, strict=True)
    ]
    ordered = next((column.name for column in columns if column.ordered), None)
    # The table that is given as an example has the attribute that its factor is about.
    pair = question_of([*([ordered] if ordered else []), *(n for n in names if n != ordered)][:2])
    return _TEMPLATE.format(
        title=json.dumps(title, ensure_ascii=False),
        schema="\n".join(schema),
        up_to=min(2, len(columns)),
        pair=pair.replace('"', '\\"'),
        ordered=_key(ordered) if ordered else "age",
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


_TEMPLATE = """\
# A study for noiseplan. Everything in this file is public: write it from a code book, a form or a
# law, never from the data. To see what it would publish, and how precisely:
#     noiseplan plan THIS_FILE
# To publish, once:
#     noiseplan release THIS_FILE DATA -o out

title = {title}
# purpose = "yearly report"   # what the tables are for; published with them

# What each column may hold, in one of these ways:
#     {{ categorical = ["F", "M"] }}                   values without order
#     {{ categorical = ["F", "M"], other = "other" }}  one more catches all that is not listed
#     {{ ordinal = {{ from = 0, to = 99 }} }}            whole numbers, both ends included
#     {{ ordinal = ["low", "middle", "high"] }}        values in order
#     {{ binned = [0, 10, 20] }}                       numbers, by the edges of their bins
#     {{ binned = [0, 10, inf], clip = true }}         numbers beyond go to the end bins
#     {{ binned = [2020-01-01, 2021-01-01] }}          dates, in text files as 2020-01-31
#     {{ binned = [0, 10], missing = "not stated" }}   with a cell for missing values; all kinds
#     {{ categorical = {{ file = "codes.csv", column = "code" }} }}   a public code list
#     {{ hierarchical = {{ file = "places.csv", levels = ["tract", "county"] }} }}   levels
[schema]
{schema}

# How CSV files write numbers and missing values, where not as 1234.5 and by an empty field:
# [data]
# decimal   = ","
# thousands = "."
# missing   = ["NA", "."]

# What is asked. A table names attributes; those that it does not name are summed over.
[[tables]]
up_to = {up_to}  # every table of at most so many attributes; k = 2 for exactly two

# [[tables]]
# name    = "a table of its own"
# query   = "{pair}"
# factors = {{ {ordered} = "prefix" }}  # also "ranges", "25..34 | 35..44"
# weight  = 4.0

# What all of it together may cost. One of:
[budget]
zcdp = 0.1  # ρ
# approx_dp = {{ epsilon = 1.0, delta = 1e-9 }}

# Or what it must reach: the least privacy cost that does is found, and no budget is needed.
# [targets]
# "a table of its own" = {{ half_width = 50 }}  # of the 95 % interval; or {{ std_error = 25 }}

[plan]
weighting = "tables"         # every table counts the same, and each condition as a table; without
                             # it every row does, and large tables are favoured over small ones
# objective  = "total"       # least sum of variances; or "rmse", "worst", or {{ p = 4 }}
# at_most    = 500.0         # what it must reach, without [budget]: at the least privacy cost
# neighbours = "add-remove"  # what one record may change; or "replace"

# People with several records: whose record each is, and how many of each count, chosen at random.
# The budget is then a person's. The column need not be in the schema.
# [people]
# person   = "id"
# max_rows = 3
# unit     = "person"  # what the column names, in all that is said: "household", say

# Where each release is recorded before its noise is drawn; made by: noiseplan ledger init
# [ledger]
# file    = "office.ledger"
# dataset = "the people of this study"
# purpose = "yearly report"

[output]
folder = "out"
"""
