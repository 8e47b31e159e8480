"""Which tables are measured, and with how much of ε: closed forms, brute force, merging."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad, minimize

import noiseplan as nz
from depth import seeds
from noiseplan.optimize.laplace_allocation import Law, Loss, _Sharing, best_spending
from noiseplan.planning.attribute_strategies import role_strategies
from noiseplan.planning.planners.table_plans import _merged, _shared
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import largest, own_loss, p_norm, smooth_loss
from noiseplan.planning.table_merging import merged_tables
from noiseplan.planning.table_types import TableTypes, find_table_types, variances
from noiseplan.planning.workload_types import Design, prepare

SQUARES = nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v)


def marginals(sizes: list[int], k: int) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate(sizes)})
    return nz.Workload.marginals(schema, k=k)


def spent(types: TableTypes) -> float:
    loss = Loss.total(variances(types.design, types.strategies))
    return types.spend(loss, types.law(1.0, exact=False)).value


def types_of(design: Design, larger: list[tuple[int, ...]] | None = None) -> TableTypes:
    return find_table_types(design, role_strategies(design, {}, None), larger)


@pytest.mark.parametrize(
    "loss",
    [
        lambda rng: Loss.total(rng.random(5)),
        lambda rng: largest(sp.csr_array(rng.random((4, 5)))),
        lambda rng: smooth_loss(
            sp.csr_array(rng.random((4, 5))), p_norm(3.0, np.arange(1.0, 5)), nz.PNormVariance(3)
        ),
        lambda rng: smooth_loss(sp.csr_array(rng.random((4, 5))), own_loss(SQUARES), SQUARES),
    ],
    ids=["total", "worst", "p-norm", "own"],
)
def test_gradient(loss) -> None:
    rng = np.random.default_rng(0)
    told = sp.csr_array(rng.random((5, 8)) * (rng.random((5, 8)) < 0.7) + 0.01)
    loss = loss(rng)
    law = Law(3.0, rng.random(8) < 0.5)
    problem = _Sharing(loss, told, rng.uniform(1, 4, 8), law)
    for one in loss.smooth:
        y = rng.normal(size=8)
        value = partial(problem.smooth, loss=one)
        wrong = check_grad(lambda x: value(x)[0], lambda x: value(x)[1], y)  # noqa: B023
        assert wrong < 1e-5 * max(1.0, float(np.abs(value(y)[1]).max()))


def test_tables_that_tell_nothing_of_each_other_share_by_cube_roots() -> None:
    """minimise Σ 2v/s² with Σ ps = 1: 2 (Σ (p²v)^{1/3})³, shares as the cube roots."""
    rng = np.random.default_rng(1)
    v, p = rng.uniform(0.1, 9, 6), rng.uniform(1, 5, 6)
    found = best_spending(Loss.total(v), sp.csr_array(np.eye(6)), p, Law(1.0, np.zeros(6, bool)))
    roots = np.cbrt(p**2 * v)
    assert found.value == pytest.approx(2 * roots.sum() ** 3, rel=1e-8)
    np.testing.assert_allclose(found.shares, roots / roots.sum(), rtol=1e-3)


@pytest.mark.parametrize("seed", seeds(6))
def test_no_random_start_does_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 3).tolist()
    types = types_of(prepare(marginals(sizes, 2), share=False))
    found, variance = spent(types), variances(types.design, types.strategies)
    wanted = variance > 0
    told = types.told.toarray()[wanted]

    def value(y: np.ndarray) -> float:
        s = np.exp(y)
        spent = (types.price @ s) ** 2
        return float(np.log(2 * (variance[wanted] / (told @ s**2)).sum() * spent))

    for _ in range(15):
        tried = minimize(value, rng.normal(scale=2, size=len(types.price)), method="L-BFGS-B")
        assert found <= np.exp(tried.fun) * 1.005


def test_one_table_is_measured_where_it_tells_all() -> None:
    """Two attributes of two values: one table of four cells instead of two of two."""
    plan = nz.plan(marginals([2, 2], 1), budget=nz.PureDP(1.0), noise="laplace")
    # By the full table a 1-way cell has variance 2 · 2 = 4; by two halves of ε it has 8. By the
    # total and two differences at b = 3 it has (18 + 18)/4 = 9.
    assert plan.total_variance <= 16 * (1 + 1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize(("sizes", "k"), [([3] * 7, 2), ([2] * 9, 3), ([2, 3, 4, 5, 6, 7], 2)])
def test_merged_tables_cover_what_is_asked(sizes: list[int], k: int) -> None:
    design = prepare(marginals(sizes, k), share=False)
    strategies = role_strategies(design, {}, None)
    keys, shares = merged_tables(design, strategies, variances(design, strategies))
    assert shares.sum() == pytest.approx(1.0)
    for row in design.terms.subset_roles:
        assert any(set(row[row >= 0].tolist()) <= set(key) for key in keys)
    problem = Problem(marginals(sizes, k), nz.PureDP(1.0), noise="laplace")
    merged = _merged(problem, _shared(problem, {}))
    alike = spent(types_of(prepare(marginals(sizes, k))))
    plan = nz.plan(marginals(sizes, k), budget=nz.PureDP(1.0), noise="laplace")
    assert plan.total_variance <= min(merged.spending.value / 0.99, alike) * (1 + 1e-9)


def test_merging_beats_symmetry_by_far() -> None:
    """All pairs of twenty attributes of two values: symmetric plans measure 211 tables."""
    plan = nz.plan(marginals([2] * 20, 2), budget=nz.PureDP(1.0))
    alike = types_of(plan.design, [])
    symmetric = spent(types_of(prepare(plan.workload)))
    assert len(alike.tables) >= 211
    assert plan.total_variance < 0.5 * symmetric
    assert plan.mechanism.steps < 60
