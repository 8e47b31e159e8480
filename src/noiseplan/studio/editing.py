"""A study's text after an edit on the page: only what changed has changed."""

from __future__ import annotations

import tomllib
from typing import Any

from noiseplan.studio.toml_json import from_json, same
from noiseplan.studio.toml_text import is_tables, section_text


def edited(text: str, design: dict[str, Any]) -> str:
    """The text that says what the design says."""
    wanted = from_json(design)
    if same(tomllib.loads(text), wanted):
        return text
    return written(wanted)


def written(design: dict[str, Any]) -> str:
    """A design as a text of its own, lines without a section first."""
    alone = {
        key: each
        for key, each in design.items()
        if not isinstance(each, dict) and not is_tables(each)
    }
    lines = "".join(section_text(key, each) for key, each in alone.items())
    sections = [section_text(key, each) for key, each in design.items() if key not in alone]
    return "\n".join([*([lines] if lines else []), *sections])
