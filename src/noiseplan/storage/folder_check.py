"""A saved release checked as a whole: every file, what it cost, and whether it is private."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.escaping import cell
from noiseplan.matrices.base import Array
from noiseplan.paths import checked_path
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Guarantee
from noiseplan.queries import Query
from noiseplan.queries.questions import ask_query
from noiseplan.release.answers import Answer, renamed
from noiseplan.release.release import Release
from noiseplan.storage.certificate import UNIT, promised_json
from noiseplan.storage.files import file_hash, read_json
from noiseplan.storage.folder import CERTIFICATE, SUMS, load, stated_hashes
from noiseplan.storage.plans import COMBINED, GIVEN
from noiseplan.storage.table_files import BATCH, ERRORS, table_files, table_titles
from noiseplan.texts import listed

# Conversions end in other last digits on other machines.
ROUNDING: Final = 1e-6

# Of the smallest error of a table, by which its CSV file may differ: it has six digits of it.
# Of a number, which may be computed in another order of sums on another machine.
OF_ERROR, OF_NUMBER = 1e-5, 1e-9


@dataclass(frozen=True)
class CheckedFolder:
    """A release that is whole: how many files have their hashes, which are beside them, its cost.

    `cost` is recomputed from what was measured; None where it was measured elsewhere. `tables` are
    the numbers of CSV files, each compared with what the measurements give.
    """

    release: Release
    files: int
    beside: tuple[str, ...]
    cost: Guarantee | None
    tables: ComparedTables

    @property
    def private(self) -> bool:
        """Whether the noise protects what it was added to, as far as is known here."""
        return self.release.provenance.private


def check_folder(folder: str | os.PathLike[str]) -> CheckedFolder:
    """Check every file of a saved release against its hash, and its promise against its plan.

    Every number of its CSV files is computed anew from the measurements. Raises `StorageError`,
    with the files at fault, for a folder that is incomplete, damaged or edited, for a table that
    the measurements do not give, and for a certificate that promises something else than its plan.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5})
    >>> plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     plan.release({"age": [0, 1, 1]}).save(f"{parent}/out")
    ...     checked = check_folder(f"{parent}/out")
    >>> checked.files, checked.private, checked.cost.rho <= 0.5
    (8, True, True)
    """
    source = checked_path(folder, StorageError)
    release = load(source)  # refuses a plan that promises more than its mechanism costs
    stated = stated_hashes(source)
    damaged = [name for name, digest in stated.items() if _hash(source, name) != digest]
    if damaged:
        raise StorageError(
            f"saved release {str(folder)!r}: {listed(damaged)} damaged, changed or missing, by the "
            f"hashes in {SUMS}; copy the folder again from its source"
        )
    _require_stated(release, read_json(source / CERTIFICATE), str(folder))
    found = (path for path in sorted(source.rglob("*")) if path.is_file())
    names = [path.relative_to(source).as_posix() for path in found]
    beside = tuple(name for name in names if name not in stated and name != SUMS)
    tables = compare_tables(source, release)
    return CheckedFolder(release, len(stated), beside, _recomputed(release.plan), tables)


def _hash(folder: Path, name: str) -> str:
    """The hash of a file that lies inside the folder; none of any other."""
    path = folder / name
    inside = path.resolve().is_relative_to(folder.resolve())
    return file_hash(path) if inside and path.is_file() else ""


def _recomputed(plan: Plan) -> Guarantee | None:
    """What was measured costs this, by the mechanism alone, whatever was stated."""
    if plan.noise == GIVEN:
        return None
    combined = plan.noise == COMBINED and plan.privacy.law == "zcdp"
    mechanism = plan.mechanism.as_stated() if combined else plan.mechanism
    return mechanism.cost(plan.privacy.neighbours, plan.max_rows)


PROMISED: Final = (
    "decided", "unit", "neighbours", "known", "rho", "mu", "pure_epsilon", "epsilon", "curve"
)  # fmt: skip


def _require_stated(release: Release, content: Mapping[str, Any], folder: str) -> None:
    """Refuse a certificate whose promise is not that of the plan."""
    plan = release.plan
    expected = promised_json(plan, release.choice is not None)
    stated = content["privacy"]
    if plan.max_rows == 1 and release.choice is None and stated.get("unit") == UNIT:
        expected["unit"] = UNIT  # as earlier versions said of counts, and less than is promised
    # Also what the plan does not promise: a figure that was added is a promise, too.
    added = [name for name in stated if name not in expected]
    for name in (*PROMISED, *added):
        if not _same(stated.get(name), expected.get(name)):
            raise StorageError(
                f"saved release {folder!r}: {CERTIFICATE} states {name} = {stated.get(name)!r}, "
                f"and its plan has {expected.get(name)!r}; copy the folder again from its source"
            )


def _same(stated: object, expected: object) -> bool:
    """Whether two figures, or lists of them, are the same but for the rounding."""
    if isinstance(stated, list) and isinstance(expected, list):
        pairs = zip(stated, expected, strict=False)
        return len(stated) == len(expected) and all(_same(a, b) for a, b in pairs)
    if isinstance(stated, dict) and isinstance(expected, dict):
        return stated.keys() == expected.keys() and all(
            _same(stated[name], expected[name]) for name in expected
        )
    if isinstance(stated, float) and isinstance(expected, float):
        return math.isclose(stated, expected, rel_tol=ROUNDING)
    return stated == expected


# ---------------------------------------------------------------------- tables compared
#
# Published CSV files compared with what the saved measurements give, number by number.
#
# A hash that was written anew says nothing of an edited table; the measurements do. Every number of
# a CSV file must be the answer of the release, to the digits that such files have.


@dataclass(frozen=True)
class ComparedTables:
    """How many numbers of CSV files are as computed, and the files whose question is not known."""

    numbers: int
    unknown: tuple[str, ...]


def compare_tables(folder: Path, release: Release) -> ComparedTables:
    """Compare every number of the CSV files; `StorageError` names the first that differs.

    Files that the index does not list, or under a name that asks for nothing known, are not known.
    """
    listed = table_files(folder)
    titled, numbers, compared = _titled(release) if listed else {}, 0, set()
    for each in listed:
        name, title = _plain(each["file"], folder), each["query"]
        queries = titled.get(title) or _in_words(title, release)
        answers = [answer for query in queries for answer in _answers(release, query, title)]
        found = [_difference(folder / name, answer) for answer in answers]
        differences = [each for each in found if each is not None]
        if len(differences) < len(found):  # one of these queries is what the file is of
            numbers += sum(map(len, answers[found.index(None)].numbers().values()))
            compared.add(name)
        elif differences and (title in titled or not differences[0].of_labels):
            raise StorageError(
                f"saved release {str(folder)!r}: {name}{differences[0].text}; the file was "
                f"changed, and its hash with it, or another query was saved under the name of this "
                f"one. Copy the folder again from its source"
            )
    files = sorted(f"tables/{path.name}" for path in (folder / "tables").glob("*.csv"))
    unknown = (name for name in files if name not in compared and name != "tables/index.csv")
    return ComparedTables(numbers, tuple(unknown))


def _plain(file: str, folder: Path) -> str:
    """The name of a table's file, which leads nowhere else and is there."""
    name = f"tables/{file}.csv"
    if Path(name).name != f"{file}.csv" or not (folder / name).is_file():
        raise StorageError(
            f"saved release {str(folder)!r}: its index lists {file!r}, which is no table of it. "
            f"Copy the folder again from its source"
        )
    return name


