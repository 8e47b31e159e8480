"""Bases of attributes, and the noise of every subset, for an objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis
from noiseplan.optimize.allocation import (
    Share,
    share_for_loss,
    share_for_total,
    share_for_worst,
)
from noiseplan.optimize.laplace_allocation import Loss, logarithm
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.planning.free_split import optimise_upright
from noiseplan.planning.largest_variance import POWERS, optimise_worst, worth_searching
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.replaced_products import descended, worth_descending
from noiseplan.planning.replaced_split import (
    loss_bases,
    norm_bases,
    replaced_bases,
    rows_affordable,
    tangent,
)
from noiseplan.planning.row_terms import all_rows, worst_rows
from noiseplan.planning.workload_types import (
    Design,
    Moments,
    measured_alone,
    privacy_rows,
    without_rounding,
)
from noiseplan.privacy import Neighbours

# Tangents of a loss where records are replaced, and what each must gain for the next.
TANGENTS: Final = 4
TANGENT_GAIN: Final = 1e-3


@dataclass(frozen=True, eq=False)
class Aim:
    """What noise is shared for: a prepared workload, an objective, a cost, for whom, by whom.

    `targeted`: the objective is to meet targets.
    """

    design: Design
    objective: Objective
    budget: float
    neighbours: Neighbours = "add-remove"
    planner: str = "residual"
    targeted: bool = False


@dataclass(frozen=True, eq=False)
class Solution:
    """Bases and noise of a plan. `rows` are the free roles' U over groups of values."""

    rows: dict[int, Array]
    bases: dict[int, Basis]
    privacy: Array  # kinds of neighbours × subset types
    share: Share
    total_rows: dict[int, Array]  # the U planned for the total, which the lower bound starts from

    @property
    def sigma2(self) -> Array:
        return self.share.sigma2


def role_bases(
    design: Design,
    rows: dict[int, Array],
    plain: Callable[[int], Basis] = Basis.orthogonal,
    known: dict[int, Basis] | None = None,
) -> dict[int, Basis]:
    """The basis of each role: as planned where it is free, `plain` where only values count.

    `known` are bases of the same rows, which need not be made again.
    """
    shared: dict[int, Basis] = {}
    result = {}
    for r, role in enumerate(design.roles.roles):
        if r in rows:
            result[r] = known[r] if known else Basis.from_rows(rows[r], design.groups[r])
        elif role.plain:
            result[r] = shared.setdefault(role.size, plain(role.size))
        else:  # one group only: the sum is all that is ever asked
            n = role.size
            result[r] = MatrixBasis(np.zeros((0, n)), np.full(n, 1.0 / n), np.zeros((n, 0)))
    return result


def group_inverses(design: Design, bases: dict[int, Basis]) -> dict[int, Array]:
    """T = [τ | V] of the free roles over groups of values, from the bases that will be used."""
    result = {}
    for r in (role for role in design.free if role in bases):
        summed = np.zeros((design.group_count(r), bases[r].rows + 1))
        inverse = bases[r].inverse
        numbers = inverse.dense() if isinstance(inverse, Matrix) else inverse
        np.add.at(summed, design.groups[r], numbers)
        result[r] = summed
    return result


def moments_of(design: Design, bases: dict[int, Basis]) -> Moments:
    """R and m of the bases that will be used."""
    if not design.free:  # they follow from sizes, and from what is asked in sums
        return design.moments({}, {})
    known = by_formula(design, bases)
    inverses = group_inverses(design, {r: b for r, b in bases.items() if r not in known})
    moments = design.moments(inverses, design.products(inverses))
    # ‖Wτ‖² row by row: as the quadratic form τᵀWᵀWτ it would drown in rounding long before it is
    # small enough to be left out, and it decides whether a sum is measured at all.
    mean, residual = moments.mean.copy(), moments.residual.copy()
    for pair, gram in enumerate(design.grams):
        role = int(design.roles.pair_role[pair])
        if gram is not None and role in known and pair not in design.constant:
            residual[pair] = bases[role].residual_rows(design.roles.pair_matrix(pair)).sum()
        if gram is not None and (role in inverses or role in known):
            factor, centre = design.roles.pair_matrix(pair), bases[role].centre
            square = float((factor.matmul(centre[:, None]) ** 2).sum())
            size = float(factor.row_squares().sum())
            mean[pair] = without_rounding(np.array(square), np.array(size * centre @ centre))
    return replace(moments, mean=mean, residual=residual)


