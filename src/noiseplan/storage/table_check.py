"""Published CSV files compared with what the saved measurements give, number by number.

A hash that was written anew says nothing of an edited table; the measurements do. Every number of a
CSV file must be the answer of the release, to the digits that such files have.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product, zip_longest
from pathlib import Path

import numpy as np

from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.escaping import cell
from noiseplan.matrices.base import Array
from noiseplan.queries import Query
from noiseplan.queries.questions import ask_query
from noiseplan.release.answers import Answer
from noiseplan.release.release import Release
from noiseplan.storage.table_files import BATCH, ERRORS, table_files, table_titles

# Of the smallest error of a table, by which its CSV file may differ: it has six digits of it.
# Of a number, which may be computed in another order of sums on another machine.
OF_ERROR, OF_NUMBER = 1e-5, 1e-9


@dataclass(frozen=True)
class ComparedTables:
    """How many numbers of CSV files are as computed, and the files whose question is not known."""

    numbers: int
    unknown: tuple[str, ...]


def compare_tables(folder: Path, release: Release) -> ComparedTables:
    """Compare every number of the CSV files; `StorageError` names the first that differs."""
    by_title = {t: query for query in release.plan.workload for t in table_titles([query])}
    numbers, unknown = 0, []
    for listed in table_files(folder):
        name, title = f"tables/{listed['file']}.csv", listed["query"]
        query = by_title.get(title) or _asked(title, release)
        if query is None:
            unknown.append(name)
            continue
        answer = _answer(release, query, title)
        if differs := _difference(folder / name, answer):
            raise StorageError(
                f"saved release {str(folder)!r}: {name}{differs}; the file was changed, and its "
                f"hash with it. Copy the folder again from its source"
            )
        numbers += sum(map(len, answer.numbers().values()))
    return ComparedTables(numbers, tuple(unknown))


def _asked(title: str, release: Release) -> Query | None:
    """The query that a title asks in words, where it is no table of the workload."""
    try:
        return ask_query(title, release.schema, release.plan.workload)
    except NoiseplanError:
        return None


def _answer(release: Release, query: Query, title: str) -> Answer:
    whole = release.answer(query)
    parts = whole.by_level() if query.levelled else [whole]
    return next(part for part in parts if part.query.name == title)


def _difference(path: Path, answer: Answer) -> str:
    """Where a file differs from the answer first, in words; empty where it does not."""
    numbers = answer.numbers()
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = [str(cell(name)) for name in (*answer.axes(), *numbers)]
        if next(rows, None) != header:
            return f" has other columns than {', '.join(header)}"
        start = 0
        for batch, labels in _batches(rows, _labels(answer)):
            said = _in_batch(batch, labels, start, numbers)
            if said:
                return said
            start += len(batch)
    return ""


def _batches(
    rows: Iterator[list[str]], labels: Iterator[tuple[str, ...]]
) -> Iterator[tuple[list[list[str]], list[tuple[str, ...]]]]:
    """Rows of a file and labels of the answer side by side, as many at a time."""
    both = zip_longest(rows, labels, fillvalue=())
    while batch := list(islice(both, BATCH)):
        yield [list(row) for row, _ in batch], [tuple(label) for _, label in batch]


def _labels(answer: Answer) -> Iterator[tuple[str, ...]]:
    """The labels of every row, as a file has them."""
    axes = [[str(cell(label)) for label in labels] for labels in answer.axes().values()]
    return product(*axes)


def _in_batch(
    rows: list[list[str]],
    labels: list[tuple[str, ...]],
    start: int,
    numbers: dict[str, Array],
) -> str:
    wide = len(labels[0])
    for place, (row, label) in enumerate(zip(rows, labels, strict=True), start):
        if tuple(row[:wide]) != label or len(row) != wide + len(numbers):
            return f", row {place + 1:,}, is not of {', '.join(label) or 'the total'}"
    slack = _slack(numbers)
    for column, (called, values) in enumerate(numbers.items(), wide):
        expected = values[start : start + len(rows)]
        shown = _as_numbers([row[column] for row in rows])
        near = np.isclose(shown, expected, rtol=OF_NUMBER, atol=slack, equal_nan=True)
        if not near.all():
            at = int(np.argmin(near))
            return (
                f", row {start + at + 1:,} ({', '.join(labels[at]) or 'total'}), has {called} "
                f"{rows[at][column]}, and the measurements give {expected[at]:.10g}"
            )
    return ""


def _slack(numbers: dict[str, Array]) -> float:
    """What six digits of the smallest error leave open."""
    errors = np.concatenate([numbers[name] for name in ERRORS if name in numbers])
    told = errors[(errors > 0) & np.isfinite(errors)]
    return OF_ERROR * float(told.min()) if told.size else 0.0


def _as_numbers(texts: list[str]) -> Array:
    """Numbers of a file; a text that is none is infinitely far from any."""
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        return np.array([_number(text) for text in texts])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.inf
