"""Σ_A tr M_A^{1/2} of values that are grouped in several ways, which may cross each other.

All n values alike, the part of set A is

    M_A = (c_A I + Σ_k c_{A,k} Z_kᵀZ_k) / n ,      Z_k the groups of way k over the values,

and beside c_A/n its eigenvalues are those of (c_A I + B)/n with B over groups × groups,

    B[g, h] = (c_{A,k(g)} c_{A,k(h)})^{1/2} |g ∩ h| ,

since FᵀF and FFᵀ have the same but zeros. Its slope by c_k is half of tr(M^{-1/2} Z_kᵀZ_k)/n, which
is the sum of f(B)[g, g]/c_k over the groups of the way, f(μ) = μ (c_A + μ)^{-1/2}.

Ways of too many groups are left out: M_A falls by something positive semidefinite, and the trace of
its root with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR


@dataclass(frozen=True, eq=False)
class GroupsNorm:
    """Groups of the same values in several ways, and how many of them are put together."""

    groups: tuple[IntArray, ...]
    most: int

    @property
    def values(self) -> int:
        """n."""
        return len(self.groups[0])

    @cached_property
    def sizes(self) -> Array:
        """How many groups each way has."""
        return np.array([float(group.max() + 1) for group in self.groups])

    @cached_property
    def single(self) -> NDArray[np.bool_]:
        """Ways that have every value by itself."""
        return np.asarray(self.sizes == self.values)

    @cached_property
    def _kept(self) -> list[int]:
        """The ways of few groups, as many as may be put together."""
        order = np.argsort(np.where(self.single, np.inf, self.sizes), kind="stable")
        fit = np.cumsum(np.where(self.single, np.inf, self.sizes)[order]) <= self.most
        return [int(way) for way in order[fit]]

    @cached_property
    def _way_of(self) -> IntArray:
        """The way of every group that is kept."""
        return np.repeat(self._kept, self.sizes[self._kept].astype(np.int64)).astype(np.int64)

    @cached_property
    def _overlaps(self) -> Array:
        """|g ∩ h| of all groups that are kept."""
        if not self._kept:
            return np.zeros((0, 0))
        return np.block([[self._common(one, two) for two in self._kept] for one in self._kept])

    def _common(self, one: int, other: int) -> Array:
        m, n = int(self.sizes[one]), int(self.sizes[other])
        both = np.bincount(self.groups[one] * n + self.groups[other], minlength=m * n)
        return both.reshape(m, n).astype(np.float64)

    def _matrix(self, counted: Array) -> tuple[Array, IntArray, float]:
        """B of one set, the groups it has, and c_A."""
        root = np.sqrt(counted[self._way_of])
        here = np.flatnonzero(root)
        matrix = self._overlaps[np.ix_(here, here)] * np.outer(root[here], root[here])
        return matrix, here, float(counted[self.single].sum())

    def root_trace(self, counted: Array) -> float:
        """Σ_A tr M_A^{1/2}, or less; `counted`: ways × sets."""
        total = 0.0
        for of_set in counted.T:
            matrix, here, alone = self._matrix(of_set)
            # Beyond the number of values nothing but zeros is left.
            found = np.linalg.eigvalsh(matrix)[-self.values :] if len(here) else np.zeros(0)
            off = EIGENVALUE_ERROR * len(here) * max(float(found.max(initial=0.0)), 0.0)
            inside = np.sqrt(np.maximum(found - off, 0.0) + alone).sum()
            total += float(inside + (self.values - len(found)) * np.sqrt(alone))
        return total / float(np.sqrt(self.values))

    def slopes(self, counted: Array) -> Array:
        """∂/∂c of the same, ways × sets; zero where nothing is counted."""
        result = np.zeros_like(counted)
        for of_set, slope in zip(counted.T, result.T, strict=True):
            matrix, here, alone = self._matrix(of_set)
            found, vectors = (
                np.linalg.eigh(matrix) if len(here) else (np.zeros(0), np.zeros((0, 0)))
            )
            found = np.maximum(found, 0.0)
            roots = np.sqrt(np.maximum(found + alone, np.finfo(np.float64).tiny))
            way = self._way_of[here]
            each = np.bincount(way, vectors**2 @ (found / roots), minlength=len(of_set))
            # Of no groups there are counts, which are integers.
            slope[:] = np.divide(each, of_set, out=np.zeros(len(of_set)), where=of_set > 0)
            if alone > 0:
                rest = max(self.values - len(found), 0) / np.sqrt(alone)
                slope[self.single] = (1 / roots[-self.values :]).sum() + rest
        return np.asarray(0.5 * result / np.sqrt(self.values))
