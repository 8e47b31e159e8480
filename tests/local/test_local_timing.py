"""What a device draws and does is the same, whatever the value is and whatever comes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.local.device.integer_chances import below
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.noise.randomness import SeededSource, Source

PACKAGE = str(Path(nz.__file__).parent)
MECHANISMS: dict[str, dict[str, Any]] = {
    "subset selection": {"epsilon": 6.0},
    "subset selection, several": {"epsilon": 0.5, "mechanism": "subset selection"},
    "rappor": {"epsilon": 2.0},
    "randomized response": {"epsilon": 1.0},
    "hadamard": {"epsilon": 1.0},
    "auto": {"epsilon": 1.0},
    "matrix l1": {"epsilon": 1.0},
    "matrix l2": {"epsilon": 1.0},
    "split": {"epsilon": 1.0, "cells": 6},
}


def made(name: str) -> Randomizer:
    schema = nz.Schema.from_sizes({"a": 6, "b": 2} if name == "split" else {"a": 12})
    asked = nz.Workload([nz.Query(schema, [attribute]) for attribute in schema.names])
    return nz.local.plan(asked, **({"mechanism": name} | MECHANISMS[name])).randomizer()


def values_of(randomizer: Randomizer) -> list[dict[str, int]]:
    shape = randomizer.schema.shape
    return [dict(zip(randomizer.schema.names, cell, strict=True)) for cell in np.ndindex(*shape)]


class Recording(Source):
    """Bits from a seed behind some given words, and how many were asked for each time."""

    def __init__(self, seed: int, first: tuple[int, ...] = ()) -> None:
        self._rest, self._first = SeededSource(seed), list(first)
        self.asked: list[int] = []

    def read(self, count: int) -> bytes:
        self.asked.append(count)
        drawn = self._rest.read(count)
        if count == 8 and self._first:
            return self._first.pop(0).to_bytes(8, "little")
        return drawn

    @property
    def brand(self) -> str:
        return "for a test"

    @property
    def private(self) -> bool:
        return False


def steps_of(randomizer: Randomizer, value: Any, source: Source) -> tuple[list[int], bytes]:
    """The lines of the package that a report runs through, and the report."""
    lines: list[int] = []

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            lines.append(hash((frame.f_code.co_filename, frame.f_lineno)))
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        report = randomizer.report(value, source=source)
    finally:
        sys.settrace(before)
    return lines, report


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_value_takes_the_same_draws_and_steps(name: str) -> None:
    randomizer = made(name)
    randomizer.report(values_of(randomizer)[0])  # what is computed once is
    for seed in range(5):
        asked, steps = [], []
        for value in values_of(randomizer):
            source = Recording(seed)
            steps.append(steps_of(randomizer, value, source)[0])
            asked.append(source.asked)
        assert all(other == asked[0] for other in asked)
        assert all(other == steps[0] for other in steps)
        assert sum(asked[0]) > 0
        assert len(steps[0]) > 10


LOW, HIGH = 0, 2**64 - 1  # the chance that decides: always below, and always above


@pytest.mark.parametrize("name", ["subset selection", "subset selection, several", "auto"])
def test_true_reports_take_the_draws_and_steps_of_the_others(name: str) -> None:
    randomizer = made(name)
    assert randomizer.kind == ("shifts" if name == "auto" else "subsets")
    randomizer.report(0)
    for seed in range(20):
        for value in (0, 5, 11):
            true, other = Recording(seed, (LOW, LOW)), Recording(seed, (LOW, HIGH))
            steps, report = steps_of(randomizer, value, true)
            their_steps, their_report = steps_of(randomizer, value, other)
            assert true.asked == other.asked
            assert steps == their_steps
            assert report != their_report
            if randomizer.kind == "subsets":
                bits = [
                    np.unpackbits(np.frombuffer(r[4:], np.uint8)) for r in (report, their_report)
                ]
                assert [bool(b[value]) for b in bits] == [True, False]


def test_a_word_drawn_again_is_so_for_true_reports_and_others() -> None:
    """Where the bounds differ, so does what is beyond the last whole block: both are drawn."""

    class Late(Recording):
        def words(self, count: int, bits: int) -> Any:
            words = super().words(count, bits).copy()
            if len(self.asked) in (3, 5):  # the first try of a place, high and low
                words[:] = HIGH
            return words

    randomizer = made("auto")
    asked = []
    for first in ((LOW, LOW), (LOW, HIGH)):
        source = Late(3, first)
        randomizer.report(4, source=source)
        asked.append(source.asked)
    assert asked[0] == asked[1]
    assert below(SeededSource(1), np.array([1, 1])).tolist() == [0, 0]
