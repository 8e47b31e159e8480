"""The least total variance of any strategy with Gaussian noise, and its certificate.

    minimise tr(G X⁺)  subject to  X ⪰ 0, diag X ≤ 1 ,      G = Σ_q w_q W_qᵀW_q .

*Dual.* For any probability y on the cells, N(y)² with N(y) = ‖W Y^{1/2}‖_* is a lower bound, and
the largest one is the optimum (uniform y: the SVD bound). With G = RᵀR, K = R Y Rᵀ = U diag(s²) Uᵀ,

    N = Σ s ,    X = Rᵀ K^{−1/2} R / N ,    ∂ log N²/∂y_j = X_jj ,    Σ y_j X_jj = 1 .

The fixed point y ← y · X_jj² is mixed with its own past.

*Primal.* X minimises the Lagrangian tr(G X⁻¹) + N² Σ y_j X_jj, so a feasible matrix near it is
worse by the *square* of the distance only. Such a matrix is D X D with D = diag(X)^{−1/2}, of unit
diagonal; where G is singular it would lose queries, and X is scaled down and its diagonal filled up
instead.

*Products.* For G = ⊗G_i the products of the optima are feasible in both programs with equal values:
they are the optimum.

References
----------
C. Li, dissertation, 2013, Program 3.4.2 for the problem and section 3.4.3 for filling up; the fixed
point is the multiplicative update known from optimal experimental design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.gram import Reduction
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.array_namespace import AnyArray, namespace_of, to_numpy
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR, RANK_FLOOR, Halves, is_low, root_of

# X varies with y about as y^{−1/2}, so twice the logarithm of its diagonal is a full step.
FULL_STEP = 2.0
MEMORY = 6
# Of the logarithm of a weight: the longest step, and the lowest point.
FARTHEST, SMALLEST_WEIGHT = 6.0, -60.0
# Of the ascent: how many, and that number times the rank where it is low.
STEPS, CHEAP_STEPS = 300, 100_000
# To which problems with fewer cells are solved, before.
COARSE_TOLERANCE = 1e-7
# A diagonal entry is filled up if it lacks more than this.
WORTH_FILLING = 1e-6
# A cell that lacks more than this of what others pay is given it at the end.
WORTH_GIVING = 1e-3
# Where the variance of the diagonal is below this, further steps only move the rounding.
SETTLED = 1e-24


Watch = Callable[[float], None]

# The shortest problem, and the shortest that is worth others before it.
SHORTEST, WORTH_IT = 64, 512
# The largest mean error of log y that a forecast may have had.
RELIABLE: Final = 0.1
SMALLEST: Final = -60.0

Solver = Callable[[IntArray, Array | None], Array]


@dataclass(frozen=True, eq=False)
class Optimum:
    """A strategy with diag(AᵀA) ≤ 1, the total variance it reaches at cost one, a lower bound.

    `weights` are the prices of the cells: where they are positive the privacy limit binds.
    """

    strategy: Array
    value: float
    bound: float
    weights: Array
    steps: int

    @property
    def gap(self) -> float:
        """How far the value may be above the best, relative."""
        return self.value / self.bound - 1.0


def dense_optimum(
    gram: AnyArray,
    tolerance: float = 1e-6,
    steps: int | None = None,
    watch: Watch = lambda gap: None,
) -> Optimum:
    """The best strategy for a Gram matrix, with its certificate.

    Parameters
    ----------
    gram
        WᵀW, cells × cells: a NumPy array, or a PyTorch tensor (double precision) on any device.
    tolerance
        The relative gap at which to stop.
    steps
        At most so many; a few hundred if not given, more where they are cheap.
    watch
        Called with the gap after every step.

    Examples
    --------
    >>> best = dense_optimum(np.array([[2.0, 1.0], [1.0, 1.0]]), tolerance=1e-9)  # two prefix sums
    >>> round(best.value, 6)  # (3 + √5)/2
    2.618034
    """
    reduction = Reduction.of_gram(checked_gram(gram))
    if not reduction.trivial:
        kept = reduction.first.tolist()
        gram = gram[kept][:, kept]
    halves = Halves.of(gram)
    climb = _Climb(halves, tolerance)
    if not climb.low_rank and isinstance(gram, np.ndarray):
        climb.begin(forecast(len(gram), partial(_prices, gram)))
    rank = max(1, *(len(root) for root in climb.roots))
    taken = climb.run(steps or max(STEPS, CHEAP_STEPS // rank), watch)
    weights = np.zeros(len(reduction.groups))
    weights[reduction.first] = halves.spread(climb.weights)
    strategy = reduction.widened(_without_room(halves.rows(climb.best)))
    return Optimum(strategy, climb.value, climb.bound, weights, taken)


def _prices(gram: Array, kept: IntArray, start: Array | None) -> Array:
    """y of the best strategy over some cells."""
    halves = Halves.of(gram[np.ix_(kept, kept)])
    climb = _Climb(halves, COARSE_TOLERANCE)
    climb.begin(start)
    climb.run(STEPS, lambda gap: None)
    return halves.spread(climb.weights)


def checked_gram(gram: AnyArray) -> Array:
    """A square symmetric matrix of finite numbers, as NumPy numbers."""
    values = to_numpy(gram)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise PlanError(f"a Gram matrix is square, WᵀW; found the shape {values.shape}")
    if not np.isfinite(values).all():
        raise PlanError("a Gram matrix has finite numbers only, found NaN or infinity")
    if np.abs(values - values.T).max() > 1e-9 * np.abs(values).max():
        raise PlanError("a Gram matrix is symmetric: pass WᵀW, not W")
    return values


class _Climb:
    """The dual ascent over the weights of orbits, with the best certificate so far."""

    def __init__(self, halves: Halves, tolerance: float) -> None:
        self.halves, self.tolerance = halves, tolerance
        self.roots = [root_of(block) for block in halves.blocks]
        self.singular = any(len(r) < r.shape[1] for r in self.roots)
        self.low_rank = all(is_low(len(r), r.shape[1]) for r in self.roots)
        self.members = halves.members
        self.weights = self.members * 0.0 + 1.0 / halves.cells
        self.value, self.bound = float("inf"), 0.0
        self.best: list[AnyArray] = []
        self.near = float("inf")  # the spread when a feasible matrix was last made

    def begin(self, start: Array | None) -> None:
        """With these log y of all cells; any will do."""
        if start is not None:
            weights = np.exp(start - start.max())[: len(self.members)]
            self.weights = weights / (self.members * weights).sum()

    def run(self, steps: int, watch: Watch) -> int:
        """Climb until the gap closes; the steps taken."""
        xp = namespace_of(self.members)
        ascent, point = Ascent(MEMORY, FARTHEST), xp.log(self.weights)
        for step in range(1, steps + 1):
            weights = xp.exp(point)
            weights = weights / (self.members * weights).sum()
            diagonal, bound, spread = self._visit(weights, last=step == steps)
            watch(self.value / self.bound - 1.0)
            if self.value <= self.bound * (1.0 + self.tolerance) or spread <= SETTLED:
                return step
            residual = FULL_STEP * xp.log(diagonal.clip(min=1e-300))
            point = ascent.next(point, bound, residual, self.members * weights)
            point = (point - point.max()).clip(min=SMALLEST_WEIGHT)
        return steps

    def _visit(self, weights: AnyArray, last: bool) -> tuple[AnyArray, float, float]:
        """The diagonal of X at these weights, their bound, and Σ y_j (X_jj − 1)².

        The gap will be about the last number: not worth computing while it is large.
        """
        spectra = [PricedSpectrum.of(root, weights[: root.shape[1]]) for root in self.roots]
        total = sum(float(part.singular.sum()) for part in spectra)
        diagonal = self.halves.diagonal([part.diagonal() for part in spectra]) / total
        bound = sum(part.surely() for part in spectra) ** 2
        if bound > self.bound:
            self.bound, self.weights = bound, weights
        spread = float((self.members * weights * (diagonal - 1.0) ** 2).sum())
        if last or spread <= max(4.0 * self.tolerance, SETTLED):
            # Filling up takes longer than many steps of low rank: only where it is much nearer,
            # and where steps cost next to nothing beside it, at the end only.
            nearer = last or not self.singular or spread <= self.near / 2.0
            nearer = nearer and (last or not self.low_rank)
            self.near = spread if nearer else self.near
            self._certify(spectra, diagonal, total, nearer)
        return diagonal, bound, spread

    def _certify(
        self, spectra: list[PricedSpectrum], diagonal: AnyArray, total: float, nearer: bool
    ) -> None:
        """Keep the better of two feasible matrices near X, if it is the best so far.

        The second is made if X is `nearer` than before.
        """
        largest = float(diagonal.max())
        value, scale = total**2 * largest, (total * largest) ** 0.5
        rows = [part.rows() / scale for part in spectra]
        # Scaling down alone may be enough.
        if nearer and value > self.bound * (1.0 + self.tolerance):
            feasible = self._filled if self.singular else self._levelled
            near, its_rows = feasible(spectra, diagonal, total)
            # A value below the bound is rounding run wild, in workloads of extreme scales.
            if self.bound <= near < value:
                value, rows = near, its_rows
        if value < self.value:
            self.value, self.best = value, rows

    def _levelled(
        self, spectra: list[PricedSpectrum], diagonal: AnyArray, total: float
    ) -> tuple[float, list[AnyArray]]:
        """D X D: every column scaled to length one."""
        xp = namespace_of(diagonal)
        lengths = xp.sqrt(diagonal * total)
        value, rows = 0.0, []
        for part, gram in zip(spectra, self.halves.blocks, strict=True):
            level = part.rows() / lengths[: len(gram)]
            value += float((gram * xp.linalg.inv(level.T @ level)).sum())
            rows.append(level)
        return value, rows

    def _filled(
        self, spectra: list[PricedSpectrum], diagonal: AnyArray, total: float
    ) -> tuple[float, list[AnyArray]]:
        """X scaled down to its largest diagonal entry, plus what the others lack."""
        xp = namespace_of(diagonal)
        missing = lacking(diagonal)
        value, rows = 0.0, []
        for part in spectra:
            above = part.rows() / (total * float(diagonal.max())) ** 0.5
            values, vectors = filled_up(above, missing[: above.shape[1]])
            value += float(((part.root @ vectors) ** 2 / values).sum())
            rows.append((vectors * xp.sqrt(values)).T)
        return value, rows


def _without_room(strategy: Array) -> Array:
    """With a row of its own for every cell that pays clearly less than others: free of cost.

    Where the prices of cells are so low that the gap does not tell, queries of theirs might starve.
    """
    lacks = 1.0 - np.einsum("ri,ri->i", strategy, strategy)
    short = lacks > WORTH_GIVING
    if not short.any():
        return strategy
    return np.concatenate([strategy, np.diag(np.sqrt(np.where(short, lacks, 0.0)))[short]])


def lacking(diagonal: AnyArray) -> AnyArray:
    """What entries lack of the largest, in its units; less than is worth filling counts as none."""
    missing = 1.0 - diagonal / diagonal.max()
    return missing * (missing > WORTH_FILLING)  # less would only make X ill-conditioned


def filled_up(rows: AnyArray, missing: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The eigenvalues and eigenvectors of AᵀA + diag(missing), without rounding."""
    xp = namespace_of(rows)
    values, vectors = xp.linalg.eigh(rows.T @ rows + xp.diag(missing))
    kept = np.flatnonzero(to_numpy(values) > RANK_FLOOR * len(values)).tolist()
    return values[kept], vectors[:, kept]


