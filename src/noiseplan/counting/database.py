"""Files and DuckDB relations: values become codes inside the engine, only codes come out."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, TypeGuard

from noiseplan.counting.arrow import code_batches
from noiseplan.counting.codes import SEARCHED, Refusals, check_columns
from noiseplan.counting.expressions import Column, literal, quoted
from noiseplan.counting.headers import Header, read_header
from noiseplan.counting.people import People
from noiseplan.counting.streams import Block, Stream
from noiseplan.counting.telling import UNREADABLE, cause, details_are_shown, refused
from noiseplan.errors import DataError
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_TEXT: Final = (".csv", ".tsv", ".txt")
_PARQUET: Final = (".parquet", ".pq")
_PACKED: Final = (".gz", ".zst")
_NOBODY: Final = 2
_FLOATS: Final = ("FLOAT", "DOUBLE")


def stream_from_file(
    path: str | os.PathLike[str], schema: Schema, people: People | None = None
) -> Stream:
    """Open CSV (with a header line) or Parquet; globs are allowed.

    A name that is a file is that file, whatever signs it has; nothing is fetched from elsewhere.
    CSV is read as text, so that a code such as ``007`` keeps its zeros, and each text is then
    taken for the label it spells.
    """
    name = os.fspath(path)
    if "://" in name:
        raise DataError(
            f"{name!r} is an address, and only files here are read: download it first, or open it "
            f"with another library and pass the frame"
        )
    if Path(name).is_file():
        name = glob.escape(name)
    spelled = _suffix(name) not in _PARQUET
    wanted = [*schema.names, *([people.column] if people is not None else [])]
    header = read_header(name, wanted) if spelled else None

    def read(connection: DuckDBPyConnection) -> DuckDBPyRelation:
        if spelled:
            return _read_text(connection, name, header)
        return connection.read_parquet(name, union_by_name=True)

    def blocks() -> Iterator[Block]:
        with _connection() as connection, _refusals(name):
            yield from _blocks(lambda: read(connection), schema, people, spelled, name)

    with _connection() as connection, _refusals(name):
        _check_columns(read(connection), schema, people, spelled)
    return Stream(schema, blocks, max_rows=People.most(people))


def is_relation(data: object) -> TypeGuard[DuckDBPyRelation]:
    """Tell whether data are a DuckDB relation, without importing DuckDB for data that are not."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation)


def stream_from_relation(
    relation: DuckDBPyRelation, schema: Schema, people: People | None = None
) -> Stream:
    """Open a relation; it is run on its own connection."""

    def blocks() -> Iterator[Block]:
        with _refusals("the relation"):
            yield from _blocks(lambda: relation, schema, people, False, "the relation")

    with _refusals("the relation"):
        _check_columns(relation, schema, people)
    return Stream(schema, blocks, max_rows=People.most(people))


@contextmanager
def _connection() -> Iterator[DuckDBPyConnection]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")  # it would write to standard output
        yield connection


