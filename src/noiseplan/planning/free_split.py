"""The oblique planner: optimise every attribute's U, and with it the split into sum and residual.

For fixed U the least weighted sum of variances at budget c is J²/c with J = Σ_a √(P_a V_a), and V_a
depends on U only through R_i = ‖W_iV_i‖² and m_i = ‖W_iτ_i‖². So log J is a smooth function of the
U_i, with closed-form gradients: dT = −T dM T for T = M⁻¹, M = [1ᵀ; U]. Columns of U are kept at
length 1, which makes every β_i = 1. All free roles are optimised together by L-BFGS.

ResidualPlanner+ with its best strategies has U1 = 0, so τ = 1/n. With τ fixed, the best sum of
variances depends on an attribute only through β · R, and increases in it: minimise max diag(G) ·
tr(W G† Wᵀ) over G = UᵀU ⪰ 0 with G1 = 0, once per attribute. In a basis O of 1^⊥, G = OKOᵀ; for
weights λ on the values the best K is the geometric mean of (OᵀΛO)⁻¹ and OᵀWᵀWO, and λ ← λ · diag(G)
converges.

References
----------
ResidualPlanner+ (arXiv 2305.08175), section 7, with the strategy optimised directly for β · R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Progress
from noiseplan.mechanisms.basis import MatrixBasis
from noiseplan.optimize.allocation import root_cost
from noiseplan.optimize.lbfgs import minimise
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.split_coordinates import Chart, Point
from noiseplan.planning.workload_types import Design, JointQuery, Moments, joint_coefficients
from noiseplan.progress import closing_gap

# Both starting points are followed to the end only where that takes no more than about a second,
# or where nobody asks for some value, as prefix sums do not for missing ones: the first alone was
# seen to end 10 to 36 % above the bound there, both 2 to 3 %. So many numbers are then added up in
# an inverse of all rows, some three seconds.
BOTH_STARTS_UP_TO, BOTH_STARTS_CUBED = 150, 5 * 10**7
# From this many values on, steps that gain less than 1e-8 are not worth their price.
LARGE = 256
SINGULAR = 1e6
# Of one search.
SEARCH_STEPS = 500
# The start: how good, for how much work (steps · n³), and how much of what nobody asks about.
START_TOLERANCE, START_WORK, FAINT = 1e-5, 2e10, 1e-7
# Where the start is the end.
SHARP, SHARP_STEPS = 1e-7, 60

# Of what is asked most, asked everywhere: U keeps about UNASKED^¼ in directions that nobody needs.
UNASKED: Final = 1e-11
# Passes of that search, which mostly ends before.
UPRIGHT_STEPS: Final = 500
# No value loses all its weight, or the matrix of weights would be singular.
SMALLEST: Final = 1e-9


def total_gradient(
    design: Design, inverses: dict[int, Array], products: dict[int, Array]
) -> tuple[float, Array, Array, Array]:
    """J, and its gradient with respect to R and m (per pair) and to the joint coefficients.

    `inverses` are T = [τ | V] of each free role, for rows U whose longest column is taken for one.
    """
    moments = design.moments(inverses, products)
    privacy = design.privacy_weights(design.sensitivities(dict.fromkeys(inverses, 1.0)))

    def slope(variance: Array) -> Array:
        """J = Σ_a √(P_a V_a)  ⇒  ∂J/∂V_a = ½ √(P_a/V_a)."""
        ratio = np.divide(privacy, variance, out=np.zeros_like(privacy), where=variance > 0)
        return 0.5 * np.sqrt(ratio)

    variance, by_residual, by_mean, by_joint = subset_slopes(design, moments, slope)
    return root_cost(privacy, variance), by_residual, by_mean, by_joint


def subset_slopes(
    design: Design, moments: Moments, slope_of: Callable[[Array], Array]
) -> tuple[Array, Array, Array, Array]:
    """V of every subset type, and the gradient of a function of it with given slopes at V."""
    terms = design.terms
    coefficients = terms.coefficients(moments.residual, moments.mean, moments.joint)
    weight = design.type_weight[terms.query]
    weighted = coefficients * weight
    variance = terms.by_subset(weighted)
    slope = slope_of(variance)[terms.subset]
    by_residual, by_mean = terms.gradient(slope * weighted, moments.residual, moments.mean)
    by_joint = (slope * weight)[terms.joint]
    return variance, by_residual, by_mean, by_joint


def inverse_gradients(
    design: Design,
    points: dict[int, Point],
    products: dict[int, Array],
    by_residual: Array,
    by_mean: Array,
    by_joint: Array,
) -> dict[int, Array]:
    """The gradient with respect to each free role's T = [τ | V].

    R = ‖WV‖² and m = ‖Wτ‖² give 2 WᵀW T, columns weighted by ∂/∂m (first) and ∂/∂R (others).
    """
    result = {r: np.zeros_like(point.inverse) for r, point in points.items()}
    for pair, product in products.items():
        column = np.full(product.shape[1], 2.0 * by_residual[pair])
        column[0] = 2.0 * by_mean[pair]
        result[int(design.roles.pair_role[pair])] += product * column
    _add_joint_gradients(design, points, by_joint, result)
    return result


def _add_joint_gradients(
    design: Design, points: dict[int, Point], by_joint: Array, result: dict[int, Array]
) -> None:
    """The same for dense-matrix queries, whose rows all share one slope per subset."""
    start = 0
    for joint in design.joints:
        count = 2 ** len(joint.roles)
        slope = by_joint[start : start + count].reshape(1, *(2,) * len(joint.roles))
        start += count
        add_joint_gradient(design, joint, points, slope, result)


def add_joint_gradient(
    design: Design,
    joint: JointQuery,
    points: dict[int, Point],
    slope: Array,
    result: dict[int, Array],
) -> None:
    """Reverse through the mode products of a dense-matrix query.

    `slope` is the derivative with respect to the coefficients, shape (rows or 1, 2, …, 2).
    """
    inverses = design.joint_inverses(joint, {r: p.inverse for r, p in points.items()})
    _, stages = joint_coefficients(joint, inverses)
    for axis, inverse in enumerate(inverses):
        inside = (np.arange(inverse.shape[1]) > 0).astype(int)
        slope = np.take(slope, inside, axis=axis + 1)
    upstream = 2.0 * stages[-1] * slope
    for step in range(len(inverses) - 1, -1, -1):
        # stages[step + 1] is stages[step] contracted with T on axis 1, the result axis last
        before, role = stages[step], int(joint.roles[step])
        others = np.moveaxis(before, 1, -1).reshape(-1, before.shape[1])
        if role in result:
            result[role] += others.T @ upstream.reshape(-1, upstream.shape[-1])
        upstream = np.moveaxis(np.tensordot(upstream, inverses[step], axes=(-1, 1)), -1, 1)


def optimise_total(
    design: Design, given: dict[int, Array] | None = None, advance: Progress | None = None
) -> dict[int, Array]:
    """U of every free role (over groups of values) for the weighted sum of variances.

    From the oblique split of each role's square-root strategy; where that is cheap, also from
    ResidualPlanner+'s best strategies, and the better end is kept. U that are given, columns of
    length one at most, stay. `advance` is told of every step of a search, of which there are
    `SEARCH_STEPS` at most.
    """
    if not design.free:
        return {}
    given = given or {}
    grams = {r: gram for r, gram in role_grams(design).items() if r not in given}
    if not grams:
        return given
    if alone(design) and not given:
        return {r: _oblique_root(gram, SHARP, SHARP_STEPS) for r, gram in grams.items()}
    starts = [{r: _oblique_root(gram) for r, gram in grams.items()}]
    if _both_starts([design.group_count(r) for r in grams], grams.values()):
        upright = {r: best_upright(gram, 1e-4) for r, gram in grams.items()}
        starts.append({r: u + _ripple(u) for r, u in upright.items()})
    told = [advance, *([None] * len(starts))]  # of the first, as a bar counts up once
    ends = (_follow(design, start, given, one) for start, one in zip(starts, told, strict=False))
    return min(ends, key=lambda found: found[0])[1]


def _both_starts(counts: Sequence[int], grams: Iterable[Array]) -> bool:
    if sum(counts) <= BOTH_STARTS_UP_TO:
        return True
    asked = (np.diag(gram) for gram in grams)
    unasked = any(each.min() <= FAINT * each.max() for each in asked)
    return unasked and sum(count**3 for count in counts) <= BOTH_STARTS_CUBED


def alone(design: Design) -> bool:
    """Whether queries are about one long attribute alone: then every strategy is an oblique split,
    and the best one for the Gram matrix is the best there is."""
    roles = design.roles
    if len(roles.roles) > 1 or len(roles.roles[0].members) > 1 or design.joints:
        return False
    return len(roles.pair_role) == len(design.type_weight) and design.group_count(0) >= LARGE


def _follow(
    design: Design,
    start: dict[int, Array],
    given: dict[int, Array],
    advance: Progress | None = None,
) -> tuple[float, dict[int, Array]]:
    """log J and U at the end of a descent."""
    chart, still = Chart.of(start), {r: Point.still(rows) for r, rows in given.items()}

    def value(x: Array) -> tuple[float, Array]:
        try:
            points = chart.points(x) | still
        except np.linalg.LinAlgError:  # M singular: worse than anything, so the search turns back
            return SINGULAR, np.zeros_like(x)
        cost, gradients = cost_and_gradients(design, points)
        gradients = {r: gradient / cost for r, gradient in gradients.items()}
        restraint = chart.restraint(points, gradients)
        return float(np.log(cost)) + restraint, chart.pull_back(points, gradients)

    large = max(design.group_count(r) for r in design.free) >= LARGE
    gain = 1e-8 if large else 1e-13
    cost, best = minimise(value, chart.pack(start), steps=SEARCH_STEPS, gain=gain, told=advance)
    return cost, {r: point.rows for r, point in chart.points(best).items()} | given


def cost_and_gradients(design: Design, points: dict[int, Point]) -> tuple[float, dict[int, Array]]:
    """J and its gradient with respect to each free role's T."""
    inverses = {r: point.inverse for r, point in points.items()}
    products = design.products(inverses)
    cost, *slopes = total_gradient(design, inverses, products)
    return cost, inverse_gradients(design, points, products, *slopes)


