"""The least variance where one record may replace another: pairs of cells pay instead of cells.

    minimise tr(G X⁺)  subject to  (e_u − e_v)ᵀX(e_u − e_v) ≤ 1  for all pairs u, v of cells .

*Dual.* For any probability λ on the pairs and its Laplacian L = Σ λ_uv (e_u − e_v)(e_u − e_v)ᵀ, no
total is below ‖W L^{1/2}‖²_*, and the largest of these is the optimum. It is the program of
`row_space_optimum` with the columns b_u − b_v of pairs in place of the columns b_x of cells.

Rows that give every cell the same weight are zero in all pairs: the number of records does not
change when one is replaced, and telling it costs nothing. They are left out of what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np

from noiseplan.arrays import IntArray, first_of
from noiseplan.matrices.base import Array, exactly_equal_columns
from noiseplan.optimize.array_namespace import AnyArray, namespace_of, to_backend
from noiseplan.optimize.cell_columns import Columns, DenseColumns, TableColumns, dense_seconds
from noiseplan.optimize.convex_losses import Loss
from noiseplan.optimize.gram_roots import root_of
from noiseplan.optimize.optimum import checked_gram
from noiseplan.optimize.priced_rows import WrittenRows
from noiseplan.optimize.row_space_losses import Means, least_mean_loss
from noiseplan.optimize.row_space_optimum import RowBasis, RowSpaceOptimum

# Of what is left of a root without the sum over all cells: no more than the sum's rounding.
ROUNDING: Final = 1e-12


@final
@dataclass(frozen=True, eq=False)
class PairColumns(Columns):
    """b_u − b_v for pairs of cells, given by the numbers of both.

    Examples
    --------
    >>> pairs = PairColumns.of([TableColumns.of(np.eye(3), np.arange(3))])
    >>> pairs.squares(np.diag([1.0, 2.0, 4.0])).tolist()
    [3.0, 5.0, 6.0]
    """

    first: AnyArray
    second: AnyArray

    @staticmethod
    def of(tables: list[TableColumns]) -> PairColumns:
        """All pairs."""
        return PairColumns(tables, *np.triu_indices(len(tables[0].places), 1))

    @property
    def cells(self) -> int:
        return len(self.first)

    @property
    def _singles(self) -> AnyArray:
        """The columns of all cells."""
        return DenseColumns(self.tables).every

    @property
    def seconds(self) -> float:
        many = len(self.tables[0].places)
        return dense_seconds(many, max(many, self.rows))

    def moments(self, weights: AnyArray) -> AnyArray:
        """B L Bᵀ."""
        xp, single = namespace_of(weights), self._singles
        many = single.shape[1]
        place = self.first * many + self.second
        half = xp.bincount(place, weights, minlength=many * many).reshape(many, many)
        both = half + half.T
        return (single * both.sum(0) - single @ both) @ single.T

    def squares(self, form: AnyArray) -> AnyArray:
        """(b_u − b_v)ᵀ S (b_u − b_v)."""
        single = self._singles
        turned = form @ single
        own, cross = (single * turned).sum(0), single.T @ turned
        return own[self.first] + own[self.second] - 2.0 * cross[self.first, self.second]

    def some(self, cells: Any) -> PairColumns:
        return replace(self, first=self.first[cells], second=self.second[cells])

    def on(self, backend: str) -> PairColumns:
        first, second = to_backend(self.first, backend), to_backend(self.second, backend)
        return PairColumns([table.on(backend) for table in self.tables], first, second)


def replaced_optimum(gram: Array, tolerance: float = 1e-6) -> RowSpaceOptimum:
    """The best rows over cells for a Gram matrix, whose columns are at most one apart.

    Examples
    --------
    >>> best = replaced_optimum(np.array([[2.0, 1.0], [1.0, 1.0]]))  # two prefix sums
    >>> round(best.value, 6)  # one count, since the other is the total
    1.0
    """
    kinds = exactly_equal_columns(checked_gram(gram))
    first = first_of(kinds)
    root = _centred(root_of(gram[np.ix_(first, first)]))
    if not root.any():  # nothing but the total is asked
        return RowSpaceOptimum(np.zeros((0, len(gram))), 0.0, 0.0, None, None, 0)
    found = RowBasis.of(np.eye(len(root)), _pairs(root)).least_total(tolerance)
    return replace(found, rows=(found.rows @ root)[:, kinds])


def replaced_norm(rows: Array, power: float, tolerance: float = 1e-6) -> RowSpaceOptimum:
    """The same for the p-norm of the variances of rows over cells; the largest for p = ∞.

    Examples
    --------
    >>> round(replaced_norm(np.eye(3), np.inf).value, 6)  # I − 11ᵀ/3 with noise of two
    1.333333
    >>> round(replaced_norm(np.eye(3), 2.0).value**2, 6)  # three times the square of it
    5.333333
    """
    if power == 1:
        return replaced_optimum(rows.T @ rows, tolerance)
    found = _PricedPairs.of(rows)
    if found is None:
        return RowSpaceOptimum(np.zeros((0, rows.shape[1])), 0.0, 0.0, None, None, 0)
    asked = WrittenRows(found.asked[found.asked.any(axis=1)])
    return found.over_cells(found.basis.least_norm(asked, power, tolerance))


def replaced_loss(rows: Array, owner: IntArray, loss: Loss, tolerance: float) -> Array | None:
    """The best rows over cells for a convex loss of the mean variances of groups of rows.

    `owner` is the group of each row. None where nothing but the total is asked.

    Examples
    --------
    >>> square = lambda means: (float((means**2).sum()), 2.0 * means)
    >>> best = replaced_loss(np.eye(3), np.zeros(3, dtype=int), square, 1e-6)
    >>> (best.T @ best).round(3).tolist()  # counts that are ½ apart, and their total is known
    [[0.333, -0.167, -0.167], [-0.167, 0.333, -0.167], [-0.167, -0.167, 0.333]]
    """
    found = _PricedPairs.of(rows)
    if found is None:
        return None
    means = Means(WrittenRows(found.asked), owner)
    best = least_mean_loss(found.basis, means, loss, tolerance)
    return np.asarray(found.over_cells(best).rows)


@dataclass(frozen=True, eq=False)
class _PricedPairs:
    """All pairs of cells that rows tell apart, and the rows in coordinates of a basis for them."""

    basis: RowBasis
    asked: Array
    root: Array
    kinds: IntArray

    @staticmethod
    def of(rows: Array) -> _PricedPairs | None:
        """None where rows give all cells the same weight."""
        kinds = exactly_equal_columns(rows)
        centred = _centred(rows[:, first_of(kinds)])
        if not centred.any():
            return None
        root = root_of(centred.T @ centred)
        basis = RowBasis.of(np.eye(len(root)), _pairs(root))
        return _PricedPairs(basis, centred @ np.linalg.pinv(root) @ basis.back, root, kinds)

    def over_cells(self, found: RowSpaceOptimum) -> RowSpaceOptimum:
        """What was found in these coordinates, as rows over cells."""
        return replace(found, rows=(found.rows @ self.root)[:, self.kinds])


def _pairs(columns: Array) -> PairColumns:
    return PairColumns.of([TableColumns.of(columns, np.arange(columns.shape[1]))])


def _centred(rows: Array) -> Array:
    """W(I − 11ᵀ/n); zeros in rows of which that leaves no more than rounding."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    left = np.abs(centred).max(axis=1, initial=0.0) > ROUNDING * np.abs(rows).max(axis=1, initial=0)
    return np.asarray(centred * left[:, None])
