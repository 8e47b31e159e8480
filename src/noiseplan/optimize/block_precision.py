"""The best precision of one block of measurements, for given weights of records.

    minimise  tr(H Ψ⁻¹) + Σ_x λ_x u(x)ᵀΨu(x) ,      H = Σ_k w_k h_k .

With H = RᵀR, Z = R u and K = Z diag(λ) Zᵀ the optimum is Ψ = Rᵀ K^{−1/2} R: both terms are then
tr K^{1/2}, a record costs diag(Zᵀ K^{−1/2} Z), and the rows to measure are a root of Zᵀ K^{−1/2} Z.
For any λ the square of tr K^{1/2} bounds what any precision can reach at cost one.

*Whole*: Ψ is any matrix. *Product*: Ψ = ⊗Ψ_i, found by going round the attributes, for each with

    H_i = Σ_k w_k h_{k,i} ∏_{j≠i} tr(h_{k,j}Ψ_j⁻¹) ,   λ_i(x_i) = Σ λ(x) ∏_{j≠i} u_jᵀΨ_ju_j .

Where records are replaced pairs of them have the weights, and pay for their distance
(below): a form over cells takes the place of diag(λ).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Protocol, TypeVar, final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.gram_roots import root_of
from noiseplan.optimize.optimum import FARTHEST, FULL_STEP, MEMORY, PricedSpectrum

# Of the logarithm of a record's weight below the largest: less is as good as nothing.
FAINTEST_RECORD = -25.0
# So many steps that gain nothing are the last: products need not become quite level.
PATIENCE = 8
# Rounds over the attributes of a product block on its own, and the gap of each attribute's optimum.
ROUNDS, ALONE_GAP, ALONE_STEPS = 8, 1e-5, 60


class Visit(Protocol):
    """Where a search for weights of records stands."""

    @property
    def variance(self) -> float:
        """The total variance."""

    @property
    def costs(self) -> Array:
        """What each record costs."""

    @property
    def value(self) -> float:
        """The total variance at cost one."""


V = TypeVar("V", bound=Visit)


@dataclass(frozen=True, eq=False)
class Solved:
    """H = RᵀR at given weights: the spectrum of K, and Ψ⁻¹ = YYᵀ."""

    root: Array
    spectrum: PricedSpectrum

    @classmethod
    def of(cls, root: Array, image: Array, weights: Array) -> Solved:
        return cls(root, PricedSpectrum.of(image, weights))

    @cached_property
    def spread(self) -> Array:
        """Y = R⁺K^{1/4}."""
        half = self.spectrum.vectors * np.sqrt(self.spectrum.singular)
        if self.root.shape[0] == self.root.shape[1]:
            return np.asarray(np.linalg.solve(self.root, half))
        return np.asarray(np.linalg.pinv(self.root) @ half)

    @cached_property
    def costs(self) -> Array:
        """u(x)ᵀΨu(x) of every x."""
        return np.asarray(self.spectrum.diagonal())

    @cached_property
    def gram(self) -> Array:
        """u(x)ᵀΨu(y) of all x and y."""
        return np.asarray(self.rows.T @ self.rows)

    @property
    def pulls(self) -> Array:
        """Ψu(x) of every x, side by side."""
        spectrum = self.spectrum
        return np.asarray(
            self.root.T @ (spectrum.vectors @ (spectrum.turned / spectrum.singular[:, None]))
        )

    @property
    def rows(self) -> Array:
        """A root of uᵀΨu."""
        return np.asarray(self.spectrum.rows())

    def at_cost_one(self) -> Solved:
        """The same precision divided by its largest cost: K^{1/2} grows by that."""
        singular = self.spectrum.singular * float(self.costs.max())
        return replace(self, spectrum=replace(self.spectrum, singular=singular))


@dataclass(frozen=True, eq=False)
class WholePoint:
    """A whole block at its best."""

    solved: Solved

    @property
    def variance(self) -> float:
        return float(self.solved.spectrum.singular.sum())

    @property
    def costs(self) -> Array:
        return self.solved.costs

    @property
    def value(self) -> float:
        return self.variance * float(self.costs.max())

    @property
    def grams(self) -> list[Array]:
        """uᵀΨu of all cells."""
        return [self.solved.gram]

    @property
    def rows(self) -> list[Array]:
        """What is measured of the block's cells, one matrix."""
        return [self.solved.rows]


