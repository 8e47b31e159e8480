"""The header line of a CSV file, read before any record is.

The schema says which columns there must be, so the separator is the one that finds them: nothing is
guessed from the records, which may be broken.
"""

from __future__ import annotations

import csv
import glob
import gzip
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO, final

from noiseplan.counting.telling import NO_RECORDS, UNREADABLE, cause, refused
from noiseplan.errors import DataError

_SEPARATORS: Final = (",", ";", "\t", "|")
_LONGEST: Final = 1 << 20


@final
@dataclass(frozen=True)
class Header:
    """What separates the columns, and their names; None where the files may have others too."""

    mark: str
    fields: list[str] | None


def read_header(name: str, wanted: Iterable[str]) -> Header | None:
    """Return the header, or None where only the engine can open the file.

    Raises
    ------
    DataError
        When the file is a folder, is empty, is no UTF-8, or names a wanted column twice.
    """
    files = [name] if Path(name).exists() else _matching(name)
    if not files:
        return None
    first = files[0]
    try:
        with _opened(first) as lines:
            start = lines.read(_LONGEST)
    except UnicodeDecodeError as error:
        raise refused(
            UNREADABLE,
            f"cannot read {first}: it is not UTF-8 text; convert it first: "
            f"iconv -f LATIN1 -t UTF-8 old.csv > new.csv.",
            f"cannot read {first}: it is not UTF-8 text ({error.reason} at byte {error.start}); "
            f"convert it first: iconv -f LATIN1 -t UTF-8 old.csv > new.csv.",
        ) from cause(error)
    except (OSError, EOFError) as error:  # EOFError: a compressed file that was cut
        raise DataError(f"cannot read {first}: {error}") from error
    if not start.strip():
        raise refused(
            NO_RECORDS, f"cannot read {first}: it is empty; the first line must name the columns."
        )
    headers = {mark: _fields(start, mark) for mark in _SEPARATORS}
    names = set(wanted)
    found = max(_SEPARATORS, key=lambda mark: (len(names & set(headers[mark])), len(headers[mark])))
    repeated = [field for field, n in Counter(headers[found]).items() if n > 1 and field in names]
    if repeated:
        raise DataError(
            f"{first} has several columns named {repeated[0]!r}; rename all but one in the header "
            f"line."
        )
    alone = len(files) == 1 and len(set(headers[found])) == len(headers[found])
    return Header(found, headers[found] if alone else None)


def _fields(start: str, mark: str) -> list[str]:
    return next(csv.reader(start.splitlines(keepends=True), delimiter=mark), [])


def _matching(name: str) -> list[str]:
    return [] if "://" in name else sorted(glob.glob(name, recursive=True))  # noqa: PTH207


def _opened(name: str) -> TextIO:
    if name.lower().endswith(".gz"):
        return gzip.open(name, "rt", encoding="utf-8-sig", newline="")
    return Path(name).open(encoding="utf-8-sig", newline="")
