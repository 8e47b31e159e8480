"""No array that a plan measures by can be changed in place, and measured at the old price."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from mechanism_examples import probe_of
from probes import Probe

import noiseplan as nz
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise import Noise
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

ELSEWHERE = (
    Workload,
    Query,
    Schema,
)  # immutable by themselves: what is asked, not what is measured


def arrays(value: Any, path: str, seen: dict[int, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """All arrays that can be reached: fields, what is in tuples and dictionaries, and caches."""
    if id(value) in seen or isinstance(value, ELSEWHERE):
        return
    seen[id(value)] = value  # kept, so that its id is its own
    if isinstance(value, np.ndarray):
        yield path, value
        yield from arrays(value.base, f"{path}.base", seen)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from arrays(each, f"{path}[{key!r}]", seen)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from arrays(each, f"{path}[]", seen)
    elif sp.issparse(value):
        yield path, value.data
    elif type(value).__module__.startswith("noiseplan") and hasattr(value, "__dict__"):
        for name, each in vars(value).items():
            yield from arrays(each, f"{path}.{name}", seen)


def writeable(mechanism: Any) -> list[str]:
    every = arrays(mechanism, type(mechanism).__name__, {})
    return sorted({path for path, array in every if array.size and array.flags.writeable})


def test_no_array_of_a_mechanism_can_be_changed(probe: Probe, tmp_path: Path) -> None:
    """Also of what was worked out while planning, answering and measuring; and of loaded plans."""
    release = probe.plan.release(np.ones(probe.shape, np.int64), seed=1)
    for query in probe.plan.workload:
        release.answer(query)
    assert list(arrays(probe.mechanism, "", {}))
    assert not writeable(probe.mechanism)
    release.save(tmp_path / "out", tables=[])
    assert not writeable(nz.load(tmp_path / "out").plan.mechanism)


def test_what_was_changed_in_place_after_planning_is_refused() -> None:
    """As a page of the documentation looks at the rows: they were measured at the old price."""
    schema = nz.Schema.from_sizes({"age": 12, "sex": 8})
    workload = nz.Workload([nz.Query(schema, {"age": nz.Prefix(), "sex": nz.Identity()})])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="residual")
    own = plan.mechanism
    for copied in (own, deepcopy(own), pickle.loads(pickle.dumps(own))):
        rows = copied.basis("age").measure
        with pytest.raises(ValueError, match="read-only"):
            rows *= 100
        with pytest.raises(ValueError, match="read-only"):
            copied.noise.size[:] /= 100


@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.PureDP(1.0)])
@pytest.mark.parametrize("copied", [False, True])
def test_no_array_of_a_plan_that_looks_at_the_data_can_be_changed(
    budget: Any, copied: bool
) -> None:
    """Where cells lie along the line says how often each is counted."""
    schema = nz.Schema({"age": nz.Ordinal(range(64))})
    workload = nz.Workload([nz.Query(schema, {"age": nz.Ranges()})])
    plan = nz.plan(workload, budget=budget, planner="dawa")
    own = plan.mechanism
    plan.release(np.ones(64, np.int64), seed=1)
    own = pickle.loads(pickle.dumps(own)) if copied else own
    assert list(arrays(own, "", {}))
    assert not writeable(own)
    with pytest.raises(ValueError, match="read-only"):
        own.line.order[:] = 3


@pytest.mark.parametrize(
    "mechanism", ["auto", "randomized response", "subset selection", "matrix l1"]
)
def test_no_array_that_a_device_randomizes_by_can_be_changed(mechanism: str) -> None:
    """ε of a report is worked out once, and so is what is drawn from."""
    schema = nz.Schema.from_sizes({"age": 6})
    query = nz.Query(schema, {"age": nz.Prefix()})
    plan = nz.local.plan(query, epsilon=1.0, mechanism=mechanism)
    device = plan.randomizer()
    device.report(2)
    for each in (device, pickle.loads(pickle.dumps(device)), plan.reconstruction.parts[0].strategy):
        assert not writeable(each)


def test_queries_that_are_measured_cannot_be_put_in_another_order() -> None:
    """Each has noise of its own: in another order one with more of it than the others would be
    measured with theirs."""
    own = probe_of("own rows, Laplace, float").mechanism
    assert isinstance(own, WorkloadRowsMechanism)
    assert isinstance(own.queries, tuple)
    assert isinstance(own._factors, tuple)


def test_memory_that_is_no_array_is_somebody_elses() -> None:
    """An array that is read-only in memory which is not."""
    memory = bytearray(np.array([1.0, 2.0]).tobytes())
    sizes = np.frombuffer(memory)
    sizes.setflags(write=False)
    noise = Noise("gaussian", sizes)
    memory[:] = bytes(len(memory))
    assert noise.size.tolist() == [1.0, 2.0]


def test_arrays_of_others_are_copied_once() -> None:
    sizes = np.array([1.0, 2.0])
    noise = Noise("gaussian", sizes)
    sizes[:] = 0.01
    assert noise.size.tolist() == [1.0, 2.0]
    assert noise.floating().size is noise.size
