"""One person, one cap: every source knows a person again, and chooses the same of their records.

The oracle below says in plain Python who a record belongs to and which records are counted. Every
source must agree with it to the last record.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import unicodedata
import uuid
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from depth import examples
from noiseplan.counting import TextFile, open_source
from noiseplan.counting.persons import with_person
from noiseplan.errors import DataError
from noiseplan.schema import Schema

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'future.infer_string'"),  # Ibis on SQLite
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]

KEY = bytes(range(32))
SCHEMA = Schema.from_sizes({"a": 3, "b": 40})
MISSING = [
    *("nan", "-nan", "na", "n/a", "<na>", "nat", "none", "null", "(null)", "nil"),
    *("#n/a", "#na", "n.a.", "\\n", ".", "?", "-", "--"),
    *("inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"),
]
NUMBER = re.compile(r"([+-]?)(\d*)(\.\d*)?(e[+-]?\d{1,3})?", re.ASCII)


# ---------------------------------------------------------------------- the oracle


def unseen(sign: str) -> bool:
    """Whether a sign prints nothing, and is no white space either."""
    if unicodedata.category(sign) in ("Cf", "Cc"):
        return not sign.isspace()
    fillers = ["HANGUL CHOSEONG FILLER", "HANGUL JUNGSEONG FILLER", "HANGUL FILLER"]
    fillers += ["HALFWIDTH HANGUL FILLER", "BRAILLE PATTERN BLANK", "COMBINING GRAPHEME JOINER"]
    name = unicodedata.name(sign, "")
    return name in fillers or "VARIATION SELECTOR" in name


def person(value: object) -> str | None:
    """The one spelling of a person; None for nobody, empty for a rounded number."""
    text = str(value) if not isinstance(value, Decimal) else f"{value:f}"
    text = "".join(chr(ord(c) - 0xFEE0) if 0xFF01 <= ord(c) <= 0xFF5E else c for c in text)
    text = "".join(" " if sign.isspace() else sign for sign in text if not unseen(sign)).strip()
    for change in (str.lower, str.upper, str.lower):
        text = unicodedata.normalize("NFC", text).replace("\u0130", "I")  # a Turkish capital
        text = "".join(change(letter) for letter in text)  # no letter knows its neighbours
    text = unicodedata.normalize("NFC", text)  # ǰ has a sign of its own, its capital has none
    if text == "" or text in MISSING:
        return None
    found = NUMBER.fullmatch(text)
    if found is None or not (found[2] or (found[3] or ".") != "."):
        return text
    if found[4] and found[3] is None and found[4][1] not in "+-":
        return text  # 12e3
    number = Decimal(text).normalize(Context(prec=2000))
    if found[4] and abs(number) >= 10**15:
        return ""
    sign, digits, power = number.as_tuple()
    if number == 0:
        return "0"
    assert isinstance(power, int)
    written = "".join(map(str, digits))
    written += "0" * power if power >= 0 else f"e{power}"
    return "-" * sign + written


def counted(values: Sequence[Any], codes: Sequence[tuple[int, int]], cap: int) -> Any:
    """The table of the records that are counted, or None where the data are refused."""
    table = np.zeros(SCHEMA.shape, dtype=int)
    draws: dict[str, list[tuple[str, tuple[int, int]]]] = {}
    places: dict[tuple[str, tuple[int, int]], int] = {}
    for value, record in zip(values, codes, strict=True):
        who = None if value is None else person(value)
        if not who:
            return None
        place = places[who, record] = places.get((who, record), 0) + 1
        text = ",".join([KEY.hex(), *map(str, record), str(place), who])
        drawn = (hashlib.sha256(text.encode()).hexdigest(), record)
        draws.setdefault(who, []).append(drawn)
    for drawn in draws.values():
        for _, record in sorted(drawn)[:cap]:
            table[record] += 1
    return table


def test_the_oracle() -> None:
    one = ["17", "+17", "017", "17.0", "17.", " 17\t", "1.7e1", "1.7E+1", "170e-1", "\ufeff17"]
    assert {person(text) for text in one} == {"17"}
    assert {person(text) for text in ("0", "-0", "0.00", "-0.0", "0e+7")} == {"0"}
    others = {"12e3": "12e3", "1.2e3": "1200", "-.50": "-5e-1", "1.5e16": "", "9" * 40: "9" * 40}
    others |= {"e": "e", "+": "+", "É": "é", "E\u0301": "é", "12.3.4": "12.3.4"}
    others |= {"\uff11\uff17": "17", "a\u00adn\u200dn": "ann", "Groß": "gross", "Σας": "σασ"}
    others |= {"\u202aann\u202c": "ann", "J\u030c": "\u01f0", "a\u00a0b": "a b", "ann\0": "ann"}
    others |= {
        "Y\u0131ld\u0131z": "yildiz",
        "\u0130smail": "ismail",
        "\ufb01n": "fin",
        "\u017fo": "so",
    }
    assert {text: person(text) for text in others} == others
    assert person("NaN") is None is person(" \u2003") is person(".")


def test_no_letter_is_another_person_in_capitals_or_small() -> None:
    signs = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    letters = [sign for sign in signs if not sign == sign.upper() == sign.lower()]
    spelled = [f"a{letter}a" for letter in letters]
    spelled += [text.upper() for text in spelled] + [text.lower() for text in spelled]
    with duckdb.connect() as connection:
        table = pa.table({"n": [*range(len(letters))] * 3, "p": spelled})
        found = with_person(connection.from_arrow(table), ["n"], "p", "VARCHAR").fetchall()
    people: dict[str, set[str]] = {}
    for n, who in found:
        people.setdefault(letters[n], set()).add(who)
    assert len(letters) > 2500 and [each for each, who in people.items() if len(who) > 1] == []


# ---------------------------------------------------------------------- the sources


def frame_of(values: Sequence[Any], codes: Sequence[tuple[int, int]], kind: Any = None) -> pa.Table:
    columns = list(zip(*codes, strict=True)) or [(), ()]
    ints = [pa.array(list(column), pa.int64()) for column in columns]
    return pa.table({"a": ints[0], "p": pa.array(list(values), kind or pa.string()), "b": ints[1]})


def to_csv(table: pa.Table, folder: Path) -> Path:
    pl.DataFrame(pl.from_arrow(table)).write_csv(folder / "people.csv")
    return folder / "people.csv"


def to_parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "people.parquet")
    return folder / "people.parquet"


def to_files(table: pa.Table, folder: Path) -> str:
    """Two files of different column orders."""
    half, frame = len(table) // 2, pl.DataFrame(pl.from_arrow(table))
    frame[:half].write_csv(folder / "part-1.csv")
    frame[half:].select("p", "b", "a").write_csv(folder / "part-2.csv")
    return str(folder / "part-*.csv")


def to_relation(table: pa.Table, _: Path) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("people", table)
    return connection.sql("FROM people")


def to_ibis(table: pa.Table, _: Path) -> Any:
    import ibis

    return ibis.memtable(table)


def to_sqlite(table: pa.Table, _: Path) -> Any:
    import ibis

    return ibis.sqlite.connect().create_table("people", table)


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "lists": lambda table, _: table.to_pydict(),
    "arrays": lambda table, _: {n: np.array(v) for n, v in table.to_pydict().items()},
    "pandas": lambda table, _: table.to_pandas(),
    "pandas objects": lambda table, _: pd.DataFrame(table.to_pydict(), dtype=object),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars lazy": lambda table, _: pl.DataFrame(pl.from_arrow(table)).lazy(),
    "pyarrow": lambda table, _: table,
    "pyarrow reader": lambda table, _: table.to_reader(max_chunksize=3),
    "pyarrow dataset": lambda table, path: pyarrow.dataset.dataset(to_parquet(table, path)),
    "csv": to_csv,
    "csv files": to_files,
    "parquet": to_parquet,
    "relation": to_relation,
    "ibis": to_ibis,
    "sqlite": to_sqlite,
}
TEXTS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "pandas categories": lambda table, _: table.to_pandas().astype({"p": "category"}),
    "polars categories": lambda table, _: pl.DataFrame(pl.from_arrow(table)).cast(
        {"p": pl.Categorical}
    ),
    "pyarrow dictionary": lambda table, _: table.set_column(1, "p", table["p"].dictionary_encode()),
}
SERVERS = ("postgres", "spark")
FRAMES = ("pandas", "polars", "polars lazy", "pyarrow", "pyarrow reader")


def opened(
    kind: str, table: pa.Table, cap: int, folder: Path, request: pytest.FixtureRequest
) -> Any:
    """The table of the counted records, from one kind of source; None where it is refused."""
    if kind == "postgres":
        data = request.getfixturevalue("postgres").create_table("people", table, overwrite=True)
    elif kind == "spark":
        data = request.getfixturevalue("spark").createDataFrame(table).repartition(3)
    else:
        data = (SOURCES | TEXTS)[kind](table, folder)
    try:
        return open_source(data, SCHEMA, person="p", cap=cap, key=KEY).marginals([[0, 1]])[0]
    except DataError as error:
        assert re.search("person column 'p': some rows (are null|hold floating-point)", str(error))
        return None


def some_codes(rows: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(rows)
    return list(
        zip(rng.integers(0, 3, rows).tolist(), rng.integers(0, 4, rows).tolist(), strict=True)
    )


# ---------------------------------------------------------------------- texts


SPELLINGS = [
    *("17", "17.0", " 17", "017", "+17", "1.7e1", "1.70E+01", "170e-1", "-17", "17\u00a0", "\t17"),
    *("0", "-0", "0.0", "00", ".0", "0.50", ".5", "5e-1", "12e3", "12000", "1.2e4", "1e400"),
    *("p", "P", "p ", "p q", "P Q", "é", "e\u0301", "É", "E\u0301", "ÅNGSTRÖM", "Ångström"),
    *("ß", "ẞ", "ΣΊΣΥΦΟΣ", "σίσυφοσ", "\ufeffp", "p\u200b", "１７", "nandi", "nano", "1e+4"),
    *(str(2**62), str(2**62 + 1), f"{2**62}.0", "9" * 40, "1,5", "1-5", "..", "e5", "1e", "0x11"),
    *("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    *("true", "True", "2030-01-05", "O'Hara; --"),
    *("\u202ap\u202c", "\u2068P\u2069", "p\u061c", "p\u180e", "p\U000e0061", "p\U000e0100"),
    *("\u3164p", "p\u2800", "p\x7f", "\ufff9p", "p\u00a0q", "p\u3000Q", "J\u030c", "\u01f0"),
]


@pytest.mark.grid
@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("kind", [*SOURCES, *TEXTS, *SERVERS])
def test_spellings_of_one_person_share_one_cap(
    kind: str, cap: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    values = SPELLINGS * 4
    codes = some_codes(len(values))
    found = opened(kind, frame_of(values, codes), cap, tmp_path, request)
    np.testing.assert_array_equal(found, counted(values, codes, cap))


def test_numbers_of_persons_are_written_as_the_file_declares(tmp_path: Path) -> None:
    """One file wrote them as whole numbers, another as fractions with a comma."""
    ids = [["17", "1234", "p;1", "1234567"], ["17,0", "1.234", "P;1", "1.234.567,00", "17,5"]]
    for number, some in enumerate(ids):
        rows = "".join(f'0,0,"{one}"\n' for one in some)
        (tmp_path / f"part-{number}.csv").write_text(f"a,b,p\n{rows}", encoding="utf-8")
    written = TextFile(tmp_path / "part-*.csv", decimal=",", thousands=".")
    assert open_source(written, SCHEMA, person="p").marginals([[0]]).sum() == 5
    plain = TextFile(tmp_path / "part-*.csv")  # where a comma is no part of a number
    assert open_source(plain, SCHEMA, person="p").marginals([[0]]).sum() == 8


def test_what_a_file_declares_as_missing_is_nobody(tmp_path: Path) -> None:
    """It stands for a missing value in every column; as a name it would be a cap of its own."""
    (tmp_path / "people.csv").write_text("a,b,p\n0,0,p\n0,1, X9 \n", encoding="utf-8")
    declared = TextFile(tmp_path / "people.csv", missing=["X9", "-1"])
    with pytest.raises(DataError, match="some rows are null, empty or spell a missing value"):
        open_source(declared, SCHEMA, person="p").marginals([[0]])
    assert open_source(tmp_path / "people.csv", SCHEMA, person="p").marginals([[0]]).sum() == 2


def test_nothing_that_prints_nothing_makes_another_person() -> None:
    """All of Unicode, every sign within a name: one person, or one that is seen to be another."""
    signs = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in ("Cf", "Cc", "Mn")]
    signs = [sign for sign in signs if unseen(sign)]
    names = ["anna", *(f"an{sign}na" for sign in signs)]
    data = {"p": names, "a": [0] * len(names), "b": [0] * len(names)}
    assert len(signs) > 400
    assert open_source(data, SCHEMA, person="p").marginals([[0]]).sum() == 1


@pytest.mark.grid
@pytest.mark.parametrize("value", [None, "", "  ", "NA", "NaN", "None", "NULL", "1e+16", "4.6E18"])
@pytest.mark.parametrize("kind", [*SOURCES, *TEXTS, *SERVERS])
def test_nobody_and_rounded_numbers_are_refused(
    kind: str, value: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = frame_of(["p", "q", value, "p"], some_codes(4))
    assert opened(kind, table, 2, tmp_path, request) is None


def padded(text: str, before: str, after: str) -> str:
    return before + text + after


BLANKS = st.text(" \t\u00a0\u2003\ufeff", max_size=2)
FIGURES = st.text("01789", max_size=4)
NUMBERS = st.builds(
    lambda sign, whole, point, part, power: sign + whole + point * "." + part * point + power,
    st.sampled_from(["", "+", "-"]),
    FIGURES,
    st.integers(0, 1),
    FIGURES,
    st.sampled_from(["", "", "e1", "E+2", "e-1", "E-02", "e+17"]),
)
WORDS = st.text("pPeéÉ\u0301 .-+1", max_size=4) | st.sampled_from([*MISSING, "Nan", "NONE"])
WRITTEN = st.builds(padded, NUMBERS | WORDS, BLANKS, BLANKS)


VALUES = st.lists(WRITTEN, min_size=1, max_size=9)
FIXTURES = [HealthCheck.function_scoped_fixture]


@pytest.mark.parametrize("kind", ["lists", "csv"])
@examples(60, suppress_health_check=FIXTURES)
@given(values=VALUES, cap=st.integers(1, 2))
def test_texts_agree_with_the_oracle(
    kind: str, values: list[str], cap: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    agrees(kind, values, cap, tmp_path, request)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["pandas", "polars lazy", "pyarrow", "relation"])
@examples(25, suppress_health_check=FIXTURES)
@given(values=VALUES, cap=st.integers(1, 2))
def test_frames_agree_with_the_oracle(
    kind: str, values: list[str], cap: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Fewer, and others: their texts reach the expression above unchanged, and only that is new."""
    agrees(kind, values, cap, tmp_path, request)


