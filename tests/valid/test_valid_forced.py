"""Zeros that margins force, impossible cells in whole numbers, and tables that are told twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import noiseplan as nz
from depth import examples, seeds
from noiseplan.errors import DataError
from noiseplan.valid import ValidTables
from noiseplan.valid.even_population import inner_point
from noiseplan.valid.whole_numbers import whole_near, whole_two_way

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 3})
any_seed = st.integers(0, 2**32 - 1)


def noisy(shape: tuple[int, ...], seed: int = 1) -> nz.Release:
    names = "abc"[: len(shape)]
    schema = nz.Schema.from_sizes(dict(zip(names, shape, strict=True)))
    table = np.random.default_rng(seed).normal(2, 3, shape)
    return nz.from_noisy_tables(schema, [nz.NoisyTable(list(names), table, 9.0)])


# ---------------------------------------------------------------------- forced zeros


def test_a_zero_that_is_forced() -> None:
    """All of the first row is in the first column, so nobody else is."""
    closed = np.array([[False, True], [False, False]])
    public: dict[Any, Any] = {"a": [50, 50], "b": [50, 50]}
    found = noisy((2, 2)).valid(public=public, impossible={("a", "b"): closed})
    assert found.values("a", "b") == pytest.approx(np.diag([50, 50]), abs=1e-6)


def margins_of(population: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
    return {
        ("a", "b"): population.sum(axis=2),
        ("b", "c"): population.sum(axis=0),
        ("a", "c"): population.sum(axis=1),
    }


@pytest.mark.parametrize("seed", seeds(12))
def test_true_tables_of_a_sparse_population_are_never_refused(seed: int) -> None:
    population = np.random.default_rng(seed).poisson(0.3, (3, 3, 3)).astype(float)
    population[0, 0, 0] += 1
    public: Any = margins_of(population)
    found = noisy((3, 3, 3)).valid(public=public)
    assert found.values("a", "b", "c").min() >= 0
    for names, table in public.items():
        assert found.values(*names) == pytest.approx(table, abs=1e-6)


@given(seed=any_seed)
@examples(25)
def test_cells_that_can_be_positive_are_those_a_program_of_their_own_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    population = rng.poisson(0.4, (2, 3, 2)).astype(float)
    population[0, 0, 0] += 1
    shares = population / population.sum()
    public = {(0, 1): shares.sum(axis=2), (1, 2): shares.sum(axis=0), (0, 2): shares.sum(axis=1)}
    found = inner_point(np.ones((2, 3, 2), dtype=bool), (0, 1, 2), public)
    assert found is not None
    rows, wanted = [], []
    for one, table in public.items():
        out = next(i for i in range(3) if i not in one)
        for cell in np.ndindex(table.shape):
            place: list[Any] = list(cell)
            place.insert(out, slice(None))
            row = np.zeros((2, 3, 2))
            row[tuple(place)] = 1
            rows.append(row.ravel())
            wanted.append(table[cell])
    for cell, value in enumerate(found.ravel()):
        goal = np.zeros(12)
        goal[cell] = -1
        most = -linprog(goal, A_eq=np.array(rows), b_eq=np.array(wanted)).fun
        assert (value > 0) == (most > 1e-7)
    assert np.array(rows) @ found.ravel() == pytest.approx(np.array(wanted), abs=1e-6)


def test_what_no_table_has_is_refused() -> None:
    closed = np.array([[False, True], [False, False]])
    public: dict[Any, Any] = {"a": [60, 40], "b": [50, 50]}
    with pytest.raises(DataError, match=r"no table of a, b with counts that are not negative"):
        noisy((2, 2)).valid(public=public, impossible={("a", "b"): closed})


def test_no_records_in_cells_that_are_all_impossible() -> None:
    closed: Any = {("a", "b"): np.ones((2, 2), dtype=bool)}
    for known in ({}, {"total": 0}):
        for integers in (False, True):
            found = noisy((2, 2)).valid(impossible=closed, integers=integers, **known)
            assert not found.values("a", "b").any()
    with pytest.raises(DataError, match=r"every cell of a, b .* or say so: total=0"):
        noisy((2, 2)).valid(impossible=closed, total=3)


# ---------------------------------------------------------------------- whole numbers


def test_whole_numbers_stay_out_of_impossible_cells() -> None:
    table = [[1.4, 0.1, 0.0], [0.0, 0.2, 0.55], [0.0, 0.0, 0.75]]
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    release = nz.from_noisy_tables(schema, [nz.NoisyTable(["a", "b"], table, 1e-6)])
    closed = np.tril(np.ones((3, 3)), -1) > 0
    found = release.valid(total=3, impossible={("a", "b"): closed}, integers=True)
    assert not found.values("a", "b")[closed].any()
    assert found.values("a", "b").sum() == 3


def agree(found: ValidTables) -> bool:
    one, two = found.values("a", "b"), found.values("b", "c")
    return bool(
        (one.sum(axis=0) == two.sum(axis=1)).all()
        and (one.sum(axis=1) == found.values("a")).all()
        and (two.sum(axis=1) == found.values("b")).all()
    )


@given(seed=any_seed, public=st.booleans(), total=st.booleans())
@examples(25)
def test_whole_tables_around_impossible_cells(seed: int, public: bool, total: bool) -> None:
    """Two tables that share an attribute, both with impossible cells: they agree all the same."""
    rng = np.random.default_rng(seed)
    population = rng.poisson(1.0, (3, 3, 3))
    population[0, 0, 0] += 1
    one, two = population.sum(axis=2), population.sum(axis=0)
    measured = [
        nz.NoisyTable(["a", "b"], one + rng.normal(0, 1, (3, 3)), 1.0),
        nz.NoisyTable(["b", "c"], two + rng.normal(0, 1, (3, 3)), 1.0),
    ]
    closed = {("a", "b"): (one == 0) & (rng.random((3, 3)) < 0.7), ("b", "c"): two == 0}
    known: dict[str, Any] = {"total": int(population.sum())} if total or public else {}
    if public:
        known["public"] = {"b": population.sum(axis=(0, 2))}
    release = nz.from_noisy_tables(SCHEMA, measured)
    found = release.valid(impossible=closed, integers=True, **known)  # type: ignore[arg-type]
    assert agree(found)
    assert found.values("a", "b").min() >= 0
    for names, cells in closed.items():
        assert not found.values(*names)[cells].any()
    if public:
        assert found.values("b").tolist() == population.sum(axis=(0, 2)).tolist()
    assert found.changes.apart == 0


@given(seed=any_seed)
@examples(60)
def test_every_cell_and_sum_goes_to_a_neighbour(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.gamma(0.5, 2.0, rng.integers(1, 6, size=2)) * (rng.random() < 0.8)
    table[rng.random(table.shape) < 0.3] = 0.0
    if table.sum() > 0:
        table *= np.ceil(table.sum()) / table.sum()
    found = whole_near(table)
    assert found.sum() == round(table.sum())
    assert not found[table == 0].any()
    for now, before in (
        (found, table),
        (found.sum(axis=0), table.sum(axis=0)),
        (found.sum(axis=1), table.sum(axis=1)),
    ):
        assert np.abs(now - before).max() < 1 + 1e-6


def test_margins_without_a_table_are_refused() -> None:
    with pytest.raises(DataError, match="leave out integers=True"):
        whole_two_way(np.diag([0.5, 0.5]), np.array([1, 0]), np.array([0, 1]), closed=True)


def test_wider_tables_are_not_said_to_agree() -> None:
    found = noisy((3, 3, 3)).valid(integers=True, total=40)
    differ = [
        np.abs(found.values("a", "b", "c").sum(axis=out) - found.values(*names)).max()
        for out, names in ((2, ("a", "b")), (0, ("b", "c")), (1, ("a", "c")))
    ]
    assert max(differ) > 0
    assert found.changes.apart == pytest.approx(max(differ) / 40)
    assert f"miss margins by at most {max(differ)}" in str(found)


# ---------------------------------------------------------------------- told twice


def test_a_table_told_twice_must_be_the_same() -> None:
    release = noisy((2, 3))
    same: Any = {"a": [4, 5], ("a",): [4, 5]}
    assert release.valid(public=same).values("a").tolist() == [4, 5]
    other: Any = {"a": [4, 5], ("a",): [5, 4]}
    with pytest.raises(DataError, match=r"table of \['a'\] was given twice"):
        release.valid(public=other)
    turned: Any = {("a", "b"): np.ones((2, 3)), ("b", "a"): 2 * np.ones((3, 2))}
    with pytest.raises(DataError, match=r"table of \['b', 'a'\] was given twice"):
        release.valid(public=turned)


def test_impossible_cells_of_both_orders_count() -> None:
    first, second = np.zeros((2, 3), dtype=bool), np.zeros((3, 2), dtype=bool)
    first[0, 0] = second[2, 1] = True
    both: Any = {("a", "b"): first, ("b", "a"): second}
    found = noisy((2, 3)).valid(impossible=both, total=50).values("a", "b")
    assert found[0, 0] == found[1, 2] == 0
    assert (found > 0).sum() >= 3


@pytest.mark.parametrize("wrong", ["20", np.array([20]), [20], None.__class__, 1j])
def test_a_total_is_a_number(wrong: Any) -> None:
    with pytest.raises(DataError, match="total is a number of records"):
        noisy((2, 3)).valid(total=wrong)


def test_known_tables_are_named() -> None:
    wrong: Any = [1, 2]
    with pytest.raises(DataError, match="public says of which attributes"):
        noisy((2, 3)).valid(public=wrong)
    with pytest.raises(DataError, match="impossible says of which attributes"):
        noisy((2, 3)).valid(impossible=wrong)
