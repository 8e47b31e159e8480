"""Certificates: bounds never above the optimum, near it where that is known, and what is said."""

from __future__ import annotations

from itertools import combinations, permutations
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds, some
from noiseplan.matrices.base import Array
from noiseplan.optimize.exchangeable_sums import ExchangeableSums, fillings
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.planning import bounds
from noiseplan.planning.attribute_heads import PricedFactors
from noiseplan.planning.cell_classes import classes_of
from noiseplan.planning.certify import RowWeights, norm_bound
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.nuclear_norm import HeadedWorkload
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.report import Design as PageDesign
from noiseplan.report import planning_page

BUDGET = nz.zCDP(0.5)
FACTORS = (nz.Identity(), nz.Prefix(), nz.Ranges(), nz.Total())


def random_workload(seed: int, joint: bool = False) -> nz.Workload:
    rng = np.random.default_rng(seed)
    sizes = {f"a{i}": int(n) for i, n in enumerate(rng.integers(2, 6, 3))}
    schema = nz.Schema.from_sizes(sizes)
    queries = []
    for _ in range(int(rng.integers(2, 6))):
        on = [name for name in sizes if rng.random() < 0.6] or ["a0"]
        factors = {name: FACTORS[rng.integers(4)] for name in on}
        queries.append(nz.Query(schema, factors, weight=float(rng.uniform(0.2, 3))))
    if joint:
        matrix = rng.integers(-1, 2, (3, sizes["a0"] * sizes["a1"])) + 0.0
        queries.append(nz.Query(schema, ["a0", "a1"], matrix=matrix))
    return nz.Workload(queries)


def prefixes(values: int, attributes: int, ways: int) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": values for i in range(attributes)})
    return nz.Workload.marginals(schema, k=ways, factors=dict.fromkeys(schema.names, nz.Prefix()))


def nuclear_norm(design: Design, records: dict[int, Array]) -> float:
    """‖W Λ^{1/2}‖_* by the singular values of all rows over all cells."""
    weights = np.ones(1)
    for attribute, role in enumerate(design.roles.of_attribute.tolist()):
        size = design.workload.schema.shape[attribute]
        each = np.full(size, 1.0 / size)
        if role in records:
            groups = design.groups[role]
            each = (records[role] / np.bincount(groups))[groups]
        weights = np.kron(weights, each)
    rows = np.concatenate([sqrt(q.weight) * q.domain_matrix.dense() for q in design.workload])
    return float(np.linalg.svd(rows * np.sqrt(weights), compute_uv=False).sum())


# ---------------------------------------------------------------------- sums over placements


def brute_sum(matrices: list[Array], factors: int, placed: tuple[int, ...]) -> Array:
    letters = len(matrices[0])
    absent = np.zeros((letters, letters))
    absent[0, 0] = 1.0
    kinds = [0] * (factors - sum(placed)) + [f + 1 for f, k in enumerate(placed) for _ in range(k)]
    total = np.zeros((letters**factors, letters**factors))
    for order in set(permutations(kinds)):
        one = np.ones((1, 1))
        for kind in order:
            one = np.kron(one, [absent, *matrices][kind])
        total += one
    return total


@pytest.mark.parametrize(
    ("letters", "factors", "placed"),
    [
        (3, 4, [(2, 0), (1, 1)]),
        (2, 5, [(2, 1), (3, 0)]),
        (4, 3, [(1, 1), (0, 3)]),
        (3, 1, [(1, 0)]),
    ],
)
def test_blocks_have_the_eigenvalues_of_the_whole(
    letters: int, factors: int, placed: list[tuple[int, int]]
) -> None:
    rng = np.random.default_rng(letters)
    roots = rng.normal(size=(2, letters, letters))
    matrices = [root @ root.T for root in roots]
    weights = rng.uniform(0.5, 2, len(placed))
    whole = sum(w * brute_sum(matrices, factors, k) for w, k in zip(weights, placed, strict=True))
    found: list[float] = []
    for block in ExchangeableSums(matrices, set(placed), 1000).blocks(factors):
        zero = np.zeros((len(block.present),) * 2)
        own = sum(w * block.sums.get(k, zero) for w, k in zip(weights, placed, strict=True))
        found += [*np.linalg.eigvalsh(own)] * round(block.often)
    expected = np.linalg.eigvalsh(whole)
    missing = np.zeros(len(expected) - len(found))  # states with too many letters: all zero
    np.testing.assert_allclose(np.sort([*found, *missing]), expected, atol=1e-9 * expected[-1])


