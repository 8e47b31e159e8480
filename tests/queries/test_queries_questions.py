"""Questions in a line of text, against the matrices they mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.queries.questions import read_question

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(6)),
        "sex": nz.Categorical(["F", "M"], other="n/a"),
        "pay": nz.Binned([0, 5, 10, 20]),
        "odd, name": nz.Categorical(["a, b", "20+", "x=y", "p|q", "prefix", "1..2"]),
    }
)


def rows(*chosen: set[int], size: int = 6) -> nz.Custom:
    return nz.Custom([[i in row for i in range(size)] for row in chosen])


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("age", {"age": nz.Identity()}),
        ("age, sex", {"age": nz.Identity(), "sex": nz.Identity()}),
        ("sex × age", {"age": nz.Identity(), "sex": nz.Identity()}),
        ("age=prefix,sex", {"age": nz.Prefix(), "sex": nz.Identity()}),
        (" age = ranges ", {"age": nz.Ranges()}),
        ("age=identity, sex=total", {"age": nz.Identity()}),
        ("age=levels(2, 3), sex", {"age": nz.Levels(2, 3), "sex": nz.Identity()}),
        ("total", {}),
        ("age=3", {"age": rows({3})}),
        ("age=1..3", {"age": rows({1, 2, 3})}),
        ("age=..3", {"age": rows({0, 1, 2, 3})}),
        ("age=3..", {"age": rows({3, 4, 5})}),
        ("age=1+3..4", {"age": rows({1, 3, 4})}),
        ("age=1 | 2..3 | 5", {"age": rows({1}, {2, 3}, {5})}),
        ("sex=F", {"sex": rows({0}, size=3)}),
        ("sex=F+n/a", {"sex": rows({0, 2}, size=3)}),
        ("pay=5..20", {"pay": rows({1, 2}, size=3)}),
        ("pay=..10", {"pay": rows({0, 1}, size=3)}),
        ("pay=10..", {"pay": rows({2}, size=3)}),
        ('pay="[5, 10)"', {"pay": rows({1}, size=3)}),
        ("pay=[5, 10), age=0", {"pay": rows({1}, size=3), "age": rows({0})}),
        ("'odd, name'=20+", {"odd, name": rows({1})}),
        ('"odd, name"="a, b"', {"odd, name": rows({0})}),
        ('"odd, name"="x=y" | "p|q"', {"odd, name": rows({2}, {3})}),
        ('"odd, name"="prefix"', {"odd, name": rows({4})}),
        ('"odd, name"="1..2"', {"odd, name": rows({5})}),
    ],
)
def test_questions(text: str, factors: dict[str, nz.Factor]) -> None:
    found, expected = read_question(text, SCHEMA), nz.Query(SCHEMA, factors)
    assert found.attributes == expected.attributes
    np.testing.assert_array_equal(found.dense(), expected.dense())


def test_rows_are_called_as_they_were_asked() -> None:
    labels = read_question("age=..2 | 3.., sex=F", SCHEMA).row_labels()
    assert labels == {"age": ["..2", "3.."], "sex": ["F", "F"]}


def test_names_of_the_workload_go_first() -> None:
    workload = nz.Workload(
        [nz.Query(SCHEMA, ["sex"], name="age"), nz.Query(SCHEMA, {"age": nz.Prefix()})]
    )
    assert read_question("age", SCHEMA, workload).attributes == ("sex",)
    assert read_question("prefix(age)", SCHEMA, workload).factors["age"] == nz.Prefix()
    assert read_question("age, sex", SCHEMA, workload).rows == 18


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names attributes"),
        ("age,,sex", "names attributes"),
        ("agge", "Did you mean 'age'"),
        ("age, age", "named twice"),
        ("age=", "nothing is asked"),
        ("age=7", "'7' is neither a value of 'age'"),
        ("age=3..1", "holds no value"),
        ("age=..", "neither a value"),
        ("age=0-3", r"Did you mean '0\.\.3'\?"),
        ("age=1 – 2 | 3", r"Did you mean '1\.\.2'\?"),
        ("age=3-1", r"'age' is ordinal: 0, 1, 2, 3, 4, 5$"),  # no span, so none is meant
        ("pay=5-20", r"Did you mean '5\.\.20'\?"),
        ("sex=F-M", r"neither a value of 'sex'"),
        ("age=1..9", "'9' is neither a value"),
        ("sex=F..M", "needs an ordered attribute"),
        ("sex=f", "Did you mean 'F'|neither a value"),
        ("sex=prefix", "ordered"),
        ("pay=6..", "no edge of a bin; the edges are 0, 5, 10, 20"),
        ("age=levels(x)", "a whole number"),
        ("age=levels(0)", "at least 1"),
        ('age="3', "not closed"),
    ],
)
def test_questions_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=words):
        read_question(text, SCHEMA)


@given(st.text(alphabet="aegsx=.|+,'\"() ×0123456", max_size=20))
def test_any_text_is_a_question_or_an_error_of_ours(text: str) -> None:
    try:
        query = read_question(text, SCHEMA)
    except nz.NoiseplanError as error:
        assert str(error)
    else:
        assert query.rows >= 1
