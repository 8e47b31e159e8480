"""Symmetry: attributes that play the same role in a workload share everything.

Two attributes play the same role if swapping them leaves the workload as it is. Then queries come
in
*types* (how many attributes of each role, under which factor), and so do the subsets that are
measured; a plan needs one number per type, not one per table. A workload without symmetry is the
case where every attribute has a role of its own, and takes the same path.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from math import comb

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices import (
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    StackMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.queries import Custom, Identity, Prefix, Ranges, Total, Workload
from noiseplan.queries.factors import Permuted


@dataclass(frozen=True, eq=False)
class Role:
    """Attributes that may be exchanged for one another.

    `factors` are the numbers of the factors asked of them; `matrices` the same as matrices.
    """

    members: IntArray
    size: int
    factors: tuple[int, ...]
    matrices: tuple[Matrix, ...]
    plain: bool  # only ever asked for by value: the identity factor and nothing else


@dataclass(frozen=True, eq=False)
class Roles:
    """The roles of a workload's attributes and the types of its queries.

    A *pair* is a role with one of its factors. `types[t]` lists the pairs of a query of type t,
    padded with −1. `type_joint[t]` is the number of the dense matrix of the type, or −1.
    """

    roles: tuple[Role, ...]
    of_attribute: IntArray  # role of each attribute, −1 if no query names it
    pair_role: IntArray
    pair_factor: IntArray
    types: IntArray
    type_of_query: IntArray
    type_first: IntArray  # the first query of each type
    type_count: IntArray  # queries of each type
    type_distinct: (
        IntArray  # different tables among them; 0 if some are asked more often than others
    )
    type_weight: Array  # the workload's weight
    type_priority: Array  # the weight to plan with
    type_joint: IntArray

    @property
    def attributes(self) -> int:
        """How many attributes queries name."""
        return int((self.of_attribute >= 0).sum())

    def pair_matrix(self, pair: int) -> Matrix:
        role = self.roles[int(self.pair_role[pair])]
        place = role.factors.index(int(self.pair_factor[pair]))
        return role.matrices[place]


def find_roles(
    workload: Workload, priorities: Array, share: bool = True, own: Collection[int] = ()
) -> Roles:
    """The coarsest roles that can be verified; splits roles until every query type is complete.

    `priorities` are the weights to plan with, one per query (weights of the workload, or 1/target).
    Without `share` every attribute has a role of its own, and so have those numbered in `own`,
    which are measured by a strategy of their own.
    """
    # Weights and priorities by their ranks: small integers, equal where the numbers are.
    ranks = [np.unique(c, return_inverse=True)[1] for c in (workload.columns.weights, priorities)]
    kind = unique_rows(np.column_stack(ranks))[1]
    colour = _first_colours(workload, own)
    if share:
        colour = _refined(workload, colour, kind)
    else:
        colour = np.where(colour >= 0, np.arange(len(colour)), -1)
    while True:
        roles = _roles_from_colours(workload, colour, kind, priorities, own)
        broken = _incomplete_roles(roles)
        if not broken:
            return roles
        for role in broken:
            members = roles.roles[role].members
            colour[members] = colour.max() + 1 + np.arange(len(members))


def _matrix_key(workload: Workload, attribute: int, factor: int) -> Hashable:
    """Equal keys mean equal matrices."""
    kind, own = workload.columns.distinct[factor], workload.schema.attributes[attribute]
    if isinstance(kind, Identity | Prefix | Ranges | Total | Custom | Permuted):
        return factor, own.size, own.missing is None
    # Others may look at labels (as Levels does), so their numbers decide.
    return factor, _content(workload.matrix(attribute, factor))


def _content(matrix: Matrix) -> Hashable:
    """Equal where matrices of one factor are; long ones are not written out for it."""
    if isinstance(matrix, StackMatrix):
        return tuple(_content(block) for block in matrix.blocks)
    if isinstance(matrix, GroupMatrix):
        return matrix.group.tobytes()
    if isinstance(matrix, IdentityMatrix | TotalMatrix):
        return matrix.shape
    if isinstance(matrix, PaddedMatrix):
        return matrix.shape, _content(matrix.inner)
    return matrix.dense().tobytes()


def _first_colours(workload: Workload, own: Collection[int]) -> IntArray:
    """Attributes of equal size and equal factors get equal colours; −1 where no query asks."""
    columns, shape = workload.columns, workload.schema.shape
    asked: dict[int, list[Hashable]] = {}
    for attribute, factor in workload.pairs():
        asked.setdefault(attribute, []).append(_matrix_key(workload, attribute, factor))
    keys: dict[int, Hashable] = {a: (shape[a], tuple(f)) for a, f in asked.items()}
    for a in np.unique(columns.attributes[columns.joint >= 0]):
        if a >= 0:
            keys[int(a)] = ("alone", int(a))  # a dense matrix knows no symmetry
    keys |= {a: ("alone", a) for a in own if a in keys}
    number: dict[Hashable, int] = {}
    colour = np.full(len(shape), -1)
    for a, key in keys.items():
        colour[a] = number.setdefault(key, len(number))
    return colour


def _typed(
    workload: Workload, colour: IntArray, kind: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs (colour and factor) of each query, descending; first query of each type; type of
    each."""
    c = workload.columns
    colour = np.append(colour, -1)  # so that the padding −1 stays −1
    factors = np.where((c.joint < 0)[:, None], c.factors, 0)
    pairs = np.where(c.attributes >= 0, colour[c.attributes] * len(c.distinct) + factors, -1)
    pairs = -np.sort(-np.where(pairs >= 0, pairs, -1), axis=1)  # descending, so padding comes last
    first, types = unique_rows(np.column_stack([pairs, kind, c.joint]))
    return pairs, first, types


