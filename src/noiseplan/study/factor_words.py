"""Factors of a study: words and spans as text, hierarchies and matrices as tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from noiseplan.queries import Custom, Factor, Levels
from noiseplan.queries.query import checked_factor
from noiseplan.schema import Attribute, Schema
from noiseplan.study.code_lists import read_grouping
from noiseplan.study.errors import suggestion, unknown_attribute
from noiseplan.study.nodes import Node
from noiseplan.study.questions import codes_of, read_factor

_EXAMPLE = '"prefix", "25..34 | 35..44", { levels = [5, 10] } or { custom = [[1, 0, 0]] }'
_Level: TypeAlias = int | Mapping[Hashable, Hashable] | Sequence[Hashable]


def read_factors(node: Node, schema: Schema) -> dict[str, Factor]:
    """`factors = { age = "prefix" }`: what is asked of an attribute, by its name."""
    found = {}
    for name, child in node.keys('factors = { age = "prefix" }').items():
        if name not in schema:
            child.fail(unknown_attribute(name, schema))
        found[name] = _factor(child, name, schema[name])
        with child.blamed():
            checked_factor(schema, name, found[name])
    return found


def _factor(node: Node, name: str, attribute: Attribute) -> Factor:
    if isinstance(node.value, str):
        with node.blamed():
            return read_factor(node.value, name, attribute)
    if not isinstance(node.value, dict):
        node.expected(f"what is asked of {name!r}: {_EXAMPLE}")
    keys = node.table(("levels", "leaves", "total", "custom", "name", "labels"), _EXAMPLE)
    chosen = node.exactly_one(keys, ("levels", "custom"), f"what is asked of {name!r}")
    own = (
        ("levels", "leaves", "total")
        if chosen is keys.get("levels")
        else ("custom", "name", "labels")
    )
    for key in keys:
        if key not in own:
            keys[key].fail(f"{key} does not go with {own[0]}, which takes {', '.join(own[1:])}")
    return _levels(keys, attribute, name) if "levels" in keys else _custom(keys, attribute, name)


def _levels(keys: dict[str, Node], attribute: Attribute, name: str) -> Levels:
    levels = [
        _level(item, attribute, name)
        for item in keys["levels"].items('[5, 10] or [{ young = "0..17", old = "18.." }]')
    ]
    flags = {key: keys[key].boolean() for key in ("leaves", "total") if key in keys}
    with keys["levels"].blamed():
        return Levels(*levels, **flags)


def _level(node: Node, attribute: Attribute, name: str) -> _Level:
    """A width, groups with their values, a list of groups, or two columns of a file."""
    if isinstance(node.value, dict):
        if isinstance(node.value.get("file"), str):
            return read_grouping(node)  # type: ignore[return-value]
        return _groups(node, attribute, name)
    if isinstance(node.value, list):
        return [item.label() for item in node.items("a list of groups")]
    return node.integer("a number of values, a table of groups, or a list of groups", 1)


def _groups(node: Node, attribute: Attribute, name: str) -> dict[Hashable, Hashable]:
    """`{ young = "0..17", old = [65, 66] }`: the group of each value."""
    group_of: dict[Hashable, Hashable] = {}
    for group, values in node.keys('{ young = "0..17", old = "18.." }').items():
        for code in _codes(values, attribute, name):
            label = attribute.labels[code]
            if group_of.setdefault(label, group) != group:
                values.fail(
                    f"{label!r} is in group {group!r} and in {group_of[label]!r}; a value has one "
                    f"group at each level"
                )
    missing = [label for label in attribute.labels if label not in group_of]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + " …" * (len(missing) > 5)
        node.fail(f"no group for {shown}: every value of {name!r} needs one")
    return group_of


def _codes(node: Node, attribute: Attribute, name: str) -> list[int]:
    """The values of one group or row: a span as text, or a list."""
    if isinstance(node.value, str):
        with node.blamed():
            return codes_of(node.value, name, attribute)
    codes = []
    for item in node.items('"25..34", or a list of values'):
        try:
            codes.append(attribute.labels.index(item.label()))
        except ValueError:
            item.fail(
                f"{item.value!r} is no value of {name!r}, which is {attribute.describe()}"
                f"{suggestion(item.value, attribute.labels)}"
            )
    return codes


def _custom(keys: dict[str, Node], attribute: Attribute, name: str) -> Custom:
    node = keys["custom"]
    title = keys["name"].text("age groups") if "name" in keys else None
    labels = None
    if "labels" in keys:
        labels = [item.label() for item in keys["labels"].items('["young", "old"]')]
    if isinstance(node.value, dict):  # rows by their values, with their labels as keys
        if labels is not None:
            keys["labels"].fail("the rows have labels already: the keys of custom")
        rows = {label: set(_codes(row, attribute, name)) for label, row in node.keys("").items()}
        matrix: object = [[c in codes for c in range(attribute.size)] for codes in rows.values()]
        labels = list(rows)
    else:
        matrix = read_matrix(node)
    with node.blamed():
        return Custom(matrix, name=title, labels=labels)


def read_matrix(node: Node) -> list[list[float]]:
    """Rows of numbers, all of one length."""
    rows = []
    for row in node.items("[[1, 0, 0], [0, 1, 1]]"):
        rows.append([cell.number("a number") for cell in row.items("[1, 0, 0]")])
        if len(rows[-1]) != len(rows[0]):
            row.fail(f"{len(rows[-1])} numbers, and {len(rows[0])} in the first row")
    return rows
