"""Noise within a budget: sizes of few bits that spend it, and the exact cost they have."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from noiseplan.arrays import all_whole
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.pair_distances import columns_apart
from noiseplan.noise import Noise
from noiseplan.noise.moments import FINE_BITS, size_above, sizes_above
from noiseplan.planning.measured_numbers import Numbers
from noiseplan.planning.problem import Problem
from noiseplan.privacy import Guarantee, Neighbours
from noiseplan.privacy.rounding import fraction_up, margin, product_up, sum_up
from noiseplan.schema import Schema


def laplace_within(problem: Problem, norm: Fraction) -> tuple[Noise, Guarantee]:
    """Laplace noise of one scale on every row that spends the budget, and what it costs.

    `norm` is the largest L1 norm of a column, or of a difference of two: ε is this over the scale.
    """
    require_change(norm)
    scales = scales_within([norm], [1], np.ones(1), problem.epsilon)
    privacy = Guarantee.pure(epsilon_of([norm], [1], scales), problem.neighbours)
    return problem.drawn.of_size(scales).require_drawable(), privacy


def gaussian_within(problem: Problem, norm: Fraction) -> tuple[Noise, Guarantee]:
    """The same of Gaussian noise: `norm` is the largest squared length, 2ρ is this over σ²."""
    require_change(norm)
    assert problem.allowed is not None  # there is a budget
    # The quotient rounded up, and a hair more.
    sigma2 = size_above(float(norm) / problem.allowed * (1 + 1e-14))
    cost = fraction_up(norm / Fraction(sigma2))
    noise = problem.drawn.of_size(sigma2).require_drawable()
    return noise, Guarantee(cost, noise.accounting, problem.neighbours)


def require_change(norm: Fraction | float) -> None:
    """Refuse to look for noise where no record changes anything."""
    if norm == 0:
        raise PlanError(
            "nothing that is asked depends on whose record is replaced, so there is nothing to "
            "add noise to: ask for more, or use " + setting("planner", "auto")
        )


# ---------------------------------------------------------------------- Laplace noise


def scales_within(
    norms: Sequence[Fraction], counts: Sequence[int], shares: Array, epsilon: float
) -> Array:
    """The scale b of each type of table, from its share of ε; infinite where it has none.

    Tables of a type have the L1 norm q and there are N of them: b = N q/(share · ε), rounded up to
    a number of a few bits. What all of them cost is then at most ε, to the last digit.
    """
    with np.errstate(divide="ignore"):
        prices = np.array([float(n * q) for n, q in zip(counts, norms, strict=True)])
        wanted = prices / (shares * epsilon)
    for extra in (0.0, 1e-15, 1e-14, 1e-12, 1e-9):  # rounding of shares and quotients
        scales = sizes_above(wanted * (1 + extra))
        if epsilon_of(norms, counts, scales) <= epsilon:
            return scales
    raise PlanError(f"no noise scales were found within ε = {epsilon}: this is a bug")


def epsilon_of(norms: Sequence[Fraction], counts: Sequence[int], scales: Array) -> float:
    """ε = Σ N q/b, every quotient and the sum rounded up.

    One record is in one cell of every table; the column of ⊗S_i for its cell has the L1 norm
    ∏ ‖column of S_i‖₁, which is largest for a record that has the dearest value of every attribute,
    for all tables at once. So the sum of the tables' norms over their scales is the exact ε.
    """
    return sum_up(
        fraction_up(Fraction(n) * q / Fraction(float(b)))
        for n, q, b in zip(counts, norms, scales, strict=True)
        if np.isfinite(b)
    )


def largest_norm(matrix: Array) -> Fraction:
    """max_j Σ_r |A_rj|: exact for integers, rounded up otherwise."""
    size = np.abs(matrix)
    if all_whole(size) and size.max() * len(size) < 2**53:
        return Fraction(int(size.sum(axis=0).max()))
    near = size.sum(axis=0)
    close = np.flatnonzero(near >= near.max() * (1 - 1e-9))  # one of these has the largest
    return Fraction(max(sum_up(size[:, j].tolist()) for j in close))


def largest_change(matrix: Array, neighbours: Neighbours) -> Fraction:
    """The same, or of a difference of two columns where one record replaces another."""
    if neighbours == "add-remove":
        return largest_norm(matrix)
    apart = columns_apart(matrix, 1)
    whole = all_whole(matrix) and apart < 2**53
    return Fraction(apart) * (1 if whole else 1 + Fraction(margin(len(matrix))))


# ---------------------------------------------------------------------- one matrix, Gaussian noise


def matrix_mechanism(
    schema: Schema,
    strategy: Array,
    budget: float,
    numbers: Numbers,
    neighbours: Neighbours = "add-remove",
) -> tuple[DenseMechanism, float]:
    """The mechanism that spends a budget, and its cost: the largest squared column over σ²."""
    strategy = numbers.strategy(strategy)
    largest = largest_square(strategy, neighbours)
    if largest == 0:
        raise PlanError(
            "no record that is replaced changes any of these numbers, so there is no noise to "
            "find: use " + setting("planner", "auto") + ", which tells them exactly"
        )
    return _with_noise(schema, strategy, largest / budget, numbers, neighbours)


def mechanism_at(
    schema: Schema, strategy: Array, sigma2: float, numbers: Numbers
) -> tuple[DenseMechanism, float]:
    """The mechanism with noise of at most σ² on (already integer) rows, and its cost."""
    # Two steps of the last bit down, at most one up again.
    return _with_noise(schema, strategy, sigma2 * (1.0 - 2.0 ** (2 - FINE_BITS)), numbers)


def _with_noise(
    schema: Schema,
    strategy: Array,
    sigma2: float,
    numbers: Numbers,
    neighbours: Neighbours = "add-remove",
) -> tuple[DenseMechanism, float]:
    over = margin(len(strategy))
    sigma2 = size_above(sigma2 * (1 + 2 * over))
    noise = numbers.noise(sigma2).require_drawable()
    mechanism = DenseMechanism(schema, strategy, noise)
    return mechanism, product_up(largest_square(strategy, neighbours) / sigma2, 1 + over)


def largest_square(strategy: Array, neighbours: Neighbours) -> float:
    """The largest squared length of a column, or of a difference of two."""
    if neighbours == "replace":
        return columns_apart(strategy, 2)
    return float(np.max(np.einsum("ri,ri->i", strategy, strategy)))
