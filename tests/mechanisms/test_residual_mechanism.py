"""The residual mechanism: examples E1 and E8, noiseless answers, and what it cannot answer."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.residual import Measurements, ResidualMechanism
from noiseplan.noise import Noise
from oracles import (
    add_remove_cost,
    blue_covariance,
    closure,
    cost_of,
    flat,
    kron,
    marginal_matrix,
    prefix,
    probe,
    ranges,
    silent,
    table_counts,
)
from workloads import ANY, random_workload

ONE = nz.zCDP(0.5)


def noiseless(mechanism: ResidualMechanism, x: np.ndarray) -> Measurements:
    return mechanism.measure(table_counts(x), silent)


# --------------------------------------------------------------------------- E1: the toy data

TOY_SCHEMA = nz.Schema(
    {"x": nz.Categorical(["a", "b"]), "y": nz.Categorical(["y", "n"]), "z": nz.Ordinal([1, 2, 3])}
)
TOY = np.array([0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 1]).reshape(2, 2, 3)
# subset: the paper's noiseless residual, and the covariance of its noise
RESIDUALS = {
    (): ([5], [[1]]),
    (0,): ([-1], [[2]]),
    (1,): ([-1], [[2]]),
    (2,): ([-2, -3], [[2, 1], [1, 2]]),
    (0, 1): ([-3], [[4]]),
    (1, 2): ([2, -1], [[4, 2], [2, 4]]),
}


def toy_plan(noise: str) -> nz.Plan:
    tables = (["x"], ["x", "y"], ["y", "z"])
    return nz.plan(nz.Workload([nz.Query(TOY_SCHEMA, t) for t in tables]), budget=ONE, noise=noise)


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_toy_answers_without_noise(noise: str) -> None:
    plan = toy_plan(noise)
    measured = noiseless(plan.mechanism, TOY)
    expected = ([2, 3], [0, 2, 2, 1], [0, 0, 2, 0, 2, 1])
    for query, answer in zip(plan.workload, expected, strict=True):
        np.testing.assert_allclose(plan.mechanism.answer(measured, query), answer, atol=1e-12)
    for attributes in ([], ["y"], ["z"]):  # in the closure, so answered too
        w = marginal_matrix((2, 2, 3), [TOY_SCHEMA.index(n) for n in attributes])
        answer = plan.mechanism.answer(measured, nz.Query(TOY_SCHEMA, attributes))
        np.testing.assert_allclose(answer, w @ TOY.ravel(), atol=1e-12)


def test_toy_residuals() -> None:
    """Bases of a residual space differ, rᵀΣ⁻¹r does not: the paper's r and Σ, ours with Σ = I."""
    plan = toy_plan("gaussian")
    measured = noiseless(plan.mechanism, TOY)
    found = {}
    for block, values in zip(plan.mechanism.blocks, measured.values, strict=True):
        for i, row in enumerate(block.sets.tolist()):
            found[tuple(row)] = float((values[..., i] ** 2).sum())
    assert set(found) == set(closure([(0,), (0, 1), (1, 2)])) == set(RESIDUALS)
    assert plan.measured_numbers == 8
    for subset, (residual, covariance) in RESIDUALS.items():
        r = np.array(residual, dtype=float)
        assert found[subset] == pytest.approx(
            r @ np.linalg.solve(np.array(covariance), r), rel=1e-12
        )


# --------------------------------------------------------------------------- E8: a mixed plan

E8_SCHEMA = nz.Schema.from_sizes({"a": 2, "b": 3})
E8_SIGMA2 = [2.881323168462269, 2.1452758595721284, 2.0871032144450385, 1.8074844040295646]
E8_SUB = np.array(
    [[sqrt(5) / 3, -1 / (3 * sqrt(5)), -4 / (3 * sqrt(5))], [0.0, 1 / sqrt(5), -1 / sqrt(5)]]
)
E8_DATA = np.array([[200, 300, 100], [220, 260, 80]])


def e8_mechanism() -> ResidualMechanism:
    """ResidualPlanner+ with the strategies identity and prefix, and the σ² of the example."""
    bases = (Basis.orthogonal(2), Basis.from_rows(E8_SUB))
    sets = [np.zeros((1, 0), dtype=int), np.array([[0]]), np.array([[1]]), np.array([[0, 1]])]
    noise = [np.array([s]) for s in E8_SIGMA2]
    return ResidualMechanism(E8_SCHEMA, group_blocks(sets, noise, bases, np.array([0, 1])))


