"""Residuals over some attributes, crossed with rows of any kind over the cells of the others.

    measured on A:   ω_A = (⊗_{i∈A} U_i ⊗ B_A) x_{A∪D} + σ_A z        A among the split attributes
    answer of Q:     Σ_A ⊗ (W_iV_i if i∈A else W_iτ_i) ⊗ W_D B_A⁺ ω_A
    variance:        Σ_A σ²_A ⊗ (W_iV_iV_iᵀW_iᵀ or (W_iτ_i)²) ⊗ W_D(B_AᵀB_A)⁺W_Dᵀ

The split attributes have one U_i for all sets A, with I = τ_i1ᵀ + V_iU_i: so residuals of different
sets do not see each other, and each is a small problem over the cells of the others, D, of which
there are few. Plans that measure the attributes in D by different rows have all of this in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.errors import QueryError, StorageError, UnanswerableError
from noiseplan.matrices import Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.base import Marginals, Measurements, Mechanism, Progress
from noiseplan.mechanisms.basis import ROUNDING, Basis
from noiseplan.mechanisms.blocks import subset_patterns
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_whole
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query
from noiseplan.schema import Schema

Set = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Frame:
    """Attributes that are split into sum and residual, with their bases, and those that are not."""

    schema: Schema
    bases: Mapping[int, Basis]
    whole: Set  # D, ascending

    @cached_property
    def cells(self) -> Schema:
        """The attributes in D alone."""
        names = self.schema.names
        return Schema({names[i]: self.schema.attributes[i] for i in self.whole})

    def axes(self, split: Set) -> list[Basis]:
        return [self.bases[i] for i in split]

    def table(self, split: Set) -> IntArray:
        """The attributes of the table that a set is measured from, as one set."""
        return np.array([sorted((*split, *self.whole))], dtype=np.int64)

    def crossed(self, split: Set, table: NDArray[Any]) -> NDArray[Any]:
        """A table of these attributes, (1, n, …), with D's cells as its last axis."""
        (attributes,) = self.table(split).tolist()
        order = [1 + attributes.index(i) for i in (*split, *self.whole)]
        sizes = [self.bases[i].size for i in split]
        return table.transpose(0, *order).reshape(1, *sizes, self.cells.size)


@dataclass(frozen=True, eq=False)
class Part:
    """A set of split attributes, and the rows over D's cells that its residual is measured by."""

    split: Set
    rows: DenseMechanism

    @cached_property
    def fit(self) -> LeastSquares:
        return LeastSquares(self.rows.strategy)

    @cached_property
    def back(self) -> Array:
        """B⁺: what was measured to D's cells."""
        return np.asarray(self.fit.spread @ self.rows.strategy.T)


@dataclass(frozen=True, eq=False)
class Asked:
    """A query's factors over split attributes and its rows over D's cells."""

    frame: Frame
    query: Query

    def __post_init__(self) -> None:
        frame, query = self.frame, self.query
        if query.schema != frame.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        strange = [n for n in self.names if frame.schema.index(n) not in frame.bases]
        if strange or (query.joint is not None and self.names):
            raise UnanswerableError(
                f"{query.name!r} needs {strange or list(query.attributes)}, of which nothing is "
                f"measured in this form: ask for plain tables of what the plans measure"
            )

    @property
    def names(self) -> list[str]:
        """Its split attributes."""
        return [n for n in self.query.attributes if n not in self.frame.cells]

    @cached_property
    def factors(self) -> dict[int, Matrix]:
        index, matrices = self.frame.schema.index, self.query.matrices
        if not self.names:
            return {}
        pairs = zip(self.query.attributes, matrices(), strict=True)
        return {index(name): factor for name, factor in pairs if name in self.names}

    @cached_property
    def over_cells(self) -> Matrix:
        """W_D."""
        query = self.query
        if query.joint is None:
            own = {n: f for n, f in query.factors.items() if n in self.frame.cells}
            query = Query(query.schema, own)
        return query.over(self.frame.cells.names)

    def sets(self) -> Iterator[Set]:
        """The sets whose residual is more than rounding in it."""
        inside = {i for i, f in self.factors.items() if self.frame.bases[i].residual_rows(f).any()}
        for pattern in subset_patterns(len(self.factors)):
            split = tuple(sorted(list(self.factors)[i] for i in pattern))
            outside = self.factors.keys() - set(split)
            if set(split) <= inside and all(self._sums(i) for i in outside):
                yield split

    def _sums(self, i: int) -> bool:
        """Whether Wτ is more than rounding."""
        centre, factor = self.frame.bases[i].centre, self.factors[i]
        size = factor.row_squares().sum() * (centre @ centre)
        return bool((factor.matmul(centre[:, None]) ** 2).sum() > ROUNDING * size)

    def steps(self, split: Set) -> list[Array]:
        """W_iV_i inside the set, W_iτ_i outside, in the query's order."""
        pieces = {i: self.frame.bases[i].split(f) for i, f in self.factors.items()}
        return [p[:, 1:] if i in split else p[:, :1] for i, p in pieces.items()]

    def squares(self, split: Set) -> list[Array]:
        """The squared lengths of the same rows, as columns."""
        found = []
        for i, factor in self.factors.items():
            basis = self.frame.bases[i]
            inside = basis.residual_rows(factor)[:, None]
            found.append(inside if i in split else factor.matmul(basis.centre[:, None]) ** 2)
        return found

    def ordered(self, rows: Array) -> Array:
        """Rows by split attributes first, and then by D's, in the query's order (axis 0)."""
        if self.query.joint is not None:
            return rows
        shape = dict(zip(self.query.attributes, self.query.shape, strict=True))
        inner = [name for name in shape if name in self.frame.cells]
        names = [*self.names, *inner]
        cube = rows.reshape(*(shape[name] for name in names), *rows.shape[1:])
        order = [names.index(name) for name in shape]
        turned = cube.transpose(*order, *range(len(names), cube.ndim))
        return np.ascontiguousarray(turned).reshape(rows.shape)


