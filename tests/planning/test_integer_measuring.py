"""Integer plans: exact residuals, overflow found, losses by rounding, errors as stated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats
from test_integer_privacy import OBJECTIVES, WORKLOADS, each_neighbours, each_workload

import noiseplan as nz
from depth import examples, seeds
from integer_oracles import Measured, all_counts, measured, true_variance
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import DataError, NoiseError, PlanError
from noiseplan.mechanisms.exact_residuals import (
    EXACT,
    LARGEST,
    RECORDS,
    integer_residuals,
    largest_entry,
)
from noiseplan.mechanisms.price import Note
from noiseplan.noise import Noise
from noiseplan.noise.moments import round_up
from noiseplan.noise.wide_integers import WideIntegers, wide
from noiseplan.optimize.integer_rounding import to_lattice
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.measured_numbers import MOST_LOSS, to_integers
from noiseplan.planning.solve import Aim, share_given_bases
from workloads import random_workload

ONE = nz.zCDP(0.5)
PREFIX3 = {"a": nz.Prefix(), "b": nz.Prefix(), "c": nz.Prefix()}


def prefix_cube(size: int = 3) -> nz.Workload:
    schema = nz.Schema.from_sizes(dict.fromkeys("abc", size))
    return nz.Workload([nz.Query(schema, PREFIX3), nz.Query(schema, ["a"])])


def discrete(workload: nz.Workload, **options: Any) -> nz.Plan:
    return nz.plan(workload, noise="discrete", **{"budget": ONE} | options)


# ---------------------------------------------------------------------- exact integers


@pytest.mark.few(9)
@each_workload
@pytest.mark.parametrize("planner", ["auto", "optimal"])
def test_measurements_are_exact_integers(name: str, planner: str) -> None:
    """Bx, digit by digit, up to tables of a hundred thousand million records."""
    plan = discrete(WORKLOADS[name], planner=planner)
    exact = Measured.of(plan)
    for limit in (1, 1000, 10**11):
        for counts in all_counts(plan.workload.schema.shape, limit, seed=limit % 97):
            assert measured(plan, counts) == exact.times([int(v) for v in counts.ravel()])


@pytest.mark.parametrize("bits", [53, 54, 60, 61])
def test_beyond_double_precision(bits: int) -> None:
    """Just below and above 2⁵³ and up to 2⁶²: still digit by digit."""
    plan = discrete(prefix_cube())
    exact = Measured.of(plan)
    entry = max(abs(v) for row in exact.rows for v in row)
    for records in (2**bits // entry - 1, 2**bits // entry + 3):
        for counts in all_counts(plan.workload.schema.shape, records, seed=bits):
            assert measured(plan, counts) == exact.times([int(v) for v in counts.ravel()])


def test_too_many_records_are_refused() -> None:
    """Beyond a number that is the same for all plans, and to the last record below it."""
    counts = np.zeros((3, 3, 3), dtype=np.int64)
    for plan in (discrete(prefix_cube()), discrete(prefix_cube(), planner="product")):
        counts[0, 0, 0] = RECORDS + 1
        with pytest.raises(DataError, match=r"more than 500,000,000,000 records, which is as many"):
            plan.release(CountTensor(plan.workload.schema, counts), seed=1)
        counts[0, 0, 0] = RECORDS
        plan.release(CountTensor(plan.workload.schema, counts), seed=1)


def matrices(draw: st.DrawFn) -> tuple[list[np.ndarray], np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    entries = st.integers(-(2**9), 2**9)
    rows = [
        np.array(draw(st.lists(st.lists(entries, min_size=n, max_size=n), min_size=1, max_size=3)))
        for n in sizes
    ]
    cells = math.prod(sizes)
    largest = st.integers(0, 2 ** draw(st.integers(1, 45)))
    flat = draw(st.lists(largest, min_size=2 * cells, max_size=2 * cells))
    return [r.astype(float) for r in rows], np.array(flat, dtype=np.int64).reshape(2, *sizes)


@examples(150)
@given(st.composite(matrices)())
def test_residuals_are_exact_whatever_their_size(case: tuple[list[np.ndarray], np.ndarray]) -> None:
    rows, counts = case
    reach = largest_entry(rows) * int(counts.reshape(2, -1).sum(axis=1).max())
    exact = [r.astype(int).astype(object) for r in rows]
    truth = np.moveaxis(counts.astype(object), 0, -1)
    for axis, u in enumerate(exact):
        truth = np.moveaxis(np.tensordot(u, truth, axes=(1, axis)), 0, axis)
    found = integer_residuals(rows, counts)
    assert (wide(found).python() == truth).all()
    if isinstance(found, WideIntegers):
        assert reach >= LARGEST * (1 - 1e-8)
    else:  # with noise below 2⁶² the sum fits
        assert np.abs(truth).max(initial=0) < LARGEST


def test_sums_that_wrap_are_found() -> None:
    """Two counts of 2⁶² add up to −2⁶³ in 64 bits; the check must not believe it."""
    rows = [np.array([[1.0, 1.0]])]
    for counts in ([2**62, 2**62], [2**63 - 1, 2**63 - 1], [-(2**62), 2**62 - 1]):
        with pytest.raises(DataError, match="do not fit"):
            integer_residuals(rows, np.array([counts], dtype=np.int64))
    with pytest.raises(DataError, match="do not fit"):
        integer_residuals(rows, np.array([[2**63, 2**63]], dtype=np.uint64))


@pytest.mark.parametrize("bad", [0.5, 1 + 1e-9, math.nan, math.inf])
def test_counts_that_are_no_counts_are_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"whole numbers|do not fit"):
        integer_residuals([np.eye(2)], np.array([[1.0, bad]]))
    whole = integer_residuals([np.eye(2)], np.array([[1.0, 2.0]]))
    assert whole[:, 0].tolist() == [1, 2]


def test_the_largest_residual_and_the_largest_noise_fit() -> None:
    assert np.iinfo(np.int64).max >= 2 * (LARGEST - 1)  # residuals and draws stay below LARGEST
    assert 2.0**53 == EXACT == EXACT + 1.0, "from here on not every integer is a double"


# ---------------------------------------------------------------------- when numbers do not fit


def test_noise_too_wide_is_refused_when_planning() -> None:
    with pytest.raises(PlanError, match="too large to be drawn in integers"):
        discrete(all_prefixes(10, 12), budget=nz.zCDP(1e-119))
    for rho in (1e-12, 1e-25, 1e-80):
        discrete(prefix_cube(), budget=nz.zCDP(rho))


def all_prefixes(size: int, ways: int) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"x{i}": size for i in range(ways)})
    return nz.Workload([nz.Query(schema, dict.fromkeys(schema.names, nz.Prefix()))])


def test_too_many_ways_are_refused_when_planning() -> None:
    with pytest.raises(PlanError, match="plan tables of fewer attributes"):
        discrete(all_prefixes(4, 60), planner="product")


@pytest.mark.parametrize(("size", "ways"), [(10, 6), (10, 8), (10, 10), (4, 10), (3, 14)])
def test_rounding_costs_little_however_many_ways(size: int, ways: int) -> None:
    """0.1 % is promised, where products of entries need more than 64 bits as well."""
    asked = all_prefixes(size, ways)
    plan = discrete(asked)
    assert plan.rounding_loss < 1e-3
    continuous = nz.plan(asked, budget=ONE, noise="gaussian", planner="residual")
    assert plan.total_variance < 1.001 * continuous.total_variance


@pytest.fixture(scope="module")
def wide_plan() -> nz.Plan:
    """Prefix sums of seven attributes: numbers and noise that 64 bits do not hold."""
    plan = discrete(all_prefixes(3, 7), budget=nz.zCDP(1e-8))
    assert plan.mechanism.noise.wide
    return plan


def test_wide_plans_measure_exact_integers(wide_plan: nz.Plan) -> None:
    """Every set of attributes in Python's integers, at 2³¹ records and the most there may be."""
    schema, blocks = wide_plan.workload.schema, wide_plan.mechanism.blocks.blocks
    noted: list[np.ndarray] = []

    def sample(size: tuple[int, ...], noise: Noise) -> Note:
        return Note.of(np.broadcast_to(noise.size, size), lambda n, _: noted.append(n))

    for records in (1, 2**31, RECORDS):
        noted.clear()
        counts = np.random.default_rng(3).multinomial(records, np.full(3**7, 3.0**-7))
        counts = counts.reshape(schema.shape)
        wide_plan.mechanism.measure(CountTensor(schema, counts).marginals, sample)
        assert len(noted) == len(blocks)
        for block, numbers in zip(blocks, noted, strict=True):
            for k, attributes in enumerate(block.sets.tolist()):
                out = tuple(set(range(7)) - set(attributes))
                expected = counts.sum(axis=out).astype(object)
                for axis, basis in enumerate(block.axes):
                    rows = np.asarray(basis.measure).astype(int).astype(object)
                    expected = np.moveaxis(np.tensordot(rows, expected, (1, axis)), 0, axis)
                assert (numbers[..., k] == expected).all()


