"""Where random bits come from: the operating system, a stream cipher keyed from it, or a seed.

Every source is asked for bits in bulk and before noise meets data: how many are asked for depends
on the number of draws, their law and earlier bits, never on what the noise is added to.

The private sources keep nothing between two reads. A buffer would be copied by `fork` and shared by
threads, and two processes that go on from one buffer draw the same noise.
"""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import NoiseError

Words = NDArray[Any]  # unsigned integers of the width that was asked for

# What is said of bits that somebody else can know.
NOT_PRIVATE: Final = "NOT PRIVATE"
# What is said of bits that nobody can.
FROM_SYSTEM: Final = "randomness from the operating system"
FROM_STREAM: Final = "randomness from AES-256-CTR keyed by the operating system"

_KEY_BYTES: Final = 32
_SHORT_READ: Final = 1024  # bytes; below this a fresh key costs more than the bytes themselves


class Source(ABC):
    """Independent fair bits.

    Examples
    --------
    >>> from noiseplan.noise import SeededSource, discrete_gaussian
    >>> drawn = discrete_gaussian(4.0, 3, source=SeededSource(7))
    >>> drawn.shape, drawn.dtype.kind
    ((3,), 'i')
    """

    @abstractmethod
    def read(self, count: int) -> bytes:
        """The next `count` bytes."""

    @property
    @abstractmethod
    def brand(self) -> str:
        """What a reader of the release must know about its randomness."""

    @property
    @abstractmethod
    def private(self) -> bool:
        """Whether nobody else can know the bits."""

    def words(self, count: int, bits: int) -> Words:
        """`count` unsigned integers of 8, 16, 32 or 64 fair bits, the same on every machine.

        Examples
        --------
        >>> SeededSource(1).words(3, 16).tolist()
        [58623, 31010, 48627]
        """
        order = np.dtype(f"<u{bits // 8}")
        return np.frombuffer(self.exactly(count * order.itemsize), order).astype(
            order.newbyteorder("="), copy=False
        )

    def integer(self, bits: int) -> int:
        """One integer of so many fair bits, a multiple of 8."""
        return int.from_bytes(self.exactly(bits // 8), "little")

    def exactly(self, count: int) -> bytes:
        """The next `count` bytes, or an error: bits that are missing are never made up."""
        data = self.read(count)
        if len(data) != count:
            raise NoiseError(
                f"{type(self).__name__}.read({count}) returned {len(data)} bytes; a source must "
                "return as many as it is asked for, as SystemSource() does"
            )
        return data


@dataclass(frozen=True)
class SystemSource(Source):
    """The operating system's generator (`os.urandom`): the default.

    Examples
    --------
    >>> SystemSource().brand
    'randomness from the operating system'
    """

    def read(self, count: int) -> bytes:
        """Straight from the kernel."""
        return os.urandom(count)

    @property
    def brand(self) -> str:
        """Nothing to warn of."""
        return FROM_SYSTEM

    @property
    def private(self) -> bool:
        """As private as the kernel's generator."""
        return True


@dataclass(frozen=True)
class StreamSource(Source):
    """AES-256 in counter mode, keyed afresh from the operating system for every read.

    About four times as fast as the kernel for long reads. Needs the package `cryptography`.

    Notes
    -----
    One read is the stream of one key that serves no other read. The n/16 blocks of 16 bytes never
    repeat, by which they could be told from fair bits with an advantage below (n/16)²/2¹²⁸ (2⁻¹⁰⁰
    for the reads made here), apart from what breaking AES would give. The key is dropped when the
    read ends; Python does not wipe it from memory.

    Examples
    --------
    >>> from noiseplan.noise import discrete_gaussian
    >>> discrete_gaussian(4.0, 3, source=StreamSource()).shape
    (3,)
    """

    _ciphers: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            ciphers = importlib.import_module("cryptography.hazmat.primitives.ciphers")
        except ImportError as error:
            raise NoiseError(
                "StreamSource needs the package cryptography: pip install cryptography, "
                "or leave source out for the operating system's randomness."
            ) from error
        object.__setattr__(self, "_ciphers", ciphers)

    def read(self, count: int) -> bytes:
        """The first `count` bytes of a new stream."""
        if count < _SHORT_READ:
            return os.urandom(count)
        key = self._ciphers.algorithms.AES(os.urandom(_KEY_BYTES))
        cipher = self._ciphers.Cipher(key, self._ciphers.modes.CTR(bytes(16)))
        stream: bytes = cipher.encryptor().update(bytes(count))
        return stream

    @property
    def brand(self) -> str:
        """Nothing to warn of."""
        return FROM_STREAM

    @property
    def private(self) -> bool:
        """As private as the kernel's generator and AES."""
        return True


@dataclass(frozen=True)
class SeededSource(Source):
    """The same bits every time, for tests only: whoever knows the seed can take the noise away.

    Examples
    --------
    >>> SeededSource(7).brand
    'drawn from seed 7, so NOT PRIVATE'
    """

    seed: int
    _bits: np.random.PCG64 = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise NoiseError(f"seed must be an integer at least 0, as in 7; got {self.seed!r}")
        object.__setattr__(self, "_bits", np.random.PCG64(self.seed))

    def read(self, count: int) -> bytes:
        """From PCG64, whole 64-bit words at a time."""
        raw = self._bits.random_raw(-(-count // 8))
        return np.asarray(raw).astype("<u8").tobytes()[:count]

    @property
    def brand(self) -> str:
        """The warning every release made with it must carry."""
        return f"drawn from seed {self.seed}, so {NOT_PRIVATE}"

    private = False  # never


def derived_seed(*parts: int) -> int:
    """A seed made of other numbers, in 63 bits: for tests and simulations that draw more than once.

    Examples
    --------
    >>> derived_seed(7, 1) == derived_seed(7, 1), derived_seed(7, 1) == derived_seed(7, 2)
    (True, False)
    """
    state = np.random.SeedSequence(parts).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))
