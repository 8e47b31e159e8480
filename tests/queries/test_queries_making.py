"""Workloads by name, against rows written out by hand and against published numbers."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import QueryError
from noiseplan.queries.factors import Permuted

repeatable = examples(50)


def line(n: int) -> nz.Schema:
    return nz.Schema.from_sizes({"x": n})


def gram(workload: nz.Workload) -> np.ndarray:
    return sum(q.weight * q.dense().T @ q.dense() for q in workload)  # type: ignore[return-value]


def best(workload: nz.Workload, planner: str = "optimal") -> float:
    """The least total variance at cost one."""
    return nz.plan(workload, budget=nz.zCDP(0.5), planner=planner, noise="gaussian").total_variance


# ---------------------------------------------------------------- ranges, prefix sums, cubes


def test_boxes_and_corners_written_out() -> None:
    schema = nz.Schema.from_sizes({"x": 3, "y": 2, "z": 2})
    cells = list(product(range(3), range(2), range(2)))
    ends = [[(a, b) for a in range(n) for b in range(a, n)] for n in (3, 2, 2)]
    boxes = {
        tuple(
            float(all(a <= c <= b for (a, b), c in zip(box, cell, strict=True))) for cell in cells
        )
        for box in product(*ends)
    }
    assert set(map(tuple, nz.Workload.all_ranges(schema)[0].dense().tolist())) == boxes
    corners = {
        tuple(float(all(c <= e for e, c in zip(corner, cell, strict=True))) for cell in cells)
        for corner in cells
    }
    assert set(map(tuple, nz.Workload.prefix(schema)[0].dense().tolist())) == corners
    some = nz.Workload.all_ranges(schema, ["z", "x"])
    assert [q.attributes for q in some] == [("x", "z")]
    assert some.rows == 6 * 3


@pytest.mark.parametrize(
    ("workload", "optimum"),
    [
        (nz.Workload.all_ranges(line(2)), 3.732051),
        (nz.Workload.all_ranges(line(4)), 16.440887),
        (nz.Workload.all_ranges(line(8)), 80.464265),
        (nz.Workload.all_ranges(line(16)), 413.140217),
        (nz.Workload.prefix(line(3)), 4.607862),
        (nz.Workload.prefix(line(8)), 17.866177),
        (nz.Workload.prefix(line(64)), 282.201421),
    ],
    ids=str,
)
def test_published_optima(workload: nz.Workload, optimum: float) -> None:
    assert best(workload) == pytest.approx(optimum, rel=2e-6)


def test_range_marginals_leave_categories_as_they_are() -> None:
    schema = nz.Schema(
        {
            "age": nz.Ordinal(range(4)),
            "sex": nz.Categorical(["F", "M"]),
            "income": nz.Binned([0, 1, 2]),
        }
    )
    workload = nz.Workload.range_marginals(schema, 2)
    names = ["ranges(age) × sex", "ranges(age) × ranges(income)", "sex × ranges(income)"]
    assert [q.name for q in workload] == names


CUBE = nz.Schema.from_sizes({"a": 2, "b": 3, "c": 2})
BINARY = nz.Schema.from_sizes(dict.fromkeys("abcd", 2))
SEXES = nz.Schema({"sex": nz.Categorical(["F", "M"])})


def test_cubes_have_every_set_once() -> None:
    every = {s for k in range(4) for s in combinations("abc", k)}
    assert {q.attributes for q in nz.Workload.cube(CUBE)} == every
    by_size = nz.Workload.cube(CUBE, weights=[0.5, 0, 1, 2])
    expected = {s: [0.5, 0, 1, 2][len(s)] for s in every if len(s) != 1}
    assert {q.attributes: q.weight for q in by_size} == expected


@pytest.mark.parametrize(
    ("workload", "bound"),
    [
        (nz.Workload.cube(CUBE, weights=[0, 0, 1, 0]), 28.541780),
        # Scaling a row by 2 multiplies its squared error by 4.
        (nz.Workload.cube(CUBE, weights={("a", "b"): 1, ("c",): 4, (): 0.25}), 25.100282),
        (nz.Workload.cube(BINARY, [0, 0, 1, 0, 0]), 59.118360),
    ],
    ids=["2-way", "weighted", "binary"],
)  # fmt: skip
def test_published_cubes(workload: nz.Workload, bound: float) -> None:
    assert best(workload, "auto") == pytest.approx(bound, rel=1e-6)


# ---------------------------------------------------------------- all predicates


@pytest.mark.parametrize(
    ("n", "optimum"), [(2, 3.732051), (3, 10.666667), (4, 27.416408), (5, 66.553469)]
)
def test_all_predicates(n: int, optimum: float) -> None:
    subsets = np.array(list(product((0.0, 1.0), repeat=n)))
    workload = nz.Workload.all_predicates(line(n))
    np.testing.assert_allclose(gram(workload), subsets.T @ subsets / 2**n, rtol=1e-12)
    plan = nz.plan(workload, budget=nz.zCDP(0.5), noise="gaussian")
    assert 2**n * plan.total_variance == pytest.approx(optimum, rel=1e-6)
    one_by_one = [plan.variance(nz.Query(line(n), ["x"], matrix=[s]))[0] for s in subsets[1:]]
    assert np.sum(one_by_one) == pytest.approx(optimum, rel=1e-6)


def test_all_predicates_over_a_domain_that_nobody_could_list() -> None:
    schema = nz.Schema.from_sizes({"x": 1000, "y": 1000, "z": 1000})
    n = schema.size
    plan = nz.plan(nz.Workload.all_predicates(schema), budget=nz.zCDP(0.5), noise="gaussian")
    # Eigenvalues of ¼(I + 11ᵀ): ¼(n + 1) once, ¼ otherwise; the squared nuclear norm over n.
    bound = (0.5 * np.sqrt(n + 1) + 0.5 * (n - 1)) ** 2 / n
    assert plan.total_variance >= bound * (1 - 1e-9)


# ---------------------------------------------------------------- permuted


@repeatable
@given(st.permutations(range(6)), st.sampled_from([nz.Prefix(), nz.Ranges(), nz.Identity()]))
def test_permuted_cells(order: list[int], factor: nz.Factor) -> None:
    workload = nz.Workload([nz.Query(line(6), {"x": factor}, weight=3.0, name="q")])
    moved = nz.Workload.permuted(workload, order)
    expected = np.zeros((workload.rows, 6))
    for cell in range(6):
        expected[:, order[cell]] = workload[0].dense()[:, cell]
    np.testing.assert_array_equal(moved[0].dense(), expected)
    assert (moved[0].name, moved[0].weight) == ("q", 3.0)


def test_permuting_changes_no_optimum() -> None:
    ranges = nz.Workload.all_ranges(line(8))
    assert best(nz.Workload.permuted(ranges, seed=3)) == pytest.approx(80.464265, rel=2e-6)
    schema = nz.Schema.from_sizes({"x": 3, "y": 4})
    boxes = nz.Workload.all_ranges(schema)
    moved = nz.Workload.permuted(boxes, seed=3)
    order = np.random.default_rng(3).permutation(12)
    expected = np.zeros((12, 12))
    expected[np.ix_(order, order)] = gram(boxes)
    np.testing.assert_allclose(gram(moved), expected, rtol=1e-12)
    assert best(moved) == pytest.approx(best(boxes), rel=1e-5)


def test_permuted_ranges_are_never_written_out() -> None:
    schema = line(2048)
    moved = nz.Workload.permuted(nz.Workload.all_ranges(schema), seed=1)
    order = np.random.default_rng(1).permutation(2048)
    i = np.arange(2048)
    expected = np.zeros((2048, 2048))
    expected[np.ix_(order, order)] = (np.minimum.outer(i, i) + 1) * (2048 - np.maximum.outer(i, i))
    np.testing.assert_array_equal(moved[0].matrices()[0].gram(), expected)
    with pytest.raises(QueryError, match="above the limit"):
        moved[0].dense()
    small = nz.Workload.permuted(nz.Workload.all_ranges(line(48)), seed=1)
    plan = nz.plan(small, budget=nz.zCDP(0.5), planner="residual+", noise="gaussian")
    assert plan.workload.rows == 24 * 49


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nz.Workload.all_ranges(SEXES), "needs an ordered"),
        (lambda: nz.Workload.prefix(line(3), "x"), "come as a list"),
        (lambda: nz.Workload.cube(CUBE, [1, 1]), "are 4 here"),
        (lambda: nz.Workload.cube(CUBE, {"ab": 1}), "come as a list or a tuple"),
        (lambda: nz.Workload.permuted(nz.Workload.prefix(line(3))), "say either order"),
        (lambda: nz.Workload.permuted(nz.Workload.prefix(line(3)), [0, 1, 1]), "once"),
        (lambda: nz.Query(line(3), {"x": Permuted(nz.Prefix(), (0, 1))}), "names each code"),
    ],
)  # fmt: skip
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        call()