def test_wide_plans_cost_what_they_say(wide_plan: nz.Plan) -> None:
    """ρ = ½ max_x Σ_A ∏_i ‖U_i e_x‖²/σ²_A in exact fractions, over all 2,187 kinds of records."""
    spent = np.full((3,) * 7, Fraction(0), dtype=object)
    for block in wide_plan.mechanism.blocks.blocks:
        rows = [np.asarray(basis.measure).astype(int).astype(object) for basis in block.axes]
        squares = [(u * u).sum(axis=0) for u in rows]
        for attributes, sigma2 in zip(block.sets.tolist(), block.sigma2.tolist(), strict=True):
            place = dict(zip(attributes, squares, strict=True))
            each = np.array(Fraction(1, 2) / Fraction(sigma2), dtype=object)
            for i in range(7):
                each = np.multiply.outer(each, place.get(i, np.ones(3, dtype=int).astype(object)))
            spent = spent + each
    assert spent.max() <= Fraction(wide_plan.privacy.rho) <= Fraction(1e-8)
    assert float(spent.max()) == pytest.approx(1e-8, rel=1e-9)


def test_wide_plans_release_what_they_state(wide_plan: nz.Plan) -> None:
    """Errors of 2,187 answers to 2³¹ records: their mean square, and the largest of them."""
    (query,) = wide_plan.workload
    counts = np.random.default_rng(5).multinomial(2**31, np.full(3**7, 3.0**-7))
    data = CountTensor(wide_plan.workload.schema, counts.reshape((3,) * 7))
    truth = query.dense() @ counts
    errors = [wide_plan.release(data, seed=s).answer(query).estimate - truth for s in range(40)]
    scaled = np.array(errors) / np.sqrt(wide_plan.variance(query))
    assert (scaled**2).mean() == pytest.approx(1.0, abs=0.1)
    assert np.abs(scaled).max() < 6.5


