"""The types of the public names, as a type checker sees them in an installed noiseplan.

Checked by `tests/test_typed_api.py` with mypy's strict rules; never run.
"""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import noiseplan as nz
from noiseplan.choosing import Continuation, Look
from noiseplan.comparing import Comparison
from noiseplan.local import Aggregator, LocalPlan, Randomizer
from noiseplan.noise import discrete_gaussian
from noiseplan.release.answers import Answer
from noiseplan.statistics.statistic import Statistic
from noiseplan.valid import ValidTables

Numbers = NDArray[np.float64]

schema = nz.Schema(
    {
        "age": nz.Ordinal(range(100)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 10_000, 20_000]),
    }
)
assert_type(schema, nz.Schema)
assert_type(nz.Schema.from_sizes({"a": 3}), nz.Schema)
assert_type(schema.shape, tuple[int, ...])
assert_type(schema.size, int)

query = nz.Query(schema, {"age": nz.Ranges(), "sex": nz.Identity()}, weight=4.0, name="ranges")
assert_type(query, nz.Query)
assert_type(query.rows, int)
assert_type(query.weight, float)
assert_type(query.name, str)

workload = nz.Workload.marginals(schema, up_to=2, factors={"age": nz.Prefix()}) + query
assert_type(workload, nz.Workload)
assert_type(len(workload), int)
for each in workload:
    assert_type(each, nz.Query)

plan = nz.plan(workload, budget=nz.zCDP(0.5), objective=nz.WorstVariance())
assert_type(plan, nz.Plan)
assert_type(plan.rmse, float)
assert_type(plan.total_variance, float)
assert_type(plan.lower_bound, float)
assert_type(plan.privacy, nz.Guarantee)
assert_type(plan.privacy.rho, float)
assert_type(plan.privacy.epsilon(delta=1e-9), float)
assert_type(plan.variance(query), Numbers)
assert_type(plan.covariance(query, query), Numbers)
assert_type(plan.cost_matrix(), Numbers)
assert_type(nz.plan(workload, targets={"ranges": 25.0}), nz.Plan)

release = plan.release("people.parquet")
assert_type(release, nz.Release)
assert_type(release.answer(query), Answer)
assert_type(release.answer(query).estimate, Numbers)
assert_type(release.answer(query).std_error, Numbers)
assert_type(release.covariance(query, query), Numbers)
assert_type(release.median("age"), Statistic)
assert_type(release.valid(), ValidTables)
assert_type(release.table("age", "sex"), Any)  # of whichever library the data came in
assert_type(nz.load(Path("out")), nz.Release)
assert_type(plan.given(release), Continuation)
assert_type(nz.adaptive([plan, plan]).look("people.parquet"), Look)
assert_type(nz.compare({"one": plan}), Comparison)

ledger = nz.Ledger("budgets.ledger", create=True)
assert_type(ledger, nz.Ledger)
assert_type(ledger.datasets(), tuple[str, ...])

local_plan = nz.local.plan(query, epsilon=1.0)
assert_type(local_plan, LocalPlan)
assert_type(local_plan.randomizer(), Randomizer)
assert_type(local_plan.aggregator(), Aggregator)
assert_type(local_plan.randomizer().report(3), bytes)

assert_type(discrete_gaussian(4.0, 10), NDArray[np.int64])
