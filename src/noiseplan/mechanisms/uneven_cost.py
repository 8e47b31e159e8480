"""What one record costs where blocks are measured by rows of their own.

To add or remove a record with the values x costs

    c(x) = Σ_A σ_A⁻² n_A(x_A) ,    n_A(x) = ∏_{i∈A} ‖U_{A,i}e_x‖²,   or ‖De_x‖² of one matrix,

and no longer is one record the dearest in every block. The largest c is found over the attributes
that matter (:mod:`noiseplan.domain.largest_sum`): a value whose columns are no longer than
another's in any block is left out, since every n_A grows with each of its factors. Where too many
combinations are left it is an upper bound.

To replace a record costs

    Σ_A σ_A⁻² ‖u_A(x) − u_A(y)‖² ,    u_A(x) the column of x in what is measured on A

largest over all pairs of records: exactly where few cells are told apart. Else by what records
agree on: two that agree on the attributes E differ in the set A by no more than

    h_A(A∩E) = ∏_{i∈A∩E} β_i · 2 (∏_{i∈A∖E} β_i − min ∏_{i∈A∖E} g_i) ,   and nothing where A ⊆ E,

β_i the largest squared length of a column of U_{A,i}, g_i ranging over the inner products of two
different columns. One matrix over few cells has the h_A of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, first_of, immutable, joined_kinds
from noiseplan.domain.largest_sum import Table, largest_sum
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array, exactly_equal_columns
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.own_answers import over_domain
from noiseplan.mechanisms.pair_distances import EPS, farthest, pair_distances
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

# Cells whose pairs are all looked at.
PAIRED: Final = 2048
# Patterns of agreement times sets that are all looked at.
PATTERNS: Final = 1 << 26


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


@immutable
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


def replaced_exactly(blocks: Sequence[Block]) -> float | None:
    """The largest cost of a pair; nothing where the cells told apart are too many."""
    kinds = _value_kinds(blocks)
    shape = {attribute: len(values) for attribute, values in kinds.items()}
    if prod(shape.values()) > PAIRED:
        return None
    cost = np.zeros((prod(shape.values()),) * 2)
    for block in blocks:
        for row, sigma2 in zip(block.sets, block.sigma2, strict=True):
            rows = over_domain(block, row, kinds)
            cost += rows.T @ rows / sigma2
    return farthest(cost, sum(block.numbers for block in blocks))


def _value_kinds(blocks: Sequence[Block]) -> dict[int, IntArray]:
    """Of each attribute one value of each kind that some rows tell apart."""
    columns: dict[int, list[IntArray]] = {}
    for block in blocks:
        for place in range(block.sets.shape[1]):
            kind = _kinds_of(block, place)
            for attribute in np.unique(block.sets[:, place]).tolist():
                columns.setdefault(attribute, []).append(kind)
    return {a: first_of(joined_kinds(columns[a])) for a in sorted(columns)}


def _kinds_of(block: Block, place: int) -> IntArray:
    axis = block.axes[0 if block.whole else place]
    if not isinstance(axis, MatrixBasis):
        return np.arange(axis.size)
    if not axis.rows:
        return np.zeros(block.sizes[place], dtype=np.int64)
    if not block.whole:
        return exactly_equal_columns(axis.measure)
    cube = axis.measure.reshape(axis.rows, *block.sizes)
    return exactly_equal_columns(np.moveaxis(cube, 1 + place, -1).reshape(-1, block.sizes[place]))


# ---------------------------------------------------------------------- what records agree on


def replaced_bound(blocks: Sequence[Block]) -> float:
    """The largest Σ_A σ_A⁻² h_A(A∩E) over all E; or every h_A at its largest."""
    attributes = np.unique(np.concatenate([block.sets.ravel() for block in blocks]))
    reach = [_by_agreement(block) for block in blocks]
    if sum(map(len, blocks)) * 2.0 ** len(attributes) > PATTERNS:
        each = zip(reach, blocks, strict=True)
        return float(sum(h.max() * (1.0 / block.sigma2).sum() for h, block in each))
    patterns = np.arange(1 << len(attributes))
    total = np.zeros(len(patterns))
    for h, block in zip(reach, blocks, strict=True):
        bits = np.searchsorted(attributes, block.sets)
        for row, sigma2 in zip(bits, block.sigma2, strict=True):
            agree = [((patterns >> bit) & 1) << place for place, bit in enumerate(row)]
            total += h[np.sum(agree, axis=0)] / sigma2
    return float(total.max())


def _by_agreement(block: Block) -> Array:
    """h of all 2^k patterns; bit i: records agree on the attribute at place i."""
    count = 1 << len(block.bases)
    if block.whole:
        (axis,) = block.axes
        if axis.size <= PAIRED:
            return _of_pairs(axis, block.sizes)
        return np.where(np.arange(count) < count - 1, 4.0 * axis.sensitivity, 0.0)
    ranges = [_ranges(axis) for axis in block.axes]
    return np.array([_of_products(ranges, pattern) for pattern in range(count)])


def _of_pairs(axis: Basis, sizes: Sequence[int]) -> Array:
    """The largest distance of two columns for every pattern of agreement of their cells."""
    values = np.unravel_index(np.arange(axis.size), sizes)
    same = [(v[:, None] == v[None, :]).astype(np.int64) << i for i, v in enumerate(values)]
    found = np.zeros(1 << len(sizes))
    np.maximum.at(found, np.sum(same, axis=0), pair_distances(axis.gram, axis.rows))
    return found


def _of_products(ranges: Sequence[tuple[float, float, float]], pattern: int) -> float:
    """h of one pattern, from (least, most) of different columns and β of each attribute."""
    apart = [r for i, r in enumerate(ranges) if not pattern >> i & 1]
    if not apart:
        return 0.0
    low = high = 1.0
    for least, most, _ in apart:
        ends = [low * least, low * most, high * least, high * most]
        low, high = min(ends), max(ends)
    size = prod(beta for *_, beta in apart)
    most_agreeing = prod(r[2] for i, r in enumerate(ranges) if pattern >> i & 1)
    return 2.0 * most_agreeing * (size - low + 8 * (len(ranges) + 4) * EPS * size)


def _ranges(axis: Basis) -> tuple[float, float, float]:
    """The least and the largest inner product of two different columns, and of a column itself."""
    beta = axis.sensitivity
    if not isinstance(axis, MatrixBasis):
        return axis.lowest, axis.lowest, beta
    if axis.pairs is None or len(axis.pairs) < axis.size:  # values of one kind agree, and differ
        return axis.lowest, beta, beta
    apart = axis.gram[~np.eye(axis.size, dtype=bool)]
    return float(apart.min(initial=beta)), float(apart.max(initial=-beta)), beta