@dataclass(frozen=True, eq=False)
class PricedSpectrum:
    """K = R Y Rᵀ = U diag(s²) Uᵀ of one block."""

    root: AnyArray
    singular: AnyArray
    vectors: AnyArray
    turned: AnyArray  # UᵀR

    @staticmethod
    def of(root: AnyArray, weights: AnyArray) -> PricedSpectrum:
        """For weights of cells, or a form Y over them."""
        xp = namespace_of(root)
        priced = root * weights if weights.ndim == 1 else root @ weights
        values, vectors = xp.linalg.eigh(priced @ root.T)
        # A block may be empty: queries without an odd part.
        largest = float(values[-1]) if len(values) else 0.0
        singular = xp.sqrt(values.clip(min=largest * 1e-18))
        return PricedSpectrum(root, singular, vectors, vectors.T @ root)

    def diagonal(self) -> AnyArray:
        """diag(Rᵀ K^{−1/2} R)."""
        return (self.turned * self.turned / self.singular[:, None]).sum(0)

    def rows(self) -> AnyArray:
        """A root of Rᵀ K^{−1/2} R."""
        return self.turned / namespace_of(self.turned).sqrt(self.singular)[:, None]

    def surely(self) -> float:
        """Σ s, rounded down by what the eigenvalues s² may be off."""
        squares = self.singular**2
        error = EIGENVALUE_ERROR * squares[-1:]
        return float(((squares - error).clip(min=0.0) ** 0.5).sum())


