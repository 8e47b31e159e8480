"""A table of a database by its name, for those who write no Python.

DuckDB and SQLite are files, known by their first bytes. Any other database is an address that Ibis
understands, and an address may hold a password: so it is never written on a command line, but kept
in an environment variable, of which the name alone is told. Nothing of the address is ever shown.

Some queries read records before they return one: PIVOT takes the names of its columns from values.
So a query is one SELECT that names its columns, and it is opened where records may be read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from noiseplan.counting.expressions import quoted
from noiseplan.counting.refusals import reading
from noiseplan.engine import engine
from noiseplan.errors import DataError
from noiseplan.paths import checked_path
from noiseplan.texts import suggestion

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

VARIABLE: Final = "env:"
_SQLITE: Final = b"SQLite format 3\x00"
_DUCKDB: Final = b"DUCK"  # from the ninth byte on
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_CANNOT_RUN: Final = "the database cannot run that query: look at its tables, columns and functions"
# As DuckDB writes a parsed query: tables that take their columns from records, or have none.
_NOT_PLAIN: Final = re.compile(r'"type":\s*"(PIVOT|SHOW_REF)"')


@contextmanager
def named_table(source: str, table: str | None, query: str | None) -> Iterator[NamedTable]:
    """Name a table or a query for counting; a database that it opens is closed after the block.

    Parameters
    ----------
    source
        The file of a DuckDB or SQLite database, or ``env:NAME``: an environment variable that holds
        the address of a database as Ibis takes it, such as ``postgres://user:password@host/name``.
    table
        The name of a table or view, after that of its schema and a dot where it has one.
    query
        One SELECT in the database's own SQL, instead.
    """
    if (table is None) == (query is None):
        raise DataError("name what to count: one of --table NAME and --query 'SELECT …'.")
    with ExitStack() as held:
        yield NamedTable(source, table, query, held)


@final
@dataclass(frozen=True, eq=False)
class NamedTable:
    """A table or a query of a database by its name, which :func:`open_source` opens.

    Privacy
    -------
    Nothing is opened before `opened` is asked for, which may read records; what the engine says
    then is a detail.
    """

    source: str
    table: str | None
    query: str | None
    held: ExitStack

    @cached_property
    def opened(self) -> Any:
        """A DuckDB relation, or an Ibis table."""
        if self.source.startswith(VARIABLE):
            return self._by_ibis(_connected(self.source.removeprefix(VARIABLE)))
        if "://" in self.source:
            raise DataError(
                "an address of a database may hold a password, and command lines are seen by "
                "others: put it into an environment variable, and name that: env:DATABASE."
            )
        path = checked_path(self.source, DataError)
        start = _start(path)
        if start.startswith(_SQLITE):
            return self._by_ibis(_sqlite(path))
        if start[8:12] == _DUCKDB:
            return self._by_duckdb(path)
        raise DataError(
            f"{str(path)!r} is no DuckDB or SQLite database; files of text and Parquet are counted "
            f"without --table and --query, and other databases by env:NAME."
        )

    def _by_duckdb(self, path: Path) -> DuckDBPyRelation:
        fault = "it is damaged, of another version of DuckDB, or open in another program"
        with reading(fault=f"cannot open {str(path)!r}: {fault}"):
            connection = self.held.enter_context(engine(path))
        if self.query is not None:
            _require_one_select(connection, self.query)
            with reading(fault=_CANNOT_RUN):
                return connection.sql(self.query)
        table = str(self.table)
        try:
            return connection.sql(f"FROM {'.'.join(map(quoted, table.split('.')))}")
        except Exception as error:
            listed = (
                "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views()"
            )
            known = [name for (name,) in connection.execute(listed).fetchall()]
            raise _unknown_table(table, known, error) from None

    def _by_ibis(self, connection: Any) -> Any:
        self.held.callback(connection.disconnect)
        if self.query is not None:
            _require_one_select_for(connection.dialect, self.query)
            with reading(fault=_CANNOT_RUN):
                return connection.sql(self.query)
        table = str(self.table)
        *schema, name = table.split(".")
        try:
            return connection.table(name, database=".".join(schema) or None)
        except Exception as error:
            raise _unknown_table(table, _listed(connection), error) from None


def _unknown_table(table: str, known: list[str], error: Exception) -> DataError:
    near = suggestion(table, known) or "."
    return DataError(
        f"the database does not know the table {table!r} ({type(error).__name__}){near}"
    )


def _require_one_select(connection: DuckDBPyConnection, query: str) -> None:
    """Refuse all but one SELECT that names its columns, as DuckDB's parser sees it."""
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    parsed = json.loads(text)
    if parsed["error"] or len(parsed["statements"]) != 1 or _NOT_PLAIN.search(text):
        syntax = parsed.get("error_type") == "parser"
        raise _not_one_select(parsed["error_message"] if syntax else "")


def _require_one_select_for(dialect: Any, query: str) -> None:
    """Refuse all but one SELECT that names its columns, as Ibis's parser sees it."""
    sqlglot: Any = import_module("sqlglot")
    kinds = sqlglot.exp
    parsed: list[Any] = []
    with suppress(sqlglot.errors.SqlglotError):
        parsed = sqlglot.parse(query, read=dialect)
    plain = len(parsed) == 1 and isinstance(parsed[0], kinds.Query)
    if not plain or parsed[0].find(kinds.Pivot, kinds.DML, kinds.Into):
        raise _not_one_select()


def _not_one_select(reason: str = "") -> DataError:
    found = f" ({reason})" if reason else ""
    return DataError(
        f"--query takes one SELECT that names its columns{found}; PIVOT, SUMMARIZE and other "
        f"statements are refused. Write the columns out in a SELECT."
    )


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror or error}") from None


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


def _listed(connection: Any) -> list[str]:
    """The names of its tables, where it tells them."""
    try:
        return list(connection.list_tables())
    except Exception:  # whatever it is, the table is what was asked about
        return []
