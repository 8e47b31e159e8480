"""The classical mechanisms, as strategies with the best reconstruction for each workload.

References
----------
Warner (1965) and Kairouz, Oh and Viswanath (2016), randomized response; Acharya, Sun and Zhang
(2019), Hadamard response; Cormode, Kulkarni and Srivastava (2018, 2019) and Wang et al. (2019),
hierarchies and Fourier; as restated by McKenna et al. (2020), Table 1, whose index is off by one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, exp, log2

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.local.strategies.shifts import Group
from noiseplan.matrices.base import Array

Oracle = Callable[[int, float], Array]


def randomized_response(types: int, epsilon: float) -> Array:
    """The truth e times as often as each other value.

    Examples
    --------
    >>> (5 * randomized_response(3, np.log(3))).round(9).tolist()
    [[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]]
    """
    e = exp(epsilon)
    return np.where(np.eye(types) > 0, e, 1.0) / (e + types - 1)


def hadamard(types: int, epsilon: float) -> Array:
    """Rows of a Sylvester matrix of order 2^⌈log₂(n + 1)⌉, type u on its column u + 1."""
    order = 2 ** ceil(log2(types + 1))
    signs = sylvester(order)[:, 1 : types + 1]
    chances: Array = np.where(signs > 0, exp(epsilon), 1.0) / (order / 2 * (exp(epsilon) + 1))
    return chances


def hadamard_blocks(types: int, epsilon: float) -> Array:
    """The general form: blocks of smaller Sylvester matrices, better for ε above ln 2."""
    e = exp(epsilon)
    blocks = max(2 ** (ceil(log2(min(e, 2 * types))) - 1), 1)
    size = 2 ** ceil(log2(types / blocks + 1))
    signs = np.kron(np.eye(blocks), sylvester(size)[:, 1:]) + np.kron(
        np.eye(blocks) - 1, np.ones((size, size - 1))
    )
    high = size / 2 * e + blocks * size - size / 2
    chances: Array = np.where(signs[:, :types] > 0, e, 1.0) / high
    return chances


ORACLES: dict[str, Oracle] = {
    "randomized response": randomized_response,
    "hadamard": hadamard,
    "hadamard blocks": hadamard_blocks,
}


def hierarchical(
    types: int, epsilon: float, branching: int = 4, oracle: str | Oracle = "hadamard blocks"
) -> Array:
    """A level drawn evenly, then the group on that level through a frequency oracle.

    Level ℓ has groups of `branching`^ℓ consecutive types; the root, which is public, is left out.
    """
    if isinstance(branching, bool) or not isinstance(branching, int) or branching < 2:
        raise PlanError(f"branching is an integer of at least 2, found {branching!r}")
    if isinstance(oracle, str) and oracle not in ORACLES:
        raise PlanError(f"no oracle {oracle!r}; choose from {list(ORACLES)}, or give a function")
    ask = ORACLES[oracle] if isinstance(oracle, str) else oracle
    widths = [branching**level for level in range(64) if branching**level < types] or [1]
    levels = [
        np.repeat(ask(ceil(types / width), epsilon), width, axis=1)[:, :types] for width in widths
    ]
    return np.vstack(levels) / len(levels)


def fourier(types: int, epsilon: float, order: int | None = None) -> Array:
    """A character of at most `order` bits drawn evenly, the empty one too; its sign randomized."""
    bits = binary_digits(types)
    if order is not None and (isinstance(order, bool) or not isinstance(order, int) or order < 0):
        raise PlanError(f"order is an integer of at least 0, found {order!r}")
    sizes = np.array([s.bit_count() for s in range(types)])
    chosen = np.flatnonzero(sizes <= (bits if order is None else order))
    return _characters(types, epsilon, chosen, np.full(len(chosen), 1 / len(chosen)))


def weighted_fourier(types: int, epsilon: float, gram: Array) -> Array:
    """Characters S ≠ ∅ drawn in proportion to √(χ_SᵀGχ_S): the best weights in closed form.

    L = ‖Wπ‖² + κ (Σ_S √g_S)²/n with κ = ((e + 1)/(e − 1))²: within a factor 1 + sinh²(ε/2) of the
    lower bound for workloads that the characters diagonalise.
    """
    weights = np.sqrt(Group((2,) * binary_digits(types)).eigenvalues(gram))
    weights[0] = 0.0
    chosen = np.flatnonzero(weights)
    if not len(chosen):  # nothing but the total is asked
        return np.ones((1, types))
    return _characters(types, epsilon, chosen, weights[chosen] / weights.sum())


def _characters(types: int, epsilon: float, chosen: IntArray, chances: Array) -> Array:
    signs = sylvester(types)[chosen]
    e = exp(epsilon)
    truth = chances[:, None] * np.where(signs > 0, e, 1.0) / (e + 1)
    return np.vstack([truth, chances[:, None] - truth])


def sylvester(order: int) -> Array:
    """The Hadamard matrix H[S, u] = (−1)^{|S ∧ u|} of an order that is a power of two."""
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def binary_digits(types: int) -> int:
    """d with n = 2^d."""
    bits = types.bit_length() - 1
    if types != 1 << bits:
        raise PlanError(f"Fourier mechanisms need 2^d types, and there are {types}")
    return bits
