"""Calls that a type checker must refuse: each line here is an error, and says so.

With mypy's strict rules a comment that ignores nothing is an error itself.
"""

import noiseplan as nz

schema = nz.Schema.from_sizes({"age": 5})
query = nz.Query(schema, ["age"])
workload = nz.Workload([query])

nz.zCDP("much")  # type: ignore[arg-type]
nz.plan(workload, budget=0.5)  # type: ignore[arg-type]
nz.plan(workload, budgets=nz.zCDP(0.5))  # type: ignore[call-arg]
nz.plan(workload, budget=nz.zCDP(0.5), neighbours="swap")  # type: ignore[arg-type]
nz.plan(workload, budget=nz.zCDP(0.5)).release()  # type: ignore[call-arg]
nz.plan(workload, budget=nz.zCDP(0.5)).variances  # type: ignore[attr-defined]
nz.marginals  # type: ignore[attr-defined]
