"""Files and DuckDB relations: values become codes inside the engine, only codes come out."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.arrow import code_batches
from noiseplan.counting.encode import SEARCHED, Refusals, check_columns, folded
from noiseplan.counting.expressions import Column, literal, quoted, written_as_usual
from noiseplan.counting.person_cap import PersonCap, Sieve
from noiseplan.counting.persons import check_kind, with_person
from noiseplan.counting.records import Block, Stream
from noiseplan.counting.refusals import UNREADABLE, cause, refused
from noiseplan.counting.text_files import Header, TextFile, read_header
from noiseplan.engine import engine
from noiseplan.errors import DataError, remedy
from noiseplan.paths import checked_path, near_files
from noiseplan.schema import Schema
from noiseplan.schema.spelling import AS_USUAL, Spelling

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_TEXT: Final = (".csv", ".tsv", ".txt")
_PARQUET: Final = (".parquet", ".pq")
_PACKED: Final = (".gz", ".zst")
_FAULT_OF_TEXT: Final = (
    "a line or the file is not as its header says; look for lines with too many or too few fields, "
    "and for quotes that are not closed"
)


def stream_from_file(
    path: str | os.PathLike[str] | TextFile, schema: Schema, people: PersonCap | None
) -> Stream:
    """Open CSV (with a header line) or Parquet; globs are allowed.

    A name that is a file is that file, whatever signs it has; nothing is fetched from elsewhere.
    CSV is read as text, so that a code such as ``007`` keeps its zeros, and each text is then
    taken for the label it spells.
    """
    spelling = path.spelling if isinstance(path, TextFile) else AS_USUAL
    name = path.path if isinstance(path, TextFile) else os.fspath(path)
    if "://" in name:
        shown = f"{name.partition('://')[0]}://…"  # the rest may hold a password
        raise DataError(
            f"{shown!r} is an address, and only files here are read: download it first, or open it "
            f"with another library and pass the frame; "
            + remedy("name database", "a database is passed as an Ibis table")
        )
    if checked_path(name, DataError).is_file():
        name = glob.escape(name)
    spelled = is_text_file(name)
    if isinstance(path, TextFile) and not spelled:
        raise DataError(
            f"{name!r} is Parquet, which has numbers and missing values of its own: pass the path "
            f"alone, without TextFile"
        )
    spelling.require_unambiguous(schema)
    wanted = [*schema.names, *([people.column] if people is not None else [])]
    header = read_header(name, wanted) if spelled else None

    @contextmanager
    def opened() -> Iterator[DuckDBPyRelation]:
        with engine() as connection, _refusals(name):
            if spelled:
                yield _read_text(connection, name, header)
            else:
                yield connection.read_parquet(name, union_by_name=True)

    return _stream(opened, name, schema, people, spelling if spelled else None)


def is_text_file(name: str) -> bool:
    """Whether a path ends as text files do; refuses those that end in nothing known."""
    return _suffix(name) not in _PARQUET


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path or a pattern stands for, as the engine finds them."""
    found = checked_path(path, DataError)
    if found.is_file():
        return [found]
    with engine() as connection, _refusals(str(path)):
        names = connection.execute("SELECT file FROM glob(?)", [os.fspath(path)]).fetchall()
    return [Path(name) for (name,) in names]


def stream_from_relation(
    relation: DuckDBPyRelation, schema: Schema, people: PersonCap | None
) -> Stream:
    """Open a relation; it is run on its own connection."""

    @contextmanager
    def opened() -> Iterator[DuckDBPyRelation]:
        with _refusals("the relation", "DuckDB found a fault in a value, or in the query"):
            yield relation

    return _stream(opened, "the relation", schema, people)


def _stream(
    opened: Callable[[], AbstractContextManager[DuckDBPyRelation]],
    source: str,
    schema: Schema,
    people: PersonCap | None,
    spelling: Spelling | None = None,
) -> Stream:
    """A relation that is opened for every pass, its columns checked now.

    Of text, `spelling` says how it writes values.
    """

    def blocks() -> Iterator[Block]:
        with opened() as relation:
            yield from _blocks(relation, source, schema, people, spelling)

    with opened() as relation:
        _check_columns(relation, schema, people, spelling is not None)
    return Stream(schema, blocks)


@contextmanager
def _refusals(source: str, fault: str = _FAULT_OF_TEXT) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        # DuckDB's advice is about its own options, and its quotations are records.
        reason = str(error).split("Possible ")[0].strip()
        if isinstance(error, duckdb.IOException) and "No files found" in reason:
            meant = near_files(Path(source))
            raise DataError(f"cannot read {source}: no such file is there{meant}") from None
        raise refused(
            UNREADABLE,
            f"cannot read {source}: {fault}.",
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
            f"(text also with .gz or .zst). "
            + remedy("other files", "Other files: duckdb.sql(\"FROM '…'\") and pass that.")
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
    relation: DuckDBPyRelation, schema: Schema, people: PersonCap | None, spelled: bool
) -> None:
    if spelled and not set(map(folded, schema.names)) & set(map(folded, relation.columns)):
        named, found = (", ".join(map(repr, some)) for some in (schema.names, relation.columns))
        said = f"the first line of the file names none of the columns {named}; it must be a header."
        raise refused(UNREADABLE, said, f"{said} It reads {found}.")
    check_columns(schema, relation.columns, people, maybe_records=spelled)
    if people is not None:
        check_kind(people.column, _types(relation)[people.column])


