"""The server of the planning page: every call carries the text of the study it is about."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from noiseplan import __version__
from noiseplan.errors import NoiseplanError
from noiseplan.studio import saving
from noiseplan.studio.desk import Desk, files_named
from noiseplan.studio.jobs import KINDS, Job, Jobs
from noiseplan.studio.security import Gate, TooLong

STATIC: Final = Path(__file__).with_name("static")
DEFAULT_NAME: Final = "study.toml"
DEEPEST: Final = 60  # lists within lists: more is no study, and would exhaust the readers


@dataclass
class Studio:
    """What the server knows: a folder, the study it was started with, and the jobs under way."""

    folder: Path
    name: str | None = None
    jobs: Jobs = field(default_factory=Jobs)

    def desk(self, body: dict[str, Any]) -> Desk:
        """Where the study of a call lies, with the files that may be read for it.

        Those are public that the study on the disk names, since somebody put it there, and those
        that the user of the page has called public.
        """
        named = body.get("public", [])
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            raise BadCall("public is a list of names of files")
        name = self.name or DEFAULT_NAME
        return Desk(self.folder, name, frozenset(named) | self.named_on_disk())

    def named_on_disk(self) -> frozenset[str]:
        """The code lists of the study that the server was started with."""
        import tomllib

        there = None if self.name is None else saving.read_file(self.folder, self.name)
        try:
            return (
                frozenset() if there is None else frozenset(files_named(tomllib.loads(there.text)))
            )
        except (tomllib.TOMLDecodeError, RecursionError):
            return frozenset()


class BadCall(NoiseplanError, ValueError):
    """A call that is not as the page makes them."""


Answer = dict[str, Any]
Handler = Callable[[Studio, dict[str, Any]], Answer]


def create(studio: Studio, token: str, port: int) -> Gate:
    """The whole server, behind its gate."""
    calls: dict[str, Handler] = {
        "/api/read": read,
        "/api/edit": edit,
        "/api/privacy": privacy,
        "/api/privacy/range": privacy_range,
        "/api/jobs": ask_job,
        "/api/save": save,
    }
    routes = [
        Route("/", page),
        Route("/api/start", _get(studio, start)),
        *(Route(path, _post(studio, handler), methods=["POST"]) for path, handler in calls.items()),
        Route("/api/jobs/{number}", _job(studio), methods=["GET", "DELETE"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        studio.jobs.warm()
        yield
        await run_in_threadpool(studio.jobs.close)

    handlers: dict[Any, Any] = {
        HTTPException: refused_call,
        TooLong: too_long,
        Exception: unexpected,
    }
    return Gate(
        Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers), token, port
    )


# ---------------------------------------------------------------------- calls and answers


def _get(
    studio: Studio, handler: Callable[[Studio], Answer]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_: Request) -> Response:
        return await _answered(lambda: handler(studio))

    return endpoint


def _post(studio: Studio, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        content = await request.body()
        return await _answered(lambda: handler(studio, body_of(content)))

    return endpoint


def _job(studio: Studio) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        job = studio.jobs.find(request.path_params["number"])
        if job is None:
            return _error(404, {"message": "no such job; the server may have been started again"})
        if request.method == "DELETE":
            await run_in_threadpool(studio.jobs.cancel, job)
        return JSON(job.view())

    return endpoint


class JSON(JSONResponse):
    """JSON without NaN, which pages cannot read; dates and paths as text."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str).encode(
            "utf-8", "backslashreplace"
        )


async def _answered(work: Callable[[], Answer]) -> Response:
    """What a handler returns, or what it refuses, as JSON."""
    try:
        return JSON(await run_in_threadpool(work))
    except saving.Changed as error:
        found = {"name": error.found.name, "text": error.found.text, "digest": error.found.digest}
        return _error(409, {"message": error.message, "file": found})
    except NoiseplanError as error:
        from noiseplan.studio.views import problem

        return _error(422, problem(error))
    except OSError as error:
        return _error(422, {"message": f"{error.strerror or error}"})


