"""The figures that the benchmark prints, on fewer tracts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import adaptive, common_choices
from benchmarks.tracts import synthetic_tracts


def test_published_figures() -> None:
    assert adaptive.shares().met
    assert adaptive.nested().met


def test_adaptive_choices_beat_the_split_budget() -> None:
    table = adaptive.case_study(1500)
    assert table.met, f"\n{table}"


def test_tracts_are_what_their_generator_says() -> None:
    tracts = synthetic_tracts(800)
    assert tracts.shape == (800, 2, 103)
    assert np.array_equal(tracts[:20], synthetic_tracts(800)[:20])
    sizes = tracts.sum(axis=(1, 2))
    assert 3500 < np.median(sizes) < 4300
    assert tracts[:, :, 101:].sum() == 0


def test_thresholds_are_the_best_ones() -> None:
    """By brute force over all cuts of a few tracts."""
    rng = np.random.default_rng(0)
    people = rng.integers(0, 1000, 40).astype(float)
    right = np.clip((people + rng.normal(0, 200, 40)) // 250, 0, 3).astype(np.int64)
    limits = adaptive._thresholds(people, right)
    for stage, limit in enumerate(limits):
        score = np.mean((people >= limit) == (right > stage))
        best = max(np.mean((people >= cut) == (right > stage)) for cut in [*people, np.inf])
        if stage == 0 or limit > limits[stage - 1]:
            assert score == best


def test_looks_choose_as_often_rightly_as_published() -> None:
    for table in common_choices.tables(4000):
        within = [row[-1] is True for row in table.rows]
        assert sum(within) >= 0.7 * len(within), f"\n{table}"  # of few units, by chance
    middle = np.sort(common_choices.blocks(20_000), axis=1)[:, -7]
    for _, rho, _, y, share, *_ in common_choices.RACE[:5]:
        assert 100 * np.mean(middle >= y * np.sqrt(21 / rho)) == pytest.approx(share, abs=2.5)
