"""Levels with rows of their own: what the dearest record pays, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from levels_oracles import SCHEMA, TREE, flat, made, written_out

import noiseplan as nz
from depth import examples, seeds
from noiseplan.domain.tree import Tree
from noiseplan.mechanisms.level_siblings import Siblings
from noiseplan.mechanisms.measured_levels import Level, LevelsMechanism
from noiseplan.noise import Noise
from noiseplan.privacy.rounding import margin
from noiseplan.storage.plans import read_mechanism


def dearest(mechanism: LevelsMechanism, neighbours: str) -> Fraction:
    """2ρ of the dearest record, from columns of what is measured, in exact arithmetic."""
    rows = flat(written_out(mechanism))
    sizes = np.concatenate(
        [np.tile(o.noise.size, s[0]) for s, o in zip(mechanism.shapes, mechanism.levels)]  # noqa: B905
    )
    columns = [[Fraction(x) for x in column] for column in np.unique(rows, axis=1).T]
    noise = [Fraction(size) for size in sizes]
    pairs = [(one, [Fraction(0)] * len(one)) for one in columns]
    if neighbours == "replace":
        pairs = list(permutations(columns, 2))
    return max(
        sum(((a - b) ** 2 / d for a, b, d in zip(one, two, noise, strict=True)), Fraction(0))
        for one, two in pairs
    )


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("seed", seeds(6))
def test_the_cost_is_that_of_the_dearest_record(seed: int, neighbours: Any) -> None:
    mechanism = made(whole=True, seed=seed)
    truth, stated = dearest(mechanism, neighbours), mechanism.record_cost(neighbours)
    assert truth <= Fraction(stated) <= truth * Fraction(1 + 1e-9)
    unit = flat(written_out(mechanism))
    sizes = [np.tile(o.noise.size, len(o.rows)) for o in mechanism.levels]
    unit = unit / np.sqrt(np.concatenate(sizes))[:, None]
    np.testing.assert_allclose(mechanism.cost_matrix(), unit.T @ unit, atol=1e-9)
    with mock.patch("noiseplan.mechanisms.long_attribute.CELL_BY_CELL", 1):
        loose = mechanism.record_cost(neighbours)
    assert truth <= Fraction(loose) <= 4 * truth * Fraction(1 + 1e-9)


@st.composite
def families_of_parts(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Children of several parents, their parts as far from each other as they can be."""
    part = st.one_of(st.integers(1, 3), st.integers(1, 1 << 12), st.integers(1 << 19, 1 << 20))
    size = st.integers(1, 1 << 40)
    parts = draw(st.lists(st.lists(part, min_size=1, max_size=4), min_size=1, max_size=3))
    return parts, [[draw(size) for _ in each] for each in parts]


@examples(200)
@given(families_of_parts())
def test_prices_of_very_uneven_children(drawn: tuple[list[list[int]], list[list[int]]]) -> None:
    """What each record pays, and the stated cost, against exact fractions: never below, and hardly
    above what the dearest pays."""
    parts, sizes = drawn
    parent = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    above = np.zeros(len(parts), dtype=np.int64)
    tree = Tree(np.arange(len(parent)), (above, parent)[len(parts) == 1 :])
    schema = nz.Schema.from_sizes({"t": len(parent)})
    one = Level(np.ones((1, 1)), np.ones(1), Noise("gaussian", 1e9, exact=True))
    kept = [len(each) > 1 for each in parts for _ in each]
    noise = Noise(
        "gaussian", np.array([d for each in sizes for d in each], dtype=float)[kept], exact=True
    )
    last = Level(np.ones((1, 1)), np.array([t for each in parts for t in each], dtype=float), noise)
    levels = [one, last]
    truth = Fraction(1, 10**9)
    if len(parts) > 1:
        middle = Noise("gaussian", np.full(len(parts), 1e12), exact=True)
        levels.insert(1, Level(np.ones((1, 1)), np.ones(len(parts)), middle))
        truth += Fraction(len(parts) * (len(parts) - 1), 10**12)
    each = [
        truth + (sum(
            Fraction((sum(own) * (i == j) - t) ** 2, d)
            for i, (t, d) in enumerate(zip(own, variances, strict=True))
        ) if len(own) > 1 else Fraction(0))
        for own, variances in zip(parts, sizes, strict=True)
        for j in range(len(own))
    ]  # fmt: skip
    mechanism = LevelsMechanism(schema, 0, (), tree, tuple(levels), True)
    stated, most = mechanism.record_cost("add-remove"), max(each)
    assert most <= Fraction(stated) <= most * Fraction(1 + 1e-9)
    of_cells = mechanism.cell_costs() * (1 + margin(mechanism.numbers))  # as a profile says it
    for exact, cost in zip(each, of_cells.tolist(), strict=True):
        assert exact <= Fraction(cost) <= exact + most * Fraction(1e-9)


def test_several_records_of_a_person_pay_as_their_square() -> None:
    mechanism = made(whole=True)
    one, three = (mechanism.cost("add-remove", rows).pcost for rows in (1, 3))
    assert 9 * one <= three * (1 + 1e-15) and three <= 9 * one * (1 + 1e-9)


def test_parts_that_are_hardly_any_have_a_price_still() -> None:
    """As a file might have them: no child pays less than nothing, or more than can be said."""
    content, arrays = made().parts()
    uneven = np.full(len(arrays["level_1_parts"]), 1e-18)
    uneven[0] = 1.0
    mechanism = read_mechanism(content, {**arrays, "level_1_parts": uneven}, SCHEMA)
    assert isinstance(mechanism, LevelsMechanism)
    truth = dearest(mechanism, "add-remove")
    stated = Fraction(mechanism.record_cost("add-remove"))
    assert truth <= stated <= truth * Fraction(1 + 1e-9)


def test_only_children_have_no_noise_of_their_own() -> None:
    mechanism = made()
    level = Siblings.of(TREE, 2, mechanism.levels[2].parts, mechanism.levels[2].noise)
    alone = ~level.kept
    assert alone.any() and not level.price()[alone].any() and not level.single()[alone].any()
