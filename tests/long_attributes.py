"""Attributes of a few values, planned as long ones are, so that optima by other means are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from noiseplan.planning import limits
from noiseplan.planning.planners import automatic


@contextmanager
def planned_as_long(values: int = 4, series: int = 4, optimum: bool = False) -> Iterator[None]:
    """Attributes of more values than this have trees, or series for sums in order of more.

    Ranks of long attributes are mostly too high for the optimum: it is not looked for after their
    plans, but where that is what is tested.
    """
    kept = automatic.or_optimum if optimum else lambda problem, best: best
    with (
        mock.patch.multiple(limits, LONG_VALUES=values, SERIES_VALUES=series),
        mock.patch.object(automatic, "or_optimum", kept),
    ):
        yield
