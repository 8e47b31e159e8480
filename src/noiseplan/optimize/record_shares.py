"""Noise shared among rows that different records meet differently.

A record x meets classes of rows by P_xa; noise of the sizes s_a costs it Σ_a P_xa/s_a, and has the
variances s_a (Gaussian noise, s = σ², k = 1) or 2s_a² (Laplace noise, s = b, k = 2):

    minimise  Σ_a V_a s_a^k   subject to   Σ_a P_xa / s_a ≤ 1   for all records x .

Records are many and few of them bind; they are found one after another, each the one that pays most
for the noise shared among those before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

# Records looked at, and how much more than all of these the one that pays most may pay at last.
ROUNDS, PAYS_MORE = 60, 1e-3
# Steps towards the shares of some records, and the relative gap at which they are good enough.
STEPS, GAP = 300, 1e-4
# No record's weight, and no cost, is lost for good.
LEAST: Final = 1e-12

# What the record meets of every class that pays most for noise of these sizes.
Dearest = Callable[[Array], Array]
# The best sizes where records are these alone, records × classes.
Shared = Callable[[Array], Array]


def share_among_records(dearest: Dearest, shared: Shared, floor: Array) -> Array:
    """Sizes at which no record that was found pays more than one.

    `floor` is what every class has at least: a record that meets it would pay more than one else.
    """
    met, sizes, most = [dearest(floor)], floor, 1.0
    for _ in range(ROUNDS):
        sizes = np.maximum(shared(np.array(met)), floor)
        met.append(dearest(sizes))
        most = float(met[-1] @ (1.0 / sizes))
        if most <= 1 + PAYS_MORE:
            break
    return np.asarray(sizes * most)


def shared_for_total(met: Array, variance: Array, power: float) -> Array:
    """The sizes of least Σ V s^k for some records, at a cost of one.

    Notes
    -----
    With weights θ on the records there is one cost p = θP: s_a ∝ (p_a/V_a)^{1/(k+1)}, and the least
    is (Σ_a (V_a p_a^k)^{1/(k+1)})^{k+1}, no more than the optimum. Weight moves to the records that
    pay more, θ ← θ · cost^s; long steps are taken as long as they raise that bound.
    """
    weights, stride = np.full(len(met), 1.0 / len(met)), 1.0
    last, best, least = (weights, 0.0), variance, np.inf
    for _ in range(STEPS):
        mixed = weights @ met
        mixed = np.maximum(mixed, LEAST * mixed.max())
        bound = ((variance * mixed**power) ** (1 / (power + 1))).sum() ** (power + 1)
        if bound < last[1] and stride > 1.0:  # overshot: back, and on with the safe step
            (weights, _), stride = last, 1.0
            mixed = weights @ met
        sizes = (mixed / variance) ** (1 / (power + 1))
        costs = met @ (1.0 / sizes)
        sizes = sizes * costs.max()
        value = float(variance @ sizes**power)
        if value < least:
            best, least = sizes, value
        if value <= bound * (1 + GAP):
            break
        last, stride = (weights, bound), min(stride * 1.5, 64.0)
        moved = weights * (costs / costs.max()) ** stride
        weights = np.maximum(moved / moved.sum(), LEAST)
    return best
