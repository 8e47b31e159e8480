"""What one record costs where residuals are measured on sets of attributes.

    C = Σ_A σ_A⁻² ⊗_{i∈A} U_iᵀU_i

To add or remove a record costs Σ_A p_A/σ²_A, p_A = ∏_{i∈A} β_i: one record attains every maximum.
No set A stands for another: two sets that look alike may have different noise, or one of them none
at all because it was measured before.

To replace one by another is priced by the pairs of values of each attribute that stand for all
others (:mod:`noiseplan.mechanisms.far_pairs`), exactly where these are few. Where there are many
attributes: if two records agree on the attributes E, the set A of attributes adds

    1/σ²_A · 2 (∏_{i∈A} β_i − ∏_{i∈A∩E} β_i ∏_{i∈A∖E} γ_i)

at most, β_i the largest diagonal entry of U_iᵀU_i and γ_i its smallest entry; exactly this where
the columns of U_i have equal length. The cost is the largest sum over all E. No entry of U_iᵀU_i
lies outside [γ_i, β_i], and the sum is linear in each, so it is largest at ends of their ranges:
some E. The total (A = ∅) costs nothing, since it does not change. Where every set has one attribute
alone, two records that differ in all of them attain Σ_A 1/σ²_A · max ‖U_i(e_x − e_y)‖², exactly.

Where blocks have rows of their own: :mod:`noiseplan.mechanisms.uneven_cost`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from math import comb, prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.cost import require_sizes
from noiseplan.mechanisms.far_pairs import farthest_pair
from noiseplan.mechanisms.uneven_cost import uneven_cost
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up

# Agreement patterns listed one by one; beyond that a bound over all of them is used.
PATTERN_LIMIT: Final = 20_000
# Attributes whose 2^d patterns are all looked at, whatever is measured of them.
EVERY_PATTERN: Final = 18


def residual_cost(blocks: Sequence[Block], neighbours: Neighbours) -> float:
    """2ρ of one record for everything these blocks measure, rounded up."""
    require_noise(blocks, neighbours)
    if any(block.own is not None for block in blocks):
        return uneven_cost(blocks, neighbours)
    if neighbours == "add-remove":
        cost = sum(
            prod(basis.sensitivity for basis in block.bases) * math.fsum(1.0 / block.sigma2)
            for block in blocks
        )
    else:
        cost = replaced_cost(blocks)
    return product_up(cost, 1 + margin(len(blocks)))


def require_noise(blocks: Sequence[Block], neighbours: Neighbours) -> None:
    """Only the number of records may be measured exactly, and only if it is no secret."""
    for block in blocks:
        if block.bases or neighbours != "replace":
            require_sizes(block.sigma2)


def same_bases(blocks: Iterable[Block]) -> bool:
    """Whether every attribute is measured by the same rows in all blocks."""
    known: dict[int, Basis] = {}
    for block in blocks:
        for place, basis in enumerate(block.bases):
            for attribute in np.unique(block.sets[:, place]):
                first = known.setdefault(int(attribute), basis)
                if first is not basis and not first.same_rows(basis):
                    return False
    return True


# ---------------------------------------------------------------------- replacing a record


def replaced_cost(blocks: Sequence[Block]) -> float:
    """The largest cost over all pairs of records, of everything these blocks measure."""
    ranges = _ranges(blocks)
    if not ranges:
        return 0.0
    if all(len(block.bases) <= 1 for block in blocks):
        return math.fsum(
            block.bases[0].farthest * math.fsum(1.0 / block.sigma2)
            for block in blocks
            if block.bases
        )
    attributes = np.array(sorted(ranges))
    reach = np.array([ranges[int(a)] for a in attributes])
    if len(attributes) <= EVERY_PATTERN:
        return _over_every_pattern(blocks, attributes)
    return _over_classes(blocks, attributes, reach)


def _ranges(blocks: Sequence[Block]) -> dict[int, tuple[float, float, float]]:
    """γ, β and the largest distance of columns, of every attribute that is measured."""
    found: dict[int, tuple[float, float, float]] = {}
    for block in blocks:
        for place, basis in enumerate(block.bases):
            for attribute in np.unique(block.sets[:, place]):
                found[int(attribute)] = (basis.lowest, basis.sensitivity, basis.farthest)
    return found


def _over_every_pattern(blocks: Sequence[Block], attributes: IntArray) -> float:
    """Over pairs of records by what stands for all pairs of values of each attribute."""
    sums, bases = np.zeros(1 << len(attributes)), {}
    for block in blocks:
        if block.bases:
            places = np.searchsorted(attributes, block.sets)
            np.add.at(sums, (1 << places).sum(axis=1), 1.0 / block.sigma2)
            for place, basis in zip(places.T, block.bases, strict=True):
                bases.update(dict.fromkeys(place.tolist(), basis))
    return farthest_pair(sums, [bases[place] for place in range(len(attributes))])


# ---------------------------------------------------------------------- attributes that are alike


def pattern_costs(counts: IntArray, members: IntArray, reach: Array) -> Array | None:
    """Patterns × kinds of sets: what each kind adds, times σ², if records agree like this.

    Parameters
    ----------
    counts
        Kinds × classes: how many attributes of each class a set has; all such sets are measured.
    members
        How many attributes each class has; a pattern is how many of them agree.
    reach
        γ and β of each class, and how far apart two columns are at most.

    Returns
    -------
    Nothing where the patterns are too many to be listed.
    """
    if one_by_one(counts):
        return np.asarray((counts @ (members * reach[:, 2]))[None, :])
    if not few_patterns(members):
        return None
    tables = [_overlaps(n, a, *r[:2]) for n, a, r in zip(members, counts.T, reach, strict=True)]
    everything = _shared(tables, counts, members)
    rows = [
        2.0 * np.maximum(everything - _shared(tables, counts, pattern), 0.0)
        for pattern in product(*(range(n + 1) for n in members.tolist()))
        if list(pattern) != members.tolist()  # equal records are no neighbours
    ]
    return np.array(rows) if rows else np.zeros((1, len(counts)))


def one_by_one(counts: IntArray) -> bool:
    """Whether every set has one attribute alone: records that differ in all cost most."""
    return bool(counts.sum(axis=1).max(initial=0) <= 1)


def few_patterns(members: Sequence[int] | IntArray) -> bool:
    """Whether all patterns of agreement are looked at, so that a cost is no mere upper bound."""
    return bool(np.prod([n + 1.0 for n in members]) <= PATTERN_LIMIT)


def pattern_bound(counts: Array, added: Array, reach: Array) -> Array:
    """2 p_A (1 + max |γ|/β): since |γ_i| ≤ β_i, no product falls below −p_A max |γ_i|/β_i."""
    worst = np.where(counts > 0, _negative_share(reach)[None, :], 0.0).max(axis=1, initial=0.0)
    return np.where(counts.any(axis=1), 2.0 * added * (1.0 + worst), 0.0)


def _negative_share(reach: Array) -> Array:
    """|γ|/β of each class, zero where γ is not negative."""
    return np.maximum(0.0, -reach[:, 0]) / np.where(reach[:, 1] > 0, reach[:, 1], 1.0)


def _overlaps(members: int, counts: IntArray, low: float, high: float) -> Array:
    """Σ_j C(e, j) C(n − e, a − j) β^j γ^{a−j}: all ways to place a attributes where e agree."""
    table = np.zeros((members + 1, counts.max(initial=0) + 1))
    for agree, a in product(range(members + 1), range(table.shape[1])):
        table[agree, a] = sum(
            comb(agree, j) * comb(members - agree, a - j) * high**j * low ** (a - j)
            for j in range(a + 1)
        )
    return table


def _shared(tables: Sequence[Array], counts: IntArray, pattern: Sequence[int] | IntArray) -> Array:
    found = np.ones(len(counts))
    for number, table in enumerate(tables):
        found *= table[pattern[number], counts[:, number]]
    return found


def _over_classes(blocks: Sequence[Block], attributes: IntArray, reach: Array) -> float:
    """By classes of attributes that are measured alike; where they have too many patterns, by
    those that have the same rows, or by a bound over all patterns."""
    every = _as_places(blocks, attributes)
    each = np.concatenate([1.0 / block.sigma2 for block in blocks if block.bases])
    first, same = unique_rows(every)
    sets, precision = every[first], np.asarray(np.bincount(same, each), dtype=np.float64)
    rows = np.unique(reach, axis=0, return_inverse=True)[1].ravel()
    exact = _by_classes(sets, precision, _classes(sets, precision, rows), reach)
    if np.isfinite(exact):
        return exact
    return min(_by_classes(sets, precision, rows, reach), _bound(sets, precision, reach))


def _by_classes(sets: IntArray, precision: Array, colour: IntArray, reach: Array) -> float:
    """As if every set of a kind were measured, with the most precise noise of its kind.

    Infinite where there are too many patterns.
    """
    members, first = np.bincount(colour), np.unique(colour, return_index=True)[1]
    kinds, kind = _kinds(sets, colour, len(members))
    most = np.zeros(len(kinds))
    np.maximum.at(most, kind, precision)
    rows = pattern_costs(kinds, members, reach[first])
    return np.inf if rows is None else float(np.max(rows @ most))


def _bound(sets: IntArray, precision: Array, reach: Array) -> float:
    """Σ_A 2p_A/σ²_A (1 + max |γ|/β), whatever the pattern."""
    added = np.append(reach[:, 1], 1.0)[sets].prod(axis=1)  # the last for the padding
    worst = np.append(_negative_share(reach), 0.0)[sets].max(axis=1)
    return float((2.0 * added * (1.0 + worst)) @ precision)


def _as_places(blocks: Sequence[Block], attributes: IntArray) -> IntArray:
    """The sets as places in `attributes`, padded by its length."""
    wide = max(block.sets.shape[1] for block in blocks)
    parts = []
    for block in blocks:
        if block.bases:
            padded = np.full((len(block), wide), len(attributes))
            padded[:, : block.sets.shape[1]] = np.searchsorted(attributes, block.sets)
            parts.append(padded)
    return np.concatenate(parts)


def _kinds(sets: IntArray, colour: IntArray, classes: int) -> tuple[IntArray, IntArray]:
    """How many attributes of each class every kind of set has, and the kind of each set."""
    coloured = np.append(colour, classes)[sets]
    counts = np.zeros((len(sets), classes + 1), dtype=np.int64)
    np.add.at(counts, (np.arange(len(sets))[:, None], coloured), 1)
    first, kind = unique_rows(counts)
    return counts[first][:, :-1], kind


def _classes(sets: IntArray, precision: Array, colour: IntArray) -> IntArray:
    """Classes such that all sets of a kind are measured, with the same noise.

    Colours are told apart by the sets their attributes occur in; where a kind is incomplete or
    uneven all the same, every attribute in it becomes a class of its own.
    """
    noise = np.unique(precision, return_inverse=True)[1].ravel()
    while True:
        colour = _refined(sets, noise, colour)
        members = np.bincount(colour)
        kinds, kind = _kinds(sets, colour, len(members))
        whole = np.array([_ways(members, counts) for counts in kinds])
        order = np.lexsort((noise, kind))
        changes = (np.diff(noise[order]) != 0) & (np.diff(kind[order]) == 0)
        broken = np.bincount(kind, minlength=len(kinds)) != whole
        broken[kind[order][1:][changes]] = True
        split = (kinds[broken] > 0).any(axis=0) & (members > 1)
        if not split.any():
            return colour
        mine = np.flatnonzero(split[colour])
        colour = colour.copy()
        colour[mine] = len(members) + np.arange(len(mine))
        colour = np.unique(colour, return_inverse=True)[1].ravel()


def _ways(members: IntArray, counts: IntArray) -> int:
    found = 1
    for n, a in zip(members.tolist(), counts.tolist(), strict=True):
        found *= comb(n, a)
    return found


def _refined(sets: IntArray, noise: IntArray, colour: IntArray) -> IntArray:
    """Colours split by how often their attributes occur in sets of each kind and noise."""
    while True:
        classes = int(colour.max()) + 1
        coloured = np.sort(np.append(colour, classes)[sets], axis=1)
        kind = unique_rows(np.column_stack([coloured, noise]))[1]
        own = np.column_stack([sets.ravel(), np.repeat(kind, sets.shape[1])])
        own = own[own[:, 0] < len(colour)]
        pairs, often = np.unique(own, axis=0, return_counts=True)
        told = [[c] for c in colour.tolist()]
        for (place, number), times in zip(pairs.tolist(), often.tolist(), strict=True):
            told[place] += [number, times]
        names: dict[tuple[int, ...], int] = {}
        found = np.array([names.setdefault(tuple(t), len(names)) for t in told])
        if len(names) == classes:
            return colour
        colour = found
