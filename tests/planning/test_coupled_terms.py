"""What is asked of parts of tables, and what they cost: against matrices over all states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations, product
from unittest import mock

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.matrices.base import Array
from noiseplan.optimize.exchangeable_sums import TooLarge
from noiseplan.planning import coupled_terms
from noiseplan.planning.coupled_split import letters_of, others_seen, seen_by
from noiseplan.planning.coupled_terms import CoupledTerms, Group, Seen, head_pairs, several_ways
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
class Coupling:
    """A workload whose attributes are seen by rows, heads first."""

    design: Design
    letters: dict[int, int]
    rows: dict[int, Array]
    seen: dict[int, Seen]
    terms: CoupledTerms

    @classmethod
    def of(cls, workload: nz.Workload, heads: int) -> Coupling:
        """By the best rows without coupling."""
        design = prepare(workload)
        rows, letters = optimise_total(design), letters_of(design, heads)
        grams = {int(r): design.grams[pair] for pair, r in enumerate(design.roles.pair_role)}
        found = others_seen(design, role_bases(design, rows), letters)
        terms = CoupledTerms(design, letters, found)
        for r in letters:
            gram = grams[r]
            assert gram is not None
            found = {**found, r: seen_by(gram, rows[r], letters[r])}
        return cls(design, letters, rows, found, terms)

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

    def heads_of(self, values: tuple[int, ...]) -> list[Array]:
        """(1, h) of a record by attributes; the first values of those without heads."""
        found = []
        for r, value in zip(self.roles, values, strict=True):
            heads = self.rows[r][: self.letters[r] - 1, value] if r in self.letters else np.zeros(0)
            found.append(np.append(1.0, heads))
        return found

    def level(self, tails: frozenset[int], states: list[State], record: list[Array]) -> Array:
        """∏_T (1 − |h|²) f fᵀ of one record."""
        cost = np.prod([1 - (record[i][1:] ** 2).sum() for i in tails])
        f = np.array(
            [np.prod([h[s] for h, s in zip(record, state, strict=True)]) for state in states]
        )
        return np.asarray(cost * np.outer(f, f))


CASES = [(name, heads) for name in WORKLOADS for heads in (1, 2)]


@pytest.mark.parametrize(("name", "heads"), CASES)
def test_what_is_asked_by_its_definition(name: str, heads: int) -> None:
    one = Coupling.of(WORKLOADS[name], heads)
    seen_types = set()
    for tails, states in one.sets():
        group, number = one.group(tails)
        seen_types.add(group.types[number])
        found = one.spread(group, group.numbers(one.headed)[number], states)
        assert found == pytest.approx(one.asked(tails, states), rel=1e-12)
    assert seen_types == {some for group in one.terms.groups for some in group.types}


@pytest.mark.parametrize(("name", "heads"), CASES)
def test_what_a_record_costs_by_its_moments(name: str, heads: int) -> None:
    """Records whose attributes of one role change places are as likely as each other."""
    one = Coupling.of(WORKLOADS[name], heads)
    record = one.heads_of(tuple(range(len(one.roles))))
    orders = [
        order
        for order in permutations(range(len(record)))
        if all(one.roles[i] == one.roles[o] for i, o in enumerate(order))
    ]
    moments = mean_moments(one, [[record[o] for o in order] for order in orders])
    for tails, states in one.sets():
        group, _ = one.group(tails)
        found = one.spread(group, group.alike.moments @ moments, states)
        each = [one.level(tails, states, [record[o] for o in order]) for order in orders]
        assert found == pytest.approx(np.mean(each, axis=0), abs=1e-12)


def mean_moments(one: Coupling, records: list[list[Array]]) -> Array:
    """y: of pairs of heads placed on attributes, no two on one, the mean product."""
    moments = np.full(one.terms.groups[0].alike.moments.shape[1], np.nan)
    for parts in product(*(placements(one.roles.count(r), n) for r, n in one.letters.items())):
        number = one.terms.number_of(parts)
        if number is not None:
            moments[number] = np.mean([placed_product(one, parts, record) for record in records])
    assert not np.isnan(moments).any()
    return moments


def placements(attributes: int, letters: int) -> list[State]:
    """How many of so many attributes may have which pair of heads."""
    every = product(range(attributes + 1), repeat=len(head_pairs(letters)))
    return [some for some in every if sum(some) <= attributes]


def placed_product(one: Coupling, parts: tuple[State, ...], record: list[Array]) -> float:
    """Pairs on the first attributes of each role: all orders are among the records."""
    result = 1.0
    for r, part in zip(one.letters, parts, strict=True):
        pairs = [
            pair for pair, n in zip(head_pairs(one.letters[r]), part, strict=True) for _ in range(n)
        ]
        mine = [h for h, own in zip(record, one.roles, strict=True) if own == r]
        for (a, b), h in zip(pairs, mine, strict=False):
            result *= h[a] * h[b]
    return result


def test_moments_of_independent_attributes() -> None:
    """The same as those of all records, each as likely as the product of its values."""
    one = Coupling.of(WORKLOADS["three of one role"], 1)
    (r,) = one.letters
    shares = np.array([0.1, 0.4, 0.2, 0.3])
    heads = np.vstack([np.ones(4), one.rows[r][:1]])
    found = one.terms.product_moments([(heads * shares) @ heads.T])
    values = list(product(range(4), repeat=3))
    weights = [np.prod(shares[list(some)]) for some in values]
    each = [mean_moments(one, [one.heads_of(some)]) for some in values]
    assert found == pytest.approx(np.average(each, axis=0, weights=weights), abs=1e-12)


@pytest.mark.parametrize("name", ["two roles", "one by value"])
def test_slopes_of_what_is_asked(name: str) -> None:
    one = Coupling.of(WORKLOADS[name], 2)
    rng, step = np.random.default_rng(4), 1e-6
    weights = [rng.normal(size=group.numbers(one.headed).shape) for group in one.terms.groups]

    def value(seen: list[Seen]) -> float:
        groups = zip(one.terms.groups, weights, strict=True)
        return sum(float((w * group.numbers(seen)).sum()) for group, w in groups)

    for r, (by_heads, by_tail) in enumerate(one.terms.slopes(one.headed, weights)):
        own = one.headed[r]
        change = rng.normal(size=own.heads.shape)
        change += change.T
        for heads, tail, slope in (
            (step * change, 0.0, float((by_heads * change).sum())),
            (0.0, step * own.tail, by_tail * own.tail),
        ):
            values = []
            for sign in (1, -1):
                moved = list(one.headed)
                moved[r] = Seen(own.heads + sign * heads, own.tail + sign * tail)
                values.append(value(moved))
            assert slope == pytest.approx((values[0] - values[1]) / 2 / step, rel=1e-6, abs=1e-6)


def test_moments_that_are_not_there() -> None:
    one = Coupling.of(WORKLOADS["three of one role"], 1)
    assert one.terms.number_of(((0, 0),)) == 0
    assert one.terms.number_of(((9, 9),)) is None


@pytest.mark.parametrize("limit", ["MOST_NUMBERS", "LARGEST", "MOST_ENTRIES"])
def test_too_large(limit: str) -> None:
    with mock.patch.object(coupled_terms, limit, 3), pytest.raises(TooLarge):
        Coupling.of(WORKLOADS["two roles"], 1)


def test_types_of_sets_are_limited_in_all() -> None:
    """Few ways to meet, but several types."""
    with (
        mock.patch.object(coupled_terms, "MOST_NUMBERS", 12),
        pytest.raises(TooLarge, match="types"),
    ):
        Coupling.of(WORKLOADS["three of one role"], 1)


def test_attributes_asked_in_several_ways() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 4})
    one = nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()})
    other = nz.Query(schema, {"a": nz.Identity(), "b": nz.Prefix()})
    assert not several_ways(prepare(nz.Workload([one])))
    assert several_ways(prepare(nz.Workload([one, other])))
    assert not any(several_ways(prepare(workload)) for workload in WORKLOADS.values())
