"""Threads: planning multiplies many small matrices, which more threads only slow down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands hold threads before anything is planned
    from noiseplan.planning.workload_types import Design
    from noiseplan.schema import Schema

# From this many values on, products are large enough to share among threads.
LARGE = 512


@contextmanager
def one_thread(design: Design) -> Iterator[None]:
    """Hold linear algebra to one thread unless some attribute is large."""
    with one_thread_below(LARGE, max((design.group_count(r) for r in design.free), default=0)):
        yield


@contextmanager
def one_thread_below(large: int, values: int) -> Iterator[None]:
    """Hold linear algebra to one thread if matrices have fewer than `large` rows.

    On a busy machine with two cores, threads that wait for each other made a plan of a second take
    twenty.
    """
    if values >= large:
        yield
        return
    import scipy.linalg  # noqa: F401  # brings its own threads, held only if it is loaded by now
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


@contextmanager
def calm_threads(schema: Schema) -> Iterator[None]:
    """One thread for linear algebra unless some attribute is large, also while a plan is printed:
    bounds are computed then, and threads that wait for each other cost more than they bring."""
    from threadpoolctl import threadpool_limits

    limit = 1 if max(schema.shape) < LARGE else None
    with threadpool_limits(limits=limit, user_api="blas"):
        yield
