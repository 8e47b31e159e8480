"""Plans that are made in the background: in processes that can be killed, one always warm.

Planning holds Python's lock for seconds, and no thread can be stopped. So every job runs in a
process of its own kind (`worker.py`); cancelling kills it, and another is started ahead. A new plan
of one page takes the place of its older ones, whose texts nobody sees any more.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from noiseplan.studio.public_files import Desk

KINDS: Final = ("plan", "effects")
MOST_RUNNING: Final = 2
MOST_WORKERS: Final = 3
MOST_WAITING: Final = 50
KEPT_JOBS: Final = 50
KEPT_RESULTS: Final = 32
# -P: nothing is imported from the folder in which the server was started.
PYTHON: Final = (sys.executable, "-P", "-m")


class Worker:
    """A process that plans, and the thread that hears it."""

    def __init__(self, hear: Callable[[Worker, dict[str, Any] | None], None]) -> None:
        self.job: Job | None = None
        self.ready = threading.Event()
        self.process = subprocess.Popen(
            [*PYTHON, "noiseplan.studio.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        threading.Thread(target=self._listen, args=(hear,), daemon=True).start()

    def _listen(self, hear: Callable[[Worker, dict[str, Any] | None], None]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as reports:
            for line in reports:
                report = json.loads(line)
                if "ready" in report:
                    self.ready.set()
                else:
                    hear(self, report)
        self.process.wait()
        self._hang_up()
        hear(self, None)

    def order(self, job: Job, order: dict[str, Any]) -> None:
        """Give it something to do."""
        self.job = job
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended, which its listener tells
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self._hang_up()

    def _hang_up(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # of what was written and not read
            self.process.stdin.close()


@dataclass
class Job:
    """Something asked for, and what has become of it."""

    kind: str
    key: Hashable
    order: dict[str, Any]
    client: str = ""
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"
    message: str = "waiting"
    fraction: float | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    started: float = field(default_factory=monotonic)
    ended: float | None = None
    lasting: bool = False  # no worker's, and not to be stopped

    @property
    def over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    def end(self, state: str) -> None:
        if not self.over:
            self.state, self.ended = state, monotonic()
            self.order = {}  # whole texts, which nobody needs any more

    def view(self) -> dict[str, Any]:
        """How it stands."""
        seconds = (self.ended or monotonic()) - self.started
        progress = {"message": self.message, "fraction": self.fraction, "seconds": seconds}
        return {
            "job": self.number,
            "kind": self.kind,
            "state": self.state,
            "progress": progress,
            "result": self.result,
            "error": self.error,
        }


def _key(kind: str, what: dict[str, Any], desk: Desk) -> str:
    """What a result depends on, in few bytes: texts are long, and results are kept."""
    whole = json.dumps([kind, what, desk.key()], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


class Jobs:
    """All jobs of a server, and the processes that do them."""

    def __init__(self, most_running: int = MOST_RUNNING) -> None:
        self.lock = threading.RLock()
        self.ended = threading.Condition(self.lock)
        self.most_running = most_running
        self.workers: list[Worker] = []
        self.waiting: deque[Job] = deque()
        self.jobs: OrderedDict[str, Job] = OrderedDict()
        self.results: OrderedDict[Hashable, Any] = OrderedDict()
        self.closed = False

    # ------------------------------------------------------------------ asking

    def ask(self, kind: str, text: str, desk: Desk, client: str = "") -> Job:
        """Have something planned; the same text again gives the same result at once."""
        return self.order(kind, {"text": text}, desk, client)

    def order(self, kind: str, what: dict[str, Any], desk: Desk, client: str = "") -> Job:
        """The same of anything that a process of ours does."""
        key = _key(kind, what, desk)
        job = Job(kind, key, {"kind": kind, **what, **desk.order()}, client)
        with self.lock:
            running = self._same(job)
            if running is not None:
                return running
            self._supersede(job)
            self._keep(job)
            if key in self.results:
                self.results.move_to_end(key)
                job.result = self.results[key]
                job.end("done")
            else:
                self._enqueue(job)
        return job

    def _enqueue(self, job: Job) -> None:
        if len(self.waiting) >= MOST_WAITING:
            job.error = {"message": "too many plans are waiting; cancel some, or try again later"}
            job.end("failed")
            return
        self.waiting.append(job)
        self._distribute()

    def _same(self, job: Job) -> Job | None:
        """The job of the same page that does just this already."""
        alike = (each for each in self.jobs.values() if each.key == job.key and not each.over)
        return next((each for each in alike if each.client == job.client), None)

    def _supersede(self, job: Job) -> None:
        """End what the same page asked before: its plans, and whatever is of another text."""
        if not job.client:
            return
        for each in list(self.jobs.values()):
            mine = each.client == job.client and not (each.lasting or each.over)
            if mine and (each.kind == job.kind or each.order.get("text") != job.order.get("text")):
                self.cancel(each)

    def _keep(self, job: Job) -> None:
        self.jobs[job.number] = job
        for number in [number for number, each in self.jobs.items() if each.over]:
            if len(self.jobs) <= KEPT_JOBS:
                break
            del self.jobs[number]

    def run(self, job: Job) -> None:
        """Keep a job that somebody else does."""
        with self.lock:
            job.state = "running"
            self._keep(job)

    def wait(self, job: Job) -> Job:
        """Until a job is over; what it refuses is refused here."""
        with self.ended:
            self.ended.wait_for(lambda: job.over or self.closed)
        return job

    def find(self, number: str) -> Job | None:
        with self.lock:
            return self.jobs.get(number)

    # ------------------------------------------------------------------ doing

    def warm(self) -> None:
        """Start a process ahead, so that the first plan need not wait for it."""
        with self.lock:
            busy = [worker for worker in self.workers if worker.job is not None]
            spare = len(self.workers) - len(busy)
            if not self.closed and not spare and len(self.workers) < MOST_WORKERS:
                self.workers.append(Worker(self._hear))

    def _distribute(self) -> None:
        """Give waiting jobs to processes that have nothing to do; the warm ones first."""
        while self.waiting and not self.closed:
            busy = [worker for worker in self.workers if worker.job is not None]
            if len(busy) >= self.most_running:
                return
            self.warm()
            idle = [worker for worker in self.workers if worker.job is None]
            worker = max(idle, key=lambda each: each.ready.is_set())
            job = self.waiting.popleft()
            job.state, job.message, job.started = "running", "planning", monotonic()
            worker.order(job, {"job": job.number, **job.order})
            self.warm()

    def _hear(self, worker: Worker, report: dict[str, Any] | None) -> None:
        """A process tells how far it is, or has ended."""
        with self.lock:
            job = worker.job
            if report is None:
                self._lost(worker)
            elif job is not None and report["job"] == job.number and not job.over:
                self._note(job, report)
                if job.over:
                    worker.job = None
                    self._distribute()

    def _note(self, job: Job, report: dict[str, Any]) -> None:
        if "progress" in report:
            job.message = report["progress"]["message"]
            job.fraction = report["progress"]["fraction"]
        if "result" in report:
            job.result = report["result"]
        job.error = report.get("error")
        if "state" in report:
            job.end(report["state"])
            self.ended.notify_all()
        if job.state == "done":
            self.results[job.key] = job.result
            while len(self.results) > KEPT_RESULTS:
                self.results.popitem(last=False)

    def _lost(self, worker: Worker) -> None:
        """A process has ended: killed by us, or by the system, say for its memory."""
        if worker in self.workers:
            self.workers.remove(worker)
        if worker.job is not None and not worker.job.over:
            worker.job.error = {
                "message": "the process that planned this ended before it was done; it may have "
                "needed more memory than there is"
            }
            worker.job.end("failed")
            self.ended.notify_all()
        self._distribute()

    # ------------------------------------------------------------------ ending

    def cancel(self, job: Job) -> None:
        """End a job at once."""
        with self.lock:
            if job.over or job.lasting:
                return
            job.end("cancelled")
            self.ended.notify_all()
            if job in self.waiting:
                self.waiting.remove(job)
            for worker in [worker for worker in self.workers if worker.job is job]:
                self.workers.remove(worker)
                worker.kill()
            self.warm()
            self._distribute()

    def close(self) -> None:
        """End all of it; a release that has begun goes on to its end."""
        with self.lock:
            self.closed = True
            self.ended.notify_all()
            workers, self.workers = self.workers, []
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.process.wait()
