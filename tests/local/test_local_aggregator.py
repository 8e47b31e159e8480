"""The server: reports counted, refused, merged, kept; answers with their errors."""

from __future__ import annotations

import io
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_oracles import one, rappor_table, subset_table, workload
from scipy.optimize import nnls
from scipy.stats import binom

import noiseplan as nz
from depth import depth, examples
from noiseplan.errors import DataError, PlanError, QueryError, StorageError, UnanswerableError
from noiseplan.local.device.wire import bytes_for, packed, to_packet, unpacked
from noiseplan.local.server.consistency import fit_counts, nearest_counts
from noiseplan.local.server.packets import packets_of
from noiseplan.local.server.tails import poisson_reach
from noiseplan.local.strategies.shifts import ShiftStrategy
from noiseplan.noise import SeededSource
from noiseplan.noise.moments import half_width_factor

MECHANISMS = ["auto", "hadamard", "subset selection", "rappor", "matrix l1", "matrix l2"]
COUNTS = np.array([400, 150, 0, 50, 300, 100])


@pytest.fixture(scope="module", params=MECHANISMS)
def plan(request: pytest.FixtureRequest) -> nz.local.LocalPlan:
    return nz.local.plan(one(6, nz.Prefix()), 1.5, mechanism=request.param)


@pytest.fixture(scope="module")
def table() -> nz.local.LocalPlan:
    return nz.local.plan(one(6, nz.Prefix()), 1.5)


def reports_of(plan: nz.local.LocalPlan, users: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 6, users)
    return plan.randomizer().reports(values, source=SeededSource(seed))


# ------------------------------------------------------------------------------ collecting


def test_one_by_one_in_batches_and_from_packets_is_the_same(
    plan: nz.local.LocalPlan, tmp_path: Path
) -> None:
    randomizer, reports = plan.randomizer(), reports_of(plan, 500, 1)
    batch = plan.aggregator()
    assert batch.add_many(reports) == 500
    singly = plan.aggregator()
    payloads = randomizer.pack(reports)
    assert all(singly.add(randomizer.tag + payload.tobytes()) for payload in payloads)
    listed = plan.aggregator()
    assert listed.add_many(randomizer.tag + payload.tobytes() for payload in payloads) == 500
    path = tmp_path / "reports.bin"
    path.write_bytes(randomizer.packet(reports[:200]) + randomizer.packet(reports[200:]))
    filed = plan.aggregator()
    assert filed.read(path) == 500
    streamed = plan.aggregator()
    assert streamed.read(io.BytesIO(path.read_bytes())) == 500
    for other in (singly, listed, filed, streamed):
        assert (other.tally == batch.tally).all()
        assert other.users == 500
        assert not other.rejected


def test_bad_reports_are_left_out_and_good_ones_stay(plan: nz.local.LocalPlan) -> None:
    randomizer, reports = plan.randomizer(), reports_of(plan, 50, 2)
    good = randomizer.pack(reports)[0].tobytes()
    made = plan.aggregator()
    assert made.add(randomizer.tag + good)
    assert not made.add(b"")
    assert not made.add(randomizer.tag)
    assert not made.add(b"xxxx" + good)
    assert not made.add(randomizer.tag + good + b"\0")
    assert not made.add(randomizer.tag + good[:-1])
    assert made.add(randomizer.tag + good)
    assert made.users == 2
    assert made.rejected == Counter(malformed=4, foreign=1)
    assert "2 reports, 5 rejected" in repr(made)


def test_numbers_that_are_no_outputs_are_left_out(table: nz.local.LocalPlan) -> None:
    outputs = table.strategy.outputs
    made = table.aggregator()
    assert made.add_many(np.array([0, -1, outputs - 1, outputs, 2**40])) == 2
    assert made.rejected == Counter(malformed=3)
    assert made.tally[[0, -1]].tolist() == [1, 1]
    payload = bytes([outputs]) if outputs < 256 else outputs.to_bytes(2, "little")
    assert not made.add(table.randomizer().tag + payload)