def test_fillings_are_the_dimensions_of_all_permutations() -> None:
    shapes = [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert [fillings(shape) for shape in shapes] == [1, 3, 2, 3, 1]
    assert sum(fillings(shape) ** 2 for shape in shapes) == 24


# ---------------------------------------------------------------------- the norm


@pytest.mark.parametrize("seed", seeds(8))
def test_norm_with_all_heads_is_that_of_the_matrix(seed: int) -> None:
    design = prepare(random_workload(seed))
    records = bounds._record_weights(design, optimise_total(design))
    exact = nuclear_norm(design, records)
    whole = bounds.Effort(1, 1e12, 10_000, 100, 0)
    found = bounds._structured(design, records, whole)
    assert found <= exact * (1 + 1e-9)
    assert found == pytest.approx(exact, rel=1e-6)
    if design.free:
        classes = classes_of(design, design.workload.schema.size)
        over = bounds._by_cells_or_rows(design, classes, records, whole)
        assert over == pytest.approx(exact, rel=1e-6)
        products = bounds.row_products(design, bounds._attribute_weights(design, records))
        assert products is not None
        assert float(bounds.root_trace(products)) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_few_heads_of_prefix_sums_are_below_all_of_them_by_little(ways: int) -> None:
    design = prepare(prefixes(4, 4, ways))
    records = bounds._record_weights(design, optimise_total(design))
    exact = nuclear_norm(design, records)
    factors = PricedFactors(design, 0, records[0])
    found = [HeadedWorkload(design, {0: factors.heads(h, 0.2)}, 1000).root() for h in range(4)]
    assert all(value <= exact * (1 + 1e-9) for value in found)
    assert found[3] == pytest.approx(exact, rel=1e-9)
    assert found[2] > 0.999 * exact
    assert found[1] > 0.99 * exact
    assert found[0] < 0.97 * exact


def test_rows_of_dense_matrices_are_counted() -> None:
    design = prepare(random_workload(3, joint=True))
    records = bounds._record_weights(design, optimise_total(design))
    products = bounds.row_products(design, bounds._attribute_weights(design, records))
    assert products is not None
    exact = nuclear_norm(design, records)
    assert float(bounds.root_trace(products)) == pytest.approx(exact, rel=1e-6)


def test_centred_norm_is_that_without_the_direction_of_the_total() -> None:
    design = prepare(prefixes(3, 3, 2))
    rows = np.concatenate([q.domain_matrix.dense() for q in design.workload])
    centred = rows - rows.mean(axis=1, keepdims=True)
    exact = float(np.linalg.svd(centred, compute_uv=False).sum()) / sqrt(27)
    found = bounds._structured(design, {}, bounds.THOROUGH, centred=True)
    assert found == pytest.approx(exact, rel=1e-6)


# ---------------------------------------------------------------------- the total variance


@pytest.mark.parametrize("seed", seeds(16))
def test_bound_is_below_the_optimum_and_near_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DENSE_CELLS", 0)
    workload = random_workload(seed, joint=seed % 4 == 0)
    best = dense_optimum(prepare(workload).gram(), 1e-7)
    plan = nz.plan(workload, budget=BUDGET, planner="residual", noise="gaussian")
    assert plan.lower_bound <= best.value * (1 + 1e-9)
    assert plan.lower_bound >= (0.95 if seed % 4 == 0 else 0.985) * best.bound


@pytest.mark.parametrize(
    ("ways", "most"), some([(1, 0.0064), (2, 0.0133), (3, 0.0186), (5, 1e-4)], 2)
)
def test_prefix_tables_of_five_attributes(ways: int, most: float) -> None:
    plan = nz.plan(prefixes(10, 5, ways), budget=BUDGET, noise="gaussian")
    assert plan.total_variance / plan.lower_bound - 1 <= most
    assert ways > 2 or plan.certify().gap <= most


def test_bound_for_very_many_attributes() -> None:
    plan = nz.plan(prefixes(10, 60, 2), budget=BUDGET, noise="gaussian")
    assert plan.total_variance / plan.lower_bound - 1 < 0.003


# ---------------------------------------------------------------------- other objectives


def row_variances(workload: nz.Workload, covariance: Array) -> Array:
    each = [
        q.weight * np.einsum("ri,ij,rj->r", m, covariance, m)
        for q in workload
        for m in [q.domain_matrix.dense()]
    ]
    return np.concatenate(each)


@pytest.mark.grid
@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("power", [2.0, 5.0, inf])
def test_bound_on_norms_is_below_the_certified_optimum(seed: int, power: float) -> None:
    workload = random_workload(seed + 40)
    objective = nz.WorstVariance() if power == inf else nz.PNormVariance(power)
    best = nz.plan(
        workload, budget=BUDGET, objective=objective, planner="optimal", noise="gaussian"
    )
    covariance = np.linalg.pinv(best.cost_matrix(), rcond=1e-10)
    value = float(np.linalg.norm(row_variances(workload, covariance), power))
    assert best.gap is not None
    found = norm_bound(prepare(workload), power, 1.0, "add-remove")
    assert found <= value * (1 + 1e-7)
    assert found >= 0.9 * value


def test_weights_on_rows_have_their_norm_and_their_sum() -> None:
    workload = random_workload(5)
    design = prepare(workload)
    weights = RowWeights.even(design)
    inverses = {r: np.linalg.inv(np.vstack([np.ones(len(u[0])), u])) for r, u in
                optimise_total(design).items()}  # fmt: skip
    weights = weights.moved(inverses, np.ones(design.terms.subsets), 1.5)
    each = []
    for number, query in enumerate(workload):
        kind = int(design.roles.type_of_query[number])
        one = np.full(1, weights.types[kind])
        for name in query.attributes:
            attribute = list(workload.schema.names).index(name)
            pairs = [int(p) for p in design.roles.types[kind] if p >= 0]
            role = int(design.roles.of_attribute[attribute])
            (pair,) = [p for p in pairs if design.roles.pair_role[p] == role]
            size = query.factors[name].matrix(workload.schema[name]).shape[0]
            one = np.kron(one, weights.factors.get(pair, np.ones(size)))
        each.append(one)
    flat = np.concatenate(each)
    for power in (1.0, 1.25, 2.0):
        assert weights.norm(power) == pytest.approx(np.linalg.norm(flat, power), rel=1e-9)
    weighted, gram = weights.weighted(), np.zeros((workload.schema.size,) * 2)
    for query, w in zip(workload, each, strict=True):
        rows = query.domain_matrix.dense()
        gram += query.weight * (rows.T * w) @ rows
    records = bounds._record_weights(weighted, optimise_total(weighted))
    found = bounds._structured(weighted, records, bounds.THOROUGH) ** 2
    assert found <= dense_optimum(gram, 1e-7).value * (1 + 1e-9)
    assert found >= 0.97 * dense_optimum(gram, 1e-7).bound


# ---------------------------------------------------------------------- certificates of plans


def test_certificate_of_a_total() -> None:
    plan = nz.plan(prefixes(4, 3, 2), budget=BUDGET)
    assert plan.certificate is None
    found = plan.certify()
    assert plan.certificate is found
    assert found.value == plan.total_variance
    assert found.bound <= plan.total_variance
    assert found.gap == pytest.approx(found.value / found.bound - 1)
    assert found.confidence == 1.0
    assert "(certified)" in str(plan)


def test_certificate_of_the_worst_speaks_of_the_worst() -> None:
    workload = prefixes(4, 3, 2)
    plan = nz.plan(workload, budget=BUDGET, objective=nz.WorstVariance(), planner="residual")
    best = nz.plan(workload, budget=BUDGET, objective=nz.WorstVariance(), planner="optimal")
    found = plan.certify()
    assert found.value == plan.worst_variance
    assert 0.98 * best.worst_variance < found.bound <= best.worst_variance
    text = str(plan)
    assert f"worst variance {found.value:.6g}, lower bound {found.bound:.6g}" in text
    assert "total variance" not in text


def test_certificate_of_targets_is_one_on_the_cost() -> None:
    workload = prefixes(4, 3, 2)
    plan = nz.plan(workload, targets=3.0, planner="residual")
    best = nz.plan(workload, targets=3.0, planner="optimal")
    found = plan.certify()
    assert found.value == plan.privacy.pcost
    assert 0.98 * best.privacy.pcost < found.bound <= best.privacy.pcost * (1 + 1e-6)
    assert "privacy cost" in str(plan)
    relaxed = nz.plan(workload, targets=3.0, budget=nz.zCDP(0.1), planner="residual").certify()
    assert relaxed.gap == pytest.approx(found.gap, rel=0.02)


def test_certificate_of_a_norm_and_of_a_loss() -> None:
    workload = prefixes(4, 3, 2)
    for objective in (nz.PNormVariance(3), nz.ConvexLoss(lambda v: float((v**2).sum()))):
        plan = nz.plan(
            workload, budget=BUDGET, objective=objective, planner="residual", noise="gaussian"
        )
        best = nz.plan(
            workload, budget=BUDGET, objective=objective, planner="optimal", noise="gaussian"
        )
        found, optimum = plan.certify(), best.certify()
        assert optimum.gap < 1e-3
        assert found.bound <= optimum.value * (1 + 1e-9)
        assert found.bound >= 0.98 * optimum.value
        assert found.value >= optimum.bound


def test_proved_plans_are_certified_as_such() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    for objective in (nz.TotalVariance(), nz.WorstVariance()):
        plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=BUDGET, objective=objective)
        assert plan.optimal
        assert plan.certify().gap <= 3e-5
        assert "proved: no linear Gaussian mechanism" in str(plan)


