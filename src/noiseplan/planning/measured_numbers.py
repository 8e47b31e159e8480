"""What is measured: integers, where noise is exact, or any numbers; and how rows are made of it.

Planners find rows of real numbers. What they become before noise is added to them is asked here,
and nowhere by the name of a noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import ClassVar, Final, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.exact_residuals import LARGEST
from noiseplan.noise import Noise
from noiseplan.noise.moments import discrete_gaussian_variance, sizes_above
from noiseplan.optimize.allocation import spend
from noiseplan.optimize.integer_cost_matrix import RANK, root_rows, rows_in_integers
from noiseplan.optimize.integer_rounding import integer_rows, integer_strategy, to_lattice
from noiseplan.planning.free_split import alone
from noiseplan.planning.objectives import PNormVariance, WorstVariance
from noiseplan.planning.row_terms import all_rows, worst_rows
from noiseplan.planning.solve import Aim, Solution, group_inverses, role_bases, type_matrix
from noiseplan.planning.workload_errors import ResidualFigures
from noiseplan.planning.workload_types import Design, privacy_rows
from noiseplan.privacy.rounding import margin

# How near the least cost that meets targets is found, and in how many steps at most.
LEAST_GAP, LEAST_STEPS = 1e-6, 60
BITS: Final = (4, 5, 6, 7, 8, 9, 10, 12, 14, 16)
# Rounding U may raise the objective by this much; the next number of bits is tried beyond it.
# Where tables of 2³² records would not fit 64 bits any more, a little more is allowed: limbs are
# slower.
ALLOWED_LOSS, MOST_LOSS = 3e-4, 9e-4
ROOMY: Final = 2**32
# The loss by other directions is about n/4^bits; far above what is allowed, bits are not tried.
HOPELESS: Final = 20
# U of one long attribute loses 0.4 n/4^bits; each try takes a good part of a second there.
HOPELESS_ALONE: Final = 1300
# A loss falls with 4^bits. From so many values on, what it cannot have fallen to is not tried.
LONG: Final = 256
# Directions that nothing is asked of may be all but absent in U; so much of them is kept.
FAINTEST: Final = 2.0**-8


class Numbers(ABC):
    """Rows and bases in the numbers that are measured."""

    exact: ClassVar[bool]
    # Whether rows over all cells determine every one of them after they were rounded.
    determines_cells: ClassVar[bool]
    # Precisions left over that are smaller shares of the target's are not measured. Rounding may
    # leave more than the first; then the next is tried.
    negligible: ClassVar[tuple[float, ...]]
    # The basis of an attribute of which values alone count; and the same written down.
    basis: Callable[[int], Basis]
    matrix_basis: Callable[[int], MatrixBasis]

    def noise(self, sigma2: ArrayLike) -> Noise:
        """Gaussian noise on such numbers."""
        return Noise("gaussian", sigma2, self.exact)

    @abstractmethod
    def strategy(self, rows: Array) -> Array:
        """Rows over all cells, near a multiple of these, with columns of their lengths."""

    @abstractmethod
    def rows(self, rows: Array, bits: int) -> Array:
        """Rows near a multiple of these, of at most so many bits."""

    @abstractmethod
    def lattice(self, rows: Array, length: float) -> Array:
        """Rows near a multiple of these, with columns of about this length."""

    @abstractmethod
    def scaled(self, rows: Array, unit: float | Array) -> Array:
        """Rows in units of one over this, each entry as near as can be."""

    @abstractmethod
    def towards_zero(self, rows: Array) -> Array:
        """Rows of which no entry is larger."""

    @abstractmethod
    def bits(self, bits: Callable[[], int]) -> int | None:
        """So many, where rows are rounded to them at all."""

    @abstractmethod
    def lengths(self, bits: Sequence[int]) -> list[float]:
        """Lengths of columns to round rows to, of entries of so many bits; none: not at all."""

    @abstractmethod
    def unit(self, size: int) -> int:
        """How many times as long as those of an orthogonal basis its rows are."""

    @abstractmethod
    def measured(self, aim: Aim, solution: Solution, least: bool, bits: Sequence[int]) -> Measured:
        """What is measured of a residual plan. `least`: targets must be met, whatever that costs.

        `bits` are the sizes of integers to try, from the smallest.
        """

    @abstractmethod
    def rows_of_cost(self, cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
        """Rows A and σ² with AᵀA/σ² equal to a cost matrix that is not zero, or slightly below.

        The row space lies in that of `within`; every cell may still pay its `room`.
        """

    @abstractmethod
    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        """What decides which queries such rows answer, where not they do; `common`: what all of
        them are meant to measure."""


@final
class Integers(Numbers):
    """With exact noise: nI − 11ᵀ, which is n times an orthogonal basis, and rows rounded."""

    exact: ClassVar[bool] = True
    determines_cells: ClassVar[bool] = True
    negligible: ClassVar[tuple[float, ...]] = (1e-6, 1e-5, 1e-4)
    basis = staticmethod(Basis.integer)
    matrix_basis = staticmethod(MatrixBasis.integer)

    def strategy(self, rows: Array) -> Array:
        return integer_strategy(rows)

    def rows(self, rows: Array, bits: int) -> Array:
        return integer_rows(rows, bits)

    def lattice(self, rows: Array, length: float) -> Array:
        return to_lattice(rows, length)

    def scaled(self, rows: Array, unit: float | Array) -> Array:
        return np.rint(rows * unit)

    def towards_zero(self, rows: Array) -> Array:
        return np.trunc(rows)

    def bits(self, bits: Callable[[], int]) -> int | None:
        return bits()

    def lengths(self, bits: Sequence[int]) -> list[float]:
        return [2.0**each for each in bits]

    def unit(self, size: int) -> int:
        return size

    def measured(self, aim: Aim, solution: Solution, least: bool, bits: Sequence[int]) -> Measured:
        plan = to_integers(aim, solution, bits)
        return least_integers(aim, solution, plan) if least and solution.share.value > 0 else plan

    def rows_of_cost(self, cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
        return rows_in_integers(cost, within, room)

    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        return common()  # rounded rows may measure every direction, most of them hardly


@final
class Reals(Numbers):
    """With continuous noise: everything as it is."""

    exact: ClassVar[bool] = False
    determines_cells: ClassVar[bool] = False
    negligible: ClassVar[tuple[float, ...]] = (RANK, 1e-8, 1e-6)
    basis = staticmethod(Basis.orthogonal)
    matrix_basis = staticmethod(MatrixBasis.orthogonal)

    def strategy(self, rows: Array) -> Array:
        return rows

    def rows(self, rows: Array, bits: int) -> Array:
        return rows

    def lattice(self, rows: Array, length: float) -> Array:
        return rows

    def scaled(self, rows: Array, unit: float | Array) -> Array:
        return rows

    def towards_zero(self, rows: Array) -> Array:
        return rows

    def bits(self, bits: Callable[[], int]) -> int | None:
        return None

    def lengths(self, bits: Sequence[int]) -> list[float]:
        return []

    def unit(self, size: int) -> int:
        return 1

    def measured(self, aim: Aim, solution: Solution, least: bool, bits: Sequence[int]) -> Measured:
        return as_planned(solution)

    def rows_of_cost(self, cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
        return np.ascontiguousarray(root_rows(cost)), 1.0

    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        return None


INTEGERS: Final = Integers()
REALS: Final = Reals()


def numbers_of(noise: Noise) -> Numbers:
    """What this noise is added to: the one place that asks."""
    return INTEGERS if noise.exact else REALS


# ---------------------------------------------------------------------- residual plans
#
# What is measured of a residual plan: integer rows, rational variances, discrete noise; or all as
# it was planned, where noise is continuous.
#
# Plain attributes are measured by nI − 11ᵀ instead of an orthogonal basis; every other U is scaled
# and rounded, and everything is recomputed from the rounded matrix. The measured rows are then
# integers, and independent discrete Gaussian noise of parameter σ²_A on them satisfies exactly the
# zCDP of the continuous mechanism with the same rows: ρ = ½ max Σ_A p_A/σ²_A.
#
# References
# ----------
# Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020;
# ResidualPlanner+ (arXiv 2305.08175), Algorithm 3, extended here to any U.


@dataclass(frozen=True, eq=False)
class Measured:
    """U of the free roles, all bases, and σ² of each subset type in both units.

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
    bits: int = 0
    records: float = inf  # the largest table whose residuals fit 64 bits; beyond, they are slower


