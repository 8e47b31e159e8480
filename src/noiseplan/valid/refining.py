"""Drawn records brought nearer to the tables they were drawn for, one value at a time.

Drawing scatters counts: where the released tables are accurate, by several of their standard
errors. With R = (table of the records) − (wanted table), giving one record the value v instead of u
changes Σ_S w_S ‖R_S‖² by

    Σ_{S∋i} 2 w_S (R_S[v, rest] − R_S[u, rest] + 1) ,

so every record is asked, attribute by attribute, for the value that lowers it most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set

MOST_SWEEPS = 20
# Records looked at together: what is found of one is checked again before it is changed.
TOGETHER = 2_000
# With more records than this, drawing scatters little of them, and asking each takes long.
MOST_RECORDS = 2_000_000


@dataclass(frozen=True, eq=False)
class _Side:
    """One table seen from one of its attributes: a view of R with that attribute first."""

    excess: Array
    weight: float
    others: Set


def refine(
    codes: Mapping[int, IntArray],
    wanted: Mapping[Set, Array],
    weights: Mapping[Set, float],
    seed: int | None,
) -> int:
    """Change values of records, in place, until their tables come no nearer; how many.

    `wanted` are tables of as many records.
    """
    rng = np.random.default_rng(seed)
    rows = len(next(iter(codes.values())))
    if rows > MOST_RECORDS:
        return 0
    excess = {one: counted(codes, one, table.shape) - table for one, table in wanted.items()}
    sides: dict[int, list[_Side]] = {}
    for one, table in excess.items():
        for place, i in enumerate(one):
            others, view = one[:place] + one[place + 1 :], np.moveaxis(table, place, 0)
            sides.setdefault(i, []).append(_Side(view, weights[one], others))
    changed = 0
    for _ in range(MOST_SWEEPS):
        moved = sum(_sweep(i, codes, sides[i], rng.permutation(rows)) for i in sides)
        changed += moved
        if moved <= rows // 10_000:
            break
    return changed


def counted(codes: Mapping[int, IntArray], one: Set, shape: tuple[int, ...]) -> IntArray:
    """The table of some records."""
    if not one:
        return np.array(len(next(iter(codes.values()))))
    cells = np.ravel_multi_index([codes[i] for i in one], shape)
    return np.bincount(cells, minlength=prod(shape)).reshape(shape)


def _sweep(i: int, codes: Mapping[int, IntArray], sides: list[_Side], order: IntArray) -> int:
    """Ask every record for a better value of one attribute; how many changed."""
    moved = 0
    constant = 2.0 * sum(side.weight for side in sides)
    for start in range(0, len(order), TOGETHER):
        records = order[start : start + TOGETHER]
        values, lines = codes[i][records], []
        change = np.zeros((len(records), sides[0].excess.shape[0]))
        for side in sides:
            place = tuple(codes[j][records] for j in side.others)
            found = side.excess[(slice(None), *place)]  # type: ignore[arg-type]
            # A table of one attribute says the same of every record.
            change += 2.0 * side.weight * (found.T if side.others else found[None, :])
            lines.append(place)
        each = np.arange(len(records))
        change += constant - change[each, values][:, None]
        change[each, values] = 0.0
        better = change.argmin(axis=1)
        for r in np.flatnonzero(change[each, better] < -1e-12 * constant).tolist():
            old, new = int(values[r]), int(better[r])
            cells = [tuple(int(axis[r]) for axis in place) for place in lines]
            now = sum(
                side.weight * (side.excess[(new, *cell)] - side.excess[(old, *cell)] + 1.0)
                for side, cell in zip(sides, cells, strict=True)
            )
            if now < 0:
                for side, cell in zip(sides, cells, strict=True):
                    side.excess[(old, *cell)] -= 1.0
                    side.excess[(new, *cell)] += 1.0
                codes[i][records[r]] = new
                moved += 1
    return moved
