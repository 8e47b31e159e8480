"""The subsets that are measured, grouped so that equal shapes are handled together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from noiseplan.arrays import IntArray, row_keys, unique_rows
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.noise.law import Noise

# Cells measured or reconstructed at a time: a megabyte of doubles stays in the cache.
BATCH_CELLS = 1 << 17


@dataclass(frozen=True, eq=False)
class Block:
    """Subsets whose attributes have the same bases in the same order.

    `sets` has one row of ascending attribute numbers per subset, in lexicographic order; `noise`
    one size for each.
    """

    sets: IntArray
    noise: Noise
    bases: tuple[Basis, ...]

    def __len__(self) -> int:
        return len(self.sets)

    @cached_property
    def variance(self) -> Array:
        """The variance of the noise: σ², or a little less where the noise is discrete."""
        return self.noise.variance

    @property
    def sigma2(self) -> Array:
        """The parameter of the noise."""
        return self.noise.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers measured along each attribute."""
        return tuple(basis.rows for basis in self.bases)

    @property
    def numbers(self) -> int:
        """Numbers measured in all subsets of the block."""
        return len(self) * int(np.prod(self.shape, dtype=np.int64))

    @cached_property
    def _keys(self) -> IntArray | None:
        return row_keys(self.sets, self._base)

    @cached_property
    def _base(self) -> int:
        return int(self.sets.max(initial=0)) + 2

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {tuple(row): i for i, row in enumerate(self.sets.tolist())}

    def find(self, sets: IntArray) -> IntArray:
        """The row of each given set (ascending attribute numbers), −1 where it is not measured."""
        if self._keys is None:
            return np.array([self._places.get(tuple(row), -1) for row in sets.tolist()])
        known = np.all(sets < self._base - 1, axis=1)
        wanted = row_keys(np.where(known[:, None], sets, 0), self._base)
        assert wanted is not None  # the same base and width as the keys
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self) - 1)
        return np.where(known & (self._keys[place] == wanted), place, -1)


@dataclass(frozen=True, eq=False)
class Blocks:
    """All measured subsets; `basis_of[i]` is the place of attribute i's basis in `bases`, or −1."""

    blocks: tuple[Block, ...]
    bases: tuple[Basis, ...]
    basis_of: IntArray
    exact: bool = False  # whether the noise is discrete, also where nothing is measured

    def __post_init__(self) -> None:
        if any(block.noise.exact != self.exact for block in self.blocks):
            raise PlanError("exact noise and floating-point noise do not go together")

    @cached_property
    def noise(self) -> Noise:
        """The noise of all subsets, one after the other."""
        sizes = [block.sigma2 for block in self.blocks]
        return Noise("gaussian", np.concatenate([np.zeros(0), *sizes]), self.exact)

    def with_noise(self, change: Callable[[Noise], Noise]) -> Blocks:
        """The same subsets with other noise."""
        blocks = tuple(replace(block, noise=change(block.noise)) for block in self.blocks)
        return replace(self, blocks=blocks, exact=change(self.noise).exact)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @cached_property
    def _by_signature(self) -> dict[tuple[int, ...], int]:
        return {
            tuple(self.basis_of[block.sets[0]].tolist()): i for i, block in enumerate(self.blocks)
        }

    def block_for(self, attributes: IntArray) -> int:
        """The number of the block that would hold a set with these attributes' bases, or −1."""
        return self._by_signature.get(tuple(self.basis_of[attributes].tolist()), -1)

    def variance(self, sets: IntArray) -> Array:
        """Noise variance of sets that share their bases; infinite where nothing is measured."""
        number = self.block_for(sets[0])
        if number < 0:
            return np.full(len(sets), np.inf)
        block = self.blocks[number]
        place = block.find(sets)
        return np.where(place >= 0, block.variance[np.maximum(place, 0)], np.inf)


def group_blocks(
    sets: list[IntArray],
    sigma2: list[Array],
    bases: tuple[Basis, ...],
    basis_of: IntArray,
    exact: bool = False,
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
            own = Noise("gaussian", noise[order], exact)
            blocks.append(Block(rows[order], own, chosen))
    return Blocks(tuple(blocks), bases, basis_of, exact)


def subset_patterns(width: int) -> list[tuple[int, ...]]:
    """All subsets of `range(width)`, the empty one first."""
    return [c for size in range(width + 1) for c in combinations(range(width), size)]


def batches(count: int, cells: int, limit: int) -> Iterator[slice]:
    """Slices of `range(count)` with at most `limit` cells each (at least one item)."""
    step = max(1, limit // max(1, cells))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
