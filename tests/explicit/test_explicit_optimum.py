"""The exact optimum of the total variance: against a semidefinite solver, and published values."""

from __future__ import annotations

import numpy as np
import pytest
from explicit_oracles import STUDENTS, kron, l2, least_total, marginals, prefix, ranges, total_error
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, seeds
from noiseplan.domain.gram import Reduction
from noiseplan.errors import NoiseplanError
from noiseplan.optimize.optimum import Optimum, dense_optimum


def svd_bound(workload: np.ndarray) -> float:
    return float(np.linalg.svd(workload, compute_uv=False).sum()) ** 2 / workload.shape[1]


def check(workload: np.ndarray, best: Optimum) -> None:
    """What the result says of itself is true."""
    assert l2(best.strategy) <= 1 + 1e-12
    truth = total_error(workload, best.strategy, 1.0)
    assert best.value == pytest.approx(truth, rel=1e-9)
    assert best.bound <= best.value * (1 + 1e-12)
    assert best.bound >= svd_bound(workload) * (1 - 1e-6)
    assert best.weights.sum() == pytest.approx(1.0)
    assert (best.weights >= 0).all()
    # The bound is ‖W Y^{1/2}‖²_* of the reported weights: anyone can recompute it.
    nuclear = np.linalg.svd(workload * np.sqrt(best.weights), compute_uv=False).sum()
    assert best.bound == pytest.approx(nuclear**2, rel=1e-7)


# Dissertation, recomputed: least total error of all ranges and of prefix sums.
ALL_RANGES = {
    2: 3.732051, 3: 8.739388, 4: 16.440887, 8: 80.464265, 16: 413.140217, 32: 2143.536706,
    64: 11024.381505, 256: 276929.3086,
}  # fmt: skip
PREFIX = {2: 2.618034, 3: 4.607862, 4: 6.874144, 8: 17.866177, 64: 282.201421, 256: 1631.403046}


@pytest.mark.parametrize("n", ALL_RANGES)
def test_all_ranges(n: int) -> None:
    i = np.arange(n)
    gram = (np.minimum.outer(i, i) + 1.0) * (n - np.maximum.outer(i, i))
    best = dense_optimum(gram, 1e-9)
    assert best.value == pytest.approx(ALL_RANGES[n], rel=2e-9, abs=1e-6)
    assert best.gap <= 1e-9
    if n <= 32:
        check(ranges(n), best)


@pytest.mark.parametrize("n", PREFIX)
def test_prefix(n: int) -> None:
    workload = np.tril(np.ones((n, n)))
    best = dense_optimum(workload.T @ workload, 1e-9)
    assert best.value == pytest.approx(PREFIX[n], rel=2e-9, abs=1e-6)
    assert best.gap <= 1e-9
    check(workload, best)


def test_two_prefix_sums_in_closed_form() -> None:
    best = dense_optimum(np.array([[2.0, 1.0], [1.0, 1.0]]), 1e-12)
    assert best.value == pytest.approx((3 + 5**0.5) / 2, rel=1e-11)
    cost = best.strategy.T @ best.strategy
    np.testing.assert_allclose(cost, [[1, (3 - 5**0.5) / 2], [(3 - 5**0.5) / 2, 1]], atol=1e-6)
    np.testing.assert_allclose(best.weights, [0.723607, 0.276393], atol=1e-5)


@pytest.mark.parametrize(
    ("workload", "value"),
    [
        (STUDENTS, 8.651232),
        (STUDENTS[1:4], 2 + 3**0.5),
        (np.array([[1.0, 1, 1], [0, 1, 1]]), 2.618034),
        (np.vstack([np.eye(9)[0], np.full(9, 0.12)]), 1.028598),
        (np.vstack([np.eye(16)[0], np.full(16, 0.1)]), 1.019902),
        (marginals((2, 3, 2), 2), 28.541780),
        (kron(*[ranges(2)] * 3), (2 + 3**0.5) ** 3),
    ],
)
def test_published_optima(workload: np.ndarray, value: float) -> None:
    best = dense_optimum(workload.T @ workload, 1e-9)
    assert best.value == pytest.approx(value, abs=1e-6)
    check(workload, best)


def _workload(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows, cells = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    workload = rng.integers(-1, 2, size=(rows, cells)).astype(float)
    workload[0, 0] = 1.0
    if seed % 3 == 1:
        workload *= 10.0 ** rng.uniform(-1, 1, cells)
    return workload


@pytest.mark.parametrize("seed", seeds(16))
def test_against_a_semidefinite_solver(seed: int) -> None:
    workload = _workload(seed)
    best = dense_optimum(workload.T @ workload, 1e-7)
    check(workload, best)
    assert best.gap <= 1e-7
    assert best.value == pytest.approx(least_total(workload), rel=3e-6)


@examples(60)
@given(st.integers(0, 10**6))
def test_properties(seed: int) -> None:
    workload = _workload(seed)
    gram = workload.T @ workload
    best = dense_optimum(gram, 1e-6)
    check(workload, best)
    assert best.gap <= 1e-6
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(gram))
    again = dense_optimum(gram[np.ix_(order, order)], 1e-6)
    assert again.value == pytest.approx(best.value, rel=2e-6)
    assert dense_optimum(9.0 * gram, 1e-6).value == pytest.approx(9.0 * best.value, rel=2e-6)
    more = dense_optimum(gram + np.outer(workload[-1], workload[-1]), 1e-6)
    assert more.value >= best.value * (1 - 2e-6)


