"""Everyday and full depth of random tests: who asks for which, and that there is one way to ask."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CI = ROOT / ".ci" / "run"
BARE = {name: value for name, value in os.environ.items() if name != "NOISEPLAN_TEST_DEPTH"}
TRIED = 17_636
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


def test_there_is_one_way_to_say_how_many() -> None:
    for path, call in calls():
        assert not any(key.arg == "max_examples" for key in call.keywords), path
        if ast.unparse(call.func) == "depth":
            full, everyday = (ast.literal_eval(argument) for argument in call.args)
            assert 0 < everyday < full, f"{path.name}: {everyday}"


def test_nothing_is_tried_less_in_full() -> None:
    """The sum of all numbers in full; where a test goes, or says more with less, lower it here."""
    named = {"depth", "examples", "seeds"}
    full = [call.args[0] for _, call in calls() if ast.unparse(call.func) in named]
    assert sum(ast.literal_eval(number) for number in full) >= TRIED
