"""Samplers with a fault each, which the tests of the law must find."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from benchmarks.noise_laws import Ints
from noiseplan.noise import Source, discrete_gaussian
from noiseplan.noise.coarse_fine import CoarseFine
from noiseplan.noise.energy import Energy

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


def lowest_bit_unset(variance: Fraction, count: int, source: Source) -> Ints:
    """Only even numbers: a remainder drawn with one bit too few."""
    return discrete_gaussian(variance, count, source=source) & ~np.int64(1)


def acceptance_left_out(variance: Fraction, count: int, source: Source) -> Ints:
    """The coarse draw and its uniform remainder, never refused: a staircase for a bell."""
    sampler = CoarseFine.of(Energy.gaussian(variance))
    cells, minus = sampler.table.draw(count, source)
    remainders = source.words(count, 64) & np.uint64((1 << sampler.shift) - 1)
    values = (cells << sampler.shift) + remainders.astype(np.int64)
    return np.where(minus, -values, values)


NARROW, WIDE = Fraction(2), Fraction(10**9)
BIASED: Final[dict[str, tuple[Fraction, Sampler]]] = {
    "σ too large by 1 %": (NARROW, one_percent_wide),
    "no draws beyond 4σ": (NARROW, without_tails),
    "acceptance rounded to 10⁻³": (NARROW, coarse_acceptance),
    "rounded continuous Gaussian": (NARROW, rounded_normal),
    "sign wrong once in 64": (NARROW, unfair_sign),
    "one block in ten repeated": (NARROW, repeated_block),
    "lowest bit unset": (WIDE, lowest_bit_unset),
    "acceptance left out": (WIDE, acceptance_left_out),
    "σ too large by 1 %, wide": (WIDE, one_percent_wide),
}