def test_subsets_of_a_wrong_size_are_left_out() -> None:
    plan = nz.local.plan(one(6, nz.Identity()), 1.0, mechanism="subset selection", size=2)
    made = plan.aggregator()
    held = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]], dtype=bool)
    assert made.add_many(held) == 1
    stray = bytes([0b11000001])  # two types, and a bit beyond the last type
    assert not made.add(plan.randomizer().tag + stray)
    assert made.add(plan.randomizer().tag + bytes([0b11000000]))


def test_foreign_packets_are_left_out(table: nz.local.LocalPlan) -> None:
    other = nz.local.plan(one(6, nz.Prefix()), 1.0, mechanism="randomized response")
    mixed = (
        table.randomizer().packet(reports_of(table, 30, 1))
        + other.randomizer().packet(reports_of(other, 70, 1))
        + table.randomizer().packet(reports_of(table, 20, 2))
    )
    made = table.aggregator()
    assert made.add_packet(mixed) == 50
    assert made.rejected == Counter(foreign=70)


@examples(60)
@given(st.integers(0, 10**9))
def test_damage_never_costs_the_reports_of_other_packets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    digest = bytes(range(32))
    packets = [to_packet(rng.integers(0, 256, (20, 2), dtype=np.uint8), digest) for _ in range(3)]
    damaged = bytearray(packets[1])
    damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
    cut = bytes(damaged[: int(rng.integers(len(damaged) + 1))])
    found = list(packets_of(io.BytesIO(packets[0] + cut + packets[2]), digest, 2))
    whole = [p for p in found if p.payloads is not None and p.digest == digest]
    good = [p.payloads.tobytes() for p in whole]
    assert good[0] == packets[0][-40:]
    assert good[-1] == packets[2][-40:]
    assert len(found) <= 3 + 1


def test_streams_that_cannot_go_back(table: nz.local.LocalPlan) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise io.UnsupportedOperation("tell")

    reports = reports_of(table, 300, 2)
    packet = table.randomizer().packet
    made = table.aggregator()
    assert made.read(Pipe(packet(reports[:100]) + b"noise" + packet(reports[100:]))) == 300
    assert made.rejected == {"malformed": 1}


def test_rubbish_is_no_packet() -> None:
    assert [p.payloads for p in packets_of(io.BytesIO(b""), bytes(32), 1)] == []
    assert [p.payloads for p in packets_of(io.BytesIO(b"hello" * 100), bytes(32), 1)] == [None]
    huge = to_packet(np.zeros((1, 1), np.uint8), bytes(32))
    lying = bytearray(huge)
    lying[39:47] = (2**62).to_bytes(8, "little")  # claims more reports than any file holds
    assert [p.payloads for p in packets_of(io.BytesIO(bytes(lying)), bytes(32), 1)] == [None]


@given(st.lists(st.integers(0, 2**40), min_size=1), st.integers(6, 8))
def test_numbers_travel_as_bytes(numbers: list[int], width: int) -> None:
    assert unpacked(packed(np.array(numbers), width)).tolist() == numbers
    assert bytes_for(max(numbers) + 1) <= 6


def test_merging_is_associative_and_commutative(plan: nz.local.LocalPlan) -> None:
    shards = []
    for seed in range(3):
        shard = plan.aggregator()
        shard.add_many(reports_of(plan, 100 + seed, seed))
        shard.add(b"rubbish")
        shards.append(shard)
    whole = plan.aggregator()
    for seed in range(3):
        whole.add_many(reports_of(plan, 100 + seed, seed))
    for a, b, c in permutations(shards):
        left, right, at_once = (a + b) + c, a + (b + c), a.merge(b, c)
        for merged in (left, right, at_once):
            assert (merged.tally == whole.tally).all()
            assert merged.users == 303
            assert merged.rejected == Counter(foreign=3)
    assert shards[0].users == 100  # merging makes a new aggregator
    other = nz.local.plan(one(6, nz.Prefix()), 1.4, mechanism="hadamard").aggregator()
    with pytest.raises(DataError, match="different plans"):
        shards[0].merge(other)


