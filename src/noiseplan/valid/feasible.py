"""Which cells of a table can be positive at all, given margins and cells that are zero."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set

# The program decides between 0 and 1 for every cell; in between is rounding.
POSITIVE = 0.5


def inner_point(
    allowed: NDArray[np.bool_], group: Set, public: Mapping[Set, Array]
) -> Array | None:
    """A table with these margins, positive in every cell in which any such table is; None if none.

    Parameters
    ----------
    allowed
        True where a cell may be positive; one axis per attribute of the group.
    group, public
        The attributes, and margins on some of them, as shares that sum to one.

    Notes
    -----
    One linear program over x = t + u and a factor λ:

        max Σ t    subject to    A x = λ b,   0 ≤ t ≤ 1,   u ≥ 0,   λ ≥ 1 .

    Tables with these margins can be averaged and blown up, so at the optimum t is one in every cell
    that can be positive and zero in all others; x/λ is the table.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array, hstack, vstack

    shape, cells = allowed.shape, np.flatnonzero(allowed)
    places = np.unravel_index(cells, shape)
    rows, wanted = [], []
    for one, table in public.items():
        inside = tuple(places[group.index(i)] for i in one)
        at = np.ravel_multi_index(inside, table.shape) if one else np.zeros(len(cells), dtype=int)
        size = prod(table.shape)
        rows.append(
            coo_array((np.ones(len(cells)), (at, np.arange(len(cells)))), (size, len(cells)))
        )
        wanted.append(table.ravel())
    margins, b = vstack(rows).tocsr(), np.concatenate(wanted)
    both = hstack([margins, margins, csr_array(-b[:, None])]).tocsr()
    many = len(cells)
    least, most = np.r_[np.zeros(2 * many), 1.0], np.r_[np.ones(many), np.full(many + 1, np.inf)]
    solved = linprog(  # type: ignore[call-overload]
        np.concatenate([-np.ones(len(cells)), np.zeros(len(cells) + 1)]),
        A_eq=both,
        b_eq=np.zeros(len(b)),
        bounds=np.column_stack([least, most]),
        method="highs",
    )
    if solved.x is None:
        return None
    t, u, factor = solved.x[: len(cells)], solved.x[len(cells) : -1], solved.x[-1]
    found = np.zeros(allowed.size)
    found[cells] = np.where(t > POSITIVE, (t + u) / factor, 0.0)
    return found.reshape(shape)
