"""What levels of a long attribute ask of the others, taken apart by the attributes asked by value.

An attribute that every query asks by value, or sums over, has values that are all alike. So the
best precision over the others commutes with their exchange, and falls into *pieces*, one for every
set T of such attributes: the sum over those outside of T, and what differs between the values of
those in it, ∏_{i∈T}(n_i − 1) dimensions that are all the same. Within a piece a precision is over
the cells of the rest, those that no query tells apart being one.

    query that asks I by value, G on the rest:    ∏_{i∉I} n_i · G   in every piece T ⊆ I
    entry of cell j:                              Σ_T ∏_{i∈T}(n_i − 1)/∏ n_i · (Y_T)_jj
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from noiseplan.arrays import joined_kinds
from noiseplan.domain.gram import Reduction
from noiseplan.matrices import IdentityMatrix, Matrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.planning.long_problem import TreeProblem
from noiseplan.queries import Query
from noiseplan.schema import Schema

# Sets of attributes asked by value.
MOST_PIECES: Final = 64


@dataclass(frozen=True, eq=False)
class Asked:
    """What one query of the workload asks at one level, so many times."""

    query: int
    level: int
    over: int  # which of the questions about the others
    often: float


@dataclass(frozen=True, eq=False)
class LevelProblem:
    """A tree, and the questions about the other attributes that are asked at its levels."""

    whole: TreeProblem

    @cached_property
    def asked(self) -> list[Asked]:
        """All that queries ask, level by level."""
        number, often = self.whole.without[1], self.whole.often
        return [
            Asked(query, level, int(number[query]), float(often[query, level]))
            for query, own in enumerate(self.whole.levels)
            for level in sorted(set(own.tolist()))
        ]

    @property
    def schema(self) -> Schema:
        return self.whole.problem.workload.schema

    @property
    def questions(self) -> list[Query]:
        """What is asked of the others, each once."""
        return self.whole.without[0]

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The other attributes that are named."""
        names = {name for query in self.questions for name in query.attributes}
        return tuple(sorted(self.schema.index(name) for name in names))

    @property
    def cells(self) -> int:
        """Of all of them."""
        return prod(self.schema.shape[i] for i in self.others)

    # ------------------------------------------------------------------ by value, and the rest

    @cached_property
    def _factors(self) -> list[dict[int, Matrix]]:
        index = self.schema.index
        pairs = (zip(query.attributes, query.matrices(), strict=True) for query in self.questions)
        return [{index(name): matrix for name, matrix in each} for each in pairs]

    @cached_property
    def by_value(self) -> tuple[int, ...]:
        """Attributes that are asked by value or summed over."""
        return tuple(
            i
            for i in self.others
            if all(isinstance(f[i], IdentityMatrix) for f in self._factors if i in f)
        )

    @cached_property
    def rest(self) -> tuple[int, ...]:
        return tuple(i for i in self.others if i not in self.by_value)

    @property
    def rest_cells(self) -> int:
        """Cells of the rest."""
        return prod(self.schema.shape[i] for i in self.rest)

    @cached_property
    def values(self) -> int:
        """∏ n of those by value."""
        return prod(self.schema.shape[i] for i in self.by_value)

    @cached_property
    def pieces(self) -> list[tuple[int, ...]]:
        """The sets T that any question needs."""
        found: set[tuple[int, ...]] = set()
        for factors in self._factors:
            asked = [i for i in self.by_value if i in factors]
            found.update(t for k in range(len(asked) + 1) for t in combinations(asked, k))
        return sorted(found, key=lambda t: (len(t), t))

    @cached_property
    def dimensions(self) -> Array:
        """∏_{i∈T}(n_i − 1) of every piece."""
        return np.array([prod(self.schema.shape[i] - 1.0 for i in t) for t in self.pieces])

    @cached_property
    def scales(self) -> Array:
        """∏_{i∉I} n_i of every question in every piece, zero where it does not need it."""
        found = np.zeros((len(self.questions), len(self.pieces)))
        for q, factors in enumerate(self._factors):
            summed = prod(self.schema.shape[i] for i in self.by_value if i not in factors)
            for p, piece in enumerate(self.pieces):
                found[q, p] = summed if set(piece) <= set(factors) else 0.0
        return found

    @cached_property
    def row_scales(self) -> Array:
        """What one row of every question has of each piece's variance: the sum over its values has
        `scales` times the dimensions."""
        values = [
            prod(self.schema.shape[i] for i in self.by_value if i in f) for f in self._factors
        ]
        return np.asarray(self.scales * self.dimensions / np.array(values)[:, None])

    # ------------------------------------------------------------------ over the rest

    @cached_property
    def classes(self) -> Reduction:
        """Cells of the rest that no query tells apart are one."""
        return self._classes(self._factors)

    def _classes(self, asked: list[dict[int, Matrix]]) -> Reduction:
        """Of the cells of the rest, those that these factors do not tell apart."""
        total = np.zeros((self.rest_cells, self.rest_cells))
        for factors in asked:
            gram = self._over_rest(factors, gram=True)
            total += gram / (np.diagonal(gram).max() or 1.0)
        return Reduction.of_gram(total)

    @cached_property
    def grams(self) -> list[Array]:
        """G of every question, over classes."""
        return [self.classes.gram(self._over_rest(f, gram=True)) for f in self._factors]

    @cached_property
    def rows(self) -> list[Array]:
        """W of every question, over classes."""
        return [self.classes.columns(self._over_rest(f, gram=False)) for f in self._factors]

    def told_apart(self, level: int) -> Reduction:
        """Of all cells of the others, those that nothing asked from this level on tells apart."""
        asked = {each.over for each in self.asked if each.level >= level}
        needed = [self._factors[q] for q in asked]
        rest = self._classes(needed).groups
        sizes = {i: self.schema.shape[i] for i in self.by_value}
        used = [np.arange(n) * any(i in f for f in needed) for i, n in sizes.items()]
        axes = np.meshgrid(*used, np.arange(len(rest)), indexing="ij")
        kinds = joined_kinds([*(axis.ravel() for axis in axes[:-1]), rest[axes[-1].ravel()]])
        kinds = np.where(rest[axes[-1].ravel()] >= 0, kinds, -1)
        groups = self._in_order(kinds[None, :])[0]
        groups[groups >= 0] = joined_kinds([groups[groups >= 0]])
        return Reduction(groups)

    def _over_rest(self, factors: dict[int, Matrix], gram: bool) -> Array:
        parts = []
        for i in self.rest:
            size = self.schema.shape[i]
            if i in factors:
                parts.append(factors[i].gram() if gram else factors[i].dense())
            else:
                parts.append(np.ones((size if gram else 1, size)))
        return kronecker_dense(parts) if parts else np.ones((1, 1))

    # ------------------------------------------------------------------ over all others

    def row_squares(self, rows: list[Array]) -> Array:
        """The entry of every class, from the rows of every piece."""
        shares = self.dimensions / self.values
        return np.asarray(sum(a * (r**2).sum(axis=0) for a, r in zip(shares, rows, strict=True)))

    def written_out(self, rows: list[Array]) -> Array:
        """Rows of every piece as rows over all cells of the others."""
        found = []
        for piece, own in zip(self.pieces, rows, strict=True):
            parts = [
                helmert(n) if i in piece else np.full((1, n), 1.0 / np.sqrt(n))
                for i, n in ((i, self.schema.shape[i]) for i in self.by_value)
            ]
            found.append(kronecker_dense([*parts, self.classes.widened(own)]))
        return self._in_order(np.concatenate(found))

    def _in_order(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Columns over those by value and then the rest, in the order of the schema."""
        axes = [*self.by_value, *self.rest]
        cube = rows.reshape(-1, *(self.schema.shape[i] for i in axes))
        order = [1 + axes.index(i) for i in self.others]
        return np.ascontiguousarray(cube.transpose([0, *order]).reshape(len(rows), -1))
