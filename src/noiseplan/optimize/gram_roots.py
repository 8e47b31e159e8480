"""Roots and eigenvectors of Gram matrices: of low ranks and of halves in a part of the time.

A workload that reads the same backwards splits into two of half the size. If G commutes with the
reversal of cells, so does the optimal X. In the basis (e_i ± e_{n+1−i})/√2 both are block diagonal,
one block for the even and one for the odd vectors, and the weights of a cell and its mirror image
are equal. All ranges are such a workload. Without the symmetry there is one block, of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from scipy.linalg import lapack

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import AnyArray, like, namespace_of, to_numpy
from noiseplan.optimize.tolerances import RANK_FLOOR, SAFE_PIVOT

# How far apart a matrix and its mirror image may be, relative to its largest entry.
SAME = 1e-13

# From so many cells on a rank is low if it is this part of them: then work goes with the rank.
LARGE, LOW_RANK = 512, 8
# From so many cells on two eigenproblems of half the size are looked for: a fourth of the time.
HALVED: Final = 4096
NOT_A_GRAM_MATRIX = "a Gram matrix is positive semidefinite: pass WᵀW of some rows W"


@dataclass(frozen=True, eq=False)
class Halves:
    """A Gram matrix as diagonal blocks over orbits of cells.

    Attributes
    ----------
    cells
        How many cells there are.
    mirrored
        Whether each orbit is a cell with its mirror image (the middle one alone).
    blocks
        Gram matrices; block b acts on the first `len(blocks[b])` orbits.
    members
        Cells of each orbit.
    """

    cells: int
    mirrored: bool
    blocks: tuple[AnyArray, ...]
    members: AnyArray

    @staticmethod
    def of(gram: AnyArray) -> Halves:
        """Split if the symmetry is there, exactly but for rounding."""
        xp, n = namespace_of(gram), len(gram)
        mirror = xp.flip(gram, axis=(0, 1))
        if n == 1 or float(abs(gram - mirror).max()) > SAME * float(abs(gram).max()):
            return Halves(n, False, (gram,), like(np.ones(n), gram))
        pairs, orbits = n // 2, (n + 1) // 2
        own, other = gram[:orbits, :orbits], xp.flip(gram, axis=(1,))[:orbits, :orbits]
        members = np.full(orbits, 2.0)
        members[pairs:] = 1.0
        # The middle cell is its own image: its even vector is e, not (e + e)/√2.
        scale = like(np.sqrt(members / 2.0), gram)
        even = (own + other) * scale[:, None] * scale
        odd = (own - other)[:pairs, :pairs]
        odd = odd * (abs(odd) > SAME * abs(own)[:pairs, :pairs])  # else it is the sum's rounding
        return Halves(n, True, (even, odd), like(members, gram))

    def diagonal(self, parts: list[AnyArray]) -> AnyArray:
        """The diagonal entry of every orbit's cells, from the diagonals of the blocks."""
        if not self.mirrored:
            return parts[0]
        pairs = self.cells // 2
        both = (parts[0][:pairs] + parts[1]) / 2.0
        return namespace_of(both).concatenate([both, parts[0][pairs:]])

    def spread(self, values: AnyArray) -> Array:
        """One number per orbit as one per cell."""
        half = to_numpy(values)
        return np.concatenate([half, half[: self.cells // 2][::-1]]) if self.mirrored else half

    def rows(self, parts: list[AnyArray]) -> Array:
        """A strategy over cells from one over each block's orbits."""
        blocks = [to_numpy(part) for part in parts]
        if not self.mirrored:
            return blocks[0]
        even, odd = blocks
        pairs = self.cells // 2
        left, middle = even[:, :pairs] / sqrt(2), even[:, pairs:]
        evens = np.concatenate([left, middle, left[:, ::-1]], axis=1)
        left, middle = odd / sqrt(2), np.zeros((len(odd), self.cells % 2))
        odds = np.concatenate([left, middle, -left[:, ::-1]], axis=1)
        return np.concatenate([evens, odds])


def is_low(rank: int, cells: int) -> bool:
    """Whether work that goes with the rank is a fraction of work that goes with the cells."""
    return cells >= LARGE and LOW_RANK * rank <= cells


def low_rank_root(gram: AnyArray) -> Array | None:
    """R with RᵀR = G in time cells² · rank, where G is large and of low rank: by pivots."""
    if not isinstance(gram, np.ndarray) or len(gram) < LARGE:
        return None
    least = RANK_FLOOR * len(gram) * float(np.diagonal(gram).max())
    factor, order, rank, _ = lapack.dpstrf(gram, tol=least)
    if not is_low(rank, len(gram)):
        return None
    root = np.empty((rank, len(gram)))
    root[:, order - 1] = np.triu(factor[:rank])
    return root


def root_of(gram: AnyArray) -> AnyArray:
    """R (rank × cells) with RᵀR = G: by Cholesky, or by eigenvectors where G is singular."""
    xp = namespace_of(gram)
    squares = xp.diagonal(gram, 0)
    if float(squares.min()) < -1e-9 * float(abs(squares).max()):
        raise PlanError(NOT_A_GRAM_MATRIX)
    # Columns of very different sizes must not look dependent: unit diagonal first.
    scale = xp.sqrt(squares.clip(min=0.0))
    scale = scale + (scale == 0.0) * 1.0
    unit = gram / scale / scale[:, None]
    try:
        lower = xp.linalg.cholesky(unit)
        if float(xp.diagonal(lower, 0).min()) ** 2 > SAFE_PIVOT:
            return lower.T * scale
    except (np.linalg.LinAlgError, RuntimeError):
        pass
    low = low_rank_root(unit)
    if low is not None:
        return low * scale
    values, vectors = xp.linalg.eigh(unit)
    if float(values[0]) < -1e-9 * float(values[-1]):
        raise PlanError(NOT_A_GRAM_MATRIX)
    keep = to_numpy(values) > RANK_FLOOR * len(gram) * float(values[-1])
    if not keep.any():
        return like(np.zeros((0, len(gram))), gram)
    kept = np.flatnonzero(keep).tolist()
    return (vectors[:, kept] * xp.sqrt(values[kept])).T * scale


def eigen(gram: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors, the largest last; of a low rank only those that count.

    G = RᵀR with RRᵀ = U diag(σ) Uᵀ has the vectors RᵀU diag(σ)^{−1/2}. Of very many cells the two
    halves of a workload that reads the same backwards are taken one by one.
    """
    root = low_rank_root(gram)
    if root is not None:
        values, vectors = np.linalg.eigh(root @ root.T)
        return values, root.T @ (vectors / np.sqrt(values))
    if len(gram) < HALVED:
        values, vectors = np.linalg.eigh(gram)
        return values, vectors
    halves = Halves.of(gram)
    found = [np.linalg.eigh(block) for block in halves.blocks]
    values = np.concatenate([one.eigenvalues for one in found])
    order = np.argsort(values, kind="stable")
    return values[order], halves.rows([one.eigenvectors.T for one in found])[order].T
