"""Frames of pandas, Polars and PyArrow, through narwhals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.codes import check_columns, encode_column, unknown_values
from noiseplan.counting.records import Records, code_dtype
from noiseplan.errors import DataError
from noiseplan.schema import Attribute, Schema

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

_ORIGINS: Final = ("pandas", "polars", "pyarrow")


def records_from_frame(data: object, schema: Schema) -> Records | None:
    """Encode the schema's columns of a frame, or return None for what narwhals knows as none.

    Of a lazy frame those columns only are collected.
    """
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import NarwhalsError

    try:
        frame: object = nw.from_native(data, pass_through=True)
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            return None
        check_columns(schema, frame.collect_schema().names())
        chosen = frame.select(list(schema.names))
        eager = chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen
    except NarwhalsError as error:  # two columns of one name, say
        raise DataError(f"cannot read the frame: {error}") from error
    columns = [_encode(eager.get_column(name), name, schema[name]) for name in schema.names]
    origin = str(frame.implementation).lower()
    return Records(schema, columns, origin=origin if origin in _ORIGINS else "")


def _encode(series: nw.Series[Any], name: str, attribute: Attribute) -> NDArray[np.unsignedinteger]:
    import narwhals.stable.v2 as nw

    series = _without_dictionary(series)
    if series.dtype == nw.String:
        return _encode_text(series, name, attribute)
    return encode_column(name, attribute, series.to_numpy())


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


def _encode_text(
    series: nw.Series[Any], name: str, attribute: Attribute
) -> NDArray[np.unsignedinteger]:
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
    unknown = int((codes < 0).sum())
    if unknown:
        examples = [text for text, code in zip(distinct, new, strict=True) if code < 0]
        examples += [None] * bool(nulls.any())
        raise unknown_values(name, attribute, unknown, len(codes), examples)
    return codes.astype(code_dtype(attribute.size))
