"""The package as users get it: what is in it, what it says of itself, and that it runs alone."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from installed import ROOT, bare, made
from noiseplan import __version__

DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made(tmp_path_factory)[:2]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory).programs


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
    about = f"noiseplan-{__version__}.dist-info/"
    package = {name for name in names if not name.startswith(about)}
    source = ROOT / "src"
    there = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == there
    assert {"noiseplan/py.typed", "noiseplan/data/cpssw8.parquet"} <= package
    assert {Path(name).suffix for name in package} >= {".css", ".js", ".toml", ".parquet"}
    assert f"{about}licenses/LICENSE" in names


def test_the_sdist_holds_what_is_needed_to_test_it(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = {
        "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile",
        "pyproject.toml", "docs/site/conf.py", "tests/test_package.py", "benchmarks/__main__.py",
        "examples/notebooks/first-look.ipynb", "docs/images/age.svg",
    }  # fmt: skip
    assert needed <= names
    assert not {name for name in names if name.startswith((".ci", ".venv", "build", "dist"))}
    assert not {name for name in names if "__pycache__" in name}


def test_the_metadata_are_valid_and_say_what_is_declared(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        about = f"noiseplan-{__version__}.dist-info"
        said = Metadata.from_email(wheel.read(f"{about}/METADATA"), validate=True)
        entries = wheel.read(f"{about}/entry_points.txt").decode()
        tag = wheel.read(f"{about}/WHEEL").decode()
    assert said.name == "noiseplan"
    assert str(said.version) == __version__ == DECLARED["version"]
    assert said.license_expression == "Apache-2.0"
    assert str(said.requires_python) == ">=3.11"
    assert said.description_content_type == "text/markdown"
    assert said.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(said.provides_extra or ()) == set(DECLARED["optional-dependencies"])
    always = {r.name for r in said.requires_dist or () if r.marker is None}
    assert always == {Requirement(each).name for each in DECLARED["dependencies"]}
    assert "noiseplan = noiseplan_command:main" in entries
    assert "Tag: py3-none-any" in tag
    versions = [c for c in said.classifiers or () if c.startswith("Programming Language")]
    assert [c.rpartition("3.")[2] for c in versions[1:]] == ["11", "12", "13"]


def run(programs: Path, folder: Path, *command: str) -> str:
    done = subprocess.run(
        [str(programs / command[0]), *command[1:]],
        cwd=folder, env=bare(), capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_wheel_runs_where_it_is_installed(programs: Path, tmp_path: Path) -> None:
    """The command line and the demonstration, without the tree and without its path."""
    where = run(programs, tmp_path, "python", "-c", "import noiseplan; print(noiseplan.__file__)")
    assert Path(where.strip()).is_relative_to(programs.parent)
    assert run(programs, tmp_path, "noiseplan", "--version").strip().endswith(__version__)
    run(programs, tmp_path, "noiseplan", "init", "--example", "wages")
    assert "Plan for 20 queries" in run(programs, tmp_path, "noiseplan", "plan", "wages.toml")
    run(programs, tmp_path, "noiseplan", "release", "wages.toml", "wages.parquet", "-o", "out")
    run(programs, tmp_path, "noiseplan", "report", "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<style>" in page  # its style and its script are files of the package
    assert "<script" in page
    assert "workers" in run(programs, tmp_path, "noiseplan", "demo", "--out", "pictures")
    assert (tmp_path / "pictures" / "age.svg").is_file()


def test_the_citation_is_that_of_this_version() -> None:
    """What version 1.2.0 of the format requires, and nothing that it does not know."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert cited["version"] == __version__
    assert cited["license"] == DECLARED["license"]
    assert all({"name"} == set(author) for author in cited["authors"])
    known = {"cff-version", "message", "type", "title", "abstract", "authors", "version"}
    assert set(cited) <= known | {"license", "keywords", "date-released"}
