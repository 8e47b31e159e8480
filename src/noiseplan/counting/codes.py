"""Columns of values to columns of codes, and the refusal of values that were not declared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.records import code_dtype
from noiseplan.errors import DataError
from noiseplan.schema import Attribute, Binned, Categorical, Schema

_SHOWN: Final = 5
_SEARCHED: Final = 1000


def encode_column(
    name: str, attribute: Attribute, values: NDArray[Any]
) -> NDArray[np.unsignedinteger]:
    """Return the codes of a column in their smallest type.

    Raises
    ------
    DataError
        When a value was not declared; the message shows values and is private (see
        :func:`unknown_values`).
    """
    codes = attribute.encode(values)
    unknown = codes < 0
    if unknown.any():
        examples = values[np.flatnonzero(unknown)[:_SEARCHED]].tolist()
        raise unknown_values(name, attribute, int(unknown.sum()), len(codes), examples)
    return codes.astype(code_dtype(attribute.size))


def unknown_values(
    name: str, attribute: Attribute, rows: int, total: int, examples: Iterable[object]
) -> DataError:
    """Make the error for values outside the domain.

    Privacy
    -------
    The message holds values and row counts of the confidential table. It is for the custodian,
    who may see them, and must never be published.
    """
    shown = list(dict.fromkeys(map(_shown, examples)))
    listed = ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
    return DataError(
        f"column {name!r}: {rows} of {total} rows hold values that the schema does not declare: "
        f"{listed}. Declared is {attribute.describe()}. {_remedy(attribute, 'null' in shown)} "
        f"(This message shows private values: do not publish it.)"
    )


def missing_columns(missing: Iterable[str], found: Iterable[object]) -> DataError:
    """Make the error for columns that the schema names and the data lack."""
    return DataError(
        f"the data lack the column(s) {', '.join(map(repr, missing))}; they have "
        f"{', '.join(map(repr, found)) or 'none'}. Rename columns, or leave the attributes out of "
        f"the schema."
    )


def check_columns(schema: Schema, found: Iterable[object]) -> None:
    """Refuse data without the columns of the schema; further columns are ignored."""
    listed = list(found)
    missing = [name for name in schema.names if name not in listed]
    if missing:
        raise missing_columns(missing, listed)


def _shown(value: object) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    # By name, since pandas' markers of missing values must not make us import pandas.
    return "null" if missing or type(value).__name__ in ("NAType", "NaTType") else repr(value)


def _remedy(attribute: Attribute, nulls: bool) -> str:
    if isinstance(attribute, Categorical):
        return (
            "Declare them, or let one more category catch everything unknown: "
            "Categorical([...], other='other')."
        )
    if nulls:
        return "Missing values have no place in an order: fill them or drop those rows beforehand."
    if isinstance(attribute, Binned):
        return (
            "Widen the edges, or send numbers beyond them to the end bins: "
            "Binned([...], clip=True). Text must be turned into numbers first."
        )
    return "Declare them: Ordinal([...]), in their order."
