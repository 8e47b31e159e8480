"""Strategies in closed form from singular values, and the Fourier basis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseplan.domain.gram import Reduction
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.strategies.column_norms import Norm, completed
from noiseplan.strategies.eigen import ASKED, EigenQueries


def singular_value_strategy(gram: Array, norm: Norm = "L2", fill: bool = True) -> Array:
    """A = diag(√ξ) P for W with singular values ξ and right singular vectors P; AᵀA = √(WᵀW).

    Without filling up its error is d₀ tr√G, d₀ the largest diagonal entry of √G. It is the optimum
    where that diagonal is constant (weighted data cubes, cyclic and exchangeable workloads).

    References
    ----------
    C. Li, dissertation, 2013, Problem 3.2 and Theorem 4.10; section 3.4.3 for filling up.

    Examples
    --------
    >>> from noiseplan.strategies.column_norms import total_error
    >>> prefix = np.array([[2.0, 1.0], [1.0, 1.0]])
    >>> round(total_error(singular_value_strategy(prefix), prefix), 6)
    2.625
    """
    reduction = Reduction.of_gram(gram)
    queries = EigenQueries.of(reduction.gram(gram), norm)
    strategy = queries.values[:, None] ** 0.25 * queries.rows
    return reduction.widened(completed(strategy, norm) if fill else strategy)


def workload_root(gram: Array) -> Array:
    """Rows that measure what the workload's own would: AᵀA = G."""
    queries = EigenQueries.of(gram)
    return np.asarray(np.sqrt(queries.values)[:, None] * queries.rows)


def fourier_basis(size: int) -> Array:
    """1, √2 cos(2πkx/n), √2 sin(2πkx/n), …, and for even n (−1)^x: orthogonal, of length √n.

    Over two values it is [1, 1] and [1, −1].
    """
    angle = 2 * np.pi * np.outer(np.arange(1, (size + 1) // 2), np.arange(size)) / size
    waves = np.sqrt(2) * np.stack([np.cos(angle), np.sin(angle)], axis=1).reshape(-1, size)
    last = [(-1.0) ** np.arange(size)[None, :]] if size % 2 == 0 else []
    return np.concatenate([np.ones((1, size)), waves, *last])


def fourier_strategy(shape: Sequence[int], gram: Array) -> Array:
    """Products of the attributes' Fourier rows, those that the workload needs.

    All rows together are orthogonal, so they would do what the identity does; leaving out those
    that no query has a part in is what makes the basis useful, for marginals above all.
    """
    rows = kronecker_dense([fourier_basis(size) for size in shape])
    asked = np.einsum("ri,ri->r", rows @ gram, rows)
    return np.asarray(rows[asked > ASKED * asked.max()])
