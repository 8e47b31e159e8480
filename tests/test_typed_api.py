"""A type checker sees the types of the public names in a wheel that was installed: `py.typed`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from installed import ROOT, bare, made

CHECKED = sorted((ROOT / "tests" / "typing").glob("*.py"))
# Beside what `make types` keeps: files are known by what is in them, wherever they are installed.
KEPT = ROOT / ".mypy_cache" / "installed"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def known_already() -> None:
    """What `make types` has checked is not checked again, if it was by the same options.

    It may be at work beside: what is half written is not taken, by the type checker either.
    """
    of_tree, ours = KEPT.parent / VERSION, KEPT / VERSION
    part = "noiseplan" if ours.exists() else "."  # libraries do not change
    with suppress(OSError):  # of files that went meanwhile
        shutil.copytree(of_tree / part, ours / part, dirs_exist_ok=True)


@pytest.mark.timeout(900)  # a type checker that begins with nothing, the first time
def test_the_public_names_have_the_types_they_should(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = made(tmp_path_factory).programs
    known_already()
    options = ["--strict", "--python-executable", str(programs / "python"), "--config-file="]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={KEPT}",
         *(str(path) for path in CHECKED)],
        cwd=tmp_path, env=bare(), capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"no issues found in {len(CHECKED)} source files" in done.stdout
