"""Floating-point Gaussian noise: fast, and for simulation.

Floating-point noise can leak through its gaps (Mironov 2012), so whatever is made with it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from noiseplan.matrices.base import Array


@dataclass(frozen=True)
class NormalSampler:
    """Standard normal numbers, seeded from the operating system unless a test gives a seed."""

    seed: int | None = None
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def __call__(self, shape: tuple[int, ...]) -> Array:
        return self._generator.standard_normal(shape)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        seeded = f"; drawn from seed {self.seed}, so NOT PRIVATE" if self.seed is not None else ""
        return f"floating-point Gaussian noise, for simulation{seeded}"

    @property
    def private(self) -> bool:
        """Never: what floating-point noise hides can leak through its gaps."""
        return False
