"""Expected counts against errors: which tables and cells will be of use at that size.

Counts are a guess of the whole, spread evenly, or a public table of an earlier year. Nothing
confidential comes in here: whoever sends a table has said that it is public.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import DataError
from noiseplan.matrices.base import Array
from noiseplan.queries import Query
from noiseplan.schema import Attribute, Schema
from noiseplan.studio.public_files import TextTable, number_of, read_csv
from noiseplan.study import Study
from noiseplan.texts import counted, listed, suggestion

USELESS: Final = 0.5
MOST_WORST: Final = 10
MOST_CELLS: Final = 4_000_000
MOST_RECORDS: Final = 1e15
EVENLY: Final = (
    "A guess of {total:,.0f} records in all is spread evenly over all cells, as no real table is: "
    "small groups will be smaller, and their relative errors larger."
)


@dataclass(frozen=True)
class Counts:
    """Records by some attributes: codes of each, and how many; or all of them spread evenly."""

    schema: Schema
    total: float
    codes: Mapping[str, IntArray] | None = None  # None: spread evenly
    weights: Array | None = None

    def missing(self, query: Query) -> list[str]:
        """The attributes of a query that are not told apart."""
        return [] if self.codes is None else [n for n in query.attributes if n not in self.codes]

    def table(self, query: Query) -> Array:
        """Counts by the attributes of a query."""
        shape = tuple(self.schema[name].size for name in query.attributes)
        if self.codes is None or self.weights is None:
            return np.full(shape, self.total / math.prod(shape))
        if not shape:
            return np.array(self.total)
        cells = np.ravel_multi_index([self.codes[name] for name in query.attributes], shape)
        added = np.bincount(cells, weights=self.weights, minlength=math.prod(shape))
        return np.asarray(added, dtype=np.float64).reshape(shape)


def expected(
    study: Study, tables: Sequence[Mapping[str, Any]], counts: Counts, limit: float = USELESS
) -> list[dict[str, Any]]:
    """For every table with its standard error, what that means for the counts expected in it."""
    found = []
    for table in tables:
        query = study.workload[str(table["name"])]
        found.append({"name": query.name, **_of_table(query, table["std_error"], counts, limit)})
    return found


def _of_table(query: Query, error: Any, counts: Counts, limit: float) -> dict[str, Any]:
    unknown: dict[str, Any] = {"expected": None, "relative": None, "useless": None, "worst": []}
    absent = counts.missing(query)
    cells = math.prod(counts.schema[name].size for name in query.attributes)
    if not isinstance(error, int | float):
        return unknown | {"note": "its error is not known before the data are read"}
    if absent:
        return unknown | {"note": f"the file does not tell {listed(absent)} apart"}
    if max(cells, query.rows) > MOST_CELLS:
        return unknown | {"note": "too large to be compared here"}
    answers = np.abs(query.apply(counts.table(query)))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(answers > 0, float(error) / answers, np.inf)
    if error == 0:
        relative = np.zeros_like(answers)
    return {
        "expected": _finite(float(answers.mean())),
        "relative": _finite(float(np.median(relative))),
        "useless": float(np.mean(relative > limit)),
        "worst": _worst(query, answers, relative),
        "note": _empty(answers),
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _empty(answers: Array) -> str:
    none = int(np.sum(answers == 0))
    return f"{none:,} of {counted(len(answers), 'cell')} are expected to be empty" if none else ""


def _worst(query: Query, answers: Array, relative: Array) -> list[dict[str, Any]]:
    """The cells of the largest relative errors, with their labels."""
    order = np.lexsort((np.arange(len(relative)), -relative))[:MOST_WORST]
    labels = query.row_labels()
    return [
        {
            "label": " · ".join(str(column[row]) for column in labels.values()) or "total",
            "expected": _finite(float(answers[row])),
            "relative": _finite(float(relative[row])),
        }
        for row in order.tolist()
    ]


# ---------------------------------------------------------------------- where counts come from


def is_number(value: object) -> bool:
    """Whether it is a number that a double holds."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and -sys.float_info.max <= value <= sys.float_info.max  # type: ignore[operator]


