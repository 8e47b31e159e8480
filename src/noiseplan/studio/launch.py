"""Starting the planning page: a free port of this machine, an address good once, the browser."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from noiseplan.errors import MissingExtraError, NoiseplanError
from noiseplan.paths import checked_path, near_files
from noiseplan.studio.saving import checked_name

HOST: Final = "127.0.0.1"
PORT: Final = 8717
MOST_TRIES: Final = 50
FORWARDING: Final = """\
<!doctype html>
<meta charset="utf-8">
<title>noiseplan studio</title>
<meta http-equiv="refresh" content="0; url={address}">
<p><a href="{address}">Go on to the studio</a></p>
"""
SECONDS_TO_END: Final = 5  # for calls under way, once the program is stopped


def require_parts() -> None:
    """Refuse to start without what the page needs, and say how to get it."""
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn", "tomlkit") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the planning page needs {', '.join(missing)}: pip install 'noiseplan[studio]'"
        )


def listening_socket(port: int | None) -> socket.socket:
    """A socket of this machine alone: at the port asked for, or the first free one."""
    tries = [port] if port is not None else [*range(PORT, PORT + MOST_TRIES), 0]
    for number in tries:
        # Named as TCP, its connections send at once; else every answer waits 40 ms for the page.
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # a port that was left just now: drafts in the browser belong to it
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            found.bind((HOST, number))
            found.listen(128)
            return found
        found.close()
    raise NoiseplanError(f"port {port} is taken; leave out --port, and a free one is found")


def place_of(study: Path) -> tuple[Path, str]:
    """The folder and the name of a study that is there, wherever a link to it leads."""
    path = checked_path(study, NoiseplanError)
    if not path.is_file():
        found = "is a folder" if path.is_dir() else f"is not there{near_files(path)}"
        raise NoiseplanError(
            f"the study {str(path)!r} {found}; without one the page begins empty: noiseplan studio"
        )
    path = path.resolve()
    return path.parent, checked_name(path.name)


def named_data(names: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Name data as a command in the study's folder does; refuse files that are not there."""
    for name in names:
        pattern = any(sign in name for sign in "*?[")
        if not (pattern or checked_path(name, NoiseplanError).is_file()):
            raise NoiseplanError(f"--data {name!r}: there is no such file{near_files(Path(name))}")
    here = Path.cwd()
    return tuple(name if here == folder else str(here / name) for name in names)


@contextmanager
def forwarding(address: str) -> Iterator[Path]:
    """Write a page for the user alone that leads a browser to an address; remove it at the end.

    What a browser is started with is seen by every user of the machine: this is the name of the
    page, and not the address.
    """
    handle, name = tempfile.mkstemp(prefix="noiseplan-studio-", suffix=".html")  # of mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(FORWARDING.format(address=address))
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def serve(
    study: Path | None,
    port: int | None,
    browser: bool,
    data: Sequence[str],
    tell: Callable[[str], None],
) -> None:
    """Show the page until the program is stopped; `tell` is called with each address to open."""
    require_parts()
    import uvicorn

    from noiseplan.studio.app import create
    from noiseplan.studio.calls import Studio
    from noiseplan.studio.security import Keys

    folder, name = (Path.cwd(), None) if study is None else place_of(study)
    studio = Studio(folder, name, data=named_data(data, folder))
    bound = listening_socket(port)
    number = bound.getsockname()[1]

    def address(token: str) -> str:
        return f"http://{HOST}:{number}/#token={token}"

    pages: list[Path] = []

    def used(token: str) -> None:
        for page in pages:
            page.unlink(missing_ok=True)
        tell(address(token))

    keys = Keys(used)
    config = uvicorn.Config(
        create(studio, keys, number),
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    tell(address(keys.token))
    with forwarding(address(keys.token)) if browser else nullcontext() as page:
        if page is not None:
            pages.append(page)
            opened = (page.as_uri(),)
            threading.Thread(target=webbrowser.open, args=opened, daemon=True).start()
        uvicorn.Server(config).run(sockets=[bound])
