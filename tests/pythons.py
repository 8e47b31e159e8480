"""The smoke tests under every Python that is found: `make pythons`.

Each gets an environment of its own in build/pythons, with noiseplan and what the smoke tests need.
Interpreters are looked for on the path and among those of pyenv; what is missing is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NEEDED = (
    "pytest>=8", "pytest-timeout>=2", "hypothesis>=6.100", "mpmath>=1.3", "pyarrow>=17",
    "polars>=1.20",
)  # fmt: skip
# One of each kind: names, declaring, noise, releases, saving, the ledger, commands, notebooks.
SMOKE = (
    "tests/test_public_api.py",
    "tests/schema/test_schema.py",
    "tests/noise/test_noise_sampler.py",
    "tests/release/test_release_words.py",
    "tests/storage/test_storage_formats.py",
    "tests/ledger/test_ledger_spending.py",
    "tests/cli/test_cli_completion.py",
    "tests/cli/test_cli_check.py",
    "tests/draw/test_notebook_html.py",
)


def interpreter(version: str) -> str | None:
    """A Python of a version, from pyenv or the path, whose stand-ins do not always run."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = [*map(str, kept), shutil.which(f"python{version}")]
    return next((path for path in found if path and _version(path) == version), None)


def _version(path: str) -> str:
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def prepared(version: str, path: str) -> Path:
    """The interpreter of an environment with noiseplan and the tests' needs."""
    folder = ROOT / "build" / "pythons" / version
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([path, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*install, "--editable", f"{ROOT}[pandas]", *NEEDED], check=True)
    return python


def passes(version: str, path: str) -> bool:
    """Whether the smoke tests pass under a Python."""
    python = prepared(version, path)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return done.returncode == 0


def main() -> int:
    results = {}
    for version in VERSIONS:
        path = interpreter(version)
        if path is None:
            results[version] = "not found"
            continue
        print(f"Python {version}: {path}", flush=True)  # noqa: T201
        results[version] = "passed" if passes(version, path) else "FAILED"
    for version, result in results.items():
        print(f"Python {version}: {result}")  # noqa: T201
    return 1 if "FAILED" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
