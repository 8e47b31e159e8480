"""The residual mechanism answers what its rows determine; refusals say what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import Written, every_set

import noiseplan as nz
from depth import examples
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.residual import ResidualMechanism

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema(
    {"a": nz.Ordinal(range(3)), "b": nz.Categorical(["x", "y"]), "c": nz.Ordinal(range(4))}
)
SETS = every_set(3)
# The values of c are told apart only as two halves.
HALVES = Basis.from_rows(np.array([[1.0, -2.0]]), np.array([0, 0, 1, 1]))


def mechanism_of(sets: list[tuple[int, ...]], known: bool = True) -> ResidualMechanism:
    """These sets; attributes in none of them have a basis all the same, unless `known` is off."""
    by_width = {len(each): [s for s in sets if len(s) == len(each)] for each in sets}
    rows = [np.array(s, dtype=np.int64).reshape(len(s), w) for w, s in by_width.items()]
    bases = (Basis.orthogonal(3), Basis.from_rows(np.array([[2.0, -1.0]])), HALVES)
    named = np.array([i if known or any(i in s for s in sets) else -1 for i in range(3)])
    return ResidualMechanism(
        SCHEMA, group_blocks(rows, [np.ones(len(r)) for r in rows], bases, named)
    )


def determined(mechanism: ResidualMechanism, query: nz.Query) -> bool:
    """Whether the rows asked for are combinations of the rows measured."""
    pieces = []
    for block in mechanism.blocks:
        for row in block.sets.tolist():
            by_name = dict(zip(row, block.bases, strict=True))
            product = np.ones((1, 1))
            for i, n in enumerate(SCHEMA.shape):
                own = np.asarray(by_name[i].measure) if i in by_name else np.ones((1, n))
                product = np.kron(product, own)
            pieces.append(product)
    rows = np.vstack(pieces)
    wanted = query.dense()
    fitted = np.linalg.lstsq(rows.T, wanted.T, rcond=1e-10)[0]
    return bool(np.abs(rows.T @ fitted - wanted.T).max() < 1e-8)


def queries() -> list[nz.Query]:
    halves = nz.Custom([[1, 1, 0, 0], [2, 2, 5, 5]])
    even = nz.Custom([[3, 3, 3, 3]])
    uneven = nz.Custom([[1, -1]])
    centred = nz.Custom([[1.0, 2.0]])  # b's τ is (1, 2)/3, so [2, −1] needs no sum, [1, 2] does
    found = [nz.Query(SCHEMA, [SCHEMA.names[i] for i in each]) for each in SETS]
    found += [
        nz.Query(SCHEMA, {"a": nz.Prefix(), "c": halves}),
        nz.Query(SCHEMA, {"b": uneven, "c": halves}),
        nz.Query(SCHEMA, {"a": nz.Total(), "b": centred, "c": even}),
        nz.Query(SCHEMA, {"c": even}),
        nz.Query(SCHEMA, {"a": nz.Custom([[1, -1, 0]]), "b": nz.Custom([[2, -1]])}),
        nz.Query(SCHEMA, ["a", "b"], matrix=np.ones((1, 6)), name="everybody"),
        nz.Query(SCHEMA, ["a", "b"], matrix=np.eye(6)[[0]], name="one cell"),
        nz.Query(
            SCHEMA, ["a", "b"], matrix=[[1, 1, 0, 0, 0, 0], [0, 0, 2, 2, 1, 1]], name="a alone"
        ),
        nz.Query(SCHEMA, ["b", "c"], matrix=[[1, 1, 0, 0, 0, 0, 2, 2]], name="halves"),
        nz.Query(SCHEMA, ["b", "c"], matrix=[[1, 0, 0, 0, 0, 0, 0, 0]], name="one value"),
    ]
    return found


@examples(60)
@given(st.sets(st.sampled_from(SETS), min_size=1))
def test_exactly_what_is_determined_is_answered(chosen: set[tuple[int, ...]]) -> None:
    mechanism = mechanism_of(sorted(chosen))
    counts = np.random.default_rng(len(chosen)).integers(0, 50, SCHEMA.size)
    for query in queries():
        if determined(mechanism, query):
            mechanism.require(query)
            truth = query.dense() @ counts
            found = Written(mechanism).answers(query, counts)
            np.testing.assert_allclose(found, truth, atol=1e-7)
        else:
            with pytest.raises(UnanswerableError, match=r"workload|schema"):
                mechanism.require(query)


def test_some_of_each() -> None:
    """Otherwise the test above would not tell anything."""
    mechanism = mechanism_of([(), (0,), (1,), (0, 1), (2,)])
    told = [determined(mechanism, query) for query in queries()]
    assert told.count(True) > 5 and told.count(False) > 5


def test_refusals_name_what_is_missing() -> None:
    mechanism = mechanism_of([(), (0,), (2,)], known=False)
    a_by_c = nz.Query(SCHEMA, {"a": nz.Identity(), "c": nz.Custom([[1, 1, 0, 0]])})
    with pytest.raises(UnanswerableError, match=r"a × c measured together.*add a query on"):
        mechanism.require(a_by_c)
    with pytest.raises(UnanswerableError, match=r"needs \['b'\].*measures \['a', 'c'\]"):
        mechanism.require(nz.Query(SCHEMA, ["b"]))
    with pytest.raises(UnanswerableError, match="values of 'c' apart"):
        mechanism.require(nz.Query(SCHEMA, ["c"]))
    without_total = mechanism_of([(0,)])
    with pytest.raises(UnanswerableError, match="needs the total measured"):
        without_total.require(nz.Query(SCHEMA, ["a"]))
    other = nz.Schema.from_sizes({"a": 3})
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.require(nz.Query(other, ["a"]))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_what_is_needed_does_not_depend_on_the_unit(scale: float) -> None:
    mechanism = mechanism_of([(), (0,), (2,)])
    even, uneven = nz.Custom([[scale] * 3]), nz.Custom([[scale, 0, 0]])
    halves = nz.Custom([[scale, scale, 0, 0]])
    mechanism.require(nz.Query(SCHEMA, {"a": even, "c": halves}))
    with pytest.raises(UnanswerableError, match="measured together"):
        mechanism.require(nz.Query(SCHEMA, {"a": uneven, "c": halves}))


@pytest.mark.parametrize("small", [1.0, 1e-6, 1e-10, 1e-15])
def test_a_small_row_is_told_by_itself_beside_a_large_one(small: float) -> None:
    mechanism = mechanism_of([(), (0,), (1,), (2,), (1, 2)])
    large, cell = np.ones(6) / 3, np.eye(6)[1]  # of a and b, which are not measured together
    for rows in ([large, small * cell], [small * cell, large]):
        query = nz.Query(SCHEMA, ["a", "b"], matrix=np.array(rows), name="two sizes")
        assert not determined(mechanism, nz.Query(SCHEMA, ["a", "b"], matrix=cell[None]))
        with pytest.raises(UnanswerableError, match="two sizes"):
            mechanism.require(query)
    mechanism.require(nz.Query(SCHEMA, ["a", "b"], matrix=np.array([large, small * large])))
    # By factors: a row of b that needs the sum over b, beside one that does not ask for it.
    alone = mechanism_of([(), (0,), (0, 1)])
    rows = nz.Custom([[2.0, -1.0], [small, 2 * small]])
    asked = {"a": nz.Custom([[1.0, -1.0, 0.0]]), "b": rows}
    alone.require(nz.Query(SCHEMA, asked))
    without = mechanism_of([(), (0, 1)])
    assert not determined(without, nz.Query(SCHEMA, {**asked, "b": nz.Custom([[1.0, 2.0]])}))
    with pytest.raises(UnanswerableError, match="needs a measured together"):
        without.require(nz.Query(SCHEMA, asked))