def by_formula(design: Design, bases: dict[int, Basis]) -> dict[int, Basis]:
    """The bases of free roles whose residuals are had without their numbers."""
    if design.joints:
        return {}
    return {r: bases[r] for r in design.free if isinstance(bases[r], WideBasis)}


def type_matrix(design: Design, bases: dict[int, Basis]) -> sp.csr_array:
    """Query types × subset types: sums of variances are this matrix times σ²."""
    moments = moments_of(design, bases)
    terms = design.terms
    return terms.matrix(terms.coefficients(moments.residual, moments.mean, moments.joint))


def solve(aim: Aim, total_rows: dict[int, Array]) -> Solution:
    """The best bases found for the objective, starting from those planned for the total."""
    design, objective = aim.design, aim.objective
    replaced = aim.neighbours == "replace"
    starts = [total_rows, *(_for_replaced(aim, total_rows) if replaced else ())]
    own = _alone_for(aim) if replaced else None
    if own is not None:
        starts.append(own)
    elif searches_rows(design, objective):
        fixed = isinstance(objective, PNormVariance)
        powers = (objective.p,) if isinstance(objective, PNormVariance) else POWERS
        start = share_given_bases(replace(aim, objective=TotalVariance()), total_rows)
        starts.append(optimise_worst(design, total_rows, start.sigma2, powers, count_rows=fixed)[0])
    found = []
    for rows in starts:
        with suppress(np.linalg.LinAlgError):  # rows that double precision cannot tell apart
            found.append(share_given_bases(aim, rows))
    if not found:
        raise np.linalg.LinAlgError("no rows that are found tell apart what is asked")
    best = min(found, key=lambda solution: solution.share.value)
    if replaced and own is None and isinstance(objective, ConvexLoss):
        best = _by_tangents(aim, objective, best)
    return replace(best, total_rows=total_rows)


def searches_rows(
    design: Design, objective: Objective, neighbours: Neighbours = "add-remove"
) -> bool:
    """Whether bases are searched for this objective; else they are those for the total variance."""
    normed = isinstance(objective, WorstVariance | PNormVariance)
    if neighbours == "replace":
        own = isinstance(objective, ConvexLoss) or (normed and rows_affordable(design))
        return own or searches_rows(design, objective)
    return normed and worth_searching(design)


def _alone_for(aim: Aim) -> dict[int, Array] | None:
    """Where records are replaced and tables have one attribute each: the best bases for the
    objective, if these take little time."""
    objective = aim.objective
    if isinstance(objective, ConvexLoss):
        return loss_bases(aim.design, own_loss(objective, aim.budget))
    if isinstance(objective, WorstVariance):
        return norm_bases(aim.design, np.inf)
    return norm_bases(aim.design, objective.p) if isinstance(objective, PNormVariance) else None


def _by_tangents(aim: Aim, loss: ConvexLoss, best: Solution) -> Solution:
    """The same with bases for the total that the loss has for its tangent, as long as they are
    better."""
    if not aim.design.free:
        return best
    for _ in range(TANGENTS):
        matrix = type_matrix(aim.design, best.bases)
        weighted = tangent(
            aim.design, loss, matrix @ np.where(best.sigma2 < np.inf, best.sigma2, 0)
        )
        if not weighted.type_weight.any():  # the loss is flat
            return best
        total = replace(aim, design=weighted, objective=TotalVariance())
        first = replaced_bases(weighted)
        starts = [first, *_for_replaced(total, first)]
        found = min(
            (share_given_bases(aim, rows) for rows in starts), key=lambda one: one.share.value
        )
        if not best.share.value - found.share.value > TANGENT_GAIN * abs(best.share.value):
            return best
        best = found
    return best


def _for_replaced(aim: Aim, total_rows: dict[int, Array]) -> Iterator[dict[int, Array]]:
    """The total is free then, which the bases planned for adding and removing do not know."""
    design = aim.design
    if not design.free or measured_alone(design):
        return
    if not worth_descending(design):
        yield optimise_upright(design)
        return
    total = replace(aim, objective=TotalVariance())
    yield descended(design, total_rows, share_given_bases(total, total_rows).sigma2)


def share_given_bases(aim: Aim, rows: dict[int, Array]) -> Solution:
    """The best σ² for these bases."""
    bases = role_bases(aim.design, rows)
    privacy = privacy_rows(aim.design, bases, aim.neighbours)
    matrix = type_matrix(aim.design, bases)
    total = share_for_total(privacy, matrix.T @ aim.design.type_weight, aim.budget)
    if isinstance(aim.objective, TotalVariance):
        share = total
    elif isinstance(aim.objective, WorstVariance):
        share = _worst(aim, bases, privacy, np.isfinite(total.sigma2))
    else:
        share = _smooth(aim, bases, privacy, matrix, total)
    return Solution(rows, bases, privacy, share, rows)


