"""What leaves the page: a program with the same figures, commands, the report, and releases."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from serving import Page, served

from noiseplan import Plan
from noiseplan.cli import main
from noiseplan.data import example_study
from noiseplan.studio import releasing
from noiseplan.studio.launch import listening_socket, named_data
from noiseplan.studio.public_files import Desk, files_named
from noiseplan.studio.python_export import python_of

WAGES = example_study("wages").read_text(encoding="utf-8")
SCHEMA = """\
title = 'A "title" \\ with signs'
[schema]
age = { ordinal = { from = 0, to = 9 }, missing = "not stated", clip = true }
sex = { categorical = ["F", "M"], other = "else" }
day = { ordinal = { from = 2020-01-01, to = 2020-01-06 } }
moment = { binned = [2020-01-01T10:00:00, 2020-01-01T11:30:00, 2020-01-02T00:00:00] }
pay = { binned = [0, 1.5, inf] }
job = { hierarchical = { codes = ["A1", "A2", "B1"], prefixes = { section = 1 }, leaf = "code" } }
geo = { hierarchical = { file = "places.csv", levels = ["tract", "county"] } }
"""
DESIGNS = {
    "families": """
[[tables]]
up_to = 1
factors = { age = "prefix" }
[[tables]]
k = 2
weight = 2
[budget]
zcdp = 0.5
""",
    "one query": """
[[tables]]
query = "age=ranges, sex"
name = "it's"
[budget]
pure_dp = 1.0
""",
    "levels": """
[[tables]]
query = "county"
[[tables]]
query = "section, sex"
[[tables]]
query = "geo, age=0..4 | 5..8"
[budget]
approx_dp = { epsilon = 1, delta = 1e-8 }
[plan]
weighting = "sqrt"
neighbours = "replace"
""",
    "groups": """
[[tables]]
query = "age, day"
factors.age = { levels = [5], leaves = false }
factors.day = { custom = [[1, 0, 0, 0, 0, 1]] }
[[tables]]
query = ["sex", "pay"]
matrix = [[1, 0, 1, 0, 0, 0], [0, 1, 0, 1, 1, -1]]
[budget]
zcdp = 0.5
""",
    "mapped": """
[[tables]]
query = "sex"
factors.sex = { levels = [{ known = ["F", "M"], not = ["else"] }] }
[[tables]]
query = "age"
[targets]
"levels(sex)" = { half_width = 10 }
""",
    "conditions": """
[[predicates]]
where = "age < 5 and sex = 'F'"
name = "young"
weight = 3.0
[[predicates]]
where = ["pay < 1.5", "age > 3 or sex = 'M'"]
[budget]
zcdp = 0.5
[plan]
objective = "worst"
""",
    "least cost": """
[[tables]]
k = 1
[plan]
objective = "rmse"
at_most = 3.0
[people]
person = "id"
max_rows = 3
unit = "household"
""",
    "norm": """
[[tables]]
query = "age"
[budget]
zcdp = 0.1
[plan]
objective = { p = 4 }
""",
    "simulated": """