def test_constants_of_the_prefix_strategy() -> None:
    """E7: β = 5/9, R = 2, m = 14/9, diag a = (1, 1, 0)."""
    basis = Basis.from_rows(E8_SUB)
    assert basis.sensitivity == pytest.approx(5 / 9)
    w = prefix(3)
    np.testing.assert_allclose(np.diagonal(w @ basis.spread @ w.T), [1, 1, 0], atol=1e-12)
    assert ((w @ basis.centre) ** 2).sum() == pytest.approx(14 / 9)


def test_the_mixed_plan_without_noise() -> None:
    mechanism = e8_mechanism()
    measured = noiseless(mechanism, E8_DATA)
    by_set = {
        tuple(b.sets[0].tolist()): v.ravel()
        for b, v in zip(mechanism.blocks, measured.values, strict=True)
    }
    assert by_set[()] == pytest.approx([1160])
    assert np.abs(by_set[0,]) == pytest.approx(
        [40 / sqrt(2)]
    )  # the paper's Sub is [1, −1], ours of length 1
    assert by_set[1,] == pytest.approx([122.23838277, 169.94116629])
    assert np.abs(by_set[0, 1]) * sqrt(2) == pytest.approx([32.79566367, 8.94427191])
    up_to = nz.Query(E8_SCHEMA, {"b": nz.Prefix()})
    np.testing.assert_allclose(mechanism.answer(measured, up_to), [420, 980, 1160])
    both = nz.Query(E8_SCHEMA, {"a": nz.Identity(), "b": nz.Prefix()})
    np.testing.assert_allclose(mechanism.answer(measured, both), [200, 500, 600, 220, 480, 560])


def test_errors_and_cost_of_the_mixed_plan() -> None:
    mechanism = e8_mechanism()
    assert np.diagonal(mechanism.cost_matrix()).max() == pytest.approx(1.0, rel=1e-12)
    one = nz.Query(E8_SCHEMA, ["a"])
    up_to = nz.Query(E8_SCHEMA, {"b": nz.Prefix()})
    both = nz.Query(E8_SCHEMA, {"a": nz.Identity(), "b": nz.Prefix()})
    assert mechanism.variance(one) == pytest.approx([1.792969] * 2, abs=1e-6)
    assert mechanism.variance(up_to) == pytest.approx([2.40725, 3.367691, 2.881323], abs=1e-6)
    assert mechanism.variance(both) == pytest.approx([1.624737, 2.222393, 1.792969] * 2, abs=1e-6)
    expected = [
        [2.40725, 0.640294, 0.960441],
        [0.640294, 3.367691, 1.920882],
        [0.960441, 1.920882, 2.881323],
    ]
    np.testing.assert_allclose(mechanism.covariance(up_to, up_to), expected, atol=1e-6)
    total = sum(mechanism.variance(q).sum() for q in (one, up_to, both))
    assert total == pytest.approx(23.522399069832773, rel=1e-9)


# ------------------------------------------------------------------------- any plan, without noise


@pytest.mark.grid
@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize(
    "objective", [nz.TotalVariance(), nz.WorstVariance()], ids=["total", "worst"]
)
def test_answers_without_noise_are_exact(seed: int, objective: nz.Objective) -> None:
    """Unbiasedness: what is put back together from residuals is what was taken apart."""
    kinds = ANY[:4] if seed < 12 else ("identity", "prefix", "custom", "levels")
    workload = random_workload(seed, kinds=kinds, several=bool(seed % 2), joint=seed % 3 == 0)
    plan = nz.plan(workload, budget=ONE, objective=objective)
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 50, workload.schema.shape)
    measured = noiseless(plan.mechanism, x)
    for query in workload:
        exact = query.dense() @ x.ravel()
        scale = 1e-9 * max(1.0, np.abs(query.dense()).max() * x.sum())
        np.testing.assert_allclose(plan.mechanism.answer(measured, query), exact, atol=scale)


