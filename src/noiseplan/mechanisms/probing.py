"""What a mechanism costs, found by experiment: every possible record is measured alone.

This shares nothing with the formulas of :mod:`noiseplan.mechanisms.cost`. The noise that a
mechanism asks for is replaced by an array that notes what it is added to; so the numbers behind the
noise, and its size, are those that are really measured, whatever the mechanism is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.noise.law import Noise

# Domains small enough to measure every record, and numbers few enough to keep of each.
PROBED_CELLS: Final = 64
PROBED_NUMBERS: Final = 4096


class Note(np.ndarray[Any, Any]):
    """Noise of zero that notes the numbers it is added to, and how large it would have been."""

    sizes: Array
    told: Callable[[NDArray[Any], Array], None]

    @classmethod
    def of(cls, sizes: Array, told: Callable[[NDArray[Any], Array], None]) -> Note:
        note = np.zeros(sizes.shape, np.int64).view(cls)
        note.sizes, note.told = sizes, told
        return note

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        (other,) = [np.asarray(x) for x in inputs if not isinstance(x, Note)]
        if ufunc is not np.add or method != "__call__":
            raise TypeError(f"noise is added, and nothing else; found {ufunc.__name__}")
        self.told(other, np.broadcast_to(self.sizes, other.shape))
        out = kwargs.get("out", (None,))[0]
        if out is None:
            return other
        out[...] = other
        return out


@dataclass(frozen=True, eq=False)
class Probed:
    """What every cell's record alone measures (cells × numbers), and the size of the noise."""

    values: Array
    sizes: Array

    def added(self, power: int) -> float:
        """The largest cost of adding or removing a record: 2ρ, or ε."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self.values != 0, np.abs(self.values) ** power / self.sizes, 0.0)
        return float(terms.sum(axis=1).max(initial=0.0))

    def replaced(self, power: int) -> float:
        """The largest cost of replacing a record by another."""
        pairs = [
            replace(self, values=self.values[r] - self.values[r + 1 :]).added(power)
            for r in range(len(self.values))
        ]
        return max(pairs, default=0.0)


_KNOWN: WeakKeyDictionary[Mechanism, Probed] = WeakKeyDictionary()


def can_probe(mechanisms: Sequence[Mechanism]) -> bool:
    """Whether every record can be measured in a moment."""
    few = mechanisms[0].schema.size <= PROBED_CELLS
    return few and sum(m.most_numbers for m in mechanisms) <= PROBED_NUMBERS


def probed_cost(mechanisms: Sequence[Mechanism], neighbours: str) -> float:
    """2ρ of all mechanisms together, or ε: for one record, with no formula but its definition."""
    parts = [_probed(mechanism) for mechanism in mechanisms]
    values = np.concatenate([part.values for part in parts], axis=1)
    whole = Probed(values, np.concatenate([part.sizes for part in parts]))
    (power,) = {mechanism.noise.power for mechanism in mechanisms}
    return whole.added(power) if neighbours == "add-remove" else whole.replaced(power)


def _probed(mechanism: Mechanism) -> Probed:
    """Measured once for every mechanism: it never changes."""
    if mechanism not in _KNOWN:
        shape = mechanism.schema.shape
        told = [_measured(mechanism, cell, shape) for cell in range(mechanism.schema.size)]
        values, (sizes, *_) = zip(*told, strict=True)
        _KNOWN[mechanism] = Probed(np.array(values), sizes)
    return _KNOWN[mechanism]


def _measured(mechanism: Mechanism, cell: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The numbers that a record of this cell alone gives, and the noise on each."""
    counts = np.zeros(shape, np.int64)
    counts.flat[cell] = 1
    values: list[Array] = []
    sizes: list[Array] = []

    def told(numbers: NDArray[Any], noise: Array) -> None:
        values.append(numbers.astype(np.float64).ravel())
        sizes.append(np.asarray(noise, dtype=np.float64).ravel())

    def sample(size: tuple[int, ...], noise: Noise) -> Note:
        return Note.of(np.broadcast_to(noise.size, size).copy(), told)

    def marginals(sets: IntArray) -> IntArray:
        axes = [tuple(set(range(len(shape))) - set(row)) for row in sets.tolist()]
        return np.array([counts.sum(axis=out) for out in axes])

    mechanism.measure(marginals, sample)
    empty = np.zeros(0)
    return np.concatenate([empty, *values]), np.concatenate([empty, *sizes])
