"""Counting: many tables of ten million records in memory, from Parquet, and on Spark.

The records have the attributes of the Adult data, with skewed values. Every figure is measured in a
process of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds, in_own_process, peak_bytes
from noiseplan.counting import Records, count_tables, kernel_numba, open_source
from noiseplan.schema import Categorical, Ordinal, Schema

SIZES: Final = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
TEXTS: Final = tuple(n for n, size in enumerate(SIZES) if size < 50)  # the rest are numbers
FEW: Final = 20  # tables from Parquet and on Spark
NUMPY_SECONDS, NUMBA_SECONDS = 20.0, 6.0
TIMES_MEMORY: Final = 1.5
MEMORY: Final = 1 << 30


def tables(quick: bool) -> Iterator[Table]:
    """In memory, from Parquet, on Spark."""
    rows = 10**6 if quick else 10**7
    yield in_memory(rows)
    with tempfile.TemporaryDirectory() as folder:
        for texts in (False, True):
            in_own_process("benchmarks.counting", "write_parquet", rows, texts, folder)
        yield from_parquet(rows, folder)
        if not quick and importlib.util.find_spec("pyspark") and shutil.which("java"):
            yield on_spark(rows, folder)


def in_memory(rows: int) -> Table:
    """All 364 three-way tables, with NumPy alone and with numba."""
    scale = rows / 10**7
    limits = {"NumPy": NUMPY_SECONDS * scale, "numba": NUMBA_SECONDS * scale}
    lines = []
    for way in ["NumPy"] + ["numba"] * kernel_numba.installed():
        seconds, wall = in_own_process("benchmarks.counting", "memory_figures", rows, way)
        limit = limits[way]
        figures = (seconds, wall, limit, seconds / limit)
        lines.append((way, *map(brief, figures), seconds <= limit))
    return Table(
        title=f"All 364 three-way tables of {rows:,} × 14 records in memory",
        sentence=(
            "CPU seconds of all threads, and seconds on the clock, to count 20.9 million cells; "
            "numba's code compiled before. Tables are merged where one pass can serve several."
        ),
        source="what is asked; a prototype took 17.2 s with NumPy and 4.3 s with numba.",
        columns="with | CPU s | clock s | must show | ratio | verdict",
        rows=tuple(lines),
        claims=(all_rows("as fast as required", lines),),
    )


def from_parquet(rows: int, folder: str) -> Table:
    """Twenty three-way tables: in memory, a bare scan, and straight from the file."""
    lines = []
    for texts in (False, True):
        f = in_own_process("benchmarks.counting", "parquet_figures", rows, texts, folder)
        limit = TIMES_MEMORY * (f["memory"] + f["scan"])
        figures = (f["memory"], f["scan"], f["file"], limit, f["file"] / limit)
        met = f["file"] <= limit and f["peak"] < MEMORY
        kind = "texts and numbers" if texts else "numbers"
        lines.append((kind, *map(brief, figures), f"{f['peak'] / 2**20:.0f}", met))
    return Table(
        title=f"{FEW} three-way tables of {rows:,} records from Parquet",
        sentence=(
            "CPU seconds to count records in memory, to scan the file's 14 columns and do nothing "
            f"with them, and to count from the file: at most {TIMES_MEMORY:g}× the first two "
            "together. Peak memory in MiB of the process that counts from the file, below 1,024."
        ),
        source="the same run.",
        columns="columns | memory | scan | from Parquet | must show | ratio | peak MiB | verdict",
        rows=tuple(lines),
        claims=(all_rows("fast and small enough", lines),),
    )


def on_spark(rows: int, folder: str) -> Table:
    """The same twenty tables by Spark, against DuckDB's."""
    f = in_own_process("benchmarks.counting", "spark_figures", folder)
    line = (f"{f['start']:.0f}", f"{f['spark']:.0f}", f"{f['scanned']:,}", str(f["equal"]))
    return Table(
        title=f"{FEW} three-way tables of {rows:,} records on Spark",
        sentence=(
            "Seconds on the clock to start a session of `local[2]` and to count all tables; "
            "records read while counting, and tables equal to DuckDB's from the same file."
        ),
        source="a prototype took 28 s for numbers; these are texts and numbers.",
        columns="start | counting | records read | equal tables",
        rows=(line,),
        claims=(
            Claim(f"one scan: {f['scanned']:,} records read", f["scanned"] == rows),
            Claim(f"{f['equal']} of {FEW} tables equal DuckDB's", f["equal"] == FEW),
        ),
    )


# ---------------------------------------------------------------------- in the other process


def memory_figures(rows: int, way: str) -> tuple[float, float]:
    """CPU and clock seconds for all tables."""
    records = Records(_schema(), _codes(rows))
    kernel_numba.enabled = way == "numba"
    if kernel_numba.enabled:
        kernel_numba.kernel()(*_smallest())
    every = [tuple(table[0].tolist()) for table in _sets()]
    started = time.perf_counter()
    repeats = 2
    seconds, _ = cpu_seconds(lambda: records.count(every), repeats)
    return seconds, (time.perf_counter() - started) / repeats


