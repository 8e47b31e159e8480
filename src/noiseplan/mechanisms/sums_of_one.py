"""A query as sums of the rows of one other: what is told of it where no two can be compared.

    Q = M P ,    M = ⊗_i M_i ,    M_i = Q_i P_i⁺ ,    P = ⊗_i P_i the rows of the other

factor by factor, where every factor of Q is in the row space of that of P. With noise of one size
on the rows of P, no unbiased sums of these have less of it.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.matrices import IdentityMatrix, Matrix
from noiseplan.matrices.base import Array
from noiseplan.queries import Query

# Numbers of M that are kept, and those of one factor that are inverted.
MOST_NUMBERS: Final = 2**23
MOST_ENTRIES: Final = 2**22
# What is rounding, of numbers of the size of one.
ROUNDING: Final = 1e-9


def sums_of(query: Query, told: Query) -> sp.csr_array | None:
    """M, or nothing where `told` does not tell the query factor by factor, or by too many sums."""
    if query.joint is not None or told.joint is not None:
        return None
    asked = dict(zip(query.attributes, query.pieces, strict=True))
    if not asked.keys() <= set(told.attributes):
        return None
    found = [
        _along(asked.get(name), piece)
        for name, piece in zip(told.attributes, told.pieces, strict=True)
    ]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or prod(each.nnz for each in known) > MOST_NUMBERS:
        return None
    sums = sp.csr_array(np.ones((1, 1)))
    for each in known:
        sums = sp.csr_array(sp.kron(sums, each))
    return sums


def _along(asked: Matrix | None, told: Matrix) -> sp.csr_array | None:
    """M_i along one attribute; `asked` is the sum over it unless given."""
    rows, size = told.shape
    if (rows + (1 if asked is None else asked.shape[0])) * size > MOST_ENTRIES:
        return None
    wanted = np.ones((1, size)) if asked is None else asked.dense()
    if isinstance(told, IdentityMatrix):
        return sp.csr_array(wanted)
    basis: Array = told.dense()
    sums = np.asarray(np.linalg.lstsq(basis.T, wanted.T)[0].T, dtype=np.float64)
    sums[np.abs(sums) <= ROUNDING * _largest(sums)] = 0.0
    if (np.abs(sums @ basis - wanted) > ROUNDING * _largest(wanted)).any():
        return None
    return sp.csr_array(sums)


def _largest(rows: Array) -> Array:
    """The largest number of every row, without its sign: rows of any sizes stand beside each
    other."""
    return np.asarray(np.abs(rows).max(axis=1, keepdims=True, initial=0.0))
