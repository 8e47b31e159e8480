"""The best precisions of all blocks together, and the τ they share.

*One distribution of whole records*, where they can be enumerated: for weights λ of records every
block has its best precision in closed form, for its marginal of λ; a record then costs the sum over
all blocks, and λ grows where that is high until it is level (`optimize.block_precision`). Where
records are replaced and few enough, pairs of them have the weights (`block_payers`).

*Block by block* otherwise: each has cost one at most by itself, and the shares of the budget are in
closed form, total (Σ_A √v_A)².

*τ* is shared by all blocks. At the best λ the gradient of the total is that for fixed λ and Ψ, by
the envelope theorem: only m in the weights of kinds, and u in the costs, depend on τ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from noiseplan.matrices import kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import MatrixBasis
from noiseplan.optimize.block_precision import (
    Load,
    ProductBlock,
    ProductPoint,
    WholeBlock,
    WholePoint,
    levelled,
)
from noiseplan.optimize.gram_roots import root_of
from noiseplan.optimize.lbfgs import descend
from noiseplan.planning.block_payers import Payers, payers_of
from noiseplan.planning.block_types import BlockType, BlockTypes, Centres
from noiseplan.planning.variance_terms import TINY

# How often records are weighted at most, and how level their costs are to be.
STEPS, GAP = 40, 1e-4
MOVING_STEPS, MOVING_GAP = 15, 1e-4

Point = WholePoint | ProductPoint


@dataclass(frozen=True, eq=False)
class Form:
    """A block for given τ: what its precision is to be found for."""

    block: BlockType
    columns: tuple[Array, ...]  # u of each slot
    terms: Array  # weights of all terms
    joints: tuple[Array, ...]  # rows of dense matrices in coordinates
    whole: bool  # whether any precision may be taken

    @classmethod
    def of(cls, block: BlockType, centres: Centres, terms: Array, whole: bool) -> Form:
        columns = tuple(slot.columns(centres) for slot in block.slots)
        return cls(block, columns, terms, tuple(block.joint_rows(centres)), whole)

    @property
    def weights(self) -> Array:
        """Of kinds."""
        return np.asarray(self.block.mix @ self.terms)

    @cached_property
    def solver(self) -> WholeBlock | ProductBlock:
        """The search for its precision."""
        block, columns = self.block, self.columns
        if self.whole:
            root = np.asarray(root_of(self._gram()))
            tensor = root.T.reshape(*(len(u) for u in columns), -1)
            image = kronecker_apply([u.T for u in columns], tensor)
            return WholeBlock(root, image.reshape(prod(block.values), len(root)).T)
        same = tuple(block.roles.index(r) for r in block.roles)
        grams = tuple(slot.grams for slot in block.slots)
        return ProductBlock(self.weights, block.kinds, grams, columns, same)

    def _gram(self) -> Array:
        """H_A."""
        gram = np.zeros((self.block.size, self.block.size))
        for kind, weight in zip(self.block.kinds, self.weights, strict=True):
            pieces = [h.grams[int(p)] for h, p in zip(self.block.slots, kind, strict=True)]
            gram += weight * kronecker_dense(pieces)
        for (term, _), rows in zip(self.block.joints, self.joints, strict=True):
            gram += self.terms[term] * rows.T @ rows
        return gram


@dataclass(frozen=True, eq=False)
class Together:
    """All blocks at weights of whole records."""

    search: Search
    points: tuple[Point, ...]

    @cached_property
    def variance(self) -> float:
        parts = zip(self.search.forms, self.points, strict=True)
        return sum(form.block.sets * point.variance for form, point in parts)

    @cached_property
    def costs(self) -> Array:
        return self.search.payers.costs(self.points)

    @property
    def value(self) -> float:
        return self.variance * float(self.costs.max())

    @property
    def scales(self) -> Array:
        """Of the precisions: they are as they should be."""
        return np.ones(len(self.points))


@dataclass(frozen=True, eq=False)
class Apart:
    """All blocks, each of cost one at most by itself, scaled to their shares of the budget."""

    search: Search
    points: tuple[Point, ...]

    @cached_property
    def scales(self) -> Array:
        """√(v/p) of each block: with these precisions the cost is Σ √(pv), and so the variance."""
        price = np.array([form.block.price for form in self.search.forms])
        variance = np.array([point.variance for point in self.points])
        return np.asarray(np.sqrt(variance / price))

    @property
    def value(self) -> float:
        roots = [
            form.block.sets * np.sqrt(form.block.price * point.variance)
            for form, point in zip(self.search.forms, self.points, strict=True)
        ]
        return float(sum(roots)) ** 2


class Search:
    """The blocks of a workload for given τ."""

    def __init__(self, types: BlockTypes, centres: Centres, payers: Payers | None = None) -> None:
        self.types, self.centres = types, centres
        self.payers = payers or payers_of(types)
        self.terms, self.mean = types.term_weights(centres)
        self.forms = [
            Form.of(block, centres, self.terms, block.number in types.whole)
            for block in types.blocks
        ]

    def together(
        self, steps: int = STEPS, gap: float = GAP, start: Array | None = None
    ) -> tuple[Together, Array]:
        """The best for one distribution of whole records, or pairs, and the distribution."""
        return levelled(self._visit, self.payers.even if start is None else start, steps, gap)

    def apart(self) -> Apart:
        """The best with a cost of its own for each block."""
        return Apart(self, tuple(form.solver.alone() for form in self.forms))

    def _visit(self, weights: Array, last: Together | None) -> Together:
        before = last.points if last else (None,) * len(self.forms)
        loads = self.payers.loads(weights)
        points = [
            form.solver.at(load, start)
            for form, load, start in zip(self.forms, loads, before, strict=True)
        ]
        return Together(self, tuple(points))


# ---------------------------------------------------------------------- moving τ


def _kind_traces(form: Form, point: Point) -> Array:
    """tr(h_kΨ⁻¹) of every kind."""
    if isinstance(point, ProductPoint):
        return np.asarray(point.traces.prod(axis=0))
    slots, spread = form.block.slots, point.solved.spread
    tensor = spread.reshape(*(len(slot.frame) - 1 for slot in slots), -1)
    traces = []
    for kind in form.block.kinds:
        pieces = [slot.grams[int(p)] for slot, p in zip(slots, kind, strict=True)]
        traces.append(float((tensor * kronecker_apply(pieces, tensor)).sum()))
    return np.array(traces)


def _slot_pulls(form: Form, point: Point, load: Load) -> list[Array]:
    """Of each slot, Σ_x λ(x) Ψu(x) contracted with the u of all others: −½ of the slope of the
    cost with respect to Qᵀτ."""
    columns, count = form.columns, len(form.columns)
    if isinstance(point, ProductPoint):
        own = [load.along(i, point.solved) for i in range(count)]
        return [_loaded(one.pulls, f).sum(axis=1) for one, f in zip(point.solved, own, strict=True)]
    pulls = _loaded(point.solved.pulls, load.whole)
    tensor = pulls.reshape([len(u) for u in columns] + [u.shape[1] for u in columns])
    coordinates, values = ascii_lowercase[:count], ascii_uppercase[:count]
    found = []
    for i in range(count):
        others = [j for j in range(count) if j != i]
        pairs = "".join(f",{coordinates[j]}{values[j]}" for j in others)
        path = f"{coordinates}{values}{pairs}->{coordinates[i]}"
        found.append(np.einsum(path, tensor, *(columns[j] for j in others), optimize=True))
    return found


def _loaded(pulls: Array, load: Array) -> Array:
    return pulls * load if load.ndim == 1 else pulls @ load


def _slopes(best: Together, weights: Array) -> Centres:
    """The slope of log(variance · mean cost) with respect to τ of every role."""
    search, design = best.search, best.search.types.design
    mean_cost = float((weights * best.costs).sum())
    by_term = np.zeros(len(search.terms))
    result = {r: np.zeros_like(centre) for r, centre in search.centres.items()}
    loads = search.payers.loads(weights)
    for form, point, load in zip(search.forms, best.points, loads, strict=True):
        block = form.block
        by_term += block.sets / best.variance * (block.mix.T @ _kind_traces(form, point))
        pulls = _slot_pulls(form, point, load)
        for slot, pull in zip(block.slots, pulls, strict=True):
            along = slot.members.T @ (slot.frame @ pull)
            result[slot.role] -= 2.0 * block.sets / mean_cost * along
    terms = design.terms
    weighted = (by_term * search.terms)[:, None] * terms.summed
    by_mean = np.bincount(terms.pair.ravel(), weighted.ravel(), len(search.mean)) / np.maximum(
        search.mean, TINY
    )
    for pair, gram in enumerate(design.grams):
        r = int(design.roles.pair_role[pair])
        if r in result and gram is not None:
            result[r] += 2.0 * by_mean[pair] * (gram @ search.centres[r])
    return result


def moved(
    start: Together, weights: Array, looks: int, held: frozenset[int] = frozenset()
) -> tuple[Together, Array]:
    """With τ moved downhill, records weighted anew at each of a few looks; the best of them.

    Those of the roles `held` stay.
    """
    types, roles = start.search.types, [r for r in start.search.centres if r not in held]
    if not roles:
        return start, weights
    frames = {r: MatrixBasis.orthogonal(len(start.search.centres[r])).recover for r in roles}
    ends = np.cumsum([frame.shape[1] for frame in frames.values()])[:-1]
    best = [(start, weights)]

    def value(x: Array) -> tuple[float, Array]:
        parts = dict(zip(roles, np.split(x, ends), strict=True))
        along = {r: start.search.centres[r] + frames[r] @ part for r, part in parts.items()}
        centres = start.search.centres | along
        found = Search(types, centres, start.search.payers).together(
            MOVING_STEPS, MOVING_GAP, best[0][1]
        )
        if found[0].value < best[0][0].value:
            best[0] = found
        slopes = _slopes(*found)
        gradient = np.concatenate([frames[r].T @ slopes[r] for r in roles])
        return float(np.log(found[0].value)), gradient

    count = sum(frame.shape[1] for frame in frames.values())
    descend(value, np.zeros(count), {"maxiter": looks, "maxfun": looks})
    return best[0]
