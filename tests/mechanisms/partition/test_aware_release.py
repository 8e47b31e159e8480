"""What a release draws, from which bits, how exact its errors are, and what is refused in time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.errors import DataError, PlanError
from noiseplan.matrices import RangesMatrix
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.mechanisms.partition import buckets, estimates
from noiseplan.mechanisms.partition.buckets import LineWorkload, closed_gram
from noiseplan.mechanisms.partition.mechanism import _bits_of
from noiseplan.mechanisms.partition.partition_settings import Dawa
from noiseplan.mechanisms.partition.selection import Selector, _choose_exactly
from noiseplan.noise import (
    ExactSampler,
    SeededSource,
    SimulationSampler,
    Source,
    SystemSource,
)
from noiseplan.planning.planners.dawa import plan_buckets

LINE = nz.Schema({"v": nz.Ordinal(range(128))})
PREFIX = nz.Workload([nz.Query(LINE, {"v": nz.Prefix()}, name="prefix")])
EVEN = np.full(128, 3)


class Recorded(Source):
    """Bits of another source, kept; or those that were kept, again."""

    def __init__(self, bits: bytes | None = None) -> None:
        self.kept, self.given = b"", bits

    def read(self, count: int) -> bytes:
        if self.given is None:
            read = SystemSource().read(count)
        else:
            read, self.given = self.given[:count], self.given[count:]
        self.kept += read
        return read

    @property
    def brand(self) -> str:
        return "recorded, so NOT PRIVATE"

    @property
    def private(self) -> bool:
        return False


# ---------------------------------------------------------------------- randomness


def test_buckets_are_drawn_from_the_bits_of_the_release() -> None:
    plan = nz.plan(PREFIX, budget=nz.PureDP(1.0), planner="dawa", noise="discrete")
    for _ in range(3):
        source = Recorded()
        release = plan.release(EVEN, randomness=source)
        again = plan.mechanism.spending.selector.draw(EVEN, Recorded(source.kept))
        assert release.edges.tolist() == again.tolist()


@pytest.mark.parametrize("noise", ["discrete", "laplace"])
def test_unseeded_releases_have_buckets_of_their_own(noise: str) -> None:
    plan = nz.plan(PREFIX, budget=nz.PureDP(1.0), planner="dawa", noise=noise)
    drawn = {tuple(plan.release(EVEN).edges.tolist()) for _ in range(4)}
    assert len(drawn) > 1


def test_bits_are_those_of_the_sampler() -> None:
    source = SeededSource(3)
    assert _bits_of(ExactSampler("laplace", source)) is source
    assert isinstance(_bits_of(SimulationSampler("laplace", None)), SystemSource)
    assert isinstance(_bits_of(SimulationSampler("laplace", 5)), SeededSource)


def test_the_gauge_has_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the buckets held: the mean is the spread, the variance that of Laplace noise."""
    schema = nz.Schema({"v": nz.Ordinal(range(8))})
    workload = nz.Workload([nz.Query(schema, {"v": nz.Identity()})])
    planner = Dawa(lengths="powers", error_share=0.2, second="identity")
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner=planner, noise="discrete")
    edges, counts = np.array([0, 4, 8]), np.array([9, 0, 0, 3, 5, 5, 6, 1])
    monkeypatch.setattr(Selector, "draw", lambda *_: edges)
    own = plan_buckets(
        nz.plan, plan.mechanism.line, edges, plan.mechanism.spending.second, "discrete"
    )
    plan = replace(plan, mechanism=replace(plan.mechanism, plan_buckets=lambda *_: own))
    runs = 300
    gauged = np.array(
        [plan.release(counts, seed=seed).measurements.gauge.norm for seed in range(runs)]
    )
    spread = 8  # ⌊√68.75⌋
    parts = counts[:4], counts[4:]
    assert spread == int(np.sqrt(sum(((x - x.mean()) ** 2).sum() for x in parts)))
    variance = 2 * 5.0**2  # of scale 1/0.2, nearly
    assert abs(gauged.mean() - spread) < 6 * np.sqrt(variance / runs)
    assert 0.4 * variance < gauged.var() < 2.5 * variance