[[tables]]
query = "age"
[budget]
gdp = 1.0
[plan]
noise = "gaussian"
planner = "identity"
""",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "places.csv").write_text("tract,county\nt1,c1\nt2,c1\nt3,c2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def executed(code: str) -> Plan:
    space: dict[str, Any] = {}
    exec(compile(code.replace("print(plan)", ""), "exported.py", "exec"), space)
    plan = space["plan"]
    assert isinstance(plan, Plan)
    return plan


@pytest.mark.few(2)
@pytest.mark.parametrize("design", DESIGNS)
def test_the_program_makes_the_same_plan(design: str, folder: Path) -> None:
    study = Desk(folder, public=frozenset(["places.csv"])).study(SCHEMA + DESIGNS[design])
    made, plan = executed(python_of(study)), study.plan()
    assert made.tables() == plan.tables()
    assert (made.rmse, made.privacy, made.objective) == (plan.rmse, plan.privacy, plan.objective)
    assert (made.unit, made.max_rows, made.noise) == (plan.unit, plan.max_rows, plan.noise)
    assert made.schema == plan.schema


def test_the_program_of_the_demonstration_runs_alone(page: Page, tmp_path: Path) -> None:
    code = page.post("/api/python", text=WAGES)["code"]
    path = tmp_path / "wages.py"
    path.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    told = page.plan(WAGES)["printed"]

    def figures(text: str) -> list[str]:
        return [line for line in text.splitlines() if "planned in" not in line]

    assert figures(done.stdout.strip()) == figures(told.strip())
    assert max(map(len, code.splitlines())) < 1000


def test_hostile_titles_and_labels_stay_text() -> None:
    hostile = '"""\n\\"; raise SystemExit #\0\u202e'
    text = (
        f"title = {json.dumps(hostile)}\n[schema]\n{json.dumps(hostile)} = "
        f"{{ categorical = [{json.dumps(hostile[:5])}, 'x'] }}\n[[tables]]\nk = 1\n"
        "[budget]\nzcdp = 1\n"
    )
    text = text.replace("\\u0000", "")
    study = Desk(Path()).study(text)
    assert executed(python_of(study)).tables() == study.plan().tables()
    code = python_of(Desk(Path()).study(text.replace("raise", "\\u0000", 1)))
    assert "\0" not in code and compile(code, "x.py", "exec")


def test_a_study_with_a_fault_has_no_program(page: Page) -> None:
    status, error = page.refused("/api/python", text=WAGES.replace("epsilon = 1.0", "epsilon = 0"))
    assert status == 422 and error["line"] == 37


def test_commands_name_the_study(page: Page) -> None:
    found = page.post("/api/commands", name="My study (2).toml")["commands"]
    lines = [each["command"] for each in found]
    assert lines[0] == "noiseplan plan 'My study (2).toml'"
    assert [line.split()[1] for line in lines] == ["plan", "check", "release", "show", "report"]
    assert page.refused("/api/commands", name="../x.toml")[0] == 422


def test_the_planning_report_shows_designs_side_by_side(page: Page) -> None:
    text = "title = 'Ages <b>'\n[schema]\nage = { ordinal = [1, 2, 3] }\n[[tables]]\nk = 1\n"
    designs = [
        {"name": name, "text": f"{text}[budget]\nzcdp = {rho}\n"}
        for name, rho in (("cautious", 0.1), ("bold", 1.0))
    ]
    html = page.post("/api/report", designs=designs)["html"]
    assert html.lower().startswith("<!doctype html>")
    assert "cautious" in html and "bold" in html and "Ages &lt;b&gt;" in html
    alone = page.post("/api/report", designs=designs[:1])["html"]
    assert "bold" not in alone
    status, error = page.refused("/api/report", designs=[{"name": "x", "text": "title = "}])
    assert status == 400 and "not TOML" in error["message"]


def test_files_that_a_study_names() -> None:
    design = {"schema": {"geo": {"hierarchical": {"file": "a.csv", "levels": ["x"]}}}}
    grouped = {"factors": {"age": {"levels": [{"file": "b.csv", "value": "v", "group": "g"}]}}}
    ledger = {"file": "office.ledger", "dataset": "x"}
    found = files_named({**design, "tables": [grouped], "ledger": ledger})
    assert {"a.csv", "b.csv"} == set(found)


# ---------------------------------------------------------------------- releases

STUDY = """\
[schema]
age = { ordinal = { from = 0, to = 3 } }
[[tables]]
query = "age"
[budget]
zcdp = 0.5
[ledger]
file = "office.ledger"
dataset = "people"
"""


