"""A value of a study file that knows where it stands, and can say what is wrong with it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time
from functools import cached_property
from pathlib import Path
from re import search
from typing import Final, NoReturn

from noiseplan.errors import NoiseplanError, remedy
from noiseplan.paths import checked_path, near_files
from noiseplan.schema.labels import check_writable
from noiseplan.study.lines import Place, lines_of
from noiseplan.texts import listed, suggestion

# How files of data end; a study never does.
DATA: Final = frozenset([".csv", ".tsv", ".parquet", ".pq", ".gz", ".zst", ".duckdb", ".db"])
_MOST_BITS: Final = 10_000  # some 3,000 digits: Python writes out 4,300 and no more


class StudyError(NoiseplanError, ValueError):
    """A study file cannot be followed: the message names the file, the line and what is allowed.

    The same as data, for those who show it beside the file: `said` is the message without the
    place, `line` the line from 1 (None for the whole file), and `place` the keys and positions,
    from 0, that lead to what is at fault.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noiseplan.study import read_study
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = Path(folder, "study.toml")
    ...     _ = study.write_text('titel = "Wages"')
    ...     try:
    ...         read_study(study)
    ...     except StudyError as error:
    ...         print("titel" in str(error))
    True
    """

    def __init__(
        self,
        message: str,
        *,
        said: str = "",
        line: int | None = None,
        place: tuple[str | int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.said, self.line, self.place = said or message, line, place


class NotCalledPublic(StudyError):
    """A code list was not read, since nobody has said yet that what it holds is public."""


@dataclass(frozen=True)
class Document:
    """A study file: its name for messages, its text, and the folder that its paths start from."""

    name: str
    text: str
    folder: Path
    allow_outside: bool = False
    files: list[Path] = field(default_factory=list)  # that were read beside it, in order
    # Files that may be read beside it, resolved; None for all that lie in its folder.
    public: frozenset[Path] | None = None

    @cached_property
    def lines(self) -> dict[Place, int]:
        """The line of everything in it; read when there is something to complain about."""
        return lines_of(self.text)

    def line(self, place: Place) -> int | None:
        """The line of a place, or of the nearest thing around it; None for the whole file."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place[:-1]
        return None


