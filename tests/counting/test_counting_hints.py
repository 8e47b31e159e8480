"""Hints at what was meant: capitals in headers, other encodings, files that are not there."""

from __future__ import annotations

import codecs
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from noiseplan.counting import open_source
from noiseplan.counting.text_files import TextFile
from noiseplan.errors import DataError, DataRefused
from noiseplan.schema import Attribute, Binned, Categorical, Hierarchical, Ordinal, Schema
from noiseplan.study import StudyError, read_study

SCHEMA = Schema({"age": Ordinal(range(3)), "sex": Categorical(["F", "M"])})


def said(data: object, **how: object) -> str:
    with pytest.raises(DataError) as caught:
        open_source(data, SCHEMA, **how)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("header", ["AGE,SEX", "Age,Sex", "AGE,sex", " age,sex"])
def test_capitals_and_blanks_in_headers(header: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{header}\n1,F\n")
    text = said(path)
    first, second = header.split(",")
    assert f"Is it {first!r} for 'age'" in text
    assert (f"{second!r} for 'sex'?" in text) == (second != "sex")
    assert "Capitals and blanks count." in text
    frame = {name: ["F"] for name in header.split(",")}
    assert f"Is it {first!r} for 'age'" in said(frame)


def test_the_column_of_the_finest_level(tmp_path: Path) -> None:
    """No column is meant that is declared already, however near its name."""
    geo = Hierarchical({"block": ["a", "b"], "county": ["A", "A"]})
    schema = Schema({"geo": geo, "age": Ordinal(range(3))})
    for columns in ({"age": [1], "block": ["a"]}, {"block": ["a"], "county": ["A"], "age": [1]}):
        with pytest.raises(DataError, match=r"Is it 'block' for 'geo'\? Name"):
            open_source(columns, schema)
    with pytest.raises(DataError) as nothing:
        open_source({"age": [1], "x": [1]}, schema)
    assert "Is it" not in str(nothing.value)


def test_how_a_file_writes_numbers_and_dates(tmp_path: Path) -> None:
    """Of bins it is said how text may be written: decimal commas of numbers, ISO of dates."""
    path = tmp_path / "people.csv"
    path.write_text("pay;since\n7,5;31.01.2020\n")
    bins = {"pay": Binned([0, 10]), "since": Binned([date(2020, 1, 1), date(2021, 1, 1)])}
    for name, words in (("pay", 'TextFile(path, decimal=",")'), ("since", "as 2020-01-31")):
        with pytest.raises(DataRefused) as caught:
            open_source(path, Schema({name: bins[name]})).marginals(np.array([[0]]))
        assert words in str(caught.value)
    assert open_source(TextFile(path, decimal=","), Schema({"pay": bins["pay"]})).marginals(
        np.array([[0]])
    ).tolist() == [[1]]


def test_capitals_of_the_person_column() -> None:
    text = said({"age": [1], "sex": ["F"], "Id": [3]}, person="id")
    assert "Is it 'Id'? Capitals and blanks count." in text


@pytest.mark.parametrize(
    "geo",
    [
        Categorical(["01001", "06037"]),
        Hierarchical.from_codes(["01001", "06037"], {"state": 2}, leaf="county"),
    ],
    ids=["categorical", "hierarchical"],
)
def test_codes_that_have_lost_their_zeros(geo: Attribute, tmp_path: Path) -> None:
    """In CSV they are text, and kept; of numbers it is said what happened, without a value."""
    schema = Schema({"geo": geo})
    path = tmp_path / "places.csv"
    path.write_text("geo\n01001\n06037\n01001\n")
    found = open_source(path, schema).marginals(np.array([[0]]))[0]
    assert found.tolist() == [2, 1]
    path.write_text("geo\n1001\n6041\n")
    for data in (path, {"geo": [1001, 6041]}):
        with pytest.raises(DataRefused, match="has lost their zeros; read it as text") as caught:
            open_source(data, schema).marginals(np.array([[0]]))
        assert "6041" not in str(caught.value)
    other = Schema({"geo": Categorical(["1001", "0"])})
    with pytest.raises(DataRefused) as caught:
        open_source({"geo": ["7"]}, other)
    assert "zeros" not in str(caught.value)


def test_a_file_without_header_still_shows_no_record(tmp_path: Path) -> None:
    """A value that is near a declared name is a value all the same."""
    path = tmp_path / "people.csv"
    path.write_text("ages,secret\n1,F\n")
    text = said(path)
    assert "it must be a header" in text
    assert "ages" not in text and "secret" not in text


@pytest.mark.parametrize(
    "start", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b""], ids=["little", "big", "no mark"]
)
def test_sixteen_bits(start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    coding = "utf-16-be" if start == codecs.BOM_UTF16_BE else "utf-16-le"
    path.write_bytes(start + "age,sex\n1,F\n".encode(coding))
    with pytest.raises(DataRefused, match="it is UTF-16 text") as caught:
        open_source(path, SCHEMA)
    assert "iconv -f UTF-16" in str(caught.value)
    assert caught.value.__cause__ is None
    path.write_bytes(b"age,sex\n1,\xe9\n")
    with pytest.raises(DataRefused, match="not UTF-8 text"):
        open_source(path, SCHEMA)


@pytest.mark.parametrize("name", ["poeple.csv", "People.CSV", "people2.csv", "peple.parquet"])
def test_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,sex\n1,F\n")
    (tmp_path / "peoples.parquet").write_bytes(b"")
    meant = "peoples.parquet" if name.endswith("parquet") else "people.csv"
    assert f"Did you mean {str(tmp_path / meant)!r}?" in said(tmp_path / name)


def test_nothing_near(tmp_path: Path) -> None:
    assert said(tmp_path / "x.csv").endswith("no such file is there")
    assert "no folder" in said(tmp_path / "nowhere" / "x.csv")
    assert said(str(tmp_path / "*.csv")).endswith("no such file is there")


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "wages.toml").write_text("")
    with pytest.raises(StudyError, match=r"Did you mean '.*wages\.toml'"):
        read_study(tmp_path / "wage.toml")
