"""Who may speak to the page's server: only a page that got the key of this server.

Every program of this machine, and every page that the browser shows, can reach a port of it. So
every call must name this host (which a name that was bound anew to 127.0.0.1 does not), come from
no other origin, and bring the key in a header that no foreign page may send without asking first.
The page gets the key once, for the token in the address it was opened with: the token may be seen
in a list of processes or in a history, and is used up by then. The files of the page are the same
for everybody, and need no key.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

HEADER: Final = b"x-noiseplan-studio"
ENTER: Final = "/api/enter"
UNKNOWN: Final = "open the last address that `noiseplan studio` printed: each is good once"
MOST_BYTES: Final = 32 * 2**20
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def new_secret() -> str:
    """A secret of 256 bits."""
    return secrets.token_urlsafe(32)


def _same(given: str, secret: str) -> bool:
    """Compare two secrets in a time that says nothing of them."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


class Keys:
    """Hold the key of all calls, and the token that is changed for it once.

    Then there is a new token, with which `tell` is called.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.key, self.token = new_secret(), new_secret()
        self._tell = tell
        self._lock = threading.Lock()

    def enter(self, token: str) -> str | None:
        """Return the key for the present token, which is used up by that; None for any other."""
        with self._lock:
            if not _same(token, self.token):
                return None
            self.token = new_secret()
        with suppress(OSError):  # nobody reads what is printed any more
            self._tell(self.token)
        return self.key


@dataclass(frozen=True)
class Gate:
    """ASGI middleware: lets through what comes from the page itself, and nothing else."""

    app: Any
    key: str
    port: int
    most_bytes: int = MOST_BYTES
    hosts: frozenset[bytes] = field(init=False)
    origins: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        hosts = [f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")]
        object.__setattr__(self, "hosts", frozenset(host.encode() for host in hosts))
        origins = frozenset(f"http://{host}".encode() for host in hosts)
        object.__setattr__(self, "origins", origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no websockets here
        refusal = self.refusal(scope)
        if refusal is not None:
            await answer(send, *refusal)
        else:
            await self.app(scope, limited(receive, self.most_bytes), with_headers(send))

    def refusal(self, scope: Any) -> tuple[int, str] | None:
        """Why a call is not answered: the status and the reason; None if it is."""
        if values(scope, b"host") not in [[host] for host in self.hosts]:
            return 421, "this server answers only by its own address, 127.0.0.1 or localhost"
        if any(origin not in self.origins for origin in values(scope, b"origin")):
            return 403, "calls from other pages are not answered"
        path = scope["path"]
        # The page itself is opened from anywhere, as from the file that leads the browser to it.
        from_elsewhere = values(scope, b"sec-fetch-site") not in ([], [b"same-origin"], [b"none"])
        if from_elsewhere and path != "/":
            return 403, "calls from other pages are not answered"
        if not (path in ("/", ENTER) or path.startswith("/static/") or self.known(scope)):
            return 401, UNKNOWN
        return self.too_long(scope)

    def too_long(self, scope: Any) -> tuple[int, str] | None:
        lengths = values(scope, b"content-length")
        if lengths and (not lengths[0].isdigit() or int(lengths[0]) > self.most_bytes):
            return 413, f"at most {self.most_bytes / 2**20:g} MiB are taken at once"
        return None

    def known(self, scope: Any) -> bool:
        """Whether the call brings the key."""
        return any(_same(given.decode("latin-1"), self.key) for given in values(scope, HEADER))


def values(scope: Any, name: bytes) -> list[bytes]:
    """Everything that is sent under a header's name."""
    return [value for key, value in scope["headers"] if key == name]


def limited(receive: Any, most: int) -> Any:
    """The same messages, until there are too many bytes, whatever was announced."""
    taken = 0

    async def counted() -> Any:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise TooLong
        return message

    return counted


class TooLong(Exception):
    """More bytes came than are taken."""


def with_headers(send: Any) -> Any:
    """Every answer carries the same policy."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            names = {name for name, _ in own}
            others = [pair for pair in message["headers"] if pair[0].lower() not in names]
            message = {**message, "headers": [*others, *own]}
        await send(message)

    return sent


async def answer(send: Any, status: int, message: str) -> None:
    """A refusal as JSON."""
    body = json.dumps({"error": {"message": message}}).encode()
    await respond(send, status, {**HEADERS, "content-type": "application/json"}, body)


async def respond(send: Any, status: int, headers: dict[str, str], body: bytes) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*pairs, length]})
    await send({"type": "http.response.body", "body": body})
