"""The nearest non-negative tables: one convex problem, solved in its dual.

    minimise   Σ_S w_S ‖y_S − ŷ_S‖² / 2 + Σ_L w_L (z_L − ẑ_L)² / 2   over tables, margins and sums,
    subject to tables x_B ≥ 0 whose margins are y_S, all from one set of residuals, and whose sums
    L x_B are z_L.

With multipliers μ_{B,S} for "the margin S of x_B is y_S" and λ_L for "L x_B is z_L" the inner
minimum has a closed form,

    x_B = max(0, x̂_B + (Σ_S μ_{B,S} + Lᵀλ) / w_B) ,   r_A = r̂_A − g_A / e_A ,   z = ẑ − λ / w_L ,

where e_A = Σ_{S⊇A} w_S / n_{S∖A} and g_A collects the μ: a smooth concave function of all of them,
without constraints, with far fewer variables than there are cells. It is maximised by a
quasi-Newton method whose diagonal follows the number of positive cells that a multiplier moves.

Running sums, L = C·R, have the multipliers λ' = Cᵀλ: cells are moved by Rᵀλ' as by any margin, and
what ties neighbours together is the known ½ λ'ᵀ C⁻¹W⁻¹C⁻ᵀ λ', three diagonals. As a diagonal alone
would need thousands of steps, theirs is this whole matrix.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.valid.asked_sums import Sums
from noiseplan.valid.family import Set, TableFamily, margin, spread

MEMORY = 15
# Steps after which the diagonal is made anew: often at first, while cells come and go.
REFRESH = (8, 20, 40, 80, 160, 320, 640, 1280)
# Cells that a thread works on at a time, and what a table takes besides its own, counted in cells.
ENOUGH, OVERHEAD = 1 << 15, 1 << 7
Found = TypeVar("Found")

# Tables of more cells are gone through one by one.
SMALL: Final = 1 << 10


@dataclass(frozen=True, eq=False)
class NearestTables:
    """Estimates, weights, and what is known: residuals that are given, cells that must be zero."""

    family: TableFamily
    estimates: Mapping[Set, Array]  # of tables and margins
    weights: Mapping[Set, float]  # of tables and margins, positive
    fixed: Mapping[Set, Array]  # residuals that are public
    possible: Mapping[Set, Array]  # for some tables: 1 where a cell may be positive, else 0
    sums: Sequence[Sums] = ()

    @cached_property
    def stiffness(self) -> dict[Set, float]:
        """e_A."""
        family = self.family
        found = dict.fromkeys(family.margins, 0.0)
        for outer in family.margins:
            for inner in (outer, *family.below(outer)):
                found[inner] += self.weights[outer] / family.ratio(outer, inner)
        return found

    @cached_property
    def centre(self) -> dict[Set, Array]:
        """r̂_A: what the margins' own estimates say, averaged by weight; or what is public."""
        family = self.family
        sums: dict[Set, Array] = {one: np.zeros(family.shape(one)) for one in family.margins}
        for outer in family.margins:
            for inner, part in family.residuals(outer, self.estimates[outer]).items():
                sums[inner] += part * (self.weights[outer] / family.ratio(outer, inner))
        means = {one: total / self.stiffness[one] for one, total in sums.items()}
        return means | dict(self.fixed)


