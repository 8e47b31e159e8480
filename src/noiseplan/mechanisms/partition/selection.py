"""A private partition: the exponential mechanism over all partitions, drawn exactly.

A partition B of the cells, with regimes, is drawn with probability in proportion to

    prior(B) · exp(−β Σ_{b∈B} spread(x, b)) ,   spread(x, b) = Σ_{j∈b} |x_j − median| .

One record more or less changes one cell, so one bucket of B, and its spread by at most one: the
exponent moves by at most β for every B, up for some and down for others. The probabilities of any
two partitions therefore change by factors that differ by at most e^{2β}, and so does each
probability: the draw is 2β-differentially private, and of range 2β, hence β²/2-zCDP. No noise is
added to single intervals, there is no union over them, and the prior is free.

Sums over all partitions are a forward pass over the cells, in machine code for many of them.
Weights are floats, with an error that is bounded and charged: see `slack`.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import DataError, PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.exact_powers import ERROR, LN2_UP, OR_SHARE, UNIT, Rate
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.partition_prior import Candidates, Prior
from noiseplan.noise.randomness import Source
from noiseplan.privacy.rounding import fraction_up

# From so many candidate intervals on, numba's start is earned back.
MANY: Final = 400_000
# Shifts below this leave nothing of a float.
_NOTHING: Final = -1100

# Bits of a uniform number that nearly always decide a choice.
_BITS: Final = 64
# Bits of a float.
_DIGITS: Final = 53
# Bits further down than those read that a term may lie before it counts as dust.
_DUST: Final = 64
# Roundings of a bucket's own numbers, apart from the sums: far more than there are.
_SPARE: Final = 16


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


@immutable
@dataclass(frozen=True, eq=False)
class Selector:
    """The mechanism that draws a partition: its candidates, prior, and rate β = r·ln 2."""

    candidates: Candidates
    prior: Prior
    rate: Rate

    @classmethod
    def within(cls, epsilon: float, candidates: Candidates, prior: Prior | None = None) -> Selector:
        """The selector with the largest β whose cost, roundings included, is at most ε."""
        prior = Prior.of(candidates) if prior is None else prior
        return cls(candidates, prior, rate_within(epsilon, slack(candidates, prior)))

    @property
    def epsilon(self) -> float:
        """ε of a draw, recomputed from the rate, with what roundings may add; rounded up."""
        return draw_epsilon(self.rate, slack(self.candidates, self.prior))

    @property
    def longest(self) -> int:
        """The most cells of a bucket."""
        return int(self.candidates.lengths[-1])

    def filtered(self, counts: IntArray) -> Filtered:
        """The sums over all partitions for these counts. Confidential: it knows the data."""
        counts = countable(counts, self.rate)
        start, stop, _ = self.candidates.intervals
        spread = IntervalCosts.of(counts).spread(start, stop)
        return Filtered.of(self.candidates, self.prior, *self.rate.powers(spread))

    def draw(self, counts: IntArray, source: Source) -> IntArray:
        """A partition: its edges, from 0 to the number of cells.

        Examples
        --------
        >>> from noiseplan.noise import SeededSource
        >>> selector = Selector.within(2.0, Candidates.powers(8, 4))
        >>> selector.draw(np.array([0, 0, 0, 0, 90, 0, 0, 0]), SeededSource(1)).tolist()
        [0, 4, 5, 6, 8]
        """
        return draw_backwards(self.filtered(counts), source)


def countable(counts: IntArray, rate: Rate) -> IntArray:
    """Counts as whole numbers whose spreads the rate can take."""
    counts = np.asarray(counts, dtype=np.int64)
    if int(np.abs(counts).sum()) >= rate.largest:
        raise DataError("the data have 2^50 records or more, too many for choosing buckets")
    return counts


def rate_within(epsilon: float, rounding: Fraction) -> Rate:
    """The largest rate whose draws cost at most ε together with what rounding adds."""
    left = Fraction(epsilon) - rounding
    if left <= 0:
        raise PlanError(
            f"ε = {epsilon:.3g} for choosing buckets is below what rounding costs, "
            f"{float(rounding):.2g}; raise the budget" + OR_SHARE
        )
    rate = Rate.below(left / (2 * LN2_UP))
    if draw_epsilon(rate, rounding) > epsilon:  # fail closed
        raise PlanError(f"choosing buckets would cost more than ε = {epsilon}: this is a bug")
    return rate


def draw_epsilon(rate: Rate, rounding: Fraction) -> float:
    """ε = 2β and what rounding adds, rounded up."""
    return fraction_up(2 * rate.value * LN2_UP + rounding)


def slack(candidates: Candidates, prior: Prior) -> Fraction:
    """What floating point may add to ε.

    Notes
    -----
    Let w̃ be the computed weights of intervals; those of d and d ± 1 differ by a factor within
    e^{±(β + 2·ERROR)}. Drawing backwards takes a bucket with probability t/Σt, exactly, where t is
    a product of three floats and the float that stands for Σt was made with at most one rounding
    for each length; likewise for the regimes. Multiplied along a chain the floats in between cancel
    up to these roundings, so the chance of a chain is Πp·T·w̃/Z with a relative error of at most
    e^{±τ}, τ = cells · (lengths + regimes + spare) units, and Z is the sum of all chains to the
    same accuracy, because chances add up to one. So ln of a chance is that of exact arithmetic on
    w̃ within 2τ, for each of two neighbouring data sets; the one bucket that differs, and Z, add
    2·ERROR each.
    """
    terms = len(candidates.lengths) + len(prior.first) + _SPARE
    tau = Fraction(candidates.cells * terms) * Fraction(UNIT)
    return 4 * tau + 4 * Fraction(ERROR)


def draw_backwards(filtered: Filtered, source: Source) -> IntArray:
    """One chain of buckets from all of them, last bucket first; its edges."""
    place = filtered.candidates.cells
    edges, regime = [place], choose([float(w) for w in filtered.ended[place]], None, source)
    while place:
        lengths, weights, exponents = filtered.last_buckets(place, regime)
        place -= lengths[choose(weights, exponents, source)]
        edges.append(place)
        if place:
            regime = choose(filtered.regimes_before(place, regime), None, source)
    return np.array(edges[::-1], dtype=np.int64)


def choose(weights: list[float], exponents: list[int] | None, source: Source) -> int:
    """A number i with probability exactly in proportion to weights[i]·2^exponents[i].

    A uniform number is known by its leading bits. Where these decide by far, however sums are
    rounded, they decide; else, in about m(m + 8) of 2⁵¹ choices among m, more bits are compared
    with exact sums.
    """
    if len(weights) == 1:
        return 0
    exponents = [0] * len(weights) if exponents is None else exponents
    top = max(exponents)
    scaled = [math.ldexp(w, max(e - top, -1100)) for w, e in zip(weights, exponents, strict=True)]
    word = source.integer(_BITS)
    total = math.fsum(scaled)
    point, margin = math.ldexp(word, -_BITS) * total, (len(weights) + 8) * 2.0**-52 * total
    edge = 0.0
    for number, weight in enumerate(scaled):
        edge += weight
        if point < edge - margin:
            return number
        if point <= edge + margin:
            break
    return _choose_exactly(weights, exponents, word, source)


def _choose_exactly(weights: list[float], exponents: list[int], word: int, source: Source) -> int:
    """The choice for a uniform number with these leading bits, by integers alone.

    Terms far below the leading one count as dust, of an unknown size between none and one unit,
    which gets finer as more bits are read; nothing is decided that dust could change.
    """
    parts = [math.frexp(w) for w in weights]
    digits = [int(mantissa * 2**_DIGITS) for mantissa, _ in parts]
    tops = [own + exponent for (_, own), exponent in zip(parts, exponents, strict=True)]
    highest = max(top for digit, top in zip(digits, tops, strict=True) if digit)
    bits = _BITS
    while True:
        unit = highest - bits - _DUST
        sizes = [
            digit << (top - unit) if top > unit else 0
            for digit, top in zip(digits, tops, strict=True)
        ]
        dust = sum(1 for d, s in zip(digits, sizes, strict=True) if d and not s) << _DIGITS
        total, edge = sum(sizes), 0
        for number, size in enumerate(sizes):
            edge += size
            if (word + 1) * (total + dust) <= edge << bits:
                return number  # the uniform number is below this edge whatever its further bits
            if word * total < (edge + dust) << bits:
                break  # not yet known
        bits, word = bits + _BITS, word << _BITS | source.integer(_BITS)