@dataclass(frozen=True, eq=False)
class CrossedMechanism(Mechanism):
    """Parts, each with its own rows and noise; not saved, for plans are what is released."""

    alike_by = "nothing"

    schema: Schema
    frame: Frame
    parts_of: tuple[Part, ...]

    def __post_init__(self) -> None:
        if self.noise.exact:
            require_whole([axis.measure for axis in self.frame.bases.values()])

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        sizes = [part.rows.noise.one for part in self.parts_of]
        exact = any(part.rows.noise.exact for part in self.parts_of)
        return Noise("gaussian", np.array(sizes, dtype=np.float64), exact)

    def floating(self) -> Mechanism:
        parts = [
            replace(p, rows=replace(p.rows, noise=p.rows.noise.floating())) for p in self.parts_of
        ]
        return replace(self, parts_of=tuple(parts))

    @cached_property
    def by_set(self) -> dict[Set, Part]:
        return {part.split: part for part in self.parts_of}

    # ------------------------------------------------------------------ what is measured

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [
            (*(axis.rows for axis in self.frame.axes(part.split)), part.rows.numbers)
            for part in self.parts_of
        ]

    @property
    def numbers(self) -> int:
        return sum(prod(shape) for shape in self.shapes)

    @property
    def steps(self) -> int:
        return len(self.parts_of)

    @property
    def sets(self) -> list[IntArray]:
        return [self.frame.table(part.split) for part in self.parts_of]

    def describe(self) -> str:
        cells = f"{self.frame.cells.size:,} cells of {', '.join(self.frame.cells.names)}"
        return f"{self.numbers:,} noisy numbers on {self.steps:,} subsets crossed with {cells}"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        values = []
        for part in self.parts_of:
            table = np.asarray(marginals(self.frame.table(part.split)))
            rows = [*(axis.measure for axis in self.frame.axes(part.split)), part.rows.strategy]
            counts = self.frame.crossed(part.split, table)
            values.append(noisy_residuals(rows, counts, part.rows.noise, sample)[..., 0])
            progress(1)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ privacy

    @cached_property
    def cell_costs(self) -> Array:
        """Of each of D's cells, Σ_A ∏ β_i (B_AᵀB_A)_dd / σ²_A: what no record of it exceeds."""
        found = np.zeros(self.frame.cells.size)
        for part in self.parts_of:
            columns = np.einsum("ri,ri->i", part.rows.strategy, part.rows.strategy)
            beta = prod(axis.sensitivity for axis in self.frame.axes(part.split))
            found += beta * columns / part.rows.noise.one
        return found

    def record_cost(self, neighbours: Neighbours) -> float:
        found = self.cost_with([], neighbours)
        assert found is not None  # nothing beside it
        return found

    def cost_with(self, others: list[Mechanism], neighbours: Neighbours) -> float | None:
        """Cell by cell of D, where all are crossed alike; (a − b)² ≤ 2a² + 2b² to replace one."""
        every = [self, *(m for m in others if isinstance(m, CrossedMechanism))]
        if len(every) <= len(others) or any(m.frame is not self.frame for m in every):
            return None
        for mechanism in every:
            mechanism.require_noise(neighbours)
        largest = float(np.sum([m.cell_costs for m in every], axis=0).max(initial=0.0))
        record = product_up(largest, 1 + margin(sum(m.numbers for m in every)))
        return record if neighbours == "add-remove" else 4 * record

    def cost_matrix(self) -> Array:
        every = self.schema.shape
        split = [i for i in range(len(every)) if i not in self.frame.whole]
        cost = np.zeros((self.schema.size,) * 2)
        for part in self.parts_of:
            inside = [
                self.frame.bases[i].gram if i in part.split else np.ones((every[i],) * 2)
                for i in split
            ]
            cost += kronecker_dense([*inside, part.rows.cost_matrix()])
        order = np.arange(self.schema.size).reshape(every)
        order = np.argsort(order.transpose(*split, *self.frame.whole).ravel())
        return cost[np.ix_(order, order)]

    # ------------------------------------------------------------------ answering

    def _asked(self, query: Query) -> tuple[Asked, list[Part]]:
        """The query and the parts it is answered from, if they determine it."""
        asked, found = Asked(self.frame, query), []
        for i, factor in asked.factors.items():
            if not self.frame.bases[i].spans(factor):
                raise self._untold(query)
        for split in asked.sets():
            part = self.by_set.get(split)
            if part is None or not part.fit.determines(asked.over_cells):
                raise self._untold(query)
            found.append(part)
        return asked, found

    def _untold(self, query: Query) -> UnanswerableError:
        return UnanswerableError(
            f"{query.name!r} is not determined by what is measured: add a query on "
            f"{list(query.attributes)} with these rows to the workload"
        )

    def require(self, query: Query) -> None:
        self._asked(query)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        numbers = dict(zip(self.by_set, measured.values, strict=True))
        return lambda query: self._answer(numbers, query)

    def _answer(self, numbers: Mapping[Set, NDArray[Any]], query: Query) -> Array:
        asked, parts = self._asked(query)
        rows = np.zeros(query.rows)
        for part in parts:
            cells = np.asarray(numbers[part.split], dtype=np.float64) @ part.back.T
            inside = iter(cells.shape)
            shape = [next(inside) if i in part.split else 1 for i in asked.factors]
            cube = cells.reshape(*shape, -1, 1)
            rows += kronecker_apply([*asked.steps(part.split), asked.over_cells], cube).reshape(-1)
        return asked.ordered(rows)

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        asked, parts = self._asked(query)
        rows = np.zeros(query.rows)
        for part in parts:
            forms = asked.over_cells.quadratic_rows(part.fit.spread)[:, None]
            one = kronecker_dense([*asked.squares(part.split), forms])[:, 0]
            rows += float(part.rows.noise.variance[0]) * np.maximum(one, 0.0)
        return asked.ordered(rows)

    def covariance(self, query: Query, other: Query) -> Array:
        (one, mine), (two, theirs) = self._asked(query), self._asked(other)
        if query.rows * other.rows > DENSE_LIMIT:
            raise QueryError(
                f"the covariance of {query.name!r} and {other.name!r} has {query.rows:,} × "
                f"{other.rows:,} numbers, above the limit of {DENSE_LIMIT:,}: ask for fewer rows, "
                f"or for variance(query)"
            )
        found = np.zeros((query.rows, other.rows))
        for part in mine:
            if part in theirs:
                spread = two.over_cells.matmul(one.over_cells.matmul(part.fit.spread).T).T
                pieces = _products(one, two, part.split)
                found += float(part.rows.noise.variance[0]) * kronecker_dense([*pieces, spread])
        return two.ordered(one.ordered(found).T).T

    # ------------------------------------------------------------------ written out

    def measured_queries(self, most: int) -> list[Query]:
        names = self.schema.names
        return [Query(self.schema, [names[i] for i in p.split]) for p in self.parts_of[:most]]

    def parts(self) -> tuple[Json, Arrays]:
        raise self._not_saved()

    @classmethod
    def from_parts(cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> NoReturn:
        raise cls._not_saved()

    @staticmethod
    def _not_saved() -> StorageError:
        return StorageError(
            "what plans with different rows have in common is not saved: go on in the same "
            "program, look.choose(plan), and save that release"
        )


def _products(one: Asked, two: Asked, split: Set) -> list[Array]:
    """(W_iV_i)(W'_iV_i)ᵀ inside the set, (W_iτ_i)(W'_iτ_i)ᵀ outside, 1 for what is not asked."""
    mine, theirs = (dict(zip(a.factors, a.steps(split), strict=True)) for a in (one, two))
    every = sorted(mine.keys() | theirs.keys())
    return [mine.get(i, np.ones((1, 1))) @ theirs.get(i, np.ones((1, 1))).T for i in every]
