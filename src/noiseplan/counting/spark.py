"""Spark DataFrames: every partition is counted where it lies, in one scan for all tables.

Workers run :func:`count_partition` on Arrow batches, with the same code that encodes and counts on
one machine; so noiseplan must be installed where they run. Only counts of the tables travel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.counter import Counter
from noiseplan.counting.database import canonical_persons
from noiseplan.counting.encode import Refusals, check_columns, encode_block
from noiseplan.counting.frames import encoded_columns, persons_of
from noiseplan.counting.merged_tables import Members
from noiseplan.counting.person_cap import CHOSEN, NOBODY, ROUNDED, PersonCap, Sieve
from noiseplan.counting.persons import check_kind
from noiseplan.counting.projectable import Countable
from noiseplan.counting.records import Block
from noiseplan.counting.refusals import UNREADABLE, cause, details_are_shown, reading, refused
from noiseplan.counting.sparse_counts import Parcel
from noiseplan.progress import waiting
from noiseplan.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

# What travels: the place of a table, a cell of it, and the records there. Places beyond the tables
# hold notes: how many records were read, how many of each column had no code, how many no person,
# and how many a person who was rounded.
_COUNTS: Final = "place INT, cell BIGINT, records BIGINT"
_VALUES: Final = "place INT, written STRING"
_PERSON: Final = "person"
_CHOICE: Final = "choice"
_TEXT: Final = re.compile("string|varchar|char")  # of other types DuckDB has the same names
_JOINED: Final = 1 << 17
_NO_MODULE: Final = re.compile(
    "No module named '(noiseplan|numpy|scipy|pyarrow|narwhals|duckdb)['.]"
)


@final
class SparkSource(Countable):
    """A Spark DataFrame.

    Parameters
    ----------
    frame
        The DataFrame; only the columns of the schema and of persons are read.
    schema
        The attributes.
    people
        Whose records these are, if they are bounded.
    """

    def __init__(self, frame: DataFrame, schema: Schema, people: PersonCap | None = None) -> None:
        check_columns(schema, frame.columns, people)
        if people is not None:
            kind = dict(frame.dtypes)[people.column]
            check_kind(people.column, "VARCHAR" if _TEXT.match(kind) else kind.upper())
        self.schema, self.origin, self._people = schema, "", people
        self._frame = _selected(frame, schema, people)

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes; see :class:`Countable`."""
        frame, count = self._frame, count_partition
        if self._people is not None:
            frame, count = _with_choice(frame, self.schema, self._people), count_chosen
        work = partial(count, self.schema, tuple(tables))
        with waiting("counting"):
            counted = _run(frame.mapInArrow(work, _COUNTS).groupBy("place", "cell"))
        parcel = Parcel(counted, tables)
        self._refuse(parcel.notes)
        return parcel.tables(self.schema.shape)

    def _refuse(self, notes: dict[int, int]) -> None:
        """Refuse the data if some values had no code, after a second look at these values."""
        names = self.schema.names
        refusals = Refusals(self.schema)
        refusals.rows = notes.get(0, 0)
        for place, name in enumerate(names, 1):
            refusals.note(name, notes.get(place, 0))
        if refusals and details_are_shown():
            look = partial(values_without_code, self.schema)
            for row in self._frame.mapInArrow(look, _VALUES).limit(1000).collect():
                refusals.note_written(names[row["place"]], 0, [row["written"]])
        refusals.raise_any()
        if self._people is not None:
            last = len(names) + 1
            Sieve(notes.get(last, 0), notes.get(last + 1, 0), notes.get(0, 0)).refuse(self._people)


def _run(grouped: Any) -> dict[str, NDArray[np.int64]]:
    from pyspark.sql import functions

    with reading(fault="Spark could not count the DataFrame"):
        try:
            table = grouped.agg(functions.sum("records").alias("records")).toArrow()
        except Exception as error:
            lack = _lack_of_workers(str(error))
            if not lack:
                raise
            raise refused(UNREADABLE, lack) from cause(error)
    return {name: table[name].to_numpy() for name in ("place", "cell", "records")}


def _lack_of_workers(said: str) -> str:
    """What keeps the workers from counting, in words that no record can change; or nothing."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    module = _NO_MODULE.search(said)
    if module is not None:
        return (
            f"Spark's workers lack the Python module {module[1]!r}: install noiseplan[spark] for "
            f"the Python that they run, which the variable PYSPARK_PYTHON names."
        )
    if "[PYTHON_VERSION_MISMATCH]" in said:
        return (
            f"Spark's workers run another version of Python than {own}, which runs here: name a "
            f"Python {own} in the variable PYSPARK_PYTHON before the session starts."
        )
    if "java.io.IOException: Cannot run program" in said:
        return (
            f"Spark's workers found no Python: name a Python {own} that is installed there in the "
            f"variable PYSPARK_PYTHON before the session starts."
        )
    return ""


def _selected(frame: DataFrame, schema: Schema, people: PersonCap | None) -> DataFrame:
    """Select what is read; Spark's own mapInArrow stumbles over names with dots or backticks."""
    from pyspark.sql import functions

    columns = [functions.col(_quoted(name)).alias(f"c{n}") for n, name in enumerate(schema.names)]
    if people is not None:
        columns.append(functions.col(_quoted(people.column)).alias(_PERSON))
    return frame.select(*columns)


