"""What is wrong in a study file, and where."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

from noiseplan.errors import NoiseplanError
from noiseplan.schema import Schema

# Names among which one that was mistyped is looked for.
MOST_COMPARED: Final = 5000


class StudyError(NoiseplanError, ValueError):
    """A study file cannot be followed: the message names the file, the line and what is allowed."""


def suggestion(found: object, known: Iterable[object]) -> str:
    """The end of a message, ". Did you mean 'age'?", where something known looks like it."""
    texts = [str(name) for name in islice(known, MOST_COMPARED + 1)]
    # Among a million codes the search would take minutes, and many are near.
    close = [] if len(texts) > MOST_COMPARED else get_close_matches(str(found), texts, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def unknown_attribute(name: str, schema: Schema) -> str:
    """What to say of a name that the schema does not have, as an attribute or as a level."""
    levels = list(schema.level_names)
    known = f", and levels {listed(levels)}" if levels else ""
    meant = suggestion(name, [*schema.names, *levels])
    return f"no attribute {name!r}; the schema has {listed(schema.names)}{known}{meant}"


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names for a message, the end left out where there are many."""
    texts = [str(name) if isinstance(name, int | float) else repr(name) for name in names]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