@pytest.fixture
def custody(tmp_path: Path) -> Path:
    """A folder with a study, a ledger and data."""
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "people.csv").write_text("age\n" + "1\n2\n3\n" * 50)
    book = str(tmp_path / "office.ledger")
    for command in (["ledger", "init", book], ["ledger", "open", book, "people", "--zcdp", "0.7"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0
    return tmp_path


def released_from(folder: Path) -> AbstractContextManager[Page]:
    """A studio that was started with the study and the data."""
    return served(folder, "study.toml", data=("people.csv",))


def wish(**more: str) -> dict[str, str]:
    return {"name": "study.toml", "text": STUDY, "data": "people.csv", "out": "out", **more}


def test_a_release_needs_two_confirmations_and_is_the_command_lines(custody: Path) -> None:
    with released_from(custody) as page:
        asked = page.post("/api/release/ask", **wish())
        words = " ".join(asked["words"])
        assert "ρ = 0.5" in words and "office.ledger" in words and "'out'" in words
        assert "noiseplan release study.toml people.csv -o out" in words
        assert not (custody / "out").exists()
        status, error = page.refused("/api/release/confirm", nonce=asked["nonce"], typed="yes")
        assert status == 422 and "type the word" in error["message"]
        status, error = page.refused("/api/release/confirm", nonce=asked["nonce"], typed="release")
        assert "ask again" in error["message"]  # a number is good once, also for a wrong word
        assert not (custody / "out").exists()
        asked = page.post("/api/release/ask", **wish())
        job = page.post("/api/release/confirm", nonce=asked["nonce"], typed=asked["word"])
        now = page.ended(job["job"])
        assert now["state"] == "done", now
        assert now["result"]["exit_code"] == 0 and "folder   out" in now["result"]["output"]
        assert (custody / "out" / "certificate.json").is_file()
        status, _ = page.refused("/api/release/confirm", nonce=asked["nonce"], typed="release")
        assert status == 422
        # The ledger has 0.2 left: the command line refuses, and nothing is written.
        asked = page.post("/api/release/ask", **wish(out="more"))
        job = page.post("/api/release/confirm", nonce=asked["nonce"], typed="release")
        now = page.ended(job["job"])
        assert now["state"] == "failed" and now["result"]["exit_code"] == 3
        assert not (custody / "more").exists()


def test_a_release_that_has_begun_is_not_stopped(custody: Path) -> None:
    """It is charged before it is drawn: what is stopped in between would be paid for and lost."""
    with released_from(custody) as page:
        asked = page.post("/api/release/ask", **wish())
        job = page.post("/api/release/confirm", nonce=asked["nonce"], typed="release")["job"]
        status, _, content = page.call("DELETE", f"/api/jobs/{job}", None)
        assert status == 409 and b"goes on to its end" in content
        assert page.ended(job)["state"] == "done"
    assert (custody / "out" / "certificate.json").is_file()


def test_what_was_confirmed_is_what_is_released(custody: Path) -> None:
    """The command reads the study again: another one, saved just then, is refused and costs 0."""
    with released_from(custody) as page:
        confirmed = page.studio.desk({}).study(STUDY).digest()
        (custody / "study.toml").write_text(STUDY.replace("0.5", "0.6"))
        command = ("release", "study.toml", "people.csv", "-o", "out", "--confirmed", confirmed)
        now = page.ended(releasing.run(command, custody, page.studio.jobs).number)
        assert now["state"] == "failed" and "was changed since" in now["result"]["output"]
    assert not (custody / "out").exists()


def test_releases_that_are_not_asked_for(custody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with released_from(custody) as page:
        status, error = page.refused("/api/release/ask", **wish(text=STUDY + "# new\n"))
        assert status == 400 and "save the study first" in error["message"]
        assert page.refused("/api/release/ask", **wish(name="none.toml"))[0] == 400
        assert page.refused("/api/release/ask", **wish(name="../study.toml"))[0] == 422
        assert page.refused("/api/release/ask", **wish(data=""))[0] == 422
        assert page.refused("/api/release/confirm", nonce="x", typed="release")[0] == 422
        asked = page.post("/api/release/ask", **wish())
        (custody / "study.toml").write_text(STUDY + "# changed\n")
        status, error = page.refused("/api/release/confirm", nonce=asked["nonce"], typed="release")
        assert status == 422 and "was changed since" in error["message"]
        (custody / "study.toml").write_text(STUDY)
        asked = page.post("/api/release/ask", **wish())
        late = time.monotonic() + releasing.SECONDS + 1
        monkeypatch.setattr(releasing, "monotonic", lambda: late)
        status, error = page.refused("/api/release/confirm", nonce=asked["nonce"], typed="release")
        assert status == 422 and "too long ago" in error["message"]
    assert sorted(path.name for path in custody.iterdir()) == [
        "office.ledger",
        "people.csv",
        "study.toml",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('[ledger]\nfile = "office.ledger"\ndataset = "people"\n', "names no ledger"),
        ('"office.ledger"', "named another ledger"),
        ('"people"', "named another ledger"),
    ],
)
def test_a_release_needs_the_ledger_that_was_named_at_the_start(
    custody: Path, change: str, said: str
) -> None:
    """Whoever has the key saves a study of their own: without a ledger, or with one of theirs."""
    with released_from(custody) as page:
        mine = STUDY.replace(change, '"mine"' if change.startswith('"') else "")
        page.post("/api/save", name="mine.toml", text=mine)
        status, error = page.refused("/api/release/ask", **wish(name="mine.toml", text=mine))
        assert status == 422 and said in error["message"]
        assert "noiseplan studio mine.toml --data FILE" in error["message"]


def test_a_release_is_of_data_that_were_named_at_the_start(custody: Path) -> None:
    (custody / "private.csv").write_text("age\n1\n")
    with released_from(custody) as page:
        assert page.json("GET", "/api/start")["data"] == ["people.csv"]
        for name in ("private.csv", "./people.csv", str(custody / "people.csv"), "*.csv"):
            status, error = page.refused("/api/release/ask", **wish(data=name))
            assert status == 422 and "was not named when the studio was started" in error["message"]
    with served(custody, "study.toml") as page:  # none were named
        assert page.refused("/api/release/ask", **wish())[0] == 422


def test_data_that_are_not_there_are_said_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "people.csv").write_text("age\n1\n")
    with pytest.raises(SystemExit) as ended:
        main(["studio", "--no-browser", "--data", str(tmp_path / "peple.csv")])
    assert ended.value.code == 1
    assert "people.csv" in capsys.readouterr().err  # what was probably meant


def test_data_named_in_another_folder_than_the_study_are_found_from_there(
    custody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(custody)
    assert named_data(["people.csv"], custody) == ("people.csv",)
    assert named_data(["people.csv", "*.csv"], custody / "studies") == (
        str(custody / "people.csv"),
        str(custody / "*.csv"),
    )


def test_the_folder_of_a_release_follows_the_umask(custody: Path) -> None:
    before = os.umask(0o077)
    try:
        with released_from(custody) as page:
            asked = page.post("/api/release/ask", **wish())
            job = page.post("/api/release/confirm", nonce=asked["nonce"], typed="release")
            assert page.ended(job["job"])["state"] == "done"
    finally:
        os.umask(before)
    for path in (custody / "out", *(custody / "out").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_release_reads_no_list_that_nobody_called_public(custody: Path) -> None:
    text = STUDY.replace("{ from = 0, to = 3 }", '{ file = "ages.csv", column = "n" }')
    (custody / "ages.csv").write_text("n\n1\n2\n3\n")
    with released_from(custody) as page:
        for name in ("study.toml", "other.toml"):
            page.post("/api/save", name=name, text=text, replace=True)
            status, error = page.refused("/api/release/ask", **wish(name=name, text=text))
            assert status == 422 and error["kind"] == "not public"
        asked = page.post("/api/release/ask", **wish(text=text), public=["ages.csv"])
        assert "study.toml" in asked["words"][0]
        page.post("/api/save", name="study.toml", text="title = ", replace=True)
        status, error = page.refused("/api/release/ask", **wish(text="title = "))
        assert status == 422 and "not TOML" in error["message"]


def test_paths_are_not_taken_for_options(custody: Path) -> None:
    releases = releasing.Releases(custody)
    with released_from(custody) as page:
        study = page.studio.desk({}).study(STUDY)
        file = page.studio.file()
        assert file is not None
        releases.ask(file, study, "--seed=1", "-x")
        (asked,) = releases.asked.values()
        *command, _, digest = asked.command
        assert command == ["release", "study.toml", "./--seed=1", "-o", "./-x"]
        assert digest == study.digest()
        for _ in range(50):
            releases.ask(file, study, "a", "b")
        assert len(releases.asked) <= releasing.MOST_ASKED


# ---------------------------------------------------------------------- the command


def started(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "noiseplan", "studio", "--no-browser", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "http://" in line:
            return process, line.strip()
    raise AssertionError("no address was printed")


def test_the_command_serves_on_this_machine_only_and_ends_whole(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    process, address = started(tmp_path, "study.toml")
    try:
        host, token = re.fullmatch(r"http://(127\.0\.0\.1:\d+)/#token=([\w-]+)", address).groups()
        connection = HTTPConnection(host, timeout=60)
        connection.request("POST", "/api/enter", json.dumps({"token": token}))
        answer = connection.getresponse()
        assert answer.status == 200 and json.load(answer)["key"] != token
        connection.close()
        assert process.stdout is not None
        other = next(line.strip() for line in process.stdout if "http://" in line)
        assert other.startswith(f"http://{host}/#token=") and other != address
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        before = children.read_text().split() if children.exists() else []
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        if process.stdout:
            process.stdout.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in before)


def test_the_browser_is_started_with_a_private_page_and_no_secret(tmp_path: Path) -> None:
    """The commands of all users are seen by all: in them stands the name of a page of mode 0600."""
    program, seen = tmp_path / "browser", tmp_path / "seen"
    copy = f'import shutil, sys; shutil.copy2(sys.argv[1].removeprefix("file://"), "{seen}.html")'
    program.write_text(
        f'#!/bin/sh\n{sys.executable} -c \'{copy}\' "$1"\necho "$@" > {seen}.part\n'
        f"mv {seen}.part {seen}\n"
    )
    program.chmod(0o700)
    with subprocess.Popen(
        [sys.executable, "-m", "noiseplan", "studio"],
        cwd=tmp_path,
        env={**os.environ, "BROWSER": f"{program} %s"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if "http://" in line)
        until = time.monotonic() + 60
        while not seen.exists() and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    given = seen.read_text().strip()
    assert given.startswith("file:///") and given.endswith(".html") and "token" not in given
    assert not Path(given.removeprefix("file://")).exists()
    page = seen.with_suffix(".html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert f'content="0; url={address}"' in page.read_text()


def test_a_killed_server_leaves_no_process(tmp_path: Path) -> None:
    process, address = started(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("children of a process are not told here")
    while not (pids := children.read_text().split()):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert address


def test_ports_are_of_this_machine_and_the_next_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening_socket(0) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == "127.0.0.1"
        assert first.proto == socket.IPPROTO_TCP  # or connections would not send at once
        with pytest.raises(Exception, match="is taken"):
            listening_socket(port)
        monkeypatch.setattr("noiseplan.studio.launch.PORT", port)
        with listening_socket(None) as second:
            assert second.getsockname()[1] != port


def test_without_the_extra_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main(["studio", "--no-browser"])
    assert ended.value.code == 1
    assert "pip install 'noiseplan[studio]'" in capsys.readouterr().err


def test_a_study_that_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("none.toml", "data.csv"):
        with pytest.raises(SystemExit) as ended:
            main(["studio", str(tmp_path / name), "--no-browser"])
        assert ended.value.code == 1
        assert name in capsys.readouterr().err
    assert json.dumps(list(tmp_path.iterdir())) == "[]"
