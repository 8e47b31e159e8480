"""Devices: exact integers, their ε, the law of what is drawn, files, values that are refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from itertools import product
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_oracles import one, workload
from scipy.special import chdtrc

import noiseplan as nz
from depth import examples
from noiseplan.errors import PlanError
from noiseplan.local.device.integer_chances import (
    WHOLE,
    below,
    exp_down,
    high_chance,
    high_epsilon,
    log_up,
    nested_subsets,
    rounded_shares,
    rounded_table,
    settled,
    table_epsilon,
)
from noiseplan.local.device.memory import Memory
from noiseplan.local.device.randomizer_file import randomizer_from_bytes
from noiseplan.local.device.wire import ReportError
from noiseplan.local.strategies import classical
from noiseplan.noise import SeededSource

MECHANISMS = ["auto", "randomized response", "hadamard blocks", "subset selection", "rappor"]
# A right sampler misses such a limit once in ten million runs.
RARE = 1e-7


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """χ², cells with few expected draws put together."""
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    bins = np.minimum(np.cumsum(expected) // 10, np.cumsum(expected[::-1])[::-1] // 10 + 10**9)
    groups = np.unique(bins, return_inverse=True)[1]
    seen, due = np.bincount(groups, observed), np.bincount(groups, expected)
    kept = due > 5
    statistic = ((seen[kept] - due[kept]) ** 2 / due[kept]).sum()
    return float(chdtrc(max(kept.sum() - 1, 1), statistic))


# ------------------------------------------------------------------------------ integers


@examples(60)
@given(st.floats(1e-4, 30.0))
def test_exponentials_and_logarithms_are_rounded_to_the_safe_side(epsilon: float) -> None:
    low = exp_down(epsilon)
    assert abs(float(low) / math.exp(epsilon) - 1) < 1e-13
    assert log_up(low) <= epsilon
    above = low * (1 + Fraction(1, 10**12))
    assert exp_down(log_up(above)) >= above
    assert log_up(above) > epsilon - 1e-12


def test_exponentials_agree_with_many_digits() -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(90):
        for epsilon in (0.1, 0.5, 1.0, 3.7, 12.0):
            low = exp_down(epsilon)
            exact = mpmath.exp(mpmath.mpf(epsilon))
            value = mpmath.mpf(low.numerator) / low.denominator
            assert value <= exact
            assert exact - value < exact * mpmath.mpf(2) ** -190


@examples(40)
@given(st.integers(0, 10**9), st.floats(0.01, 6.0))
def test_rounded_tables_keep_their_promise(seed: int, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    lower = rng.dirichlet(np.ones(9) * 0.5)
    lower *= (1 + exp(-epsilon)) / 2
    from noiseplan.local.search.descent import project

    chances = project(rng.random((9, 6)), np.maximum(lower, 1e-9), exp(epsilon))
    table = rounded_table(chances, epsilon)
    assert all(sum(int(v) for v in column) == WHOLE for column in table.T)
    ratios = [
        Fraction(int(a), int(b)) for row in table for a, b in product(row, row)
    ]  # every pair of types, every output
    assert max(ratios) <= exp_down(epsilon)
    assert exp_down(table_epsilon(table)) >= max(ratios)
    assert table_epsilon(table) <= epsilon
    assert table / WHOLE == pytest.approx(chances, rel=1e-6, abs=1e-9)


def test_a_table_above_its_epsilon_is_seen() -> None:
    table = rounded_table(classical.randomized_response(4, 1.0), 1.0)
    broken = table.copy()
    broken[0, 0] += 2**30
    broken[1, 0] -= 2**30
    assert table_epsilon(table) <= 1.0 < table_epsilon(broken)
    broken[1, 0] = 0
    assert table_epsilon(broken) == math.inf


def test_columns_settle_only_inside_their_bounds() -> None:
    low, high = np.array([2, 3]), np.array([4, 9])
    assert settled(np.array([[2, 4], [3, 9]]), low, high, 10).sum(axis=0).tolist() == [10, 10]
    with pytest.raises(PlanError, match="add up to one"):
        settled(np.array([[2], [3]]), low, high, 20)


@examples(60)
@given(st.integers(2, 300), st.floats(0.01, 8.0), st.data())
def test_chances_of_shapes_keep_their_promise(n: int, epsilon: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n - 1))
    high = high_chance(k, n, epsilon)
    ratio = Fraction(high, k) / Fraction(WHOLE - high, n - k)
    assert 1 <= ratio <= exp_down(epsilon)
    assert high_epsilon(high, k, n) <= epsilon
    more = high + 1
    assert Fraction(more, k) / Fraction(WHOLE - more, n - k) > exp_down(epsilon)
    assert high / WHOLE == pytest.approx(k * exp(epsilon) / (k * exp(epsilon) + n - k))
    assert high_chance(0, n, epsilon) == 0
    assert high_chance(n, n, epsilon) == WHOLE


def test_shares_add_up() -> None:
    shares = rounded_shares(np.random.default_rng(0).dirichlet(np.ones(7)))
    assert int(shares.sum()) == WHOLE


# ------------------------------------------------------------------------------ draws


def test_integers_below_a_bound_are_uniform() -> None:
    for bound in (1, 2, 3, 7, 1000):
        drawn = below(SeededSource(bound), np.full(60_000, bound))
        assert drawn.min() >= 0
        assert drawn.max() < bound
        seen = np.bincount(drawn, minlength=bound)
        if bound > 1:
            assert p_value(seen, np.full(bound, 60_000 / bound)) > RARE


def test_words_beyond_the_last_whole_block_are_drawn_again() -> None:
    class Script(SeededSource):
        """First the largest word, then the smallest."""

        def words(self, count: int, bits: int) -> np.ndarray:
            value = 2**64 - 1 if not hasattr(self, "_asked") else 5
            object.__setattr__(self, "_asked", True)
            return np.full(count, value, dtype=np.uint64)

    assert below(Script(0), np.array([3])).tolist() == [5 % 3] or 2**64 % 3 == 0
    assert below(Script(0), np.array([10])).tolist() == [5]
    assert below(Script(0), np.array([2**32])).tolist() == [2**32 - 1]  # a whole block: kept


@pytest.mark.parametrize("size", range(7))
def test_subsets_are_uniform(size: int) -> None:
    both = nested_subsets(SeededSource(size), 5, np.full(50_000, size))
    for drawn, wanted in zip(both, (min(size, 5), max(min(size, 6) - 1, 0)), strict=True):
        assert (drawn.sum(axis=1) == wanted).all()
        codes = drawn @ (1 << np.arange(5))
        seen = np.unique(codes, return_counts=True)[1]
        count = math.comb(5, wanted)
        assert len(seen) == count
        if count > 1:
            assert p_value(seen, np.full(count, 50_000 / count)) > RARE


def test_rows_with_the_key_of_the_last_chosen_twice_are_drawn_again() -> None:
    class Script(SeededSource):
        """Rows of four keys: the last of two chosen has a double; then none has."""

        def words(self, count: int, bits: int) -> np.ndarray:
            asked = getattr(self, "_asked", 0)
            object.__setattr__(self, "_asked", asked + 1)
            rows = ([1, 5, 5, 9], [5, 5, 7, 9], [9, 3, 1, 7])
            return np.array(rows[asked], dtype=np.uint16)

    larger, smaller = nested_subsets(Script(0), 4, np.array([2]))
    assert larger.tolist() == [[False, True, True, False]]
    assert smaller.tolist() == [[False, False, True, False]]


def explicit_chances(plan: nz.local.LocalPlan) -> dict[bytes, np.ndarray]:
    """Payload → chance for each type, by enumerating the randomizer's integers."""
    randomizer = plan.randomizer()
    n = randomizer.types
    chances: dict[bytes, np.ndarray] = {}
    if randomizer.kind == "table":
        for o, row in enumerate(randomizer.table):
            chances[randomizer.pack(np.array([o])).tobytes()] = row / WHOLE
    elif randomizer.kind == "shifts":
        shape, sizes = randomizer.shape, randomizer.patterns.sum(axis=1)
        for r, pattern in enumerate(randomizer.patterns):
            k, share = int(sizes[r]), randomizer.shares[r] / WHOLE
            each = {True: randomizer.high[r] / WHOLE / max(k, 1)}
            each[False] = (1 - randomizer.high[r] / WHOLE) / max(n - k, 1)
            for s in range(n):
                shift = np.unravel_index(s, shape)
                row = np.empty(n)
                for u in range(n):
                    place = [
                        (a - b) % m
                        for a, b, m in zip(np.unravel_index(u, shape), shift, shape, strict=True)
                    ]
                    row[u] = share * each[bool(pattern[np.ravel_multi_index(place, shape)])]
                chances[randomizer.pack(np.array([r * n + s])).tobytes()] = row
    else:
        for bits in product((False, True), repeat=n):
            k = sum(bits)
            at = np.flatnonzero(randomizer.sizes == k)
            if not len(at):
                continue
            share, high = randomizer.shares[at[0]] / WHOLE, randomizer.high[at[0]] / WHOLE
            inside = high / math.comb(n - 1, k - 1) if k else 0.0
            outside = (1 - high) / math.comb(n - 1, k) if k < n else 0.0
            row = share * np.where(bits, inside, outside)
            chances[randomizer.pack(np.array([bits])).tobytes()] = row
    return chances


