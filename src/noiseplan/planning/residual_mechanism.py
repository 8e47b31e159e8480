"""From planned numbers to a mechanism with its exact cost, continuous or integer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noiseplan.arrays import IntArray, combination_rows
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.cost import require_sizes
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.optimize.allocation import spend
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Residual
from noiseplan.planning.measured_numbers import BITS, Numbers
from noiseplan.planning.solve import Aim, Solution, role_bases
from noiseplan.planning.workload_errors import ResidualFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Guarantee
from noiseplan.privacy.rounding import margin, product_up


def make_residual(
    aim: Aim, solution: Solution, numbers: Numbers, least: bool, bits: Sequence[int] = BITS
) -> Candidate:
    """A residual plan as a mechanism. `least`: targets must be met, whatever that costs.

    `bits` are the sizes of integers to try, from the smallest.
    """
    plan = numbers.measured(aim, solution, least, bits)
    require_sizes(plan.sigma2, plan.privacy)
    cost = product_up(spend(plan.privacy, plan.accounted), 1 + margin(len(plan.sigma2)))
    mechanism = assemble(aim.design, plan.rows, plan.sigma2, numbers, plan.bases)
    privacy = Guarantee(cost, mechanism.noise.accounting, aim.neighbours)
    figures = ResidualFigures(aim.design, plan.bases, plan.equivalent)
    share = replace(solution.share, value=solution.share.value * (1 + max(plan.loss, 0.0)))
    known = Residual(aim.design, share, solution.total_rows, privacy, aim.planner, aim.targeted)
    return Candidate(aim.planner, mechanism, privacy, figures, known, plan.loss)


def assemble(
    design: Design,
    rows: dict[int, Array],
    sigma2: Array,
    numbers: Numbers,
    known: dict[int, Basis],
) -> ResidualMechanism:
    """The mechanism with these bases and this σ² for every subset of each type."""
    schema = design.workload.schema
    bases, basis_of = numbered(role_bases(design, rows, numbers.basis, known))
    sets, noise = _expand(design, sigma2)
    of_attribute = basis_of[design.roles.of_attribute]
    return ResidualMechanism(schema, group_blocks(sets, noise, bases, of_attribute, numbers.exact))


def numbered(of_role: dict[int, Basis]) -> tuple[tuple[Basis, ...], IntArray]:
    """The different bases, and the number of each role's; the last, −1, is for none."""
    bases = tuple(dict.fromkeys(of_role.values()))
    number = {basis: i for i, basis in enumerate(bases)}
    return bases, np.array([number[of_role[r]] for r in range(len(of_role))] + [-1])


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
