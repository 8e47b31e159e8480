"""Nodes of a tree measured with residuals of the other attributes: geography at any size.

The values of one attribute lie in a tree of levels (`domain.tree`). For every set A of the others

    measured at node v:   ω_{A,v} = (⊗_{i∈A} U_i) x_{A,v} + σ_{A,v} z ,

x_{A,v} the counts of v by A. Estimates of each set are those of least squares on the tree; an answer
for nodes of any level adds up the sets inside the query, as the residual mechanism does. The cost
of a record is what lies on its path,

    Σ_A ∏_{i∈A} β_i Σ_{v on the path} 1/σ²_{A,v} .
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.domain.tree import Tree
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices import (
    IdentityMatrix,
    Matrix,
    StackMatrix,
    TotalMatrix,
    kronecker_apply,
    kronecker_dense,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.groups import GroupMatrix
from noiseplan.mechanisms.base import Marginals, Measurements, Mechanism, Progress, floats
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_whole
from noiseplan.mechanisms.tree_block import NodeRows, TreeBlock
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query
from noiseplan.schema import Schema

# Rows of other matrices over the long attribute are written down up to so many numbers.
MOST_WEIGHTS = 1 << 24


@dataclass(frozen=True, eq=False)
class TreeMechanism(Mechanism):
    """The attribute with the tree by its place, bases of the others, and what is measured."""

    kind: ClassVar[str] = "tree"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"

    schema: Schema
    place: int
    bases: tuple[Basis, ...]
    basis_of: IntArray  # of each attribute, −1 for none
    blocks: tuple[TreeBlock, ...]
    exact: bool

    def __post_init__(self) -> None:
        if self.exact:
            require_whole([basis.measure for basis in self.bases])
        if len({block.others for block in self.blocks}) < len(self.blocks):
            raise PlanError("a set of attributes is measured by two blocks: put it into one")

    @property
    def tree(self) -> Tree:
        return self.blocks[0].tree

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        sizes = [noise.size for block in self.blocks for noise in block.noise]
        return Noise("gaussian", np.concatenate(sizes), self.exact)

    def floating(self) -> Mechanism:
        return replace(self, blocks=tuple(b.floating() for b in self.blocks), exact=False)

    def basis(self, attribute: int) -> Basis:
        """The basis of another attribute."""
        return self.bases[int(self.basis_of[attribute])]

    # ------------------------------------------------------------------ privacy

    def record_cost(self, neighbours: Neighbours) -> float:
        if neighbours == "replace" and self.schema.size <= CELL_BY_CELL:
            return cell_by_cell([self], neighbours)
        self.require_noise(neighbours)
        last = max(block.depth for block in self.blocks)
        total = np.zeros(self.tree.sizes[last])
        for block in self.blocks:
            path = block.price() * prod(self.basis(i).sensitivity for i in block.others)
            total += path[_above(self.tree, last, block.depth)]
        terms = sum(len(block.noise) + len(block.others) for block in self.blocks)
        record = product_up(float(total.max()), 1 + margin(terms))
        # ‖a − b‖² ≤ 2‖a‖² + 2‖b‖² for the columns of any two records.
        return record if neighbours == "add-remove" else 4 * record

    def cost_matrix(self) -> Array:
        cost = np.zeros((self.schema.size, self.schema.size))
        for block in self.blocks:
            along = np.zeros((self.schema.shape[self.place],) * 2)
            for level, noise in enumerate(block.noise):
                node = self.tree.node_of_value(level)
                along += (node[:, None] == node) / noise.size[node]
            pieces = [
                along
                if i == self.place
                else (self.basis(i).gram if i in block.others else np.ones((n, n)))
                for i, n in enumerate(self.schema.shape)
            ]
            cost += kronecker_dense(pieces)
        return cost

    # ------------------------------------------------------------------ measuring

    def _rows(self, block: TreeBlock) -> tuple[int, ...]:
        return tuple(self.basis(i).rows for i in block.others)

    @property
    def numbers(self) -> int:
        return sum(sum(block.nodes) * prod(self._rows(block)) for block in self.blocks)

    @property
    def steps(self) -> int:
        return len(self.blocks)

    @property
    def sets(self) -> list[IntArray]:
        return [np.array([sorted((*b.others, self.place))], dtype=np.int64) for b in self.blocks]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(*self._rows(block), n) for block in self.blocks for n in block.nodes]

    def describe(self) -> str:
        sets = "1 set" if len(self.blocks) == 1 else f"{len(self.blocks):,} sets"
        name, levels = self.schema.names[self.place], self.tree.depth + 1
        return f"{self.numbers:,} noisy numbers on {sets} at {levels} levels of {name}"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count by value and set, add up along the tree, transform, add noise."""
        values: list[NDArray[np.number]] = []
        for block, attributes in zip(self.blocks, self.sets, strict=True):
            counts = marginals(attributes)[0]
            counts = np.moveaxis(counts, int(np.searchsorted(attributes[0], self.place)), 0)
            rows = [self.basis(i).measure for i in block.others]
            for level, of_nodes in enumerate(self.tree.up(counts, len(block.noise))):
                parts = [
                    noisy_residuals(rows, of_nodes[part], block.noise[level][part], sample)
                    for part in batches(len(of_nodes), of_nodes[0].size, BATCH_CELLS)
                ]
                values.append(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))
            progress(1)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        if query.joint is not None:
            raise UnanswerableError(
                f"{query.name!r} is one matrix over several attributes, and the plan measures "
                f"nodes of {self.schema.names[self.place]!r} by tables of the others: ask for a "
                f"table, and add up its rows"
            )
        _Asked(self, query).require()

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        known: dict[int, list[Array]] = {}
        begin = np.cumsum([0, *(len(block.noise) for block in self.blocks)])

        def estimates(number: int) -> list[Array]:
            if number not in known:
                own = measured.values[begin[number] : begin[number + 1]]
                known[number] = self.blocks[number].estimates(own)
            return known[number]

        def answer(query: Query) -> Array:
            self.require(query)
            return _Asked(self, query).answer(estimates)

        return answer

    def variance(self, query: Query) -> Array:
        self.require(query)
        return _Asked(self, query).variance()

    def covariance(self, query: Query, other: Query) -> Array:
        self.require(query)
        self.require(other)
        return _Asked(self, query).covariance(_Asked(self, other))

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        bases, arrays = write_bases(self.bases, self.basis_of)
        arrays["tree_values"] = self.tree.of_value
        for level, parent in enumerate(self.tree.parents):
            arrays[f"tree_{level}_parents"] = parent
        for i, block in enumerate(self.blocks):
            for level, noise in enumerate(block.noise):
                arrays[f"block_{i}_{level}_sigma2"] = noise.size
        content: Json = {
            "kind": self.kind,
            "integer": self.exact,
            "attribute": self.schema.names[self.place],
            "levels": self.tree.depth,
            "bases": bases,
            "blocks": [{"others": list(b.others), "levels": len(b.noise)} for b in self.blocks],
        }
        return content, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> TreeMechanism:
        bases, basis_of = read_bases(content, arrays, schema)
        place, exact = schema.index(content["attribute"]), bool(content["integer"])
        tree = _read_tree(int(content["levels"]), arrays, schema.shape[place])
        blocks = []
        for i, saved in enumerate(content["blocks"]):
            others = tuple(int(a) for a in saved["others"])
            levels = int(saved["levels"])
            known = all(0 <= a < len(schema) and basis_of[a] >= 0 for a in others)
            if not known or list(others) != sorted({*others} - {place}):
                raise StorageError(f"block {i} is not about attributes of the schema")
            if not 1 <= levels <= tree.depth + 1:
                raise StorageError(f"block {i} has levels that the tree has not")
            noise = tuple(
                Noise("gaussian", floats(arrays, f"block_{i}_{level}_sigma2", 1), exact)
                for level in range(levels)
            )
            if any(len(a) != n or not (a.size > 0).all() for a, n in zip(noise, tree.sizes)):  # noqa: B905
                raise StorageError(f"block {i} does not fit its tree, or has no noise")
            blocks.append(TreeBlock(tree, others, noise))
        if not blocks:
            raise StorageError("nothing is measured")
        return cls(schema, place, bases, basis_of, tuple(blocks), exact)


