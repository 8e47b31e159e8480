"""The rows of a query over all cells of a domain, without writing them out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import final

import numpy as np
from numpy.typing import NDArray

from noiseplan.matrices import DenseMatrix, Matrix, TotalMatrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.matrices.forms import axis_forms, axis_gram, kronecker_forms, kronecker_gram
from noiseplan.queries import Query


@final
@dataclass(frozen=True, eq=False)
class QueryMatrix(Matrix):
    """A query as a matrix over the domain, cells in schema order, the last attribute fastest.

    Examples
    --------
    >>> from noiseplan.queries import Prefix
    >>> from noiseplan.schema import Schema
    >>> rows = QueryMatrix(Query(Schema.from_sizes({"a": 3, "b": 2}), {"a": Prefix()}))
    >>> rows.shape, rows.quadratic_rows(np.eye(6)).tolist()
    ((3, 6), [2.0, 4.0, 6.0])
    """

    query: Query

    @cached_property
    def _factors(self) -> list[Matrix]:
        """One matrix per attribute of the schema."""
        named = dict(zip(self.query.attributes, self.query.matrices(), strict=True))
        schema = self.query.schema
        sizes = zip(schema.names, schema.shape, strict=True)
        return [named.get(name) or TotalMatrix(size) for name, size in sizes]

    @cached_property
    def _summed(self) -> tuple[int, ...]:
        """Axes of the domain that a dense-matrix query sums over."""
        names = self.query.schema.names
        return tuple(i for i, name in enumerate(names) if name not in self.query.factors)

    @property
    def shape(self) -> tuple[int, int]:
        return self.query.rows, self.query.schema.size

    def matmul(self, x: Array) -> Array:
        flat = x.reshape(self.shape[1], -1)
        cells = flat.reshape(*self.query.schema.shape, flat.shape[1])
        if self.query.joint is not None:
            found = self.query.joint @ cells.sum(axis=self._summed).reshape(-1, flat.shape[1])
        else:
            found = kronecker_apply(self._factors, cells)
        return np.asarray(found.reshape(self.shape[0], *x.shape[1:]))

    def gram(self) -> Array:
        if self.query.joint is not None:
            return self._widened(self.query.joint.T @ self.query.joint)
        return kronecker_dense([factor.gram() for factor in self._factors])

    def weighted_gram(self, weights: Array) -> Array:
        """Wᵀ diag(u) W, one weight u for every row."""
        if self.query.joint is not None:
            return self._widened(axis_gram(DenseMatrix(self.query.joint), weights[:, None])[..., 0])
        return kronecker_gram(self._factors, weights)

    def quadratic_rows(self, s: Array) -> Array:
        if self.query.joint is None:
            return kronecker_forms(self._factors, s).ravel()
        shape = self.query.schema.shape
        both = (*self._summed, *(len(shape) + i for i in self._summed))
        named = self.query.joint.shape[1]
        narrow = s.reshape(*shape, *shape).sum(axis=both).reshape(named, named, 1)
        return axis_forms(DenseMatrix(self.query.joint), narrow)[:, 0]

    def row_squares(self) -> Array:
        if self.query.joint is not None:
            summed = self.shape[1] // self.query.joint.shape[1]
            return np.asarray(summed * np.einsum("ri,ri->r", self.query.joint, self.query.joint))
        squares = [factor.row_squares()[:, None] for factor in self._factors]
        return kronecker_dense(squares)[:, 0]

    def take(self, rows: NDArray[np.intp]) -> Array:
        wanted = np.arange(self.shape[0])[rows]
        schema = self.query.schema
        if self.query.joint is not None:
            narrow = [1 if i in self._summed else n for i, n in enumerate(schema.shape)]
            spread = self.query.joint[wanted].reshape(len(wanted), *narrow)
            return np.broadcast_to(spread, (len(wanted), *schema.shape)).reshape(len(wanted), -1)
        places = np.unravel_index(wanted, tuple(factor.shape[0] for factor in self._factors))
        found = np.ones((len(wanted), 1))
        for factor, place in zip(self._factors, places, strict=True):
            found = np.einsum("ri,rj->rij", found, factor.take(place)).reshape(len(wanted), -1)
        return found

    def _widened(self, narrow: Array) -> Array:
        """A matrix over the named attributes' cells as one over all: the same in every slice."""
        shape = self.query.schema.shape
        kept = [1 if i in self._summed else n for i, n in enumerate(shape)]
        wide = np.broadcast_to(narrow.reshape(*kept, *kept), (*shape, *shape))
        return wide.reshape(prod(shape), prod(shape))
