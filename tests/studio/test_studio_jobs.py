"""Plans in the background: the command line's numbers, cancelled at once, killed, superseded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import ENDLESS, Page, served

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.data import example_study
from noiseplan.studio import planned as module
from noiseplan.studio.jobs import KEPT_JOBS, Jobs
from noiseplan.studio.planned import MOST_TABLES, agreement_words, plan_view
from noiseplan.studio.public_files import Desk
from noiseplan.study import read_study

WAGES = example_study("wages").read_text(encoding="utf-8")
SMALL = """\
[schema]
age = { ordinal = { from = 0, to = 9 } }
sex = { categorical = ["F", "M"] }
region = { categorical = ["N", "S", "W"] }
[[tables]]
query = "age=prefix, sex"
name = "up to"
[[tables]]
query = "sex, region"
weight = 4.0
[[tables]]
up_to = 1
[[predicates]]
where = "age < 5 and sex = 'F'"
[budget]
zcdp = 0.1
"""
TARGETS = SMALL.replace("[budget]\nzcdp = 0.1\n", '[targets]\n"up to" = { std_error = 5.0 }\n')
PURE = SMALL.replace("zcdp = 0.1", "pure_dp = 1.0")
AWARE = """\
[schema]
age = { ordinal = { from = 0, to = 9 } }
[[tables]]
query = "age"
[plan]
planner = "dawa"
[budget]
pure_dp = 1.0
"""
LEVELS = """\
[schema]
job = { hierarchical = { codes = ["A1", "A2", "B1"], prefixes = { section = 1 } } }
[[tables]]
query = "code"
[[tables]]
query = "section"
[budget]
zcdp = 0.5
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A studio that starts processes ahead, as users have it."""
    with served(tmp_path_factory.mktemp("studio"), jobs=Jobs()) as found:
        yield found


def by_command_line(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    path = folder / "planned.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "--json", "--all"])
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "text", [SMALL, TARGETS, PURE, LEVELS], ids=["zcdp", "targets", "pure", "levels"]
)
def test_numbers_are_those_of_the_command_line(
    page: Page, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, told = page.plan(text), by_command_line(text, tmp_path, capsys)
    for name in ("rmse", "total_variance", "lower_bound", "rows", "noise", "objective", "memory"):
        assert found[name] == told[name], name
    assert found["numbers"] == told["measured_numbers"]
    assert found["privacy"]["rho"] == told["privacy"]["rho"]
    assert found["privacy"]["pure_epsilon"] == told["privacy"].get("pure_epsilon")
    assert [[e["delta"], e["epsilon"]] for e in found["privacy"]["epsilons"]] == told["privacy"][
        "epsilon"
    ]
    assert [
        (e["name"], e["rows"], e["std_error"], e["largest"], e["weight"]) for e in found["tables"]
    ] == [
        (e["table"], e["rows"], e["std_error"], e["worst_std_error"], e["weight"])
        for e in told["tables"]
    ]
    assert found["largest"] == max(each["worst_std_error"] for each in told["tables"])
    assert found["least"] == ("targets" in text)
    assert found["optimality"] and found["gap"] is not None
    assert "Plan for" in found["printed"]


def test_the_demonstration_is_planned_as_on_the_command_line(
    page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, told = page.plan(WAGES), by_command_line(WAGES, tmp_path, capsys)
    assert (found["rmse"], found["title"]) == (told["rmse"], told["title"])
    assert [each["std_error"] for each in found["tables"]] == [
        e["std_error"] for e in told["tables"]
    ]
    places = [(each["section"], each["index"]) for each in found["tables"]]
    assert places == [("tables", index) for index in (0, 1, 2, 3, *[4] * 16)]


def test_targets_and_levels_are_told(page: Page) -> None:
    found = page.plan(TARGETS)
    assert [(each["name"], each["target"]) for each in found["tables"]] == [("up to", 5.0)]
    assert found["left_out"] == 6  # tables without a target, which such a plan does not make
    levels = page.plan(LEVELS)["levels"]
    assert [each["level"] for each in levels] == ["section", "code"]
    assert page.plan(SMALL)["levels"] == []


def test_tables_asked_for_twice_belong_to_the_first_entry(page: Page) -> None:
    text = SMALL.replace("up_to = 1", "up_to = 2")
    places = {each["name"]: each["index"] for each in page.plan(text)["tables"]}
    assert places["sex × region"] == 1 and places["age × sex"] == 2 and places["up to"] == 0


def test_of_very_many_tables_the_kinds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Desk(Path()).study(SMALL)
    plan = study.plan()
    monkeypatch.setattr("noiseplan.studio.planned.MOST_TABLES", 2)
    found = plan_view(study, plan)
    assert found["by_kind"] and MOST_TABLES > 2
    assert sum(each["tables"] for each in found["tables"]) == len(plan.workload)


def test_the_page_says_which_tables_agree(page: Page) -> None:
    """Rows of a matrix over a domain too large to be planned as one are measured by themselves."""
    rows = (np.random.default_rng(5).random((4, 960)) < 0.3).astype(int).tolist()
    text = f"""\
