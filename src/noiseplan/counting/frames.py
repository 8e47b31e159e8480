"""Frames of pandas, Polars and PyArrow, whole or in batches, through narwhals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.database import chosen_among
from noiseplan.counting.encode import Encoded, Refusals, check_columns, encode_block
from noiseplan.counting.person_cap import PersonCap
from noiseplan.counting.persons import array_of_persons, joined_persons, texts_of_persons
from noiseplan.counting.projectable import Countable
from noiseplan.counting.records import Block, Records, Stream, gathered
from noiseplan.counting.refusals import NO_RECORDS, cause, refused, unreadable
from noiseplan.errors import DataError
from noiseplan.schema import Attribute, Schema

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

_ORIGINS: Final = ("pandas", "polars", "pyarrow")
_BATCH: Final = 1 << 17


def source_from_frame(data: object, schema: Schema, people: PersonCap | None) -> Countable | None:
    """Open a frame, or return None for what narwhals knows as none.

    Eager frames are encoded at once. Of lazy frames the schema's columns only are collected, those
    of Polars in batches.
    """
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import NarwhalsError

    try:
        frame: object = nw.from_native(data, pass_through=True)
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            return None
        found = frame.collect_schema().names()
        chosen = frame.select(check_columns(schema, found, people))
        origin = str(frame.implementation).lower()
        origin = origin if origin in _ORIGINS else ""
        if isinstance(chosen, nw.LazyFrame):
            native: Any = chosen.to_native()
            if hasattr(native, "collect_batches"):  # Polars since 1.34
                read = partial(native.collect_batches, chunk_size=_BATCH)
                return source_of_batches(schema, people, read, origin)
            chosen = chosen.collect()
        return source_of_batches(schema, people, lambda: [chosen.to_native()], origin, whole=True)
    except NarwhalsError as error:  # two columns of one name, say
        raise unreadable("cannot read the frame", error) from cause(error)


def source_from_batches(data: object, schema: Schema, people: PersonCap | None) -> Countable | None:
    """Open a PyArrow reader or dataset, or None for anything else."""
    arrow: Any = sys.modules.get("pyarrow")
    dataset: Any = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(data, dataset.Dataset):
        columns = check_columns(schema, data.schema.names, people)
        return source_of_batches(
            schema, people, lambda: data.to_batches(columns=columns), "pyarrow"
        )
    if arrow is not None and isinstance(data, arrow.RecordBatchReader):
        check_columns(schema, data.schema.names, people)
        return source_of_batches(schema, people, _once(data), "pyarrow", once=True)
    return None


def _once(reader: Iterable[Any]) -> Callable[[], Iterator[Any]]:
    """Let a reader be read a single time: a second pass would find it empty, and count nothing."""
    left = [reader]
    again = "pass what can be read again: a path, a pyarrow.dataset.Dataset or a Table."

    def read() -> Iterator[Any]:
        if not left:
            raise DataError(
                f"the record batch reader has been read to its end, and the data do not fit into "
                f"memory; {again}"
            )
        records = 0
        for batch in left.pop():
            records += batch.num_rows
            yield batch
        if not records:
            raise refused(
                NO_RECORDS,
                f"the record batch reader holds no records; if it was read before, {again}",
            )

    return read


def source_of_batches(
    schema: Schema,
    people: PersonCap | None,
    batches: Callable[[], Iterable[object]],
    origin: str,
    *,
    whole: bool = False,
    once: bool = False,
) -> Countable:
    """Make a stream of batches; or records, of what is in memory as a whole or has to be.

    To choose among the records of a person, all of them must be known.
    """
    persons: list[NDArray[Any]] = []

    def blocks() -> Iterator[Block]:
        refusals = Refusals(schema)
        for batch in batches():
            block = encode_block(schema, encoded_columns(batch, schema), refusals)
            if people is not None:
                persons.append(persons_of(batch, people.column))
            if not refusals:  # what is refused is looked through to its end, however much it is
                yield block
        refusals.raise_any()

    if people is None and not whole:
        return Stream(schema, blocks, origin, once=once)
    columns = gathered(schema, blocks())
    if people is not None:
        columns = chosen_among(columns, joined_persons(persons, people.column), people)
    return Records(schema, columns, origin)


def encoded_columns(batch: object, schema: Schema) -> dict[str, Encoded]:
    """Encode the schema's columns of a frame or of a PyArrow batch."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(_as_frame(batch), eager_only=True)
    return {name: _encode(frame.get_column(name), schema[name]) for name in schema.names}


def persons_of(batch: object, column: str) -> NDArray[Any]:
    """Whose records these are, as an array that :func:`chosen_among` takes."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(_as_frame(batch), eager_only=True)
    series = _without_dictionary(frame.get_column(column))
    kind = series.dtype
    if isinstance(kind, nw.Datetime):
        return array_of_persons(np.empty(0, "M8[us]"), column)  # refused, whatever the library
    exact = kind.is_integer() and kind not in (nw.Int128, nw.UInt128) and not series.null_count()
    if exact or kind.is_float() or kind == nw.String:
        return array_of_persons(series.to_numpy(), column)
    # Arrays of the libraries would turn decimals into floats, and whole numbers with nulls too.
    return texts_of_persons(series.to_list(), column)


def _as_frame(batch: Any) -> Any:
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(batch, arrow.RecordBatch):
        return arrow.Table.from_batches([batch])
    return batch


def _encode(series: nw.Series[Any], attribute: Attribute) -> Encoded:
    import narwhals.stable.v2 as nw

    if series.dtype in (nw.Categorical, nw.Enum):
        series = _without_dictionary(series)
    if series.dtype == nw.String:
        return _encode_text(series, attribute)
    if series.dtype.is_integer() and series.null_count():
        # With nulls the array would be one of floats, in which large numbers run together.
        encoded = Encoded.of(attribute, series.fill_null(0).to_numpy())
        encoded.codes[series.is_null().to_numpy()] = attribute.null_code
        return Encoded(encoded.codes, lambda places: series[places.tolist()].to_list())
    if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None:
        # An array would forget the zone, and take noon here for noon in Greenwich.
        return Encoded.of(attribute, np.array(series.to_list(), dtype=object))
    return Encoded.of(attribute, series.to_numpy())


def _without_dictionary(series: nw.Series[Any]) -> nw.Series[Any]:
    """Return a categorical series as a plain one.

    PyArrow needs its own cast: narwhals 2.28 fills the nulls of a dictionary with other values
    when it makes a NumPy array.
    """
    import narwhals.stable.v2 as nw

    if series.dtype not in (nw.Categorical, nw.Enum) or series.implementation.is_pandas():
        return series
    if series.implementation.is_pyarrow():
        native = series.to_native()
        return nw.from_native(native.cast(native.type.value_type), series_only=True)
    return series.cast(nw.String)


def _encode_text(series: nw.Series[Any], attribute: Attribute) -> Encoded:
    """Encode the distinct texts, and let the engine put the codes in the rows' places."""
    import narwhals.stable.v2 as nw

    nulls = series.is_null().to_numpy()
    distinct = series.drop_nulls().unique().to_list()
    new = attribute.encode(distinct).tolist()
    codes = np.full(len(series), attribute.null_code, dtype=np.int64)
    if distinct:
        # Nulls borrow a value's place for the time of the replacement: engines differ about them.
        filled = series.fill_null(distinct[0])
        replaced = filled.replace_strict(distinct, new, return_dtype=nw.Int64).to_numpy()
        codes = np.where(nulls, attribute.null_code, replaced)
    return Encoded(codes, lambda places: series[places.tolist()].to_list())
