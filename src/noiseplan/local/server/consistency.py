"""Answers that could be true: of one table of counts, none of them negative.

    minimise (x − x̃)ᵀG(x − x̃)  subject to x ≥ 0, and Σx = N where the total is public.

Only G is needed: the value is ‖Wx − W x̃‖², the distance of all answers. Solved by accelerated
projected gradients; once the set of positive counts has settled, they follow from linear equations.

References
----------
McKenna et al. (2020), Section 8 and its extended version, for the idea.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import QueryError
from noiseplan.local.user_types import Types
from noiseplan.matrices.base import Array
from noiseplan.queries import Query, Workload
from noiseplan.texts import counted

STEPS = 20_000
CHECK_EVERY = 50


@dataclass(frozen=True, eq=False, repr=False)
class Consistent:
    """Answers of one table of non-negative counts; biased, so without standard errors."""

    types: Types
    counts: Array  # of types
    workload: Workload | None = None

    def answer(self, query: Query | str) -> Array:
        """Wx̂; a query of the workload by its name too."""
        asked = query if self.workload is None else self.workload.asked(query)
        if not isinstance(asked, Query):
            raise QueryError(f"the file knows no names of queries: pass a Query, found {query!r}")
        return np.asarray(self.types.matrix(asked) @ self.counts)

    def __repr__(self) -> str:
        return f"Consistent({counted(len(self.counts), 'count')}, {self.counts.sum():,.6g} in all)"


def nearest_counts(point: Array, total: float | None) -> Array:
    """The nearest non-negative counts, that add up to `total` if it is given.

    Examples
    --------
    >>> nearest_counts(np.array([-2.0, 7.0, 5.0]), 10.0).tolist()
    [0.0, 6.0, 4.0]
    """
    if total is None:
        return np.maximum(point, 0.0)
    falling = np.sort(point)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(falling - shifts > 0)[-1]) if total > 0 else 0
    return np.asarray(np.maximum(point - shifts[last], 0.0))


def fit_counts(estimate: Array, gram: Array, total: float | None) -> Array:
    """The counts of least distance in all answers."""
    length = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    x = nearest_counts(estimate, total)
    ahead, momentum, settled = x, 1.0, None
    for step in range(1, STEPS + 1):
        following = nearest_counts(ahead - length * (gram @ (ahead - estimate)), total)
        if (ahead - following) @ (following - x) > 0:  # momentum carried too far: start afresh
            momentum = 1.0
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / grown * (following - x)
        x, momentum = following, grown
        if step % CHECK_EVERY == 0:
            positive = x > 0
            if settled is not None and (positive == settled).all():
                exact = _on_support(estimate, gram, total, positive)
                if exact is not None:
                    return exact
            settled = positive
    return x


def _on_support(
    estimate: Array, gram: Array, total: float | None, positive: NDArray[np.bool_]
) -> Array | None:
    """The optimum if exactly these counts are positive; None if they are not.

    Stationary on the support, G(x − x̃) = μ there and at least μ elsewhere; μ = 0 without a total.
    """
    if not positive.any():
        return None
    block = gram[np.ix_(positive, positive)]
    target = gram[positive] @ estimate
    if total is None:
        inner = np.linalg.lstsq(block, target, rcond=None)[0]
        level = 0.0
    else:
        size = len(block)
        system = np.zeros((size + 1, size + 1))
        system[:size, :size], system[:size, size], system[size, :size] = block, -1.0, 1.0
        solved = np.linalg.lstsq(system, np.append(target, total), rcond=None)[0]
        inner, level = solved[:size], float(solved[size])
    x = np.zeros(len(gram))
    x[positive] = inner
    slope = gram @ (x - estimate)
    scale = float(np.abs(gram @ estimate).max()) + abs(level) + 1e-300
    optimal = (inner >= 0).all() and (slope >= level - 1e-9 * scale).all()
    reached = total is None or abs(x.sum() - total) <= 1e-9 * max(total, 1.0)
    return x if optimal and reached else None
