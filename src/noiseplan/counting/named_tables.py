"""A table of a database by its name, for those who write no Python.

DuckDB and SQLite are files, known by their first bytes. Any other database is an address that Ibis
understands, and an address may hold a password: so it is never written on a command line, but kept
in an environment variable, of which the name alone is told. Nothing of the address is ever shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from noiseplan.counting.expressions import quoted
from noiseplan.engine import engine
from noiseplan.errors import DataError
from noiseplan.paths import checked_path
from noiseplan.texts import suggestion

VARIABLE: Final = "env:"
_SQLITE: Final = b"SQLite format 3\x00"
_DUCKDB: Final = b"DUCK"  # from the ninth byte on
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


@contextmanager
def named_table(source: str, table: str | None, query: str | None) -> Iterator[object]:
    """A table, or what a query returns, for counting; the database is open within the block.

    Parameters
    ----------
    source
        The file of a DuckDB or SQLite database, or ``env:NAME``: an environment variable that holds
        the address of a database as Ibis takes it, such as ``postgres://user:password@host/name``.
    table
        The name of a table or view, after that of its schema and a dot where it has one.
    query
        A query in the database's own SQL, instead.
    """
    if (table is None) == (query is None):
        raise DataError("name what to count: one of --table NAME and --query 'SELECT …'.")
    if source.startswith(VARIABLE):
        with _open(_connected(source.removeprefix(VARIABLE))) as connection:
            yield _chosen(connection, table, query)
        return
    if "://" in source:
        raise DataError(
            "an address of a database may hold a password, and command lines are seen by others: "
            "put it into an environment variable, and name that: env:DATABASE."
        )
    path = checked_path(source, DataError)
    start = _start(path)
    if start.startswith(_SQLITE):
        with _open(_sqlite(path)) as connection:
            yield _chosen(connection, table, query)
    elif start[8:12] == _DUCKDB:
        with _duckdb_fault(path), engine(path) as opened:
            yield opened.sql(f"FROM {_written(table)}" if table else f"FROM ({query}) AS asked")
    else:
        raise DataError(
            f"{str(path)!r} is no DuckDB or SQLite database; files of text and Parquet are counted "
            f"without --table and --query, and other databases by env:NAME."
        )


@contextmanager
def _open(connection: Any) -> Iterator[Any]:
    """A connection that is closed after the block, whatever happens in it."""
    try:
        yield connection
    finally:
        connection.disconnect()


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror or error}") from None


@contextmanager
def _duckdb_fault(path: Path) -> Iterator[None]:
    """What is wrong with the file or the query: said before a record is read."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        first, *others = str(error).splitlines()
        near = next((f" {line}" for line in others if line.startswith("Did you mean")), "")
        raise DataError(f"cannot open {str(path)!r}: {first}{near}") from None


def _written(table: str) -> str:
    return ".".join(map(quoted, table.split(".")))


def _ibis() -> Any:
    try:
        return import_module("ibis")
    except ImportError:
        raise DataError(
            "this database is reached through Ibis, which is not installed: "
            "pip install 'noiseplan[ibis]', and what Ibis needs for the database."
        ) from None


def _sqlite(path: Path) -> Any:
    try:
        return _ibis().sqlite.connect(path)
    except ImportError as error:
        raise DataError(
            f"Ibis lacks what it needs for SQLite ({error.name}): pip install 'noiseplan[ibis]'."
        ) from None


def _connected(name: str) -> Any:
    """A connection by the address in an environment variable; of failures their kind is told."""
    if not _NAME.fullmatch(name):
        raise DataError(
            "env: is followed by the name of an environment variable, of letters, digits and _."
        )
    address = os.environ.get(name)
    if not address:
        raise DataError(
            f"the environment variable {name} is not set; let it hold the address of the database, "
            f"as in: export {name}=postgres://host/name?service=office"
        )
    ibis = _ibis()
    try:
        return ibis.connect(address)
    except Exception as error:  # whose text may quote the address
        raise DataError(
            f"cannot connect to the database of {name} ({type(error).__name__}); its address is "
            f"not shown, for it may hold a password. Try it with the database's own tools."
        ) from None


def _chosen(connection: Any, table: str | None, query: str | None) -> Any:
    try:
        if query is not None:
            return connection.sql(query)
        *schema, name = str(table).split(".")
        return connection.table(name, database=".".join(schema) or None)
    except Exception as error:
        what = "that query" if query is not None else f"the table {table!r}"
        near = suggestion(table, _listed(connection)) if query is None else ""
        kind = type(error).__name__
        raise DataError(f"the database does not know {what} ({kind}){near or '.'}") from None


def _listed(connection: Any) -> list[str]:
    """The names of its tables, where it tells them."""
    try:
        return list(connection.list_tables())
    except Exception:  # whatever it is, the table is what was asked about
        return []
