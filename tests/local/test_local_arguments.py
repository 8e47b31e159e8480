"""What is not understood is refused by name; hostile streams cost no more than their length."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_oracles import one

import noiseplan as nz
from noiseplan.errors import (
    BudgetError,
    DataError,
    NoiseplanError,
    PlanError,
    QueryError,
    StorageError,
)
from noiseplan.local.device.wire import to_packet
from noiseplan.local.server.packets import packets_of
from noiseplan.storage.files import read_arrays, write_arrays

QUERY = nz.Query(nz.Schema.from_sizes({"v": 4}), ["v"])


@pytest.fixture(scope="module")
def plan() -> nz.local.LocalPlan:
    return nz.local.plan(QUERY, 1.0, mechanism="hadamard")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "matrix l1", "foo": 1}, r"'matrix l1' has no use for \['foo'\]"),
        ({"mechanism": "matrix l2", "foo": 1}, r"no use for \['foo'\]"),
        ({"mechanism": "matrix l1", "delta": 0.5}, r"no use for \['delta'\]"),
        ({"mechanism": "matrix l1", "prior": [1, 1, 1, 1]}, r"no use for \['prior'\]"),
        ({"mechanism": "split", "foo": 1}, r"'split' has no use for \['foo'\]"),
        ({"mechanism": "split", "prior": [1, 1, 1, 1]}, r"no use for \['prior'\]"),
        ({"mechanism": "split", "objective": "average"}, r"no use for \['objective'\]"),
        ({"mechanism": "split", "cells": 0}, "cells is how large"),
        ({"mechanism": "fourier", "order": -1}, "order is an integer of at least 0"),
        ({"mechanism": "fourier", "order": 1.5}, "order is an integer of at least 0"),
        ({"mechanism": "fourier", "order": 0}, "mechanism 'fourier' cannot answer"),
        ({"backend": "abacus"}, "backend is 'numpy'"),
        ({"backend": None}, "backend is 'numpy'"),
        ({"prior": "x"}, "prior is an array of shares"),
        ({"prior": [1, np.nan, 1, 1]}, "prior"),
    ],
)
def test_options_are_used_or_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        nz.local.plan(QUERY, 1.0, **options)


def test_local_plans_have_no_budget() -> None:
    with pytest.raises(BudgetError, match="take epsilon="):
        nz.local.plan(QUERY, budget=nz.PureDP(1.0))
    with pytest.raises(BudgetError, match="how private"):
        nz.local.plan(QUERY)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    device = nz.local.plan(QUERY, 1.0, mechanism="randomized response").randomizer()
    with pytest.raises(nz.NoiseplanError, match=r"nowhere.*cannot be written"):
        device.save(tmp_path / "nowhere" / "a.randomizer")


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "no useful bound"), (1e-4, "no useful bound"), (0.4, "2.5 times the lower bound")],
)
def test_weak_bounds_are_not_printed_as_percentages(
    plan: nz.local.LocalPlan, share: float, said: str
) -> None:
    printed = str(replace(plan, lower_bound=share * plan.value))
    assert said in printed
    assert "e+0" not in printed


def test_large_domains_refuse_what_splits_do_not_use() -> None:
    schema = nz.Schema.from_sizes({"a": 30, "b": 20, "c": 10})
    workload = nz.Workload([nz.Query(schema, [name]) for name in schema.names])
    for options in ({"prior": "x"}, {"objective": "average"}):
        with pytest.raises(PlanError, match="always split") as refused:
            nz.local.plan(workload, 1.0, **options)
        assert "another mechanism" not in str(refused.value)  # there is none for so many cells


def test_small_domains_have_other_mechanisms() -> None:
    for options in ({"mechanism": "split", "prior": "x"}, {"mechanism": "matrix l1", "cells": 3}):
        with pytest.raises(PlanError, match="choose another mechanism") as refused:
            nz.local.plan(one(4, nz.Identity()), 1.0, **options)
        assert "always split" not in str(refused.value)


@pytest.mark.parametrize("mechanism", ["matrix l1", "matrix l2"])
def test_noise_on_nothing_is_refused(mechanism: str) -> None:
    with pytest.raises(PlanError, match="nothing but their number"):
        nz.local.plan(nz.Query(QUERY.schema, []), 1.0, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["auto", "hadamard blocks", "hierarchical", "rappor"])
def test_the_number_of_users_needs_no_reports(mechanism: str) -> None:
    total = nz.Query(QUERY.schema, [])
    made = nz.local.plan(total, 1.0, mechanism=mechanism)
    assert made.worst_variance == 0.0
    assert made.epsilon_met == 0.0
    assert made.simulate([1, 2, 3, 4], seed=0).answer(total).estimate.tolist() == [10.0]


@pytest.mark.parametrize("mechanism", ["auto", "split", "matrix l1"])
def test_weights_beyond_all_measure_are_refused(mechanism: str) -> None:
    heavy = nz.Query(QUERY.schema, {"v": nz.Prefix()}, weight=1e300)
    with pytest.raises(PlanError, match="divide the weights"):
        nz.local.plan(heavy, 1.0, mechanism=mechanism)


def test_a_domain_of_one_value() -> None:
    made = nz.local.plan(one(1, nz.Identity()), 1.0)
    assert made.worst_variance == 0.0


def test_figures_are_asked_for_numbers(plan: nz.local.LocalPlan) -> None:
    for counts in ([-1, 1, 1, 1], [np.nan, 1, 1, 1], [np.inf, 1, 1, 1], "many"):
        with pytest.raises(PlanError, match="finite and at least 0"):
            plan.variance(QUERY, counts)
        with pytest.raises(PlanError, match="finite and at least 0"):
            plan.simulate(counts)
    for users in ("a", -3, float("nan"), float("inf"), True):
        with pytest.raises(PlanError, match="users is a number"):
            plan.variance(QUERY, users=users)
    for variance in ("a", float("nan"), -1.0, float("inf")):
        with pytest.raises(PlanError, match="positive"):
            plan.samples(variance)


def test_aggregators_say_what_they_take(plan: nz.local.LocalPlan, tmp_path: Path) -> None:
    made = plan.simulate([5] * 4, seed=3)
    with pytest.raises(QueryError, match="a query is a Query, or the name of one"):
        made.answer(5)
    assert made.answer(["v"]).estimate.tolist() == made.answer("v").estimate.tolist()
    with pytest.raises(QueryError, match="no query is called 'w'"):
        made.answer("w")
    with pytest.raises(QueryError, match="confidence level"):
        made.answer(QUERY, level=2)
    with pytest.raises(DataError, match="found int"):
        made.merge(5)
    with pytest.raises(NoiseplanError):
        made.answer(nz.Query(nz.Schema.from_sizes({"v": 7}), ["v"]))
    with pytest.raises(DataError, match="bytes"):
        made.add_packet("text")
    path = made.save(tmp_path / "kept")
    data = path.read_bytes()
    for place in range(60):  # the head of the first member, bit by bit
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            try:
                found = nz.local.load_aggregator(path)
            except NoiseplanError as error:
                assert "pickle" not in str(error)
            else:  # a time of day, say, which means nothing
                assert found.tally.tolist() == made.tally.tolist()
                assert found.users == made.users
    randomizer = plan.randomizer().save(tmp_path / "device")
    with pytest.raises(StorageError, match="load_randomizer"):
        nz.local.load_aggregator(randomizer)


def test_a_change_that_makes_sense_is_found_too(plan: nz.local.LocalPlan, tmp_path: Path) -> None:
    path = plan.simulate([5] * 4, seed=3).save(tmp_path / "kept")
    arrays = read_arrays(path)
    write_arrays(path, arrays)
    assert nz.local.load_aggregator(path).users == 20
    write_arrays(path, arrays | {"tally": arrays["tally"] + 1})
    with pytest.raises(StorageError, match="hash"):
        nz.local.load_aggregator(path)


def test_shards_add_up_by_sum(plan: nz.local.LocalPlan) -> None:
    shards = [plan.simulate([k] * 4, seed=k) for k in (1, 2, 3)]
    assert sum(shards).users == 24
    with pytest.raises(DataError, match="found int"):
        shards[0] + 1
    with pytest.raises(DataError, match="found int"):
        1 + shards[0]


def test_one_bad_report_does_not_stop_the_others(plan: nz.local.LocalPlan) -> None:
    good = plan.randomizer().report(1)
    made = plan.aggregator()
    assert made.add_many([good, 5, good, None, "text", bytearray(good)]) == 3
    assert made.users == 3
    assert made.rejected == {"malformed": 3}
    for single in (good, bytearray(good), memoryview(good), "text", 5):
        with pytest.raises(DataError, match="add"):
            made.add_many(single)
    assert made.users == 3


def test_simulated_answers_say_so(plan: nz.local.LocalPlan) -> None:
    made = plan.simulate([5] * 4, seed=3)
    assert "simulated from seed 3" in repr(made)
    assert "simulated from seed 3" in str(made.answer(QUERY))
    both = plan.aggregator() + made
    assert "simulated from seed 3" in str(both.answer(QUERY))
    real = plan.aggregator()
    real.add(plan.randomizer().report(1))
    assert "simulated" not in repr(real) + str(real.answer(QUERY))


class Counted(io.BytesIO):
    """A stream that counts what is read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.taken += len(piece)
        return piece


def test_headers_that_promise_much_cost_no_more_than_their_length() -> None:
    for digest, count in ((bytes(32), (1 << 30) - 1), (b"\x01" * 32, 1000), (bytes(32), 10**12)):
        head = struct.pack("<4sB32sHQI", b"NZRP", 1, digest, 1, count, 0)
        stream = Counted(head * 2000)
        found = list(packets_of(stream, bytes(32), 1))
        assert all(packet.payloads is None for packet in found)
        assert sum(packet.count for packet in found) <= len(head) * 2000
        assert stream.taken <= 5 * len(head) * 2000
    good = to_packet(np.zeros((3, 1), np.uint8), bytes(32))
    last = list(packets_of(io.BytesIO(head * 10 + good), bytes(32), 1))[-1]
    assert last.payloads is not None
