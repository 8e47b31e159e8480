"""Which cells some queries tell apart: two cells are one where all their columns are equal.

What counts as equal is said once, by `Matrix.column_kinds`: nothing but rounding is overlooked. A
query that comes later may differ as little from what was merged: `SAME` says by how much.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, joined_kinds
from noiseplan.matrices.base import Array, Matrix

# Up to so much, in units of the largest entry of a row, its columns of one group may differ.
SAME: Final = 1e-11


def told_apart(matrices: Iterable[Matrix], cells: int, most: int | None = None) -> IntArray:
    """The class of each cell, numbered by their first cells.

    Matrices refine the classes one after another, and the last are not looked at where all cells
    are told apart already, or more than `most` classes: then more may be told apart than stated.

    Examples
    --------
    >>> from noiseplan.matrices import DenseMatrix
    >>> one, two = np.array([[1.0, 0.0, 0.0, 1.0]]), np.array([[2.0, 0.0, 2.0, 2.0]])
    >>> told_apart([DenseMatrix(one), DenseMatrix(two)], 4).tolist()
    [0, 1, 2, 0]
    """
    enough = cells if most is None else min(cells, most + 1)
    classes = np.zeros(cells, dtype=np.int64)
    for matrix in matrices:
        classes = joined_kinds([classes, matrix.column_kinds()])
        if classes.max() + 1 >= enough:
            break
    return classes


def same_but_for_rounding(rows: Array, others: Array) -> bool:
    """Whether rows and what merging leaves of them differ in their last digits at most.

    Each row by its own size: a large one must not hide what a small one tells apart.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return bool((np.abs(rows - others) <= SAME * largest).all())
