"""A product of strategies: by fast transforms as by the dense matrix, in answers and in cost."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import Written, dearest, least_squares

import noiseplan as nz
from depth import examples
from noiseplan.errors import StorageError, UnanswerableError
from noiseplan.matrices import HaarMatrix, IdentityMatrix, TreeMatrix
from noiseplan.mechanisms import cost
from noiseplan.mechanisms.product import Factor, ProductMechanism
from noiseplan.noise import Noise

Array = np.ndarray[Any, Any]
LAWS = [(law, exact) for law in ("gaussian", "laplace") for exact in (True, False)]


def factor_of(kind: str, size: int) -> Factor:
    if kind == "tree":
        return TreeMatrix(size, 3)
    return HaarMatrix(size) if kind == "haar" else IdentityMatrix(size)


def made(
    kinds: list[tuple[str, int]], law: str = "gaussian", size: float = 2.0, exact: bool = True
) -> ProductMechanism:
    schema = nz.Schema.from_sizes({f"x{i}": n for i, (_, n) in enumerate(kinds)})
    factors = tuple(factor_of(*kind) for kind in kinds)
    return ProductMechanism(schema, factors, Noise(law, size, exact))  # type: ignore[arg-type]


def dense(mechanism: ProductMechanism) -> Array:
    rows = np.ones((1, 1))
    for factor in mechanism.factors:
        rows = np.kron(rows, factor.dense())
    return rows


def queries(schema: nz.Schema, seed: int) -> list[nz.Query]:
    rng = np.random.default_rng(seed)
    names = list(schema.names)
    found = [
        nz.Query(schema, {}),
        nz.Query(schema, names),
        nz.Query(schema, {names[0]: nz.Prefix()}),
    ]
    found.append(nz.Query(schema, {names[-1]: nz.Custom(rng.normal(size=(2, schema.shape[-1])))}))
    found.append(nz.Query(schema, matrix=rng.normal(size=(3, schema.size)), name="all cells"))
    some = names[:2]
    cells = int(np.prod(schema.shape[:2]))
    found.append(nz.Query(schema, some, matrix=rng.normal(size=(2, cells)), name="some cells"))
    return found


KINDS = st.lists(
    st.tuples(st.sampled_from(["tree", "haar", "identity"]), st.integers(2, 5)),
    min_size=1,
    max_size=3,
)


@examples(30)
@given(KINDS, st.sampled_from(LAWS), st.integers(0, 10**6))
def test_answers_and_errors_are_those_of_least_squares(
    kinds: list[tuple[str, int]], law: tuple[str, bool], seed: int
) -> None:
    mechanism = made(kinds, law[0], 1.5, law[1])
    rows, rng = dense(mechanism), np.random.default_rng(seed)
    counts = rng.integers(0, 20, mechanism.schema.size)
    noise = rng.integers(-5, 6, mechanism.numbers)
    measured, drawn = Written(mechanism).measured(counts, noise)
    np.testing.assert_array_equal(measured.values[0], rows @ counts + noise)
    assert drawn.sizes == [1.5] * len(rows)
    best = np.linalg.pinv(rows) @ (rows @ counts + noise)
    np.testing.assert_allclose(mechanism.estimate(measured).ravel(), best, atol=1e-8)
    variances = np.full(len(rows), float(mechanism.noise.variance[0]))
    asked = queries(mechanism.schema, seed)
    for query in asked:
        w = query.dense()
        np.testing.assert_allclose(mechanism.answer(measured, query), w @ best, atol=1e-7)
        for other in asked:
            truth = least_squares(rows, variances, w, other.dense())
            np.testing.assert_allclose(mechanism.covariance(query, other), truth, atol=1e-7)
        own = np.diagonal(least_squares(rows, variances, w, w))
        np.testing.assert_allclose(mechanism.variance(query), own, atol=1e-7)


@examples(30)
@given(KINDS, st.sampled_from(LAWS), st.sampled_from(["add-remove", "replace"]))
def test_the_cost_is_that_of_the_dearest_record(
    kinds: list[tuple[str, int]], law: tuple[str, bool], neighbours: str
) -> None:
    mechanism = made(kinds, law[0], 2.5, law[1])
    rows, power = dense(mechanism), 2 if law[0] == "gaussian" else 1
    brute = dearest(rows, np.full(len(rows), 2.5), power, neighbours)
    stated = mechanism.record_cost(neighbours)  # type: ignore[arg-type]
    assert brute <= stated * (1 + 1e-12)
    if law[0] == "gaussian" or neighbours == "add-remove":
        assert stated <= brute * (1 + 1e-9)
    with pytest.MonkeyPatch.context() as patch:  # as over domains too large for their cells
        patch.setattr(cost, "CELL_BY_CELL", 0)
        large = mechanism.record_cost(neighbours)  # type: ignore[arg-type]
        assert brute <= large * (1 + 1e-12)
        if neighbours == "add-remove":
            touched = int(np.abs(rows).sum(axis=0).max())
            assert large == pytest.approx(touched / 2.5, rel=1e-9)
    if law[0] == "gaussian":
        np.testing.assert_allclose(mechanism.cost_matrix(), rows.T @ rows / 2.5, atol=1e-12)


def test_what_is_measured_in_words_and_numbers() -> None:
    mechanism = made([("tree", 4), ("identity", 3)])
    assert mechanism.numbers == len(dense(mechanism))
    assert f"{mechanism.numbers} noisy numbers over all 12 cells" in mechanism.describe()
    assert [sets.tolist() for sets in mechanism.sets] == [[[0, 1]]]
    floating = mechanism.floating()
    assert not floating.noise.exact and floating.noise.one == mechanism.noise.one


def test_another_schema_is_refused() -> None:
    mechanism = made([("haar", 4)])
    other = nz.Query(nz.Schema.from_sizes({"x0": 5}), ["x0"])
    for refused in (mechanism.require, mechanism.variance):
        with pytest.raises(UnanswerableError, match="another schema"):
            refused(other)
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.covariance(nz.Query(mechanism.schema, ["x0"]), other)


# ---------------------------------------------------------------------- saved


@pytest.mark.parametrize(("law", "exact"), LAWS)
def test_saved_and_read_back(law: str, exact: bool) -> None:
    mechanism = made([("tree", 5), ("haar", 4), ("identity", 2)], law, 0.3, exact)
    content, arrays = mechanism.parts()
    again = ProductMechanism.from_parts(json.loads(json.dumps(content)), arrays, mechanism.schema)
    assert again.factors == mechanism.factors
    assert (again.noise.law, again.noise.exact) == (law, exact)
    assert again.noise.one == mechanism.noise.one


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sigma2": 0.0}, "no variance"),
        ({"sigma2": float("inf")}, "no variance"),
        ({"sigma2": float("nan")}, "no variance"),
        ({"factors": [{"kind": "haar", "size": 5}]}, "do not fit the schema"),
        ({"factors": [{"kind": "haar", "size": 4}] * 2}, "do not fit the schema"),
        ({"factors": [{"kind": "sine", "size": 4}]}, "unknown strategy"),
        ({"factors": [{"kind": "tree", "size": 4}]}, "unknown strategy"),
        ({"scale": 7.0}, "not its own"),
    ],
)
def test_damaged_parts_are_refused(change: dict[str, Any], words: str) -> None:
    mechanism = made([("haar", 4)])
    content, arrays = mechanism.parts()
    with pytest.raises(StorageError, match=words):
        ProductMechanism.from_parts({**content, **change}, arrays, mechanism.schema)
