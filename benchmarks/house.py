"""The house in figures: how large it is, what looks where, how long one marginal's way is.

Everything is counted from the source and the tests as they lie here, by the functions below. What
stands beside it as "then" is what the same functions found before rooms had layers; arrows and
cycles were counted by hand then.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from benchmarks import walk
from benchmarks.tables import Claim, Table

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "noiseplan"
TESTS: Final = ROOT / "tests"
# What tests mechanisms and nothing else: by room, and by experiment on all of them.
MECHANISM_TESTS: Final = ("mechanisms", "conformance")
MOST_PARAMETERS: Final = 6
# What plans call their noise, and the flags that say the same.
NOISES: Final = {"discrete", "discrete Laplace", "gaussian", "laplace"}
FLAGS: Final = {"integer", "laplace", "pure"}
# Attributes that tell a noise by something else than its name, and what they are read from.
TRAITS: Final = {"law", "power", "degree", "accounting", "exact"}
OF_NOISE: Final = {"noise", "drawn"}
# What says in other words that a budget or a guarantee is one of Laplace noise.
PURE_WORDS: Final = {"pure_epsilon", "PureDP"}
# What tells one mechanism from all others without naming it.
MECHANISM_FLAGS: Final = {"data_aware", "alike_by", "lists_all", "from_sizes"}


@dataclass(frozen=True)
class Figure:
    """A figure then and now, and the most (or least) it should be."""

    what: str
    then: float
    now: float
    target: float
    more: bool = False  # whether it should be above the target, not at most that

    @property
    def met(self) -> bool:
        """By comparison, never by opinion."""
        return self.now > self.target if self.more else self.now <= self.target

    @property
    def row(self) -> tuple[str, str, str, str, bool]:
        """As the table has it."""
        target = f"above {shown(self.target)}" if self.more else f"at most {shown(self.target)}"
        return self.what, shown(self.then), shown(self.now), target, self.met


def shown(number: float) -> str:
    """Whole numbers as they are, others with two decimals; what nobody counted as a dash."""
    if math.isnan(number):
        return "–"
    return f"{number:,.0f}" if number == int(number) else f"{number:.2f}"


def tables(quick: bool) -> Iterator[Table]:
    """Two tables: what is counted from the source, and the walk."""
    figures = source_figures(SOURCE, TESTS)
    yield _table(
        "The source",
        "Rooms are the folders of `src/noiseplan`. Imports inside functions count, imports for "
        "type checkers do not. An arrow upward is a pair of rooms that the layers of "
        "`tests/test_rooms.py` do not allow. A line asks for the kind of noise where it compares "
        "with a name of it, or branches on a flag that says the same, outside `noise`; it asks "
        "what a mechanism is where it says `isinstance` of one (by another count these were 99 "
        "and 48). In any words it asks too where it compares or branches on what only one law has "
        "(its power, its accounting), or looks something up by it, or has a table by names of it; "
        "of a promise, where it asks for its ε of pure DP or for a budget of that class; of a "
        "mechanism, where it branches on a flag that only some have. Nobody counted these then. "
        "Lines of test are those of `tests/mechanisms` and `tests/conformance`, over all "
        "lines of `src/noiseplan/mechanisms`; that room had no partitions then, and there were no "
        "conformance tests.",
        figures,
    )
    yield _table(
        "The walk of one marginal",
        "Schema, workload, plan, release, table, save, load, answer: functions of the package that "
        "are called, comprehensions and the loading of modules left out, and the modules they are "
        "in (by another count, 453 and 78). [The design](../design.md#the-walk-of-one-marginal) "
        "draws it. The target is half.",
        walk_figures(),
    )


def _table(title: str, sentence: str, figures: Iterable[Figure]) -> Table:
    every = tuple(figures)
    return Table(
        title=title,
        sentence=sentence,
        source="the same counts before the rooms had layers, and the figures set as targets.",
        columns="figure | then | now | target | verdict",
        rows=tuple(figure.row for figure in every),
        claims=tuple(
            Claim(f"{figure.what}, {figure.row[3]}: {shown(figure.now)}", figure.met)
            for figure in every
        ),
    )


def source_figures(source: Path, tests: Path) -> Iterator[Figure]:
    """All that can be counted without running anything."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    rooms = _rooms()
    mechanisms = sum(lines(path) for path in sorted((source / "mechanisms").rglob("*.py")))
    proofs = sum(
        lines(path) for folder in MECHANISM_TESTS for path in sorted((tests / folder).rglob("*.py"))
    )
    yield Figure("files", 343, len(texts), 275)
    yield Figure("lines", 47_438, sum(lines(path) for path in texts), 42_000)
    yield Figure("pairs of rooms with an arrow upward", 42, len(arrows_upward(rooms)), 0)
    yield Figure("rooms in cycles", 8, len(rooms_in_cycles(rooms)), 0)
    yield Figure(
        f"functions of more than {MOST_PARAMETERS} parameters",
        30,
        sum(len(long_signatures(tree)) for tree in trees.values()),
        9,
    )
    skipped = sum(len(re.findall(r"# fmt: skip", text)) for text in texts.values())
    yield Figure("places where the formatter is told to look away", 105, skipped, 19)
    yield Figure("names that several modules have", 39, len(repeated_names(texts)), 9)
    asked = sum(
        len(noise_lines(tree))
        for path, tree in trees.items()
        if source / "noise" not in path.parents
    )
    yield Figure("lines that ask for the kind of noise", 92, asked, 9)
    kinds = sum(len(mechanism_lines(tree)) for tree in trees.values())
    yield Figure("lines that ask what a mechanism is", 40, kinds, 9)
    above = {p: tree for p, tree in trees.items() if source / "noise" not in p.parents}
    asked = sum(len(noise_lines(tree) | disguised_noise(tree)) for tree in above.values())
    yield Figure("lines that ask for the noise in any words", math.nan, asked, 9)
    asked = sum(len(pure_lines(tree)) for tree in above.values())
    yield Figure("lines that ask whether a promise is of pure DP", math.nan, asked, 9)
    kinds = sum(len(mechanism_lines(tree) | disguised_mechanisms(tree)) for tree in trees.values())
    yield Figure("lines that ask what a mechanism is in any words", math.nan, kinds, 9)
    yield Figure("lines of test for a line of mechanisms", 0.33, proofs / mechanisms, 1, more=True)


