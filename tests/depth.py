"""How many cases a test tries: every day, and in full before a change lands.

A test that draws examples, seeds, draws of noise, damaged files or moments to be killed at names
its number in full; every day it tries fewer of them, always the same ones. A test marked `grid`
runs for all combinations of its parameters in full, and every day for so many of them that every
value of every parameter is there. Of cases that take seconds each, marked `few(2)`, two run every
day, the first and the last; of `few(3)` one between them too. A case that is asked for by name runs
at any depth. Every test runs at both depths, with one case at least.
`NOISEPLAN_TEST_DEPTH=full` asks for all: `make thorough` and `.ci/run` set it.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

from hypothesis import settings

Case = TypeVar("Case")

VARIABLE = "NOISEPLAN_TEST_DEPTH"
DEPTHS = ("everyday", "full")
CHOSEN = os.environ.get(VARIABLE, "everyday")
if CHOSEN not in DEPTHS:
    raise ValueError(f"{VARIABLE} is {CHOSEN!r}; it is one of {', '.join(DEPTHS)}")
FULL = CHOSEN == "full"

# Every day this part of examples and of seeds, but no fewer than these: what a seed makes often
# goes by its rest when divided by two, three or four.
PART, FEWEST_EXAMPLES, FEWEST_SEEDS = 4, 8, 4


def depth(full: int, everyday: int) -> int:
    """How many cases to try, of those that are drawn at random."""
    return full if FULL else everyday


def examples(full: int, **others: Any) -> settings:
    """Hypothesis' settings for a test of `full` examples; the same ones on every run."""
    everyday = min(full, max(FEWEST_EXAMPLES, full // PART))
    kept = {"derandomize": True, "deadline": None} | others
    return settings(max_examples=depth(full, everyday), **kept)


def seeds(full: int, first: int = 0) -> range:
    """Seeds of a grid of random cases, `full` of them."""
    return range(first, first + depth(full, min(full, max(FEWEST_SEEDS, full // PART))))


def some(cases: Sequence[Case], everyday: int) -> list[Case]:
    """Of cases chosen by hand that take long: every day so many, from the first to the last."""
    if FULL or everyday >= len(cases):
        return list(cases)
    step = (len(cases) - 1) / max(everyday - 1, 1)
    return [cases[round(number * step)] for number in range(everyday)]


def spread(grid: Sequence[tuple[Hashable, ...]]) -> list[int]:
    """Places of a few combinations that have every value of every parameter among them.

    Each in turn is the one with the most values that were not there yet and, of these, with those
    that were there least often: of a full grid they go along its diagonals.
    """
    often: dict[tuple[int, Hashable], int] = {}
    left, taken = dict(enumerate(grid)), []
    missing = {(axis, value) for case in grid for axis, value in enumerate(case)}
    while missing:
        place = min(left, key=lambda at: _seen(left[at], often))
        for key in enumerate(left.pop(place)):
            often[key] = often.get(key, 0) + 1
            missing.discard(key)
        taken.append(place)
    return sorted(taken)


def _seen(case: tuple[Hashable, ...], often: dict[tuple[int, Hashable], int]) -> tuple[int, int]:
    """How many of its values were there, and how often."""
    times = [often.get(key, 0) for key in enumerate(case)]
    return sum(map(bool, times)), sum(times)
