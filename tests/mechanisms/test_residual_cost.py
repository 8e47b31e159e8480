"""What records pay for residuals: patterns of agreement against all pairs of records."""

from __future__ import annotations

import math
from itertools import combinations, product
from math import comb, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import Written, dearest

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.mechanisms import residual_cost as costs
from noiseplan.mechanisms.basis import Basis, WideBasis
from noiseplan.mechanisms.blocks import Block, group_blocks
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise import Noise

Array = np.ndarray[Any, Any]
EVEN = Basis.orthogonal(3)  # columns of equal length: β = 2/3, γ = −1/3
ODD = Basis.from_rows(np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0]]))


def block(sets: list[tuple[int, ...]], sigma2: list[float], basis: Basis) -> Block:
    width = len(sets[0])
    rows = np.array(sets, dtype=np.int64).reshape(len(sets), width)
    return Block(rows, Noise("gaussian", sigma2), (basis,) * width)


# ---------------------------------------------------------------------- patterns


@given(st.integers(1, 5), st.floats(-2, 0), st.floats(0.1, 3), st.data())
def test_overlaps_are_sums_over_all_places(
    members: int, low: float, high: float, data: st.DataObject
) -> None:
    """Σ over sets of a attributes of ∏ β (where records agree) ∏ γ (where they do not)."""
    counts = np.array(data.draw(st.lists(st.integers(0, members), min_size=1, max_size=3)))
    table = costs._overlaps(members, counts, low, high)
    for agree in range(members + 1):
        each = [high] * agree + [low] * (members - agree)
        for a in range(int(counts.max()) + 1):
            brute = sum(prod(chosen) for chosen in combinations(each, a))
            assert table[agree, a] == pytest.approx(brute, abs=1e-9)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(0, 10**6))
def test_pattern_costs_are_those_of_pairs(members: list[int], seed: int) -> None:
    """Every kind of set, every way to agree: 2(∏β − shared), summed over the sets of that kind."""
    rng = np.random.default_rng(seed)
    low, high = -rng.random(len(members)), 1 + rng.random(len(members))
    reach = np.column_stack([low, high, 2 * (high - low)])
    counts = np.array([[rng.integers(0, n + 1) for n in members] for _ in range(3)])
    found = costs.pattern_costs(counts, np.array(members), reach)
    assert found is not None
    if counts.sum(axis=1).max() <= 1:  # records that differ in every attribute cost most
        np.testing.assert_allclose(found, [counts @ (np.array(members) * reach[:, 2])])
        return
    owner = [c for c, n in enumerate(members) for _ in range(n)]
    patterns = [p for p in product(*(range(n + 1) for n in members)) if list(p) != members]
    assert len(found) == len(patterns)
    for row, pattern in zip(found, patterns, strict=True):
        agree, seen = [], [0] * len(members)
        for c in owner:
            agree.append(seen[c] < pattern[c])
            seen[c] += 1
        for kind, count in enumerate(counts.tolist()):
            total = 0.0
            for chosen in combinations(range(len(owner)), sum(count)):
                if [sum(owner[i] == c for i in chosen) for c in range(len(members))] == count:
                    own = prod(reach[owner[i], 1] for i in chosen)
                    shared = prod(reach[owner[i], int(agree[i])] for i in chosen)
                    total += 2 * (own - shared)
            assert row[kind] == pytest.approx(max(total, 0.0), abs=1e-9)


@given(st.integers(1, 4), st.integers(0, 10**6))
def test_the_bound_is_above_every_pattern(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = -rng.random(classes), 1 + rng.random(classes)
    reach = np.column_stack([low, high, 2 * (high - low)])
    counts = rng.integers(0, 2, (4, classes))  # one attribute of each class at most
    found = costs.pattern_costs(counts, np.ones(classes, np.int64), reach)
    added = np.array([prod(reach[c, 1] for c in np.flatnonzero(row)) for row in counts])
    bound = costs.pattern_bound(counts, added, reach)
    assert found is not None
    assert (found <= bound + 1e-12).all()
    assert (bound[~counts.any(axis=1)] == 0).all()  # the total does not change


def test_patterns_are_listed_only_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "PATTERN_LIMIT", 12)
    assert costs.few_patterns([3, 2]) and not costs.few_patterns([3, 3])
    reach = np.array([[-1.0, 1.0, 4.0], [-1.0, 1.0, 4.0]])
    assert costs.pattern_costs(np.ones((1, 2), np.int64), np.array([3, 3]), reach) is None


