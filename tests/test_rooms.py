"""Rooms only look down: every import is read, also those inside functions, and none may point up.

`LAYERS` is the order of the rooms, lowest first. A room may import any room below it; an arrow
between two rooms of one layer must be listed in `BESIDE`. What still breaks the rule stands in
`KNOWN`, by module: the list may only become shorter, and an entry that no longer occurs must go.
Imports for type checkers alone bind nothing at run time and are left out.

The table of rooms in docs/design.md is written from here: `python tests/test_rooms.py --write`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "noiseplan"
DESIGN = ROOT / "docs" / "design.md"

LAYERS = (
    ("errors", "arrays", "escaping", "paths", "progress", "console", "engine", "texts"),
    ("schema", "matrices", "privacy"),
    ("noise", "queries"),
    ("domain",),
    ("optimize", "mechanisms"),
    ("strategies",),
    ("planning", "counting"),
    ("ledger", "release"),
    ("words", "draw", "statistics"),
    ("storage", "choosing", "local", "valid", "aware"),
    ("comparing", "report", "study"),
    ("data", "demo", "studio", "cli"),
)
# Within a layer, from the one that looks to the one that is looked at.
BESIDE = {
    ("release", "ledger"),
    ("local", "storage"),
    ("valid", "storage"),
    ("valid", "local"),
    ("aware", "storage"),
    ("draw", "words"),
    ("paths", "errors"),
    ("console", "escaping"),
    ("demo", "data"),
    ("cli", "data"),
    ("cli", "demo"),
    ("cli", "studio"),
    ("studio", "data"),
}
# The front of the house, and the fluent methods that open doors to rooms above.
EXEMPT = {"__init__", "__main__", "_doors"}

KNOWN: set[tuple[str, str]] = set()
KNOWN_CYCLES: set[str] = set()


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name, the package's own name left out."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def room(module: str) -> str:
    return module.partition(".")[0]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node that can hold an import, those for type checkers alone left out.

    Expressions hold none, and are most of a tree.
    """
    aside = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) else []
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.stmt, ast.excepthandler, ast.match_case)) and inner not in aside:
            yield inner
            yield from statements(inner)


def imports(tree: ast.Module) -> Iterator[str]:
    """The modules of the package that a module imports anywhere at run time."""
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            head, _, rest = node.module.partition(".")
            if head == "noiseplan":
                for alias in node.names:
                    inner = f"{rest}.{alias.name}" if rest else alias.name
                    # `from noiseplan.room import module` binds the module, not a name of the room
                    if inner in modules() or not rest:
                        yield inner
                    else:
                        yield rest
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("noiseplan."):
                    yield alias.name.removeprefix("noiseplan.")


@cache
def arrows() -> dict[str, frozenset[str]]:
    """For every module the modules it imports, itself left out."""
    known = modules()
    return {
        name: frozenset(target for target in imports(tree) if target in known) - {name}
        for name, tree in known.items()
    }


def layer(name: str) -> int:
    return next(number for number, rooms in enumerate(LAYERS) if name in rooms)


def allowed(source: str, target: str) -> bool:
    return source == target or layer(target) < layer(source) or (source, target) in BESIDE


def upward() -> set[tuple[str, str]]:
    """Every arrow that the layers do not allow: the module, and the room it looks into."""
    return {
        (module, room(target))
        for module, targets in arrows().items()
        if room(module) not in EXEMPT
        for target in targets
        if room(target) not in EXEMPT and not allowed(room(module), room(target))
    }


def cyclic(graph: dict[str, set[str]]) -> set[str]:
    """The nodes that reach themselves: paths of twice the length, until they are long enough."""
    names = list(graph)
    reached = np.array([[target in graph[source] for target in names] for source in names])
    for _ in range(len(names).bit_length()):
        reached |= reached.astype(np.float32) @ reached.astype(np.float32) > 0
    return {name for name, itself in zip(names, np.diagonal(reached), strict=True) if itself}


def test_every_room_has_its_place_in_the_layers() -> None:
    rooms = {room(module) for module in modules()} - EXEMPT
    assert rooms <= {name for rooms in LAYERS for name in rooms}, "a room without a layer"


def test_no_arrow_points_upward_but_those_known() -> None:
    found = upward()
    assert found - KNOWN == set(), "rooms may only import rooms below: see the layers in this file"
    assert KNOWN - found == set(), "these are mended: take them off the list"


def test_arrows_beside_each_other_are_needed_and_make_no_cycle() -> None:
    graph = {name: set() for rooms in LAYERS for name in rooms}
    for source, target in BESIDE:
        assert layer(source) == layer(target), "an arrow downward needs no listing"
        graph[source].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        raise AssertionError(f"rooms of one layer in a circle: {cycle.args[1]}") from None


def test_no_module_reaches_itself_but_those_known() -> None:
    graph = {
        module: {target for target in targets if room(target) not in EXEMPT}
        for module, targets in arrows().items()
        if room(module) not in EXEMPT
    }
    found = cyclic(graph)
    assert found - KNOWN_CYCLES == set(), "modules that import each other, if only by a detour"
    assert KNOWN_CYCLES - found == set(), "these are mended: take them off the list"


def test_the_checks_would_notice() -> None:
    tree = ast.parse("def f():\n    from noiseplan.release.release import Release\n")
    assert list(imports(tree)) == ["release.release"]
    assert not allowed("planning", "release") and allowed("release", "planning")
    assert cyclic({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"b", "c"}


def table() -> str:
    """The rooms with their purpose and what they import, as Markdown."""
    looks: dict[str, set[str]] = {}
    for module, targets in arrows().items():
        looks.setdefault(room(module), set()).update(room(target) for target in targets)
    lines = ["| layer | room | holds | imports |", "| --- | --- | --- | --- |"]
    basic = set(LAYERS[0])
    for number, rooms in enumerate(LAYERS):
        for name in rooms:
            if name not in looks:
                continue
            tree = modules()[name]
            purpose = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
            below = sorted(looks[name] - {name} - basic - EXEMPT, key=lambda r: (layer(r), r))
            listed = ", ".join(f"`{other}`" for other in below) or "–"
            lines.append(f"| {number} | `{name}` | {purpose} | {listed} |")
    return "\n".join(lines)


BETWEEN = re.compile(r"(<!-- rooms -->\n).*?(\n<!-- /rooms -->)", re.S)


def test_the_table_in_the_design_page_is_true() -> None:
    written = BETWEEN.search(DESIGN.read_text(encoding="utf-8"))
    assert written is not None, "docs/design.md has lost the place of its table"
    assert written[0] == BETWEEN.sub(lambda m: m[1] + table() + m[2], written[0]), (
        "python tests/test_rooms.py --write"
    )


if __name__ == "__main__" and "--write" in sys.argv:
    text = DESIGN.read_text(encoding="utf-8")
    DESIGN.write_text(BETWEEN.sub(lambda m: m[1] + table() + m[2], text), encoding="utf-8")
