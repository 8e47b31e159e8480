"""DuckDB as this package opens it: what it puts on disk is private, and it fetches nothing.

An engine that runs out of memory moves records to temporary files. Here they go to a folder that
only the user may enter, encrypted where DuckDB can; the folder is removed when the work ends, and
the folder of a process that was killed when the next one starts.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

PREFIX: Final = "noiseplan-engine-"
_FILES: Final = "files"
_MARK: Final = "owner"
_UNLOCKED_MARK: Final = "owner.new"
_ATTEMPTS: Final = 100
_MARKED: Final = b"temporary files of noiseplan; whoever works with them holds a lock on this\n"
_SETTINGS: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}
# What older versions of DuckDB lack. Its built-in cipher draws keys from a generator that is not
# made for secrets, and asks that this be admitted; the better one is an extension to download.
# How many lines a text has it guesses at some forty, and would join them one by one.
_WHERE_KNOWN: Final[dict[str, Any]] = {
    "allow_persistent_secrets": False,
    "asof_loop_join_threshold": 0,
    "force_mbedtls_unsafe": True,
    "temp_file_encryption": True,
}

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _may_be_removed(entry: os.stat_result) -> bool:
        return stat.S_ISDIR(entry.st_mode)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _may_be_removed(entry: os.stat_result) -> bool:
        """Whether it is a folder, not a link to one, that its owner, who is the user, made so."""
        private = stat.S_ISDIR(entry.st_mode) and stat.S_IMODE(entry.st_mode) == 0o700
        return private and entry.st_uid == os.getuid()


@contextmanager
def engine(file: Path | None = None) -> Iterator[DuckDBPyConnection]:
    """A connection of its own to a database in memory, or in a file, closed at the end.

    A file is only read, and queries of it read no other.

    Privacy
    -------
    Nothing is downloaded, extensions are not loaded by themselves, and no setting can be changed
    afterwards. Temporary files lie in a private folder of :func:`private_folder`.
    """
    import duckdb

    with ExitStack() as stack:
        settings = {**_SETTINGS, "temp_directory": str(stack.enter_context(private_folder()))}
        opened = duckdb.connect(str(file or ":memory:"), file is not None, settings)
        connection = stack.enter_context(opened)
        for name, value in _WHERE_KNOWN.items():
            with suppress(duckdb.CatalogException):  # an older DuckDB without the setting
                connection.execute(f"SET {name} = {value}")
        with suppress(duckdb.InvalidInputException):  # a notebook without widgets has none
            connection.execute("SET enable_progress_bar = false")  # on standard output
        if file is not None:
            connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def copy_to_parquet(
    connection: DuckDBPyConnection, path: Path, columns: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays as the columns of a Parquet file, which needs no data frame library."""
    written = dict(columns)  # noqa: F841 (DuckDB reads it below)
    target = str(path).replace("'", "''")
    connection.execute(f"COPY (SELECT * FROM written) TO '{target}' (FORMAT parquet)")


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder for the user alone, removed at the end; those of dead processes go first.

    It lies where the system keeps temporary files, which the variable TMPDIR chooses. A lock tells
    that its process is alive: unlike a process's number it is never another's, and it is seen from
    every container that shares the place.
    """
    place = Path(tempfile.gettempdir())
    _remove_left_behind(place)
    folder, lock = _locked_folder(place)
    try:
        (folder / _FILES).mkdir(mode=0o700)
        yield folder / _FILES
    finally:
        with suppress(OSError):
            rmtree(folder / _FILES)  # under the lock: what a kill leaves then still has its mark
        os.close(lock)
        if not (folder / _FILES).exists():
            rmtree(folder, ignore_errors=True)


def _locked_folder(place: Path) -> tuple[Path, int]:
    """A new folder with its mark, and the lock on that.

    Until the mark is locked the folder looks like one left behind, and a process that starts at
    this moment may remove it. Then another one is made.
    """
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        with suppress(FileNotFoundError):  # the folder, or the mark, was removed
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            lock = os.open(folder / _UNLOCKED_MARK, flags, 0o600)
            try:
                os.write(lock, _MARKED)
                _take(lock)
                (folder / _UNLOCKED_MARK).rename(folder / _MARK)
            except OSError as error:
                os.close(lock)
                if not isinstance(error, FileNotFoundError | BlockingIOError | PermissionError):
                    raise
            else:
                return folder, lock
    raise OSError(f"no folder of its own could be made in {place}")


@cache
def _remove_left_behind(place: Path) -> None:
    """Remove what killed processes of this user left, once in a process."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # it went meanwhile, or belongs to somebody else
                    _remove_if_dead(place / entry.name)


def _remove_if_dead(folder: Path) -> None:
    """Remove a folder that is ours and held by nobody; leave anything else alone.

    Its process may have been killed at any point: a folder without a mark holds no records,
    which are removed before it, and goes where it holds nothing else either.
    """
    if not _may_be_removed(folder.lstat()):
        return
    with suppress(FileNotFoundError):
        with _held(folder / _MARK) as written:
            if written != _MARKED:
                return
            with suppress(FileNotFoundError):
                rmtree(folder / _FILES)
        rmtree(folder)
        return
    with suppress(FileNotFoundError):
        with _held(folder / _UNLOCKED_MARK) as written:
            if not _MARKED.startswith(written):
                return
        (folder / _UNLOCKED_MARK).unlink()
    folder.rmdir()  # fails where something is in it


@contextmanager
def _held(mark: Path) -> Iterator[bytes]:
    """What a mark says, under its lock; an error of the system where another process holds it."""
    descriptor = os.open(mark, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        written = os.read(descriptor, len(_MARKED) + 1)
        _take(descriptor)
        yield written
    finally:
        os.close(descriptor)