@dataclass(eq=False)
class Dual:
    """The dual function of a problem, over one flat vector of multipliers."""

    problem: NearestTables
    places: dict[tuple[Set, Set], slice] = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        family, start = self.problem.family, 0
        self.places = {}
        for table in family.tables:
            for facet in family.facets[table]:
                stop = start + family.cells(facet)
                self.places[table, facet] = slice(start, stop)
                start = stop
        self.sums: dict[Set, list[tuple[Sums, slice]]] = {s: [] for s in family.tables}
        for sums in self.problem.sums:
            stop = start + len(sums.estimate)
            self.sums[sums.table].append((sums, slice(start, stop)))
            start = stop
        self.size = start
        self._room = threading.local()
        self._pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
        self._alike = self._small_ones()
        together = {one for same in self._alike for one in same.tables}
        self._batches = _batches(family, [s for s in family.tables if s not in together])

    def _small_ones(self) -> list[Alike]:
        """Tables that are gone through all at once: without sums or cells that must be zero."""
        problem, family = self.problem, self.problem.family
        plain = [s for s in family.tables if not self.sums[s] and s not in problem.possible]
        return alike(family, plain, self.places, problem.estimates, problem.weights)

    @cached_property
    def _facets(self) -> dict[Set, slice]:
        """Where each margin lies in a flat vector of all margins that have multipliers."""
        found, start = {}, 0
        for facet in dict.fromkeys(facet for _, facet in self.places):
            found[facet] = slice(start, start + self.problem.family.cells(facet))
            start = found[facet].stop
        return found

    @cached_property
    def _into(self) -> IntArray:
        """The place in such a vector that each multiplier of a margin belongs to."""
        places = [self._facets[facet] for _, facet in self.places]
        return np.concatenate([np.arange(0), *(np.arange(s.start, s.stop) for s in places)])

    def close(self) -> None:
        self._pool.shutdown()

    def _each(self, done: Callable[[Set], Found]) -> list[Found]:
        """What is found of tables one by one, in their order; batches of them at once."""
        found = self._pool.map(lambda batch: [done(table) for table in batch], self._batches)
        return list(chain.from_iterable(found))

    def _scratch(self, table: Set) -> Array:
        """Room for a table, the same again and again in each thread: fresh memory is slow."""
        if not hasattr(self._room, "buffer"):
            largest = max(map(self.problem.family.cells, self.problem.family.tables))
            self._room.buffer = np.empty(largest)
        family = self.problem.family
        flat: Array = self._room.buffer[: family.cells(table)]
        return flat.reshape(family.shape(table))

    def part(self, vector: Array, table: Set, facet: Set) -> Array:
        """The piece of a flat vector that belongs to one margin of one table."""
        return vector[self.places[table, facet]].reshape(self.problem.family.shape(facet))

    def table(self, multipliers: Array, table: Set, out: Array | None = None) -> Array:
        """x_B, written to `out` if it is given."""
        problem = self.problem
        found = np.empty(problem.family.shape(table)) if out is None else out
        start = problem.estimates[table]
        for facet in problem.family.facets[table]:
            moved = self.part(multipliers, table, facet) / problem.weights[table]
            start = np.add(start, spread(moved, facet, table), out=found)
        for sums, place in self.sums[table]:
            shape = problem.family.shape(sums.inside)
            found += sums.turned(multipliers[place] / problem.weights[table], shape)
        np.maximum(found, 0.0, out=found)
        if table in problem.possible:
            found *= problem.possible[table]
        return found

    def residuals(self, multipliers: Array) -> tuple[dict[Set, Array], float]:
        """r_A of every margin, and the value of their part of the dual."""
        problem, family = self.problem, self.problem.family
        sums = np.bincount(self._into, multipliers[: len(self._into)]).astype(np.float64)
        pulls: dict[Set, Array] = {}
        for facet, place in self._facets.items():
            total = sums[place].reshape(family.shape(facet))
            for inner, part in family.residuals(facet, total).items():
                part = part / family.ratio(facet, inner)
                pulls[inner] = pulls[inner] + part if inner in pulls else part
        found, value = {}, 0.0
        for one, centre in problem.centre.items():
            if one not in pulls:
                found[one] = centre
                continue
            pull = pulls[one]
            give = 0.0 if one in problem.fixed else 1.0 / problem.stiffness[one]
            found[one] = centre - give * pull
            value += float(np.vdot(pull, centre)) - 0.5 * give * float(np.vdot(pull, pull))
        return found, value

    def evaluate(self, multipliers: Array) -> tuple[float, Array]:
        """Minus the dual function, and its gradient: margins of x_B less those they should be."""
        problem, family = self.problem, self.problem.family
        residuals, value = self.residuals(multipliers)
        margins = [family.expand(residuals, facet).ravel() for facet in self._facets]
        wanted = np.concatenate([np.zeros(0), *margins])
        gradient = np.empty_like(multipliers)

        def one(table: Set) -> float:
            found = self.table(multipliers, table, self._scratch(table))
            for facet in family.facets[table]:
                self.part(gradient, table, facet)[...] = margin(found, table, facet)
            flat = found.ravel()
            value = 0.5 * problem.weights[table] * float(flat @ flat)
            for sums, place in self.sums[table]:
                pull = sums.multipliers(multipliers[place])
                give = pull / sums.weights
                gradient[place] = sums.plain(found) - sums.parted(sums.estimate - give)
                value += 0.5 * float(pull @ give) - float(pull @ sums.estimate)
            return value

        spent = sum(self._each(one))
        spent += sum(same.margins(multipliers, gradient) for same in self._alike)
        gradient[: len(self._into)] -= wanted[self._into]
        return spent - value, gradient

    def curvature(self, multipliers: Array) -> Curvature:
        """About how much each gradient changes with its own multiplier: positive cells / w_B."""
        problem, family = self.problem, self.problem.family
        found = np.empty_like(multipliers)
        lines: dict[int, _Lines] = {}

        def one(table: Set) -> None:
            positive = (self.table(multipliers, table) > 0).astype(np.float64)
            for facet in family.facets[table]:
                count = np.maximum(margin(positive, table, facet), 1.0)
                self.part(found, table, facet)[...] = count / problem.weights[table]
            for sums, place in self.sums[table]:
                count = np.maximum(sums.squares @ margin(positive, table, sums.inside).ravel(), 1.0)
                found[place] = count / problem.weights[table]
                if sums.running is None:
                    found[place] += 1.0 / sums.weights
                else:
                    bands = sums.bands(found[place], 1.0 / sums.weights)
                    lines[place.start] = _Lines(sums, place, cholesky_banded(bands))

        for same in self._alike:
            for table in same.tables:
                one(table)
        self._each(one)
        return Curvature(found, list(lines.values()))

    def mismatch(self, gradient: Array) -> float:
        """The most records by which margins of a table miss what they should be."""
        starts = [place.start for place in self.places.values()]  # those of sums come behind them
        stop = max((place.stop for place in self.places.values()), default=0)
        gaps = np.add.reduceat(np.abs(gradient[:stop]), starts).tolist() if starts else []
        for sums, place in (pair for found in self.sums.values() for pair in found):
            gaps.append(float(np.abs(sums.summed(gradient[place])).sum()) / sums.layers)
        return max(gaps, default=0.0)


