"""Text files: how they write numbers and missing values, and their header lines."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final, TextIO, final

from noiseplan.counting.refusals import NO_RECORDS, UNREADABLE, cause, refused, unreadable
from noiseplan.engine import engine
from noiseplan.errors import DataError
from noiseplan.escaping import from_cell
from noiseplan.schema.spelling import Spelling

SEPARATORS: Final = (",", ";", "\t", "|")
_LONGEST: Final = 1 << 20
_LINES: Final = 100  # a header with so many line breaks is refused for the first of them


@final
@dataclass(frozen=True, init=False)
class TextFile:
    """A CSV file, or a pattern of several, and how it writes numbers and what is missing.

    Parameters
    ----------
    path
        As for plain text files.
    missing
        Texts that stand for a missing value in every column, such as ``["NA", "."]``. An empty
        field always does, unless it is declared as a value.
    decimal
        What stands before the fraction, ``"."`` or ``","``.
    thousands
        What may stand between groups of three digits: nothing, or one of ``, . ' _`` or a space.

    Examples
    --------
    >>> TextFile("people.csv", missing=["NA"], decimal=",")
    TextFile('people.csv', missing=['NA'], decimal=',')
    """

    path: str
    spelling: Spelling

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        missing: Iterable[str] = (),
        decimal: str = ".",
        thousands: str = "",
    ) -> None:
        listed = [missing] if isinstance(missing, str) else list(missing)
        if not all(isinstance(text, str) for text in listed):
            raise DataError(f"missing= lists texts, as in ['NA', '.']; found {listed!r}.")
        spelled = tuple(dict.fromkeys(text.strip() for text in listed))
        object.__setattr__(self, "path", os.fspath(path))
        object.__setattr__(self, "spelling", Spelling(spelled, decimal, thousands))

    def __repr__(self) -> str:
        own, said = self.spelling, f"TextFile({self.path!r}"
        said += f", missing={list(own.missing)!r}" if own.missing else ""
        said += f", decimal={own.decimal!r}" if own.decimal != "." else ""
        return said + (f", thousands={own.thousands!r})" if own.thousands else ")")


# ---------------------------------------------------------------------- header lines
#
# The header line of a CSV file, read before any record is.
#
# The schema says which columns there must be, so the separator is the one that finds them: nothing
# is guessed from the records, which may be broken.


@final
@dataclass(frozen=True)
class Header:
    """What separates the columns, and their names; None where the files may have others too."""

    mark: str
    fields: list[str] | None


def read_header(name: str, wanted: Iterable[str]) -> Header | None:
    """Return the header, or None where there is no file.

    The header of every file is looked at: the engine takes a blank first line, or a line break
    within a name, for something else, and loses or adds records without a word.

    Raises
    ------
    DataError
        When the first file is a folder or is empty, or any is no UTF-8, names a wanted column
        twice, or has a first line that is blank or a name with a line break.
    """
    files = [name] if Path(name).exists() else _matching(name)
    if not files:
        return None
    first, names = files[0], list(wanted)
    start = _start(first)
    if not start.strip():
        raise refused(
            NO_RECORDS, f"cannot read {first}: it is empty; the first line must name the columns."
        )
    mark, fields = _split(start, names, first)
    for other in files[1:]:
        own, theirs = _split(_start(other), names, other)
        lacking = [name for name in fields if name in names and name not in theirs]
        if own != mark or lacking:
            raise DataError(
                f"{other} has not the header of {first}: columns are separated by {mark!r} there, "
                f"and the wanted ones are the same in all files; write each with that header line."
            )
    alone = len(files) == 1 and len(set(fields)) == len(fields)
    return Header(mark, fields if alone else None)


def _split(start: str, names: Sequence[str], file: str) -> tuple[str, list[str]]:
    """The separator that finds most of the names, and the columns; refused where they mislead."""
    try:
        headers = {mark: _fields(start, mark, names) for mark in SEPARATORS}
    except csv.Error as error:
        raise DataError(f"cannot read {file}: its first line is no header ({error}).") from None
    mark = max(SEPARATORS, key=lambda m: (len({*names} & {*headers[m]}), len(headers[m])))
    fields = headers[mark]
    if start.strip() and not fields:
        raise DataError(
            f"cannot read {file}: its first line is blank; it must name the columns. Remove the "
            f"blank lines before the header."
        )
    broken = [field for field in fields if "\n" in field or "\r" in field]
    if broken:
        # A quote that is not closed takes records for a name.
        raise refused(
            UNREADABLE,
            f"cannot read {file}: the header has a line break within a name, or a quote that is "
            f"not closed; take it out there, and in the schema if it is declared.",
            f"cannot read {file}: the header has a line break within a name, after "
            f"{broken[0].splitlines()[0]!r}; take it out there, and in the schema if it is "
            f"declared.",
        )
    repeated = [field for field, n in Counter(fields).items() if n > 1 and field in names]
    if repeated:
        raise DataError(
            f"{file} has several columns named {repeated[0]!r}; rename all but one in the header "
            f"line."
        )
    return mark, fields


def _start(file: str) -> str:
    """The beginning of a file, which holds its header."""
    try:
        if file.lower().endswith(".zst"):
            return _start_by_engine(file)
        with _opened(file) as lines:
            start = lines.read(_LONGEST)
        if "\0" in start.partition("\n")[0]:
            raise sixteen_bits(file)
        return start
    except UnicodeDecodeError as error:
        if error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise sixteen_bits(file) from None
        raise refused(
            UNREADABLE,
            f"cannot read {file}: it is not UTF-8 text; convert it first: "
            f"iconv -f LATIN1 -t UTF-8 old.csv > new.csv.",
            f"cannot read {file}: it is not UTF-8 text ({error.reason} at byte {error.start}); "
            f"convert it first: iconv -f LATIN1 -t UTF-8 old.csv > new.csv.",
        ) from cause(error)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise refused(
            UNREADABLE,
            f"cannot read {file}: the compressed file is damaged, or was cut; copy it again.",
            f"cannot read {file}: the compressed file is damaged, or was cut: {error}",
        ) from cause(error)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error}") from error


def sixteen_bits(file: str) -> DataError:
    """What to do with text as some spreadsheets save it."""
    return refused(
        UNREADABLE,
        f"cannot read {file}: it is UTF-16 text, which some programs call Unicode; save it as CSV "
        f"in UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 old.csv > new.csv.",
    )


def _start_by_engine(file: str) -> str:
    """The first lines of a file that Python cannot unpack, each as one field."""
    import duckdb

    options = "auto_detect = false, header = false, delim = '\x01', quote = '', escape = ''"
    query = f"FROM read_csv(?, {options}, columns = {{'line': 'VARCHAR'}}) LIMIT {_LINES}"
    try:
        with engine() as connection:
            lines = connection.execute(query, [glob.escape(file)]).fetchall()
    except duckdb.Error as error:
        reason = str(error).split("Possible ")[0].strip()
        raise unreadable(f"cannot read {file}", reason) from cause(error)
    return "\n".join(line or "" for (line,) in lines).removeprefix("\ufeff")


def _fields(start: str, mark: str, names: Sequence[str]) -> list[str]:
    """The columns, by the names that were meant where CSV was made safe for spreadsheets."""
    found = next(csv.reader(StringIO(start, newline=""), delimiter=mark), [])
    if len(found) > 1:  # a column without a name, as some programs write their row numbers
        found = [name or f"column {place}" for place, name in enumerate(found)]
    return [from_cell(n) if n not in names and from_cell(n) in names else n for n in found]


def _matching(name: str) -> list[str]:
    return [] if "://" in name else sorted(glob.glob(name, recursive=True))  # noqa: PTH207


def _opened(name: str) -> TextIO:
    if name.lower().endswith(".gz"):
        return gzip.open(name, "rt", encoding="utf-8-sig", newline="")
    return Path(name).open(encoding="utf-8-sig", newline="")
