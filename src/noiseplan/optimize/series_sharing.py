"""How the sets along a series share what a record may cost, and the sums measured beside them.

Set A is measured along the values by a series with precision ω_A, which costs p_A N_A of it (N the
squared norm of its longest column), and by sums over the parts of some partitions g, each with a
precision τ_{A,g} that costs p_A. Let N be the covariance of the parts by the series alone, for
ω = 1, and h that of a row with the parts. The parts are known to

    Y = (ωN⁻¹ + Σ_g τ_g F_gᵀF_g)⁻¹ ,    F_g the sums of g over the parts,

and the row, given the parts, as well as the series says: with q = N⁻¹h its variance is

    (V − qᵀNq)/ω + qᵀYq .

This is convex in the precisions, and falls as one over all of them: the problem is solved in their
logarithms, each point scaled to the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.summed_series import SummedSeries
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import Smooth, minimise

STEPS, GAIN = 1000, 1e-13
# Where parts are so many that a step takes long, one that gains less than this is the last.
MANY_PARTS, ENOUGH = 64, 1e-7
# Sums that would take less than this share of the cost are not measured.
FAINT: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Parts:
    """N, N⁻¹, and the sum of each partition that every part belongs to."""

    covariance: Array
    information: Array
    owners: tuple[IntArray, ...] = ()

    @staticmethod
    def none() -> Parts:
        """Of a set with no sums beside its series."""
        return Parts(np.zeros((0, 0)), np.zeros((0, 0)))

    @staticmethod
    def of(both: SummedSeries) -> Parts:
        """Of a series and partitions."""
        return Parts(both.covariance, both.information, both.owners)

    @cached_property
    def together(self) -> tuple[Array, ...]:
        """FᵀF of each partition: whether two parts are in one sum."""
        return tuple((own[:, None] == own).astype(np.float64) for own in self.owners)

    def known(self, series: float, sums: Array) -> Array:
        """Y."""
        precision = series * self.information
        for tau, same in zip(sums, self.together, strict=True):
            precision = precision + tau * same
        return np.asarray(np.linalg.inv(precision))


@dataclass(frozen=True, eq=False)
class SummedRows:
    """Sums of the variances of many rows: V and Σqqᵀ of each."""

    alone: Array
    grams: Array

    def of_parts(self, known: Array) -> Array:
        """Σ qᵀYq."""
        return np.asarray(np.einsum("eij,ij->e", self.grams, known))

    def weighted(self, slopes: Array) -> Array:
        """Σ slope · qqᵀ."""
        return np.asarray(np.einsum("e,eij->ij", slopes, self.grams))


@dataclass(frozen=True, eq=False)
class SingleRows:
    """Variances of single rows: V and q of each."""

    alone: Array
    vectors: Array

    def of_parts(self, known: Array) -> Array:
        """The qᵀYq of each."""
        return np.asarray(((self.vectors @ known) * self.vectors).sum(axis=1))

    def weighted(self, slopes: Array) -> Array:
        """Σ slope · qqᵀ."""
        return np.asarray((self.vectors.T * slopes) @ self.vectors)


@dataclass(frozen=True, eq=False)
class Asked:
    """Variances that count: rows along the values of each set, and their weights by kind.

    A kind has weights (others × sets) for each of its rows along the values. Where kinds are
    `added`, each has one row, and what counts are the sums over the kinds.
    """

    rows: Sequence[SummedRows | SingleRows]  # of each set
    weights: Sequence[Array]  # of each kind
    along: Sequence[int]  # how many rows each kind has
    added: bool

    def gathered(self, each: Array) -> Array:
        """From rows along × sets to what counts."""
        own = np.split(each, np.cumsum(self.along)[:-1])
        found = [w @ v.T for w, v in zip(self.weights, own, strict=True)]
        return sum(found)[:, 0] if self.added else np.concatenate([f.ravel() for f in found])  # type: ignore[index]

    def spread(self, slope: Array) -> Array:
        """The transpose of `gathered`."""
        if self.added:
            return np.array([slope @ w for w in self.weights])
        sizes = [len(w) * n for w, n in zip(self.weights, self.along, strict=True)]
        parts = np.split(slope, np.cumsum(sizes)[:-1])
        pairs = zip(parts, self.weights, self.along, strict=True)
        return np.concatenate([part.reshape(len(w), n).T @ w for part, w, n in pairs])


@dataclass(frozen=True, eq=False)
class Precisions:
    """ω of every set, and τ of the sums beside it; zero where they are not measured."""

    series: Array
    sums: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class SeriesSharing:
    """What a unit of each precision costs, and the parts of each set."""

    series_price: Array
    sums_price: Array
    parts: tuple[Parts, ...]

    def cost(self, at: Precisions) -> float:
        """Of a record."""
        of_sums = np.array([tau.sum() for tau in at.sums])
        return float(self.series_price @ at.series + self.sums_price @ of_sums)

    def variances(self, asked: Asked, at: Precisions) -> Array:
        """Of everything that counts."""
        return asked.gathered(self._along(asked, at)[0])

    def _along(self, asked: Asked, at: Precisions) -> tuple[Array, list[Array]]:
        """Of every row along the values, by set; and Y."""
        found, known = [], []
        for rows, parts, omega, tau in zip(asked.rows, self.parts, at.series, at.sums, strict=True):
            own = parts.known(omega, tau)
            rest = rows.alone - rows.of_parts(parts.covariance)
            found.append(np.maximum(rest, 0.0) / omega + rows.of_parts(own))
            known.append(own)
        return np.array(found).T, known

    def best(self, asked: Asked, loss: Smooth, start: Precisions) -> Precisions:
        """The least loss of the variances, at cost one."""

        def value(x: Array) -> tuple[float, Array]:
            at = self._at(x)
            cost, (along, known) = self.cost(at), self._along(asked, at)
            v = asked.gathered(along)
            result, slope = loss(v * cost)
            of_rows = asked.spread(slope)
            of_series, of_sums = self._slopes(asked, at, known, of_rows)
            total = float(slope @ v)
            gradient = [at.series * (cost * of_series + total * self.series_price)]
            for tau, each, price in zip(at.sums, of_sums, self.sums_price, strict=True):
                gradient.append(tau * (cost * each + total * price))
            return float(result) / scale, np.concatenate(gradient) / scale

        scale = 1.0
        x = self._logarithms(start)
        scale = abs(value(x)[0]) or 1.0
        many = max(len(parts.information) for parts in self.parts) > MANY_PARTS
        gain = ENOUGH if many else GAIN
        return self._scaled(self._at(minimise(value, x, steps=STEPS, gain=gain)[1]))

    def _slopes(
        self, asked: Asked, at: Precisions, known: list[Array], of_rows: Array
    ) -> tuple[Array, list[Array]]:
        """By ω of every set, and by its τ."""
        of_series, of_sums = np.empty(len(self.parts)), []
        for b, (rows, parts) in enumerate(zip(asked.rows, self.parts, strict=True)):
            slopes = of_rows[:, b]
            rest = np.maximum(rows.alone - rows.of_parts(parts.covariance), 0.0)
            moved = known[b] @ rows.weighted(slopes) @ known[b]
            of_parts = float((moved * parts.information).sum())
            of_series[b] = -float(slopes @ rest) / at.series[b] ** 2 - of_parts
            of_sums.append(-np.array([float((moved * same).sum()) for same in parts.together]))
        return of_series, of_sums

    def first(self, asked: Asked, weights: Array) -> Precisions:
        """What is best where no sums are measured, and a little for each that may be."""
        of_rows = asked.spread(weights)
        alone = np.array([rows.alone @ w for rows, w in zip(asked.rows, of_rows.T, strict=True)])
        worth = np.sqrt(np.maximum(alone, 1e-300) / self.series_price)
        little = 0.1 * worth * self.series_price / self.sums_price
        sums = [np.full(len(p.owners), a) for p, a in zip(self.parts, little, strict=True)]
        return self._scaled(Precisions(worth, tuple(sums)))

    def _logarithms(self, start: Precisions) -> Array:
        least = 0.01 * start.series * self.series_price / self.sums_price
        pairs = zip(start.sums, least, strict=True)
        every = np.concatenate([start.series, *(np.maximum(t, a) for t, a in pairs)])
        return np.asarray(np.log(every))

    def _at(self, x: Array) -> Precisions:
        counts = [len(parts.owners) for parts in self.parts]
        each = np.split(np.exp(x), np.cumsum([len(self.parts), *counts])[:-1])
        return Precisions(each[0], tuple(each[1:]))

    def _scaled(self, at: Precisions) -> Precisions:
        """At cost one."""
        cost = self.cost(at)
        return Precisions(at.series / cost, tuple(tau / cost for tau in at.sums))

    def kept(self, at: Precisions) -> Precisions:
        """Without sums that are hardly measured, at cost one."""
        least = FAINT * self.cost(at) / self.sums_price
        pairs = zip(at.sums, least, strict=True)
        sums = tuple(np.where(tau < a, 0.0, tau) for tau, a in pairs)
        return self._scaled(Precisions(at.series, sums))
