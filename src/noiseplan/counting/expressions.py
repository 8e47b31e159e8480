"""The schema in DuckDB's SQL: for each column an expression that turns its values into codes.

The engine must agree with :meth:`Attribute.encode` for every value of every type, and every
expression here follows the same rules: numbers equal numbers, whatever their type; text equals text
and is never read as a number, except in CSV, where everything is text; a day is its midnight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, final

import numpy as np

from noiseplan.escaping import cell
from noiseplan.schema import Attribute, Binned, Label, Ordinal
from noiseplan.schema.spelling import AS_USUAL, Spelling

_INTEGER: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BOOLEAN")
_FRACTION: Final = re.compile(r"FLOAT|DOUBLE|DECIMAL\(.*\)")
_TEXT: Final = re.compile(r"VARCHAR|ENUM\(.*\)", re.DOTALL)
_MOMENT: Final = re.compile(r"DATE|TIMESTAMP(_S|_MS|_NS)?")
_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_WITHOUT_ZONE: Final = (
    "[0-9]+[-/][0-9]{1,2}[-/][0-9]{1,2}([ T]+[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]*)?)?)?"
)
_EPOCH: Final = datetime(1970, 1, 1)
# More labels than this are looked up in a table: as an enumeration, or as cases, a million of them
# take minutes and gigabytes.
MANY: Final = 5_000
# More numbers than this are not told apart by nested cases, whose time grows with their number.
MANY_CASES: Final = 500
_LABEL: Final = '"noiseplan: declared label"'
_CODE: Final = '"noiseplan: code"'
_VALUE: Final = '"noiseplan: value"'


@final
@dataclass(frozen=True)
class Column:
    """A column of a relation and the attribute it must fit.

    Parameters
    ----------
    name, attribute
        From the schema.
    type
        What DuckDB calls the type of the column.
    spelled
        Whether values are written out as text, as in CSV.
    spelling
        How such text writes numbers and missing values.
    """

    name: str
    attribute: Attribute
    type: str
    spelled: bool
    spelling: Spelling = AS_USUAL

    @property
    def quoted(self) -> str:
        """The column in SQL."""
        return quoted(self.name)

    @property
    def refused(self) -> int | None:
        """The code that stands for values without one; None if a category catches them."""
        return self.attribute.size if self.attribute.unknown_code < 0 else None

    def codes(self) -> str:
        """Return the expression; it is never null, and its type fits every code and `refused`."""
        unknown = self.attribute.unknown_code if self.refused is None else self.refused
        kinds = {1: "UTINYINT", 2: "USMALLINT"}
        kind = kinds.get(np.min_scalar_type(self.attribute.size).itemsize, "UINTEGER")
        return f"CAST({self._code(self._beside(unknown))} AS {kind})"

    def _beside(self, unknown: int) -> str:
        """The code of a value that is not declared: that of missing ones where it is missing."""
        if self.attribute.missing is None:
            return str(unknown)
        return f"CASE WHEN {self._is_missing()} THEN {self.attribute.null_code} ELSE {unknown} END"

    def _is_missing(self) -> str:
        gone = f"{self.quoted} IS NULL"
        if self.type in ("FLOAT", "DOUBLE"):
            return f"{gone} OR isnan({self.quoted})"
        if _TEXT.fullmatch(self.type):
            # As CSV that is safe for spreadsheets spells it, too.
            name = str(self.attribute.missing)
            if not self.spelled:
                return f"{gone} OR {self.quoted}::VARCHAR = {literal(name)}"
            spelled = dict.fromkeys([name, str(cell(name)), "", *self.spelling.missing])
            listed = ", ".join(map(literal, spelled))
            return f"{gone} OR {self.quoted} IN ({listed}) OR trim({self.quoted}) IN ({listed})"
        return gone

    def _code(self, otherwise: str) -> str:
        if isinstance(self.attribute, Binned):
            return self._bin(self.attribute, otherwise)
        # The labels may end in one that only catches what is unknown, and is no value itself.
        values = getattr(self.attribute, "values", self.attribute.labels)
        codes = {label: code for code, label in enumerate(values)}
        return self._above(self._value(codes, otherwise))

    def _above(self, code: str) -> str:
        """The code; that of the last value for numbers above it, where these are counted there."""
        own, number = self.attribute, self._number()
        if not (isinstance(own, Ordinal) and own.clip) or number is None:
            return code
        above = f"{number} > {own.values[-1]}"
        if self.spelled or self.type in ("FLOAT", "DOUBLE"):
            above += f" AND NOT isnan({number})"  # which is larger than any here
        return f"CASE WHEN {above} THEN {len(own.values) - 1} ELSE {code} END"

    def _number(self) -> str | None:
        """The column as numbers, null where a text spells none; None if it holds no numbers."""
        if self.spelled:
            return _spelled_number(self.quoted, self.spelling)
        if _INTEGER.fullmatch(self.type):
            # A truth value is a number too, as in Python.
            return f"{self.quoted}::UTINYINT" if self.type == "BOOLEAN" else self.quoted
        return f"{self.quoted}::DOUBLE" if _FRACTION.fullmatch(self.type) else None

    def _moment(self) -> str | None:
        """The column as microseconds since 1970, likewise; times with a zone are none."""
        if self.spelled:
            return _spelled_moment(self.quoted)
        if _MOMENT.fullmatch(self.type):
            return f"epoch_us({self.quoted}::TIMESTAMP)"
        return None

    def _value(self, codes: Mapping[Label, int], otherwise: str) -> str:
        number, moment = self._number(), self._moment()
        if self.spelled:
            return _from_spelling(self.quoted, codes, otherwise, self.spelling)
        if number is not None:
            read = _from_integer if _INTEGER.fullmatch(self.type) else _from_double
            return read(number, _numbers(codes), otherwise)
        if _TEXT.fullmatch(self.type):
            texts = {label: code for label, code in codes.items() if isinstance(label, str)}
            return _from_text(self.quoted, texts, otherwise)
        if moment is not None:
            return _from_integer(moment, _moments(codes, zoned=False), otherwise)
        if self.type == _ZONED:
            moment = f"epoch_us({self.quoted})"
            return _from_integer(moment, _moments(codes, zoned=True), otherwise)
        return otherwise

    def _bin(self, bins: Binned, otherwise: str) -> str:
        number = self._moment() if bins.dated else self._number()
        if number is None:
            return otherwise
        number = number if bins.dated else f"({number})::DOUBLE"
        valid = f"{number} BETWEEN {_limit(bins.places[0])} AND {_limit(bins.places[-1])}"
        if bins.clip:
            valid = f"{number} IS NOT NULL" if bins.dated else f"NOT isnan({number})"
        found = _place(number, bins.places[1:-1])
        return f"CASE WHEN {valid} THEN {found} ELSE {otherwise} END"


def quoted(name: str) -> str:
    """Write the name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Write a text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _numbers(codes: Mapping[Label, int]) -> dict[int | float, int]:
    return {label: code for label, code in codes.items() if isinstance(label, int | float)}


