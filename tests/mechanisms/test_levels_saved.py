"""Levels with rows of their own: saved, read again, and refused where they make no sense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from levels_oracles import ASKED, SCHEMA, TOO_FINE, made

from noiseplan.errors import PlanError, StorageError
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, LevelsMechanism
from noiseplan.mechanisms.saved import read_mechanism


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
