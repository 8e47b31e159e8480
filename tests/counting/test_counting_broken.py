"""Broken sources, each with the message its owner needs.

A message names what is at fault, what was found and what would work; if it shows records it says
that it is private.
"""

from __future__ import annotations

import gzip
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from noiseplan.counting import open_source
from noiseplan.errors import DataError, DataRefused, NoiseplanError
from noiseplan.schema import Binned, Categorical, Ordinal, Schema

SCHEMA = Schema(
    {
        "age": Ordinal(range(100)),
        "sex": Categorical(["F", "M"]),
        "income": Binned([0, 10_000, 50_000]),
    }
)
HEADER = "age,sex,income\n"
GOOD = HEADER + "23,F,100\n24,M,200\n"
FRAME = {"age": [23, 24], "sex": ["F", "M"], "income": [100.0, 200.0]}


def csv(text: str | bytes, name: str = "people.csv") -> Callable[[Path], Any]:
    def write(folder: Path) -> Path:
        data = text.encode() if isinstance(text, str) else text
        (folder / name).write_bytes(data)
        return folder / name

    return write


def frame(**changes: list[Any]) -> Callable[[Path], Any]:
    return lambda _: pl.DataFrame(FRAME | changes, strict=False)


def parts_that_differ(folder: Path) -> str:
    pl.DataFrame(FRAME).write_parquet(folder / "part1.parquet")
    pl.DataFrame(FRAME).drop("income").write_parquet(folder / "part2.parquet")
    return str(folder / "part*.parquet")


def half_a_parquet(folder: Path) -> Path:
    path = folder / "people.parquet"
    pl.DataFrame(FRAME).write_parquet(path)
    path.write_bytes(path.read_bytes()[:200])
    return path


def nested(folder: Path) -> Path:
    pl.DataFrame(FRAME | {"age": [[23], [24]]}).write_parquet(folder / "people.parquet")
    return folder / "people.parquet"


def closed(_: Path) -> Any:
    connection = duckdb.connect()
    relation = connection.sql("SELECT 23 AS age, 'F' AS sex, 1.0 AS income")
    connection.close()
    return relation


