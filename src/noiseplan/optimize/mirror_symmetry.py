"""Mirror symmetry: a workload that reads the same backwards splits into two of half the size.

If G commutes with the reversal of cells, so does the optimal X. In the basis (e_i ± e_{n+1−i})/√2
both are block diagonal, one block for the even and one for the odd vectors, and the weights of a
cell and its mirror image are equal. All ranges are such a workload. Without the symmetry there is
one block, of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import AnyArray, like, namespace_of, to_numpy

# How far apart a matrix and its mirror image may be, relative to its largest entry.
SAME = 1e-13


@dataclass(frozen=True, eq=False)
class Halves:
    """A Gram matrix as diagonal blocks over orbits of cells.

    Attributes
    ----------
    cells
        How many cells there are.
    mirrored
        Whether each orbit is a cell with its mirror image (the middle one alone).
    blocks
        Gram matrices; block b acts on the first `len(blocks[b])` orbits.
    members
        Cells of each orbit.
    """

    cells: int
    mirrored: bool
    blocks: tuple[AnyArray, ...]
    members: AnyArray

    @staticmethod
    def of(gram: AnyArray) -> Halves:
        """Split if the symmetry is there, exactly but for rounding."""
        xp, n = namespace_of(gram), len(gram)
        mirror = xp.flip(gram, axis=(0, 1))
        if n == 1 or float(abs(gram - mirror).max()) > SAME * float(abs(gram).max()):
            return Halves(n, False, (gram,), like(np.ones(n), gram))
        pairs, orbits = n // 2, (n + 1) // 2
        own, other = gram[:orbits, :orbits], xp.flip(gram, axis=(1,))[:orbits, :orbits]
        members = np.full(orbits, 2.0)
        members[pairs:] = 1.0
        # The middle cell is its own image: its even vector is e, not (e + e)/√2.
        scale = like(np.sqrt(members / 2.0), gram)
        even = (own + other) * scale[:, None] * scale
        odd = (own - other)[:pairs, :pairs]
        odd = odd * (abs(odd) > SAME * abs(own)[:pairs, :pairs])  # else it is the sum's rounding
        return Halves(n, True, (even, odd), like(members, gram))

    def diagonal(self, parts: list[AnyArray]) -> AnyArray:
        """The diagonal entry of every orbit's cells, from the diagonals of the blocks."""
        if not self.mirrored:
            return parts[0]
        pairs = self.cells // 2
        both = (parts[0][:pairs] + parts[1]) / 2.0
        return namespace_of(both).concatenate([both, parts[0][pairs:]])

    def spread(self, values: AnyArray) -> Array:
        """One number per orbit as one per cell."""
        half = to_numpy(values)
        return np.concatenate([half, half[: self.cells // 2][::-1]]) if self.mirrored else half

    def rows(self, parts: list[AnyArray]) -> Array:
        """A strategy over cells from one over each block's orbits."""
        blocks = [to_numpy(part) for part in parts]
        if not self.mirrored:
            return blocks[0]
        even, odd = blocks
        pairs = self.cells // 2
        left, middle = even[:, :pairs] / sqrt(2), even[:, pairs:]
        evens = np.concatenate([left, middle, left[:, ::-1]], axis=1)
        left, middle = odd / sqrt(2), np.zeros((len(odd), self.cells % 2))
        odds = np.concatenate([left, middle, -left[:, ::-1]], axis=1)
        return np.concatenate([evens, odds])