def _with_choice(frame: DataFrame, schema: Schema, people: PersonCap) -> DataFrame:
    """The codes of all records, and what becomes of each; draws are those of :class:`PersonCap`.

    They are made of the records alone, so every evaluation of a frame chooses the same of them.
    """
    from pyspark.sql import Window, functions

    codes = [f"c{n}" for n in range(len(schema))]
    types = ", ".join([*(f"{code} INT" for code in codes), f"{_PERSON} STRING"])
    coded = frame.mapInArrow(partial(encode_partition, schema, people.column), types)
    equal = Window.partitionBy(_PERSON, *codes).orderBy(functions.lit(1))
    placed = coded.withColumn("place", functions.row_number().over(equal))
    record = [functions.lit(people.key.hex()), *map(functions.col, [*codes, "place", _PERSON])]
    draw = functions.sha2(functions.concat_ws(",", *record), 256)
    rank = functions.row_number().over(Window.partitionBy(_PERSON).orderBy(draw))
    person = functions.col(_PERSON)
    choice = functions.when(person.isNull(), NOBODY).when(person == "", ROUNDED)
    choice = choice.when(rank <= people.cap, CHOSEN).otherwise(0)
    return placed.select(*codes, choice.cast("byte").alias(_CHOICE))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"  # or a dot would reach into a struct


# ---------------------------------------------------------------------- on the workers


def count_partition(
    schema: Schema, tables: Sequence[Members], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count one partition: yield the cells that hold records, and what was noted on the way."""
    refusals = Refusals(schema)
    blocks = (_encoded(table, schema, refusals) for table in _joined(batches))
    return _counted(schema, tables, blocks, refusals, Sieve())


def encode_partition(
    schema: Schema, column: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the codes of one partition, the attribute's size for none, and the persons."""
    import pyarrow as pa

    for table in _joined(batches):
        columns = encoded_columns(_named(table, schema), schema)
        arrays = [
            np.where(columns[name].codes < 0, schema[name].size, columns[name].codes)
            for name in schema.names
        ]
        values = table.rename_columns([*table.column_names[:-1], column])
        persons = canonical_persons(persons_of(values, column))
        yield pa.RecordBatch.from_arrays(
            [
                *(pa.array(codes.astype(np.int32)) for codes in arrays),
                pa.array(persons, pa.string()),
            ],
            names=table.column_names,
        )


def count_chosen(
    schema: Schema, tables: Sequence[Members], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count the chosen records of one partition of codes."""
    refusals, sieve = Refusals(schema), Sieve()

    def blocks() -> Iterator[Block]:
        for table in _joined(batches):
            refusals.rows += table.num_rows
            block = [table[n].to_numpy() for n in range(len(schema))]
            for name, codes in zip(schema.names, block, strict=True):
                refusals.note(name, int((codes == schema[name].size).sum()))
            yield sieve.chosen(block, table[_CHOICE].to_numpy())

    return _counted(schema, tables, blocks(), refusals, sieve)


def values_without_code(
    schema: Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield a few values that the schema does not declare, as messages show them."""
    import pyarrow as pa

    refusals = Refusals(schema)
    for table in _joined(batches):
        _encoded(table, schema, refusals)
    for place, name in enumerate(schema.names):
        written = refusals.examples[name]
        yield pa.RecordBatch.from_arrays(
            [pa.array([place] * len(written), pa.int32()), pa.array(written, pa.string())],
            names=["place", "written"],
        )


def _encoded(
    table: pa.Table, schema: Schema, refusals: Refusals
) -> list[NDArray[np.unsignedinteger]]:
    return encode_block(schema, encoded_columns(_named(table, schema), schema), refusals)


def _named(table: pa.Table, schema: Schema) -> pa.Table:
    """The schema's columns by their names."""
    return table.select(range(len(schema))).rename_columns(list(schema.names))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join Spark's small batches: encoding a column costs a little however short it is."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _JOINED:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _counted(
    schema: Schema,
    tables: Sequence[Members],
    blocks: Iterable[Block],
    refusals: Refusals,
    sieve: Sieve,
) -> Iterator[pa.RecordBatch]:
    """What travels: the cells of every table, then what was noted of the blocks."""
    counter = Counter(schema, tables, threads=1)
    for block in blocks:
        if not refusals:
            counter.add(block)
    for place, counts in enumerate(counter.tables()):
        found = np.flatnonzero(counts)
        yield _counts(np.full(len(found), place), found, counts.reshape(-1)[found])
    noted = [refusals.rows, *refusals.unknown.values(), sieve.nobody, sieve.rounded]
    yield _counts(len(tables) + np.arange(len(noted)), np.zeros(len(noted)), np.array(noted))


def _counts(places: NDArray[Any], found: NDArray[Any], records: NDArray[Any]) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [
        pa.array(places.astype(np.int32)),
        pa.array(found.astype(np.int64)),
        pa.array(records.astype(np.int64)),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["place", "cell", "records"])
