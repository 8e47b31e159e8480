"""How many random cases a test tries: every day, and in full before a change lands.

A test that draws examples, seeds, draws of noise, damaged files or moments to be killed at names
its number in full; every day it tries fewer of them, always the same ones. No test is left out.
`NOISEPLAN_TEST_DEPTH=full` asks for all: `make thorough` and `.ci/run` set it.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

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