def _refined(workload: Workload, colour: IntArray, kind: IntArray) -> IntArray:
    """Split colours by how often their attributes occur in each query type, until nothing
    splits."""
    c = workload.columns
    while True:
        _, first, types = _typed(workload, colour, kind)
        slots = len(first) * len(c.distinct)
        if slots * len(colour) > 20_000_000:  # no symmetry worth finding in so many types
            named = np.flatnonzero(colour >= 0)
            colour = colour.copy()
            colour[named] = np.arange(len(named))
            return colour
        at = (types[:, None] * len(c.distinct) + np.maximum(c.factors, 0)) * len(
            colour
        ) + c.attributes
        seen = np.bincount(at[c.attributes >= 0], minlength=slots * len(colour))
        profile = np.column_stack([colour, seen.reshape(slots, len(colour)).T])
        finer = np.unique(profile, axis=0, return_inverse=True)[1].reshape(-1)
        finer = np.where(colour >= 0, finer, -1)
        if len(np.unique(finer)) == len(np.unique(colour)):
            return colour
        colour = finer


def _roles_from_colours(
    workload: Workload, colour: IntArray, kind: IntArray, priorities: Array, own: Collection[int]
) -> Roles:
    c = workload.columns
    present = np.unique(colour[colour >= 0])
    of_attribute = np.where(colour >= 0, np.searchsorted(present, colour), -1)
    asked: dict[int, set[int]] = {}
    for attribute, factor in workload.pairs():
        asked.setdefault(int(of_attribute[attribute]), set()).add(factor)
    in_joint = set(of_attribute[c.attributes[c.joint >= 0]].ravel().tolist())
    roles = []
    for r in range(len(present)):
        members = np.flatnonzero(of_attribute == r)
        factors = tuple(sorted(asked.get(r, ())))
        matrices = tuple(workload.matrix(int(members[0]), f) for f in factors)
        plain = r not in in_joint and all(isinstance(c.distinct[f], Identity) for f in factors)
        plain = plain and int(members[0]) not in own
        size = workload.schema.shape[int(members[0])]
        roles.append(Role(members, size, factors, matrices, plain))
    pairs, first, type_of_query = _typed(workload, of_attribute, kind)
    used = np.unique(pairs[pairs >= 0])
    types = np.where(pairs[first] >= 0, np.searchsorted(used, pairs[first]), -1)
    return Roles(
        tuple(roles),
        of_attribute,
        used // len(c.distinct),
        used % len(c.distinct),
        types,
        type_of_query,
        first,
        np.bincount(type_of_query),
        _distinct_tables(workload, type_of_query),
        c.weights[first],
        priorities[first],
        c.joint[first],
    )


def _distinct_tables(workload: Workload, type_of_query: IntArray) -> IntArray:
    """Different tables of each type, 0 where they do not all occur equally often.

    The same table may be asked for under several names, and then counts several times.
    """
    c = workload.columns
    table = unique_rows(np.column_stack([c.attributes, c.factors, c.joint, type_of_query]))[1]
    often = np.bincount(table)
    of_table = np.zeros(len(often), dtype=np.int64)
    of_table[table] = type_of_query
    distinct = np.bincount(of_table)
    most = np.zeros_like(distinct)
    np.maximum.at(most, of_table, often)
    return np.where(distinct * most == np.bincount(type_of_query), distinct, 0)


def _incomplete_roles(roles: Roles) -> set[int]:
    """Roles of more than one member that occur in a type with fewer queries than placements."""
    broken: set[int] = set()
    for type_pairs, count, joint in zip(
        roles.types, roles.type_distinct, roles.type_joint, strict=True
    ):
        if joint >= 0:
            continue
        pairs, often = np.unique(type_pairs[type_pairs >= 0], return_counts=True)
        placements = 1
        used: dict[int, int] = {}
        for pair, k in zip(pairs.tolist(), often.tolist(), strict=True):
            role = int(roles.pair_role[pair])
            left = len(roles.roles[role].members) - used.get(role, 0)
            placements *= comb(left, k)
            used[role] = used.get(role, 0) + k
        if placements != count:
            broken |= {role for role in used if len(roles.roles[role].members) > 1}
    return broken
