"""What is wrong in a study file, and where."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from noiseplan.errors import NoiseplanError


class StudyError(NoiseplanError, ValueError):
    """A study file cannot be followed: the message names the file, the line and what is allowed."""


def suggestion(found: object, known: Iterable[object]) -> str:
    """The end of a message, ". Did you mean 'age'?", where something known looks like it."""
    close = get_close_matches(str(found), [str(name) for name in known], n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def unknown_attribute(name: str, schema: Iterable[str]) -> str:
    """What to say of a name that the schema does not have."""
    names = list(schema)
    return f"no attribute {name!r}; the schema has {listed(names)}{suggestion(name, names)}"


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names for a message, the end left out where there are many."""
    texts = [str(name) if isinstance(name, int | float) else repr(name) for name in names]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
