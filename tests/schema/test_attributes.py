"""Attributes: what they hold, how they encode, what they refuse, how they are saved."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseplan.errors import SchemaError
from noiseplan.schema import Attribute, Binned, Categorical, Ordinal

DAYS = [date(2020, 1, 1), date(2020, 1, 2)]

labels = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=4),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-5, 5),
    st.floats(allow_nan=False),
    st.booleans(),
    st.dates(),
    st.datetimes(),
)
label_lists = st.lists(labels, min_size=1, max_size=12, unique=True)
edge_lists = st.lists(
    st.floats(-1e6, 1e6) | st.integers(-50, 50) | st.sampled_from([np.inf, -np.inf]),
    min_size=2,
    max_size=8,
    unique=True,
).map(sorted)
gone = st.sampled_from([None, "not stated"])
attributes: st.SearchStrategy[Attribute] = st.one_of(
    st.builds(Categorical, label_lists, other=st.sampled_from([None, "other"]), missing=gone),
    st.builds(Ordinal, label_lists, missing=gone),
    st.builds(Binned, edge_lists, clip=st.booleans(), missing=gone),
    st.builds(
        lambda low, size, clip, missing: Ordinal(range(low, low + size), missing, clip),
        st.integers(-(2**63), 2**64 - 50),
        st.integers(1, 50),
        st.booleans(),
        gone,
    ),
    st.builds(
        Binned,
        st.lists(st.dates() | st.dates(), min_size=2, max_size=5, unique=True).map(sorted)
        | st.lists(st.datetimes(), min_size=2, max_size=5, unique=True).map(sorted),
        clip=st.booleans(),
        missing=gone,
    ),
)


class TestCategorical:
    def test_codes_follow_the_declared_order(self) -> None:
        region = Categorical(["north", "south", "east"])
        assert region.size == 3
        assert region.labels == ("north", "south", "east")
        assert not region.ordered
        assert region.encode(np.array(["east", "north", "x"])).tolist() == [2, 0, -1]

    def test_other_is_the_last_category_and_catches_all(self) -> None:
        sex = Categorical(["F", "M"], other="other")
        assert sex.labels == ("F", "M", "other")
        assert sex.encode(["M", "x", None, float("nan"), 3, "other"]).tolist() == [1, 2, 2, 2, 2, 2]
        assert sex.null_code == 2
        numbers = Categorical([1, 5], other="other")
        assert numbers.encode(np.array([5.0, np.nan, 2])).tolist() == [1, 2, 2]

    def test_numbers_in_any_type(self) -> None:
        codes = Categorical([10, 2, 7])
        for dtype in (np.int8, np.uint64, np.float32, np.float64, object):
            assert codes.encode(np.array([7, 2, 10, 3], dtype=dtype)).tolist() == [2, 1, 0, -1]
        assert codes.encode(np.array([7, np.nan, np.inf, 2.5])).tolist() == [2, -1, -1, -1]
        assert codes.encode([Decimal(7), np.int64(2)]).tolist() == [2, 1]

    def test_text_is_no_number(self) -> None:
        assert Categorical(["1", "2"]).encode(np.array([1, 2])).tolist() == [-1, -1]
        assert Categorical([1, 2]).encode(["1", 2]).tolist() == [-1, 1]

    def test_integers_beyond_float_are_told_apart(self) -> None:
        big = Categorical([2**53, 2**53 + 1])
        assert big.encode(np.array([2**53 + 1, 2**53])).tolist() == [1, 0]

    def test_bytes_are_read_as_text(self) -> None:
        values = np.array(["b", "é"]).astype("U1")
        assert Categorical(["é", "b"]).encode(np.char.encode(values, "utf-8")).tolist() == [1, 0]

    def test_dates_in_every_form(self) -> None:
        day = Categorical(DAYS)
        assert day.encode([date(2020, 1, 2), datetime(2020, 1, 1), None]).tolist() == [1, 0, -1]
        for unit in ("D", "s", "us", "ns"):
            values = np.array(["2020-01-02", "NaT", "2020-01-03"], dtype=f"M8[{unit}]")
            assert day.encode(values).tolist() == [1, -1, -1]
        midnight = Categorical([datetime(2020, 1, 1), datetime(2020, 1, 1, 12)])
        assert midnight.encode([date(2020, 1, 1), datetime(2020, 1, 1, 12)]).tolist() == [0, 1]

    def test_masked_and_unhashable_values_are_missing(self) -> None:
        letters = Categorical(["a", "b"])
        masked = np.ma.MaskedArray(np.array(["a", "b"]), mask=[True, False])
        assert letters.encode(masked).tolist() == [-1, 1]
        mixed = np.empty(2, dtype=object)
        mixed[:] = [["a"], "a"]
        assert letters.encode(mixed).tolist() == [-1, 0]

    def test_numpy_scalars_become_plain(self) -> None:
        plain = Categorical(np.array([1, 2]))
        assert plain == Categorical([1, 2])
        assert type(plain.labels[0]) is int
        assert Categorical([np.datetime64("2020-01-01")]).labels == (DAYS[0],)

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ([], "no values"),
            (["a", "b", "a"], "'a' is declared twice, at positions 0 and 2"),
            ([1, True], "declared twice"),
            ("FM", "must be a list"),
            (5, r"Categorical\(range\(5\)\)"),
            ([None], "missing value"),
            ([float("nan")], "missing value"),
            ([("a", "b")], "is a tuple"),
        ],
    )
    def test_refuses(self, values: Any, words: str) -> None:
        with pytest.raises(SchemaError, match=words):
            Categorical(values)

    def test_other_must_be_new(self) -> None:
        with pytest.raises(SchemaError, match="also declared as a value"):
            Categorical(["a", "other"], other="other")


class TestOrdinal:
    def test_consecutive_integers(self) -> None:
        age = Ordinal(range(18, 65))
        assert age.size == 47
        assert age.ordered
        assert age.labels[0] == 18
        values = np.array([18, 64, 65, 17])
        assert age.encode(values).tolist() == [0, 46, -1, -1]
        for dtype in (np.int8, np.uint8, np.uint64, np.float32, object):
            assert age.encode(values.astype(dtype)).tolist() == [0, 46, -1, -1]

    def test_integral_floats_encode_and_fractions_do_not(self) -> None:
        values = np.array([2.0, 2.5, np.nan, np.inf, -np.inf, -0.0])
        assert Ordinal(range(5)).encode(values).tolist() == [2, -1, -1, -1, -1, 0]

    def test_small_types_do_not_overflow(self) -> None:
        assert Ordinal(range(1000, 1010)).encode(np.array([3], dtype=np.int8)).tolist() == [-1]
        wrapped = np.array([2**64 - 1, 3], dtype=np.uint64)
        assert Ordinal(range(-1, 5)).encode(wrapped).tolist() == [-1, 4]

    def test_huge_consecutive_integers(self) -> None:
        far = Ordinal(range(2**60, 2**60 + 4))
        assert far.encode(np.array([2**60 + 3, 2**60 - 1])).tolist() == [3, -1]

    def test_declared_order_counts(self) -> None:
        level = Ordinal(["low", "middle", "high"])
        assert level.encode(np.array(["high", "low"])).tolist() == [2, 0]
        assert Ordinal([3, 2, 1]).encode(np.array([1, 3])).tolist() == [2, 0]
        assert Ordinal(range(0, 100, 5)).encode(np.array([10, 11])).tolist() == [2, -1]

    def test_lists_of_consecutive_integers_are_ranges(self) -> None:
        assert Ordinal([3, 4, 5]) == Ordinal(range(3, 6))
        assert hash(Ordinal([3, 4, 5])) == hash(Ordinal(range(3, 6)))
        assert Ordinal([0]).size == 1

    @pytest.mark.parametrize("values", [[], range(0), "abc", 100, [1, 1], [None]])
    def test_refuses(self, values: Any) -> None:
        with pytest.raises(SchemaError, match="Ordinal"):
            Ordinal(values)


class TestBinned:
    def test_bins_are_those_of_numpy_histogram(self) -> None:
        edges = [0, 1, 2.5, 10]
        values = np.array([0, 0.999, 1, 2.4999, 2.5, 9.9, 10])
        codes = Binned(edges).encode(values)
        assert codes.tolist() == [0, 0, 1, 1, 2, 2, 2]
        assert np.bincount(codes).tolist() == np.histogram(values, edges)[0].tolist()

    def test_beyond_the_edges(self) -> None:
        values = np.array([-1.0, 11, np.nan, -np.inf, np.inf])
        assert Binned([0, 5, 10]).encode(values).tolist() == [-1, -1, -1, -1, -1]
        assert Binned([0, 5, 10], clip=True).encode(values).tolist() == [0, 1, -1, 0, 1]

    def test_infinite_ends(self) -> None:
        real = Binned([-np.inf, 0, np.inf])
        assert real.labels == ("[-inf, 0)", "[0, inf]")
        assert real.encode(np.array([-np.inf, -1, 0, np.inf, np.nan])).tolist() == [0, 0, 1, 1, -1]

    def test_labels(self) -> None:
        assert Binned([0, 10_000, 20_000]).labels == ("[0, 10000)", "[10000, 20000]")
        assert Binned([0.5, 1, 1e20]).labels == ("[0.5, 1)", "[1, 1e+20]")

    def test_objects_and_text(self) -> None:
        income = Binned([0, 10, 20])
        assert income.encode([3, Decimal("10"), None, "3"]).tolist() == [0, 1, -1, -1]
        assert income.encode(np.array(["3"])).tolist() == [-1]
        assert income.encode(np.array(["2020-01-01"], dtype="M8[D]")).tolist() == [-1]

    @pytest.mark.parametrize(
        ("edges", "words"),
        [
            ([0], "a bin needs two"),
            ([], "a bin needs two"),
            ([0, 0], "increase strictly"),
            ([0, 2, 1], "2 is followed by 1"),
            ([0, float("nan")], "not a number"),
            (["0", "1"], "'0' is not a number"),
            ("01", "list of numbers"),
            (3, "list of numbers"),
        ],
    )
    def test_refuses(self, edges: Any, words: str) -> None:
        with pytest.raises(SchemaError, match=words):
            Binned(edges)

    @given(edge_lists, st.lists(st.floats(-1e7, 1e7), max_size=20), st.booleans())
    def test_a_value_lies_in_its_bin(
        self, edges: list[float], values: list[float], clip: bool
    ) -> None:
        for value, code in zip(values, Binned(edges, clip=clip).encode(values), strict=True):
            if edges[0] <= value <= edges[-1]:
                last = code == len(edges) - 2
                assert edges[code] <= value <= edges[code + 1]
                assert last or value < edges[code + 1]
            else:
                assert code == (-1 if not clip else 0 if value < edges[0] else len(edges) - 2)


@given(label_lists)
def test_every_label_encodes_to_its_code(values: list[Any]) -> None:
    for attribute in (Categorical(values), Ordinal(values)):
        assert attribute.encode(list(attribute.labels)).tolist() == list(range(attribute.size))


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=8, unique=True),
    st.lists(st.floats(-6, 6) | st.integers(-6, 6).map(float) | st.just(np.nan), max_size=30),
)
def test_arrays_and_lists_agree(labels: list[int], values: list[float]) -> None:
    for attribute in (Categorical(labels), Ordinal(labels), Categorical(labels, other="other")):
        array = np.array(values, dtype=np.float64)
        assert attribute.encode(array).tolist() == attribute.encode(values).tolist()


@given(attributes)
def test_saved_and_rebuilt(attribute: Attribute) -> None:
    rebuilt = Attribute.from_dict(json.loads(json.dumps(attribute.to_dict(), allow_nan=False)))
    assert rebuilt == attribute
    assert rebuilt.labels == attribute.labels
    assert hash(rebuilt) == hash(attribute)


@given(attributes)
def test_size_is_the_number_of_labels(attribute: Attribute) -> None:
    assert attribute.size == len(attribute.labels)
    assert attribute.describe()
    assert attribute.encode(np.array([], dtype=object)).shape == (0,)


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"kind": "other"},
        {"kind": "ordinal"},
        {"kind": "binned", "edges": ["a", "b"], "clip": 0},
    ],
)
def test_what_was_not_saved_is_refused(saved: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        Attribute.from_dict(saved)


def test_repr_is_the_call() -> None:
    for text in (
        "Ordinal(range(0, 100))",
        "Ordinal(['low', 'high'])",
        "Categorical(['F', 'M'], other='other')",
        "Binned([0, 10, 20.5], clip=True)",
    ):
        assert repr(eval(text)) == text
    assert "…" in repr(Categorical([f"v{n}" for n in range(50)]))


def test_describe() -> None:
    assert Ordinal(range(100)).describe() == "ordinal: 0, 1, 2, …, 99"
    assert Categorical(["F"], other="o").describe() == "categorical: 'F', anything else is 'o'"
    assert Binned([0, 1]).describe() == "binned: 1 bin from 0 to 1"
    assert "end bins" in Binned([0, 1], clip=True).describe()


def test_attribute_is_abstract() -> None:
    with pytest.raises(TypeError):
        Attribute()  # type: ignore[abstract]
