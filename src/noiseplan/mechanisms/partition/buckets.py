"""The workload seen from buckets: what it asks of their totals when cells share them evenly.

With S the uniform expansion (S_jb = 1/|b| for a cell j of bucket b) a query W asks W S of the
totals (Li, Proposition 6.2). Everything that planning needs of it is Ĝ = Σ weight · SᵀWᵀW S.

Cells lie in a line: an ordered attribute as it is, two of them along a Hilbert curve. Neighbours on
the curve are neighbours in the plane, so an interval of the line is a compact patch, and what is
even in the plane is even along the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import UnanswerableError
from noiseplan.matrices import IdentityMatrix, PrefixMatrix, RangesMatrix, TotalMatrix
from noiseplan.matrices.base import Array, Matrix
from noiseplan.queries import Query, Workload

# Numbers that an expanded workload may hold (400 MB); beyond, planning takes a simpler workload.
LIMIT: Final = 50_000_000
# Directions that nobody asks about are measured too, at this part of the average weight.
FLOOR: Final = 1e-6
# Numbers this much smaller than the largest are rounding.
FAINT: Final = 1e-13


def expand(totals: Array, edges: IntArray) -> Array:
    """Every bucket's total shared evenly among its cells (Li, section 6.1).

    Examples
    --------
    >>> expand(np.array([6.0, 1.0]), np.array([0, 3, 4])).tolist()
    [2.0, 2.0, 2.0, 1.0]
    """
    widths = np.diff(edges)
    return np.repeat(totals / widths, widths)


def require_asked(query: Query, asked: tuple[str, ...]) -> None:
    """Refuse a query about attributes that are not measured."""
    outside = [name for name in query.attributes if name not in asked]
    if outside:
        raise UnanswerableError(
            f"{query.name!r} asks about {outside[0]!r}, and only {' × '.join(asked)} is measured; "
            f"plan with a workload that names it"
        )


@immutable
@dataclass(frozen=True, eq=False)
class LineWorkload:
    """A workload over one or two attributes whose cells lie in a line."""

    workload: Workload
    asked: tuple[str, ...]
    order: IntArray

    def gram(self, edges: IntArray) -> Array:
        """Ĝ for buckets with these edges along the line, the largest weight being one."""
        buckets = len(edges) - 1
        gram = np.zeros((buckets, buckets))
        for query, weight in self._weighed():
            gram += weight * self._query_gram(query, edges)
        mean = float(np.trace(gram)) / buckets
        return gram + FLOOR * (mean or 1.0) * np.eye(buckets)

    def diagonal(self, edges: IntArray) -> Array:
        """The diagonal of Ĝ, for any number of buckets.

        Of large queries without a formula all ranges stand in, which only shares out a budget.
        """
        total = np.zeros(len(edges) - 1)
        for query, weight in self._weighed():
            found = None
            if len(self.asked) == 1:
                found = closed_diagonal(axis_matrix(query, self.asked[0]), edges)
            if found is None and query.rows * len(self.order) <= LIMIT:
                rows = query.over(self.asked).dense(LIMIT)
                rows = rows if len(self.asked) == 1 else rows[:, self.order]
                seen = np.add.reduceat(rows, edges[:-1], axis=1) / np.diff(edges)
                found = np.asarray((seen**2).sum(axis=0))
            if found is None:
                found = closed_diagonal(RangesMatrix(len(self.order)), edges)
                assert found is not None  # ranges have a formula
                found = self._likeness(query) * found
            total += weight * found
        return total

    def _weighed(self) -> list[tuple[Query, float]]:
        """Queries with weights of at most one: only their proportions matter."""
        queries = list(self.workload)
        largest = max(query.weight for query in queries)
        return [(query, query.weight / largest) for query in queries]

    def _query_gram(self, query: Query, edges: IntArray) -> Array:
        if len(self.asked) == 1:
            closed = closed_gram(axis_matrix(query, self.asked[0]), edges)
            if closed is not None:
                return closed
        buckets, widths = len(edges) - 1, np.diff(edges)
        if len(self.order) * buckets > LIMIT:
            return self._stand_in(query, edges)
        spread = np.zeros((len(self.order), buckets))
        spread[self.order, np.repeat(np.arange(buckets), widths)] = np.repeat(1 / widths, widths)
        if query.joint is not None or query.rows <= len(self.order):
            seen = query.over(self.asked).matmul(spread)
            return np.asarray(seen.T @ seen)
        matrices = [axis_matrix(query, name) for name in self.asked]
        folded = spread.reshape(*(matrix.shape[1] for matrix in matrices), buckets)
        if max(matrix.shape[1] for matrix in matrices) ** 2 > LIMIT:
            return self._stand_in(query, edges)
        # SᵀGS with G = ⊗ G_i, so that not even the rows of all ranges are made
        for axis, matrix in enumerate(matrices):
            folded = np.moveaxis(np.tensordot(matrix.gram(), folded, axes=(1, axis)), 0, axis)
        return np.asarray(spread.T @ folded.reshape(len(self.order), buckets))

    def _stand_in(self, query: Query, edges: IntArray) -> Array:
        """Where a workload would take too many numbers: as if all ranges of the line were asked."""
        found = closed_gram(RangesMatrix(len(self.order)), edges)
        assert found is not None  # ranges have a formula
        return self._likeness(query) * found

    def _likeness(self, query: Query) -> float:
        """How much more a query asks of one bucket of all cells than all ranges do."""
        cells = len(self.order)
        whole = np.full((cells, 1), 1 / cells)
        seen = query.over(self.asked).matmul(whole)
        ranges = closed_diagonal(RangesMatrix(cells), np.array([0, cells]))
        assert ranges is not None
        return float((seen**2).sum() / ranges[0])


def axis_matrix(query: Query, attribute: str) -> Matrix:
    """What a query asks along an attribute: its factor, or the total."""
    described = query.schema[attribute]
    if attribute in query.factors:
        return query.factors[attribute].matrix(described)
    return TotalMatrix(described.size)


def rows_in_line(query: Query, asked: tuple[str, ...], order: IntArray, numbers: IntArray) -> Array:
    """Some rows of a query, over the cells in line."""
    return query.over(asked).take(numbers)[:, order]


def closed_gram(matrix: Matrix, edges: IntArray) -> Array | None:
    """SᵀWᵀWS by formula, without a matrix of all cells; None where there is no formula.

    Notes
    -----
    WᵀW has the entries n − max(i, j) for prefix sums and (min(i, j) + 1)(n − max(i, j)) for ranges,
    of cells i, j counted from 0. In different buckets max and min separate, and the mean is that at
    their centres.
    """
    diagonal = closed_diagonal(matrix, edges)
    if diagonal is None:
        return None
    cells, centre = float(edges[-1]), (edges[:-1] + edges[1:] - 1) / 2
    if isinstance(matrix, IdentityMatrix):
        gram = np.zeros((len(centre), len(centre)))
    elif isinstance(matrix, TotalMatrix):
        gram = np.ones((len(centre), len(centre)))
    else:
        gram = cells - np.maximum.outer(centre, centre)
        if isinstance(matrix, RangesMatrix):
            gram *= np.minimum.outer(centre, centre) + 1
    np.fill_diagonal(gram, diagonal)
    return np.asarray(gram)


def closed_diagonal(matrix: Matrix, edges: IntArray) -> Array | None:
    """The diagonal of SᵀWᵀWS by formula, or None.

    Notes
    -----
    For i = s + u and j = s + v within a bucket of L cells from s on: E max(u, v) =
    (L − 1)(4L + 1)/(6L), min + max = u + v, and min·max = u·v.
    """
    start, width = edges[:-1].astype(float), np.diff(edges).astype(float)
    half, high = (width - 1) / 2, (width - 1) * (4 * width + 1) / (6 * width)
    ahead, behind = start + 1, float(edges[-1]) - start
    if isinstance(matrix, IdentityMatrix):
        return np.asarray(1 / width)
    if isinstance(matrix, TotalMatrix):
        return np.ones_like(width)
    if isinstance(matrix, PrefixMatrix):
        return np.asarray(behind - high)
    if isinstance(matrix, RangesMatrix):
        low = 2 * half - high
        return np.asarray(ahead * behind + behind * low - ahead * high - half**2)
    return None


def gram_root(gram: Array) -> Array:
    """A square R with RᵀR = Ĝ up to scale: rows that ask in proportion to the whole workload."""
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    root = root / np.abs(root).max()
    return np.asarray(np.where(np.abs(root) < FAINT, 0.0, root))


def line(shape: tuple[int, ...]) -> IntArray:
    """The cells (row-major numbers) of a table of one or two attributes, in the order of the line.

    Examples
    --------
    >>> line((4,)).tolist(), line((2, 2)).tolist()
    ([0, 1, 2, 3], [0, 1, 3, 2])
    """
    if len(shape) == 1:
        return np.arange(shape[0])
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    bits = max(max(shape) - 1, 1).bit_length()
    return np.argsort(hilbert(rows, columns, bits), kind="stable")


def hilbert(x: IntArray, y: IntArray, bits: int) -> IntArray:
    """Places of points of a 2^bits × 2^bits grid along the Hilbert curve that starts at (0, 0).

    From the leading bits downwards: the quadrant of a point says which quarter of the curve it is
    on, and how the curve lies in that quadrant: turned over along a diagonal in the first and the
    last, as it is in the two between.

    Examples
    --------
    >>> hilbert(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), 1).tolist()
    [0, 1, 2, 3]
    """
    x, y = np.array(x, dtype=np.int64), np.array(y, dtype=np.int64)
    place = np.zeros_like(x)
    for bit in reversed(range(bits)):
        side = np.int64(1) << bit
        right, upper = (x & side) > 0, (y & side) > 0
        place = 4 * place + np.where(right, np.where(upper, 2, 3), np.where(upper, 1, 0))
        x, y = x & (side - 1), y & (side - 1)
        last = right & ~upper
        x, y = np.where(last, side - 1 - x, x), np.where(last, side - 1 - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
    return place
