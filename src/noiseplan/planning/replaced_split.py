"""Bases for neighbours that replace one record by another.

The total is public then: it costs nothing and is exact. Where every table has one attribute, what
its residual is measured by has the optimum of its own (`optimize.record_pairs`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.linalg import null_space

from noiseplan.matrices.base import Array
from noiseplan.optimize.record_pairs import replaced_optimum
from noiseplan.planning.free_split import optimise_total, optimise_upright, role_grams
from noiseplan.planning.neighbours import measured_alone
from noiseplan.planning.workload_types import Design

# Values of an attribute up to which its optimum is looked for, and to which gap: a second or so.
GAPS: Final = ((64, 1e-6), (128, 1e-5), (256, 1e-4), (1024, 1e-3))
# Of directions that nobody asks about, as a share of the largest.
FAINT: Final = 1e-4


def first_bases(design: Design, neighbours: str) -> dict[int, Array]:
    """U of every free role for the total variance, where to begin: the best for these neighbours
    if every table has one attribute alone."""
    if neighbours == "replace" and measured_alone(design):
        return optimise_alone(design)
    return optimise_total(design)


def optimise_alone(design: Design) -> dict[int, Array]:
    """U of every free role, each the best for its factors; upright ones where it is too long."""
    if any(_gap(design.group_count(r)) is None for r in design.free):
        return optimise_upright(design)
    return {r: replaced_rows(gram) for r, gram in role_grams(design).items()}


def _gap(values: int) -> float | None:
    return next((gap for most, gap in GAPS if values <= most), None)


def replaced_rows(gram: Array) -> Array:
    """n − 1 rows with U1 = 0 that measure one attribute best, and a trace of what is not asked."""
    rows = np.asarray(replaced_optimum(gram, _gap(len(gram)) or 1.0).rows)
    left = null_space(np.vstack([np.ones(len(gram)), rows])).T
    return np.vstack([rows, FAINT * np.abs(rows).max(initial=1e-300) * left])