def read_before(_: Path) -> Any:
    reader = pa.table(FRAME).to_reader()
    reader.read_all()
    return reader


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no such file": (
        lambda p: p / "nobody.csv",
        r"cannot read .*nobody\.csv.*no such file is there",
    ),
    "no file matches": (lambda p: p / "no*.parquet", r"cannot read .*no such file is there"),
    "a folder": (lambda p: p, r"is a folder; name the files in it: '.*\*\.parquet'"),
    "a spreadsheet": (
        lambda p: p / "people.xlsx",
        r"cannot tell the format of '.*people\.xlsx'; files end in \.csv",
    ),
    "an empty file": (csv(""), "it is empty; the first line must name the columns"),
    "no header line": (
        csv("23,F,100\n24,M,200\n"),
        r"first line of the file names none of the columns 'age', 'sex', 'income'; it must be a "
        r"header\. It reads '23', 'F', '100'\. .*private",
    ),
    "a column twice": (
        csv("age,sex,income,age\n23,F,1,2\n"),
        r"has several columns named 'age'; rename all but one",
    ),
    "a column missing": (
        csv("Age,sex,income\n23,F,1\n"),
        r"lack the column\(s\) 'age'; they have 'Age', 'sex', 'income'\. Is it 'Age' for 'age'\?",
    ),
    "a line too long": (
        csv(GOOD + "25,F,100,7\n"),
        r"cannot read .*Line: 4(.|\n)*Expected Number of Columns: 3 Found: 4(.|\n)*private",
    ),
    "a line too short": (
        csv(GOOD + "25\n"),
        r"cannot read .*Line: 4(.|\n)*Expected Number of Columns: 3 Found: 1(.|\n)*private",
    ),
    "a quote that never ends": (
        csv(GOOD + '25,"F,100\n26,M,1\n'),
        r"cannot read .*Line: 4(.|\n)*unterminated quote(.|\n)*private",
    ),
    "latin letters": (
        csv((HEADER + "23,F\xe9,1\n").encode("latin-1")),
        r"is not UTF-8 text .*iconv -f LATIN1 -t UTF-8",
    ),
    "two bytes a letter": (csv(GOOD.encode("utf-16")), "is UTF-16 text.*iconv"),
    "not compressed": (csv(GOOD, "people.csv.gz"), r"cannot read .*Not a gzipped file"),
    "compressed, then cut": (
        csv(gzip.compress(GOOD.encode())[:-9], "people.csv.gz"),
        "cannot read .*ended",
    ),
    "no Parquet": (csv("PAR1 or not", "people.parquet"), "cannot read .*people.parquet"),
    "half a Parquet file": (half_a_parquet, "cannot read .*people.parquet"),
    "parts that differ": (parts_that_differ, r"column 'income': 2 of 4 rows .*: null\."),
    "a column of lists": (nested, r"column 'age': 2 of 2 rows .*\[23\], \[24\].*private"),
    "blanks and capitals": (
        csv(HEADER + "23, F,1\n24,m,2\n"),
        r"column 'sex': 2 of 2 rows .*' F', 'm'.* blanks or capitals only.*private",
    ),
    "numbers as text": (
        frame(age=["23", "24"]),
        r"column 'age': 2 of 2 rows .*'23', '24'.* Text is never taken for the number",
    ),
    "text among numbers": (
        csv(HEADER + "23,F,much\n"),
        r"column 'income': 1 of 1 rows .*'much'.*Text must be turned into numbers",
    ),
    "missing numbers": (
        frame(age=[23, None]),
        r"column 'age': 1 of 2 rows .*: null\..* declare a cell for those, outside the order",
    ),
    "missing categories": (
        frame(sex=["F", None]),
        r"column 'sex': 1 of 2 rows .*: null\..*other='other'",
    ),
    "beyond the edges": (
        frame(income=[100.0, 60_000.0]),
        r"column 'income': 1 of 2 rows .*60000\.0.*clip=True",
    ),
    "several columns at fault": (
        csv(HEADER + "123,X,1\n24,Y,2\n"),
        r"column 'age': 1 of 2 rows .*'123'.*The same goes for 'sex' \(2 rows\)",
    ),
    "two columns of one name": (
        lambda _: pd.DataFrame([[23, 24, "F", 1.0]], columns=["age", "age", "sex", "income"]),
        r"cannot read the frame(.|\n)*'age'",
    ),
    "columns of two levels": (
        lambda _: pd.DataFrame([[23]], columns=pd.MultiIndex.from_tuples([("age", "years")])),
        r"lack the column\(s\) 'age', 'sex', 'income'|cannot read the frame",
    ),
    "columns of unequal length": (
        lambda _: FRAME | {"age": [23]},
        r"must have one length, got \{'age': 1, 'sex': 2, 'income': 2\}",
    ),
    "a list of rows": (lambda _: [{"age": 23, "sex": "F"}], "cannot count a list; pass a path"),
    "a single series": (lambda _: pd.Series([23, 24]), "cannot count a Series; pass a path"),
    "codes with a fraction": (
        lambda _: np.array([[23.0, 0.0, 0.0]]),
        r"cannot count an array of float64 of shape \(1, 3\): integer codes have shape \(rows, 3\)",
    ),
    "codes out of range": (
        lambda _: np.array([[23, 2, 0]]),
        r"column 'sex': codes go from 2 to 2, .*codes 0 to 1; .*open_source\(\{'sex': values",
    ),
    "fractions of people": (
        lambda _: np.full(SCHEMA.shape, 0.5),
        r"not whole numbers; privacy is promised per record",
    ),
    "fewer than nobody": (lambda _: np.full(SCHEMA.shape, -1), "negative; counts of records are 0"),
    "a closed connection": (closed, "cannot read the relation: .*[Cc]losed"),
    "a reader read before": (read_before, "holds no records; if it was read before, pass what can"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_source(kind: str, tmp_path: Path) -> None:
    make, words = BROKEN[kind]
    with pytest.raises(DataError, match=words) as raised:
        open_source(make(tmp_path), SCHEMA, details=True).marginals(np.array([[0]]))
    assert isinstance(raised.value, NoiseplanError)
    assert isinstance(raised.value, ValueError)


# What a refusal must not show unless it is asked to, and what kind it is.
PRIVATE = {
    "no header line": ("'100'", "records that cannot be read"),
    "a line too long": ("25", "records that cannot be read"),
    "a line too short": ("Line: 4", "records that cannot be read"),
    "a quote that never ends": ("25", "records that cannot be read"),
    "latin letters": ("byte", "records that cannot be read"),
    "parts that differ": ("of 4", "values that the schema does not declare"),
    "a column of lists": ("[23]", "values that the schema does not declare"),
    "blanks and capitals": ("' F'", "values that the schema does not declare"),
    "numbers as text": ("'23'", "values that the schema does not declare"),
    "text among numbers": ("much", "values that the schema does not declare"),
    "missing numbers": ("1 of 2", "values that the schema does not declare"),
    "beyond the edges": ("60000", "values that the schema does not declare"),
    "several columns at fault": ("123", "values that the schema does not declare"),
    "columns of unequal length": ("'age': 1", "counts or codes that are none"),
    "codes with a fraction": ("(1, 3)", "counts or codes that are none"),
    "codes out of range": ("from 2", "counts or codes that are none"),
}


@pytest.mark.parametrize("kind", PRIVATE)
def test_what_is_private_is_not_shown_unasked(kind: str, tmp_path: Path) -> None:
    private, what = PRIVATE[kind]
    with pytest.raises(DataRefused) as raised:
        open_source(BROKEN[kind][0](tmp_path), SCHEMA).marginals(np.array([[0]]))
    assert raised.value.kind == what
    told = "".join(traceback.format_exception(raised.value)[-1:]).replace(str(tmp_path), "")
    assert private not in told
    assert told.rstrip().endswith("shown to those who ask for them: details=True.)")
    assert raised.value.__cause__ is None, "what an engine says quotes records"
    with pytest.raises(DataRefused) as asked:
        open_source(BROKEN[kind][0](tmp_path), SCHEMA, details=True).marginals(np.array([[0]]))
    assert private in str(asked.value)
    assert "do not publish" in str(asked.value)


def test_whatever_an_engine_says_of_records_is_private() -> None:
    """An error that nobody foresaw, of a lazy frame: it quotes the value it stumbled over."""
    lazy = pl.LazyFrame({"age": ["HIV"]}).select(pl.col("age").cast(pl.Int64))
    schema = Schema({"age": Ordinal(range(100))})
    with pytest.raises(DataRefused, match="cannot be read") as raised:
        open_source(lazy, schema).marginals(np.array([[0]]))
    assert "HIV" not in str(raised.value)
    assert raised.value.__suppress_context__
    with pytest.raises(DataRefused, match="HIV"):
        open_source(lazy, schema, details=True).marginals(np.array([[0]]))


def test_details_are_asked_for_each_time() -> None:
    schema = Schema({"age": Ordinal(range(100))})
    with pytest.raises(DataRefused, match="200"):
        open_source({"age": [200]}, schema, details=True)
    with pytest.raises(DataRefused) as raised:
        open_source({"age": [200]}, schema)
    assert "200" not in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.kind) == (str(raised.value), raised.value.kind)


