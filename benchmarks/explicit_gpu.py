"""`python -m benchmarks.explicit_gpu [cells ...]`: the exact optimum on an accelerator.

The planner's own text on PyTorch tensors: prefix sums and all ranges over 8,192 cells (or the
numbers given), to a certified gap of 1e-6. Says so and stops where PyTorch or a GPU is missing.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from noiseplan.matrices import Matrix, PrefixMatrix, RangesMatrix
from noiseplan.optimize.optimum import dense_optimum

CELLS: Final = (1024, 2048, 4096, 8192)
TOLERANCE: Final = 1e-6
WORKLOADS: Final[dict[str, type[PrefixMatrix] | type[RangesMatrix]]] = {
    "prefix": PrefixMatrix,
    "all ranges": RangesMatrix,
}


def main(arguments: list[str]) -> int:
    """Print one line per workload and size; 1 if there is nothing to run on."""
    if find_spec("torch") is None:
        print("No PyTorch here: install it (pip install torch) on a machine with a GPU.")
        return 1
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        print("PyTorch is here, but no GPU: nothing was measured.")
        return 1
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, double precision")
    print("| workload | cells | value | certified gap | steps | seconds |")
    print("| :--- | ---: | ---: | ---: | ---: | ---: |")
    device = torch.device("cuda")
    _planned(torch, device, PrefixMatrix(64))  # loads the libraries
    for size in [int(word) for word in arguments] or list(CELLS):
        for name, kind in WORKLOADS.items():
            best, seconds = _planned(torch, device, kind(size))
            print(
                f"| {name} | {size:,} | {best.value:.6g} | {best.gap:.1e} | {best.steps} "
                f"| {seconds:.2f} |",
                flush=True,
            )
    return 0


def _planned(torch: Any, device: Any, matrix: Matrix) -> tuple[Any, float]:
    """The optimum and the wall seconds it took, transfers included."""
    gram = np.asarray(matrix.gram())
    torch.cuda.synchronize()
    started = time.perf_counter()
    best = dense_optimum(torch.as_tensor(gram, device=device), TOLERANCE)
    torch.cuda.synchronize()
    return best, time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
