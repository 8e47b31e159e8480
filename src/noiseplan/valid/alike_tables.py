"""Small tables of one shape, moved by their multipliers and summed all at once.

Thousands of tables of a few cells each, as all pairs of a hundred attributes are, take far longer
to be gone through one by one than their numbers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set, TableFamily

# Tables of more cells are gone through one by one.
SMALL: Final = 1 << 10


@dataclass(frozen=True, eq=False)
class Alike:
    """Tables x_B with margins along the same axes; `places` has those of their multipliers."""

    tables: Sequence[Set]
    axes: Sequence[tuple[int, ...]]  # of each margin, the axes of a table that it keeps
    places: Sequence[IntArray]  # of each margin, tables × cells
    estimates: Array  # tables × the shape of one
    weights: Array

    def margins(self, multipliers: Array, out: Array) -> float:
        """Σ w_B ‖x_B‖² / 2 of all of them; the margins are written to their places in `out`."""
        found, every = self.estimates.copy(), range(1, self.estimates.ndim)
        scale = self.weights.reshape(-1, *[1] * len(every))
        for kept, place in zip(self.axes, self.places, strict=True):
            shape = [n if i - 1 in kept else 1 for i, n in enumerate(found.shape)][1:]
            found += multipliers[place].reshape(-1, *shape) / scale
        np.maximum(found, 0.0, out=found)
        for kept, place in zip(self.axes, self.places, strict=True):
            others = tuple(i for i in every if i - 1 not in kept)
            out[place] = found.sum(axis=others).reshape(place.shape)
        return 0.5 * float(self.weights @ (found.reshape(len(found), -1) ** 2).sum(axis=1))


def alike(
    family: TableFamily,
    tables: Iterable[Set],
    places: Mapping[tuple[Set, Set], slice],
    estimates: Mapping[Set, Array],
    weights: Mapping[Set, float],
) -> list[Alike]:
    """The small ones of some tables, those of one shape with the same margins together."""
    groups: dict[object, list[Set]] = {}
    for one in tables:
        if family.cells(one) <= SMALL:
            groups.setdefault((family.shape(one), _axes(family, one)), []).append(one)
    return [
        Alike(
            same,
            _axes(family, same[0]),
            [_places([places[one, family.facets[one][i]] for one in same])
             for i in range(len(family.facets[same[0]]))],
            np.array([estimates[one] for one in same]),
            np.array([weights[one] for one in same]),
        )
        for same in groups.values()
        if len(same) > 1
    ]  # fmt: skip


def _axes(family: TableFamily, one: Set) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(one.index, facet)) for facet in family.facets[one])


def _places(slices: Sequence[slice]) -> IntArray:
    starts = np.array([place.start for place in slices], dtype=np.int64)
    return starts[:, None] + np.arange(slices[0].stop - slices[0].start)
