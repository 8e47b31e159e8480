"""Columns of values to columns of codes, and the refusal of values that were not declared."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.counter import code_dtype
from noiseplan.counting.person_cap import PersonCap
from noiseplan.counting.refusals import UNDECLARED, UNREADABLE, details_are_shown, refused
from noiseplan.errors import DataError, remedy
from noiseplan.schema import Attribute, Binned, Categorical, Hierarchical, Schema
from noiseplan.schema.encoding import is_missing
from noiseplan.schema.labels import ANY_OTHER_LEAF, ANYTHING_ELSE, CLIPPED, IN_ORDER, MISSING
from noiseplan.texts import counted

_SHOWN: Final = 5
SEARCHED: Final = 1000  # rows without a code that are looked at for values to show


@final
class Refusals:
    """Values that the schema does not declare, gathered while records pass by.

    Privacy
    -------
    The message of :meth:`raise_any` names columns. Values and row counts of the confidential table
    are told only to a custodian who asks for them (:mod:`noiseplan.counting.refusals`).
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.rows = 0
        self.unknown = dict.fromkeys(schema.names, 0)
        """How many rows of a column hold values without a code."""
        self.examples: dict[str, list[str]] = {name: [] for name in schema.names}
        """Some of these values, as messages show them."""

    def __bool__(self) -> bool:
        return any(self.unknown.values())

    def note(self, name: str, rows: int, examples: Iterable[object] = ()) -> None:
        """Note that so many more rows of a column hold values without a code."""
        self.note_written(name, rows, map(shown, examples))

    def note_written(self, name: str, rows: int, examples: Iterable[str]) -> None:
        """The same, with the values as messages show them."""
        self.unknown[name] += rows
        if len(self.examples[name]) <= _SHOWN:
            fresh = dict.fromkeys([*self.examples[name], *examples])
            self.examples[name] = list(fresh)[: _SHOWN + 1]

    def raise_any(self, look: Callable[[str], Iterable[object]] = lambda _: ()) -> None:
        """Refuse the data if any value had no code: the first column in full, the rest by name.

        `look` finds such values of a column where none is known yet and somebody asked for them.
        """
        faulty = [name for name, rows in self.unknown.items() if rows]
        if not faulty:
            return
        for name in faulty if details_are_shown() else ():
            if not self.examples[name]:
                self.note(name, 0, look(name))
        first, *others = faulty
        attribute = self._schema[first]
        values = self.examples[first]
        listed = ", ".join(values[:_SHOWN]) + (", …" if len(values) > _SHOWN else "")
        listed_others = ", ".join(f"{name!r} ({self.unknown[name]} rows)" for name in others)
        also = f" The same goes for {listed_others}." if others else ""
        named = f" The same goes for {', '.join(map(repr, others))}." if others else ""
        raise refused(
            UNDECLARED,
            f"column {first!r} holds values that the schema does not declare. Declared is "
            f"{attribute.describe()}. " + _remedy(attribute, ()) + named,
            f"column {first!r}: {self.unknown[first]} of {self.rows} rows hold values that the "
            f"schema does not declare: {listed}. Declared is {attribute.describe()}. "
            + _remedy(attribute, values)
            + also,
        )


@final
@dataclass(frozen=True)
class Encoded:
    """A column of codes, -1 where a value has none, and a way to look such values up."""

    codes: NDArray[np.int64]
    values_at: Callable[[NDArray[np.intp]], Iterable[object]]

    @staticmethod
    def of(attribute: Attribute, values: NDArray[Any]) -> Encoded:
        """Encode an array of values."""
        return Encoded(attribute.encode(values), lambda places: values[places].tolist())


def encode_block(
    schema: Schema, columns: Mapping[str, Encoded], refusals: Refusals
) -> list[NDArray[np.unsignedinteger]]:
    """Return the codes of every attribute, smallest type, and note values that have none."""
    block = []
    for name in schema.names:
        column = columns[name]
        unknown = column.codes < 0
        if unknown.any():
            examples = column.values_at(np.flatnonzero(unknown)[:SEARCHED])
            refusals.note(name, int(unknown.sum()), examples)
        narrow = column.codes.astype(code_dtype(schema[name].size))
        narrow.setflags(write=False)  # nobody else's, and not to be copied
        block.append(narrow)
    refusals.rows += len(block[0])
    return block


