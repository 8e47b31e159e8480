"""Linear algebra is held to one thread for small matrices, and let go afterwards."""

from __future__ import annotations

import scipy.linalg  # noqa: F401  # has threads of its own
from threadpoolctl import threadpool_info, threadpool_limits

from noiseplan.planning.threads import one_thread_below


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_small_matrices_have_one_thread_and_large_ones_all() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        usual = threads()  # libraries that were built without threads have one all the time
        assert 2 in usual
        for _ in range(2):  # the second time the libraries are known
            with one_thread_below(512, 511):
                assert threads() == {1}
            assert threads() == usual
            with one_thread_below(512, 512):
                assert threads() == usual
