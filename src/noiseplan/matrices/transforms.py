"""Wavelets and trees over ordered values: measured and solved in linear time, never stored.

Both are matrices A of full column rank with entries 0 and ±1, so a record changes a few numbers by
one each. Beside the products every matrix has, they know their least-squares solution A⁺y and their
error profile (AᵀA)⁻¹, by passes over the tree.

References
----------
C. Li, dissertation, 2013, sections 3.3.1 (hierarchies, from Hay et al.) and 3.3.2 (Haar wavelets,
from Xiao et al.); the passes over a tree of any branching are weighted means, bottom up, and
corrections, top down.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, SizedMatrix

# (AᵀA)⁻¹ is values × values: beyond so many (512 MB) it is refused.
PROFILE_VALUES: Final = 8192

Number = TypeVar("Number", np.float64, np.int64)


class Transform(SizedMatrix):
    """A strategy of full column rank, entries 0 and ±1, that is solved as fast as it is applied.

    Examples
    --------
    >>> from noiseplan.matrices import HaarMatrix
    >>> wavelet = HaarMatrix(4)
    >>> isinstance(wavelet, Transform), wavelet.sums(np.array([1, 2, 3, 4])).tolist()
    (True, [10, -4, -1, -1])
    """

    @property
    @abstractmethod
    def touched(self) -> int:
        """How many numbers one record can change, by one each: S₁ and S₂² of the matrix."""

    @abstractmethod
    def sums(self, x: NDArray[Number]) -> NDArray[Number]:
        """Ax; integers stay integers. No partial sum is larger than the sum of all ``|x|``."""

    @abstractmethod
    def recover(self, y: Array) -> Array:
        """A⁺y, the least-squares solution, for y of shape (rows, …)."""

    @abstractmethod
    def _profile(self) -> Array:
        """(AᵀA)⁻¹."""

    @cached_property
    def profile(self) -> Array:
        """(AᵀA)⁻¹: the covariance of the estimated values, in units of the noise's variance."""
        if self.shape[1] > PROFILE_VALUES:
            raise QueryError(
                f"the errors of {self.shape[1]:,} values have too many covariances to be written "
                f"down; attributes of at most {PROFILE_VALUES:,} values have them"
            )
        return self._profile()

    def matmul(self, x: Array) -> Array:
        return self.sums(x)

    def gram(self) -> Array:
        dense = self.dense()
        return np.asarray(dense.T @ dense)

    def quadratic_rows(self, s: Array) -> Array:
        half = self.matmul(np.asarray(s, dtype=np.float64))
        return np.diagonal(self.matmul(half.T)).copy()

    def column_kinds(self) -> IntArray:
        return np.arange(1, self.shape[1] + 1)

    def row_squares(self) -> Array:
        return np.asarray(np.abs(self.dense()).sum(axis=1))

    def take(self, rows: NDArray[np.intp]) -> Array:
        return self.matmul(np.eye(self.shape[1]))[rows]


@immutable
@dataclass(frozen=True)
class _Splits:
    """The inner nodes of one level of a binary tree, from left to right."""

    start: IntArray
    middle: IntArray
    stop: IntArray


@final
@immutable
@dataclass(frozen=True)
class HaarMatrix(Transform):
    """The total; then, for every node of a binary tree, its left half minus its right half.

    For any size: where a node has an odd number of values, its left half has one more.

    Notes
    -----
    From a node's sum s and its difference d follow the sums of its halves, (s + d)/2 and (s − d)/2,
    so the matrix is inverted exactly, in linear time.

    Examples
    --------
    >>> HaarMatrix(4).dense().astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    >>> HaarMatrix(3).recover(HaarMatrix(3).matmul(np.array([5.0, 1.0, 2.0]))).tolist()
    [5.0, 1.0, 2.0]
    """

    @property
    def touched(self) -> int:
        return 1 + len(self._levels)

    @cached_property
    def _levels(self) -> list[_Splits]:
        levels, start, stop = [], np.array([0]), np.array([self.size])
        while (inner := stop - start > 1).any():
            start, stop = start[inner], stop[inner]
            middle = (start + stop + 1) // 2
            levels.append(_Splits(start, middle, stop))
            start, stop = _interleaved(start, middle), _interleaved(middle, stop)
        return levels

    def sums(self, x: NDArray[Number]) -> NDArray[Number]:
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        # Halves are taken first, so that no number on the way is larger than the sum of all |x|.
        differences: list[NDArray[Number]] = [
            (sums[at.middle] - sums[at.start]) - (sums[at.stop] - sums[at.middle])
            for at in self._levels
        ]
        return np.concatenate([sums[-1:], *differences])

    def recover(self, y: Array) -> Array:
        values = np.empty(y.shape, dtype=np.float64)
        sums, used = np.asarray(y[:1], dtype=np.float64), 1
        if self.size == 1:
            return sums
        for at in self._levels:
            d = y[used : used + len(at.start)]
            halves = _interleaved((sums + d) / 2, (sums - d) / 2)
            start, stop = _interleaved(at.start, at.middle), _interleaved(at.middle, at.stop)
            single = stop - start == 1
            values[start[single]] = halves[single]
            sums, used = halves[~single], used + len(at.start)
        return values

    def _profile(self) -> Array:
        """Σ_r a_r a_rᵀ, a_r = A⁻¹e_r: a node's difference goes in halves to everything under it."""
        depth = np.zeros(self.size)
        for at in self._levels:
            for start, stop in zip(at.start, at.stop, strict=True):
                depth[start:stop] += 1
        share = 0.5**depth
        profile = np.outer(share, share)
        for level, at in enumerate(self._levels):
            for start, middle, stop in zip(at.start, at.middle, at.stop, strict=True):
                own = share[start:stop] * 2.0**level
                own[middle - start :] *= -1.0
                profile[start:stop, start:stop] += np.outer(own, own)
        return profile


