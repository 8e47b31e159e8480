"""What is demanded: rows with targets, over cells with limits, in the smallest equivalent form.

Cells no row tells apart become one, rows are divided by the roots of their targets, cells by the
roots of their limits, and where the rows do not span everything an orthonormal basis of their span
takes the place of the cells: W = LB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.gram import Reduction
from noiseplan.errors import PlanError
from noiseplan.matrices import DenseMatrix
from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.gram_roots import RANK_FLOOR, SAFE_PIVOT
from noiseplan.optimize.priced_rows import FormulaRows, PricedRows, WrittenRows


@dataclass(frozen=True, eq=False)
class Demands:
    """Rows of `matrix` numbered by `kept`, their targets, and the cells they are about.

    `scale` divides the columns of the (merged) cells: the root of their limits.
    """

    matrix: Matrix
    targets: Array
    kept: IntArray
    reduction: Reduction
    scale: Array
    cells: Array  # B: rank × merged cells

    @staticmethod
    def of(workload: Matrix | Array, targets: float | Array, limits: Array | None) -> Demands:
        """Check what was asked, and bring it into its smallest form."""
        matrix = workload if isinstance(workload, Matrix) else DenseMatrix(checked_rows(workload))
        every = per_row(targets, matrix.shape[0])
        if isinstance(matrix, DenseMatrix):
            reduction, kept = Reduction.of_columns(matrix.values), _distinct(matrix.values, every)
        else:
            reduction, kept = Reduction.of_gram(matrix.gram()), np.arange(matrix.shape[0])
        scale = np.sqrt(_per_cell(limits, reduction))
        if isinstance(matrix, DenseMatrix) and len(kept) < reduction.size:
            cells = _basis_of_rows(reduction.columns(matrix.values[kept]) / scale)
        else:
            gram = reduction.gram(matrix.gram()) / np.outer(scale, scale)
            cells = _basis_of_gram(gram)
        return Demands(matrix, every, kept, reduction, scale, cells)

    @property
    def count(self) -> int:
        """How many different rows there are."""
        return len(self.kept)

    def rows(self) -> Array:
        """L: over their targets, in the coordinates of the basis."""
        dense = self.reduction.columns(self.matrix.take(self.kept)) / self.scale
        dense = dense / np.sqrt(self.targets[self.kept])[:, None]
        return np.asarray(dense @ self.cells.T)

    def priced(self) -> PricedRows:
        """All of L: written out where the rows are, else as the formulas they are."""
        if isinstance(self.matrix, DenseMatrix):
            return WrittenRows(self.rows())
        # Merged cells stand in one of their members.
        wide = np.zeros((self.matrix.shape[1], len(self.cells)))
        wide[self.reduction.first] = self.cells.T / self.scale[:, None]
        return FormulaRows(((self.matrix, wide),), 1.0 / np.sqrt(self.targets))

    def strategy(self, factor: Array) -> Array:
        """A with AᵀA = BᵀΣ⁻¹B, over the cells as they were."""
        small = np.linalg.solve(factor, self.cells) * self.scale
        return self.reduction.widened(small)

    def cost(self, strategy: Array) -> float:
        """The largest diagonal entry of AᵀA over the cells' limits."""
        squares = np.einsum("ri,ri->i", strategy, strategy)[self.reduction.first]
        return float((squares / self.scale**2).max())

    def row_prices(self, prices: Array) -> Array:
        """Prices of the different rows among all; others are free."""
        result = np.zeros(self.matrix.shape[0])
        result[self.kept] = prices
        return result

    def cell_prices(self, prices: Array) -> Array:
        """Prices of the merged cells at the first of their members."""
        result = np.zeros(len(self.reduction.groups))
        result[self.reduction.first] = prices
        return result


def checked_rows(workload: Array) -> Array:
    """A workload as a matrix of finite numbers, not all zero."""
    values = np.asarray(workload, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise PlanError(f"a workload is a matrix, rows × cells; found the shape {values.shape}")
    if not np.isfinite(values).all():
        raise PlanError("a workload has finite numbers only, found NaN or infinity")
    if not values.any():
        raise PlanError("the workload has only zeros: there is nothing to answer")
    return values


def per_row(targets: float | Array, rows: int) -> Array:
    """One positive target for every row."""
    every = np.asarray(targets, dtype=np.float64)
    if every.ndim == 0:
        every = np.full(rows, float(every))
    if every.shape != (rows,):
        raise PlanError(f"one target per row: found {every.shape} targets for {rows:,} rows")
    if not (np.isfinite(every).all() and (every > 0).all()):
        raise PlanError("a target is a positive finite variance; leave a row out to ignore it")
    return every


def _per_cell(limits: Array | None, reduction: Reduction) -> Array:
    """The limit of every merged cell: the tightest of its members."""
    if limits is None:
        return np.ones(reduction.size)
    every = np.asarray(limits, dtype=np.float64)
    if every.shape != reduction.groups.shape:
        raise PlanError(f"one limit per cell: found {every.shape}, not {reduction.groups.shape}")
    if not (np.isfinite(every).all() and (every > 0).all()):
        raise PlanError("a limit is a positive finite number; merge cells to forbid one")
    tightest = np.full(reduction.size, np.inf)
    seen = reduction.groups >= 0
    np.minimum.at(tightest, reduction.groups[seen], every[seen])
    return tightest


def _distinct(rows: Array, targets: Array) -> IntArray:
    """One row of every direction, the most demanding; rows of zeros are left out."""
    lengths = np.linalg.norm(rows, axis=1)
    asked = np.flatnonzero(lengths > 0)
    unit = rows[asked] / lengths[asked, None]
    leading = unit[np.arange(len(unit)), (unit != 0).argmax(axis=1)]
    unit = np.round(unit * np.sign(leading)[:, None], 13) + 0.0
    order = asked[np.argsort(targets[asked] / lengths[asked] ** 2, kind="stable")]
    place = {int(row): i for i, row in enumerate(asked)}
    first: dict[bytes, int] = {}
    for row in order.tolist():
        first.setdefault(unit[place[row]].tobytes(), row)
    return np.array(sorted(first.values()), dtype=np.int64)


def _basis_of_gram(gram: Array) -> Array:
    """The identity where the rows span everything, else an orthonormal basis of their span."""
    lengths = np.sqrt(np.diagonal(gram))
    try:
        pivots = np.diagonal(np.linalg.cholesky(gram / np.outer(lengths, lengths)))
        if pivots.min() ** 2 > SAFE_PIVOT:
            return np.eye(len(gram))
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(gram)
    keep = values > RANK_FLOOR * len(gram) * values[-1]
    return np.ascontiguousarray(vectors[:, keep].T)


def _basis_of_rows(rows: Array) -> Array:
    """The same from fewer rows than cells: s⁻¹UᵀW for WWᵀ = U diag(s²) Uᵀ, made orthonormal."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    keep = values > RANK_FLOOR * len(rows) * values[-1]
    found = (vectors[:, keep] / np.sqrt(values[keep])).T @ rows
    return np.ascontiguousarray(np.linalg.qr(found.T)[0].T)
