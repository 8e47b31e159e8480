"""Everyday and full depth of tests: who asks for which, and that there is one way to ask."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, spread

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CI = ROOT / ".ci" / "run"
BARE = {name: value for name, value in os.environ.items() if name != "NOISEPLAN_TEST_DEPTH"}
TELL = '#!/bin/sh\necho "$(basename "$0"): ${NOISEPLAN_TEST_DEPTH:-not set}"\n'


def stand_ins(folder: Path, *names: str) -> Path:
    """Programs that only tell which depth they were called at."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(TELL)
        (folder / name).chmod(0o755)
    return folder


def said(*command: str, path: str = "") -> str:
    environment = BARE | ({"PATH": f"{path}:{BARE['PATH']}"} if path else {})
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True
    ).stdout


@pytest.mark.skipif(not CI.exists(), reason="an sdist has no .ci")
def test_a_change_lands_after_full_depth(tmp_path: Path) -> None:
    programs = stand_ins(tmp_path / "bin", "make", "java", "initdb", "chromium")
    assert said("bash", str(CI), path=str(programs)) == "make: full\n"


@pytest.mark.parametrize(("target", "depth"), [("test", "not set"), ("thorough", "full")])
def test_the_targets_of_make(target: str, depth: str, tmp_path: Path) -> None:
    stand_ins(tmp_path / "bin", "python", "ruff", "mypy", "pytest")
    (tmp_path / ".stamp-dev").touch()
    told = said("make", "--silent", target, f"VENV={tmp_path}").splitlines()
    assert sorted(set(told)) == [f"{name}: {depth}" for name in ("mypy", "pytest", "ruff")]


