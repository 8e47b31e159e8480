"""Levels with rows of their own: saved, read again, and refused where they make no sense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from levels_oracles import ASKED, SCHEMA, TOO_FINE, flat, made, written_out

from noiseplan.errors import PlanError, StorageError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, LevelsMechanism
from noiseplan.noise import Noise
from noiseplan.storage.plans import read_mechanism


@pytest.mark.parametrize("whole", [False, True])
def test_saved_and_read_it_is_the_same(whole: bool) -> None:
    mechanism = made(whole=whole)
    content, arrays = mechanism.parts()
    again = read_mechanism(content, arrays, SCHEMA)
    assert isinstance(again, LevelsMechanism) and again.exact == whole
    assert again.record_cost("add-remove") == mechanism.record_cost("add-remove")
    for name, query in ASKED.items():
        if name not in TOO_FINE:
            assert np.array_equal(again.variance(query), mechanism.variance(query))


DAMAGED: dict[str, tuple[str, dict[str, Any]]] = {
    "an attribute twice": ("not about other attributes", {"others": ["a", "a"]}),
    "the long one": ("not about other attributes", {"others": ["a", "t"]}),
    "in another order": ("not about other attributes", {"others": ["b", "a"]}),
    "fewer attributes": ("does not fit its tree", {"others": ["a"]}),
    "fewer levels": ("not one over its attribute", {"levels": 2}),
    "no noise": ("has no noise", {"level_1_sigma2": 0.0}),
    "noise that is none": ("has no noise", {"level_0_sigma2": -1.0}),
    "infinite noise": ("finite numbers", {"level_2_sigma2": np.inf}),
    "rows that are none": ("finite numbers", {"level_3_rows": np.nan}),
    "rows of fractions": ("rows of whole numbers", {"level_3_rows": 0.3}),
    "parts of fractions": ("rows of whole numbers", {"level_2_parts": 0.3}),
    "no parts": ("does not fit its tree", {"level_2_parts": 0.0}),
    "negative parts": ("does not fit its tree", {"level_1_parts": -1.0}),
    "parts that overflow": ("parts of the nodes", {"level_1_parts": 2.0**50}),
    "fewer parts": ("does not fit its tree", {"level_1_parts": slice(1, None)}),
    "fewer sizes": ("does not fit its tree", {"level_2_sigma2": slice(1, None)}),
    "more than one root": ("does not fit its tree", {"level_0_sigma2": [0, 0]}),
    "no tree": ("numbered by their parents", {"tree_1_parents": slice(None, None, -1)}),
    "fewer cells": ("does not fit its tree", {"level_1_rows": (slice(None), slice(1, None))}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_makes_no_sense_is_refused_when_it_is_read(name: str) -> None:
    match, damage = DAMAGED[name]
    content, arrays = made(whole=True).parts()
    for key, change in damage.items():
        if key in content:
            content = {**content, key: change}
        else:
            scaled = isinstance(change, float)
            arrays = {**arrays, key: arrays[key] * change if scaled else arrays[key][change]}
    with pytest.raises(StorageError, match=match):
        read_mechanism(content, arrays, SCHEMA)


def test_mechanisms_that_make_no_sense_are_not_made() -> None:
    with pytest.raises(PlanError, match="whole numbers"):
        replace(made(), exact=True)
    levels = list(made(whole=True).levels)
    levels[1] = replace(levels[1], parts=levels[1].parts * LARGEST_SUM)
    with pytest.raises(PlanError, match="level 1"):
        replace(made(whole=True), levels=tuple(levels))


@pytest.mark.parametrize("key", ["level_1_parts", "level_2_parts", "level_2_sigma2"])
@pytest.mark.parametrize("wrong", [0.0, -1.0])
def test_one_number_among_good_ones_is_refused_when_it_is_read(key: str, wrong: float) -> None:
    content, arrays = made(whole=True).parts()
    damaged = arrays[key].copy()
    damaged[-1] = wrong
    with pytest.raises(StorageError, match=r"does not fit its tree|has no noise"):
        read_mechanism(content, {**arrays, key: damaged}, SCHEMA)


@pytest.mark.parametrize("wrong", [0.0, -1.0, LARGEST_SUM + 1.0])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_one_part_among_good_ones_makes_no_mechanism(level: int, wrong: float) -> None:
    mechanism = made(whole=True)
    levels = list(mechanism.levels)
    parts = levels[level].parts.copy()
    parts[0] = wrong
    levels[level] = replace(levels[level], parts=parts)
    with pytest.raises(PlanError, match=f"level {level}"):
        replace(mechanism, levels=tuple(levels)).record_cost("add-remove")


def test_what_a_plan_says_of_its_levels() -> None:
    """Sizes are parameters, not what is drawn; units and rows are those written out."""
    mechanism = made(whole=True)
    faint = tuple(
        replace(own, noise=Noise("gaussian", own.noise.size / 40, exact=True))
        for own in mechanism.levels
    )
    mechanism = replace(mechanism, levels=faint)
    sizes = np.concatenate([own.noise.size for own in faint])
    np.testing.assert_array_equal(mechanism.noise.size, sizes)
    assert mechanism.describe().endswith("at 4 levels of t, each by rows of its own")
    values = [np.random.default_rng(1).standard_normal(shape) for shape in mechanism.shapes]
    each = [np.tile(own.noise.size, len(own.rows)) for own in faint]
    numbers = np.concatenate([value.ravel() for value in values])
    found = mechanism.unit_values(Measurements(tuple(values)))
    np.testing.assert_allclose(found, numbers / np.sqrt(np.concatenate(each)), rtol=1e-12)
    rows = flat(written_out(mechanism))
    np.testing.assert_allclose(
        mechanism.unit_rows(), rows / np.sqrt(np.concatenate(each))[:, None], atol=1e-12
    )
    (query,) = mechanism.measured_queries(9)
    expected = rows / np.abs(rows).max(axis=1, keepdims=True)
    np.testing.assert_allclose(query.dense(), expected, atol=1e-12)
