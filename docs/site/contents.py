"""What the site's navigation lists, in which order. Pages themselves know nothing of it."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

# The front page's contents: a heading, and the pages below it.
FRONT = {
    "Begin": [
        "What to read <docs/index>", "docs/quickstart", "docs/story", "docs/studio",
        "docs/command-line",
        "docs/examples", "docs/gallery",
    ],
    "Publish": [
        "docs/custodian", "docs/how-to-choose", "docs/sources", "docs/ledger", "docs/saving",
        "docs/valid", "docs/statistics",
    ],
    "Ask": [
        "docs/queries", "docs/census", "docs/geography", "docs/series", "docs/adaptive",
        "docs/aware", "docs/local",
    ],
    "Understand": [
        "docs/how-it-works", "docs/researcher", "docs/explicit", "docs/pure", "docs/secure-noise",
        "docs/threats", "docs/results", "docs/glossary",
    ],
    "Reference": ["reference/index"],
    "The project": [
        "CHANGELOG", "CONTRIBUTING", "SECURITY", "docs/design",
        "The survey sample <src/noiseplan/data/README>",
    ],
}  # fmt: skip


def add(app: Sphinx, page: str, source: list[str]) -> None:
    """Append a page's contents to its text, unseen."""
    if page == "README":
        lists = [_tree(heading, pages) for heading, pages in FRONT.items()]
    elif page == "docs/results":
        lists = [_tree("", _below(app, "docs/results", "*.md"))]
    elif page == "docs/examples":
        lists = [_tree("", _below(app, "examples/notebooks", "*.ipynb"))]
    else:
        return
    source[0] += "\n" + "\n".join(lists)


def _below(app: Sphinx, folder: str, pattern: str) -> list[str]:
    return [f"{folder}/{path.stem}" for path in sorted(Path(app.srcdir, folder).glob(pattern))]


def _entry(page: str) -> str:
    """A page from the root of the site, under a title of its own where one is given."""
    title, bracket, place = page.rpartition("<")
    return f"{title}{bracket}/{place}"


def _tree(caption: str, pages: list[str]) -> str:
    head = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *head, *(_entry(page) for page in pages), "```", ""])