def optimise_upright(design: Design) -> dict[int, Array]:
    """ResidualPlanner+: U of every free role with U1 = 0, each the best for its factors."""
    return {r: best_upright(gram) for r, gram in role_grams(design).items()}


def role_grams(design: Design) -> dict[int, Array]:
    """What each free role is asked, as one Gram matrix: its factors by their weight in the
    objective."""
    plain = {r: MatrixBasis.orthogonal(design.group_count(r)).inverse for r in design.free}
    _, by_residual, _, _ = total_gradient(design, plain, design.products(plain))
    return {r: _weighted_gram(design, r, by_residual) for r in design.free}


def _weighted_gram(design: Design, role: int, by_residual: Array) -> Array:
    """Σ WᵀW over a role's factors, weighted by what a little residual variance costs the
    objective."""
    n = design.group_count(role)
    gram = np.zeros((n, n))
    for pair in design.pairs_of[role]:
        factor = design.grams[pair]
        if factor is not None:
            gram += by_residual[pair] * factor
    for joint in design.joints:
        for axis in np.flatnonzero(joint.roles == role):
            slices = np.moveaxis(joint.tensor, axis + 1, 0).reshape(n, -1)
            product = slices @ slices.T
            gram += product * (np.trace(gram) / np.trace(product) if gram.any() else 1.0)
    return gram


