"""What is asked of parts of tables, and what they cost: against matrices over all states."""

from __future__ import annotations

from itertools import permutations, product
from unittest import mock

import numpy as np
import pytest

import noiseplan as nz
from coupled_oracles import WORKLOADS, Column, Seeing, State
from noiseplan.matrices.base import Array
from noiseplan.optimize.exchangeable_sums import TooLarge
from noiseplan.planning import coupled_terms
from noiseplan.planning.coupled_split import letters_of, others_seen
from noiseplan.planning.coupled_terms import CoupledTerms, Seen, head_pairs, several_ways
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.solve import role_bases
from noiseplan.planning.workload_types import prepare

CASES = [(name, heads) for name in WORKLOADS for heads in (1, 2)]


@pytest.mark.parametrize(("name", "heads"), CASES)
def test_what_is_asked_by_its_definition(name: str, heads: int) -> None:
    one = Seeing.of(WORKLOADS[name], heads)
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
    one = Seeing.of(WORKLOADS[name], heads)
    record = one.columns_of(tuple(i % one.values(i) for i in range(len(one.roles))))
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


def mean_moments(one: Seeing, records: list[list[Column]]) -> Array:
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


def placed_product(one: Seeing, parts: tuple[State, ...], record: list[Column]) -> float:
    """Pairs on the first attributes of each role: all orders are among the records."""
    result = 1.0
    for r, part in zip(one.letters, parts, strict=True):
        pairs = [
            pair for pair, n in zip(head_pairs(one.letters[r]), part, strict=True) for _ in range(n)
        ]
        mine = [column for column, own in zip(record, one.roles, strict=True) if own == r]
        for (a, b), column in zip(pairs, mine, strict=False):
            result *= column.heads[a] * column.heads[b]
    return result


def test_moments_of_independent_attributes() -> None:
    """The same as those of all records, each as likely as the product of its values."""
    one = Seeing.of(WORKLOADS["three of one role"], 1)
    (r,) = one.letters
    shares = np.array([0.1, 0.4, 0.2, 0.3])
    heads = np.vstack([np.ones(4), one.rows[r][:1]])
    found = one.terms.product_moments([(heads * shares) @ heads.T])
    values = list(product(range(4), repeat=3))
    weights = [np.prod(shares[list(some)]) for some in values]
    each = [mean_moments(one, [one.columns_of(some)]) for some in values]
    assert found == pytest.approx(np.average(each, axis=0, weights=weights), abs=1e-12)


@pytest.mark.parametrize("nothing", [False, True])
@pytest.mark.parametrize("name", ["two roles", "one by value"])
def test_slopes_of_what_is_asked(name: str, nothing: bool) -> None:
    """Also by what is not asked for at all: a product of zeros may have a slope."""
    one = Seeing.of(WORKLOADS[name], 2)
    rng, step = np.random.default_rng(4), 1e-6
    if nothing:
        for r, seen in enumerate(one.headed):
            heads = seen.heads.copy()
            heads[0, 1] = heads[1, 0] = 0.0
            one.seen[one.terms.heads[r]] = Seen(heads, 0.0)
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
            (0.0, step * (own.tail or 1.0), by_tail * (own.tail or 1.0)),
        ):
            values = []
            for sign in (1, -1):
                moved = list(one.headed)
                moved[r] = Seen(own.heads + sign * heads, own.tail + sign * tail)
                values.append(value(moved))
            assert slope == pytest.approx((values[0] - values[1]) / 2 / step, rel=1e-6, abs=1e-6)


def test_moments_that_are_not_there() -> None:
    one = Seeing.of(WORKLOADS["three of one role"], 1)
    assert one.terms.number_of(((0, 0),)) == 0
    assert one.terms.number_of(((9, 9),)) is None


@pytest.mark.parametrize("limit", ["MOST_NUMBERS", "LARGEST", "MOST_ENTRIES"])
def test_too_large(limit: str) -> None:
    with mock.patch.object(coupled_terms, limit, 3), pytest.raises(TooLarge):
        Seeing.of(WORKLOADS["two roles"], 1)


def test_types_of_sets_are_limited_in_all() -> None:
    """Few ways to meet, but several types."""
    with (
        mock.patch.object(coupled_terms, "MOST_NUMBERS", 12),
        pytest.raises(TooLarge, match="types"),
    ):
        Seeing.of(WORKLOADS["three of one role"], 1)


@pytest.mark.parametrize(
    ("values", "ways", "words"),
    [(range(5, 30), 1, None), (range(5, 21), 2, "states"), (range(2, 42), 1, None)],
)
def test_many_attributes_that_differ(values: range, ways: int, words: str | None) -> None:
    """All states of so many are too many even to be counted."""
    schema = nz.Schema.from_sizes({f"a{n}": n for n in values})
    factors = dict.fromkeys(schema.names, nz.Prefix())
    design = prepare(nz.Workload.marginals(schema, k=ways, factors=factors))
    letters = letters_of(design, 1)
    others = others_seen(design, role_bases(design, optimise_total(design)), letters)
    if words is not None:
        with pytest.raises(TooLarge, match=words):
            CoupledTerms(design, letters, others)
        return
    terms = CoupledTerms(design, letters, others)
    # The sum and a head of each, beside one of no head; the tail of each, or all of it, alone.
    heads = len(letters)
    assert terms.parts == (1 + heads) + heads + (len(values) - heads)
    with pytest.raises(TooLarge, match="moments"):
        CoupledTerms(design, letters, others, most=10)


def test_many_ways_to_name_attributes_are_not_listed() -> None:
    schema = nz.Schema.from_sizes({f"a{n}": n for n in range(3, 20)})
    prefixes = dict.fromkeys(schema.names, nz.Prefix())
    design = prepare(
        nz.Workload([nz.Query(schema, prefixes), nz.Query(schema, {"a3": nz.Prefix()})])
    )
    letters = letters_of(design, 1)
    with pytest.raises(TooLarge, match="types"):
        CoupledTerms(design, letters, {})


def test_attributes_asked_in_several_ways() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 4})
    one = nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()})
    other = nz.Query(schema, {"a": nz.Identity(), "b": nz.Prefix()})
    assert not several_ways(prepare(nz.Workload([one])))
    assert several_ways(prepare(nz.Workload([one, other])))
    assert not any(several_ways(prepare(workload)) for workload in WORKLOADS.values())