def _error(status: int, content: dict[str, Any]) -> Response:
    return JSON({"error": content}, status_code=status)


async def refused_call(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, {"message": error.detail})


async def too_long(_: Request, __: Exception) -> Response:
    return _error(413, {"message": "too many bytes at once"})


async def unexpected(_: Request, error: Exception) -> Response:
    """A fault of ours: its name for a report, and no more of the inside."""
    return _error(500, {"message": f"unexpected fault in the server: {type(error).__name__}"})


def body_of(content: bytes) -> dict[str, Any]:
    """What the page sent: an object of JSON."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise BadCall("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadCall("the body is an object of JSON")
    if _depth(body) > DEEPEST:
        raise BadCall("nested too deeply to be a study")
    return body


def _depth(value: object) -> int:
    """How deep lists and objects stand in each other, without recursion."""
    depth, level = 0, [value]
    while level:
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        depth, level = depth + 1, inner
    return depth


def text_of(body: dict[str, Any], key: str = "text") -> str:
    """A text that the call must carry."""
    text = body.get(key)
    if not isinstance(text, str):
        raise BadCall(f"{key} is missing: a text")
    return text


# ---------------------------------------------------------------------- the page


async def page(_: Request) -> Response:
    """The page itself, the same for everybody."""
    file = STATIC / "index.html"
    if not file.is_file():
        return _error(404, {"message": "the page is not installed"})
    return Response(file.read_bytes(), media_type="text/html")


def start(studio: Studio) -> Answer:
    """What the page begins with: the study that was named, and examples."""
    from noiseplan.studio.beginnings import examples

    file = None if studio.name is None else saving.read_file(studio.folder, studio.name)
    return {
        "version": __version__,
        "file": None
        if file is None
        else {"name": file.name, "text": file.text, "digest": file.digest},
        "name": studio.name or DEFAULT_NAME,
        "folder": str(studio.folder),
        "examples": examples(),
    }


def read(studio: Studio, body: dict[str, Any]) -> Answer:
    from noiseplan.studio.views import view

    return view(text_of(body), studio.desk(body))


def edit(studio: Studio, body: dict[str, Any]) -> Answer:
    from noiseplan.studio.editing import edited
    from noiseplan.studio.views import view

    design = body.get("design")
    if not isinstance(design, dict):
        raise BadCall("design is missing: the study as an object")
    return view(edited(text_of(body), design), studio.desk(body))


def privacy(studio: Studio, body: dict[str, Any]) -> Answer:
    from noiseplan.studio.privacy_view import asked_privacy, study_privacy

    if "text" not in body:
        return asked_privacy(body)
    found = study_privacy(studio.desk(body).study(text_of(body)))
    if found is None:
        raise BadCall("the study has no budget: its targets decide the cost, once it is planned")
    return found


def privacy_range(_: Studio, body: dict[str, Any]) -> Answer:
    from noiseplan.studio import privacy_view

    delta = body.get("delta")
    return privacy_view.privacy_range(
        text_of(body, "currency"), None if delta is None else float(delta)
    )


def ask_job(studio: Studio, body: dict[str, Any]) -> Answer:
    kind, client = text_of(body, "kind"), str(body.get("client", ""))
    if kind not in KINDS:
        raise BadCall(f"no kind of job is called {kind!r}; there are {', '.join(KINDS)}")
    job: Job = studio.jobs.ask(kind, text_of(body), studio.desk(body), client)
    return job.view()


def save(studio: Studio, body: dict[str, Any]) -> Answer:
    digest = body.get("digest")
    if digest is not None and not isinstance(digest, str):
        raise BadCall("digest is a text, or null for a new file")
    name = saving.checked_name(body.get("name"))
    written = saving.save(studio.folder, name, text_of(body), digest, body.get("replace") is True)
    return {"name": name, "digest": written}