def test_five_way_tables_fit() -> None:
    """Fewer bits where more attributes are multiplied: millions of records fit 64 bits."""
    schema = nz.Schema.from_sizes({f"x{i}": 10 for i in range(5)})
    plan = discrete(
        nz.Workload.marginals(schema, k=5, factors=dict.fromkeys(schema.names, nz.Prefix()))
    )
    entry = max(largest_entry([b.measure for b in block.bases]) for block in plan.mechanism.blocks)
    assert entry * 10**7 < LARGEST
    assert plan.rounding_loss < 1e-3
    small = nz.plan(plan.workload, budget=nz.zCDP(1e-4), noise="discrete")
    assert small.rounding_loss < 1e-3


def test_a_variance_that_cannot_be_drawn_is_not_drawn() -> None:
    from noiseplan.noise import ExactSampler, Noise, SystemSource

    for variance in (math.inf, math.nan, -1.0, 2.0**481):
        with pytest.raises(NoiseError):
            ExactSampler("gaussian", SystemSource())((2, 1), Noise("gaussian", variance, True))


# ---------------------------------------------------------------------- what rounding costs


def value(plan: nz.Plan, objective: str) -> float:
    rows = np.concatenate([q.weight * plan.variance(q) for q in plan.workload])
    means = np.array([q.weight * plan.variance(q).mean() for q in plan.workload])
    return {
        "total": float(rows.sum()),
        "worst": float(rows.max()),
        "3-norm": float((rows**3).sum() ** (1 / 3)),
        "squares": float((means**2).sum() ** 0.5),
    }[objective]


