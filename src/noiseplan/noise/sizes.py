"""Sizes of noise that are numbers of few bits, which exact samplers draw from quickly."""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

# Sizes keep so many bits: many where there are few of them, few where each needs its own table.
FEW_SIZES: Final = 2000
FINE_BITS, COARSE_BITS = 40, 13


def round_up(values: Array, bits: int = FINE_BITS) -> Array:
    """The next numbers with `bits` significant bits; zero and infinity stay."""
    mantissa, exponent = np.frexp(values)
    with np.errstate(invalid="ignore"):
        rounded = np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits)
    return np.where(np.isfinite(values) & (values > 0), rounded, values)


def size_above(value: float) -> float:
    """The size of one noise for all numbers: the next of many bits."""
    return float(round_up(np.array([value]))[0])


def sizes_above(values: Array) -> Array:
    """The sizes of noise of each type: the next of as many bits as so many types allow."""
    return round_up(values, FINE_BITS if len(values) <= FEW_SIZES else COARSE_BITS)
