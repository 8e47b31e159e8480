"""The subsets that are measured, grouped so that equal shapes are handled together.

A block measures its sets by ⊗U_i, the rows of the attributes' bases, or by rows of its own that
share the attributes' τ_i (:mod:`noiseplan.mechanisms.own_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from noiseplan.arrays import IntArray, immutable, row_keys, subsets, unique_rows
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.own_rows import OwnRows, own_basis, whole_basis
from noiseplan.noise.law import Noise

__all__ = [
    "BATCH_CELLS",
    "Block",
    "Blocks",
    "OwnRows",
    "Places",
    "SetIndex",
    "batches",
    "group_blocks",
    "own_basis",
    "whole_basis",
    "with_own",
]

# Cells measured or reconstructed at a time: a megabyte of doubles stays in the cache.
BATCH_CELLS = 1 << 17
# Sets among which a single one is looked up in a dictionary: arrays take twenty times as long.
LISTED_SETS = 1 << 12


@immutable
@dataclass(frozen=True, eq=False)
class Block:
    """Subsets whose attributes have the same bases in the same order.

    `sets` has one row of ascending attribute numbers per subset, in lexicographic order; `noise`
    one size for each. With rows of its `own` the block is measured by them, and its bases give τ.
    """

    sets: IntArray
    noise: Noise
    bases: tuple[Basis, ...]
    own: OwnRows | None = None
    # What is measured: a basis for each attribute, or one over all cells of a set; and how many
    # numbers along each of them.
    axes: tuple[Basis, ...] = field(init=False, repr=False)
    shape: tuple[int, ...] = field(init=False, repr=False)
    sigma2: Array = field(init=False, repr=False)  # the parameter of the noise

    def __post_init__(self) -> None:
        axes = self.bases if self.own is None else self.own.parts
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "shape", tuple(basis.rows for basis in axes))
        object.__setattr__(self, "sigma2", self.noise.size)

    def __len__(self) -> int:
        return len(self.sets)

    @cached_property
    def variance(self) -> Array:
        """The variance of the noise: σ², or a little less where the noise is discrete."""
        return self.noise.variance

    @property
    def whole(self) -> bool:
        """Whether one matrix over all cells is measured, and no product."""
        return self.own is not None and self.own.whole

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each attribute."""
        return tuple(basis.size for basis in self.bases)

    @property
    def numbers(self) -> int:
        """Numbers measured in all subsets of the block."""
        return len(self) * prod(self.shape)

    def same_rows(self, other: Block) -> bool:
        """Whether sets of both, with the same bases, are measured by the same rows."""
        if self.own is None and other.own is None:
            return True
        if (self.whole, self.shape) != (other.whole, other.shape):
            return False
        return all(a is b or a.same_rows(b) for a, b in zip(self.axes, other.axes, strict=True))


@immutable
@dataclass(frozen=True, eq=False)
class SetIndex:
    """Sets of one width in lexicographic order, and where they are found."""

    sets: IntArray
    base: int
    keys: IntArray | None  # one number for each set, if 64 bits hold it
    places: dict[tuple[int, ...], int] | None  # if they are few, or have no keys

    @classmethod
    def of(cls, sets: IntArray) -> SetIndex:
        base = int(sets.max(initial=0)) + 2
        keys = row_keys(sets, base)
        if keys is not None and len(sets) > LISTED_SETS:
            return cls(sets, base, keys, None)
        return cls(sets, base, keys, {tuple(row): i for i, row in enumerate(sets.tolist())})

    def find(self, sets: IntArray) -> IntArray:
        """The row of each given set (ascending attribute numbers), −1 where it is not there."""
        if self.places is not None and (self.keys is None or len(sets) == 1):
            return np.array([self.places.get(tuple(row), -1) for row in sets.tolist()])
        assert self.keys is not None
        known = np.all(sets < self.base - 1, axis=1)
        wanted = row_keys(np.where(known[:, None], sets, 0), self.base)
        assert wanted is not None  # the same base and width as the keys
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.sets) - 1)
        return np.where(known & (self.keys[place] == wanted), place, -1)


