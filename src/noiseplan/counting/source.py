"""One door for data: files, frames, databases, Spark, arrays or counts, opened for counting."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.database import chosen_among, stream_from_file, stream_from_relation
from noiseplan.counting.encode import Encoded, Refusals, check_columns, encode_block
from noiseplan.counting.frames import source_from_batches, source_from_frame
from noiseplan.counting.ibis_tables import source_from_ibis
from noiseplan.counting.named_tables import NamedTable
from noiseplan.counting.person_cap import ChosenRecords, PersonCap
from noiseplan.counting.persons import array_of_persons
from noiseplan.counting.projectable import Countable, Projectable
from noiseplan.counting.records import Records
from noiseplan.counting.refusals import UNCOUNTABLE, UNREADABLE, cause, reading, refused
from noiseplan.counting.spark import SparkSource
from noiseplan.counting.tensor import CountTensor
from noiseplan.counting.text_files import TextFile
from noiseplan.errors import DataError
from noiseplan.schema import Schema

_ACCEPTED = (
    "a path to CSV or Parquet, a pandas, Polars or PyArrow frame, a DuckDB relation, an Ibis "
    "table, a Spark DataFrame, a mapping from names to arrays, a NumPy structured array, a 2-D "
    "integer array of codes, counts of shape schema.shape or flat, or CountTensor(schema, counts)"
)


def open_source(
    data: object,
    schema: Schema,
    *,
    person: str | None = None,
    cap: int = 1,
    key: bytes | None = None,
    details: bool = False,
) -> Projectable:
    """Open data for counting, and check every value against the schema.

    Parameters
    ----------
    data
        One of:

        - a path (``str`` or ``Path``, globs too) to CSV with a header line, or to Parquet; a
          :class:`TextFile` where missing values or numbers are written in other ways;
        - a pandas, Polars (eager or lazy) or PyArrow frame, or another that narwhals knows; a
          PyArrow reader or dataset;
        - a DuckDB relation, an Ibis table of any database, or a Spark DataFrame;
        - a mapping from names to 1-D arrays, or a NumPy structured array;
        - a 2-D integer array of *codes*, a row per record and a column per attribute;
        - an array of *counts* of shape ``schema.shape``, or flat with one count per cell. An array
          that may be either, of shape ``(n, 2)`` for attributes of n and 2 values, is refused: wrap
          counts as ``CountTensor(schema, counts)``, and records in a mapping or a frame;
        - a :class:`Projectable` with the same schema, which is returned as it is.
    schema
        The attributes to count; further columns of the data are not read.
    person
        The column that says whose record it is; :mod:`noiseplan.counting.persons` says which
        spellings are one person. Without it, every record is taken to be a person's only one.
    cap
        The most records of one person that are counted; of a person with more, so many are chosen
        at random. The price of a release must be that of `cap` records
        (:func:`noiseplan.privacy.people.person_cost`).
    key
        What the choice among a person's records is derived from, for simulations of public data;
        256 bits from the operating system unless given.
    details
        Let refusals show private details: how many rows do not fit, and some of their values. They
        are for a custodian who may see the records, and never for publication; by default a
        refusal names the column and what to do.

    Raises
    ------
    DataError
        When columns are missing, values were not declared, or the kind of data is not known. Files,
        databases and lazy frames are checked as they are counted, by :func:`count_tables` before
        anything is spent.

    Privacy
    -------
    What is returned is confidential, and so is a refusal with `details`. Without them it still says
    that some record does not fit, which is why a ledger keeps such refusals. Nothing is spent by
    opening.

    Examples
    --------
    >>> schema = Schema.from_sizes({"a": 2, "b": 3})
    >>> source = open_source({"a": [0, 1, 1], "b": [2, 0, 0]}, schema)
    >>> source.marginals(np.array([[0], ])).tolist()
    [[1, 2]]
    """
    people = None
    if person is not None or type(cap) is not int or cap != 1:
        people = PersonCap.declared(person, cap, key)
    with reading(details):
        source = _opened(data, schema, people)
    if isinstance(source, Countable):
        source.details = source.details or bool(details)
        if people is not None:
            source.max_rows, source.choice = people.cap, ChosenRecords.by(people)
    return source


def _opened(data: object, schema: Schema, people: PersonCap | None) -> Projectable:
    # Asked of the class first: on a lazy frame even looking for an attribute may run a query.
    if hasattr(type(data), "marginals") and isinstance(data, Projectable):
        _refuse_people(people, "data that are open already")
        return _with_schema(data, schema)
    if isinstance(data, str | os.PathLike | TextFile):
        return stream_from_file(data, schema, people)
    if isinstance(data, NamedTable):
        return _opened(_table_of(data, schema, people), schema, people)
    if isinstance(data, np.ndarray):
        return _from_array(data, schema, people)
    if isinstance(data, Mapping):
        return _from_mapping(data, schema, people)
    native: Any = data
    match _engine_of(data):
        case "duckdb":
            return stream_from_relation(native, schema, people)
        case "ibis":
            return source_from_ibis(native, schema, people)
        case "spark":
            return SparkSource(native, schema, people)
    source = source_from_batches(data, schema, people) or source_from_frame(data, schema, people)
    if source is None:
        raise DataError(f"cannot count a {type(data).__qualname__}; pass {_ACCEPTED}.")
    return source


def _table_of(data: NamedTable, schema: Schema, people: PersonCap | None) -> Any:
    """The table of a database; the columns of a query, which may be values, are a detail."""
    table = data.opened
    if data.query is None:
        return table
    try:
        check_columns(schema, table.columns, people)
    except DataError as error:
        wanted = [*schema.names, *([people.column] if people is not None else [])]
        lacking = ", ".join(repr(name) for name in wanted if name not in table.columns)
        said = f"the query does not return {lacking}; name each column as it is declared: AS name."
        raise refused(UNREADABLE, said, error.message) from cause(error)
    return table


def _engine_of(data: object) -> str:
    """The engine whose table data are, found without importing it for data that are not."""
    duckdb: Any = sys.modules.get("duckdb")
    ibis: Any = sys.modules.get("ibis")
    if duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation):
        return "duckdb"
    if ibis is not None and isinstance(data, ibis.expr.types.Table):
        return "ibis"
    kind = type(data)  # classic or Connect
    spark = kind.__module__.startswith("pyspark.sql") and hasattr(kind, "mapInArrow")
    return "spark" if spark else ""


def _with_schema(data: Projectable, schema: Schema) -> Projectable:
    if data.schema != schema:
        raise DataError(
            f"the data were opened with another schema, {data.schema!r}, not with {schema!r}; "
            f"open them again: open_source(data, schema)."
        )
    return data


def _refuse_people(people: PersonCap | None, what: str) -> None:
    if people is not None:
        raise DataError(
            f"{what} do not say whose each record is, so person={people.column!r} cannot be "
            f"followed; pass the records with that column, or bound them beforehand."
        )


def _from_mapping(data: Mapping[Any, Any], schema: Schema, people: PersonCap | None) -> Records:
    names = check_columns(schema, data, people)
    arrays = {name: _as_column(name, data[name]) for name in names}
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        said = "the columns must have one length"
        raise refused(UNCOUNTABLE, f"{said}.", f"{said}, got {lengths}.")
    encoded = {name: Encoded.of(schema[name], arrays[name]) for name in schema.names}
    refusals = Refusals(schema)
    columns = encode_block(schema, encoded, refusals)
    refusals.raise_any()
    if people is not None:
        persons = array_of_persons(arrays[people.column], people.column)
        columns = chosen_among(columns, persons, people)
    return Records(schema, columns)


def _as_column(name: str, values: Any) -> NDArray[Any]:
    if not isinstance(values, np.ndarray):
        values = _as_array(values)
    if values.ndim != 1:
        raise DataError(
            f"column {name!r}: must be a 1-D array of values, got {values.ndim} dimensions; "
            f"try {{{name!r}: [value, value, …]}}."
        )
    return np.ma.asarray(values) if np.ma.isMaskedArray(values) else np.asarray(values)


def _as_array(values: Any) -> Any:
    if hasattr(values, "to_pylist"):  # PyArrow, whose own arrays lose the nulls of dictionaries
        values = values.to_pylist()
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return np.array(values, dtype=object)
    # As objects, one by one: NumPy would turn [1, "a"] into two strings, [[1], [2]] into a table.
    return np.fromiter(values, dtype=object)


def _from_array(data: NDArray[Any], schema: Schema, people: PersonCap | None) -> Projectable:
    if data.dtype.names is not None:
        return _from_mapping({name: data[name] for name in data.dtype.names}, schema, people)
    _refuse_people(people, "arrays of codes and of counts")
    if data.shape == schema.shape == (data.shape[0], len(schema)):
        raise refused(  # its shape is the schema's: that it is tells how many records there are
            UNCOUNTABLE,
            f"an array of shape {data.shape} may hold {len(data)} records of {len(schema)} codes, "
            f"or the counts of all {schema.shape} cells; say which: CountTensor(schema, counts) "
            f"for counts, {_as_records(schema)} for records.",
        )
    if data.ndim == 2 and data.shape[1] == len(schema) and data.dtype.kind in "iu":
        return Records(schema, list(data.T))
    if data.shape in (schema.shape, (schema.size,)) and data.dtype.kind in "biuf":
        return CountTensor(schema, data.reshape(schema.shape))
    found = f"cannot count an array of {data.dtype}"
    wanted = (
        f"integer codes have shape (rows, {len(schema)}), counts {schema.shape} or "
        f"({schema.size:,},); try CountTensor(schema, counts) for counts, {_as_records(schema)} "
        f"for records."
    )
    raise refused(
        UNCOUNTABLE,
        f"{found} with {data.ndim} axes of these lengths: {wanted}",
        f"{found} of shape {data.shape}: {wanted}",
    )


def _as_records(schema: Schema) -> str:
    columns = [f"{name!r}: codes[:, {i}]" for i, name in enumerate(schema.names[:2])]
    return "{" + ", ".join(columns) + (", …}" if len(schema) > 2 else "}")