def _above(tree: Tree, last: int, level: int) -> IntArray:
    """The node of a level that each node of a later level lies under."""
    node = np.arange(tree.sizes[last])
    for parent in reversed(tree.parents[level:last]):
        node = parent[node]
    return node


def _read_tree(levels: int, arrays: Arrays, size: int) -> Tree:
    of_value = np.asarray(arrays["tree_values"])
    parents = tuple(np.asarray(arrays[f"tree_{level}_parents"]) for level in range(levels))
    above = 1
    for parent in parents:
        steps = np.diff(parent, prepend=0, append=above - 1)
        if parent.dtype.kind != "i" or parent.ndim != 1 or not ((steps >= 0) & (steps <= 1)).all():
            raise StorageError("the nodes of the tree are not numbered by their parents")
        above = len(parent)
    fits = of_value.dtype.kind == "i" and of_value.shape == (size,)
    if not fits or not np.array_equal(np.unique(of_value), np.arange(above)):
        raise StorageError("the tree of the mechanism is not one over its attribute")
    return Tree(of_value.astype(np.int64), tuple(p.astype(np.int64) for p in parents))


def node_rows(matrix: Matrix, tree: Tree) -> Iterator[NodeRows | None]:
    """What rows over the values ask of the tree, piece by piece; None where it cannot tell."""
    if isinstance(matrix, StackMatrix):
        for block in matrix.blocks:
            yield from node_rows(block, tree)
        return
    count = matrix.shape[1]
    group = None
    if isinstance(matrix, TotalMatrix):
        group = np.zeros(count, dtype=np.int64)
    elif isinstance(matrix, IdentityMatrix):
        group = np.arange(count)
    elif isinstance(matrix, GroupMatrix):
        group = matrix.group
    found = None if group is None else tree.level_of(group)
    if found is not None:
        yield NodeRows(found[0], nodes=found[1])
        return
    if matrix.shape[0] * matrix.shape[1] > MOST_WEIGHTS and group is None:
        yield None
        return
    rows = matrix.sparse if isinstance(matrix, GroupMatrix) else sp.csr_array(matrix.dense())
    first = np.unique(tree.of_value, return_index=True)[1]
    weights = sp.csr_array(rows[:, first])
    told = abs(weights[:, tree.of_value] - rows).max() <= 1e-12
    yield NodeRows(tree.depth, weights=weights) if told else None


