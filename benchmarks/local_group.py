"""The group "local": plans, exact optima, the published figure, speed, laws."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import local_bars, local_figures, local_speed
from benchmarks.tables import Table


def tables(quick: bool) -> Iterator[Table]:
    """About twelve minutes of one core; `quick` leaves out all sizes above 16 types."""
    yield local_bars.exact()
    yield from local_bars.bars(quick)
    if not quick:
        yield local_figures.figure_one()
        yield local_figures.against_recipe()
    yield local_speed.iterations(quick)
    yield local_speed.devices()
    yield local_speed.servers()
    yield local_speed.answers()