# ---------------------------------------------------------------------- where to begin
#
# Where to begin: prices of many ordered cells, foretold from problems with fewer of them.
#
# Among ordered values the prices y of cells are smooth but near the two ends, where they depend on
# how many cells away the end is. So they are foretold from problems over every second cell, every
# fourth, and so on: the last prices, drawn to the new length, and what that missed at each end when
# it was last done. Where cells have no such order the forecast fails on small problems, at no
# price.


def forecast(cells: int, solve: Solver) -> Array | None:
    """log y of every cell, or None where problems of fewer cells do not foretell each other.

    `solve` gives the prices of the best strategy over some cells, from a start.
    """
    if cells < WORTH_IT:
        return None
    known: list[Array] = []
    for kept in _nested(cells):
        start = _foretold(known, len(kept)) if known else None
        found = np.log(np.maximum(solve(kept, start), np.exp(SMALLEST)))
        if start is not None and len(known) > 1 and np.std(start - found) > RELIABLE:
            return None
        known.append(found)
    return _foretold(known, cells)


def _nested(cells: int) -> Iterator[IntArray]:
    """Every 2^k-th cell, down to every second: at equal distances, which a forecast counts on."""
    step = 2
    while cells // (2 * step) >= SHORTEST:
        step *= 2
    while step > 1:
        count = cells // step
        yield np.arange(count) * step + (cells - (count - 1) * step) // 2
        step //= 2


def _foretold(known: list[Array], cells: int) -> Array:
    """Drawn to the new length, and mended at the ends."""
    last = known[-1]
    found = _drawn(last, cells)
    if len(known) > 1:
        found = found + _at_ends(last - _drawn(known[-2], len(last)), cells)
    return found


def _drawn(values: Array, cells: int) -> Array:
    """Numbers along a line, read at other places of it."""
    places = (np.arange(len(values)) + 0.5) / len(values)
    return np.interp((np.arange(cells) + 0.5) / cells, places, values)


def _at_ends(values: Array, cells: int) -> Array:
    """The first half at the beginning, the second at the end, and a straight line between."""
    half, between = len(values) // 2, cells - len(values)
    line = np.linspace(values[half - 1], values[half], between + 2)[1:-1]
    return np.concatenate([values[:half], line, values[half:]])