[schema]
x = {{ ordinal = {{ from = 1, to = 80 }} }}
y = {{ ordinal = {{ from = 1, to = 12 }} }}
z = {{ ordinal = {{ from = 1, to = 60 }} }}
[[tables]]
name = "dense"
query = ["x", "y"]
matrix = {rows}
[[tables]]
name = "up to"
query = "x, z=prefix"
[[tables]]
query = "x"
[budget]
zcdp = 1
"""
    said = page.plan(text)["agreement"]
    assert said.startswith("Not all tables agree")
    assert "tables that agree: 'up to', 'x'; 1 other agrees with none" in said
    assert page.plan(SMALL)["agreement"].startswith("All tables agree")
    one = SMALL.partition("[[tables]]")[0] + "[[tables]]\nquery = 'age'\n[budget]\nzcdp = 1\n"
    assert page.plan(one)["agreement"] == ""
    saved = Path(__file__).parents[1] / "storage" / "kinds" / "side-by-side" / "release"
    assert "none agrees with another" in agreement_words(nz.load(saved).plan)


def test_errors_that_depend_on_data_are_not_told(page: Page) -> None:
    found = page.plan(AWARE)
    assert found["data_aware"] and found["rmse"] is None and found["tables"] == []


def test_a_study_that_cannot_be_planned_says_why(page: Page) -> None:
    now = page.ended(page.post("/api/jobs", kind="plan", text=SMALL.replace("0.1", "-1"))["job"])
    assert now["state"] == "failed" and now["result"] is None
    assert (now["error"]["line"], now["error"]["place"]) == (16, ["budget", "zcdp"])


def test_the_same_text_is_planned_once(page: Page) -> None:
    first = page.plan(SMALL, client="a")
    again = page.post("/api/jobs", kind="plan", text=SMALL, client="b")
    assert again["state"] == "done" and again["result"] == first


def test_few_jobs_are_kept_and_none_with_its_text(page: Page) -> None:
    page.plan(SMALL)
    jobs = page.studio.jobs
    for number in range(KEPT_JOBS + 5):
        page.post("/api/jobs", kind="plan", text=SMALL, client=f"kept {number}")
    assert len(jobs.jobs) <= KEPT_JOBS
    assert not any(job.order for job in jobs.jobs.values() if job.over)
    assert all(len(str(key)) == 64 for key in jobs.results)


def test_cancelled_at_once_and_the_next_plan_runs(page: Page) -> None:
    job = page.post("/api/jobs", kind="plan", text=ENDLESS, client="c")["job"]
    worker = next(each for each in page.studio.jobs.workers if each.job and each.job.number == job)
    now = page.json("DELETE", f"/api/jobs/{job}")
    assert now["state"] == "cancelled"
    assert worker.process.wait() == -signal.SIGKILL  # it did not come to its end
    assert page.plan(SMALL.replace("0.1", "0.2"))["rmse"] > 0
    assert page.json("DELETE", f"/api/jobs/{job}")["state"] == "cancelled"


def test_a_new_plan_takes_the_place_of_the_old_ones_of_its_page(page: Page) -> None:
    old = page.post("/api/jobs", kind="plan", text=ENDLESS, client="d")["job"]
    same = page.post("/api/jobs", kind="plan", text=ENDLESS, client="d")["job"]
    assert same == old
    others = page.post("/api/jobs", kind="plan", text=ENDLESS + "# \n", client="e")["job"]
    found = page.plan(SMALL.replace("0.1", "0.3"), client="d")
    assert found["rmse"] > 0
    assert page.json("GET", f"/api/jobs/{old}")["state"] == "cancelled"
    assert page.json("GET", f"/api/jobs/{others}")["state"] == "running"
    page.json("DELETE", f"/api/jobs/{others}")


def test_a_killed_process_is_told_and_another_takes_over(page: Page) -> None:
    job = page.post("/api/jobs", kind="plan", text=ENDLESS, client="f")["job"]
    worker = next(each for each in page.studio.jobs.workers if each.job and each.job.number == job)
    os.kill(worker.process.pid, signal.SIGKILL)
    now = page.ended(job)
    assert now["state"] == "failed" and "ended before it was done" in now["error"]["message"]
    assert page.plan(SMALL.replace("0.1", "0.4"))["rmse"] > 0


def test_jobs_wait_for_their_turn(tmp_path: Path) -> None:
    with served(tmp_path, jobs=Jobs(most_running=1)) as page:
        first = page.post("/api/jobs", kind="plan", text=ENDLESS, client="a")["job"]
        second = page.post("/api/jobs", kind="plan", text=SMALL, client="b")["job"]
        assert page.json("GET", f"/api/jobs/{second}")["state"] == "waiting"
        page.json("DELETE", f"/api/jobs/{first}")
        assert page.ended(second)["state"] == "done"
        third = page.post("/api/jobs", kind="plan", text=ENDLESS, client="a")["job"]
        fourth = page.post("/api/jobs", kind="plan", text=SMALL + "#", client="b")["job"]
        assert page.json("DELETE", f"/api/jobs/{fourth}")["state"] == "cancelled"
        workers = [worker.process for worker in page.studio.jobs.workers]
        assert page.json("GET", f"/api/jobs/{third}")["state"] == "running"
    assert all(process.returncode is not None for process in workers)  # none is left behind


def test_a_planning_process_ends_with_its_server() -> None:
    command = [sys.executable, "-P", "-m", "noiseplan.studio.worker"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None and worker.stdout is not None
    with worker.stdout:
        assert json.loads(worker.stdout.readline()) == {"ready": True}
        order = {"job": "1", "kind": "plan", "text": ENDLESS, "folder": ".", "name": "x.toml"}
        worker.stdin.write(json.dumps({**order, "public": []}) + "\n")
        worker.stdin.flush()
        time.sleep(0.2)
        worker.stdin.close()  # as it is when the server is killed
        assert worker.wait() == 0


def test_progress_is_told(page: Page) -> None:
    text = WAGES.replace("epsilon = 1.0", "epsilon = 1.5")
    job = page.post("/api/jobs", kind="plan", text=text)["job"]
    heard: list[Any] = []
    while (now := page.json("GET", f"/api/jobs/{job}"))["state"] == "running":
        heard.append(now["progress"])
        time.sleep(0.01)
    assert now["state"] == "done"
    assert [each["seconds"] for each in heard] == sorted(each["seconds"] for each in heard)
    assert {"planning", "searching for the optimum"} >= {each["message"] for each in heard}


# ---------------------------------------------------------------------- what each entry costs


def without(text: str, index: int) -> str:
    """The study without one of its entries, by cutting the text."""
    head, *entries = text.split("[[")
    del entries[index]
    body = "".join("[[" + entry for entry in entries)
    if "[budget]" not in body:
        body += "[budget]\nzcdp = 0.1\n"
    return head + body


def test_effects_are_those_of_planning_again_without_each_entry(page: Page, tmp_path: Path) -> None:
    found = page.plan(SMALL, kind="effects")
    whole = {each["name"]: each for each in page.plan(SMALL)["tables"]}
    assert [each["gain"] for each in found] == sorted((e["gain"] for e in found), reverse=True)
    assert {(each["section"], each["index"]) for each in found} == {
        ("tables", 0),
        ("tables", 1),
        ("tables", 2),
        ("predicates", 0),
    }
    for each in found:
        path = tmp_path / "less.toml"
        path.write_text(without(SMALL, each["index"] + 3 * (each["section"] == "predicates")))
        less = read_study(path).plan()
        before = sum(row["rows"] * whole[row["table"]]["std_error"] ** 2 for row in less.tables())
        gain = 1 - less.rmse / (before / less.workload.rows) ** 0.5
        assert each["gain"] == pytest.approx(gain, abs=1e-9)
        assert each["what"] == "error"
    assert found[0]["gain"] > 0.01


def test_effects_come_piece_by_piece() -> None:
    told: list[int] = []
    module.effects(Desk(Path()).study(SMALL), lambda found: told.append(len(found)))
    assert told == [1, 2, 3, 4]


def test_effects_of_targets_are_those_on_the_cost(tmp_path: Path) -> None:
    text = SMALL.replace("[budget]\nzcdp = 0.1\n", "[plan]\nobjective = 'rmse'\nat_most = 4.0\n")
    found = module.effects(Desk(tmp_path).study(text), lambda _: None)
    assert {each["what"] for each in found} == {"privacy"}
    assert all(each["gain"] < 1 for each in found)


def test_what_is_left_without_targets_is_not_compared() -> None:
    found = module.effects(Desk(Path()).study(TARGETS), lambda _: None)
    assert found[-1]["name"] == "up to" and found[-1]["gain"] is None
    assert [each["gain"] for each in found[:-1]] == [pytest.approx(0.0, abs=1e-9)] * 3


def test_a_single_entry_costs_no_others(page: Page) -> None:
    assert (
        page.plan("[schema]\na={ordinal=[1,2]}\n[[tables]]\nk=1\n[budget]\nzcdp=1\n", "effects")
        == []
    )
