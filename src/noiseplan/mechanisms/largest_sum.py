"""The largest value of a sum of tables that share variables: max_x Σ_t f_t(x_t).

One variable after the other is done away with: the tables that have it are added up, and of each
combination of their other variables only the largest sum is kept. Exact as long as those sums have
few cells; where they have too many, each table alone takes its largest, which can only add.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

Scope = tuple[int, ...]
# Cells of the tables that are added up for one variable.
MOST_CELLS: Final = 1 << 22


def largest_sum(tables: dict[Scope, Array], limit: int = MOST_CELLS) -> float:
    """An upper bound of max_x Σ f, the maximum itself where tables stay below the limit.

    Parameters
    ----------
    tables
        By their variables, in ascending order, with an axis for each. What is done depends on the
        shapes alone: tables that are split into several sums have the bound of their sum.
    """
    pairs = (zip(scope, table.shape, strict=True) for scope, table in tables.items())
    sizes = dict(pair for each in pairs for pair in each)
    left = dict(tables)
    while any(left):  # some table has a variable left
        variable = _fewest_cells(left, sizes)
        mine = {scope: left.pop(scope) for scope in list(left) if variable in scope}
        if prod(sizes[a] for a in _union(mine)) <= limit:
            mine = {_union(mine): _added(mine, sizes)}
        for scope, table in mine.items():
            rest = tuple(a for a in scope if a != variable)
            left[rest] = left.get(rest, 0.0) + table.max(axis=scope.index(variable))
    return float(left.get((), 0.0))


def _union(scopes: Iterable[Scope]) -> Scope:
    return tuple(sorted({a for scope in scopes for a in scope}))


def _fewest_cells(tables: dict[Scope, Array], sizes: dict[int, int]) -> int:
    """The variable whose tables have a sum of the fewest cells."""
    near: dict[int, set[int]] = {}
    for scope in tables:
        for variable in scope:
            near.setdefault(variable, set()).update(scope)
    return min(near, key=lambda a: (prod(sizes[b] for b in near[a]), a))


def _added(tables: dict[Scope, Array], sizes: dict[int, int]) -> Array:
    """The sum of tables, over all their variables."""
    every = _union(tables)
    total = np.zeros([sizes[a] for a in every])
    for scope, table in tables.items():
        total += table.reshape([sizes[a] if a in scope else 1 for a in every])
    return total
