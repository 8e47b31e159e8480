"""Exact errors of the residual mechanism's answers.

    Var(row q of Q_B) = Σ_{A⊆B} σ²_A ∏_{i∈A} (WVVᵀWᵀ)_qq ∏_{i∈B∖A} (Wτ)²_q
    Cov(Q_B, Q_C)    = Σ_{A⊆B∩C} σ²_A ⊗_i F_i

with F_i = WV(W'V)ᵀ for i ∈ A, Wτ(W'τ)ᵀ for the other common attributes, the column Wτ where only
Q_B names the attribute, and the row (W'τ)ᵀ where only Q_C does. Blocks that share the attributes'
V_i are added up together, as one tensor of σ²_A; those with rows of their own one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.arrays import IntArray, subsets
from noiseplan.errors import PlanError, remedy
from noiseplan.matrices import IdentityMatrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.own_answers import Asked
from noiseplan.queries import Query, Workload

if TYPE_CHECKING:
    from noiseplan.mechanisms.residual import ResidualMechanism

COVARIANCE_LIMIT = 50_000_000


def row_variances(mechanism: ResidualMechanism, query: Query) -> Array:
    """The variance of every row of an answerable query."""
    if query.joint is not None:
        return np.diagonal(row_covariances(mechanism, query, query)).copy()
    return variances_on_sets(mechanism, query, mechanism.set_of(query.attributes))[:, 0]


def _row_pairs(bases: Sequence[Basis], query: Query) -> list[Array]:
    """(Wτ)² and diag(WVVᵀWᵀ) of every row, attribute by attribute."""
    pairs = []
    for basis, factor in zip(bases, query.matrices(), strict=True):
        summed = factor.matmul(basis.centre[:, None])[:, 0] ** 2
        pairs.append(np.column_stack([summed, basis.residual_rows(factor)]))
    return pairs


def row_covariances(mechanism: ResidualMechanism, query: Query, other: Query) -> Array:
    """The covariance of every row of one answerable query with every row of another."""
    if query.rows * other.rows > COVARIANCE_LIMIT:
        raise PlanError(
            f"the covariance of {query.rows:,} × {other.rows:,} rows has more than "
            f"{COVARIANCE_LIMIT:,} numbers; ask for fewer rows, "
            + remedy("argument", "e.g. with Custom([[...]])", "as in NAME=25..34")
        )
    if query.joint is not None or other.joint is not None:
        return _dense_covariance(mechanism, query, other)
    return _kronecker_covariance(mechanism, query, other)


def recovery(
    mechanism: ResidualMechanism, query: Query, inside: Sequence[str], block: Block
) -> Array:
    """rows × ω_A: what each number that a block measures on A = `inside` adds to each row."""
    if block.whole:
        rows = asked_of(mechanism, query, inside, block).recovery()
        return rows if query.joint is None else query.joint @ rows
    axes = dict(zip(inside, block.axes, strict=True))
    steps = [
        axes[n].recover if n in axes else mechanism.basis(n).centre[:, None]
        for n in query.attributes
    ]
    if query.joint is not None:
        return query.joint @ kronecker_dense(steps)
    return kronecker_dense([f.matmul(s) for f, s in zip(query.matrices(), steps, strict=True)])


def asked_of(
    mechanism: ResidualMechanism, query: Query, inside: Sequence[str], block: Block
) -> Asked:
    """A query, or all cells of its attributes if it is a matrix, to the block on A = `inside`."""
    bases = [mechanism.basis(n) for n in query.attributes]
    cells = [IdentityMatrix(basis.size) for basis in bases]
    factors = cells if query.joint is not None else query.matrices()
    pattern = tuple(i for i, n in enumerate(query.attributes) if n in inside)
    return Asked(factors, [basis.centre for basis in bases], pattern, block)


def _kronecker_covariance(mechanism: ResidualMechanism, query: Query, other: Query) -> Array:
    names = [n for n in mechanism.schema.names if n in query.factors or n in other.factors]
    common = [n for n in names if n in query.factors and n in other.factors]
    tensor = _sigma2_tensor(mechanism, common)
    total = np.zeros((query.rows, other.rows))
    for pattern, number, _, place in mechanism.blocks.own_inside(mechanism.set_of(common)):
        block, inside = mechanism.blocks.blocks[number], [common[i] for i in pattern]
        tensor[tuple(int(i in pattern) for i in range(len(common)))] = 0.0
        total += block.variance[place[0]] * _of_block(mechanism, query, other, inside, block)
    tensor = tensor.reshape([2 if n in common else 1 for n in names] + [1])
    splits = [(_split(mechanism, query, n), _split(mechanism, other, n)) for n in names]
    pieces = []
    for name, (left, right) in zip(names, splits, strict=True):
        columns = [np.outer(left[:, 0], right[:, 0]).ravel()]
        if name in common:
            columns.append((left[:, 1:] @ right[:, 1:].T).ravel())
        pieces.append(np.column_stack(columns))
    shape = [len(side) for pair in splits for side in pair]
    return total + _by_rows(kronecker_apply(pieces, tensor), shape)


def _by_rows(values: Array, shape: Sequence[int]) -> Array:
    """Axes come as (rows, other's rows) per attribute; sorted into (rows …) × (other's rows …)."""
    axes = [*range(0, len(shape), 2), *range(1, len(shape), 2)]
    return values.reshape(shape).transpose(axes).reshape(prod(shape[::2]), prod(shape[1::2]))


def _of_block(
    mechanism: ResidualMechanism, query: Query, other: Query, inside: Sequence[str], block: Block
) -> Array:
    """What the block on A = `inside` adds to the covariance, in units of its noise: ⊗F_i."""
    if block.whole:
        left, right = (recovery(mechanism, q, inside, block) for q in (query, other))
        return np.asarray(left @ right.T)
    axes = dict(zip(inside, block.axes, strict=True))
    pieces, shape = [], []
    for name in mechanism.schema.names:
        if name in query.factors or name in other.factors:
            left, right = (
                q.factors[name].matrix(mechanism.schema[name]).matmul(axes[name].recover)
                if name in axes
                else _split(mechanism, q, name)[:, :1]
                for q in (query, other)
            )
            pieces.append(left @ right.T)
            shape += [len(left), len(right)]
    return _by_rows(kronecker_dense([piece.reshape(-1, 1) for piece in pieces]), shape)


def _split(mechanism: ResidualMechanism, query: Query, name: str) -> Array:
    """[Wτ | WV] of the query's factor; the number one where the query sums over the attribute."""
    if name not in query.factors:
        return np.ones((1, 1))
    return mechanism.basis(name).split(query.factors[name].matrix(mechanism.schema[name]))