# ---------------------------------------------------------------------- errors


def dense_noise(release: nz.Release, rows: np.ndarray) -> np.ndarray:
    """Standard errors of rows over the cells of the table, by dense algebra alone."""
    measured, order = release.measurements.buckets, release.plan.mechanism.line.order
    widths = np.diff(measured.edges)
    spread = np.zeros((len(order), len(widths)))
    spread[order, np.repeat(np.arange(len(widths)), widths)] = np.repeat(1 / widths, widths)
    seen = rows @ spread
    covariance = measured.covariance_times(np.eye(len(widths)))
    return np.asarray(np.sqrt(np.einsum("rb,bc,rc->r", seen, covariance, seen)))


@pytest.fixture(scope="module")
def plane() -> nz.Release:
    schema = nz.Schema({"x": nz.Ordinal(range(24)), "y": nz.Ordinal(range(30))})
    workload = nz.Workload([nz.Query(schema, {"x": nz.Prefix(), "y": nz.Prefix()}, name="all")])
    table = np.random.default_rng(0).poisson(2, (24, 30))
    table[3:9, 4:12] += 40
    plan = nz.plan(workload, budget=nz.PureDP(2.0), planner="dawa")
    made = plan.release(CountTensor(schema, table), seed=2)
    assert isinstance(made, nz.Release)
    return made


def test_noise_of_two_attributes_is_exact_in_every_row(plane: nz.Release) -> None:
    query = plane.plan.workload[0]
    assert query.rows > estimates.SAMPLED
    answer = plane.answer(query)
    np.testing.assert_allclose(answer.noise_error, dense_noise(plane, query.dense()), rtol=1e-6)
    assert not answer.approximate
    assert "exact noise" in answer.text(3)


def test_noise_of_own_matrices_is_exact_in_every_row(plane: nz.Release) -> None:
    rows = (np.random.default_rng(1).random((600, 720)) < 0.1).astype(float)
    answer = plane.answer(nz.Query(plane.schema, ["x", "y"], matrix=rows))
    np.testing.assert_allclose(answer.noise_error, dense_noise(plane, rows), rtol=1e-6)


@pytest.mark.parametrize("factor", [nz.Identity(), nz.Prefix()])
def test_noise_of_long_lines_is_exact_in_every_row(
    factor: nz.Identity | nz.Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "BY_FORMS", 1000)  # as if these were many
    cells = estimates.BY_FORMS + 404
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    workload = nz.Workload([nz.Query(schema, {"v": factor})])
    counts = np.random.default_rng(2).poisson(np.linspace(0.2, 30, cells))
    plan = nz.plan(workload, budget=nz.PureDP(0.5), planner="dawa")
    release = plan.release(counts, seed=1)
    rows = np.random.default_rng(3).integers(0, cells, 40)
    places = np.arange(cells)
    dense = rows[:, None] == places if isinstance(factor, nz.Identity) else rows[:, None] >= places
    wanted = dense_noise(release, dense.astype(float))
    np.testing.assert_allclose(release.answer(workload[0]).noise_error[rows], wanted, rtol=1e-6)


def test_what_is_too_large_is_called_approximate(
    plane: nz.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "EVERY_ROW", 1000)
    answer = plane.answer("all")
    assert answer.approximate
    assert "approximate noise" in answer.text(3)
    rows = np.unique(np.linspace(0, 719, estimates.SAMPLED).astype(int))
    exact = dense_noise(plane, plane.plan.workload[0].dense())
    np.testing.assert_allclose(answer.noise_error[rows], exact[rows], rtol=1e-6)


def test_errors_are_not_called_standard_errors(plane: nz.Release) -> None:
    with pytest.raises(AttributeError, match=r"\.estimated_error"):
        _ = plane.answer("all").std_error


# ---------------------------------------------------------------------- before the charge


