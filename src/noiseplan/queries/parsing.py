"""Predicates as text, `age < 18 and sex = 'F'`, read into a tree. Nothing is ever evaluated.

    condition    either [or either]…
    either       plain [and plain]…
    plain        not plain | ( condition ) | comparison
    comparison   attribute < value                 also <= > >= = == != <>
                 value <= attribute < value        the second comparison may be left out
                 attribute [not] in (value, …)
                 attribute [not] between value and value       both ends included
                 attribute is [not] null           missing, where a cell was declared for that

Attributes are words, or anything in double quotes or backticks; levels of a hierarchical attribute
are named as attributes are, `county`, or by both names, `geo.county`. Values are numbers, true,
false, dates such as 2024-01-31 or 2024-01-31T09:30, or text in single or double quotes; a quote
inside is written twice. Words such as `and` may be written in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias, final

from noiseplan.errors import QueryError

# A text nested deeper than this is no condition that anybody wrote.
DEEPEST: Final = 100

_TOKEN: Final = re.compile(
    r"""(?:
      (?P<date>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?![\w.:+-]))
    | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<name>`(?:[^`]|``)*`)
    | (?P<word>[^\W\d]\w*(?:\.[^\W\d]\w*)?)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_KEYWORDS: Final = ("and", "or", "not", "in", "between", "true", "false")
_NULL: Final = "is is followed by null: {0} is null, or {0} is not null"
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_OPPOSITES: Final = {"<": ">=", ">": "<=", "=": "!=", "in": "not in", "is null": "is not null"}
_NEGATED: Final = _OPPOSITES | {negated: sign for sign, negated in _OPPOSITES.items()}
_SAME_SIGN: Final = {"==": "=", "<>": "!="}

# What people write, and what it is written here.
_TURNED: Final = ("=>", "=<")
_MEANT: Final = {"=>": ">=", "=<": "<=", "≥": ">=", "≤": "<=", "≠": "!="}
_CURLY: Final = "‘’‚‛“”„‟«»"
_UNSUPPORTED: Final = {
    "like": "patterns are not supported; name the values: {} in ('a', 'b')",
}
_UNSUPPORTED_ALIKE: Final = {"ilike": "like", "glob": "like", "regexp": "like", "similar": "like"}

Value: TypeAlias = str | int | float | bool


@final
@dataclass(frozen=True)
class Literal:
    """A value as it was written, and where it starts in the text."""

    value: Value
    at: int


@final
@dataclass(frozen=True)
class Comparison:
    """One attribute against values: `=`, `!=`, `<`, `<=`, `>`, `>=` (one value), `in` (several).

    `is null` has none. `not in` and `is not null` are made of others by :func:`positive`.
    """

    name: str
    sign: str
    values: tuple[Literal, ...]
    at: int
    level: str = field(default="", repr=False)  # of a hierarchical attribute; leaves unless named
    written: str = field(default="", repr=False, compare=False)  # what the level was called
    ends: tuple[Literal, ...] = field(default=(), repr=False, compare=False)  # both, of between


@final
@dataclass(frozen=True)
class Not:
    """True where `inner` is false."""

    inner: Condition


@final
@dataclass(frozen=True)
class And:
    """True where all parts are."""

    parts: tuple[Condition, ...]


@final
@dataclass(frozen=True)
class Or:
    """True where some part is."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Not | And | Or


def parse(text: str) -> Condition:
    """The tree of a condition; refuses anything else, with the place where it stops making sense.

    Examples
    --------
    >>> tree = parse("age < 18 and not sex = 'F'")
    >>> tree.parts[0]
    Comparison(name='age', sign='<', values=(Literal(value=18, at=6),), at=0)
    >>> parse("age <")
    Traceback (most recent call last):
    noiseplan.errors.QueryError: age < ⟨here⟩: a value is missing, a number or a 'text'
    """
    if not isinstance(text, str):
        raise QueryError(f"a predicate is a text, as in \"age < 18 and sex = 'F'\"; found {text!r}")
    if not text.strip():
        raise QueryError("the predicate is empty; write one such as \"age < 18 and sex = 'F'\"")
    reader = _Reader(text, list(_tokens(text)))
    tree = reader.condition(0)
    if reader.kind != "end":
        reader.fail(reader.grouped_digits() or "expected and, or, or the end")
    return tree


def error_at(text: str, at: int, message: str) -> QueryError:
    """What to raise about a place in a text: the text with a mark there."""
    return QueryError(f"{text[:at].rstrip()} ⟨here⟩ {text[at:].lstrip()}".strip() + ": " + message)


def written_name(name: str) -> str:
    """An attribute as a predicate has it: in quotes if it is no plain word.

    Examples
    --------
    >>> written_name("age"), written_name("age group")
    ('age', '"age group"')
    """
    found = _TOKEN.fullmatch(name)
    if found and found.lastgroup == "word" and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def comparisons(tree: Condition) -> Iterator[Comparison]:
    """Every comparison of a tree, from left to right."""
    if isinstance(tree, Comparison):
        yield tree
    elif isinstance(tree, Not):
        yield from comparisons(tree.inner)
    else:
        for part in tree.parts:
            yield from comparisons(part)


def positive(tree: Condition, negated: bool = False) -> Condition:
    """The same condition (or its negation) without `not`: carried down to the comparisons.

    What holds of a missing value is told by comparisons: neither `<` nor its negation, `>=`.
    """
    if isinstance(tree, Not):
        return positive(tree.inner, not negated)
    if isinstance(tree, Comparison):
        return replace(tree, sign=_NEGATED[tree.sign]) if negated else tree
    kind = type(tree) if not negated else Or if isinstance(tree, And) else And
    return kind(tuple(positive(part, negated) for part in tree.parts))


@dataclass(frozen=True)
class _Token:
    kind: str  # number, text, quoted, name, word, keyword, sign or end
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        found = _TOKEN.match(text, at)
        if found is None or text.startswith(_TURNED, at):
            raise error_at(text, at, _unreadable(text, at))
        kind = str(found.lastgroup)
        word = found[kind]
        if kind == "word" and word.lower() in _KEYWORDS:
            kind, word = "keyword", word.lower()
        elif kind == "date":  # as if it were in quotes
            kind, word = "text", f"'{word}'"
        yield _Token(kind, word, at)
        at = found.end()
    yield _Token("end", "", len(text))


def _unreadable(text: str, at: int) -> str:
    """What to write instead of what stands there."""
    letter = text[at]
    for written, meant in _MEANT.items():
        if text.startswith(written, at):
            return f"{written} is written {meant}"
    if letter in "'\"`":
        return f"the quote {letter} is not closed; inside one it is written twice"
    if letter in _CURLY:
        return "quotes are written straight: 'text'"
    if letter in "[]{}":
        return "brackets are round: in (1, 2)"
    if letter in "&|!":
        return "write and, or, not as words"
    grouped = re.match(r"\d+(?:_\d+)+", text[at:])
    if grouped:
        return f"numbers are written without marks between their digits: {_digits(grouped[0])}"
    if letter.isdigit():
        return "a number is followed by letters; a name that starts with a digit needs quotes"
    return f"{letter!r} has no meaning here; a name with other characters needs double quotes"


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


