"""Floating-point Laplace noise: fast, and for simulation.

Floating-point noise can leak through its gaps (Mironov 2012), so whatever is made with it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.noise.randomness import NOT_PRIVATE
from noiseplan.noise.samplers import FOR_SIMULATION, NoiseSampler


@dataclass(frozen=True)
class LaplaceSampler(NoiseSampler):
    """Laplace numbers of scale one, seeded from the operating system unless a test gives a seed."""

    seed: int | None = None
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def __call__(self, shape: tuple[int, ...], *parameters: Any) -> Array:
        return self._generator.laplace(size=shape)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        seeded = f"; drawn from seed {self.seed}, so {NOT_PRIVATE}" if self.seed is not None else ""
        return f"floating-point Laplace noise, {FOR_SIMULATION}{seeded}"

    @property
    def exact(self) -> bool:
        """Never: what floating-point noise hides can leak through its gaps."""
        return False

    @property
    def secret(self) -> bool:
        """Never: NumPy's generator is made for simulation."""
        return False
