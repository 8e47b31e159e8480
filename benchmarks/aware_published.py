"""The published first step of DAWA, for comparison only: with its clamp it is not private.

Every candidate interval's cost gets Laplace noise of scale (Δ + Δ_b)/ε₁, Δ_b = 2 − 2/|b|, and is
then replaced by max(cost, 1/ε₂); the partition of least noisy cost is taken. Without the clamp the
published proof holds and the partition is poor; with it the proof fails.
"""

from __future__ import annotations

from itertools import pairwise, product
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from benchmarks.aware_shapes import Counts
from benchmarks.least_partition import least_cost_partition
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.partition_prior import Candidates

Array = NDArray[np.float64]


def candidates(cells: int) -> Candidates:
    """Powers of two, starting anywhere."""
    longest = 1 << (cells.bit_length() - 1)
    return Candidates.powers(cells, longest, grid=longest)


def scales(widths: NDArray[np.int64], cells: int, first: float) -> Array:
    """Of the noise on intervals of these widths."""
    return np.asarray(((2 - 2 / cells) + (2 - 2 / widths)) / first)


def published_partition(
    counts: Counts, first: float, second: float, rng: np.random.Generator, clamp: bool = True
) -> NDArray[np.int64]:
    """Edges of the partition of least noisy cost."""
    asked = candidates(len(counts))
    start, stop, _ = asked.intervals
    cost = IntervalCosts.of(counts).deviation(start, stop) + 1 / second
    cost = cost + rng.laplace(0, scales(stop - start, len(counts), first))
    if clamp:
        cost = np.maximum(cost, 1 / second)
    return least_cost_partition(asked, cost)[1]


def frequencies(
    counts: Counts, runs: int, seed: int, clamp: bool, first: float = 1.0, second: float = 1.0
) -> NDArray[np.int64]:
    """How often each partition of a few cells comes out, with all intervals as candidates."""
    rng, cells = np.random.default_rng(seed), len(counts)
    pairs = [(i, j) for i in range(cells) for j in range(i + 1, cells + 1)]
    start, stop = np.array(pairs, dtype=np.int64).T
    cost = IntervalCosts.of(counts).deviation(start, stop) + 1 / second
    uses = np.zeros((2 ** (cells - 1), len(pairs)))
    for number, cuts in enumerate(product([False, True], repeat=cells - 1)):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), cells]
        for pair in pairwise(edges):
            uses[number, pairs.index(pair)] = 1
    found = np.zeros(len(uses), dtype=np.int64)
    for part in np.array_split(np.arange(runs), max(runs // 100_000, 1)):
        noise = rng.laplace(0, scales(stop - start, cells, first), (len(part), len(pairs)))
        noisy = cost + noise
        if clamp:
            noisy = np.maximum(noisy, 1 / second)
        found += np.bincount((noisy @ uses.T).argmin(axis=1), minlength=len(uses))
    return found


def audited_epsilon(one: NDArray[np.int64], other: NDArray[np.int64], risk: float = 1e-6) -> float:
    """A lower bound on ε from frequencies on two neighbours, false with probability `risk`.

    Clopper–Pearson bounds of both probabilities of every outcome, in both directions; the risk is
    shared among them.
    """
    each = risk / (4 * len(one))
    best = 0.0
    for a, b in ((one, other), (other, one)):
        low = np.where(a > 0, beta.ppf(each, np.maximum(a, 1), a.sum() - a + 1), 0.0)
        high = np.where(b < b.sum(), beta.ppf(1 - each, b + 1, np.maximum(b.sum() - b, 1)), 1.0)
        best = max(best, *(log(p / q) for p, q in zip(low, high, strict=True) if p > 0))
    return best