COSTLY = [name for name in WORKLOADS if name not in ("only one value", "contrasts only")]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", COSTLY)
@pytest.mark.parametrize(
    ("objective", "neighbours"),
    [("total", "add-remove"), ("total", "replace"), ("worst", "add-remove"), ("3-norm", "replace")],
)
def test_rounding_costs_less_than_a_thousandth(name: str, objective: str, neighbours: str) -> None:
    options: dict[str, Any] = {
        "budget": nz.zCDP(0.01), "objective": OBJECTIVES[objective], "neighbours": neighbours
    }  # fmt: skip
    plan = nz.plan(WORKLOADS[name], noise="discrete", **options)
    continuous = nz.plan(WORKLOADS[name], noise="gaussian", **options)
    loss = value(plan, objective) / value(continuous, objective) - 1
    assert loss < 1e-3
    # The optimum for replaced records is searched for twice, to a gap.
    near = 1e-7 if neighbours == "replace" else 1e-9
    assert plan.rounding_loss == pytest.approx(loss, abs=near)
    assert plan.rounding_loss <= MOST_LOSS


def test_the_loss_is_shown() -> None:
    plan = discrete(WORKLOADS["prefix"])
    assert plan.rounding_loss > 1e-5
    assert f"costs {100 * plan.rounding_loss:.1g}% of variance" in str(plan)


@pytest.mark.parametrize("seed", seeds(12))
def test_rounding_of_random_workloads(seed: int) -> None:
    asked = random_workload(seed, several=bool(seed % 2))
    plan, continuous = (
        nz.plan(asked, budget=nz.zCDP(0.01), noise=noise) for noise in ("discrete", "gaussian")
    )
    assert plan.total_variance / continuous.total_variance - 1 < 1e-3


@examples(60)
@given(st.integers(2, 12), st.integers(0, 10**6), st.sampled_from([5, 8, 11]))
def test_lattices_keep_lengths_and_directions(size: int, seed: int, bits: int) -> None:
    unit = np.random.default_rng(seed).normal(size=(size - 1, size))
    unit /= np.sqrt((unit**2).sum(axis=0))
    found = to_lattice(unit, 2.0**bits)
    assert (found == np.rint(found)).all()
    assert np.abs(found).max() <= 2**bits + 1
    squares = (found**2).sum(axis=0)
    scale = math.sqrt(squares.max())
    # No column falls short by more than one entry's step, no entry is off by more than two.
    assert (squares >= squares.max() - 4 * scale).all()
    assert np.abs(found - scale * unit).max() <= 2.5


def test_lattices_of_two_values_are_exact() -> None:
    assert to_lattice(np.array([[0.3, -0.3]]), 256.0).tolist() == [[1.0, -1.0]]


def test_variances_are_rounded_up() -> None:
    values = np.array([1.0, 1 + 2.0**-50, 3e40, 5e-324, 0.0, np.inf])
    found = round_up(values, 13)
    assert (found >= values).all()
    assert (found[:4] <= values[:4] * (1 + 2.0**-12)).all()
    assert found[[0, 4, 5]].tolist() == [1.0, 0.0, np.inf]
    for x in found[:4]:
        odd = Fraction(float(x)).numerator
        assert (odd // (odd & -odd)).bit_length() <= 13


def test_the_fewest_bits_that_do() -> None:
    plan = discrete(prefix_cube())
    aim = Aim(plan.design, nz.TotalVariance(), 1.0)
    solution = share_given_bases(aim, optimise_total(plan.design))
    losses = {b: to_integers(aim, solution, (b,)).loss for b in range(4, 13)}
    chosen = to_integers(aim, solution)
    assert chosen.loss == losses[chosen.bits]
    assert all(losses[b] > 3e-4 for b in range(4, chosen.bits))


# ---------------------------------------------------------------------- errors as they are


@pytest.mark.few(3)
@each_neighbours
@each_workload
@pytest.mark.parametrize("rho", [0.05, 40.0])
def test_variances_are_those_of_the_discrete_noise(name: str, neighbours: str, rho: float) -> None:
    plan = discrete(WORKLOADS[name], budget=nz.zCDP(rho), neighbours=neighbours)
    exact = Measured.of(plan)
    w = np.vstack([query.dense() for query in plan.workload])
    truth = exact.covariance(w)
    queries = list(plan.workload)
    found = np.block([[plan.covariance(p, q) for q in queries] for p in queries])
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())
    variances = np.concatenate([plan.variance(query) for query in queries])
    np.testing.assert_allclose(variances, np.diagonal(truth), rtol=1e-9, atol=1e-15 * truth.max())


