"""Ibis tables: any database that Ibis reaches counts for itself, and only counts travel.

DuckDB and Spark are spoken to directly, by :mod:`.database` and :mod:`.spark`. Any other database
gets a single statement: the codes of every record, then a GROUP BY for each table over them. One
statement sees one state of the data, however long it takes. Where records are bounded, the codes
and persons of all records come here instead, and are chosen among as those of a frame are: no two
databases spell, compare and draw alike. So do the values of an attribute with very many of them, or
with many bins, which no statement can list.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.counter import code_dtype
from noiseplan.counting.database import chosen_among, stream_from_relation
from noiseplan.counting.encode import SEARCHED, Refusals, check_columns
from noiseplan.counting.expressions import MANY, MANY_CASES, is_double, is_whole
from noiseplan.counting.frames import persons_of, source_of_batches
from noiseplan.counting.merged_tables import Members
from noiseplan.counting.person_cap import PersonCap
from noiseplan.counting.persons import joined_persons
from noiseplan.counting.projectable import Countable
from noiseplan.counting.records import Block, Stream
from noiseplan.counting.refusals import reading
from noiseplan.counting.spark import SparkSource
from noiseplan.counting.sparse_counts import Parcel
from noiseplan.errors import DataError, remedy
from noiseplan.progress import waiting
from noiseplan.schema import Attribute, Binned, Label, Ordinal, Schema

_PERSON: Final = "person"


def source_from_ibis(table: Any, schema: Schema, people: PersonCap | None) -> Countable:
    """Open an Ibis table by the way that suits its database."""
    check_columns(schema, table.columns, people)
    ibis: Any = sys.modules["ibis"]
    database = table.get_backend()
    if database.name in ("duckdb", "pyspark"):
        if table.op().find(ibis.expr.operations.InMemoryTable):
            database.to_pyarrow(table.limit(0).count())  # makes them known to the database
        query = str(ibis.to_sql(table, dialect=database.name))
        if database.name == "duckdb":
            return stream_from_relation(database.con.sql(query), schema, people)
        return SparkSource(database.raw_sql(query), schema, people)
    _refuse_dates_as_text(table, schema)
    if any(_is_long(attribute) for attribute in schema.attributes):
        wanted = table.select(*check_columns(schema, table.columns, people))
        return source_of_batches(schema, people, wanted.to_pyarrow_batches, "")
    source = IbisSource(table, schema)
    return source if people is None else source.bounded(people)


def _refuse_dates_as_text(table: Any, schema: Schema) -> None:
    """SQLite compares '2020-01-31T08:00' with '2020-01-31 12:00' as texts, and T is above a blank.

    It has no type of dates, and each record may write its own in another way, or as a number.
    """
    for name in schema.names if _holds_anything(table) else ():
        kind, bins = table[name].type(), schema[name]
        dated = kind.is_string() and isinstance(bins, Binned) and bins.dated
        if kind.is_temporal() or dated:
            held = "dates" if dated else f"a {type(kind).__name__.lower()}"
            raise DataError(
                f"column {name!r} holds {held}, which SQLite keeps as text "
                f"of any form and compares as text: it is not counted there. Count "
                + remedy("argument", "a frame, table.to_pandas(), or ", "")
                + "a Parquet file of the table."
            )


def _is_long(attribute: Attribute) -> bool:
    """Whether an attribute has more labels or bins than a statement lists; a range is no list."""
    if isinstance(attribute, Binned):
        return attribute.stated > MANY_CASES
    values = getattr(attribute, "values", ())
    return len(values) > MANY and not isinstance(values, range)


@final
class IbisSource(Countable):
    """A table in a database.

    Parameters
    ----------
    table
        The Ibis table.
    schema
        The attributes.
    """

    def __init__(self, table: Any, schema: Schema) -> None:
        self.schema, self.origin, self._table = schema, "", table
        self._columns = [_IbisColumn(name, schema) for name in schema.names]

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes; see :class:`Countable`."""
        ibis: Any = sys.modules["ibis"]
        codes = self._table.select(**self._codes())
        parts = self._notes(codes, len(tables))
        parts += [_counts(codes, place, t, self.schema) for place, t in enumerate(tables) if t]
        with self._reading(), waiting("counting"):
            found = ibis.union(*parts).to_pyarrow()
        columns = ("place", "cell", "records")
        parcel = Parcel({name: found[name].to_numpy() for name in columns}, tables)
        self._refuse(parcel.notes)
        total = np.array(parcel.notes[0])
        unpacked = parcel.tables(self.schema.shape)
        return [counts if t else total for counts, t in zip(unpacked, tables, strict=True)]

    def bounded(self, people: PersonCap) -> Stream:
        """The same with at most so many records of each person, the same ones at every reading."""
        return Stream(self.schema, partial(self._chosen, people))

    def _chosen(self, people: PersonCap) -> Iterator[Block]:
        """Read codes and persons in one statement, and choose; the codes are narrow, and few."""
        wanted = self._table.select(**self._codes(), **{_PERSON: self._table[people.column]})
        kinds = [code_dtype(size + 1) for size in self.schema.shape]  # `refused` is a code here
        parts: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in kinds]
        persons: list[NDArray[Any]] = []
        with self._reading():
            for batch in wanted.to_pyarrow_batches():
                persons.append(persons_of(batch, _PERSON))
                for n, part in enumerate(parts):
                    part.append(batch.column(n).to_numpy(zero_copy_only=False).astype(kinds[n]))
        columns = [np.concatenate(part) for part in parts]
        found = zip(columns, self._columns, strict=True)
        unknown = [int((codes == column.refused).sum()) for codes, column in found]
        self._refuse(dict(enumerate([len(columns[0]), *unknown])))
        yield chosen_among(columns, joined_persons(persons, people.column), people)

    def _codes(self) -> dict[str, Any]:
        """The codes of every record, the attribute's size where a value has none."""
        return {f"c{n}": column.code(self._table) for n, column in enumerate(self._columns)}

    def _notes(self, codes: Any, first: int) -> list[Any]:
        """One row each: all records, and those without a code by column."""
        ibis: Any = sys.modules["ibis"]
        nothing = ibis.literal(0, "int64")
        wanted = {"n0": codes.count()}
        for n, column in enumerate(self._columns):
            refused = codes[f"c{n}"] == column.refused
            wanted[f"n{n + 1}"] = refused.ifelse(1, 0).sum() if column.can_refuse else nothing
        summary = codes.aggregate(**wanted)
        return [
            summary.select(
                place=ibis.literal(first + n, "int64"),
                cell=nothing,
                records=summary[f"n{n}"].coalesce(0).cast("int64"),
            )
            for n in range(len(wanted))
        ]

    def _reading(self) -> AbstractContextManager[None]:
        return reading(fault=f"{self._table.get_backend().name} could not count the table")

    def _refuse(self, notes: dict[int, int]) -> None:
        refusals = Refusals(self.schema)
        refusals.rows = notes[0]
        for place, column in enumerate(self._columns, 1):
            refusals.note(column.name, notes[place])
        refusals.raise_any(self._without_code)

    def _without_code(self, name: str) -> list[object]:
        """Some values of a column that have no code."""
        column = _IbisColumn(name, self.schema)
        values = self._table.filter(column.code(self._table) == column.refused)
        found: list[object] = values.select(name).limit(SEARCHED).to_pyarrow()[name].to_pylist()
        return found


