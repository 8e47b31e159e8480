"""Where a study lies, and which files beside it may be read: those that somebody called public."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the first page is shown before any of it is needed
    from noiseplan.study import Study
    from noiseplan.study.nodes import Node


@dataclass(frozen=True)
class Desk:
    """The folder of a study, its name there, and the names of public files."""

    folder: Path
    name: str = "study.toml"
    public: frozenset[str] = frozenset()

    def root(self, text: str) -> Node:
        """A text as the study of that name in that folder; refuses what is not TOML."""
        from noiseplan.study.nodes import Document, document_root

        files = frozenset(path.resolve() for path in self._files())
        text = text.replace("\r\n", "\n")
        return document_root(Document(self.name, text, self.folder, public=files))

    def study(self, text: str) -> Study:
        """The whole study, or its first fault."""
        from noiseplan.study.study import study_of

        return study_of(self.root(text))

    def key(self) -> Hashable:
        """What a plan of one text depends on besides: which public files hold what."""
        return self.name, tuple(_stamp(path) for path in self._files())

    def order(self) -> dict[str, Any]:
        """The same for another process."""
        return {"folder": str(self.folder), "name": self.name, "public": sorted(self.public)}

    def _files(self) -> Iterator[Path]:
        return (self.folder / name for name in sorted(self.public) if "\0" not in name)


def _stamp(path: Path) -> Hashable:
    try:
        found = path.stat()
    except OSError:
        return str(path), None
    return str(path), found.st_mtime_ns, found.st_size


def files_named(design: Mapping[str, object]) -> Iterator[str]:
    """The files that a study names as code lists of its attributes and tables."""
    for section in ("schema", "tables"):
        yield from _files_in(design.get(section))


def _files_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("file"), str):
            yield value["file"]
        for each in value.values():
            yield from _files_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _files_in(each)
