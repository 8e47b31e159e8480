"""Factors: rows, labels, equality, and what is refused."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import NoiseplanError, QueryError
from noiseplan.queries import Custom, Factor, Identity, Levels, Prefix, Ranges, Total
from noiseplan.schema import Attribute, Binned, Categorical, Ordinal

repeatable = examples(80)

AGE = Ordinal(range(20, 27))
SEX = Categorical(["F", "M"], other="?")
INCOME = Binned([0, 10, 20, 50])
ONE = Ordinal(["only"])


def by_label(factor: Factor, attribute: Attribute) -> dict[Hashable, list[Hashable]]:
    """What each row counts, by label: {row label: values counted}."""
    dense = factor.matrix(attribute).dense()
    assert set(np.unique(dense)) <= {0.0, 1.0}
    labels = factor.row_labels(attribute)
    assert len(labels) == len(dense)
    return {
        label: [attribute.labels[i] for i in np.flatnonzero(row)]
        for label, row in zip(labels, dense, strict=True)
    }


@pytest.mark.parametrize("attribute", [AGE, SEX, INCOME, ONE])
@pytest.mark.parametrize(
    "factor",
    [
        Identity(),
        Total(),
        Prefix(),
        Ranges(),
        Levels(),
        Levels(2),
        Levels(2, 3, leaves=False),
        Levels(1, total=False),
        Levels(100, leaves=False, total=False),
    ],
    ids=repr,
)
def test_one_label_per_row_and_one_column_per_value(factor: Factor, attribute: Attribute) -> None:
    matrix = factor.matrix(attribute)
    assert matrix.shape == (len(factor.row_labels(attribute)), attribute.size)


def test_identity() -> None:
    assert by_label(Identity(), SEX) == {"F": ["F"], "M": ["M"], "?": ["?"]}
    assert Identity().label == ""


def test_total() -> None:
    assert by_label(Total(), SEX) == {"total": ["F", "M", "?"]}
    assert Total().label == "total"


def test_prefix() -> None:
    assert by_label(Prefix(), INCOME) == {
        "< 10": ["[0, 10)"],
        "< 20": ["[0, 10)", "[10, 20)"],
        "≤ 50": ["[0, 10)", "[10, 20)", "[20, 50]"],
    }
    assert Prefix().label == "prefix"


def test_ranges_of_bins_are_bins() -> None:
    assert list(Ranges().row_labels(INCOME)) == [
        "[0, 10)", "[10, 20)", "[20, 50]", "[0, 20)", "[10, 50]", "[0, 50]"
    ]  # fmt: skip


def test_ranges() -> None:
    assert by_label(Ranges(), Ordinal(["a", "b", "c"])) == {
        "a": ["a"],
        "b": ["b"],
        "c": ["c"],
        "a … b": ["a", "b"],
        "b … c": ["b", "c"],
        "a … c": ["a", "b", "c"],
    }
    assert Ranges().label == "ranges"


def test_levels_by_width() -> None:
    """Seven values by threes: the last group holds one value and is called by it."""
    expected = {"20 … 22": [20, 21, 22], "23 … 25": [23, 24, 25], 26: [26]}
    assert by_label(Levels(3, leaves=False, total=False), AGE) == expected


def test_levels_in_order() -> None:
    labels = Levels(2, 4).row_labels(AGE)
    groups = ["20 … 21", "22 … 23", "24 … 25", 26, "20 … 23", "24 … 26"]
    assert labels == [*range(20, 27), *groups, "total"]
    dense = Levels(2, 4).matrix(AGE).dense()
    np.testing.assert_array_equal(dense[:7], np.eye(7))
    assert dense[7:].sum(axis=1).tolist() == [2, 2, 2, 1, 4, 3, 7]


def test_levels_by_mapping() -> None:
    parts = Levels({"?": "other", "F": "stated", "M": "stated"}, leaves=False, total=False)
    assert by_label(parts, SEX) == {"stated": ["F", "M"], "other": ["?"]}


def test_levels_by_sequence() -> None:
    parts = Levels(["x", "y", "x"], leaves=False, total=False)
    assert by_label(parts, SEX) == {"x": ["F", "?"], "y": ["M"]}


def test_a_mapping_may_know_more_values() -> None:
    parts = Levels({"F": 1, "M": 1, "?": 2, "N": 3}, leaves=False, total=False)
    assert by_label(parts, SEX) == {1: ["F", "M"], 2: ["?"]}


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("total", [False, True])
def test_leaves_and_total(leaves: bool, total: bool) -> None:
    labels = Levels(["x", "x", "y"], leaves=leaves, total=total).row_labels(SEX)
    assert labels == ["F", "M", "?"] * leaves + ["x", "y"] + ["total"] * total


def test_widths_keep_groups_apart_whose_labels_are_alike() -> None:
    """Both groups are written "a … b … c"."""
    attribute = Ordinal(["a", "b … c", "a … b", "c"])
    dense = Levels(2, leaves=False, total=False).matrix(attribute).dense()
    assert dense.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


@repeatable
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8))
def test_levels_of_any_groups(groups: list[str]) -> None:
    """The same groups given as a sequence and as a mapping, against their definition."""
    attribute = Ordinal(range(len(groups)))
    expected = {
        g: [v for v, group in enumerate(groups) if group == g] for g in dict.fromkeys(groups)
    }
    listed = Levels(groups, leaves=False, total=False)
    mapped = Levels(dict(enumerate(groups)), leaves=False, total=False)
    assert by_label(listed, attribute) == expected
    assert list(by_label(listed, attribute)) == list(expected)
    assert by_label(mapped, attribute) == expected
    assert list(by_label(mapped, attribute)) == list(expected)


@repeatable
@given(st.integers(1, 12), st.integers(1, 14))
def test_levels_of_any_width(size: int, width: int) -> None:
    dense = Levels(width, leaves=False, total=False).matrix(Ordinal(range(size))).dense()
    expected = [[float(v // width == g) for v in range(size)] for g in range(-(-size // width))]
    assert dense.tolist() == expected


def test_levels_are_equal_if_their_groups_are() -> None:
    assert Levels(2, 4) == Levels(np.int64(2), 4)  # type: ignore[arg-type]
    assert Levels({"F": 1, "M": 2}) == Levels({"M": 2, "F": 1})
    assert hash(Levels({"F": 1, "M": 2})) == hash(Levels({"M": 2, "F": 1}))
    assert Levels(["x", "y"]) == Levels(("x", "y"))
    different = [
        Levels(2),
        Levels(2, leaves=False),
        Levels(2, total=False),
        Levels(2, 4),
        Levels(["x", "y"]),
        Levels({"F": 1, "M": 2}),
        Levels([1, 2]),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((True,), r"a width, a mapping .*found True"),
        (("abc",), r"a width, a mapping .*found 'abc'"),
        ((2.5,), r"a width, a mapping .*found 2\.5"),
        ((0,), "at least 1"),
        ((-3,), "level of -3 values"),
        (([["x"], ["y"]],), r"a group is a text or a number: .*\['x'\] is a list"),
        (({"F": ["x"]},), r"a group is a text or a number: .*\['x'\] is a list"),
        (([("F", 1), ("M", 2)],), r"a group is a text or a number: .*\('F', 1\) is a tuple"),
    ],
)
def test_what_is_no_level(levels: tuple[Any, ...], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Levels(*levels)


def test_levels_without_rows() -> None:
    with pytest.raises(QueryError, match="no rows"):
        Levels(leaves=False, total=False)
    assert Levels(total=False) != Levels(leaves=False)


def test_levels_of_the_wrong_length() -> None:
    with pytest.raises(QueryError, match="level 1 of Levels on 'sex' gives 2 groups for 3 values"):
        Levels(["x", "y", "z"], ["x", "y"]).check("sex", SEX)
    with pytest.raises(QueryError, match="gives 4 groups for 3 values"):
        Levels(["x", "y", "z", "z"]).matrix(SEX)


def test_levels_without_a_group_for_a_value() -> None:
    with pytest.raises(QueryError, match=r"level 0 of Levels on 'sex' names no group for '\?':"):
        Levels({"F": 1, "M": 1}).check("sex", SEX)
    with pytest.raises(QueryError, match="for 20, 21, 22, 23, 24 and 2 more"):
        Levels({"F": 1}).check("age", AGE)


@pytest.mark.parametrize("factor", [Prefix(), Ranges(), Levels(2)], ids=repr)
def test_order_is_needed(factor: Factor) -> None:
    with pytest.raises(QueryError) as caught:
        factor.check("sex", SEX)
    message = str(caught.value)
    assert message.startswith(f"{factor!r} needs an ordered attribute, but 'sex' is Categorical")
    assert "Ordinal([...])" in message
    assert isinstance(caught.value, NoiseplanError)
    assert isinstance(caught.value, ValueError)
    for ordered in (AGE, INCOME, ONE):
        factor.check("x", ordered)


@pytest.mark.parametrize("factor", [Identity(), Total(), Levels(["x", "y", "y"])], ids=repr)
def test_order_is_not_needed(factor: Factor) -> None:
    factor.check("sex", SEX)


def test_custom_labels() -> None:
    rows = [[1, 0, 2], [0, -1, 0.5]]
    named = Custom(rows, labels=["low", 7])
    assert list(named.row_labels(SEX)) == ["low", 7]
    assert named == Custom(rows, labels=("low", 7)) != Custom(rows)


@pytest.mark.parametrize("labels", [["one"], "ab", [["a"], ["b"]], [None, None], 3])
def test_custom_refuses_labels(labels: object) -> None:
    with pytest.raises(QueryError, match=r"Custom: (labels is a list of 2|a label is a text)"):
        Custom([[1, 0], [0, 1]], labels=labels)  # type: ignore[arg-type]


def test_custom() -> None:
    factor = Custom([[1, 0, 2], [0, -1, 0.5]])
    np.testing.assert_array_equal(factor.matrix(SEX).dense(), [[1, 0, 2], [0, -1, 0.5]])
    assert list(factor.row_labels(SEX)) == ["row 0", "row 1"]
    assert factor.label == "custom[2 rows]"
    assert Custom([[1]]).label == "custom[1 row]"
    assert Custom([[1]], name="women").label == "women"
    assert repr(Custom([[1, 2]], name="women")) == "Custom(1 × 2, name='women')"


def test_custom_copies_what_it_is_given() -> None:
    given_rows = np.array([[1.0, 2.0]])
    factor = Custom(given_rows)
    given_rows[:] = 7
    assert factor.values.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="read-only"):
        factor.values[0, 0] = 5


def test_custom_equality_and_hash() -> None:
    one = Custom([[1, 0], [0, 1]])
    same = [
        Custom(np.eye(2)),
        Custom(np.asfortranarray(np.eye(2))),
        Custom([[True, False], [False, True]]),
        Custom([[1.0, -0.0], [-0.0, 1.0]]),
        Custom([[Decimal(1), Decimal(0)], [Decimal(0), Decimal(1)]]),
    ]
    for other in same:
        assert other == one
        assert hash(other) == hash(one)
    different = [Custom([[1, 0, 0, 1]]), Custom([[1], [0], [0], [1]]), Custom([[1, 0], [0, 2]])]
    assert len({one, *same, *different}) == 4
    assert one != Identity()
    assert Custom([[1, 0, 0, 1]], name="x") != Custom([[1, 0], [0, 1]], name="x")
    asymmetric = np.array([[1, 2], [3, 4]])
    assert Custom(asymmetric) != Custom(asymmetric.T)
    assert Custom(asymmetric.T) == Custom(asymmetric.T.copy())


def test_custom_factors_of_different_names_are_different() -> None:
    """Else one would be reported under the other's name."""
    assert Custom([[1, 0]], name="women") != Custom([[1, 0]], name="first")
    assert Custom([[1, 0]], name="women") == Custom([[1, 0]], name="women")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1, 0, 1], r"found shape \(3,\); a single row is written \[\[...\]\]"),
        ([[[1]]], r"found shape \(1, 1, 1\)"),
        (5, r"found shape \(\)"),
        ([], r"found shape \(0,\)"),
        ([[]], r"found shape \(1, 0\)"),
        ([[1, np.nan]], "finite numbers"),
        ([[1, np.inf]], "finite numbers"),
        ([[0, 0], [0, 0]], "only zeros"),
        ([[1, 2], [3]], "matrix of numbers"),
        ([["a", "b"]], "matrix of numbers"),
        ([["1", "2"]], "matrix of numbers"),
        (np.array([[1 + 1j]]), "matrix of numbers"),
        ([[None]], "finite numbers"),
        ([[object()]], "matrix of numbers"),
        (None, "matrix of numbers|found shape"),
    ],
)
def test_what_is_no_matrix_of_numbers(matrix: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Custom(matrix)


def test_custom_of_the_wrong_width() -> None:
    with pytest.raises(QueryError, match="Custom on 'sex' has 2 columns, but 'sex' has 3 values"):
        Custom([[1, 0]]).check("sex", SEX)
    Custom([[1, 0, 0]]).check("sex", SEX)


@pytest.mark.parametrize("name", ["", "  ", 5])
def test_custom_names_are_texts(name: Any) -> None:
    with pytest.raises(QueryError, match="a name is a text"):
        Custom([[1]], name=name)


def test_plain_factors_are_values() -> None:
    factors: Sequence[Factor] = [Identity(), Total(), Prefix(), Ranges()]
    assert len(set(factors)) == 4
    assert {Identity(), Total(), Prefix(), Ranges()} == set(factors)


def test_repr_of_levels() -> None:
    assert repr(Levels(5, 10, total=False)) == "Levels(5, 10, total=False)"
    assert repr(Levels(["x", "x", "y"], {"F": 1}, leaves=False)) == (
        "Levels(<3 values in 2 groups>, <1 values in 1 groups>, leaves=False)"
    )
