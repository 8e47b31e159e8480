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
from noiseplan.domain.series_kinds import SeriesKind
from noiseplan.domain.summed_series import SummedSeries
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.mechanisms.series_block import PartSums, SeriesBlock
from noiseplan.mechanisms.series_rows import AllRanges, SeriesRows, Spans
from noiseplan.noise import Noise
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.optimize.series_bound import root_trace
from noiseplan.optimize.series_factor import Mixture, series_for
from noiseplan.optimize.series_sharing import (
    Asked,
    Parts,
    Precisions,
    SeriesSharing,
    SingleRows,
    SummedRows,
)
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.limits import GRAM_VALUES
from noiseplan.planning.long_problem import SeriesProblem, rows_of_kind, series_problem
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, WorstVariance
from noiseplan.planning.planners.long_plans import POWERS, LongPlan, tried
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import p_norm
from noiseplan.progress import progress

# Series are shared by sets whose weights are the same to so many digits.
DIGITS: Final = 6
# Places along the values that norms are taken over while precisions are shared out.
PLACES: Final = 256
# Places that stand for all, where sums of variances are shared out: these are smooth along them.
SAMPLED: Final = 2048
# Groups are measured beside a series where all of them make no more parts than this, where there
# are no more covariances of parts with values, and no more work for all sets at each step.
MOST_PARTS: Final = 1024
MOST_NUMBERS: Final = 1 << 24
MOST_WORK: Final = 2.2e9


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
            f"{GRAM_VALUES:,} values, with objectives or targets: plan ranges for the total "
            f"variance (the default, or an RMSE of at most so much), or give targets for prefix "
            f"sums, of which every range is a difference"
        )
    return _SeriesPlan(found).candidate()