@pytest.mark.grid
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("factor", [nz.Identity(), nz.Prefix()], ids=["histogram", "prefix"])
def test_draws_follow_their_chances_for_every_type(mechanism: str, factor: nz.Factor) -> None:
    plan = nz.local.plan(one(5, factor), 1.0, mechanism=mechanism)
    randomizer = plan.randomizer()
    chances = explicit_chances(plan)
    table = np.array(list(chances.values()))
    assert table.sum(axis=0) == pytest.approx(np.ones(5))
    assert log(float((table.max(axis=1) / table.min(axis=1)).max())) <= 1.0 + 1e-9
    keys = {key: i for i, key in enumerate(chances)}
    for u in range(5):
        drawn = randomizer.pack(randomizer.draw(np.full(40_000, u), SeededSource(u)))
        seen = np.zeros(len(keys))
        for payload, count in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
            seen[keys[payload.tobytes()]] += count
        assert p_value(seen, 40_000 * table[:, u]) > RARE


def test_the_test_of_the_law_can_fail() -> None:
    plan = nz.local.plan(one(5, nz.Prefix()), 1.0, mechanism="randomized response")
    table = np.array(list(explicit_chances(plan).values()))
    other = nz.local.plan(one(5, nz.Prefix()), 1.1, mechanism="randomized response").randomizer()
    drawn = other.draw(np.full(40_000, 0), SeededSource(0))
    assert p_value(np.bincount(drawn, minlength=5).astype(float), 40_000 * table[:, 0]) < RARE


