"""What a plan costs for each kind of neighbour.

Adding or removing one record costs Σ_A p_A/σ²_A, p_A = ∏_{i∈A} β_i: one record attains every
maximum.

Replacing one record by another costs (e_r − e_s)ᵀC(e_r − e_s) for C = Σ_A σ_A⁻² ⊗U_iᵀU_i. If the
two records agree on the attributes E, the subset A adds 2/σ²_A (p_A − ∏_{i∈A∩E} β_i ∏_{i∈A∖E} γ_i)
at most, γ_i the smallest entry of U_iᵀU_i; exactly this where the columns of U_i have equal
length, an upper bound otherwise, because the product is linear in each U_iᵀU_i entry and so
smallest at an end of its range. The total (A = ∅) costs nothing: it does not change.
"""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.planning.design import Design

# Agreement patterns listed one by one; beyond that a bound over all of them is used.
PATTERN_LIMIT = 20_000


def privacy_rows(design: Design, bases: dict[int, Basis], neighbours: str) -> Array:
    """Patterns × subset types: the cost is the largest entry of this matrix times 1/σ²."""
    betas = np.array([bases[r].sensitivity for r in range(len(bases))])
    added = design.privacy_weights(betas)
    if neighbours == "add-remove":
        return added[None, :]
    if not cost_is_exact(design, neighbours):
        return _bound_over_patterns(design, bases, added)[None, :]
    return _exact_patterns(design, bases, added)


def cost_is_exact(design: Design, neighbours: str) -> bool:
    """Whether every pattern of agreement is looked at, so that the cost is no mere upper bound."""
    patterns = np.prod([len(role.members) + 1.0 for role in design.roles.roles])
    return neighbours == "add-remove" or bool(patterns <= PATTERN_LIMIT)


def _counts(design: Design) -> Array:
    """Subset types × roles: how many attributes of each role."""
    return np.asarray(design.terms.privacy_powers.toarray())


def _exact_patterns(design: Design, bases: dict[int, Basis], added: Array) -> Array:
    roles = design.roles.roles
    counts = _counts(design).astype(int)
    # overlap[r][e, a] = Σ_j C(e, j) C(N − e, a − j) β^j γ^{a−j}: all ways to place a attributes
    overlap = []
    for r, role in enumerate(roles):
        n, (low, high) = len(role.members), _range(bases[r])
        table = np.zeros((n + 1, counts[:, r].max(initial=0) + 1))
        for agree, a in product(range(n + 1), range(table.shape[1])):
            table[agree, a] = sum(
                comb(agree, j) * comb(n - agree, a - j) * high**j * low ** (a - j)
                for j in range(a + 1)
            )
        overlap.append(table)
    rows = []
    for pattern in product(*(range(len(role.members) + 1) for role in roles)):
        if all(e == len(role.members) for e, role in zip(pattern, roles, strict=True)):
            continue  # equal records are no neighbours
        shared = np.ones(len(added))
        for r, e in enumerate(pattern):
            shared *= overlap[r][e, counts[:, r]]
        rows.append(2.0 * np.maximum(added - shared, 0.0))
    return _undominated(np.array(rows)) if rows else np.zeros((1, len(added)))


def _undominated(rows: Array) -> Array:
    """Without rows that another row exceeds everywhere (a cheap sieve against the largest rows)."""
    rows = np.unique(rows, axis=0)
    for leader in rows[np.argsort(-rows.sum(axis=1))[:64]]:
        below = (rows <= leader).all(axis=1) & (rows < leader).any(axis=1)
        rows = rows[~below]
    return rows


def _bound_over_patterns(design: Design, bases: dict[int, Basis], added: Array) -> Array:
    """2 p_A (1 + max |γ|/β): since |γ_i| ≤ β_i, no product falls below −p_A max |γ_i|/β_i."""
    ratio = np.array([max(0.0, -_range(b)[0]) / (_range(b)[1] or 1.0) for b in bases.values()])
    counts = _counts(design)
    worst = np.max(np.where(counts > 0, ratio[None, :], 0.0), axis=1, initial=0.0)
    return np.where(counts.any(axis=1), 2.0 * added * (1.0 + worst), 0.0)


def _range(basis: Basis) -> tuple[float, float]:
    """The smallest entry of UᵀU and its largest diagonal entry."""
    return basis.lowest, basis.sensitivity