def _oblique_root(
    gram: Array, tolerance: float = START_TOLERANCE, steps: int | None = None
) -> Array:
    """U with UᵀU = X − 11ᵀ/(1ᵀX⁻¹1), X the best cost matrix for the Gram matrix alone."""
    ones = np.ones(len(gram))
    steps = steps or int(np.clip(START_WORK / len(gram) ** 3, 2, 200))
    with closing_gap("searching for the optimum", tolerance) as watch:
        strategy = dense_optimum(gram, tolerance, steps, watch).strategy
    cost = strategy.T @ strategy + FAINT * np.eye(len(gram))
    values, vectors = np.linalg.eigh(cost - 1.0 / (ones @ np.linalg.solve(cost, ones)))
    kept = np.maximum(values[1:], 1e-9 * values[-1])
    rows = np.sqrt(kept)[:, None] * vectors[:, 1:].T
    if len(gram) == 2 and rows[0, 0] * rows[0, 1] >= 0:
        rows[0] = 1.0, -1.0  # equal signs would become equal columns, and M singular
    return np.asarray(rows)


def _ripple(rows: Array) -> Array:
    """A small fixed perturbation: an upright split is a saddle from which no gradient leads
    away."""
    waves = np.cos(np.arange(rows.size)).reshape(rows.shape)
    return np.asarray(1e-4 * np.abs(rows).max() * waves)


def best_upright(gram: Array, tolerance: float = 1e-9) -> Array:
    """U = K^{1/2}Oᵀ that minimises max diag(UᵀU) · tr(WᵀW (UᵀU)†), scaled to max diag(UᵀU) = 1."""
    n = len(gram)
    basis = MatrixBasis.orthogonal(n).measure.T  # O, n × (n−1)
    target = basis.T @ gram @ basis
    if not target.any():
        target = np.eye(n - 1)
    weights = np.full(n, 1.0 / n)
    kernel = np.eye(n - 1)
    for _ in range(UPRIGHT_STEPS):
        lower = np.linalg.cholesky(basis.T @ (weights[:, None] * basis))
        values, vectors = np.linalg.eigh(lower.T @ target @ lower)
        root = (vectors * np.sqrt(np.maximum(values, UNASKED * values[-1]))) @ vectors.T
        half = np.linalg.solve(lower.T, root)
        kernel = np.linalg.solve(lower.T, half.T) / np.trace(root)
        diagonal = np.einsum("ij,ij->i", basis @ kernel, basis)
        # Σ λ diag(G) = 1, so the largest entry tells how far from balanced the weights are.
        if diagonal.max() <= 1.0 + tolerance:
            break
        weights = np.maximum(weights * diagonal, SMALLEST / n)
        weights /= weights.sum()
    values, vectors = np.linalg.eigh(0.5 * (kernel + kernel.T))
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ basis.T)
    return np.asarray(rows / np.sqrt(np.einsum("ri,ri->i", rows, rows).max()))
