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


def start(code: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], cwd=folder)


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


def test_only_marked_folders_that_nobody_holds_are_removed(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "owner").write_bytes(engine._MARKED)
    (place / f"{engine.PREFIX}link").symlink_to(elsewhere)
    kept = {"unmarked": b"", "other": b"another program's mark", "open": engine._MARKED}
    for name, mark in kept.items():
        folder = place / f"{engine.PREFIX}{name}"
        folder.mkdir(mode=0o755 if name == "open" else 0o700)
        if mark:
            (folder / "owner").write_bytes(mark)
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
