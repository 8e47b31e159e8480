"""A release from the page: asked for, confirmed by a word, and done by the command line.

The studio itself never opens data. It says what will be spent and where it is recorded, gives out a
number that is good once and for five minutes, and then runs `noiseplan release` as anybody would,
in a process of its own: with the same checks, the same ledger, and the same messages.
"""

from __future__ import annotations

import hmac
import secrets
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any, Final

from noiseplan.errors import StorageError
from noiseplan.studio import saving
from noiseplan.studio.jobs import PYTHON, Job, Jobs
from noiseplan.study import Study

SECONDS: Final = 300.0
WORD: Final = "release"
MOST_ASKED: Final = 20


@dataclass(frozen=True)
class Asked:
    """A release that was asked for: what will run, and until when it may be confirmed."""

    name: str
    digest: str
    command: tuple[str, ...]
    until: float


@dataclass
class Releases:
    """Releases that were asked for and not confirmed yet."""

    folder: Path
    asked: dict[str, Asked] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, file: saving.Found, study: Study, data: str, out: str) -> dict[str, Any]:
        """What a release would do; nothing is done, and no data is read."""
        command = ("release", file.name, _argument(data, "data"), "-o", _argument(out, "out"))
        nonce = secrets.token_urlsafe(16)
        with self.lock:
            self._forget()
            confirmed = (*command, "--confirmed", study.digest())
            self.asked[nonce] = Asked(file.name, file.digest, confirmed, monotonic() + SECONDS)
        shown = "noiseplan " + join(command)
        return {"nonce": nonce, "word": WORD, "words": words(study, file.name, out, shown)}

    def confirm(self, nonce: object, typed: object, jobs: Jobs) -> Job:
        """Run what was asked for, once, if the word was typed and the study is still the same."""
        with self.lock:
            self._forget()
            asked = self.asked.pop(str(nonce), None)
        if asked is None:
            raise StorageError("this was not asked for, or too long ago; ask again")
        if not isinstance(typed, str) or not hmac.compare_digest(typed.encode(), WORD.encode()):
            raise StorageError(f"type the word {WORD!r} to confirm; nothing was done. Ask again")
        there = saving.read_file(self.folder, asked.name)
        if there is None or there.digest != asked.digest:
            raise StorageError(f"{asked.name!r} was changed since; nothing was done. Ask again")
        return run(asked.command, self.folder, jobs)

    def _forget(self) -> None:
        now = monotonic()
        for nonce in [nonce for nonce, each in self.asked.items() if each.until < now]:
            del self.asked[nonce]
        while len(self.asked) >= MOST_ASKED:
            del self.asked[next(iter(self.asked))]


def _argument(text: object, what: str) -> str:
    """A path for the command line, which nobody may take for an option."""
    if not isinstance(text, str) or not text.strip() or "\0" in text or "\n" in text:
        raise StorageError(f"{what}: name a path")
    return f"./{text}" if text.startswith("-") else text


def words(study: Study, name: str, out: str, command: str) -> list[str]:
    """What a release will do, for whoever decides."""
    spent = (
        f"It spends {study.budget}, once and for good."
        if study.budget is not None
        else "It spends the least that its targets need, which the plan tells, once and for good."
    )
    ledger = study.ledger
    assert ledger is not None  # others are refused
    recorded = (
        f"It is recorded in the ledger {ledger.path.name!r}, for {ledger.dataset!r}, before any "
        f"noise is drawn; a release that does not fit there is refused."
    )
    return [
        f"The study is {name!r}, as it is saved.",
        spent,
        recorded,
        f"The tables are written into the new folder {out!r}.",
        f"This will run: {command}",
    ]


def run(command: Sequence[str], folder: Path, jobs: Jobs) -> Job:
    """The command line in a process of its own; what it prints comes back at the end.

    It goes on to its end whatever becomes of the studio: a release that is stopped after it was
    charged would be paid for and lost. So it is in a session of its own, which Ctrl-C does not
    reach, and prints into a file, which nobody closes.
    """
    output = TemporaryFile()  # noqa: SIM115  # closed by who follows the process
    process = subprocess.Popen(
        [*PYTHON, "noiseplan", *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    order = {"text": "", "command": list(command)}
    job = Job("release", ("release", secrets.token_hex(8)), order, lasting=True)
    job.message = "releasing"
    jobs.run(job)
    threading.Thread(target=_follow, args=(process, output, job, jobs), daemon=True).start()
    return job


def _follow(process: subprocess.Popen[bytes], printed: IO[bytes], job: Job, jobs: Jobs) -> None:
    process.wait()
    with printed:
        printed.seek(0)
        output = printed.read().decode("utf-8", "replace")
    with jobs.lock:
        job.result = {"output": output, "exit_code": process.returncode}
        if process.returncode:
            job.error = {"message": output.strip() or f"exit code {process.returncode}"}
        job.end("failed" if process.returncode else "done")
        jobs.ended.notify_all()
