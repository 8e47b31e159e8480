"""What one record costs where blocks are measured by rows of their own.

To add or remove a record with the values x costs

    c(x) = Σ_A σ_A⁻² n_A(x_A) ,    n_A(x) = ∏_{i∈A} ‖U_{A,i}e_x‖²,   or ‖De_x‖² of one matrix,

and no longer is one record the dearest in every block. The largest c is found over the attributes
that matter (:mod:`noiseplan.domain.largest_sum`): a value whose columns are no longer than
another's in any block is left out, since every n_A grows with each of its factors. Where too many
combinations are left it is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.largest_sum import Table, largest_sum
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis, WideBasis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.uneven_pairs import replaced_bound, replaced_exactly
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up

# Columns whose squared lengths differ by less, as a share of the longest, count as the longer one.
GRAIN: Final = 2.0**-30
# Cells of all tables that are listed.
LISTED: Final = 1 << 25
# Comparisons of values up to which those that never matter are looked for.
COMPARED: Final = 10**8

Scope = tuple[int, ...]
Values = dict[int, IntArray]  # of each attribute, those that matter


def uneven_cost(blocks: Sequence[Block], neighbours: Neighbours) -> float:
    """2ρ of the dearest record, or of the dearest pair of them, or more; rounded up."""
    if neighbours == "replace":
        blocks = [block for block in blocks if block.bases]  # the total does not change
    cost = added_cost(blocks) if neighbours == "add-remove" else _replaced_cost(blocks)
    if not math.isfinite(cost):
        raise PlanError("rows of so large numbers have no known cost")
    terms = sum(map(len, blocks)) + sum(axis.rows for block in blocks for axis in block.axes)
    return product_up(cost, 1 + margin(terms))


def _replaced_cost(blocks: Sequence[Block]) -> float:
    """‖u(x) − u(y)‖² ≤ 2‖u(x)‖² + 2‖u(y)‖² bounds it, where nothing is nearer."""
    exact = replaced_exactly(blocks)
    return min(replaced_bound(blocks), 4.0 * added_cost(blocks)) if exact is None else exact


def added_cost(blocks: Sequence[Block]) -> float:
    """max_x c(x), or more; not rounded up."""
    lengths = [_Lengths.of(block) for block in blocks]
    values = _values_that_matter(blocks, lengths)
    terms = _by_scope(blocks, lengths, values)
    shapes = {scope: [len(values[a]) for a in scope] for scope in terms}
    tables: list[Table] = []
    alone: list[float] = []
    cells = 0
    # Small tables first: what no longer fits counts at its largest, whatever the record.
    for scope in sorted(terms, key=lambda s: (prod(shapes[s]), s)):
        cells += prod(shapes[scope])
        if scope and cells <= LISTED:
            each = [t.table(row, values).reshape(shapes[scope]) / s for t, row, s in terms[scope]]
            tables.append(Table(scope, np.sum(each, axis=0)))
        else:
            alone += [length.longest / sigma2 for length, _, sigma2 in terms[scope]]
    return math.fsum(alone) + largest_sum(tables)[0]


def _by_scope(
    blocks: Sequence[Block], lengths: Sequence[_Lengths], values: Values
) -> dict[Scope, list[tuple[_Lengths, IntArray, float]]]:
    """Every measured set with its σ², by those of its attributes that leave a choice of values."""
    several = {attribute for attribute, own in values.items() if len(own) > 1}
    terms: dict[Scope, list[tuple[_Lengths, IntArray, float]]] = {}
    for block, length in zip(blocks, lengths, strict=True):
        for row, sigma2 in zip(block.sets, block.sigma2.tolist(), strict=True):
            scope = tuple(a for a in row.tolist() if a in several)
            terms.setdefault(scope, []).append((length, row, sigma2))
    return terms


@dataclass(frozen=True, eq=False)
class _Lengths:
    """Squared lengths of a block's columns, by the values of each attribute or of all together."""

    parts: list[Array]
    whole: bool

    @classmethod
    def of(cls, block: Block) -> _Lengths:
        parts = [_grained(_squares(axis)) for axis in block.axes]
        if block.whole:
            parts = [part.reshape(block.sizes) for part in parts]
        return cls(parts, block.whole)

    @property
    def longest(self) -> float:
        return prod(float(part.max(initial=0.0)) for part in self.parts)

    def of_values(self, place: int) -> Array:
        """Values × whatever: the lengths that an attribute's values have a part in."""
        part = self.parts[0 if self.whole else place]
        axis = place if self.whole else 0
        return np.moveaxis(part, axis, 0).reshape(part.shape[axis], -1)

    def table(self, row: IntArray, values: Values) -> Array:
        """n_A of the values that matter, with an axis for each attribute of the set."""
        chosen = np.ix_(*(values[int(a)] for a in row))
        if self.whole:
            return self.parts[0][chosen]
        table = np.ones((1,) * len(row))
        for part, own in zip(self.parts, chosen, strict=True):
            table = table * part[own]
        return table


def _squares(axis: Basis) -> Array:
    if isinstance(axis, WideBasis):
        return np.full(axis.size, axis.sensitivity)
    measure = np.asarray(axis.measure)
    return np.asarray(np.einsum("ri,ri->i", measure, measure))


def _grained(squares: Array) -> Array:
    """Up to the next of many steps, so that columns of equal length for rounding are equal."""
    most = squares.max(initial=0.0)
    return np.ceil(squares / (most * GRAIN)) * (most * GRAIN) if most > 0 else squares


def _values_that_matter(blocks: Sequence[Block], lengths: Sequence[_Lengths]) -> Values:
    """Of each attribute the values that no other is at least as dear as in every block."""
    where: dict[int, list[tuple[int, int]]] = {}
    for number, block in enumerate(blocks):
        for place in range(block.sets.shape[1]):
            for attribute in np.unique(block.sets[:, place]).tolist():
                where.setdefault(attribute, []).append((number, place))
    known: dict[tuple[tuple[int, int], ...], IntArray] = {}
    found = {}
    for attribute, uses in where.items():
        key = tuple(uses)
        if key not in known:
            known[key] = _undominated(np.hstack([lengths[n].of_values(p) for n, p in uses]))
        found[attribute] = known[key]
    return found


def _undominated(lengths: Array) -> IntArray:
    """One row of each kind, without those that are nowhere above another."""
    first = np.unique(lengths, axis=0, return_index=True)[1]
    kinds = lengths[first]
    if len(kinds) * kinds.size > COMPARED:
        return np.asarray(first, dtype=np.int64)
    keep = [i for i, row in enumerate(kinds) if (kinds >= row).all(axis=1).sum() == 1]
    return np.asarray(first[keep], dtype=np.int64)
