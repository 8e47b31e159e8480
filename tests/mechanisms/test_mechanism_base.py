"""What all mechanisms share: measurements that are checked, known kinds, parts read back."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError, StorageError
from noiseplan.mechanisms.base import KINDS, Measurements, Mechanism, floats, saved_kind
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise import Noise
from noiseplan.storage.plans import read_mechanism

Damage = Any
SCHEMA = nz.Schema({"a": nz.Ordinal(range(3)), "b": nz.Categorical(["x", "y"])})
BOTH = nz.Workload.marginals(SCHEMA, up_to=2, factors={"a": nz.Prefix()})


def residual(noise: str = "discrete") -> ResidualMechanism:
    found = nz.plan(BOTH, budget=nz.zCDP(0.2), noise=noise, planner="residual").mechanism
    assert isinstance(found, ResidualMechanism)
    return found


def dense(exact: bool = True) -> DenseMechanism:
    return DenseMechanism(
        SCHEMA, np.vstack([np.eye(6), np.ones((1, 6))]), Noise("gaussian", 1.5, exact)
    )


# ---------------------------------------------------------------------- measurements


def test_measurements_have_the_shapes_that_are_measured() -> None:
    mechanism = dense()
    mechanism.check(Measurements((np.arange(7),)))
    for values in ((), (np.arange(6),), (np.arange(7), np.arange(7)), (np.arange(7)[None, :],)):
        with pytest.raises(StorageError, match="shapes"):
            mechanism.check(Measurements(values))
    shaped = [np.zeros(shape, np.int64) for shape in residual().shapes]
    residual().check(Measurements(tuple(shaped)))
    with pytest.raises(StorageError, match="shapes"):
        residual().check(Measurements(tuple(shaped[::-1])))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_measurements_are_finite(wrong: float) -> None:
    values = np.arange(7.0)
    values[3] = wrong
    for exact in (True, False):
        with pytest.raises(StorageError, match="not finite"):
            dense(exact).check(Measurements((values,)))


def test_measurements_are_of_the_kind_that_is_measured() -> None:
    whole, real = np.arange(7), np.arange(7.0)
    dense(exact=True).check(Measurements((whole,)))
    dense(exact=True).check(Measurements((real,)))  # means of integers are no integers
    dense(exact=False).check(Measurements((real,)))
    with pytest.raises(StorageError, match="kind of numbers"):
        dense(exact=False).check(Measurements((whole,)))
    for mechanism in (dense(True), dense(False)):
        with pytest.raises(StorageError, match="kind of numbers"):
            mechanism.check(Measurements((real > 3,)))


@pytest.mark.parametrize(
    ("found", "axes", "right"),
    [
        ([1.0, 2.0], 1, True),
        ([1, 2], 1, True),
        ([[1.0]], 1, False),
        ([1.0], 2, False),
        ([np.nan], 1, False),
        ([[np.inf]], 2, False),
    ],
)
def test_saved_arrays_are_finite_and_have_their_axes(found: Any, axes: int, right: bool) -> None:
    arrays = {"numbers": np.asarray(found)}
    if right:
        assert floats(arrays, "numbers", axes).dtype == np.float64
    else:
        with pytest.raises(StorageError, match=f"numbers should be {axes}-dimensional"):
            floats(arrays, "numbers", axes)


@pytest.mark.parametrize(
    "found", [[1.0, 2 + 1j], [1 + 0j], [True, False], ["1", "2"], [b"1"], [None], [{}]]
)
def test_saved_arrays_are_real_numbers(found: Any) -> None:
    """Not what NumPy would make numbers of, leaving something out or not."""
    with pytest.raises(StorageError, match="numbers should be real numbers, and is of"):
        floats({"numbers": np.asarray(found)}, "numbers", 1)
    for kind in ("i8", "u2", "f4", "f8", ">f8"):
        same = floats({"numbers": np.array([3, 4], dtype=kind)}, "numbers", 1)
        assert same.dtype == np.float64 and same.tolist() == [3.0, 4.0]


# ---------------------------------------------------------------------- kinds


def test_every_kind_has_its_own_name() -> None:
    assert {kind: each.kind for kind, each in KINDS.items()} == {kind: kind for kind in KINDS}
    assert {"residual", "dense", "product", "tables", "reduced"} <= set(KINDS)
    assert saved_kind("dense") is DenseMechanism
    with pytest.raises(StorageError, match="unknown mechanism 'other'"):
        saved_kind("other")


def test_a_class_without_a_name_is_not_saved() -> None:
    before = dict(KINDS)

    class Nameless(DenseMechanism):
        kind = ""

    assert before == KINDS and issubclass(Nameless, Mechanism)


@pytest.mark.parametrize("make", [dense, residual, lambda: residual("gaussian")])
def test_read_back_it_is_the_same(make: Any) -> None:
    mechanism = make()
    content, arrays = mechanism.parts()
    again = read_mechanism(json.loads(json.dumps(content)), arrays, SCHEMA)
    assert type(again) is type(mechanism)
    np.testing.assert_array_equal(again.noise.size, mechanism.noise.size)
    assert again.noise.exact == mechanism.noise.exact
    for query in BOTH:
        np.testing.assert_array_equal(again.variance(query), mechanism.variance(query))


def test_integers_that_are_none_are_refused_as_damage() -> None:
    """A saved mechanism of exact noise with fractions in its rows was never made here."""
    content, arrays = dense().parts()
    arrays = {"strategy": arrays["strategy"] + 0.5}
    with pytest.raises(StorageError, match=r"mechanism is none.*whole numbers"):
        read_mechanism(content, arrays, SCHEMA)
    with pytest.raises(PlanError, match="whole numbers"):
        DenseMechanism(SCHEMA, arrays["strategy"], Noise("gaussian", 1.0, exact=True))
    read_mechanism({**content, "integer": False}, arrays, SCHEMA)


def put(name: str, value: Any) -> Damage:
    return lambda content, arrays: arrays.update({name: np.asarray(value)})


DENSE_DAMAGE = {
    "columns": (put("strategy", np.eye(5)), "does not fit the schema"),
    "axes": (put("strategy", np.ones(6)), "2-dimensional"),
    "not a number": (put("strategy", np.full((1, 6), np.nan)), "finite"),
    "no noise": (lambda content, arrays: content.update(sigma2=0.0), "no variance"),
    "infinite noise": (lambda content, arrays: content.update(sigma2=np.inf), "no variance"),
    "two sizes": (lambda content, arrays: content.update(scale=3.0), "not its own"),
}


@pytest.mark.parametrize("name", DENSE_DAMAGE)
def test_damaged_parts_of_one_matrix_are_refused(name: str) -> None:
    damage, words = DENSE_DAMAGE[name]
    content, arrays = deepcopy(dense().parts())
    damage(content, arrays)
    with pytest.raises(StorageError, match=words):
        read_mechanism(content, arrays, SCHEMA)


RESIDUAL_DAMAGE = {
    "axes of sets": (put("block_1_sets", [0]), "do not fit each other"),
    "fractions": (put("block_1_sets", [[0.5]]), "do not fit each other"),
    "more noise than sets": (put("block_1_sigma2", [1.0] * 9), "do not fit each other"),
    "no sets": (put("block_1_sets", np.zeros((0, 1), np.int64)), "do not fit each other"),
    "an attribute too many": (put("block_1_sets", [[9]]), "not there"),
    "an attribute below": (put("block_1_sets", [[-1]]), "not there"),
    "negative noise": (put("block_1_sigma2", [-1.0]), "no noise"),
    "not a number": (put("block_1_sigma2", [np.nan]), "finite"),
    "a basis that is not there": (put("basis_of_attribute", [0, 9]), "not there"),
    "attributes missing": (put("basis_of_attribute", [0]), "not those of the schema"),
    "bases exchanged": (put("basis_of_attribute", [1, 0]), "does not fit its attribute"),
    "an unknown basis": (
        lambda content, arrays: content["bases"][0].update(kind="guess"),
        "unknown basis",
    ),
}


@pytest.mark.parametrize("name", RESIDUAL_DAMAGE)
def test_damaged_parts_of_residuals_are_refused(name: str) -> None:
    damage, words = RESIDUAL_DAMAGE[name]
    content, arrays = deepcopy(residual("gaussian").parts())
    assert arrays["block_1_sets"].shape == (1, 1)
    damage(content, arrays)
    with pytest.raises(StorageError, match=words):
        read_mechanism(content, arrays, SCHEMA)


def test_attributes_out_of_order_are_refused() -> None:
    schema = nz.Schema.from_sizes({"a": 2, "b": 2})
    workload = nz.Workload.marginals(schema, k=2)
    plan = nz.plan(workload, budget=nz.zCDP(1.0), planner="residual")
    content, arrays = plan.mechanism.parts()
    name = next(n for n, a in arrays.items() if n.endswith("_sets") and a.shape[1] == 2)
    with pytest.raises(StorageError, match="ascending order"):
        read_mechanism(content, {**arrays, name: arrays[name][:, ::-1].copy()}, schema)


# ---------------------------------------------------------------------- bases as files


def bases_of(*bases: Basis) -> tuple[nz.Schema, tuple[Basis, ...], Any]:
    schema = nz.Schema.from_sizes({f"x{i}": basis.size for i, basis in enumerate(bases)})
    return schema, bases, np.arange(len(bases))


def test_bases_are_saved_by_name_where_they_have_one() -> None:
    own = Basis.from_rows(np.array([[1.0, -3.0]]))
    schema, bases, basis_of = bases_of(
        Basis.integer(3), Basis.orthogonal(4), own, WideBasis(300, 0.5), Basis.orthogonal(1)
    )
    saved, arrays = write_bases(bases, basis_of)
    kinds = [each["kind"] for each in saved]
    assert kinds == ["integer", "orthogonal", "matrix", "wide", "matrix"]
    assert {n.split("_")[1] for n in arrays if n != "basis_of_attribute"} == {"2", "4"}
    again, places = read_bases({"bases": json.loads(json.dumps(saved))}, arrays, schema)
    assert places.tolist() == [0, 1, 2, 3, 4]
    for one, other in zip(bases, again, strict=True):
        if isinstance(one, MatrixBasis):
            for part in ("measure", "centre", "recover"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
        else:
            assert one == other


BASIS_DAMAGE = {
    "does not undo": ({}, put("basis_0_recover", [[1.0], [1.0]]), "does not undo"),
    "shapes": ({}, put("basis_0_recover", np.ones((3, 1))), "do not fit each other"),
    "centre": ({}, put("basis_0_centre", np.ones(3)), "do not fit each other"),
    "size of a name": ({"kind": "integer", "size": 0}, put("x", 0), "size of 0"),
    "no size": ({"kind": "integer", "size": True}, put("x", 0), "size of True"),
    "too large": ({"kind": "orthogonal", "size": 10**6}, put("x", 0), "size of 1000000"),
    "scale": ({"kind": "wide", "size": 2, "scale": 0.0}, put("x", 0), "scale of 0.0"),
    "infinite": ({"kind": "wide", "size": 2, "scale": np.inf}, put("x", 0), "scale of inf"),
}


@pytest.mark.parametrize("name", BASIS_DAMAGE)
def test_damaged_bases_are_refused(name: str) -> None:
    change, damage, words = BASIS_DAMAGE[name]
    schema, bases, basis_of = bases_of(Basis.from_rows(np.array([[1.0, -3.0]])))
    saved, arrays = write_bases(bases, basis_of)
    damage(saved, arrays)
    with pytest.raises(StorageError, match=words):
        read_bases({"bases": [{**saved[0], **change}]}, arrays, schema)
