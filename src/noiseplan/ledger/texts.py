"""Names and notes that a ledger accepts: printable, bounded, and spelt in one way."""

from __future__ import annotations

import getpass
import unicodedata
from typing import Final

from noiseplan.ledger.errors import LedgerError

LONGEST_NAME: Final = 200
LONGEST_NOTE: Final = 10_000


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


def folded(text: str) -> str:
    """The text without case, spacing and typographic form: what two names may not share.

    Examples
    --------
    >>> folded("Census  2030") == folded("census 2030")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