def test_users_of_several_types_at_once() -> None:
    for mechanism in MECHANISMS:
        plan = nz.local.plan(one(5, nz.Prefix()), 3.0, mechanism=mechanism)
        randomizer = plan.randomizer()
        types = np.repeat([3, 0, 3, 1], 5000)[np.random.default_rng(0).permutation(20_000)]
        drawn = randomizer.pack(randomizer.draw(types, SeededSource(4)))
        for u in (0, 1, 3):
            alone = randomizer.pack(randomizer.draw(np.full(5000, u), SeededSource(9)))
            mine = drawn[types == u]
            _, inverse = np.unique(np.vstack([mine, alone]), axis=0, return_inverse=True)
            first = np.bincount(inverse[: len(mine)], minlength=inverse.max() + 1)
            second = np.bincount(inverse[len(mine) :], minlength=inverse.max() + 1)
            pooled = (first + second) / len(inverse)
            assert p_value(first.astype(float), pooled * len(mine)) > RARE


def test_operating_system_randomness_differs_from_call_to_call() -> None:
    randomizer = nz.local.plan(one(5, nz.Prefix()), 1.0).randomizer()
    first, second = (randomizer.reports(np.zeros(200, dtype=int)) for _ in range(2))
    assert (first != second).any()


# ------------------------------------------------------------------------------ epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 5.0])
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "hadamard", "hierarchical", "fourier"])
def test_epsilon_met_is_at_most_the_one_asked_for(mechanism: str, epsilon: float) -> None:
    plan = nz.local.plan(workload("prefix", 8), epsilon, mechanism=mechanism)
    assert 0.98 * epsilon <= plan.epsilon_met <= epsilon


# ------------------------------------------------------------------------------ values and files


@pytest.fixture(scope="module")
def survey() -> nz.local.LocalPlan:
    schema = nz.Schema(
        {
            "age": nz.Binned([0, 20, 40, 60, 120]),
            "smokes": nz.Categorical(["no", "yes"], other="unknown"),
            "unused": nz.Ordinal(range(1000)),
        }
    )
    return nz.local.plan(nz.Workload([nz.Query(schema, ["age", "smokes"])]), 2.0)


def test_values_are_encoded_and_unknown_ones_refused(survey: nz.local.LocalPlan) -> None:
    randomizer = survey.randomizer()
    types = randomizer.types_of({"age": [5, 59.5, 120], "smokes": ["yes", "no", "maybe"]})
    assert types.tolist() == [0 * 3 + 1, 2 * 3 + 0, 3 * 3 + 2]
    assert len(randomizer.report({"age": 30, "smokes": "no"})) == randomizer.report_bytes
    with pytest.raises(ReportError, match=r"1 of 1 values of 'age' are not in its domain"):
        randomizer.report({"age": 300, "smokes": "no"})
    with pytest.raises(ReportError, match=r"no values of \['smokes'\]"):
        randomizer.report({"age": 30})
    with pytest.raises(ReportError, match="maps each of"):
        randomizer.report(30)
    with pytest.raises(ReportError, match="map each of"):
        randomizer.reports([30, 31])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_files_come_back_as_they_were(mechanism: str, tmp_path: Path) -> None:
    plan = nz.local.plan(one(9, nz.Prefix()), 1.0, mechanism=mechanism)
    randomizer = plan.randomizer()
    path = randomizer.save(tmp_path / "device.bin")
    back = nz.local.load_randomizer(path)
    assert back.hash == randomizer.hash
    assert back.epsilon == randomizer.epsilon
    assert back.report(3, source=SeededSource(1)) == randomizer.report(3, source=SeededSource(1))
    assert repr(back) == repr(randomizer)


