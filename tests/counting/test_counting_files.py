"""Files and relations: names, formats, types and addresses that an engine could mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from test_counting_sources import count_everything

from noiseplan.counting import count_tables, open_source
from noiseplan.counting.expressions import Column
from noiseplan.engine import engine
from noiseplan.errors import DataError
from noiseplan.progress import listening
from noiseplan.schema import Binned, Categorical, Ordinal, Schema


@contextmanager
def titles_heard() -> Iterator[list[str]]:
    """What bars are called that are shown meanwhile."""
    heard: list[str] = []
    with listening(lambda title, share: heard.append(title)):
        yield heard


class TestFiles:
    schema = Schema({"code": Categorical(["", "007", "7"]), "n": Ordinal(range(3))})

    def write(self, path: Path, text: str, name: str = "people.csv") -> str:
        (path / name).write_text(text)
        return str(path / name)

    def test_text_keeps_its_zeros_and_numbers_their_value(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "n;code\n1;007\n01;7\n1.0;\n2e0;7\n")
        table = open_source(path, self.schema).marginals(np.array([[0, 1]]))[0]
        assert table.tolist() == [[0, 1, 0], [0, 1, 0], [0, 1, 1]]

    def test_no_row_is_taken_for_a_comment_or_preamble(self, tmp_path: Path) -> None:
        schema = Schema({"code": Categorical(["#a", "'b'", "c,d"])})
        rows = ["#a,1\n"] * 3 + ["'b',1\n"] * 30_000 + ['"c,d",1\n']
        source = open_source(self.write(tmp_path, "".join(["code,n\n", *rows])), schema)
        assert source.marginals(np.array([[0]])).tolist() == [[3, 30_000, 1]]

    def test_a_quote_in_the_name(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "n,code\n1,007\n", "it's.csv")
        assert open_source(path, self.schema).marginals(np.array([[1]])).tolist() == [[0, 1, 0]]

    def test_truth_in_lower_case(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "m\ntrue\nTrue\nfalse\n")
        source = open_source(path, Schema({"m": Categorical([False, True])}))
        assert source.marginals(np.array([[0]])).tolist() == [[1, 2]]

    def test_parts_with_columns_in_another_order(self, tmp_path: Path) -> None:
        self.write(tmp_path, "n,code\n1,007\n", "part1.csv")
        self.write(tmp_path, "code,n\n7,2\n", "part2.csv")
        source = open_source(tmp_path / "part*.csv", self.schema)
        assert source.marginals(np.array([[1]])).tolist() == [[0, 1, 1]]

    def test_compressed(self, tmp_path: Path) -> None:
        import gzip

        path = tmp_path / "people.csv.gz"
        path.write_bytes(gzip.compress(b"n,code\n1,007\n"))
        assert open_source(path, self.schema).marginals(np.array([[1]])).tolist() == [[0, 1, 0]]

    def test_compressed_by_zstandard(self, tmp_path: Path) -> None:
        path = tmp_path / "people.csv.zst"
        duckdb.sql(
            f"COPY (SELECT 1 AS n, '007' AS code) TO '{path}' (FORMAT csv, COMPRESSION zstd)"
        )
        assert open_source(path, self.schema).marginals(np.array([[1]])).tolist() == [[0, 1, 0]]

    @pytest.mark.parametrize("mark", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("part", ["alone", "second part", "declared"])
    def test_a_line_break_in_a_heading_loses_no_records(
        self, tmp_path: Path, mark: str, end: str, part: str
    ) -> None:
        broken = f"a{mark}b"
        schema = Schema({broken if part == "declared" else "n": Ordinal(range(3))})
        text = f'n,"{broken}"{end}' + f"1,1{end}" * 9
        (tmp_path / "part2.csv").write_bytes(text.encode())
        if part == "second part":
            self.write(tmp_path, "n,code\n1,7\n", "part1.csv")
        with pytest.raises(DataError, match=r"part2\.csv: the header has a line break within a"):
            open_source(tmp_path / "part*.csv", schema)

    @pytest.mark.parametrize("blank", ["\n", "\r\n"])
    def test_a_blank_first_line_adds_no_record(self, tmp_path: Path, blank: str) -> None:
        schema = Schema({"code": Categorical(["7"], other="other")})
        self.write(tmp_path, "code,n\n7,1\n", "part1.csv")
        (tmp_path / "part2.csv").write_bytes(f"{blank}code,n{blank}7,1{blank}".encode())
        for name in ("part2.csv", "part*.csv"):
            with pytest.raises(DataError, match=r"part2\.csv: its first line is blank"):
                open_source(tmp_path / name, schema)

    def test_text_made_safe_for_spreadsheets_is_what_it_was(self, tmp_path: Path) -> None:
        schema = Schema({"=a": Categorical(["=x", "'=x", "-5", "'y"], other="other")})
        path = self.write(tmp_path, "'=a,n\n'=x,1\n=x,1\n''=x,1\n-5,1\n'y,1\n'-5,1\n")
        found = open_source(path, schema).marginals(np.array([[0]]))
        # '=x is declared itself, so it is not taken for =x.
        assert found.tolist() == [[1, 2, 1, 1, 1]]
        plain = Schema({"=a": Categorical(["=x", "y"])})
        path = self.write(tmp_path, "'=a\n'=x\n=x\ny\n", "plain.csv")
        assert open_source(path, plain).marginals(np.array([[0]])).tolist() == [[2, 1]]

    def test_text_that_is_no_number_is_shown(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "x,n\nmuch,1\n3,one\n")
        with pytest.raises(DataError, match=r"column 'x': 1 of 2 rows .*'much'"):
            count_everything(path, Schema({"x": Binned([0, 10])}))
        with pytest.raises(DataError, match=r"column 'n': 1 of 2 rows .*'one'"):
            count_everything(path, Schema({"n": Ordinal(range(3))}))

    @pytest.mark.parametrize("name", ["nothing.csv", "nothing.parquet", "no*.csv"])
    def test_files_that_are_not_there(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"cannot read .*no such file is there"):
            open_source(tmp_path / name, self.schema)

    @pytest.mark.parametrize("name", ["people", "people.xlsx", "people.gz"])
    def test_formats_that_are_not_known(self, name: str) -> None:
        with pytest.raises(DataError, match=r"cannot tell the format of .*\.csv"):
            open_source(name, self.schema)

    def test_broken_files(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="cannot read"):
            open_source(self.write(tmp_path, "not parquet", "x.parquet"), self.schema)
        with pytest.raises(DataError, match="it is empty; the first line must name the columns"):
            open_source(self.write(tmp_path, ""), self.schema)

    def test_many_bins(self, tmp_path: Path) -> None:
        values = np.random.default_rng(0).normal(size=1000)
        edges = [-np.inf, *np.linspace(-2, 2, 300).tolist(), np.inf]
        schema = Schema({"x": Binned(edges)})
        pl.DataFrame({"x": values}).write_parquet(tmp_path / "x.parquet")
        table = open_source(tmp_path / "x.parquet", schema).marginals(np.array([[0]]))[0]
        np.testing.assert_array_equal(table, np.histogram(values, edges)[0])

    @pytest.mark.grid
    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    @pytest.mark.parametrize("dated", [False, True], ids=["numbers", "days"])
    def test_thousands_of_bins(self, tmp_path: Path, ending: str, dated: bool) -> None:
        """Where cases nested in each other would take seconds for every few thousand records."""
        days = [date(1900, 1, 1) + timedelta(days=n) for n in range(20_001)]
        edges = days if dated else np.cumsum(np.random.default_rng(3).exponential(size=20_001))
        attribute = Binned(edges, missing="unknown")
        places = np.random.default_rng(4).integers(0, 20_000, 3_000)
        starts = [attribute.edges[place] for place in places]
        frame = pl.DataFrame({"x": [*starts, None], "who": [n // 2 for n in range(3_001)]})
        getattr(frame, f"write_{ending}")(tmp_path / f"x.{ending}")
        expected = np.bincount([*places, 20_000], minlength=20_001)
        schema = Schema({"x": attribute})
        with titles_heard() as heard:
            table = open_source(tmp_path / f"x.{ending}", schema).marginals(np.array([[0]]))[0]
        np.testing.assert_array_equal(table, expected)
        assert heard[0] == "counting"
        bounded = open_source(tmp_path / f"x.{ending}", schema, person="who", cap=1)
        chosen = bounded.marginals(np.array([[0]]))[0]
        assert chosen.sum() == 1501 and (chosen <= expected).all()
        narrow = Schema({"x": Binned(edges[:-1], missing="unknown")})
        outside = pl.DataFrame({"x": [edges[-1]]})
        getattr(outside, f"write_{ending}")(tmp_path / f"y.{ending}")
        with pytest.raises(DataError, match="1 of 1 row"):
            open_source(tmp_path / f"y.{ending}", narrow, details=True).marginals(np.array([[0]]))

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_many_bounds_are_sorted_into(self, tmp_path: Path, ending: str) -> None:
        """However few lines the engine guesses a text to have: not each with each bound."""
        getattr(pl.DataFrame({"x": [0.5]}), f"write_{ending}")(tmp_path / f"x.{ending}")
        column = Column("x", Binned(range(2_000)), "VARCHAR", True)
        if ending == "parquet":
            column = Column("x", Binned(range(2_000)), "DOUBLE", False)
        with engine() as connection:
            columns = ", auto_detect = false, columns = {'x': 'VARCHAR'}"
            read = f"read_{ending}('{tmp_path}/x.{ending}'{columns * (ending == 'csv')})"
            explained = connection.sql(f"SELECT {column.codes()} FROM {read}").explain()
        assert "Asof Join" in explained and "Nested Loop" not in explained

    def test_many_categories(self, tmp_path: Path) -> None:
        names = [f"v{n}" for n in range(256)]
        for other in (None, "other"):
            schema = Schema({"x": Categorical(names, other=other)})
            pl.DataFrame({"x": names}).write_parquet(tmp_path / "x.parquet")
            table = open_source(tmp_path / "x.parquet", schema).marginals(np.array([[0]]))[0]
            assert table.tolist() == [1] * 256 + [0] * (other is not None)


class TestRelations:
    def test_names_and_values_are_quoted(self) -> None:
        name = 'a "b"; --'
        sql = 'SELECT x AS "a ""b""; --" FROM (VALUES (\'it\'\'s\'), (\'"\')) t(x)'
        schema = Schema({name: Categorical(["it's", '"'])})
        source = open_source(duckdb.connect().sql(sql), schema)
        assert source.marginals(np.array([[0]])).tolist() == [[1, 1]]

    def test_names_like_our_own(self) -> None:
        sql = "SELECT * FROM (VALUES (0, 1, 2, 3), (0, 1, 2, 2)) t(c1, c0, rows, h0)"
        schema = Schema.from_sizes({"c1": 1, "c0": 2, "rows": 3, "h0": 4})
        source = open_source(duckdb.connect().sql(sql), schema)
        for place, table in enumerate([[2], [0, 2], [0, 0, 2], [0, 0, 1, 1]]):
            assert source.marginals(np.array([[place]])).tolist() == [table]

    def test_numbers_in_many_types(self) -> None:
        for kind in ("UTINYINT", "HUGEINT", "DECIMAL(9,2)", "FLOAT"):
            people = duckdb.connect().sql(f"SELECT x::{kind} AS x FROM (VALUES (1), (2), (2)) t(x)")
            for attribute in (Ordinal(range(3)), Categorical([0, 1, 2]), Binned([0, 1, 2, 3])):
                table = open_source(people, Schema({"x": attribute})).marginals(np.array([[0]]))
                assert table.tolist() == [[0, 1, 2]]

    def test_numbers_that_are_none(self) -> None:
        people = duckdb.connect().sql("SELECT x FROM (VALUES ('nan'::DOUBLE), (1.0)) t(x)")
        for attribute in (Ordinal([1.0]), Binned([0, 9]), Binned([0, 9], clip=True)):
            with pytest.raises(DataError, match=r"1 of 2 rows .*: null"):
                count_everything(people, Schema({"x": attribute}))

    def test_text_is_not_binned(self) -> None:
        people = duckdb.connect().sql("SELECT '3' AS x")
        with pytest.raises(DataError, match=r"column 'x': 1 of 1 rows .*'3'"):
            count_everything(people, Schema({"x": Binned([0, 9])}))

    def test_errors_of_the_engine_are_ours(self) -> None:
        people = duckdb.connect().sql("SELECT CAST(x AS INT) AS x FROM (VALUES ('a')) t(x)")
        with pytest.raises(DataError, match="cannot read the relation"):
            count_everything(people, Schema({"x": Ordinal(range(3))}))


@pytest.mark.parametrize("name", ["survey[1].csv", "what?.csv", "a*b.csv"])
def test_a_name_that_is_a_file_is_that_file(tmp_path: Path, name: str) -> None:
    """Others that the name would match as a pattern are not counted with it."""
    (tmp_path / name).write_text("a\n0\n1\n", encoding="utf-8")
    for other in ("survey1.csv", "whats.csv", "axb.csv"):
        (tmp_path / other).write_text("a\n" + "1\n" * 9, encoding="utf-8")
    schema = Schema.from_sizes({"a": 2})
    for path in (tmp_path / name, str(tmp_path / name)):
        source = count_tables(open_source(path, schema), [np.array([[0]])])
        assert source.marginals(np.array([[0]])).tolist() == [[1, 1]]
    pattern = count_tables(open_source(str(tmp_path / "*x*.csv"), schema), [np.array([[0]])])
    assert pattern.marginals(np.array([[0]])).tolist() == [[0, 9]]


def test_addresses_are_not_fetched() -> None:
    with pytest.raises(DataError, match="is an address, and only files here are read"):
        open_source("https://example.org/people.csv", Schema.from_sizes({"a": 2}))


@pytest.mark.parametrize("name", ["a\0b.csv", "a\0b.parquet", "\ud800.csv", "x" * 300 + ".csv"])
def test_paths_that_no_system_has(name: str) -> None:
    with pytest.raises(DataError):
        open_source(name, Schema({"n": Ordinal(range(3))}))
