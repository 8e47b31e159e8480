"""What the residual mechanism can answer, and what to say when it cannot.

A query needs its residual on a set A of attributes, ⊗_{i∈A} W_i(I − τ_i1ᵀ) ⊗_{i∉A} W_iτ_i, unless
that is zero; it then has to lie in the row space of what is measured on A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.arrays import immutable, subsets
from noiseplan.errors import UnanswerableError
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import ROUNDING, Basis, WideBasis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.own_rows import without_sums
from noiseplan.mechanisms.residual_errors import asked_of
from noiseplan.queries import Query

if TYPE_CHECKING:
    from noiseplan.mechanisms.residual import ResidualMechanism

# What rows leave of a query's residual, as a share of the query: more than rounding makes.
LOST = 1e-9
# Random counts on which rows are tried: what they all miss is rounding.
TRIED = 8


def require_in_span(mechanism: ResidualMechanism, query: Query) -> None:
    """Raise `UnanswerableError` unless the query lies in the span of what is measured."""
    if query.schema != mechanism.schema:
        raise UnanswerableError("the query is about another schema than the plan")
    blocks, (own,) = mechanism.blocks, mechanism.set_of(query.attributes)
    missing = [query.schema.names[a] for a in own if blocks.basis_of[a] < 0]
    if missing:
        raise UnanswerableError(
            f"{query.name!r} needs {missing}, which the plan does not measure; it measures "
            f"{list(mechanism.attributes)}. Add a query on {missing} to the workload"
        )
    span = _Span(mechanism, query)
    for pattern in subsets(range(len(own))):
        names = [query.attributes[i] for i in pattern]
        number = int(blocks.find(own[None, list(pattern)]).number[0])
        block = None if number < 0 else blocks.blocks[number]
        untold = None if block is None else span.untold(names, block)
        if (block is None or untold) and span.needs(names):
            raise UnanswerableError(_refusal(query, names, untold))


def _refusal(query: Query, names: Sequence[str], untold: Sequence[str] | None) -> str:
    if untold is None:
        return (
            f"{query.name!r} needs {' × '.join(names) or 'the total'} measured together, and "
            f"the plan does not: add a query on {names} to the workload"
        )
    if len(names) == 1:
        return (
            f"{query.name!r} tells values of {names[0]!r} apart that no query of the plan's "
            f"workload tells apart: add a query with this factor on {names[0]!r} to the workload"
        )
    return (
        f"{query.name!r} tells values of {', '.join(map(repr, untold))} apart, by "
        f"{' × '.join(names)}, that no query of the plan's workload tells apart there: add a query "
        f"with this factor on {names} to the workload"
    )


@immutable
@dataclass(frozen=True, eq=False)
class _Span:
    """One query against what is measured; each factor is compared with each basis once."""

    mechanism: ResidualMechanism
    query: Query
    known: dict[tuple[str, Basis], bool] = field(default_factory=dict)

    def untold(self, names: Sequence[str], block: Block) -> list[str]:
        """The attributes of which the query asks more than the block tells."""
        if block.own is not None and block.own.whole:
            return [] if self._in_rows(names, block) else list(names)
        axes = list(zip(names, block.axes, strict=True))
        if self.query.joint is None:
            for name, basis in axes:
                if (name, basis) not in self.known:
                    factor = self.query.factors[name].matrix(self.mechanism.schema[name])
                    self.known[name, basis] = basis.spans(factor)
            return [name for name, basis in axes if not self.known[name, basis]]
        short = [(i, *pair) for i, pair in enumerate(axes, 1) if not _tells_all(pair[1])]
        if not short:
            return []
        left, most = self._residual(names), LOST * self._lengths()
        return [name for axis, name, basis in short if _lost(left, axis, basis, most)]

    def _in_rows(self, names: Sequence[str], block: Block) -> bool:
        """Whether R = RVD for the query's residual R, tried on random counts g.

        R(⊗(I − τ1ᵀ) − VD)g is the query asked of what the rows leave over of g.
        """
        (rows,), centres = block.axes, [self.mechanism.basis(name).centre for name in names]
        if rows.rows == prod(n - 1 for n in block.sizes):
            return True
        some = np.random.default_rng(0).standard_normal((rows.size, TRIED))
        left = without_sums(some, centres) - rows.recover @ (np.asarray(rows.measure) @ some)
        lost = asked_of(self.mechanism, self.query, names, block).of_cells(left).reshape(-1, TRIED)
        if self.query.joint is not None:
            lost = self.query.joint @ lost
        return bool((np.abs(lost) <= LOST * self._lengths()[:, None]).all())

    def _lengths(self) -> Array:
        """The length of every row of the query over its own attributes."""
        if self.query.joint is not None:
            return np.asarray(np.sqrt((self.query.joint**2).sum(axis=1)))
        squares = [factor.row_squares()[:, None] for factor in self.query.matrices()]
        return np.asarray(np.sqrt(kronecker_dense(squares)[:, 0]))

    def _residual(self, names: Sequence[str]) -> Array:
        """R of a query that is a matrix: rows × values of each attribute in A."""
        sizes = [self.query.schema[n].size for n in self.query.attributes]
        cube = np.asarray(self.query.joint).reshape(-1, *sizes)
        for axis, name in reversed(list(enumerate(self.query.attributes, 1))):
            summed = np.tensordot(cube, self.mechanism.basis(name).centre, (axis, 0))
            cube = cube - np.expand_dims(summed, axis) if name in names else summed
        return cube

    def needs(self, names: Sequence[str]) -> bool:
        """Whether the residual on A is more than rounding."""
        centres = {n: self.mechanism.basis(n).centre for n in self.query.attributes}
        if self.query.joint is not None:
            sizes = [
                len(c) * (1 + float(c @ c)) if n in names else float(c @ c)
                for n, c in centres.items()
            ]
            left = (self._residual(names) ** 2).reshape(self.query.rows, -1).sum(axis=1)
            limit = ROUNDING * self.query.rows * prod(sizes)
            return bool((left > limit * self._lengths() ** 2).any())
        for (name, centre), factor in zip(centres.items(), self.query.matrices(), strict=True):
            size = factor.row_squares()
            if name in names:  # rows that give every value the same weight ask for the sum alone
                uneven = size - factor.matmul(np.ones((len(centre), 1)))[:, 0] ** 2 / len(centre)
                if (uneven <= 1e-14 * size).all():
                    return False
            else:  # a centre is as exact as all rows together tell
                limit = ROUNDING * len(size) * float(centre @ centre)
                if (factor.matmul(centre[:, None])[:, 0] ** 2 <= limit * size).all():
                    return False
        return True


def _tells_all(basis: Basis) -> bool:
    """Whether a basis tells all values apart, as its form says already."""
    return basis.rows == basis.size - 1 or isinstance(basis, WideBasis)


def _lost(cube: Array, axis: int, basis: Basis, most: Array) -> bool:
    """Whether rows of a basis miss more of what is asked along an axis than rounding."""
    along = np.moveaxis(cube, axis, -1)
    lost = along - along @ basis.recover @ np.asarray(basis.measure)
    return not (np.abs(lost).reshape(len(cube), -1) <= most[:, None]).all()
