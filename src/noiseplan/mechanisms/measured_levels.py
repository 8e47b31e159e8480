"""Levels of a tree, each measured by rows of its own over the other attributes.

The values of one attribute lie in a tree (`domain.tree`). The whole is measured by the rows B₀ over
the cells of the others; of every node j of level c, with siblings i under p, its difference from
its part of the parent,

    measured at j:   B_c (s x_j − t_j x_p) + z ,   z of variance d_j,   s = Σ_i t_i ,

t whole numbers where noise is exact. With g = t/s the rows of the siblings tell (x_j − g_j x_p) and
nothing of x_p, so that the levels are independent, whatever rows each of them has:

    x̂_j = g_j x̂_p + (1/s) B_c⁺ (ω_j − g_j Σ_i ω_i) .

Where d_j is proportional to t_j these are the estimates of least squares. The variance of a sum of
nodes Σ_j w_j x_j follows from the last level upwards; with d' = d/s² of a node and D' = Σ d' of its
siblings, level c adds

    Σ_j w_j² d'_j − 2 Σ_p a_p b_p + Σ_p a_p² D'_p ,    a_p = Σ_j w_j g_j ,   b_p = Σ_j w_j d'_j ,

times (B_cᵀB_c)⁺, and a are the weights of the level above. A record in cell x, on the path of
nodes j, costs

    Σ_c ‖B_c e_x‖² · ( (s − t_j)²/d_j + Σ_{i≠j} t_i²/d_i ) .

This is the precision Σ_c Σ_p (s² (diag(1/t) − 11ᵀ/s)) ⊗ B_cᵀB_c: the block family with the tree
outside and any precision of the other attributes at each level (docs/how-it-works.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json, immutable
from noiseplan.domain.tree import Tree
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import (
    Errors,
    Marginals,
    Measurements,
    Progress,
    floats,
)
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.exact_residuals import counts_for, require_fit
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.level_answers import AskedCells, AskedLevels
from noiseplan.mechanisms.level_siblings import NodeSums, Siblings
from noiseplan.mechanisms.level_words import levels_in_words
from noiseplan.mechanisms.long_attribute import AlongAttribute
from noiseplan.mechanisms.measured_tree import noisy_nodes, read_tree, written_tree
from noiseplan.noise.law import Noise, Sampler, lattice_of
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

# Sums of t: with a count of every record that is ever released, differences fit 64 bits.
LARGEST_SUM: Final = 1 << 22
# Saved arrays of a level, and how many axes they have.
_SAVED: Final = (("rows", 2), ("parts", 1))


@immutable
@dataclass(frozen=True, eq=False)
class Level:
    """One level: B over the cells of the others, t of its nodes, noise of those with siblings."""

    rows: Array
    parts: Array
    noise: Noise

    @cached_property
    def fit(self) -> LeastSquares:
        """Estimates from its rows."""
        return LeastSquares(self.rows)

    @cached_property
    def inverse(self) -> Array:
        """B⁺."""
        return self.fit.estimate(np.eye(len(self.rows)))

    @cached_property
    def column_squares(self) -> Array:
        """‖B e_x‖² of every cell."""
        return np.asarray(np.einsum("rx,rx->x", self.rows, self.rows))

    def of_query(self, rows: Array) -> Array:
        """WB⁺, for rows W over the cells."""
        return np.asarray(rows @ self.inverse)


@immutable
@dataclass(frozen=True, eq=False)
class LevelsMechanism(AlongAttribute):
    """The tree of the attribute at `place`, the others that rows are over, and every level."""

    kind: ClassVar[str] = "levels"
    undivided: ClassVar[str | None] = (
        "one of the plans measures levels by rows of their own, and is continued by the same "
        "queries with another budget alone"
    )

    schema: Schema
    place: int
    others: tuple[int, ...]
    tree: Tree
    levels: tuple[Level, ...]
    exact: int

    def __post_init__(self) -> None:
        require_fit(self.noise, [rows for each in self.levels for rows in (each.rows, each.parts)])
        for level, below in enumerate(self.siblings, 1):
            if not (below.parts > 0).all() or below.total.max() > LARGEST_SUM:
                raise PlanError(f"parts of the nodes of level {level} are no positive numbers")

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        sizes = [each.noise.size for each in self.levels]
        return Noise("gaussian", np.concatenate(sizes), self.exact)

    @cached_property
    def siblings(self) -> list[Siblings]:
        """Of every level below the root."""
        return [
            Siblings.of(self.tree, c, own.parts, own.noise)
            for c, own in enumerate(self.levels)
            if c
        ]

    @property
    def _shape(self) -> tuple[int, ...]:
        """Values of each of the others."""
        return tuple(self.schema.shape[i] for i in self.others)

    def on_lattice(self, exact: int) -> LevelsMechanism:
        levels = (replace(each, noise=each.noise.on_lattice(exact)) for each in self.levels)
        return replace(self, levels=tuple(levels), exact=exact)

    # ------------------------------------------------------------------ privacy

    def _dearest(self) -> tuple[float, int]:
        terms = 1 + 2 * sum(int(np.bincount(below.parent).max()) for below in self.siblings)
        path, squares = self._paths([below.price() for below in self.siblings]), self._squares
        different = np.unique(path, axis=0)
        most = max(
            float((different[part] @ squares).max())
            for part in batches(len(different), squares.shape[1], BATCH_CELLS)
        )
        return most, terms + max(len(each.rows) for each in self.levels)

    def _paths(self, prices: list[Array]) -> Array:
        """What every leaf pays for a unit column at each level, leaves × levels."""
        found = np.array([[1.0 / self.levels[0].noise.one]])
        for below, price in zip(self.siblings, prices, strict=True):
            found = np.column_stack([found[below.parent], price])
        return found

    @cached_property
    def _squares(self) -> Array:
        """Levels × cells of the others."""
        return np.array([each.column_squares for each in self.levels])

    def cell_costs(self) -> Array:
        path = self._paths([below.surely() for below in self.siblings])
        return self._over_domain((path @ self._squares)[self.tree.of_value]).ravel()

    def cost_matrix(self) -> Array:
        rows = self.unit_rows()
        return rows.T @ rows

    # ------------------------------------------------------------------ written out

    def unit_rows(self) -> Array:
        found = []
        for level, own in enumerate(self.levels):
            along = self._rows_along(level)
            each = np.einsum("rx,jv->rjvx", own.rows, along)
            found.append(each.reshape(-1, along.shape[1], own.rows.shape[1]))
        return self._over_domain(np.concatenate(found))

    def unit_values(self, measured: Measurements) -> Array:
        pairs = zip(measured.values, self.levels, strict=True)
        return np.concatenate([(each / np.sqrt(own.noise.size)).ravel() for each, own in pairs])

    def measured_queries(self, most: int) -> list[Query]:
        rows = self.unit_rows()
        rows = rows / np.abs(rows).max(axis=1, keepdims=True)
        return [Query(self.schema, list(self.schema.names), matrix=rows, name="what is measured")]

    def _rows_along(self, level: int) -> Array:
        """What nodes of a level with siblings ask of the values, over σ."""
        if level == 0:
            one = np.ones((1, len(self.tree.of_value)))
            return np.asarray(one / np.sqrt(self.levels[0].noise.one))
        below, node = self.siblings[level - 1], self.tree.node_of_value(level)
        mine = node == np.flatnonzero(below.kept)[:, None]
        beside = below.parent[node] == below.parent[below.kept][:, None]
        rows: Array = mine * below.total[below.kept][:, None]
        rows = rows - beside * below.parts[below.kept][:, None]
        return np.asarray(rows / np.sqrt(below.sizes[below.kept])[:, None])

    def _over_domain(self, rows: Array) -> Array:
        """Rows over values and cells of the others as rows over all cells of the schema."""
        shape, axes = self.schema.shape, [self.place, *self.others]
        cube = rows.reshape(-1, *(shape[i] for i in axes))
        cube = cube.transpose([0, *(1 + axes.index(i) for i in sorted(axes))])
        cube = cube.reshape(-1, *(n if i in axes else 1 for i, n in enumerate(shape)))
        return np.array(np.broadcast_to(cube, (len(cube), *shape)).reshape(len(cube), -1))

    # ------------------------------------------------------------------ measuring

    @property
    def numbers(self) -> int:
        return sum(len(each.rows) * len(each.noise) for each in self.levels)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(len(each.rows), len(each.noise)) for each in self.levels]

    @property
    def steps(self) -> int:
        return len(self.levels)

    @cached_property
    def _told(self) -> list[tuple[int, ...]]:
        """Of every level the other attributes whose values its rows tell apart."""
        found = []
        for each in self.levels:
            cube = each.rows.reshape(-1, *self._shape)
            varies = [np.ptp(cube, axis=axis).any() for axis in range(1, cube.ndim)]
            found.append(tuple(i for i, v in zip(self.others, varies, strict=True) if v))
        return found

    @property
    def sets(self) -> list[IntArray]:
        distinct = dict.fromkeys(tuple(sorted((self.place, *told))) for told in self._told)
        return [np.array([each], dtype=np.int64) for each in distinct]

    def describe(self) -> str:
        numbers = counted(self.numbers, "noisy number")
        levels = levels_in_words(self.schema, self.place, self.tree)
        return f"{numbers} at {levels}, each by rows of its own"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count by value and what each level tells apart, add up along the tree, add noise."""
        values: list[NDArray[np.number]] = []
        known: dict[tuple[int, ...], list[NDArray[np.number]]] = {}
        for level, (own, told) in enumerate(zip(self.levels, self._told, strict=True)):
            if told not in known:
                known[told] = self._by_node(marginals, told)
            of_nodes = known[told][level]
            if level:
                of_nodes = self.siblings[level - 1].differences(of_nodes)
            rows = own.rows.reshape(-1, *self._shape)
            rows = rows[(slice(None), *(slice(None) if i in told else 0 for i in self.others))]
            values.append(noisy_nodes([rows.reshape(len(rows), -1)], of_nodes, own.noise, sample))
            progress(1)
        return Measurements(tuple(values))

    def _by_node(self, marginals: Marginals, told: tuple[int, ...]) -> list[NDArray[np.number]]:
        """Counts of the nodes of every level by some others, (nodes, cells)."""
        attributes = np.array([sorted((self.place, *told))], dtype=np.int64)
        counts = counts_for(self.noise, self.counts(marginals, attributes))
        return self.tree.up(counts.reshape(len(counts), -1), self.tree.depth + 1)

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        self._asked(query)

    def _asked(self, query: Query) -> AskedLevels | AskedCells:
        names = [self.schema.names[i] for i in (self.place, *self.others)]
        missing = [name for name in query.attributes if name not in names]
        if missing:
            raise UnanswerableError(
                f"{query.name!r} needs {missing}, which the plan does not measure: add a "
                f"query on {missing} to the workload"
            )
        return AskedLevels.of(self, query) if query.joint is None else AskedCells.of(self, query)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        values = _floating(measured)
        return lambda query: self._asked(query).answer(values)

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        asked = self._asked(query)
        return asked.answer(_floating(measured)), Errors(np.sqrt(asked.variance()))

    def variance(self, query: Query) -> Array:
        return self._asked(query).variance()

    def covariance(self, query: Query, other: Query) -> Array:
        one, two = self._asked(query), self._asked(other)
        if isinstance(one, AskedLevels) and isinstance(two, AskedLevels):
            return one.covariance(two)
        return AskedCells.of(self, query).covariance(AskedCells.of(self, other))

    def figures_alike(self, workload: Workload, group: IntArray) -> tuple[Array, Array]:
        both = [self._asked(workload.query(int(q))).sum_and_largest() for q in group]
        sums, largest = zip(*both, strict=True)
        return np.array(sums), np.array(largest)

    @cached_property
    def node_sums(self) -> NodeSums:
        """How sums of nodes vary."""
        return NodeSums(float(self.levels[0].noise.variance[0]), self.siblings)

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        arrays = written_tree(self.tree)
        for c, each in enumerate(self.levels):
            arrays |= {f"level_{c}_rows": each.rows, f"level_{c}_sigma2": each.noise.size}
            arrays[f"level_{c}_parts"] = each.parts
        content: Json = {
            "kind": self.kind,
            "integer": self.exact,
            "attribute": self.schema.names[self.place],
            "others": [self.schema.names[i] for i in self.others],
            "levels": self.tree.depth,
        }
        return content, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> LevelsMechanism:
        place, exact = schema.index(content["attribute"]), lattice_of(content["integer"])
        others = tuple(schema.index(name) for name in content["others"])
        if list(others) != sorted({*others} - {place}):
            raise StorageError("the levels are not about other attributes of the schema")
        tree = read_tree(int(content["levels"]), arrays, schema.shape[place])
        cells, levels = prod(schema.shape[i] for i in others), []
        for c, nodes in enumerate(tree.sizes):
            rows, parts = (floats(arrays, f"level_{c}_{name}", n) for name, n in _SAVED)
            sizes = floats(arrays, f"level_{c}_sigma2", 1)
            if rows.shape[1] != cells or len(parts) != nodes or not (parts > 0).all():
                raise StorageError(f"level {c} does not fit its tree, or its attributes")
            siblings = np.bincount(tree.parents[c - 1])[tree.parents[c - 1]] > 1 if c else [True]
            if len(sizes) != np.sum(siblings) or not (sizes > 0).all():
                raise StorageError(f"level {c} does not fit its tree, or has no noise")
            levels.append(Level(rows, parts, Noise("gaussian", sizes, exact)))
        return cls(schema, place, others, tree, tuple(levels), exact)


def _floating(measured: Measurements) -> list[Array]:
    return [np.asarray(each, dtype=np.float64) for each in measured.values]
