"""Spark DataFrames: every partition is counted where it lies, in one scan for all tables.

Workers run :func:`count_partition` on Arrow batches, with the same code that encodes and counts on
one machine; so noiseplan must be installed where they run. Only counts of the tables travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.codes import Refusals, check_columns, encode_block
from noiseplan.counting.counter import Counter
from noiseplan.counting.covering import Members
from noiseplan.counting.frames import encoded_columns
from noiseplan.counting.people import People
from noiseplan.counting.projectable import Countable
from noiseplan.counting.telling import UNREADABLE, cause, details_are_shown, refused
from noiseplan.counting.travel import Parcel
from noiseplan.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

# What travels: the place of a table, a cell of it, and the records there. Places beyond the tables
# hold notes: how many records were read, how many of each column had no code, how many no person.
_COUNTS: Final = "place INT, cell BIGINT, records BIGINT"
_VALUES: Final = "place INT, written STRING"
_CHOICE: Final = "choice"
_NOBODY: Final = 2
_JOINED: Final = 1 << 17


def is_spark_frame(data: object) -> bool:
    """Tell whether data are a Spark DataFrame, classic or Connect, without importing Spark."""
    kind = type(data)
    return kind.__module__.startswith("pyspark.sql") and hasattr(kind, "mapInArrow")


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

    def __init__(self, frame: DataFrame, schema: Schema, people: People | None = None) -> None:
        check_columns(schema, frame.columns)
        if people is not None:
            people.check_column(frame.columns)
        self.schema, self.origin, self.max_rows = schema, "", People.most(people)
        self._people = people
        self._frame = _chosen_columns(frame, schema, people)

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes; see :class:`Countable`."""
        work = partial(count_partition, self.schema, tuple(tables))
        counted = _run(self._frame.mapInArrow(work, _COUNTS).groupBy("place", "cell"))
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
            self._people.refuse_nobody(notes.get(len(names) + 1, 0), refusals.rows)


def _run(grouped: Any) -> dict[str, NDArray[np.int64]]:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    try:
        table = grouped.agg(functions.sum("records").alias("records")).toArrow()
    except PySparkException as error:
        message = "Spark could not count the DataFrame"
        raise refused(UNREADABLE, f"{message}.", f"{message}: {error}") from cause(error)
    return {name: table[name].to_numpy() for name in ("place", "cell", "records")}


def _chosen_columns(frame: DataFrame, schema: Schema, people: People | None) -> DataFrame:
    """Select what is read, with a column that says which records of a person are chosen.

    As in DuckDB every record draws the digest of a secret key, of its values, and of its place
    among equal records of its person: every pass chooses the same ones.
    """
    from pyspark.sql import Window, functions

    # Spark's own mapInArrow stumbles over names with dots or backticks.
    columns = [functions.col(_quoted(name)).alias(f"c{n}") for n, name in enumerate(schema.names)]
    if people is None:
        return frame.select(*columns)
    person = functions.col(_quoted(people.column))
    if dict(frame.dtypes)[people.column] in ("float", "double"):
        person = person + functions.lit(0.0)  # 0 and -0 are one person, and not two with a cap each
    read = frame.select(*columns, person.cast("string").alias("person"))
    codes = [f"c{n}" for n in range(len(schema))]
    values = functions.to_json(functions.struct(*codes))
    equal = Window.partitionBy("person", values).orderBy(functions.lit(1))
    placed = read.withColumn("place", functions.row_number().over(equal))
    parts: list[Any] = [functions.lit(people.key.hex()), values, functions.col("place"), "person"]
    draw = functions.sha2(functions.concat_ws(",", *parts), 256)
    rank = functions.row_number().over(Window.partitionBy("person").orderBy(draw))
    chosen = functions.when(rank <= people.cap, 1).otherwise(0)
    # Not a number is nobody either: all who have none would share one cap.
    spelled = functions.lower(functions.col("person").cast("string"))
    nobody = functions.col("person").isNull() | spelled.isin("nan", "-nan")
    choice = functions.when(nobody, _NOBODY).otherwise(chosen).cast("byte")
    return placed.select(*codes, choice.alias(_CHOICE))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"  # or a dot would reach into a struct


# ---------------------------------------------------------------------- on the workers


def count_partition(
    schema: Schema, tables: Sequence[Members], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count one partition: yield the cells that hold records, and what was noted on the way."""
    counter, refusals, nobody = Counter(schema, tables, threads=1), Refusals(schema), 0
    for table in _joined(batches):
        block = _encoded(table, schema, refusals)
        if _CHOICE in table.column_names:
            choice = table[_CHOICE].to_numpy()
            nobody += int((choice == _NOBODY).sum())
            block = [codes[choice == 1] for codes in block]
        if not refusals:
            counter.add(block)
    for place, counts in enumerate(counter.tables()):
        found = np.flatnonzero(counts)
        yield _counts(np.full(len(found), place), found, counts.reshape(-1)[found])
    noted = [refusals.rows, *(refusals.unknown(name) for name in schema.names), nobody]
    places = len(tables) + np.arange(len(noted))
    yield _counts(places, np.zeros(len(noted)), np.array(noted))


def values_without_code(
    schema: Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield a few values that the schema does not declare, as messages show them."""
    import pyarrow as pa

    refusals = Refusals(schema)
    for table in _joined(batches):
        _encoded(table, schema, refusals)
    for place, name in enumerate(schema.names):
        written = refusals.examples(name)
        yield pa.RecordBatch.from_arrays(
            [pa.array([place] * len(written), pa.int32()), pa.array(written, pa.string())],
            names=["place", "written"],
        )


def _encoded(
    table: pa.Table, schema: Schema, refusals: Refusals
) -> list[NDArray[np.unsignedinteger]]:
    columns = table.select(range(len(schema))).rename_columns(list(schema.names))
    return encode_block(schema, encoded_columns(columns, schema), refusals)


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


def _counts(places: NDArray[Any], found: NDArray[Any], records: NDArray[Any]) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [
        pa.array(places.astype(np.int32)),
        pa.array(found.astype(np.int64)),
        pa.array(records.astype(np.int64)),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["place", "cell", "records"])
