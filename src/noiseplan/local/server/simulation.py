"""Made-up users: what an aggregator would hold if so many users of each cell reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.local.server.aggregator import Aggregator
from noiseplan.local.strategies.base import TableStrategy
from noiseplan.noise.randomness import SeededSource, SystemSource

if TYPE_CHECKING:
    from noiseplan.local.localplan import LocalPlan
    from noiseplan.local.splitplan import SplitPlan

# Users drawn one by one at a time; for tables, beyond this many, by multinomials.
PIECE = 1 << 20


def simulate_records(plan: SplitPlan, records: Mapping[str, Any], seed: int | None) -> Aggregator:
    """The reports of users given by columns of values."""
    made = Aggregator.empty(plan)
    made.brand = "simulated" if seed is None else f"simulated from seed {seed}"
    source = SystemSource() if seed is None else SeededSource(seed)
    made.add_many(plan.randomizer().reports(records, source=source))
    return made


def simulate(plan: LocalPlan, counts: Any, seed: int | None) -> Aggregator:
    """The reports of `counts` users per cell; with a seed the same ones every time."""
    x = plan.types.users(counts)  # how many users there are of each type
    whole = np.round(x).astype(np.int64)
    if not np.allclose(x, whole, atol=1e-9):
        raise PlanError("counts are whole numbers of users, finite and at least 0 each")
    made = Aggregator.empty(plan)
    made.brand = "simulated" if seed is None else f"simulated from seed {seed}"
    if isinstance(plan.strategy, TableStrategy) and whole.sum() > PIECE:
        rng = np.random.default_rng(seed)
        chances = plan.strategy.chances / plan.strategy.chances.sum(axis=0)
        for users, column in zip(whole, chances.T, strict=True):
            if users:
                made.tally += rng.multinomial(users, column)
        made.users = int(whole.sum())
        return made
    source = SystemSource() if seed is None else SeededSource(seed)
    ends = np.cumsum(whole)
    for start in range(0, int(whole.sum()), PIECE):
        users = np.arange(start, min(start + PIECE, int(whole.sum())))
        types = np.searchsorted(ends, users, side="right").astype(np.int64)
        made.add_many(made.randomizer.draw(types, source))
    return made
