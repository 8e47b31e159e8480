"""Workloads whose least total variance is a formula: the SVD bound is reached.

That is so wherever the diagonal of √(WᵀW) is constant, and then AᵀA = √(WᵀW) is the optimum.
Symmetry makes it constant: where cells can be shifted in a circle, exchanged at will, or permuted
value by value on each attribute.

References
----------
C. Li, dissertation, 2013, Theorems 4.5 to 4.9 (the blocks of Theorem 4.9 with G₁ and G₂ the right
way round), Corollary 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod, sqrt
from typing import Final

import numpy as np

from noiseplan.arrays import subsets
from noiseplan.errors import PlanError
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array

# Subsets of attributes that a data cube may need.
MOST_SUBSETS: Final = 1 << 21
# How nearly equal entries must be for a Gram matrix to be called cyclic or exchangeable.
ASYMMETRY: Final = 1e-12


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
            for subset in subsets(table):
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
