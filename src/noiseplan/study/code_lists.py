"""Code lists: the values of an attribute, or their groups, from a public CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from noiseplan.schema.code_files import csv_rows
from noiseplan.schema.labels import check_writable
from noiseplan.study.nodes import Node, NotCalledPublic
from noiseplan.texts import listed, suggestion

TYPES = ("text", "integer", "number")
_FORMAT = ("separator", "type")
CODE_LIST = ("file", "column", *_FORMAT)
GROUPING = ("file", "value", "group", *_FORMAT)
_LIST_EXAMPLE = '{ file = "regions.csv", column = "code" }'
_GROUP_EXAMPLE = '{ file = "regions.csv", value = "county", group = "state" }'


def read_code_list(node: Node) -> list[str | int | float]:
    """The different values of one column, in the order of the file."""
    keys = node.table(CODE_LIST, _LIST_EXAMPLE)
    _require(node, keys, "column", _LIST_EXAMPLE)
    rows = _columns(keys, [keys["column"]])
    found = list(dict.fromkeys(_typed(value, keys, line) for line, (value,) in rows))
    if not found:
        keys["file"].fail(
            f"{keys['file'].value!r} has a header but no rows: no values are declared"
        )
    return found


def read_grouping(node: Node) -> dict[str | int | float, str]:
    """The group of every value, from two columns."""
    keys = node.table(GROUPING, _GROUP_EXAMPLE)
    for needed in ("value", "group"):
        _require(node, keys, needed, _GROUP_EXAMPLE)
    groups: dict[str | int | float, str] = {}
    for line, (written, group) in _columns(keys, [keys["value"], keys["group"]]):
        value = _typed(written, keys, line)
        if groups.setdefault(value, group) != group:
            keys["file"].fail(
                f"{keys['file'].value!r}, line {line}: {value!r} is in group {group!r}, and "
                f"further up in {groups[value]!r}; a value has one group"
            )
    return groups


def _require(node: Node, keys: dict[str, Node], needed: str, example: str) -> None:
    if "file" not in keys or needed not in keys:
        missing = "file" if "file" not in keys else needed
        node.fail(f"a code list from a file needs {missing}, as in {example}")


def _columns(keys: dict[str, Node], wanted: list[Node]) -> Iterator[tuple[int, list[str]]]:
    """The wanted columns, row by row, each with its line in the file."""
    node = keys["file"]
    path = public_file(node)
    separator = keys["separator"].text(";") if "separator" in keys else ","
    if len(separator) != 1:
        keys["separator"].fail(f'expected one character, as in ";", found {separator!r}')
    try:
        rows = csv_rows(path, separator)
        header = [name.strip() for name in next(rows, (0, []))[1]]
        positions = [_position(column, header, node) for column in wanted]
        for line, row in rows:
            yield line, [_cell(row, at, node, line) for at in positions]
    except OSError as error:
        node.fail(f"the code list {node.value!r} cannot be read: {error.strerror}: {_shown(path)}")
    except (UnicodeDecodeError, csv.Error) as error:
        node.fail(f"the code list {node.value!r} is no CSV file in UTF-8: {error}")


def public_file(node: Node) -> Path:
    """The file of a code list, within the folder of the study; it is remembered as read."""
    path = node.path_inside("regions.csv", "the code list")
    public = node.document.public
    if public is not None and path.resolve() not in public:
        node.fail(
            f"{node.value!r} is not read before somebody says that it is public: what a code list "
            f"holds is published",
            NotCalledPublic,
        )
    if public is not None and path.exists() and not path.is_file():
        # Opening a pipe or a device would wait for good, and a page waits with it.
        node.fail(f"the code list {node.value!r} is no plain file (a folder, a pipe or a device)")
    if path not in node.document.files:
        node.document.files.append(path)
    return path


def _shown(path: Path) -> str:
    return f"looked for {path.name!r} in {str(path.parent)!r}, from the folder of the study"


def _position(column: Node, header: list[str], node: Node) -> int:
    name = column.text("code")
    if name not in header:
        column.fail(
            f"{node.value!r} has no column {name!r}; it has "
            f"{listed(header) or 'no header'}{suggestion(name, header)}"
        )
    return header.index(name)


def _cell(row: list[str], at: int, node: Node, line: int) -> str:
    value = row[at].strip() if at < len(row) else ""
    if not value:
        node.fail(f"{node.value!r}, line {line}: the cell is empty; every row needs a value")
    return value


def _typed(value: str, keys: dict[str, Node], line: int) -> str | int | float:
    kind = keys["type"].choice(TYPES) if "type" in keys else "text"
    if kind == "text":
        return value
    try:
        found = int(value) if kind == "integer" else float(value)
    except ValueError:
        keys["file"].fail(
            f'{keys["file"].value!r}, line {line}: {value!r} is no {kind}; take type = "text"'
        )
    with keys["file"].blamed():
        check_writable(found, "code list")
    return found
