"""Files that say when they are damaged: JSON, named arrays, and their SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, Json
from noiseplan.errors import StorageError
from noiseplan.paths import checked_path, to_disk

# What a saved array may hold; never objects, which NumPy would have to unpickle.
_KINDS = "biuf"
_HEADERS: dict[tuple[int, int], Callable[[BytesIO], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What reading a ZIP file or an array that is none may end in.
_NO_ARRAY = (ValueError, LookupError, TypeError, ArithmeticError, MemoryError, SyntaxError)
_BROKEN = (*_NO_ARRAY, OSError, EOFError, RuntimeError, BadZipFile, struct.error, zlib.error)
_BLOCK = 1 << 20
# Folders within folders: beyond this, programs that walk through them may fail.
DEEPEST = 200


@contextmanager
def whole_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill, which takes its name when it is complete; where it fails nothing is left.

    An empty folder of that name gives way to it. Others see nothing of it before it is complete,
    and then what the umask lets them.
    """
    target = checked_path(folder, StorageError)
    _require_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=".noiseplan-", dir=target.parent))
    except OSError as error:
        raise StorageError(f"{str(folder)!r} cannot be written: {error}") from None
    try:
        part = hidden / "part"
        part.mkdir()
        yield part
        if target.exists():
            target.rmdir()
        part.rename(target)
        to_disk(target.parent)
    except (OSError, TypeError) as error:
        raise StorageError(f"{str(folder)!r} cannot be written: {error}") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def rehearse(folder: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Do once, with empty files of these names, what :func:`whole_folder` will do, and undo it.

    What cannot be written is found while nothing is lost. An empty folder that is there stays. The
    folder has no files any more when it takes its name: one that is killed here leaves no half of a
    release, but at most an empty folder, which the next one replaces.
    """
    target = checked_path(folder, StorageError)
    mode = target.stat().st_mode if target.is_dir() else None
    made = [parent for parent in target.absolute().parents if not parent.exists()]
    try:
        with whole_folder(target) as part:
            for name in names:
                (part / name).parent.mkdir(exist_ok=True)
                (part / name).touch()
            for made_up in part.iterdir():
                shutil.rmtree(made_up) if made_up.is_dir() else made_up.unlink()
        if mode is None:
            target.rmdir()
        else:
            target.chmod(stat.S_IMODE(mode))
    except OSError as error:
        raise StorageError(f"{str(folder)!r} cannot be written: {error}") from None
    finally:
        for parent in made:
            with suppress(OSError):
                parent.rmdir()


def _require_replaceable(target: Path) -> None:
    """Refuse names that a finished folder could not take."""
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise StorageError(
            f"{str(target)!r} is not written in UTF-8, and some of the files could not be; choose "
            f"another name"
        ) from None
    depth = len(target.absolute().parts)
    if depth > DEEPEST:
        raise StorageError(f"{str(target)[:60]!r}… lies {depth} folders deep: name a nearer one")
    if target.is_symlink() and not target.exists():
        raise StorageError(f"{str(target)!r} is a link to nothing; choose another name")
    for odd, what in ((target.is_symlink(), "a link"), (target.is_mount(), "a mounted disk")):
        if odd:
            raise StorageError(
                f"{str(target)!r} is {what}, which a new folder cannot replace; name a folder in "
                f"it: {str(target / 'out')!r}"
            )


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(canonical(content, indent=1) + "\n", encoding="utf-8")


def canonical(content: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON that is the same for the same content: keys sorted, no NaN."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent)


def read_json(path: Path) -> Json:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path.name} is not readable as JSON: {error}") from None
    if not isinstance(content, dict):
        raise StorageError(f"{path.name} should hold a JSON object, found {type(content).__name__}")
    return content


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Named arrays as a ZIP of .npy files, not compressed, which `numpy.load` reads.

    Written member by member, so that equal arrays make equal files: NumPy's own `savez` puts the
    time of day into them.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def read_arrays(path: Path) -> Arrays:
    """The arrays of a file, all of them together no larger than the file itself."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(path, members)
            return {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in members}
    except _BROKEN as error:  # StorageError among them
        raise StorageError(f"{path.name} is damaged: {error}") from None


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len({member.filename for member in members}) < len(members):
        raise StorageError("it holds two arrays of one name")
    for member in members:
        if not member.filename.endswith(".npy"):
            raise StorageError(f"{member.filename!r} is no array")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise StorageError("it is compressed, which noiseplan never writes")
    # Members may overlap, so that the same bytes are read again and again.
    told, there = sum(m.file_size for m in members), path.stat().st_size
    if told > there or any(member.file_size != member.compress_size for member in members):
        raise StorageError(f"it promises {told:,} bytes and has {there:,}")


def _array(content: bytes) -> NDArray[Any]:
    """An array from the bytes of an .npy file, whose header must promise just what follows it."""
    file = BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise StorageError(f"an array has the version {version}, which noiseplan never writes")
    shape, by_columns, dtype = _HEADERS[version](file)
    if dtype.kind not in _KINDS:
        raise StorageError(f"an array holds {dtype}, not numbers")
    found, promised = len(content) - file.tell(), dtype.itemsize * prod(shape)
    if found != promised:
        raise StorageError(f"an array promises {promised:,} bytes and has {found:,}")
    flat = np.frombuffer(content, dtype, offset=file.tell()).copy()
    return flat.reshape(shape, order="F" if by_columns else "C")


def hash_of(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> str:
    """SHA-256 of JSON content and arrays: names, types, shapes and values."""
    digest = hashlib.sha256(canonical(content).encode())
    for name, array in sorted((arrays or {}).items()):
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"\n{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.tobytes())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
