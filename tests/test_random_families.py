"""Workloads drawn at random: each as likely as the description says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.random_families import (
    clustered_ranges,
    random_marginals,
    random_predicates,
    random_ranges,
    spatial_ranges,
)
from scipy.stats import chisquare, halfnorm, kstest

import noiseplan as nz
from depth import seeds

CUBE = nz.Schema.from_sizes({"a": 2, "b": 3, "c": 2, "d": 4})
LINE = nz.Schema.from_sizes({"x": 4096})


def ends(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last of the ones in each row, which must be a range."""
    first = rows.argmax(axis=1)
    last = rows.shape[1] - 1 - rows[:, ::-1].argmax(axis=1)
    np.testing.assert_array_equal(rows.sum(axis=1), last - first + 1)
    return first, last


def test_clustered_ranges_reach_as_far_as_a_normal_number() -> None:
    wide = nz.Schema.from_sizes({"x": 1_000_000})
    rows = clustered_ranges(
        nz.Schema.from_sizes({"x": 10_000}), 600, clusters=1, spread=0.05, seed=3
    )[0].dense()
    first, last = ends(rows)
    centre = (first.max() + last.min()) / 2  # all ranges hold it
    assert (first <= centre).all() and (last >= centre).all()
    for reach in (centre - first, last - centre):
        assert kstest(reach / 500.0, halfnorm.cdf).pvalue > 1e-3
    assert clustered_ranges(wide, 10, seed=1).rows == 10


def test_clusters_have_ranges_in_turn() -> None:
    workload = clustered_ranges(LINE, 2000, clusters=5, spread=1e-9, seed=1)
    rows = workload[0].dense()
    first, last = ends(rows)
    np.testing.assert_array_equal(first, last)  # no reach: the centres themselves
    assert len(set(first.tolist())) == 5
    assert set(Counter(first.tolist()).values()) == {400}


def test_clusters_of_boxes_stay_inside() -> None:
    workload = clustered_ranges(CUBE, 50, spread=2.0, seed=4)
    assert workload.schema is CUBE and sum(q.weight for q in workload) == 50
    assert all(q.rows == 1 and q.dense().any() for q in workload)


def test_boxes_of_each_shape_in_any_place_alike() -> None:
    schema = nz.Schema.from_sizes({"x": 6, "t": 3, "y": 5})
    shapes = [(2, 5), (6, 1)]
    workload = spatial_ranges(schema, shapes, 3000, attributes=["x", "y"], seed=2)
    weight: Counter[tuple[int, ...]] = Counter()
    for query in workload:
        sides = [ends(m.dense()) for m in query.matrices()]
        box = tuple(int(v[0]) for side in sides for v in side)
        weight[box] += int(query.weight)
    expected = {(f, f + 1, 0, 4) for f in range(5)} | {(0, 5, g, g) for g in range(5)}
    assert set(weight) == expected and weight.total() == 6000
    assert chisquare([weight[box] for box in sorted(weight)]).pvalue > 1e-3


def test_tables_are_drawn_alike_and_once() -> None:
    drawn: Counter[tuple[str, ...]] = Counter()
    for seed in seeds(1500):
        workload = random_marginals(CUBE, 3, up_to=2, seed=seed)
        assert len(workload) == 3 and set(workload.columns.weights) == {1.0}
        drawn.update(query.attributes for query in workload)
    assert len(drawn) == 11
    # Three of eleven without replacement: less variance than independent draws have.
    assert chisquare(list(drawn.values())).pvalue > 1e-3
    every = random_marginals(CUBE, 16, seed=1)
    assert every.equivalent(nz.Workload.cube(CUBE))


def test_predicates_are_drawn_alike_from_all() -> None:
    schema = nz.Schema.from_sizes({"x": 3})
    workload = random_predicates(schema, 6000, seed=7)
    weight = {tuple(q.dense()[0].astype(int)): q.weight for q in workload}
    assert len(weight) == 6 and (1, 1, 1) not in weight and (0, 0, 0) not in weight
    assert chisquare(list(weight.values())).pvalue > 1e-3


def test_predicates_on_several_attributes() -> None:
    workload = random_predicates(CUBE, 200, k=2, seed=7)
    assert {len(q.attributes) for q in workload} == {2}
    assert {q.attributes for q in workload} >= {("a", "b"), ("c", "d"), ("a", "d")}
    first = workload[0]
    named = [f"{n} in ({', '.join(map(str, np.flatnonzero(m.dense()[0])))})" for n, m in
             zip(first.attributes, first.matrices(), strict=True)]  # fmt: skip
    same = nz.Workload.predicates(CUBE, [" and ".join(named)])[0]
    np.testing.assert_array_equal(first.dense(), same.dense())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "draw",
    [
        lambda s, seed: random_ranges(s, 20, seed=seed),
        lambda s, seed: clustered_ranges(s, 20, seed=seed),
        lambda s, seed: spatial_ranges(s, [(3,) * 30], 20, seed=seed),
        lambda s, seed: random_marginals(s, 20, up_to=3, seed=seed),
        lambda s, seed: random_predicates(s, 20, k=3, seed=seed),
    ],
)
def test_any_domain_and_the_same_from_the_same_seed(
    draw: Callable[[nz.Schema, int], nz.Workload],
) -> None:
    schema = nz.Schema.from_sizes({f"x{i}": 1000 for i in range(30)})  # 10^90 cells
    one, same, other = ([q.name for q in draw(schema, seed)] for seed in (1, 1, 2))
    assert one == same != other


def test_random_ranges_come_from_all_alike() -> None:
    """Each of the 10 ranges of 4 values: 2,000 times in 20,000, and no count 7 deviations off."""
    rows = random_ranges(nz.Schema.from_sizes({"x": 4}), 20_000, seed=5)[0].dense()
    assert all(np.abs(np.diff(np.concatenate([[0], row, [0]]))).sum() == 2 for row in rows[:200])
    kinds, often = np.unique(rows, axis=0, return_counts=True)
    assert len(kinds) == 10
    assert np.abs(often - 2000).max() < 7 * np.sqrt(20_000 * 0.1 * 0.9)


def test_random_boxes() -> None:
    schema = nz.Schema.from_sizes({"x": 30, "y": 40})
    workload = random_ranges(schema, 25, seed=2)
    assert workload.rows == 25
    for query in workload:
        cube = query.dense().reshape(30, 40)
        sides = cube.max(axis=1), cube.max(axis=0)
        np.testing.assert_array_equal(cube, np.outer(*sides))
        assert all(np.abs(np.diff(np.r_[0, side, 0])).sum() == 2 for side in sides)
    again = random_ranges(schema, 25, seed=2)
    assert [q.name for q in again] == [q.name for q in workload]
    assert workload[0].row_labels()["x"] == [workload[0].factors["x"].label]
