"""A workload prepared for planning: its roles, its terms, and what a basis makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray, first_of, joined_kinds
from noiseplan.domain.gram import workload_gram
from noiseplan.matrices import DenseMatrix, Matrix
from noiseplan.matrices.base import Array, equal_columns
from noiseplan.mechanisms.basis import ROUNDING, Basis
from noiseplan.mechanisms.far_pairs import pair_costs
from noiseplan.mechanisms.residual_cost import (
    few_patterns,
    one_by_one,
    pattern_bound,
    pattern_costs,
)
from noiseplan.planning.limits import GRAM_VALUES
from noiseplan.planning.symmetry import Roles, find_roles
from noiseplan.planning.variance_terms import Terms, build_terms, joint_roles
from noiseplan.queries import Workload


@dataclass(frozen=True, eq=False)
class Moments:
    """What variances are made of: R and m of the bases per pair, joint coefficients."""

    residual: Array
    mean: Array
    joint: Array


@dataclass(frozen=True, eq=False)
class JointQuery:
    """A dense matrix over the values (or groups of values) of a few roles, as a tensor."""

    tensor: Array  # rows × n_1 × … × n_k
    roles: IntArray
    number: int  # its query type


@dataclass(frozen=True, eq=False)
class Design:
    """Roles and terms of a workload."""

    workload: Workload
    roles: Roles
    terms: Terms
    groups: tuple[IntArray, ...]  # of each role: the group of each value
    joints: tuple[JointQuery, ...]
    given_grams: tuple[Array | None, ...] | None = None  # instead of those of the workload

    @cached_property
    def grams(self) -> tuple[Array | None, ...]:
        """Of each pair: WᵀW over groups; None on plain roles."""
        if self.given_grams is not None:
            return self.given_grams
        return tuple(
            None if self.roles.roles[r].plain else _grouped_gram(self.roles, pair, self.groups)
            for pair, r in enumerate(self.roles.pair_role.tolist())
        )

    @cached_property
    def free(self) -> list[int]:
        """Roles whose basis is there to be optimised."""
        roles = enumerate(self.roles.roles)
        return [
            r
            for r, role in roles
            if not (role.plain or self.too_long(r)) and self.group_count(r) > 1
        ]

    @cached_property
    def constant(self) -> set[int]:
        """Pairs whose rows give every value the same weight: they ask for nothing but the sum."""
        return {
            pair
            for pair, gram in enumerate(self.grams)
            if gram is not None and np.ptp(gram) <= 1e-14 * np.abs(gram).max()
        }

    @cached_property
    def several_kinds(self) -> bool:
        """Whether some attribute is asked by several kinds of factors, or a dense matrix is."""
        if self.joints or not self.free:
            return bool(self.joints)
        asked = [p for p in range(len(self.grams)) if p not in self.constant]
        roles = self.roles.pair_role[asked].tolist()
        return any(roles.count(r) > 1 and self.group_count(r) > 2 for r in self.free)

    @property
    def priorities(self) -> Array:
        """The planning weight of every query: its own, or one over its target."""
        return self.roles.type_priority[self.roles.type_of_query]

    def gram(self) -> Array:
        """Σ_q w_q W_qᵀW_q over the whole (small) domain, w being the priorities."""
        return workload_gram(self.workload, self.priorities)

    def too_long(self, role: int) -> bool:
        """Whether a role tells so many values apart that no Gram matrix of it is written down."""
        return not self.roles.roles[role].plain and self.group_count(role) > GRAM_VALUES

    def group_count(self, role: int) -> int:
        return int(self.groups[role].max()) + 1

    @cached_property
    def type_weight(self) -> Array:
        """Planning weight of the sum of variances of one query of each type, times their number."""
        return self.roles.type_priority * self.roles.type_count

    @cached_property
    def type_rows(self) -> IntArray:
        """Rows of one query of each type."""
        return self.workload.sizes[self.roles.type_first]

    @cached_property
    def pairs_of(self) -> list[list[int]]:
        """The pairs of each role; asked for at every step of a search."""
        return [
            np.flatnonzero(self.roles.pair_role == r).tolist() for r in range(len(self.roles.roles))
        ]

    @cached_property
    def _traces(self) -> list[float]:
        """tr(WᵀW) of each pair that has a Gram matrix."""
        return [0.0 if gram is None else float(np.trace(gram)) for gram in self.grams]

    def products(self, inverses: dict[int, Array]) -> dict[int, Array]:
        """WᵀW T of each pair on a free role: moments and their gradients are made of it."""
        return {
            pair: gram @ inverses[r]
            for r in inverses
            for pair in self.pairs_of[r]
            if (gram := self.grams[pair]) is not None
        }

    def moments(self, inverses: dict[int, Array], products: dict[int, Array]) -> Moments:
        """R = ‖WV‖², m = ‖Wτ‖² from T = [τ | V] (over groups) of each free role and `products`.

        Plain roles have ResidualPlanner's R = n − 1, m = 1/n.
        """
        count = len(self.roles.pair_role)
        residual, mean = np.zeros(count), np.zeros(count)
        lengths = {r: np.einsum("ij,ij->j", t, t) for r, t in inverses.items()}
        for r, role in enumerate(self.roles.roles):
            n = role.size
            for pair in self.pairs_of[r]:
                gram = self.grams[pair]
                if pair in products:
                    squares = np.einsum("ij,ij->j", inverses[r], products[pair])
                    size = lengths[r] * self._traces[pair]
                    mean[pair] = _not_rounded(squares[0], size[0])
                    if pair not in self.constant:
                        residual[pair] = _not_rounded(squares[1:].sum(), size[1:].sum())
                elif role.plain:
                    mean[pair], residual[pair] = 1.0 / n, n - 1.0
                elif gram is not None:  # one group only: nothing but the sum is ever asked
                    mean[pair] = gram[0, 0]
        joint = [
            without_rounding(
                joint_coefficients(j, inner)[0].sum(axis=0).ravel(), _joint_scale(j, inner)
            )
            for j in self.joints
            for inner in [self.joint_inverses(j, inverses)]
        ]
        return Moments(residual, mean, np.concatenate([*joint, np.zeros(0)]))

    def sensitivities(self, betas: dict[int, float]) -> Array:
        """β of each role: as given, or ResidualPlanner's (n − 1)/n."""
        sizes = [role.size for role in self.roles.roles]
        return np.array([betas.get(r, (n - 1) / n) for r, n in enumerate(sizes)])

    def joint_inverses(self, joint: JointQuery, inverses: dict[int, Array]) -> list[Array]:
        return [inverses.get(int(r), np.ones((1, 1))) for r in joint.roles]

    def privacy_weights(self, sensitivity: Array) -> Array:
        """P_a: number of subsets of each type times p_A = ∏_{i∈A} β_i."""
        with np.errstate(divide="ignore"):
            log_beta = np.log(sensitivity)
        log_p = self.terms.privacy_powers @ np.where(np.isfinite(log_beta), log_beta, -700.0)
        result: Array = self.terms.subset_count * np.exp(log_p)
        result[self.terms.privacy_powers @ (sensitivity == 0) > 0] = 0.0  # nothing is measured
        return result