def _counts(codes: Any, place: int, table: Members, schema: Schema) -> Any:
    """The counts of one table by packed cell numbers."""
    ibis: Any = sys.modules["ibis"]
    cell = codes[f"c{table[0]}"].cast("int64")
    for member in table[1:]:
        cell = cell * schema.shape[member] + codes[f"c{member}"].cast("int64")
    counted = codes.select(cell=cell).group_by("cell").aggregate(records=ibis._.count())
    return counted.select(
        place=ibis.literal(place, "int64"), cell=counted.cell, records=counted.records.cast("int64")
    )


@final
@dataclass(frozen=True)
class _IbisColumn:
    """A column and the attribute it must fit, as Ibis expressions."""

    name: str
    schema: Schema

    @property
    def refused(self) -> int:
        return self.schema[self.name].size

    @property
    def can_refuse(self) -> bool:
        return self.schema[self.name].unknown_code < 0

    def code(self, table: Any) -> Any:
        """The code of each value, of missing or unknown ones, or `refused`: never null."""
        attribute, values = self.schema[self.name], table[self.name]
        ibis: Any = sys.modules["ibis"]
        rest = ibis.literal(self.refused if self.can_refuse else attribute.unknown_code, "int32")
        if attribute.missing is not None:
            gone = ibis.literal(attribute.null_code, "int32")
            rest = _is_missing(values, attribute.missing).ifelse(gone, rest)
        found = self._known(values)
        return rest if found is None else found.cast("int32").coalesce(rest)

    def _known(self, values: Any) -> Any:
        attribute, kind = self.schema[self.name], values.type()
        if _holds_anything(values) and (kind.is_numeric() or kind.is_boolean()):
            values = values.typeof().isin(["integer", "real"]).ifelse(values, None)
        if isinstance(attribute, Binned):
            if attribute.dated:
                return _dated_bin(values, attribute)
            numbers = values.cast("int8") if kind.is_boolean() else values
            return _bin(numbers, attribute) if numbers.type().is_numeric() else None
        listed = getattr(attribute, "values", attribute.labels)
        codes: dict[Label, int] = {label: code for code, label in enumerate(listed)}
        if kind.is_boolean():
            truths = {bool(k): c for k, c in codes.items() if k in (0, 1) and not _is_text(k)}
            return _equal(values, truths)
        if kind.is_numeric():
            known = {k: c for k, c in codes.items() if isinstance(k, int | float)}
            found = _number(values, known)
            clipped = isinstance(attribute, Ordinal) and attribute.clip
            return _above(values, max(known), found, len(known) - 1) if clipped else found
        if kind.is_string():
            return _equal(values, {k: c for k, c in codes.items() if _is_text(k)})
        if kind.is_date() or kind.is_timestamp():
            return _equal(values, _moments(values, codes))
        return None


