"""The variance of every query type as a sum over what is measured.

For a query on the attributes B and the base measurements on A ⊆ B,

    sum of variances of the query = Σ_{A⊆B} σ²_A ∏_{i∈A} R_i ∏_{i∈B∖A} m_i ,

with R_i = ‖W_iV_i‖²_F and m_i = ‖W_iτ_i‖² of the attribute's basis (`residual-family`, section 1).
Over types, the subsets of one type are counted instead of listed: if a query has k attributes of a
pair and j of them are in A, there are C(k, j) such A.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, prod

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, unique_rows, widened
from noiseplan.matrices.base import Array
from noiseplan.planning.symmetry import Roles

# Stands for zero inside logarithms; its square is still a normal number.
TINY = 1e-140


@dataclass(frozen=True, eq=False)
class Terms:
    """Which query type takes which subset type, with which powers of R and m.

    One term for each query type and each way to choose j of the k attributes of each of its pairs.
    Pairs are padded with the number of pairs, whose R and m are 1.
    """

    query: IntArray
    subset: IntArray
    log_count: Array
    pair: IntArray  # terms × slots
    measured: IntArray  # terms × slots: j, the power of R
    summed: IntArray  # terms × slots: k − j, the power of m
    queries: int
    roles: int
    subset_roles: IntArray  # subset types × slots, roles with repetition, padded with −1
    subset_count: Array  # how many sets of attributes have this type
    joint: IntArray  # the terms of dense-matrix types, whose coefficient comes from outside

    @property
    def subsets(self) -> int:
        return len(self.subset_roles)

    def coefficients(self, residual: Array, mean: Array, joint: Array) -> Array:
        """Each term's coefficient of σ² in the sum of variances of one query of its type.

        R and m per pair; `joint` has one coefficient for each term of a dense-matrix type.
        """
        log_r = np.log(np.append(np.maximum(residual, TINY), 1.0))
        log_m = np.log(np.append(np.maximum(mean, TINY), 1.0))
        powers = self.measured * log_r[self.pair] + self.summed * log_m[self.pair]
        result = np.exp(self.log_count + powers.sum(axis=1))
        # What no query needs has coefficient zero exactly, or it would be measured with huge noise.
        no_r, no_m = np.append(residual == 0, False), np.append(mean == 0, False)
        if no_r.any() or no_m.any():
            unused = (no_r[self.pair] & (self.measured > 0)) | (no_m[self.pair] & (self.summed > 0))
            result[unused.any(axis=1)] = 0.0
        result[self.joint] = joint
        return np.asarray(result)

    def gradient(self, weighted: Array, residual: Array, mean: Array) -> tuple[Array, Array]:
        """∂/∂R and ∂/∂m per pair of Σ_t g_t c_t, given the products g_t c_t."""
        count = len(residual) + 1
        by_r = np.bincount(self.pair.ravel(), (weighted[:, None] * self.measured).ravel(), count)
        by_m = np.bincount(self.pair.ravel(), (weighted[:, None] * self.summed).ravel(), count)
        return by_r[:-1] / np.maximum(residual, TINY), by_m[:-1] / np.maximum(mean, TINY)

    def by_subset(self, values: Array) -> Array:
        """Sum values of terms over each subset type."""
        return np.bincount(self.subset, values, self.subsets).astype(float)

    def matrix(self, coefficients: Array) -> sp.csr_array:
        """Query types × subset types: the sum of variances is this matrix times σ²."""
        shape = (self.queries, self.subsets)
        return sp.csr_array((coefficients, (self.query, self.subset)), shape=shape)

    @cached_property
    def privacy_powers(self) -> sp.csr_array:
        """Subset types × roles: how often each role occurs in a subset."""
        rows, columns = np.nonzero(self.subset_roles >= 0)
        roles = self.subset_roles[rows, columns]
        return sp.csr_array((np.ones(len(rows)), (rows, roles)), shape=(self.subsets, self.roles))


def build_terms(roles: Roles, measurable: IntArray) -> Terms:
    """All terms of a workload; `measurable[role]` is 0 where nothing but the sum exists."""
    pieces = [_terms_of_shape(roles, measurable, *group) for group in _types_by_shape(roles)]
    ordinary = sum(len(piece[0]) for piece in pieces)
    pieces += [_terms_of_joint(roles, int(t)) for t in np.flatnonzero(roles.type_joint >= 0)]
    subset_rows = [piece[2] for piece in pieces]
    width = max((rows.shape[1] for rows in subset_rows), default=0)
    stacked = np.concatenate([widened(rows, width) for rows in subset_rows])
    first, subset = unique_rows(stacked)
    slots = max((piece[3].shape[1] for piece in pieces), default=0)
    filler = len(roles.pair_role)
    sizes = np.array([len(role.members) for role in roles.roles] or [0])
    return Terms(
        query=np.concatenate([piece[0] for piece in pieces]),
        subset=subset,
        log_count=np.concatenate([piece[1] for piece in pieces]),
        pair=np.concatenate([widened(piece[3], slots, filler) for piece in pieces]),
        measured=np.concatenate([widened(piece[4], slots, 0) for piece in pieces]),
        summed=np.concatenate([widened(piece[5], slots, 0) for piece in pieces]),
        queries=len(roles.types),
        roles=len(roles.roles),
        subset_roles=stacked[first],
        subset_count=_set_counts(stacked[first], sizes),
        joint=np.arange(ordinary, len(stacked)),
    )


def _types_by_shape(roles: Roles) -> list[tuple[tuple[int, ...], IntArray, IntArray]]:
    """Types grouped by multiplicities: (multiplicities, type numbers, pairs as types × slots)."""
    groups: dict[tuple[int, ...], list[tuple[int, list[int]]]] = {}
    # Types are sorted, padded by −1 at the end: simple are those without a repeated role.
    repeated = (roles.types[:, 1:] == roles.types[:, :-1]) & (roles.types[:, 1:] >= 0)
    simple = ~repeated.any(axis=1) & (roles.type_joint < 0)
    lengths = (roles.types >= 0).sum(axis=1)
    result: list[tuple[tuple[int, ...], IntArray, IntArray]] = []
    for length in np.unique(lengths[simple]):
        numbers = np.flatnonzero(simple & (lengths == length))
        result.append(((1,) * int(length), numbers, roles.types[numbers, :length]))
    for number in np.flatnonzero(~simple & (roles.type_joint < 0)):
        pairs, often = np.unique(roles.types[number, : lengths[number]], return_counts=True)
        groups.setdefault(tuple(often.tolist()), []).append((int(number), pairs.tolist()))
    for multiplicities, members in groups.items():
        chosen = np.array([number for number, _ in members])
        result.append((multiplicities, chosen, np.array([pairs for _, pairs in members])))
    return result


def _terms_of_shape(
    roles: Roles, measurable: IntArray, often: tuple[int, ...], numbers: IntArray, pairs: IntArray
) -> tuple[IntArray, Array, IntArray, IntArray, IntArray, IntArray]:
    """Terms of types with equal multiplicities, all at once: a row per type and choice of j."""
    choices = np.array(list(product(*(range(k + 1) for k in often))), dtype=np.int64)
    counts = np.array(
        [float(prod(comb(k, int(j)) for k, j in zip(often, c, strict=True))) for c in choices]
    )
    role = roles.pair_role[pairs]  # types × slots
    measured = np.broadcast_to(choices, (len(numbers), *choices.shape))
    allowed = ~((measured > 0) & (measurable[role] == 0)[:, None, :]).any(axis=2)
    # A slot of multiplicity k holds up to k attributes of the subset: the first j of its k places.
    places = [np.zeros((len(numbers), len(choices), 0), dtype=np.int64)]
    for slot, k in enumerate(often):
        taken = np.arange(k) < choices[:, slot, None]  # choices × places
        places.append(np.where(taken, role[:, slot, None, None], -1))
    subset = np.concatenate(places, axis=2)
    subset = -np.sort(-subset, axis=2)  # descending, padding last
    query = np.broadcast_to(numbers[:, None], allowed.shape)
    pair = np.broadcast_to(pairs[:, None, :], measured.shape)
    log_count = np.broadcast_to(np.log(counts), allowed.shape)
    summed = np.array(often, dtype=np.int64) - measured
    return (
        query[allowed],
        log_count[allowed],
        subset[allowed],
        pair[allowed],
        measured[allowed],
        summed[allowed],
    )


def _terms_of_joint(
    roles: Roles, number: int
) -> tuple[IntArray, Array, IntArray, IntArray, IntArray, IntArray]:
    """Terms of one dense-matrix type: one per subset, attributes in their order, the last
    fastest."""
    role = joint_roles(roles, number)
    inside = np.array(list(product((0, 1), repeat=len(role))), dtype=np.int64)
    subset = -np.sort(-np.where(inside, role, -1), axis=1)
    nothing = np.zeros((len(inside), 0), dtype=np.int64)
    return (np.full(len(inside), number), np.zeros(len(inside)), subset, nothing, nothing, nothing)


def joint_roles(roles: Roles, number: int) -> IntArray:
    """The roles of a dense-matrix type in the order of its attributes (each has one member)."""
    pairs = roles.types[number]
    role = roles.pair_role[pairs[pairs >= 0]]
    order = np.argsort([roles.roles[r].members[0] for r in role])
    return np.asarray(role[order])


def _set_counts(subset_roles: IntArray, sizes: IntArray) -> Array:
    """∏ over roles of C(members, how many of them): the number of attribute sets of each type."""
    count = np.ones(len(subset_roles))
    repeated = np.zeros(len(subset_roles))
    previous = np.full(len(subset_roles), -1)
    for column in subset_roles.T:
        repeated = np.where((column == previous) & (column >= 0), repeated + 1, 0)
        # C(N, j+1) = C(N, j)·(N − j)/(j + 1)
        following = count * (sizes[column] - repeated) / (repeated + 1)
        count = np.where(column >= 0, following, count)
        previous = column
    return count