def numbers(chosen: str | None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What `depth` and `examples` say, read anew where the variable is this."""
    monkeypatch.delenv("NOISEPLAN_TEST_DEPTH", raising=False)
    if chosen is not None:
        monkeypatch.setenv("NOISEPLAN_TEST_DEPTH", chosen)
    read = runpy.run_path(str(TESTS / "depth.py"))
    made = [read["examples"](full).max_examples for full in (200, 9, 5)]
    return [read["depth"](7, 3), *made, *(len(read["seeds"](full)) for full in (40, 12, 3))]


def test_full_depth_is_the_number_that_a_test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers("full", monkeypatch) == [7, 200, 9, 5, 40, 12, 3]
    everyday = numbers("everyday", monkeypatch)
    assert numbers(None, monkeypatch) == everyday == [3, 50, 8, 5, 10, 4, 3]
    with pytest.raises(ValueError, match="it is one of everyday, full"):
        numbers("ful", monkeypatch)


def test_some_cases_are_spread_and_in_full_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for chosen in ("everyday", "full"):
        monkeypatch.setenv("NOISEPLAN_TEST_DEPTH", chosen)
        some = runpy.run_path(str(TESTS / "depth.py"))["some"]
        found[chosen] = [some("abcdefg", many) for many in (1, 2, 3, 7, 9)]
    assert found["everyday"] == [["a"], [*"ag"], [*"adg"], [*"abcdefg"], [*"abcdefg"]]
    assert found["full"] == [[*"abcdefg"]] * 5


@cache
def calls() -> list[tuple[Path, ast.Call]]:
    """All calls in files that know of depths, or of a way around them."""
    found = []
    for path in sorted(set(TESTS.rglob("*.py")) - {TESTS / "depth.py", Path(__file__)}):
        text = path.read_text(encoding="utf-8")
        if "from depth import" in text or "max_examples" in text:
            nodes = ast.walk(ast.parse(text))
            found += [(path, node) for node in nodes if isinstance(node, ast.Call)]
    return found


def name_of(call: ast.Call) -> str | None:
    """Of a function that is called by its name alone."""
    return call.func.id if isinstance(call.func, ast.Name) else None


def test_there_is_one_way_to_say_how_many() -> None:
    for path, call in calls():
        assert not any(key.arg == "max_examples" for key in call.keywords), path
        if name_of(call) == "depth":
            full, everyday = (ast.literal_eval(argument) for argument in call.args)
            assert 0 < everyday < full, f"{path.name}: {everyday}"


# ---------------------------------------------------------------------- grids


@pytest.mark.parametrize("sizes", [(7,), (3, 5), (4, 4), (13, 2, 4), (2, 3, 4, 5), (1, 6)])
def test_a_sample_of_a_grid_has_every_value_and_no_more_cases_than_the_longest(
    sizes: tuple[int, ...],
) -> None:
    grid = [*product(*map(range, sizes))]
    taken = [grid[place] for place in spread(grid)]
    assert [{case[axis] for case in taken} for axis in range(len(sizes))] == [
        set(range(size)) for size in sizes
    ]
    assert len(taken) == max(sizes)
    # Values go round: none is there twice as often as another, and one time more.
    for axis, size in enumerate(sizes):
        often = [sum(case[axis] == value for case in taken) for value in range(size)]
        assert max(often) <= 2 * min(often) + 1


@examples(60)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30, unique=True))
def test_any_cases_are_sampled_with_every_value(grid: list[tuple[int, ...]]) -> None:
    places = spread(grid)
    assert places == sorted(set(places)) and spread(grid) == places
    for axis in range(3):
        assert {grid[place][axis] for place in places} == {case[axis] for case in grid}


GRID = """
import pytest

@pytest.fixture(params=["x", "y"])
def how(request):
    return request.param

@pytest.mark.grid
@pytest.mark.parametrize(("a", "b"), [(1, 2), (3, 4), (5, 6)])
@pytest.mark.parametrize("seed", range(4))
def test_sampled(a, b, seed, how):
    pass

@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("a", range(3))
def test_whole(a, seed):
    pass

@pytest.mark.few(3)
@pytest.mark.parametrize("a", range(7))
def test_few(a):
    pass

LONG = pytest.mark.few(1)

@pytest.mark.parametrize("a", ["b", pytest.param("c", marks=LONG), pytest.param("d", marks=LONG)])
def test_long(a):
    pass
"""


@pytest.mark.parametrize(("depth", "cases"), [("everyday", 4), ("full", 24)])
def test_grids_are_sampled_every_day_and_whole_in_full(
    depth: str, cases: int, tmp_path: Path
) -> None:
    """What is not marked is whole at both depths; what is asked for by name runs."""
    for name in ("conftest.py", "depth.py", "slow_files.txt"):
        text = (TESTS / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text("" if name.endswith(".txt") else text, encoding="utf-8")
    (tmp_path / "test_grid.py").write_text(GRID)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def collected(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments]
        told = subprocess.run(
            command,
            cwd=tmp_path,
            env=BARE | {"NOISEPLAN_TEST_DEPTH": depth},
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout.splitlines()
        return [line.split("::")[1] for line in told if "::" in line]

    found = collected("test_grid.py")
    assert sum(name.startswith("test_whole") for name in found) == 12
    sampled = [name for name in found if name.startswith("test_sampled")]
    assert len(sampled) == cases
    for value in ("-0-", "-1-", "-2-", "-3-", "1-2", "3-4", "5-6", "x", "y"):
        assert any(value in name.replace("[", "-").replace("]", "-") for name in sampled), value
    few = "0123456" if depth == "full" else "036"
    assert [n for n in found if n.startswith("test_few")] == [f"test_few[{a}]" for a in few]
    long = "bcd" if depth == "full" else "bc"
    assert [n for n in found if n.startswith("test_long")] == [f"test_long[{a}]" for a in long]
    asked = ["test_sampled[x-3-5-6]", "test_few[4]", "test_long[d]"]
    assert collected(*(f"test_grid.py::{name}" for name in asked)) == asked


def test_what_proves_contracts_is_never_sampled() -> None:
    """Every kind of mechanism meets every check of conformance every day, and every saved example
    is read, every attack is tried: nothing there is marked."""
    whole = [TESTS / "storage" / "test_storage_saved.py", TESTS / "test_attacks.py"]
    for folder in ("conformance", "storage/kinds"):
        whole += (TESTS / folder).rglob("*.py")
    for path in whole:
        assert not re.search(r"mark\.(grid|few)\b", path.read_text(encoding="utf-8")), path


def test_at_least_one_case_runs_every_day() -> None:
    """Of every test that is marked `few`; numbers are written down where the mark is."""
    marked = 0
    for path in TESTS.rglob("test_*.py"):
        numbers = re.findall(r"@pytest\.mark\.few\(([^)]*)\)", path.read_text(encoding="utf-8"))
        assert all(int(number) >= 1 for number in numbers), path
        marked += len(numbers)
    assert marked > 50