def test_merged_cells_travel_with_the_file() -> None:
    schema = nz.Schema.from_sizes({"v": 6})
    plan = nz.local.plan(nz.Query(schema, ["v"], matrix=[[1, 1, 1, 0, 0, 0]]), 1.0)
    back = randomizer_from_bytes(plan.randomizer().to_bytes())
    assert back.types == 2
    assert back.types_of([0, 2, 3, 5]).tolist() == [0, 0, 1, 1]


def test_a_changed_bit_is_found() -> None:
    data = nz.local.plan(one(4, nz.Prefix()), 1.0).randomizer().to_bytes()
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(ReportError):
            randomizer_from_bytes(bytes(changed))
    with pytest.raises(ReportError, match="no randomizer"):
        randomizer_from_bytes(b"")
    with pytest.raises(ReportError):
        randomizer_from_bytes(data[:-1])


def test_tables_of_two_valued_rows_make_short_files() -> None:
    randomizer = nz.local.plan(workload("prefix", 12), 1.0).randomizer()
    outputs, types = randomizer.table.shape
    assert len(randomizer.to_bytes()) < outputs * (types / 8 + 16) + 1500 < 8 * outputs * types


def test_reports_are_as_short_as_can_be() -> None:
    randomizer = nz.local.plan(one(5, nz.Identity()), 1.0, mechanism="randomized response")
    assert randomizer.randomizer().payload_bytes == 1
    wide = nz.local.plan(one(300, nz.Identity()), 1.0, mechanism="randomized response")
    assert wide.randomizer().payload_bytes == 2
    subset = nz.local.plan(one(12, nz.Identity()), 1.0, mechanism="subset selection")
    assert subset.randomizer().payload_bytes == 2


@pytest.mark.parametrize("mechanism", ["auto", "matrix l2"])
def test_devices_load_no_planner_and_need_numpy_alone(mechanism: str, tmp_path: Path) -> None:
    plan = nz.local.plan(one(6, nz.Prefix()), 1.0, mechanism=mechanism)
    path = plan.randomizer().save(tmp_path / "device.bin")
    code = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        first = name.partition('.')[0]\n"
        "        if first not in {'numpy', 'noiseplan', *sys.stdlib_module_names}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "from noiseplan.local import Memory, load_randomizer\n"
        f"device = load_randomizer({str(path)!r})\n"
        "reports = device.reports([0, 5, 2])\n"
        f"Memory(device, {str(tmp_path / 'memory.json')!r}).report(3)\n"
        "rooms = ('planning.planner', 'local.local_planner', 'local.localplan')\n"
        "heavy = ('scipy', 'pandas', *(f'noiseplan.{room}' for room in rooms))\n"
        "print(len(reports), [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3 []"


# ------------------------------------------------------------------------------ repeated reports


def test_memory_repeats_its_reports(tmp_path: Path) -> None:
    randomizer = nz.local.plan(one(50, nz.Prefix()), 1.0, mechanism="hierarchical").randomizer()
    path = tmp_path / "memory.json"
    memory = Memory(randomizer, path)
    assert memory.spent == 0
    first = [memory.report(7) for _ in range(20)]
    assert len(set(first)) == 1
    assert memory.spent == randomizer.epsilon
    other = memory.report({"v": 8})
    assert memory.spent == 2 * randomizer.epsilon
    again = Memory(randomizer, path)  # the next run of the program
    assert again.report(7) == first[0]
    assert again.report(8) == other
    assert again.spent == 2 * randomizer.epsilon
    with pytest.raises(ReportError, match="not in its domain"):
        memory.report(50)


def test_memory_of_another_plan_is_refused(tmp_path: Path) -> None:
    first, second = (
        nz.local.plan(one(5, nz.Prefix()), e, mechanism="randomized response").randomizer()
        for e in (1.0, 2.0)
    )
    path = tmp_path / "memory.json"
    Memory(first, path).report(1)
    with pytest.raises(ReportError, match="another plan"):
        Memory(second, path)
    path.write_text("[]")
    with pytest.raises(ReportError, match="no remembered reports"):
        Memory(first, path)
    path.write_text(json.dumps({"plan": first.hash, "reports": {}}))
    assert Memory(first, path).spent == 0
    assert Memory(first).report(2)  # in memory only
