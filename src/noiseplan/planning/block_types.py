"""What is asked of every block: of the residuals on one set of attributes, by kind of question.

A block is a subset A of attributes with a precision Ψ_A of its own. In coordinates of the residual,

    u_i(x) = Q_iᵀ(e_x − τ_i),   Q_i an orthonormal basis of 1^⊥,   h = QᵀWᵀWQ,   m = τᵀWᵀWτ,

the total variance is Σ_A tr(H_A Ψ_A⁻¹) with H_A = Σ_k w_k ⊗_{i∈A} h_{k,i}: one term for each *kind*
k, a choice of factors on A, whose weight w_k gathers all queries that contain A so. A record x
costs Σ_A u_A(x)ᵀΨ_A u_A(x) with u_A(x) = ⊗u_i(x_i).

Plain attributes are measured alike in every block: they only multiply, R = n − 1 in w and
β = (n − 1)/n in the cost. Values that no query of a block tells apart are one value there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations, product
from math import comb, factorial, prod
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, first_of, joined_kinds
from noiseplan.matrices.base import Array, equal_columns
from noiseplan.mechanisms.basis import MatrixBasis
from noiseplan.planning.workload_types import Design, JointQuery, without_rounding

# A block of no more coordinates, and numbers in its rows, may have a precision of any form, while
# all such blocks take no more operations than this at a time (WHOLE_WORK).
WHOLE_SIZE: Final = 1024
WHOLE_NUMBERS: Final = 1 << 20
# The same where only one kind is asked: a product does almost as well.
ONE_KIND_SIZE: Final = 128
WHOLE_WORK: Final = 1.2e10
# Records that are enumerated, and terms in the sums of their costs.
MOST_RECORDS: Final = 100_000
MOST_SUMS: Final = 10_000_000
# Records all pairs of which are enumerated, where records are replaced, and kinds of such pairs.
MOST_PAIRED: Final = 2048
MOST_KINDS_OF_PAIRS: Final = 1 << 19

Centres = dict[int, Array]  # τ of each free role, over its groups of values


@dataclass(frozen=True, eq=False)
class Slot:
    """One attribute of a block: its role, which of its groups are told apart, what is asked."""

    role: int
    size: int  # values of the attribute
    groups: IntArray  # of each group of the role's values, the number it has in the block
    grams: dict[int, Array]  # h of each pair asked here

    @cached_property
    def frame(self) -> Array:
        """Q."""
        return MatrixBasis.orthogonal(int(self.groups.max()) + 1).recover

    @cached_property
    def members(self) -> Array:
        """Values of the block × groups of the role: sums over what is one value here."""
        return np.asarray(np.eye(int(self.groups.max()) + 1)[self.groups].T)

    def centre(self, centres: Centres) -> Array:
        """τ over the values of the block."""
        return self.members @ centres[self.role]

    def columns(self, centres: Centres) -> Array:
        """u(x) of every value x of the block, side by side."""
        frame = self.frame.T
        return frame - (frame @ self.centre(centres))[:, None]


@dataclass(frozen=True, eq=False)
class BlockType:
    """The subsets of one type: `sets` of them, each of `plain` ways × `places` on free attributes.

    `kinds` lists the pair asked in each slot, a row for each kind; `mix @ (weights of terms)` are
    their weights for one subset.
    """

    number: int
    slots: tuple[Slot, ...]
    kinds: IntArray
    mix: sp.csr_array
    joints: tuple[tuple[int, JointQuery], ...]  # terms of dense matrices, and the matrices
    sets: float
    plain: int
    price: float  # ∏ β of plain attributes
    places: tuple[tuple[int, ...], ...]  # the free attribute of each slot, by its axis

    @property
    def values(self) -> tuple[int, ...]:
        """How many values each slot tells apart."""
        return tuple(len(slot.frame) for slot in self.slots)

    @property
    def size(self) -> int:
        """How many coordinates the residual has."""
        return prod(n - 1 for n in self.values)

    def most(self, costs: Array) -> float:
        """What all subsets cost a record at most."""
        return self.sets * self.price * float(costs.max())

    @property
    def roles(self) -> list[int]:
        return [slot.role for slot in self.slots]

    def may_be_whole(self, paired: bool) -> bool:
        """Whether any precision may be taken; with plain attributes a product must do.

        Where pairs of records pay, no product is the best even for one kind.
        """
        if len(self.slots) < 2:
            return True
        if self.price < 1.0:
            return False
        several = paired or len(self.kinds) != 1 or self.joints
        most = WHOLE_SIZE if several else ONE_KIND_SIZE
        cells = prod(slot.size for slot in self.slots)
        return self.size <= most and self.size * cells <= WHOLE_NUMBERS

    def work(self, whole: bool) -> float:
        """About how many operations it takes to find the precision for some weights of records."""
        if whole:
            return 25.0 * self.size**3 + 2.0 * self.size**2 * prod(self.values)
        return sum(30.0 * n**3 for n in self.values) + 10.0 * prod(self.values)

    def joint_rows(self, centres: Centres) -> Iterator[Array]:
        """Of each dense-matrix term, its rows in the coordinates of the block."""
        for _, joint in self.joints:
            yield _on_block(joint, self, centres)


def _on_block(joint: JointQuery, block: BlockType, centres: Centres) -> Array:
    """M ⊗(Q_i or τ_i), the axes in the order of the slots."""
    tensor = joint.tensor
    order = []
    for axis, role in enumerate(joint.roles.tolist()):
        if role in block.roles:
            slot = block.slots[block.roles.index(role)]
            tensor = np.take(tensor, first_of(slot.groups), axis=axis + 1)
            step = slot.frame
            order.append(role)
        else:
            step = centres.get(role, np.ones(1))[:, None]
        tensor = np.moveaxis(np.tensordot(tensor, step, axes=(axis + 1, 0)), -1, axis + 1)
    kept = tensor.reshape(
        len(tensor), *(len(block.slots[block.roles.index(r)].frame) - 1 for r in order)
    )
    return kept.transpose(0, *(order.index(r) + 1 for r in block.roles)).reshape(len(tensor), -1)


class BlockTypes:
    """All blocks of a prepared workload, and the weights of their terms for given τ.

    `public`: the number of records is known, and its block is left out.
    """

    def __init__(self, design: Design, public: bool = False) -> None:
        self.design, self.public = design, public
        self.axes = _axes(design)
        self._slots: dict[tuple[int, tuple[int, ...]], Slot] = {}
        of = np.argsort(design.terms.subset, kind="stable")
        ends = np.cumsum(np.bincount(design.terms.subset, minlength=design.terms.subsets))
        parts = np.split(of, ends[:-1])
        widths = (design.terms.subset_roles >= 0).sum(axis=1)
        found = [self._block(a, t) for a, t in enumerate(parts) if widths[a] or not public]
        self.blocks = [block for block in found if block is not None]

    @cached_property
    def whole(self) -> set[int]:
        """The numbers of the blocks that may have any precision: the small ones first."""
        possible = [block for block in self.blocks if block.may_be_whole(self.paired)]
        possible.sort(key=lambda block: block.size)
        work = np.cumsum([block.work(whole=True) for block in possible])
        few = zip(possible, work, strict=True)
        return {b.number for b, sum_ in few if len(b.slots) < 2 or sum_ <= WHOLE_WORK}

    @cached_property
    def work(self) -> float:
        """About how many operations one look at all blocks takes."""
        pairs = self._kinds_of_pairs + prod(self.pair_shape) ** 2 / 20 if self.paired else 0.0
        sums = 200.0 * pairs * (1 + len(self.blocks))
        return sums + sum(block.work(block.number in self.whole) for block in self.blocks)

    @property
    def enumerable(self) -> bool:
        """Whether whole records can be listed."""
        places = sum(len(block.places) for block in self.blocks)
        return prod(self.shape) <= MOST_RECORDS and prod(self.shape) * places <= MOST_SUMS

    @cached_property
    def plain_axes(self) -> dict[int, list[int]]:
        """The plain attributes of each role, numbered on from the free ones."""
        used = self.design.terms.subset_roles[[block.number for block in self.blocks]]
        result, start = {}, len(self.shape)
        for r, role in enumerate(self.design.roles.roles):
            if role.plain and role.size > 1 and (used == r).any():
                result[r] = list(range(start, start + len(role.members)))
                start += len(role.members)
        return result

    @property
    def pair_shape(self) -> tuple[int, ...]:
        """Values of every attribute that two records may differ in; of a plain one, two."""
        return self.shape + (2,) * sum(map(len, self.plain_axes.values()))

    @cached_property
    def paired(self) -> bool:
        """Whether pairs of records are to be looked at, and few enough."""
        few = prod(self.pair_shape) <= MOST_PAIRED and self._kinds_of_pairs <= MOST_KINDS_OF_PAIRS
        return self.public and few

    @property
    def _kinds_of_pairs(self) -> float:
        """About how many, if those that differ in the order of attributes are one."""
        orders = prod(factorial(len(axes)) for axes in self.exchangeable)
        return prod(self.pair_shape) ** 2 / 2 / orders

    @property
    def exchangeable(self) -> list[list[int]]:
        """Attributes that may change places, by the axes of `pair_shape`."""
        return [*self.axes.values(), *self.plain_axes.values()]

    def reweighted(self, factors: Array) -> BlockTypes:
        """The same with the weights of query types multiplied."""
        roles = self.design.roles
        weighted = replace(roles, type_priority=roles.type_priority * factors)
        return BlockTypes(
            replace(self.design, roles=weighted, given_grams=self.design.grams), self.public
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Groups of values of every free attribute: the records that are told apart."""
        count = self.design.group_count
        return tuple(count(r) for r, axes in self.axes.items() for _ in axes)

    def term_weights(self, centres: Centres, of_types: Array | None = None) -> tuple[Array, Array]:
        """w of every term for one subset (one for dense matrices), and m of every pair.

        `of_types` are weights of query types, those of the workload unless given.
        """
        design, terms = self.design, self.design.terms
        of_types = design.type_weight if of_types is None else of_types
        mean, residual = self._moments(centres)
        free = np.append(np.isin(design.roles.pair_role, design.free), False)
        powers = mean[terms.pair] ** terms.summed
        powers = powers * np.where(free[terms.pair], 1.0, residual[terms.pair] ** terms.measured)
        weights = of_types[terms.query] * np.exp(terms.log_count) * powers.prod(axis=1)
        return weights / terms.subset_count[terms.subset], mean

    def _moments(self, centres: Centres) -> tuple[Array, Array]:
        """m of every pair, and R of those on plain roles; a last entry of one pads."""
        design = self.design
        mean, residual = np.ones((2, len(design.roles.pair_role) + 1))
        for pair, r in enumerate(design.roles.pair_role.tolist()):
            gram, n = design.grams[pair], design.roles.roles[r].size
            if r in centres and gram is not None:
                centre = centres[r]
                size = np.trace(gram) * (centre @ centre)
                mean[pair] = without_rounding(centre @ gram @ centre, size)
            elif gram is not None:  # one group only: nothing but the sum is ever asked
                mean[pair] = gram[0, 0]
            else:
                mean[pair], residual[pair] = 1.0 / n, n - 1.0
        return mean, residual

    def _block(self, number: int, terms: IntArray) -> BlockType | None:
        design = self.design
        every = [int(r) for r in design.terms.subset_roles[number] if r >= 0]
        if any(design.group_count(r) == 1 for r in every):  # there is no residual
            return None
        roles = sorted(r for r in every if r in design.free)
        others = [r for r in every if r not in design.free]
        kinds, entries = self._kinds(roles, terms)
        dense = np.flatnonzero(np.isin(design.terms.joint, terms))
        joints = [self._joint(int(place)) for place in dense]
        if not kinds and not joints:
            return None
        slots = [self._slot(r, kinds, i, joints) for i, r in enumerate(roles)]
        members = {r: len(design.roles.roles[r].members) for r in every}
        sizes = [design.roles.roles[r].size for r in others]
        shape = (len(kinds), len(design.terms.query))
        return BlockType(
            number,
            tuple(slots),
            np.array(list(kinds), dtype=np.int64).reshape(len(kinds), len(roles)),
            sp.csr_array(
                ([e[2] for e in entries], ([e[0] for e in entries], [e[1] for e in entries])),
                shape=shape,
            ),
            tuple(joints),
            float(design.terms.subset_count[number]),
            prod(comb(members[r], others.count(r)) for r in set(others)),
            prod((n - 1) / n for n in sizes),
            tuple(places_of(roles, self.axes)),
        )

    def _kinds(
        self, roles: list[int], terms: IntArray
    ) -> tuple[dict[tuple[int, ...], int], list[tuple[int, int, float]]]:
        """The kinds among these terms, and which term has which share in each.

        A term says how many attributes of a role are asked by which factor; exchangeable ones are
        asked so in every order, equally often.
        """
        kinds: dict[tuple[int, ...], int] = {}
        entries = []
        design = self.design
        for t in np.setdiff1d(terms, design.terms.joint).tolist():
            pairs: dict[int, list[int]] = {r: [] for r in sorted(set(roles))}
            for pair, often in zip(design.terms.pair[t], design.terms.measured[t], strict=True):
                if often and (r := int(design.roles.pair_role[pair])) in pairs:
                    pairs[r] += [int(pair)] * int(often)
            if any(design.constant.intersection(asked) for asked in pairs.values()):
                continue  # nothing but the sum
            orders = list(product(*(sorted(set(permutations(p))) for p in pairs.values())))
            for order in orders:
                kind = kinds.setdefault(sum(order, ()), len(kinds))
                entries.append((kind, t, 1.0 / len(orders)))
        return kinds, entries

    def _joint(self, place: int) -> tuple[int, JointQuery]:
        term = int(self.design.terms.joint[place])
        number = int(self.design.terms.query[term])
        return term, next(j for j in self.design.joints if j.number == number)

    def _slot(
        self,
        role: int,
        kinds: dict[tuple[int, ...], int],
        place: int,
        joints: list[tuple[int, JointQuery]],
    ) -> Slot:
        pairs = tuple(sorted({kind[place] for kind in kinds}))
        if joints:  # which may tell anything apart
            return self._made(role, pairs, np.arange(self.design.group_count(role)))
        key = role, pairs
        if key not in self._slots:
            told = joined_kinds([equal_columns(self._gram(p)) for p in pairs])
            self._slots[key] = self._made(role, pairs, told)
        return self._slots[key]

    def _made(self, role: int, pairs: tuple[int, ...], groups: IntArray) -> Slot:
        first = first_of(groups)
        slot = Slot(role, self.design.roles.roles[role].size, groups, {})
        for pair in pairs:
            gram = self._gram(pair)[np.ix_(first, first)]
            slot.grams[pair] = slot.frame.T @ gram @ slot.frame
        return slot

    def _gram(self, pair: int) -> Array:
        gram = self.design.grams[pair]
        assert gram is not None  # pairs on free roles have one
        return gram


def _axes(design: Design) -> dict[int, list[int]]:
    """The free attributes of each role, numbered one after the other."""
    result, start = {}, 0
    for r in design.free:
        count = len(design.roles.roles[r].members)
        result[r] = list(range(start, start + count))
        start += count
    return result


def places_of(roles: list[int], axes: dict[int, list[int]]) -> Iterator[tuple[int, ...]]:
    """Every way to choose attributes of these roles (ascending, with repetition)."""
    chosen = [combinations(axes[r], roles.count(r)) for r in sorted(set(roles))]
    for part in product(*chosen):
        yield sum(part, ())