def _types(relation: DuckDBPyRelation) -> dict[str, str]:
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _blocks(
    relation: DuckDBPyRelation,
    source: str,
    schema: Schema,
    people: PersonCap | None,
    spelling: Spelling | None,
) -> Iterator[Block]:
    """Stream the codes; values without one are counted to the end, and then looked up."""
    types = _types(relation)
    how = (spelling is not None, spelling or AS_USUAL)
    columns = [Column(name, schema[name], types[name], *how) for name in schema.names]
    codes = [column.codes() for column in columns]
    if people is None:
        coded = relation.project(", ".join(f"{code} AS c{n}" for n, code in enumerate(codes)))
    else:
        person = _as_declared(quoted(people.column), spelling or AS_USUAL)
        coded = people.with_choice(with_person(relation, codes, person, types[people.column]))
    refusals, sieve = Refusals(schema), Sieve()
    with closing(code_batches(coded, source)) as batches:
        for block in batches:
            refusals.rows += len(block[0])
            for column, found in zip(columns, block, strict=False):
                # The largest code is found faster than the places of one.
                if column.refused is not None and found.max(initial=0) == column.refused:
                    refusals.note(column.name, int((found == column.refused).sum()))
            if people is not None:
                block = sieve.chosen(block[:-1], block[-1])
            if not refusals:
                yield block

    def look(name: str) -> list[object]:
        column = columns[schema.names.index(name)]
        without_code = relation.filter(f"{column.codes()} = {column.refused}")
        rows = without_code.project(column.quoted).limit(SEARCHED).fetchall()
        return [value for (value,) in rows]

    refusals.raise_any(look)
    if people is not None:
        sieve.refuse(people)


def _as_declared(person: str, spelling: Spelling) -> str:
    """The column of persons as most programs write it: null where declared as missing."""
    text = f"trim({person})"
    if not spelling.plain:
        person = f"coalesce({written_as_usual(text, spelling)}, {person})"
    if spelling.missing:
        gone = ", ".join(map(literal, spelling.missing))
        person = f"CASE WHEN {text} IN ({gone}) THEN NULL ELSE {person} END"
    return person


# ---------------------------------------------------------------------- records in arrays


def chosen_among(
    columns: Sequence[NDArray[np.unsignedinteger]], persons: NDArray[Any], people: PersonCap
) -> list[NDArray[np.unsignedinteger]]:
    """The records of arrays that are counted: chosen here, exactly as those of a file are.

    Parameters
    ----------
    columns
        The codes of each attribute.
    persons
        Whose record each is, as :func:`~noiseplan.counting.persons.array_of_persons` returns it.
    """
    Sieve(nobody=_nobody(persons), rows=len(persons)).refuse(people)
    sieve = Sieve()
    kept = [[codes[:0]] for codes in columns]
    if len(persons):
        with _of_arrays(columns, persons) as coded:
            choice = people.with_choice(coded)
            with closing(code_batches(choice, "the records")) as batches:
                for block in batches:
                    chosen = sieve.chosen(block[:-1], block[-1])
                    for part, codes in zip(kept, chosen, strict=True):
                        part.append(codes)
    sieve.refuse(people)
    return [np.concatenate(part) for part in kept]


def canonical_persons(persons: NDArray[Any]) -> list[str | None]:
    """The persons of an array by their one spelling: None is nobody, empty a rounded number."""
    known = np.flatnonzero([person is not None for person in persons.tolist()])
    found: list[str | None] = [None] * len(persons)
    if len(known):
        with _of_arrays([known], persons[known]) as placed:
            for place, person in placed.fetchall():
                found[place] = person
    return found


@contextmanager
def _of_arrays(
    columns: Sequence[NDArray[Any]], persons: NDArray[Any]
) -> Iterator[DuckDBPyRelation]:
    """Arrays as a relation, read where they are: c0, c1, … and `person`."""
    arrays = {f"c{n}": np.ascontiguousarray(column) for n, column in enumerate(columns)}
    with engine() as connection, _refusals("the records"):
        connection.register("records", arrays | {"person": persons})
        relation = connection.sql("FROM records")
        yield with_person(relation, list(arrays), "person", _types(relation)["person"])


def _nobody(persons: NDArray[Any]) -> int:
    if persons.dtype.kind != "O":
        return 0
    return sum(person is None for person in persons.tolist())