def test_the_gap_between_parameter_and_variance_is_seen() -> None:
    """At σ² = 1/4 the discrete Gaussian has a variance of 0.215; the plan says so."""
    schema = nz.Schema.from_sizes({"a": 2})
    plan = discrete(nz.Workload([nz.Query(schema, ["a"])]), budget=nz.zCDP(6.0))
    exact = Measured.of(plan)
    assert min(exact.sigma2) < 1
    naive = [float(s) for s in exact.sigma2]
    true = [true_variance(s) for s in exact.sigma2]
    assert max(n / t for n, t in zip(naive, true, strict=True)) > 1.01
    assert plan.variance(nz.Query(schema, ["a"])).sum() == pytest.approx(
        float(np.trace(exact.covariance(np.eye(2)))), rel=1e-9
    )


RELEASES = 500
COUNTS = np.array([[5, 0], [3, 9], [0, 2]])
# Each row, and each sum of two rows.
PAIRS = np.vstack([np.eye(9), np.eye(9) + np.eye(9, k=1)])[:-1]


def small_plan(**options: Any) -> nz.Plan:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    prefixes = nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()})
    return discrete(nz.Workload([prefixes, nz.Query(schema, ["a"])]), **options)


def released_errors(plan: nz.Plan) -> np.ndarray:
    """Releases × pairs of rows."""
    data, asked = CountTensor(plan.workload.schema, COUNTS), list(plan.workload)
    truth = np.concatenate([q.dense() @ COUNTS.ravel() for q in asked])
    releases = (plan.release(data, seed=seed) for seed in range(RELEASES))
    answers = [np.concatenate([r.answer(q).estimate for q in asked]) for r in releases]
    return (np.array(answers) - truth) @ PAIRS.T


@pytest.mark.few(1)
@each_neighbours
def test_released_answers_have_the_stated_errors(neighbours: str) -> None:
    """500 releases: bias and variance of each row, and of each sum of two rows.

    A right implementation fails a check with probability below 10⁻⁶ (and the seeds are fixed);
    noise 20 % too large or small is found with probability above 0.99.
    """
    plan = small_plan(budget=nz.zCDP(0.2), neighbours=neighbours)
    queries = list(plan.workload)
    covariance = np.block([[plan.covariance(p, q) for q in queries] for p in queries])
    spread = np.einsum("ri,ij,rj->r", PAIRS, covariance, PAIRS)
    error, noisy = released_errors(plan), spread > 1e-12
    assert np.abs(error[:, ~noisy]).max(initial=0.0) < 1e-9
    seen = error[:, noisy] / np.sqrt(spread[noisy])
    assert np.abs(seen.mean(axis=0)).max() < 5.5 / math.sqrt(RELEASES)
    low, high = stats.chi2.ppf([1e-8, 1 - 1e-8], RELEASES) / RELEASES
    squares = (seen**2).mean(axis=0)
    assert low * 0.9 < squares.min()
    assert squares.max() < high * 1.1


