"""Paths as users give them, refused in plain words where no system has such a path."""

from __future__ import annotations

import errno
import os
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