def _moments(codes: Mapping[Label, int], *, zoned: bool) -> dict[int | float, int]:
    """Return the codes of dates and times by their microseconds since 1970."""
    found: dict[int | float, int] = {}
    for label, code in codes.items():
        if not isinstance(label, date):
            continue
        moment = label
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        if (moment.tzinfo is not None) == zoned:
            naive = moment.astimezone(UTC).replace(tzinfo=None) if zoned else moment
            found.setdefault((naive - _EPOCH) // timedelta(microseconds=1), code)
    return found


def _from_text(text: str, codes: Mapping[str, int], otherwise: str) -> str:
    """Let the engine number texts as members of an enumeration, and those numbers by code."""
    if not codes:
        return otherwise
    # The members in the order of their codes, so that most often the number is the code.
    members = sorted(codes.items(), key=lambda item: item[1])
    if len(members) > MANY:
        return _looked_up(f"CAST({text} AS VARCHAR)", dict(members), _LABEL, otherwise)
    kind = f"ENUM({', '.join(literal(label) for label, _ in members)})"
    number = f"enum_code(TRY_CAST(CAST({text} AS VARCHAR) AS {kind}))"
    listed = [code for _, code in members]
    if listed != list(range(len(listed))):
        number = f"[{', '.join(map(str, listed))}][{number}::UINTEGER + 1]"
    return f"coalesce({number}, {otherwise})"


def _looked_up(value: str, codes: Mapping[str, int], label: str, otherwise: str) -> str:
    """Join the column to a table of labels, which travels as one text: the engine hashes it once.

    `label` is how the labels of the table, texts, are compared with the value. Columns of the data
    are not called as those of the table are.
    """
    mark = next(mark for mark in map(chr, range(1, 0x10000)) if not any(mark in c for c in codes))
    listed, last = list(codes.values()), len(codes)
    numbers = f"range({last})"
    if listed != list(range(last)):
        numbers = f"CAST(string_split({literal(','.join(map(str, listed)))}, ',') AS UINTEGER[])"
    labels = f"string_split({literal(mark.join(codes))}, chr({ord(mark)}))"
    table = f"(SELECT unnest({labels}) AS {_LABEL}, unnest({numbers}) AS {_CODE})"
    found = f"(SELECT {_CODE} FROM {table} WHERE {label} = {value})"
    return f"coalesce({found}, {otherwise})"


def _from_integer(number: str, codes: Mapping[int | float, int], otherwise: str) -> str:
    whole = {int(value): code for value, code in codes.items() if is_whole(value, 2**127)}
    if not whole:
        return otherwise
    low, high = min(whole), max(whole)
    if all(whole.get(low + n) == n for n in range(len(whole))):
        # From 0 on the difference fits the column's own type.
        wide = "" if low >= 0 else "::BIGINT" if max(-low, high) < 2**62 else "::HUGEINT"
        code = f"{number}{wide} - {low}" if low else number
        return f"CASE WHEN {number} BETWEEN {low} AND {high} THEN {code} ELSE {otherwise} END"
    return _from_text(number, {str(value): code for value, code in whole.items()}, otherwise)


def _from_double(number: str, codes: Mapping[int | float, int], otherwise: str) -> str:
    exact = {float(value): code for value, code in codes.items() if is_double(value)}
    if not exact:
        return otherwise
    values = sorted(exact)
    low, high = values[0], values[-1]
    if low.is_integer() and all(exact.get(low + n) == n for n in range(len(values))):
        inside = f"{number} BETWEEN {_double(low)} AND {_double(high)}"
        whole, code = f"{number} = floor({number})", f"({number} - {_double(low)})::UINTEGER"
        return f"CASE WHEN {inside} AND {whole} THEN {code} ELSE {otherwise} END"
    if len(values) > MANY_CASES:
        spelled = {repr(value): exact[value] for value in values}
        return _looked_up(number, spelled, f"CAST({_LABEL} AS DOUBLE)", otherwise)
    leaves = [f"CASE WHEN {number} = {_double(v)} THEN {exact[v]} END" for v in values]
    return f"coalesce({_search(number, values[1:], leaves)}, {otherwise})"


def _from_spelling(
    text: str, codes: Mapping[Label, int], otherwise: str, spelling: Spelling
) -> str:
    """Take a text for the label it spells, else for the number, date or time it spells."""
    # With other signs in numbers, a fraction as Python writes it may be another number.
    spelled = {
        str(label): code
        for label, code in codes.items()
        if spelling.plain or not isinstance(label, float)
    }
    spelled |= {label: code for label, code in codes.items() if isinstance(label, str)}
    for label, truth in codes.items():
        if isinstance(label, bool):
            spelled.setdefault(str(label).lower(), truth)
    for label, code in codes.items():
        # As CSV that is safe for spreadsheets spells it, ours among them.
        if str(label) in spelled:
            spelled.setdefault(str(cell(str(label))), code)
    rest = _from_integer(_spelled_moment(text), _moments(codes, zoned=False), otherwise)
    if any(not isinstance(number, bool) for number in _numbers(codes)):
        rest = _from_double(_spelled_number(text, spelling), _numbers(codes), rest)
    # An empty field is null to the reader.
    return _from_text(f"coalesce({text}, '')" if "" in spelled else text, spelled, rest)


def _spelled_moment(text: str) -> str:
    # The cast drops a zone and counts another day; it also knows eras and words, such as epoch.
    fits = f"regexp_full_match(trim({text}), {literal(_WITHOUT_ZONE)})"
    return f"epoch_us(CASE WHEN {fits} THEN TRY_CAST(trim({text}) AS TIMESTAMP) END)"


def _spelled_number(text: str, spelling: Spelling) -> str:
    # Without trim DuckDB 2.0 moves the cast into its CSV reader, where a failure is an error.
    text = f"trim({text})"
    return f"TRY_CAST({text if spelling.plain else written_as_usual(text, spelling)} AS DOUBLE)"


def written_as_usual(text: str, spelling: Spelling) -> str:
    """A number as most programs write it, null where a text spells none in its own way."""
    digits = text
    if spelling.between:
        digits = f"regexp_replace({text}, {literal(spelling.between)}, '', 'g')"
    written = f"replace({digits}, {literal(spelling.decimal)}, '.')"
    fits = f"regexp_full_match({text}, {literal(spelling.number)})"
    return f"CASE WHEN {fits} THEN {written} END"


def _place(number: str, bounds: Sequence[float]) -> str:
    """How many of the sorted bounds a number is not below.

    Many bounds are joined to the column as a table, which travels as one text: the engine sorts the
    column's different values once, and walks through both.
    """
    if len(bounds) <= MANY_CASES:
        return _search(number, bounds, [str(code) for code in range(len(bounds) + 1)])
    kind = "BIGINT" if isinstance(bounds[0], int) else "DOUBLE"
    listed = f"CAST(string_split({literal(','.join(map(repr, bounds)))}, ',') AS {kind}[])"
    numbers = f"range(1, {len(bounds) + 1})"
    table = f"(SELECT unnest({listed}) AS {_LABEL}, unnest({numbers}) AS {_CODE})"
    value = f"(SELECT {number} AS {_VALUE})"
    return f"coalesce((SELECT {_CODE} FROM {value} ASOF JOIN {table} ON {_VALUE} >= {_LABEL}), 0)"


def _search(number: str, bounds: Sequence[float], results: Sequence[str]) -> str:
    """Return the result at the place of a number among sorted bounds, halving them at each step."""
    if not bounds:
        return results[0]
    middle = len(bounds) // 2
    below = _search(number, bounds[:middle], results[: middle + 1])
    above = _search(number, bounds[middle + 1 :], results[middle + 1 :])
    return f"CASE WHEN {number} < {_limit(bounds[middle])} THEN {below} ELSE {above} END"


def is_whole(value: float, limit: int) -> bool:
    """Tell whether a number is an integer that a column of integers can hold."""
    return abs(value) < limit and value == int(value)


def is_double(value: float) -> bool:
    """Tell whether a number is exactly one of double precision."""
    try:
        return float(value) == value
    except OverflowError:
        return False


def _limit(value: float) -> str:
    return str(value) if isinstance(value, int) else _double(value)


def _double(value: float) -> str:
    return f"'{value!r}'::DOUBLE"  # quoted: an unquoted 0.1 would be a decimal
