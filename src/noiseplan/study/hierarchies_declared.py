"""Hierarchical attributes of a study: levels by columns of a code list, or by prefixes of codes.

geo = { hierarchical = { file = "places.csv", levels = ["block", "tract", "county"] } }
geo = { hierarchical = { file = "places.csv", levels = { block = "GEOID", county = "name" } } }
job = { hierarchical = { file = "jobs.csv", column = "code", prefixes = { section = 1 } } }
job = { hierarchical = { codes = ["A01", "A02", "B05"], prefixes = { section = 1 } } }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from noiseplan.schema import Hierarchical, Label
from noiseplan.schema.code_files import read_code_columns
from noiseplan.study.code_lists import public_file
from noiseplan.study.nodes import Node

_KEYS = ("file", "levels", "column", "codes", "prefixes", "leaf", "ignore", "separator", "paths")
_LEVELS = '{ file = "places.csv", levels = ["tract", "county"] }'
_CODES = '{ file = "places.csv", column = "code", prefixes = { state = 2, county = 5 } }'
# Which keys go with levels by columns, and which with prefixes.
_BY_COLUMNS = ("file", "levels", "separator", "paths")
_BY_PREFIXES = ("file", "column", "codes", "prefixes", "leaf", "ignore", "separator")


@dataclass(frozen=True)
class Beside:
    """The names of the leaves for other and for missing values, where declared."""

    other: Label | None
    missing: str | None


def read_hierarchy(node: Node, beside: Beside) -> Hierarchical:
    """The attribute that a table of `[schema]` declares."""
    keys = node.table(_KEYS, f"{_LEVELS} or {_CODES}")
    chosen = node.exactly_one(keys, ("levels", "prefixes"), "what the levels are")
    by_columns = chosen is keys.get("levels")
    for key, child in keys.items():
        if key not in (_BY_COLUMNS if by_columns else _BY_PREFIXES):
            child.fail(f"{key} does not go with {chosen.place[-1]}")
    return _by_columns(node, keys, beside) if by_columns else _by_prefixes(node, keys, beside)


def _by_columns(node: Node, keys: Mapping[str, Node], beside: Beside) -> Hierarchical:
    if "file" not in keys:
        node.fail(f"levels are columns of a file, as in {_LEVELS}")
    path = public_file(keys["file"])
    levels = _columns(keys["levels"])
    paths = keys["paths"].boolean() if "paths" in keys else False
    with node.blamed():
        return Hierarchical.from_file(
            path, levels, separator=_separator(keys), paths=paths, **asdict(beside)
        )


def _columns(node: Node) -> Sequence[str] | Mapping[str, str]:
    if isinstance(node.value, dict):
        return {name: column.text("GEOID") for name, column in node.keys("").items()}
    return [item.text("county") for item in node.items('["tract", "county"], from fine to coarse')]


def _by_prefixes(node: Node, keys: Mapping[str, Node], beside: Beside) -> Hierarchical:
    codes = _codes(node, keys)
    prefixes = {
        name: length.integer("how many signs of the code the level has", 1)
        for name, length in keys["prefixes"].keys("{ state = 2, county = 5 }").items()
    }
    named = keys.get("leaf", keys.get("column"))  # leaves are called as their column is
    leaf = "code" if named is None else named.text("tract")
    ignore = keys["ignore"].text(".") if "ignore" in keys else ""
    with node.blamed():
        return Hierarchical.from_codes(codes, prefixes, leaf=leaf, ignore=ignore, **asdict(beside))


def _codes(node: Node, keys: Mapping[str, Node]) -> Sequence[str]:
    """The codes listed, or the different ones of a column."""
    given = node.exactly_one(dict(keys), ("codes", "file"), "where the codes are")
    if given is keys.get("codes"):
        return [item.text("06037") for item in given.items('["06037", "41051"]')]
    if "column" not in keys:
        node.fail(f"codes of a file need their column, as in {_CODES}")
    path, column = public_file(given), keys["column"].text("code")
    with node.blamed():
        (found,) = read_code_columns(path, [column], _separator(keys))
    return list(dict.fromkeys(found))  # type: ignore[arg-type]  # checked by the attribute


def _separator(keys: Mapping[str, Node]) -> str:
    return keys["separator"].text(";") if "separator" in keys else ","
