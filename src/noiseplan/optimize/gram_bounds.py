"""How hard is a workload? Lower bounds on the total variance, from its Gram matrix.

All numbers are total variances at privacy cost one (Δ² = 1; for Laplace noise in units of 2/ε²,
where they hold as well because L1 norms are never below L2 norms). With ξ the singular values of W
over n cells,

    SVDB(W) = (Σ ξ)²/n  ≤  least total variance  ≤  d₀ Σ ξ ,   d₀ the largest entry of diag √(WᵀW).

Leaving out columns never makes a workload harder, so the bound of any choice of cells is a bound
too; merging cells that no query tells apart changes nothing but n. The best over all choices of
cells, and over all weights of cells, is the dual program of the exact optimum (`optimum`), which
is never below any of these.

The bound is reached, and is a formula, wherever the diagonal of √(WᵀW) is constant, and then AᵀA =
√(WᵀW) is the optimum. Symmetry makes it constant: where cells can be shifted in a circle, exchanged
at will, or permuted value by value on each attribute.

References
----------
C. Li, dissertation, 2013, Theorems 4.1 (bound), 4.2 (projections), 4.5 to 4.9 (where it is reached;
the blocks of Theorem 4.9 with G₁ and G₂ the right way round), Corollary 4.4, Theorem 4.10 (how far
it can be off), Definition 4.10 (merged cells).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod, sqrt
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.optimize.low_rank import eigen
from noiseplan.optimize.optimum import checked_gram
from noiseplan.optimize.tolerances import EIGENVALUE_ERROR

# Cells up to which all ranges, and all choices of cells, are tried.
ALL_RANGES_UP_TO, ALL_CHOICES_UP_TO = 40, 14
# How nearly equal the diagonal of √G must be to be called constant.
LEVEL: Final = 1e-8

# Subsets of attributes that a data cube may need.
MOST_SUBSETS: Final = 1 << 21
# How nearly equal entries must be for a Gram matrix to be called cyclic or exchangeable.
ASYMMETRY: Final = 1e-12


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
    choices = (c for k in range(1, len(asked) + 1) for c in combinations(asked.tolist(), k))
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


def is_cyclic(gram: Array) -> bool:
    """Whether entries depend on the distance of two cells around a circle alone."""
    n, scale = len(gram), ASYMMETRY * float(np.abs(gram).max())
    shifted = gram[0][(np.arange(n)[None, :] - np.arange(n)[:, None]) % n]
    return bool(np.abs(gram - shifted).max() <= scale)


def is_exchangeable(gram: Array) -> bool:
    """Whether all cells, and all pairs of cells, are asked alike."""
    scale = ASYMMETRY * float(np.abs(gram).max())
    off = gram[~np.eye(len(gram), dtype=bool)]
    return bool(np.ptp(np.diagonal(gram)) <= scale and np.ptp(off if off.size else [0.0]) <= scale)


@dataclass(frozen=True)
class DataCube:
    """Tables (group-bys) over attributes of given sizes, each with a weight on its variances.

    With S the tables and w their weights, for every set T of attributes inside some table

        λ_T/n = Σ_{S ⊇ T} w_S / ∏_{i∈S} n_i ,  as often as  ∏_{i∈T} (n_i − 1) .

    The least total variance is (Σ_T often · √(λ_T/n))², reached by AᵀA = Σ_T √λ_T Π_T with Π_T the
    product of I − J/n_i over T and J/n_i over the others. Nothing of the domain's size is needed.

    Examples
    --------
    >>> cube = DataCube.of([2, 3, 2], {(0, 1): 1, (0, 2): 1, (1, 2): 1})
    >>> round(cube.optimum, 6)  # all tables of two attributes
    28.54178
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[tuple[int, ...], float], ...]

    @staticmethod
    def of(sizes: Sequence[int], tables: Mapping[tuple[int, ...], float]) -> DataCube:
        """From the attributes (by number) of every table, and its weight."""
        for attributes, weight in tables.items():
            if any(not 0 <= i < len(sizes) for i in attributes) or not weight > 0:
                raise PlanError(
                    f"a table names attributes from 0 to {len(sizes) - 1} and has a positive "
                    f"weight; found {attributes} with weight {weight}"
                )
        if not tables:
            raise PlanError("a data cube has at least one table: DataCube.of([2, 3], {(0,): 1})")
        return DataCube(
            tuple(sizes), tuple((tuple(sorted(t)), float(w)) for t, w in tables.items())
        )

    @staticmethod
    def marginals(sizes: Sequence[int], k: int) -> DataCube:
        """Every table of k attributes."""
        return DataCube.of(sizes, dict.fromkeys(combinations(range(len(sizes)), k), 1.0))

    @property
    def countable(self) -> bool:
        """Whether its sets of attributes are few enough to be listed."""
        return bool(sum(2 ** len(table) for table, _ in self.tables) <= MOST_SUBSETS)

    def eigenvalues(self) -> dict[tuple[int, ...], tuple[float, int]]:
        """λ_T/n of every T, and how often."""
        if not self.countable:
            raise PlanError("the data cube has too many sets of attributes to be listed")
        found: dict[tuple[int, ...], float] = {}
        for table, weight in self.tables:
            share = weight / prod(self.sizes[i] for i in table)
            for subset in _subsets(table):
                found[subset] = found.get(subset, 0.0) + share
        return {t: (value, prod(self.sizes[i] - 1 for i in t)) for t, value in found.items()}

    @property
    def optimum(self) -> float:
        """The least total variance at privacy cost one."""
        return sum(often * sqrt(value) for value, often in self.eigenvalues().values()) ** 2

    def profile(self) -> Array:
        """AᵀA of the optimum, with a diagonal of ones; for small domains."""
        total = sum(often * sqrt(value) for value, often in self.eigenvalues().values())
        pieces = []
        for subset, (value, _) in self.eigenvalues().items():
            parts = [
                np.eye(n) - 1.0 / n if i in subset else np.full((n, n), 1.0 / n)
                for i, n in enumerate(self.sizes)
            ]
            pieces.append(sqrt(value) * kronecker_dense(parts))
        return np.asarray(sum(pieces) * (prod(self.sizes) / total))


def _subsets(table: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return (s for k in range(len(table) + 1) for s in combinations(table, k))