@dataclass(frozen=True, eq=False)
class _Asked:
    """A query of tables against what is measured."""

    mechanism: TreeMechanism
    query: Query

    @cached_property
    def place(self) -> int:
        """Where the attribute with the tree stands among the query's; −1 if it is summed over."""
        name = self.mechanism.schema.names[self.mechanism.place]
        return self.query.attributes.index(name) if name in self.query.attributes else -1

    @cached_property
    def others(self) -> dict[int, Matrix]:
        """The factor of every other attribute."""
        index = self.mechanism.schema.index
        pairs = zip(self.query.attributes, self.query.matrices(), strict=True)
        return {index(n): m for n, m in pairs if index(n) != self.mechanism.place}

    @cached_property
    def pieces(self) -> list[NodeRows | None]:
        """Rows over the tree."""
        size = self.mechanism.schema.shape[self.mechanism.place]
        matrix = TotalMatrix(size) if self.place < 0 else self.query.matrices()[self.place]
        return list(node_rows(matrix, self.mechanism.tree))

    def require(self) -> None:
        mechanism, name = self.mechanism, self.query.name
        lacking = [i for i in self.others if mechanism.basis_of[i] < 0]
        if lacking:
            missing = [mechanism.schema.names[i] for i in lacking]
            raise UnanswerableError(
                f"{name!r} needs {missing}, which the plan does not measure: add a query on "
                f"{missing} to the workload"
            )
        for i, factor in self.others.items():
            if not mechanism.basis(i).spans(factor):
                own = mechanism.schema.names[i]
                raise UnanswerableError(
                    f"{name!r} tells values of {own!r} apart that no query of the plan's workload "
                    f"tells apart: add a query with this factor on {own!r} to the workload"
                )
        known = {block.others: block for block in mechanism.blocks}
        for chosen in self._needed():
            block = known.get(chosen)
            if block is None or any(self._over(block, rows) is None for rows in self.pieces):
                names = [mechanism.schema.names[i] for i in (*chosen, mechanism.place)]
                raise UnanswerableError(
                    f"{name!r} needs {' × '.join(names)} measured together at this level, and the "
                    f"plan does not: add the query to the workload"
                )

    def _needed(self) -> Iterator[tuple[int, ...]]:
        """The sets of other attributes whose residual is not zero for the query."""
        asked = sorted(self.others)
        residual = {i: bool(self._residual[i].any()) for i in asked}
        summed = {i: bool(self._mean[i].any()) for i in asked}
        for width in range(len(asked) + 1):
            for chosen in combinations(asked, width):
                if all(residual[i] if i in chosen else summed[i] for i in asked):
                    yield chosen

    @cached_property
    def _residual(self) -> dict[int, Array]:
        """(WVVᵀWᵀ)_qq of every row, of every other attribute."""
        return {i: self.mechanism.basis(i).residual_rows(f) for i, f in self.others.items()}

    @cached_property
    def _mean(self) -> dict[int, Array]:
        """Wτ of every row."""
        centre = {i: self.mechanism.basis(i).centre for i in self.others}
        return {i: f.matmul(centre[i][:, None])[:, 0] for i, f in self.others.items()}

    def _over(self, block: TreeBlock, rows: NodeRows | None) -> NodeRows | None:
        """Rows as far down as a block is measured."""
        return None if rows is None else rows.over(self.mechanism.tree, block.depth)

    def _inside(self) -> Iterator[tuple[int, TreeBlock]]:
        """Measured sets inside the query."""
        for number, block in enumerate(self.mechanism.blocks):
            if set(block.others) <= self.others.keys():
                yield number, block

    def _pieces(self, block: TreeBlock) -> list[NodeRows] | None:
        """All rows as a block sees them; None where it is too shallow, and not needed."""
        found = [self._over(block, rows) for rows in self.pieces]
        return None if None in found else [rows for rows in found if rows is not None]

    def answer(self, estimates: Callable[[int], list[Array]]) -> Array:
        """The estimate of every row."""
        mechanism, order = self.mechanism, sorted(self.others)
        bases = [mechanism.basis(i) for i in order]
        count = sum(rows.count for rows in self.pieces if rows is not None)
        tensor = np.zeros((*(basis.rows + 1 for basis in bases), count))
        for number, block in self._inside():
            pieces = self._pieces(block)
            if pieces is not None:
                found = [block.estimate(estimates(number), rows) for rows in pieces]
                part = tuple(slice(1, None) if i in block.others else 0 for i in order)
                tensor[part] = np.concatenate(found, axis=-1)
        steps = [self._step(i) for i in order]
        result = np.empty((*(len(self._mean[i]) for i in order), count))
        cells = prod(basis.rows + 1 for basis in bases)
        for part in batches(count, cells, BATCH_CELLS):
            some = kronecker_apply([step for step, _ in steps], tensor[..., part])
            for axis, (_, late) in enumerate(steps):
                if late is not None:
                    some = np.moveaxis(late.matmul(np.moveaxis(some, axis, 0)), 0, axis)
            result[..., part] = some
        return self._ordered(result)

    def _step(self, i: int) -> tuple[Array | Matrix, Matrix | None]:
        """[Wτ | WV], or [τ | V] and the factor where that is less work."""
        factor, basis = self.others[i], self.mechanism.basis(i)
        inverse = basis.inverse
        if isinstance(inverse, Matrix) or factor.shape[0] > factor.shape[1]:
            return inverse, factor
        return basis.split(factor), None

    def _ordered(self, values: Array) -> Array:
        """(others, nodes) in the order of the query's attributes, as one row after the other."""
        place = len(self.others) if self.place < 0 else self.place
        return np.ascontiguousarray(np.moveaxis(values, -1, place)).ravel()

    def variance(self) -> Array:
        """Σ_A V_A(rows) ∏_{i∈A} (WVVᵀWᵀ) ∏_{i∉A} (Wτ)²."""
        total: Array | None = None
        order = sorted(self.others)
        for _, block in self._inside():
            pieces = self._pieces(block)
            if pieces is None:
                continue
            own = np.concatenate([block.variance(rows) for rows in pieces])
            parts = [self._residual[i] if i in block.others else self._mean[i] ** 2 for i in order]
            each = reduce(np.multiply.outer, [*parts, own])
            total = each if total is None else np.add(total, each, out=total)
        assert total is not None  # a query that is answered has a set inside it
        return self._ordered(total)

    def covariance(self, other: _Asked) -> Array:
        """The same with rows of another query in place of the second factor of each."""
        order = sorted(self.others.keys() | other.others.keys())
        total = np.zeros((self.query.rows, other.query.rows))
        mine, theirs = self._places(order), other._places(order)
        for _, block in self._inside():
            if not set(block.others) <= other.others.keys():
                continue
            ours, yours = self._pieces(block), other._pieces(block)
            if ours is None or yours is None:
                continue
            along = np.block([[block.covariance(a, b) for b in yours] for a in ours])
            pieces = [self._both(other, i, i in block.others) for i in order]
            whole = kronecker_dense([*pieces, along])
            total += whole[np.ix_(mine, theirs)]
        return total

    def _both(self, other: _Asked, i: int, residual: bool) -> Array:
        """W_iV_i(W'_iV_i)ᵀ, or W_iτ_i(W'_iτ_i)ᵀ; an attribute not named has one row."""
        one = TotalMatrix(self.mechanism.schema.shape[i])
        basis = self.mechanism.basis(i)
        a, b = (basis.split(each.others.get(i, one)) for each in (self, other))
        return a[:, 1:] @ b[:, 1:].T if residual else np.outer(a[:, 0], b[:, 0])

    def _places(self, order: list[int]) -> IntArray:
        """Where each row of the query is among rows ordered by other attributes, then nodes."""
        sizes = [self.others[i].shape[0] if i in self.others else 1 for i in order]
        count = sum(rows.count for rows in self.pieces if rows is not None)
        grid = np.arange(prod(sizes) * count).reshape(*sizes, count)
        kept = tuple(0 if i not in self.others else slice(None) for i in order)
        return self._ordered_numbers(grid[kept])

    def _ordered_numbers(self, grid: NDArray[np.int64]) -> IntArray:
        place = len(self.others) if self.place < 0 else self.place
        return np.moveaxis(grid, -1, place).ravel()