@pytest.mark.parametrize("pairs", [2, 3])
def test_bound_for_replaced_records_by_brute_force(pairs: int) -> None:
    """No strategy among many has less than the bound: the cost is over all pairs of cells."""
    workload = prefixes(pairs, 2, 1)
    plan = nz.plan(workload, budget=BUDGET, neighbours="replace", noise="gaussian")
    gram = prepare(workload).gram()
    rng, cells = np.random.default_rng(0), len(gram)
    ends = np.array([np.eye(cells)[i] - np.eye(cells)[j] for i, j in combinations(range(cells), 2)])
    for trial in range(200):
        root = (
            rng.normal(size=(cells, cells)) if trial else np.linalg.cholesky(gram + np.eye(cells))
        )
        cost = root.T @ root
        worst = np.einsum("ri,ij,rj->r", ends, cost, ends).max()
        total = float(np.trace(gram @ np.linalg.inv(cost)) * worst)
        assert plan.lower_bound <= total * (1 + 1e-9)
    assert plan.lower_bound <= plan.total_variance * (1 + 1e-9)


def test_pure_plans_are_bounded_at_half_epsilon_squared() -> None:
    workload = prefixes(4, 2, 1)
    pure = nz.plan(workload, budget=nz.PureDP(1.0), noise="laplace").certify()
    gaussian = nz.plan(workload, budget=BUDGET, noise="gaussian").certify()
    assert pure.bound == pytest.approx(2 * gaussian.bound, rel=1e-6)
    assert pure.value > pure.bound


