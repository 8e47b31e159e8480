"""Tables coupled through heads of attributes, written out over all states of the heads; and what a
mechanism of them costs, in whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np

import noiseplan as nz
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.coupled import CoupledMechanism
from noiseplan.planning.coupled_split import head_grams, letters_of, others_seen, seen_by
from noiseplan.planning.coupled_terms import CoupledTerms, Group, Seen, head_pairs
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.solve import role_bases
from noiseplan.planning.workload_types import Design, prepare

State = tuple[int, ...]


def ordered(sizes: list[int], plain: list[int], **which: int) -> nz.Workload:
    """Tables of prefix sums; attributes of the sizes `plain` are asked by value."""
    schema = nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate([*sizes, *plain])})
    factors = {f"a{i}": nz.Prefix() for i in range(len(sizes))}
    return nz.Workload.marginals(schema, factors=factors, **which)


WORKLOADS = {
    "three of one role": ordered([4, 4, 4], [], k=2),
    "two roles": ordered([4, 4, 5], [], up_to=2),
    "one by value": ordered([4, 4], [3], up_to=3),
    "not beside each other": nz.Workload(
        [
            nz.Query(schema, {a: nz.Prefix(), "c": nz.Prefix()}, weight=weight)
            for schema in [nz.Schema.from_sizes({"a": 4, "b": 4, "c": 5})]
            for a, weight in (("a", 1.0), ("b", 3.0))
        ]
    ),
}


@dataclass(frozen=True)
class Column:
    """(1, h) of one value, and |t|²."""

    heads: Array
    tail: float


@dataclass(frozen=True)
class Seeing:
    """A workload whose attributes are seen by rows, heads first."""

    design: Design
    letters: dict[int, int]
    rows: dict[int, Array]
    seen: dict[int, Seen]
    terms: CoupledTerms

    @classmethod
    def of(cls, workload: nz.Workload, heads: int) -> Seeing:
        """By the best rows without coupling."""
        design = prepare(workload)
        rows, letters = optimise_total(design), letters_of(design, heads)
        found = others_seen(design, role_bases(design, rows), letters)
        terms = CoupledTerms(design, letters, found)
        return cls(design, letters, rows, found, terms).with_rows(rows)

    def with_rows(self, rows: dict[int, Array]) -> Seeing:
        grams = zip(self.letters, head_grams(self.design, self.terms.heads), strict=True)
        seen = {r: seen_by(gram, rows[r], self.letters[r]) for r, gram in grams}
        return replace(self, rows=rows, seen=self.seen | seen)

    @property
    def headed(self) -> list[Seen]:
        return [self.seen[r] for r in self.terms.heads]

    @property
    def roles(self) -> list[int]:
        """Of every attribute."""
        return [int(r) for r in self.design.roles.of_attribute]

    @property
    def tables(self) -> list[tuple[frozenset[int], float]]:
        names = list(self.design.workload.schema.names)
        return [(frozenset(map(names.index, q.factors)), q.weight) for q in self.design.workload]

    def sets(self) -> Iterator[tuple[frozenset[int], list[State]]]:
        """All T, and the states of heads beside each: 0 where there is none."""
        within = {
            frozenset(s) for q, _ in self.tables for n in range(4) for s in combinations(q, n)
        }
        for tails in sorted(within, key=sorted):
            sizes = [
                range(self.letters[r]) if i not in tails and r in self.letters else range(1)
                for i, r in enumerate(self.roles)
            ]
            states = [
                state
                for state in product(*sizes)
                if any(tails | {i for i, s in enumerate(state) if s} <= q for q, _ in self.tables)
            ]
            yield tails, states

    def asked(self, tails: frozenset[int], states: list[State]) -> Array:
        """N_T as it is defined."""

        def entry(a: State, b: State) -> float:
            there = {i for i in range(len(a)) if a[i] or b[i]}
            return sum(
                weight * np.prod([self._part(i, i in tails, a[i], b[i]) for i in table])
                for table, weight in self.tables
                if tails | there <= table
            )

        return np.array([[entry(a, b) for b in states] for a in states])

    def _part(self, attribute: int, tail: bool, a: int, b: int) -> float:
        seen = self.seen[self.roles[attribute]]
        return seen.tail if tail else float(seen.heads[a, b])

    def group(self, tails: frozenset[int]) -> tuple[Group, int]:
        """Where T is, and which of its types it has."""
        counts = tuple(
            sum(self.roles[i] == r for i in tails) for r in range(len(self.design.roles.roles))
        )
        ((group, number),) = [
            (g, list(g.types).index(counts)) for g in self.terms.groups if counts in g.types
        ]
        return group, number

    def meeting(self, a: State, b: State) -> tuple[tuple[int, ...], ...]:
        """Of each role with heads, how many attributes have which pair."""
        pairs = [tuple(sorted(pair)) for pair in zip(a, b, strict=True)]
        mine = [
            [p for p, own in zip(pairs, self.roles, strict=True) if own == r] for r in self.letters
        ]
        return tuple(
            tuple(some.count(pair) for pair in head_pairs(self.letters[r]))
            for r, some in zip(self.letters, mine, strict=True)
        )

    def spread(self, group: Group, numbers: Array, states: list[State]) -> Array:
        """A matrix over states, from its numbers by meetings."""
        known = {
            tuple(row): value for row, value in zip(group.placed.tolist(), numbers, strict=True)
        }
        flat = [[sum(self.meeting(a, b), ()) for b in states] for a in states]
        return np.array([[known[some] for some in row] for row in flat])

    def values(self, attribute: int) -> int:
        """How many are told apart; one where there are no heads, whose columns are all as long."""
        role = self.roles[attribute]
        return self.design.group_count(role) if role in self.letters else 1

    def columns_of(self, values: tuple[int, ...]) -> list[Column]:
        """What a record with these values is seen by."""
        found = []
        for r, value in zip(self.roles, values, strict=True):
            if r in self.letters:
                heads, tail = np.split(self.rows[r][:, value], [self.letters[r] - 1])
                found.append(Column(np.append(1.0, heads), float(tail @ tail)))
            else:
                found.append(Column(np.ones(1), 1.0))
        return found

    def level(self, tails: frozenset[int], states: list[State], record: list[Column]) -> Array:
        """∏_T |t|² f fᵀ of one record."""
        square = np.prod([record[i].tail for i in tails])
        each = [[one.heads[s] for one, s in zip(record, state, strict=True)] for state in states]
        f = np.prod(np.array(each), axis=1)
        return np.asarray(square * np.outer(f, f))


def exact_cost(mechanism: CoupledMechanism, neighbours: str) -> Fraction:
    """What the dearest record or pair costs by the definition, in Python's integers; where as much
    is measured several times, the sum."""
    columns = [list(_measured(mechanism, x)) for x in np.ndindex(*mechanism.schema.shape)]
    if neighbours == "replace":
        columns = [
            [(a - b, size) for (a, size), (b, _) in zip(one, other, strict=True)]
            for one, other in combinations(columns, 2)
        ]
    return max(sum((value**2 / size for value, size in c), Fraction(0)) for c in columns)


def _measured(
    mechanism: CoupledMechanism, record: tuple[int, ...]
) -> Iterator[tuple[int, Fraction]]:
    """The numbers that one record gives, ∏ t(x) · (M f(x))_a of every T, each with its σ²."""
    columns = [_column(mechanism, i, value) for i, value in enumerate(record)]
    for coupling in mechanism.couplings:
        for row in coupling.sets.tolist():
            tails, beside = row[: coupling.tails], row[coupling.tails :]
            f = [
                prod(columns[i][h - 1] for i, h in zip(beside, state, strict=True) if h)
                for state in coupling.states.tolist()
            ]
            seen = (columns[i][int(mechanism.heads[i]) :] for i in tails)
            for t in map(prod, product(*seen)):
                for entries in coupling.rows.tolist():
                    mixed = sum(int(m) * part for m, part in zip(entries, f, strict=True))
                    yield t * mixed, Fraction(coupling.sigma2)


def _column(mechanism: CoupledMechanism, attribute: int, value: int) -> list[int]:
    """What an attribute's rows make of a value; nothing where nobody measures it."""
    number = int(mechanism.basis_of[attribute])
    if number < 0:
        return []
    rows = mechanism.bases[number].measure
    return [int(x) for x in (rows.dense() if isinstance(rows, Matrix) else rows)[:, value]]
