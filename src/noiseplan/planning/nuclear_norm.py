"""‖W Λ^{1/2}‖_* for product weights Λ = ⊗D_i, from heads and tails of attributes.

A set T of attributes is seen through its tails, the others through their heads (`attribute_heads`):

    ‖W'‖_* ≥ Σ_T tr M_T^{1/2} ,    M_T = Σ_{q ⊇ T} w_q ∏_{i∈T} s_i² ⊗_{i∈q∖T} H_i ⊗_{i∉q} e₀e₀ᵀ ,

with equality if every column is a head. Sets of one type have equal M_T, and attributes that may be
exchanged give M_T blocks that occur many times (`optimize.exchangeable_sums`). Without any heads
this is the planner's own sum with s², H₀₀ in place of βR, m.

Where rows are few, K = W Λ Wᵀ is worked out over all of them, whatever the domain. Two queries meet
on the attributes they share. With every other attribute summed by its weights,

    K_{qq'} = W_q ⊗_{i∈q∩q'} D_i ⊗_{i∈q∖q'} d_i · W_q'ᵀ ⊗_{i∈q'∖q} d_i .
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf, prod

import numpy as np
from scipy.special import gammaln

from noiseplan.arrays import IntArray, first_of, unique_rows
from noiseplan.matrices.base import Array
from noiseplan.optimize.exchangeable_sums import Block, ExchangeableSums, TooLarge
from noiseplan.optimize.tolerances import EIGENVALUE_ERROR
from noiseplan.planning.attribute_heads import Heads
from noiseplan.planning.workload_types import Design

# Numbers held at once for matrices of equal size.
HELD = 1e6
# States of attributes times terms that are looked at to find those that occur.
LOOKED_AT = 1e7

# Numbers of all queries' rows over the table of each one's attributes.
MOST_NUMBERS = 2e7


def root_trace(gram: Array) -> Array:
    """Σ √(eigenvalue) over a stack of Gram matrices, less what rounding may have added."""
    values = np.linalg.eigvalsh(gram)
    off = EIGENVALUE_ERROR * values.shape[-1] * np.maximum(values[..., -1:], 0.0)
    return np.asarray(np.sqrt(np.maximum(values - off, 0.0)).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Family:
    """Subset types with equal matrices but for the weights of their terms."""

    left: IntArray  # of each active role: attributes outside the subset
    placed: IntArray  # terms × active pairs: how many of each are outside
    weights: Array  # subsets × terms
    often: Array  # sets of each type
    empty: bool  # the one without attributes


class HeadedWorkload:
    """A workload seen through the heads of its attributes."""

    def __init__(
        self, design: Design, heads: dict[int, Heads], largest: int, centred: bool = False
    ) -> None:
        self.design, self.heads, self.largest, self.centred = design, heads, largest, centred
        self.active = [r for r, found in heads.items() if found.size > 1]
        self.pairs = [p for r in self.active for p in heads[r].kept]

    @cached_property
    def families(self) -> list[Family]:
        """All terms, by the subset they belong to and what they ask outside of it."""
        terms = self.design.terms
        outside = np.zeros((len(terms.query), len(self.pairs)), dtype=np.int64)
        for column, pair in enumerate(self.pairs):
            outside[:, column] = np.where(terms.pair == pair, terms.summed, 0).sum(axis=1)
        powers = terms.privacy_powers.toarray()[:, self.active].astype(np.int64)
        members = np.array([len(self.design.roles.roles[r].members) for r in self.active])
        left = (members - powers).reshape(terms.subsets, len(self.active))
        weight = self._weights() / self._placements(left[terms.subset], outside)
        used = np.flatnonzero(weight > 0)
        return list(self._grouped(left, outside[used], weight[used], terms.subset[used]))

    def _weights(self) -> Array:
        """Σ_q w_q ∏s² ∏H₀₀ of each term for one subset; H₀₀ of roles without heads only."""
        terms, pairs = self.design.terms, len(self.design.roles.pair_role)
        residual, mean = np.zeros(pairs), np.zeros(pairs)
        for found in self.heads.values():
            for pair, kept in found.kept.items():
                residual[pair] = found.rest[pair]
                mean[pair] = kept[0, 0] if found.size == 1 else 1.0
        # Dense-matrix queries are left out: the optimum without them is no larger.
        each = terms.coefficients(residual, mean, np.zeros(len(terms.joint)))
        each = each * self.design.type_weight[terms.query]
        return np.asarray(each / terms.subset_count[terms.subset])

    def _placements(self, left: IntArray, outside: IntArray) -> Array:
        """In how many ways a term can be placed on the active attributes outside the subset."""
        logs, start = np.zeros(len(left)), 0
        for column, role in enumerate(self.active):
            count = outside[:, start : start + len(self.heads[role].kept)]
            start += count.shape[1]
            free = np.maximum(left[:, column] - count.sum(axis=1), 0)
            logs += gammaln(left[:, column] + 1) - gammaln(free + 1)
            logs -= gammaln(count + 1).sum(axis=1)
        return np.asarray(np.rint(np.exp(logs)))

    def _grouped(
        self, left: IntArray, outside: IntArray, weight: Array, subset: IntArray
    ) -> Iterator[Family]:
        patterns, kind = unique_rows(outside) if outside.size else (np.zeros(1, int), 0 * subset)
        matrix = np.zeros((self.design.terms.subsets, len(patterns)))
        np.add.at(matrix, (subset, kind), weight)
        first, family = unique_rows(np.column_stack([left, matrix > 0]).astype(np.int64))
        for number, one in enumerate(first):
            members, used = np.flatnonzero(family == number), np.flatnonzero(matrix[one])
            if not len(used):
                continue
            bare = (self.design.terms.subset_roles[members] < 0).all(axis=1)
            yield from (
                Family(
                    left[one],
                    outside[patterns[used]] if outside.size else np.zeros((1, 0), dtype=np.int64),
                    matrix[np.ix_(chosen, used)],
                    self.design.terms.subset_count[chosen],
                    empty,
                )
                for empty, chosen in ((True, members[bare]), (False, members[~bare]))
                if len(chosen)
            )

    @cached_property
    def _sums(self) -> list[ExchangeableSums]:
        placed = np.concatenate([family.placed for family in self.families])
        result, start = [], 0
        for role in self.active:
            matrices = list(self.heads[role].kept.values())
            columns = placed[:, start : start + len(matrices)]
            start += len(matrices)
            result.append(
                ExchangeableSums(matrices, set(map(tuple, columns.tolist())), self.largest)
            )
        return result

    def _parts(self) -> Iterator[Part]:
        looked = 0.0
        for family in self.families:
            choices = (sums.blocks(int(n)) for sums, n in zip(self._sums, family.left, strict=True))
            for chosen in product(*choices):
                looked += prod(len(block.present) for block in chosen) * len(family.placed)
                if looked > LOOKED_AT:
                    raise TooLarge(f"more than {LOOKED_AT:.0e} states")
                part = Part(family, list(chosen), self.centred and family.empty)
                if part.size:
                    yield part

    def work(self, most: float = inf) -> float:
        """Σ size³ of the matrices whose eigenvalues are needed; infinite if blocks are too large.

        Counted until it is above `most`.
        """
        total = 0.0
        try:
            for part in self._parts():
                total += len(part.family.weights) * float(part.size) ** 3
                if total > most:
                    break
        except TooLarge:
            return inf
        return total

    def root(self) -> float:
        """The lower bound on ‖W'‖_*; centred: on that of W' without the direction of the total."""
        return sum(part.root() for part in self._parts())


class Part:
    """M_T of one family on one block of each active role."""

    def __init__(self, family: Family, blocks: list[Block], centred: bool) -> None:
        self.family, self.blocks = family, blocks
        sizes = [len(block.present) for block in blocks]
        grid = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), dtype=int)
        keep = np.zeros(grid.shape[1], dtype=bool)
        for term in range(len(family.placed)):
            diagonal = np.ones(grid.shape[1])
            for matrix, at in zip(self._factors(term), grid, strict=True):
                diagonal = diagonal * matrix.diagonal()[at]
            keep |= diagonal > 0  # elsewhere a whole row of a Gram matrix is zero
        if centred:
            there = [block.present[at] for block, at in zip(blocks, grid, strict=True)]
            keep &= np.sum(there, axis=0) > 0
        self.states = grid[:, keep]

    @property
    def size(self) -> int:
        return int(self.states.shape[1])

    def _factors(self, term: int) -> list[Array]:
        """The matrix of a term on each role."""
        placed, start, result = self.family.placed[term].tolist(), 0, []
        for block in self.blocks:
            width = len(next(iter(block.sums)))
            key = tuple(placed[start : start + width])
            start += width
            zero = np.zeros((len(block.present),) * 2)
            result.append(block.sums.get(key, zero))
        return result

    def root(self) -> float:
        """Σ over the family's sets of tr M_T^{1/2}."""
        weights = self.family.weights
        often = self.family.often * np.prod([block.often for block in self.blocks])
        step = max(int(HELD // self.size**2), 1)
        total = 0.0
        for start in range(0, len(weights), step):
            some = slice(start, start + step)
            total += float(often[some] @ root_trace(self._matrices(weights[some])))
        return total

    def _matrices(self, weights: Array) -> Array:
        terms = (self._term(number) for number in range(len(self.family.placed)))
        if len(weights) > 1:
            return np.tensordot(weights, np.array(list(terms)), axes=1)
        found = np.zeros((1, self.size, self.size))  # one after the other: they may be large
        for weight, term in zip(weights[0], terms, strict=True):
            found += weight * term
        return found

    def _term(self, number: int) -> Array:
        one = np.ones((self.size, self.size))
        for matrix, at in zip(self._factors(number), self.states, strict=True):
            one *= matrix[np.ix_(at, at)]
        return one


@dataclass(frozen=True, eq=False)
class Rows:
    """The weighted rows of one query over groups of values: rows × n_1 × … × n_k."""

    attributes: list[int]
    tensor: Array

    def on(self, shared: list[int], weights: dict[int, Array]) -> Array:
        """Rows × cells of the shared attributes, the others summed by their weights."""
        tensor = self.tensor
        for axis in reversed(range(len(self.attributes))):
            if self.attributes[axis] not in shared:
                tensor = np.tensordot(tensor, weights[self.attributes[axis]], axes=(axis + 1, 0))
        return np.asarray(tensor.reshape(len(tensor), -1))


def row_products(design: Design, weights: dict[int, Array]) -> Array | None:
    """K; None where its queries are over tables too large. `weights` are d of each attribute."""
    columns = design.workload.columns
    attributes = [[int(a) for a in row if a >= 0] for row in columns.attributes]
    cells = [np.prod([len(weights[a]) for a in some]) for some in attributes]
    if float(design.workload.sizes @ np.array(cells)) > MOST_NUMBERS:
        return None
    rows = [_rows(design, number, attributes[number]) for number in range(len(cells))]
    ends = np.cumsum([0, *(len(r.tensor) for r in rows)])
    result = np.zeros((ends[-1], ends[-1]))
    for a, one in enumerate(rows):
        for b in range(a, len(rows)):
            shared = [i for i in one.attributes if i in rows[b].attributes]
            scale: Array = np.ones(1)
            for i in shared:
                scale = np.asarray(np.kron(scale, weights[i]))
            block = (one.on(shared, weights) * scale) @ rows[b].on(shared, weights).T
            result[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = block
            result[ends[b] : ends[b + 1], ends[a] : ends[a + 1]] = block.T
    return result


def _rows(design: Design, number: int, attributes: list[int]) -> Rows:
    roles, workload = design.roles, design.workload
    kind = int(roles.type_of_query[number])
    root = np.sqrt(roles.type_priority[kind])
    for joint in design.joints:
        if joint.number == kind:
            return Rows(attributes, root * joint.tensor)
    tensor = np.full((1,), root)
    for attribute, factor in zip(attributes, workload.columns.factors[number], strict=False):
        first = first_of(design.groups[roles.of_attribute[attribute]])
        matrix = workload.matrix(attribute, int(factor)).dense()[:, first]
        tensor = np.multiply.outer(tensor, matrix)
        tensor = np.moveaxis(tensor, -2, 1).reshape(-1, *tensor.shape[1:-2], len(first))
    return Rows(attributes, tensor)
