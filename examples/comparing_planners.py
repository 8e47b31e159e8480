"""The planners by name on a few workloads: the same privacy, different errors.

"residual+" is ResidualPlanner+ with its best strategies, "product" the best product strategy, and
"residual" the default. The last column says how much of the total variance is proved necessary.
"""

import noiseplan as nz

PLANNERS = ("residual+", "product", "residual")
BUDGET = nz.zCDP(0.5)


def all_prefix(attributes: int, values: int, k: int) -> nz.Workload:
    """All k-way tables of prefix sums."""
    schema = nz.Schema.from_sizes({f"a{i}": values for i in range(attributes)})
    return nz.Workload.marginals(schema, k=k, factors=dict.fromkeys(schema, nz.Prefix()))


survey = nz.Schema.from_sizes({"income": 40, "age": 25, "marital": 7, "race": 4, "sex": 2})
ordered = {"income": nz.Prefix(), "age": nz.Ranges()}
workloads = {
    "plain tables, ≤ 3 of 5": nz.Workload.marginals(survey, up_to=3),
    "prefix and ranges, ≤ 2 of 5": nz.Workload.marginals(survey, up_to=2, factors=ordered),
    "prefix, 2 of 5": all_prefix(5, 10, 2),
    "prefix, 5 of 5": all_prefix(5, 10, 5),
    "prefix, 3 of 20": all_prefix(20, 20, 3),
}

print(f"{'RMSE at ρ = 0.5':<29}" + "".join(f"{name:>12}" for name in PLANNERS) + f"{'proved':>10}")
for title, workload in workloads.items():
    plans = [nz.plan(workload, budget=BUDGET, planner=name) for name in PLANNERS]
    errors = "".join(f"{plan.rmse:>12.3f}" for plan in plans)
    print(f"{title:<29}{errors}{plans[-1].efficiency:>10.1%}")
