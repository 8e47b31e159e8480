"""Queries against levels with rows of their own: what each asks of every level.

A product of factors asks W of the others at nodes of some levels: WB⁺ of every level down to these,
and sums of nodes (`level_siblings`). Any other rows are taken apart over all values and cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.arrays import IntArray, first_of, immutable
from noiseplan.domain.tree import Tree
from noiseplan.errors import UnanswerableError
from noiseplan.matrices import DenseMatrix, Matrix, TotalMatrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.leastsquares import OUTSIDE
from noiseplan.mechanisms.level_words import called, listed_words, told_apart
from noiseplan.mechanisms.tree_block import NodeRows, node_rows
from noiseplan.queries import Query

if TYPE_CHECKING:
    from noiseplan.mechanisms.measured_levels import LevelsMechanism

# Rows of a matrix over several attributes are written down up to so many numbers.
MOST_WEIGHTS: Final = 1 << 24
# What is left of a row by rounding, as a share of it.
ROUNDING: Final = 1e-10


@immutable
@dataclass(frozen=True, eq=False)
class AskedLevels:
    """A product of factors: rows along the tree, and rows W over the others."""

    mechanism: LevelsMechanism
    query: Query
    pieces: list[NodeRows]
    others: Array  # W

    @staticmethod
    def of(mechanism: LevelsMechanism, query: Query) -> AskedLevels:
        """Refused where a level does not tell what is asked of it."""
        schema = mechanism.schema
        factors = dict(zip(query.attributes, query.matrices(), strict=True))
        along = factors.get(schema.names[mechanism.place])
        rows, tree = _over_others(mechanism, factors), mechanism.tree
        told = [own.fit.determines(DenseMatrix(rows)) for own in mechanism.levels]
        pieces = []
        for piece in node_rows(along or TotalMatrix(len(tree.of_value)), tree):
            seen = None if piece is None else _seen(piece, tree, told)
            if seen is None:
                level = None if piece is None else _first_untold(mechanism, rows, piece)
                raise _untold(mechanism, query, level, _causes(mechanism, factors, level))
            pieces.append(seen)
        return AskedLevels(mechanism, query, pieces, rows)

    @cached_property
    def over(self) -> list[Array]:
        """WB⁺ of every level that the rows need. Whether a query can be answered is asked of every
        plan, and needs none of it."""
        needed = max(piece.level for piece in self.pieces)
        return [own.of_query(self.others) for own in self.mechanism.levels[: needed + 1]]

    @property
    def _axis(self) -> int:
        """Where the long attribute is among the axes of an answer."""
        names, name = self.query.attributes, self.mechanism.schema.names[self.mechanism.place]
        return names.index(name) if name in names else len(names)

    def _ordered(self, by_node: Array) -> Array:
        """(rows of the others, rows along) in the order of the query."""
        name = self.mechanism.schema.names[self.mechanism.place]
        pairs = zip(self.query.attributes, self.query.matrices(), strict=True)
        shape = [matrix.shape[0] for other, matrix in pairs if other != name]
        whole = by_node.reshape(*shape, by_node.shape[-1])
        return np.ascontiguousarray(np.moveaxis(whole, -1, self._axis)).ravel()

    def answer(self, measured: list[Array]) -> Array:
        """x̂ of every level down to the last that is asked for, then its rows."""
        levels = [self.over[0] @ measured[0]]
        for level in range(1, len(self.over)):
            siblings = self.mechanism.siblings[level - 1]
            levels.append(siblings.down(self.over[level] @ measured[level], levels[-1]))
        return self._ordered(np.hstack([_rows_of(p, levels[p.level]) for p in self.pieces]))

    @cached_property
    def _squares(self) -> Array:
        """(WB⁺B⁺ᵀWᵀ) of every row: levels × rows."""
        return np.array([np.einsum("qr,qr->q", each, each) for each in self.over])

    def variance(self) -> Array:
        sums = self.mechanism.node_sums
        found = [self._squares[: p.level + 1].T @ sums.variance(p) for p in self.pieces]
        return self._ordered(np.hstack(found))

    def sum_and_largest(self) -> tuple[float, float]:
        """Of the variances of all rows, without writing them down."""
        total, largest = 0.0, 0.0
        for piece in self.pieces:
            along = self.mechanism.node_sums.variance(piece)
            squares = self._squares[: piece.level + 1]
            total += float(squares.sum(axis=1) @ along.sum(axis=1))
            for part in batches(along.shape[1], squares.shape[1], BATCH_CELLS):
                largest = max(largest, float((squares.T @ along[:, part]).max()))
        return total, largest

    def covariance(self, other: AskedLevels) -> Array:
        """Σ_c of rows along, times WB⁺(W'B⁺)ᵀ."""
        blocks = [[self._both(other, a, b) for b in other.pieces] for a in self.pieces]
        whole = np.concatenate([np.concatenate(row, axis=3) for row in blocks], axis=1)
        mine, theirs = self._places(whole.shape[:2]), other._places(whole.shape[2:])
        flat = whole.reshape(prod(whole.shape[:2]), prod(whole.shape[2:]))
        return np.asarray(flat[np.ix_(mine, theirs)])

    def _places(self, shape: tuple[int, ...]) -> IntArray:
        """Where each row of the query is among (rows of the others, rows along)."""
        return self._ordered(np.arange(prod(shape), dtype=float).reshape(shape)).astype(np.int64)

    def _both(self, other: AskedLevels, a: NodeRows, b: NodeRows) -> Array:
        """(others, along, others', along') of two pieces."""
        total = np.zeros((len(self.over[0]), a.count, len(other.over[0]), b.count))
        along = self.mechanism.node_sums.covariance(a, b)
        for one, two, each in zip(self.over, other.over, along, strict=False):
            total += np.einsum("qs,ab->qasb", one @ two.T, each)
        return total


@immutable
@dataclass(frozen=True, eq=False)
class AskedCells:
    """Any rows over values and cells of the others, each level's part written down."""

    mechanism: LevelsMechanism
    query: Query
    parts: list[Array]  # of every level: rows × nodes with siblings × measured rows

    @staticmethod
    def of(mechanism: LevelsMechanism, query: Query) -> AskedCells:
        """Refused where a level does not tell what is asked of it, or rows are too many."""
        cube = _cube(mechanism, query)
        tree, largest = mechanism.tree, np.abs(cube).max(axis=(1, 2))
        weights = cube[:, first_of(tree.of_value)]
        missed = np.abs(weights[:, tree.of_value] - cube).max(axis=(1, 2))
        if (missed > ROUNDING * largest).any():
            raise _untold(mechanism, query, None)
        parts = []
        for level in range(tree.depth, 0, -1):
            below = mechanism.siblings[level - 1]
            above = np.add.reduceat(weights * below.share[:, None], below.starts, axis=1)
            each = (weights - above[:, below.parent])[:, below.kept]
            found = _told(mechanism, query, level, each, largest)
            parts.append(found / below.total[below.kept][:, None])
            weights = above
        parts.append(_told(mechanism, query, 0, weights, largest))
        return AskedCells(mechanism, query, parts[::-1])

    def answer(self, measured: list[Array]) -> Array:
        pairs = zip(self.parts, measured, strict=True)
        return np.asarray(sum(np.einsum("qjr,rj->q", part, each) for part, each in pairs))

    def variance(self) -> Array:
        noise = (each.noise.variance for each in self.mechanism.levels)
        pairs = zip(self.parts, noise, strict=True)
        return np.asarray(sum(np.einsum("qjr,qjr,j->q", p, p, d) for p, d in pairs))

    def sum_and_largest(self) -> tuple[float, float]:
        found = self.variance()
        return float(found.sum()), float(found.max())

    def covariance(self, other: AskedCells) -> Array:
        """Of every row with every row of another."""
        noise = (each.noise.variance for each in self.mechanism.levels)
        found = np.zeros((self.query.rows, other.query.rows))
        for one, two, d in zip(self.parts, other.parts, noise, strict=True):
            found += np.einsum("qjr,sjr->qs", one * d[:, None], two, optimize=True)
        return found


def _told(
    mechanism: LevelsMechanism, query: Query, level: int, weights: Array, largest: Array
) -> Array:
    """(weights over cells) B⁺; refused where some of a row is outside of what B tells, beside the
    largest weight of that row."""
    own = mechanism.levels[level]
    found = weights @ own.inverse
    missed = np.abs(found @ own.rows - weights).max(axis=(1, 2), initial=0.0)
    if (missed > OUTSIDE * largest).any():
        raise _untold(mechanism, query, level)
    return np.asarray(found)


def _untold(
    mechanism: LevelsMechanism, query: Query, level: int | None, causes: list[str] | None = None
) -> UnanswerableError:
    """What to say where a level does not tell what is asked of it; None: no level is so fine."""
    schema, place, tree = mechanism.schema, mechanism.place, mechanism.tree
    name = schema.names[place]
    if level is None:
        why = f"{name!r}: it is measured {called(schema, place, tree, tree.depth)} at the finest"
    else:
        asked = [n for n in query.attributes if n != name] if causes is None else causes
        told = told_apart(schema, mechanism.others, mechanism.levels[level].rows)
        where = called(schema, place, tree, level)
        why = f"{listed_words([repr(n) for n in asked])}: {where} the plan tells {told} apart"
    return UnanswerableError(
        f"{query.name!r} asks for more of the other attributes, or of {name!r}, than the plan "
        f"measures at this level: add the query to the workload. The cause is {why}"
    )


def _seen(piece: NodeRows, tree: Tree, told: list[bool]) -> NodeRows | None:
    """Rows along the tree over a level down to which all levels tell what is asked of the others,
    or measure nothing of these nodes: only children are their parents. None where there is none."""
    depth = (*told, False).index(False) - 1
    seen = None if depth < 0 else piece.over(tree, depth)
    if seen is not None or piece.up_to is not None:
        return seen
    for level in range(piece.level, depth, -1):
        seen = piece.over(tree, level)
        if seen is None or not told[0]:
            return None
        nodes, needed = _nodes_of(seen), set[int]()
        for at in range(level, 0, -1):
            parent = tree.parents[at - 1]
            if (np.bincount(parent)[parent[nodes]] > 1).any():
                needed.add(at)
            nodes = np.unique(parent[nodes])
        if all(told[at] for at in needed):
            return seen
    return None


def _nodes_of(rows: NodeRows) -> IntArray:
    """The nodes that rows have some of."""
    if rows.nodes is not None:
        return rows.nodes
    assert rows.weights is not None  # sums up to some have all
    return np.unique(rows.weights.nonzero()[1])


def _first_untold(mechanism: LevelsMechanism, rows: Array, piece: NodeRows) -> int:
    """The level that is asked for, if it does not tell these rows; else the first that does not."""
    needed = next(c for c in range(piece.level + 1) if piece.over(mechanism.tree, c) is not None)
    if not mechanism.levels[needed].fit.determines(DenseMatrix(rows)):
        return needed
    return min(_deepest(mechanism, rows) + 1, len(mechanism.levels) - 1)


def _causes(
    mechanism: LevelsMechanism, factors: dict[str, Matrix], level: int | None
) -> list[str] | None:
    """The other attributes of which a level does not tell what is asked, each alone; all of them
    where it tells each, but not together."""
    if level is None:
        return None
    names = [mechanism.schema.names[i] for i in mechanism.others]
    asked = [name for name in names if name in factors]
    fit = mechanism.levels[level].fit
    alone = {n: DenseMatrix(_over_others(mechanism, {n: factors[n]})) for n in asked}
    return [n for n in asked if not fit.determines(alone[n])] or asked


def _cube(mechanism: LevelsMechanism, query: Query) -> Array:
    """Rows × values of the long attribute × cells of the others."""
    schema, axes = mechanism.schema, (mechanism.place, *mechanism.others)
    size = prod(schema.shape[i] for i in axes)
    if query.rows * size > MOST_WEIGHTS:
        raise UnanswerableError(
            f"{query.name!r} has {query.rows:,} rows over {size:,} cells, more than can be written "
            f"down for this: ask for tables by level, or for fewer rows at a time"
        )
    named = [schema.index(name) for name in query.attributes]
    if query.joint is None:
        rows = kronecker_dense([matrix.dense() for matrix in query.matrices()])
    else:
        rows = np.asarray(query.joint)
    cube = rows.reshape(-1, *(schema.shape[i] for i in named))
    order = sorted(range(len(named)), key=lambda j: axes.index(named[j]))
    cube = cube.transpose([0, *(1 + j for j in order)])
    cube = cube.reshape(-1, *(schema.shape[i] if i in named else 1 for i in axes))
    whole = np.broadcast_to(cube, (len(cube), *(schema.shape[i] for i in axes)))
    return np.array(whole.reshape(len(cube), schema.shape[mechanism.place], -1), dtype=np.float64)


def _over_others(mechanism: LevelsMechanism, factors: dict[str, Matrix]) -> Array:
    """W over all cells of the others, those not named summed over."""
    schema = mechanism.schema
    found = []
    for i in mechanism.others:
        factor = factors.get(schema.names[i])
        found.append(np.ones((1, schema.shape[i])) if factor is None else factor.dense())
    # In the order of the query, which names attributes in that of the schema.
    return kronecker_dense(found) if found else np.ones((1, 1))


def _deepest(mechanism: LevelsMechanism, rows: Array) -> int:
    """The last level down to which all levels tell these rows; −1 if the first does not."""
    matrix = DenseMatrix(rows)
    for level, own in enumerate(mechanism.levels):
        if not own.fit.determines(matrix):
            return level - 1
    return len(mechanism.levels) - 1


def _rows_of(piece: NodeRows, values: Array) -> Array:
    """Rows along the tree of (…, nodes)."""
    if piece.nodes is not None:
        return values[:, piece.nodes]
    if piece.up_to is not None:
        return np.cumsum(values, axis=1)[:, piece.up_to]
    return np.asarray((piece.sparse(values.shape[1]) @ values.T).T)
