"""What it costs to replace a record where blocks are measured by rows of their own.

    Σ_A σ_A⁻² ‖u_A(x) − u_A(y)‖² ,    u_A(x) the column of x in what is measured on A

largest over all pairs of records: exactly where few cells are told apart. Else by what records
agree on: two that agree on the attributes E differ in the set A by no more than

    h_A(A∩E) = ∏_{i∈A∩E} β_i · 2 (∏_{i∈A∖E} β_i − min ∏_{i∈A∖E} g_i) ,   and nothing where A ⊆ E,

β_i the largest squared length of a column of U_{A,i}, g_i ranging over the inner products of two
different columns. One matrix over few cells has the h_A of its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, first_of, joined_kinds
from noiseplan.matrices.base import Array, exactly_equal_columns
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.own_answers import over_domain
from noiseplan.mechanisms.pair_distances import EPS, farthest, pair_distances

# Cells whose pairs are all looked at.
PAIRED: Final = 2048
# Patterns of agreement times sets that are all looked at.
PATTERNS: Final = 1 << 26


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