def _dense_covariance(mechanism: ResidualMechanism, query: Query, other: Query) -> Array:
    common = [n for n in query.attributes if n in other.factors]
    total = np.zeros((query.rows, other.rows))
    for inside in subsets(common):
        block = mechanism.block_on(inside)
        if block is not None:
            left, right = (recovery(mechanism, q, inside, block) for q in (query, other))
            total += mechanism.noise_variance(inside) * left @ right.T
    return total


def _sigma2_tensor(mechanism: ResidualMechanism, names: Sequence[str]) -> Array:
    """σ²_A of every A inside a set of attributes, shape (2, …, 2); index 1 means inside A."""
    tensor = np.zeros((2,) * len(names))
    for inside in subsets(names):
        sigma2 = mechanism.noise_variance(inside)
        # An unmeasured subset of an answerable query has coefficient zero, whatever stands here.
        place = tuple(int(name in inside) for name in names)
        tensor[place] = sigma2 if np.isfinite(sigma2) else 0.0
    return tensor


# ---------------------------------------------------------------------- queries alike


def variances_on_sets(mechanism: ResidualMechanism, query: Query, sets: IntArray) -> Array:
    """Row variances of one query asked of many sets of attributes, rows × sets."""
    noise = np.zeros((2,) * sets.shape[1] + (len(sets),))  # an unmeasured set has no coefficient
    added = np.zeros((query.rows, len(sets)))
    for pattern in subsets(range(sets.shape[1])):
        for number, mine, place in mechanism.blocks.find(sets[:, list(pattern)]).groups():
            block, inside = mechanism.blocks.blocks[number], [query.attributes[i] for i in pattern]
            if block.own is None:
                axes = tuple(int(i in pattern) for i in range(sets.shape[1]))
                noise[axes][mine] = block.variance[place]
            else:
                rows = asked_of(mechanism, query, inside, block).row_variances()
                added[:, mine] += np.outer(rows, block.variance[place])
    shared = kronecker_apply(_row_pairs(mechanism.blocks.bases_on(sets[0]), query), noise)
    return added + shared.reshape(query.rows, len(sets))


def noise_inside(mechanism: ResidualMechanism, sets: IntArray) -> Array:
    """σ²_A of every A inside each set, 2^width × sets; infinite where it is not measured."""
    width = sets.shape[1]
    found = np.empty((2,) * width + (len(sets),))
    for pattern in subsets(range(width)):
        place = tuple(int(i in pattern) for i in range(width))
        found[place] = mechanism.blocks.variance(sets[:, list(pattern)])
    return found.reshape(-1, len(sets))


def own_blocks_inside(mechanism: ResidualMechanism, sets: IntArray) -> IntArray:
    """Blocks with rows of their own × sets: whether the set has one inside.

    A block counts once for each pattern of attributes that it has inside some set.
    """
    every = np.arange(len(sets))
    found = [np.isin(every, mine) for _, _, mine, _ in mechanism.blocks.own_inside(sets)]
    return np.array(found, dtype=np.int64).reshape(len(found), len(sets))


def attribute_sets(workload: Workload, query: Query, group: IntArray) -> IntArray:
    """The attributes of some queries alike, a set a row."""
    return workload.columns.attributes[group, : len(query.attributes)]
