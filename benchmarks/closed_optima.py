"""Least total variances by formula, for workloads of much symmetry: what the optimum must reach.

References
----------
C. Li, dissertation, 2013, Theorems 4.5 to 4.7, Corollary 4.4.
"""

from __future__ import annotations

from math import log2, sqrt

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array


def cyclic_optimum(column: Array) -> float:
    """Of a circulant Gram matrix, from its first column: eigenvalues are its Fourier transform.

    All cyclic shifts of a row h have the Gram matrix with first column h ⋆ h.

    Examples
    --------
    >>> round(cyclic_optimum(np.array([2.0, 1.0])), 6)  # 2 + √3
    3.732051
    """
    values = np.fft.fft(np.asarray(column, dtype=np.float64)).real
    return float(np.sqrt(np.maximum(values, 0.0)).sum()) ** 2 / len(values)


def exchangeable_optimum(cells: int, own: float, shared: float) -> float:
    """Of G = (a − b)I + bJ: a is `own`, what a cell is asked, and b what any two are together.

    (√(a + (n−1)b) + (n−1)√(a−b))²/n.

    Examples
    --------
    >>> round(exchangeable_optimum(3, own=4.0, shared=2.0), 6)  # all predicates on three cells
    10.666667
    """
    if cells < 1 or not abs(shared) <= own or own + (cells - 1) * shared < 0:
        raise PlanError(
            f"G = (a − b)I + bJ over {cells} cells with a = {own:g}, b = {shared:g} is no Gram "
            f"matrix: |b| ≤ a and a + (n−1)b ≥ 0"
        )
    whole, rest = sqrt(own + (cells - 1) * shared), (cells - 1) * sqrt(own - shared)
    return (whole + rest) ** 2 / cells


def all_predicates_log2(cells: int) -> float:
    """log₂ of the optimum of all 2ⁿ predicates on n cells: 2^{n−2}(n − 1 + √(n+1))²/n.

    Examples
    --------
    >>> round(2 ** all_predicates_log2(4), 6)
    27.416408
    """
    return cells - 2 + 2 * log2(cells - 1 + sqrt(cells + 1)) - log2(cells)
