"""Every example in the docstrings of these rooms runs as printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import noiseplan.domain
import noiseplan.matrices
import noiseplan.queries

MODULES = [
    "noiseplan.arrays",
    *(
        f"{room.__name__}.{module.name}"
        for room in (noiseplan.domain, noiseplan.matrices, noiseplan.queries)
        for module in pkgutil.iter_modules(room.__path__)
    ),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    count = sum(
        bool(test.examples)
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
    )
    assert count >= 18
