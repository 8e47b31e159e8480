"""How much slower than an idle core this machine is just now, for limits in processor time.

Processor time grows too where a core is slow, or its caches and its other half are busy. A promise
of so many seconds is one for an idle core on which this loop takes a fifth of a second; elsewhere
the limit is that many times longer.
"""

from __future__ import annotations

import time

IDLE = 0.2


def slowness() -> float:
    """At least one."""
    return max(1.0, min(_loop() for _ in range(3)) / IDLE)


def _loop() -> float:
    started, total = time.process_time(), 0
    for number in range(3_000_000):
        total += number % 7
    return time.process_time() - started