def _worst(aim: Aim, bases: dict[int, Basis], privacy: Array, needed: NDArray[np.bool_]) -> Share:
    rows = worst_variances(aim.design, bases)
    share = share_for_worst(privacy[:, needed], sp.csr_array(rows[:, needed]), aim.budget)
    sigma2 = np.full(len(needed), np.inf)  # what no query needs is not measured
    sigma2[needed] = share.sigma2
    return Share(sigma2, share.value, share.bound)


def _smooth(
    aim: Aim, bases: dict[int, Basis], privacy: Array, matrix: sp.csr_array, start: Share
) -> Share:
    """p-norms over rows, and losses of one number per query."""
    measured = np.isfinite(start.sigma2) & (start.sigma2 > 0)
    if not measured.any():  # whatever is asked is public
        return start
    rows, loss = loss_rows(aim.design, bases, aim.objective, matrix)
    if isinstance(aim.objective, ConvexLoss):
        aim.objective.check_convex(rows @ np.where(measured, start.sigma2, 0.0))
    rows = sp.csr_array(rows[:, measured])
    share = share_for_loss(privacy[:, measured], rows, aim.budget, loss, start.sigma2[measured])
    sigma2 = start.sigma2.copy()
    sigma2[measured] = share.sigma2
    return Share(sigma2, share.value, share.bound)


def worst_variances(design: Design, bases: dict[int, Basis]) -> sp.csr_array:
    """Weighted variances of all rows that can be the worst, rows × subset types."""
    rows, owner = worst_rows(design, group_inverses(design, bases))
    return sp.csr_array(sp.diags_array(design.roles.type_priority[owner]) @ rows)


def loss_rows(
    design: Design, bases: dict[int, Basis], objective: Objective, matrix: sp.csr_array
) -> tuple[sp.csr_array, Smooth]:
    """The variances a smooth loss is of, as sums over subset types, and the loss of them."""
    if isinstance(objective, PNormVariance):
        rows, owner, often = all_rows(design, group_inverses(design, bases))
        rows = sp.csr_array(sp.diags_array(design.roles.type_priority[owner]) @ rows)
        return rows, p_norm(objective.p, often)
    assert isinstance(objective, ConvexLoss)
    scale = design.roles.type_priority / design.type_rows
    rows = sp.csr_array(sp.diags_array(scale) @ matrix)[design.roles.type_of_query]
    return rows, own_loss(objective)


def p_norm(p: float, often: Array) -> Smooth:
    """(Σ often · v^p)^(1/p) with its gradient."""

    def loss(variances: Array) -> tuple[float, Array]:
        largest = variances.max()
        relative = variances / largest
        total = (often * relative**p).sum()
        slope = often * relative ** (p - 1) * total ** (1 / p - 1)
        return float(largest * total ** (1 / p)), slope

    return loss


def own_loss(objective: ConvexLoss, cost: float = 1.0) -> Smooth:
    """A loss given by the user with its gradient, of variances at cost one: at this cost."""

    def loss(variances: Array) -> tuple[float, Array]:
        means = variances / cost
        return objective.value(means), objective.slope(means) / cost

    return loss


def table_loss(design: Design, bases: dict[int, Basis], goal: Objective) -> Loss:
    """The objective, of the variances of residuals that tables of Laplace noise tell."""
    if isinstance(goal, WorstVariance):
        return largest(worst_variances(design, bases))
    matrix = type_matrix(design, bases)
    if isinstance(goal, TotalVariance):
        return Loss.total(np.asarray(design.type_weight @ matrix))
    return smooth_loss(*loss_rows(design, bases, goal, matrix), goal)


def largest(rows: sp.csr_array) -> Loss:
    """The largest of all variances, by p-norms that come ever nearer to it."""
    powers = tuple(logarithm(p_norm(p, np.ones(rows.shape[0]))) for p in POWERS)
    return Loss(rows, lambda variances: float(variances.max()), powers)


def smooth_loss(rows: sp.csr_array, loss: Smooth, goal: Objective) -> Loss:
    """A smooth loss; one of the user's own need not be positive, and has no logarithm."""
    if isinstance(goal, ConvexLoss):
        return Loss(rows, goal.value, (loss,))
    return Loss(rows, lambda variances: loss(variances)[0], (logarithm(loss),))