def is_table(value: object) -> bool:
    """Whether it is a table of a plan: a name, and an error where one is known."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return False
    return "std_error" in value and (value["std_error"] is None or is_number(value["std_error"]))


def guessed(schema: Schema, total: object) -> Counts:
    """So many records in all, evenly."""
    if isinstance(total, bool) or not isinstance(total, int | float) or not total > 0:
        raise DataError(f"the number of records is a number above 0, as in 60000; found {total!r}")
    if total > MOST_RECORDS:
        raise DataError(f"the number of records is at most {MOST_RECORDS:.0e}, as in 60000")
    return Counts(schema, float(total))


def from_file(schema: Schema, file: Mapping[str, Any]) -> tuple[Counts, list[str]]:
    """The counts of a public table, and what is to be said of them."""
    name = str(file.get("name", "the file"))
    if file.get("confirmed") is not True:
        raise DataError(f"{name} is read only when you say that it is public")
    table = read_csv(name, str(file.get("content", "")))
    known = [each for each in table.columns if each in schema]
    if not known:
        raise DataError(
            f"{name}: no column is called as an attribute: it has {listed(table.columns)}, "
            f"and the schema {listed(schema.names)}"
        )
    column = count_column(name, table, schema, file.get("count_column"))
    weights = _weights(name, table, column)
    kept = np.ones(table.rows, dtype=bool)
    codes = {each: codes_of(schema[each], table.columns[each]) for each in known}
    for each in codes.values():
        kept &= each >= 0
    notes = _notes(name, column, int(np.sum(~kept)), table.rows)
    found = {each: codes[each][kept] for each in known}
    return Counts(schema, float(weights[kept].sum()), found, weights[kept]), notes


def _notes(name: str, column: str | None, dropped: int, rows: int) -> list[str]:
    counts = f"the counts in {column!r}" if column else "one for each of its rows"
    notes = [f"{name}: {counted(rows, 'row')}, {counts}."]
    if dropped:
        notes.append(
            f"{counted(dropped, 'row')} with values that the schema does not have were left out: "
            f"totals, perhaps, or other codes."
        )
    return notes


def count_column(name: str, table: TextTable, schema: Schema, asked: object) -> str | None:
    """The column of counts: the one asked for, the only one that is no attribute, or none."""
    others = [each for each in table.columns if each not in schema]
    if asked:
        if asked not in table.columns:
            raise DataError(
                f"{name} has no column {asked!r}; it has {listed(table.columns)}"
                f"{suggestion(asked, table.columns)}"
            )
        return str(asked)
    if len(others) > 1:
        raise DataError(
            f"{name}: say which column holds the counts; no attributes are {listed(others)}"
        )
    return others[0] if others else None


def _weights(name: str, table: TextTable, column: str | None) -> Array:
    if column is None:
        return np.ones(table.rows)
    numbers = [number_of(text.replace(" ", "")) for text in table.columns[column]]
    for row, (number, text) in enumerate(zip(numbers, table.columns[column], strict=True), 2):
        if number is None or not 0 <= number <= MOST_RECORDS:
            raise DataError(f"{name}, row {row}: {text!r} in {column!r} is no count")
    return np.array(numbers, dtype=np.float64)


def codes_of(attribute: Attribute, texts: Sequence[str]) -> IntArray:
    """The code of each text: that of the label written so, or of the number; −1 for none."""
    known = {_spelled(label): code for code, label in enumerate(attribute.labels)}
    place = {text: known.get(text.strip(), -1) for text in set(texts)}
    if any(isinstance(label, bool) for label in attribute.labels[:2]):
        place = {text: known.get(text.strip().casefold(), -1) for text in place}
    lost = [text for text, code in place.items() if code < 0]
    numbers = {text: number for text in lost if (number := number_of(text)) is not None}
    if numbers:
        found = attribute.encode(np.array(list(numbers.values()), dtype=np.float64))
        place.update(zip(numbers, found.tolist(), strict=True))
    for text in lost:
        if text == "":
            place[text] = attribute.null_code
    return np.array([place[text] for text in texts], dtype=np.int64)


def _spelled(label: object) -> str:
    return str(label).strip().casefold() if isinstance(label, bool) else str(label).strip()
