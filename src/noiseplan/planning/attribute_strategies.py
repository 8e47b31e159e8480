"""The strategy of every attribute: what is measured of it, with L1 columns of one at most."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.tables import View, by_difference, by_strategy, by_value
from noiseplan.optimize.integer_rounding import integer_rows
from noiseplan.optimize.p_identity import best_p_identity, strategy
from noiseplan.planning.noise_within import largest_norm
from noiseplan.planning.solve import role_bases
from noiseplan.planning.workload_types import Design, subset_counts
from noiseplan.strategies.hierarchies import haar, tree, weigh

STRATEGIES = ("identity", "p-identity", "tree", "wavelet")
# Over more values only the first two are tried unasked: the others take long, and never won.
MANY = 512
# Entries below this share of a row's largest are left out: they serve nothing and would be rounded.
FAINT = 1e-6
# Of what is asked, what is left of it without the total: no more than rounding.
ROUNDING = 1e-12
# The weight of a short workload's own rows where they start.
HEAVY = 20.0

# The strategy of every free role, with its name.
Mix = dict[int, tuple[str, Array]]


@dataclass(frozen=True, eq=False)
class RoleStrategy:
    """How the attributes of one role are measured, and the largest L1 column norm of that.

    `norm` is exact (a rational) and rounded up where the strategy is not of integers.
    """

    view: View
    basis: Basis
    norm: Fraction
    difference: View | None = None  # of attributes with two values, its L1 norm is one
    counts: bool = True  # whether sums of whole values are measured, and no multiples of them


def bases_of(strategies: dict[int, RoleStrategy]) -> dict[int, Basis]:
    """The basis of every role."""
    return {r: strategy.basis for r, strategy in strategies.items()}


def choose_strategies(design: Design, planner: str, public_total: bool = False) -> Mix:
    """The strategy of every free role over groups of values, by name."""
    every = _found(design, (planner,), public_total)
    return {r: (planner, found[planner][1]) for r, found in every.items()}


def mixes(design: Design, public_total: bool = False) -> list[Mix]:
    """What may be measured unasked: the best strategy of every role by itself, which comes first;
    and each strategy for all roles, where they have it."""
    found = _found(design, STRATEGIES, public_total)
    best = {r: min(named, key=lambda name: named[name][0]) for r, named in found.items()}
    everywhere = [name for name in STRATEGIES if all(name in named for named in found.values())]
    others = (dict.fromkeys(found, name) for name in everywhere)
    return [
        {r: _by_its_rows(name, found[r][name][1]) for r, name in names.items()}
        for names in (best, *(names for names in others if names != best))
    ]


def _by_its_rows(name: str, matrix: Array) -> tuple[str, Array]:
    """A strategy by its name, or by that of single values where it sums up none."""
    return (name if np.count_nonzero(matrix) > matrix.shape[1] else "identity"), matrix


def _found(
    design: Design, names: tuple[str, ...], public_total: bool
) -> dict[int, dict[str, tuple[float, Array]]]:
    """tr(G (AᵀA)⁻¹) and the strategy A of every free role, by name."""
    result = {}
    for r in design.free:
        gram, rows = role_gram(design, r, public_total), _short_rows(design, r)
        tried = names[:2] if len(gram) > MANY else names
        result[r] = {name: _named(name, gram, rows) for name in tried}
    return result


def _named(name: str, gram: Array, extra: Array | None) -> tuple[float, Array]:
    """tr(G (AᵀA)⁻¹) and the strategy A."""
    if name == "identity":
        return float(np.trace(gram)), np.eye(len(gram))
    if name == "tree":
        return tree(gram)
    if name == "wavelet":
        return weigh(haar(len(gram)), gram)
    value, theta = best_p_identity(gram, extra)
    theta = np.where(theta > FAINT * theta.max(axis=1, keepdims=True), theta, 0.0)
    return value, strategy(theta[theta.any(axis=1)])


def role_gram(design: Design, r: int, public_total: bool = False) -> Array:
    """Σ weight · WᵀW of all that is asked of a role, each as often as the rest of its query asks.

    The rest of a query counts by tr(WᵀW) of its factors: the error they have where every value is
    measured. Where the total is public and no table has another attribute too, rows count without
    it.
    """
    roles, n = design.roles, design.group_count(r)
    traces = [
        float(roles.roles[int(roles.pair_role[p])].size) if gram is None else float(np.trace(gram))
        for p, gram in enumerate(design.grams)
    ]
    total = np.zeros((n, n))
    for number in np.flatnonzero(roles.type_joint < 0):
        pairs = roles.types[number]
        pairs = pairs[pairs >= 0]
        whole = np.log(design.type_weight[number]) + np.log([traces[p] for p in pairs]).sum()
        for p in pairs[roles.pair_role[pairs] == r]:
            gram = design.grams[p]
            if gram is not None:
                total += np.exp(whole) / traces[p] * gram
    for joint in design.joints:
        for axis in np.flatnonzero(joint.roles == r):
            flat = np.moveaxis(joint.tensor, axis + 1, -1).reshape(-1, n)
            total += design.type_weight[joint.number] * flat.T @ flat
    others = subset_counts(design)
    if public_total and (others[others[:, r] > 0].sum(axis=1) <= 1).all():
        total = without_total(total)
    return total / max(float(np.trace(total)), 1e-300) * n


def without_total(gram: Array) -> Array:
    """(I − 11ᵀ/n) G (I − 11ᵀ/n): rows less their mean, which the total answers where it is public;
    as it is where nothing but the total is asked."""
    half = gram - gram.mean(axis=0)
    centred = half - half.mean(axis=1, keepdims=True)
    only = float(np.trace(centred)) <= ROUNDING * float(np.trace(gram))
    return gram if only else np.asarray(0.5 * (centred + centred.T))


def _short_rows(design: Design, r: int) -> Array | None:
    """The rows asked of a role over groups, where they are fewer than the groups by far."""
    role, first = design.roles.roles[r], np.unique(design.groups[r], return_index=True)[1]
    if not role.matrices or 4 * sum(m.shape[0] for m in role.matrices) > 3 * len(first):
        return None
    rows = np.vstack([m.dense()[:, first] for m in role.matrices])
    # Heavy against the identity: where the rows are few, they are nearly all that is measured.
    return np.asarray(HEAVY * rows / max(float(np.abs(rows).max()), 1e-300))


def _every_value(strategy: Array, size: int) -> bool:
    """Whether a strategy is the identity over all values: all that follows from it is known."""
    return len(strategy) == size and np.array_equal(strategy, np.eye(size))


def role_strategies(
    design: Design, matrices: dict[int, Array], bits: int | None
) -> dict[int, RoleStrategy]:
    """How every role is measured; with `bits`, strategies are scaled to integers of that size."""
    bases = role_bases(design, {})
    result = {}
    for r, role in enumerate(design.roles.roles):
        if r in matrices and _every_value(matrices[r], role.size):
            basis = Basis.orthogonal(role.size)
            result[r] = RoleStrategy(by_value(role.size, basis), basis, Fraction(1))
        elif r in matrices:
            matrix = matrices[r] if bits is None else integer_rows(matrices[r], bits)
            view, basis = by_strategy(matrix, design.groups[r])
            counts = bool(np.isin(matrices[r], (0.0, 1.0)).all())
            result[r] = RoleStrategy(view, basis, largest_norm(matrix), counts=counts)
        else:
            basis = bases[r]
            pair = by_difference(basis) if role.plain and role.size == 2 else None
            result[r] = RoleStrategy(by_value(role.size, basis), basis, Fraction(1), pair)
    return result
