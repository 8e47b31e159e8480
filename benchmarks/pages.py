"""The pages of results: one for each group, and an index of every claim with its verdict.

A group is measured and written on its own, so that one figure can be measured again without all the
others; the index is put together from the pages that are there.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import scipy

import noiseplan
from benchmarks.tables import Table, verdict

INTRO: Final = """\
# Results

Every published figure this package is measured by, beside its own. The pages are made by

```
python -m benchmarks --write docs/results.md
```

and by nothing else: figures and verdicts are computed, none is typed in. Add `--only NAME` for some
groups ({names}) and `--quick` to leave out what takes longest; a page from a quick run says so.

Plans have privacy cost 1 (½-zCDP, 1-GDP) unless a table says otherwise, and neighbours add or
remove one record. Figures that are compared with published ones are for continuous noise, as those
are. RMSE is the root of the mean variance over all rows of all queries; it is exact and depends on
attribute sizes only, so no data are needed. Times are CPU seconds of one core, from the run that
made the page, and the smallest of several where they are short. Times of papers were measured on
their authors' machines, those of other programs on one core of a shared machine (AMD EPYC,
2.6 GHz): they show orders of magnitude. What an accelerator does is told on
[a page of its own](results/accelerator.md).
"""


def write_pages(
    index: Path, titles: Mapping[str, str], found: Mapping[str, Sequence[Table]], quick: bool
) -> None:
    """Write the page of each group that was run, then the index of all pages that are there."""
    folder = index.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for name, tables in found.items():
        text = _page(titles[name], name, tables, quick)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    parts = [INTRO.format(names=", ".join(f"`{name}`" for name in titles))]
    for name, title in titles.items():
        page = folder / f"{name}.md"
        if page.exists():
            parts.append(_summary(title, f"{folder.name}/{name}.md", page.read_text("utf-8")))
    index.write_text("\n".join(parts), encoding="utf-8")


def measured_code() -> str:
    """The first digits of a hash of all code that is measured."""
    root = Path(noiseplan.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def _page(title: str, name: str, tables: Sequence[Table], quick: bool) -> str:
    partial = " **From a quick run.**" if quick else ""
    head = [
        f"# {title}",
        "",
        f"Made by `python -m benchmarks --only {name} --write docs/results.md` on "
        f"{datetime.now(UTC):%d %B %Y}, of code {measured_code()}: {_machine()}{partial} "
        "[All results](../results.md).",
        "",
    ]
    return "\n".join([*head, *(table.markdown() for table in tables)])


def _summary(title: str, address: str, page: str) -> str:
    """The claims of a page, under the titles of its tables."""
    lines = [f"## [{title}]({address})", ""]
    if "**From a quick run.**" in page:
        lines += ["From a quick run.", ""]
    if f"of code {measured_code()}:" not in page:  # figures of two pages need not agree then
        lines += ["Made with other code than this index: to be made again.", ""]
    lines += ["| table | what it must show | verdict |", "| :--- | :--- | :--- |"]
    table = ""
    for line in page.splitlines():
        if line.startswith("### "):
            table = line[4:]
        for met in (True, False):
            if line.startswith(f"- {verdict(met)}: "):
                claim = line.removeprefix(f"- {verdict(met)}: ")
                lines.append(f"| {table} | {claim} | {verdict(met)} |")
    return "\n".join([*lines, ""])


def _machine() -> str:
    return (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"one thread on a machine of {os.cpu_count()} cores."
    )
