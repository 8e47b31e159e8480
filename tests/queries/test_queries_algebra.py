"""Equivalence, containment and crossproducts of workloads, against matrices written out."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.domain.gram import workload_gram

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 4, "one": 1})
FACTORS: dict[str, list[nz.queries.Factor]] = {
    "a": [nz.Identity(), nz.Prefix(), nz.Ranges(), nz.Levels({0: "x", 1: "x", 2: "y"})],
    "b": [nz.Identity(), nz.Custom([[1, -1]])],
    "c": [nz.Identity(), nz.Prefix(), nz.Custom([[1, 1, 0, 0], [0, 0, 1, 1]])],
    "one": [nz.Identity()],
}


def drawn(random: np.random.Generator, queries: int, matrices: bool = True) -> nz.Workload:
    """Queries of random factors; some are dense matrices over two attributes."""
    found = []
    for _ in range(queries):
        names = [name for name in SCHEMA.names if random.random() < 0.5]
        weight = float(random.choice([0.5, 1.0, 2.0]))
        if matrices and random.random() < 0.2:
            rows = random.integers(-1, 2, (2, 6))
            rows[0, 0] = 1
            found.append(nz.Query(SCHEMA, ["a", "b"], matrix=rows, weight=weight))
        else:
            factors = {n: FACTORS[n][random.integers(len(FACTORS[n]))] for n in names}
            found.append(nz.Query(SCHEMA, factors, weight=weight))
    return nz.Workload(found)


def least_eigenvalue(one: nz.Workload, other: nz.Workload) -> float:
    gap = workload_gram(one) - workload_gram(other)
    values = np.linalg.eigvalsh(gap)
    return float(values[0] / max(np.abs(values).max(), 1e-300))


@pytest.mark.parametrize("seed", seeds(60))
def test_containment_is_that_of_the_matrices_written_out(seed: int) -> None:
    random = np.random.default_rng(seed)
    other = drawn(random, 2, matrices=seed % 2 == 0)
    more = drawn(random, 3, matrices=seed % 3 == 0)
    cells = nz.Query(SCHEMA, list(SCHEMA.names), weight=float(random.choice([0.1, 3.0, 30.0])))
    for one in (more, more + cells, other + more, nz.Workload([cells])):
        for left, right in ((one, other), (other, one)):
            gap = np.abs(workload_gram(left) - workload_gram(right)).max()
            assert left.equivalent(right) == (gap < 1e-12)
            assert left.contains(right) == (least_eigenvalue(left, right) > -1e-10)


def test_both_answers_occur_among_the_drawn() -> None:
    """So that the comparison above says something in both directions, with mixed signs."""
    found = set()
    for seed in seeds(60):
        random = np.random.default_rng(seed)
        other, more = drawn(random, 2), drawn(random, 3)
        cells = nz.Query(SCHEMA, list(SCHEMA.names), weight=30.0)
        found.add((more + cells).contains(other))
    assert found == {True, False}


@pytest.mark.parametrize("seed", seeds(5))
def test_rows_that_are_turned_are_equivalent(seed: int) -> None:
    random = np.random.default_rng(seed)
    workload = drawn(random, 3)
    rows = np.vstack([np.sqrt(q.weight) * q.dense() for q in workload])
    turn = np.linalg.qr(random.standard_normal((len(rows) + 2, len(rows))))[0]
    turned = nz.Workload.from_matrix(turn @ rows, SCHEMA)
    assert workload.equivalent(turned) and turned.equivalent(workload)
    assert workload.contains(turned) and turned.contains(workload)
    assert not workload.equivalent(nz.Workload.from_matrix(1.0001 * turn @ rows, SCHEMA))


def test_a_contained_workload_is_never_harder() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    ranges, cells = nz.Workload.all_ranges(schema), nz.Workload.marginals(schema, k=2)
    assert ranges.contains(cells) and not cells.contains(ranges)
    assert nz.bounds(cells).lower <= nz.bounds(ranges).lower


def _weighted(workload: nz.Workload, factor: float) -> nz.Workload:
    total = nz.Workload([nz.Query(nz.Schema.from_sizes({"unit": 1}), [], weight=factor)])
    crossed = workload * total
    return nz.Workload([nz.Query(workload.schema, q.factors, weight=q.weight) for q in crossed])


def test_factors_that_do_not_commute_over_thousands_of_cells() -> None:
    """⊗G − f ⊗11ᵀ has no negative eigenvalue up to f = ∏ 1/(1ᵀG⁻¹1), which is 1 for prefix sums."""
    schema = nz.Schema.from_sizes({"a": 14, "b": 14, "c": 13})
    sums = nz.Workload.prefix(schema)
    w = np.tril(np.ones((14, 14)))
    assert np.ones(14) @ np.linalg.solve(w.T @ w, np.ones(14)) == pytest.approx(1)
    assert sums.contains(nz.Workload([nz.Query(schema, [], weight=0.999)]))
    assert not sums.contains(nz.Workload([nz.Query(schema, [], weight=1.001)]))


def test_refusals_say_where_schemas_differ() -> None:
    one = nz.Workload.marginals(nz.Schema.from_sizes({"a": 3, "b": 2}), k=1)
    other = nz.Workload.marginals(nz.Schema.from_sizes({"a": 3, "b": 4}), k=1)
    with pytest.raises(nz.NoiseplanError, match="compared over one schema: 'b' is"):
        one.equivalent(other)
    with pytest.raises(nz.NoiseplanError, match="found the attributes"):
        one.contains(nz.Workload.marginals(nz.Schema.from_sizes({"a": 3}), k=1))
    with pytest.raises(nz.NoiseplanError, match="compared with a Workload"):
        one.contains("marginals")  # type: ignore[arg-type]
    grid = nz.Schema.from_sizes({"x": 100, "y": 100})
    sums = nz.Workload.prefix(grid)
    with pytest.raises(nz.NoiseplanError, match="at most 4,096 cells"):
        sums.contains(_weighted(nz.Workload.marginals(grid, up_to=2), 1e-9))


# ---------------------------------------------------------------- crossproducts


@pytest.mark.parametrize("seed", seeds(20))
def test_crossed_rows_are_kronecker_products(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = nz.Schema.from_sizes({"x": 3, "y": 2})
    pair = random.integers(1, 3, (2, 6))
    one = drawn(random, 3)
    other = nz.Workload(
        [
            nz.Query(sizes, {"x": nz.Prefix()}, weight=3.0),
            nz.Query(sizes, ["x", "y"], matrix=pair, name="pair"),
            nz.Query(sizes, []),
        ]
    )
    crossed = one * other
    assert crossed.schema.names == ("a", "b", "c", "one", "x", "y")
    dense = np.vstack([np.sqrt(q.weight) * q.dense() for q in crossed])
    both = [np.vstack([np.sqrt(q.weight) * q.dense() for q in w]) for w in (one, other)]
    expected = np.kron(*both)
    np.testing.assert_allclose(dense.T @ dense, expected.T @ expected, atol=1e-9)
    assert crossed.rows == one.rows * other.rows


def test_crossing_keeps_rows_names_and_weights() -> None:
    ages = nz.Workload([nz.Query(nz.Schema.from_sizes({"age": 3}), {"age": nz.Prefix()}, weight=2)])
    sex = nz.Schema({"sex": nz.Categorical(["F", "M"])})
    people = nz.Workload([nz.Query(sex, ["sex"], weight=5.0, name="by sex"), nz.Query(sex, [])])
    crossed = ages * people
    assert [q.name for q in crossed] == ["prefix(age) × by sex", "prefix(age)"]
    assert [q.weight for q in crossed] == [10.0, 2.0]
    np.testing.assert_array_equal(crossed[0].dense(), np.kron(ages[0].dense(), people[0].dense()))
    assert [q.name for q in people * ages] == ["by sex × prefix(age)", "prefix(age)"]
    assert (ages * nz.Query(sex, ["sex"]))[0].name == "prefix(age) × sex"


def test_crossing_over_one_schema_joins_conditions() -> None:
    young = nz.Workload.predicates(SCHEMA, ["a < 2", "a = 2"])
    both = young * nz.Workload.predicates(SCHEMA, {"late": "c >= 3 or b = 1"})
    assert both.schema == SCHEMA
    joined = nz.Workload.predicates(SCHEMA, ["a < 2 and (c >= 3 or b = 1)"])
    np.testing.assert_array_equal(both["a < 2 × late"].dense(), joined[0].dense())


def test_the_best_of_a_product_is_the_product() -> None:
    """Theorem 4.13: the SVD bound of a crossproduct is the product of both."""
    one = nz.Workload.prefix(nz.Schema.from_sizes({"x": 6}))
    other = nz.Workload.all_ranges(nz.Schema.from_sizes({"y": 5}))
    svd = [nz.bounds(w).svd for w in (one, other, one * other)]
    assert svd[2] == pytest.approx(svd[0] * svd[1], rel=1e-9)


def test_what_cannot_be_crossed() -> None:
    one = nz.Workload.marginals(SCHEMA, k=1)
    with pytest.raises(nz.NoiseplanError, match="both ask about 'a'"):
        one * one
    other = nz.Workload.marginals(nz.Schema.from_sizes({"a": 5}), k=1)
    with pytest.raises(nz.NoiseplanError, match="declare alike what they share, and 'a'"):
        one * other
    with pytest.raises(TypeError):
        one * 2  # type: ignore[operator]
