"""A type checker sees the types of the public names in a wheel that was installed: `py.typed`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from installed import ROOT, bare, distributions, installed

CHECKED = sorted((ROOT / "tests" / "typing").glob("*.py"))
# Beside what `make types` keeps: files are known by what is in them, wherever they are installed.
KEPT = ROOT / ".mypy_cache" / "installed"


@pytest.mark.timeout(900)  # a type checker that begins with nothing, the first time
def test_the_public_names_have_the_types_they_should(tmp_path: Path) -> None:
    _, wheel = distributions(tmp_path / "dist")
    programs = installed(wheel, tmp_path / "venv")
    options = ["--strict", "--python-executable", str(programs / "python"), "--config-file="]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={KEPT}",
         *(str(path) for path in CHECKED)],
        cwd=tmp_path, env=bare(), capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"no issues found in {len(CHECKED)} source files" in done.stdout
