"""What a workload asks of sets of attributes, each seen by its head or by its tail.

The residual of an attribute is split once more, U = [h; t], into its first rows, its heads, and the
others, its tail; V = [v | V_t] alike. What is measured of a set of attributes falls into parts: T
seen by their tails, the others each by one of its heads. Parts with one T and any heads B beside it
are measured together, with a precision Φ_T over them:

    total variance   Σ_T tr N_TΦ_T⁻¹ ,   N_T = Σ_{q⊇T} w_q ∏_{i∈T} R_i ⊗_{i∈q∖T} g_i ⊗_{i∉q} e₀e₀ᵀ ,
    cost of x        Σ_T ∏_{i∈T} |t_i(x_i)|² f(x)ᵀΦ_T f(x) ,   f_B(x) = ∏_{i∈B} h_i(x_i)

with g = [τ | v]ᵀWᵀW[τ | v] and R = tr V_tᵀWᵀWV_t. Columns of U are one long, |t|² = 1 − |h|², so
that the cost is a polynomial in the numbers h_i, and can be the same for every record.

Attributes of one role may be exchanged, so all depends on how many of each role are where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import comb, factorial, prod
from typing import Final

import numpy as np
from scipy.special import comb as choose

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices.base import Array
from noiseplan.optimize.exchangeable_sums import Block, ExchangeableSums, Placed, TooLarge
from noiseplan.optimize.level_coupling import Alike, LevelCoupling, StateBlock
from noiseplan.planning.workload_types import Design

# Types of sets, each with so many numbers: more take a second and more to prepare.
MOST_NUMBERS: Final = 20_000
# Types, before any is looked at.
MOST_TYPES: Final = 100_000
# States of one block, and entries of all blocks of a type: more take seconds a step.
LARGEST, MOST_ENTRIES = 200, 4_000_000
# Far less than is asked of anything.
HAIR: Final = 1e-100
# Entries of sums over placements are no smaller, where they are not zero.
EMPTY: Final = 1e-9

# How many attributes of each role.
Counts = tuple[int, ...]
# Of each role with heads, how many of its attributes have which pair of heads.
Meeting = tuple[Placed, ...]


@dataclass(frozen=True, eq=False)
class Seen:
    """What is asked of one attribute: g by sum and heads, and R of the tail, for columns one long.

    Without heads R is of the whole residual.
    """

    heads: Array  # g
    tail: float

    @property
    def mean(self) -> float:
        """What is asked of the sum."""
        return float(self.heads[0, 0])

    def floored(self) -> Seen:
        """Nothing is asked for a hair's breadth, so that one can divide by it."""
        return Seen(np.where(self.heads == 0, HAIR, self.heads), self.tail or HAIR)


@dataclass(frozen=True, eq=False)
class Group:
    """Types of T with equally many tails of each role with heads, and the same heads beside.

    N_T of two states = R^tails ∏ g^placed Σ_left `asked`[T, need, left] g₀₀^left.
    """

    types: tuple[Counts, ...]  # of every role
    tails: IntArray  # of each role with heads, as the following
    placed: IntArray  # meetings × pairs of heads of all roles, one role after the other
    need: IntArray  # of each meeting, the row of `asked`
    left: IntArray  # powers × roles
    asked: Array  # types × needs × powers
    alike: Alike

    def numbers(self, seen: list[Seen]) -> Array:
        """N_T by meetings, types × meetings."""
        sums = self.asked @ self._means(seen)
        return np.asarray(sums[:, self.need] * self._shared(seen))

    def slopes(self, seen: list[Seen], by_number: Array) -> list[tuple[Array, float]]:
        """Of each role with heads, the slopes by g and by R."""
        seen = [one.floored() for one in seen]  # a power of zero has a slope, too
        found = by_number * self.numbers(seen)
        by_asked = np.zeros(self.asked.shape[:2])
        np.add.at(by_asked.T, self.need, (by_number * self._shared(seen)).T)
        by_power = np.einsum("tn,tnp->p", by_asked, self.asked) * self._means(seen)
        by_pair, result = found.sum(axis=0) @ self.placed, []
        for r, one in enumerate(seen):
            pairs = head_pairs(len(one.heads))
            mine, by_pair = by_pair[: len(pairs)], by_pair[len(pairs) :]
            slope = np.zeros_like(one.heads)
            slope[0, 0] = by_power @ self.left[:, r] / one.mean
            for (a, b), value in zip(pairs, mine, strict=True):
                slope[a, b] += value / one.heads[a, b] / 2
                slope[b, a] += value / one.heads[a, b] / 2
            result.append((slope, float(found.sum() * self.tails[r] / one.tail)))
        return result

    def _means(self, seen: list[Seen]) -> Array:
        return np.asarray(np.prod([one.mean for one in seen] ** self.left, axis=1))

    def _shared(self, seen: list[Seen]) -> Array:
        entries = [one.heads[pair] for one in seen for pair in head_pairs(len(one.heads))]
        tails = np.prod([one.tail for one in seen] ** self.tails)
        return np.asarray(tails * np.prod(entries**self.placed, axis=1))


