"""Bases for the worst variance: a p-norm of the row variances, with p rising.

Alternating between bases and dual weights oscillates. Minimising the p-norm over all U_i and all
log σ²_A together, the budget kept by normalisation, does not: p goes from 8 to 3,000 in steps, each
started where the last one ended. The final σ² come from the convex problem for the final bases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from noiseplan.arrays import IntArray
from noiseplan.matrices import IdentityMatrix, kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import Smooth, minimise
from noiseplan.optimize.split_coordinates import Chart, Point
from noiseplan.planning.free_split import add_joint_gradient
from noiseplan.planning.row_terms import (
    RowType,
    grid_variances,
    plain_rows,
    plain_types,
    row_points,
    row_types,
)
from noiseplan.planning.workload_types import Design, JointQuery, joint_coefficients

POWERS = (8, 64, 500, 3000)
STEPS_PER_POWER = 80
# Rows of one query type that are followed at a time: all of a table's rows where they are this few.
GRID_LIMIT = 1 << 14
# The same for long attributes: rows followed × values², the work of one look at them.
ROW_WORK = 1 << 28
# Work of a search at one power: long attributes, where a look is dear, get fewer steps.
POWER_WORK = 5e10
FEWEST_STEPS = 10
# Beyond so many values no search: a sample of rows that a search can afford lets others run away,
# and the bases planned for the total win in the end.
LONGEST = 512
# Mixtures of the two columns that rows are judged by, where not all are followed.
MOST_ANGLES = 256
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class _Problem:
    """What stays the same during one step: the rows followed, and their weights."""

    design: Design
    types: list[RowType]
    factors: dict[
        int, Array
    ]  # of each pair on a free role: the rows followed, over groups of values
    fixed: dict[int, Array]  # of every other pair: its table [b | a]
    plain: sp.csr_array  # rows of the types that never change
    plain_log_weight: Array
    log_weight: Array  # of each entry of `types`
    privacy: Array
    power: float

    def value_at(self, chart: Chart) -> Smooth:
        return lambda x: _value(self, x, chart)

    @property
    def steps(self) -> int:
        """As many as are worth while: each multiplies rows by values × values, and inverts such."""
        look = sum(4.0 * (len(w) + w.shape[1]) * w.shape[1] ** 2 for w in self.factors.values())
        return int(np.clip(POWER_WORK / max(look, 1.0), FEWEST_STEPS, STEPS_PER_POWER))


def worth_searching(design: Design) -> bool:
    """Whether bases of their own can be found for single rows: no attribute is too long."""
    return bool(design.free) and max(map(design.group_count, design.free)) <= LONGEST


def optimise_worst(
    design: Design,
    rows: dict[int, Array],
    sigma2: Array,
    powers: tuple[float, ...],
    count_rows: bool,
) -> tuple[dict[int, Array], Array]:
    """U of every free role and σ² of every subset type, from a start that plans the total.

    With `count_rows` every row counts as often as it occurs (a true p-norm for a fixed p).
    """
    chart = Chart.of(rows)
    # What is not measured, or exact (a total that costs nothing), starts at some ordinary noise.
    ordinary = np.isfinite(sigma2) & (sigma2 > 0)
    measured = np.where(ordinary, sigma2, np.median(sigma2[ordinary]) if ordinary.any() else 1.0)
    x = np.concatenate([np.log(measured), chart.pack(rows)])
    for power in powers:
        problem = _problem(design, chart.points(x[len(sigma2) :]), power, count_rows)
        _, x = minimise(problem.value_at(chart), x, steps=problem.steps, gain=1e-11)
    points = chart.points(x[len(sigma2) :])
    return {r: p.rows for r, p in points.items()}, np.exp(x[: len(sigma2)])


def _problem(design: Design, rows: dict[int, Point], power: float, count_rows: bool) -> _Problem:
    types = row_types(design)
    inverses = {r: point.inverse for r, point in rows.items()}
    points = row_points(design, inverses)
    factors, fixed = {}, {}
    for pair, table in enumerate(points):
        if _is_free(design, rows, pair):
            role = int(design.roles.pair_role[pair])
            together = [
                sum(_is_free(design, rows, p) for p in t.pairs) for t in types if pair in t.pairs
            ]
            limit = _most_rows(max(together, default=1), design.group_count(role))
            limit = len(table) if count_rows else limit
            chosen = followed_rows(table, limit)
            first = np.unique(design.groups[role], return_index=True)[1]
            factors[pair] = design.roles.pair_matrix(pair).take(chosen)[:, first]
        else:
            fixed[pair] = table
    weights = np.log(design.roles.type_priority)
    often = np.zeros(len(weights))
    if count_rows:
        repeats = [_plain_repeats(design, t) for t in range(len(weights))]
        often = np.log(design.roles.type_count) + np.log(repeats)
    plain = plain_types(design)
    return _Problem(
        design,
        types,
        factors,
        fixed,
        plain_rows(design, inverses),
        weights[plain] + often[plain] / power,
        np.array([weights[t.number] + often[t.number] / power for t in types]),
        design.privacy_weights(design.sensitivities(dict.fromkeys(rows, 1.0))),
        power,
    )


def _plain_repeats(design: Design, number: int) -> float:
    """How many rows of a query share one entry of its grid: the values of its plain attributes."""
    pairs = design.roles.types[number]
    roles = [design.roles.roles[r] for r in design.roles.pair_role[pairs[pairs >= 0]]]
    return float(np.prod([role.size for role in roles if role.plain]))


def _is_free(design: Design, rows: dict[int, Point], pair: int) -> bool:
    return int(design.roles.pair_role[pair]) in rows and design.grams[pair] is not None


def _most_rows(together: int, values: int) -> int:
    """Rows of one factor to follow: `together` of them make a grid, each over so many values."""
    return max(min(int(GRID_LIMIT ** (1 / together)), ROW_WORK // values**2), 2)


def followed_rows(table: Array, limit: int) -> IntArray:
    """The rows of a factor to follow: all, or those that come closest to being worst for some
    mixture of the two columns [b | a], and evenly spaced ones so that no row between them can run
    away."""
    if len(table) <= limit:
        return np.arange(len(table))
    even = np.linspace(0, len(table) - 1, max(limit // 2, 2)).round().astype(np.int64)
    scale = np.maximum(table.max(axis=0), 1e-300)
    score = np.zeros(len(table))
    for angle in np.linspace(0, np.pi / 2, min(4 * limit, MOST_ANGLES)):
        support = table @ (np.array([np.cos(angle), np.sin(angle)]) / scale)
        np.maximum(score, support / support.max(), out=score)
    leading = np.argsort(-score, kind="stable")[: limit - len(even)]
    return np.union1d(even, leading)


def _value(problem: _Problem, x: Array, chart: Chart) -> tuple[float, Array]:
    """log of (p-norm of weighted variances × privacy cost), and its gradient."""
    design, count = problem.design, problem.design.terms.subsets
    y = x[:count]
    sigma2 = np.exp(y)
    points = chart.points(x[count:])
    split = {
        pair: w @ points[int(design.roles.pair_role[pair])].inverse
        for pair, w in problem.factors.items()
    }
    tables = problem.fixed | {
        pair: np.column_stack([z[:, 0] ** 2, (z[:, 1:] ** 2).sum(axis=1)])
        for pair, z in split.items()
    }

    plain = problem.plain @ sigma2
    # A row of zeros has no variance, and no part in the norm.
    place = _Place(design, points, tables, sigma2)
    grids = [np.maximum(_grid(place, t), TINY) for t in problem.types]
    logs = [np.log(plain) + problem.plain_log_weight]
    logs += [np.log(g).ravel() + w for g, w in zip(grids, problem.log_weight, strict=True)]
    flat = problem.power * np.concatenate(logs)
    norm = logsumexp(flat)
    cost = problem.privacy / sigma2
    value = norm / problem.power + np.log(cost.sum())

    share = np.exp(flat - norm)  # the weight of each row; ∂value/∂variance = share / variance
    by_sigma2 = problem.plain.T @ (share[: len(plain)] / plain)
    by_table = {pair: np.zeros_like(tables[pair]) for pair in problem.factors}
    by_inverse = {r: np.zeros_like(p.inverse) for r, p in points.items()}
    total, start = _Slopes(by_sigma2, by_table, by_inverse), len(plain)
    for row, grid in zip(problem.types, grids, strict=True):
        slope = share[start : start + grid.size].reshape(grid.shape) / grid
        start += grid.size
        _add_row_gradient(place, row, slope, total)
    for pair, w in problem.factors.items():
        column = np.repeat(by_table[pair][:, 1:], split[pair].shape[1], axis=1)
        column[:, 0] = by_table[pair][:, 0]
        by_inverse[int(design.roles.pair_role[pair])] += w.T @ (2.0 * split[pair] * column)
    by_y = by_sigma2 * sigma2 - cost / cost.sum()
    value += chart.restraint(points, by_inverse)
    return float(value), np.concatenate([by_y, chart.pull_back(points, by_inverse)])


@dataclass(frozen=True, eq=False)
class _Place:
    """Where variances are looked at: bases, tables [b | a] of factors, σ² of subset types."""

    design: Design
    points: dict[int, Point]
    tables: dict[int, Array]
    sigma2: Array

    def sigma2_of(self, row: RowType) -> Array:
        return np.where(row.subsets >= 0, self.sigma2[row.subsets], 0.0)

    def joint(self, row: RowType) -> tuple[JointQuery, list[Array]]:
        """The dense matrix of a type, and T of its roles."""
        joint = self.design.joints[row.joint]
        inverses = {r: point.inverse for r, point in self.points.items()}
        return joint, self.design.joint_inverses(joint, inverses)


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Gradients that every type of row adds to."""

    by_sigma2: Array
    by_table: dict[int, Array]
    by_inverse: dict[int, Array]


