"""Numbers, counts and names in words, as everything that is printed has them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

# Names among which one that was mistyped is looked for.
MOST_COMPARED: Final = 5000
# Standard errors of less are those of noise that is always zero.
NEVER: Final = 1e-30
# Signs that print nothing, beside those of Unicode's categories Cc, Cf and Z, as a class of a
# regular expression has them: fillers, marks that choose a variant or join, Braille's empty one.
UNSEEN: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff"
)


def counted(count: int, one: str, many: str = "") -> str:
    """So many things; `many` only where it is not `one` with an s.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(1200, "row")
    ('1 query', '1,200 rows')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def error_text(error: float, digits: int = 4) -> str:
    """A standard error of a few digits; 0 where noise is never drawn in anybody's lifetime.

    Discrete noise far below one count is stated as a variance of 1e-200, so that it is not none.

    Examples
    --------
    >>> error_text(1.23456), error_text(1e-100), error_text(9.013e-06)
    ('1.235', '0', '9.013e-06')
    """
    return f"{0.0 if abs(error) < NEVER else error:.{digits}g}"


def percent_up(share: float) -> str:
    """A share as a percentage of a few digits, rounded up: what is claimed as proved must be.

    Examples
    --------
    >>> percent_up(0.0101), percent_up(0.00123), percent_up(1e-7), percent_up(0.0)
    ('1.1', '0.123', '0.001', '0.000')
    """
    digits = 1 if share >= 0.01 else 3
    return f"{max(0.0, math.ceil(100 * share * 10**digits - 1e-9)) / 10**digits:.{digits}f}"


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters, the end left out where there are more.

    Examples
    --------
    >>> shortened("abc", 3), shortened("abcd", 3)
    ('abc', 'ab…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """A note of others on one line, of at most so many letters, and unable to write outside it."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return shortened(" ".join(line.split()), most)


def suggestion(found: object, known: Iterable[object]) -> str:
    """The end of a message, ". Did you mean 'age'?", where something known looks like it.

    A code that lost its zeros looks like the one that has them, and a word like itself in capitals.

    Examples
    --------
    >>> suggestion("agee", ["age", "sex"]), suggestion("1", ["10", "16", "01"])
    (". Did you mean 'age'?", ". Did you mean '01'?")
    >>> suggestion("geo", ["age", "Geo"])
    ". Did you mean 'Geo'?"
    """
    texts = [str(name) for name in islice(known, MOST_COMPARED + 1)]
    # Among a million codes the search would take minutes, and many are near.
    if len(texts) > MOST_COMPARED:
        return ""
    close = alike(str(found), texts) or get_close_matches(str(found), texts, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def alike(found: str, texts: Iterable[str]) -> list[str]:
    """Those that are the same but for zeros before a number, then those but for capitals.

    Examples
    --------
    >>> alike("4", ["14", "04", "5"]), alike("004", ["4"]), alike("north", ["North", "south"])
    (['04'], ['4'], ['North'])
    """
    known, wanted = list(texts), found.strip()
    digits = wanted.lstrip("0") if wanted.isdecimal() else None
    whole = [text for text in known if text.isdecimal() and text.lstrip("0") == digits]
    return whole + [text for text in known if text.strip().casefold() == wanted.casefold()]


def unknown_attribute(name: object, attributes: Iterable[str], levels: Iterable[str]) -> str:
    """What to say of a name that a schema does not have, as an attribute or as a level."""
    names, groups = list(attributes), list(levels)
    known = f", and levels {listed(groups)}" if groups else ""
    meant = suggestion(name, [*names, *groups])
    return f"no attribute {name!r}; the schema has {listed(names)}{known}{meant}"


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names for a message, the end left out where there are many."""
    texts = [str(name) if isinstance(name, int | float) else repr(name) for name in names]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage for people: a digit or two, and no powers of ten.

    Examples
    --------
    >>> percent(0.0), percent(2e-12), percent(0.000004), percent(0.0002), percent(1.25)
    ('0%', '< 0.0001%', '0.0004%', '0.02%', '125%')
    >>> percent(0.00036, 2), percent(0.26, 2)
    ('0.036%', '26%')
    """
    value = 100 * share
    if 0 < value < 0.0001:
        return "< 0.0001%"
    return f"{value:.0f}%" if value >= 10 else f"{value:.{digits}g}%"


def duration(seconds: float) -> str:
    """So long, for people: seconds, minutes or hours, with two digits or so.

    Examples
    --------
    >>> duration(0.004), duration(0.53), duration(8.94), duration(61), duration(600)
    ('0.01 s', '0.53 s', '8.9 s', '61 s', '10 min')
    >>> duration(9000), duration(90000)
    ('2.5 h', '25 h')
    """
    if seconds < 10:
        return f"{max(seconds, 0.01):.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"
