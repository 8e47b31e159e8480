"""Sums over all partitions: a forward pass over the cells, in machine code for many of them."""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.partition_prior import Candidates, Prior

# From so many candidate intervals on, numba's start is earned back.
MANY: Final = 400_000
# Shifts below this leave nothing of a float.
_NOTHING: Final = -1100


@dataclass(frozen=True, eq=False)
class Filtered:
    """What the forward pass leaves at every place between cells, for drawing backwards.

    Over all chains of buckets that cover the first j cells, with Π p·T·w as their weights,
    `ended[j, r]`·2^scale[j] sums those whose last bucket is in regime r, and
    `opened[j, r]`·2^scale[j] those that go on in regime r. The weight of an interval is
    `mantissa`·2^exponent.
    """

    candidates: Candidates
    prior: Prior
    offsets: IntArray
    mantissa: Array
    exponent: IntArray
    ended: Array
    opened: Array
    scale: IntArray

    @classmethod
    def of(
        cls, candidates: Candidates, prior: Prior, mantissa: Array, exponent: IntArray
    ) -> Filtered:
        """Run over all cells, once."""
        offsets = candidates.intervals[2]
        places, regimes = candidates.cells + 1, len(prior.first)
        ended, opened = np.zeros(places * regimes), np.zeros(places * regimes)
        scale = np.zeros(places, dtype=np.int64)
        given: list[NDArray[Any]] = [
            candidates.lengths, candidates.steps, offsets, mantissa, exponent,
            prior.weights.ravel(), prior.moves.ravel(), prior.first,
        ]  # fmt: skip
        if len(mantissa) >= MANY and _installed():
            _compiled()(candidates.cells, *given, ended, opened, scale)
        else:  # lists are faster than arrays, one number at a time
            filled: list[Any] = [ended.tolist(), opened.tolist(), scale.tolist()]
            forward(candidates.cells, *(array.tolist() for array in given), *filled)
            ended, opened = np.array(filled[0]), np.array(filled[1])
            scale = np.array(filled[2], dtype=np.int64)
        shape = places, regimes
        return cls(
            candidates, prior, offsets, mantissa, exponent,
            ended.reshape(shape), opened.reshape(shape), scale,
        )  # fmt: skip

    def last_buckets(self, place: int, regime: int) -> tuple[list[int], list[float], list[int]]:
        """Lengths of buckets that may end at a place in a regime; their weights and exponents."""
        lengths, weights, exponents = [], [], []
        for number, (length, step) in enumerate(
            zip(self.candidates.lengths.tolist(), self.candidates.steps.tolist(), strict=True)
        ):
            start = place - length
            if start < 0:
                break
            if start % step == 0:
                which = self.offsets[number] + start // step
                share = self.opened[start, regime] * self.prior.weights[regime, number]
                lengths.append(length)
                weights.append(float(share * self.mantissa[which]))
                exponents.append(int(self.scale[start] + self.exponent[which]))
        return lengths, weights, exponents

    def regimes_before(self, place: int, regime: int) -> list[float]:
        """Weights of the regimes of the bucket that ends where one of this regime starts."""
        return [float(w) for w in self.ended[place] * self.prior.moves[:, regime]]


def forward(
    cells: int, lengths: Any, steps: Any, offsets: Any, mantissa: Any, exponent: Any,
    weights: Any, moves: Any, first: Any, ended: Any, opened: Any, scale: Any,
) -> None:  # fmt: skip
    """Fill `ended`, `opened` and `scale`, place by place.

    Every sum has positive terms and is made with one common exponent, so each rounding counts for
    at most one unit of the result.
    """
    kinds, regimes = len(lengths), len(first)
    for r in range(regimes):
        opened[r] = first[r]
    for j in range(1, cells + 1):
        top = -(1 << 62)
        for k in range(kinds):
            i = j - lengths[k]
            if i < 0:
                break
            if i % steps[k] == 0:
                shift = scale[i] + exponent[offsets[k] + i // steps[k]]
                top = max(top, shift)
        for k in range(kinds):
            i = j - lengths[k]
            if i < 0:
                break
            if i % steps[k] == 0:
                which = offsets[k] + i // steps[k]
                shift = scale[i] + exponent[which] - top
                if shift > _NOTHING:
                    for r in range(regimes):
                        term = opened[i * regimes + r] * weights[r * kinds + k] * mantissa[which]
                        ended[j * regimes + r] += math.ldexp(term, shift)
        most = 0.0
        for r in range(regimes):
            most = max(most, ended[j * regimes + r])
        lift = math.frexp(most)[1]
        scale[j] = top + lift
        for r in range(regimes):
            ended[j * regimes + r] = math.ldexp(ended[j * regimes + r], -lift)
        for s in range(regimes):
            total = 0.0
            for r in range(regimes):
                total += ended[j * regimes + r] * moves[r * regimes + s]
            opened[j * regimes + s] = total


@cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None


@cache
def _compiled() -> Any:
    """`forward` in machine code, which numba keeps on disk where it can."""
    numba: Any = importlib.import_module("numba")
    try:
        return numba.njit(nogil=True, cache=True)(forward)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(nogil=True)(forward)
