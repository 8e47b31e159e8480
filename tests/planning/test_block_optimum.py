"""The best precision of one block and of all together, against a convex solver and differences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from noiseplan.mechanisms.basis import MatrixBasis
from noiseplan.optimize.block_precision import PairLoad, ProductBlock, WholeBlock
from noiseplan.optimize.integer_rounding import centred, in_parts, kernel_rows
from noiseplan.planning import block_search
from noiseplan.planning.block_search import Search
from noiseplan.planning.block_types import BlockTypes
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.solve import group_inverses, role_bases
from noiseplan.planning.workload_types import Design, prepare


def random_block(seed: int, size: int, rank: int, cells: int) -> WholeBlock:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((rank, size))
    return WholeBlock(root, root @ rng.standard_normal((size, cells)))


@pytest.mark.parametrize(("seed", "size", "rank"), [(0, 3, 3), (1, 4, 4), (2, 5, 2)])
def test_a_block_alone_is_the_convex_optimum(seed: int, size: int, rank: int) -> None:
    """min tr(HΨ⁻¹) subject to u(x)ᵀΨu(x) ≤ 1, in the range of H."""
    block = random_block(seed, size, rank, 7)
    precision = cp.Variable((rank, rank), PSD=True)
    variance = sum(cp.matrix_frac(row, precision) for row in np.eye(rank))
    limits = [cp.sum(cp.multiply(np.outer(z, z), precision)) <= 1 for z in block.image.T]
    best = cp.Problem(cp.Minimize(variance), limits).solve(solver=cp.CLARABEL)
    found = block.alone()
    assert found.costs.max() == pytest.approx(1.0, rel=1e-12)
    assert best * (1 - 1e-6) <= found.variance <= best * (1 + 1e-4)
    rows = found.rows[0]  # what is measured has these costs
    np.testing.assert_allclose((rows**2).sum(axis=0), found.costs, rtol=1e-9)


def product_block(seed: int, kinds: list[list[int]]) -> ProductBlock:
    """Two attributes of 4 and 3 coordinates; pairs 0, 1 on the first, 2, 3 on the second."""
    rng = np.random.default_rng(seed)
    roots = [rng.standard_normal((n + 1, n)) for n in (4, 4, 3, 3)]
    grams = [root.T @ root for root in roots]
    columns = tuple(rng.standard_normal((n, n + 2)) for n in (4, 3))
    asked = ({0: grams[0], 1: grams[1]}, {2: grams[2], 3: grams[3]})
    weights = rng.uniform(0.5, 2.0, len(kinds))
    used = tuple(
        {p: h for p, h in one.items() if p in {k[i] for k in kinds}} for i, one in enumerate(asked)
    )
    return ProductBlock(weights, np.array(kinds), used, columns, (0, 1))


def test_a_product_of_one_kind_is_the_product_of_its_optima() -> None:
    block = product_block(3, [[0, 2]])
    alone = []
    for pair, grams, columns in zip((0, 2), block.grams, block.columns, strict=True):
        root = np.linalg.cholesky(grams[pair]).T
        alone.append(WholeBlock(root, root @ columns).alone().variance)
    expected = block.weights[0] * alone[0] * alone[1]
    assert block.alone().variance == pytest.approx(expected, rel=1e-4)


def test_pairs_that_pay_for_a_product() -> None:
    """Of one attribute they ask K = Σ λ_xy (u − u)(u − u)ᵀ, the others' rows beside it."""
    rng = np.random.default_rng(6)
    rows = [rng.standard_normal((3, 4)), rng.standard_normal((2, 3))]
    weights = rng.uniform(size=(12, 12))
    weights = weights + weights.T
    load = PairLoad(weights.sum(axis=1).reshape(4, 3), weights.reshape(4, 3, 4, 3))
    own = [Priced(r.T @ r) for r in rows]
    cells = list(product(range(4), range(3)))
    apart = [
        [np.outer(np.eye(4)[x], rows[1][:, i]) - np.outer(np.eye(4)[y], rows[1][:, j])]
        for x, i in cells
        for y, j in cells
    ]
    expected = sum(w * (d @ d.T) for w, (d,) in zip(weights.ravel(), apart, strict=True))
    np.testing.assert_allclose(load.along(0, own), expected, rtol=1e-12, atol=1e-12)
    both = np.kron(*[r.T @ r for r in rows])
    far = np.diagonal(both)[:, None] + np.diagonal(both) - 2 * both
    assert (load.whole * both).sum() == pytest.approx((weights * far).sum(), rel=1e-12)


@dataclass
class Priced:
    gram: np.ndarray

    @property
    def costs(self) -> np.ndarray:
        return np.diagonal(self.gram)


def test_no_change_of_one_attribute_makes_a_product_better() -> None:
    """Going round the attributes ends where each is the convex optimum for the others."""
    block = product_block(4, [[0, 2], [1, 3], [1, 2]])
    found = block.alone()
    assert found.costs.max() <= 1 + 1e-9
    for place in (0, 1):
        others = found.traces[1 - place] * block.weights
        gram = sum(
            others[block.kinds[:, place] == pair].sum() * h
            for pair, h in block.grams[place].items()
        )
        root = np.linalg.cholesky(gram).T
        best = WholeBlock(root, root @ block.columns[place]).alone().variance
        assert found.variance <= best * (1 + 2e-3)


