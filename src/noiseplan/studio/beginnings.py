"""Studies to begin with: complete in themselves, so that they can be planned at once."""

from __future__ import annotations

from functools import cache

from noiseplan.data import EXAMPLES, example_study
from noiseplan.study.template import read_column, study_text

# Shipped studies that need no file beside them.
_COMPLETE = ("wages",)
_FIRST = ("age=0..99", "sex=female,male", "region=north,east,south,west", "employed=yes,no")


@cache
def examples() -> list[dict[str, str]]:
    """Studies by name, with a word on each and their text."""
    found = [
        {
            "name": name,
            "title": EXAMPLES[name],
            "text": example_study(name).read_text(encoding="utf-8"),
        }
        for name in _COMPLETE
    ]
    columns = [read_column(column) for column in _FIRST]
    first = study_text(columns, "A first study")
    return [
        *found,
        {"name": "first", "title": "four attributes and all their pairs", "text": first},
    ]
