"""Who a record belongs to: one text for every spelling of one person.

A cap holds for a person only if the person is known again. Taking two people for one is safe, since
fewer records are counted then; taking one person for two gives that person two caps. So spellings
that programs change on the way are made one, by these rules and in this order:

1. a value of any type is the text that spells it;
2. Unicode's canonical composition (NFC), the small letters of the capitals (ß as ss, ı as i), plain
   forms of wide letters and digits, nothing that prints nothing, one kind of white space and none
   at either end;
3. a text that spells a number is that number: ``17``, ``+17``, ``017``, ``17.0`` and ``1.7E+1`` are
   one person, and so are ``0`` and ``-0``. ``17e1`` without a point or a sign is no number: codes
   in hexadecimal digits look like that. A file that declares decimal commas writes numbers so here
   too;
4. nobody is what programs write for a missing value, such as nothing at all, ``NA`` or ``nan``;
5. a floating-point number of so many digits that it has been rounded is refused: it may stand for
   several people, and the same person may be another number elsewhere.

All data pass through the one expression below, in DuckDB: files and relations where they are, and
frames, arrays and what comes from databases and Spark as arrays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.expressions import literal
from noiseplan.counting.refusals import UNREADABLE, refused
from noiseplan.errors import DataError
from noiseplan.schema.encoding import is_missing
from noiseplan.texts import UNSEEN

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

# Types of DuckDB's that name people; a moment is spelled in too many ways, and bytes in none.
_INTEGERS: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_KINDS: Final = re.compile(
    rf"{_INTEGERS.pattern}|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR|ENUM\(.*\)|BOOLEAN|DATE|UUID"
    r'|"?NULL"?',
    re.DOTALL,
)
# From here on whole numbers of floating point may have been rounded.
_EXACT: Final = {"FLOAT": 7, "DOUBLE": 15}

_PLAIN: Final = "[!-~]([ -~]*[!-~])?"  # ASCII, no blank at an end: nothing to compose or to trim
# Wide forms of ASCII's signs, and white space of any kind, by the plain signs they stand for.
_NARROW: Final = "".join(map(chr, range(0x21, 0x7F)))
_WIDE: Final = "".join(chr(ord(sign) + 0xFEE0) for sign in _NARROW)
_BLANKS: Final = "".join(c for c in map(chr, range(1, 0x3001)) if c.isspace())
_CONTROLS: Final = r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # all but those that are white space
# Letters whose capitals are several, by the small letters of those: ß, ﬁ, Greek ones with an iota.
_SPANS: Final = ((0xDF, 0xE0), (0x149, 0x14A), (0x587, 0x588), (0x1E9A, 0x1E9B), (0x1F80, 0x1FFD),
                 (0xFB00, 0xFB18))  # fmt: skip
_SEVERAL: Final = {
    letter: written
    for letter in (chr(code) for span in _SPANS for code in range(*span))
    if len(normalize("NFC", letter.upper())) > 1
    and (written := normalize("NFC", letter.upper().lower())) != letter
}
# Most are a Greek letter and an iota: these are written in one step, each of the others in its own.
_WITH_IOTA: Final = {letter: text[0] for letter, text in _SEVERAL.items() if text[1:] == "ι"}
_CANONICAL: Final = "0|-?[1-9][0-9]*"
_NUMBER: Final = (
    "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)"
    "|[+-]?([0-9]+[.][0-9]*|[.][0-9]+)e[+-]?[0-9]{1,3}"
    "|[+-]?[0-9]+e[+-][0-9]{1,3}"
)
_PARTS: Final = "^([+-]?)([0-9]*)(?:[.]([0-9]*))?(?:e([+-]?[0-9]+))?$"
_NAMES: Final = "['sign', 'whole', 'part', 'power']"
_NOBODY: Final = (  # and nothing at all
    "nan -nan na n/a <na> nat none null (null) nil #n/a #na n.a. \\n . ? - -- "
    "inf +inf -inf infinity +infinity -infinity"
)


def check_kind(column: str, kind: str) -> None:
    """Refuse a column of a type that has no one spelling; `kind` is DuckDB's name of it."""
    if not _KINDS.fullmatch(kind):
        raise DataError(_not_plain(column, f"these are none: {kind}"))


def _not_plain(column: str, found: str) -> str:
    return (
        f"person column {column!r}: persons are told apart by plain values (text, numbers, dates), "
        f"and {found}. Turn the column into text first, one text for each person."
    )


def with_person(
    relation: DuckDBPyRelation, codes: Sequence[str], value: str, kind: str
) -> DuckDBPyRelation:
    """A relation of codes c0, c1, … and `person`: null for nobody, empty for a rounded number.

    Parameters
    ----------
    codes
        The expressions of the codes.
    value, kind
        The column of persons in SQL, and its type.
    """
    others = ", ".join(f"c{n}" for n in range(len(codes)))
    named = ", ".join(f"{code} AS c{n}" for n, code in enumerate(codes))
    text = f"CAST({value} AS VARCHAR)"
    if _INTEGERS.fullmatch(kind):
        return relation.project(f"{named}, {text} AS person")  # spelled in one way only
    if kind in _EXACT:
        rounded = f"isfinite({value}) AND abs({value}) >= 1e{_EXACT[kind]}"
        text = f"CASE WHEN {rounded} THEN '1e+99' ELSE {text} END"
    return _canonical(relation.project(f"{named}, {text} AS spelled"), others)