def walk_figures() -> Iterator[Figure]:
    """How much one marginal crosses."""
    crossed = walk.walked()
    yield Figure("functions crossed", 435, len(walk.functions(crossed)), 435 // 2)
    yield Figure("modules crossed", 81, len(walk.modules(crossed)), 81 // 2)


def lines(path: Path) -> int:
    """Lines of a file, whatever is in them."""
    return len(path.read_text(encoding="utf-8").splitlines())


# ---------------------------------------------------------------------- rooms


@cache
def _rooms() -> ModuleType:
    """tests/test_rooms.py, which reads the imports: the test and this page count the same."""
    spec = importlib.util.spec_from_file_location("test_rooms", TESTS / "test_rooms.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def arrows_upward(rooms: ModuleType) -> set[tuple[str, str]]:
    """Pairs of rooms, one looking into the other, that the layers do not allow."""
    return {(rooms.room(module), target) for module, target in rooms.upward()}


def rooms_in_cycles(rooms: ModuleType) -> set[str]:
    """Rooms that reach themselves by way of others."""
    graph: dict[str, set[str]] = {}
    for module, targets in rooms.arrows().items():
        own = rooms.room(module)
        others = {rooms.room(target) for target in targets} - {own} - rooms.EXEMPT
        if own not in rooms.EXEMPT:
            graph.setdefault(own, set()).update(others)
    found: set[str] = rooms.cyclic(graph)
    return found


# ---------------------------------------------------------------------- signatures, names


def long_signatures(tree: ast.Module) -> list[str]:
    """Functions that take more than six things, `self` not counted."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names = [argument.arg for argument in every]
            if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_PARAMETERS:
                found.append(node.name)
    return found


def repeated_names(paths: Iterable[Path]) -> set[str]:
    """Names that more than one module has."""
    often = Counter(path.stem for path in paths if path.stem not in ("__init__", "__main__"))
    return {name for name, times in often.items() if times > 1}


# ---------------------------------------------------------------------- questions in the code


def noise_lines(tree: ast.Module) -> set[int]:
    """Lines that compare with the name of a noise, or branch on a flag that says the same."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _holds(node, _is_noise):
            found.add(node.lineno)
        for test in _tests(node):
            if _holds(test, _is_flag):
                found.add(test.lineno)
    return found


def mechanism_lines(tree: ast.Module) -> set[int]:
    """Lines that ask whether something is a mechanism of some kind."""
    return {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and re.search(r"Mechanism\b", ast.unparse(node.args[1]))
    }


def disguised_noise(tree: ast.Module) -> set[int]:
    """Lines that tell noise apart by what only one law has: compared, branched on, or looked up."""
    found = set()
    for node in ast.walk(tree):
        asked = [node] if isinstance(node, ast.Compare | ast.BoolOp) else _tests(node)
        asked += [node.slice] if isinstance(node, ast.Subscript) else []
        if any(_holds(each, _is_trait) or _holds(each, _is_flag) for each in asked):
            found.add(node.lineno if isinstance(node, ast.expr) else asked[0].lineno)
        if isinstance(node, ast.Dict) and sum(map(_is_noise, filter(None, node.keys))) > 1:
            found.add(node.lineno)
    return found


def pure_lines(tree: ast.Module) -> set[int]:
    """Lines that ask for ε of pure DP to be there, or for a budget to be one of it."""
    return {
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Compare) and _holds(node, _is_pure))
        or (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "isinstance"
            and _holds(node.args[1], _is_pure)
        )
    }


def disguised_mechanisms(tree: ast.Module) -> set[int]:
    """Lines that branch on, or compare, a flag that only some mechanisms have."""
    found = set()
    for node in ast.walk(tree):
        asked = [node] if isinstance(node, ast.Compare) else _tests(node)
        found |= {each.lineno for each in asked if _holds(each, _is_mechanism_flag)}
    return found


def _tests(node: ast.AST) -> list[ast.expr]:
    """What a node branches on."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _holds(node: ast.AST, wanted: Callable[[ast.AST], bool]) -> bool:
    return any(wanted(inner) for inner in ast.walk(node))


def _is_noise(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NOISES


def _is_trait(node: ast.AST) -> bool:
    """`noise.power`, `problem.drawn.law` and the like."""
    if not isinstance(node, ast.Attribute) or node.attr not in TRAITS:
        return False
    return ast.unparse(node.value).rpartition(".")[2] in OF_NOISE


def _is_pure(node: ast.AST) -> bool:
    return getattr(node, "attr", getattr(node, "id", None)) in PURE_WORDS


def _is_mechanism_flag(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in MECHANISM_FLAGS


def _is_flag(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in FLAGS
    if not isinstance(node, ast.Attribute) or node.attr not in FLAGS | {"exact"}:
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id == "np")  # `np.integer`
