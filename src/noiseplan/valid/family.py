"""A family of tables that share margins: which tables, and the linear algebra between them.

The largest tables hold everything. A *margin* is a smaller table that several of them must agree
on, or that counts for itself. Margins are closed under summing, so all consistent values are

    y_S = Σ_{A⊆S} r_A ⊗ 1/n_{S∖A} ,

with one residual r_A for each margin A, that sums to zero along every axis; residuals are free and
mutually orthogonal, ‖y_S‖² = Σ_{A⊆S} ‖r_A‖² / n_{S∖A} (n_{S∖A} the product of the sizes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod

import numpy as np

from noiseplan.arrays import IntArray, subsets
from noiseplan.errors import PlanError, remedy
from noiseplan.matrices.base import Array

NAMED_TABLES = remedy("argument", "valid(tables=[['age', 'sex'], …])", '--table "age, sex"')

# Attributes by their numbers in the schema, ascending.
Set = tuple[int, ...]

# More than these are no longer looked after one by one.
MOST_MARGINS, MOST_TABLES = 100_000, 20_000
# Tables of so many attributes keep all their margins consistent by weight, wider ones the shared.
KEPT_WIDTH = 2


@dataclass(frozen=True, eq=False)
class TableFamily:
    """Sizes of the attributes, the largest tables, and the margins (closed under summing)."""

    sizes: tuple[int, ...]
    tables: tuple[Set, ...]
    margins: tuple[Set, ...]

    @classmethod
    def of(
        cls, sizes: Sequence[int], asked: Iterable[Set], public: Iterable[Set] = ()
    ) -> TableFamily:
        """The family of some tables: those inside another are margins of it.

        Margins are all tables of at most two attributes, those asked for, and those that two of the
        largest tables, or one of them and a public table, have in common.

        Examples
        --------
        >>> family = TableFamily.of((2, 3, 4), [(0, 1), (1, 2), (0,)])
        >>> family.tables, family.margins
        (((0, 1), (1, 2)), ((), (0,), (1,), (2,)))
        """
        wanted = sorted(set(asked) - {()}, key=lambda s: (-len(s), s))
        largest = _largest(wanted)
        kept: set[Set] = {()} | (set(wanted) - set(largest))
        for one in largest:
            for width in range(1, min(KEPT_WIDTH, len(one) - 1) + 1):
                kept |= set(combinations(one, width))
        # Narrow tables share no more than the margins they have anyhow.
        wide = [one for one in largest if len(one) > KEPT_WIDTH + 1]
        pairs = [*combinations(wide, 2), *product(largest, public)]
        kept |= {tuple(i for i in one if i in other) for one, other in pairs}
        margins: set[Set] = set()
        for one in kept:
            if one not in largest:
                for width in range(len(one) + 1):
                    margins |= set(combinations(one, width))
                if len(margins) > MOST_MARGINS or len(largest) > MOST_TABLES:
                    raise PlanError(
                        f"these {len(largest):,} tables have {len(margins):,} margins and more, "
                        f"too many to be made valid together (limits: {MOST_TABLES:,} tables, "
                        f"{MOST_MARGINS:,} margins); ask for fewer or narrower tables: "
                        + NAMED_TABLES
                    )
        order = sorted(margins - set(largest), key=lambda s: (len(s), s))
        return cls(tuple(sizes), tuple(sorted(largest)), tuple(order))

    @property
    def every(self) -> tuple[Set, ...]:
        """Margins and tables."""
        return (*self.margins, *self.tables)

    def shape(self, one: Set) -> tuple[int, ...]:
        return tuple(self.sizes[i] for i in one)

    def cells(self, one: Set) -> int:
        return prod(self.sizes[i] for i in one)

    def ratio(self, outer: Set, inner: Set) -> int:
        """n_{S∖A}: how many cells of S a cell of A ⊆ S sums."""
        return self.cells(outer) // self.cells(inner)

    @cached_property
    def _margin_set(self) -> set[Set]:
        return set(self.margins)

    @cached_property
    def facets(self) -> Mapping[Set, tuple[Set, ...]]:
        """Of every table and margin, the largest margins inside it: they tell all the others."""
        return {one: self._facets(one) for one in self.every}

    def _facets(self, one: Set) -> tuple[Set, ...]:
        found: list[Set] = []
        for width in range(len(one) - 1, -1, -1):
            for inner in combinations(one, width):
                covered = any(set(inner) <= set(other) for other in found)
                if not covered and inner in self._margin_set:
                    found.append(inner)
        return tuple(found)

    @cached_property
    def above(self) -> Mapping[Set, tuple[Set, ...]]:
        """Of every margin, the largest tables it is a margin of."""
        found: dict[Set, list[Set]] = {one: [] for one in self.margins}
        for table in self.tables:
            for one in self.below(table):
                found[one].append(table)
        return {one: tuple(tables) for one, tables in found.items()}

    def pull(self, one: Set) -> float:
        """√T for a margin of T of the largest tables, which pull at it together; else 1."""
        return float(np.sqrt(max(len(self.above.get(one, ())), 1)))

    def below(self, one: Set) -> list[Set]:
        """The margins inside a set, the widest first, without the set itself."""
        found: set[Set] = set()
        for facet in self.facets[one]:
            found.update(subsets(facet))
        return sorted(found, key=lambda s: (-len(s), s))

    # ------------------------------------------------------------------ residuals

    def residuals(self, outer: Set, table: Array) -> dict[Set, Array]:
        """r_A of every A ⊆ S of one table on S."""
        return {inner: centred(margin(table, outer, inner)) for inner in subsets(outer)}

    def expand(self, residuals: Mapping[Set, Array], outer: Set) -> Array:
        """y_S from the residuals of all margins inside S."""
        table = np.zeros(self.shape(outer))
        for inner in subsets(outer):
            table += spread(residuals[inner], inner, outer) / self.ratio(outer, inner)
        return table


def _largest(wanted: Sequence[Set]) -> list[Set]:
    """Those of the sets, the widest first, that are inside no other."""
    found: list[Set] = []
    inside: dict[int, set[Set]] = {width: set() for width in {len(one) for one in wanted}}
    for one in wanted:
        if one in inside[len(one)]:
            continue
        found.append(one)
        for width, known in inside.items():
            if width <= len(one):
                known.update(combinations(one, width))
    return found


def margin(table: Array, outer: Set, inner: Set) -> Array:
    """The sums of a table on `outer` over all attributes that are not `inner`.

    Examples
    --------
    >>> margin(np.array([[1.0, 2.0], [3.0, 4.0]]), (0, 5), (5,)).tolist()
    [4.0, 6.0]
    """
    axes = tuple(i for i, name in enumerate(outer) if name not in inner)
    return np.asarray(table.sum(axis=axes)) if axes else table


def spread(table: Array, inner: Set, outer: Set) -> Array:
    """A table on `inner` as a view that multiplies or adds to one on `outer`."""
    return table[tuple(slice(None) if name in inner else None for name in outer)]


def fit_margin(table: Array, outer: Set, inner: Set, goal: Array | IntArray) -> Array:
    """Scale a table, in place, so that a margin is what it should be; what that missed before."""
    found = margin(table, outer, inner)
    ratio = np.divide(goal, found, out=np.zeros_like(found), where=found > 0)
    table *= spread(ratio, inner, outer)
    return np.asarray(goal - found)


def centred(table: Array) -> Array:
    """A table less its mean along each axis in turn: what no smaller margin tells."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
