"""Paths as users give them, refused where no system has such a path, and their way to the disk."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from noiseplan.errors import NoiseplanError


def checked_path(path: str | os.PathLike[str], error: type[NoiseplanError]) -> Path:
    """A path that may be there or not, but could be."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise error(f"a path is a text or a Path, found {path!r}")
    text = os.fspath(path)
    try:
        os.lstat(text)
    except (ValueError, UnicodeEncodeError) as fault:  # a NUL, or half of a character
        raise error(f"{text!r} is no path: {fault}; choose a name without such signs") from None
    except OSError as fault:
        if fault.errno == errno.ENAMETOOLONG:
            raise error(
                f"the name {text[:40]!r}… is too long for a file: {len(text)} characters; choose "
                f"a shorter one"
            ) from None
    return Path(text)


def new_path(path: str | os.PathLike[str], error: type[NoiseplanError]) -> Path:
    """Where something is to be written; refused where something is."""
    target = checked_path(path, error)
    if target.exists():
        raise error(f"{str(path)!r} is there already and was left alone; choose a new name")
    return target


def to_disk(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is really on the disk.

    Some systems cannot open or sync folders; there is nothing to wait for then.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def near_files(path: Path) -> str:
    """The end of a message about a file that is not there: what was probably meant, if anything."""
    if any(sign in str(path) for sign in "*?["):  # a pattern of several
        return ""
    try:
        known = {each.name.casefold(): each.name for each in path.parent.iterdir()}
    except OSError:
        return f", and no folder {str(path.parent)!r}" if not path.parent.exists() else ""
    near = get_close_matches(path.name.casefold(), known, n=1)
    return f". Did you mean {str(path.with_name(known[near[0]]))!r}?" if near else ""
