"""Threads: planning multiplies many small matrices, which more threads only slow down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands hold threads before anything is planned
    from threadpoolctl import ThreadpoolController

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

    with _pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@contextmanager
def calm_threads(schema: Schema) -> Iterator[None]:
    """One thread for linear algebra unless some attribute is large, also while a plan is printed:
    bounds are computed then, and threads that wait for each other cost more than they bring."""
    limit = 1 if max(schema.shape) < LARGE else None
    with _pools(len(sys.modules)).limit(limits=limit, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """The libraries that have threads; looked for again when modules were imported since, not for
    every plan: where many libraries are loaded it takes as long as a small plan does."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