def test_what_is_not_broken(tmp_path: Path) -> None:
    """Line ends, byte order marks, separators, quotes, blank lines: not worth a refusal."""
    right = [[0] * 23 + [1, 1] + [0] * 75]
    for n, text in enumerate(
        [
            GOOD,
            GOOD.replace("\n", "\r\n"),
            "\ufeff" + GOOD,
            GOOD.replace(",", ";"),
            GOOD.replace(",", "\t"),
            GOOD.replace(",", "|"),
            'note,"age",sex,income\n"a,b\n""c""",23,"F",1\n,24,M,2\n',
            HEADER + "\n23,F,1\n\n24,M,2\n",
            GOOD.rstrip("\n"),
            "income,age,sex,other,other\n1,23,F,x,y\n2,24,M,x,y\n",
        ]
    ):
        path = csv(text, f"people{n}.csv")(tmp_path)
        assert open_source(path, SCHEMA).marginals(np.array([[0]])).tolist() == right, text
    assert open_source(csv(HEADER)(tmp_path), SCHEMA).marginals(np.array([[1]])).sum() == 0


def test_a_quote_that_is_not_closed_quotes_no_records(tmp_path: Path) -> None:
    """It takes all that follows for the name of a column."""
    (tmp_path / "d.csv").write_text('sex,"age\nF,21\nM,22\n')
    schema = Schema({"sex": Categorical(["F", "M"]), "age": Ordinal(range(20, 30))})
    for details in (False, True):
        with pytest.raises(DataRefused, match="line break within a name") as caught:
            open_source(tmp_path / "d.csv", schema, details=details)
        assert "21" not in str(caught.value).replace(str(tmp_path), "")