def _titled(release: Release) -> dict[str, list[Query]]:
    """The queries of the workload by what their tables are called; several may share a name."""
    found: dict[str, list[Query]] = {}
    for query in release.plan.workload:
        for title in table_titles([query]):
            found.setdefault(title, []).append(query)
    return found


def _in_words(title: str, release: Release) -> list[Query]:
    """The query that a title asks in words, where it is no table of the workload."""
    try:
        return [ask_query(title, release.schema, release.plan.workload)]
    except NoiseplanError:
        return []


def _answers(release: Release, query: Query, title: str) -> list[Answer]:
    """The table of this name that a query gives, if it does."""
    whole = release.answer(query)
    parts = whole.by_level() if query.levelled else [whole]
    return [part for part in parts if part.query.name == title]


class Difference(NamedTuple):
    """Where a file differs from an answer, in words; in what its rows are of, or in a number."""

    text: str
    of_labels: bool = False


def _difference(path: Path, answer: Answer) -> Difference | None:
    """Where a file differs from the answer first."""
    numbers = answer.numbers()
    slack = _slack(numbers)
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = [str(cell(name)) for name in (*answer.axes(), *numbers)]
        # Files from before levels were told apart have the attribute above groups of a level.
        earlier = [str(cell(name)) for name in (*renamed(answer.query.factors), *numbers)]
        if next(rows, None) not in (header, earlier):
            return Difference(f" has other columns than {', '.join(header)}", of_labels=True)
        start = 0
        for batch, labels in _batches(rows, _labels(answer)):
            here = {name: values[start : start + len(batch)] for name, values in numbers.items()}
            said = _of_other_cells(batch, labels, start, len(numbers)) or _other_numbers(
                batch, labels, start, here, slack
            )
            if said is not None:
                return said
            start += len(batch)
    return None


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


def _of_other_cells(
    rows: list[list[str]], labels: list[tuple[str, ...]], start: int, columns: int
) -> Difference | None:
    wide = len(labels[0])
    for place, (row, label) in enumerate(zip(rows, labels, strict=True), start):
        if tuple(row[:wide]) != label or len(row) != wide + columns:
            of = ", ".join(label) or "the total"
            return Difference(f", row {place + 1:,}, is not of {of}", of_labels=True)
    return None


def _other_numbers(
    rows: list[list[str]],
    labels: list[tuple[str, ...]],
    start: int,
    numbers: dict[str, Array],
    slack: float,
) -> Difference | None:
    for column, (called, expected) in enumerate(numbers.items(), len(labels[0])):
        shown = _as_numbers([row[column] for row in rows])
        near = np.isclose(shown, expected, rtol=OF_NUMBER, atol=slack, equal_nan=True)
        if not near.all():
            at = int(np.argmin(near))
            return Difference(
                f", row {start + at + 1:,} ({', '.join(labels[at]) or 'total'}), has {called} "
                f"{rows[at][column]}, and the measurements give {expected[at]:.10g}"
            )
    return None


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
