"""What several mechanisms cost together, whichever way it is added up: never below all pairs."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import dearest

import noiseplan as nz
from depth import examples, seeds
from noiseplan.domain.cells import MergedValues
from noiseplan.errors import PlanError
from noiseplan.matrices import HaarMatrix, TreeMatrix
from noiseplan.mechanisms import cost
from noiseplan.mechanisms.cost import cell_by_cell, cost_of, of_person, of_replaced, require_sizes
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.price import probed_cost
from noiseplan.mechanisms.product import ProductMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.noise import Noise
from noiseplan.privacy import Guarantee

SCHEMA = nz.Schema.from_sizes({"a": 2, "b": 3})
OTHER = nz.Schema.from_sizes({"a": 6})
THREE = nz.Schema.from_sizes({"a": 3})
BOTH = ("add-remove", "replace")


def drawn(seed: int, law: str, size: float, schema: nz.Schema = SCHEMA) -> DenseMechanism:
    rows = np.random.default_rng(seed).integers(-3, 4, (3, 6)).astype(float)
    rows[0] += 1 - rows.any(axis=0)  # every record is seen
    return DenseMechanism(schema, rows, Noise(law, size, exact=True))  # type: ignore[arg-type]


def together(parts: list[DenseMechanism], power: int, neighbours: str) -> float:
    rows = np.vstack([part.strategy for part in parts])
    sizes = np.repeat([part.noise.one for part in parts], [part.numbers for part in parts])
    return dearest(rows, sizes, power, neighbours)


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from(["gaussian", "laplace"]), st.sampled_from(BOTH))
def test_never_below_the_dearest_pair(seed: int, law: str, neighbours: Any) -> None:
    parts = [drawn(seed, law, 2.0), drawn(seed + 1, law, 0.7)]
    power = 2 if law == "gaussian" else 1
    brute = together(parts, power, neighbours)
    stated = cost_of(parts, neighbours)
    amount = stated.pcost if law == "gaussian" else stated.pure_epsilon
    assert amount is not None and brute <= amount
    if law == "gaussian":  # by columns of all rows, and so exact
        assert amount <= brute * (1 + 1e-9)
    else:
        alone = sum(together([part], power, neighbours) for part in parts)
        assert amount == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("seed", seeds(8))
def test_different_kinds_are_added_cell_by_cell_or_each_by_itself(
    seed: int, neighbours: Any
) -> None:
    factors = (HaarMatrix(2), TreeMatrix(3, 2))
    tree = ProductMechanism(SCHEMA, factors, Noise("gaussian", 4.0, exact=True))
    dense = drawn(seed, "gaussian", 2.0)
    rows = [np.kron(*(factor.dense() for factor in factors)), dense.strategy]
    sizes = np.repeat([4.0, 2.0], [len(each) for each in rows])
    brute = dearest(np.vstack(rows), sizes, 2, neighbours)
    alone = tree.record_cost(neighbours) + dense.record_cost(neighbours)
    for parts in ([dense, tree], [tree, dense]):
        assert brute <= cost_of(parts, neighbours).pcost <= brute * (1 + 1e-9)
        with pytest.MonkeyPatch.context() as patch:  # as over large domains
            patch.setattr(cost, "CELL_BY_CELL", 0)
            assert cost_of(parts, neighbours).pcost == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("neighbours", BOTH)
def test_matrices_over_many_cells_are_added_column_by_column(neighbours: Any) -> None:
    """Over more cells than cost matrices are added for: the dearest of each are other records."""
    schema, rng = nz.Schema.from_sizes({"a": 36, "b": 36}), np.random.default_rng(7)
    assert schema.size > cost.CELL_BY_CELL
    parts = [
        DenseMechanism(
            schema,
            rng.integers(-3, 4, (rows, 1296)) * rng.integers(1, 9, 1296).astype(float),
            Noise("gaussian", size, exact=True),
        )
        for rows, size in ((5, 2.0), (9, 0.7), (2, 30.0))
    ]
    values = np.vstack([part.strategy for part in parts]).astype(np.int64)
    price = np.repeat([1 / part.noise.one for part in parts], [part.numbers for part in parts])
    if neighbours == "add-remove":
        brute = max(float(price @ column**2) for column in values.T)
    else:
        brute = max(float((price @ (values - one[:, None]) ** 2).max()) for one in values.T)
    stated = cost_of(parts, neighbours).pcost
    assert brute <= stated <= brute * (1 + 1e-9)
    apart = sum(part.record_cost(neighbours) for part in parts)
    assert stated < 0.95 * apart
    bare = DenseMechanism(schema, np.ones((1, 1296)), Noise("gaussian", 0.0))
    with pytest.raises(PlanError, match="without noise"):
        cost_of([*parts, bare], neighbours)


def merged(groups: list[int], row: list[float]) -> ReducedMechanism:
    cells = MergedValues(THREE, np.array([0]), (np.array(groups),))
    noise = Noise("gaussian", 1.0, exact=True)
    return ReducedMechanism(cells, DenseMechanism(cells.inner, np.array([row]), noise))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("cells", [0, 1024])
def test_smaller_domains_that_look_the_same_hold_other_cells(
    neighbours: Any, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two values each, of three: the second here and the first there have one in common."""
    monkeypatch.setattr(cost, "CELL_BY_CELL", cells)
    parts = [merged([0, 1, 1], [0.0, 3.0]), merged([0, 0, 1], [3.0, 0.0])]
    assert parts[0].small.schema == parts[1].small.schema
    brute = dearest(np.array([[0.0, 3, 3], [3, 3, 0]]), np.ones(2), 2, neighbours)
    assert cost_of(parts, neighbours).pcost >= brute
    assert cost_of(parts, neighbours).pcost >= probed_cost(parts, neighbours)


