"""One marginal through the code: declared, planned, released, saved, loaded, asked again.

Every call that a user makes is a station. What it crosses is noted as it happens: every call of a
function of the package, in order; class bodies, comprehensions and whatever runs because a module
is loaded left out. The walk runs in a process of its own, where nothing is cached, with a seed, so
that rare draws of noise do not change what is crossed.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pandas as pd

import noiseplan as nz
from benchmarks.timing import in_own_process

PACKAGE = str(Path(nz.__file__).parent) + "/"
# By station, in order: every call, as `room.module:Class.function`.
Walk = dict[str, list[str]]


def walked(max_rows: int = 1) -> Walk:
    """The walk, for people with one record or with several."""
    found: Walk = in_own_process("benchmarks.walk", "walk", max_rows)
    return found


def functions(walk: Walk) -> set[str]:
    """All functions crossed."""
    return set().union(*walk.values())


def modules(walk: Walk) -> set[str]:
    """All modules they are in."""
    return {name.partition(":")[0] for name in functions(walk)}


def walk(max_rows: int) -> Walk:
    """Take it, and note what is crossed."""
    found: Walk = {}
    people = ["a", "b", "c", "d"]
    table = {"age": [0, 3, 3, 9], "sex": ["F", "M", "M", "F"], "region": ["n", "s", "s", "s"]}
    records = pd.DataFrame({**table, "id": people})
    person = {"person": "id"} if max_rows > 1 else {}

    def step(station: str, call: Callable[[], Any]) -> Any:
        with noted(found.setdefault(station, [])):
            return call()

    def declare() -> nz.Schema:
        age, sex = nz.Ordinal(range(10)), nz.Categorical(["F", "M"])
        return nz.Schema({"age": age, "sex": sex, "region": nz.Categorical(["n", "s", "w"])})

    def ask() -> nz.Plan:
        return nz.plan(workload, budget=nz.zCDP(0.5), max_rows=max_rows)

    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # what others left behind elsewhere is not looked at
        out = f"{folder}/out"
        schema = step("Schema", declare)
        workload = step("Workload.marginals", lambda: nz.Workload.marginals(schema, k=2))
        plan = step("plan", ask)
        release = step("release", partial(plan.release, records, seed=0, **person))
        step("table", lambda: release.table("age", "sex"))
        step("save", lambda: release.save(out))
        again = step("load", lambda: nz.load(out))
        step("answer", lambda: again.answer(nz.Query(schema, ["age"])))
    return found


@contextmanager
def noted(crossed: list[str]) -> Iterator[None]:
    """Note every call of a function of the package."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _counts(frame.f_code) and not _loading(frame):
            crossed.append(name_of(frame.f_code))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _counts(code: CodeType) -> bool:
    ours = code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
    return ours and bool(code.co_flags & inspect.CO_OPTIMIZED)  # which bodies of classes have not


def _loading(frame: FrameType | None) -> bool:
    """Whether this runs because a module of the package is being loaded."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def name_of(code: CodeType) -> str:
    """`room.module:Class.function`."""
    path = Path(code.co_filename.removeprefix(PACKAGE)).with_suffix("")
    return f"{'.'.join(path.parts)}:{code.co_qualname}"
