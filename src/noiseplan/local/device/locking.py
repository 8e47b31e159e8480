"""Files that several programs on one device write: one at a time, and really on the disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time

    def _take(descriptor: int) -> None:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except OSError:
                time.sleep(0.01)
            else:
                return

    def _leave(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _leave(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock that belongs to a file, and hold it.

    It lies beside the file: the file itself is replaced when it is written, and a lock on what was
    replaced would keep nobody out. Locks on network folders are not to be trusted.
    """
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor)
        try:
            yield
        finally:
            _leave(descriptor)
    finally:
        os.close(descriptor)


def names_to_disk(folder: Path) -> None:
    """Wait until a folder's list of names is on the disk, where the system can say so.

    The same as `noiseplan.storage.files.to_disk`, without what a device need not load.
    """
    with suppress(OSError):  # folders cannot be opened on some systems
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