def test_state_is_kept(plan: nz.local.LocalPlan, tmp_path: Path) -> None:
    made = plan.simulate(COUNTS, seed=5)
    made.add(b"rubbish")
    path = made.save(tmp_path / "state.npz")
    back = nz.local.load_aggregator(path)
    assert (back.tally == made.tally).all()
    assert (back.users, back.rejected, back.brand) == (made.users, made.rejected, made.brand)
    query = plan.workload.query(0)
    for errors in ("estimated", "worst"):
        ours, theirs = made.answer(query, errors=errors), back.answer(query, errors=errors)
        assert ours.estimate == pytest.approx(theirs.estimate)
        assert ours.std_error == pytest.approx(theirs.std_error)
    covariance = made.covariance(query, query)
    rounding = 1e-12 * np.abs(covariance).max()  # of what is zero
    assert back.covariance(query, query) == pytest.approx(covariance, abs=rounding)
    back.add_many(reports_of(plan, 10, 9))  # collecting goes on where it stopped
    assert back.users == made.users + 10
    assert (back + made).users == 2 * made.users + 10


def test_damaged_state_is_refused(table: nz.local.LocalPlan, tmp_path: Path) -> None:
    path = table.simulate(COUNTS, seed=1).save(tmp_path / "state.npz")
    data = path.read_bytes()
    for place in range(200, len(data), 997):
        path.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        try:
            back = nz.local.load_aggregator(path)
        except (StorageError, nz.NoiseplanError):
            continue
        # What is not covered by a checksum are the ZIP's own fields, which change nothing.
        assert (back.tally == table.simulate(COUNTS, seed=1).tally).all()
    path.write_bytes(data[:100])
    with pytest.raises(StorageError):
        nz.local.load_aggregator(path)


# ------------------------------------------------------------------------------ answers


def test_answers_are_unbiased_and_variances_exact(plan: nz.local.LocalPlan) -> None:
    """Made-up collections: means and mean squares against the formulas."""
    query = plan.workload.query(0)
    truth = query.dense() @ COUNTS
    trials = depth(1000, 250)
    collections = [plan.simulate(COUNTS, seed=s) for s in range(trials)]
    found = np.array([made.reconstruction.estimate(query, made.tally, made.users)
                      for made in collections])  # fmt: skip
    # Intervals come with an answer and take most of its time: asked of some.
    for made, estimate in zip(collections[:20], found, strict=False):
        assert np.array_equal(made.answer(query, errors="worst").estimate, estimate)
    variance = plan.variance(query, COUNTS)
    error = found - truth
    informative = variance > 1e-9
    z = error.mean(axis=0)[informative] / np.sqrt(variance[informative] / trials)
    assert np.abs(z).max() < 5.5
    assert np.abs(error[:, ~informative]).max(initial=0) < 1e-6  # the total is known
    ratio = (error**2).mean(axis=0)[informative] / variance[informative]
    assert np.abs(ratio - 1).max() < 0.3 * np.sqrt(1000 / trials)  # about 6 deviations of a mean
    covariance = np.cov(error[:, informative].T)
    expected = plan.covariance(query, query, COUNTS)[np.ix_(informative, informative)]
    scale = np.sqrt(np.outer(variance[informative], variance[informative]))
    assert np.abs(covariance - expected).max() < 0.25 * np.sqrt(1000 / trials) * scale.max()
    assert np.diagonal(plan.covariance(query, query, COUNTS)) == pytest.approx(variance, abs=1e-6)


def test_covariances_by_brute_force() -> None:
    plan = nz.local.plan(one(4, nz.Prefix()), 1.0)
    q, x = plan.strategy.chances, np.array([5.0, 2.0, 7.0, 1.0])
    rows = plan.workload.query(0).dense()
    v = plan.strategy.coefficients(rows) @ plan.strategy.shapes.T
    assert v @ q == pytest.approx(rows)
    law = sum(x[u] * (np.diag(q[:, u]) - np.outer(q[:, u], q[:, u])) for u in range(4))
    query, other = plan.workload.query(0), nz.Query(plan.types.schema, ["v"])
    assert plan.covariance(query, query, x) == pytest.approx(v @ law @ v.T)
    w = plan.strategy.coefficients(np.eye(4)) @ plan.strategy.shapes.T
    assert plan.covariance(query, other, x) == pytest.approx(v @ law @ w.T)
    assert plan.variance(query, x) == pytest.approx(np.diagonal(v @ law @ v.T))
    # Total variance over the workload is t·x.
    assert plan.variance(query, x).sum() == pytest.approx(plan.variances @ x)
    worst = plan.variance(query, users=15)
    assert (plan.variance(query, x) <= worst + 1e-9).all()


