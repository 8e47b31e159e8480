"""Queries in one line of text: `age=prefix, sex` or `age=25..34 | 35..44, earnings=20..`.

    question   part, part, …          attributes that are not named are summed over
    part       attribute              one row per value
               attribute=prefix       also ranges, total, identity, levels(5, 10)
               attribute=rows         one row for each of: rows separated by |
    row        values joined by +     their sum
    values     a value, first..last, first.. or ..last (for bins: edges)

Names and values with any of `, = | + ..` in them are written in quotes, single or double.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from noiseplan.errors import QueryError
from noiseplan.queries import Custom, Factor, Identity, Levels, Prefix, Query, Ranges, Total
from noiseplan.schema import Attribute, Binned, Schema
from noiseplan.schema.labels import edge_text
from noiseplan.study.errors import listed, suggestion, unknown_attribute

if TYPE_CHECKING:
    from noiseplan.queries import Workload

WORDS: dict[str, Factor] = {
    "identity": Identity(),
    "prefix": Prefix(),
    "ranges": Ranges(),
    "total": Total(),
}
_LEVELS = re.compile(r"levels\(([^)]*)\)")
_EXAMPLE = '"age=prefix, sex"'


def read_question(text: str, schema: Schema, workload: Workload | None = None) -> Query:
    """The query that a line of text asks; a name given in `workload` goes first.

    Examples
    --------
    >>> from noiseplan.schema import Categorical, Ordinal
    >>> schema = Schema({"age": Ordinal(range(100)), "sex": Categorical(["F", "M"])})
    >>> read_question("age=..17 | 18..64 | 65.., sex", schema)
    Query(age=..17 | 18..64 | 65.., sex: 6 rows)
    """
    named = None if workload is None else _named(text.strip(), workload)
    if named is not None:
        return named
    factors: dict[str, Factor] = {}
    chosen = False  # some values: the question itself is then the best name
    for part in _split(text, ",×"):
        name, equals, ask = _partition(part)
        if not name:
            raise QueryError(
                f"a question names attributes, as in {_EXAMPLE}; found {text!r}. The schema has "
                f"{listed(schema.names)}"
            )
        if not equals and name == "total" and name not in schema:
            continue
        if name in factors:
            raise QueryError(f"{name!r} is named twice in {text!r}")
        if name not in schema:
            raise QueryError(unknown_attribute(name, schema))
        factors[name] = read_factor(ask, name, schema[name]) if equals else Identity()
        chosen = chosen or isinstance(factors[name], Custom)
    return Query(schema, factors, name=" ".join(text.split()) if chosen else None)


def _named(text: str, workload: Workload) -> Query | None:
    """The query of the workload that was given this name, or whose made name it is."""
    try:
        return workload[text]
    except QueryError:
        return None


def read_factor(text: str, name: str, attribute: Attribute) -> Factor:
    """What is asked of one attribute: a word, levels(…), or rows of values."""
    text = text.strip()
    if text in WORDS:
        return WORDS[text]
    levels = _LEVELS.fullmatch(text)
    if levels:
        return Levels(*(_width(word, text) for word in levels[1].split(",")))
    if not text:
        raise QueryError(f"{name}=: nothing is asked; write {name} alone, or {name}=prefix")
    rows = [row.strip() for row in _alternatives(text, attribute)]
    chosen = [codes_of(row, name, attribute) for row in rows]
    matrix = [[code in codes for code in range(attribute.size)] for codes in map(set, chosen)]
    labels: list[Hashable] = [_unquoted(row) for row in rows]
    return Custom(matrix, name=text, labels=labels)


def codes_of(text: str, name: str, attribute: Attribute) -> list[int]:
    """The codes of one row: values joined by +, spans by their ends."""
    exact = _code(text, attribute)
    if exact is not None:
        return [exact]
    codes: list[int] = []
    for piece in _split(text, "+"):
        span = _split_span(piece)
        if span is not None:
            codes += _span(*span, name, attribute)
        else:
            code = _code(piece, attribute)
            if code is None:
                raise _unknown(piece, name, attribute)
            codes.append(code)
    return codes


def _alternatives(text: str, attribute: Attribute) -> list[str]:
    return [text] if _code(text, attribute) is not None else _split(text, "|")


def _code(text: str, attribute: Attribute) -> int | None:
    """The code of the value written so."""
    wanted = _unquoted(text.strip())
    return next((i for i, label in enumerate(attribute.labels) if str(label) == wanted), None)


def _span(first: str, last: str, name: str, attribute: Attribute) -> list[int]:
    if not attribute.ordered:
        raise QueryError(
            f"{name}={first}..{last}: a span needs an ordered attribute, and {name!r} is "
            f"categorical; name the values, joined by +: {name}={_some(attribute)}"
        )
    low = 0 if not first else _end(first, name, attribute, 0)
    high = attribute.stated if not last else _end(last, name, attribute, 1)
    if low >= high:
        raise QueryError(f"{name}={first}..{last} holds no value: the first end is the larger one")
    return list(range(low, high))


def _end(text: str, name: str, attribute: Attribute, last: int) -> int:
    """The code where a span starts, or the one after its end. Bins are named by their edges."""
    code = _code(text, attribute)
    if code is not None and code >= attribute.stated:
        raise QueryError(
            f"{name}: {_unquoted(text)!r} is the cell of missing values, which is outside the "
            f"order; join it with +: {name}={_some(attribute)}+{text}"
        )
    if code is not None:
        return code + last
    if isinstance(attribute, Binned):
        place = attribute.place_of(_unquoted(text))
        if place not in attribute.places:
            edges = ", ".join(edge_text(edge) for edge in attribute.edges)
            raise QueryError(f"{name}: {text!r} is no edge of a bin; the edges are {edges}")
        return attribute.places.index(place)
    raise _unknown(text, name, attribute)


def _unknown(text: str, name: str, attribute: Attribute) -> QueryError:
    known = [*attribute.labels, *WORDS]
    return QueryError(
        f"{name}={text.strip()}: {_unquoted(text.strip())!r} is neither a value of {name!r} nor "
        f"identity, prefix, ranges, total or levels(5, 10); {name!r} is {attribute.describe()}"
        f"{suggestion(text.strip(), known)}"
    )


def _some(attribute: Attribute) -> str:
    return "+".join(str(label) for label in attribute.labels[:2])


def _width(word: str, text: str) -> int:
    if not word.strip().isdecimal():
        raise QueryError(f"{text}: a level is a whole number of values, as in levels(5, 10)")
    return int(word)


# ---------------------------------------------------------------------- text with quotes


def _split(text: str, separators: str) -> list[str]:
    """Pieces between separators that stand outside quotes and brackets."""
    pieces, start, depth, quote = [], 0, 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter in separators and depth <= 0:
            pieces.append(text[start:at])
            start = at + 1
    if quote:
        raise QueryError(f"{text!r}: a quote is not closed")
    return [*pieces, text[start:]]


def _partition(part: str) -> tuple[str, bool, str]:
    """ "age = prefix" as ("age", True, "prefix")."""
    name, *rest = _split(part, "=")
    return _unquoted(name.strip()), bool(rest), "=".join(rest).strip()


def _split_span(piece: str) -> tuple[str, str] | None:
    """The ends of first..last, each of which may be empty, but not both."""
    stripped = piece.strip()
    if (
        stripped[:1] in ("'", '"')
        and stripped.count(stripped[0]) == 2
        and stripped[-1] == stripped[0]
    ):
        return None
    first, dots, last = stripped.partition("..")
    if not dots or not (first.strip() or last.strip()):
        return None
    return first.strip(), last.strip()


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def question_of(factors: Sequence[str]) -> str:
    """Attributes as a question, for messages and examples."""
    return ", ".join(f'"{name}"' if re.search(r"[,=|+×'\s]", name) else name for name in factors)
