"""Services that some sources need: a PostgreSQL server and a Spark session, started by the tests.

Where one cannot be had its tests are skipped, and say what would install it; with
NOISEPLAN_REQUIRE_SERVICES=1, as the checks of every change set it, they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest


def absent(what: str, install: str) -> NoReturn:
    message = f"{what}; {install}"
    if os.environ.get("NOISEPLAN_REQUIRE_SERVICES") == "1":
        pytest.fail(message)
    pytest.skip(message)


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.fixture(scope="session")
def ibis() -> Any:
    if not has("ibis"):
        absent("Ibis is not installed", "pip install 'noiseplan[ibis]'")
    import ibis

    return ibis


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not has("pyspark"):
        absent("Spark is not installed", "pip install 'noiseplan[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        absent("Spark needs Java 17 or later", "apt-get install openjdk-17-jre-headless")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    folder = str(tmp_path_factory.mktemp("spark"))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        # A minute of small tables: thorough compilation would take longer than what it speeds up.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": folder,
        "spark.local.dir": folder,
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("noiseplan tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres(ibis: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An Ibis connection to a server of its own, reached by a socket in a folder of its own."""
    if not has("psycopg"):
        absent("psycopg is not installed", "pip install 'psycopg[binary]'")
    programs = postgres_programs()
    if programs is None:
        absent("there is no PostgreSQL server", "apt-get install postgresql")
    # A short path: a socket's name has at most 107 bytes.
    folder = Path("/tmp") / f"noiseplan-postgres-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    as_server: list[str] = []
    if os.geteuid() == 0:  # the server refuses to be root
        shutil.chown(folder, "postgres", "postgres")
        as_server = ["runuser", "-u", "postgres", "--"]
    data, socket = str(folder / "data"), str(folder)
    start = ["-o", f"-c listen_addresses='' -k {socket} -c fsync=off", "-w", "-l", f"{data}/log"]

    def call(program: str, *arguments: str) -> None:
        command = [*as_server, str(programs / program), *arguments]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    call("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    call("pg_ctl", "-D", data, *start, "start")
    try:
        connection = ibis.postgres.connect(host=socket, user="postgres", database="postgres")
        yield connection
        connection.disconnect()
    finally:
        call("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def postgres_programs() -> Path | None:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None
