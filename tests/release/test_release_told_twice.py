"""Which tables of two releases disagree: against row spaces of dense matrices, in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.queries.row_spaces import RowSpace, matrix_space, product, row_space
from noiseplan.release import told_tables, told_twice
from noiseplan.release.ledger_charge import Account
from noiseplan.release.told_tables import Common, Piece, Pieces, Told
from noiseplan.release.told_twice import SAID

NAMES = ("a", "b", "c")
REPLACED: dict[str, Any] = {"neighbours": "replace"}


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
@examples(200)
def test_no_clash_is_missed_and_none_is_made_up(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    one, other = data.draw(queries(schema)), data.draw(queries(schema))
    pieces = Pieces(schema)
    kept = [piece.texts() for piece in pieces.told(other, "other").pieces]
    read = Told("other", tuple(Piece.read(texts, schema) for texts in kept))
    found = pieces.common(pieces.told(one, "one"), read)
    assert found == expected(one.dense(), other.dense())


@given(st.data())
@examples(100)
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


def test_tables_of_an_attribute_declared_otherwise_disagree_in_the_total() -> None:
    """Of these it is certain, unless the total is public; of others it is not."""
    declared = [
        nz.Schema({"age": nz.Ordinal(range(n)), "sex": nz.Ordinal(range(2))}) for n in (4, 5)
    ]
    then, now = (
        [nz.Query(each, ["age"]), nz.Query(each, {"age": [[1] + [0] * n]})]
        for each, n in zip(declared, (3, 4), strict=True)
    )
    before = [Pieces(declared[0]).told(query, f"then {i}") for i, query in enumerate(then)]
    workload = nz.Workload(
        [nz.Query(now[0].schema, q.factors, name=f"now {i}") for i, q in enumerate(now)]
    )
    found = told_twice.clashes(workload, before, public_total=False)
    assert found["somehow"] == [("now 0", "then 0")]
    assert found["perhaps"] == [("now 0", "then 1"), ("now 1", "then 0"), ("now 1", "then 1")]
    public = told_twice.clashes(workload, before, public_total=True)
    assert set(public) == {"perhaps"} and len(public["perhaps"]) == 4


def test_large_matrices_meet_in_as_many_directions_as_were_put_into_both() -> None:
    """Rows and columns shuffled, columns repeated, and sums instead of the rows themselves."""
    random = np.random.default_rng(4)
    for shared in (0, 1, 5, 40):
        both = random.integers(-1, 2, (shared, 90))
        spaces = []
        for rows in (60 - shared, 45 - shared):
            own = np.concatenate([both, random.integers(-1, 2, (rows, 90))])
            mixed = random.integers(-3, 4, (len(own) + 10, len(own))) @ own
            repeated = np.concatenate([mixed, mixed[:, :20], np.zeros((len(mixed), 3))], axis=1)
            spaces.append(matrix_space(nz.matrices.DenseMatrix(repeated.astype(float))))
        one, other = spaces
        assert one is not None and other is not None
        assert one.common(other) == other.common(one) == max(shared, 60 + 45 - 90)


def test_what_a_dense_table_tells_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, random = nz.Schema.from_sizes({"a": 6, "b": 8}), np.random.default_rng(2)
    tables = [
        nz.Query(schema, ["b", "a"], matrix=random.integers(0, 2, (7, 48)), name=str(i))
        for i in range(6)
    ]
    then, calls = Pieces(schema), []
    before = [then.told(query, query.name) for query in tables[:3]]
    decompose = np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda *a, **k: calls.append(0) or decompose(*a, **k))
    assert not told_twice.clashes(nz.Workload(tables[3:]), before, public_total=False)
    assert len(calls) <= 3 + 6 + 3  # as they were asked, over the cells in order, for the total


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
    first, *lines, last = said.splitlines()
    assert first.endswith("released another plan of the same people.")
    assert lines == [
        "Which tables disagree, of this plan and of what was released before:",
        f"  'sex' in both: {SAID['same']}",
        f"  'sex × ward' in both: {SAID['same']}",
        f"  'sex' and 'sex × ward': {SAID['sums']}",
        f"  'sex × ward' and 'sex': {SAID['sums']}",
        f"  'ward' and 'sex × ward': {SAID['sums']}",
        f"  'ward' and 'sex': {SAID['total']}",
    ]
    assert last.endswith("noiseplan release --given FOLDER, or plan.given(earlier) in Python")
    assert max(map(len, said.splitlines())) <= 130
    again = told(ledger, nz.Query(SCHEMA, {"sex": [[1, 0], [1, 1]]}, name="mine"))
    assert f"'mine' and 'sex': {SAID['same']}\n" in again


def test_tables_that_never_add_up_are_not_paired(ledger: nz.Ledger) -> None:
    """Prefix sums do not know those who did not state their age; conditions know nobody else."""
    told(ledger, {"age": "prefix"})
    assert "No two tables tell a common count" in told(ledger, ["sex"])
    women = nz.Workload.predicates(SCHEMA, ["sex = 'F'", "sex = 'F' or ward = 'n'"])
    said = told(ledger, *women)
    assert f"\"sex = 'F'\" and 'sex': {SAID['sums']}" in said
    assert " or ward" not in said


def test_a_public_total_does_not_disagree(ledger: nz.Ledger) -> None:
    ledger.open_dataset("replaced", nz.zCDP(10.0), neighbours="replace")
    how: dict[str, Any] = {"dataset": "replaced", **REPLACED}
    told(ledger, ["sex"], **how)
    assert "No two tables tell a common count" in told(ledger, ["ward"], **how)
    ward = nz.Workload([nz.Query(SCHEMA, ["ward"])])
    exact = nz.plan(ward, budget=nz.PureDP(0.1), **REPLACED)
    said = "".join(Account.of(ledger, "replaced").disagreeing(exact))
    assert SAID["total"] not in said
    noisy = nz.plan(ward, budget=nz.PureDP(0.1), planner="eigen", **REPLACED)
    said = Account.of(ledger, "replaced").disagreeing(noisy)[0]  # its tables tell it with noise
    assert f"'ward' and 'sex': {SAID['total']}" in said


def test_an_earlier_total_with_noise_is_named_beside_a_public_one(
    ledger: nz.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other way round; and where an early ledger does not say how it was told, it may."""
    ledger.open_dataset("replaced", nz.zCDP(10.0), neighbours="replace")
    data = {"age": [0, 1, None], "sex": ["F", "F", "M"], "ward": ["n", "s", "s"]}
    sex = nz.Workload([nz.Query(SCHEMA, ["sex"])])
    noisy = nz.plan(sex, budget=nz.PureDP(0.1), planner="eigen", **REPLACED)
    public = nz.plan(nz.Workload([nz.Query(SCHEMA, ["ward"])]), budget=nz.zCDP(0.1), **REPLACED)
    totals = [plan.variance(nz.Query(SCHEMA, [])).item() for plan in (noisy, public)]
    assert totals[0] > 0 == totals[1]
    noisy.release(data, ledger=ledger, dataset="replaced")
    said = Account.of(ledger, "replaced").disagreeing(public)[0]
    assert f"  'ward' and 'sex': {SAID['total']}\n" in said
    pieces = told_twice.told_pieces
    with monkeypatch.context() as early:
        name = "noiseplan.release.ledger_charge.told_pieces"
        early.setattr(name, lambda *plan: pieces(*plan)[1:])
        ledger.open_dataset("early", nz.zCDP(10.0), neighbours="replace")
        noisy.release(data, ledger=ledger, dataset="early")
    said = Account.of(ledger, "early").disagreeing(public)[0]
    assert f"  'ward' and 'sex': {SAID['perhaps']}\n" in said


