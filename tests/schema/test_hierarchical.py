"""Hierarchical attributes: groups within groups, from columns, files and codes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.engine import copy_to_parquet, engine
from noiseplan.errors import SchemaError
from noiseplan.schema import Attribute, Categorical, Hierarchical

PLACES = {
    "block": ["b1", "b2", "b3", "b4", "b5"],
    "tract": ["t2", "t1", "t2", "t3", "t1"],
    "county": ["x", "y", "x", "y", "y"],
}


@st.composite
def nested(draw: st.DrawFn) -> dict[str, list[str]]:
    """Random nested columns, uneven and in any order."""
    depth = draw(st.integers(2, 8))
    leaves = draw(st.integers(1, 30))
    column = list(range(leaves))
    columns = {"level 0": [f"leaf {i}" for i in column]}
    for level in range(1, depth):
        groups = draw(st.integers(1, leaves))
        of = draw(st.lists(st.integers(0, groups - 1), min_size=leaves, max_size=leaves))
        column = [of[group] for group in column]
        columns[f"level {level}"] = [f"g{group}" for group in column]
    order = draw(st.permutations(range(leaves)))
    return {name: [labels[i] for i in order] for name, labels in columns.items()}


@given(nested())
def test_groups_are_the_columns(columns: dict[str, list[str]]) -> None:
    """Brute force: the group of each leaf, by its label, is what its row says."""
    found = Hierarchical(columns)
    assert found.levels == tuple(columns)
    assert found.labels == tuple(columns["level 0"])
    for name, column in columns.items():
        labels, groups = found.level_labels(name), found.group_of(name)
        assert [labels[g] for g in groups] == column
        assert labels == tuple(dict.fromkeys(column))  # by first leaf, as Levels numbers groups
    for place, own in enumerate(found.parents):
        fine, coarse = list(columns.values())[place : place + 2]
        pairs = dict(zip(fine, coarse, strict=True))
        fine_labels, coarse_labels = (found.level_labels(found.levels[place + i]) for i in (0, 1))
        assert [coarse_labels[p] for p in own] == [pairs[label] for label in fine_labels]


@given(nested(), st.sampled_from([None, "elsewhere"]))
def test_saved_and_read_it_is_the_same(columns: dict[str, list[str]], other: str | None) -> None:
    found = Hierarchical(columns, other=other)
    again = Attribute.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert hash(again) == hash(found)
    assert repr(again) == repr(found)
    assert all(map(np.array_equal, again.parents, found.parents))  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_hierarchy_in_words() -> None:
    found = Hierarchical(PLACES)
    assert found.describe() == "hierarchical: 3 levels, county 2 › tract 3 › block 5"
    assert repr(found) == "Hierarchical(county 2 › tract 3 › block 5)"
    assert not found.ordered
    assert found.at("tract") == Categorical(["t2", "t1", "t3"])
    assert found.at("block") is found
    with pytest.raises(AttributeError):
        found.levels = ()  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        found.parents[0][0] = 1


def test_values_that_are_not_equal() -> None:
    found = Hierarchical(PLACES)
    moved = PLACES | {"tract": ["t2", "t1", "t2", "t1", "t3"]}
    renamed = {"home": PLACES["block"], "tract": PLACES["tract"], "county": PLACES["county"]}
    for other in (Hierarchical(moved), Hierarchical(renamed), Hierarchical(PLACES, other="?")):
        assert other != found
    assert found != Categorical(PLACES["block"])


def test_other_catches_and_is_a_group_of_its_own() -> None:
    found = Hierarchical(PLACES, other="abroad")
    assert found.encode(["b5", "zz", None, "abroad"]).tolist() == [4, 5, 5, 5]
    assert found.size == 6
    assert found.level_labels("county") == ("x", "y", "abroad")
    assert found.group_of("county").tolist() == [0, 1, 0, 1, 1, 2]
    assert Hierarchical(PLACES).encode(["b5", "zz", None]).tolist() == [4, -1, -1]
    with pytest.raises(SchemaError, match="other='x' is also declared as a county"):
        Hierarchical(PLACES, other="x")


def test_consecutive_integers_stay_a_range() -> None:
    found = Hierarchical({"minute": range(1440), "hour": [m // 60 for m in range(1440)]})
    assert found.values == range(1440)
    assert found.to_dict()["labels"][0] == {"range": [0, 1440]}  # type: ignore[index]
    assert found.to_dict()["parents"] == [{"children": [60] * 24}]
    assert found.encode(np.array([61, 1440])).tolist() == [61, -1]


def test_one_label_at_two_levels_is_two_groups() -> None:
    found = Hierarchical({"county": ["01", "02"], "state": ["01", "01"]})
    assert found.level_labels("county") == ("01", "02")
    assert found.level_labels("state") == ("01",)


def test_one_label_for_two_groups_needs_paths() -> None:
    columns = {
        "block": [1, 2, 3, 4],
        "tract": ["0001", "0001", "0002", "0001"],
        "county": ["41", "41", "41", "06"],
    }
    with pytest.raises(SchemaError, match=r"'0001' is in county '41' and in county '06'.*paths"):
        Hierarchical(columns)
    found = Hierarchical(columns, paths=True)
    assert found.level_labels("tract") == ("41 › 0001", "41 › 0002", "06 › 0001")
    assert found.group_of("tract").tolist() == [0, 0, 1, 2]
    assert found.level_labels("county") == ("41", "06")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x", "x"], "b": ["p", "q"]}, r"the a 'x' is in b 'p' \(row 0\) and in b 'q'"),
        ({"a": ["x", "x"], "b": ["p", "q"]}, r"from fine to coarse: \{'b': …, 'a': …\}"),
        ({"a": ["x", "x"], "b": ["p", "p"]}, "'x' is declared twice, at rows 0 and 1"),
        ({"a": ["x", "y"], "b": ["p", None]}, r"'y' \(row 1\) has no b, found None"),
        ({"a": ["x", "y"], "b": ["p", ""]}, r"'y' \(row 1\) has no b, found ''"),
        ({"a": ["x", "y"], "b": ["p", float("nan")]}, r"'y' \(row 1\) has no b, found nan"),
        ({"a": [None], "b": ["p"]}, "row 0 has no a"),
        ({"a": ["x", "y"], "b": ["p"]}, r"one place at every level, got \{'a': 2, 'b': 1\}"),
        ({"a": ["x"]}, r"two levels or more, found 'a'; .* Categorical"),
        ({}, "found none"),
        ({"a": [], "b": []}, "no values declared"),
        ({f"l{i}": ["x"] for i in range(9)}, "9 levels, and at most 8"),
        ({f"b{i}": "c" for i in range(20_000)}, "20,000 names with a text each.*one list per lev"),
        ({"a": ["x"], " ": ["x"]}, "named by a text"),
        ({"a": ["x"], 3: ["x"]}, "named by a text, found 3"),
        ({"a": "xy", "b": ["p", "q"]}, "'a' must be a list"),
        ({"a": ["x\0"], "b": ["p"]}, "no file of text"),
        ({"a": ["x"], "b": [["p"]]}, "is a list"),
        (["x", "y"], "levels come as columns by their names, got a list"),
    ],
)
def test_refuses(columns: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Hierarchical(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_frame(library: str) -> None:
    columns = {"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}
    frame = pytest.importorskip(library).DataFrame(columns)
    assert Hierarchical(frame) == Hierarchical(columns)
    with pytest.raises(SchemaError, match="two levels or more, found 'county'"):
        Hierarchical(frame[["county"]])


def test_unknown_levels_with_what_was_meant() -> None:
    with pytest.raises(SchemaError, match=r"no level 'conty'.*did you mean 'county'"):
        Hierarchical(PLACES).group_of("conty")


# ---------------------------------------------------------------------- codes


def test_prefixes_of_codes() -> None:
    codes = ["060371", "060372", "060591", "410511"]
    found = Hierarchical.from_codes(codes, {"state": 2, "county": 5}, leaf="tract")
    assert found.levels == ("tract", "county", "state")
    assert found.level_labels("county") == ("06037", "06059", "41051")
    assert found.group_of("state").tolist() == [0, 0, 0, 1]
    same = Hierarchical.from_codes(codes, {"tract": 6, "county": 5, "state": 2})
    assert same == found


def test_signs_that_are_not_counted() -> None:
    codes = ["I21.0", "I21.4", "I22.0", "I2.23"]
    found = Hierarchical.from_codes(codes, {"group": 3, "chapter": 1}, leaf="icd", ignore=".")
    assert found.level_labels("group") == ("I21", "I22")
    assert found.group_of("group").tolist() == [0, 0, 1, 1]
    assert found.level_labels("chapter") == ("I",)


@pytest.mark.parametrize(
    ("codes", "prefixes", "message"),
    [
        ([6037, 41051], {"state": 2}, r"found 6037 \(int\); a number has lost its leading zeros"),
        (["06037", "1"], {"state": 2}, "'1' has 1 signs, and a state takes 2"),
        (["06037"], {"state": 0}, "at least 1, found 0"),
        (["06037"], {"state": 2, "land": 2}, "two levels take as many signs"),
        (["06037"], {"code": 2}, "two levels are called 'code'"),
        (["06037"], {}, "how many signs"),
        ([], {"state": 2}, "no codes"),
        ("06037", {"state": 2}, "codes come as a list"),
        (["06", "06"], {"state": 1}, "declared twice"),
        (["06", "07"], {"state": 2}, "two levels or more"),
    ],
)
def test_codes_that_are_refused(codes: Any, prefixes: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Hierarchical.from_codes(codes, prefixes)


# ---------------------------------------------------------------------- files


CSV = (
    "\ufeffblock,tract,county,name\r\n"
    '0101,01,1,"Kent, north"\r\n\r\n0102,01,1,Kent\r\n0201,02,1,Fife\r\n'
)


@pytest.fixture
def places(tmp_path: Path) -> Path:
    path = tmp_path / "places.csv"
    path.write_text(CSV, encoding="utf-8", newline="")
    return path


def test_a_code_list_stays_text(places: Path) -> None:
    found = Hierarchical.from_file(places, ["block", "tract", "county"])
    assert found.labels == ("0101", "0102", "0201")
    assert found.level_labels("tract") == ("01", "02")
    assert found.level_labels("county") == ("1",)


def test_rows_that_say_the_same_are_one(places: Path) -> None:
    found = Hierarchical.from_file(places, ["tract", "county"])
    assert found.labels == ("01", "02")


def test_levels_by_other_columns(places: Path) -> None:
    found = Hierarchical.from_file(places, {"home": "block", "place": "name"})
    assert found.levels == ("home", "place")
    assert found.level_labels("place") == ("Kent, north", "Kent", "Fife")


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "places.parquet"
    columns = {"block": np.array([3, 1]), "tract": np.array(["01", "02"], dtype=object)}
    with engine() as connection:
        copy_to_parquet(connection, path, columns)
    found = Hierarchical.from_file(path, ["block", "tract"])
    assert found.labels == (3, 1)
    assert found.level_labels("tract") == ("01", "02")


@pytest.mark.parametrize(
    ("text", "levels", "message"),
    [
        ("block,tract\na,b\n", ["block", "tracts"], "no column 'tracts'.*did you mean 'tract'"),
        ("block,tract\na,b\n\nc\n", ["block", "tract"], "line 4: 1 cells"),
        ("block,tract\na,\n", ["block", "tract"], r"'a' \(row 0\) has no tract"),
        ("block,tract\n", ["block", "tract"], "no values declared"),
        ("", ["block", "tract"], "no header"),
        ("block,tract\na,b\na,c\n", ["block", "tract"], "'a' is in tract 'b'"),
        ("block,tract\na,b\n", ["block", "block"], "two levels are called 'block'"),
        ("block,tract\na,\ud800\n", ["block", "tract"], "no CSV file in UTF-8"),
    ],
)
def test_code_lists_that_are_refused(
    tmp_path: Path, text: str, levels: list[str], message: str
) -> None:
    path = tmp_path / "places.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SchemaError, match=message):
        Hierarchical.from_file(path, levels)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is not there"):
        Hierarchical.from_file(tmp_path / "none.csv", ["a", "b"])
    with pytest.raises(SchemaError, match="is not there"):
        Hierarchical.from_file(tmp_path / "none.csv", ["a"])
    (tmp_path / "bad.parquet").write_text("nothing")
    with pytest.raises(SchemaError, match="cannot be read"):
        Hierarchical.from_file(tmp_path / "bad.parquet", ["a", "b"])


# ---------------------------------------------------------------------- saved by others


SAVED = Hierarchical(PLACES).to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"parents": [[0, 1, 0, 2, 1]]},
        {"parents": [[0, 1, 0, 2, 7], {"children": [1, 2]}]},
        {"parents": [[1, 0, 0, 2, 1], [0, 1, 1]]},
        {"parents": [[0, 1, 0, 2], [0, 1, 1]]},
        {"parents": [{"children": [10**12]}, [0, 1, 1]]},
        {"parents": [{"children": [-1, 6]}, [0, 1, 1]]},
        {"parents": [[0.0, 1, 0, 2, 1], [0, 1, 1]]},
        {"labels": [{"range": [0, 10**12]}, *SAVED["labels"][1:]]},  # type: ignore[index]
        {"labels": [{"range": [2**64, 2**64 + 5]}, *SAVED["labels"][1:]]},  # type: ignore[index]
        {"labels": [["b1", "b1", "b3", "b4", "b5"], *SAVED["labels"][1:]]},  # type: ignore[index]
        {"labels": [[None, "b2", "b3", "b4", "b5"], *SAVED["labels"][1:]]},  # type: ignore[index]
        {"labels": SAVED["labels"][:2]},  # type: ignore[index]
        {"levels": ["block", "block", "county"]},
        {"other": "b1"},
    ],
)
def test_saved_hierarchies_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Attribute.from_dict({**SAVED, **change})


# ---------------------------------------------------------------------- missing values


@pytest.mark.parametrize("other", [None, "abroad"])
def test_a_cell_for_missing_values_is_a_group_of_its_own_at_every_level(other: str | None) -> None:
    columns = {"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}
    geo = Hierarchical(columns, other=other, missing="not stated")
    beside = ("not stated",) if other is None else (other, "not stated")
    assert geo.labels == ("a1", "a2", "b1", *beside)
    assert geo.level_labels("county") == ("a", "b", *beside)
    assert geo.group_of("county").tolist() == [0, 0, 1, *range(2, 2 + len(beside))]
    unknown = -1 if other is None else 3
    gone = geo.size - 1
    values = ["b1", None, "x", float("nan"), "not stated"]
    assert geo.encode(values).tolist() == [2, gone, unknown, gone, gone]
    assert geo.at("county") == nz.Categorical(("a", "b", *beside[:-1]), missing="not stated")
    assert (geo.stated, geo.null_code) == (geo.size - 1, gone)
    assert "missing values are 'not stated'" in geo.describe()
    assert "missing='not stated'" in repr(geo)
    again = Attribute.from_dict(json.loads(json.dumps(geo.to_dict())))
    assert again == geo
    assert again != Hierarchical(columns, other=other)
    assert "missing" not in Hierarchical(columns, other=other).to_dict()


@pytest.mark.parametrize("missing", ["a1", "a", "abroad", "", 3])
def test_names_of_the_missing_cell_that_are_refused(missing: Any) -> None:
    columns = {"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}
    with pytest.raises(SchemaError, match="missing="):
        Hierarchical(columns, other="abroad", missing=missing)


# ---------------------------------------------------------------------- in a schema


def test_levels_are_found_by_name() -> None:
    geo = Hierarchical(PLACES)
    schema = nz.Schema({"geo": geo, "sex": nz.Categorical(["F", "M"])})
    assert schema.levels.get("county") == ("geo", "county")
    assert schema.levels.get("geo.county") == ("geo", "county")
    assert schema.levels.get("sex") is None
    assert schema.level_name("geo", "county") == "county"
    with pytest.raises(SchemaError, match=r"'county' is a level of 'geo'.*Level\('county'\)"):
        schema["county"]
    with pytest.raises(SchemaError, match=r"'conty'; .*'sex', and levels .*Did you mean 'county'"):
        nz.Query(schema, ["conty", "sex"])


def test_levels_of_two_attributes_are_told_by_both_names() -> None:
    geo = Hierarchical(PLACES)
    schema = nz.Schema({"home": geo, "work": geo, "tract": nz.Categorical(["F", "M"])})
    assert schema.levels.get("county") is None
    assert schema.levels.get("tract") is None
    assert schema.levels.get("work.tract") == ("work", "tract")
    assert schema.level_name("work", "county") == "work.county"
    with pytest.raises(SchemaError, match=r"'geo\.tract' is an attribute, and the level 'tract'"):
        nz.Schema({"geo": geo, "geo.tract": nz.Categorical(["F", "M"])})


def test_a_million_leaves_are_declared_within_seconds() -> None:
    """Time is measured generously: what is quadratic would take hours."""
    from time import process_time

    start = process_time()
    leaves = range(1_000_000)
    codes = [f"{i:07d}" for i in leaves]
    found = Hierarchical.from_codes(codes, {"state": 2, "county": 4, "tract": 5})
    again = Attribute.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert found.describe().startswith("hierarchical: 4 levels, state 10 › county 1,000 › tract")
    assert process_time() - start < 20