def as_planned(solution: Solution) -> Measured:
    """Rows as they are, with a hair more noise: no rounding of sums takes more."""
    sigma2 = solution.sigma2 * (1 + 2 * margin(len(solution.sigma2)))
    return Measured(solution.rows, solution.bases, solution.privacy, sigma2, sigma2, sigma2, 0.0)


def to_integers(aim: Aim, solution: Solution, choices: Sequence[int] = BITS) -> Measured:
    """Round the bases, scale the noise to the budget, round it up; with the fewest bits that do.

    If none do, the plan that loses least among those whose noise can be drawn.
    """
    best: Measured | None = None
    widest = max((u.shape[1] for u in solution.rows.values()), default=0)
    hopeless = HOPELESS_ALONE if widest >= LONG and alone(aim.design) else HOPELESS
    hopeful = [bits for bits in choices if 4**bits >= hopeless * widest] or choices[-1:]
    planned, least = type_matrix(aim.design, solution.bases), 0.0
    # Variance times cost does not depend on the budget, so it can be compared.
    spent = spend(solution.privacy, solution.sigma2)
    before = _value(aim, solution.bases, planned, solution.sigma2) * spent
    full = {r: _full(u) for r, u in solution.rows.items()}
    rounding = _Rounding(aim, solution, full, planned, before)
    for bits in hopeful if solution.rows else choices[:1]:
        if bits < least:
            continue
        try:
            plan = rounding.to(bits)
        except np.linalg.LinAlgError:  # too coarse: some rows of U fell together
            continue
        if not Noise("gaussian", plan.sigma2[np.isfinite(plan.sigma2)], exact=True).drawable:
            break  # more bits only make numbers larger
        if np.isfinite(plan.loss) and (best is None or plan.loss < best.loss):
            best = plan
        allowed = ALLOWED_LOSS if plan.records >= ROOMY else MOST_LOSS
        if plan.loss <= allowed:
            break
        if widest >= LONG and np.isfinite(plan.loss):
            least = bits + log(plan.loss / allowed, 4)
    if best is None:
        raise PlanError(
            "the noise of this plan is too large to be drawn in integers: plan tables of fewer "
            "attributes or for a larger budget, or use "
            + setting("noise", "gaussian")
            + " to simulate"
        )
    return best


