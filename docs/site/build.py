"""Build the site: `python docs/site/build.py build/site`, or `make docs`.

Notebooks whose names follow are shown as they are and not run.

The pages are copied to a folder of their own first, with the pictures and files that they link to,
and the reference is written beside them: building writes nothing into the tree but its result.
"""

from __future__ import annotations

import gc
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import reference  # noqa: E402  # beside this file

PAGES = (
    "*.md", "docs/*.md", "docs/results/*.md", "examples/notebooks/*.ipynb",
    "src/noiseplan/data/README.md",
)  # fmt: skip
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)\s#]+)")
FRONT = """<!doctype html><meta charset="utf-8"><title>noiseplan</title>
<meta http-equiv="refresh" content="0; url=README.html"><a href="README.html">noiseplan</a>
"""


def stage(folder: Path) -> None:
    """Copy the pages, and the files they link to; write the reference."""
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            _copy(page, folder)
            for target in LINK.findall(page.read_text(encoding="utf-8")):
                linked = (page.parent / target).resolve()
                if linked.is_file() and linked.is_relative_to(ROOT):
                    _copy(linked, folder)
    reference.write(folder / "reference")


def _copy(path: Path, folder: Path) -> None:
    copied = folder / path.relative_to(ROOT)
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, copied)


def leave_still(notebook: Path) -> None:
    """Say in a copy of a notebook that it is not to be run."""
    held = json.loads(notebook.read_text(encoding="utf-8"))
    held["metadata"]["mystnb"] = {"execution_mode": "off"}
    notebook.write_text(json.dumps(held), encoding="utf-8")


def build(site: Path, still: Sequence[str] = ()) -> int:
    """Build the site into a folder; the exit code of Sphinx, for which warnings are errors."""
    with TemporaryDirectory(prefix="noiseplan-site-") as temporary:
        source = Path(temporary, "pages")
        source.mkdir()
        stage(source)
        for name in still:
            leave_still(source / "examples" / "notebooks" / f"{name}.ipynb")
        built = Path(temporary, "built", "site")  # notebooks leave their outputs beside it
        folders = ["-c", str(HERE), "-d", f"{temporary}/trees", str(source), str(built)]
        code = build_main(["-q", "-b", "html", "--fail-on-warning", *folders])
        if code == 0:
            (built / "index.html").write_text(FRONT, encoding="utf-8")
            shutil.copytree(built, site, dirs_exist_ok=True)
    return code


if __name__ == "__main__":
    gc.disable()  # pages stay to the end: to look for garbage takes a third of the time
    sys.exit(build(Path(sys.argv[1]), sys.argv[2:]))
