"""What a plan costs for each kind of neighbour.

Adding or removing one record costs Σ_A p_A/σ²_A, p_A = ∏_{i∈A} β_i: one record attains every
maximum. Replacing one by another is priced by the pairs of values that stand for all others; where
these are many, by the attributes on which two records agree, and roles say how many of each kind do
(`noiseplan.mechanisms.far_pairs`, `residual_cost`).
"""

from __future__ import annotations

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.far_pairs import pair_costs
from noiseplan.mechanisms.residual_cost import (
    few_patterns,
    one_by_one,
    pattern_bound,
    pattern_costs,
)
from noiseplan.planning.workload_types import Design


def privacy_rows(design: Design, bases: dict[int, Basis], neighbours: str) -> Array:
    """Patterns × subset types: the cost is the largest entry of this matrix times 1/σ²."""
    added = design.privacy_weights(np.array([bases[r].sensitivity for r in range(len(bases))]))
    if neighbours == "add-remove":
        return added[None, :]
    every = [bases[r] for r in range(len(bases))]
    reach = np.array([[b.lowest, b.sensitivity, b.farthest] for b in every]).reshape(-1, 3)
    members = np.array([len(role.members) for role in design.roles.roles])
    counts = subset_counts(design)
    rows = None if one_by_one(counts) else pair_costs(counts, members, every)
    if rows is None:
        rows = pattern_costs(counts, members, reach)
    if rows is None:
        return pattern_bound(counts.astype(np.float64), added, reach)[None, :]
    return _undominated(rows)


def cost_is_exact(design: Design, neighbours: str) -> bool:
    """Whether every pattern of agreement is looked at, so that the cost is no mere upper bound."""
    return (
        neighbours == "add-remove"
        or few_patterns([len(role.members) for role in design.roles.roles])
        or measured_alone(design)
    )


def measured_alone(design: Design) -> bool:
    """Whether every subset has one attribute at most."""
    return one_by_one(subset_counts(design))


def subset_counts(design: Design) -> IntArray:
    """Subset types × roles: how many attributes of each."""
    return np.asarray(design.terms.privacy_powers.toarray()).astype(np.int64)


def _undominated(rows: Array) -> Array:
    """Without rows that another row exceeds everywhere (a cheap sieve against the largest rows)."""
    rows = np.unique(rows, axis=0)
    for leader in rows[np.argsort(-rows.sum(axis=1))[:64]]:
        below = (rows <= leader).all(axis=1) & (rows < leader).any(axis=1)
        rows = rows[~below]
    return rows
