"""The group "explicit": fitness for use, exact optima, strategies by name and bounds."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from benchmarks import explicit_fitness
from benchmarks.tables import Table


def tables(quick: bool) -> Iterator[Table]:
    """All tables about matrices over small domains."""
    yield from explicit_fitness.tables(quick)
    if find_spec("benchmarks.explicit_strategies") is not None:
        yield from import_module("benchmarks.explicit_strategies").tables(quick)
