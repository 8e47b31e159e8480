"""What is taken for rounding in factorisations of Gram matrices, one constant for each meaning."""

from __future__ import annotations

from typing import Final

import numpy as np

# Cholesky pivots of a Gram matrix with unit diagonal: below this it is taken for singular.
SAFE_PIVOT: Final = 1e-9
# For each cell, eigenvalues of a Gram matrix below this share of the largest are rounding.
RANK_FLOOR: Final = 1e-13
# An eigenvalue may be off by a few units in the last place of the largest, for each cell at worst.
EIGENVALUE_ERROR: Final = 4 * np.finfo(np.float64).eps
