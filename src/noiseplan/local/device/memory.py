"""Repeated collection: the same report for the same value.

Asked every day, a user who draws a fresh report every day gives away the truth in the end: k fresh
reports are only k·ε-private. Whoever always answers with the report drawn first spends ε once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.device.wire import ReportError
from noiseplan.noise.randomness import Source
from noiseplan.privacy.rounding import fraction_up


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

    What it costs: a user who had j different values has spent j·ε (`spent`), and with Gaussian
    noise j·δ. And a report that
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
        key = self._key(value)
        if key not in self._reports:
            drawn = self._randomizer.report(value, source=source)
            # On the disk before it is sent: neither a crash nor a full disk may lead to a second
            # draw of a report that someone has seen.
            self._write(self._reports | {key: drawn})
            self._reports[key] = drawn
        return self._reports[key]

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
        return fraction_up(len(self._reports) * Fraction(self._randomizer.epsilon))

    def _read(self, path: Path) -> dict[int, bytes]:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            plan = str(saved["plan"])
            reports = {int(key): bytes.fromhex(text) for key, text in saved["reports"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReportError(f"{path.name} holds no remembered reports: {error}") from None
        if plan != self._randomizer.hash:
            raise ReportError(
                f"{path.name} remembers reports of another plan ({plan[:12]}); keep one file per "
                f"plan, and count what was spent under each"
            )
        return reports

    def _write(self, reports: Mapping[int, bytes]) -> None:
        """Beside the old file, then in its place: a crash leaves one of the two whole."""
        if self._path is None:
            return
        texts = {str(key): report.hex() for key, report in reports.items()}
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump({"plan": self._randomizer.hash, "reports": texts}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