def head_pairs(letters: int) -> list[tuple[int, int]]:
    """The entries of g but the first: pairs of letters, 0 being the sum and the others heads."""
    return list(combinations_with_replacement(range(letters), 2))[1:]


def several_ways(design: Design) -> bool:
    """Whether queries are no products, ask an attribute in several ways, or some more often."""
    pairs = design.roles.pair_role.tolist()
    uneven = (design.roles.type_distinct == 0).any()
    return bool(design.joints) or len(set(pairs)) < len(pairs) or bool(uneven)


class CoupledTerms:
    """All types of T of a workload that asks every attribute in one way.

    `letters` of a role: how many heads its attributes have, and one for the sum; the other roles
    are `seen` as they are. Raises `TooLarge` where there is too much to look at, also where costs
    depend on more than `most` moments.
    """

    def __init__(
        self,
        design: Design,
        letters: Mapping[int, int],
        others: Mapping[int, Seen],
        most: int | None = None,
    ):
        roles, self.most = design.roles, most
        self.letters, self.heads, self.others = letters, list(letters), others
        self.pairs = [head_pairs(letters[r]) for r in self.heads]
        self.members = np.array([len(role.members) for role in roles.roles])
        # Of every type of query, how many attributes of each role it names.
        named = np.append(roles.pair_role, -1)[roles.types]
        every = np.arange(len(self.members))
        self.named = (named[:, :, None] == every).sum(axis=1)
        placed = choose(self.members, self.named).prod(axis=1)
        self.weight = roles.type_priority * roles.type_count / placed
        self._number: dict[Meeting, int] = {}  # of each moment
        self._moment(tuple((0,) * len(pairs) for pairs in self.pairs))
        self._sums = {r: self._of_role(r, n) for r, n in letters.items()}
        self.groups = self._groups()

    @property
    def parts(self) -> int:
        """How many parts of tables are mixed: states of all T."""
        each = ((g.alike.weights.sum(), g.alike.blocks) for g in self.groups)
        return int(sum(often * sum(b.often * b.size for b in blocks) for often, blocks in each))

    @property
    def head_count(self) -> int:
        """The heads of all attributes."""
        return int(sum((self.letters[r] - 1) * self.members[r] for r in self.heads))

    def _moment(self, powers: Meeting) -> int:
        full = self.most is not None and len(self._number) >= self.most
        if full and powers not in self._number:
            raise TooLarge(f"more than {self.most:,} moments of heads")
        return self._number.setdefault(powers, len(self._number))

    def number_of(self, powers: Meeting) -> int | None:
        """The moment that has such powers of pairs of heads, of each role with heads."""
        return self._number.get(powers)

    def coupling(self, seen: list[Seen]) -> LevelCoupling:
        """The problem of the best precisions, of roles with heads that are `seen` so."""
        return LevelCoupling(self.alike, [group.numbers(seen) for group in self.groups])

    def slopes(self, seen: list[Seen], by_number: list[Array]) -> list[tuple[Array, float]]:
        """Of each role with heads, by g and by R, from the slopes by the numbers of each group."""
        groups = zip(self.groups, by_number, strict=True)
        each = [group.slopes(seen, some) for group, some in groups]
        return [
            (np.sum([g for g, _ in of_role], axis=0), sum(tail for _, tail in of_role))
            for of_role in zip(*each, strict=True)
        ]

    @cached_property
    def alike(self) -> list[Alike]:
        return [group.alike for group in self.groups]

    def product_moments(self, seconds: list[Array]) -> Array:
        """The moments of independent attributes: E (1, h)(1, h)ᵀ of each role."""
        found = np.ones(len(self._number))
        for r, (pairs, second) in enumerate(zip(self.pairs, seconds, strict=True)):
            powers = np.array([some[r] for some in self._number])
            found *= np.prod([second[pair] for pair in pairs] ** powers, axis=1)
        return found

    def _of_role(self, role: int, letters: int) -> ExchangeableSums:
        """Sums over the placements of pairs of heads on attributes of a role."""
        kinds = []
        for a, b in head_pairs(letters):
            kind = np.zeros((letters, letters))
            kind[a, b] = kind[b, a] = 1.0
            kinds.append(kind)
        most = min(int(self.members[role]), 2 * int(self.named[:, role].max()))
        if comb(most + len(kinds), most) > MOST_NUMBERS:
            raise TooLarge("too many ways in which heads meet")
        placed = {some for some in product(range(most + 1), repeat=len(kinds)) if sum(some) <= most}
        return ExchangeableSums(kinds, placed, LARGEST)

    # ------------------------------------------------------------------ types of T

    def _groups(self) -> list[Group]:
        every: set[Counts] = set()
        for row in self.named.tolist():
            if prod(n + 1 for n in row) + len(every) > MOST_TYPES:
                raise TooLarge("too many types of sets of attributes")
            every |= set(product(*(range(n + 1) for n in row)))
        # Of attributes with one value, and such, nothing is asked but the sum.
        sums = [r for r, one in self.others.items() if one.tail <= HAIR * one.mean]
        every = {types for types in every if not any(types[r] for r in sums)}
        found: dict[tuple[Counts, frozenset[Counts]], list[Counts]] = {}
        for types in sorted(every):
            own = tuple(types[r] for r in self.heads)
            found.setdefault((own, self.sizes_beside(types)), []).append(types)
        made, numbers = [], 0
        for (own, sizes), some in found.items():
            made.append(self._group(own, sizes, some))
            numbers += len(made[-1][1]) * len(some)
            if numbers > MOST_NUMBERS:
                raise TooLarge("too many types of sets of attributes")
        return [self._filled(*parts) for parts in made]  # once all moments are known

    def sizes_beside(self, types: Counts) -> frozenset[Counts]:
        """How many heads of each role some query has beside T."""
        rows = self.named[(self.named >= types).all(axis=1)][:, self.heads]
        rows = np.unique(rows - np.array(types)[self.heads], axis=0)
        every = (product(*(range(n + 1) for n in row)) for row in rows.tolist())
        return frozenset(some for ranges in every for some in ranges)

    def _group(
        self, own: Counts, sizes: frozenset[Counts], types: list[Counts]
    ) -> tuple[Group, list[dict[int, float]]]:
        free = [int(self.members[r]) - t for r, t in zip(self.heads, own, strict=True)]
        blocks, meetings = self._blocks(free, sizes)
        table = np.array([np.concatenate(some) for some in meetings], dtype=np.int64)
        needs = np.array([[sum(placed) for placed in some] for some in meetings])
        first, need = unique_rows(needs.reshape(len(meetings), len(self.heads)))
        left, asked = self._asked(types, needs[first])
        often = [prod(map(comb, self.members.tolist(), some)) for some in types]
        alike = Alike(blocks, np.zeros((0, 0)), np.array(often, dtype=np.float64))
        group = Group(tuple(types), np.array(own), table, need, left, asked, alike)
        return group, [self._expanded(own, meeting) for meeting in meetings]

    def _blocks(
        self, free: list[int], sizes: frozenset[Counts]
    ) -> tuple[tuple[StateBlock, ...], list[Meeting]]:
        """Blocks over the states of so many attributes outside T, and how two states can meet."""
        found: list[tuple[float, int, dict[Meeting, Array]]] = []
        used: set[Meeting] = set()
        each = [self._sums[r].blocks(n) for r, n in zip(self.heads, free, strict=True)]
        for chosen, kept in _states(each, sizes):
            entries = _entries(chosen, kept)
            used |= entries.keys()
            _require_few(len(used), len(kept))
            found.append((prod(block.often for block in chosen), len(kept), entries))
        meetings = sorted(used)
        blocks = (
            StateBlock(often, np.stack([e.get(m, np.zeros((size, size))) for m in meetings]))
            for often, size, e in found
        )
        return tuple(blocks), meetings

    def _filled(self, group: Group, rows: list[dict[int, float]]) -> Group:
        moments = np.zeros((len(rows), len(self._number)))
        for row, found in enumerate(rows):
            moments[row, list(found)] = list(found.values())
        return replace(group, alike=replace(group.alike, moments=moments))

    def _expanded(self, tails: Counts, meeting: Meeting) -> dict[int, float]:
        """E ∏_T (1 − |h|²) ∏ over the pairs of heads that meet, by moments."""
        found: dict[int, float] = {}
        for squares in product(*(_squares(t, p) for t, p in zip(tails, self.pairs, strict=True))):
            powers = tuple(
                tuple(a + b for a, b in zip(placed, more, strict=True))
                for placed, (_, more) in zip(meeting, squares, strict=True)
            )
            number = self._moment(powers)
            found[number] = found.get(number, 0.0) + prod(ways for ways, _ in squares)
        return found

    def _asked(self, types: list[Counts], needs: IntArray) -> tuple[IntArray, Array]:
        """Σ_q w_q over the queries around T and so many heads, by the powers of g₀₀ left over.

        With what is asked of the attributes of roles without heads.
        """
        rest = [r for r in range(len(self.members)) if r not in self.heads]
        found: dict[Counts, Array] = {}
        for t, some in enumerate(types):
            tails = np.array(some)
            rows = self.named - tails
            inside = (rows >= 0).all(axis=1)
            ways = self.weight * choose(self.members - tails, rows)[:, rest].prod(axis=1)
            for r in rest:
                one = self.others[r]
                ways = ways * one.tail ** some[r] * one.mean ** np.maximum(rows[:, r], 0)
            for n, need in enumerate(needs):
                left = rows[:, self.heads] - need
                free = (self.members - tails)[self.heads] - need
                kept = np.flatnonzero(inside & (left >= 0).all(axis=1))
                each = ways[kept] * choose(free, left[kept]).prod(axis=1)
                for powers, value in zip(map(tuple, left[kept].tolist()), each, strict=True):
                    place = found.setdefault(powers, np.zeros((len(types), len(needs))))
                    place[t, n] += value
        table = np.array(list(found), dtype=np.int64).reshape(len(found), len(self.heads))
        return table, np.stack(list(found.values()), axis=-1)


