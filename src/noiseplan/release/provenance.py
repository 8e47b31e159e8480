"""Where the noise of a release came from, and whether that protects anybody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, final

from noiseplan.noise import NoiseSampler
from noiseplan.noise.law import LAWS
from noiseplan.noise.randomness import FROM_STREAM, FROM_SYSTEM
from noiseplan.noise.samplers import exact_text

# Between two draws, or two entries, of one release that was made in two steps.
BETWEEN: Final = "; "


@final
@dataclass(frozen=True)
class Drawn:
    """Noise that was drawn once, in words, and whether it protects what it was added to."""

    text: str
    private: bool


# What others made is theirs to answer for.
ELSEWHERE: Final = Drawn("noise of tables made elsewhere, as stated by their maker", private=True)
# Every text of private noise that is saved, but those of other people's sources.
PRIVATE: Final = frozenset(
    {
        ELSEWHERE.text,
        *(exact_text(law, bits) for law in LAWS for bits in (FROM_SYSTEM, FROM_STREAM)),
    }
)


@final
@dataclass(frozen=True)
class Provenance:
    """The noise of a release, and where a ledger has it.

    Privacy
    -------
    Made of the sampler that drew the noise, which says of itself whether it is private. The text is
    made of this, for people; nothing is ever concluded from it but in `read`.
    """

    noise: tuple[Drawn, ...]
    recorded: str = ""

    @classmethod
    def of(cls, sampler: NoiseSampler, recorded: str = "") -> Provenance:
        """Noise drawn here."""
        return cls((Drawn(sampler.brand, sampler.private),), recorded)

    @classmethod
    def joined(cls, parts: Iterable[Provenance]) -> Provenance:
        """Of a release put together from several, with all their entries."""
        every = list(parts)
        noise = dict.fromkeys(part.noise for part in every)
        drawn = tuple(chain.from_iterable(noise))
        return cls(drawn, BETWEEN.join(part.recorded for part in every if part.recorded))

    @classmethod
    def read(cls, brand: str, recorded: str) -> Provenance:
        """Of a saved release: only what is known word for word is private.

        Examples
        --------
        >>> made = "exact discrete Gaussian noise, randomness from the operating system"
        >>> Provenance.read(made, "").private, Provenance.read(f"{made}, perhaps", "").private
        (True, False)
        """
        pieces = brand.split(BETWEEN)
        if all(piece in PRIVATE for piece in pieces):
            return cls(tuple(Drawn(piece, private=True) for piece in pieces), recorded)
        return cls((Drawn(brand, private=False),), recorded)

    @property
    def brand(self) -> str:
        """What a reader of the release must know about its noise."""
        return BETWEEN.join(drawn.text for drawn in self.noise)

    @property
    def private(self) -> bool:
        """Whether all of the noise protects what it was added to, as far as is known here."""
        return bool(self.noise) and all(drawn.private is True for drawn in self.noise)

    @property
    def warning(self) -> str:
        """What answers and reports say of a release that is not for publishing; else nothing."""
        return "" if self.private else f"not for publishing: {self.brand}"
