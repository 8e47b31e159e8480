"""How low can the total variance be, for any linear mechanism with Gaussian noise?

For any probability λ on the records, the least weighted sum of variances at privacy cost c is at
least ‖W Λ^{1/2}‖²_*/c, the squared nuclear norm (λ uniform: the SVD bound). And ‖W'‖_* ≥ tr(W'ᵀY)
for every Y of operator norm at most one. Two choices of Y are used, and the larger bound is kept.

*Structured*, at any scale. Let λ = ⊗λ_i, u_i = √λ_i, and for each factor let Y_i be a partial
isometry, with t_i = Y_iu_i and P_i the rest. For a query on B put

    Y = Σ_{A⊆B} y_A ⊗_{i∈A} P_i ⊗_{i∈B∖A} t_iu_iᵀ ⊗_{i∉B} u_iᵀ .

The blocks of different A are orthogonal, and the best y give

    ‖W'‖_* ≥ Σ_A √( Σ_{B⊇A} w_B ∏_{i∈A} r_i² ∏_{i∈B∖A} s_i² ),

with r_i = tr(P_iᵀW'_i) and s_i = t_iᵀW'_iu_i:

the planner's own sum with r², s² in place of βR, m. It is exact for marginals and for one full
product.

*Dense*, for small domains: Y the polar factor of the whole W', λ improved by its own fixed point;
exact.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.allocation import root_cost
from noiseplan.optimize.gram_bounds import svd_bound
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.split_coordinates import Point
from noiseplan.planning.free_split import cost_and_gradients
from noiseplan.planning.workload_types import Design

DENSE_CELLS = 400
# The structured bound leaves out dense-matrix queries; up to here the SVD bound counts them.
SVD_CELLS = 2048
# Eigenvalues below this fraction of the largest are taken for rounding.
NOISE_FLOOR = 1e-11
# Beyond this many values one eigendecomposition per trial is too slow to try several.
SEARCH_UP_TO = 256


def total_variance_bound(
    design: Design, rows: dict[int, Array], budget: float, neighbours: str
) -> float:
    """A lower bound on Σ weight · variance at a budget; `rows` are the U planned for the total."""
    replace = neighbours == "replace"
    if budget == 0:  # everything asked is public, and exact
        return 0.0
    records = {} if replace else _record_weights(design, rows)
    root = max(_structured(design, records, k, replace) for k in _trials(design))
    bound = root**2
    if replace:
        # Averaging (e_r − e_s)ᵀC(e_r − e_s) ≤ c over r ≠ s bounds the centred trace by c(N−1)/2.
        others = design.workload.schema.size - 1
        bound *= 2.0 + 2.0 * float(1 / Fraction(others)) if others else 2.0
    elif design.workload.schema.size <= DENSE_CELLS:
        bound = max(bound, dense_optimum(design.gram()).bound)
    elif design.joints and design.workload.schema.size <= SVD_CELLS:
        bound = max(bound, svd_bound(design.gram()))
    return bound / budget * (1 - 1e-9)


def _trials(design: Design) -> Array:
    """How much the sum direction counts when the partial isometry is chosen; any value is valid."""
    largest = max((design.group_count(r) for r in design.free), default=0)
    if not design.free:
        return np.ones(1)
    return np.geomspace(0.1, 1.2, 13) if largest <= SEARCH_UP_TO else np.array([0.5])


def _record_weights(design: Design, rows: dict[int, Array]) -> dict[int, Array]:
    """λ_i of each free role: what a longer column of U_i would be worth."""
    points = {r: Point.at(u) for r, u in rows.items()}
    _, gradients = cost_and_gradients(design, points)
    result = {}
    for r, point in points.items():
        price = np.maximum(point.column_prices(gradients[r]), 0.0) + 1e-12
        result[r] = price / price.sum()
    return result


def _structured(design: Design, records: dict[int, Array], kappa: float, replace: bool) -> float:
    count = len(design.roles.pair_role)
    residual, mean = np.zeros(count), np.zeros(count)
    for pair, role in enumerate(design.roles.pair_role):
        n = design.roles.roles[role].size
        gram = design.grams[pair]
        if gram is None:
            residual[pair], mean[pair] = (n - 1) ** 2 / n, 1.0 / n
        else:
            uniform = np.bincount(design.groups[role]) / n  # over values, so by members over groups
            weights = records.get(int(role), uniform)
            residual[pair], mean[pair] = _isometry_moments(gram, weights, kappa)
    terms = design.terms
    # Dense-matrix queries are left out: the optimum without them is no larger.
    coefficients = terms.coefficients(residual, mean, np.zeros(len(terms.joint)))
    variance = terms.by_subset(coefficients * design.type_weight[terms.query])
    if replace:
        variance[(terms.subset_roles < 0).all(axis=1)] = 0.0
    return root_cost(terms.subset_count, variance)


def _isometry_moments(gram: Array, weights: Array, kappa: float) -> tuple[float, float]:
    """r² and s² from WᵀW alone, for Y the polar factor of W'(κuuᵀ + (I − uuᵀ)).

    Y = W'D K^{−1/2} with K = D H D and H = W'ᵀW', so tr(W'ᵀY) = tr(H D K^{−1/2}).
    """
    u = np.sqrt(weights)
    h = gram * np.outer(u, u)
    d = np.eye(len(u)) + (kappa - 1.0) * np.outer(u, u)
    values, vectors = np.linalg.eigh(d @ h @ d)
    # Without what rounding may have made up: dropping directions only lowers the bound.
    keep = values > NOISE_FLOOR * values[-1]
    root = (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T
    product = h @ d @ root  # W'ᵀY
    along = float(u @ product @ u)
    return max(float(np.trace(product)) - along, 0.0) ** 2, along**2
