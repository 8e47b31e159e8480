"""A plan for programs: every figure that is printed about it."""

from __future__ import annotations

import math
from typing import Any

from noiseplan.planning.plan import Plan
from noiseplan.storage.certificate import privacy_json


def plan_figures(plan: Plan) -> dict[str, Any]:
    """Everything that is printed about a plan, for programs."""
    common = {
        "queries": len(plan.workload),
        "rows": plan.workload.rows,
        "planner": plan.planner,
        "noise": plan.noise,
        "privacy": privacy_json(plan.privacy, plan.max_rows, unit=plan.unit),
    }
    if plan.data_aware:
        return common | {"rmse": None, "errors": "depend on the data; a release estimates them"}
    bound, worst = plan.lower_bound, plan.worst_variance
    return common | {
        "objective": str(plan.objective),
        "rmse": plan.rmse,
        "total_variance": plan.total_variance,
        "worst_variance": worst if math.isfinite(worst) else None,
        "lower_bound": bound if math.isfinite(bound) else None,
        "optimal": plan.optimal,
        "target_scale": plan.target_scale,
        "measured_numbers": plan.measured_numbers,
        "memory": plan.memory,
        "tables": plan.fairness(),
    }
