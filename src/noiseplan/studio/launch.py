"""Starting the planning page: a free port of this machine, a key, and the browser."""

from __future__ import annotations

import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from noiseplan.errors import MissingExtraError, NoiseplanError
from noiseplan.paths import checked_path, near_files
from noiseplan.studio.saving import checked_name

HOST: Final = "127.0.0.1"
PORT: Final = 8717
MOST_TRIES: Final = 50
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


def serve(study: Path | None, port: int | None, browser: bool, tell: Callable[[str], None]) -> None:
    """Show the page until the program is stopped."""
    require_parts()
    import uvicorn

    from noiseplan.studio.app import create
    from noiseplan.studio.calls import Studio
    from noiseplan.studio.security import new_token

    folder, name = (Path.cwd(), None) if study is None else place_of(study)
    bound, token = listening_socket(port), new_token()
    number = bound.getsockname()[1]
    address = f"http://{HOST}:{number}/?token={token}"
    app = create(Studio(folder, name), token, number)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    tell(address)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    uvicorn.Server(config).run(sockets=[bound])
