"""What one record costs where blocks are measured by rows of their own.

To add or remove a record with the values x costs

    c(x) = Σ_A σ_A⁻² n_A(x_A) ,    n_A(x) = ∏_{i∈A} ‖U_{A,i}e_x‖²,   or ‖De_x‖² of one matrix,

and no longer is one record the dearest in every block. The largest c is found over the attributes
that matter (:mod:`noiseplan.mechanisms.largest_sum`): a value whose columns are no longer than
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
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis, WideBasis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.largest_sum import MOST_CELLS, Scope, largest_sum
from noiseplan.mechanisms.uneven_pairs import replaced_bound, replaced_exactly
from noiseplan.privacy import Neighbours

# Columns whose squared lengths differ by less, as a share of the longest, count as the longer one.
GRAIN: Final = 2.0**-30
# Comparisons of values up to which those that never matter are looked for.
COMPARED: Final = 10**8

Values = dict[int, IntArray]  # of each attribute, those that matter


def uneven_cost(blocks: Sequence[Block], neighbours: Neighbours) -> float:
    """The largest cost over all records, or over all pairs of them, or more; not rounded up."""
    if neighbours == "add-remove":
        return added_cost(blocks)
    changing = [block for block in blocks if block.bases]  # the total does not change
    exact = replaced_exactly(changing)
    if exact is not None:
        return exact
    return min(replaced_bound(changing), 4.0 * added_cost(changing))


def added_cost(blocks: Sequence[Block]) -> float:
    """max_x c(x), or more."""
    lengths = [_Lengths.of(block) for block in blocks]
    values = _values_that_matter(blocks, lengths)
    several = {attribute for attribute, own in values.items() if len(own) > 1}
    tables: dict[Scope, list[tuple[_Lengths, IntArray, float]]] = {}
    settled = []
    for block, length in zip(blocks, lengths, strict=True):
        for row, sigma2 in zip(block.sets, block.sigma2.tolist(), strict=True):
            scope = tuple(a for a in row.tolist() if a in several)
            if scope:
                tables.setdefault(scope, []).append((length, row, sigma2))
            else:
                settled.append(length.longest / sigma2)
    sums: dict[Scope, Array] = {}
    cells = 0
    for scope in sorted(tables, key=lambda s: (prod(len(values[a]) for a in s), s)):
        shape = [len(values[a]) for a in scope]
        cells += prod(shape)
        if cells <= MOST_CELLS:
            each = [t.table(row, values).reshape(shape) / s for t, row, s in tables[scope]]
            sums[scope] = np.sum(each, axis=0)
        else:
            settled += [length.longest / sigma2 for length, _, sigma2 in tables[scope]]
    return math.fsum(settled) + largest_sum(sums)


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
