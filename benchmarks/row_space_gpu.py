"""`python -m benchmarks.row_space_gpu [backend ...]`: the optimum in the row space, timed.

The planner's own text on PyTorch tensors in double precision ("torch:cuda" if there is a GPU), or
on NumPy ("numpy"): the demonstration's tables, and random tables of rank 1,336 over 115,200 cells,
to a certified gap of 0.1 %. Without an argument: on a GPU where there is one.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Final

import numpy as np

import noiseplan as nz
from noiseplan.data import cpssw8_schema
from noiseplan.demo import labour_workload
from noiseplan.planning.planners.row_space_plans import optimum_at_cost_one

TOLERANCE: Final = 1e-3
SIZES: Final = {"a": 10, "b": 8, "c": 6, "d": 8, "e": 5, "f": 6}


def main(backends: list[str]) -> int:
    """Print one line per workload; 1 if there is nothing to run on."""
    if not backends and find_spec("torch") is None:
        print("No PyTorch here: install it on a machine with a GPU, or name the backend numpy.")
        return 1
    print("| workload | cells | backend | value | certified gap | steps | seconds |")
    print("| :--- | ---: | :--- | ---: | ---: | ---: | ---: |")
    for backend in backends or ["torch:cuda"]:
        _timed("warm-up", nz.Workload.marginals(nz.Schema.from_sizes(SIZES), k=1), backend)
        _timed("the demonstration", labour_workload(cpssw8_schema()).weighted("tables"), backend)
        _timed("14 random tables", random_tables(), backend)
    return 0


def random_tables(count: int = 14, seed: int = 0) -> nz.Workload:
    """Tables of two or three of six attributes, of values, prefix sums, ranges or pairs."""
    rng, schema = np.random.default_rng(seed), nz.Schema.from_sizes(SIZES)
    queries = []
    for number in range(count):
        names = sorted(map(str, rng.choice(list(SIZES), rng.integers(2, 4), replace=False)))
        factors = {name: _factor(SIZES[name], int(rng.integers(4))) for name in names}
        queries.append(nz.Query(schema, factors, name=f"table {number}"))
    return nz.Workload(queries)


def _factor(size: int, kind: int) -> nz.Factor:
    pairs = nz.Levels(2, leaves=False, total=False) if size % 2 == 0 else nz.Identity()
    return (nz.Identity(), nz.Prefix(), nz.Ranges(), pairs)[kind]


def _timed(name: str, workload: nz.Workload, backend: str) -> None:
    """One line; wall seconds, transfers included."""
    _wait(backend)
    started = time.perf_counter()
    found = optimum_at_cost_one(workload, TOLERANCE, backend)
    _wait(backend)
    seconds = time.perf_counter() - started
    print(
        f"| {name} | {workload.schema.size:,} | {backend} | {found.value:.6g} | {found.gap:.1e} "
        f"| {found.steps} | {seconds:.2f} |",
        flush=True,
    )


def _wait(backend: str) -> None:
    if backend == "torch:cuda":
        import_module("torch").cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