def parquet_figures(rows: int, texts: bool, folder: str) -> dict[str, float]:
    """CPU seconds in memory, of a scan, from the file; and the peak, read before the rest."""
    schema, path, few = _schema(texts), _path(folder, texts), _few()
    _warm_up(folder)
    first, _ = cpu_seconds(lambda: count_tables(open_source(path, schema), few), repeats=1)
    peak = peak_bytes()
    again, _ = cpu_seconds(lambda: count_tables(open_source(path, schema), few), repeats=2)
    scan, _ = cpu_seconds(lambda: _bare_scan(path), repeats=3)
    records = Records(_schema(), _codes(rows))
    chosen = [tuple(table[0].tolist()) for table in few]
    memory, _ = cpu_seconds(lambda: records.count(chosen), repeats=3)
    return {"file": min(first, again), "peak": peak, "scan": scan, "memory": memory}


def spark_figures(folder: str) -> dict[str, float]:
    """Seconds, records read, and how many tables equal DuckDB's."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    sql: Any = importlib.import_module("pyspark.sql")
    started = time.perf_counter()
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "2g", "spark.local.dir": folder}  # fmt: skip
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    start = time.perf_counter() - started
    read = session.sparkContext.accumulator(0)

    def noted(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    path, schema, few = _path(folder, texts=True), _schema(texts=True), _few()
    frame = session.read.parquet(str(path))
    started = time.perf_counter()
    by_spark = count_tables(open_source(frame.mapInArrow(noted, frame.schema), schema), few)
    counting = time.perf_counter() - started
    by_duckdb = count_tables(open_source(path, schema), few)
    equal = sum(
        np.array_equal(by_spark.marginals(table), by_duckdb.marginals(table)) for table in few
    )
    session.stop()
    return {"start": start, "spark": counting, "scanned": read.value, "equal": equal}


def write_parquet(rows: int, texts: bool, folder: str) -> None:
    """Write the records, as numbers or with names of categories in some columns."""
    import pyarrow as pa
    import pyarrow.parquet

    schema, columns = _schema(texts), {}
    for (name, attribute), codes in zip(
        zip(schema.names, schema.attributes, strict=True), _codes(rows), strict=True
    ):
        column = pa.array(codes)
        if isinstance(attribute, Categorical):
            index = pa.array(codes.astype(np.int8))
            column = pa.DictionaryArray.from_arrays(index, pa.array(attribute.labels)).cast(
                pa.string()
            )
        columns[name] = column
    pa.parquet.write_table(pa.table(columns), _path(folder, texts))


def _path(folder: str, texts: bool) -> Path:
    return Path(folder) / ("texts.parquet" if texts else "numbers.parquet")


def _schema(texts: bool = False) -> Schema:
    def attribute(place: int, size: int) -> Categorical | Ordinal:
        if texts and place in TEXTS:
            return Categorical([f"category {value}" for value in range(size)])
        return Ordinal(range(size))

    return Schema({f"a{place}": attribute(place, size) for place, size in enumerate(SIZES)})


def _codes(rows: int) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    return [(rng.random(rows, dtype=np.float32) ** 2 * size).astype(np.uint8) for size in SIZES]


def _sets() -> list[NDArray[np.intp]]:
    return [np.array([members]) for members in combinations(range(len(SIZES)), 3)]


def _few() -> list[NDArray[np.intp]]:
    sets = _sets()
    return [sets[n] for n in np.random.default_rng(1).choice(len(sets), FEW, replace=False)]


def _smallest() -> tuple[NDArray[Any], ...]:
    """Arguments of the compiled function, of the types it will be called with."""
    one = np.array([0, 1], dtype=np.intp)
    columns = np.zeros((1, 1), dtype=np.uint8)
    sizes, counts = np.ones(1, dtype=np.uint32), np.zeros(1, dtype=np.uint32)
    return columns, sizes, np.zeros((1, 1), dtype=np.intp), one[1:], one, counts


def _warm_up(folder: str) -> None:
    """Load DuckDB, so that its import is not timed."""
    path = Path(folder) / "tiny.csv"
    path.write_text("a\n0\n")
    open_source(path, Schema.from_sizes({"a": 1})).marginals(np.array([[0]]))


def _bare_scan(path: Path) -> int:
    import duckdb

    from noiseplan.counting.arrow import code_batches

    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        columns = ", ".join(
            f"{name}" if kind == "UTINYINT" else f"length({name})::UTINYINT AS {name}"
            for name, kind in zip(relation.columns, map(str, relation.types), strict=True)
        )
        return sum(len(batch[0]) for batch in code_batches(relation.project(columns), str(path)))
