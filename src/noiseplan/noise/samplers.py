"""What a release draws its noise from: one object, with a brand that every release carries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from noiseplan.errors import NoiseError, PlanError
from noiseplan.noise.law import LAWS, NAMED, Drawn, Law, Noise
from noiseplan.noise.randomness import NOT_PRIVATE, SeededSource, Source, SystemSource

# Floating-point noise can leak through its gaps (Mironov 2012), and says of itself what it is for.
FOR_SIMULATION: Final = "for simulation"


def exact_text(law: Law, bits: str) -> str:
    """What is said of exact noise drawn from these bits."""
    return f"exact discrete {LAWS[law]} noise, {bits}"


class NoiseSampler(ABC):
    """What draws the noise of a release, and says of itself whether that may be published.

    Privacy
    -------
    Both properties are abstract: a new kind of noise is not for publishing by oversight. A ledger
    charges for noise that has both, and for no other.

    Examples
    --------
    >>> from noiseplan.noise import SystemSource
    >>> secure, simulated = ExactSampler("gaussian", SystemSource()), SimulationSampler("gaussian")
    >>> secure.private, simulated.private
    (True, False)
    """

    @abstractmethod
    def __call__(self, shape: tuple[int, ...], noise: Noise) -> Drawn:
        """Noise of this shape."""

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


@final
@dataclass(frozen=True)
class ExactSampler(NoiseSampler):
    """Exact discrete noise of one law, from a source of bits.

    Examples
    --------
    >>> from noiseplan.noise import SystemSource
    >>> ExactSampler("gaussian", SystemSource()).private
    True
    """

    law: Law
    source: Source

    def __call__(self, shape: tuple[int, ...], noise: Noise) -> Drawn:
        """Integers; noise of another law than the brand says is refused."""
        if noise.law != self.law:
            raise _other_law(self.law, noise)
        return noise.draw(shape, self.source)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        source = self.source
        told = source.private is True or NOT_PRIVATE in source.brand  # others may not say it
        bits = source.brand if told else f"{source.brand}, so {NOT_PRIVATE}"
        return exact_text(self.law, bits)

    exact = True  # by construction: integers, compared with integers

    @property
    def secret(self) -> bool:
        """As secret as its source."""
        return self.source.private


@final
@dataclass(frozen=True)
class SimulationSampler(NoiseSampler):
    """Floating-point noise of one law: fast, and seeded by the operating system unless given one.

    Floating-point noise can leak through its gaps (Mironov 2012), so whatever is made with it says
    so.

    Examples
    --------
    >>> SimulationSampler("laplace", seed=7).private
    False
    """

    law: Law
    seed: int | None = None
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def __call__(self, shape: tuple[int, ...], noise: Noise) -> Drawn:
        """Floating-point numbers; noise of another law than the brand says is refused."""
        if noise.law != self.law:
            raise _other_law(self.law, noise)
        return noise.draw(shape, self._generator)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        seeded = f"; drawn from seed {self.seed}, so {NOT_PRIVATE}" if self.seed is not None else ""
        return f"floating-point {LAWS[self.law]} noise, {FOR_SIMULATION}{seeded}"

    exact = False  # what floating-point noise hides can leak through its gaps
    secret = False  # NumPy's generator is made for simulation


def _other_law(law: Law, noise: Noise) -> NoiseError:
    return NoiseError(f"the release is to say {law} noise, and {noise.law} noise was asked for")


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


def _checked_seed(seed: int | None) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise PlanError(f"a seed is an integer (for tests only), found {seed!r}")
    if seed < 0:
        raise PlanError(f"a seed is not negative, found {seed}")
    return int(seed)
