"""A study as the page shows it: as much as can be read, and what is wrong with the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from noiseplan.errors import NoiseplanError
from noiseplan.queries import Workload
from noiseplan.schema import Attribute, Hierarchical, Schema
from noiseplan.studio.privacy_view import study_privacy
from noiseplan.studio.public_files import Desk
from noiseplan.studio.toml_text import to_json
from noiseplan.study import StudyError
from noiseplan.study.columns_declared import read_attribute
from noiseplan.study.nodes import Node, NotCalledPublic
from noiseplan.study.tables_asked import read_conditions, read_tables
from noiseplan.words.hints import worded

MOST_LABELS: Final = 500
MOST_NAMES: Final = 50
# What a study still needs, in the order in which a page asks for it.
_NEEDED: Final = (
    (("schema",), "No attributes yet. Add the columns that the tables will be about."),
    (("tables", "predicates"), "No tables yet. Choose which attributes to count together."),
    (
        ("budget", "targets"),
        "No budget yet. Choose how much privacy may be spent, or how precise the tables must be.",
    ),
)


@dataclass
class _Problems:
    """Faults, each told once."""

    found: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A fault inside the block is put on the list."""
        try:
            yield
        except StudyError as error:
            self.add(problem(error))

    def add(self, fault: dict[str, Any]) -> None:
        if fault not in self.found:
            self.found.append(fault)


def problem(error: NoiseplanError) -> dict[str, Any]:
    """A fault as data: what, on which line, and the keys and positions that lead there."""
    if not isinstance(error, StudyError):
        return {"kind": "wrong", "message": worded(error.message), "line": None, "place": []}
    kind = "not public" if isinstance(error, NotCalledPublic) else "wrong"
    place = list(error.place)
    return {"kind": kind, "message": worded(error.said), "line": error.line, "place": place}


def view(text: str, desk: Desk) -> dict[str, Any]:
    """All that the page shows of a study before it is planned."""
    problems = _Problems()
    shown = _empty(text)
    with problems.kept():
        root = desk.root(text)
        shown["design"] = to_json(root.value)
        _fill(shown, root, problems)
        if not problems.found:
            _whole(shown, text, desk, problems)
    shown["problems"] = problems.found
    return shown


def _empty(text: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {"text": text, "design": None, "title": "", "schema": []}
    return nothing | {"entries": [], "rows": 0, "tables": 0, "cells": 0, "privacy": None}


def _whole(shown: dict[str, Any], text: str, desk: Desk, problems: _Problems) -> None:
    """What only the study as a whole can say, once its parts are in order."""
    with problems.kept():
        study = desk.study(text)
        shown["rows"], shown["tables"] = study.workload.rows, len(study.workload)
        try:
            shown["privacy"] = study_privacy(study)
        except NoiseplanError as error:
            with study.root.child("budget").blamed():
                raise error


def _fill(shown: dict[str, Any], root: Node, problems: _Problems) -> None:
    """Title, attributes and entries, each as far as it can be read by itself."""
    sections = root.keys("[schema], [[tables]] and [budget]")
    if "title" in sections:
        shown["title"] = str(sections["title"].value)
    attributes: dict[str, Attribute] = {}
    if sections.get("schema") and sections["schema"].value:
        attributes = _attributes(sections["schema"], problems)
        shown["schema"] = [attribute_view(name, each) for name, each in attributes.items()]
    if attributes:
        with problems.kept(), sections["schema"].blamed():
            schema = Schema(attributes)
            shown["cells"] = schema.size
            shown["entries"] = list(_entries(sections, schema, problems))
    _missing(sections, problems)


def _attributes(node: Node, problems: _Problems) -> dict[str, Attribute]:
    found = {}
    with problems.kept():
        for name, column in node.keys("[schema]").items():
            with problems.kept():
                found[name] = read_attribute(column)
    return found


def attribute_view(name: str, attribute: Attribute) -> dict[str, Any]:
    """An attribute with its first values."""
    kind = type(attribute).__name__.lower()
    levels: list[dict[str, Any]] = []
    if isinstance(attribute, Hierarchical):
        sizes = [len(attribute.level_labels(level)) for level in attribute.levels]
        levels = [
            {"name": level, "size": size}
            for level, size in zip(attribute.levels, sizes, strict=True)
        ]
    labels = [to_json(label) for label in islice(attribute.labels, MOST_LABELS)]
    return {
        "name": name,
        "kind": kind,
        "size": attribute.size,
        "labels": labels,
        "more": attribute.size - len(labels),
        "ordered": attribute.ordered,
        "levels": levels,
        "missing": attribute.missing,
        "other": to_json(getattr(attribute, "other", None)),
        "words": attribute.describe(),
    }


def _entries(
    sections: dict[str, Node], schema: Schema, problems: _Problems
) -> Iterator[dict[str, Any]]:
    """Every entry of [[tables]] and [[predicates]] that can be read."""
    for section in ("tables", "predicates"):
        if section not in sections:
            continue
        nodes: list[Node] = []
        with problems.kept():
            nodes = sections[section].items(f"[[{section}]]")
        for index, node in enumerate(nodes):
            with problems.kept():
                yield {"section": section, "index": index, **_entry(section, node, schema)}


def _entry(section: str, node: Node, schema: Schema) -> dict[str, Any]:
    asked = entry_workload(section, node, schema)
    names = [asked.query(i).name for i in range(min(len(asked), MOST_NAMES))]
    return {"count": len(asked), "rows": asked.rows, "names": names}


def entry_workload(section: str, node: Node, schema: Schema) -> Workload:
    """The tables or conditions of one entry."""
    if section == "tables":
        return read_tables(node, schema)
    with node.blamed():
        return Workload(read_conditions(node, schema))


def _missing(sections: dict[str, Node], problems: _Problems) -> None:
    """What is not there yet, in friendly words; nothing is wrong about it."""
    plan = sections["plan"].value if "plan" in sections else {}
    reached = isinstance(plan, dict) and "at_most" in plan
    for names, message in _NEEDED:
        present = any(sections[name].value not in ({}, []) for name in names if name in sections)
        if not present and not (reached and "budget" in names):
            said = {"message": message, "line": None, "place": [names[0]]}
            problems.add({"kind": "missing", **said})