def _batches(family: TableFamily, tables: Sequence[Set]) -> list[list[Set]]:
    """Tables that follow each other, together as large as pays for being handed to a thread."""
    batches: list[list[Set]] = [[]]
    cells = 0
    for table in tables:
        if cells >= ENOUGH:
            batches.append([])
            cells = 0
        batches[-1].append(table)
        cells += family.cells(table) + OVERHEAD
    return batches


class _Lines(NamedTuple):
    """Running sums, where their multipliers are, and the factor of their three diagonals."""

    sums: Sums
    place: slice
    factor: Array


@dataclass(frozen=True, eq=False)
class Curvature:
    """A diagonal, and for running sums three."""

    diagonal: Array
    lines: Sequence[_Lines]

    def solved(self, gradient: Array) -> Array:
        """The steps that a gradient asks for."""
        found = gradient / self.diagonal
        for sums, place, factor in self.lines:
            lined = cho_solve_banded((factor, False), sums.lined_up(gradient[place]))
            found[place] = sums.back_in_order(lined)
        return found


@dataclass(eq=False)
class Effort:
    """How far to go, the steps that are left for it, and how far the latest problem went.

    Problems that follow each other share the steps, and each begins where the last one ended.
    """

    tolerance: float  # the records by which margins of a table may be missed
    left: int
    advance: Callable[[int], None]
    point: Array | None = None
    missed: float = 0.0

    @property
    def done(self) -> bool:
        """Whether the latest problem was solved to the end."""
        return self.missed <= self.tolerance