def _canonical(step: DuckDBPyRelation, others: str) -> DuckDBPyRelation:
    """Turn the column `spelled` into `person`.

    The steps are projections of their own, so that each is worked out once. A number is its figures
    without zeros at the ends, times a power of ten; only numbers with a fraction show the power.
    """
    plain_signs = literal(_NARROW + " " * len(_BLANKS))
    plain_text = f"translate(spelled, {literal(_WIDE + _BLANKS)}, {plain_signs})"
    seen = f"trim(regexp_replace({plain_text}, '[\\p{{Cf}}{_CONTROLS}{UNSEEN}]', '', 'g'))"
    # Composed anew each time: of some letters only the small one, or the capital, is one sign.
    small = f"nfc_normalize(lower(nfc_normalize(upper(nfc_normalize({seen})))))"
    plain = f"regexp_full_match(spelled, '{_PLAIN}')"
    step = step.project(
        f"{others}, CASE WHEN {plain} THEN lower(spelled) ELSE {small} END AS small"
    )
    others_apart = [pair for pair in _SEVERAL.items() if pair[0] not in _WITH_IOTA]
    single = reduce(
        lambda t, each: "replace({}, '{}', '{}')".format(t, *each), others_apart, "small"
    )
    letters, bare = "".join(_WITH_IOTA), "".join(_WITH_IOTA.values())
    single = (
        f"translate(regexp_replace({single}, '([{letters}])', '\\1ι', 'g'), '{letters}', '{bare}')"
    )
    several = f"regexp_matches(small, '[{''.join(_SEVERAL)}]')"
    step = step.project(
        f"{others}, CASE WHEN strlen(small) > length(small) AND {several} THEN {single} "
        f"ELSE small END AS written"
    )
    # Most texts begin with a letter: that is asked first, for it is the fastest.
    number = (
        f"written >= '+' AND written < ':' AND NOT regexp_full_match(written, '{_CANONICAL}') "
        f"AND regexp_full_match(written, '{_NUMBER}')"
    )
    step = step.project(
        f"{others}, written, "
        f"CASE WHEN {number} THEN regexp_extract(written, '{_PARTS}', {_NAMES}) END AS n"
    )
    step = step.project(
        f"{others}, written, n, ltrim(n.whole || n.part, '0') AS digits, "
        f"coalesce(CAST(nullif(n.power, '') AS INTEGER), 0) - length(n.part) AS shift"
    )
    step = step.project(
        f"{others}, written, n, rtrim(digits, '0') AS figures, "
        f"shift + length(digits) - length(rtrim(digits, '0')) AS power"
    )
    most = _EXACT["DOUBLE"]
    sign = "CASE WHEN n.sign = '-' THEN '-' ELSE '' END || figures"
    nobody = ", ".join(map(literal, ["", *_NOBODY.split()]))
    return step.project(
        f"{others}, CASE WHEN written IN ({nobody}) THEN NULL "
        f"WHEN n IS NULL THEN written "
        f"WHEN figures = '' THEN '0' "
        f"WHEN n.power <> '' AND length(figures) + power > {most} THEN '' "
        f"WHEN power < 0 THEN {sign} || 'e' || power "
        f"ELSE {sign} || repeat('0', power) END AS person"
    )


# ---------------------------------------------------------------------- persons in arrays


def array_of_persons(values: NDArray[Any], column: str) -> NDArray[Any]:
    """An array that DuckDB reads: numbers as they are, all else as texts, None for nobody."""
    plain = np.ma.getdata(values)
    kind = plain.dtype.kind
    if kind in "biuf" and not np.ma.getmaskarray(values).any():
        if kind == "f" and plain.dtype.itemsize not in (4, 8):
            plain = plain.astype(np.float64)
        return np.ascontiguousarray(plain, dtype=plain.dtype.newbyteorder("="))
    if kind == "M" and np.datetime_data(plain.dtype)[0] != "D":
        raise DataError(_not_plain(column, f"these are none: {plain.dtype}"))
    return texts_of_persons(values.tolist(), column)  # None where masked


def texts_of_persons(values: Sequence[Any], column: str) -> NDArray[Any]:
    """The texts of values of any type, or of several types."""
    texts = np.empty(len(values), dtype=object)
    texts[:] = [value if type(value) is str else _text(value, column) for value in values]
    return texts


def joined_persons(parts: Sequence[NDArray[Any]], column: str) -> NDArray[Any]:
    """All persons in one array; as texts where types differ, for numbers would be rounded."""
    if len({part.dtype for part in parts}) > 1:
        parts = [texts_of_persons(part.tolist(), column) for part in parts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def _text(value: Any, column: str) -> str | None:
    if is_missing(value):
        return None
    if isinstance(value, np.floating):
        value = float(str(value))  # the shortest spelling in its own precision
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return repr(value) if abs(value) < 10.0 ** _EXACT["DOUBLE"] else f"{value:e}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str | int | UUID) or (type(value) is date):
        return str(value)
    kind = "a moment" if isinstance(value, datetime) else f"a {type(value).__name__}"
    said = _not_plain(column, "some are none")
    raise refused(UNREADABLE, said, _not_plain(column, f"some are none: {kind}"))
