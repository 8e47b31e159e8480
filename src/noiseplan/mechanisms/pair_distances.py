"""How far apart the columns of two records are: what it costs to replace one by the other."""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

EPS: Final = float(np.finfo(float).eps)


def pair_distances(gram: Array, numbers: int) -> Array:
    """‖u(x) − u(y)‖² of every pair, and no less, from inner products of so many numbers.

    Columns may be long and near each other, so what rounding takes is counted in units of their
    lengths, not of what is left of them.

    Examples
    --------
    >>> pair_distances(np.eye(2), 2).round(12).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    own = np.diagonal(gram)
    rounding = 4 * (numbers + 4) * EPS * own.max(initial=0.0)
    return np.asarray(np.maximum(own[:, None] + own[None, :] - 2 * gram, 0.0) + rounding)


def farthest(gram: Array, numbers: int) -> float:
    """The largest distance of two different columns; 0 where there is one."""
    apart = pair_distances(gram, numbers)[np.triu_indices(len(gram), 1)]
    return float(apart.max(initial=0.0))
