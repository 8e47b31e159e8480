"""A query as sums of the rows of one other: the same by least squares over all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.mechanisms import sums_of_one, workload_rows
from noiseplan.mechanisms.sums_of_one import sums_of
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise import Noise

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 4, "c": 2})
BANDS = nz.Custom([[1, 1, 0, 0], [0, 0, 1, 1]])
FACTORS: dict[str, Any] = {
    "values": nz.Identity(),
    "prefixes": nz.Prefix(),
    "total": nz.Total(),
    "differences": nz.Custom([[1, -1, 0], [0, 1, -1]]),
    "twice": nz.Custom([[2, 2, 2], [2, 2, 2]]),
    "uneven": nz.Custom([[1, 2, 3]]),
}


def by_cells(query: nz.Query, told: nz.Query) -> np.ndarray | None:
    """M of the least length with MP = Q over all cells; None where there is none, or the query is
    about other attributes."""
    if not {*query.attributes} <= {*told.attributes}:
        return None
    rows, basis = query.dense(), told.dense()
    sums = rows @ np.linalg.pinv(basis)
    return sums if np.allclose(sums @ basis, rows, atol=1e-9) else None


def assert_same(query: nz.Query, told: nz.Query) -> None:
    found, truth = sums_of(query, told), by_cells(query, told)
    assert (found is None) == (truth is None), (query.name, told.name)
    if found is not None and truth is not None:
        np.testing.assert_allclose(found.toarray(), truth, atol=1e-12)


@pytest.mark.parametrize("told", FACTORS)
@pytest.mark.parametrize("asked", FACTORS)
def test_sums_are_those_of_least_squares(asked: str, told: str) -> None:
    """Along one attribute, beside another that is asked for, summed over, or not told."""
    one, two = FACTORS[asked], FACTORS[told]
    assert_same(nz.Query(SCHEMA, {"a": one}), nz.Query(SCHEMA, {"a": two}))
    assert_same(nz.Query(SCHEMA, {"a": one}), nz.Query(SCHEMA, {"a": two, "b": BANDS}))
    beside = nz.Query(SCHEMA, {"a": two, "b": nz.Identity()})
    assert_same(nz.Query(SCHEMA, {"a": one, "b": BANDS}), beside)
    assert_same(nz.Query(SCHEMA, {"b": BANDS}), beside)


def test_what_one_query_does_not_name_it_does_not_tell() -> None:
    told = nz.Query(SCHEMA, ["a", "b"])
    assert sums_of(nz.Query(SCHEMA, ["a", "c"]), told) is None
    assert_same(nz.Query(SCHEMA, []), told)
    # Matrices over several attributes have no factors to go by.
    joint = nz.Query(SCHEMA, ["a", "b"], matrix=np.eye(12), name="joint")
    assert sums_of(joint, told) is None and sums_of(told, joint) is None


@pytest.mark.parametrize("small", [1.0, 1e-6, 1e-9, 1e-12])
def test_a_small_row_beside_a_large_one_is_told_by_itself(small: float) -> None:
    """Nothing of it is taken for rounding of the other."""
    told = nz.Query(SCHEMA, {"a": nz.Prefix()})
    rows = np.array([[1.0, 1.0, 1.0], [0.0, small, 0.0]])
    found = sums_of(nz.Query(SCHEMA, {"a": nz.Custom(rows)}), told)
    assert found is not None
    np.testing.assert_allclose(found.toarray()[1] / small, [-1.0, 1.0, 0.0], atol=1e-12)
    missing = nz.Query(SCHEMA, {"a": FACTORS["differences"]})
    rows = np.array([[1.0, -1.0, 0.0], [0.0, small, 0.0]])
    assert sums_of(nz.Query(SCHEMA, {"a": nz.Custom(rows)}), missing) is None


def test_too_many_numbers_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    query, told = nz.Query(SCHEMA, {"a": nz.Identity()}), nz.Query(SCHEMA, ["a", "b"])
    monkeypatch.setattr(sums_of_one, "MOST_NUMBERS", 12)
    assert sums_of(query, told) is not None
    monkeypatch.setattr(sums_of_one, "MOST_NUMBERS", 11)
    assert sums_of(query, told) is None
    monkeypatch.undo()
    # Of b, which is summed over, there are four rows and one more, over four values.
    monkeypatch.setattr(sums_of_one, "MOST_ENTRIES", 20)
    assert sums_of(query, told) is not None
    monkeypatch.setattr(sums_of_one, "MOST_ENTRIES", 19)
    assert sums_of(query, told) is None


# ---------------------------------------------------------------------- the mechanism


@examples(40)
@given(st.data())
def test_the_query_with_the_least_noise_tells(data: st.DataObject) -> None:
    """Of all queries that tell it by themselves, each with noise of its own."""
    names = data.draw(st.lists(st.sampled_from(sorted(FACTORS)), min_size=2, max_size=4))
    factors = [FACTORS[name] for name in dict.fromkeys([*names, "total"])]
    queries = [nz.Query(SCHEMA, {"a": each, "b": nz.Identity()}) for each in factors]
    workload = nz.Workload(queries)
    sizes = np.random.default_rng(data.draw(st.integers(0, 99))).uniform(1, 9, workload.rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workload_rows, "MOST_ROWS", 1)  # nothing is fitted
        mechanism = WorkloadRowsMechanism(SCHEMA, workload, None, Noise("gaussian", sizes))
        asked = nz.Query(SCHEMA, {"a": FACTORS[data.draw(st.sampled_from(sorted(FACTORS)))]})
        ends = np.cumsum(workload.sizes)
        best = None
        for query, end in zip(queries, ends, strict=True):
            sums = by_cells(asked, query)
            own = sizes[end - query.rows : end]
            if sums is not None:
                each = (sums**2) @ own
                best = each if best is None or each.sum() < best.sum() else best
        assert mechanism.determines(asked) == (best is not None)
        if best is not None:
            np.testing.assert_allclose(mechanism.variance(asked), best, rtol=1e-9)