@contextmanager
def _refusals(source: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        # DuckDB's advice is about its own options, and its quotations are records.
        reason = str(error).split("Possible ")[0].strip()
        if isinstance(error, duckdb.IOException) and "No files found" in reason:
            raise DataError(f"cannot read {source}: {reason}") from error
        raise refused(
            UNREADABLE,
            f"cannot read {source}: a record or the file is not as it should be.",
            f"cannot read {source}: {reason}",
        ) from cause(error)


def _suffix(name: str) -> str:
    if PurePath(name).suffix == "" and Path(name).is_dir():
        raise DataError(
            f"{name!r} is a folder; name the files in it: {str(PurePath(name, '*.parquet'))!r}."
        )
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in (*_TEXT, *_PARQUET):
        raise DataError(
            f"cannot tell the format of {name!r}; files end in {', '.join((*_TEXT, *_PARQUET))} "
            f"(text also with .gz or .zst). Other files: duckdb.sql(\"FROM '…'\") and pass that."
        )
    return suffixes[-1]


def _read_text(
    connection: DuckDBPyConnection, name: str, header: Header | None
) -> DuckDBPyRelation:
    """Open CSV as text, leaving the engine to guess nothing that changes a record.

    Its guesses may drop rows (taken for comments or preamble) or fail on a late quote. The files of
    a glob may have their columns in different orders, so they are matched by name.
    """
    options = "header = true, skip = 0, comment = '', quote = '\"', escape = '\"'"
    if header is not None:
        options += f", delim = {literal(header.mark)}"
    if header is not None and header.fields is not None:
        # Nothing is left to be guessed, so that a broken line is found where it is.
        columns = ", ".join(f"{literal(field)}: 'VARCHAR'" for field in header.fields)
        options += f", auto_detect = false, columns = {{{columns}}}"
    else:
        options += ", all_varchar = true, union_by_name = true"
    return connection.sql(f"FROM read_csv({literal(name)}, {options})")


def _check_columns(
    relation: DuckDBPyRelation, schema: Schema, people: People | None, spelled: bool = False
) -> None:
    if spelled and not set(schema.names) & set(relation.columns):
        raise refused(
            UNREADABLE,
            f"the first line of the file names none of the columns "
            f"{', '.join(map(repr, schema.names))}; it must be a header.",
            f"the first line of the file names none of the columns "
            f"{', '.join(map(repr, schema.names))}; it must be a header. It reads "
            f"{', '.join(map(repr, relation.columns))}.",
        )
    check_columns(schema, relation.columns)
    if people is not None:
        people.check_column(relation.columns)


def _blocks(
    read: Callable[[], DuckDBPyRelation],
    schema: Schema,
    people: People | None,
    spelled: bool,
    source: str,
) -> Iterator[Block]:
    """Stream the codes; values without one are counted to the end, and then looked up."""
    relation = read()
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    columns = [Column(name, schema[name], types[name], spelled) for name in schema.names]
    codes = [f"{column.codes()} AS c{n}" for n, column in enumerate(columns)]
    coded = relation.project(", ".join(codes))
    if people is not None:
        person = _person(people, types[people.column])
        coded = _with_choice(relation.project(", ".join([*codes, person])), people)
    refusals, nobody = Refusals(schema), 0
    with closing(code_batches(coded, source)) as batches:
        for block in batches:
            refusals.rows += len(block[0])
            for column, found in zip(columns, block, strict=False):
                # The largest code is found faster than the places of one.
                if column.refused is not None and found.max(initial=0) == column.refused:
                    refusals.note(column.name, int((found == column.refused).sum()))
            if people is not None:
                choice = block.pop()
                nobody += int((choice == _NOBODY).sum())
                block = [found[choice == 1] for found in block]
            if not refusals:
                yield block
    for column in columns if details_are_shown() else ():
        if column.name in refusals.unexplained:
            without_code = read().filter(f"{column.codes()} = {column.refused}")
            rows = without_code.project(column.quoted).limit(SEARCHED).fetchall()
            refusals.note(column.name, 0, [value for (value,) in rows])
    refusals.raise_any()
    if people is not None:
        people.refuse_nobody(nobody, refusals.rows)


def _person(people: People, kind: str) -> str:
    """The person as a text; 0 and -0 are one person, who would have two caps otherwise."""
    value = quoted(people.column)
    return f"CAST({f'{value} + 0' if kind in _FLOATS else value} AS VARCHAR) AS person"


def _with_choice(coded: DuckDBPyRelation, people: People) -> DuckDBPyRelation:
    """Add whether each record is among those chosen of its person.

    Every record draws a number, the digest of a secret key and of the record: its person, its
    codes, and its place among equal records of that person, which are interchangeable. So all
    records draw differently, and yet every pass over the data, in whatever order they come, chooses
    the same ones.
    """
    codes = [f"c{n}" for n in range(len(coded.columns) - 1)]
    record = " || ',' || ".join([*codes, "place", "person"])
    place = f"row_number() OVER (PARTITION BY person, {', '.join(codes)})"
    draw = f"sha256('{people.key.hex()},' || {record})"
    rank = f"row_number() OVER (PARTITION BY person ORDER BY {draw})"
    # Not a number is nobody either: all who have none would share one cap.
    nobody = "person IS NULL OR lower(CAST(person AS VARCHAR)) IN ('nan', '-nan')"
    choice = f"CASE WHEN {nobody} THEN {_NOBODY} WHEN {rank} <= {people.cap} THEN 1 ELSE 0 END"
    placed = coded.project(f"*, {place} AS place")
    return placed.project(f"{', '.join(codes)}, CAST({choice} AS UTINYINT) AS choice")
