"""What draws the noise of a plan, by the name of its noise."""

from __future__ import annotations

import numpy as np

from noiseplan.errors import PlanError, remedy
from noiseplan.noise import (
    DiscreteLaplaceSampler,
    DiscreteSampler,
    LaplaceSampler,
    NoiseSampler,
    NormalSampler,
    SeededSource,
    Source,
    SystemSource,
)

DISCRETE: dict[str, type[DiscreteSampler | DiscreteLaplaceSampler]] = {
    "discrete": DiscreteSampler,
    "discrete Laplace": DiscreteLaplaceSampler,
}
CONTINUOUS: dict[str, type[NormalSampler | LaplaceSampler]] = {
    "gaussian": NormalSampler,
    "laplace": LaplaceSampler,
}


def sampler_for(
    noise: str, seed: int | None = None, randomness: Source | None = None
) -> NoiseSampler:
    """The sampler of this noise, from the operating system's randomness unless given others."""
    seed = _checked_seed(seed)
    if noise not in (*DISCRETE, *CONTINUOUS):
        raise PlanError(
            "this plan describes measurements that were made already: it has no noise to draw; "
            "release the plan they came from, or ask for more with another_plan.given(release)"
        )
    if randomness is not None and (seed is not None or noise not in DISCRETE):
        raise PlanError("randomness= is for discrete noise, without a seed")
    if randomness is not None and not isinstance(randomness, Source):
        raise PlanError(f"randomness= is a Source, such as StreamSource(); found {randomness!r}")
    if noise in CONTINUOUS:
        return CONTINUOUS[noise](seed)
    source = (randomness or SystemSource()) if seed is None else SeededSource(seed)
    return DISCRETE[noise](source)


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