# ---------------------------------------------------------------------- all blocks together


def mixed(seed: int) -> Design:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "sex": 2})
    rng = np.random.default_rng(seed)
    identity, prefix, pairs = nz.Identity(), nz.Prefix(), nz.Levels(2, leaves=False, total=False)
    tables = [
        {"a": identity, "b": prefix},
        {"a": prefix, "b": identity},
        {"a": pairs, "sex": identity},
        {"b": prefix},
    ]
    queries = [nz.Query(schema, t, weight=float(rng.uniform(0.5, 2))) for t in tables]
    return prepare(nz.Workload(queries))


def centres_of(design: Design) -> dict[int, np.ndarray]:
    bases = role_bases(design, optimise_total(design))
    return {r: t[:, 0] for r, t in group_inverses(design, bases).items()}


def test_blocks_together_are_the_convex_optimum() -> None:
    """min Σ_A tr(H_AΨ_A⁻¹) subject to Σ_A u_AᵀΨ_Au_A ≤ 1 for every record."""
    design = mixed(0)
    types = BlockTypes(design)
    search = Search(types, centres_of(design))
    found = search.together(200, 1e-7)[0]
    variance, costs = 0.0, np.zeros(types.shape, dtype=object)
    for form in search.forms:
        assert isinstance(form.solver, WholeBlock)
        root, image = form.solver.root, form.solver.image
        precision = cp.Variable((len(root), len(root)), PSD=True)
        parts = [cp.matrix_frac(row, precision) for row in np.eye(len(root))]
        variance = variance + form.block.sets * sum(parts)
        for x in product(*map(range, types.shape)):
            at = tuple(
                slot.groups[x[axis]]
                for slot, axis in zip(form.block.slots, form.block.places[0], strict=True)
            )
            cell = np.ravel_multi_index(at, form.block.values) if at else 0
            z = image[:, cell]
            own = cp.sum(cp.multiply(np.outer(z, z), precision))
            costs[x] = costs[x] + form.block.price * form.block.plain * own
    limits = [cost <= 1 for cost in costs.ravel()]
    best = cp.Problem(cp.Minimize(variance), limits).solve(solver=cp.CLARABEL)
    assert best * (1 - 1e-5) <= found.value <= best * (1 + 1e-4)
    assert search.apart().value >= found.value * (1 - 1e-4)  # a cost of its own each is dearer


def test_blocks_together_are_the_convex_optimum_for_pairs() -> None:
    """The same subject to Σ_A ‖u_A(x) − u_A(y)‖²_Ψ ≤ 1 for all pairs of cells of the schema."""
    design = mixed(1)
    types = BlockTypes(design, public=True)
    search = Search(types, centres_of(design))
    found = search.together(300, 1e-8)[0]
    cells = np.array(list(product(*map(range, design.workload.schema.shape))))
    pairs = list(combinations(range(len(cells)), 2))
    variance, costs = 0.0, [0.0] * len(pairs)
    for form in search.forms:
        root, image = form.solver.root, form.solver.image
        precision = cp.Variable((len(root), len(root)), PSD=True)
        parts = [cp.matrix_frac(row, precision) for row in np.eye(len(root))]
        variance = variance + form.block.sets * sum(parts)
        at, own = np.zeros(len(cells), dtype=int), np.ones((1, len(cells)))
        for slot in form.block.slots:
            values = cells[:, int(design.roles.roles[slot.role].members[0])]
            at = at * len(slot.frame) + slot.groups[design.groups[slot.role]][values]
        if form.block.price < 1:  # sex: I − 11ᵀ/2
            own = (np.eye(2) - 0.5)[:, cells[:, 2]]
        columns = np.einsum("ic,jc->ijc", image[:, at], own)
        for number, (x, y) in enumerate(pairs):
            apart = columns[:, :, x] - columns[:, :, y]
            if apart.any():
                costs[number] += cp.sum(cp.multiply(apart @ apart.T, precision))
    limits = [cost <= 1 for cost in costs if not isinstance(cost, float)]
    best = cp.Problem(cp.Minimize(variance), limits).solve(solver=cp.CLARABEL)
    assert types.paired
    assert best * (1 - 1e-5) <= found.value <= best * (1 + 1e-3)


