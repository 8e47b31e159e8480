"""One file that holds everything it shows: style and script inside, nothing in, nothing out."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

from noiseplan.draw.html import Markup, element, escaped, joined
from noiseplan.storage.table_files import table_files

# The look is shared by all pages; layout is each page's own.
DRAW, REPORT = "noiseplan.draw", "noiseplan.report"

# The names that files of tables are given, and no others: an edited index links to nothing else.
NAMED: Final = re.compile(r"[0-9]+-[a-z0-9-]+")


def offline_page(title: str, header: object, sections: Mapping[str, Markup]) -> str:
    """A whole page; sections stand in `main`, under the headings that name them.

    The policy allows the style and the script by their hashes and nothing else: a text of others
    that became markup by some mistake could load nothing and run nothing.
    """
    footer = element(
        "p", "Made by noiseplan. The page holds everything that it shows, and loads nothing."
    )
    body = joined(
        [
            element("header", header, contents(sections)),
            element("main", *(_section(*named) for named in sections.items()), id="main"),
            element("footer", footer),
        ]
    )
    style = _resource(DRAW, "look.css") + _resource(REPORT, "page.css")
    script = _resource(REPORT, "page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{body}
<script>{script}</script>
</body>
</html>
"""


def contents(sections: Mapping[str, Markup]) -> Markup:
    """Links to the sections."""
    links = [
        element("li", element("a", title, href=f"#{anchor(title)}")) for title in sections if title
    ]
    return element("nav", element("ul", joined(links)), aria_label="Sections")


def _section(title: str, content: Markup) -> Markup:
    place = anchor(title)
    heading = element("h2", title, id=f"{place}-title")
    return element("section", heading, content, id=place, aria_labelledby=f"{place}-title")


def anchor(title: str) -> str:
    """What a section is called in links: the letters of its heading.

    Examples
    --------
    >>> anchor("What is promised")
    'what-is-promised'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def _resource(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


# ---------------------------------------------------------------------- links to files


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
