"""Progress on long work: a bar for people after a second, nothing in logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from threading import Lock, Timer
from typing import Any

PATIENCE = 1.0


# Whoever hears of progress instead of seeing a bar: what is being done, and the share done.
Listener = Callable[[str, float | None], None]
_LISTENERS: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside the block, progress is told to `listener`: the title, and the share that is done.

    Examples
    --------
    >>> heard = []
    >>> with listening(lambda title, share: heard.append((title, share))):
    ...     with progress("counting", 4) as advance:
    ...         advance(1)
    ...         advance(3)
    >>> heard
    [('counting', 0.0), ('counting', 0.25), ('counting', 1.0)]
    """
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def _tell(title: str, share: float | None) -> None:
    for listener in _LISTENERS:
        listener(title, share)


# Bars that stand for work of unknown length, while no other has something to show. One that has
# left the list is never started: its clock may strike in the moment in which another takes over.
_WAITING: list[Any] = []
_TURN = Lock()


def _start_waiting(bar: Any) -> None:
    with _TURN:
        if bar in _WAITING:
            bar.start()


def _stop_waiting(bars: list[Any]) -> None:
    with _TURN:
        for bar in bars:
            bar.stop()
        _WAITING[:] = [bar for bar in _WAITING if bar not in bars]


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """A bar that only moves, around work of which nobody knows how long it takes."""
    _tell(title, None)
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.add_task(title, total=None)
    timer = Timer(PATIENCE, _start_waiting, [bar])
    timer.daemon = True
    _WAITING.append(bar)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _stop_waiting([bar])


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of steps just done.

    The bar appears on a terminal's standard error once the work has taken a second.
    """
    if _LISTENERS:
        yield _counting(title, total)
        return
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
            _stop_waiting(list(_WAITING))
            bar.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


def _counting(title: str, total: int) -> Callable[[int], None]:
    """Steps told to whoever listens, as a share of all."""
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        _tell(title, min(done / total, 1.0) if total else None)

    advance(0)
    return advance


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