@dataclass(frozen=True, eq=False)
class WholeBlock:
    """R, and Z = R u over the cells of the block."""

    root: Array
    image: Array

    def at(self, load: Load, _last: object = None) -> WholePoint:
        return WholePoint(Solved.of(self.root, self.image, load.whole))

    def alone(self) -> WholePoint:
        """The best of cost one at most, whatever the other blocks cost."""
        point = levelled(
            lambda weights, _: self.at(RecordLoad(weights)),
            np.ones(self.image.shape[1:]),
            ALONE_STEPS,
            ALONE_GAP,
        )[0]
        return WholePoint(point.solved.at_cost_one())


@dataclass(frozen=True, eq=False)
class ProductPoint:
    """A product block: the precision of each attribute, and tr(hΨ⁻¹), attributes × kinds."""

    weights: Array  # of kinds
    solved: tuple[Solved, ...]
    traces: Array

    @property
    def variance(self) -> float:
        return float(self.weights @ self.traces.prod(axis=0))

    @property
    def costs(self) -> Array:
        return np.asarray(reduce(np.multiply.outer, [one.costs for one in self.solved]))

    @property
    def grams(self) -> list[Array]:
        """uᵀΨu of each attribute."""
        return [one.gram for one in self.solved]

    @property
    def rows(self) -> list[Array]:
        """What is measured along each attribute."""
        return [one.rows for one in self.solved]


@dataclass(frozen=True, eq=False)
class ProductBlock:
    """Weights of kinds, h of each kind's pair and u of each attribute; `same` are alike.

    `same[i]` is the first attribute that attribute i is exchangeable with.
    """

    weights: Array
    kinds: IntArray  # kinds × attributes
    grams: tuple[dict[int, Array], ...]
    columns: tuple[Array, ...]
    same: tuple[int, ...]

    def at(self, load: Load, last: object = None) -> ProductPoint:
        """One round over the attributes from `last`."""
        point = last if isinstance(last, ProductPoint) else self._start()
        for i in sorted(set(self.same)):
            root = root_of(self._gram(i, point.traces))
            found = Solved.of(root, root @ self.columns[i], load.along(i, point.solved))
            point = self._with(point, i, found)
        return point

    def alone(self) -> ProductPoint:
        """The best with every attribute's cost at most one, whatever the others'."""
        point = self._start()
        for _ in range(ROUNDS):
            before = point.variance
            for i in sorted(set(self.same)):
                root = root_of(self._gram(i, point.traces))
                found = WholeBlock(root, root @ self.columns[i]).alone()
                point = self._with(point, i, found.solved)
            if abs(point.variance / before - 1) <= ALONE_GAP:
                break
        return point

    def _start(self) -> ProductPoint:
        """Every attribute for all that is asked of it, all values alike."""
        point = ProductPoint(self.weights, (), np.ones((len(self.grams), len(self.weights))))
        for i, (columns, grams) in enumerate(zip(self.columns, self.grams, strict=True)):
            root = root_of(np.asarray(sum(h / np.trace(h) for h in grams.values())))
            even = np.full(columns.shape[1], 1.0 / columns.shape[1])
            found = Solved.of(root, root @ columns, even)
            point = replace(point, solved=(*point.solved, found))
            point.traces[i] = self._traces(i, found)
        return point

    def _gram(self, place: int, traces: Array) -> Array:
        """H_i, the other attributes as they are."""
        others = np.delete(traces, place, axis=0).prod(axis=0) * self.weights
        asked, grams = self.kinds[:, place], self.grams[place]
        return np.asarray(sum(others[asked == pair].sum() * h for pair, h in grams.items()))

    def _traces(self, place: int, found: Solved) -> Array:
        """tr(hΨ⁻¹) of every kind."""
        spread = found.spread
        trace = {p: float((spread * (h @ spread)).sum()) for p, h in self.grams[place].items()}
        return np.array([trace[int(pair)] for pair in self.kinds[:, place]])

    def _with(self, point: ProductPoint, place: int, found: Solved) -> ProductPoint:
        """With this attribute replaced, and all that are exchangeable with it."""
        solved, traces = list(point.solved), point.traces.copy()
        for j in np.flatnonzero(np.array(self.same) == place):
            solved[j], traces[j] = found, self._traces(int(j), found)
        return ProductPoint(self.weights, tuple(solved), traces)


