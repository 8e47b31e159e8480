"""Crossed mechanisms: dense least squares over all cells, costs, and what is read back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import StorageError, UnanswerableError
from noiseplan.matrices import kronecker_dense
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.crossed import CrossedMechanism, Part
from noiseplan.mechanisms.crossed_queries import Frame
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise import Noise

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 4})
FRAME = Frame(SCHEMA, {0: Basis.orthogonal(3), 2: Basis.orthogonal(4)}, (1,))


def example() -> CrossedMechanism:
    rows = DenseMechanism(FRAME.cells, np.array([[1.0, 1.0], [0.0, 2.0]]))
    return CrossedMechanism(SCHEMA, FRAME, (Part((), rows), Part((0,), rows), Part((0, 2), rows)))


def test_read_back_it_is_the_same() -> None:
    again = CrossedMechanism.from_parts(*example().parts(), SCHEMA)
    assert [part.split for part in again.parts_of] == [(), (0,), (0, 2)]
    np.testing.assert_array_equal(again.cost_matrix(), example().cost_matrix())
    assert again.frame.same(FRAME) and again.cost("add-remove") == example().cost("add-remove")


DAMAGE: dict[str, tuple[Callable[[Any], None], str]] = {
    "no noise": (lambda a: a.update(sigma2=np.array([1.0, 0.0, 1.0])), "no noise"),
    "nothing crossed": (lambda a: a.update(whole=np.zeros(0, int)), "two kinds"),
    "split and whole": (lambda a: a.update(whole=np.array([0, 1])), "two kinds"),
    "not there": (lambda a: a.update(whole=np.array([1, 7])), "not there"),
    "not in order": (lambda a: a.update(part_2_set=np.array([2, 0])), "ascending"),
    "a whole one": (lambda a: a.update(part_1_set=np.array([1])), "does not fit"),
    "other cells": (lambda a: a.update(part_1_strategy=np.ones((1, 3))), "does not fit"),
    "twice": (lambda a: a.update(part_1_set=np.array([0, 2])), "two parts"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    damage, words = DAMAGE[name]
    content, arrays = example().parts()
    damage(arrays)
    with pytest.raises(StorageError, match=words):
        CrossedMechanism.from_parts(content, arrays, SCHEMA)


def test_covariances_of_many_numbers_are_refused() -> None:
    sizes = nz.Schema.from_sizes({"a": 3000, "b": 4})
    frame = Frame(sizes, {0: Basis.orthogonal(3000)}, (1,))
    rows = DenseMechanism(frame.cells, np.eye(4))
    mechanism = CrossedMechanism(sizes, frame, (Part((), rows), Part((0,), rows)))
    query = nz.Query(sizes, ["a", "b"])
    with pytest.raises(nz.NoiseplanError, match="ask for fewer rows"):
        mechanism.covariance(query, query)


# ---------------------------------------------------------------------- as one dense matrix

# Attributes of D at either end, so that nothing is in order by chance; d is in no frame.
FOUR = nz.Schema.from_sizes({"a": 2, "b": 3, "c": 3, "d": 2})
CROSSED = Frame(FOUR, {1: Basis.orthogonal(3), 2: Basis.integer(3)}, (0, 3))
ASKED = {
    "cells of D": nz.Query(FOUR, ["a", "d"]),
    "a split attribute": nz.Query(FOUR, ["c"]),
    "in another order": nz.Query(FOUR, {"c": nz.Prefix(), "a": nz.Identity()}),
    "both split": nz.Query(FOUR, ["b", "c"]),
    "everything": nz.Query(FOUR, ["d", "c", "b", "a"]),
    "total": nz.Query(FOUR, []),
    "one matrix": nz.Query(
        FOUR, ["c", "d"], matrix=np.random.default_rng(4).integers(-3, 4, (3, 6))
    ),
}
ALL_SETS = ((), (1,), (2,), (1, 2))


def crossed(sets: tuple[tuple[int, ...], ...] = ALL_SETS, numbers: int = 5) -> CrossedMechanism:
    """Every set with rows and noise of its own, more rows than D has cells."""
    rng = np.random.default_rng(2)
    parts = []
    for split in sets:
        rows = rng.integers(-3, 4, (numbers, CROSSED.cells.size)).astype(float)
        noise = Noise("gaussian", rng.uniform(0.5, 3.0))
        parts.append(Part(split, DenseMechanism(CROSSED.cells, rows, noise)))
    return CrossedMechanism(FOUR, CROSSED, tuple(parts))


def written_out(mechanism: CrossedMechanism) -> tuple[np.ndarray, np.ndarray]:
    """All rows over all cells, a cell of the schema to a column, and the variance of each."""
    every, variances = [], []
    of_cells = list(product(*map(range, FOUR.shape)))
    inner = list(product(*(range(FOUR.shape[i]) for i in CROSSED.whole)))
    for part in mechanism.parts_of:
        columns = []
        for cell in of_cells:
            axes = [
                np.asarray(CROSSED.bases[i].measure @ np.eye(3))[:, [cell[i]]] for i in part.split
            ]
            own = inner.index(tuple(cell[i] for i in CROSSED.whole))
            columns.append(kronecker_dense([*axes, part.rows.strategy[:, [own]]])[:, 0])
        every.append(np.array(columns).T)
        variances.append(np.full(len(every[-1]), part.rows.noise.one))
    return np.vstack(every), np.concatenate(variances)


def estimator(mechanism: CrossedMechanism) -> tuple[np.ndarray, np.ndarray]:
    """The best linear map from what is measured to the cells, and its covariance."""
    rows, variances = written_out(mechanism)
    found = np.linalg.pinv(rows / np.sqrt(variances)[:, None], rcond=1e-10)
    return found / np.sqrt(variances), found @ found.T


@pytest.mark.parametrize("name", ASKED)
def test_answers_and_errors_are_those_of_least_squares(name: str) -> None:
    mechanism, query = crossed(), ASKED[name]
    takes, spread = estimator(mechanism)
    rng = np.random.default_rng(9)
    values = [rng.standard_normal(shape) for shape in mechanism.shapes]
    flat = np.concatenate([value.ravel() for value in values])
    found = mechanism.answering(Measurements(tuple(values)))(query)
    rows = query.dense()
    np.testing.assert_allclose(found, rows @ takes @ flat, atol=1e-9)
    covariance = rows @ spread @ rows.T
    np.testing.assert_allclose(mechanism.variance(query), np.diagonal(covariance), rtol=1e-9)
    np.testing.assert_allclose(mechanism.covariance(query, query), covariance, atol=1e-10)


@pytest.mark.parametrize(("one", "two"), [*combinations(ASKED, 2)][::3])
def test_covariances_of_two_queries(one: str, two: str) -> None:
    mechanism = crossed()
    spread = estimator(mechanism)[1]
    expected = ASKED[one].dense() @ spread @ ASKED[two].dense().T
    found = mechanism.covariance(ASKED[one], ASKED[two])
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_cost_is_that_of_the_dearest_record() -> None:
    """By the rows written out: what one record adds, or one put in the place of another."""
    mechanism = crossed()
    rows, variances = written_out(mechanism)
    unit = rows / np.sqrt(variances)[:, None]
    np.testing.assert_allclose(mechanism.cost_matrix(), unit.T @ unit, atol=1e-9)
    added = (unit**2).sum(axis=0).max()
    apart = max(float(((u - v) ** 2).sum()) for u, v in combinations(unit.T, 2))
    # What is split is priced by its dearest value, which these bases have in common.
    assert mechanism.record_cost("add-remove") == pytest.approx(added, rel=1e-9)
    assert mechanism.record_cost("replace") == pytest.approx(apart, rel=1e-9)
    assert mechanism.record_cost("add-remove") >= added
    assert mechanism.record_cost("replace") >= apart


def test_measuring_is_these_rows_and_noise() -> None:
    mechanism = crossed()
    counts = np.random.default_rng(5).integers(0, 20, FOUR.shape)

    def marginals(sets: np.ndarray) -> np.ndarray:
        (kept,) = sets.tolist()
        others = tuple(i for i in range(counts.ndim) if i not in kept)
        return counts.sum(axis=others)[None, ...]

    measured = mechanism.measure(marginals, lambda shape, noise: np.zeros(shape))
    flat = np.concatenate([value.ravel() for value in measured.values])
    np.testing.assert_allclose(flat, written_out(mechanism)[0] @ counts.ravel(), atol=1e-9)
    assert [value.shape for value in measured.values] == mechanism.shapes


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("sets", [((), (1,)), ((2,), (1, 2)), ALL_SETS])
@pytest.mark.parametrize("numbers", [1, 5])
def test_what_is_not_told_is_refused(name: str, sets: Any, numbers: int) -> None:
    """By the row space of all rows written out, whatever is left out or measured by one row."""
    mechanism, rows = crossed(sets, numbers), ASKED[name].dense()
    measured = written_out(mechanism)[0]
    told = np.allclose(rows @ np.linalg.pinv(measured) @ measured, rows, atol=1e-9)
    if told:
        mechanism.require(ASKED[name])
        return
    with pytest.raises(UnanswerableError, match="add a query"):
        mechanism.require(ASKED[name])


def test_attributes_outside_the_frame_are_named() -> None:
    frame = Frame(FOUR, {1: Basis.orthogonal(3)}, (0, 3))
    rows = DenseMechanism(frame.cells, np.eye(4))
    mechanism = CrossedMechanism(FOUR, frame, (Part((), rows), Part((1,), rows)))
    mechanism.require(ASKED["cells of D"])
    with pytest.raises(UnanswerableError, match="'c'"):
        mechanism.require(ASKED["a split attribute"])
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.require(nz.Query(SCHEMA, ["a"]))


@pytest.mark.parametrize("small", [1.0, 1e-6, 1e-10, 1e-15])
def test_a_small_row_is_told_by_itself_beside_a_large_one(small: float) -> None:
    """Values of c that are measured together, and a set of attributes that is not measured."""
    halves = Basis.from_rows(np.array([[1.0, -2.0]]), np.array([0, 0, 1]))
    frame = Frame(FOUR, {1: Basis.orthogonal(3), 2: halves}, (0, 3))
    rows = DenseMechanism(frame.cells, np.eye(4))
    mechanism = CrossedMechanism(FOUR, frame, (Part((), rows), Part((1,), rows), Part((2,), rows)))
    told = np.zeros((3, 3, 2))
    told[0] += 1.0 / 3
    told[:, :2] += 0.7
    within, both = np.zeros((3, 3, 2)), np.zeros((3, 3, 2))
    within[:, 0], both[1, 2] = 1.0, 1.0

    def asked(*cubes: np.ndarray) -> nz.Query:
        matrix = np.array(cubes).reshape(len(cubes), -1)
        return nz.Query(FOUR, ["b", "c", "d"], matrix=matrix, name="rows")

    alone = mechanism.variance(asked(told))
    found = mechanism.variance(asked(told, small * told))
    np.testing.assert_allclose(found, [alone[0], small**2 * alone[0]], rtol=1e-12)
    for untold in (within, both):
        assert not mechanism.determines(asked(told, small * untold))
        assert not mechanism.determines(asked(small * untold, told))
    # By factors too: one row of b by c's halves, and one that sums over b.
    factors = {"b": nz.Custom([[1.0, 1, 1], [small, 0, 0]]), "c": nz.Custom([[1.0, 1, 0]])}
    assert not mechanism.determines(nz.Query(FOUR, factors))
    factors["b"] = nz.Custom([[1.0, 1, 1], [small, small, small]])
    assert mechanism.determines(nz.Query(FOUR, factors))