def test_a_compressed_file_that_was_cut_is_refused_as_data(tmp_path: Path) -> None:
    whole = gzip.compress(b"sex,age\n" + b"F,21\n" * 1000)
    (tmp_path / "d.csv.gz").write_bytes(whole[:20])
    schema = Schema({"sex": Categorical(["F", "M"]), "age": Ordinal(range(20, 30))})
    with pytest.raises(DataRefused, match="damaged, or was cut"):
        open_source(tmp_path / "d.csv.gz", schema)


def test_files_of_a_pattern_have_one_header(tmp_path: Path) -> None:
    """Another separator, or no header at all, would lose records or take them for others."""
    schema = Schema({"a": Categorical(["x"], other="else"), "b": Categorical(["y"], other="else")})
    (tmp_path / "1.csv").write_text("a,b\nx,y\n")
    for text in ("a;b\nx;y\n", "x,y\nx,y\n"):
        (tmp_path / "2.csv").write_text(text)
        with pytest.raises(DataError, match="has not the header of"):
            open_source(str(tmp_path / "*.csv"), schema)
    (tmp_path / "2.csv").write_text("b,a\ny,x\n")
    assert open_source(str(tmp_path / "*.csv"), schema).marginals([[0]]).tolist() == [[2, 0]]


def test_a_column_without_a_name_is_passed_over(tmp_path: Path) -> None:
    """As data frames write the numbers of their rows."""
    (tmp_path / "d.csv").write_text(",a\n0,x\n1,x\n")
    schema = Schema({"a": Categorical(["x", "y"])})
    assert open_source(tmp_path / "d.csv", schema).marginals([[0]]).tolist() == [[2, 0]]


def test_a_first_line_that_is_a_record_is_not_shown(tmp_path: Path) -> None:
    """A file without a header, whose first record happens to hold the name of a column."""
    (tmp_path / "d.csv").write_text("sex,Alice Secret,flu\nM,Bob,cold\n")
    schema = Schema({"sex": Categorical(["F", "M"]), "age": Ordinal(range(20, 30))})
    with pytest.raises(DataRefused, match=r"lack .* 'age'; they have 'sex', and 2 others") as plain:
        open_source(tmp_path / "d.csv", schema)
    assert "Alice" not in str(plain.value)
    with pytest.raises(DataRefused, match="'Alice Secret'"):
        open_source(tmp_path / "d.csv", schema, details=True)
