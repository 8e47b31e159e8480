"""Single rows: the variance of every answer, not only the sum over a table.

The variance of row q = (q_1, …, q_k) of a query is multilinear,

    Σ_{A⊆B} σ²_A ∏_{i∈A} a_i[q_i] ∏_{i∈B∖A} b_i[q_i] ,    a = diag(W V Vᵀ Wᵀ),  b = (W τ)² ,

so its largest value over q_i is always at a corner of the upper right hull of the points (a_i,
b_i): only those rows need to be looked at for the worst variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise, product
from math import factorial, prod
from types import MappingProxyType
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError, remedy
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.planning.variance_terms import joint_roles
from noiseplan.planning.workload_types import Design, joint_coefficients

NONE: Final[Mapping[int, Basis]] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class RowType:
    """The rows of one query type: the pair of each attribute, and the subset type of each choice of
    attributes (2^k, last attribute fastest, −1 where nothing can be measured)."""

    number: int
    pairs: tuple[int, ...]
    subsets: IntArray
    joint: int  # position in design.joints, or −1


def row_types(design: Design) -> list[RowType]:
    """Types that ask for more than plain values; the rows of the others are all alike."""
    roles = design.roles
    index = {tuple(row[row >= 0].tolist()): i for i, row in enumerate(design.terms.subset_roles)}
    joint_place = {joint.number: i for i, joint in enumerate(design.joints)}
    plain = np.append([roles.roles[r].plain for r in roles.pair_role], True)
    result = []
    for number in np.flatnonzero(~plain[roles.types].all(axis=1) | (roles.type_joint >= 0)):
        pairs = tuple(int(p) for p in roles.types[number] if p >= 0)
        on = roles.pair_role[list(pairs)]
        if int(number) in joint_place:
            on = joint_roles(roles, int(number))
        choices = product((False, True), repeat=len(on))
        subsets = [
            index.get(tuple(sorted(on[list(c)].tolist(), reverse=True)), -1) for c in choices
        ]
        joint = joint_place.get(int(number), -1)
        result.append(RowType(int(number), pairs, np.array(subsets), joint))
    return result


def plain_types(design: Design) -> IntArray:
    """Types whose rows all have the same variance."""
    special = {row.number for row in row_types(design)}
    return np.array([t for t in range(design.terms.queries) if t not in special], dtype=np.int64)


def row_points(
    design: Design, inverses: dict[int, Array], known: Mapping[int, Basis] = NONE
) -> list[Array]:
    """[b | a] (rows × 2) of every pair; one row for plain roles.

    `known` are bases of roles by formula, which need no inverse.
    """
    points = []
    for pair, role in enumerate(design.roles.pair_role):
        role = int(role)
        n = design.roles.roles[role].size
        if design.roles.roles[role].plain:
            points.append(np.array([[n**-2.0, (n - 1) / n]]))
        elif design.grams[pair] is None:  # stands for a dense-matrix query
            points.append(np.zeros((1, 2)))
        elif role in known:
            matrix, basis = design.roles.pair_matrix(pair), known[role]
            centre = matrix.matmul(basis.centre[:, None])[:, 0] ** 2
            points.append(np.column_stack([centre, basis.residual_rows(matrix)]))
        else:
            inverse = inverses.get(role, np.ones((1, 1)))
            groups = design.groups[role]
            members = np.bincount(groups)
            full = (inverse / members[:, None])[groups]  # over values
            matrix = design.roles.pair_matrix(pair)
            centre = matrix.matmul(full[:, :1])[:, 0] ** 2
            spread = matrix.quadratic_rows(full[:, 1:] @ full[:, 1:].T)
            points.append(np.column_stack([centre, np.maximum(spread, 0.0)]))
    return points


def hull_rows(points: Array) -> IntArray:
    """The corners of the upper right hull of points (b, a): the rows that can be worst."""
    order = np.lexsort((points[:, 1], points[:, 0]))[::-1]  # by b, then a, descending
    corners: list[int] = []
    heights = points[order, 1]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(heights)[:-1]])
    for i in order[heights > before]:  # the others are dominated: smaller b and no larger a
        x, y = points[i]
        while len(corners) >= 2:
            (x1, y1), (x2, y2) = points[corners[-2]], points[corners[-1]]
            # The middle corner stays only if it lies strictly outside the line to the new one.
            if (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0:
                break
            corners.pop()
        corners.append(int(i))
    return np.array(corners, dtype=np.int64)


def row_coefficients(
    design: Design, row: RowType, points: list[Array], inverses: dict[int, Array]
) -> tuple[Array, IntArray, Array]:
    """The variance of every (chosen) row as a linear function of σ².

    Returns coefficients (rows × choices), the subset type of each choice (−1 for none), and how
    many rows of the query each row stands for: attributes of one pair may be exchanged, so only
    combinations of their rows are listed, not arrangements.
    """
    if row.joint >= 0:
        joint = design.joints[row.joint]
        squares, _ = joint_coefficients(joint, design.joint_inverses(joint, inverses))
        return squares.reshape(len(squares), -1), row.subsets, np.ones(len(squares))
    pairs, often = np.unique(row.pairs, return_counts=True)
    values, repeats = np.ones((1, 1)), np.ones(1)
    for pair, k in zip(pairs, often, strict=True):
        polynomials, arrangements = _combined_rows(points[pair], int(k))
        values = np.einsum("rs,qj->rqsj", values, polynomials)
        values = values.reshape(-1, values.shape[2] * values.shape[3])
        repeats = np.outer(repeats, arrangements).ravel()
    choices = product(*(range(k + 1) for k in often))
    return values, np.array([_subset_of(row, pairs, choice) for choice in choices]), repeats


def _combined_rows(table: Array, k: int) -> tuple[Array, Array]:
    """∏ (b + a z) over each combination of k rows of a table [b | a], and its arrangements.

    The coefficient of z^j collects all ways to have j of the k attributes inside the subset.
    """
    picks = np.array(list(combinations_with_replacement(range(len(table)), k)), dtype=np.int64)
    polynomial = np.ones((len(picks), 1))
    for column in picks.T:
        b, a = table[column, 0, None], table[column, 1, None]
        zero = np.zeros((len(picks), 1))
        polynomial = np.hstack([polynomial * b, zero]) + np.hstack([zero, polynomial * a])
    arrangements = np.full(len(picks), float(factorial(k)))
    run = np.ones(len(picks))
    for left, right in pairwise(picks.T):
        run = np.where(left == right, run + 1, 1)
        arrangements /= run
    return polynomial, arrangements


def _subset_of(row: RowType, pairs: IntArray, choice: tuple[int, ...]) -> int:
    """The subset type with `choice[p]` attributes of each distinct pair inside."""
    wanted = dict(zip(pairs.tolist(), choice, strict=True))
    place = 0
    for pair in row.pairs:  # the first ones of each pair are inside, as good as any
        inside = wanted[pair] > 0
        wanted[pair] -= inside
        place = 2 * place + inside
    return int(row.subsets[place])


def worst_rows(
    design: Design, inverses: dict[int, Array], known: Mapping[int, Basis] = NONE
) -> tuple[sp.csr_array, IntArray]:
    """Candidates for the worst row of every type: rows × subset types, and the type of each row."""
    points = row_points(design, inverses, known)
    corners = [table[hull_rows(table)] for table in points]
    pieces, owners = [plain_rows(design, inverses)], [plain_types(design)]
    for row in row_types(design):
        values, subsets, _ = row_coefficients(design, row, corners, inverses)
        pieces.append(_sparse_rows(design, values, subsets))
        owners.append(np.full(len(values), row.number))
    return sp.csr_array(sp.vstack(pieces)), np.concatenate(owners)


def plain_rows(design: Design, inverses: dict[int, Array]) -> sp.csr_array:
    """One row for each type whose rows are alike: the sum of variances shared evenly."""
    moments = design.moments(inverses, design.products(inverses))
    terms = design.terms
    matrix = terms.matrix(terms.coefficients(moments.residual, moments.mean, moments.joint))
    chosen = plain_types(design)
    scale = sp.diags_array(1.0 / design.type_rows[chosen])
    return sp.csr_array(scale @ matrix[chosen])


def grid_variances(tables: list[Array], sigma2: Array) -> Array:
    """Variances of all combinations of rows, shape (rows_1, …, rows_k)."""
    return kronecker_apply(tables, sigma2.reshape(*(2,) * len(tables), 1))[..., 0]


# Rows listed one by one for an objective that looks at all of them.
ROW_LIMIT = 3_000_000


def all_rows(design: Design, inverses: dict[int, Array]) -> tuple[sp.csr_array, IntArray, Array]:
    """Every distinct row of every type: coefficients, type, and how often it occurs."""
    points = row_points(design, inverses)
    count = sum(prod(len(points[p]) for p in row.pairs) for row in row_types(design))
    if count > ROW_LIMIT:
        raise PlanError(
            f"this objective looks at every row, and the workload has {count:,} distinct ones "
            f"(limit {ROW_LIMIT:,}); use "
            + remedy(
                "argument", "TotalVariance() or WorstVariance()", 'objective = "total" or "worst"'
            )
        )
    chosen = plain_types(design)
    pieces, owners = [plain_rows(design, inverses)], [chosen]
    often = [(design.type_rows * design.roles.type_count)[chosen].astype(float)]
    for row in row_types(design):
        values, subsets, repeats = row_coefficients(design, row, points, inverses)
        pieces.append(_sparse_rows(design, values, subsets))
        owners.append(np.full(len(values), row.number))
        shared = (
            design.type_rows[row.number] / repeats.sum()
        )  # rows that differ in plain values only
        often.append(repeats * shared * design.roles.type_count[row.number])
    return sp.csr_array(sp.vstack(pieces)), np.concatenate(owners), np.concatenate(often)


def _sparse_rows(design: Design, values: Array, subsets: IntArray) -> sp.csr_array:
    known = subsets >= 0
    owner = np.repeat(np.arange(len(values)), known.sum())
    column = np.tile(subsets[known], len(values))
    shape = (len(values), design.terms.subsets)
    return sp.csr_array((values[:, known].ravel(), (owner, column)), shape=shape)
