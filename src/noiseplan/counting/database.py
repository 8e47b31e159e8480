"""Files and DuckDB relations: values become codes inside the engine, only codes come out."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeGuard, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.codes import check_columns, unknown_values
from noiseplan.counting.records import Records, code_dtype
from noiseplan.errors import DataError
from noiseplan.schema import Attribute, Binned, Label, Schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_TEXT: Final = (".csv", ".tsv", ".txt")
_PARQUET: Final = (".parquet", ".pq")
_PACKED: Final = (".gz", ".zst")
_NUMERIC: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\)")
_SEARCHED: Final = 1000


def records_from_file(path: str | os.PathLike[str], schema: Schema) -> Records:
    """Read the schema's columns from CSV (with a header line) or Parquet; globs are allowed.

    CSV is read as text, so that a code such as ``007`` keeps its zeros, and each distinct text is
    then taken for the label it spells.
    """
    import duckdb

    name = os.fspath(path)
    with duckdb.connect() as connection, _refusals(name):
        if _suffix(name) in _PARQUET:
            relation = connection.read_parquet(name, union_by_name=True)
            return _records(relation, schema, spelled=False)
        return _records(_read_text(connection, name), schema, spelled=True)


def is_relation(data: object) -> TypeGuard[DuckDBPyRelation]:
    """Tell whether data are a DuckDB relation, without importing DuckDB for data that are not."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation)


def records_from_relation(relation: DuckDBPyRelation, schema: Schema) -> Records:
    """Read the schema's columns from a relation; it is run twice on its own connection."""
    with _refusals("the relation"):
        return _records(relation, schema, spelled=False)