# ---------------------------------------------------------------------- costs


@pytest.mark.parametrize("basis", [EVEN, ODD], ids=["even", "odd"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_all_pairs_of_records(basis: Basis, neighbours: str) -> None:
    """Exactly, whether columns have equal lengths or not."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    sets = [np.array([[0], [1]]), np.array([[0, 1]])]
    blocks = group_blocks(sets, [np.array([1.0, 3.0]), np.array([2.0])], (basis,), np.zeros(2, int))
    u, one = np.asarray(basis.measure), np.ones((1, 3))
    rows = np.vstack([np.kron(u, one), np.kron(one, u), np.kron(u, u)])
    sizes = np.repeat([1.0, 3.0, 2.0], [len(u), len(u), len(u) ** 2])
    asked = Written(ResidualMechanism(schema, blocks)).sizes
    assert sorted(asked) == sorted(sizes)
    brute = dearest(rows, sizes, 2, neighbours)
    stated = costs.residual_cost(blocks.blocks, neighbours)  # type: ignore[arg-type]
    assert brute <= stated <= brute * (1 + 1e-9)


def test_costs_are_rounded_up() -> None:
    third = [block([(0,)], [3.0], EVEN)] * 7
    exact = 7 * (2 / 3) / 3
    assert math.nextafter(exact, 0) < costs.residual_cost(third, "add-remove") <= exact * (1 + 1e-9)


def test_only_the_number_of_records_may_be_exact() -> None:
    total, table = block([()], [0.0], EVEN), block([(0,)], [0.0], EVEN)
    costs.require_noise([total], "replace")
    assert costs.residual_cost([total], "replace") == 0.0
    for blocks, neighbours in (
        ([total], "add-remove"),
        ([table], "replace"),
        ([table], "add-remove"),
    ):
        with pytest.raises(PlanError, match="without noise"):
            costs.residual_cost(blocks, neighbours)  # type: ignore[arg-type]


def test_the_same_attribute_by_other_rows_is_noticed() -> None:
    again = Basis.from_rows(np.asarray(ODD.measure).copy())
    assert costs.same_bases([block([(0,), (1,)], [1, 1], ODD), block([(0,)], [1], again)])
    assert costs.same_bases([block([(0,)], [1], ODD), block([(1,)], [1], EVEN)])
    assert not costs.same_bases([block([(0,), (1,)], [1, 1], ODD), block([(1,)], [1], EVEN)])
    wide = WideBasis(300)
    assert costs.same_bases([block([(0,)], [1], wide), block([(0,)], [1], WideBasis(300))])
    assert not costs.same_bases([block([(0,)], [1], wide), block([(0,)], [1], WideBasis(300, 2.0))])


@given(st.integers(3, 6), st.integers(0, 10**6))
def test_classes_never_hide_a_dear_pattern(many: int, seed: int) -> None:
    """Some sets of pairs, some noise: by classes as by all patterns, and never below."""
    rng = np.random.default_rng(seed)
    pairs = [p for p in combinations(range(many), 2) if rng.random() < 0.7] or [(0, 1)]
    noise = rng.choice([1.0, 4.0], len(pairs)).tolist()
    blocks = [block(pairs, noise, EVEN)]
    every = costs.replaced_cost(blocks)
    shared = [
        sum(
            2 / s * ((2 / 3) ** 2 - prod(2 / 3 if agree[i] else -1 / 3 for i in pair))
            for pair, s in zip(pairs, noise, strict=True)
        )
        for agree in product([False, True], repeat=many)
    ]
    assert every == pytest.approx(max(shared), rel=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "EVERY_PATTERN", 0)
        assert costs.replaced_cost(blocks) == pytest.approx(every, rel=1e-9)
        patch.setattr(costs, "PATTERN_LIMIT", 1)
        assert costs.replaced_cost(blocks) >= every * (1 - 1e-12)


def test_nothing_measured_costs_nothing() -> None:
    assert costs.replaced_cost([]) == 0.0
    assert costs.residual_cost([block([()], [2.0], EVEN)], "add-remove") == pytest.approx(0.5)


def test_ways_are_products_of_binomials() -> None:
    assert costs._ways(np.array([5, 3]), np.array([2, 1])) == comb(5, 2) * comb(3, 1)
