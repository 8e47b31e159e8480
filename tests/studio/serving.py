"""A studio that really listens, and a client that speaks to it as a page does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import uvicorn

from noiseplan.studio.app import create
from noiseplan.studio.calls import Studio
from noiseplan.studio.jobs import Jobs
from noiseplan.studio.launch import listening_socket
from noiseplan.studio.security import Keys

PATIENCE = 120.0
# A study that is planned for minutes: long enough to be cancelled.
NAMES = [f"a{number}" for number in range(24)]
ENDLESS = f"""\
[schema]
{"".join(f"{name} = {{ ordinal = {{ from = 1, to = 50 }} }}{chr(10)}" for name in NAMES)}
[[tables]]
up_to = 3
factors = {{ {", ".join(f"{name} = 'ranges'" for name in NAMES)} }}
[plan]
objective = "worst"
[budget]
zcdp = 0.5
"""


class Page:
    """What a page may do: calls with its key, in the header of the page."""

    def __init__(self, studio: Studio, port: int, keys: Keys) -> None:
        self.studio, self.port, self.keys = studio, port, keys
        self.headers = {"Host": f"127.0.0.1:{port}", "X-Noiseplan-Studio": keys.key}

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str | None] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """A call with some headers changed, or left out."""
        sent = {name: text for name, text in (self.headers | (headers or {})).items() if text}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a call that must succeed."""
        status, _, content = self.call(method, path, body)
        assert status == 200, content
        return json.loads(content)

    def post(self, path: str, **body: Any) -> Any:
        return self.json("POST", path, body)

    def refused(self, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        """The refusal of a call that must not succeed."""
        status, _, content = self.call("POST", path, body)
        assert 400 <= status < 500, content
        return status, json.loads(content)["error"]

    def ended(self, job: str) -> Any:
        """A job once it is over."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            now = self.json("GET", f"/api/jobs/{job}")
            if now["state"] in ("done", "failed", "cancelled"):
                return now
            time.sleep(0.02)
        raise AssertionError(f"the job is still {now}")

    def plan(self, text: str, kind: str = "plan", **more: Any) -> Any:
        """The result of a job that must succeed."""
        now = self.ended(self.post("/api/jobs", kind=kind, text=text, **more)["job"])
        assert now["state"] == "done", now
        return now["result"]


class WhenAsked(Jobs):
    """Starts a process when something is to be planned and none ahead: most tests plan nothing."""

    def warm(self) -> None:
        if self.waiting:
            super().warm()


@contextmanager
def served(
    folder: Path, name: str | None = None, jobs: Jobs | None = None, data: tuple[str, ...] = ()
) -> Iterator[Page]:
    """A studio in a thread of this process, with planning processes of its own."""
    bound, keys = listening_socket(0), Keys(lambda token: None)
    port = bound.getsockname()[1]
    studio = Studio(folder, name, jobs or WhenAsked(), data)
    config = uvicorn.Config(
        create(studio, keys, port), log_level="critical", ws="none", lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield Page(studio, port, keys)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