@contextmanager
def _refusals(source: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DataError(f"cannot read {source}: {error}") from error


def _suffix(name: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in (*_TEXT, *_PARQUET):
        raise DataError(
            f"cannot tell the format of {name!r}; files end in {', '.join((*_TEXT, *_PARQUET))} "
            f"(text also with .gz or .zst). Other files: duckdb.sql(\"FROM '…'\") and pass that."
        )
    return suffixes[-1]


def _read_text(connection: DuckDBPyConnection, name: str) -> DuckDBPyRelation:
    """Open CSV as text, leaving the engine to guess no more than the separator.

    Its other guesses may drop rows (taken for comments or preamble) or fail on a late quote. The
    files of a glob may have their columns in different orders, so they are matched by name.
    """
    options = "header = true, skip = 0, comment = '', quote = '\"', escape = '\"'"
    return connection.sql(
        f"FROM read_csv({_literal(name)}, all_varchar = true, union_by_name = true, {options})"
    )


def _records(relation: DuckDBPyRelation, schema: Schema, *, spelled: bool) -> Records:
    check_columns(schema, relation.columns)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    columns = [_Column(name, schema[name], types[name], spelled) for name in schema.names]
    listed = [column for column in columns if column.bins is None]
    recipes = {column.name: column.recipe(*seen) for column, seen in _distinct(relation, listed)}
    recipes |= {column.name: _binning(column, column.bins) for column in columns if column.bins}
    expressions = [f"{recipes[name].expression} AS c{n}" for n, name in enumerate(schema.names)]
    fetched = relation.project(", ".join(expressions)).fetchnumpy()
    codes = (recipes[name].decode(fetched[f"c{n}"]) for n, name in enumerate(schema.names))
    pairs = zip(columns, codes, strict=True)
    return Records(schema, [_known(relation, column, recipes, found) for column, found in pairs])


def _distinct(
    relation: DuckDBPyRelation, columns: list[_Column]
) -> Iterator[tuple[_Column, tuple[list[object], list[str], list[int], int]]]:
    """Yield each column with its distinct values, their texts and row counts, and the nulls."""
    if not columns:
        return
    keys = [column.key for column in columns]
    totals = [f"histogram({key}) AS h{n}, count({key}) AS n{n}" for n, key in enumerate(keys)]
    parts = [
        f"map_keys(h{n}), CAST(map_keys(h{n}) AS VARCHAR[]), map_values(h{n}), rows - n{n}"
        for n in range(len(keys))
    ]
    summary = relation.aggregate(", ".join(["count(*) AS rows", *totals]))
    (row,) = summary.project(", ".join(parts)).fetchall()
    for n, column in enumerate(columns):
        values, texts, counts, nulls = row[4 * n : 4 * n + 4]
        yield column, (values or [], texts or [], counts or [], nulls)


@final
@dataclass(frozen=True)
class _Recipe:
    """How a column becomes codes: an expression for the engine, then a table of codes."""

    expression: str
    codes: NDArray[np.int64]  # the code of each result, and last that of null

    def decode(self, fetched: NDArray[Any]) -> NDArray[np.int64]:
        places = np.ma.getdata(fetched).astype(np.intp)
        places[np.ma.getmaskarray(fetched)] = len(self.codes) - 1
        return self.codes[places]


@final
@dataclass(frozen=True)
class _Column:
    """A column of a relation and the attribute it must fit."""

    name: str
    attribute: Attribute
    type: str
    spelled: bool  # whether values are written out as text, as in CSV

    @property
    def quoted(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    @property
    def bins(self) -> Binned | None:
        """The bins, if there are numbers to put into them."""
        numbers = self.spelled or _NUMERIC.fullmatch(self.type) is not None
        return self.attribute if isinstance(self.attribute, Binned) and numbers else None

    @property
    def key(self) -> str:
        """The expression whose distinct values are listed and then recognised by their text."""
        if self.type in ("FLOAT", "DOUBLE"):
            # -0.0 and 0.0 are equal but spelled differently.
            return f"CASE WHEN {self.quoted} = 0 THEN 0.0::DOUBLE ELSE {self.quoted}::DOUBLE END"
        if self.spelled and "" in self.attribute.labels:
            return f"coalesce({self.quoted}, '')"
        return self.quoted

    def recipe(
        self, values: list[object], texts: list[str], counts: list[int], nulls: int
    ) -> _Recipe:
        """Encode the distinct values, and let the engine number the rows by them."""
        meant = _spelled_labels(self.attribute.labels, texts) if self.spelled else values
        codes = self.attribute.encode(_object_array(meant))
        null_code = self.attribute.null_code
        rows = np.array(counts, dtype=np.int64)
        unknown = int(rows[codes < 0].sum()) + (nulls if null_code < 0 else 0)
        if unknown:
            examples = [value for value, code in zip(values, codes, strict=True) if code < 0]
            examples += [None] * (nulls > 0)
            raise unknown_values(
                self.name, self.attribute, unknown, int(rows.sum()) + nulls, examples
            )
        # Values that share the code of null need no number of their own: there may be many.
        told = codes != null_code
        literals = [_literal(text) for text, keep in zip(texts, told, strict=True) if keep]
        kind = f"ENUM({', '.join(literals)})"
        number = f"enum_code(TRY_CAST(CAST({self.key} AS VARCHAR) AS {kind}))"
        return _Recipe(number if literals else "NULL::UTINYINT", np.append(codes[told], null_code))


def _binning(column: _Column, bins: Binned) -> _Recipe:
    """Let the engine compare numbers with the edges, halving the edges at each step."""
    # Without trim DuckDB 2.0 moves the cast into its CSV reader, where a failure is an error.
    source = f"trim({column.quoted})" if column.spelled else column.quoted
    number, last = f"TRY_CAST({source} AS DOUBLE)", bins.size - 1

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high + 1) // 2
        lower, upper = search(low, middle - 1), search(middle, high)
        return f"CASE WHEN {number} < {_double(bins.edges[middle])} THEN {lower} ELSE {upper} END"

    inside = f"{number} BETWEEN {_double(bins.edges[0])} AND {_double(bins.edges[-1])}"
    valid = f"NOT isnan({number})" if bins.clip else inside
    kind = {1: "UTINYINT", 2: "USMALLINT"}.get(np.dtype(code_dtype(bins.size)).itemsize, "UINTEGER")
    expression = f"CAST(CASE WHEN {valid} THEN {search(0, last)} END AS {kind})"
    return _Recipe(expression, np.append(np.arange(bins.size), -1))


def _spelled_labels(labels: tuple[Label, ...], texts: list[str]) -> list[object]:
    """Return the label that each text spells, or the text itself where it spells none."""
    spelled: dict[str, object] = {str(label): label for label in labels}
    spelled |= {label: label for label in labels if isinstance(label, str)}
    if any(isinstance(label, bool) for label in labels):
        spelled |= {"true": True, "false": False}
    if any(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
        return [spelled.get(text, _number_or_text(text)) for text in texts]
    return [spelled.get(text, text) for text in texts]


def _known(
    relation: DuckDBPyRelation,
    column: _Column,
    recipes: dict[str, _Recipe],
    codes: NDArray[np.int64],
) -> NDArray[np.unsignedinteger]:
    """Return narrow codes, or look up the values that have none and refuse them."""
    unknown = int((codes < 0).sum())
    if unknown:
        without_code = relation.filter(f"({recipes[column.name].expression}) IS NULL")
        rows = without_code.project(column.quoted).limit(_SEARCHED).fetchall()
        examples = [value for (value,) in rows]
        raise unknown_values(column.name, column.attribute, unknown, len(codes), examples)
    return codes.astype(code_dtype(column.attribute.size))


def _number_or_text(text: str) -> object:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _object_array(values: list[object]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(value: float) -> str:
    return f"'{value!r}'::DOUBLE"  # quoted: an unquoted 0.1 would be a decimal
