"""A study reads the code lists of its own folder, says which, and never takes the data for one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.study import StudyError, read_study

STUDY = """\
[schema]
name = {{ categorical = {{ file = "{file}", column = "name" }} }}
dx   = {{ categorical = ["flu", "cold"], other = "other" }}
[[tables]]
k = 1
[budget]
zcdp = 0.001
"""
NAMES = (
    "patients.csv", "./patients.csv", "absolute", "sub/../patients.csv",
    "symlink.csv", "hardlink.csv", "copy.csv",
)  # fmt: skip
PATIENTS = "name,dx\nAlice Secret,flu\nBob Hidden,HIV\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with confidential data in it and beside it."""
    study = tmp_path / "study"
    study.mkdir()
    (tmp_path / "outside.csv").write_text(PATIENTS, encoding="utf-8")
    (study / "patients.csv").write_text(PATIENTS, encoding="utf-8")
    monkeypatch.chdir(study)
    return study


def write(file: str, more: str = "") -> str:
    Path("study.toml").write_text(STUDY.format(file=file) + more, encoding="utf-8")
    return "study.toml"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.mark.grid
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", ["patients.csv", "pat*.csv", "linked/*.csv"])
def test_the_data_are_no_code_list_under_any_name(folder: Path, name: str, data: str) -> None:
    Path("sub").mkdir()
    Path("linked").symlink_to(".")
    Path("symlink.csv").symlink_to("patients.csv")
    os.link("patients.csv", "hardlink.csv")
    shutil.copy("patients.csv", "copy.csv")
    write(str(folder / "patients.csv") if name == "absolute" else name)
    for path in (data, Path(data)):
        study = read_study("study.toml")
        with pytest.raises(StudyError, match="is the data itself"):
            study.release(study.plan(), path)
    result = run("release", "study.toml", data, "-o", "out")
    assert result.exit_code == 1
    assert "Nothing was spent" in result.stderr
    assert "Alice" not in result.output
    assert not Path("out").exists()


def test_that_a_list_is_the_data_is_on_record_before_it_is_told(folder: Path) -> None:
    """Whoever knows all records but one could hand in one guess after another."""
    ledger = nz.Ledger("office.ledger", create=True)
    ledger.open_dataset("patients", nz.zCDP(1.0))
    write("guess.csv", '[ledger]\nfile = "office.ledger"\ndataset = "patients"\n')
    told = []
    for guess in ("Bob Hidden,mum", "Bob Hidden,HIV"):
        Path("guess.csv").write_text(f"name,dx\nAlice Secret,flu\n{guess}\n", encoding="utf-8")
        result = run("release", "study.toml", "patients.csv", "-o", guess[-3:], "--again")
        told.append("is the data itself" in result.stderr)
    assert told == [False, True]
    assert [kept.found for kept in ledger.refusals("patients")] == ["a code list that is the data"]
    assert ledger.balance("patients").entries == 1
    assert "is the data itself" in run("check", "study.toml", "patients.csv", "--again").output
    looked = [kept.found for kept in ledger.checks("patients")]
    assert looked == ["nothing at fault", "a code list that is the data"]


def test_a_grouping_is_a_code_list_too(folder: Path) -> None:
    factor = '[[tables]]\nquery = "dx"\nfactors = { dx = { levels = [{ file = "patients.csv", '
    factor += 'value = "dx", group = "name" }] } }\n'
    text = STUDY.replace('{{ file = "{file}", column = "name" }}', '["a", "b"]')
    text = text.replace('["flu", "cold"], other = "other"', '["flu", "HIV"]').replace("{{", "{")
    Path("study.toml").write_text(text.replace("}}", "}") + factor, encoding="utf-8")
    study = read_study("study.toml")
    assert [path.name for path in study.code_lists] == ["patients.csv"]
    with pytest.raises(StudyError, match="is the data itself"):
        study.release(study.plan(), "patients.csv")


@pytest.mark.parametrize("sign", ["", "-"])
def test_whole_numbers_of_one_hash_are_refused_before_they_are_collected(
    folder: Path, sign: str
) -> None:
    """Multiples of 2⁶¹ − 1 share a hash in Python: a dictionary of them takes squared time."""
    numbers = [number * (2**61 - 1) for number in range(1, 12)]
    assert len({hash(number) for number in numbers}) == 1
    Path("codes.csv").write_text("name\n" + "\n".join(f"{sign}{each}" for each in numbers))
    study = STUDY.format(file="codes.csv").replace('"name" }', '"name", type = "integer" }')
    Path("study.toml").write_text(study, encoding="utf-8")
    with pytest.raises(StudyError, match=r"code list: .* 64 bits do not hold"):
        read_study("study.toml")


def test_a_public_list_of_the_same_length_is_none_of_the_data(folder: Path) -> None:
    public = PATIENTS.replace("HIV", "mum")
    Path("names.csv").write_text(public, encoding="utf-8")
    write("names.csv")
    result = run("release", "study.toml", "patients.csv", "-o", "out")
    assert result.exit_code == 0, result.output
    assert nz.load("out").schema["name"].labels == ("Alice Secret", "Bob Hidden")


@pytest.mark.parametrize("file", ["../outside.csv", "absolute", "link.csv"])
@pytest.mark.parametrize("command", ["plan", "compare", "release"])
def test_a_list_outside_the_folder_is_read_only_if_allowed(
    folder: Path, file: str, command: str
) -> None:
    Path("link.csv").symlink_to("../outside.csv")
    write(str(folder.parent / "outside.csv") if file == "absolute" else file)
    arguments = ["study.toml"]
    if command == "release":
        Path("data.csv").write_text("name,dx\nAlice Secret,flu\n", encoding="utf-8")
        arguments += ["data.csv", "-o", "out"]
    refused = run(command, *arguments)
    assert refused.exit_code == 1
    assert "lies outside the folder of the study" in refused.stderr
    assert "--allow-outside" in refused.stderr
    assert "read_study" not in refused.stderr
    assert "Alice" not in refused.output
    allowed = run(command, *arguments, "--allow-outside")
    assert allowed.exit_code == 0, allowed.output
    with pytest.raises(StudyError, match="allow_outside=True"):
        read_study("study.toml")
    assert len(read_study("study.toml", allow_outside=True).code_lists) == 1


def test_plans_say_what_was_read(folder: Path) -> None:
    write("patients.csv")
    printed = run("plan", "study.toml").stdout
    assert "no data was read" not in printed
    assert "code lists  patients.csv: what they hold is taken to be public" in printed
    content = json.loads(run("plan", "study.toml", "--json").stdout)
    assert content["code_lists"] == ["patients.csv"]
    text = STUDY.format(file="").replace('{ file = "", column = "name" }', '["a", "b"]')
    Path("study.toml").write_text(text, encoding="utf-8")
    assert "no data was read" in run("plan", "study.toml").stdout
    assert json.loads(run("plan", "study.toml", "--json").stdout)["code_lists"] == []


def test_the_output_stays_in_the_folder_unless_it_is_allowed_or_named(folder: Path) -> None:
    Path("names.csv").write_text("name\nAlice Secret\nBob Hidden\n", encoding="utf-8")
    write("names.csv", '[output]\nfolder = "../escaped"\n')
    assert run("plan", "study.toml").exit_code == 0  # which writes nothing
    refused = run("release", "study.toml", "patients.csv")
    assert refused.exit_code == 1
    assert "the output folder '../escaped' lies outside" in refused.stderr
    assert not (folder.parent / "escaped").exists()
    assert run("release", "study.toml", "patients.csv", "-o", "../named").exit_code == 0
    assert run("release", "study.toml", "patients.csv", "--allow-outside").exit_code == 0
    assert nz.load(folder.parent / "escaped").answer("dx").query.rows == 3


@pytest.mark.parametrize("section", ['[output]\nfolder = "a\\u0000b"\n',
                                     '[ledger]\nfile = "a\\u0000b"\ndataset = "d"\n'])  # fmt: skip
def test_paths_that_no_system_has_are_named_with_their_line(folder: Path, section: str) -> None:
    write("patients.csv", section)
    with pytest.raises(StudyError, match=r"study\.toml:\d+: .* is no path"):
        read_study("study.toml")
    write("a\\u0000b")
    with pytest.raises(StudyError, match=r"study\.toml:2: .* is no path"):
        read_study("study.toml")