def _squares(tails: int, pairs: list[tuple[int, int]]) -> Iterator[tuple[int, Placed]]:
    """(1 − Σ h_a²)^t, term by term: its coefficient, and the powers of all pairs of heads."""
    diagonal = [number for number, (a, b) in enumerate(pairs) if a == b]
    for powers in product(range(tails + 1), repeat=len(diagonal)):
        if sum(powers) <= tails:
            ways = factorial(tails) // factorial(tails - sum(powers))
            ways //= prod(map(factorial, powers))
            more = [0] * len(pairs)
            for place, power in zip(diagonal, powers, strict=True):
                more[place] = power
            yield (-1) ** sum(powers) * ways, tuple(more)


def _states(
    each: list[list[Block]], sizes: frozenset[Counts]
) -> list[tuple[tuple[Block, ...], IntArray]]:
    """A block of each role, and the states of all of them that have as many heads as some of these.

    Role by role, with what some size begins with alone: all states of many roles are too many.
    """
    found: list[tuple[tuple[Block, ...], IntArray, IntArray]] = [
        ((), np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=np.int64))
    ]
    for number, blocks in enumerate(each):
        begun = {size[: number + 1] for size in sizes}
        further = []
        for chosen, states, present in found:
            for block in blocks:
                before = np.repeat(np.arange(len(states)), len(block.present))
                own = np.tile(np.arange(len(block.present)), len(states))
                counts = np.column_stack([present[before], block.present[own]])
                kept = np.flatnonzero([tuple(row) in begun for row in counts.tolist()])
                if len(kept):
                    all_states = np.column_stack([states[before[kept]], own[kept]])
                    further.append(((*chosen, block), all_states, counts[kept]))
        _require_few(1, max(len(states) for _, states, _ in further))
        found = further
    return [(chosen, states) for chosen, states, _ in found]


def _entries(chosen: Sequence[Block], states: IntArray) -> dict[Meeting, Array]:
    """Of every way in which two of the states meet: its matrix over them."""
    found: dict[Meeting, Array] = {(): np.ones((len(states), len(states)))}
    for block, at in zip(chosen, states.T, strict=True):
        own = {placed: entry[np.ix_(at, at)] for placed, entry in block.sums.items()}
        own = {placed: entry for placed, entry in own.items() if np.abs(entry).max() > EMPTY}
        further = {}
        for meeting, entry in found.items():
            for placed, factor in own.items():
                both = entry * factor
                if np.abs(both).max() > EMPTY:
                    further[(*meeting, placed)] = both
            _require_few(len(further), len(states))
        found = further
    return found


def _require_few(meetings: int, states: int) -> None:
    if meetings * states**2 > MOST_ENTRIES:
        raise TooLarge("too many states of heads")