def without_rounding(square: Array, scale: Array) -> Array:
    """Zero where a squared norm is no more than rounding can make of factors of that size."""
    return np.where(square <= ROUNDING * scale, 0.0, square)


def _not_rounded(square: float, scale: float) -> float:
    """The same of single numbers."""
    return 0.0 if square <= ROUNDING * scale else square


def _joint_scale(joint: JointQuery, inverses: list[Array]) -> Array:
    """‖M‖² ∏ ‖V_i or τ_i‖² of each subset of the axes: how large a coefficient could be."""
    scale = np.array([(joint.tensor**2).sum()])
    for inverse in inverses:
        squares = np.einsum("ij,ij->j", inverse, inverse)
        scale = np.outer(scale, [squares[0], squares[1:].sum()]).ravel()
    return scale


def joint_coefficients(joint: JointQuery, inverses: list[Array]) -> tuple[Array, list[Array]]:
    """‖row of M ⊗(V_i or τ_i)‖² for each row and each subset of the axes, shape (rows, 2, …, 2);
    and the partly transformed tensors."""
    stages = [joint.tensor]
    for inverse in inverses:
        # Contract the first remaining axis and put the result last: k times over keeps the order.
        stages.append(np.tensordot(stages[-1], inverse, axes=(1, 0)))
    squares = stages[-1] ** 2
    for axis in range(1, squares.ndim):
        head, tail = np.split(squares, [1], axis=axis)
        squares = np.concatenate([head, tail.sum(axis=axis, keepdims=True)], axis=axis)
    return squares, stages