def test_what_says_nothing_is_not_printed() -> None:
    schema = nz.Schema.from_sizes({"a": 300, "b": 300})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Total()}), nz.Query(schema, ["b"])])
    plan = nz.plan(workload, budget=BUDGET, planner="identity")
    assert plan.certify().gap > 9
    assert "no bound of any use is known" in str(plan)
    assert "times" not in str(plan)


def test_persons_with_several_records_pay_for_all_of_them() -> None:
    workload = prefixes(4, 2, 1)
    one, three = (nz.plan(workload, budget=BUDGET, max_rows=m, noise="gaussian") for m in (1, 3))
    assert three.certify().gap == pytest.approx(one.certify().gap, rel=1e-6)
    met = [nz.plan(workload, targets=2.0, max_rows=m, planner="residual") for m in (1, 3)]
    assert met[1].certify().gap == pytest.approx(met[0].certify().gap, rel=1e-3)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_what_is_proved_optimal_is_certified_by_the_same_bound(neighbours: nz.Neighbours) -> None:
    """`certify` is the best bound known, so it is never below `lower_bound`."""
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 2, "b": 4}), up_to=2)
    plan = nz.plan(workload, budget=BUDGET, neighbours=neighbours, noise="gaussian")
    assert plan.optimal
    assert plan.certify().bound >= plan.lower_bound
    assert plan.certify().gap < 1e-6