@dataclass(frozen=True)
class Node:
    """One value, with its place in the document."""

    value: object
    place: Place
    document: Document

    # ------------------------------------------------------------------ complaints

    def fail(self, message: str, error: type[StudyError] = StudyError) -> NoReturn:
        """Refuse the value: `study.toml:12: schema.age: message`."""
        line = self.document.line(self.place)
        where = f"{self.document.name}:{line}" if line else self.document.name
        named = f"{self.where}: " if self.place else ""
        raise error(f"{where}: {named}" + message, said=message, line=line, place=self.place)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Errors of the library inside the block are about this value: say where it stands."""
        try:
            yield
        except StudyError:
            raise
        except NoiseplanError as error:
            self.fail(error.message)

    @property
    def where(self) -> str:
        """The place as people write it: `schema.age`, `tables 2, factors.age`."""
        text = ""
        for part in self.place:
            if isinstance(part, int):
                text += f" {part + 1},"
            else:
                text += ("." if text and not text.endswith(",") else " " if text else "") + part
        return text.removesuffix(",")

    @property
    def kind(self) -> str:
        """What TOML calls the value."""
        value = self.value
        if isinstance(value, bool):
            return f"the boolean {str(value).lower()}"
        if isinstance(value, str):
            return f"the text {value!r}"
        if isinstance(value, int | float):
            return f"the number {value}"
        if isinstance(value, list):
            return f"a list of {len(value)}"
        if isinstance(value, dict):
            return f"a table with {listed(value, 6) or 'no keys'}"
        return f"the time {value}"

    def expected(self, what: str) -> NoReturn:
        """Refuse a value of another kind than is needed here."""
        self.fail(f"expected {what}, found {self.kind}")

    # ------------------------------------------------------------------ tables

    def child(self, key: str | int) -> Node:
        """The value at a key or position."""
        return Node(self.value[key], (*self.place, key), self.document)  # type: ignore[index]

    def keys(self, example: str) -> dict[str, Node]:
        """A table whose keys are free, such as the names of attributes."""
        if not isinstance(self.value, dict):
            self.expected(f"a table, as in {example}")
        return {key: self.child(key) for key in self.value}

    def table(
        self, allowed: Sequence[str], example: str, needed: Sequence[str] = ()
    ) -> dict[str, Node]:
        """A table whose keys are known; a key that is not is refused, with a suggestion."""
        children = self.keys(example)
        for key, child in children.items():
            if key not in allowed:
                child.fail(
                    f"unknown key {key!r}; allowed here: {', '.join(allowed)}"
                    f"{suggestion(key, allowed)}"
                )
        for key in needed:
            if key not in children:
                self.fail(f"{key} is missing, as in {example}")
        return children

    def exactly_one(self, children: dict[str, Node], choices: Sequence[str], what: str) -> Node:
        """The one of several keys that was given."""
        given = [children[key] for key in choices if key in children]
        if not given:
            self.fail(f"{what}: give one of {', '.join(choices)}")
        if len(given) > 1:
            found = " and ".join(str(node.place[-1]) for node in given)
            given[1].fail(f"{what}: {found} exclude each other; give one of {', '.join(choices)}")
        return given[0]

    # ------------------------------------------------------------------ single values

    def items(self, example: str) -> list[Node]:
        """The members of a list."""
        if not isinstance(self.value, list):
            self.expected(f"a list, as in {example}")
        return [self.child(position) for position in range(len(self.value))]

    def text(self, example: str) -> str:
        if not isinstance(self.value, str):
            self.expected(f'a text, as in "{example}"')
        if not self.value.strip():
            self.fail(f'the text is empty; expected something like "{example}"')
        return self.value

    def number(self, what: str) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.expected(what)
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail(f"expected {what}, found {self.value}")
        return number

    def positive(self, what: str) -> float:
        """A positive number."""
        number = self.number(what)
        if number <= 0:
            self.fail(f"expected {what} above 0, found {self.value}")
        return number

    def integer(self, what: str, least: int) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.expected(what)
        if self.value < least:
            self.fail(f"expected {what}, at least {least}; found {self.value}")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.expected("true or false, without quotes")
        return self.value

    def choice(self, options: Sequence[str]) -> str:
        """One word out of several."""
        if not isinstance(self.value, str):
            self.expected(f"one of {listed(options)}")
        if self.value not in options:
            self.fail(
                f"unknown choice {self.value!r}; choose from {listed(options)}"
                f"{suggestion(self.value, options)}"
            )
        return self.value

    def label(self) -> str | int | float | bool | date:
        """A value that an attribute may have."""
        value = self.value
        if isinstance(value, time) or (isinstance(value, datetime) and value.tzinfo is not None):
            self.expected("a text, a number, a boolean, a date or a local date and time")
        if not isinstance(value, str | int | float | bool | date):
            self.expected("a text, a number, a boolean or a date")
        if isinstance(value, int):  # before any dictionary of them is made
            with self.blamed():
                check_writable(value, "label")
        return value

    def path(self, example: str) -> Path:
        """A path, from the folder of the study."""
        with self.blamed():
            return checked_path(self.document.folder / self.text(example), NoiseplanError)

    def path_inside(self, example: str, what: str) -> Path:
        """The same, within that folder, wherever links lead, unless it was said that it need not.

        A study may come from somebody else: it says what is in its own folder, and nothing of what
        is elsewhere is read or written for it.
        """
        path, folder = self.path(example), self.document.folder
        if not self.document.allow_outside and not path.resolve().is_relative_to(folder.resolve()):
            self.fail(
                f"{what} {self.value!r} lies outside the folder of the study; bring it there, or "
                f"allow it if you know what it is: "
                + remedy("allow outside", "read_study(path, allow_outside=True)")
            )
        return path


def read_document(path: Path, allow_outside: bool) -> Node:
    """The whole file as a node; refuses what is not there or not TOML.

    Data in the place of the study are not even read: a message would quote a line of them.
    """
    if path.suffix.lower() in DATA:
        raise StudyError(
            f"{path.name!r} is named as data are, and was not read: the study, a TOML file, comes "
            f"first, and data behind it"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        found = "is a folder" if path.is_dir() else "is not there"
        meant = "" if path.is_dir() else near_files(path)
        raise StudyError(
            f"the study {str(path)!r} {found}; name a TOML file, or write a first one with: "
            f"noiseplan init {path.name if not path.is_dir() else 'study.toml'} --column age=0..99"
            f"{meant}"
        ) from None
    except UnicodeDecodeError as error:
        raise StudyError(
            f"{path.name}: not UTF-8 text (at byte {error.start}); save the study as UTF-8"
        ) from None
    return document_root(Document(path.name, text, path.parent, allow_outside))


def document_root(document: Document) -> Node:
    """The whole of a document whose text is known; refuses what is not TOML."""
    try:
        value = tomllib.loads(document.text)
        if _endless(value):
            raise ValueError
        return Node(value, (), document)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(document, str(error)) from None
    except ValueError:  # of int(), which reads some thousands of digits and no more
        raise StudyError(f"{document.name}: a whole number has too many digits") from None
    except RecursionError:
        raise StudyError(f"{document.name}: nested too deeply to be a study") from None


def _endless(value: object) -> bool:
    """Whether there is a whole number that cannot be written out, as hexadecimal ones can be."""
    if isinstance(value, dict):
        return any(map(_endless, value.values()))
    if isinstance(value, list):
        return any(map(_endless, value))
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


def _not_toml(document: Document, message: str) -> StudyError:
    """What tomllib found, with the line itself and what it usually means."""
    found = search(r"\(at line (\d+), column (\d+)\)", message)
    if found is None:  # at the end of the document
        line = document.text.count("\n") + 1
        said = f"not TOML: {message[:1].lower()}{message[1:]}"
    else:
        line, start = int(found[1]), message[: found.start()].strip()
        written = document.text.split("\n")[line - 1].strip()
        hint = next((hint for begin, hint in _HINTS if start.startswith(begin)), "")
        said = f"not TOML: {start[:1].lower()}{start[1:]} in {written!r}{hint}"
    return StudyError(f"{document.name}:{line}: {said}", said=said, line=line)


_HINTS: Iterable[tuple[str, str]] = (
    ("Invalid value", '; a text is written in quotes, as in "prefix"; true and false are not'),
    ("Cannot overwrite", "; the key is there already, further up"),
    ("Cannot declare", "; the table is there already, further up: put its keys together"),
    ("Expected '=' after a key", "; a line is key = value, and a key with spaces has quotes"),
    ("Unclosed array", "; a ] is missing before this line"),
    ("Illegal character", "; a text in single quotes ends on its own line"),
)