def levelled(
    visit: Callable[[Array, V | None], V], start: Array, steps: int, gap: float
) -> tuple[V, Array]:
    """The best visit, and its weights: those of records that cost much grow until all cost alike.

    Multiplicative steps λ ← λ·cost², mixed with their own past.
    """
    point, shape = np.log(start.ravel()), start.shape
    ascent = Ascent(MEMORY, FARTHEST)
    best: tuple[V, Array] | None = None
    last: V | None = None
    least, since = np.inf, 0
    for _ in range(steps):
        weights = np.exp(np.maximum(point - point.max(), FAINTEST_RECORD))
        weights /= weights.sum()
        last = visit(weights.reshape(shape), last)
        costs, value = last.costs.ravel(), last.value
        mean = float(weights @ costs)
        if best is None or value < best[0].value:
            best = last, weights.reshape(shape)
        least, since = (value, 0) if value < least * (1 - gap) else (least, since + 1)
        if costs.max() <= mean * (1 + gap) or since >= PATIENCE:
            break
        residual = FULL_STEP * np.log(np.maximum(costs / mean, 1e-12))
        point = ascent.next(np.log(weights), mean * last.variance, residual, weights)
    assert best is not None  # at least one step is taken
    return best


# ---------------------------------------------------------------------- loads of blocks
#
# What those who pay ask of a block, in weights: single records, or pairs of which one replaces
# the other.
#
# With P = uᵀΨu over the cells of a block, records of the weights λ cost Σ_x λ_x P_xx, and pairs
#
#     Σ_xy λ_xy (P_xx + P_yy − 2P_xy) = tr(FP) ,    F = 2 (diag(Λ1) − Λ) ,   Λ = λ made symmetric,
#
# so that K = Z F Zᵀ takes the place of Z diag(λ) Zᵀ (`block_precision`). Of a product P = ⊗P_i, one
# attribute pays by F_i = 2 (diag(own) − cross): own sums Λ1 with the P_j of all others at the
# values of one record, cross sums Λ with those at the values of both.


class Priced(Protocol):
    """An attribute whose precision is known."""

    @property
    def costs(self) -> Array:
        """The diagonal of P."""

    @property
    def gram(self) -> Array:
        """P."""


class Load(ABC):
    """Weights of all who pay for a block: vectors of cells, or forms over them."""

    @property
    @abstractmethod
    def whole(self) -> Array:
        """Over all cells of the block."""

    @abstractmethod
    def along(self, place: int, attributes: Sequence[Priced]) -> Array:
        """Over the values of one attribute, the others being as they are."""


@final
@dataclass(frozen=True, eq=False)
class RecordLoad(Load):
    """λ of every record, an axis for each attribute.

    Examples
    --------
    >>> RecordLoad(np.array([[1.0, 2.0], [3.0, 4.0]])).whole.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    weights: Array

    @property
    def whole(self) -> Array:
        return self.weights.ravel()

    def along(self, place: int, attributes: Sequence[Priced]) -> Array:
        return _at_one(self.weights, place, attributes)


@final
@dataclass(frozen=True, eq=False)
class PairLoad(Load):
    """Λ1, an axis for each attribute, and Λ, an axis for each attribute of either record.

    Examples
    --------
    >>> half = np.array([[0.0, 0.5], [0.5, 0.0]])
    >>> PairLoad(half.sum(axis=1), half).whole.tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    own: Array
    cross: Array

    @property
    def whole(self) -> Array:
        return _form(self.own.ravel(), self.cross.reshape(self.own.size, -1))

    def along(self, place: int, attributes: Sequence[Priced]) -> Array:
        cross = self.cross
        for j in reversed(range(self.own.ndim)):
            if j != place:
                cross = at_both(cross, j, attributes[j].gram)
        return _form(_at_one(self.own, place, attributes), cross)


def _form(own: Array, cross: Array) -> Array:
    return np.asarray(2.0 * (np.diag(own) - cross))


def _at_one(weights: Array, place: int, attributes: Sequence[Priced]) -> Array:
    """Summed over all attributes but one, the others by what one record costs."""
    for j in reversed(range(weights.ndim)):
        if j != place:
            weights = np.tensordot(weights, attributes[j].costs, axes=(j, 0))
    return weights


def at_both(cross: Array, place: int, gram: Array) -> Array:
    """Λ summed over an attribute of both records, by its P at their values."""
    return np.tensordot(cross, gram, axes=((place, place + cross.ndim // 2), (0, 1)))