def _is_missing(values: Any, name: str) -> Any:
    if values.type().is_floating():
        return values.isnull() | _isnan(values)
    return values.isnull() | (values == name) if values.type().is_string() else values.isnull()


def _isnan(values: Any) -> Any:
    """Whether a number is none; SQLite and others, which cannot ask, keep no such numbers."""
    ibis: Any = sys.modules["ibis"]
    asks = values.get_backend().has_operation(ibis.expr.operations.IsNan)
    return values.isnan() if asks else ibis.literal(False)


def _holds_anything(table: Any) -> bool:
    """Whether a column may hold values of any type, whatever its own.

    In SQLite text may stand among numbers, and is above each of them; dates are text of any form.
    """
    return bool(table.get_backend().name == "sqlite")


def _is_text(label: object) -> bool:
    return isinstance(label, str)


def _equal(values: Any, codes: Mapping[Any, int]) -> Any:
    """The code of the label that a value equals, null if none."""
    if not codes:
        return None
    return values.cases(*codes.items())


def _number(values: Any, codes: Mapping[Any, int]) -> Any:
    if values.type().is_integer():
        codes = {int(value): code for value, code in codes.items() if is_whole(value, 2**63)}
    else:
        values = values.cast("float64")  # decimals too: 0.10 is the 0.1 that was declared
        codes = {float(value): code for value, code in codes.items() if is_double(value)}
    if not codes:
        return None
    low = min(codes)
    if any(codes.get(low + n) != n for n in range(len(codes))):
        return _equal(values, codes)
    inside = values.between(low, max(codes))
    if values.type().is_integer():
        values = values.cast("int64")  # or the difference may not fit the column's type
    else:
        inside &= values == values.floor()
    return inside.ifelse((values - low).cast("int32"), None)


def _above(values: Any, last: float, found: Any, code: int) -> Any:
    """What was found, and the code of the last value for numbers above it."""
    ibis: Any = sys.modules["ibis"]
    above = values > last
    if values.type().is_floating():
        above &= ~_isnan(values)  # which is larger than any number to some databases
    return above.ifelse(ibis.literal(code, "int32"), None if found is None else found)


def _dated_bin(values: Any, bins: Binned) -> Any:
    """The bin of a day or of a time without a zone; null for anything else."""
    ibis: Any = sys.modules["ibis"]
    kind = values.type()
    if not (kind.is_date() or (kind.is_timestamp() and kind.timezone is None)):
        return None
    moments = values.cast("timestamp")
    first, *inner, last = (ibis.literal(datetime.fromisoformat(str(e))) for e in bins.edges)
    valid = moments.notnull() if bins.clip else moments.between(first, last)
    return valid.ifelse(_place(moments, inner), None)


def _bin(values: Any, bins: Binned) -> Any:
    numbers = values.cast("float64")
    there = numbers.notnull() & ~_isnan(numbers)
    valid = there if bins.clip else numbers.between(bins.edges[0], bins.edges[-1])
    return valid.ifelse(_place(numbers, bins.edges[1:-1]), None)


def _place(values: Any, bounds: Sequence[Any], first: int = 0) -> Any:
    """How many of the sorted bounds a value is not below, beside `first`: halved at each step."""
    if not bounds:
        return sys.modules["ibis"].literal(first, "int32")
    middle = len(bounds) // 2
    below = _place(values, bounds[:middle], first)
    above = _place(values, bounds[middle + 1 :], first + middle + 1)
    return (values < bounds[middle]).ifelse(below, above)


def _moments(values: Any, codes: Mapping[Label, int]) -> dict[Any, int]:
    """Labels that are dates or times, as literals of the column's type."""
    ibis: Any = sys.modules["ibis"]
    kind = values.type()
    found: dict[Any, int] = {}
    for label, code in codes.items():
        if not isinstance(label, date):
            continue
        moment = label if isinstance(label, datetime) else datetime(*label.timetuple()[:3])
        zoned = kind.is_timestamp() and kind.timezone is not None
        if (moment.tzinfo is not None) != zoned:
            continue
        if kind.is_date():
            if moment == datetime(*moment.timetuple()[:3]):
                found[ibis.literal(moment.date(), kind)] = code
        else:
            found[ibis.literal(moment, kind)] = code
    return found
