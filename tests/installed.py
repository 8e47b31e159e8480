"""noiseplan as users get it: a wheel, installed where nothing of the tree is seen."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Made(NamedTuple):
    """What a run of the tests makes once."""

    sdist: Path
    wheel: Path
    programs: Path


def made(factory: pytest.TempPathFactory) -> Made:
    """Built and installed by whoever asks first, for all workers of a run; others wait."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            sdist, wheel = distributions(folder / "dist")
            found = Made(sdist, wheel, installed(wheel, folder / "venv"))
            done.write_text("\n".join(map(str, found)), encoding="utf-8")
        return Made(*map(Path, done.read_text(encoding="utf-8").splitlines()))


def distributions(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, into a folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, capture_output=True, check=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def installed(wheel: Path, folder: Path) -> Path:
    """The programs of a new environment with the wheel; dependencies are those of this one.

    The other environment's packages are seen by a line in a `.pth` file, and its own `.pth` files,
    by which a tree is installed to be edited, are not.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", scheme="venv", vars=scheme))
    outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(outer)) + "\n")
    programs = Path(sysconfig.get_path("scripts", scheme="venv", vars=scheme))
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, "--ignore-installed", str(wheel)], check=True)
    return programs


def bare() -> dict[str, str]:
    """The environment's variables without the one by which the tree would be found."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
