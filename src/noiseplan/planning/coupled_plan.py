"""From coupled parts to a mechanism: rows and mixing matrices, as they are or in integers.

Everything is worked out once more from the rows that are measured: for these the moments y are
found again, so that the precisions Φ_T cost every record the same; of Φ_T = MᵀM the upper triangle
is measured. In integers every column of M has so many bits of its own, times a power of two, since
heads of more attributes are longer. What a record pays is then asked of the mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import log, prod
from typing import Final

import numpy as np
from scipy.linalg import solve_triangular

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.coupled import CoupledMechanism, Coupling
from noiseplan.noise.moments import sizes_above
from noiseplan.optimize.level_coupling import precision
from noiseplan.planning.coupled_split import Coupled, best_moments, head_grams, seen_by
from noiseplan.planning.coupled_terms import CoupledTerms, Group, Seen, head_pairs
from noiseplan.planning.measured_numbers import ALLOWED_LOSS, Numbers
from noiseplan.planning.residual_mechanism import numbered, placements
from noiseplan.planning.solve import role_bases
from noiseplan.planning.workload_types import Design
from noiseplan.privacy.rounding import margin

# Bits of the rows of attributes: the fewest that lose no more than is allowed are taken, or those
# that lose least. Mixing matrices have so many more.
BITS: Final = (6, 7, 8, 9, 10, 12, 14)
MORE_BITS: Final = 8


@dataclass(frozen=True, eq=False)
class Measuring:
    """The mechanism within a budget, and what it loses of the variance that was planned."""

    mechanism: CoupledMechanism
    loss: float


def coupled_mechanism(
    design: Design, terms: CoupledTerms, found: Coupled, budget: float, numbers: Numbers
) -> Measuring | None:
    """The mechanism that spends the budget; None where no integers of few bits will do."""
    lengths = numbers.lengths(BITS) or [0.0]
    best: Measuring | None = None
    least = 0.0
    for length, bits in zip(lengths, BITS, strict=False):
        if bits < least:
            continue
        try:
            rounded = _Rounded.of(design, terms, found, length, numbers)
            made = rounded.within(budget, bits + MORE_BITS)
        except np.linalg.LinAlgError:  # too coarse: some rows fell together, or none is level
            continue
        if not made.mechanism.noise.drawable:
            break  # more bits only make numbers larger
        if best is None or made.loss < best.loss:
            best = made
        if made.loss <= ALLOWED_LOSS:
            break
        least = bits + log(made.loss / ALLOWED_LOSS, 4)  # a loss falls with 4^bits, and no faster
    return best


@dataclass(frozen=True, eq=False)
class _Rounded:
    """Rows that can be measured, and what is asked of them."""

    design: Design
    terms: CoupledTerms
    numbers: Numbers
    bases: dict[int, Basis]
    lengths: dict[int, float]  # of the longest columns of each role
    seen: list[Seen]  # of each role with heads, for columns of length one
    moments: Array
    planned: float  # F of the rows as they were planned

    @classmethod
    def of(
        cls, design: Design, terms: CoupledTerms, found: Coupled, length: float, numbers: Numbers
    ) -> _Rounded:
        rows = {r: numbers.lattice(u, length) for r, u in found.rows.items()}
        bases = role_bases(design, rows, numbers.basis)
        longest = {r: float(np.sqrt(basis.sensitivity)) or 1.0 for r, basis in bases.items()}
        grams = head_grams(design, terms.heads)
        letters = [terms.letters[r] for r in terms.heads]
        seen = [
            seen_by(gram, rows[r] / longest[r], n)
            for r, gram, n in zip(terms.heads, grams, letters, strict=True)
        ]
        _, moments = best_moments(terms, seen, found.moments)
        return cls(design, terms, numbers, bases, longest, seen, moments, found.value)

    def within(self, budget: float, bits: int) -> Measuring:
        """Mixing matrices of so many bits, and noise for the budget."""
        types = list(self._types())
        mixing = [self.numbers.mixing(each.triangle, bits) for each in types]
        if not all(np.diagonal(rows).all() for rows, _ in mixing):
            raise np.linalg.LinAlgError("rounding leaves nothing of some state")
        couplings = [
            Coupling(sets, each.tails, each.states, rows, self.numbers.noise(scale**2))
            for each, (rows, scale) in zip(types, mixing, strict=True)
            for sets in each.alike(self.bases, self.design)
        ]
        mechanism = self._mechanism(couplings)
        cost = mechanism.record_cost("add-remove")
        sizes = sizes_above(mechanism.noise.size * (cost / budget * (1 + 2 * margin(1))))
        noise = (self.numbers.noise(size) for size in sizes)
        within = [replace(c, noise=own) for c, own in zip(couplings, noise, strict=True)]
        variance = sum(t.variance(*m) for t, m in zip(types, mixing, strict=True))
        return Measuring(self._mechanism(within), variance * cost / self.planned**2 - 1)

    def _mechanism(self, couplings: Sequence[Coupling]) -> CoupledMechanism:
        bases, of_role = numbered(self.bases)
        roles = self.design.roles.of_attribute
        heads = np.zeros(len(self.bases) + 1, dtype=np.int64)
        heads[self.terms.heads] = [self.terms.letters[r] - 1 for r in self.terms.heads]
        schema = self.design.workload.schema
        return CoupledMechanism(schema, bases, of_role[roles], heads[roles], tuple(couplings))

    def _types(self) -> Iterator[_TypeOfSet]:
        """All types of T, with their precisions."""
        for group in self.terms.groups:
            beside = self._beside(group.types[0])
            states = self._states(beside, group)
            meeting = self._meetings(beside, states, group)
            level = (group.alike.moments @ self.moments)[meeting]
            each = group.numbers(self.seen)
            roots = np.array([self.lengths[r] for r in beside])
            own = np.prod(np.where(states > 0, roots, 1.0), axis=1)
            for tails, asked in zip(group.types, each, strict=True):
                lengths = own * prod(self.lengths[r] ** t for r, t in enumerate(tails))
                triangle = np.linalg.cholesky(precision(level, asked[meeting])).T / lengths
                sets = self._sets(tails)
                yield _TypeOfSet(sets, sum(tails), states, asked[meeting], lengths, triangle)

    def _beside(self, tails: Sequence[int]) -> list[int]:
        """The role of every attribute that may be seen by heads beside T."""
        members = self.terms.members
        return [r for r in self.terms.heads for _ in range(int(members[r]) - tails[r])]

    def _states(self, beside: list[int], group: Group) -> IntArray:
        """All states: where heads are, and which."""
        sizes, found = self.terms.sizes_beside(group.types[0]), []
        for count in range(max(map(sum, sizes)) + 1):
            for places in combinations(range(len(beside)), count):
                roles = [beside[p] for p in places]
                if tuple(roles.count(r) for r in self.terms.heads) in sizes:
                    for chosen in product(*(range(1, self.terms.letters[r]) for r in roles)):
                        state = np.zeros(len(beside), dtype=np.int64)
                        state[list(places)] = chosen
                        found.append(state)
        return np.array(found, dtype=np.int64).reshape(len(found), len(beside))

    def _meetings(self, beside: list[int], states: IntArray, group: Group) -> IntArray:
        """Of every two states, how their heads meet, as a row of `group.placed`."""
        radix = np.append(1, np.cumprod(group.placed.max(axis=0, initial=0) + 1))
        code, first = np.zeros((len(states),) * 2, dtype=np.int64), 0
        for r in self.terms.heads:
            letters = self.terms.letters[r]
            table = np.zeros((letters, letters), dtype=np.int64)
            for number, (a, b) in enumerate(head_pairs(letters)):
                table[a, b] = table[b, a] = radix[first + number]
            first += len(head_pairs(letters))
            for place in (p for p, role in enumerate(beside) if role == r):
                letter = states[:, place]
                code += table[letter[:, None], letter[None, :]]
        known = group.placed @ radix[:-1]
        order = np.argsort(known)
        return np.asarray(order[np.searchsorted(known[order], code)])

    def _sets(self, tails: Sequence[int]) -> IntArray:
        """All T of a type, each ascending; beside it the attributes with heads, role by role."""
        subset = np.repeat(np.arange(len(tails)), tails)
        inside = (
            placements(self.design, subset) if len(subset) else np.zeros((1, 0), dtype=np.int64)
        )
        roles = self.design.roles.roles
        every = np.concatenate([roles[r].members for r in self.terms.heads])
        beside = [every[~np.isin(every, row)] for row in inside]
        return np.hstack([inside, np.array(beside, dtype=np.int64).reshape(len(inside), -1)])


@dataclass(frozen=True, eq=False)
class _TypeOfSet:
    """Sets T of one type, and what is measured of the states beside each of them."""

    sets: IntArray  # of each T its attributes; then those beside it that have heads
    tails: int
    states: IntArray
    asked: Array  # N_T, for columns of length one
    lengths: Array  # of the rows of each state
    triangle: Array  # M of Φ_T = MᵀM

    def variance(self, rows: Array, scale: float) -> float:
        """w_T tr N_TΦ_T⁻¹ of the rows that are measured with noise of this size."""
        inverse = scale * solve_triangular(rows, np.eye(len(rows))) / self.lengths[:, None]
        return len(self.sets) * float((inverse * (self.asked @ inverse)).sum())

    def alike(self, bases: dict[int, Basis], design: Design) -> list[IntArray]:
        """Sets whose tails have the same rows in the same order."""
        roles = design.roles.of_attribute[self.sets[:, : self.tails]]
        _, kind = unique_rows(roles)
        return [self.sets[kind == k] for k in range(int(kind.max()) + 1)]
