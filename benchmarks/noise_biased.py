"""Samplers with a fault each, which the tests of the law must find."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from benchmarks.noise_laws import Ints
from noiseplan.noise import Source, discrete_gaussian

Sampler = Callable[[Fraction, int, Source], Ints]


def one_percent_wide(variance: Fraction, count: int, source: Source) -> Ints:
    """σ too large by 1 %."""
    return discrete_gaussian(variance * Fraction(101, 100) ** 2, count, source=source)


def without_tails(variance: Fraction, count: int, source: Source) -> Ints:
    """Nothing beyond 4σ, which is 0.006 % of the draws."""
    values = discrete_gaussian(variance, count, source=source)
    limit = 4 * float(variance) ** 0.5
    while (far := np.flatnonzero(np.abs(values) > limit)).size:
        values[far] = discrete_gaussian(variance, far.size, source=source)
    return values


def coarse_acceptance(variance: Fraction, count: int, source: Source) -> Ints:
    """Rejection with a chance of acceptance in floats of three digits, rounded up."""
    reach = int(6 * float(variance) ** 0.5) + 1
    kept: list[Ints] = []
    while sum(part.size for part in kept) < count:
        proposed = (source.words(count, 64) % np.uint64(2 * reach + 1)).astype(np.int64) - reach
        chance = np.ceil(np.exp(-(proposed**2) / (2 * float(variance))) * 1e3) / 1e3
        kept.append(proposed[source.words(count, 32) < chance * 2.0**32])
    return np.concatenate(kept)[:count]


def rounded_normal(variance: Fraction, count: int, source: Source) -> Ints:
    """A continuous Gaussian rounded to integers: its variance is larger by 1/12."""
    generator = np.random.default_rng(source.integer(64))
    return np.rint(generator.normal(0, float(variance) ** 0.5, count)).astype(np.int64)


def unfair_sign(variance: Fraction, count: int, source: Source) -> Ints:
    """One in 32 of the negative numbers turned positive."""
    values = discrete_gaussian(variance, count, source=source)
    return np.where(source.words(count, 8) < 8, np.abs(values), values)


def repeated_block(variance: Fraction, count: int, source: Source) -> Ints:
    """One block of random bits in ten used twice."""
    values = discrete_gaussian(variance, count, source=source)
    blocks = values[: values.size // 2**15 * 2**15].reshape(-1, 2**15)
    blocks[1::10] = blocks[: len(blocks) - 1 : 10][: len(blocks[1::10])]
    return values


BIASED: Final[dict[str, Sampler]] = {
    "σ too large by 1 %": one_percent_wide,
    "no draws beyond 4σ": without_tails,
    "acceptance rounded to 10⁻³": coarse_acceptance,
    "rounded continuous Gaussian": rounded_normal,
    "sign wrong once in 64": unfair_sign,
    "one block in ten repeated": repeated_block,
}
