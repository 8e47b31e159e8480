"""Nodes of a tree measured with residuals of the other attributes: geography at any size.

The values of one attribute lie in a tree of levels (`domain.tree`). For every set A of the others

    measured at node v:   ω_{A,v} = (⊗_{i∈A} U_i) x_{A,v} + σ_{A,v} z ,

x_{A,v} the counts of v by A. Estimates of each set are those of least squares on the tree; an
answer for nodes of any level adds up the sets inside the query, as the residual mechanism does. The
cost of a record is what lies on its path,

    Σ_A ∏_{i∈A} β_i Σ_{v on the path} 1/σ²_{A,v} .
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.domain.tree import Tree
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices import Matrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Marginals, Measurements, Mechanism, Progress, floats
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_whole
from noiseplan.mechanisms.tree_answers import asked_of
from noiseplan.mechanisms.tree_block import TreeBlock
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query
from noiseplan.schema import Schema


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
            for of_nodes, noise in zip(
                self.tree.up(counts, len(block.noise)), block.noise, strict=True
            ):
                values.append(_noisy_nodes(rows, of_nodes, noise, sample))
            progress(1)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        asked_of(self, query).require()

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
            return asked_of(self, query).answer(estimates)

        return answer

    def variance(self, query: Query) -> Array:
        self.require(query)
        return asked_of(self, query).variance()

    def covariance(self, query: Query, other: Query) -> Array:
        self.require(query)
        self.require(other)
        return asked_of(self, query).covariance(asked_of(self, other))

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


def _noisy_nodes(
    rows: Sequence[Array | Matrix], of_nodes: NDArray[np.number], noise: Noise, sample: Sampler
) -> NDArray[np.number]:
    """(⊗U_i) x_v + z of all nodes of a level: the noise at once, since nodes share its sizes."""
    drawn = sample((*(u.shape[0] for u in rows), len(of_nodes)), noise)
    parts = list(batches(len(of_nodes), of_nodes[0].size, BATCH_CELLS))
    if len(parts) == 1:
        return noisy_residuals(rows, of_nodes, noise, lambda *_: drawn)
    each = [
        noisy_residuals(rows, of_nodes[part], noise, lambda *_, own=drawn[..., part]: own)
        for part in parts
    ]
    return np.concatenate(each, axis=-1)


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