class _Reader:
    """Recursive descent over the tokens; `position` is the next one to read."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self.text, self.tokens, self.position = text, tokens, 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    @property
    def kind(self) -> str:
        return self.token.kind

    def fail(self, message: str) -> NoReturn:
        """Nothing that begins here makes sense."""
        raise error_at(self.text, self.token.at, message)

    def grouped_digits(self) -> str:
        """What to say of 20,000: a comma between two numbers, where no list is."""
        around = self.tokens[max(self.position - 1, 0) : self.position + 2]
        if [token.kind for token in around] != ["number", "sign", "number"]:
            return ""
        low, comma, high = (token.text for token in around)
        if comma != "," or len(high) != 3:
            return ""
        return f"numbers are written without marks between their digits: {low}{high}"

    def taken(self, *words: str) -> bool:
        """Whether the next token is one of these signs or keywords; it is then read."""
        if self.kind in ("sign", "keyword") and self.token.text in words:
            self.position += 1
            return True
        return False

    def need(self, word: str, message: str) -> None:
        if not self.taken(word):
            self.fail(message)

    # ------------------------------------------------------------------ the grammar

    def condition(self, depth: int) -> Condition:
        parts = [self.either(depth)]
        while self.taken("or"):
            parts.append(self.either(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def either(self, depth: int) -> Condition:
        parts = [self.plain(depth)]
        while self.taken("and"):
            parts.append(self.plain(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def plain(self, depth: int) -> Condition:
        if depth > DEEPEST:
            self.fail(f"brackets and nots are nested more than {DEEPEST} deep")
        if self.taken("not"):
            return Not(self.plain(depth + 1))
        if self.taken("("):
            inner = self.condition(depth + 1)
            self.need(")", "a closing ) is missing")
            return inner
        return self.comparison()

    def comparison(self) -> Condition:
        start = self.token.at
        truth = self.kind == "keyword" and self.token.text in ("true", "false")
        if truth or self.kind in ("number", "text"):
            return self.mirrored(start)
        name = self.name()
        if self.word() == "is":
            return self.null(name, start)
        self.refuse_unsupported(name)
        negated = self.taken("not")
        self.refuse_unsupported(name)
        tree = self.member(name, start) or self.between(name, start)
        if tree is not None:
            return Not(tree) if negated else tree
        if negated:
            self.fail("expected in or between after not")
        return Comparison(name, self.sign(name), (self.value(),), start)

    def word(self) -> str:
        """The next token in small letters, if it is a word that may also be a name."""
        return self.token.text.lower() if self.kind == "word" else ""

    def null(self, name: str, start: int) -> Condition:
        """`is null` or `is not null`; its words are names elsewhere."""
        self.position += 1
        negated = self.taken("not")
        if self.word() != "null":
            self.fail(_NULL.format(written_name(name)))
        self.position += 1
        tree = Comparison(name, "is null", (), start)
        return Not(tree) if negated else tree

    def refuse_unsupported(self, name: str) -> None:
        """Words of SQL that have no meaning for declared values."""
        word = _UNSUPPORTED_ALIKE.get(self.word(), self.word())
        if word in _UNSUPPORTED:
            self.fail(_UNSUPPORTED[word].format(written_name(name)))

    def mirrored(self, start: int) -> Condition:
        """`18 <= age`, or `18 <= age < 65`."""
        first = self.value()
        sign = _MIRRORED[self.sign("a value")]
        name = self.name()
        low = Comparison(name, sign, (first,), start)
        if self.kind != "sign" or self.token.text in "(),":
            return low
        return And((low, Comparison(name, self.sign(name), (self.value(),), start)))

    def member(self, name: str, start: int) -> Condition | None:
        if not self.taken("in"):
            return None
        self.need("(", f"the values come in brackets: {name} in ('a', 'b')")
        values = [self.value()]
        while self.taken(","):
            values.append(self.value())
        self.need(")", "expected , or ) after a value")
        return Comparison(name, "in", tuple(values), start)

    def between(self, name: str, start: int) -> Condition | None:
        if not self.taken("between"):
            return None
        low = self.value()
        self.need("and", f"between has two ends: {name} between 18 and 65")
        ends = (low, self.value())
        signed = zip((">=", "<="), ends, strict=True)
        return And(tuple(Comparison(name, s, (end,), start, ends=ends) for s, end in signed))

    def name(self) -> str:
        if self.kind not in ("word", "name", "quoted"):
            self.fail("the name of an attribute is missing, as in age < 18")
        word = _unquoted(self.token) if self.kind != "word" else self.token.text
        self.position += 1
        return word

    def sign(self, name: str) -> str:
        if self.kind != "sign" or self.token.text in "(),":
            self.fail(f"expected =, !=, <, <=, >, >=, in, between or is null after {name}")
        sign = self.token.text
        self.position += 1
        return _SAME_SIGN.get(sign, sign)

    def value(self) -> Literal:
        token = self.token
        if self.taken("true", "false"):
            return Literal(token.text == "true", token.at)
        if token.kind == "word" and token.text.lower() in ("null", "none", "nan"):
            self.fail("missing values are asked for by is null, all others by is not null")
        if token.kind == "word":
            self.fail(
                f"a text is written in quotes, '{token.text}'; two attributes cannot be compared"
            )
        if token.kind not in ("number", "text", "quoted"):
            self.fail("a value is missing, a number or a 'text'")
        self.position += 1
        found = _number(token.text) if token.kind == "number" else _unquoted(token)
        return Literal(found, token.at)


def _unquoted(token: _Token) -> str:
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
