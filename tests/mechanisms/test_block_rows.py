"""Blocks with rows of their own: what they tell, with which errors, and for how much."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from mechanism_oracles import Written, dearest, least_squares

import noiseplan as nz
from depth import seeds
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.blocks import OwnRows, group_blocks, own_basis, whole_basis, with_own
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.storage.plans import read_mechanism
from own_examples import (
    SCHEMA,
    SIZES,
    bases_of,
    blocks_of,
    centred,
    mixed,
    product,
    random_blocks,
)

Array = np.ndarray[Any, Any]
BASES = bases_of()
KINDS = ["product", "whole", "both"]


@pytest.fixture(params=KINDS)
def mechanism(request: pytest.FixtureRequest) -> ResidualMechanism:
    return mixed(request.param)


def rows_of(mechanism: ResidualMechanism) -> Array:
    """Every measured number as a row over the domain, by measuring one record at a time."""
    written, units = Written(mechanism), np.eye(mechanism.schema.size, dtype=np.int64)
    columns = [written.measured(unit)[0].values for unit in units]
    # Block by block, the batch first, as `noise_map` counts the noise that is drawn.
    return np.array([np.concatenate([v.ravel() for v in column]) for column in columns]).T


def sizes_of(mechanism: ResidualMechanism) -> Array:
    """σ² in the order of `rows_of`."""
    return np.concatenate(
        [np.broadcast_to(b.sigma2, (*b.shape, len(b))).ravel() for b in mechanism.blocks]
    )


def asked() -> list[nz.Query]:
    """Queries of every shape, answerable or not."""
    rng = np.random.default_rng(1)
    names = SCHEMA.names
    subsets = [list(s) for k in range(4) for s in combinations(names, k)]
    halves, thirds = (
        nz.Custom([[1, 1, 0, 0], [2, 2, 5, 5]]),
        nz.Custom([[1, 0, 0, 0], [0, 1, 1, 1]]),
    )
    found = [nz.Query(SCHEMA, each) for each in subsets]
    found += [nz.Query(SCHEMA, {"a": f}) for f in (halves, thirds, nz.Prefix())]
    found += [nz.Query(SCHEMA, {"a": f, "b": nz.Identity()}) for f in (halves, thirds)]
    found += [nz.Query(SCHEMA, {"a": halves, "b": nz.Custom([[3, 3]]), "c": nz.Prefix()})]
    found += [nz.Query(SCHEMA, {"b": nz.Identity(), "c": nz.Ranges()})]
    for pair, n in ((["a", "b"], 8), (["a", "c"], 12), (["b", "c"], 6)):
        found.append(nz.Query(SCHEMA, pair, matrix=rng.integers(-1, 2, (2, n)), name=f"m {pair}"))
    return found


def combined(mechanism: ResidualMechanism) -> list[nz.Query]:
    """Matrices that are combinations of measured rows: whatever their shape, they are answered."""
    rows, rng = rows_of(mechanism), np.random.default_rng(2)
    found = [nz.Query(SCHEMA, matrix=rng.integers(-2, 3, (3, len(rows))) @ rows, name="everything")]
    for block in mechanism.blocks:
        if block.own is not None and block.sets.shape[1] == 2:
            part = np.kron(np.ones(1), rng.standard_normal((2, int(np.prod(block.shape)))))
            names = [SCHEMA.names[i] for i in block.sets[0]]
            own = block.axes[0].measure
            for axis in block.axes[1:]:
                own = np.kron(own, np.asarray(axis.measure))
            found.append(nz.Query(SCHEMA, names, matrix=part @ own + 1.0, name=f"own {names}"))
    return found


def determined(rows: Array, query: nz.Query) -> bool:
    wanted = query.dense()
    fitted = np.linalg.lstsq(rows.T, wanted.T, rcond=1e-10)[0]
    return bool(np.abs(rows.T @ fitted - wanted.T).max() < 1e-8 * np.abs(wanted).max())


def test_exactly_what_is_measured_is_answered_without_bias(mechanism: ResidualMechanism) -> None:
    rows, written = rows_of(mechanism), Written(mechanism)
    counts = np.random.default_rng(0).integers(0, 30, SCHEMA.size)
    answered = 0
    for query in [*asked(), *combined(mechanism)]:
        if determined(rows, query):
            answered += 1
            np.testing.assert_allclose(
                written.answers(query, counts), query.dense() @ counts, rtol=1e-9, atol=1e-8
            )
        else:
            with pytest.raises(UnanswerableError, match="to the workload") as told:
                mechanism.require(query)
            assert query.name in str(told.value)
    assert 8 <= answered < len(asked())


def test_errors_are_those_of_least_squares(mechanism: ResidualMechanism) -> None:
    rows, sizes = rows_of(mechanism), sizes_of(mechanism)
    queries = [q for q in [*asked(), *combined(mechanism)] if determined(rows, q)]
    for query in queries:
        for other in queries:
            truth = least_squares(rows, sizes, query.dense(), other.dense())
            scale = np.sqrt(
                np.abs(least_squares(rows, sizes, query.dense(), query.dense())).max()
                * np.abs(least_squares(rows, sizes, other.dense(), other.dense())).max()
            )
            found = mechanism.covariance(query, other)
            np.testing.assert_allclose(found, truth, rtol=1e-8, atol=1e-9 * scale)
        own = np.diagonal(mechanism.covariance(query, query))
        np.testing.assert_allclose(
            mechanism.variance(query), own, rtol=1e-9, atol=1e-12 * own.max()
        )


@pytest.mark.parametrize("seed", seeds(10))
def test_random_rows_over_four_attributes(seed: int) -> None:
    """Any τ, shared rows, products of low rank and matrices: answers and errors, or a refusal."""
    schema = nz.Schema.from_sizes(dict(zip("abcd", SIZES, strict=True)))
    mechanism = ResidualMechanism(schema, random_blocks(seed))
    rng, counts = np.random.default_rng(seed), np.random.default_rng(1).integers(0, 9, schema.size)
    rows, sizes = rows_of(mechanism), sizes_of(mechanism)
    measured, _ = Written(mechanism).measured(counts)
    queries = [nz.Query(schema, list(s)) for k in range(4) for s in combinations("abcd", k)]
    queries += [nz.Query(schema, matrix=rng.standard_normal((2, len(rows))) @ rows, name="rows")]
    for block in mechanism.blocks:
        names = [schema.names[i] for i in block.sets[0]]
        matrix = rng.standard_normal((2, 1))
        for axis in block.axes:
            own = rng.standard_normal((1, axis.rows)) @ np.asarray(axis.measure)
            matrix = np.kron(matrix, own)
        if names:
            queries.append(nz.Query(schema, names, matrix=matrix, name=f"of {names}"))
    known = [query for query in queries if determined(rows, query)]
    assert len(mechanism.blocks.blocks) < len(known)
    for query in queries:
        if query not in known:
            with pytest.raises(UnanswerableError):
                mechanism.require(query)
            continue
        truth = least_squares(rows, sizes, query.dense(), query.dense())
        np.testing.assert_allclose(mechanism.answer(measured, query), query.dense() @ counts)
        np.testing.assert_allclose(mechanism.variance(query), np.diagonal(truth), rtol=1e-7)
        cross = least_squares(rows, sizes, query.dense(), known[-1].dense())
        scale = 1e-8 * np.sqrt(truth.max() * mechanism.variance(known[-1]).max())
        np.testing.assert_allclose(mechanism.covariance(query, known[-1]), cross, atol=scale)


def test_queries_alike_are_handled_as_one_by_one(mechanism: ResidualMechanism) -> None:
    rows = rows_of(mechanism)
    workload = nz.Workload([q for q in [*asked(), *combined(mechanism)] if determined(rows, q)])
    counts = np.random.default_rng(3).integers(0, 9, SCHEMA.size)
    measured, _ = Written(mechanism).measured(counts, np.arange(mechanism.numbers) % 5 - 2.0)
    seen = []
    for positions, estimates in mechanism.batches(measured, workload):
        for place, position in enumerate(positions):
            query = workload.query(int(position))
            alone = mechanism.answer(measured, query)
            np.testing.assert_allclose(estimates[..., place].ravel(), alone, rtol=1e-12, atol=1e-9)
            seen.append(int(position))
    assert sorted(seen) == list(range(len(workload)))
    for group in mechanism.alike_queries(workload):
        each = mechanism.variances_alike(workload, group)
        kinds = mechanism.noise_alike(workload, group)
        for place, position in enumerate(group):
            alone = mechanism.variance(workload.query(int(position)))
            np.testing.assert_allclose(each[:, place], alone, rtol=1e-12, atol=1e-12)
            first = int(np.flatnonzero(kinds == kinds[place])[0])
            np.testing.assert_allclose(each[:, first], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_cost_is_that_of_the_dearest_record(
    mechanism: ResidualMechanism, neighbours: str
) -> None:
    brute = dearest(rows_of(mechanism), sizes_of(mechanism), 2, neighbours)
    stated = mechanism.record_cost(neighbours)  # type: ignore[arg-type]
    assert brute <= stated <= brute * (1 + 3e-9)
    unit = rows_of(mechanism) / np.sqrt(sizes_of(mechanism))[:, None]
    np.testing.assert_allclose(mechanism.cost_matrix(), unit.T @ unit, rtol=1e-12, atol=1e-12)


def test_written_out_it_is_what_is_measured(mechanism: ResidualMechanism) -> None:
    counts = np.random.default_rng(5).integers(0, 9, SCHEMA.size)
    measured, _ = Written(mechanism).measured(counts)
    rows = mechanism.unit_rows()
    assert len(rows) == mechanism.numbers == sum(v.size for v in measured.values)
    np.testing.assert_allclose(
        mechanism.unit_values(measured), rows @ counts, rtol=1e-12, atol=1e-9
    )
    assert [v.shape for v in measured.values] == mechanism.shapes
    mechanism.check(measured)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_are_measured_exactly(kind: str) -> None:
    mechanism, plain = mixed(kind, exact=True), mixed(kind)
    counts = np.random.default_rng(6).integers(0, 10**12, SCHEMA.size)
    measured, _ = Written(mechanism).measured(counts)
    rows = rows_of(plain)
    exact = [[sum(int(u) * int(x) for u, x in zip(row, counts, strict=True))] for row in rows]
    found = np.concatenate([values.ravel() for values in measured.values])
    assert found.dtype == np.int64
    assert found.tolist() == [each for (each,) in exact]


def test_fractions_are_refused_where_noise_is_exact() -> None:
    blocks = blocks_of({(): 1.0}, exact=True)
    fractions = OwnRows((own_basis(centred(np.array([[0.3, 0, 0, 0.1]]), 0), BASES[0].centre),))
    with pytest.raises(PlanError, match="whole numbers"):
        ResidualMechanism(SCHEMA, with_own(blocks, np.array([[0]]), np.ones(1), fractions))


def test_saved_and_read_it_is_the_same(mechanism: ResidualMechanism) -> None:
    content, arrays = mechanism.parts()
    again = read_mechanism(content, arrays, SCHEMA)
    assert isinstance(again, ResidualMechanism)
    assert again.parts()[0] == content
    for name, array in again.parts()[1].items():
        assert array.tobytes() == arrays[name].tobytes()
    rows = rows_of(mechanism)
    measured, _ = Written(mechanism).measured(np.arange(SCHEMA.size), np.ones(mechanism.numbers))
    for query in [q for q in [*asked(), *combined(mechanism)] if determined(rows, q)]:
        assert np.array_equal(again.answer(measured, query), mechanism.answer(measured, query))
        assert np.array_equal(again.variance(query), mechanism.variance(query))
    for neighbours in ("add-remove", "replace"):
        assert again.record_cost(neighbours) == mechanism.record_cost(neighbours)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["product", "whole"])
def test_damaged_rows_are_refused(kind: str) -> None:
    mechanism = mixed(kind)
    content, arrays = mechanism.parts()
    number = len(mechanism.blocks.blocks) - 1
    measure, recover = (f"own_{number}_0_{part}" for part in ("measure", "recover"))
    turned = arrays[measure] + 0.0
    turned[0, 0] += 1.0  # sees the sum
    shifted = arrays[recover] + 0.01
    for changed, told in (
        ({measure: turned}, "undo|see the sum"),
        ({recover: 2 * arrays[recover]}, "undo"),
        ({recover: shifted}, "undo"),
        ({measure: arrays[measure][[0] * len(arrays[measure])]}, "undo"),  # one row over again
        ({measure: arrays[measure][:, 1:]}, "do not fit"),
        ({measure: arrays[measure] * np.nan}, "finite"),
    ):
        with pytest.raises(StorageError, match=told):
            read_mechanism(content, arrays | changed, SCHEMA)
    with pytest.raises(StorageError, match="are not those"):
        read_mechanism(content | {"own": content["own"][1:]}, arrays, SCHEMA)


def test_a_set_is_in_one_block() -> None:
    blocks = blocks_of({(): 1.0, (0,): 1.0})
    twice = with_own(blocks, np.array([[0]]), np.ones(1), product([[[1, 0, 0, 0]]], [0]))
    with pytest.raises(PlanError, match="two blocks"):
        ResidualMechanism(SCHEMA, twice)


def test_rows_fit_their_attributes() -> None:
    with pytest.raises(PlanError, match="see the sum"):
        own_basis(np.array([[1.0, 0, 0, 0]]), BASES[0].centre)
    even = OwnRows((own_basis(np.array([[1.0, -1.0]]), np.full(2, 0.5)),))
    for own, told in ((even, "see the sum"), (product([[[1, 0, 0, 0]]], [0]), "do not fit")):
        blocks = with_own(blocks_of({(): 1.0}), np.array([[1]]), np.ones(1), own)
        with pytest.raises(PlanError, match=told):
            ResidualMechanism(SCHEMA, blocks)
    for rows in ([[1.0, 0, 0, -1], [2.0, 0, 0, -2]], np.zeros((1, 4)), np.eye(4) - 0.25):
        with pytest.raises(np.linalg.LinAlgError, match="dependent"):
            own_basis(np.array(rows), BASES[0].centre)


@pytest.mark.parametrize("seed", seeds(5))
def test_rows_and_the_way_back(seed: int) -> None:
    """UV = I, 1ᵀV = 0 on every axis, and V is the pseudo-inverse with τ taken out."""
    rng = np.random.default_rng(seed)
    taus = [rng.dirichlet(np.ones(n)) for n in (3, 4)]
    out = [np.eye(len(t)) - np.outer(t, np.ones(len(t))) for t in taus]
    one = own_basis(rng.standard_normal((2, 4)) @ out[1], taus[1])
    dense = rng.standard_normal((5, 12)) @ np.kron(*out)
    both = whole_basis(dense, taus)
    np.testing.assert_allclose(one.recover, out[1] @ np.linalg.pinv(one.measure), atol=1e-10)
    np.testing.assert_allclose(both.recover, np.kron(*out) @ np.linalg.pinv(dense), atol=1e-10)
    for basis in (one, both):
        np.testing.assert_allclose(basis.measure @ basis.recover, np.eye(basis.rows), atol=1e-10)
    for axis in (0, 1):
        assert np.abs(both.recover.reshape(3, 4, -1).sum(axis)).max() < 1e-10


def test_as_many_rows_as_values_are_read_by_least_squares() -> None:
    """nI − 11ᵀ as one part of a product: dependent rows, saved, loaded, answered all the same."""
    low = product([[[1, 0, 0]]], [2]).parts[0]
    own = OwnRows((MatrixBasis.integer(4), low))
    blocks = with_own(
        blocks_of({(): 2.0, (0,): 3.0, (2,): 4.0}), np.array([[0, 2]]), np.array([9.0]), own
    )
    made = ResidualMechanism(SCHEMA, blocks)
    mechanism = read_mechanism(*made.parts(), SCHEMA)
    assert isinstance(mechanism, ResidualMechanism)
    rows, sizes = rows_of(mechanism), sizes_of(mechanism)
    query = nz.Query(SCHEMA, {"a": nz.Identity(), "c": nz.Custom([[1, 0, 0]])})
    truth = least_squares(rows, sizes, query.dense(), query.dense())
    np.testing.assert_allclose(mechanism.covariance(query, query), truth, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mechanism.variance(query), np.diagonal(truth), rtol=1e-9)
    counts = np.arange(SCHEMA.size)
    found = Written(mechanism).answers(query, counts)
    np.testing.assert_allclose(found, query.dense() @ counts, rtol=1e-9)
    with pytest.raises(UnanswerableError, match=r"values of 'c' apart, by a × c"):
        mechanism.require(nz.Query(SCHEMA, ["a", "c"]))


def test_several_blocks_have_the_same_bases() -> None:
    """Pairs of four alike attributes, each measured by other rows, in one batch."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcd", 3))
    base = Basis.orthogonal(3)
    sets = [np.zeros((1, 0), int), np.arange(4)[:, None], np.array([[0, 1], [2, 3]])]
    blocks = group_blocks(sets, [np.ones(len(s)) for s in sets], (base,), np.zeros(4, int))
    rng = np.random.default_rng(0)
    for pairs in ([[0, 2], [1, 3]], [[0, 3]]):
        rows = rng.standard_normal((2, 2, 3))
        parts = [own_basis(u - u.mean(axis=1, keepdims=True), base.centre) for u in rows]
        noise = 1.0 + rng.random(len(pairs))
        blocks = with_own(blocks, np.array(pairs), noise, OwnRows(tuple(parts)))
    mechanism = ResidualMechanism(schema, blocks)
    workload = nz.Workload.marginals(schema, k=2)
    kinds = mechanism.answered_alike(workload, np.arange(6))
    # (0,1) and (2,3), (0,2) and (1,3), (0,3) alone, and (1,2), which nothing measures
    assert kinds[0] == kinds[5] and kinds[1] == kinds[4] and kinds[3] == -1
    assert len({kinds[0], kinds[1], kinds[2], kinds[3]}) == 4
    asked = workload.subset(np.array([0, 1, 2, 4, 5]))
    counts = rng.integers(0, 9, schema.size)
    written = Written(mechanism)
    measured, _ = written.measured(counts)
    (group,) = mechanism.alike_queries(asked)
    ((positions, estimates),) = mechanism.batches(measured, asked)
    found = dict(zip(positions, np.moveaxis(estimates, -1, 0), strict=True))
    noise = mechanism.noise_alike(asked, group)
    assert len(set(noise)) == 4
    for place, position in enumerate(group):
        query = asked.query(int(position))
        np.testing.assert_allclose(found[position].ravel(), query.dense() @ counts, atol=1e-9)
        stated = mechanism.variances_alike(asked, group)[:, place]
        truth = np.diagonal(written.covariance(query, query))
        np.testing.assert_allclose(stated, truth, rtol=1e-9)
