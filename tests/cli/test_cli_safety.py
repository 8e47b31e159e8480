"""A release that was paid for is not lost, and nothing printed commands the terminal."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.storage import folder as storage

STUDY = """\
[schema]
age = { ordinal = { from = 0, to = 9 } }
sex = { categorical = ["F", "M"] }
[[tables]]
up_to = 2
[budget]
zcdp = 0.5
[ledger]
file = "a.ledger"
dataset = "people"
"""
# Title of a window, a cleared screen, colours, text from right to left, a carriage return.
EVIL = "\x1b]0;pwn\x07\x1b[2J\r\x9b31m\u202egnp"
BASIC = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")  # as TOML writes it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study, its data and a ledger; the working folder, with temporary files of its own."""
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    rows = "".join(f"{n % 10},{'FM'[n % 2]}\n" for n in range(50))
    (tmp_path / "people.csv").write_text("age,sex\n" + rows, encoding="utf-8")
    nz.Ledger(tmp_path / "a.ledger", create=True).open_dataset("people", nz.zCDP(0.6))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def release(target: object) -> Result:
    return run("release", "study.toml", "people.csv", "-o", target)


def spent(folder: Path) -> float:
    return nz.Ledger(folder / "a.ledger").balance("people").spent.rho


# ---------------------------------------------------------------------- before the spending


def test_a_target_that_could_not_be_saved_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "mounted").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "mounted")
    before = sorted(folder.iterdir())
    for target, words in (
        ("link", "is a link"),
        ("dangling", "is a link"),
        ("mounted", "is a mounted disk"),
        ("x" * 256, "too long"),
        ("study.toml/out", "cannot be written"),
    ):
        result = release(target)
        assert result.exit_code == 1, target
        assert words in result.stderr
        assert spent(folder) == 0
    assert sorted(folder.iterdir()) == before
    assert release("x" * 255).exit_code == 0
    assert nz.load(folder / ("x" * 255)).plan.privacy.rho <= 0.5