def _grid(place: _Place, row: RowType) -> Array:
    if row.joint < 0:
        return grid_variances([place.tables[p] for p in row.pairs], place.sigma2_of(row))
    squares = joint_coefficients(*place.joint(row))[0]
    return squares.reshape(len(squares), -1) @ place.sigma2_of(row)


def _add_row_gradient(place: _Place, row: RowType, slope: Array, total: _Slopes) -> None:
    """Add one type's part of the gradient with respect to σ², tables [b | a] and T."""
    known, own = row.subsets >= 0, place.sigma2_of(row)
    if row.joint >= 0:
        joint, inverses = place.joint(row)
        squares, _ = joint_coefficients(joint, inverses)
        back = slope @ squares.reshape(len(squares), -1)
        np.add.at(total.by_sigma2, row.subsets[known], back[known])
        per_row = slope.reshape(-1, *(1,) * len(inverses)) * own.reshape(1, *(2,) * len(inverses))
        add_joint_gradient(place.design, joint, place.points, per_row, total.by_inverse)
        return
    mine = [place.tables[p] for p in row.pairs]
    back = kronecker_apply([t.T for t in mine], slope[..., None])[..., 0].ravel()
    np.add.at(total.by_sigma2, row.subsets[known], back[known])
    cube = own.reshape((2,) * len(mine))
    for axis, pair in enumerate(row.pairs):
        if pair in total.by_table:
            # slope contracted with every other table leaves (rows of this axis) × (2, …, 2
            # elsewhere)
            others = [IdentityMatrix(len(t)) if i == axis else t.T for i, t in enumerate(mine)]
            left = np.moveaxis(kronecker_apply(others, slope[..., None])[..., 0], axis, 0)
            right = np.moveaxis(cube, axis, 0)
            total.by_table[pair] += left.reshape(len(left), -1) @ right.reshape(2, -1).T
