"""Nodes of a tree measured with residuals of the other attributes: geography at any size.

The values of one attribute lie in a tree of levels (`domain.tree`). For every set A of the others

    measured at node v:   ω_{A,v} = (⊗_{i∈A} U_i) x_{A,v} + σ_{A,v} z ,

x_{A,v} the counts of v by A. Estimates of each set are those of least squares on the tree; an
answer for nodes of any level adds up the sets inside the query, as the residual mechanism does. The
cost of a record is what lies on its path,

    Σ_A ∏_{i∈A} β_i Σ_{v on the path} 1/σ²_{A,v} .
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json, immutable
from noiseplan.domain.tree import Tree
from noiseplan.errors import StorageError
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Marginals, Measurements, Progress, floats
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.exact_residuals import noisy_residuals
from noiseplan.mechanisms.level_words import called, levels_in_words, listed_words
from noiseplan.mechanisms.long_attribute import LongMechanism, read_others
from noiseplan.mechanisms.long_block import LongRows
from noiseplan.mechanisms.tree_block import NodeRows, TreeBlock, by_node, node_rows
from noiseplan.noise.law import Noise, Sampler, lattice_of
from noiseplan.schema import Schema
from noiseplan.texts import counted


@immutable
@dataclass(frozen=True, eq=False)
class TreeMechanism(LongMechanism):
    """Blocks of one tree."""

    kind: ClassVar[str] = "tree"

    blocks: tuple[TreeBlock, ...]

    @property
    def tree(self) -> Tree:
        return self.blocks[0].tree

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        sizes = [noise.size for block in self.blocks for noise in block.noise]
        return Noise("gaussian", np.concatenate(sizes), self.exact)

    # ------------------------------------------------------------------ privacy

    def _dearest(self) -> tuple[float, int]:
        last = max(block.depth for block in self.blocks)
        total = np.zeros(self.tree.sizes[last])
        for block in self.blocks:
            path = block.price() * self.price(block)
            total += path[_above(self.tree, last, block.depth)]
        terms = sum(len(block.noise) + len(block.others) for block in self.blocks)
        return float(total.max()), terms

    # ------------------------------------------------------------------ measuring

    def describe(self) -> str:
        sets = counted(len(self.blocks), "set")
        levels = levels_in_words(self.schema, self.place, self.tree)
        return f"{counted(self.numbers, 'noisy number')} on {sets} at {levels}"

    def measured_at(self, rows: Sequence[LongRows | None]) -> str:
        asked = [each for each in rows if isinstance(each, NodeRows)]
        if len(asked) < len(rows):  # finer than the tree
            return ""
        levels = (
            (c for c in range(e.level + 1) if e.over(self.tree, c) is not None) for e in asked
        )
        level = max(map(next, levels))
        there = [block.others for block in self.blocks if block.depth >= level]
        names = [" × ".join(self.schema.names[i] for i in others) for others in there if others]
        told = listed_words(names) or "no other attribute"
        where = called(self.schema, self.place, self.tree, level)
        return f". {where[0].upper()}{where[1:]} it measures {told}"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count by value and set, add up along the tree, transform, add noise."""
        values: list[NDArray[np.number]] = []
        for block, attributes in zip(self.blocks, self.sets, strict=True):
            counts = self.counts(marginals, attributes)
            rows = [self.basis(i).measure for i in block.others]
            for of_nodes, noise in zip(
                self.tree.up(counts, len(block.noise)), block.noise, strict=True
            ):
                values.append(noisy_nodes(rows, of_nodes, noise, sample))
            progress(1)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ answering

    def rows_of(self, matrix: Matrix) -> Iterator[NodeRows | None]:
        return node_rows(matrix, self.tree)

    def rows_of_values(self, weights: sp.csr_array, limits: Array) -> NodeRows | None:
        if weights.shape[1] == 1:  # of all values together
            return NodeRows(0, weights=weights)
        return by_node(weights, self.tree, limits)

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        bases, arrays = write_bases(self.bases, self.basis_of)
        arrays |= written_tree(self.tree)
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
        place, exact = schema.index(content["attribute"]), lattice_of(content["integer"])
        tree = read_tree(int(content["levels"]), arrays, schema.shape[place])
        blocks = []
        for i, saved in enumerate(content["blocks"]):
            others, levels = read_others(saved, i, place, basis_of), int(saved["levels"])
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


def noisy_nodes(
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


def written_tree(tree: Tree) -> Arrays:
    """The arrays a tree is saved as."""
    parents = {f"tree_{level}_parents": parent for level, parent in enumerate(tree.parents)}
    return {"tree_values": tree.of_value, **parents}


def read_tree(levels: int, arrays: Arrays, size: int) -> Tree:
    """Undo `written_tree`; refused where it is no tree over so many values."""
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
