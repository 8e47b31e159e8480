"""Repeated collection: the same report for the same value.

Asked every day, a user who draws a fresh report every day gives away the truth in the end: k fresh
reports are only k·ε-private. Whoever always answers with the report drawn first spends ε once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noiseplan.local.randomizer import Randomizer
from noiseplan.local.wire import ReportError
from noiseplan.noise.randomness import Source


class Memory:
    """Keeps the first report of every value, on one user's device.

    Parameters
    ----------
    randomizer
        What draws the reports.
    path
        Where to keep them between runs of the program; in memory only if left out.

    Privacy
    -------
    What it protects: as long as a user's value stays the same, any number of reports is
    ε-differentially private together, because they are all one report.

    What it costs: a user who had j different values has spent j·ε (`spent`). And a report that
    changes shows that the value changed, whatever ε is: memorised reports do not hide *that*
    something changed, nor when. Where that matters, ask once, or let every round have a budget of
    its own.

    What it does not do: the reports kept on the device tell the values they belong to. Protect the
    file as you protect the value.

    Reports of the same user should not be counted twice in one aggregator: answers assume one
    report per user and round.
    """

    def __init__(self, randomizer: Randomizer, path: str | Path | None = None) -> None:
        self._randomizer = randomizer
        self._path = None if path is None else Path(path)
        self._reports: dict[int, bytes] = {}
        if self._path is not None and self._path.exists():
            self._reports = self._read(self._path)

    def report(self, value: Any, *, source: Source | None = None) -> bytes:
        """The report of this value: drawn the first time, the same ever after."""
        row = value if isinstance(value, Mapping) else {self._randomizer.schema.names[0]: value}
        columns = {name: [one] for name, one in row.items()}
        (kind,) = self._randomizer.types_of(columns).tolist()
        if kind not in self._reports:
            drawn = self._randomizer.report(value, source=source)
            self._reports[kind] = drawn
            self._write()  # before it is sent: a crash must not lead to a second draw
        return self._reports[kind]

    @property
    def spent(self) -> float:
        """ε of everything reported so far: one for each different value."""
        return len(self._reports) * self._randomizer.epsilon

    def _read(self, path: Path) -> dict[int, bytes]:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            plan, reports = saved["plan"], saved["reports"]
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path.name} holds no remembered reports: {error}") from None
        if plan != self._randomizer.hash:
            raise ReportError(
                f"{path.name} remembers reports of another plan ({plan[:12]}); keep one file per "
                f"plan, and count what was spent under each"
            )
        return {int(kind): bytes.fromhex(report) for kind, report in reports.items()}

    def _write(self) -> None:
        if self._path is None:
            return
        reports = {str(kind): report.hex() for kind, report in self._reports.items()}
        text = json.dumps({"plan": self._randomizer.hash, "reports": reports})
        beside = self._path.with_name(self._path.name + ".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._path)
