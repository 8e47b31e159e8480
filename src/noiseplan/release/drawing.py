"""What draws the noise of a plan, by the name of its noise."""

from __future__ import annotations

import numpy as np

from noiseplan.errors import PlanError, remedy
from noiseplan.noise import (
    ExactSampler,
    NoiseSampler,
    SeededSource,
    SimulationSampler,
    Source,
    SystemSource,
)
from noiseplan.noise.law import NAMED


def sampler_for(
    noise: str, seed: int | None = None, randomness: Source | None = None
) -> NoiseSampler:
    """The sampler of this noise, from the operating system's randomness unless given others."""
    seed = _checked_seed(seed)
    if noise not in NAMED:
        raise PlanError(
            "this plan describes measurements that were made already: it has no noise to draw; "
            "release the plan they came from, or ask for more with another_plan.given(release)"
        )
    law, exact = NAMED[noise].law, NAMED[noise].exact
    if randomness is not None and (seed is not None or not exact):
        raise PlanError("randomness= is for discrete noise, without a seed")
    if randomness is not None and not isinstance(randomness, Source):
        raise PlanError(f"randomness= is a Source, such as StreamSource(); found {randomness!r}")
    if not exact:
        return SimulationSampler(law, seed)
    source = (randomness or SystemSource()) if seed is None else SeededSource(seed)
    return ExactSampler(law, source)


def require_private(sampler: NoiseSampler) -> None:
    """Refuse to record a release whose noise protects nobody, whatever it is called."""
    if not sampler.private:
        raise PlanError(
            f"a ledger records releases to be published, and this one has {sampler.brand}: plan "
            f"with the default noise and "
            + remedy("seed or ledger", "leave out seed= to publish, or ledger= to test")
        )


def _checked_seed(seed: int | None) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise PlanError(f"a seed is an integer (for tests only), found {seed!r}")
    if seed < 0:
        raise PlanError(f"a seed is not negative, found {seed}")
    return int(seed)
