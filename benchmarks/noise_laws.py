"""The exact laws of the discrete noise, and the tests a sample must pass.

Nothing here shares code with the samplers. Narrow laws are summed with 60 digits (mpmath); wide
Gaussians by Euler and Maclaurin, which leaves out less than 10⁻¹⁰ at σ ≥ 100.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDE: Final = 100.0  # standard deviations from which the Gaussian is not summed term by term
FEWEST: Final = 10.0  # expected in a bin of a χ² test
LAGS: Final = (1, 2, 3, 5, 16, 1000, 2**15 - 1, 2**15, 2**15 + 1)


@dataclass(frozen=True)
class Law:
    """P(k) ∝ exp(−k²/(2·parameter)) or, if not `gaussian`, ∝ exp(−|k|/parameter)."""

    gaussian: bool
    parameter: Fraction

    def __str__(self) -> str:
        return f"{'σ²' if self.gaussian else 'scale'} = {float(self.parameter):.6g}"

    @property
    def width(self) -> float:
        """σ or the scale."""
        return float(self.parameter) ** 0.5 if self.gaussian else float(self.parameter)

    @cached_property
    def masses(self) -> list[mpmath.mpf]:
        """P(0), P(1), … until less than 10⁻⁵⁰ is left; 60 digits."""
        with mpmath.workdps(60):
            parameter = mpmath.mpf(self.parameter.numerator) / self.parameter.denominator
            weights = [mpmath.mpf(1)]
            while weights[-1] > mpmath.mpf(10) ** -50:
                k = len(weights)
                exponent = mpmath.mpf(k * k) / 2 if self.gaussian else mpmath.mpf(k)
                weights.append(mpmath.exp(-exponent / parameter))
            total = 2 * mpmath.fsum(weights) - 1
            return [weight / total for weight in weights]

    @property
    def summed(self) -> bool:
        """Whether the law is narrow enough to be summed term by term."""
        return self.width < WIDE

    def beyond(self, k: Ints) -> Floats:
        """P(X ≥ k) for k ≥ 1, to nearly full relative precision."""
        if not self.gaussian:
            ratio = np.exp(-1 / self.width)
            return np.asarray(ratio ** k.astype(float) / (1 + ratio))
        if self.summed:
            reach = len(self._upper) - 1
            return self._upper[np.minimum(k, reach)]
        # Σ_{j ≥ k} f(j) = ∫_{k−½}^∞ f + f'(k − ½)/24 − …
        z = (k - 0.5) / self.width
        slope = -z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / self.width**2
        return np.asarray(special.ndtr(-z) + slope / 24)

    @cached_property
    def _upper(self) -> Floats:
        """P(X ≥ k) by index; a zero beyond the masses."""
        sums, total = [0.0], mpmath.mpf(0)
        for mass in reversed(self.masses):
            total += mass
            sums.append(float(total))
        return np.array(sums[::-1])

    def below(self, k: Ints) -> Floats:
        """P(X ≤ k)."""
        right = self.beyond(np.maximum(k, 0) + 1)
        left = self.beyond(np.maximum(-k, 1))
        return np.where(k < 0, left, 1 - right)

    def moment(self, order: int) -> float:
        """E|X|ⁿ for n = 1, 2, 4; the ideal values where the law is wide."""
        if self.summed:
            return float(2 * mpmath.fsum(m * k**order for k, m in enumerate(self.masses)))
        if self.gaussian:
            return {1: (2 / np.pi) ** 0.5, 2: 1.0, 4: 3.0}[order] * self.width**order
        # |X| of a wide Laplace law is, to within 1/scale², exponential.
        return {1: 1.0, 2: 2.0, 4: 24.0}[order] * self.width**order


def p_values(law: Law, sample: Ints) -> dict[str, float]:
    """Every test by name. A right sample has no reason for a tiny value anywhere."""
    found = dict(_goodness(law, sample))
    found.update(_tails(law, sample))
    found.update(_moments(law, sample))
    found.update(_symmetry(law, sample))
    found.update(_independence(sample))
    if law.gaussian and not law.summed:
        found.update(_uniform_bits(law, sample))
    return found


def worst(law: Law, sample: Ints) -> tuple[str, float]:
    """The test that fared worst, and its p-value multiplied by the number of tests."""
    found = p_values(law, sample)
    name = min(found, key=lambda key: found[key])
    return name, min(1.0, found[name] * len(found))


def chi_square(counts: Floats, expected: Floats) -> float:
    """The p-value of counts against what was expected; sparse cells are merged with the next."""
    starts, gathered = [0], 0.0
    for i, many in enumerate(expected[:-1]):
        gathered += float(many)
        if gathered >= FEWEST <= float(expected[i + 1 :].sum()):
            starts, gathered = [*starts, i + 1], 0.0
    counts, expected = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    if expected.size < 2:
        return 1.0
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(special.chdtrc(expected.size - 1, statistic))


def _edges(law: Law, bins: int = 400) -> Ints:
    """Where bins end: every integer near the middle of a narrow law, else even steps."""
    reach = max(int(7 * law.width * (1 if law.gaussian else 3)), 3)
    return np.unique(np.linspace(-reach, reach, min(2 * reach + 1, bins)).astype(np.int64))


def _goodness(law: Law, sample: Ints) -> Iterator[tuple[str, float]]:
    edges = _edges(law)
    cumulative = np.concatenate([[0.0], law.below(edges), [1.0]])
    counts = np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1).astype(float)
    yield "χ²", chi_square(counts, np.diff(cumulative) * sample.size)
    # Both distribution functions are steps at integers: the largest gap is at a value or before it.
    values, times = np.unique(sample, return_counts=True)
    after = np.cumsum(times) / sample.size
    at = np.abs(law.below(values) - after)
    before = np.abs(law.below(values - 1) - (after - times / sample.size))
    yield "Kolmogorov", float(special.kolmogorov(sample.size**0.5 * max(at.max(), before.max())))
    yield "zero mass", binomial(int((sample == 0).sum()), sample.size, float(_zero(law)))


def _zero(law: Law) -> float:
    return float(np.diff(law.below(np.array([-1, 0])))[0])


def _tails(law: Law, sample: Ints) -> Iterator[tuple[str, float]]:
    sizes = np.abs(sample)
    for expected in (1e4, 1e3, 1e2, 1e1, 1.0, 1e-3):
        low, high = 1, max(int(60 * law.width), 60)
        while low < high:  # the first k where so many are expected at or beyond ±k
            middle = (low + high) // 2
            many = 2 * law.beyond(np.array([middle]))[0] * sample.size > expected
            low, high = (middle + 1, high) if many else (low, middle)
        chance = float(2 * law.beyond(np.array([low]))[0])
        yield f"tail of {expected:g}", binomial(int((sizes >= low).sum()), sample.size, chance)


def _moments(law: Law, sample: Ints) -> Iterator[tuple[str, float]]:
    scaled = sample / max(law.width, 1e-300)
    first, second, fourth = (law.moment(n) / law.width**n for n in (1, 2, 4))
    if sample.size * min(second, 1.0) < 1000:  # hardly ever other than zero: no normal limit
        return
    yield "mean", _normal(scaled.mean(), 0.0, second, sample.size)
    yield "mean size", _normal(np.abs(scaled).mean(), first, second - first**2, sample.size)
    yield "mean square", _normal((scaled**2).mean(), second, fourth - second**2, sample.size)


def _symmetry(law: Law, sample: Ints) -> Iterator[tuple[str, float]]:
    plus, minus = int((sample > 0).sum()), int((sample < 0).sum())
    if plus + minus:
        yield "signs", binomial(plus, plus + minus, 0.5)
    edges = _edges(law)
    edges = edges[edges >= 0]
    sides = [np.bincount(np.searchsorted(edges, s * sample[s * sample > 0])) for s in (1, -1)]
    yield "two sides", _same_law(*sides)


def _independence(sample: Ints) -> Iterator[tuple[str, float]]:
    for name, values in (("x", sample.astype(float)), ("size", np.abs(sample).astype(float))):
        values = values - values.mean()
        power = float((values**2).mean())
        for lag in LAGS if power * sample.size > 1000 * float(np.abs(values).max()) ** 2 else ():
            product = float((values[lag:] * values[:-lag]).mean()) / power
            yield f"lag {lag} of {name}", _normal(product, 0.0, 1.0, sample.size - lag)
    yield "pairs", _pairs(sample)
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, 101)[1:-1]).astype(np.int64))
    halves = np.array_split(sample, 2)
    yield "two halves", _same_law(*(np.bincount(np.searchsorted(edges, h)) for h in halves))


def _pairs(sample: Ints) -> float:
    """The p-value of each draw's octile having nothing to do with the one before."""
    edges = np.unique(np.quantile(sample, np.arange(1, 8) / 8).astype(np.int64))
    kind = np.searchsorted(edges, sample[: sample.size // 2 * 2]).reshape(-1, 2)
    kinds = edges.size + 1
    table = np.bincount(kind @ [kinds, 1], minlength=kinds**2).reshape(kinds, kinds)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(len(kind), 1)
    if expected.min() < FEWEST:  # hardly ever other than zero
        return 1.0
    return float(special.chdtrc((kinds - 1) ** 2, ((table - expected) ** 2 / expected).sum()))


def _uniform_bits(law: Law, sample: Ints) -> Iterator[tuple[str, float]]:
    """Four bits at a time are uniform to within exp(−2π²·16) while 2⁴·unit ≤ σ/4."""
    highest = int(np.log2(law.width)) - 6
    for shift in sorted({0, highest // 2, highest}):
        counts = np.bincount((sample >> shift) & 15, minlength=16).astype(float)
        yield f"bits from {shift}", chi_square(counts, np.full(16, sample.size / 16))


def _same_law(some: Ints, others: Ints) -> float:
    """The p-value of two samples' counts having one law."""
    size = max(some.size, others.size)
    pair = np.array([np.pad(x, (0, size - x.size)) for x in (some, others)], dtype=float)
    pair = pair[:, pair.sum(axis=0) >= 2 * FEWEST]
    if pair.shape[1] < 2:
        return 1.0
    expected = pair.sum(axis=1, keepdims=True) * pair.sum(axis=0) / pair.sum()
    return float(special.chdtrc(pair.shape[1] - 1, ((pair - expected) ** 2 / expected).sum()))


def binomial(count: int, trials: int, chance: float) -> float:
    """Two-sided p-value of a count of independent trials."""
    at_least = special.betainc(count, trials - count + 1, chance) if count else 1.0
    at_most = special.betaincc(count + 1, trials - count, chance) if count < trials else 1.0
    return float(min(1.0, 2 * min(at_least, at_most)))


def _normal(found: float, mean: float, variance: float, size: int) -> float:
    return float(2 * special.ndtr(-abs(found - mean) / (variance / size) ** 0.5))