def test_reconstruction_is_the_least_squares_estimate() -> None:
    """With noise too: the answer is Wx̂, x̂ by weighted least squares from all that is measured."""
    workload = random_workload(1, several=True)
    plan = nz.plan(workload, budget=ONE, noise="gaussian")
    b, sigma2 = probe(plan)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, workload.schema.shape).astype(float)
    measured = plan.mechanism.measure(
        table_counts(x), lambda shape, noise: rng.standard_normal(shape) * np.sqrt(noise.size)
    )
    scaled = b / np.sqrt(sigma2)[:, None]
    estimate = np.linalg.lstsq(scaled, flat(measured) / np.sqrt(sigma2), rcond=1e-12)[0]
    for query in workload:
        expected = query.dense() @ estimate
        np.testing.assert_allclose(plan.mechanism.answer(measured, query), expected, atol=1e-8)


def test_queries_beyond_the_workload_in_its_span() -> None:
    """Any factor on measured attributes: exact answers and exact errors."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})
    workload = nz.Workload(
        [nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()}), nz.Query(schema, ["c"])]
    )
    plan = nz.plan(workload, budget=ONE)
    b, sigma2 = probe(plan)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, schema.shape)
    measured = noiseless(plan.mechanism, x)
    dense = rng.integers(-2, 3, (5, 12)).astype(float)
    asked = {
        nz.Query(schema, {"a": nz.Ranges(), "b": nz.Ranges()}): kron(
            ranges(4), ranges(3), np.ones((1, 2))
        ),
        nz.Query(schema, {"b": nz.Prefix()}): kron(np.ones((1, 4)), prefix(3), np.ones((1, 2))),
        nz.Query(schema, {"a": nz.Levels(2)}): kron(
            np.vstack([np.eye(4), kron(np.eye(2), np.ones((1, 2))), np.ones((1, 4))]),
            np.ones((1, 6)),
        ),
        nz.Query(schema, {"a": nz.Custom([[1, 0, 0, -1]]), "b": nz.Custom([[0, 1, 1]])}): kron(
            [[1, 0, 0, -1]], [[0, 1, 1]], np.ones((1, 2))
        ),
        nz.Query(schema, ["b", "a"], matrix=dense): kron(
            dense.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12), np.ones((1, 2))
        ),
        nz.Query(schema, []): np.ones((1, 24)),
    }
    for query, w in asked.items():
        np.testing.assert_allclose(query.dense(), w)
        np.testing.assert_allclose(plan.mechanism.answer(measured, query), w @ x.ravel(), atol=1e-9)
        for other, v in asked.items():
            expected = blue_covariance(w, v, b, sigma2)
            np.testing.assert_allclose(
                plan.covariance(query, other), expected, rtol=1e-8, atol=1e-9
            )
        np.testing.assert_allclose(
            plan.variance(query), np.diagonal(plan.covariance(query, query)), rtol=1e-9
        )


def test_each_measured_number_gets_its_own_noise() -> None:
    """The noise of different numbers is independent: as many draws as numbers, each used once."""
    plan = toy_plan("gaussian")
    drawn = 0

    def counting(shape: tuple[int, ...], noise: Noise) -> np.ndarray:
        nonlocal drawn
        size = int(np.prod(shape))
        tags = np.arange(drawn + 1, drawn + size + 1, dtype=float).reshape(shape)
        drawn += size
        return tags * np.sqrt(noise.size)

    measured = plan.mechanism.measure(table_counts(np.zeros((2, 2, 3))), counting)
    _, sigma2 = probe(plan)
    assert drawn == plan.measured_numbers
    assert sorted(np.rint(flat(measured) / np.sqrt(sigma2)).astype(int).tolist()) == list(
        range(1, drawn + 1)
    )


def test_measuring_in_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from noiseplan.mechanisms import residual

    schema = nz.Schema.from_sizes({f"a{i}": 3 for i in range(6)})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=ONE)
    x = np.random.default_rng(0).integers(0, 5, schema.shape)
    whole = noiseless(plan.mechanism, x)
    steps: list[int] = []
    monkeypatch.setattr(residual, "BATCH_CELLS", 20)
    parts = plan.mechanism.measure(table_counts(x), silent, steps.append)
    np.testing.assert_array_equal(flat(whole), flat(parts))
    assert sum(steps) == len(plan.mechanism.blocks)
    assert max(steps) < 15


# ------------------------------------------------------------------------- what cannot be answered


@pytest.fixture
def pairs_plan() -> nz.Plan:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2, "d": 5})
    tables = [nz.Query(schema, ["a", "b"]), nz.Query(schema, ["b", "c"])]
    return nz.plan(nz.Workload(tables), budget=ONE)


def test_an_attribute_that_was_not_asked_for(pairs_plan: nz.Plan) -> None:
    query = nz.Query(pairs_plan.workload.schema, ["a", "d"])
    for ask in (pairs_plan.variance, lambda q: pairs_plan.covariance(q, q)):
        with pytest.raises(UnanswerableError, match=r"needs \['d'\].*measures \['a', 'b', 'c'\]"):
            ask(query)


def test_attributes_that_were_not_asked_for_together(pairs_plan: nz.Plan) -> None:
    schema = pairs_plan.workload.schema
    with pytest.raises(UnanswerableError, match=r"a × c measured together.*\['a', 'c'\]"):
        pairs_plan.variance(nz.Query(schema, ["a", "c"]))
    with pytest.raises(UnanswerableError, match=r"a × b × c|a × c"):
        pairs_plan.variance(nz.Query(schema, ["a", "b", "c"]))
    with pytest.raises(UnanswerableError, match=r"a × c"):
        pairs_plan.variance(nz.Query(schema, ["a", "c"], matrix=np.eye(3, 8)))
    # a factor that only sums needs nothing of the attribute it names
    summed = nz.Query(schema, {"a": nz.Identity(), "c": nz.Custom([[1, 1]])})
    np.testing.assert_allclose(
        pairs_plan.variance(summed), pairs_plan.variance(nz.Query(schema, ["a"]))
    )


def test_values_that_no_query_tells_apart() -> None:
    """Custom factors only: values of one group are measured as one, and never split afterwards."""
    schema = nz.Schema.from_sizes({"age": 6, "sex": 2})
    adults = nz.Custom([[0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]])
    workload = nz.Workload([nz.Query(schema, {"age": adults, "sex": nz.Identity()})])
    plan = nz.plan(workload, budget=ONE, noise="gaussian")
    assert plan.measured_numbers == 3 * 2  # three groups of ages
    b, sigma2 = probe(plan)
    assert add_remove_cost(cost_of(b, sigma2)) == pytest.approx(1.0, rel=1e-9)
    x = np.arange(12).reshape(6, 2)
    measured = noiseless(plan.mechanism, x)
    np.testing.assert_allclose(
        plan.mechanism.answer(measured, workload[0]), workload[0].dense() @ x.ravel()
    )
    inside = nz.Query(schema, {"age": nz.Custom([[1, 1, 0, 0, 2, 2]])})
    np.testing.assert_allclose(plan.mechanism.answer(measured, inside), inside.dense() @ x.ravel())
    for outside in (nz.Identity(), nz.Prefix(), nz.Custom([[1, 0, 0, 0, 0, 0]])):
        with pytest.raises(
            UnanswerableError, match=r"tells values of 'age' apart.*'age' to the workload"
        ):
            plan.variance(nz.Query(schema, {"age": outside}))
    with pytest.raises(UnanswerableError, match="'age'"):
        plan.variance(nz.Query(schema, ["age", "sex"], matrix=np.eye(1, 12)))


def test_a_contrast_does_not_tell_the_total() -> None:
    """Only a difference was asked, and only it is measured."""
    schema = nz.Schema.from_sizes({"a": 4})
    contrast = nz.Query(schema, {"a": nz.Custom([[1.0, 1.0, -1.0, -1.0]])})
    plan = nz.plan(nz.Workload([contrast]), budget=ONE)
    assert plan.variance(contrast) == pytest.approx([1.0])
    with pytest.raises(UnanswerableError, match="total"):
        plan.variance(nz.Query(schema, []))


def test_another_schema(pairs_plan: nz.Plan) -> None:
    other = nz.Schema.from_sizes({"a": 4, "b": 3})
    with pytest.raises(UnanswerableError, match="another schema"):
        pairs_plan.variance(nz.Query(other, ["a"]))
    known = nz.Query(pairs_plan.workload.schema, ["a"])
    with pytest.raises(UnanswerableError, match="another schema"):
        pairs_plan.covariance(known, nz.Query(other, ["a"]))


def test_an_equal_schema_is_the_same_schema(pairs_plan: nz.Plan) -> None:
    twin = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2, "d": 5})
    assert pairs_plan.variance(nz.Query(twin, ["a"])).shape == (4,)
