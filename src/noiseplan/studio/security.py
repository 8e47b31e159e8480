"""Who may speak to the page's server: only a page that this server gave to the browser itself.

Everything on this machine, and every page that the browser shows, can reach a port of it. So every
call must name this host (which a name that was bound anew to 127.0.0.1 does not), come from no
other origin, and bring a secret that only the page opened with the printed address has. Calls of
the page also bring a header that no foreign page may send without asking first.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

COOKIE: Final = "noiseplan-studio"
HEADER: Final = b"x-noiseplan-studio"
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


def new_token() -> str:
    """A secret of 256 bits."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Gate:
    """ASGI middleware: lets through what comes from the page itself, and nothing else."""

    app: Any
    token: str
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
        elif self.arriving(scope):
            await self.welcome(send)
        else:
            await self.app(scope, limited(receive, self.most_bytes), with_headers(send))

    def refusal(self, scope: Any) -> tuple[int, str] | None:
        """Why a call is not answered: the status and the reason; None if it is."""
        if values(scope, b"host") not in [[host] for host in self.hosts]:
            return 421, "this server answers only by its own address, 127.0.0.1 or localhost"
        if any(origin not in self.origins for origin in values(scope, b"origin")):
            return 403, "calls from other pages are not answered"
        if values(scope, b"sec-fetch-site") not in ([], [b"same-origin"], [b"none"]):
            return 403, "calls from other pages are not answered"
        if self.arriving(scope):
            return None
        if not self.known(scope):
            return 401, "open the address that `noiseplan studio` printed: it holds the key"
        if scope["path"].startswith("/api/") and values(scope, HEADER) != [b"1"]:
            return 403, "the header X-Noiseplan-Studio: 1 is missing"
        return self.too_long(scope)

    def too_long(self, scope: Any) -> tuple[int, str] | None:
        lengths = values(scope, b"content-length")
        if lengths and (not lengths[0].isdigit() or int(lengths[0]) > self.most_bytes):
            return 413, f"at most {self.most_bytes / 2**20:g} MiB are taken at once"
        return None

    def arriving(self, scope: Any) -> bool:
        """Whether somebody opens the printed address, with the right key in it."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and self.fits(given[0])

    def known(self, scope: Any) -> bool:
        """Whether the call brings the key that the page was given."""
        return any(map(self.fits, cookies(values(scope, b"cookie"), self.cookie)))

    @property
    def cookie(self) -> str:
        """The name of the cookie: two servers on this machine do not take each other's away."""
        return f"{COOKIE}-{self.port}"

    def fits(self, key: str) -> bool:
        return hmac.compare_digest(key.encode("utf-8", "replace"), self.token.encode())

    async def welcome(self, send: Any) -> None:
        """Hand the key to the browser and take it out of the address."""
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        headers = {**HEADERS, "location": "/", "set-cookie": cookie}
        await respond(send, 303, headers, b"")


def cookies(headers: Iterable[bytes], name: str) -> Iterator[str]:
    """What the cookies of a name hold; all ports of a machine share their cookies."""
    for part in b";".join(headers).split(b";"):
        key, _, value = part.decode("latin-1").strip().partition("=")
        if key == name:
            yield value


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