@pytest.mark.parametrize(("planner", "least", "most"), [("workload", 9, 99), ("identity", 1, 9)])
def test_a_bound_far_below_is_told_in_words(planner: str, least: float, most: float) -> None:
    """On a terminal and on a page; not as a percentage, "at most 491.8 % above"."""
    schema = nz.Schema.from_sizes({"a": 16})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix()})])
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner=planner)
    certificate = plan.certify()
    assert least < certificate.gap < most
    page = planning_page([PageDesign("one", "Sums", "", plan, "")])
    sentence = (
        f"The total variance is {certificate.value:.6g}, and the lower bound "
        f"{certificate.bound:.6g} is too far below to tell how near the best this is."
    )
    assert sentence in page and "above the least" not in page
    said = [line.strip() for line in str(plan).splitlines()]
    place = said.index(f"optimality  total variance {plan.total_variance:.6g}")
    below = f"lower bound {certificate.bound:.6g}, too far below to tell how near the best this is"
    assert said[place + 1] == below


def test_a_loss_that_was_read_from_a_file_is_certified_with_nothing(tmp_path: Path) -> None:
    """Its name alone is saved: a bound on the total variance is none on it."""
    workload = prefixes(5, 2, 2) + prefixes(5, 2, 1)
    loss = nz.ConvexLoss(lambda v: float((v**3).sum()), lambda v: 3 * v**2)
    plan = nz.plan(workload, budget=BUDGET, planner="residual", objective=loss)
    assert plan.certify().bound > 0
    plan.release(np.full((5, 5), 3), seed=1).save(tmp_path / "out")
    loaded = nz.load(tmp_path / "out").plan
    assert loaded.certify().bound == 0
    assert "certified" not in str(loaded)


@pytest.mark.parametrize(
    "goal", [nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(4.0)], ids=str
)
def test_nothing_is_left_to_gain_of_plain_tables_however_many_cells(goal: Any) -> None:
    schema = nz.Schema.from_sizes({"a": 9, "b": 8, "c": 10})
    asked = nz.Workload.marginals(schema, k=2)
    plan = nz.plan(asked, budget=nz.zCDP(0.5), objective=goal)
    assert plan.optimal
    assert ("optimal", "not tried for plain tables") in plan.considered
