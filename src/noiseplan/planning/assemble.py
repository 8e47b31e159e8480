"""From planned numbers to a mechanism: bases of attributes, noise of every single subset."""

from __future__ import annotations

import numpy as np

from noiseplan.arrays import IntArray, combination_rows
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.planning.workload_types import Design


def role_bases(design: Design, rows: dict[int, Array], integer: bool = False) -> dict[int, Basis]:
    """The basis of each role: as planned where it is free, orthogonal where only values count."""
    shared: dict[int, Basis] = {}
    result = {}
    for r, role in enumerate(design.roles.roles):
        if r in rows:
            result[r] = Basis.from_rows(rows[r], design.groups[r])
        elif role.plain:
            make = Basis.integer if integer else Basis.orthogonal
            result[r] = shared.setdefault(role.size, make(role.size))
        else:  # one group only: the sum is all that is ever asked
            n = role.size
            result[r] = MatrixBasis(np.zeros((0, n)), np.full(n, 1.0 / n), np.zeros((n, 0)))
    return result


def assemble(
    design: Design, rows: dict[int, Array], sigma2: Array, integer: bool = False
) -> ResidualMechanism:
    """The mechanism with these bases and this σ² for every subset of each type."""
    schema = design.workload.schema
    of_role = role_bases(design, rows, integer)
    bases = list(dict.fromkeys(of_role.values()))
    number = {basis: i for i, basis in enumerate(bases)}
    roles = np.array([number[of_role[r]] for r in range(len(of_role))] + [-1])
    sets, noise = _expand(design, sigma2)
    basis_of = roles[design.roles.of_attribute]
    return ResidualMechanism(schema, group_blocks(sets, noise, tuple(bases), basis_of, integer))


def _expand(design: Design, sigma2: Array) -> tuple[list[IntArray], list[Array]]:
    """Every attribute set of every subset type, with its σ²; arrays of equal width."""
    terms, roles = design.terms, design.roles.roles
    alone = np.array([role.members[0] if len(role.members) == 1 else -1 for role in roles] + [-2])
    members = alone[terms.subset_roles]  # −2 pads, −1 where a role has several members
    width = (terms.subset_roles >= 0).sum(axis=1)
    simple = (members != -1).all(axis=1)
    sets, noise = [], []
    for k in np.unique(width[simple]):
        chosen = np.flatnonzero(simple & (width == k))
        sets.append(np.sort(members[chosen, :k], axis=1))
        noise.append(sigma2[chosen])
    for a in np.flatnonzero(~simple):
        rows = placements(design, terms.subset_roles[a])
        sets.append(rows)
        noise.append(np.full(len(rows), sigma2[a]))
    return sets, noise


def placements(design: Design, subset: IntArray) -> IntArray:
    """All attribute sets with these roles (with repetition, padded with −1), ascending rows."""
    chosen, often = np.unique(subset[subset >= 0], return_counts=True)
    groups = []
    for role, k in zip(chosen, often, strict=True):
        members = design.roles.roles[role].members
        groups.append(members[combination_rows(len(members), int(k))])
    picks = np.indices([len(g) for g in groups]).reshape(len(groups), -1)
    parts = [g[pick] for g, pick in zip(groups, picks, strict=True)]
    return np.sort(np.concatenate(parts, axis=1), axis=1)
