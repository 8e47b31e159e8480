"""Arrays of integers of any size, in limbs of 24 bits: what 64 bits do not hold.

    value = Σ_l limbs[l] · 2^(24 l) ,      0 ≤ limbs[l] < 2²⁴ but for the last, which has the sign.

Every number has one such form with so many limbs, and one more changes nothing but the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray

BITS: Final = 24
_MASK: Final = (1 << BITS) - 1


@dataclass(frozen=True, eq=False)
class WideIntegers:
    """Integers in limbs, which are the first axis.

    Examples
    --------
    >>> large = WideIntegers.of([(np.array([3, -1]), 100), (np.array([5, 0]), 0)], bits=103)
    >>> large.python().tolist() == [3 * 2**100 + 5, -(2**100)]
    True
    """

    limbs: IntArray

    @classmethod
    def of(cls, parts: Iterable[tuple[IntArray, int]], bits: int) -> WideIntegers:
        """Σ part·2^offset, all of it below 2^bits; parts of offsets other than 0 below 2³⁸."""
        pairs = list(parts)
        shape = np.broadcast_shapes(*(part.shape for part, _ in pairs))
        count = max(bits, *(offset for _, offset in pairs)) // BITS + 1
        limbs = np.zeros((count, *shape), dtype=np.int64)
        for part, offset in pairs:
            limbs[offset // BITS] += part << (offset % BITS)
        return WideIntegers(_carried(limbs))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return self.limbs.shape[1:]

    def __getitem__(self, places: Any) -> WideIntegers:
        """Some of the numbers."""
        return WideIntegers(self.limbs[(slice(None), *places)])

    def reshape(self, *shape: int) -> WideIntegers:
        """The same numbers in another shape."""
        return WideIntegers(self.limbs.reshape(len(self.limbs), *shape))

    def shifted(self, by: int) -> WideIntegers:
        """Each number times 2^by."""
        if by == 0:
            return self
        parts = ((limb, BITS * i + by) for i, limb in enumerate(self.limbs))
        return WideIntegers.of(parts, BITS * len(self.limbs) + by)

    def __add__(self, other: WideIntegers) -> WideIntegers:
        most = max(len(self.limbs), len(other.limbs))
        return WideIntegers(_carried(_longer(self.limbs, most) + _longer(other.limbs, most)))

    def numbers(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """In 64 bits where all of them fit; else as doubles, rounded.

        Both depend on the numbers alone, not on how many limbs they have: from the last limb on,
        those that only carry the sign leave −1·2²⁴ + (2²⁴ + x) = x, without rounding.
        """
        low = sum(limb << (BITS * i) for i, limb in enumerate(self.limbs[:3]))  # modulo 2⁶⁴
        same = np.zeros_like(self.limbs)
        same[0] = low
        if (_carried(same) == self.limbs).all():
            return np.asarray(low)
        return floats(self.limbs)

    def python(self) -> NDArray[np.object_]:
        """Python's integers."""
        total: Any = np.zeros(self.shape, dtype=np.object_)
        for limb in self.limbs[::-1]:
            total = (total << BITS) + limb.astype(np.object_)
        return np.asarray(total, dtype=np.object_)


def floats(limbs: IntArray) -> NDArray[np.float64]:
    """Σ limbs[l]·2^(24 l) as doubles, from the last."""
    total = limbs[-1].astype(np.float64)
    for limb in limbs[-2::-1]:
        total = total * 2.0**BITS + limb
    return np.asarray(total)


def joined(
    parts: Sequence[NDArray[Any] | WideIntegers],
) -> NDArray[Any] | WideIntegers:
    """One after another along the last axis; in limbs where some are."""
    narrow = [part for part in parts if not isinstance(part, WideIntegers)]
    if len(narrow) == len(parts):
        return np.concatenate(narrow, axis=-1)
    limbs = [wide(part).limbs for part in parts]
    longest = max(map(len, limbs))
    return WideIntegers(np.concatenate([_longer(part, longest) for part in limbs], axis=-1))


def wide(numbers: NDArray[Any] | WideIntegers) -> WideIntegers:
    """Integers of 64 bits in limbs; those that are in limbs already stay."""
    if isinstance(numbers, WideIntegers):
        return numbers
    return WideIntegers.of([(np.asarray(numbers, dtype=np.int64), 0)], 64)


def _longer(limbs: IntArray, count: int) -> IntArray:
    """With so many limbs."""
    more = np.zeros((count - len(limbs), *limbs.shape[1:]), dtype=np.int64)
    return _carried(np.concatenate([limbs, more]))


def _carried(limbs: IntArray) -> IntArray:
    """What is too much for a limb goes to the next, in place."""
    for low, high in pairwise(limbs):
        high += low >> BITS
        low &= _MASK
    return limbs
