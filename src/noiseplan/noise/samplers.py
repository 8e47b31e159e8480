"""What a release draws its noise from: one object, with a brand that every release carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.noise.discrete import discrete_gaussian, discrete_laplace
from noiseplan.noise.randomness import Source


@dataclass(frozen=True)
class DiscreteSampler:
    """Exact discrete Gaussian noise, from the operating system unless a test gives a seed."""

    source: Source

    def __call__(self, shape: tuple[int, ...], variances: Array) -> IntArray:
        """Integers of this shape; the last axis has one variance parameter per entry.

        A float is the rational number it stands for, so the law is exact.
        """
        return _draw_each(discrete_gaussian, shape, variances, self.source)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        return f"exact discrete Gaussian noise, {self.source.brand}"

    @property
    def private(self) -> bool:
        """Whether nobody else can know the noise."""
        return self.source.private


@dataclass(frozen=True)
class DiscreteLaplaceSampler:
    """Exact discrete Laplace noise, from the operating system unless a test gives a seed."""

    source: Source

    def __call__(self, shape: tuple[int, ...], scales: Array) -> IntArray:
        """Integers of this shape; the last axis has one scale per entry."""
        return _draw_each(discrete_laplace, shape, scales, self.source)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        return f"exact discrete Laplace noise, {self.source.brand}"

    @property
    def private(self) -> bool:
        """Whether nobody else can know the noise."""
        return self.source.private


def _draw_each(
    draw: Callable[..., IntArray], shape: tuple[int, ...], parameters: Array, source: Source
) -> IntArray:
    """Draws whose last axis has one parameter per entry, those of equal parameter together."""
    distinct, kind = np.unique(parameters, return_inverse=True)
    if len(distinct) == 1:
        return draw(float(distinct[0]), shape, source=source)
    noise = np.empty(shape, dtype=np.int64)
    places = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind)))
    for parameter, chosen in zip(distinct, places, strict=False):  # the last place is empty
        noise[..., chosen] = draw(float(parameter), (*shape[:-1], len(chosen)), source=source)
    return noise
