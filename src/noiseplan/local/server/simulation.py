"""Made-up users: what an aggregator would hold if so many of them reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.local.server.aggregator import Aggregator
from noiseplan.local.strategies.strategy import TableStrategy
from noiseplan.noise.randomness import SeededSource, SystemSource

# Users drawn one by one at a time; for tables, beyond this many, by multinomials.
DRAWN_AT_ONCE = 1 << 20


def simulate(made: Aggregator, people: Any, seed: int | None) -> Aggregator:
    """An empty aggregator filled with reports of users; with a seed the same ones every time.

    Users are given by how many there are in each cell or, where they are split over tables, by a
    column of values for each attribute.
    """
    made.brand = "simulated" if seed is None else f"simulated from seed {seed}"
    source = SystemSource() if seed is None else SeededSource(seed)
    if made.reconstruction.split:
        made.add_many(made.randomizer.reports(people, source=source))
        return made
    types, strategy = made.reconstruction.parts[0].types, made.reconstruction.parts[0].strategy
    x = types.users(people)  # how many users there are of each type
    whole = np.round(x).astype(np.int64)
    if not np.allclose(x, whole, atol=1e-9):
        raise PlanError("counts are whole numbers of users, finite and at least 0 each")
    if isinstance(strategy, TableStrategy) and whole.sum() > DRAWN_AT_ONCE:
        rng = np.random.default_rng(seed)
        chances = strategy.chances / strategy.chances.sum(axis=0)
        for users, column in zip(whole, chances.T, strict=True):
            if users:
                made.tally += rng.multinomial(users, column)
        made.users = int(whole.sum())
        return made
    ends = np.cumsum(whole)
    for start in range(0, int(whole.sum()), DRAWN_AT_ONCE):
        users = np.arange(start, min(start + DRAWN_AT_ONCE, int(whole.sum())))
        drawn = np.searchsorted(ends, users, side="right").astype(np.int64)
        made.add_many(made.randomizer.draw(drawn, source))
    return made
