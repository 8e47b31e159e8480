"""What a release draws its noise from: one object, with a brand that every release carries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.noise.discrete import discrete_gaussian, discrete_laplace
from noiseplan.noise.randomness import NOT_PRIVATE, Source

# Floating-point noise is branded so; by this and `NOT_PRIVATE` a saved simulation is known.
FOR_SIMULATION: Final = "for simulation"


class NoiseSampler(ABC):
    """What draws the noise of a release, and says of itself whether that may be published.

    Privacy
    -------
    Both properties are abstract: a new kind of noise is not for publishing by oversight. A ledger
    charges for noise that has both, and for no other.
    """

    @abstractmethod
    def __call__(self, shape: tuple[int, ...], *parameters: Any) -> NDArray[np.number]:
        """Noise of this shape; those of integers take a parameter per entry of its last axis."""

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether integers are drawn by their exact law, with no floating-point number between."""

    @property
    @abstractmethod
    def secret(self) -> bool:
        """Whether nobody else can know the bits, or draw them again."""

    @property
    @abstractmethod
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""

    @final
    @property
    def private(self) -> bool:
        """Whether the noise protects what it is added to: exact, and secret."""
        return self.exact is True and self.secret is True


def is_simulation(brand: str) -> bool:
    """Whether a release with noise of this brand is not for publishing.

    Examples
    --------
    >>> is_simulation("floating-point Laplace noise, for simulation")
    True
    """
    return FOR_SIMULATION in brand or NOT_PRIVATE in brand


def simulation_warning(brand: str) -> str:
    """What answers and reports say of a release with noise of this brand; nothing if it is safe.

    Examples
    --------
    >>> simulation_warning("floating-point Laplace noise, for simulation")
    'not for publishing: floating-point Laplace noise, for simulation'
    """
    return f"not for publishing: {brand}" if is_simulation(brand) else ""


@dataclass(frozen=True)
class DiscreteSampler(NoiseSampler):
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
        return f"exact discrete Gaussian noise, {_bits(self.source)}"

    @property
    def exact(self) -> bool:
        """By construction: integers, compared with integers."""
        return True

    @property
    def secret(self) -> bool:
        """As secret as its source."""
        return self.source.private


@dataclass(frozen=True)
class DiscreteLaplaceSampler(NoiseSampler):
    """Exact discrete Laplace noise, from the operating system unless a test gives a seed."""

    source: Source

    def __call__(self, shape: tuple[int, ...], scales: Array) -> IntArray:
        """Integers of this shape; the last axis has one scale per entry."""
        return _draw_each(discrete_laplace, shape, scales, self.source)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        return f"exact discrete Laplace noise, {_bits(self.source)}"

    @property
    def exact(self) -> bool:
        """By construction: integers, compared with integers."""
        return True

    @property
    def secret(self) -> bool:
        """As secret as its source."""
        return self.source.private


def _bits(source: Source) -> str:
    """The brand of a source, which may be anybody's; one that is not private says so."""
    told = source.private or NOT_PRIVATE in source.brand
    return source.brand if told else f"{source.brand}, so {NOT_PRIVATE}"


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
