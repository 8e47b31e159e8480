"""The benchmarks of the noise run, and judge by what they measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import noise_scale, noise_speed
from benchmarks.noise_biased import BIASED


def test_measuring_is_timed_both_ways() -> None:
    found = noise_scale.figures(4)
    assert found["numbers"] == 11**4 - 10**4  # tables of at most 3 attributes of 10 values
    assert 0 < found["continuous_s"] < 60
    assert 0 < found["discrete_s"] < 60
    assert found["sigma"] > 100


@pytest.mark.parametrize(("ratio", "met"), [(7.9, True), (8.1, False)])
def test_measuring_is_judged_by_the_ratio(ratio: float, met: bool) -> None:
    figures = {"numbers": 10, "sigma": 2.0, "continuous_s": 1.0, "discrete_s": ratio, "peak": 2**30}
    assert noise_scale._row(20, figures)[-1] is met


def test_a_law_is_judged_by_its_worst_test() -> None:
    law = noise_speed._laws()[3]
    assert noise_speed._law_row(law, 100_000)[-1] is True


def test_faults_are_judged_one_by_one() -> None:
    table = noise_speed.biased(10**6)
    assert len(table.rows) == len(BIASED)
    assert table.met
