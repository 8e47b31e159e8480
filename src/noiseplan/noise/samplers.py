"""What a release draws its noise from: one object, with a brand that every release carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.noise.discrete import discrete_gaussian
from noiseplan.noise.randomness import Source


@dataclass(frozen=True)
class DiscreteSampler:
    """Exact discrete Gaussian noise, from the operating system unless a test gives a seed."""

    source: Source

    def __call__(self, shape: tuple[int, ...], variances: Array) -> IntArray:
        """Integers of this shape; the last axis has one variance parameter per entry.

        A float is the rational number it stands for, so the law is exact.
        """
        distinct, kind = np.unique(variances, return_inverse=True)
        if len(distinct) == 1:
            return discrete_gaussian(float(distinct[0]), shape, source=self.source)
        noise = np.empty(shape, dtype=np.int64)
        places = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind)))
        for variance, chosen in zip(distinct, places, strict=False):  # the last place is empty
            size = (*shape[:-1], len(chosen))
            noise[..., chosen] = discrete_gaussian(float(variance), size, source=self.source)
        return noise

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        return f"exact discrete Gaussian noise, {self.source.brand}"

    @property
    def private(self) -> bool:
        """Whether nobody else can know the noise."""
        return self.source.private
