"""Crossed mechanisms read back from parts: what makes no sense is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import StorageError
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.crossed import CrossedMechanism, Part
from noiseplan.mechanisms.crossed_queries import Frame
from noiseplan.mechanisms.matrix import DenseMechanism

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 4})
FRAME = Frame(SCHEMA, {0: Basis.orthogonal(3), 2: Basis.orthogonal(4)}, (1,))


def example() -> CrossedMechanism:
    rows = DenseMechanism(FRAME.cells, np.array([[1.0, 1.0], [0.0, 2.0]]))
    return CrossedMechanism(SCHEMA, FRAME, (Part((), rows), Part((0,), rows), Part((0, 2), rows)))


def test_read_back_it_is_the_same() -> None:
    again = CrossedMechanism.from_parts(*example().parts(), SCHEMA)
    assert [part.split for part in again.parts_of] == [(), (0,), (0, 2)]
    np.testing.assert_array_equal(again.cost_matrix(), example().cost_matrix())
    assert again.frame.same(FRAME) and again.cost("add-remove") == example().cost("add-remove")


DAMAGE: dict[str, tuple[Callable[[Any], None], str]] = {
    "no noise": (lambda a: a.update(sigma2=np.array([1.0, 0.0, 1.0])), "no noise"),
    "nothing crossed": (lambda a: a.update(whole=np.zeros(0, int)), "two kinds"),
    "split and whole": (lambda a: a.update(whole=np.array([0, 1])), "two kinds"),
    "not there": (lambda a: a.update(whole=np.array([1, 7])), "not there"),
    "not in order": (lambda a: a.update(part_2_set=np.array([2, 0])), "ascending"),
    "a whole one": (lambda a: a.update(part_1_set=np.array([1])), "does not fit"),
    "other cells": (lambda a: a.update(part_1_strategy=np.ones((1, 3))), "does not fit"),
    "twice": (lambda a: a.update(part_1_set=np.array([0, 2])), "two parts"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    damage, words = DAMAGE[name]
    content, arrays = example().parts()
    damage(arrays)
    with pytest.raises(StorageError, match=words):
        CrossedMechanism.from_parts(content, arrays, SCHEMA)


def test_covariances_of_many_numbers_are_refused() -> None:
    sizes = nz.Schema.from_sizes({"a": 3000, "b": 4})
    frame = Frame(sizes, {0: Basis.orthogonal(3000)}, (1,))
    rows = DenseMechanism(frame.cells, np.eye(4))
    mechanism = CrossedMechanism(sizes, frame, (Part((), rows), Part((0,), rows)))
    query = nz.Query(sizes, ["a", "b"])
    with pytest.raises(nz.NoiseplanError, match="ask for fewer rows"):
        mechanism.covariance(query, query)
