"""Mechanisms written out as rows and numbers, and tables of what answers queries."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing.which_family import family_for
from noiseplan.errors import PlanError
from noiseplan.mechanisms.base import Mechanism
from noiseplan.queries import Prefix

SCHEMA = nz.Schema.from_sizes({"a": 4, "b": 3})
PREFIXES = nz.Workload([nz.Query(SCHEMA, {"a": Prefix(), "b": nz.Identity()})])


def mechanism(planner: str) -> Mechanism:
    return nz.plan(PREFIXES, budget=nz.zCDP(0.5), planner=planner, noise="gaussian").mechanism


@pytest.mark.parametrize("planner", ["residual", "optimal"])
def test_rows_and_numbers_are_those_that_are_measured(planner: str) -> None:
    made = mechanism(planner)
    rows = made.unit_rows()
    np.testing.assert_allclose(rows.T @ rows, made.cost_matrix(), rtol=1e-9, atol=1e-12)
    counts = np.random.default_rng(0).poisson(9.0, SCHEMA.shape).astype(float)

    def marginals(sets: np.ndarray) -> np.ndarray:
        gone = [tuple({0, 1} - set(row)) for row in sets.tolist()]
        return np.array([counts.sum(axis=axes) for axes in gone])

    measured = made.measure(marginals, lambda shape, noise: np.zeros(shape))
    np.testing.assert_allclose(made.unit_values(measured), rows @ counts.ravel(), rtol=1e-9)
    asked = made.measured_queries(1000)
    assert sum(query.rows for query in asked) >= len(rows)
    for query in asked:
        made.require(query)


def test_what_has_no_rows_to_compare_is_refused() -> None:
    tables = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.PureDP(1.0)).mechanism
    with pytest.raises(PlanError, match="neither a matrix nor of the residual family"):
        family_for([mechanism("optimal"), tables], "add-remove")


def test_a_look_has_the_tables_of_its_release() -> None:
    tables = [nz.Workload.marginals(SCHEMA, k=k) for k in (1, 2)]
    choice = nz.adaptive([nz.plan(table, budget=nz.zCDP(0.5)) for table in tables])
    look = choice.look({"a": [0, 1, 3], "b": [2, 2, 0]})
    assert look.schema == SCHEMA
    for options in ({}, {"level": 0.5}, {"simultaneous": True}):
        mine, own = (one.table("a", frame="polars", **options) for one in (look, look.release))
        assert mine.equals(own)
    assert look.table(["a"], frame="polars").equals(look.table("a", frame="polars"))
    named = look.plan.workload.query(0).name
    assert look.table(named, frame="polars").equals(look.release.table(named, frame="polars"))