def prepare(
    workload: Workload,
    priorities: Array | None = None,
    share: bool = True,
    own: Mapping[int, Matrix] | None = None,
) -> Design:
    """Find roles and terms; merge values that no query tells apart.

    `priorities` replace the workload's weights while planning (for targets); `own` are strategies
    of attributes, by number, which may tell more values apart.
    """
    own = own or {}
    weights = workload.columns.weights if priorities is None else priorities
    roles = find_roles(workload, weights, share, own)
    joints = [_joint_tensor(workload, roles, int(t)) for t in np.flatnonzero(roles.type_joint >= 0)]
    kinds = [_joint_kinds(joint) for joint in joints]
    seen = {int(roles.of_attribute[a]): strategy.column_kinds() for a, strategy in own.items()}
    told = []
    for r, role in enumerate(roles.roles):
        asked = np.arange(role.size) if role.plain else _value_groups(roles, r, joints, kinds)
        told.append(joined_kinds([asked, seen[r]]) if r in seen else asked)
    groups = tuple(told)
    measurable = np.array([int(g.max()) for g in groups], dtype=np.int64)
    reduced = tuple(_reduced(joint, groups) for joint in joints)
    return Design(workload, roles, build_terms(roles, measurable), groups, reduced)


def _joint_tensor(workload: Workload, roles: Roles, number: int) -> JointQuery:
    on = joint_roles(roles, number)
    matrix = workload.columns.matrices[roles.type_joint[number]]
    sizes = [roles.roles[r].size for r in on]
    return JointQuery(matrix.reshape(len(matrix), *sizes), on, number)


def _value_groups(
    roles: Roles, r: int, joints: list[JointQuery], joint_kinds: list[list[IntArray]]
) -> IntArray:
    """The group of each value: values that no query tells apart are one group."""
    role = roles.roles[r]
    told = [matrix.column_kinds() for matrix in role.matrices]
    told += [
        kinds[axis]
        for joint, kinds in zip(joints, joint_kinds, strict=True)
        for axis in np.flatnonzero(joint.roles == r)
    ]
    return joined_kinds(told)


def _joint_kinds(joint: JointQuery) -> list[IntArray]:
    """Of each axis of a dense matrix, numbers that are equal for values it does not tell apart.

    Each axis is reduced before the next is looked at: a matrix over a million cells that tells few
    values apart is small after the first.
    """
    tensor, kinds = joint.tensor, []
    for axis in range(1, tensor.ndim):
        rows = np.moveaxis(tensor, axis, -1).reshape(-1, tensor.shape[axis])
        kinds.append(equal_columns(rows))
        tensor = tensor.take(first_of(kinds[-1]), axis=axis)
    return kinds


def _grouped_gram(roles: Roles, pair: int, groups: tuple[IntArray, ...]) -> Array | None:
    role = int(roles.pair_role[pair])
    if int(roles.pair_factor[pair]) not in roles.roles[role].factors:
        return None
    first = first_of(groups[role])
    if len(first) > GRAM_VALUES:  # planned as a tree, or refused
        return None
    matrix = roles.pair_matrix(pair)
    if isinstance(matrix, DenseMatrix):  # which may be over very many values, and tell few apart
        return DenseMatrix(matrix.values[:, first]).gram()
    return matrix.gram()[np.ix_(first, first)]


def _reduced(joint: JointQuery, groups: tuple[IntArray, ...]) -> JointQuery:
    tensor = joint.tensor
    for axis, role in enumerate(joint.roles):
        first = first_of(groups[role])
        tensor = np.take(tensor, first, axis=axis + 1)
    return JointQuery(np.ascontiguousarray(tensor), joint.roles, joint.number)


# ---------------------------------------------------------------------- what it costs
#
# For each kind of neighbour. Adding or removing one record costs Σ_A p_A/σ²_A, p_A = ∏_{i∈A} β_i:
# one record attains every maximum. Replacing one by another is priced by the pairs of values that
# stand for all others; where these are many, by the attributes on which two records agree, and
# roles say how many of each kind do (`noiseplan.mechanisms.far_pairs`, `residual_cost`).


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
