"""Which tables of two releases disagree: against row spaces of dense matrices, in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.queries.row_spaces import RowSpace, matrix_space, product, row_space
from noiseplan.release import told_tables, told_twice
from noiseplan.release.ledger_charge import Account
from noiseplan.release.told_tables import Common, Piece, Pieces, Told

NAMES = ("a", "b", "c")


def exact_rank(*matrices: Any) -> int:
    """Gaussian elimination in fractions."""
    different = np.unique(np.concatenate(matrices), axis=0)
    rows = [[Fraction(float(x)) for x in row] for row in different]
    rank = 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            share = rows[i][column] / rows[rank][column]
            if share:
                rows[i] = [x - share * y for x, y in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def expected(one: Any, other: Any) -> Common:
    """dim(A ∩ B) = rank A + rank B − rank of both."""
    ranks = exact_rank(one), exact_rank(other)
    number = sum(ranks) - exact_rank(one, other)
    ones = np.ones((1, one.shape[1]))
    total = all(exact_rank(m, ones) == r for m, r in zip((one, other), ranks, strict=True))
    return Common(number > 0, number > 1 or (number == 1 and not total), number == max(ranks))


@st.composite
def schemas(draw: st.DrawFn) -> nz.Schema:
    def attribute() -> nz.Ordinal:
        size = draw(st.integers(1, 3))
        return nz.Ordinal(range(size), missing="none" if draw(st.booleans()) else None)

    return nz.Schema({name: attribute() for name in NAMES})


@st.composite
def matrices(draw: st.DrawFn, columns: int) -> Any:
    rows = draw(st.integers(1, 3))
    numbers = st.lists(st.integers(-1, 2), min_size=rows * columns, max_size=rows * columns)
    found = np.array(draw(numbers), dtype=float).reshape(rows, columns)
    return found if found.any() else np.eye(1, columns)


@st.composite
def queries(draw: st.DrawFn, schema: nz.Schema) -> nz.Query:
    if draw(st.integers(0, 3)) == 0:
        some = draw(st.sampled_from([["a", "b"], ["b", "c"], ["c", "a"], ["a", "b", "c"]]))
        cells = prod(schema[name].size for name in some)
        return nz.Query(schema, some, matrix=draw(matrices(cells)))
    factors: dict[str, Any] = {}
    for name in NAMES:
        size = schema[name].size
        factors[name] = draw(
            st.one_of(
                st.sampled_from([nz.Identity(), nz.Prefix(), nz.Ranges(), nz.Total(), nz.Total()]),
                st.integers(1, 3).map(lambda width: nz.Levels(width, leaves=False, total=False)),
                st.just(nz.Levels(2, 3, leaves=False)),
                matrices(size).map(nz.Custom),
            )
        )
    return nz.Query(schema, factors)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_clash_is_missed_and_none_is_made_up(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    one, other = data.draw(queries(schema)), data.draw(queries(schema))
    pieces = Pieces(schema)
    kept = [piece.texts() for piece in pieces.told(other, "other").pieces]
    read = Told("other", tuple(Piece.read(texts, schema) for texts in kept))
    found = pieces.common(pieces.told(one, "one"), read)
    assert found == expected(one.dense(), other.dense())


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_ranks_and_products(data: st.DataObject) -> None:
    one, other = data.draw(matrices(3)), data.draw(matrices(4))
    spaces = [matrix_space(nz.matrices.DenseMatrix(m)) for m in (one, other)]
    both = product([space for space in spaces if space is not None])
    assert both is not None
    assert both.rank == exact_rank(np.kron(one, other))
    directly = matrix_space(nz.matrices.DenseMatrix(np.kron(one, other)))
    assert directly is not None
    assert both.common(directly) == both.rank == directly.rank


def test_long_attributes_are_told_apart_by_their_kinds() -> None:
    minutes = nz.Ordinal(range(525_600))
    days = row_space(nz.Levels(1440, leaves=False), minutes)
    hours = row_space(nz.Levels(60, leaves=False, total=False), minutes)
    sums, odd = row_space(nz.Prefix(), minutes), row_space(nz.Levels(7, leaves=False), minutes)
    assert days is not None and hours is not None and sums is not None and odd is not None
    assert (days.rank, hours.rank, sums.rank, odd.rank) == (365, 8760, 525_600, 75_086)
    assert (days.common(hours), hours.common(sums)) == (365, 8760)
    assert days.common(odd) == 525_600 // 10_080 + 1  # weeks, and what is left of the year
    kept = Piece(("t",), ("x",), True, "d", hours).texts()
    assert Piece.read(kept, nz.Schema({"t": minutes})).space is not None


def test_what_is_too_large_to_decide_is_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    half = nz.Query(schema, ["a", "b"], matrix=np.tri(2, 12))
    one = nz.Query(schema, {"a": [[1, 1, 0, 2]]})
    monkeypatch.setattr(told_tables, "LONGEST_PIECE", 0)

    def common(now: nz.Query, then: nz.Query) -> Common:
        pieces = Pieces(schema)
        kept = [piece.texts() for piece in pieces.told(then, "then").pieces]
        before = Told("then", tuple(Piece.read(texts, schema) for texts in kept))
        return pieces.common(pieces.told(now, "now"), before)

    assert common(half, half) == Common(True, True, same=True)
    assert common(one, nz.Query(schema, {"a": [[1, 0, 0, 2]]})) == Common(None, None, same=False)
    assert common(nz.Query(schema, ["a"]), one).something  # the whole attribute has any row of it
    assert common(nz.Query(schema, ["b"]), one).something is False  # no total of a


def test_an_attribute_that_was_declared_otherwise() -> None:
    then = nz.Schema({"age": nz.Ordinal(range(4)), "sex": nz.Categorical(["F", "M"])})
    now = nz.Schema({"age": nz.Ordinal(range(5)), "sex": nz.Categorical(["F", "M"])})
    old, new = Pieces(then), Pieces(now)

    def common(asked: Any, before: Any) -> Common:
        earlier = [p.texts() for p in old.told(nz.Query(then, before), "then").pieces]
        table = Told("then", tuple(Piece.read(texts, now) for texts in earlier))
        return new.common(new.told(nz.Query(now, asked), "now"), table)

    assert common(["age"], ["age"]) == Common(True, None, same=False)  # at least the total
    assert common({"age": [[1, 0, 0, 0, 0]]}, ["age"]).something is None
    assert common(["sex"], ["age", "sex"]) == Common(True, True, same=False)
    assert common(["sex"], {"age": [[1, 0, 0, 0]]}).something is False
    assert common([], ["age"]) == Common(True, False, same=False)


def test_spaces_in_a_ledger_that_make_no_sense_are_unknown() -> None:
    schema = nz.Schema.from_sizes({"a": 3})
    fine = Pieces(schema).told(nz.Query(schema, {"a": [[1, 2, 3]]}), "a").pieces[0].texts()
    assert isinstance(Piece.read(fine, schema).space, RowSpace)
    for told in ("", "+", "+x:%%%", "+x:AAAA", fine[1][:-8], fine[1].replace(":eN", ":fN")):
        assert Piece.read((fine[0], told, "a"), schema).space is None
    assert Piece.read((), schema).attributes == ()


SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(4), missing="not stated"),
        "sex": nz.Categorical(["F", "M"]),
        "ward": nz.Categorical(["n", "s"]),
    }
)


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    made = nz.Ledger(tmp_path / "b.ledger", create=True)
    made.open_dataset("people", nz.zCDP(10.0))
    return made


def told(ledger: nz.Ledger, *queries: Any, dataset: str = "people", **how: Any) -> str:
    """What a release of some queries is warned of; it is released then."""
    asked = [q if isinstance(q, nz.Query) else nz.Query(SCHEMA, q) for q in queries]
    data = {"age": [0, 1, None], "sex": ["F", "F", "M"], "ward": ["n", "s", "s"]}
    plan = nz.plan(nz.Workload(asked), budget=nz.zCDP(0.1), **how)
    found = plan.check(data, ledger=ledger, dataset=dataset).warnings
    plan.release(data, ledger=ledger, dataset=dataset)
    return " ".join(each.said for each in found)


def test_tables_in_both_studies_are_paired_with_others_too(ledger: nz.Ledger) -> None:
    told(ledger, ["sex"], ["sex", "ward"])
    said = told(ledger, ["sex"], ["sex", "ward"], ["ward"])
    assert "In both, with two different numbers each: 'sex', 'sex × ward'." in said
    sums = "'sex' and 'sex × ward'; 'sex × ward' and 'sex'; 'ward' and 'sex × ward'."
    assert f"Will not add up to the same sums: {sums}" in said
    assert "Nothing but the total in common, which will differ: 'ward' and 'sex'." in said
    again = told(ledger, nz.Query(SCHEMA, {"sex": [[1, 0], [1, 1]]}, name="mine"))
    assert "In both, with two different numbers each: 'mine' (as 'sex')." in again


def test_tables_that_never_add_up_are_not_paired(ledger: nz.Ledger) -> None:
    """Prefix sums do not know those who did not state their age; conditions know nobody else."""
    told(ledger, {"age": "prefix"})
    assert "No two tables tell a common count" in told(ledger, ["sex"])
    women = nz.Workload.predicates(SCHEMA, ["sex = 'F'", "sex = 'F' or ward = 'n'"])
    said = told(ledger, *women)
    assert "\"sex = 'F'\" and 'sex'" in said
    assert " or ward" not in said.partition("Nothing")[0]


def test_a_public_total_does_not_disagree(ledger: nz.Ledger) -> None:
    ledger.open_dataset("replaced", nz.zCDP(10.0), neighbours="replace")
    how: dict[str, Any] = {"dataset": "replaced", "neighbours": "replace"}
    told(ledger, ["sex"], **how)
    assert "No two tables tell a common count" in told(ledger, ["ward"], **how)


def test_many_clashes_are_told_briefly(ledger: nz.Ledger) -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 2 for i in range(21)})
    pairs = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(pairs, budget=nz.zCDP(0.1))
    plan.release({name: [0, 1] for name in schema.names}, ledger=ledger, dataset="people")
    (said,) = Account.of(ledger, "people").disagreeing(nz.plan(pairs, budget=nz.zCDP(0.2)))
    assert len(said) < 1500
    assert "and 194 more." in said
    assert "Compared are the first 200 tables of each." in said


def test_names_alone_of_an_early_ledger(ledger: nz.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as early:
        early.setattr("noiseplan.release.ledger_charge.told_pieces", lambda _: ())
        told(ledger, ["sex"], [])
    said = told(ledger, ["ward"])
    assert "Nothing but the total in common, which will differ: 'ward' and 'total'." in said
    assert "May disagree" in said
    assert "'ward' and 'sex'." in said
    assert told_twice.published(nz.Workload([nz.Query(SCHEMA, [])])) == (("total",),)
