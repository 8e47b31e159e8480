"""The server of the planning page: files, calls in threads, and answers as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from noiseplan.errors import NoiseplanError
from noiseplan.studio import saving
from noiseplan.studio.calls import CALLS, Answer, BadCall, Body, Studio, start
from noiseplan.studio.security import ENTER, UNKNOWN, Gate, Keys, TooLong

STATIC: Final = Path(__file__).with_name("static")
DEEPEST: Final = 60  # lists within lists: more is no study, and would exhaust the readers

Endpoint = Callable[[Request], Awaitable[Response]]


def create(studio: Studio, keys: Keys, port: int) -> Gate:
    """The whole server, behind its gate."""
    posts = [Route(path, _post(studio, call), methods=["POST"]) for path, call in CALLS.items()]
    routes = [
        Route("/", page),
        Route(ENTER, _enter(keys), methods=["POST"]),
        Route("/api/start", _get(studio)),
        *posts,
        Route("/api/jobs/{number}", _job(studio), methods=["GET", "DELETE"]),
        Route("/static/look.css", look),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        studio.jobs.warm()
        threading.Thread(target=_prepare, daemon=True).start()
        yield
        await run_in_threadpool(studio.jobs.close)

    handlers: dict[Any, Any] = {HTTPException: refused, TooLong: too_long, Exception: unexpected}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Gate(app, keys.key, port)


def _prepare() -> None:
    """Import what the first calls need, while the page is still being fetched."""
    from noiseplan.studio import beginnings, editing, privacy_view, views  # noqa: F401


# ---------------------------------------------------------------------- calls and answers


def _enter(keys: Keys) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            body = body_of(await request.body())
        except BadCall as error:
            return _error(400, {"message": error.message})
        key = await run_in_threadpool(keys.enter, str(body.get("token")))
        return _error(401, {"message": UNKNOWN}) if key is None else JSON({"key": key})

    return endpoint


def _get(studio: Studio) -> Endpoint:
    async def endpoint(_: Request) -> Response:
        return await _answered(lambda: start(studio))

    return endpoint


def _post(studio: Studio, call: Callable[[Studio, Body], Answer]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        content = await request.body()
        return await _answered(lambda: call(studio, body_of(content)))

    return endpoint


def _job(studio: Studio) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        job = studio.jobs.find(request.path_params["number"])
        if job is None:
            return _error(404, {"message": "no such job; the server may have been started again"})
        if request.method == "DELETE" and job.lasting:
            return _error(409, {"message": "a release that has begun goes on to its end"})
        if request.method == "DELETE":
            await run_in_threadpool(studio.jobs.cancel, job)
        return JSON(job.view())

    return endpoint


class JSON(JSONResponse):
    """JSON without NaN, which pages cannot read; dates and paths as text."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)
        return text.encode("utf-8", "backslashreplace")


async def _answered(work: Callable[[], Answer]) -> Response:
    """What a call returns, or what it refuses, as JSON."""
    try:
        return JSON(await run_in_threadpool(work))
    except saving.Changed as error:
        return _error(409, {"message": error.message, "file": error.found.view()})
    except NoiseplanError as error:
        from noiseplan.studio.views import problem

        return _error(400 if isinstance(error, BadCall) else 422, problem(error))
    except OSError as error:
        return _error(422, {"message": f"{error.strerror or error}"})


def _error(status: int, content: dict[str, Any]) -> Response:
    return JSON({"error": content}, status_code=status)


async def refused(_: Request, error: Exception) -> Response:
    """A path or a method that is not there."""
    assert isinstance(error, HTTPException)
    return _error(error.status_code, {"message": error.detail})


async def too_long(_: Request, __: Exception) -> Response:
    return _error(413, {"message": "too many bytes at once"})


async def unexpected(_: Request, error: Exception) -> Response:
    """A fault of ours: its name for a report, and no more of the inside."""
    return _error(500, {"message": f"unexpected fault in the server: {type(error).__name__}"})


def body_of(content: bytes) -> Body:
    """What the page sent: an object of JSON."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise BadCall("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadCall("the body is an object of JSON")
    if _depth(body) > DEEPEST:
        raise BadCall("nested too deeply to be a study")
    _require_unicode(body)
    return body


def _require_unicode(body: Body) -> None:
    """Refuse halves of characters, which JSON can write and no file can hold."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadCall("a text of the call is not valid Unicode") from None


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


async def look(_: Request) -> Response:
    """The colours and type of all pages."""
    css = files("noiseplan.draw").joinpath("look.css").read_bytes()
    return Response(css, media_type="text/css")


async def page(_: Request) -> Response:
    """The page itself, the same for everybody."""
    file = STATIC / "index.html"
    if not file.is_file():
        return _error(404, {"message": "the page is not installed"})
    return Response(file.read_bytes(), media_type="text/html")
