"""Addresses of the files of a release, as a page beside or near its folder links to them."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

from noiseplan.storage.table_files import table_files

# The names that files of tables are given, and no others: an edited index links to nothing else.
NAMED: Final = re.compile(r"[0-9]+-[a-z0-9-]+")


def file_links(folder: Path, page: Path) -> dict[str, str]:
    """Addresses of the tables by their names, without endings, seen from a page.

    Only files that are there count; nothing is found where no path leads from one to the other.
    """
    try:
        way = PurePath(os.path.relpath(folder.resolve() / "tables", page.resolve().parent))
    except ValueError:  # on another drive
        return {}
    found: dict[str, str] = {}
    for row in table_files(folder):
        stem, name = row.get("file", ""), row.get("query", "")
        if not NAMED.fullmatch(stem):
            continue
        if all((folder / "tables" / f"{stem}.{kind}").is_file() for kind in ("csv", "parquet")):
            found.setdefault(name, quote(f"{way.as_posix()}/{stem}"))
    return found
