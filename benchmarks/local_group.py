"""The group "local": plans, exact optima, the published figure, speed, laws."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import local_bars, local_figures, local_speed
from benchmarks.tables import Table


def tables(quick: bool) -> Iterator[Table]:
    """About six minutes of one core; `quick` leaves out all sizes above 16 types."""
    yield local_bars.exact()
    yield from local_bars.bars(quick)
    if not quick:
        yield from local_figures.tables()
    yield local_speed.iterations(quick)
    yield local_speed.devices()
    yield local_speed.servers()
    yield local_speed.answers()