def least_integers(aim: Aim, solution: Solution, plan: Measured) -> Measured:
    """The integer plan at the least cost that meets the targets.

    Rounding moves variances a little, and discrete noise of less than one count has less variance
    than its parameter. So the cost is searched for: variances fall with it, like 1/cost or faster.
    """
    priority = aim.design.roles.type_priority
    enough, too_little, best, cost = np.inf, 0.0, plan, aim.budget
    for _ in range(LEAST_STEPS):
        figures = ResidualFigures(aim.design, plan.bases, plan.equivalent)
        reached = float(np.max(priority * figures.type_worst)) / solution.share.value
        if reached <= 1:
            enough, best = cost, plan
        else:
            too_little = cost
        if reached <= 1 <= reached * (1 + LEAST_GAP) or enough <= too_little * (1 + LEAST_GAP):
            break
        cost *= max(reached, 0.5) * (1 + LEAST_GAP / 4)
        if not too_little < cost < enough:
            cost = np.sqrt(too_little * enough)
        plan = to_integers(replace(aim, budget=cost), solution, (best.bits,))
    if enough == np.inf:
        raise PlanError("no integer plan was found that meets the targets: this is a bug")
    return best


@dataclass(frozen=True)
class _Rounding:
    """One solution on its way to integers: its rows, its variances, and their value at cost one."""

    aim: Aim
    solution: Solution
    rows: dict[int, Array]
    planned: sp.csr_array
    before: float

    def to(self, bits: int) -> Measured:
        """Rows of so many bits, and noise for the budget."""
        aim, solution = self.aim, self.solution
        design, budget = aim.design, aim.budget
        rows = {r: to_lattice(u, 2.0**bits) for r, u in self.rows.items()}
        bases = role_bases(design, rows)
        privacy = privacy_rows(design, bases, aim.neighbours)
        terms, found = design.terms, type_matrix(design, bases)
        # U was multiplied by some number, so its noise must be too; then all of it to the budget.
        betas = [(solution.bases[r].sensitivity, bases[r].sensitivity) for r in range(terms.roles)]
        growth = [np.log(new / old) if old > 0 else 0.0 for old, new in betas]
        grown = np.exp(terms.privacy_powers @ np.array(growth))
        planned = design.type_weight @ self.planned / grown  # T shrank as U grew
        variances = design.type_weight @ found
        scaled = _all_needed(solution.sigma2 * grown, planned, variances, privacy, budget)
        factor = spend(privacy, scaled) / budget * (1 + margin(len(scaled)))
        scaled = np.where(np.isfinite(scaled), factor * np.nan_to_num(scaled, posinf=0.0), np.inf)
        # nI − 11ᵀ is n times an orthogonal basis: variance n² each.
        sizes = np.array([r.size if r.plain else 1 for r in design.roles.roles], dtype=float)
        unit = np.exp(terms.privacy_powers @ (2 * np.log(sizes)))
        measured = sizes_above(scaled * unit * (1 + 1e-14))
        equivalent, accounted = discrete_gaussian_variance(measured) / unit, measured / unit
        after = _value(aim, bases, found, equivalent) * budget
        loss = after / self.before - 1.0 if self.before > 0 else 0.0  # 0 if all is exact
        records = _records(design, bases, measured)
        return Measured(rows, bases, privacy, measured, equivalent, accounted, loss, bits, records)