def peak(function: Callable[[np.ndarray], np.ndarray], edges: np.ndarray) -> tuple[np.ndarray, int]:
    tracemalloc.start()
    try:
        found = function(edges)
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_own_rows_of_long_lines_need_no_square_of_the_cells() -> None:
    cells, edges = 20_000, np.linspace(0, 20_000, 41).astype(np.int64)
    schema = nz.Schema({"v": nz.Ordinal(range(cells))})
    rows = np.zeros((5, cells))
    for number in range(5):
        rows[number, 1000 * number : 9000 + 2100 * number] = 1
    few = nz.Workload([nz.Query(schema, {"v": nz.Custom(rows)})])
    found, most = peak(LineWorkload(few, ("v",), np.arange(cells)).gram, edges)
    seen = np.add.reduceat(rows, edges[:-1], axis=1) / np.diff(edges)
    np.testing.assert_allclose(found, seen.T @ seen, atol=1e-4)
    assert most < 10**8  # bytes; cells × cells are 3.2·10⁹
    many = nz.Workload([nz.Query(schema, {"v": nz.Levels(500, 1000)})])
    assert many.rows > cells
    found, most = peak(LineWorkload(many, ("v",), np.arange(cells)).gram, edges)
    stand_in = closed_gram(RangesMatrix(cells), edges)
    assert stand_in is not None
    np.testing.assert_allclose(found / found[0, 0], stand_in / stand_in[0, 0], rtol=1e-4)
    assert most < 10**8