def test_estimated_errors_lie_between_exact_bounds(table: nz.local.LocalPlan) -> None:
    query = table.workload.query(0)
    made = table.simulate(COUNTS, seed=3)
    estimated, worst = made.variance(query), made.variance(query, errors="worst")
    least = table.reconstruction.row_variances(query)[0].min(axis=1) * made.users
    assert (estimated <= worst * (1 + 1e-9)).all()
    assert (estimated >= least * (1 - 1e-9)).all()
    assert estimated[:-1] == pytest.approx(table.variance(query, COUNTS)[:-1], rel=0.2)
    with pytest.raises(QueryError, match="estimated"):
        made.variance(query, errors="none")


def test_intervals_cover(table: nz.local.LocalPlan) -> None:
    query = table.workload.query(0)
    truth = query.dense() @ COUNTS
    trials, inside, together = depth(400, 100), np.zeros(6), 0
    for seed in range(trials):
        made = table.simulate(COUNTS, seed=seed)
        one_by_one, at_once = made.answer(query), made.answer(query, simultaneous=True)
        inside += (one_by_one.lower <= truth + 1e-6) & (truth <= one_by_one.upper + 1e-6)
        together += bool(((at_once.lower <= truth + 1e-6) & (truth <= at_once.upper + 1e-6)).all())
    assert (inside[:-1] / trials).min() > 0.95 - 5.5 * np.sqrt(0.95 * 0.05 / trials)
    assert together / trials > 0.95 - 5.5 * np.sqrt(0.95 * 0.05 / trials)


def collected(plan: nz.local.LocalPlan, counts: np.ndarray, seed: int) -> nz.local.Aggregator:
    """Reports of these users, drawn from the multinomial law of each type."""
    rng, strategy = np.random.default_rng(seed), plan.strategy
    table = strategy.table() if isinstance(strategy, ShiftStrategy) else strategy.chances
    made = plan.aggregator()
    for users, column in zip(counts, (table / table.sum(axis=0)).T, strict=True):
        made.tally += rng.multinomial(users, column).reshape(made.tally.shape)
    made.users = int(counts.sum())
    return made


@pytest.mark.grid
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
@pytest.mark.parametrize("users", [100, 10_000])
@pytest.mark.parametrize("name", ["histogram", "prefix"])
def test_intervals_cover_at_every_epsilon(name: str, users: int, epsilon: float) -> None:
    """The normal law covers 61 % at N = 100 and 87 % at N = 10,000 for the histogram at ε = 8."""
    plan = nz.local.plan(workload(name, 16), epsilon, mechanism="randomized response")
    query, rng = plan.workload.query(0), np.random.default_rng(1)
    counts = rng.multinomial(users, rng.dirichlet(np.full(16, 0.7)))
    # Where the normal law is wrong by little, few trials would not tell.
    narrow = users == 10_000 and epsilon == 8
    truth, trials = query.dense() @ counts, 200 if narrow else depth(200, 60)
    inside, together = np.zeros(16), 0
    for seed in range(trials):
        made = collected(plan, counts, seed)
        singly, at_once = made.answer(query), made.answer(query, simultaneous=True)
        inside += (singly.lower <= truth + 1e-6) & (truth <= singly.upper + 1e-6)
        together += bool(((at_once.lower <= truth + 1e-6) & (truth <= at_once.upper + 1e-6)).all())
    # Four deviations of a share of 0.95.
    assert (inside / trials).min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / trials)
    assert together / trials > 0.95 - 4 * np.sqrt(0.95 * 0.05 / trials)


@pytest.mark.grid
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("factor", [nz.Identity(), nz.Prefix()], ids=["histogram", "prefix"])
def test_intervals_are_hardly_wider_than_normal_ones(factor: nz.Factor, epsilon: float) -> None:
    plan = nz.local.plan(one(16, factor), epsilon)
    query = plan.workload.query(0)
    made = collected(plan, np.full(16, 625), 1)
    for simultaneous in (False, True):
        answer = made.answer(query, simultaneous=simultaneous)
        normal = half_width_factor(0.95, 16 if simultaneous else 1) * answer.std_error
        width = (answer.upper - answer.lower) / 2
        assert (width >= normal * (1 - 1e-9)).all()
        # 1.0600 to 1.0615 of prefix sums at ε = 1, by the strategy that is found.
        assert (width <= 1.065 * normal + 1e-9).all()
        assert width.sum() <= 1.045 * normal.sum()