def maximise(dual: Dual, effort: Effort) -> Array:
    """Multipliers at which margins are missed by no more than is allowed, if steps suffice."""
    point = np.zeros(dual.size) if effort.point is None else effort.point
    if not dual.size:
        return point
    value, gradient = dual.evaluate(point)
    scale = dual.curvature(point)
    pairs: deque[tuple[Array, Array]] = deque(maxlen=MEMORY)
    for step in range(1, effort.left + 1):
        if dual.mismatch(gradient) <= effort.tolerance:
            break
        if step in REFRESH:
            scale = dual.curvature(point)
            pairs.clear()
        direction = _quasi_newton(gradient, pairs, scale)
        slope, length = float(gradient @ direction), 1.0
        for _ in range(40):
            following = point - length * direction
            reached, turned = dual.evaluate(following)
            if reached <= value - 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
        else:
            break  # no longer told from rounding
        change, turn = following - point, turned - gradient
        if change @ turn > 1e-14 * np.sqrt((change @ change) * (turn @ turn)):
            pairs.append((change, turn))
        point, value, gradient = following, reached, turned
        effort.left -= 1
        effort.advance(1)
    effort.point, effort.missed = point, dual.mismatch(gradient)
    return point


def _quasi_newton(gradient: Array, pairs: deque[tuple[Array, Array]], scale: Curvature) -> Array:
    """The two loops of L-BFGS around a matrix that is easily inverted."""
    direction = gradient.copy()
    shares = []
    for change, turn in reversed(pairs):
        share = float(change @ direction) / float(change @ turn)
        direction -= share * turn
        shares.append(share)
    direction = scale.solved(direction)
    if pairs:
        change, turn = pairs[-1]
        direction *= float(change @ turn) / float(turn @ scale.solved(turn))
    else:
        direction *= 0.5
    for (change, turn), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - float(turn @ direction) / float(change @ turn)) * change
    return direction


# ---------------------------------------------------------------------- small tables alike
#
# Small tables of one shape, moved by their multipliers and summed all at once.
#
# Thousands of tables of a few cells each, as all pairs of a hundred attributes are, take far longer
# to be gone through one by one than their numbers do.


@dataclass(frozen=True, eq=False)
class Alike:
    """Tables x_B with margins along the same axes; `places` has those of their multipliers."""

    tables: Sequence[Set]
    axes: Sequence[tuple[int, ...]]  # of each margin, the axes of a table that it keeps
    places: Sequence[IntArray]  # of each margin, tables × cells
    estimates: Array  # tables × the shape of one
    weights: Array

    def margins(self, multipliers: Array, out: Array) -> float:
        """Σ w_B ‖x_B‖² / 2 of all of them; the margins are written to their places in `out`."""
        found, every = self.estimates.copy(), range(1, self.estimates.ndim)
        scale = self.weights.reshape(-1, *[1] * len(every))
        for kept, place in zip(self.axes, self.places, strict=True):
            shape = [n if i - 1 in kept else 1 for i, n in enumerate(found.shape)][1:]
            found += multipliers[place].reshape(-1, *shape) / scale
        np.maximum(found, 0.0, out=found)
        for kept, place in zip(self.axes, self.places, strict=True):
            others = tuple(i for i in every if i - 1 not in kept)
            out[place] = found.sum(axis=others).reshape(place.shape)
        return 0.5 * float(self.weights @ (found.reshape(len(found), -1) ** 2).sum(axis=1))


def alike(
    family: TableFamily,
    tables: Iterable[Set],
    places: Mapping[tuple[Set, Set], slice],
    estimates: Mapping[Set, Array],
    weights: Mapping[Set, float],
) -> list[Alike]:
    """The small ones of some tables, those of one shape with the same margins together."""
    groups: dict[object, list[Set]] = {}
    for one in tables:
        if family.cells(one) <= SMALL:
            groups.setdefault((family.shape(one), _axes(family, one)), []).append(one)
    return [
        Alike(
            same,
            _axes(family, same[0]),
            [_places([places[one, family.facets[one][i]] for one in same])
             for i in range(len(family.facets[same[0]]))],
            np.array([estimates[one] for one in same]),
            np.array([weights[one] for one in same]),
        )
        for same in groups.values()
        if len(same) > 1
    ]  # fmt: skip


def _axes(family: TableFamily, one: Set) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(one.index, facet)) for facet in family.facets[one])


def _places(slices: Sequence[slice]) -> IntArray:
    starts = np.array([place.start for place in slices], dtype=np.int64)
    return starts[:, None] + np.arange(slices[0].stop - slices[0].start)
