"""The process that plans: it waits for orders on its input, and tells on its output how far it is.

It imports all that planning needs before the first order comes, so that nobody waits for that, and
it ends when its input does: a server that was killed leaves no process behind. Orders and reports
are lines of JSON; whatever else is printed goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any, TextIO

SMALL = """
[schema]
a = { ordinal = { from = 0, to = 3 } }
b = { categorical = ["x", "y"] }
[[tables]]
query = "a=prefix, b"
[[tables]]
up_to = 2
[budget]
zcdp = 0.5
"""
Tell = Callable[[dict[str, Any]], None]


def main() -> None:
    """Serve orders until there are no more."""
    output = _own_output()
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    lock = threading.Lock()

    def tell(report: dict[str, Any]) -> None:
        with lock:
            output.write(json.dumps(report, allow_nan=False, default=str) + "\n")
            output.flush()

    _prepare()
    tell({"ready": True})
    while True:
        serve(orders.get(), tell)


def _own_output() -> TextIO:
    """Where reports go; what others print on the standard output is not taken for one."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return own


def _listen(orders: SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)  # nobody listens any more, whatever is being planned


def _prepare() -> None:
    """Plan something small: what planning needs is imported then, and the first order is quick."""
    from noiseplan.studio import planned
    from noiseplan.studio.public_files import Desk

    planned.effects(Desk(Path()).study(SMALL), lambda _: None)


def serve(order: dict[str, Any], tell: Tell) -> None:
    """Do one thing that was asked for, and say how it ended."""
    from noiseplan.errors import NoiseplanError
    from noiseplan.studio.views import problem

    number = order["job"]

    def report(**what: Any) -> None:
        tell({"job": number, **what})

    try:
        with _heard(report):
            report(result=_done(order, report), state="done")
    except NoiseplanError as error:
        report(error=problem(error), state="failed")
    except MemoryError:
        report(error={"message": "this needs more memory than there is"}, state="failed")
    except Exception as error:
        said = f"planning failed unexpectedly ({type(error).__name__}: {error})"
        report(error={"message": said}, state="failed")


def _done(order: dict[str, Any], report: Callable[..., None]) -> Any:
    from noiseplan.planning.threads import calm_threads
    from noiseplan.studio import planned
    from noiseplan.studio.public_files import Desk

    desk = Desk(Path(order["folder"]), order["name"], frozenset(order["public"]))
    if order["kind"] == "report":
        return planned.planning_report(desk, order["designs"])
    study = desk.study(order["text"])
    with calm_threads(study.schema):
        if order["kind"] == "effects":
            return planned.effects(study, lambda found: report(result=found))
        return planned.plan_view(study, study.plan())


@contextmanager
def _heard(report: Callable[..., None]) -> Iterator[None]:
    """Progress inside the block is told, a few times a second."""
    from noiseplan.progress import listening

    last = 0.0

    def hear(title: str, fraction: float | None) -> None:
        nonlocal last
        if monotonic() - last > 0.1:
            last = monotonic()
            report(progress={"message": title, "fraction": fraction})

    with listening(hear):
        yield


if __name__ == "__main__":
    main()