class _SeriesPlan(LongPlan):
    """One problem on its way to a plan."""

    taken = "series along ordered values"
    whole: SeriesProblem

    def __init__(self, whole: SeriesProblem) -> None:
        super().__init__(whole)
        self._known: dict[tuple[int, Mixture], Series] = {}
        self._summed: dict[tuple[int, ...] | tuple[object, ...], SummedSeries] = {}
        with progress("Planning the series", len(self.sets)) as advance:
            self.units_of_sets = []
            for b in range(len(self.sets)):
                self.units_of_sets.append(self._unit(b))
                advance(1)
        price, blocks = self.bases.price[self.sets], self.units_of_sets
        norms = np.array([float(block.series.column_norms().max()) for block in blocks])
        parts = [Parts.of(both) if both else Parts.none() for both in map(self._both, blocks)]
        self.sharing = SeriesSharing(price * norms, price, tuple(parts))

    @property
    def width(self) -> int:
        return self.whole.kinds[0].values

    # ------------------------------------------------------------------ what is measured along

    def _unit(self, b: int) -> SeriesBlock:
        """The block of a set with noise of variance one."""
        kinds, needed = self.whole.kinds, self.needed[:, self.sets[b]]
        asked = [kind for kind, need in zip(kinds, needed, strict=True) if need]
        finer = [kind for kind in asked if kind.name != "total"]
        bounds = _joined([kind.bounds for kind in finer or asked])
        one = Noise("gaussian", 1.0)
        sums = tuple(PartSums(each, one) for each in self._sums(asked, bounds))
        series = self._series(len(bounds) - 1, self._mixture(b, bounds, sums))
        return SeriesBlock(self.others(b), bounds, series, one, sums)

    def _sums(self, asked: Sequence[SeriesKind], bounds: IntArray) -> list[IntArray]:
        """Totals and groups that are measured beside the series, over its parts: coarse first."""
        size, found = len(bounds) - 1, list[IntArray]()
        most = min(MOST_PARTS, MOST_NUMBERS // size, int((MOST_WORK / len(self.sets)) ** (1 / 3)))
        for kind in sorted(asked, key=lambda kind: kind.rows):
            if kind.name in ("total", "groups") and kind.rows < size:
                sums = np.searchsorted(bounds, kind.bounds)
                if len(_joined([*found, sums])) - 1 <= most:
                    found.append(sums)
        return found

    def _mixture(self, b: int, bounds: IntArray, sums: Sequence[PartSums]) -> Mixture:
        """What queries ask of a series together, in shares of all; not what sums answer."""
        weights = np.array([self.whole.weights @ asked[:, b] for asked in self.asked])
        weights /= weights.max()
        of_name = dict.fromkeys(("values", "prefix", "ranges"), 0.0)
        groups, parts = [], len(bounds) - 1
        beside = {bounds[each.bounds].tobytes() for each in sums}
        for kind, weight in zip(self.whole.kinds, weights.tolist(), strict=True):
            share = float(f"{weight:.{DIGITS}g}")
            single = kind.name == "groups" and kind.rows == parts
            if single or kind.name in of_name:
                of_name["values" if single else kind.name] += share
            elif kind.name == "groups" and share > 0 and kind.bounds.tobytes() not in beside:
                groups.append((share, parts / kind.rows))
        return Mixture(**of_name, groups=tuple(groups))

    def _series(self, size: int, mixture: Mixture) -> Series:
        key = (size, mixture)
        if key not in self._known:
            self._known[key] = series_for(size, mixture)
        return self._known[key]

    def _both(self, block: SeriesBlock) -> SummedSeries | None:
        """The series of a block with its sums, the same for all blocks that have the same."""
        if not block.sums:
            return None
        partitions = tuple(each.bounds for each in block.sums)
        key = (id(block.series), *(each.tobytes() for each in partitions))
        return self._summed.setdefault(key, SummedSeries(block.series, partitions))

    # ------------------------------------------------------------------ how precise

    @cached_property
    def _query_sums(self) -> Asked:
        """Sums of the variances of every query."""
        rows = [self._kind_rows(b) for b in range(len(self.sets))]
        return Asked(rows, self.asked, [1] * len(self.asked), added=True)

    def _kind_rows(self, b: int) -> SummedRows:
        """V and Σqqᵀ of every kind; the latter from some places along the values."""
        unit, both = self.units_of_sets[b], self._both(self.units_of_sets[b])
        kinds, parts = self.whole.kinds, both.parts if both else 0
        alone, grams = np.zeros(len(kinds)), np.zeros((len(kinds), parts, parts))
        for k, kind in enumerate(kinds):
            rows = unit.seen(rows_of_kind(kind)) if self.needed[k, self.sets[b]] else None
            if rows is None:
                continue
            alone[k] = replace(unit, sums=()).variance_sum(rows)
            if both is not None:
                grams[k] = _gram(both, rows)
        return SummedRows(alone, grams)

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
    def _places(self) -> tuple[Asked, Array, IntArray]:
        """Rows of all queries at some places along the values, how often each, and whose it is."""
        worst = isinstance(self.problem.goal, WorstVariance)
        of_kinds, often, query = self.bases.rows(np.inf if worst else 2.0)
        weights = [each[:, self.sets] for each in of_kinds]
        along = [self._along(rows_of_kind(kind)) for kind in self.whole.kinds]
        rows = [
            SingleRows(
                np.concatenate([alone[b] for alone, _, _ in along]),
                np.concatenate([vectors[b] for _, vectors, _ in along]),
            )
            for b in range(len(self.sets))
        ]
        many = [m for _, _, m in along]
        asked = Asked(rows, weights, [len(m) for m in many], added=False)
        counts = [np.outer(o, m).ravel() for o, m in zip(often, many, strict=True)]
        owners = [np.repeat(q, len(m)) for q, m in zip(query, many, strict=True)]
        return asked, np.concatenate(counts), np.concatenate(owners)

    def _along(self, rows: SeriesRows) -> tuple[list[Array], list[Array], Array]:
        """V and q at some places, by set, and how many rows each place stands for."""
        assert isinstance(rows, Spans)  # ranges were refused
        seen = [unit.seen(rows) for unit in self.units_of_sets]
        alone = [
            replace(unit, sums=()).variance(own) if isinstance(own, Spans) else np.zeros(rows.count)
            for unit, own in zip(self.units_of_sets, seen, strict=True)
        ]
        high = [int(np.argmax(v)) for v in alone]
        places, many = _some(rows.count, PLACES, high)
        vectors = []
        for unit, own in zip(self.units_of_sets, seen, strict=True):
            both = self._both(unit)
            empty = np.zeros((len(places), both.parts if both else 0))
            spans = isinstance(own, Spans) and both is not None
            vectors.append(_told(both, own, places) if spans else empty)  # type: ignore[arg-type]
        return [v[places] for v in alone], vectors, many

    # ------------------------------------------------------------------ the mechanism

    def of_scale(self, scale: float) -> SeriesMechanism:
        problem, at = self.problem, self.precisions

        def noise(precision: float, b: int) -> Noise:
            return problem.drawn.above(np.array([scale * self.units[b] / precision]))

        blocks = [
            replace(
                unit,
                noise=noise(at.series[b], b),
                sums=tuple(
                    replace(each, noise=noise(tau, b))
                    for each, tau in zip(unit.sums, at.sums[b].tolist(), strict=True)
                    if tau > 0
                ),
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


def _some(count: int, most: int, also: Sequence[int] = ()) -> tuple[IntArray, Array]:
    """Some of so many places, and how many each stands for."""
    spread = np.linspace(0, count - 1, min(most, count)).astype(np.int64)
    places = np.unique(np.concatenate([spread, np.array(also, dtype=np.int64)]))
    ends = np.append((places[1:] + places[:-1] + 1) // 2, count)
    return places, np.diff(ends, prepend=0).astype(np.float64)


def _told(both: SummedSeries, rows: Spans, places: IntArray) -> Array:
    """q of some rows: what each is of the parts."""
    start, stop = rows.start[places], rows.stop[places]
    ends, where = np.unique(np.concatenate([start, stop]), return_inverse=True)
    upto = both.up_to(ends) @ both.information
    return np.asarray(upto[where[len(start) :]] - upto[where[: len(start)]])


def _gram(both: SummedSeries, rows: SeriesRows) -> Array:
    """Σqqᵀ of all rows, from some of them; of all ranges (n + 1) Σ q_kq_kᵀ − (Σ q_k)(Σ q_k)ᵀ."""
    spans = Spans.prefixes(rows.size) if isinstance(rows, AllRanges) else rows
    assert isinstance(spans, Spans)
    places, many = _some(spans.count, SAMPLED)
    told = _told(both, spans, places)
    found = (told.T * many) @ told
    if isinstance(rows, AllRanges):
        together = many @ told
        return np.asarray((rows.size + 1) * found - np.outer(together, together))
    return np.asarray(found)


def _joined(bounds: Sequence[IntArray]) -> IntArray:
    """Where any of some partitions has an end."""
    return np.unique(np.concatenate(bounds))
