"""Who pays for what is measured on all blocks: records that come and go, or pairs of records of
which one replaces the other.

Pairs are made of the values that free attributes tell apart. Of a plain attribute two records agree
or do not, P = β or −1/n (`workload_types`): it is an axis of two values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from itertools import product
from math import prod
from typing import final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray
from noiseplan.matrices import kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.optimize.block_precision import (
    Load,
    PairLoad,
    ProductPoint,
    RecordLoad,
    WholePoint,
    at_both,
)
from noiseplan.planning.block_types import BlockType, BlockTypes, places_of

Point = WholePoint | ProductPoint


class Payers(ABC):
    """All who pay, in some order; there may be more of them than can be listed."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def even(self) -> Array:
        """Weights by which no one counts more than others."""

    @abstractmethod
    def loads(self, weights: Array) -> list[Load]:
        """Of each block, their weights summed to one subset of its type."""

    @abstractmethod
    def costs(self, points: Iterable[Point]) -> Array:
        """What each pays for all blocks."""


def payers_of(types: BlockTypes) -> Payers:
    """Pairs where records are replaced, if these are few enough; else records."""
    return _RecordPairs(types) if types.paired else _Records(types)


# ---------------------------------------------------------------------- records


@final
class _Records(Payers):
    def __init__(self, types: BlockTypes) -> None:
        self.types, self.shape = types, types.shape

    @property
    def even(self) -> Array:
        return np.ones(self.shape)

    def loads(self, weights: Array) -> list[Load]:
        return [RecordLoad(b.price * _marginal(b, weights)) for b in self.types.blocks]

    def costs(self, points: Iterable[Point]) -> Array:
        total = np.zeros(self.shape)
        for block, point in zip(self.types.blocks, points, strict=True):
            total += spread(block, point.costs, self.shape)
        return total


def _marginal(block: BlockType, weights: Array) -> Array:
    """λ summed to the values of the block, an axis for each slot."""
    place = block.places[0]
    others = tuple(i for i in range(weights.ndim) if i not in place)
    kept = weights.sum(axis=others).transpose([sorted(place).index(i) for i in place])
    return kronecker_apply([slot.members for slot in block.slots], kept[..., None])[..., 0]


def spread(block: BlockType, costs: Array, shape: tuple[int, ...]) -> Array:
    """What the subsets of a type cost each record."""
    costs = costs.reshape(block.values)
    for axis, slot in enumerate(block.slots):
        costs = costs.take(slot.groups, axis=axis)
    total = np.zeros((1,) * len(shape))
    for place in block.places:
        axes = [shape[i] if i in place else 1 for i in range(len(shape))]
        total = total + costs.transpose(np.argsort(place)).reshape(axes)
    return block.price * block.plain * total


# ---------------------------------------------------------------------- pairs


@final
class _RecordPairs(Payers):
    """Pairs that differ in the order of exchangeable attributes alone pay alike: one stands for
    all of them, with the weight of all."""

    def __init__(self, types: BlockTypes) -> None:
        self.types = types
        self.count = prod(types.pair_shape)
        self._values = np.indices(types.pair_shape).reshape(len(types.pair_shape), -1)
        self.first, self.second, self._kind, self._often = self._kinds_of_pairs()
        self.shape = (len(self.first),)

    @property
    def even(self) -> Array:
        return self._often

    def _kinds_of_pairs(self) -> tuple[IntArray, IntArray, IntArray, Array]:
        """Of every kind the records of one pair; the kind of every two records, of a record with
        itself one more; and how many pairs there are of each."""
        first, second = np.triu_indices(self.count, 1)
        keys = np.minimum(self._keys(first, second), self._keys(second, first))
        _, one, kind, size = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        every = np.full((self.count, self.count), len(one))
        every[first, second] = every[second, first] = kind
        return first[one], second[one], every, size.astype(float)

    def _keys(self, first: IntArray, second: IntArray) -> IntArray:
        """A number for every pair, the same where exchangeable attributes change places."""
        shape = np.array(self.types.pair_shape)
        both = self._values[:, first] * shape[:, None] + self._values[:, second]
        for axes in self.types.exchangeable:
            both[axes] = np.sort(both[axes], axis=0)
        return _numbered(list(both), tuple(shape**2))

    @cached_property
    def _cells(self) -> dict[int, list[IntArray]]:
        """Of each block, for every subset the cell of it that each record is in."""
        values, found = self._values, {}
        for block in self.types.blocks:
            plain = list(places_of(self._plain_roles(block), self.types.plain_axes))
            shape, groups = self._shape(block), [slot.groups for slot in block.slots]
            groups += [np.arange(2)] * (len(shape) - len(groups))
            found[block.number] = [
                _numbered([g[values[i]] for g, i in zip(groups, free + rest, strict=True)], shape)
                for free, rest in product(block.places, plain)
            ]
        return found

    @cached_property
    def _chosen(self) -> dict[int, sp.csr_array]:
        """Of each block, cells × records: which records are in which cell of its first subset."""
        every = np.arange(self.count)
        return {
            number: sp.csr_array((np.ones(self.count), (cells[0], every)))
            for number, cells in self._cells.items()
        }

    def _shape(self, block: BlockType) -> tuple[int, ...]:
        """Values of a subset: those of its slots, and two of every plain attribute."""
        return block.values + (2,) * len(self._plain_roles(block))

    def _plain_roles(self, block: BlockType) -> list[int]:
        every = self.types.design.terms.subset_roles[block.number].tolist()
        return sorted(r for r in every if r in self.types.plain_axes)

    def _plain_grams(self, block: BlockType) -> list[Array]:
        sizes = [self.types.design.roles.roles[r].size for r in self._plain_roles(block)]
        return [np.eye(2) - 1.0 / n for n in sizes]

    def loads(self, weights: Array) -> list[Load]:
        each = np.append(0.5 * weights / self.even, 0.0)[self._kind]
        return [self._load(block, each) for block in self.types.blocks]

    def _load(self, block: BlockType, weights: Array) -> PairLoad:
        chosen, shape = self._chosen[block.number], self._shape(block)
        cross: Array = np.asarray(chosen @ (chosen @ weights).T).reshape(shape * 2)
        own = cross.sum(axis=tuple(range(len(block.slots), 2 * len(shape))))
        for gram in reversed(self._plain_grams(block)):  # the last axes of either record
            cross = at_both(cross, cross.ndim // 2 - 1, gram)
        return PairLoad(block.price * own, cross)

    def costs(self, points: Iterable[Point]) -> Array:
        lengths, across = np.zeros(self.count), np.zeros(self.shape)
        for block, point in zip(self.types.blocks, points, strict=True):
            own = kronecker_dense([*point.grams, *self._plain_grams(block)])
            for cells in self._cells[block.number]:
                lengths += np.diagonal(own)[cells]
                across += own[cells[self.first], cells[self.second]]
        return np.asarray(lengths[self.first] + lengths[self.second] - 2.0 * across)


def _numbered(values: list[IntArray], shape: tuple[int, ...]) -> IntArray:
    return np.asarray(np.ravel_multi_index(tuple(values), shape))