@pytest.mark.parametrize("limit", [10**8, 10**4])
def test_budgets_are_shared_for_own_rows_as_for_the_same_rows_by_name(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All ranges, as such and as rows of one's own: the same diagonal, also by a stand-in."""
    monkeypatch.setattr(buckets, "LIMIT", limit)
    schema = nz.Schema({"v": nz.Ordinal(range(60))})
    rows = np.array([[a <= c <= b for c in range(60)] for a in range(60) for b in range(a, 60)])
    edges = np.array([0, 2, 30, 31, 60])
    order = np.arange(60)
    named, own = (
        LineWorkload(nz.Workload([nz.Query(schema, {"v": factor})]), ("v",), order)
        for factor in (nz.Ranges(), nz.Custom(rows.astype(float)))
    )
    np.testing.assert_allclose(own.diagonal(edges), named.diagonal(edges), rtol=1e-9)
    np.testing.assert_allclose(own.gram(edges), named.gram(edges), rtol=1e-9)


def test_huge_weights_count_by_their_proportion() -> None:
    def gram(first: float, second: float) -> np.ndarray:
        workload = nz.Workload(
            [
                nz.Query(LINE, {"v": nz.Prefix()}, weight=first, name="a"),
                nz.Query(LINE, {"v": nz.Identity()}, weight=second, name="b"),
            ]
        )
        line = LineWorkload(workload, ("v",), np.arange(128))
        edges = np.array([0, 5, 60, 128])
        return np.concatenate([line.gram(edges).ravel(), line.diagonal(edges)])

    np.testing.assert_allclose(gram(1e308, 5e307), gram(2.0, 1.0), rtol=1e-12)


def test_too_many_candidates_are_refused() -> None:
    schema = nz.Schema({"v": nz.Ordinal(range(2**17))})
    workload = nz.Workload([nz.Query(schema, {"v": nz.Prefix()})])
    with pytest.raises(PlanError, match="longest=228"):
        nz.plan(workload, budget=nz.PureDP(1.0), planner=Dawa(lengths="every"))
    short = Dawa(lengths="every", longest=228)
    assert nz.plan(workload, budget=nz.PureDP(1.0), planner=short).mechanism.settings == short


@pytest.mark.parametrize("budget", [nz.PureDP(1.0), nz.zCDP(0.5)])
@pytest.mark.parametrize("shape", ["even", "one cell", "two cells"])
def test_records_that_do_not_fit_are_refused_before_the_charge(
    budget: nz.PureDP | nz.zCDP, shape: str, tmp_path: Path
) -> None:
    plan = nz.plan(PREFIX, budget=budget, planner="dawa", noise="discrete")
    assert plan.mechanism.spending.selector.rate.largest > RECORDS  # the first step's integers
    most = RECORDS
    counts = np.zeros(128, dtype=np.int64)
    if shape == "even":
        counts[:] = most // 128
    elif shape == "one cell":
        counts[7] = most
    else:
        counts[[7, 90]] = most // 2
    release = plan.release(counts, seed=1)  # the most that is promised fits any partition
    assert np.isfinite(release.counts).all()
    counts[0] += most
    book = nz.Ledger(tmp_path / "ledger", create=True)
    book.open_dataset("people", nz.zCDP(10))
    with pytest.raises(DataError, match="Nothing was spent"):
        plan.release(counts, ledger=book, dataset="people")
    assert not book.entries("people")


def test_noise_that_cannot_be_drawn_is_refused_in_the_plan() -> None:
    with pytest.raises(PlanError, match="error_share="):
        nz.plan(PREFIX, budget=nz.PureDP(1e-3), planner=Dawa(error_share=1e-14), noise="discrete")


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_several_records_by_approximate_privacy(noise: str) -> None:
    budget = nz.ApproxDP(1.0, 1e-6)
    plan = nz.plan(PREFIX, budget=budget, planner="dawa", noise=noise, max_rows=3)
    assert plan.privacy.within(budget)
    assert plan.privacy.epsilon(1e-6) > 0.99


@pytest.mark.parametrize(("epsilon", "advice"), [(1e6, "lower the budget"), (1e-9, "raise")])
def test_advice_points_the_right_way(epsilon: float, advice: str) -> None:
    with pytest.raises(PlanError, match=advice):
        nz.plan(PREFIX, budget=nz.PureDP(epsilon), planner="dawa")


# ---------------------------------------------------------------------- settings


def test_numbers_of_any_kind_are_kept_as_plain_ones(tmp_path: Path) -> None:
    odd = Dawa(share=Fraction(1, 10), longest=np.int64(8), error_share=np.float32(0.25))  # type: ignore[arg-type]
    assert odd == Dawa(share=0.1, longest=8, error_share=0.25)
    assert [type(v) for v in (odd.share, odd.longest, odd.error_share)] == [float, int, float]
    plan = nz.plan(PREFIX, budget=nz.PureDP(1.0), planner=odd)
    plan.release(EVEN, seed=1).save(tmp_path / "out")
    assert nz.load(tmp_path / "out").plan.mechanism.settings == plan.mechanism.settings  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"lengths": "odd"}, "'powers'"),
        ({"longest": -1}, "number of cells"),
        ({"longest": 2.5}, "number of cells"),
        ({"share": "a tenth"}, "share is a part"),
        ({"share": float("nan")}, "share is a part"),
        ({"error_share": -0.1}, "error_share is a part"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Dawa(**wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- exact choices


def test_terms_far_apart_are_chosen_without_huge_integers() -> None:
    weights, exponents = [0.5, 1.0, 0.75], [-(10**15), 0, -(10**15)]
    last = (1 << 64) - 1
    assert _choose_exactly(weights, exponents, 1 << 63, SeededSource(1)) == 1
    assert _choose_exactly(weights, exponents, last, SeededSource(1)) == 1
    assert _choose_exactly(weights, exponents, 0, SeededSource(1)) == 1
    # Terms between: 2⁻¹⁰⁰ of the whole comes first, so that only a hundred zeros choose it.
    tiny = [1.0, 1.0], [-100, 0]
    assert _choose_exactly(*tiny, 0, Recorded(bytes(8))) == 0
    assert _choose_exactly(*tiny, 0, Recorded((1 << 40).to_bytes(8, "little"))) == 1


def test_valid_tables_are_refused_in_words() -> None:
    """Its answers agree already; what can be done instead is said."""
    schema = nz.Schema({"income": nz.Ordinal(range(16))})
    workload = nz.Workload([nz.Query(schema, {"income": nz.Prefix()})])
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner="dawa")
    release = plan.release(np.arange(16), seed=1)
    for refused in (release.valid, release.microdata):
        with pytest.raises(nz.NoiseplanError, match=r"release\.counts"):
            refused(total=3)
