"""Queries about separate cells are separate problems.

Rows and cells are joined where a row counts a cell; what is not connected does not influence each
other. Every component is solved by itself: the largest cost decides, the others pay what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.fitness_result import Fitness


@dataclass(frozen=True, eq=False)
class Component:
    """Rows and cells that belong together."""

    rows: IntArray
    cells: IntArray


def components(matrix: Array) -> Iterator[Component]:
    """The connected parts of a workload; rows of zeros and cells no row counts belong to none.

    Examples
    --------
    >>> parts = components(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]))
    >>> [(part.rows.tolist(), part.cells.tolist()) for part in parts]
    [([0], [0, 2]), ([1], [1])]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = sum(matrix.shape)
    row, cell = np.nonzero(matrix)
    joined = coo_array((np.ones(len(row)), (row, cell + len(matrix))), shape=(size, size))
    _, label = connected_components(joined, directed=False)
    of_row, of_cell = label[: len(matrix)], label[len(matrix) :]
    for part in dict.fromkeys(of_row.tolist()):
        cells = np.flatnonzero(of_cell == part)
        if len(cells):
            yield Component(np.flatnonzero(of_row == part), cells)


def solved_apart(
    matrix: Array, targets: Array, solve: Callable[[Array, Array, IntArray], Fitness]
) -> Fitness:
    """Solve every component by itself and put the strategies side by side.

    `solve` gets the rows, targets and cells (by number) of one. Bound and prices are those of the
    component that needs most.
    """
    parts = list(components(matrix))
    found = [
        solve(matrix[np.ix_(part.rows, part.cells)], targets[part.rows], part.cells)
        for part in parts
    ]
    most = int(np.argmax([one.bound for one in found]))
    strategy = np.zeros((sum(len(one.strategy) for one in found), matrix.shape[1]))
    start = 0
    for part, one in zip(parts, found, strict=True):
        stop = start + len(one.strategy)
        strategy[start:stop, part.cells] = one.strategy
        start = stop
    row_prices, cell_prices = np.zeros(len(matrix)), np.zeros(matrix.shape[1])
    row_prices[parts[most].rows] = found[most].row_prices
    cell_prices[parts[most].cells] = found[most].cell_prices
    return Fitness(
        strategy,
        max(one.cost for one in found),
        found[most].bound,
        row_prices,
        cell_prices,
        sum(one.steps for one in found),
    )