def agrees(
    kind: str, values: list[str], cap: int, folder: Path, request: pytest.FixtureRequest
) -> None:
    codes = some_codes(len(values))
    found = opened(kind, frame_of(values, codes), cap, folder, request)
    expected = counted(values, codes, cap)
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------------- other people


@pytest.mark.few(7)
@pytest.mark.parametrize("kind", [*SOURCES, *TEXTS, *SERVERS])
def test_nobody_else_changes_which_records_of_a_person_are_counted(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Everybody has six records, of which two are counted, and a value of `b` to be known by."""
    rows = [(f"p{n}", (visit % 3, n)) for visit in range(6) for n in range(30)]
    some = [row for row in reversed(rows) if row[1][1] % 3]
    more = [("new", (visit % 3, 35)) for visit in range(4)]
    tables = []
    for number, mixed in enumerate((rows, [*more[:2], *some, *more[2:]])):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = frame_of(*zip(*mixed, strict=True))
        tables.append(opened(kind, table, 2, folder, request))
    everybody, fewer = tables
    kept = [n for n in range(30) if n % 3]
    assert everybody.sum(axis=0).tolist() == [2] * 30 + [0] * 10
    np.testing.assert_array_equal(fewer[:, kept], everybody[:, kept])
    assert fewer.sum() == 2 * len(kept) + 2


# ---------------------------------------------------------------------- other types

TYPES: dict[str, tuple[Any, list[Any]]] = {
    "whole": (pa.int64(), [2**62, 2**62 + 1, 2**62 + 2, -5, 0, 17]),
    "small": (pa.int16(), [1, 2, 3, -4]),
    "floats": (pa.float64(), [0.0, -0.0, 1.5, 2.5, 17.0, 0.1, 1e-7, 123456789012345.0]),
    "singles": (pa.float32(), [0.0, -0.0, 1.5, 0.25, 1234567.0]),
    "decimals": (pa.decimal128(20, 2), [Decimal("17.00"), Decimal("17.50"), Decimal("0.00")]),
    "days": (pa.date32(), [datetime.date(2030, 1, 5), datetime.date(2031, 1, 5)]),
    "truths": (pa.bool_(), [True, False]),
}


@pytest.mark.few(13)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in (*SOURCES, *SERVERS)
        for name in TYPES
        if (kind, name) != ("sqlite", "decimals")  # it has none
    ],
)
def test_a_value_of_any_type_is_the_text_that_spells_it(
    kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    arrow, values = TYPES[name]
    codes = some_codes(6 * len(values))
    found = opened(kind, frame_of(values * 6, codes, arrow), 2, tmp_path, request)
    np.testing.assert_array_equal(found, counted(values * 6, codes, 2))


def test_floats_of_single_precision_are_spelled_by_it() -> None:
    tenth = {"a": [0, 0], "b": [0, 0], "p": np.array([0.1, 0.1], dtype=np.float32)}
    as_text = tenth | {"p": ["0.1", "0.10"]}
    mixed = tenth | {"p": [np.float32(0.1), "0.1"]}
    for data in (tenth, as_text, mixed):
        assert open_source(data, SCHEMA, person="p").marginals([[0]]).sum() == 1


SINGLES = ("polars", "polars lazy", "pyarrow", "pyarrow reader", "relation", "parquet", "spark")


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("kind", "arrow", "value"),
    [
        *((kind, pa.float64(), 2.0**62) for kind in (*SOURCES, *SERVERS)),
        *((kind, pa.float64(), 1e15) for kind in (*SOURCES, *SERVERS) if "csv" not in kind),
        *((kind, pa.float32(), 2e7) for kind in SINGLES),
    ],
)
def test_floats_that_were_rounded_are_refused(
    kind: str, arrow: Any, value: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = frame_of([1.0, value], [(0, 0), (1, 1)], arrow)
    assert opened(kind, table, 1, tmp_path, request) is None


def test_values_of_several_types() -> None:
    some = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    values = [
        *(17, 17.0, "17", " 017", np.int8(17), np.float32(17), Decimal("17.0"), Decimal("1.7E1")),
        *(some, str(some).upper(), True, "TRUE", datetime.date(2030, 1, 5), "2030-01-05"),
    ]
    codes = some_codes(len(values))
    columns = {"p": values, "a": [a for a, _ in codes], "b": [b for _, b in codes]}
    for data in (columns, pd.DataFrame(columns)):
        source = open_source(data, SCHEMA, person="p", cap=1)
        assert source.marginals([[0]]).sum() == 4


MOMENTS = [datetime.datetime(2030, 1, 5), datetime.datetime(2030, 1, 6)]
LENGTHS = [datetime.timedelta(1), datetime.timedelta(2)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        *((kind, MOMENTS) for kind in ("lists", "arrays", *FRAMES, "parquet", "relation")),
        *((kind, LENGTHS) for kind in ("lists", "arrays", *FRAMES, "relation")),
        *((kind, [b"a", b"b"]) for kind in ("lists", "arrays", *FRAMES, "parquet", "relation")),
        *((kind, [[1], [2, 3]]) for kind in ("lists", *FRAMES, "parquet", "relation")),
    ],
)
def test_values_without_one_spelling_are_refused(kind: str, values: Any, tmp_path: Path) -> None:
    table = pa.table({"a": [0, 1], "p": values, "b": [0, 0]})
    with pytest.raises(DataError, match="person column 'p': persons are told apart by plain"):
        open_source(SOURCES[kind](table, tmp_path), SCHEMA, person="p")


def test_moments_in_spark_are_refused(spark: Any) -> None:
    table = pa.table({"a": [0], "p": [datetime.datetime(2030, 1, 5)], "b": [0]})
    with pytest.raises(DataError, match=r"persons are told apart by plain values.*TIMESTAMP"):
        open_source(spark.createDataFrame(table), SCHEMA, person="p")


def test_batches_of_different_types_are_not_rounded() -> None:
    from noiseplan.counting.persons import joined_persons

    parts = [np.array([2**62 + 1]), np.array([2**63 + 1], dtype=np.uint64), np.array(["x"], object)]
    assert joined_persons(parts, "p").tolist() == [str(2**62 + 1), str(2**63 + 1), "x"]
