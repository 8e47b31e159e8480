"""The README as a whole, in its order, in a copy of the tree: what a visitor would type works.

`make` finds an environment in the copy that is the present one under another name, so nothing is
installed; all else is run as it is written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a test cannot do again, and why.
NOT_RUN = {"make test": "it runs this test"}
# What was compiled goes along, or each run would compile the package anew.
LEFT = shutil.ignore_patterns(".*", "build", "dist", "pictures", "out")
ENVIRONMENT = {
    "python": 'exec "{python}" "$@"',
    "noiseplan": 'exec "{python}" -m noiseplan "$@"',
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The tree without anything that was made in it, and an environment as `make demo` makes it."""
    made = tmp_path / "clone"
    shutil.copytree(ROOT, made, ignore=LEFT)
    programs = made / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, line in ENVIRONMENT.items():
        script = programs / name
        script.write_text("#!/bin/sh\n" + line.format(python=sys.executable) + "\n")
        script.chmod(0o755)
    (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
    for stamp in (".stamp-demo", ".stamp-dev"):
        (made / ".venv" / stamp).touch()
    return made


def script_of(readme: str) -> tuple[list[str], int]:
    """One shell script that does all that a page shows; Python blocks share their names."""
    lines, python, ran = [], "", 0
    blocks = BLOCK.findall(readme)
    for (kind, text), (following, _) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "python":
            python += text
            if following != "python":  # those that follow each other are one program
                lines += ["python - <<'END OF BLOCK'", python, "END OF BLOCK"]
            ran += 1
            continue
        commands = [line.partition("  #")[0].strip() for line in text.splitlines()]
        lines += [command for command in commands if command not in NOT_RUN]
        ran += len(commands)
    return lines, ran


@pytest.mark.timeout(900)  # half a minute of work, on machines that do other things too
def test_the_readme_works_as_it_is_written(clone: Path) -> None:
    readme = (clone / "README.md").read_text(encoding="utf-8")
    lines, ran = script_of(readme)
    assert ran >= 10
    assert all(f"\n{command} " in readme for command in NOT_RUN)
    bare = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    usual = "/usr/local/bin:/usr/bin:/bin"  # without the environment that runs the tests
    environment = {**bare, "PATH": usual, "PYTHONPATH": str(clone / "src")}
    # Each command is echoed, so that a failure names it.
    done = subprocess.run(
        ["bash", "-e", "-v"], input="\n".join(lines), cwd=clone, env=environment,
        capture_output=True, encoding="utf-8", check=False, timeout=840,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    assert (clone / "pictures" / "age.svg").is_file()
    assert (clone / "workers-2004" / "certificate.txt").is_file()
    assert (clone / "out" / "report.html").is_file()


def test_commands_are_not_there_before_the_environment_is_active(clone: Path) -> None:
    """What the test above finds is what the page tells to activate, and nothing else."""
    bare = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    found = subprocess.run(["bash", "-c", "command -v noiseplan"], env=bare, cwd=clone, check=False)
    assert found.returncode != 0
    active = subprocess.run(
        ["bash", "-c", ". .venv/bin/activate && command -v noiseplan"],
        env=bare, cwd=clone, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert active.stdout.strip() == str(clone / ".venv" / "bin" / "noiseplan")
