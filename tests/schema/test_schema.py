"""The schema: names, shape, look-up, errors, saving."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import NoiseplanError, SchemaError
from noiseplan.schema import Binned, Categorical, Ordinal, Schema

SCHEMA = Schema(
    {
        "age": Ordinal(range(100)),
        "sex": Categorical(["F", "M"]),
        "income": Binned([0, 10_000, 20_000, 50_000]),
        "one": Categorical(["only"]),
    }
)


def test_names_shape_and_size() -> None:
    assert SCHEMA.names == ("age", "sex", "income", "one")
    assert SCHEMA.shape == (100, 2, 3, 1)
    assert SCHEMA.size == 600
    assert len(SCHEMA) == 4
    assert list(SCHEMA) == list(SCHEMA.names)
    assert "age" in SCHEMA
    assert "wage" not in SCHEMA
    assert 3 not in SCHEMA
    assert SCHEMA["sex"] == Categorical(["F", "M"])
    assert SCHEMA.attributes[1] is SCHEMA["sex"]
    assert SCHEMA.index("income") == 2


def test_size_is_a_python_integer() -> None:
    assert Schema.from_sizes({f"a{n}": 10 for n in range(100)}).size == 10**100


def test_from_sizes() -> None:
    schema = Schema.from_sizes({"a": 10, "b": np.int64(3)})
    assert schema == Schema({"a": Ordinal(range(10)), "b": Ordinal(range(3))})


def test_equality_and_hash_follow_names_order_and_attributes() -> None:
    twin = Schema(dict(zip(SCHEMA.names, SCHEMA.attributes, strict=True)))
    assert twin == SCHEMA
    assert hash(twin) == hash(SCHEMA)
    assert Schema.from_sizes({"a": 2, "b": 2}) != Schema.from_sizes({"b": 2, "a": 2})
    assert Schema.from_sizes({"a": 2}) != Schema.from_sizes({"a": 3})


def test_saved_and_rebuilt() -> None:
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"attributes": []},
        {"attributes": [3]},
        {"attributes": [{"name": "a"}]},
        {"attributes": [{"name": "a", "kind": "ordinal", "range": [0, 2]}] * 2},
    ],
)
def test_what_was_not_saved_is_refused(saved: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        Schema.from_dict(saved)


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(SchemaError, match=r"no attribute 'incom'.*Did you mean 'income'") as error:
        SCHEMA.index("incom")
    assert "'age', 'sex', 'income', 'one'" in str(error.value)
    with pytest.raises(SchemaError, match="no attribute 'zzz'; the schema has"):
        SCHEMA["zzz"]
    with pytest.raises(SchemaError, match="no attribute 1"):
        SCHEMA.index(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "no attributes"),
        ({3: Ordinal(range(2))}, "the name 3 is a int"),
        ({"": Ordinal(range(2))}, "is empty"),
        ({"  ": Ordinal(range(2))}, "is empty"),
        ({"a": ["x", "y"]}, "must be a Categorical, Ordinal, Binned or Hierarchical"),
        ({"a": 10}, r"Schema.from_sizes\(\{'a': 10\}\)"),
        ([("a", Ordinal(range(2)))], "needs a mapping"),
    ],
)
def test_refuses(attributes: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema(attributes)


@pytest.mark.parametrize("size", [0, -1, 2.0, "3", True, None])
def test_from_sizes_refuses(size: Any) -> None:
    with pytest.raises(SchemaError, match="the size of 'a' is"):
        Schema.from_sizes({"a": size})


def test_from_sizes_needs_a_mapping() -> None:
    with pytest.raises(SchemaError, match="needs a mapping"):
        Schema.from_sizes([10, 3])  # type: ignore[arg-type]


def test_errors_have_one_root_and_a_built_in() -> None:
    assert issubclass(SchemaError, NoiseplanError)
    assert issubclass(SchemaError, ValueError)


def test_frozen() -> None:
    with pytest.raises(AttributeError):
        SCHEMA.names = ()  # type: ignore[misc]


def test_printed() -> None:
    assert str(SCHEMA) == (
        "4 attributes, 600 cells\n"
        "  age     100  ordinal: 0, 1, 2, …, 99\n"
        "  sex       2  categorical: 'F', 'M'\n"
        "  income    3  binned: 3 bins from 0 to 50000\n"
        "  one       1  categorical: 'only'"
    )
    assert str(Schema.from_sizes({"a": 1})).startswith("1 attribute, 1 cell\n")
    assert eval(repr(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("module", ["noiseplan.schema", "noiseplan.counting"])
def test_imports_stay_light(module: str) -> None:
    heavy = "{'pandas', 'polars', 'pyarrow', 'duckdb', 'narwhals'}"
    check = f"import sys, {module}; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_names_of_levels_stay_on_their_line() -> None:
    geo = nz.Hierarchical({"block\x1b[2J": ["x", "y"], "county\nof": ["u", "u"]})
    text = str(nz.Schema({"place": geo}))
    assert text.endswith("hierarchical: 2 levels, county\\nof 1 › block\\x1b[2J 2")
