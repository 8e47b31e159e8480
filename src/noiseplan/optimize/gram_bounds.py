"""How hard is a workload? Lower bounds on the total variance, from its Gram matrix.

All numbers are total variances at privacy cost one (Δ² = 1; for Laplace noise in units of 2/ε²,
where they hold as well because L1 norms are never below L2 norms). With ξ the singular values of W
over n cells,

    SVDB(W) = (Σ ξ)²/n  ≤  least total variance  ≤  d₀ Σ ξ ,   d₀ the largest entry of diag √(WᵀW).

Leaving out columns never makes a workload harder, so the bound of any choice of cells is a bound
too; merging cells that no query tells apart changes nothing but n. The best over all choices of
cells, and over all weights of cells, is the dual program of the exact optimum (`optimum`), which
is never below any of these.

References
----------
C. Li, dissertation, 2013, Theorems 4.1 (bound), 4.2 (projections), 4.5 (where it is reached), 4.10
(how far it can be off), Definition 4.10 (merged cells).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import subsets
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR, eigen
from noiseplan.optimize.optimum import checked_gram

# Cells up to which all ranges, and all choices of cells, are tried.
ALL_RANGES_UP_TO, ALL_CHOICES_UP_TO = 40, 14
# How nearly equal the diagonal of √G must be to be called constant.
LEVEL: Final = 1e-8


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values of a workload and the diagonal of √(WᵀW)."""

    singular: Array  # descending
    root_diagonal: Array
    cells: float  # may be more than can be counted in integers

    @staticmethod
    def of(gram: Array) -> Spectrum:
        return Spectrum.of_classes(gram, np.ones(len(gram)))

    @staticmethod
    def of_classes(gram: Array, members: Array) -> Spectrum:
        """The same where cells have equal columns: so many are in each class.

        WᵀW over all cells has the eigenvalues of D^{1/2}GD^{1/2}, D the numbers of members, and
        each member of a class has an equal share of what its root has on the diagonal.
        """
        lengths = np.sqrt(members)
        values, vectors = eigen(gram * np.outer(lengths, lengths))
        rounding = EIGENVALUE_ERROR * len(values) * values[-1]
        singular = np.sqrt(np.where(values > rounding, values, 0.0))
        diagonal = np.asarray((vectors**2) @ singular) / members
        return Spectrum(singular[::-1].copy(), diagonal, float(members.sum()))

    @property
    def rank(self) -> int:
        """Singular values that are more than rounding."""
        return int((self.singular > 0).sum())

    @property
    def bound(self) -> float:
        """SVDB, rounded to the safe side."""
        return _squared_sum(self.singular**2, self.cells)

    @property
    def closed_form(self) -> float:
        """d₀ Σ ξ: the error of the singular-value strategy before its columns are filled up."""
        return float(self.root_diagonal.max() * self.singular.sum())

    @property
    def tight(self) -> bool:
        """Whether the SVD bound is reached: the diagonal of √G is constant."""
        return bool(np.ptp(self.root_diagonal) <= LEVEL * self.root_diagonal.max())


def _squared_sum(eigenvalues: Array, cells: float) -> float:
    """(Σ √λ)²/n, without what rounding may have added."""
    rounding = EIGENVALUE_ERROR * len(eigenvalues) * float(eigenvalues.max())
    surely = np.maximum(eigenvalues - rounding, 0.0)
    return float(np.sqrt(surely).sum()) ** 2 / cells


def svd_bound(gram: Array) -> float:
    """SVDB(W) = (Σ ξ)²/n; n counts every column, zeros included.

    Examples
    --------
    >>> round(svd_bound(np.array([[2.0, 1.0], [1.0, 1.0]])), 6)  # two prefix sums
    2.5
    """
    return _squared_sum(np.asarray(np.linalg.eigvalsh(gram), dtype=np.float64), len(gram))


@dataclass(frozen=True)
class Projection:
    """A bound from some of the cells, numbered from 0."""

    value: float
    cells: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last cell."""
        return self.cells[0], self.cells[-1]


def range_bound(gram: Array) -> Projection:
    """The largest SVDB over contiguous ranges of cells.

    Small workloads have all ranges tried. Beyond, both ends move inward and outward by ever smaller
    steps; where the workload looks the same from both ends, together. Any range is a valid bound.

    Examples
    --------
    >>> w = np.vstack([np.eye(9)[0], np.full(9, 0.12)])  # one cell, and a faint total
    >>> found = range_bound(w.T @ w)
    >>> round(found.value, 4), found.cells
    (1.0144, (0,))
    """
    gram = checked_gram(gram)
    n = len(gram)
    if n <= ALL_RANGES_UP_TO:
        ends = [(a, b) for a in range(n) for b in range(a + 1, n + 1) if gram[a:b, a:b].any()]
        best = max(ends, key=lambda e: svd_bound(gram[e[0] : e[1], e[0] : e[1]]))
    else:
        best = _searched(gram)
    value = svd_bound(gram[best[0] : best[1], best[0] : best[1]])
    return Projection(value, tuple(range(*best)))


def _searched(gram: Array) -> tuple[int, int]:
    """The ends of a range that no step of either end, or of both, improves."""
    n = len(gram)
    mirrored = bool(np.allclose(gram, gram[::-1, ::-1], rtol=1e-12, atol=0.0))
    known: dict[tuple[int, int], float] = {}

    def value(ends: tuple[int, int]) -> float:
        a, b = ends
        if not (0 <= a < b <= n) or not gram[a:b, a:b].any():
            return -1.0
        if ends not in known:
            known[ends] = svd_bound(gram[a:b, a:b])
        return known[ends]

    at, step = (0, n), max(1, n // 8)
    while True:
        moves = [(step, -step), (-step, step)]
        if not mirrored:
            moves += [(step, 0), (-step, 0), (0, step), (0, -step)]
        best = max(((at[0] + da, at[1] + db) for da, db in moves), key=value)
        if value(best) > value(at):
            at = best
        elif step > 1:
            step //= 2
        else:
            return at


def supreme_bound(gram: Array) -> Projection:
    """The largest SVDB over all choices of cells, for workloads of a few cells.

    Examples
    --------
    >>> w = np.tril(np.ones((4, 4)))
    >>> found = supreme_bound(w.T @ w)
    >>> round(found.value, 6) >= round(svd_bound(w.T @ w), 6)
    True
    """
    gram = checked_gram(gram)
    asked = np.flatnonzero(np.diagonal(gram) > 0)
    if len(asked) > ALL_CHOICES_UP_TO:
        raise PlanError(
            f"all choices of {len(asked)} cells are too many to try, at most {ALL_CHOICES_UP_TO} "
            f"cells are; the exact optimum is a better bound anyway: dense_optimum(gram).bound"
        )
    choices = filter(None, subsets(asked.tolist()))
    best = max((svd_bound(gram[np.ix_(c, c)]), c) for c in choices)
    return Projection(*best)


def union_bounds(one: float, other: float) -> tuple[float, float]:
    """Between what SVDB of two workloads together lies, from SVDB of each.

    √SVDB(W₁ ∪ W₂) ≤ √SVDB(W₁) + √SVDB(W₂), and a part is never harder than the whole (Theorem
    4.12). The upper end bounds the *bound*, not the error.

    Examples
    --------
    >>> union_bounds(4.0, 9.0)
    (9.0, 25.0)
    """
    return max(one, other), (one**0.5 + other**0.5) ** 2


def product_bound(*factors: float) -> float:
    """SVDB of a product of workloads on different attributes: the product (Theorem 4.13)."""
    return float(np.prod(factors))
