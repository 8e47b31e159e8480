"""Plans on disk: made once, shared by devices and servers, with the same figures and reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from local_oracles import one

import noiseplan as nz
from noiseplan.errors import DataError, QueryError, StorageError
from noiseplan.noise import SeededSource
from noiseplan.storage.files import canonical, hash_of, read_arrays, write_arrays

PAIR = nz.Schema.from_sizes({"a": 4, "b": 3})
PLANS = {
    "table": (one(5, nz.Prefix()), {}),
    "shifts": (one(7, nz.Identity()), {}),
    "subsets": (one(6, nz.Identity()), {"mechanism": "subset selection", "size": 2}),
    "prior": (one(3, nz.Prefix()), {"prior": [0.6, 0.3, 0.1]}),
    "sums": (one(4, nz.Prefix()), {"mechanism": "matrix l1"}),
    "split": (nz.Workload.marginals(PAIR, k=1), {"mechanism": "split", "cells": 4}),
}


@pytest.fixture(scope="module", params=PLANS)
def plan(request: pytest.FixtureRequest) -> nz.local.LocalPlan:
    workload, how = PLANS[request.param]
    return nz.local.plan(workload, 1.3, **how)


def test_names_in_any_form_are_found() -> None:
    schema = nz.Schema.from_sizes({"os": 2, "version": 3})
    plan = nz.local.plan(nz.Query(schema, ["os", "version"]), 1.0)
    aggregator = plan.simulate(np.full(6, 50.0), seed=1)
    exact = aggregator.answer(nz.Query(schema, ["os", "version"])).estimate
    for name in ("os × version", "os, version", "version, os", ["version", "os"]):
        np.testing.assert_array_equal(aggregator.answer(name).estimate, exact)
    assert aggregator.variance("version, os").shape == (6,)


def test_a_loaded_plan_is_the_same_plan(plan: nz.local.LocalPlan, tmp_path: Path) -> None:
    again = nz.local.load_plan(plan.save(tmp_path / "plan"))
    assert again.randomizer().to_bytes() == plan.randomizer().to_bytes()
    # Only the integers are kept, so that figures are theirs: equal but for their last digits.
    for figure in ("worst_variance", "average_variance", "lower_bound", "epsilon_met", "value"):
        assert getattr(again, figure) == pytest.approx(getattr(plan, figure), rel=1e-12)
    for query in plan.workload:
        named = again.variance(query.name, users=10.0)
        assert named == pytest.approx(plan.variance(query, users=10.0), rel=1e-9, abs=1e-9)
    assert str(again).splitlines()[:4] == str(plan).splitlines()[:4]
    assert again.save(tmp_path / "again").read_bytes() == (tmp_path / "plan").read_bytes()


def test_a_server_elsewhere_answers_by_name(plan: nz.local.LocalPlan, tmp_path: Path) -> None:
    """The device has the randomizer's file, the server the plan's, and neither plans."""
    elsewhere = nz.local.load_plan(plan.save(tmp_path / "plan"))
    device = nz.local.load_randomizer(plan.randomizer().save(tmp_path / "device"))
    rng = np.random.default_rng(0)
    people = {name: rng.integers(0, device.schema[name].size, 400) for name in device.schema.names}
    packet = device.packet(device.reports(people, source=SeededSource(3)))
    server = elsewhere.aggregator()
    assert server.add_packet(packet) == 400
    kept = nz.local.load_aggregator(server.save(tmp_path / "server"))
    own = plan.aggregator()
    own.add_packet(packet)
    for query in plan.workload:
        found, expected = kept.answer(query.name), own.answer(query)
        assert found.estimate == pytest.approx(expected.estimate, rel=1e-9, abs=1e-6)
        assert found.std_error == pytest.approx(expected.std_error, rel=1e-9, abs=1e-6)
        assert kept.variance(query.name) == pytest.approx(found.std_error**2)
        assert kept.consistent().answer(query.name) == pytest.approx(
            own.consistent().answer(query), rel=1e-6, abs=1e-3
        )
    assert kept.schema == plan.workload.schema
    assert kept.workload is not None
    with pytest.raises(QueryError, match="no query is called 'c'"):
        kept.answer("c")
    with pytest.raises(QueryError, match="of its workload by name"):
        replace(kept, workload=None).answer("a")


def test_who_accepted_nothing_does_not_answer() -> None:
    query = one(4, nz.Prefix()).query(0)
    mine = nz.local.plan(query, 1.0, mechanism="randomized response")
    other = nz.local.plan(query, 1.0, mechanism="hadamard").randomizer()
    server = mine.aggregator()
    calls = {
        "answer": lambda: server.answer(query),
        "variance": lambda: server.variance(query),
        "covariance": lambda: server.covariance(query, query),
        "consistent": server.consistent,
    }
    for call in calls.values():
        with pytest.raises(DataError, match="no report was added yet"):
            call()
    server.add_packet(other.packet(other.reports([0, 1, 2, 3])))
    server.add(b"")
    for call in calls.values():
        with pytest.raises(DataError, match=r"rejected \(4 foreign, 1 malformed\).*save the plan"):
            call()
    server.add(mine.randomizer().report(1))
    assert server.answer(query).estimate[-1] == 1.0


def test_files_of_plans_are_checked(tmp_path: Path) -> None:
    plan = nz.local.plan(one(4, nz.Prefix()), 1.0, mechanism="randomized response")
    path = plan.save(tmp_path / "plan")
    with pytest.raises(StorageError, match="not 'noiseplan local aggregator 2'"):
        nz.local.load_aggregator(path)
    with pytest.raises(StorageError, match="not 'noiseplan local plan 1'"):
        nz.local.load_plan(plan.aggregator().save(tmp_path / "aggregator"))
    with pytest.raises(StorageError, match="load_randomizer"):
        nz.local.load_plan(plan.randomizer().save(tmp_path / "device"))
    with pytest.raises(StorageError, match="cannot be read"):
        nz.local.load_plan(tmp_path / "nothing")
    with pytest.raises(StorageError, match="cannot be written"):
        plan.save(tmp_path / "no folder" / "plan")
    for name, array, said in [
        ("mean_0", np.full(4, 0.3), "shares"),
        ("gram_0", np.full((4, 4), np.nan), "moderate"),
        ("workload_query_attributes", np.full((1, 1), 7), "query_attributes"),
    ]:
        arrays = read_arrays(path)
        del arrays["sha256"]
        arrays[name] = array
        (tmp_path / "changed").unlink(missing_ok=True)
        write_arrays(tmp_path / "changed", arrays)
        with pytest.raises(StorageError, match="hash does not fit"):
            nz.local.load_plan(tmp_path / "changed")
        arrays["sha256"] = np.frombuffer(bytes.fromhex(hash_of({}, arrays)), np.uint8)
        write_arrays(tmp_path / "changed", arrays)
        with pytest.raises(StorageError, match=said):
            nz.local.load_plan(tmp_path / "changed")


@pytest.mark.parametrize("whose", ["plan", "table"])
def test_a_file_that_states_less_than_its_devices_cost_is_refused(
    plan: nz.local.LocalPlan, whose: str, tmp_path: Path
) -> None:
    arrays = read_arrays(plan.save(tmp_path / "plan"))
    del arrays["sha256"]
    facts = json.loads(arrays["facts"].tobytes())
    (facts if whose == "plan" else facts["tables"][0])["epsilon"] = 0.1
    arrays["facts"] = np.frombuffer(canonical(facts).encode(), np.uint8)
    arrays["sha256"] = np.frombuffer(bytes.fromhex(hash_of({}, arrays)), np.uint8)
    write_arrays(tmp_path / "changed", arrays)
    with pytest.raises(StorageError, match="and its devices have more"):
        nz.local.load_plan(tmp_path / "changed")


def test_the_number_of_threads_makes_no_other_plan() -> None:
    """As far as one processor goes: beyond it, files are shared."""
    code = (
        "import noiseplan as nz\n"
        "s = nz.Schema.from_sizes({'a': 20, 'b': 30})\n"
        "w = nz.Workload([nz.Query(s, {'a': nz.Prefix()}), nz.Query(s, ['b'])])\n"
        "p = nz.local.plan(w, 1.0, mechanism='split', cells=30, effort=0.1)\n"
        "print(p.randomizer().hash)\n"
    )
    hashes = set()
    for threads in ("1", "2"):
        given = os.environ | {"OPENBLAS_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True
        )
        hashes.add(run.stdout)
    assert len(hashes) == 1
