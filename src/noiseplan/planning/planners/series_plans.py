"""Plans for prefix sums and ranges of a long attribute: a series along it for every set of others.

| objective | what is shared out |
| --- | --- |
| total variance, losses of one's own | a function of the sums of variances of each query |
| worst variance, targets, p-norms | a p-norm over rows and some places along the values, p rising |

What is found is certified by singular values, every record alike (`optimize.series_bound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.series import Series
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.mechanisms.series_block import SeriesBlock, square_sum
from noiseplan.mechanisms.series_rows import Spans
from noiseplan.noise import Noise
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.optimize.series_bound import root_trace
from noiseplan.optimize.series_factor import Mixture, series_for
from noiseplan.optimize.series_sharing import Precisions, SeriesSharing, Sums
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.limits import GRAM_VALUES
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, WorstVariance
from noiseplan.planning.planners.long_plans import POWERS, LongPlan, tried
from noiseplan.planning.problem import Problem
from noiseplan.planning.series_problem import SeriesProblem, rows_of_kind, series_problem
from noiseplan.planning.solve import p_norm
from noiseplan.progress import progress

# Series are shared by sets whose weights are the same to so many digits.
DIGITS: Final = 6
# Places along the values that norms are taken over while precisions are shared out.
PLACES: Final = 256


def solve(problem: Problem) -> Candidate | None:
    """The plan, where prefix sums or ranges of one long attribute are asked; None where not."""
    found = series_problem(problem) if tried(problem) else None
    if found is None:
        return None
    norm = isinstance(problem.goal, PNormVariance) and problem.goal.p > 1
    if found.ranges and (norm or isinstance(problem.goal, WorstVariance)):
        if found.kinds[0].values <= GRAM_VALUES:
            return None  # planned by matrices over the values
        name = problem.workload.schema.names[found.place]
        raise PlanError(
            f"the largest variance of all ranges of {name!r} is not planned for more than "
            f"{GRAM_VALUES:,} values, with objectives or targets: plan Ranges() for the total "
            f"variance (the default, RMSE(at_most=…) too), or give targets for Prefix(), of which "
            f"every range is a difference"
        )
    return _SeriesPlan(found).candidate()


class _SeriesPlan(LongPlan):
    """One problem on its way to a plan."""

    taken = "series along ordered values"
    whole: SeriesProblem

    def __init__(self, whole: SeriesProblem) -> None:
        super().__init__(whole)
        self._known: dict[tuple[int, Mixture], Series] = {}
        with progress("Planning the series", len(self.sets)) as advance:
            self.units_of_sets = []
            for b in range(len(self.sets)):
                self.units_of_sets.append(self._unit(b))
                advance(1)
        price, blocks = self.bases.price[self.sets], self.units_of_sets
        norms = np.array([float(block.series.column_norms().max()) for block in blocks])
        self.sharing = SeriesSharing(
            price * norms,
            price,
            np.array([float(block.series.with_total.sum()) for block in blocks]),
            np.array([block.total is not None for block in blocks]),
        )

    # ------------------------------------------------------------------ what is measured along

    def _unit(self, b: int) -> SeriesBlock:
        """The block of a set with noise of variance one."""
        kinds, needed = self.whole.kinds, self.needed[:, self.sets[b]]
        asked = [kind for kind, need in zip(kinds, needed, strict=True) if need]
        finer = [kind for kind in asked if kind.name != "total"]
        bounds = _joined([kind.bounds for kind in finer or asked])
        series = self._series(len(bounds) - 1, self._mixture(b, bounds))
        one = Noise("gaussian", 1.0)
        total = one if len(finer) < len(asked) and len(bounds) > 2 else None
        return SeriesBlock(self.others(b), bounds, series, one, total)

    def _mixture(self, b: int, bounds: IntArray) -> Mixture:
        """What queries ask of a set together, in shares of all."""
        weights = np.array([self.whole.weights @ asked[:, b] for asked in self.asked])
        weights /= weights.max()
        of_name = dict.fromkeys(("values", "prefix", "ranges"), 0.0)
        groups = []
        for kind, weight in zip(self.whole.kinds, weights.tolist(), strict=True):
            share, parts = float(f"{weight:.{DIGITS}g}"), len(bounds) - 1
            single = kind.name == "groups" and kind.rows == parts
            if single or kind.name in of_name:
                of_name["values" if single else kind.name] += share
            elif kind.name == "groups" and share > 0:
                groups.append((share, parts / kind.rows))
        return Mixture(**of_name, groups=tuple(groups))

    def _series(self, size: int, mixture: Mixture) -> Series:
        key = (size, mixture)
        if key not in self._known:
            self._known[key] = series_for(size, mixture)
        return self._known[key]

    # ------------------------------------------------------------------ how precise

    @cached_property
    def _kind_sums(self) -> tuple[Array, Array]:
        """V and C of every kind and set."""
        shape = len(self.whole.kinds), len(self.sets)
        series, total = np.zeros(shape), np.zeros(shape)
        for b, unit in enumerate(self.units_of_sets):
            alone = replace(unit, total=None)
            for k, kind in enumerate(self.whole.kinds):
                rows = unit.seen(rows_of_kind(kind)) if self.needed[k, self.sets[b]] else None
                if rows is not None:
                    series[k, b] = alone.variance_sum(rows)
                    if unit.total is not None:
                        total[k, b] = square_sum(unit.series.with_total, rows)
        return series, total

    @cached_property
    def _query_sums(self) -> Sums:
        """V and C of every query."""
        of_kinds, shape = np.array(self.asked), "kqb,kb->qb"
        series, total = self._kind_sums
        return Sums(np.einsum(shape, of_kinds, series), np.einsum(shape, of_kinds, total))

    @cached_property
    def precisions(self) -> Precisions:
        """Of every set, for records that cost one."""
        return self.sharing.kept(self._found)

    @cached_property
    def _found(self) -> Precisions:
        goal, sums, weights = self.problem.goal, self._query_sums, self.whole.weights
        found = self.sharing.first(sums, weights)
        if isinstance(goal, ConvexLoss):
            return self.sharing.best(sums, self._own_loss(goal), found)
        found = self.sharing.best(sums, lambda v: (float(weights @ v), weights), found)
        for power in self._powers:
            rows, often, _ = self._places
            found = self.sharing.best(rows, p_norm(power, often), found)
        return found

    @property
    def _powers(self) -> Sequence[float]:
        goal = self.problem.goal
        if isinstance(goal, WorstVariance):
            return POWERS
        return (goal.p,) if isinstance(goal, PNormVariance) and goal.p > 1 else ()

    def _own_loss(self, goal: ConvexLoss) -> Smooth:
        share = self.whole.weights / self.problem.workload.sizes
        return lambda sums: (goal.value(share * sums), share * goal.slope(share * sums))

    @cached_property
    def _places(self) -> tuple[Sums, Array, IntArray]:
        """Rows of all queries at some places along the values: V and C, how often, and whose."""
        worst = isinstance(self.problem.goal, WorstVariance)
        of_kinds, often, query = self.bases.rows(np.inf if worst else 2.0)
        series, total, counts, owners = [], [], [], []
        for k, kind in enumerate(self.whole.kinds):
            rows = rows_of_kind(kind)
            assert isinstance(rows, Spans)  # ranges were refused
            v, c, many = self._along(rows)
            each = of_kinds[k][:, self.sets]
            series.append((each[:, None, :] * v).reshape(-1, len(self.sets)))
            total.append((each[:, None, :] * c).reshape(-1, len(self.sets)))
            counts.append(np.outer(often[k], many).ravel())
            owners.append(np.repeat(query[k], len(many)))
        both = Sums(np.concatenate(series), np.concatenate(total))
        return both, np.concatenate(counts), np.concatenate(owners)

    def _along(self, rows: Spans) -> tuple[Array, Array, Array]:
        """V and C at some places × sets, and how many rows each place stands for."""
        found = [(np.zeros(rows.count), np.zeros(rows.count)) for _ in self.units_of_sets]
        for b, unit in enumerate(self.units_of_sets):
            seen = unit.seen(rows)
            if isinstance(seen, Spans):
                sums = np.concatenate([[0.0], np.cumsum(unit.series.with_total)])
                squares = (sums[seen.stop] - sums[seen.start]) ** 2 * (unit.total is not None)
                found[b] = replace(unit, total=None).variance(seen), squares
        places = np.unique(np.linspace(0, rows.count - 1, PLACES).astype(np.int64))
        high = [int(np.argmax(v)) for v, _ in found]
        places = np.unique(np.concatenate([places, high]))
        ends = np.append((places[1:] + places[:-1] + 1) // 2, rows.count)
        v, c = (np.array(side)[:, places].T for side in zip(*found, strict=True))
        return v, c, np.diff(ends, prepend=0).astype(np.float64)

    # ------------------------------------------------------------------ the mechanism

    def of_scale(self, scale: float) -> SeriesMechanism:
        problem, at = self.problem, self.precisions

        def noise(precision: float, b: int) -> Noise:
            return problem.drawn.above(np.array([scale * self.units[b] / precision]))

        blocks = [
            replace(
                unit,
                noise=noise(at.series[b], b),
                total=noise(at.total[b], b) if at.total[b] > 0 else None,
            )
            for b, unit in enumerate(self.units_of_sets)
        ]
        schema = problem.workload.schema
        return SeriesMechanism(
            schema, self.whole.place, *self.parts(), tuple(blocks), problem.integer
        )

    # ------------------------------------------------------------------ how good it is

    def total_bound(self, weights: Array) -> float:
        kinds = self.whole.bounded
        found = []
        for seen in self._seen:
            of_sets = np.array([weights @ each for each in seen])  # kinds × sets
            found.append(sum(root_trace(kinds, of_sets[:, a]) for a in range(of_sets.shape[1])))
        return float(max(found) ** 2 / kinds[0].values * (1 - 1e-9))

    @cached_property
    def _seen(self) -> list[list[Array]]:
        """What sets count for every query at least, by kind; for each way to look at them."""
        return [self.whole.asked(each) for each in self.whole.least()]

    def objective_bound(self, cost: float) -> float:
        goal, weights = self.problem.goal, self.whole.weights
        if isinstance(goal, ConvexLoss):  # f(v') ≥ f(v) + ∇f(v)ᵀ(v' − v)
            sums = self.sharing.variances(self._query_sums, self.precisions) / cost
            value, slope = self._own_loss(goal)(sums)
            return value - float(slope @ sums) + self.total_bound(slope) / cost
        if not self._powers:
            return self.total_bound(weights) / cost
        largest = isinstance(goal, WorstVariance)
        return max(self._norm_bound(power, largest) for power in self._powers) / cost

    def _norm_bound(self, power: float, largest: bool) -> float:
        """‖v‖_p ≥ Σ y v/‖y‖_q for any y; here the mean of v^{p−1} over a query's rows."""
        rows, often, query = self._places
        v = self.sharing.variances(rows, self.precisions)
        sizes = self.problem.workload.sizes.astype(np.float64)
        mass = np.bincount(query, often * (v / v.max()) ** (power - 1), minlength=len(sizes))
        each = mass / sizes
        dual = 1.0 if largest else power / (power - 1)
        size = np.linalg.norm(each * sizes ** (1 / dual), dual)
        return float(self.total_bound(self.whole.weights * each) / size)


def _joined(bounds: Sequence[IntArray]) -> IntArray:
    """Where any of some partitions has an end."""
    return np.unique(np.concatenate(bounds))