def check_columns(
    schema: Schema,
    found: Iterable[object],
    people: PersonCap | None,
    *,
    maybe_records: bool = False,
) -> list[str]:
    """The columns to read: those of the schema and of persons; refuses data that lack one of them.

    `maybe_records`: what was found may be no names but a record, as the first line of a file
    without a header is. Then only names that are wanted, or near those, are shown.
    """
    listed = list(found)
    missing = [name for name in schema.names if name not in listed]
    if missing:
        spare = [name for name in listed if name not in schema.names]
        close = {name: _finest(schema[name], spare) or nearest(name, spare) for name in missing}
        guesses = [f"{guess[0]!r} for {name!r}" for name, guess in close.items() if guess]
        meant = f"Is it {', '.join(guesses)}? " if guesses else ""
        near = [guess[0] for guess in close.values() if guess]
        hidden = [name for name in listed if name not in schema.names and name not in near]
        lack = f"the data lack the column(s) {', '.join(map(repr, missing))}; they have"
        alike = any(guess and folded(guess[0]) == folded(name) for name, guess in close.items())
        told = "Capitals and blanks count. " if alike else ""
        advice = f"{meant}{told}Name the attributes as the columns are, or leave them out."
        whole = f"{lack} {', '.join(map(repr, listed)) or 'none'}. {advice}"
        if not (maybe_records and hidden):
            raise DataError(whole)
        shown = ", ".join(repr(name) for name in listed if name not in hidden)
        telling = f"{lack} {shown or 'none of them'}, and {counted(len(hidden), 'other')}. {advice}"
        raise refused(UNREADABLE, telling, whole)
    if people is None:
        return list(schema.names)
    if people.column not in listed:
        near = nearest(people.column, listed)
        meant = f" Is it {near[0]!r}? Capitals and blanks count." if near else ""
        raise DataError(
            f"the data lack the person column {people.column!r}; they have "
            f"{', '.join(repr(str(name)) for name in listed) or 'none'}.{meant}"
        )
    return list(dict.fromkeys([*schema.names, people.column]))


def _finest(attribute: Attribute, found: Iterable[object]) -> list[str]:
    """The column that is called as the finest level of an attribute, which holds its values."""
    level = attribute.levels[0] if isinstance(attribute, Hierarchical) else None
    return [str(name) for name in found if name == level]


def nearest(name: str, found: Iterable[object]) -> list[str]:
    """The name that was probably meant, if any: capitals and blanks at the ends are not seen."""
    known = {folded(other): str(other) for other in found}
    near = get_close_matches(folded(name), known, n=1, cutoff=0.6)
    return [known[each] for each in near]


def folded(name: object) -> str:
    """A name without its capitals, and without blanks at its ends."""
    return str(name).strip().casefold()


def shown(value: object) -> str:
    """Write a value as messages show it."""
    return "null" if is_missing(value) else repr(value)


# How the text of a file is to be written, by what its bins hold.
AS_DATES: Final = "written as 2020-01-31, or with a time as 2020-01-31T12:30"
AS_NUMBERS: Final = "turned into numbers first, or its file says how they are written: " + remedy(
    "decimal commas", 'TextFile(path, decimal=",")'
)
SPELLED: Final = remedy("spellings of missing", 'TextFile(path, missing=["NA", "."])')
# Said of columns whose declared values begin with zeros, whatever the data hold.
ZEROS: Final = (
    "Codes such as 01001 are text: a column that was read as numbers, by a spreadsheet or a data "
    "frame, has lost their zeros; read it as text. "
)


def _lose_zeros(declared: Sequence[str]) -> bool:
    """Whether some declared values would be others as numbers."""
    return any(len(label) > 1 and label[0] == "0" and label.isdecimal() for label in declared)


def _of_missing(attribute: Attribute) -> str:
    """What to declare of missing values: their cell, or how the file spells them."""
    if attribute.missing is None:
        return "missing values have a cell where one is declared: " + MISSING
    return "a file may spell missing values in ways of its own: " + SPELLED


def _remedy(attribute: Attribute, written: Sequence[str]) -> str:
    """Say what to do about values, by those that are shown, or whatever they are."""
    texts = [ast.literal_eval(value) for value in written if value[:1] in "'\""]
    declared = [label for label in attribute.labels if isinstance(label, str)]
    alike = {label.strip().casefold() for label in declared}
    if any(text.strip().casefold() in alike for text in texts):
        return "Some differ from declared values by blanks or capitals only: clean the column."
    spelled = {str(label) for label in attribute.labels if not isinstance(label, str)}
    if any(text.strip() in spelled for text in texts):
        return "Text is never taken for the number or date it spells: convert the column first."
    if isinstance(attribute, Categorical | Hierarchical):
        caught = ANYTHING_ELSE if isinstance(attribute, Categorical) else ANY_OTHER_LEAF
        if "null" in written and attribute.missing is None:
            some = "They" if set(written) == {"null"} else "Some"
            return (
                f"{some} are missing: declare a cell for those: "
                + MISSING
                + ". One more category catches everything unknown: "
                + caught
                + "."
            )
        zeros = ZEROS if _lose_zeros(declared) else ""
        return (
            zeros + "Declare them, or let one more category catch everything unknown: " + caught
        ) + "."
    if "null" in written:
        return "Some are missing: declare a cell for those, outside the order: " + MISSING + "."
    if isinstance(attribute, Binned):
        held, form = ("dates", AS_DATES) if attribute.dated else ("numbers", AS_NUMBERS)
        return (
            f"Widen the edges, or send {held} beyond them to the end bins: "
            + CLIPPED
            + ". Text must be "
            + form
            + "; "
            + _of_missing(attribute)
            + "."
        )
    return (
        "Declare them, " + IN_ORDER + " in their order, if they are possible; values that are "
        "mistakes are mended beforehand, or caught: numbers by "
        + CLIPPED
        + ", others by "
        + ANYTHING_ELSE
        + "."
    )
