"""Repeated collection: the same report for the same value.

Asked every day, a user who draws a fresh report every day gives away the truth in the end: k fresh
reports are only k·ε-private. Whoever always answers with the report drawn first spends ε once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.device.wire import TAG_BYTES, ReportError
from noiseplan.noise.randomness import Source
from noiseplan.paths import checked_path, to_disk
from noiseplan.privacy.rounding import fraction_up

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


class Memory:
    """Keeps the first report of every value, on one user's device.

    Parameters
    ----------
    randomizer
        What draws the reports.
    path
        Where to keep them between runs of the program. If left out they are in memory only, of the
        one process that made it: it cannot be copied, and a forked process cannot use it, since
        either would draw a second report of a value that was reported already.

    Privacy
    -------
    What it protects: as long as a user's value stays the same, any number of reports is
    ε-differentially private together, because they are all one report.

    What it costs: a user who had j different values has spent j·ε (`spent`), and with Gaussian
    noise j·δ (`delta`). And a report that
    changes shows that the value changed, whatever ε is: memorised reports do not hide *that*
    something changed, nor when. Where that matters, ask once, or let every round have a budget of
    its own.

    What it does not do: the reports kept on the device tell the values they belong to. Protect the
    file as you protect the value.

    Reports of the same user should not be counted twice in one aggregator: answers assume one
    report per user and round.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> memory = Memory(plan.randomizer())
    >>> memory.report(2) == memory.report(2)  # the same value has the same report, ever after
    True
    >>> memory.spent <= 1.0
    True
    """

    def __init__(self, randomizer: Randomizer, path: str | Path | None = None) -> None:
        self._randomizer = randomizer
        # Through links: of two names of one file, one would be replaced and the other not.
        self._path = None if path is None else checked_path(path, ReportError).resolve()
        self._process, self._turn = os.getpid(), Lock()
        self._reports: dict[int, bytes] = {}
        if self._path is not None and not self._path.parent.is_dir():
            raise ReportError(
                f"{str(path)!r} lies in a folder that is not there: make it first, or name another"
            )
        with self._on_disk():
            if self._path is not None and self._path.is_file() and self._path.stat().st_nlink > 1:
                raise ReportError(
                    f"{str(path)!r} is a file of several names (hard links), which would part when "
                    f"it is written; copy it, and leave the copy alone"
                )
            self._catch_up()

    def __reduce__(self) -> tuple[type[Memory], tuple[Randomizer, Path]]:
        """Copies share the file; without one there is nothing that they could share."""
        if self._path is None:
            raise ReportError(
                "a memory without a file cannot be copied or pickled, since the copy would draw "
                "reports of its own: give it a file, Memory(randomizer, path)"
            )
        return Memory, (self._randomizer, self._path)

    def __repr__(self) -> str:
        """Where reports are kept, and nothing about them: a log is no place for it."""
        where = "in memory only" if self._path is None else f"kept in {str(self._path)!r}"
        return f"Memory({self._randomizer!r}, {where})"

    def report(self, value: Any, *, source: Source | None = None) -> bytes:
        """The report of this value: drawn the first time, the same ever after."""
        key = self._key(value)
        with self._alone():
            if key not in self._reports:
                drawn = self._randomizer.report(value, source=source)
                # On the disk before it is sent: neither a crash nor a full disk may lead to a
                # second draw of a report that someone has seen.
                kept = self._reports | {key: drawn}
                with self._on_disk():
                    self._write(kept)
                self._reports = kept
            return self._reports[key]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread or program draws meanwhile, and what others drew before is known.

        A report on the disk wins over one held here: it may have been sent.
        """
        self._check_process()
        with self._turn, ExitStack() as held:
            if self._path is not None:
                with self._on_disk():
                    held.enter_context(locked(self._path))
                    self._catch_up()
            yield

    def _check_process(self) -> None:
        """Refuse to go on from a copy that `fork` made, unless the file says what was drawn."""
        if os.getpid() == self._process:
            return
        if self._path is None:
            raise ReportError(
                "a memory without a file belongs to the process that made it, since this one would "
                "draw reports of its own: give it a file, Memory(randomizer, path)"
            )
        # A thread that does not exist here may have held the lock.
        self._process, self._turn = os.getpid(), Lock()

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """What the disk refuses, in words."""
        try:
            yield
        except OSError as error:
            raise ReportError(
                f"{str(self._path)!r} cannot be read or written: {error}; nothing was reported"
            ) from None

    def _catch_up(self) -> None:
        if self._path is not None and self._path.exists():
            self._reports = self._reports | self._read(self._path)

    def _key(self, value: Any) -> int:
        """The number of the user's type, or of the cell in a domain of any size."""
        codes = self._randomizer.codes_of(self._randomizer.columns_of(value))
        cell = 0
        for name, (code,) in codes.items():
            cell = cell * self._randomizer.schema[name].size + int(code)
        cells = self._randomizer.cells
        return cell if cells is None else int(cells[cell])

    @property
    def spent(self) -> float:
        """ε of everything reported so far, rounded up: one for each different value."""
        return self._times(self._randomizer.epsilon)

    @property
    def delta(self) -> float:
        """δ of everything reported so far, rounded up; 0 but for Gaussian noise."""
        return self._times(getattr(self._randomizer, "delta", 0.0))

    def _times(self, cost: float) -> float:
        self._check_process()
        with self._turn, self._on_disk():  # files are replaced whole: reading needs no other lock
            self._catch_up()
            return fraction_up(len(self._reports) * Fraction(cost))

    def _read(self, path: Path) -> dict[int, bytes]:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            plan = str(saved["plan"])
            reports = {int(key): bytes.fromhex(text) for key, text in saved["reports"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ReportError(f"{path.name} holds no remembered reports: {error}") from None
        if plan != self._randomizer.hash:
            raise ReportError(
                f"{path.name} remembers reports of another plan ({plan[:12]}); keep one file per "
                f"plan, and count what was spent under each"
            )
        strange = [key for key, report in reports.items() if not self._could_be(key, report)]
        if strange:
            raise ReportError(
                f"{path.name} remembers what is no report of this plan, for {len(strange)} of "
                f"{len(reports)} values: the file was changed; nothing is sent from it"
            )
        return reports

    def _could_be(self, key: int, report: bytes) -> bool:
        """Whether a remembered report is one that the randomizer could have drawn."""
        made = self._randomizer
        keys = made.schema.size if made.cells is None else made.types
        tag, payload = report[:TAG_BYTES], report[TAG_BYTES:]
        if not 0 <= key < keys or tag != made.tag or len(payload) != made.payload_bytes:
            return False
        return bool(made.unpack(np.frombuffer(payload, np.uint8).reshape(1, -1))[1].all())

    def _write(self, reports: Mapping[int, bytes]) -> None:
        """Beside the old file, then in its place: a crash leaves one of the two whole."""
        if self._path is None:
            return
        texts = {str(key): report.hex() for key, report in reports.items()}
        beside = self._path.with_name(self._path.name + ".new")
        beside.unlink(missing_ok=True)
        # The reports tell the values they belong to: for the user alone to read.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"plan": self._randomizer.hash, "reports": texts}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        to_disk(self._path.parent)


# -------------------------------------------------- one program at a time, and really on the disk


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