def test_a_workload_of_low_rank() -> None:
    rng = np.random.default_rng(5)
    workload = rng.standard_normal((12, 12)) @ rng.standard_normal((12, 30))
    best = dense_optimum(workload.T @ workload, 1e-7)
    check(workload, best)
    assert best.gap <= 1e-7


def test_extreme_scales_stay_honest() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = int(rng.integers(2, 20))
        workload = rng.standard_normal((2 * n, n)) * 10.0 ** rng.uniform(-5, 5, n)
        best = dense_optimum(workload.T @ workload, 1e-7)
        # The shortest way from what is measured to what is asked is the best estimate's.
        truth = np.sum(np.linalg.lstsq(best.strategy.T, workload.T, rcond=1e-14)[0] ** 2)
        assert best.value == pytest.approx(truth, rel=1e-5)
        assert best.bound <= best.value


def test_mirror_symmetry_changes_nothing() -> None:
    for n in (5, 6):
        gram = ranges(n).T @ ranges(n)
        order = np.roll(np.arange(n), 1)
        split, whole = dense_optimum(gram, 1e-10), dense_optimum(gram[np.ix_(order, order)], 1e-10)
        np.testing.assert_allclose(
            (split.strategy.T @ split.strategy)[np.ix_(order, order)],
            whole.strategy.T @ whole.strategy,
            atol=1e-4,
        )
        assert split.value == pytest.approx(whole.value, rel=1e-9)
        check(ranges(n), split)


def test_products_of_optima_are_optimal() -> None:
    factors = [prefix(3), ranges(4)]
    parts = [dense_optimum(f.T @ f, 5e-10) for f in factors]
    value, bound = (np.prod([getattr(part, what) for part in parts]) for what in ("value", "bound"))
    whole = kron(*factors)
    assert value == pytest.approx(dense_optimum(whole.T @ whole, 1e-9).value, rel=1e-8)
    strategy = kron(*(part.strategy for part in parts))
    assert total_error(whole, strategy, l2(strategy)) == pytest.approx(value, rel=1e-9)
    assert bound <= value <= bound * (1 + 2e-9)
    assert value == pytest.approx(least_total(whole), rel=1e-5)


def test_the_gap_is_reported_at_every_step() -> None:
    gaps: list[float] = []
    best = dense_optimum(prefix(20).T @ prefix(20), 1e-8, watch=gaps.append)
    assert len(gaps) == best.steps
    assert gaps[-1] == pytest.approx(best.gap)
    assert best.gap <= 1e-8


def test_few_steps_still_give_a_valid_strategy() -> None:
    best = dense_optimum(prefix(20).T @ prefix(20), 1e-12, steps=2)
    check(prefix(20), best)
    assert best.gap > 1e-6


def test_zero_and_repeated_columns_are_free() -> None:
    small = prefix(3)
    wide = np.hstack([np.zeros((3, 1)), small, small[:, 1:2], small[:, 1:2]])
    best, wider = dense_optimum(small.T @ small, 1e-10), dense_optimum(wide.T @ wide, 1e-10)
    assert wider.value == pytest.approx(best.value, rel=1e-9)
    assert not wider.strategy[:, 0].any()
    np.testing.assert_array_equal(wider.strategy[:, 4], wider.strategy[:, 2])
    check(wide, wider)


@pytest.mark.parametrize(
    ("gram", "words"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[1.0, 1.0], [0.0, 1.0]]), "symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (np.zeros((2, 2)), "only zeros"),
    ],
)
def test_what_is_no_gram_matrix_is_refused(gram: np.ndarray, words: str) -> None:
    with pytest.raises(NoiseplanError, match=words):
        dense_optimum(gram)


def test_the_same_text_runs_on_another_array_library() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
    for workload in (prefix(12), ranges(9), marginals((2, 3), 1)):
        gram = workload.T @ workload
        ours = dense_optimum(gram, 1e-8)
        theirs = dense_optimum(torch.as_tensor(gram), 1e-8)
        assert theirs.value == pytest.approx(ours.value, rel=1e-8)
        check(workload, theirs)


class TestReduction:
    def test_students(self) -> None:
        """The example of the dissertation's section 2.1: eight cells are four."""
        reduction = Reduction.of_columns(STUDENTS)
        assert reduction.groups.tolist() == [0, 1, 0, 1, 2, 2, 3, 3]
        x = np.array([2.0, 0, 0, 1, 0, 1, 2, 0])
        assert reduction.counts(x).tolist() == [2, 1, 1, 2]
        small = reduction.columns(STUDENTS)
        assert small.tolist() == [
            [1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, -1],
        ]  # fmt: skip
        assert (small @ reduction.counts(x)).tolist() == (STUDENTS @ x).tolist() == [6, 3, 1, 2, -1]
        np.testing.assert_allclose(np.linalg.eigvalsh(small.T @ small), [1, 1, 2, 6])

    @given(st.integers(0, 10**6))
    @examples(50)
    def test_answers_do_not_change(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        workload = rng.integers(0, 2, size=(3, int(rng.integers(1, 20)))).astype(float)
        workload[0, 0] = 1.0
        reduction = Reduction.of_columns(workload)
        by_gram = Reduction.of_gram(workload.T @ workload)
        assert reduction.groups.tolist() == by_gram.groups.tolist()
        x = rng.integers(0, 9, workload.shape[1]).astype(float)
        small = reduction.columns(workload)
        np.testing.assert_array_equal(small @ reduction.counts(x), workload @ x)
        np.testing.assert_array_equal(reduction.widened(small), workload)
        np.testing.assert_array_equal(reduction.gram(workload.T @ workload), small.T @ small)
        columns = {tuple(c) for c in workload.T if c.any()}
        assert reduction.size == len(columns), "no two columns that are left are equal"
