"""The published optimiser, step by step as its authors describe and share it.

The gradient in z lacks the response of the projection; the step starts at one for the gradient of
L/n, is halved until 50 iterations survive, then three lengths are tried for 50 iterations each, and
the one with the smallest worst-case variance goes on for 250, halved every 50.

References
----------
McKenna, Maity, Mazumdar and Miklau (2020), Section 4 and the code the paper points to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from noiseplan.local.search.descent import AT_BOUND, project, random_start, slope
from noiseplan.local.strategies.strategy import TableStrategy
from noiseplan.optimize.array_namespace import AnyArray, namespace_of, to_backend, to_numpy

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class Recipe:
    """One run from a random start of 4n outputs."""

    gram: Array
    epsilon: float
    seed: int = 0
    backend: str = "numpy"

    def samples(self, rows: float) -> float:
        """Worst-case samples at variance 0.01."""
        return self._worst(self.run()) / rows / 0.01

    def run(self) -> Array:
        """The strategy the recipe ends with."""
        types = len(self.gram)
        made = random_start(4 * types, types, self.epsilon, np.random.default_rng(self.seed))
        start = to_backend(made[0], self.backend), to_backend(made[1], self.backend)
        length = 1.0
        while (first := self._steps(*start, length, 50)) is None:
            length /= 2
        trials = [(first, length)]
        for shorter in (length / 2, length / 4):
            found = self._steps(*start, shorter, 50)
            if found is not None:
                trials.append((found, shorter))
        (best, lower), length = min(trials, key=lambda trial: self._worst(trial[0][0]))
        while (final := self._steps(best, lower, length, 250, halve=True)) is None:
            length /= 4
        return to_numpy(min((final[0], best), key=self._worst))

    def _steps(
        self, strategy: AnyArray, lower: AnyArray, length: float, steps: int, halve: bool = False
    ) -> tuple[AnyArray, AnyArray] | None:
        """Iterations of one length; None if one of them fails."""
        ratio, types = exp(self.epsilon), len(self.gram)
        xp = namespace_of(strategy)
        gram = to_backend(self.gram, self.backend)
        prior = to_backend(np.full(types, 1 / types), self.backend)
        first = None
        for t in range(steps):
            if halve and t and t % 50 == 0:
                length /= 2
            try:
                here = slope(strategy, gram, prior)
            except (np.linalg.LinAlgError, RuntimeError):
                return None
            first = first or here.value
            if not 0 < here.value < 10 * first:
                return None
            low = strategy <= lower[:, None] * (1 + AT_BOUND)
            high = strategy >= lower[:, None] * ratio * (1 - AT_BOUND)
            along = xp.sum(here.gradient * (low + ratio * high), axis=1)
            lower = xp.clip(lower - length / (types * ratio) * along, 0.0, 1.0)
            if not float(xp.sum(lower)) <= 1 <= ratio * float(xp.sum(lower)):
                return None
            kept = lower > 1e-10
            strategy, lower = strategy[kept] - length * here.gradient[kept], lower[kept]
            strategy = project(strategy, lower, ratio)
        return strategy, lower

    def _worst(self, strategy: AnyArray) -> float:
        made = TableStrategy.of(to_numpy(strategy), self.epsilon)
        return float((made.total_moments(self.gram) - np.diagonal(self.gram)).max())