def alike() -> Design:
    """Attributes that may change places: three of three values, all pairs of them."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abc", 3))
    pairs = combinations("abc", 2)
    return prepare(nz.Workload([nz.Query(schema, dict.fromkeys(p, nz.Prefix())) for p in pairs]))


def test_pairs_of_attributes_that_may_change_places() -> None:
    """One pair of a kind stands for all: they pay the same, and the best is that of all pairs."""
    design = alike()
    types = BlockTypes(design, public=True)
    search = Search(types, centres_of(design))
    found = search.together(300, 1e-8)[0]
    cells = np.array(list(product(range(3), repeat=3)))
    pairs = list(combinations(range(len(cells)), 2))
    variance, costs, paid = 0.0, [0.0] * len(pairs), np.zeros(len(pairs))
    for form, point in zip(search.forms, found.points, strict=True):
        root, image = form.solver.root, form.solver.image
        precision = cp.Variable((len(root), len(root)), PSD=True)
        parts = [cp.matrix_frac(row, precision) for row in np.eye(len(root))]
        variance = variance + form.block.sets * sum(parts)
        own = np.asarray(point.grams[0])
        for place in form.block.places:
            at = np.ravel_multi_index(tuple(cells[:, place].T), (3,) * len(place))
            for number, (x, y) in enumerate(pairs):
                apart = image[:, [at[x]]] - image[:, [at[y]]]
                costs[number] += cp.sum(cp.multiply(apart @ apart.T, precision))
                i, j = at[x], at[y]
                paid[number] += own[i, i] + own[j, j] - 2 * own[i, j]
    best = cp.Problem(cp.Minimize(variance), [cost <= 1 for cost in costs]).solve(cp.CLARABEL)
    assert len(found.costs) < len(pairs) / 4
    assert search.payers.even.sum() == len(pairs)
    assert np.unique(paid.round(10)).tolist() == np.unique(found.costs.round(10)).tolist()
    assert best * (1 - 1e-5) <= found.value <= best * (1 + 1e-3)


def test_the_slope_in_tau_where_pairs_pay() -> None:
    """Of log(variance · mean cost), the pairs' weights being what they are."""
    design = mixed(0)
    types, centres = BlockTypes(design, public=True), centres_of(design)
    best, weights = Search(types, centres).together()

    def value(there: dict[int, np.ndarray]) -> float:
        found = Search(types, there)._visit(weights, None)
        return float(np.log(found.variance * (weights @ found.costs)))

    for role, slope in block_search._slopes(best, weights).items():
        for direction in MatrixBasis.orthogonal(len(slope)).recover.T:
            ends = [value({**centres, role: centres[role] + h * direction}) for h in (1e-5, -1e-5)]
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope @ direction, abs=1e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_slope_of_the_total_in_tau(seed: int) -> None:
    design = mixed(seed)
    types, centres = BlockTypes(design), centres_of(design)
    best, weights = Search(types, centres).together(300, 1e-10)
    slopes = block_search._slopes(best, weights)
    for role, slope in slopes.items():
        frame = MatrixBasis.orthogonal(len(slope)).recover
        for direction in frame.T:
            ends = []
            for step in (1e-4, -1e-4):
                there = {**centres, role: centres[role] + step * direction}
                moved = Search(types, there).together(300, 1e-10, weights)[0]
                ends.append(np.log(moved.value))
            assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(slope @ direction, abs=2e-4)


# ---------------------------------------------------------------------- integer rows


def test_tau_in_parts() -> None:
    assert in_parts(np.full(5, 0.2)).tolist() == [1] * 5
    rng = np.random.default_rng(0)
    for size in (2, 7, 40):
        centre = rng.uniform(0.5, 1.5, size)
        centre /= centre.sum()
        parts = in_parts(centre)
        np.testing.assert_allclose(parts / parts.sum(), centre, atol=1 / 256)


@pytest.mark.parametrize("size", [3, 4])
def test_rows_in_the_kernel_are_the_nearest(size: int) -> None:
    """Against all integer rows around."""
    rng = np.random.default_rng(size)
    parts = rng.integers(1, 6, size)
    rows = rng.normal(0, 10, (6, size))
    rows -= np.outer(rows @ parts, parts) / (parts @ parts)
    found = kernel_rows(rows, parts)
    assert (found == np.rint(found)).all() and not (found @ parts).any()
    for row, own in zip(rows, found, strict=True):
        moves = np.array(list(product(range(-3, 4), repeat=size)))
        around = np.rint(row) + moves
        near = around[around @ parts == 0]
        least = ((near - row) ** 2).sum(axis=1).min()
        assert ((own - row) ** 2).sum() == pytest.approx(least)


def test_rows_in_the_kernel_where_none_is_near() -> None:
    """Two values leave one direction only: s·r − (r·t)1ᵀ is in it."""
    parts = np.array([100, 157])
    rows = np.array([[157.0, -100.0]]) * 0.05
    found = kernel_rows(rows, parts)
    assert found.any() and not (found @ parts).any()


def test_integer_rows_over_cells_see_no_sum() -> None:
    rng = np.random.default_rng(5)
    parts = [np.array([3, 4, 1]), np.array([2, 2, 5, 7])]
    rows = centred(rng.integers(-50, 50, (4, 12)).astype(float), parts)
    cube = rows.reshape(4, 3, 4)
    assert not np.tensordot(cube, parts[0], axes=(1, 0)).any()
    assert not np.tensordot(cube, parts[1], axes=(2, 0)).any()
