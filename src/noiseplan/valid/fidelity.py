"""How faithful made-up records are to the released answers: deviations in standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseplan.valid.family import Set
from noiseplan.valid.unbiased_tables import Unbiased


@dataclass(frozen=True)
class TableFidelity:
    """One table of the records against its unbiased estimate.

    Deviations are in standard errors of the estimate. The mean size of noise alone is 0.8.
    """

    names: tuple[str, ...]
    cells: int
    mean: float
    largest: float


def fidelity(
    source: Unbiased,
    codes: Mapping[int, NDArray[np.integer]],
    sets: Iterable[Set],
    records: float,
) -> list[TableFidelity]:
    """Every table of the records, blown up to `records` of them, against the released one."""
    found = []
    rows = len(next(iter(codes.values())))
    for one in sets:
        estimate, error = source.estimate(one), np.sqrt(source.variance(one))
        where = np.ravel_multi_index([codes[i] for i in one], estimate.shape) if one else None
        counts = np.array([rows]) if where is None else np.bincount(where, minlength=estimate.size)
        gap = np.abs(counts * (records / rows) - estimate.ravel())
        apart = np.divide(gap, error.ravel(), out=np.zeros_like(gap), where=error.ravel() > 0)
        names = tuple(source.schema.names[i] for i in one)
        found.append(TableFidelity(names, estimate.size, float(apart.mean()), float(apart.max())))
    return found
