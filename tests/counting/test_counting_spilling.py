"""What DuckDB puts on disk when memory is short: private, unreadable, and gone in the end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import noiseplan as nz
from noiseplan import engine

SECRET = b"patient-number-"
# Stands for a file larger than memory: people are chosen by a window over all records.
COUNTING = """
import noiseplan as nz
from noiseplan import engine

engine._SETTINGS |= {"memory_limit": "60MB", "threads": 1}
schema = nz.Schema({"dx": nz.Categorical(["flu", "HIV"])})
plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.1), max_rows=2)
plan.release("people.parquet", person="patient")
"""
STARTING = "from noiseplan import engine\nwith engine.engine():\n    pass\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that nobody else uses."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def start(code: str, folder: Path, **how: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], cwd=folder, **how)


def write_people(path: Path) -> None:
    secret = SECRET.decode()
    duckdb.sql(
        f"COPY (SELECT '{secret}' || (i % 300000) || repeat('x', 40) AS patient, "
        f"CASE WHEN i % 97 = 0 THEN 'HIV' ELSE 'flu' END AS dx FROM range(900000) t(i)) "
        f"TO '{path}' (FORMAT parquet)"
    )


def spilled(place: Path) -> Iterator[tuple[Path, bytes]]:
    for path in place.rglob("*.tmp"):
        try:
            yield path, path.read_bytes()
        except OSError:  # DuckDB removed it meanwhile
            continue


def test_spilled_records_are_private_encrypted_and_removed_after_a_kill(
    place: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    write_people(work / "people.parquet")
    process = start(COUNTING, work)
    seen, deadline = 0, time.monotonic() + 120
    while process.poll() is None and seen < 4_000_000 and time.monotonic() < deadline:
        for path, content in spilled(place):
            assert SECRET not in content, path
            seen = max(seen, len(content))
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert seen >= 4_000_000, "nothing was spilled, so nothing was tested"
    (left,) = place.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    assert left.stat().st_uid == os.getuid()
    assert [path.name for path in work.iterdir()] == ["people.parquet"]
    assert start(STARTING, work).wait() == 0
    assert list(place.iterdir()) == []


# Ends a process at its nth call of the system, for every n, as a kill at that moment would.
KILLING = """
import os, sys, tempfile
from pathlib import Path
from typing import Any
from noiseplan import engine

place, calls = Path(tempfile.gettempdir()), 0

def count(event, arguments):
    global calls
    if event == "open" or event.startswith(("os.", "shutil.", "fcntl.", "tempfile.")):
        calls += 1
        if calls == fatal:
            os._exit(9)

fatal, ended = 0, 9
while ended == 9:
    fatal += 1
    child = os.fork()
    if child == 0:
        sys.addaudithook(count)
        with engine.private_folder() as folder:
            (folder / "records").write_bytes(b"patient-number-1")
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = [path.name for path in place.rglob("*")]
    engine._remove_left_behind.cache_clear()
    engine._remove_left_behind(place)
    left = list(place.iterdir())
    assert not left, (fatal, seen, left)
    print(fatal, *sorted(seen), flush=True)
