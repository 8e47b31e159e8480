"""Strategies with structure against explicit matrices: moments, answers, designs."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_oracles import (
    brute_variances,
    gram_of,
    rappor_table,
    subset_table,
    tightest_epsilon,
    workload,
)

from depth import examples
from noiseplan.errors import UnanswerableError
from noiseplan.local.strategies import classical
from noiseplan.local.strategies.shifts import (
    Group,
    ShiftStrategy,
    affine_design,
    groups_of,
    prime_power,
)
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.local.strategies.subsets import histogram_size, rappor, subset_selection


def agree(
    structured: Strategy, explicit: TableStrategy, tally: np.ndarray, flat: np.ndarray
) -> None:
    """Every question answered alike."""
    n = structured.types
    rng = np.random.default_rng(5)
    assert structured.information == pytest.approx(explicit.information)
    rows = rng.standard_normal((4, n))
    assert structured.coefficients(rows) == pytest.approx(explicit.coefficients(rows))
    left, right = rng.standard_normal((2, 3, n))
    assert structured.moments(left) == pytest.approx(explicit.moments(left))
    counts = rng.random(n) * 100
    crossed = structured.cross_moments(left, right, counts)
    assert crossed == pytest.approx(explicit.cross_moments(left, right, counts))
    apart = structured.moments(left + right) - structured.moments(left - right)
    assert np.diagonal(crossed) == pytest.approx(apart @ counts / 4)
    gram = rows.T @ rows
    assert structured.total_moments(gram) == pytest.approx(explicit.total_moments(gram))
    assert structured.evidence(tally) == pytest.approx(explicit.evidence(flat))
    assert structured.estimate(tally) == pytest.approx(explicit.estimate(flat))
    assert structured.tells_all_apart


@pytest.mark.parametrize(("n", "size"), [(5, 1), (5, 2), (6, 3), (4, 3), (8, 2)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_subset_selection(n: int, size: int, epsilon: float) -> None:
    table = subset_table(n, size, epsilon)
    strategy = subset_selection(n, epsilon, size)
    assert strategy.outputs == len(table) == comb(n, size)
    tally = np.random.default_rng(0).integers(0, 50, len(table))
    held = table > table.min()
    counted = np.concatenate([[tally.sum()], tally @ held])[None, :]
    agree(strategy, TableStrategy.of(table, epsilon), counted, tally)


@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_rappor(n: int, epsilon: float) -> None:
    table = rappor_table(n, epsilon)
    strategy = rappor(n, epsilon)
    assert strategy.outputs == 2**n
    tally = np.random.default_rng(1).integers(0, 50, 2**n)
    bits = (np.arange(2**n)[:, None] >> np.arange(n)[::-1]) & 1
    counted = np.zeros((n + 1, n + 1), dtype=np.int64)
    for k in range(n + 1):
        mine = bits.sum(axis=1) == k
        counted[k] = np.concatenate([[tally[mine].sum()], tally[mine] @ bits[mine]])
    agree(strategy, TableStrategy.of(table, epsilon), counted, tally)


@pytest.mark.parametrize("shape", [(6,), (2, 2, 2), (3, 4), (5, 2)])
def test_shifts(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    group = Group(shape)
    patterns = rng.random((5, group.size)) < 0.35
    strategy = ShiftStrategy(group, patterns, rng.dirichlet(np.ones(5)), 1.0)
    table = strategy.table()
    assert table.sum(axis=0) == pytest.approx(np.ones(group.size))
    assert tightest_epsilon(table) <= 1 + 1e-12
    tally = rng.integers(0, 50, patterns.shape)
    agree(strategy, TableStrategy.of(table, 1.0), tally, tally.ravel())


def test_shifted_workloads_are_recognised() -> None:
    assert Group((2, 2, 2)).leaves_alike(gram_of(workload("all marginals", 8)))
    assert Group((2, 2, 2)).leaves_alike(gram_of(workload("parity up to 3", 8)))
    assert Group((8,)).leaves_alike(np.eye(8))
    assert not Group((8,)).leaves_alike(gram_of(workload("prefix", 8)))
    assert not Group((2, 2)).leaves_alike(np.eye(8))
    assert groups_of((8,)) == [Group((2, 2, 2)), Group((8,))]
    assert groups_of((3, 4)) == [Group((3, 4))]
    assert groups_of((2, 2)) == [Group((2, 2))]


def test_eigenvalues_of_any_gram_matrix_are_forms_in_characters() -> None:
    gram = gram_of(workload("prefix", 8))
    signs = classical.sylvester(8)
    forms = np.einsum("ij,jk,ik->i", signs, gram, signs) / 8
    assert Group((2, 2, 2)).eigenvalues(gram) == pytest.approx(forms)


@pytest.mark.parametrize("name", ["all marginals", "3-way", "parity up to 3", "parity 3"])
def test_variances_of_shifts_are_those_of_the_table(name: str) -> None:
    gram = gram_of(workload(name, 16))
    rng = np.random.default_rng(0)
    strategy = ShiftStrategy(
        Group((2,) * 4), rng.random((9, 16)) < 0.3, rng.dirichlet(np.ones(9)), 1.0
    )
    assert strategy.total_moments(gram) == pytest.approx(
        TableStrategy.of(strategy.table(), 1.0).total_moments(gram)
    )


def test_shifts_refuse_what_they_do_not_measure() -> None:
    flat = ShiftStrategy(Group((4,)), np.array([[True, False, True, False]]), np.ones(1), 1.0)
    with pytest.raises(UnanswerableError):
        flat.total_moments(np.eye(4))
    with pytest.raises(UnanswerableError):
        flat.coefficients(np.eye(4))
    assert not flat.tells_all_apart


# ------------------------------------------------------------------------------ designs


@examples(60)
@given(st.integers(2, 400))
def test_prime_powers(number: int) -> None:
    primes = [p for p in range(2, number + 1) if all(p % q for q in range(2, p))]
    powers = {p**r: (p, r) for p in primes for r in range(1, 10) if p**r <= number}
    assert prime_power(number) == powers.get(number)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 9, 11, 16, 25, 27, 32, 49])
def test_designs_hold_every_pair_equally_often(n: int) -> None:
    for size in {1, max(n // 3, 1), n - 1}:
        found = affine_design(n, size)
        assert found is not None
        group, shapes = found
        assert (shapes.sum(axis=1) == size).all()
        blocks = shapes[:, group.differences].reshape(-1, n).astype(int)
        together = blocks.T @ blocks
        assert len(blocks) == n * (n - 1)
        assert len(set(np.diagonal(together).tolist())) == 1
        assert len(set(together[~np.eye(n, dtype=bool)].tolist())) <= 1


def test_a_design_is_as_good_as_all_subsets() -> None:
    for n in (8, 9, 13):
        k = histogram_size(n, 1.0)
        found = affine_design(n, k)
        assert found is not None
        design = ShiftStrategy(*found, np.full(n - 1, 1 / (n - 1)), 1.0)
        every = subset_selection(n, 1.0, k)
        assert design.total_moments(np.eye(n)) == pytest.approx(every.total_moments(np.eye(n)))
    assert affine_design(12, 3) is None


# ------------------------------------------------------------------------------ classical tables


@pytest.mark.parametrize("epsilon", [0.2, log(2), 1.0, 2.5, 4.0])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 12, 16])
def test_classical_mechanisms_are_private_and_unbiased(n: int, epsilon: float) -> None:
    makers = [
        classical.randomized_response, classical.hadamard, classical.hadamard_blocks,
        classical.hierarchical,
    ]  # fmt: skip
    tables = [make(n, epsilon) for make in makers]
    if n in (2, 8, 16):
        tables.append(classical.fourier(n, epsilon))
        tables.append(classical.weighted_fourier(n, epsilon, gram_of(workload("prefix", n))))
    for table in tables:
        strategy = TableStrategy.of(table, epsilon)  # checks chances and ε
        rows = np.tril(np.ones((n, n)))
        found = strategy.total_moments(rows.T @ rows) - (rows**2).sum(axis=0)
        assert found == pytest.approx(brute_variances(table, rows), rel=1e-8, abs=1e-8)


def test_weighted_fourier_has_its_closed_form() -> None:
    for name in ("prefix", "ranges", "all marginals"):
        gram = gram_of(workload(name, 16))
        table = classical.weighted_fourier(16, 1.0, gram)
        kappa = ((np.e + 1) / (np.e - 1)) ** 2
        g = Group((2,) * 4).eigenvalues(gram)
        expected = gram.sum() / 16 + kappa * np.sqrt(g[1:]).sum() ** 2
        assert TableStrategy.of(table, 1.0).total_moments(gram).sum() == pytest.approx(expected)