def _value(aim: Aim, bases: dict[int, Basis], matrix: sp.csr_array, sigma2: Array) -> float:
    """What rounding is judged by: the objective, and the total for losses that are not scaled."""
    design, objective, sigma2 = aim.design, aim.objective, np.nan_to_num(sigma2, posinf=0.0)
    if isinstance(objective, WorstVariance):
        rows, owner = worst_rows(design, group_inverses(design, bases))
        return float(np.max(design.roles.type_priority[owner] * (rows @ sigma2)))
    if isinstance(objective, PNormVariance):
        rows, owner, often = all_rows(design, group_inverses(design, bases))
        each = design.roles.type_priority[owner] * (rows @ sigma2)
        largest = float(each.max()) or 1.0
        total = float(often @ (each / largest) ** objective.p)
        return float(largest * total ** (1 / objective.p))
    return float(design.type_weight @ (matrix @ sigma2))


def _full(rows: Array) -> Array:
    """U with no singular value below a share of the largest, so that rounding leaves its rank."""
    squares = np.linalg.eigvalsh(rows @ rows.T)  # right to 10⁻¹², far finer than what is faint
    if squares[0] >= 4 * FAINTEST**2 * squares[-1]:
        return rows
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    if values.min() >= FAINTEST * values.max():
        return rows
    return np.asarray((left * np.maximum(values, FAINTEST * values.max())) @ right)


def _all_needed(sigma2: Array, before: Array, after: Array, privacy: Array, budget: float) -> Array:
    """σ² also for subsets that only the rounded bases need, or need more.

    A variance weight V that was zero, or nearly, may be small now, and noise that did not matter
    would. With P its privacy weight, T the total of the others and c the budget, σ² = √(TP/(cV))
    adds the share √(PV/(Tc)) to both: no σ² adds less to their product.
    """
    grown = (after > 2.0 * before) | ~np.isfinite(sigma2)
    grown &= after > 0
    if not grown.any():
        return sigma2
    total = before @ np.nan_to_num(sigma2, posinf=0.0)
    weight = np.atleast_2d(privacy).max(axis=0)[grown]
    result = sigma2.copy()
    result[grown] = np.minimum(sigma2[grown], np.sqrt(total * weight / (budget * after[grown])))
    return result


def _records(design: Design, bases: dict[int, Basis], sigma2: Array) -> float:
    """The most records with (∏ max |U_i|) · records < 2⁶² for every measured set."""
    entries = [
        role.size - 1.0 if role.plain else np.abs(np.asarray(bases[r].measure)).max(initial=0.0)
        for r, role in enumerate(design.roles.roles)
    ]
    powers = design.terms.privacy_powers @ np.log(np.maximum(entries, 1.0))
    return float(LARGEST / np.exp(np.max(powers[np.isfinite(sigma2)], initial=0.0)))
