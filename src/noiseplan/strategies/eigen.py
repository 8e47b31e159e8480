"""Eigenvectors of the workload as rows: in closed form, the Fourier basis, the eigen-design.

The eigen-design: G = Qᵀ diag(σ) Q. The rows of Q with σ > 0 are independent and orthonormal, and
what row i costs the workload is σ_i itself, so the program of `weighting` needs no further matrix.

Two ways to make the program smaller: weigh the rows in groups of neighbouring eigenvalues, and then
the groups against each other (*separation*); or weigh only the *principal* rows one by one, and all
the others together.

Afterwards columns that are shorter than the longest are filled up, which costs nothing.

Where G has repeated eigenvalues its eigenvectors are not unique, and neither is the design: errors
may then differ a little between machines (they are always those of the matrix really measured).

References
----------
C. Li, dissertation, 2013, Program 5.1.2, sections 5.2.2.1 and 5.2.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from noiseplan.domain.gram import Reduction
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.optimize.gram_roots import eigen
from noiseplan.strategies.column_norms import Norm, completed
from noiseplan.strategies.weighting import POWERS, best_weights

# Eigenvalues below this share of the largest are directions that nobody asks about.
ASKED: Final = 1e-11
# The share of rows weighed one by one where none is given: enough for what most workloads ask.
PRINCIPAL_PERCENT: Final = 10.0

# Weights inside a group are an approximation anyway.
INSIDE_TOLERANCE: Final = 1e-4


@dataclass(frozen=True, eq=False)
class EigenQueries:
    """Rows of Q and their σ, the largest first; `loads` is what each row costs each cell."""

    rows: Array
    values: Array
    norm: Norm = "L2"

    @staticmethod
    def of(gram: Array, norm: Norm = "L2") -> EigenQueries:
        values, vectors = eigen(gram)
        asked = np.flatnonzero(values > ASKED * values[-1])[::-1]
        return EigenQueries(np.ascontiguousarray(vectors[:, asked].T), values[asked], norm)

    @property
    def loads(self) -> Array:
        return np.abs(self.rows) if self.norm == "L1" else self.rows**2

    @property
    def power(self) -> int:
        return POWERS[self.norm]


# u of every row, from the rows.
Weigh = Callable[[EigenQueries], Array]


def eigen_design(gram: Array, norm: Norm = "L2", fill: bool = True) -> Array:
    """Every eigen-query with its own weight.

    Examples
    --------
    >>> from noiseplan.strategies.column_norms import total_error
    >>> prefix = np.array([[2.0, 1.0], [1.0, 1.0]])
    >>> round(total_error(eigen_design(prefix, fill=False), prefix), 5)  # 2 + 2/√5
    2.89443
    >>> round(total_error(eigen_design(prefix), prefix), 5)
    2.71714
    """
    return designed(gram, norm, fill, each)


def separated_design(
    gram: Array, group: int | None = None, norm: Norm = "L2", fill: bool = True
) -> Array:
    """Weights inside groups of so many eigen-queries, then of the groups: n^{1/3} if not given."""
    return designed(gram, norm, fill, partial(in_groups, group=group))


def principal_design(
    gram: Array, percent: float = PRINCIPAL_PERCENT, norm: Norm = "L2", fill: bool = True
) -> Array:
    """Weights of this share of the eigen-queries, the largest first, and one of the rest."""
    return designed(gram, norm, fill, partial(principal, percent=percent))


def designed(gram: Array, norm: Norm, fill: bool, weigh: Weigh) -> Array:
    """The design on cells that some query tells apart; the others repeat their columns."""
    reduction = Reduction.of_gram(gram)
    queries = EigenQueries.of(reduction.gram(gram), norm)
    factors = weigh(queries) ** (queries.power / 2)
    strategy = queries.rows * factors[:, None]
    return reduction.widened(completed(strategy, norm) if fill else strategy)


def each(queries: EigenQueries) -> Array:
    """A weight of its own for every row."""
    return best_weights(queries.loads, queries.values, queries.power).u


def in_groups(queries: EigenQueries, group: int | None = None) -> Array:
    """Weights inside groups of neighbours, n^{1/3} if not given, then of the groups."""
    count = len(queries.values)
    width = max(1, round(queries.rows.shape[1] ** (1 / 3)) if group is None else group)
    parts = [slice(start, start + width) for start in range(0, count, width)]
    return _together(queries, parts)


def principal(queries: EigenQueries, percent: float = PRINCIPAL_PERCENT) -> Array:
    """Weights of this share of the rows, and one of the rest."""
    count = len(queries.values)
    first = min(count, max(1, int(count * percent / 100)))
    parts = [slice(i, i + 1) for i in range(first)]
    if first < count:
        parts.append(slice(first, count))
    return _together(queries, parts, alike=True)


def _together(queries: EigenQueries, parts: list[slice], alike: bool = False) -> Array:
    """Weights inside each part (`alike`: all the same), then one factor of each part.

    A part with weights u is an item of cost Σ c/u^p and loads sᵀu: the same program again.
    """
    loads, power = queries.loads, queries.power
    inside = np.ones(len(queries.values))
    if not alike:
        for part in parts:
            own = best_weights(loads[part], queries.values[part], power, INSIDE_TOLERANCE)
            inside[part] = own.u
    costs = np.array([(queries.values[part] / inside[part] ** power).sum() for part in parts])
    drawn = np.array([inside[part] @ loads[part] for part in parts])
    factors = best_weights(drawn, costs, power).u
    return np.concatenate([inside[part] * f for part, f in zip(parts, factors, strict=True)])


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
