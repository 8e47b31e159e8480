"""`python -m benchmarks.local_gpu [types ...]`: one step of a local descent on an accelerator.

The planner's own code on PyTorch tensors: a random strategy of 4n outputs over n = 4,096 types (or
the numbers given), in double and in single precision. Published: 139 seconds per iteration at
n = 4,096 on an unnamed machine (McKenna et al. 2020, Figure 3c). Says so and stops where PyTorch or
a GPU is missing.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from noiseplan.local.search.descent import Descent, random_start

TYPES: Final = (1024, 2048, 4096)
PUBLISHED: Final = {1024: 2.5, 2048: 19.0, 4096: 139.0}
OUTPUTS_PER_TYPE: Final = 4
STEPS: Final = 10


def main(arguments: list[str]) -> int:
    """Print one line per size and precision; 1 if there is nothing to run on."""
    missing = [name for name in ("torch", "array_api_compat") if find_spec(name) is None]
    if missing:
        print(
            f"{missing[0]} is not installed: pip install 'noiseplan[gpu]' on a machine with a GPU."
        )
        return 1
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        print("PyTorch is here, but no GPU: nothing was measured.")
        return 1
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}")
    print("| types | precision | value falls | seconds per iteration | published | times as fast |")
    print("| ---: | :--- | :--- | ---: | ---: | ---: |")
    for types in [int(word) for word in arguments] or list(TYPES):
        for name in ("float64", "float32"):
            seconds, fell = _measured(torch, types, getattr(torch, name))
            published = PUBLISHED.get(types)
            ratio = "–" if published is None else f"{published / seconds:,.0f}"
            shown = "–" if published is None else f"{published:g}"
            print(
                f"| {types:,} | {name} | {fell} | {seconds:.4f} | {shown} | {ratio} |", flush=True
            )
    return 0


def _measured(torch: Any, types: int, precision: Any) -> tuple[float, str]:
    """Wall seconds of one step (gradients, bounds, projection), after steps that warm up."""
    device = torch.device("cuda")

    def moved(array: Any) -> Any:
        return torch.as_tensor(np.asarray(array), dtype=precision, device=device)

    strategy, lower = random_start(OUTPUTS_PER_TYPE * types, types, 1.0, np.random.default_rng(0))
    problem = Descent.of(moved(np.eye(types)), moved(np.full(types, 1 / types)), 1.0)
    here = problem.at(moved(strategy), moved(lower))
    first, length = here.slope.value, _cautious(here)
    for _ in range(3):
        here = problem.step(here, length) or here
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(STEPS):
        here = problem.step(here, length) or here
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - started) / STEPS
    return seconds, f"{first:.5g} → {here.slope.value:.5g}"


def _cautious(here: Any) -> float:
    """A length that moves entries by a hundredth of their size."""
    sizes = [float((array**2).sum()) ** 0.5 for array in (here.strategy, here.slope.gradient)]
    return 0.01 * sizes[0] / sizes[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