def _interleaved(one: NDArray[Number], other: NDArray[Number]) -> NDArray[Number]:
    """one[0], other[0], one[1], other[1], …"""
    return np.stack([one, other], axis=1).reshape(-1, *one.shape[1:])


@final
@immutable
@dataclass(frozen=True)
class TreeMatrix(Transform):
    """The sums of every level of a tree: the total, its parts, …, the single values.

    Every `branching` neighbours have a parent, from the left; the last parent of a level may have
    fewer children. Every value is counted once on each level.

    Notes
    -----
    Bottom up, a node's sum is known twice: as measured, and as the sum of its children; their
    weighted mean z has the variance V. Top down, what the parent's estimate differs from its
    children's sum is shared among them in proportion to V.

    Examples
    --------
    >>> TreeMatrix(4).dense().astype(int).tolist()[:3]
    [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
    >>> TreeMatrix(9, branching=3).shape
    (13, 9)
    """

    branching: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branching < 2:
            raise QueryError(f"a tree has branches in 2 or more, found {self.branching}")

    @cached_property
    def _widths(self) -> list[int]:
        """How many values a node counts on each level, from the total down."""
        widths = [1]
        while widths[-1] < self.size:
            widths.append(min(widths[-1] * self.branching, self.size))
        return widths[::-1]

    @cached_property
    def _counts(self) -> list[int]:
        """How many nodes each level has."""
        return [-(-self.size // width) for width in self._widths]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._counts), self.size

    @property
    def touched(self) -> int:
        return len(self._widths)

    def sums(self, x: NDArray[Number]) -> NDArray[Number]:
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        levels: list[NDArray[Number]] = []
        for width in self._widths[:-1]:
            start = np.arange(0, self.size, width)
            levels.append(sums[np.minimum(start + width, self.size)] - sums[start])
        return np.concatenate([*levels, x])

    @cached_property
    def _variances(self) -> list[tuple[Array, Array]]:
        """V of every node, and the sum of its children's (of leaves: none), by level."""
        known = [(np.ones(self.size), np.zeros(0))]
        for _ in self._counts[-2::-1]:
            below = np.add.reduceat(known[0][0], self._first_children(len(known[0][0])))
            known.insert(0, (below / (1.0 + below), below))
        return known

    def _first_children(self, count: int) -> IntArray:
        return np.arange(0, count, self.branching)

    def recover(self, y: Array) -> Array:
        levels = np.split(np.asarray(y, dtype=np.float64), np.cumsum(self._counts)[:-1])
        means: list[Array] = [levels[-1]]
        below: list[Array] = []
        for level in range(len(levels) - 2, -1, -1):
            children = means[0]
            sums = np.add.reduceat(children, self._first_children(len(children)), axis=0)
            variance, shared = (_broad(v, y.ndim) for v in self._variances[level])
            means.insert(0, variance * (levels[level] + sums / shared))
            below.insert(0, sums)
        estimate = means[0]
        for level, sums in enumerate(below):
            parent = np.arange(self._counts[level + 1]) // self.branching
            share = self._variances[level + 1][0] / self._variances[level][1][parent]
            missing = (estimate - sums)[parent]
            estimate = means[level + 1] + _broad(share, y.ndim) * missing
        return estimate

    def gram(self) -> Array:
        value = np.arange(self.size)
        total = np.zeros((self.size, self.size))
        for width in self._widths:
            node = value // width
            total += node[:, None] == node
        return total

    def row_squares(self) -> Array:
        return self.matmul(np.ones(self.size))

    def _profile(self) -> Array:
        """A node's row 1ᵀ over its values is added to (AᵀA)⁻¹ of its subtree by a rank-one step."""
        profile = np.eye(self.size)
        for width in self._widths[-2::-1]:
            for start in range(0, self.size, width):
                part = profile[start : start + width, start : start + width]
                towards = part.sum(axis=1)
                part -= np.outer(towards, towards) / (1.0 + towards.sum())
        return profile


def _broad(values: Array, dimensions: int) -> Array:
    return values.reshape(-1, *(1,) * (dimensions - 1))
