"""A row of ones on an attribute that no mechanism measures: the total, told like any other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mechanism_examples import GROUPS, PURE, ZCDP, alone, by, levels, own_rows, series, tree

import noiseplan as nz
from noiseplan.errors import UnanswerableError

SCHEMA = nz.Schema.from_sizes({"age": 7, "sex": 2, "other": 3})
ROWS = {"age": nz.Prefix(), "sex": nz.Identity()}
TABLES = nz.Workload([nz.Query(SCHEMA, {"age": GROUPS}), nz.Query(SCHEMA, ["age", "sex"])])
SUMS = nz.Workload([nz.Query(SCHEMA, ROWS)])
MADE: dict[str, Callable[[], nz.Plan]] = {
    "residual": by(TABLES, planner="residual"),
    "matrix": by(SUMS, planner="optimal"),
    "tables": by(TABLES, budget=PURE, planner="identity"),
    "own rows": own_rows(SUMS, budget=ZCDP),
    "tree": tree(TABLES, budget=ZCDP),
    "levels": levels(TABLES, budget=ZCDP),
    "series": series(SUMS, budget=ZCDP),
    "side by side": alone(TABLES, budget=ZCDP),
}


@pytest.mark.parametrize("name", MADE)
def test_a_row_of_ones_is_the_total(name: str) -> None:
    """Estimates, errors and covariances are those of the same query without it."""
    plan = MADE[name]()
    release = plan.release(np.arange(42).reshape(SCHEMA.shape), seed=1)
    ones = nz.Custom([[1, 1, 1]], "all of them", ["everybody"])
    plain = plan.workload.query(len(plan.workload) - 1)
    query = nz.Query(SCHEMA, {**plain.factors, "other": ones})
    found, known = release.answer(query), release.answer(plain)
    np.testing.assert_allclose(found.estimate, known.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.std_error, known.std_error, rtol=1e-9)
    assert found.query is query and "everybody" in str(found)
    for pair in ((query, plain), (plain, query), (query, query)):
        np.testing.assert_allclose(
            plan.covariance(*pair), plan.covariance(plain, plain), rtol=1e-9, atol=1e-12
        )
    told_apart = nz.Query(SCHEMA, {**plain.factors, "other": nz.Custom([[1, 1, 2]])})
    if name != "matrix":
        with pytest.raises(UnanswerableError, match="other"):
            release.answer(told_apart)
