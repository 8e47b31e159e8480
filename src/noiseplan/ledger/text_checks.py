"""Names and notes that a ledger accepts: printable, bounded, and spelt in one way.

A name that only looks like another's would open a second budget for the same people. So a new name
has letters of one alphabet and plain signs, and its *looks*, what is left of it without case,
blanks and letters that two alphabets share, are no other's.

References
----------
The Unicode Consortium, *Unicode security mechanisms* (Technical Standard 39), Sections 4 and 5.
"""

from __future__ import annotations

import getpass
import re
import unicodedata
from typing import Final

from noiseplan.ledger.errors import LedgerError
from noiseplan.texts import UNSEEN

LONGEST_NAME: Final = 200
LONGEST_NOTE: Final = 10_000

# Letters of Greek and Cyrillic, capital or small, that look like Latin ones; accents are apart.
_AS_LATIN: Final = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺαγικνορτυϲχАВЕЅІЈКМНОРСТУХҮԌԚԜҺаеѕіјкоргсухүһԁԛԝѵпьвнмтз",
    "ABEZHIKMNOPTYXCMayikvoptucxABESIJKMHOPCTYXYGQWhaesijkoprcyxyhdqwvnbBHMT3",
)
# Hyphens, dashes, minus signs and bars that are not of the category Pd.
_DASHES: Final = "\u02d7\u06d4\u2043\u2212\u2500\u2501\u2796\u2cba\u30fc\u4e00\u2f00"
# Latin letters beside ASCII's with accents, and alphabets that are in daily use.
_LATIN: Final = "ÆæØøŒœßẞÐðÞþĐđĦħıŁłŊŋŦŧƏə"
_IN_USE: Final = re.compile(
    "GREEK|CYRILLIC|HEBREW|ARABIC|GEORGIAN|DEVANAGARI|BENGALI|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|"
    "KANNADA|MALAYALAM|SINHALA|THAI|LAO|TIBETAN|MYANMAR|KHMER|ETHIOPIC|CJK"
)
# Alphabets that are written together.
_TOGETHER: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})


def name(what: str, value: object) -> str:
    """A name on one line, letters with accents in their composed form.

    Two spellings of one name would be two budgets for the same people.

    Examples
    --------
    >>> name("dataset", "cafe\\u0301") == "caf\\u00e9"
    True
    """
    text = note(what, value, LONGEST_NAME)
    if not text or text != text.strip() or not text.isprintable():
        raise LedgerError(
            f"{what} must be a printable text on one line, without spaces around it, for example "
            f"'census 2030'; got {text!r}"
        )
    return text


def known(what: str, value: object) -> str:
    """A name that need not be a good one, as when it is looked up: in its composed form."""
    return note(what, value, LONGEST_NAME)


def note(what: str, value: object, longest: int = LONGEST_NOTE) -> str:
    """A text of one or more lines, possibly empty, that is safe to print."""
    if not isinstance(value, str):
        raise LedgerError(f"{what} must be a text; got {value!r}")
    if len(value) > longest:
        raise LedgerError(f"{what} has {len(value)} characters; at most {longest} are kept")
    # Control characters could rewrite a terminal; lone surrogates cannot be written as UTF-8.
    for character in value:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t":
            raise LedgerError(f"{what} holds {character!r}, which cannot be printed; got {value!r}")
    return unicodedata.normalize("NFC", value)


def login() -> str:
    """The login name of this process; empty for a user without a name."""
    try:
        return known("login name", getpass.getuser())
    except (OSError, KeyError, ImportError, LedgerError):
        return ""


def require_plain(what: str, text: str) -> None:
    """Refuse a new name that could be taken for another whatever the other is.

    Examples
    --------
    >>> require_plain("dataset", "census 2030 (résumé), part 2")
    """
    odd = [sign for sign in text if not _plain(sign)]
    if odd:
        raise LedgerError(
            f"{what} {text!r} holds {ascii(odd[0])[1:-1]}, which prints nothing or looks like "
            f"another sign. Write a name of letters, digits, spaces and the signs of a keyboard, "
            f"for example 'census 2030'"
        )
    alphabets = {_alphabet(sign) for sign in text if sign.isalpha()}
    if len(alphabets) > 1:
        listed = " and ".join(sorted(alphabet.capitalize() for alphabet in alphabets))
        raise LedgerError(
            f"{what} {text!r} ({ascii(text)[1:-1]}) mixes letters of {listed}, some of which look "
            f"alike. Write it with letters of one alphabet"
        )


def looks(text: str) -> frozenset[str]:
    """What names that look alike share: the text without case, and as it looks in print.

    Examples
    --------
    >>> bool(looks("census-2030") & looks("CENSUS \\u2212 2030"))
    True
    >>> bool(looks("wages IA") & looks("wages LA")), bool(looks("file 1") & looks("fiIe l"))
    (False, True)
    """
    seen = "".join(map(_seen, unicodedata.normalize("NFKD", text)))
    latin = unicodedata.normalize("NFC", seen.translate(_AS_LATIN))
    in_print = (
        latin.translate(str.maketrans("I1|0o", "lllOO")).replace("rn", "m").replace("vv", "w")
    )
    without_case = unicodedata.normalize("NFKC", latin.casefold())
    return frozenset({f"in print {in_print}", f"without case {without_case}"})


def _seen(sign: str) -> str:
    """A sign as it looks, nothing for what prints nothing."""
    if _unseen(sign):
        return ""
    if unicodedata.category(sign) == "Pd" or sign in _DASHES:
        return "-"
    digit = unicodedata.decimal(sign, None)
    if digit is not None:
        return str(digit)
    return {"\u0131": "i", "\u0237": "j", "\u0251": "a", "\u0261": "g"}.get(sign, sign)


def _unseen(sign: str) -> bool:
    blank = unicodedata.category(sign) in ("Cf", "Cn", "Zs", "Zl", "Zp")
    return blank or re.match(f"[{UNSEEN}]", sign) is not None


def _plain(sign: str) -> bool:
    """Whether a sign belongs into a name: a letter or its accent, a digit, or one of ASCII.

    Letters of alphabets in daily use only. Of Latin those that are ASCII's, with or without an
    accent, and a few more: small capitals and letters of phonetics look like others.
    """
    if sign.isascii():
        return sign.isprintable()
    if _unseen(sign) or unicodedata.normalize("NFKC", sign) != sign:
        return False
    alphabet, kind = _alphabet(sign), unicodedata.category(sign)
    if alphabet == "LATIN":
        return unicodedata.normalize("NFD", sign)[0].isascii() or sign in _LATIN
    if kind[0] == "M":
        return alphabet not in ("COMBINING", "LATIN", "GREEK", "CYRILLIC")
    return kind[0] in "LN" and _IN_USE.fullmatch(alphabet) is not None


def _alphabet(letter: str) -> str:
    """The alphabet of a letter, by the first word of its name."""
    first = unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
    return "CJK" if first in _TOGETHER else first


def folded(text: str) -> str:
    """The text without case, spacing and typographic form: what two names may not share.

    Examples
    --------
    >>> folded("Census  2030") == folded("census 2030")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
