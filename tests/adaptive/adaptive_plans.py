"""Small plans over one table of counts, and a watch on what is really measured."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.planning.plan import Plan
from noiseplan.release import release as release_module

SCHEMA = nz.Schema.from_sizes({"age": 4, "sex": 2, "region": 3})
COUNTS = np.random.default_rng(1).integers(0, 40, size=SCHEMA.shape)
MIXED = {"age": nz.Prefix()}


def plan(k: int, rho: float = 0.5, **options: object) -> Plan:
    """All tables of k attributes."""
    factors = options.pop("factors", None)
    workload = nz.Workload.marginals(SCHEMA, k=k, factors=factors)  # type: ignore[arg-type]
    return nz.plan(workload, budget=nz.zCDP(rho), **options)  # type: ignore[arg-type]


def data() -> CountTensor:
    return CountTensor(SCHEMA, COUNTS)


def watch(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Every plan that is really measured, in order: the look's and the rest's."""
    seen: list[Plan] = []
    make = release_module.make_release

    def watched(plan: Plan, data: object, **how: object) -> nz.Release:
        seen.append(plan)
        return make(plan, data, **how)  # type: ignore[arg-type]

    for module in ("circumstances", "continuation"):
        monkeypatch.setattr(f"noiseplan.choosing.{module}.make_release", watched)
    return seen
