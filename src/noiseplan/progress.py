"""Progress on long work: a bar for people after a second, nothing in logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from threading import Timer
from typing import Any

PATIENCE = 1.0


# Bars that stand for work of unknown length, while no other has something to show.
_WAITING: list[Any] = []


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """A bar that only moves, around work of which nobody knows how long it takes."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.add_task(title, total=None)
    timer = Timer(PATIENCE, bar.start)
    timer.daemon = True
    _WAITING.append(bar)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _WAITING.remove(bar)
        bar.stop()


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of steps just done.

    The bar appears on a terminal's standard error once the work has taken a second.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=total)
    started, shown = time.monotonic(), False

    def advance(steps: int) -> None:
        nonlocal shown
        bar.advance(task, steps)
        if not shown and time.monotonic() - started > PATIENCE:
            for other in _WAITING:
                other.stop()
            bar.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


@contextmanager
def closing_gap(title: str, tolerance: float) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with a relative gap: the bar is full when it is at the tolerance."""
    with progress(title, 100) as advance:
        shown = 0

        def watch(gap: float) -> None:
            nonlocal shown
            if 0.0 < gap < 1.0:
                reached = min(int(100 * log(gap) / log(tolerance)), 100)
                advance(max(reached - shown, 0))
                shown = max(reached, shown)

        yield watch
