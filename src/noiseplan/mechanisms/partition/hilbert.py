"""Cells in a line: an ordered attribute as it is, two of them along a Hilbert curve.

Neighbours on the curve are neighbours in the plane, so an interval of the line is a compact patch,
and what is even in the plane is even along the line.
"""

from __future__ import annotations

import numpy as np

from noiseplan.arrays import IntArray


def line(shape: tuple[int, ...]) -> IntArray:
    """The cells (row-major numbers) of a table of one or two attributes, in the order of the line.

    Examples
    --------
    >>> line((4,)).tolist(), line((2, 2)).tolist()
    ([0, 1, 2, 3], [0, 1, 3, 2])
    """
    if len(shape) == 1:
        return np.arange(shape[0])
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    bits = max(max(shape) - 1, 1).bit_length()
    return np.argsort(hilbert(rows, columns, bits), kind="stable")


def hilbert(x: IntArray, y: IntArray, bits: int) -> IntArray:
    """Places of points of a 2^bits × 2^bits grid along the Hilbert curve that starts at (0, 0).

    From the leading bits downwards: the quadrant of a point says which quarter of the curve it is
    on, and how the curve lies in that quadrant: turned over along a diagonal in the first and the
    last, as it is in the two between.

    Examples
    --------
    >>> hilbert(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), 1).tolist()
    [0, 1, 2, 3]
    """
    x, y = np.array(x, dtype=np.int64), np.array(y, dtype=np.int64)
    place = np.zeros_like(x)
    for bit in reversed(range(bits)):
        side = np.int64(1) << bit
        right, upper = (x & side) > 0, (y & side) > 0
        place = 4 * place + np.where(right, np.where(upper, 2, 3), np.where(upper, 1, 0))
        x, y = x & (side - 1), y & (side - 1)
        last = right & ~upper
        x, y = np.where(last, side - 1 - x, x), np.where(last, side - 1 - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
    return place
