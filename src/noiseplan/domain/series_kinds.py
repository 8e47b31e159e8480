"""Kinds of rows that are asked of ordered values, and the eigenvalues of their Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.matrices.base import Array

Name = Literal["total", "values", "groups", "prefix", "ranges"]


@immutable
@dataclass(frozen=True, eq=False)
class SeriesKind:
    """What is asked, and where the parts of the values that it tells apart begin and end.

    Examples
    --------
    >>> kind = SeriesKind("ranges", np.arange(4))  # 3, 4 and 3 of 6 ranges hold each value
    >>> kind.rows, round(float(kind.eigenvalues.sum()), 9)
    (6, 10.0)
    """

    name: Name
    bounds: IntArray

    @property
    def values(self) -> int:
        """How many values there are."""
        return int(self.bounds[-1])

    @property
    def rows(self) -> int:
        """How many rows are asked."""
        count = len(self.bounds) - 1
        return count * (count + 1) // 2 if self.name == "ranges" else count

    @cached_property
    def eigenvalues(self) -> Array:
        """Those of WᵀW that are not zero.

        Of prefix sums 1/(4 sin²((2k−1)π/(4n+2))), of ranges (n+1)/(4 sin²(kπ/(2n+2))): the inverse
        of n − max(i, j) is the second difference that is free at the first value and held at the
        last, the inverse of (min(i, j) + 1)(n − max(i, j))/(n+1) the one held at both.
        """
        n = self.values
        k = np.arange(1, n + 1)
        if self.name == "prefix":
            return np.asarray(1 / (4 * np.sin((2 * k - 1) * np.pi / (4 * n + 2)) ** 2))
        if self.name == "ranges":
            return np.asarray((n + 1) / (4 * np.sin(k * np.pi / (2 * n + 2)) ** 2))
        return np.diff(self.bounds).astype(np.float64)  # of a group: how many values it has

    @property
    def norm(self) -> float:
        """‖W‖_*²/n: no mechanism that costs a record one has less variance in all."""
        return float(np.sqrt(self.eigenvalues).sum()) ** 2 / self.values