def test_tails_bound_those_of_binomial_numbers() -> None:
    """Sums of scores of two values, at all sizes: the exact tail beyond the reach is small enough.

    Above 500 jumps, where the law is taken for all but normal, within a few per cent.
    """
    for users in (1, 5, 50, 1000, 30_000):
        for chance in (0.3, 0.05, 0.001):
            for outside in (0.025, 1e-3, 1e-6):
                variance = np.array([users * chance * (1 - chance)])
                reach = poisson_reach(variance, np.array([1 - chance]), outside)[0]
                most = np.ceil(users * chance + reach - 1e-9)
                tail = binom.sf(most - 1, users, chance)
                many = variance[0] / (1 - chance) ** 2 >= 500
                assert tail <= outside * (1.03 if many else 1.0)


def test_variances_are_seldom_above_their_bound() -> None:
    plan = nz.local.plan(one(6, nz.Prefix()), 3.0)
    query, counts = plan.workload.query(0), COUNTS // 5
    truth = plan.variance(query, counts)
    above = 0
    for seed in range(200):
        made = collected(plan, counts, seed)
        bound = plan.reconstruction.variance_above(query, made.tally, made.users, 0.05)
        above += bool((bound[:-1] < truth[:-1] * (1 - 1e-9)).any())
    assert above <= 200 * 5 * 0.05
    assert (bound <= plan.variance(query, users=counts.sum()) * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", ["subset selection", "rappor", "block design", "hadamard"])
def test_ends_of_scores_by_enumeration(name: str) -> None:
    rows = np.random.default_rng(2).standard_normal((3, 5))
    mechanism = "auto" if name == "block design" else name
    strategy = nz.local.plan(one(5, nz.Identity()), 1.0, mechanism=mechanism).strategy
    assert strategy.name.lower() == name
    if name == "subset selection":
        table = subset_table(5, strategy.sizes[0], 1.0)
    elif name == "rappor":
        table = rappor_table(5, 1.0)
    else:
        table = strategy.table() if isinstance(strategy, ShiftStrategy) else strategy.chances
    scores = rows @ (table / table.mean(axis=1, keepdims=True)).T
    low, high = strategy.score_ends(rows)
    assert low == pytest.approx(scores.min(axis=1))
    assert high == pytest.approx(scores.max(axis=1))


def test_what_is_public_has_no_error(plan: nz.local.LocalPlan) -> None:
    made = plan.simulate(COUNTS, seed=3)
    answer = made.answer(plan.workload.query(0))
    if plan.strategy.counts_users:
        assert answer.estimate[-1] == answer.lower[-1] == answer.upper[-1] == COUNTS.sum()
    else:  # numbers with noise: the total is one of them
        assert answer.lower[-1] < answer.estimate[-1] < answer.upper[-1]


def test_any_query_over_the_types_is_answered(table: nz.local.LocalPlan) -> None:
    made = table.simulate(COUNTS * 1000, seed=1)
    schema = table.workload.schema
    middle = nz.Query(schema, {"v": nz.Custom([[0, 0, 1, 1, 0, 0]])})
    answer = made.answer(middle)
    assert abs(answer.estimate[0] - 50_000) < 6 * answer.std_error[0]
    assert "estimate" in str(answer)
    other = nz.Schema.from_sizes({"w": 6})
    with pytest.raises(UnanswerableError, match="'w'"):
        made.answer(nz.Query(other, ["w"]))


def test_what_merged_cells_hide_is_refused() -> None:
    schema = nz.Schema.from_sizes({"v": 6})
    plan = nz.local.plan(nz.Query(schema, ["v"], matrix=[[1, 1, 1, 0, 0, 0]]), 1.0)
    made = plan.simulate([10] * 6, seed=0)
    assert made.answer(nz.Query(schema, {"v": nz.Custom([[0, 0, 0, 1, 1, 1]])})).estimate.shape == (
        1,
    )
    with pytest.raises(UnanswerableError, match="no query of the plan's workload tells apart"):
        made.answer(nz.Query(schema, ["v"]))


def test_strategies_that_do_not_tell_all_types_apart_state_worst_errors() -> None:
    plan = nz.local.plan(workload("3-way", 16), 1.0, mechanism="fourier", order=3)
    made = plan.simulate(np.full(16, 100), seed=0)
    query = plan.workload.query(0)
    assert not plan.strategy.tells_all_apart
    assert made.variance(query) == pytest.approx(made.variance(query, errors="worst"))


# ------------------------------------------------------------------------------ consistency


@examples(40)
@given(st.integers(0, 10**9), st.booleans())
def test_consistent_counts_are_the_least_squares(seed: int, known: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (9, 6)) + 0.1 * rng.standard_normal((9, 6))
    gram = rows.T @ rows
    estimate = rng.standard_normal(6) * 50 + 20
    total = float(abs(estimate.sum())) if known else None
    found = fit_counts(estimate, gram, total)
    assert (found >= 0).all()
    if total is None:
        expected = nnls(rows, rows @ estimate)[0]
    else:
        assert found.sum() == pytest.approx(total, rel=1e-8, abs=1e-8)
        heavy = np.vstack([rows, 1e5 * np.ones(6)])
        expected = nnls(heavy, np.append(rows @ estimate, 1e5 * total))[0]
    value = [np.sum((rows @ (x - estimate)) ** 2) for x in (found, expected)]
    assert value[0] <= value[1] * (1 + 1e-6) + 1e-6
    assert rows @ found == pytest.approx(rows @ expected, rel=1e-3, abs=1e-2)


def test_what_is_consistent_already_stays() -> None:
    estimate = np.array([5.0, 0.5, 3.0])
    gram = np.array([[3.0, 2, 1], [2, 2, 1], [1, 1, 1]])
    assert fit_counts(estimate, gram, None) == pytest.approx(estimate)
    assert fit_counts(estimate, gram, 8.5) == pytest.approx(estimate)
    singular = fit_counts(estimate, np.ones((3, 3)), None)
    assert singular.sum() == pytest.approx(8.5)
    assert nearest_counts(estimate, 0.0) == pytest.approx([0, 0, 0])


def test_consistency_lowers_the_error_of_sparse_data() -> None:
    plan = nz.local.plan(one(16, nz.Prefix()), 1.0, mechanism="hierarchical")
    counts = np.zeros(16)
    counts[3] = 500
    query = plan.workload.query(0)
    truth = query.dense() @ counts
    errors = np.zeros(3)
    for seed in range(60):
        made = plan.simulate(counts, seed=seed)
        answers = (
            made.answer(query).estimate,
            made.consistent(total=False).answer(query),
            made.consistent().answer(query),
        )
        errors += [((answer - truth) ** 2).sum() for answer in answers]
        assert made.consistent().counts.sum() == pytest.approx(500)
    assert errors[0] > 1.5 * errors[1]
    assert errors[1] > 1.1 * errors[2]


# ------------------------------------------------------------------------------ simulation


def test_simulation_of_many_users_by_multinomials(table: nz.local.LocalPlan) -> None:
    many = table.simulate(COUNTS * 3000, seed=1)
    assert many.users == many.tally.sum() == 3_000_000
    query = table.workload.query(0)
    z = (many.answer(query).estimate - query.dense() @ COUNTS * 3000)[:-1]
    assert np.abs(z / many.answer(query).std_error[:-1]).max() < 5.5
    assert "seed 1" in many.brand
    assert (table.simulate(COUNTS, seed=7).tally == table.simulate(COUNTS, seed=7).tally).all()
    assert table.simulate(COUNTS).brand == "simulated"


def test_simulated_counts_are_checked(table: nz.local.LocalPlan) -> None:
    with pytest.raises(PlanError, match="6 cells"):
        table.simulate([1, 2])
    with pytest.raises(PlanError, match="whole numbers"):
        table.simulate([1.5] * 6)
    with pytest.raises(PlanError, match="whole numbers"):
        table.simulate([-1] * 6)