@immutable
@dataclass(frozen=True, eq=False)
class Places:
    """Where some sets are measured: the block of each, and its place there; −1 nowhere."""

    number: IntArray
    place: IntArray

    def groups(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Block by block: its number, which of the sets it has, and their places in it."""
        if len(self.number) and self.number[0] >= 0 and (self.number == self.number[0]).all():
            yield int(self.number[0]), np.arange(len(self.number)), self.place
            return
        for found in np.unique(self.number[self.number >= 0]):
            mine = np.flatnonzero(self.number == found)
            yield int(found), mine, self.place[mine]

    def of_sets(self, sizes: Callable[[int], Array]) -> Array:
        """The size of each set, from those of a numbered block; infinite where it is in none."""
        result = np.full(len(self.number), np.inf)
        for found, mine, place in self.groups():
            result[mine] = sizes(found)[place]
        return result


@immutable
@dataclass(frozen=True, eq=False)
class Blocks:
    """All measured subsets; `basis_of[i]` is the place of attribute i's basis in `bases`, or −1."""

    blocks: tuple[Block, ...]
    bases: tuple[Basis, ...]
    basis_of: IntArray
    exact: int = False  # whether the noise is discrete, also where nothing is measured
    noise: Noise = field(init=False, repr=False)  # of all subsets, one after the other
    has_own: bool = field(init=False, repr=False)  # whether some block has rows of its own

    def __post_init__(self) -> None:
        sizes = [block.sigma2 for block in self.blocks]
        noise = Noise("gaussian", np.concatenate([np.zeros(0), *sizes]), self.exact)
        if any(block.noise.name != noise.name for block in self.blocks):
            raise PlanError("exact noise and floating-point noise do not go together")
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "has_own", any(block.own is not None for block in self.blocks))

    def bases_on(self, attributes: IntArray) -> list[Basis]:
        """The bases of these attributes, all of which are measured."""
        return [self.bases[b] for b in self.basis_of[attributes]]

    def with_noise(self, change: Callable[[Noise], Noise]) -> Blocks:
        """The same subsets with other noise."""
        blocks = tuple(replace(block, noise=change(block.noise)) for block in self.blocks)
        return replace(self, blocks=blocks, exact=change(self.noise).exact)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def require_own(self) -> None:
        """Refuse rows of their own that do not fit, and a set in two blocks: measured twice, it
        would be read once."""
        for block in self.blocks:
            if block.own is not None:
                block.own.require_fit([basis.centre for basis in block.bases])
        indices = (index.sets for index, _ in self._indices.values())
        if any(len(unique_rows(sets)[0]) < len(sets) for sets in indices):
            raise PlanError("a set of attributes is measured by two blocks: put it into one")

    @cached_property
    def _indices(self) -> dict[tuple[int, ...], tuple[SetIndex, Places]]:
        """Of every combination of bases, the sets that have it and where they are."""
        numbers: dict[tuple[int, ...], list[int]] = {}
        for i, block in enumerate(self.blocks):
            numbers.setdefault(tuple(self.basis_of[block.sets[0]].tolist()), []).append(i)
        found = {}
        for key, mine in numbers.items():
            sets = np.concatenate([self.blocks[i].sets for i in mine])
            number = np.repeat(mine, [len(self.blocks[i]) for i in mine])
            place = np.concatenate([np.arange(len(self.blocks[i])) for i in mine])
            if len(mine) > 1 and sets.shape[1]:
                order = np.lexsort(sets.T[::-1])
                sets, number, place = sets[order], number[order], place[order]
            found[key] = SetIndex.of(sets), Places(number, place)
        return found

    def find(self, sets: IntArray) -> Places:
        """Where sets that share their bases are measured."""
        found = self._indices.get(tuple(self.basis_of[sets[0]].tolist()))
        if found is None:
            nowhere = np.full(len(sets), -1)
            return Places(nowhere, nowhere)
        index, there = found
        row = index.find(sets)
        number, place = (np.where(row >= 0, each[row], -1) for each in (there.number, there.place))
        return Places(number, place)

    def variance(self, sets: IntArray) -> Array:
        """Noise variance of sets that share their bases; infinite where nothing is measured."""
        return self.find(sets).of_sets(lambda number: self.blocks[number].variance)

    def own_inside(
        self, sets: IntArray
    ) -> Iterator[tuple[tuple[int, ...], int, IntArray, IntArray]]:
        """The blocks with rows of their own inside sets that share their bases.

        Of each: the places of its attributes in a set, its number, which of the sets have it, and
        where in it.
        """
        for pattern in subsets(range(sets.shape[1])) if self.has_own else ():
            for number, mine, place in self.find(sets[:, list(pattern)]).groups():
                if self.blocks[number].own is not None:
                    yield pattern, number, mine, place


def group_blocks(
    sets: list[IntArray],
    sigma2: list[Array],
    bases: tuple[Basis, ...],
    basis_of: IntArray,
    exact: int = False,
) -> Blocks:
    """Group subsets (arrays of equal width, with their σ²) by the bases of their attributes.

    Subsets with infinite σ² are not measured, and those that touch a basis without rows are empty.
    """
    blocks: list[Block] = []
    for width in sorted({rows.shape[1] for rows in sets}):
        rows = np.concatenate([r for r in sets if r.shape[1] == width])
        noise = np.concatenate(
            [s for r, s in zip(sets, sigma2, strict=True) if r.shape[1] == width]
        )
        keep = np.isfinite(noise)
        rows, noise = rows[keep], noise[keep]
        signature = basis_of[rows]
        first, kind = unique_rows(signature)
        for number in range(len(first)):
            mine = np.flatnonzero(kind == number)
            order = mine[np.lexsort(rows[mine].T[::-1])] if width else mine
            chosen = tuple(bases[b] for b in signature[first[number]])
            sizes = Noise("gaussian", noise[order], exact)
            blocks.append(Block(rows[order], sizes, chosen))
    return Blocks(tuple(blocks), bases, basis_of, exact)


def with_own(blocks: Blocks, sets: IntArray, sigma2: Array, own: OwnRows) -> Blocks:
    """These blocks and one more, of sets that share their bases and are measured by these rows.

    Sets with infinite σ² are not measured.
    """
    added = group_blocks([sets], [sigma2], blocks.bases, blocks.basis_of, blocks.exact).blocks
    if len(added) > 1:
        raise PlanError("sets that share rows share their attributes' bases: add them one by one")
    return replace(blocks, blocks=(*blocks.blocks, *(replace(b, own=own) for b in added)))


def batches(count: int, cells: int, limit: int) -> Iterator[slice]:
    """Slices of `range(count)` with at most `limit` cells each (at least one item)."""
    step = max(1, limit // max(1, cells))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
