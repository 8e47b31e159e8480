"""The integer version of a residual plan: integer rows, rational variances, discrete noise.

Plain attributes are measured by nI − 11ᵀ instead of an orthogonal basis; every other U is scaled by
2^b and rounded, and everything is recomputed from the rounded matrix. The measured rows are then
integers, and independent discrete Gaussian noise of parameter σ²_A on them satisfies exactly the
zCDP of the continuous mechanism with the same rows: ρ = ½ max Σ_A p_A/σ²_A.

References
----------
Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020;
ResidualPlanner+ (arXiv 2305.08175), Algorithm 3, extended here to any U.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.noise.moments import discrete_gaussian_variance
from noiseplan.planning.allocation import spend
from noiseplan.planning.assemble import role_bases
from noiseplan.planning.design import Design
from noiseplan.planning.neighbours import privacy_rows
from noiseplan.planning.solve import Solution, type_matrix

BITS = (8, 10, 12, 14, 16)
# Rounding U may raise the total variance by this much; the next number of bits is tried beyond it.
ALLOWED_LOSS = 2e-4
# Variances keep so many bits: many where there are few of them, few where each needs its own table.
FEW_TYPES = 2000
FINE_BITS, COARSE_BITS = 40, 13


@dataclass(frozen=True, eq=False)
class IntegerPlan:
    """Integer U of the free roles, all bases, and σ² of each subset type in both units.

    `sigma2` is the parameter of the noise on the numbers measured; `equivalent` the variance it
    amounts to with orthogonal bases on the plain attributes, which errors are computed from;
    `accounted` the same for the parameter, which the cost is computed from.
    """

    rows: dict[int, Array]
    bases: dict[int, Basis]  # with orthogonal bases on plain roles, as variances are computed from
    privacy: Array
    sigma2: Array
    equivalent: Array
    accounted: Array
    loss: float
    bits: int


def to_integers(
    design: Design,
    solution: Solution,
    neighbours: str,
    budget: float,
    choices: tuple[int, ...] = BITS,
) -> IntegerPlan:
    """Round the bases, scale the noise to the budget, round it up; with the fewest bits that do."""
    sums = type_matrix(design, solution.bases) @ _finite(solution.sigma2)
    before = float(design.type_weight @ sums)
    for bits in choices:
        plan = _rounded(design, solution, bits, neighbours, budget, before)
        if plan.loss <= ALLOWED_LOSS:
            break
    return plan


def _rounded(
    design: Design, solution: Solution, bits: int, neighbours: str, budget: float, before: float
) -> IntegerPlan:
    scales = {r: 2.0**bits / np.abs(u).max() for r, u in solution.rows.items()}
    rows = {r: np.rint(u * scales[r]) for r, u in solution.rows.items()}
    sigma2 = solution.sigma2
    bases = role_bases(design, rows)
    privacy = privacy_rows(design, bases, neighbours)
    # U was multiplied by its scale, so its noise must be too; then all of it to the budget.
    log_scale = np.array([2 * np.log(scales.get(r, 1.0)) for r in range(design.terms.roles)])
    scaled = sigma2 * np.exp(design.terms.privacy_powers @ log_scale)
    scaled = scaled * (spend(privacy, scaled) / budget) * (1 + margin(len(sigma2)))
    # nI − 11ᵀ is n times an orthogonal basis: variance n² each.
    sizes = np.array([r.size if r.plain else 1 for r in design.roles.roles], dtype=float)
    unit = np.exp(design.terms.privacy_powers @ (2 * np.log(sizes)))
    digits = FINE_BITS if len(sigma2) <= FEW_TYPES else COARSE_BITS
    measured = round_up(scaled * unit * (1 + 1e-14), digits)
    equivalent = discrete_gaussian_variance(measured) / unit
    after = float(design.type_weight @ (type_matrix(design, bases) @ _finite(equivalent)))
    return IntegerPlan(
        rows, bases, privacy, measured, equivalent, measured / unit, after / before - 1.0, bits
    )


def margin(count: int) -> float:
    """A relative error that a sum of `count` products of a few rounded numbers cannot exceed."""
    return 1e-12 + 4 * np.finfo(float).eps * count


def round_up(values: Array, bits: int) -> Array:
    """The next numbers with `bits` significant bits; zero and infinity stay."""
    mantissa, exponent = np.frexp(values)
    with np.errstate(invalid="ignore"):
        rounded = np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits)
    return np.where(np.isfinite(values) & (values > 0), rounded, values)


def _finite(sigma2: Array) -> Array:
    return np.where(np.isfinite(sigma2), sigma2, 0.0)
