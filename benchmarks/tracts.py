"""Synthetic census tracts: counts of people by sex and single year of age.

Made to have what matters for choosing how finely to publish: sizes over two orders of magnitude,
and age structures that differ between tracts of the same size. Nothing is taken from a census.

- Size: lognormal with median 3,900 and σ = 0.45; one tract in 300 is tiny, below 150 people.
- Ages: a base pyramid, flat to 50 and then falling (a logistic of width 9 around 72), is tilted in
  every tract by smooth random waves and mixed with one of four shapes: families (children and
  their parents), students (18 to 24), retired (65 and over), barracks (men of 18 to 45).
- Counts: multinomial over sex × age. Seeded; the same tracts every time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

AGES = 103
TOP = 100  # nobody is older


def synthetic_tracts(count: int, seed: int = 2010) -> NDArray[np.int64]:
    """Tracts × sex × age."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(np.log(3900), 0.45, count))
    tiny = rng.random(count) < 1 / 300
    sizes = np.where(tiny, rng.uniform(0, 150, count), sizes).astype(np.int64)
    shares = _shares(rng, count)
    return np.array([rng.multinomial(n, p.ravel()) for n, p in zip(sizes, shares, strict=True)]
                    ).reshape(count, 2, AGES)  # fmt: skip


def _shares(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Tracts × sex × age, each summing to one."""
    age = np.arange(AGES)
    base = np.where(age <= TOP, 1 / (1 + np.exp((age - 72) / 9)), 0.0)
    phases = rng.uniform(0, 2 * np.pi, (count, 3))
    heights = rng.normal(0, 0.15, (count, 3))
    waves = sum(
        heights[:, [k]] * np.sin((k + 1) * np.pi * age / TOP + phases[:, [k]]) for k in range(3)
    )
    ages = base * np.exp(waves)
    both = np.stack([ages, ages], axis=1)
    both /= both.sum(axis=(1, 2), keepdims=True)
    shapes = _shapes(age)
    kind = rng.integers(len(shapes), size=count)
    strength = rng.beta(1.0, 6.0, count)[:, None, None]
    return (1 - strength) * both + strength * shapes[kind]


def _shapes(age: NDArray[np.int64]) -> NDArray[np.float64]:
    families = np.exp(-(((age - 6) / 5) ** 2)) + np.exp(-(((age - 36) / 7) ** 2))
    students = ((age >= 18) & (age <= 24)).astype(float)
    retired = ((age >= 65) & (age <= TOP)) * np.exp(-(age - 65.0) / 12)
    barracks = ((age >= 18) & (age <= 45)).astype(float)
    pairs = [(families, families), (students, students), (retired, retired), (0 * age, barracks)]
    shapes = np.array([np.stack(pair) for pair in pairs], dtype=float)
    return np.asarray(shapes / shapes.sum(axis=(1, 2), keepdims=True))
