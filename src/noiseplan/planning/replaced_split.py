"""Bases for neighbours that replace one record by another.

The total is public then: it costs nothing and is exact. Where every table has one attribute, its
residual has an optimum of its own (`optimize.record_pairs`), and two records that differ in all
attributes pay the sum of what their values pay: each attribute may be planned by itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import scipy.sparse as sp
from scipy.linalg import null_space

from noiseplan.arrays import first_of
from noiseplan.matrices.base import Array
from noiseplan.optimize.convex_losses import Loss
from noiseplan.optimize.record_pairs import replaced_loss, replaced_norm, replaced_optimum
from noiseplan.optimize.row_space_optimum import RowSpaceOptimum
from noiseplan.planning.free_split import optimise_total, optimise_upright
from noiseplan.planning.objectives import ConvexLoss
from noiseplan.planning.workload_types import Design, measured_alone

# Values of an attribute up to which its optimum is looked for, and to which gap: a second or so.
GAPS: Final = ((64, 1e-6), (128, 1e-5), (256, 1e-4), (1024, 1e-3))
# The gap for norms of variances, that for losses, and numbers of rows × values² they are looked
# for.
WORST_GAP, LOSS_GAP, WORST_WORK = 1e-4, 1e-5, 3e7
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


def norm_bases(design: Design, power: float) -> dict[int, Array] | None:
    """The same for the p-norm of the variances of rows, where every table has one attribute alone;
    for their largest, p = ∞.

    With shares c_i of the cost, attribute i has the norm N_i/c_i at best, by the same rows for all
    c_i: each attribute may be planned by itself.
    """
    if not rows_affordable(design):
        return None
    asked = {r: _rows_of(design, r, power) for r in design.free}
    return {r: _filled(_norm(rows, power).rows) for r, rows in asked.items()}


def loss_bases(design: Design, loss: Loss) -> dict[int, Array] | None:
    """The same for a convex loss of one number for each query, where all ask one attribute.

    `loss` is of weight · mean variance of the queries at the cost of the plan, times that cost.
    """
    if len(design.free) != 1 or len(design.roles.roles) != 1 or not rows_affordable(design):
        return None
    (role,) = design.free
    asked = _asked_of(design, role)
    kinds = np.array([number for number, _ in asked])
    sizes = [design.roles.pair_matrix(pair).shape[0] for _, pair in asked]
    # Of queries that ask for the total alone there is no row, and no variance.
    of_query = sp.csr_array(design.roles.type_of_query[:, None] == kinds, dtype=np.float64)

    def of_kinds(variances: Array) -> tuple[float, Array]:
        value, slope = loss(of_query @ variances)
        return value, of_query.T @ slope

    rows, owner = _rows_of(design, role), np.repeat(np.arange(len(kinds)), sizes)
    found = replaced_loss(rows, owner, of_kinds, LOSS_GAP)
    return None if found is None else {role: _filled(found)}


def tangent(design: Design, loss: ConvexLoss, sums: Array) -> Design:
    """The design with the total variance that a loss has for its tangent, at sums of variances by
    type."""
    roles, rows = design.roles, design.type_rows
    means = (roles.type_priority * sums / rows)[roles.type_of_query]
    slopes = np.bincount(roles.type_of_query, loss.slope(means), minlength=len(rows))
    priority = roles.type_priority * slopes / roles.type_count / rows
    return replace(design, roles=replace(roles, type_priority=priority))


def norm_bound_alone(design: Design, power: float) -> float | None:
    """The least p-norm at cost one, in units of one over priorities; rounded down.

    Weights of rows μ = t_i μ_i, of norm one in the dual norm, bound attribute i by t_i N_i, and all
    of them by (Σ_i √(t_i N_i))² as in `bound_alone`: at best (Σ_i N_i^{p/(p+1)})^{(p+1)/p}.
    """
    if not rows_affordable(design):
        return None
    members = np.array([len(role.members) for role in design.roles.roles])
    each = np.array([_norm_of_role(design, r, power) for r in range(len(members))])
    share = 1.0 if power == np.inf else power / (power + 1.0)
    return float((members @ each**share) ** (1.0 / share))


def _norm_of_role(design: Design, role: int, power: float) -> float:
    """N of one attribute of a role."""
    size = design.roles.roles[role].size
    if not design.roles.roles[role].plain:
        return _norm(_rows_of(design, role, power), power).bound
    scales = np.array([_scale(design, n, role, power) for n, _ in _asked_of(design, role)])
    most = float(scales.max(initial=0.0)) or 1.0
    # I − 11ᵀ/n with noise of two
    norm = most * float(np.linalg.norm(scales / most, power))
    return float(2.0 * (size - 1) / size * norm * size ** (1.0 / power))


def rows_affordable(design: Design) -> bool:
    """Whether single variances of tables of one attribute are planned for in little time."""
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


def _norm(rows: Array, power: float) -> RowSpaceOptimum:
    return _known_norm(rows.tobytes(), len(rows), power)


@lru_cache(KNOWN)
def _known_optimum(gram: bytes, size: int) -> RowSpaceOptimum:
    """Worked out once, for the plan and for what is proved of it."""
    return replaced_optimum(np.frombuffer(gram).reshape(size, size), usual_gap(size) or 1.0)


@lru_cache(KNOWN)
def _known_norm(rows: bytes, count: int, power: float) -> RowSpaceOptimum:
    return replaced_norm(np.frombuffer(rows).reshape(count, -1), power, WORST_GAP)


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


def _scale(design: Design, number: int, role: int, power: float) -> float:
    """The priority of rows of a type, times what their norm grows by with equal ones of an
    attribute."""
    equal = design.roles.type_count[number] / len(design.roles.roles[role].members)
    return float(design.roles.type_priority[number] * equal ** (1.0 / power))


def _rows_of(design: Design, role: int, power: float = np.inf) -> Array:
    """All rows asked of a role over groups of values, times the root of their scale."""
    first, roles = first_of(design.groups[role]), design.roles
    found = [
        np.sqrt(_scale(design, number, role, power)) * roles.pair_matrix(pair).dense()[:, first]
        for number, pair in _asked_of(design, role)
    ]
    return np.concatenate([np.zeros((0, len(first))), *found])


def _filled(rows: Array) -> Array:
    """n − 1 rows with U1 = 0: those that measure best, and a trace of what is not asked."""
    size = rows.shape[1]
    left = null_space(np.vstack([np.ones(size), rows])).T
    return np.vstack([rows, FAINT * np.abs(rows).max(initial=1e-300) * left])
