"""The group "local": plans, exact optima, the published figure, speed, laws."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import local_bars, local_figure3, local_figures, local_speed, local_splits
from benchmarks.tables import Table


def tables(quick: bool) -> Iterator[Table]:
    """About eight minutes of one core; `quick` leaves out all sizes above 16 types."""
    yield local_bars.exact()
    yield from local_bars.bars(quick)
    if not quick:
        yield from local_figures.tables()
        yield from local_figure3.tables()
        yield local_splits.table()
    yield local_speed.iterations(quick)
    yield local_speed.devices()
    yield local_speed.servers()
    yield local_speed.answers()
