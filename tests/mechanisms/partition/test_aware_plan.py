"""Data-aware plans and releases from the outside: privacy, answers, refusals, keeping."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import (
    BudgetError,
    NoiseplanError,
    PlanError,
    StorageError,
    UnanswerableError,
)
from noiseplan.mechanisms.partition import estimates
from noiseplan.mechanisms.partition.bucket_tree import storey_price
from noiseplan.mechanisms.partition.buckets import rows_in_line
from noiseplan.mechanisms.partition.partition_settings import Dawa

CELLS = 128
SCHEMA = nz.Schema({"v": nz.Ordinal(range(CELLS)), "sex": nz.Categorical(["F", "M"])})
PREFIX = nz.Workload([nz.Query(SCHEMA, {"v": nz.Prefix()}, name="prefix")])


def counts(seed: int = 0) -> np.ndarray:
    """Half even, half busy; all of one sex."""
    rng = np.random.default_rng(seed)
    table = np.zeros((CELLS, 2), dtype=np.int64)
    table[:64, 0] = rng.poisson(5, 64)
    table[64:, 0] = rng.integers(0, 2000, 64)
    return table


def made(budget: object = None, planner: object = "dawa", **options: object) -> nz.Plan:
    plan = nz.plan(PREFIX, budget=budget or nz.PureDP(1.0), planner=planner, **options)  # type: ignore[arg-type]
    assert isinstance(plan, nz.Plan) and plan.data_aware
    return plan


# ---------------------------------------------------------------------- privacy


@examples(40)
@given(st.floats(1e-3, 20), st.floats(0.01, 0.9), st.booleans())
def test_parts_add_up_to_no_more_than_the_budget(epsilon: float, share: float, gauge: bool) -> None:
    settings_of = Dawa(share=share, error_share=0.05 if gauge else 0.0)
    spending = made(nz.PureDP(epsilon), settings_of).mechanism.spending
    parts = [spending.selector.epsilon, spending.second.epsilon]  # type: ignore[union-attr]
    if spending.gauge is not None:
        parts.append(storey_price(spending.gauge).pure_epsilon or 0.0)
    assert sum(map(Fraction, parts)) <= Fraction(epsilon)
    assert sum(parts) > 0.99 * epsilon
    assert spending.privacy.within(nz.PureDP(epsilon))
    rho = epsilon**2 / 2
    zcdp = made(nz.zCDP(rho), settings_of, noise="discrete").mechanism.spending
    bound = Fraction(zcdp.selector.epsilon) ** 2 / 8 + Fraction(zcdp.second.rho)  # type: ignore[union-attr]
    if zcdp.gauge is not None:
        bound += 1 / (2 * Fraction(zcdp.gauge.one))
    assert bound <= Fraction(rho)
    assert bound > Fraction(rho) * Fraction(99, 100)


def test_what_is_measured_is_within_its_part() -> None:
    for budget in (nz.PureDP(0.7), nz.zCDP(0.1), nz.ApproxDP(1.0, 1e-6)):
        plan = made(budget, noise="discrete")
        assert plan.privacy.within(budget)
        release = plan.release(nz_counts(counts()), seed=3)
        buckets = release.measurements.buckets
        assert buckets.privacy.within(plan.mechanism.spending.second)


def test_bounded_range_is_zcdp() -> None:
    """ρ = ε²/8 holds for two-point losses of range ε, at every order: the extreme case."""
    for epsilon in (0.1, 1.0, 3.0):
        for split in np.linspace(0.01, 0.99, 25):
            # Q has two outcomes, P/Q = e^a and e^(a − ε) with E_Q[P/Q] = 1.
            a = -math.log(split + (1 - split) * math.exp(-epsilon))
            for order in (1.01, 1.5, 2.0, 8.0, 50.0):
                moment = split * math.exp(order * a) + (1 - split) * math.exp(order * (a - epsilon))
                divergence = math.log(moment) / (order - 1)
                assert divergence <= order * epsilon**2 / 8 * (1 + 1e-9) + 1e-12


def test_people_with_several_records_are_priced() -> None:
    plan = made(nz.PureDP(1.0), max_rows=3)
    assert plan.max_rows == 3
    assert plan.privacy.within(nz.PureDP(1.0))
    assert plan.mechanism.spending.privacy.pure_epsilon <= 1 / 3  # type: ignore[operator]
    with pytest.raises(PlanError, match="person="):
        plan.release({"v": [1, 2], "sex": ["F", "M"]}, seed=1)


# ---------------------------------------------------------------------- releasing


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("budget", "noise"),
    [
        (nz.PureDP(1.0), "discrete"),
        (nz.PureDP(1.0), "laplace"),
        (nz.zCDP(0.5), "discrete"),
        (nz.zCDP(0.5), "gaussian"),
    ],
)
def test_answers_are_near_the_truth_and_say_how_near(budget: object, noise: str) -> None:
    plan = made(budget, noise=noise)
    truth = np.cumsum(counts().sum(axis=1))
    errors, claimed = [], []
    for seed in range(8):
        release = plan.release(nz_counts(counts()), seed=seed)
        answer = release.answer("prefix")
        errors.append(np.mean((answer.estimate - truth) ** 2))
        claimed.append(np.mean(answer.estimated_error**2))
        assert (answer.lower < answer.estimate).all()
    # Eight releases tell the mean square, which has long tails, to within a factor of some.
    assert 0.15 < np.mean(claimed) / np.mean(errors) < 6
    assert np.sqrt(np.mean(errors)) < 60


def nz_counts(table: np.ndarray) -> object:
    return tensor(SCHEMA, table)


def tensor(schema: nz.Schema, table: np.ndarray) -> object:
    from noiseplan.counting import CountTensor

    return CountTensor(schema, table)


def test_everything_follows_from_the_buckets() -> None:
    release = made().release(nz_counts(counts()), seed=5)
    assert release.edges[0] == 0
    assert release.edges[-1] == CELLS
    expanded = release.counts
    for start, stop in zip(release.edges[:-1], release.edges[1:], strict=True):
        assert np.ptp(expanded[start:stop]) < 1e-9
    assert np.allclose(release.answer("prefix").estimate, np.cumsum(expanded))
    custom = np.random.default_rng(1).normal(size=(3, CELLS))
    answer = release.answer(nz.Query(SCHEMA, {"v": nz.Custom(custom)}))
    assert np.allclose(answer.estimate, custom @ expanded)
    total = release.answer(nz.Query(SCHEMA, []))
    assert np.allclose(total.estimate, expanded.sum())
    assert np.allclose(total.bias_error, 0, atol=1e-6)  # a total is of whole buckets
    queries = {query.name: values for query, values in release.answers()}
    assert np.allclose(queries["prefix"], np.cumsum(expanded))


def test_noise_errors_are_exact_for_the_buckets_drawn() -> None:
    """Against many draws of the second step with the partition held."""
    plan = made(nz.PureDP(2.0))
    release = plan.release(nz_counts(counts()), seed=5)
    buckets = release.measurements.buckets
    line_counts = counts().sum(axis=1)
    from noiseplan.mechanisms.partition.buckets import expand
    from noiseplan.noise import ExactSampler, SeededSource

    sampler = ExactSampler("laplace", SeededSource(9))
    draws = np.array(
        [
            np.cumsum(
                expand(buckets.estimate(buckets.measure(line_counts, sampler)), buckets.edges)
            )
            for _ in range(600)
        ]
    )
    answer = release.answer("prefix")
    assert np.allclose(draws.std(axis=0), answer.noise_error, rtol=0.35)
    # What is left is the bias: the mean of the draws against the truth.
    off = draws.mean(axis=0) - np.cumsum(line_counts)
    whole = release.edges[1:-1] - 1
    assert np.abs(off[whole]).max() < 6 * answer.noise_error.max() / math.sqrt(600)


def test_errors_by_rows_and_by_forms_agree() -> None:
    release = made().release(nz_counts(counts()), seed=5)
    query = PREFIX[0]
    rows = np.arange(CELLS)
    found = release.measurements.estimates.errors(query)
    each = release.measurements.estimates._errors_of(
        rows_in_line(query, ("v",), release.plan.mechanism.line.order, rows)
    )
    assert np.allclose(found, each, rtol=1e-6, atol=1e-6)


def test_gauge_tells_even_data_from_uneven() -> None:
    even, uneven = np.zeros((CELLS, 2), dtype=np.int64), np.zeros((CELLS, 2), dtype=np.int64)
    even[:, 0] = 400
    uneven[::2, 0] = 60  # too little for so small a share to be told apart
    planner = Dawa(share=0.01, lengths="powers", error_share=0.2)
    plan = made(nz.PureDP(1.0), planner)
    quiet = plan.release(nz_counts(even), seed=4)
    assert abs(quiet.measurements.gauge.norm or 0.0) < 100
    loud = plan.release(nz_counts(uneven), seed=4)
    assert (loud.measurements.gauge.norm or 0.0) > 200
    silent = Dawa(share=0.01, lengths="powers", error_share=0.0)
    plain = made(nz.PureDP(1.0), silent).release(nz_counts(uneven), seed=4)
    assert not plain.measurements.gauge.measured
    assert "gauge" in str(plan)


def test_two_attributes_go_along_the_curve() -> None:
    schema = nz.Schema({"x": nz.Ordinal(range(16)), "y": nz.Ordinal(range(16))})
    workload = nz.Workload([nz.Query(schema, {"x": nz.Prefix(), "y": nz.Prefix()})])
    table = np.zeros((16, 16), dtype=np.int64)
    table[3:7, 8:12] = 500
    plan = nz.plan(workload, budget=nz.PureDP(2.0), planner="dawa")
    from noiseplan.counting import CountTensor

    release = plan.release(CountTensor(schema, table), seed=2)
    answer = release.answer(workload[0])
    truth = np.cumsum(np.cumsum(table, axis=0), axis=1).ravel()
    assert np.sqrt(np.mean((answer.estimate - truth) ** 2)) < 40
    assert release.counts.shape == (16, 16)
    assert (answer.estimated_error > 0).all()
    joint = nz.Query(schema, ["x", "y"], matrix=np.ones((2, 256)))
    assert np.allclose(release.answer(joint).estimate, release.counts.sum())
    frame = release.table("x", frame="pandas")
    assert list(frame.columns) == ["x", "estimate", "estimated_error", "lower", "upper"]


def test_large_lines_are_answered_with_sampled_errors() -> None:
    cells = estimates.BY_FORMS + 404
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    workload = nz.Workload([nz.Query(schema, {"v": nz.Prefix()})])
    release = nz.plan(workload, budget=nz.PureDP(1.0), planner="dawa").release(
        np.random.default_rng(0).poisson(3, cells), seed=1
    )
    answer = release.answer(workload[0])
    assert answer.estimated_error.shape == (cells,)
    assert (answer.estimated_error > 0).all()


def test_the_same_seed_is_the_same_release() -> None:
    one, other = (made().release(nz_counts(counts()), seed=5) for _ in range(2))
    assert (one.edges == other.edges).all()
    assert (one.counts == other.counts).all()
    assert "NOT PRIVATE" in one.brand
    assert "randomness from the operating system" in made().release(nz_counts(counts())).brand


def test_ledger_is_charged_before_anything_is_drawn(tmp_path: Path) -> None:
    book = nz.Ledger(tmp_path / "ledger", create=True)
    book.open_dataset("people", nz.zCDP(0.6))
    plan = made(nz.PureDP(1.0))
    release = plan.release(nz_counts(counts()), ledger=book, dataset="people", purpose="test")
    assert "people" in release.recorded
    entry = book.entries("people")[-1]
    assert entry.plan_hash == plan.hash()
    with pytest.raises(NoiseplanError):
        plan.release(nz_counts(counts()), ledger=book, dataset="people")


@pytest.mark.parametrize("cells", [1, 2, 5, 60])
@pytest.mark.parametrize("budget", [nz.PureDP(0.5), nz.zCDP(0.05)])
def test_any_workload_of_any_size(cells: int, budget: nz.PureDP | nz.zCDP) -> None:
    """Few rows, negative rows, many weights; empty data, large data."""
    rng = np.random.default_rng(cells)
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    few = nz.Custom(np.maximum(rng.random((2, cells)) < 0.5, np.arange(cells) == 0).astype(float))
    for queries in (
        [nz.Query(schema, {"v": few})],
        [nz.Query(schema, {"v": nz.Custom(1e6 * rng.normal(size=(4, cells)))})],
        [
            nz.Query(schema, ["v"], weight=1e9),
            nz.Query(schema, []),
            nz.Query(schema, {"v": nz.Ranges()}),
        ],
    ):
        plan = nz.plan(nz.Workload(queries), budget=budget, planner="dawa", noise="discrete")
        for x in (np.zeros(cells, dtype=int), rng.integers(0, 10**6, cells)):
            release = plan.release(x, seed=1)
            for query in queries:
                answer = release.answer(query)
                assert np.isfinite(answer.estimate).all()
                assert np.isfinite(answer.estimated_error).all()


@pytest.mark.parametrize("second", ["p-identity", "tree", "wavelet", "identity"])
def test_second_steps_by_name(second: str) -> None:
    release = made(planner=Dawa(second=second)).release(nz_counts(counts()), seed=1)
    assert release.measurements.buckets.top.planner == second


# ---------------------------------------------------------------------- keeping


@pytest.mark.parametrize("budget", [nz.PureDP(1.0), nz.ApproxDP(1.0, 1e-6)])
def test_a_saved_release_answers_as_before(tmp_path: Path, budget: object) -> None:
    release = made(budget, Dawa(error_share=0.02), noise="discrete").release(
        nz_counts(counts()), seed=5
    )
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    assert isinstance(again, nz.Release)
    one, other = release.answer("prefix"), again.answer("prefix")
    assert np.allclose(one.estimate, other.estimate, rtol=1e-9)
    assert np.allclose(one.estimated_error, other.estimated_error, rtol=1e-6)
    assert again.plan.privacy == release.plan.privacy
    assert "biased" in (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "tables" / "1-prefix.csv").exists()
    with pytest.raises(PlanError, match="plan again"):
        again.plan.release(nz_counts(counts()), seed=1)


def test_many_buckets_are_saved_too(tmp_path: Path) -> None:
    cells = 600
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    workload = nz.Workload([nz.Query(schema, {"v": nz.Prefix()})])
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner="dawa")
    release = plan.release(np.random.default_rng(0).integers(0, 10**6, cells), seed=1)
    assert release.measurements.buckets.storeys
    release.save(tmp_path / "out", tables=[])
    again = nz.load(tmp_path / "out")
    assert np.allclose(again.answer(workload[0]).estimate, release.answer(workload[0]).estimate)


def test_edited_folders_are_refused(tmp_path: Path) -> None:
    made().release(nz_counts(counts()), seed=5).save(tmp_path / "out", tables=[])
    path = tmp_path / "out" / "plan.json"
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(StorageError, match="damaged or was changed"):
        nz.load(tmp_path / "out")


# ---------------------------------------------------------------------- words and refusals


def test_words() -> None:
    plan = made()
    text = str(plan)
    for words in (
        "ε = 1 (pure DP)",
        "exponential mechanism",
        "depends on the data",
        "at most 8 cells",
    ):
        assert words in text
    release = plan.release(nz_counts(counts()), seed=5)
    assert "buckets of 128 cells" in str(release)
    assert "estimated errors" in str(release.answer("prefix"))
    assert repr(plan).startswith("Plan(1 query, data-aware, ρ")
    assert repr(release).startswith("Release(1 query; ")
    gauss = str(made(nz.zCDP(0.1), Dawa(error_share=0.1), noise="discrete"))
    assert "discrete Gaussian" in gauss
    assert "gauge" in gauss


def test_what_estimated_errors_leave_out_is_said() -> None:
    """Towers in long buckets, not measured: the stated error is far below, and says why."""
    schema = nz.Schema({"v": nz.Ordinal(range(512))})
    cells = nz.Workload([nz.Query(schema, ["v"])])
    rng = np.random.default_rng(0)
    towers = np.zeros(512, dtype=np.int64)
    towers[rng.choice(512, 20, replace=False)] = rng.integers(100, 1000, 20)
    bare = Dawa(lengths="powers", longest=64, error_share=0.0)
    release = nz.plan(cells, budget=nz.PureDP(0.1), planner=bare).release(towers, seed=1)
    answer = release.answer(cells.query(0))
    true = np.sqrt(np.mean((answer.estimate - towers) ** 2))
    assert answer.typical_error < true / 2
    assert "too small where single cells tower over their bucket" in str(answer)
    assert "how uneven they are was not measured" in str(release)
    gauged = nz.plan(cells, budget=nz.PureDP(0.1), planner=Dawa(longest=64))
    stated = gauged.release(towers, seed=0).answer(cells.query(0))
    assert "over a table often by a fifth and in single rows by more" in str(stated)
    assert "how uneven they are together was measured" in str(gauged.release(towers, seed=1))


def test_errors_that_nobody_knows_are_refused() -> None:
    plan = made()
    for ask in (plan.variance, plan.std_error):
        with pytest.raises(PlanError, match="depends on the data"):
            ask("prefix")
    with pytest.raises(PlanError, match="depends on the data"):
        plan.covariance("prefix", "prefix")
    with pytest.raises(AttributeError, match="compare"):
        _ = plan.rmse
    assert not hasattr(plan, "lower_bound")
    release = plan.release(nz_counts(counts()), seed=5)
    with pytest.raises(PlanError, match="depends on the data"):
        release.variance("prefix")
    with pytest.raises(UnanswerableError, match="'sex'"):
        release.answer(nz.Query(SCHEMA, ["sex"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": None, "targets": 3.0}, "not targets"),
        ({"budget": nz.GDP(1.0)}, "Gaussian mechanism"),
        ({"objective": nz.WorstVariance()}, "larger weight"),
        ({"noise": "gaussian"}, "'laplace'"),
        ({"budget": nz.zCDP(1.0), "noise": "laplace"}, "pure DP"),
        ({"budget": nz.zCDP(1.0), "planner": Dawa(second="tree")}, "second='tree' is for PureDP"),
        ({"budget": nz.ApproxDP(1.0, 1e-6), "planner": Dawa(second="wavelet")}, "leave second out"),
    ],
)
def test_refused_arguments(options: dict[str, object], words: str) -> None:
    given_options: dict[str, object] = {"budget": nz.PureDP(1.0), "planner": "dawa"} | options
    with pytest.raises(NoiseplanError, match=words):
        nz.plan(PREFIX, **given_options)  # type: ignore[arg-type]


def test_refused_workloads() -> None:
    for query, words in [
        (nz.Query(SCHEMA, ["sex"]), "categorical"),
        (nz.Query(SCHEMA, []), "name 0"),
    ]:
        with pytest.raises(PlanError, match=words):
            nz.plan(nz.Workload([query]), budget=nz.PureDP(1.0), planner="dawa")
    wide = nz.Schema({"v": nz.Ordinal(range(2**20 + 1))})
    with pytest.raises(PlanError, match="wider bins"):
        nz.plan(nz.Workload([nz.Query(wide, ["v"])]), budget=nz.PureDP(1.0), planner="dawa")


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 0.0}, {"share": 1.0}, {"share": True}, {"error_share": -0.1}, {"second": "best"},
        {"share": 0.6, "error_share": 0.5}, {"longest": 2.5},
    ],
)  # fmt: skip
def test_refused_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        Dawa(**wrong)  # type: ignore[arg-type]


def test_budgets_too_small_to_choose_are_refused() -> None:
    with pytest.raises((PlanError, BudgetError), match="raise the budget"):
        made(nz.PureDP(1e-8))