@dataclass(frozen=True)
class SumLaw:
    """Σ c_j z_j for discrete Gaussians z_j: those of σ² ≤ 10 enumerated, the others normal.

    From there on all moments are those of a normal law to 10⁻⁸⁰. Values of a chance below 10⁻¹⁵
    are left out.
    """

    values: np.ndarray
    chances: np.ndarray
    normal: float  # the variance of the normal part

    @classmethod
    def of(cls, coefficients: np.ndarray, sigma2: list[float]) -> SumLaw:
        values, chances, normal, k = np.zeros(1), np.ones(1), 0.0, np.arange(-60.0, 61.0)
        for c, parameter in zip(coefficients, sigma2, strict=True):
            if parameter > 10:
                normal += c**2 * parameter
                continue
            mass = np.exp(-(k**2) / (2 * parameter))
            likely = mass > 1e-16
            sums = np.add.outer(values, c * k[likely]).ravel().round(9)
            values, which = np.unique(sums, return_inverse=True)
            each = np.bincount(which, np.outer(chances, mass[likely] / mass.sum()).ravel())
            values, chances = values[each > 1e-15], each[each > 1e-15]
        assert chances.sum() == pytest.approx(1.0, abs=1e-9)
        return cls(values, chances, normal)

    @property
    def variance(self) -> float:
        return float(self.chances @ self.values**2) + self.normal

    def generating(self, power: int, t: float) -> float:
        """log E exp(t·Xᵖ): of X = F + G, log E e^(tF) + ½t²g², and of its square
        log E exp(tF²/(1 − 2tg²)) − ½ log(1 − 2tg²)."""
        if power == 1:
            return (
                float(special.logsumexp(t * self.values, b=self.chances)) + t**2 * self.normal / 2
            )
        left = 1 - 2 * t * self.normal
        return (
            float(special.logsumexp(t * self.values**2 / left, b=self.chances)) - math.log(left) / 2
        )

    def surprise(self, power: int, mean: float) -> float:
        """−log of a bound on the chance that so many releases have this mean of Xᵖ, or one further
        off: P(mean ≥ m) ≤ e^(−nI(m)), I(m) = max tm − log E exp(tXᵖ); below as well."""
        unit = self.variance ** (-power / 2)
        top = 50 * unit if power == 1 else min(50 * unit, 0.499 / (self.normal or 1e-300))
        found = optimize.minimize_scalar(
            lambda t: self.generating(power, t) - t * mean,
            bounds=(-50 * unit, top),
            method="bounded",
        )
        return -RELEASES * float(found.fun)


@pytest.mark.few(1)
@pytest.mark.parametrize(("rho", "planner"), [(30.0, "residual"), (6.0, "auto")])
@each_neighbours
def test_faint_noise_has_its_law(neighbours: str, rho: float, planner: str) -> None:
    """500 releases where some noise is of less than one count, and few numbers have any.

    The mean error of each row and pair, and its mean square, against the exact law: sums of
    independent discrete Gaussians. A right implementation fails a check with probability below
    10⁻⁸.
    """
    plan = small_plan(budget=nz.zCDP(rho), neighbours=neighbours, planner=planner)
    exact = Measured.of(plan)
    weights = exact.estimator(np.vstack([q.dense() for q in plan.workload]))
    sigma2 = [float(s) for s in exact.sigma2 if s > 0]
    assert min(sigma2) < 2
    for row, error in zip(PAIRS @ weights, released_errors(plan).T, strict=True):
        law = SumLaw.of(row, sigma2)
        if law.variance < 1e-12:  # nothing of it is noisy
            assert np.abs(error).max() < 1e-9
            continue
        for power in (1, 2):
            assert law.surprise(power, float((error**power).mean())) < -math.log(1e-8)


def test_wrong_faint_noise_would_be_found() -> None:
    """Half as much again, or a third less, moves the mean square of some row too far."""
    exact = Measured.of(plan := small_plan(budget=nz.zCDP(30), planner="residual"))
    weights = PAIRS @ exact.estimator(np.vstack([q.dense() for q in plan.workload]))
    right = [float(s) for s in exact.sigma2]
    for factor in (2 / 3, 1.5):
        found = [
            SumLaw.of(row, right).surprise(2, SumLaw.of(row, [factor * s for s in right]).variance)
            for row in weights
        ]
        assert max(found) > -math.log(1e-8)
