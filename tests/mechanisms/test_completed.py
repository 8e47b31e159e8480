"""Completed tables: what was measured is kept, and the rest is as little as can be."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.domain.cells import MergedValues
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise.law import Noise
from own_examples import SCHEMA, mixed

Array = np.ndarray[Any, Any]
GROUPS = nz.Levels(2, leaves=False, total=False)


def rows_mechanism(mixed_rows: bool) -> WorkloadRowsMechanism:
    workload = nz.Workload(
        [
            nz.Query(SCHEMA, {"a": GROUPS, "b": nz.Identity()}),
            nz.Query(SCHEMA, ["a"]),
            nz.Query(SCHEMA, {"b": nz.Identity(), "c": nz.Prefix()}),
        ]
    )
    rng = np.random.default_rng(3)
    mix = rng.standard_normal((workload.rows + 2, workload.rows)) if mixed_rows else None
    numbers = workload.rows + 2 * mixed_rows
    return WorkloadRowsMechanism(
        SCHEMA, workload, mix, Noise("gaussian", rng.uniform(1, 4, numbers))
    )


def matrix_mechanism() -> DenseMechanism:
    """The same rows, written out."""
    return DenseMechanism(SCHEMA, rows_mechanism(False).unit_rows())


def drawn(mechanism: Mechanism) -> Measurements:
    rng = np.random.default_rng(5)
    return Measurements(tuple(rng.standard_normal(shape) * 20 for shape in mechanism.shapes))


def plain(*names: str) -> nz.Query:
    return nz.Query(SCHEMA, list(names))


EVERY = [names for width in range(4) for names in combinations(SCHEMA.names, width)]


ROWS = [rows_mechanism(False), rows_mechanism(True), matrix_mechanism()]


@pytest.mark.parametrize("mechanism", ROWS)
def test_rows_are_completed_by_the_least_counts(mechanism: Mechanism) -> None:
    measured = drawn(mechanism)
    every = mechanism.unit_rows()
    back = np.linalg.pinv(every, rcond=1e-9)
    for names in EVERY:
        rows = plain(*names).dense() @ back
        found = mechanism.completed(measured, plain(*names))
        np.testing.assert_allclose(found, rows @ mechanism.unit_values(measured), atol=1e-8)
        variance = mechanism.completed_variance(plain(*names))
        np.testing.assert_allclose(variance, (rows**2).sum(axis=1), atol=1e-8)


@pytest.mark.parametrize("kind", ["product", "whole", "both"])
def test_residuals_are_completed_to_what_was_measured(kind: str) -> None:
    mechanism = mixed(kind)
    measured = drawn(mechanism)
    cells = mechanism.completed(measured, plain(*SCHEMA.names))
    # All rows are independent: some counts have exactly what was measured.
    np.testing.assert_allclose(
        mechanism.unit_rows() @ cells, mechanism.unit_values(measured), atol=1e-8
    )
    for names in EVERY:  # and all tables are those of these counts
        own = plain(*names).apply(cells.reshape(SCHEMA.shape))
        np.testing.assert_allclose(mechanism.completed(measured, plain(*names)), own, atol=1e-8)


@pytest.mark.parametrize("kind", ["product", "whole", "both"])
def test_the_noise_of_completed_residuals(kind: str) -> None:
    """Number by number: what one of them adds to each cell, times its own noise."""
    mechanism = mixed(kind)
    query, found = plain("a", "b"), np.zeros(8)
    blank = [np.zeros(shape) for shape in mechanism.shapes]
    for block, values in zip(mechanism.blocks, blank, strict=True):
        for place in np.ndindex(values.shape):
            values[place] = 1.0
            found += mechanism.completed(Measurements(tuple(blank)), query) ** 2 * block.sigma2[0]
            values[place] = 0.0
    np.testing.assert_allclose(mechanism.completed_variance(query), found, atol=1e-8)


def test_what_is_determined_is_as_it_was() -> None:
    mechanism: Mechanism
    for mechanism in (mixed("both"), rows_mechanism(False), matrix_mechanism()):
        measured, told = drawn(mechanism), 0
        for names in EVERY:
            try:
                answer = mechanism.answer(measured, plain(*names))
            except UnanswerableError:
                continue
            told += 1
            assert mechanism.completed(measured, plain(*names)) == pytest.approx(answer)
            variance = mechanism.variance(plain(*names))
            assert mechanism.completed_variance(plain(*names)) == pytest.approx(variance)
        assert 2 < told < len(EVERY)


@pytest.mark.parametrize("mechanism", [mixed("both"), rows_mechanism(False), matrix_mechanism()])
def test_attributes_that_are_not_measured_together_are_refused(mechanism: Mechanism) -> None:
    with pytest.raises(UnanswerableError):
        mechanism.require(plain("a", "b"))
    mechanism.require_completed(plain("a", "b"))
    with pytest.raises(UnanswerableError):
        mechanism.require_completed(plain("a", "b", "c"))
    other = nz.Schema.from_sizes({"a": 4, "b": 2, "c": 3})
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.require_completed(nz.Query(other, ["a", "b"]))


def test_a_smaller_domain_is_completed_like_the_one_inside() -> None:
    outer = nz.Schema({**{n: SCHEMA[n] for n in SCHEMA.names}, "d": nz.Ordinal(range(2))})
    groups = tuple(np.arange(n) for n in SCHEMA.shape)
    small = mixed("both")
    mechanism = ReducedMechanism(MergedValues(outer, np.arange(3), groups), small)
    measured, query = drawn(small), nz.Query(outer, ["a", "b"])
    mechanism.require_completed(query)
    inner = small.completed(measured, plain("a", "b"))
    assert mechanism.completed(measured, query).tolist() == inner.tolist()
    variance = small.completed_variance(plain("a", "b"))
    assert mechanism.completed_variance(query).tolist() == variance.tolist()
    with pytest.raises(UnanswerableError, match="does not measure"):
        mechanism.require_completed(nz.Query(outer, ["a", "d"]))
