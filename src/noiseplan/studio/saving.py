"""Saving a study by name, in one folder, without overwriting what somebody else wrote."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from noiseplan.errors import StorageError
from noiseplan.paths import to_disk

_NAME: Final = re.compile(r"[^\W.][\w .,()+=@-]{0,120}\.toml")
# Names that Windows keeps for devices.
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """A study file as it is on the disk."""

    name: str
    text: str
    digest: str

    def view(self) -> dict[str, str]:
        """The same for the page."""
        return {"name": self.name, "text": self.text, "digest": self.digest}


class Changed(StorageError):
    """The file is not as the page knows it; `found` is what is there now."""

    def __init__(self, message: str, found: Found) -> None:
        super().__init__(message)
        self.found = found


def checked_name(name: object) -> str:
    """A plain name of a study file: no folders, no hidden files, nothing but TOML."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or _DEVICES.fullmatch(name):
        raise StorageError(
            f"{name!r} is no name for a study; take letters, digits, spaces, - and _, "
            f"and .toml at the end, as in 'study.toml'"
        )
    return name


def read_file(folder: Path, name: str) -> Found | None:
    """What is there under a name; None if nothing is. A link or a folder is refused."""
    path = folder / checked_name(name)
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError:
        raise _no_file(name) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(name)
    with os.fdopen(descriptor, "rb") as file:
        return found(name, file.read())


def found(name: str, content: bytes) -> Found:
    """A file's content as text, with line ends as the page has them."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{name}: not UTF-8 text (at byte {error.start}); save the study as UTF-8"
        ) from None
    return Found(name, text, hashlib.sha256(content).hexdigest())


def _no_file(name: str) -> StorageError:
    return StorageError(f"{name!r} is no plain file (a link or a folder) and was left alone")


def save(folder: Path, name: str, text: str, digest: str | None, replace: bool = False) -> str:
    """Write a study, all of it or nothing; returns the digest of what is there now.

    What is there is replaced only if it is what the page has seen (`digest`), or on request.
    """
    there = read_file(folder, name)
    known = None if there is None else there.digest
    if there is not None and known != digest and not replace:
        raise Changed(f"{name!r} was changed by somebody else since it was opened", there)
    content = _as_written(text, folder / name if there is not None else None)
    _write(folder / name, content, new=there is None)
    return hashlib.sha256(content).hexdigest()


def _as_written(text: str, before: Path | None) -> bytes:
    """The text as bytes, with the line ends and the mark at the start that the file had."""
    plain = text.replace("\r\n", "\n").encode("utf-8", "strict")
    if before is None:
        return plain
    old = before.read_bytes()
    if b"\r\n" in old and old.count(b"\r\n") == old.count(b"\n"):
        plain = plain.replace(b"\n", b"\r\n")
    return b"\xef\xbb\xbf" + plain if old.startswith(b"\xef\xbb\xbf") else plain


def _write(path: Path, content: bytes, new: bool) -> None:
    """Beside the file first, then in its place at once; a new one never over another."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with open(beside, "xb") as file:  # noqa: PTH123  # exclusive: no link is followed
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if new:
            _put_new(beside, path)
        else:
            shutil.copymode(path, beside)
            beside.replace(path)
        to_disk(path.parent)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _put_new(beside: Path, path: Path) -> None:
    try:
        os.link(beside, path)
    except FileExistsError:
        there = read_file(path.parent, path.name)
        assert there is not None
        raise Changed(f"{path.name!r} was written by somebody else just now", there) from None
    except OSError:  # a file system without links
        if path.exists():
            raise
        beside.replace(path)


# ---------------------------------------------------------------------- commands that follow


def commands(name: object, data: str = "DATA", out: str = "out") -> list[dict[str, str]]:
    """What each command does, and the command."""
    study = quote(checked_name(name))
    into = quote(out)
    steps = {
        "Print and draw the errors that the study will have; reads no data": f"plan {study}",
        "See whether a release would go through; spends nothing": f"check {study} {data}",
        "Count, add noise and write the tables; spends the budget once": (
            f"release {study} {data} -o {into}"
        ),
        "Look at the certificate and the tables": f"show {into}",
        "Write a page with pictures": f"report {into}",
    }
    return [{"does": does, "command": f"noiseplan {command}"} for does, command in steps.items()]
