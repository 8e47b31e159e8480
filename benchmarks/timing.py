"""CPU seconds, and the peak memory of work done in a process of its own.

Times are CPU seconds (all threads of the process), the smallest of several runs: on a shared
machine the others only measure the neighbours.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parent.parent


def cpu_seconds(work: Callable[[], Result], repeats: int = 3) -> tuple[float, Result]:
    """The CPU seconds of the fastest run, and what the last run returned."""
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def peak_bytes() -> int:
    """The most memory this process has held so far.

    `ru_maxrss` outlives exec, so a child would report its parent's peak if that was higher; Linux's
    own high-water mark starts afresh.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def in_own_process(module: str, function: str, *arguments: object) -> Any:
    """Call `module.function(*arguments)` in a fresh interpreter; everything travels as JSON."""
    command = [sys.executable, "-m", "benchmarks.timing", module, function, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module}.{function}{arguments} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    """The other side of `in_own_process`."""
    module, function, arguments = sys.argv[1:]
    result = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
