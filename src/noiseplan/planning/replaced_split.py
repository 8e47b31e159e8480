"""Bases for neighbours that replace one record by another.

The total is public then: it costs nothing and is exact. Where every table has one attribute, its
residual has an optimum of its own (`optimize.record_pairs`), and two records that differ in all
attributes pay the sum of what their values pay: each attribute may be planned by itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.linalg import null_space

from noiseplan.arrays import first_of
from noiseplan.matrices.base import Array
from noiseplan.optimize.record_pairs import replaced_optimum, replaced_worst
from noiseplan.optimize.row_space_optimum import RowSpaceOptimum
from noiseplan.planning.free_split import optimise_total, optimise_upright
from noiseplan.planning.workload_types import Design, measured_alone

# Values of an attribute up to which its optimum is looked for, and to which gap: a second or so.
GAPS: Final = ((64, 1e-6), (128, 1e-5), (256, 1e-4), (1024, 1e-3))
# The gap for the largest variance, and numbers of rows × values² it is looked for.
WORST_GAP, WORST_WORK = 1e-4, 3e7
# Of directions that nobody asks about, as a share of the largest entry.
FAINT: Final = 1e-4
# Optima that are kept.
KNOWN: Final = 8


def replaced_bases(design: Design) -> dict[int, Array]:
    """U of every free role for the total variance, where to begin: the best where every table has
    one attribute alone, else that for records that come and go."""
    if not measured_alone(design):
        return optimise_total(design)
    if any(usual_gap(design.group_count(r)) is None for r in design.free):
        return optimise_upright(design)
    return {r: _filled(_optimum(_gram_of(design, r)).rows) for r in design.free}


def usual_gap(values: int) -> float | None:
    """How near the optimum of so many values is looked for; None where it takes too long."""
    return next((gap for most, gap in GAPS if values <= most), None)


def worst_bases(design: Design) -> dict[int, Array] | None:
    """The same for the largest variance of a row, where every table has one attribute alone."""
    if not worst_affordable(design):
        return None
    asked = {r: _rows_of(design, r) for r in design.free}
    return {r: _filled(_worst(rows).rows) for r, rows in asked.items()}


def worst_bound_alone(design: Design) -> float | None:
    """The least largest variance at cost one, in units of one over priorities; rounded down.

    With shares μ_i of the rows' weights it is (Σ_i √(μ_i b_i))² by `bound_alone`, b_i the bound of
    attribute i: at best Σ_i b_i.
    """
    if not worst_affordable(design):
        return None
    total = 0.0
    for r, role in enumerate(design.roles.roles):
        if role.plain:  # I − 11ᵀ/n with noise of two
            asked = [design.roles.type_priority[n] for n, p in _asked_of(design, r)]
            each = 2.0 * (role.size - 1) / role.size * max(asked, default=0.0)
        else:
            each = _worst(_rows_of(design, r)).bound
        total += len(role.members) * each
    return total


def worst_affordable(design: Design) -> bool:
    """Whether the least largest variance of tables of one attribute takes little time."""
    if not measured_alone(design):
        return False
    sizes = [
        (design.roles.pair_matrix(p).shape[0], design.group_count(r))
        for r in design.free
        for _, p in _asked_of(design, r)
    ]
    return sum(rows * values**2 for rows, values in sizes) <= WORST_WORK


def bound_alone(design: Design) -> float | None:
    """The least total at cost one, where every table has one attribute alone; rounded down.

    Draw pairs of values for every attribute independently, by its own weights λ_i. Rows of
    different attributes are then uncorrelated in the differences of records, so that the bound of
    the whole is (Σ_i √(bound of i))²: what attributes that are planned by themselves reach.
    """
    if not measured_alone(design):
        return None
    roots = [_root_alone(design, r) for r in range(len(design.roles.roles))]
    known = [root for root in roots if root is not None]
    return sum(known) ** 2 if len(known) == len(roots) else None


def _root_alone(design: Design, role: int) -> float | None:
    """√ of the bound of a role, summed over its attributes; nothing where it takes too long."""
    kind = design.roles.roles[role]
    if kind.plain:
        weights = [design.type_weight[number] for number, _ in _asked_of(design, role)]
        least = 2.0 * (kind.size - 1) * sum(weights)
    elif usual_gap(design.group_count(role)) is None:
        return None
    else:
        least = _optimum(_gram_of(design, role)).bound
    return float(np.sqrt(least * len(kind.members)))


def _optimum(gram: Array) -> RowSpaceOptimum:
    return _known_optimum(gram.tobytes(), len(gram))


def _worst(rows: Array) -> RowSpaceOptimum:
    return _known_worst(rows.tobytes(), len(rows))


@lru_cache(KNOWN)
def _known_optimum(gram: bytes, size: int) -> RowSpaceOptimum:
    """Worked out once, for the plan and for what is proved of it."""
    return replaced_optimum(np.frombuffer(gram).reshape(size, size), usual_gap(size) or 1.0)


@lru_cache(KNOWN)
def _known_worst(rows: bytes, count: int) -> RowSpaceOptimum:
    return replaced_worst(np.frombuffer(rows).reshape(count, -1), WORST_GAP)


def _gram_of(design: Design, role: int) -> Array:
    """Σ weight · WᵀW of all that is asked of a role, over groups of values."""
    total = np.zeros((design.group_count(role),) * 2)
    for number, pair in _asked_of(design, role):
        gram = design.grams[pair]
        total += 0.0 if gram is None else design.type_weight[number] * gram
    return total


def _asked_of(design: Design, role: int) -> list[tuple[int, int]]:
    """The types of queries about a role, and the pair each asks."""
    types, of = design.roles.types, design.roles.pair_role
    return [(n, int(p)) for n, row in enumerate(types) for p in row if p >= 0 and of[p] == role]


def _rows_of(design: Design, role: int) -> Array:
    """All rows asked of a role over groups of values, times the root of their priority."""
    first, roles = first_of(design.groups[role]), design.roles
    found = [
        np.sqrt(roles.type_priority[number]) * roles.pair_matrix(pair).dense()[:, first]
        for number, pair in _asked_of(design, role)
    ]
    return np.concatenate([np.zeros((0, len(first))), *found])


def _filled(rows: Array) -> Array:
    """n − 1 rows with U1 = 0: those that measure best, and a trace of what is not asked."""
    size = rows.shape[1]
    left = null_space(np.vstack([np.ones(size), rows])).T
    return np.vstack([rows, FAINT * np.abs(rows).max(initial=1e-300) * left])