def test_many_clashes_are_told_briefly(ledger: nz.Ledger) -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 2 for i in range(21)})
    pairs = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(pairs, budget=nz.zCDP(0.1))
    plan.release({name: [0, 1] for name in schema.names}, ledger=ledger, dataset="people")
    (said,) = Account.of(ledger, "people").disagreeing(nz.plan(pairs, budget=nz.zCDP(0.2)))
    lines = said.splitlines()
    assert len(lines) == 2 + told_twice.SHOWN + 3
    assert [line.split(": ")[1] for line in lines[2:10]] == [SAID["same"]] * 8
    pairs = len(told_twice.clashes(pairs, told_twice._told(pairs, Pieces(schema)), False)["same"])
    assert pairs == 200
    assert lines[10].startswith("  and 39,992 more pairs: noiseplan ledger show LEDGER --json")
    assert lines[11] == "Compared are the first 200 tables of each."


def test_names_alone_of_an_early_ledger(ledger: nz.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as early:
        early.setattr("noiseplan.release.ledger_charge.told_pieces", lambda *_: ())
        told(ledger, ["sex"], [])
    said = told(ledger, ["ward"])
    assert f"  'ward' and 'total': {SAID['total']}\n" in said
    assert f"  'ward' and 'sex': {SAID['perhaps']}\n" in said
    assert told_twice.published(nz.Workload([nz.Query(SCHEMA, [])])) == (("total",),)