def test_domains_that_are_not_the_same_are_added() -> None:
    one, other = drawn(1, "gaussian", 2.0), drawn(2, "gaussian", 3.0, OTHER)
    for neighbours in BOTH:
        each = one.record_cost(neighbours) + other.record_cost(neighbours)  # type: ignore[arg-type]
        assert cost_of([one, other], neighbours).pcost == pytest.approx(each, rel=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("common", [0.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("seed", seeds(5))
def test_long_columns_that_are_nearly_equal(seed: int, common: float) -> None:
    """What they have in common cancels, and what rounding makes of that is on the safe side."""
    rng = np.random.default_rng(seed)
    rows = common * rng.random((4, 1)) + rng.random((4, 6))
    part = DenseMechanism(SCHEMA, rows, Noise("gaussian", 0.3))
    exact = max(
        sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(rows[:, u], rows[:, v], strict=True))
        for u in range(6)
        for v in range(u)
    ) / Fraction(0.3)
    assert exact <= Fraction(cell_by_cell([part], "replace"))
    assert exact <= Fraction(part.record_cost("replace"))
    if common <= 1e3:
        assert part.record_cost("replace") <= float(exact) * (1 + 1e-6)


@examples(30)
@given(st.integers(0, 10**6))
def test_replacing_a_record_is_two_steps_at_most(seed: int) -> None:
    for law in ("gaussian", "laplace"):
        part = drawn(seed, law, 5.0)
        apart, twice = cost_of([part], "replace"), of_replaced(cost_of([part], "add-remove"))
        assert twice.neighbours == "replace"
        assert apart.pcost <= twice.pcost
        assert (apart.pure_epsilon or 0.0) <= (twice.pure_epsilon or 0.0)


def test_nothing_measured_costs_nothing() -> None:
    empty = DenseMechanism(SCHEMA, np.zeros((0, 6)), Noise("gaussian", 1.0))
    assert cost_of([empty, empty], "add-remove").pcost == 0.0


@pytest.mark.parametrize("neighbours", BOTH)
def test_cells_without_noise_are_refused(neighbours: Any) -> None:
    bare = DenseMechanism(SCHEMA, np.eye(6), Noise("gaussian", 0.0))
    with pytest.raises(PlanError, match="without noise"):
        cell_by_cell([bare], neighbours)
    for sizes in (np.array([1.0, 0.0]), np.array([-1.0]), np.array([np.nan])):
        with pytest.raises(PlanError, match="without noise"):
            require_sizes(sizes)


def test_a_person_with_several_records() -> None:
    record = Guarantee(0.5, "zcdp")
    assert of_person(record, "add-remove", 3).pcost == pytest.approx(4.5)
    assert of_person(Guarantee.pure(0.5), "add-remove", 3).pure_epsilon == pytest.approx(1.5)
    with pytest.raises(PlanError, match="no known cost for neighbours='replace'"):
        of_person(record, "replace", 1)
    several = of_person(Guarantee(0.5, "zcdp", "replace"), "replace", 2)
    assert several == Guarantee(2.0, "zcdp", "replace")


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_other_values_in_several_records_of_a_person(law: str) -> None:
    """All ways to replace two records, one by one: never above what is stated, and reached."""
    part = drawn(3, law, 2.0)
    cells = range(6)
    moves = np.array(
        [
            part.strategy[:, a] + part.strategy[:, b] - part.strategy[:, c] - part.strategy[:, d]
            for a, b, c, d in product(cells, repeat=4)
        ]
    )
    power = 2 if law == "gaussian" else 1
    brute = float((np.abs(moves) ** power).sum(axis=1).max()) / 2.0
    stated = cost_of([part], "replace", 2)
    amount = stated.pcost if law == "gaussian" else stated.pure_epsilon
    assert amount is not None and brute <= amount <= brute * (1 + 1e-9)


def test_laws_are_not_promised_beyond_what_is_known() -> None:
    """Discrete noise has no exact curve, and together with continuous noise neither has that."""
    discrete = drawn(1, "gaussian", 2.0)
    continuous = discrete.floating()
    assert cost_of([continuous], "add-remove").law == "gaussian"
    assert cost_of([discrete], "add-remove").law == "zcdp"
    assert cost_of([continuous, discrete], "add-remove").law == "zcdp"
    with pytest.raises(PlanError, match="not added up"):
        cost_of([discrete, drawn(1, "laplace", 2.0)], "add-remove")