"""


def test_a_kill_at_any_call_of_the_system_leaves_nothing(place: Path, tmp_path: Path) -> None:
    process = start(KILLING, tmp_path, stdout=subprocess.PIPE)
    said, _ = process.communicate()
    assert process.returncode == 0
    left = [[name for name in line.split()[1:] if not name.startswith(engine.PREFIX)]
            for line in said.decode().splitlines()]  # fmt: skip
    # Every state that a kill can leave was there: no mark yet, none that is locked, records.
    for state in ([], ["owner.new"], ["owner"], ["files", "owner", "records"]):
        assert state in left


def test_a_folder_that_another_process_takes_for_a_dead_one_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took, meanwhile = engine._take, iter([True, True, False])

    def take(descriptor: int) -> None:
        monkeypatch.setattr(engine, "_take", took)
        if next(meanwhile):  # the mark is written and not yet locked
            engine._remove_left_behind.cache_clear()
            engine._remove_left_behind(place)
            monkeypatch.setattr(engine, "_take", take)
        took(descriptor)

    monkeypatch.setattr(tempfile, "tempdir", str(place))
    engine._remove_left_behind.cache_clear()
    monkeypatch.setattr(engine, "_take", take)
    with engine.private_folder() as folder:
        (folder / "records").write_bytes(b"1")
        assert [path.name for path in place.iterdir()] == [folder.parent.name]
    assert list(place.iterdir()) == []
    assert next(meanwhile, None) is None
    engine._remove_left_behind.cache_clear()


def test_no_other_process_takes_the_mark_while_records_are_there(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, states = engine.rmtree, []

    def looked_at(folder: Path, **how: Any) -> None:
        """Another process starts just before anything is removed."""
        records = (folder.parent if folder.name == "files" else folder) / "files" / "records"
        held = records.exists()
        monkeypatch.setattr(engine, "rmtree", removed)
        engine._remove_left_behind.cache_clear()
        engine._remove_left_behind(place)
        monkeypatch.setattr(engine, "rmtree", looked_at)
        states.append((held, records.exists()))
        removed(folder, **how)

    monkeypatch.setattr(tempfile, "tempdir", str(place))
    engine._remove_left_behind.cache_clear()
    with engine.private_folder() as folder:
        (folder / "records").write_bytes(b"1")
        monkeypatch.setattr(engine, "rmtree", looked_at)
    assert (True, True) in states and (True, False) not in states
    assert list(place.iterdir()) == []
    engine._remove_left_behind.cache_clear()


def test_only_marked_folders_that_nobody_holds_are_removed(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "owner").write_bytes(engine._MARKED)
    (place / f"{engine.PREFIX}link").symlink_to(elsewhere)
    kept = {"unmarked": b"", "other": b"another program's mark", "open": engine._MARKED}
    for name, mark in kept.items():
        folder = place / f"{engine.PREFIX}{name}"
        folder.mkdir(mode=0o755 if name == "open" else 0o700)
        (folder / ("owner" if mark else "something")).write_bytes(mark)
    dead = place / f"{engine.PREFIX}dead"
    (dead / "files").mkdir(parents=True)
    dead.chmod(0o700)
    (dead / "owner").write_bytes(engine._MARKED)
    engine._remove_left_behind.cache_clear()
    tempfile.tempdir = None
    try:
        with engine.private_folder() as mine:
            names = {path.name.removeprefix(engine.PREFIX) for path in place.iterdir()}
            assert names == {"link", *kept, mine.parent.name.removeprefix(engine.PREFIX)}
            assert start(STARTING, tmp_path).wait() == 0  # another process leaves mine alone
            assert mine.is_dir()
    finally:
        tempfile.tempdir = None
        engine._remove_left_behind.cache_clear()
    assert (elsewhere / "owner").is_file()
    assert not mine.parent.exists()


def test_the_engine_fetches_nothing_and_its_settings_stay() -> None:
    with engine.engine() as connection:
        settings = dict(connection.sql("SELECT name, value FROM duckdb_settings()").fetchall())
        for name in ("autoinstall_known_extensions", "autoload_known_extensions",
                     "allow_community_extensions", "allow_persistent_secrets"):  # fmt: skip
            assert settings[name] == "false", name
        assert settings["temp_file_encryption"] == "true"
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            connection.execute("SET temp_directory = '.tmp'")


def test_a_relation_keeps_the_settings_of_its_own_connection(tmp_path: Path) -> None:
    with duckdb.connect(config={"temp_directory": str(tmp_path)}) as connection:
        relation = connection.sql("SELECT 'flu' AS dx FROM range(10)")
        schema = nz.Schema({"dx": nz.Categorical(["flu", "HIV"])})
        nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5)).release(relation)
        found = connection.sql("SELECT current_setting('temp_directory')").fetchall()
    assert found == [(str(tmp_path),)]
