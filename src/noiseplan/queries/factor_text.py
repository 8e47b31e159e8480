"""What is asked of one attribute, as text: `prefix`, `levels(5, 10)` or `25..34 | 35..44`.

    factor     prefix                 also ranges, total, identity, levels(5, 10)
               levels(a, b)           one row per group of these levels, by their names
               rows                   one row for each of: rows separated by |
    row        values joined by +     their sum
    values     a value, first..last, first.. or ..last (for bins: edges)

Values with any of `, = | + ..` in them are written in quotes, single or double.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from contextlib import suppress
from typing import TypeGuard

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.queries.factors import Custom, Factor, Identity, Prefix, Ranges, Total
from noiseplan.queries.levels import Levels
from noiseplan.queries.named_levels import Level
from noiseplan.schema import Attribute, Binned, Hierarchical, Ordinal
from noiseplan.schema.labels import edge_text
from noiseplan.texts import suggestion

WORDS: dict[str, Factor] = {
    "identity": Identity(),
    "prefix": Prefix(),
    "ranges": Ranges(),
    "total": Total(),
}
_LEVELS = re.compile(r"levels\(([^)]*)\)")
_DASHED = re.compile(r"(.+?)\s*[-–]\s*(.+)")


def read_factor(text: str, name: str, attribute: Attribute, level: str = "") -> Factor:
    """What is asked of one attribute, or of a level of it: a word, levels(…), or rows of values.

    `name` is what it is called, for messages.
    """
    text = text.strip()
    if level and isinstance(attribute, Hierarchical):
        return _of_groups(text, name, level, attribute)
    if text in WORDS:
        return WORDS[text]
    levels = _LEVELS.fullmatch(text)
    if levels and isinstance(attribute, Hierarchical):
        return Level(*(unquoted(word.strip()) for word in levels[1].split(",")))
    if levels:
        return Levels(*(_width(word, text) for word in levels[1].split(",")))
    if isinstance(attribute, Hierarchical) and text in attribute.levels:
        return Level(text)
    if not text:
        raise QueryError(f"{name}=: nothing is asked; write {name} alone, or {name}=prefix")
    rows = [row.strip() for row in _alternatives(text, attribute)]
    matrix = np.zeros((len(rows), attribute.size))
    for chosen, row in zip(matrix, rows, strict=True):
        chosen[codes_of(row, name, attribute)] = 1
    labels: list[Hashable] = [unquoted(row) for row in rows]
    return Custom(matrix, name=text, labels=labels)


def _of_groups(text: str, name: str, level: str, attribute: Hierarchical) -> Factor:
    """What is asked of the groups of a level, over the leaves: county=06037 | 06059."""
    groups = attribute.at(level)
    asked = read_factor(text, name, groups)
    asked.check(name, groups)
    if isinstance(asked, Identity):
        return Level(level)
    if isinstance(asked, Total):
        return asked
    rows = asked.matrix(groups).dense()[:, attribute.group_of(level)]
    labels = [f"{level} {label}" for label in asked.row_labels(groups)]
    return Custom(rows, name=f"{level}={text}", labels=labels)


def codes_of(text: str, name: str, attribute: Attribute) -> list[int]:
    """The codes of one row: values joined by +, spans by their ends."""
    exact = _code(text, attribute)
    if exact is not None:
        return [exact]
    codes: list[int] = []
    for piece in split(_without_last(text, attribute), "+"):
        span = _split_span(piece)
        if span is not None:
            codes += _span(*span, name, attribute)
        else:
            code = _code(piece, attribute)
            if code is None:
                raise _unknown(piece, name, attribute)
            codes.append(code)
    return codes


def _without_last(text: str, attribute: Attribute) -> str:
    """90.. for 90..99+, where numbers above the last are counted with it: + joins values, too."""
    last = str(attribute.labels[attribute.stated - 1])
    spanned = _is_clipped(attribute) and text.rstrip().endswith(f"..{last}")
    return text.rstrip().removesuffix(last) if spanned else text


def _is_clipped(attribute: Attribute) -> TypeGuard[Ordinal]:
    return isinstance(attribute, Ordinal) and attribute.clip


def _alternatives(text: str, attribute: Attribute) -> list[str]:
    return [text] if _code(text, attribute) is not None else split(text, "|")


def _code(text: str, attribute: Attribute) -> int | None:
    """The code of the value written so."""
    wanted = unquoted(text.strip())
    return next((i for i, label in enumerate(attribute.labels) if str(label) == wanted), None)


def _span(first: str, last: str, name: str, attribute: Attribute) -> list[int]:
    if not attribute.ordered:
        raise QueryError(
            f"{name}={first}..{last}: a span needs an ordered attribute, and {name!r} is "
            f"{attribute.describe().partition(':')[0]}; name the values, joined by +: "
            f"{name}={_some(attribute)}"
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
            f"{name}: {unquoted(text)!r} is the cell of missing values, which is outside the "
            f"order; join it with +: {name}={_some(attribute)}+{text}"
        )
    if code is not None:
        return code + last
    if isinstance(attribute, Binned):
        place = attribute.place_of(unquoted(text))
        if place not in attribute.places:
            edges = ", ".join(edge_text(edge) for edge in attribute.edges)
            raise QueryError(f"{name}: {text!r} is no edge of a bin; the edges are {edges}")
        return attribute.places.index(place)
    if not last and _is_clipped(attribute) and text == str(attribute.values[-1]):
        return attribute.stated - 1  # and what is above it
    raise _unknown(text, name, attribute)


def _unknown(text: str, name: str, attribute: Attribute) -> QueryError:
    if _is_clipped(attribute) and _is_above(text, str(attribute.values[-1])):
        *below, top = attribute.labels[max(attribute.stated - 2, 0) : attribute.stated]
        said = (
            f"{name}={text.strip()}: numbers from {attribute.values[-1]} on are counted together; "
            f"{name}={top} asks for them"
        )
        if below:
            last = below[0]
            said += f", {name}={last}.. for a span with them, {name}=..{last} for one without"
        return QueryError(said)
    return QueryError(
        f"{name}={text.strip()}: {unquoted(text.strip())!r} is neither a value of {name!r} nor "
        f"identity, prefix, ranges, total or levels(5, 10); {name!r} is {attribute.describe()}"
        f"{_meant(unquoted(text.strip()), name, attribute)}"
    )


def _meant(text: str, name: str, attribute: Attribute) -> str:
    """What was probably meant: a span, where a dash stands for its dots, or a value or a word."""
    dashed = _DASHED.fullmatch(text)
    if dashed is not None:
        with suppress(QueryError):
            _span(dashed[1], dashed[2], name, attribute)
            return f". Did you mean '{dashed[1]}..{dashed[2]}'?"
    return suggestion(text, [*attribute.labels, *WORDS])


def _is_above(text: str, last: str) -> bool:
    return text.strip().isdecimal() and int(text) >= int(last)


def _some(attribute: Attribute) -> str:
    return "+".join(str(label) for label in attribute.labels[:2])


def _width(word: str, text: str) -> int:
    if not word.strip().isdecimal():
        raise QueryError(f"{text}: a level is a whole number of values, as in levels(5, 10)")
    return int(word)


# ---------------------------------------------------------------------- text with quotes


def split(text: str, separators: str) -> list[str]:
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


def unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
