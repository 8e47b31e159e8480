"""Gram matrices of low rank, and of halves: their roots and eigenvectors in a part of the time."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.linalg import lapack

from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import AnyArray
from noiseplan.optimize.mirror_symmetry import Halves
from noiseplan.optimize.tolerances import RANK_FLOOR

# From so many cells on a rank is low if it is this part of them: then work goes with the rank.
LARGE, LOW_RANK = 512, 8
# From so many cells on two eigenproblems of half the size are looked for: a fourth of the time.
HALVED: Final = 4096


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