def test_a_busy_folder_is_found_out_by_the_rehearsal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the same disk, mounted over itself, looks like any other."""
    (folder / "bound").mkdir()

    def busy(path: Path, real: object = Path.rmdir) -> None:
        if path.name == "bound":
            raise OSError(16, "Device or resource busy")
        real(path)  # type: ignore[operator]

    monkeypatch.setattr(Path, "rmdir", busy)
    result = release("bound")
    assert result.exit_code == 1
    assert "resource busy" in result.stderr
    assert "nothing was spent" in result.stderr
    assert spent(folder) == 0


# ---------------------------------------------------------------------- after the spending


def kept_in(result: Result) -> Path:
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "its cost counts (entry 3" in result.stderr
    found = re.search(r"in '([^']*)': move it from there", result.stderr)
    assert found, result.stderr
    return Path(found[1])


def test_a_name_taken_in_the_meantime_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then_taken(target: Path, tables: object, real: object = storage.rehearse_saving) -> None:
        real(target, tables)  # type: ignore[operator]
        (folder / "out").mkdir()
        (folder / "out" / "mine").write_text("kept")

    monkeypatch.setattr(storage, "rehearse_saving", then_taken)
    kept = kept_in(release("out"))
    assert kept.parent == folder
    assert len(list((kept / "tables").glob("*.csv"))) == 5
    assert nz.load(kept).answer("age").query.rows == 10
    assert (folder / "out" / "mine").read_text() == "kept"
    assert spent(folder) > 0


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("odd")])
def test_a_full_disk_keeps_the_release_among_the_temporary_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(path: Path, *arguments: object, real: object = storage.write_arrays) -> None:
        if "temporary" not in path.parts:
            raise error
        real(path, *arguments)  # type: ignore[operator]

    monkeypatch.setattr(storage, "write_arrays", full)
    kept = kept_in(release("out"))
    assert kept.parent.parent == folder / "temporary"
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert nz.load(kept).answer("age, sex".replace(", ", " × ")).query.rows == 20
    assert not (folder / "out").exists()
    assert not [path for path in folder.iterdir() if path.name.startswith((".", "noiseplan-"))]


def test_tables_that_cannot_be_written_as_files_are_kept_as_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr("noiseplan.storage.folder.write_tables", broken)
    result = release("out")
    kept = kept_in(result)
    assert "without its tables as files" in result.stderr
    assert nz.load(kept).answer("age").query.rows == 10


# ---------------------------------------------------------------------- what is printed


@pytest.fixture
def evil(folder: Path) -> Path:
    """A study whose title, labels, names and purpose are commands to a terminal."""
    text = STUDY.replace('"F"', f'"F{BASIC}", "=1+1", "-a"')
    text = f'title = "t{BASIC}"\n' + text.partition("[ledger]")[0]
    text += f'[[tables]]\nname = "n{BASIC}"\nquery = "sex"\n'
    (folder / "evil.toml").write_text(text, encoding="utf-8")
    (folder / "evil.csv").write_text("age,sex\n1,M\n2,=1+1\n", encoding="utf-8")
    assert run("release", "evil.toml", "evil.csv", "-o", "out").exit_code == 0
    return folder


def shapeless(text: str) -> set[str]:
    return {c for c in text if not (c.isprintable() or c == "\n")}


def test_no_command_prints_a_control_character(evil: Path) -> None:
    odd = f"x{EVIL}"
    commands: tuple[tuple[object, ...], ...] = (
        ("plan", "evil.toml"), ("plan", "evil.toml", "--json"), ("plan", odd), ("plan", "a", odd),
        ("show", "out"), ("show", "out", "--json"), ("show", odd),
        ("answer", "out", "sex"), ("answer", "out", f"n{EVIL}"), ("answer", "out", "sex", "--csv"),
        ("answer", "out", "sex", "--json"), ("answer", "out", odd), ("answer", "out", odd, "--csv"),
        ("answer", "out", "--where", odd), ("answer", "out", "sex", f"--{odd}"),
        ("answer", "out", "sex", "--level", odd), (odd,), (f"--{odd}",),
        ("compare", "evil.toml"), ("compare", "evil.toml", "--planner", odd),
        ("valid", "out", "-o", f"v{EVIL}"), ("valid", "out", "-o", "v", "--table", odd),
        ("report", "out", "-o", f"r{EVIL}.html"), ("report", "out", "-o", f"no/{odd}"),
        ("init", f"i{EVIL}.toml", "--column", f"{odd}=0..1"), ("init", odd, "--column", odd),
        ("release", "evil.toml", odd, "-o", "more"),
        ("release", "evil.toml", "evil.csv", "-o", odd),
        ("ledger", "init", odd), ("ledger", "show", odd), ("ledger", "open", "a.ledger", odd),
        ("ledger", "export", "a.ledger", "-o", f"no/{odd}"),
    )  # fmt: skip
    for arguments in commands:
        result = run(*arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), arguments
        assert shapeless(result.stdout + result.stderr) == set(), arguments


def test_json_gives_every_name_back(evil: Path) -> None:
    content = json.loads(run("answer", "out", f"n{EVIL}", "--json").stdout)
    assert content["query"] == f"n{EVIL}"
    assert content["rows"][0]["sex"] == f"F{EVIL}"
    files = json.loads(run("show", "out", "--json").stdout)["files"]
    assert f"n{EVIL}" in [file["query"] for file in files]


def test_answers_for_spreadsheets_hold_no_formulas(evil: Path) -> None:
    rows = list(csv.reader(run("answer", "out", "sex", "--csv").stdout.splitlines()))
    assert [row[0] for row in rows][2:4] == ["'=1+1", "'-a"]
    assert all(float(text) is not None for row in rows[1:] for text in row[1:])


def test_exports_of_a_ledger_show_control_characters_on_the_screen_only(folder: Path) -> None:
    note = "mark \u202e of direction"
    nz.Ledger("a.ledger").change_budget("people", nz.zCDP(0.7), reason=note)
    for kind in ("json", "csv"):
        printed = run("ledger", "export", "a.ledger", "--format", kind).stdout
        assert shapeless(printed) == set()
        assert r"mark \u202e of" in printed
        run("ledger", "export", "a.ledger", "--format", kind, "-o", f"x.{kind}")
        assert note in (folder / f"x.{kind}").read_text(encoding="utf-8")


def read_all(descriptor: int) -> Iterator[bytes]:
    with suppress(OSError):  # how Linux tells that nobody writes any more
        while found := os.read(descriptor, 65536):
            yield found


def test_a_terminal_gets_only_our_own_styles(evil: Path) -> None:
    """Colours of bars and a bold title are ours; nothing else reaches a real terminal.

    A bar of progress, with marks of its own, would be on standard error after a second.
    """
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "noiseplan", "plan", "evil.toml"]
    env = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdout=inner, stderr=subprocess.PIPE, env=env) as process:
        os.close(inner)
        printed = list(read_all(outer))
        assert process.stderr is not None
        assert shapeless(process.stderr.read().decode()) == set()
    os.close(outer)
    text = b"".join(printed).decode()
    assert "█" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\r\n", "\n"))
    assert shapeless(plain) == set()
    assert "31m" not in re.findall(r"\x1b\[([0-9;]*m)", text)
    assert r"n\x1b]0;pwn" in plain


def test_reports_show_marks_of_direction(evil: Path) -> None:
    assert run("report", "out", "--title", f"t{EVIL}").exit_code == 0
    page = (evil / "out" / "report.html").read_text(encoding="utf-8")
    assert shapeless(page) <= {"\t"}
    assert r"F\x1b]0;pwn" in page


def test_commands_print_by_the_console_alone() -> None:
    """What is printed another way is not looked through."""
    sources = Path(nz.__file__).parent.joinpath("cli").glob("*.py")
    other = re.compile(r"click\.(echo|secho|style)|(?<!\.)\bprint\(|sys\.std(out|err)\.write")
    assert [path.name for path in sources if other.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "order",
    [
        ["answer", "out", "--where", "age < 3", "--where", "sex = 'F'"],
        ["release", "study.toml", "people.csv", "-o", "one", "--output", "two"],
        ["local", "answer", "counts", "--where", "age < 3", "--where", "sex = 'F'"],
    ],
)
def test_an_option_of_one_value_is_not_taken_twice(folder: Path, order: list[str]) -> None:
    """The last would count, and the other be lost without a word."""
    result = run(*order)
    assert result.exit_code == 2 and "is given twice, and only one can be meant" in result.output
    assert not nz.Ledger("a.ledger").entries() and not Path("two").exists()


def test_options_that_may_be_repeated_are(folder: Path) -> None:
    assert release("out").exit_code == 0
    assert run("valid", "out", "-o", "v", "--table", "age", "--table", "sex").exit_code == 0
    assert run("answer", "out", "age", "--json", "--json").exit_code == 0
