"""Strategies: which output each type of user reports, with what chance, and what follows from it.

Every strategy answers the same questions; the explicit table answers them by matrix products, and
is the oracle for those that use structure instead.

With A = Diag(Qπ)⁻¹Q and X = QᵀA, a query with rows W = C X has the unbiased answer C Aᵀy from the
histogram y of reports, and

    Var[row i] = Σ_u x_u (Σ_o Q[o, u] (c_i·a_o)² − W[i, u]²) ,

because y is a sum of independent multinomials. C = W X⁺ is the best choice for prior π.

References
----------
McKenna et al. (2020), Theorems 3.4 and 3.10.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp
from typing import ClassVar, final

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.device.counting_randomizers import TableRandomizer
from noiseplan.local.device.integer_chances import WHOLE, rounded_table
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.matrices.base import Array
from noiseplan.schema import Schema

# Eigenvalues of the information matrix below this share of the largest are rounding.
EIGENVALUE_FLOOR = 1e-11
# Of singular values, which have twice as many digits; up to so many types there is time for them.
SINGULAR_FLOOR, SINGULAR_VALUES = 1e-7, 512
# How far, relatively, a query may lie outside what is measured before it is refused.
OUTSIDE = 1e-6
# Tolerance of the checks on a strategy's probabilities.
TOLERANCE = 1e-9


class Strategy(ABC):
    """Chances of outputs given types, and the answers that follow from reports."""

    name: str
    """What the plan calls it."""

    epsilon: float
    """What the strategy was made for; tables for devices are rounded so as never to exceed it."""

    counts_users: ClassVar[bool] = True
    """Whether the number of users follows from the reports without error, as Qᵀ1 = 1 implies."""

    @property
    @abstractmethod
    def types(self) -> int:
        """n, how many types of users there are."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many different reports there are."""

    @property
    @abstractmethod
    def information(self) -> Array:
        """X = QᵀDiag(Qπ)⁻¹Q, n × n."""

    @abstractmethod
    def moments(self, rows: Array) -> Array:
        """Σ_o Q[o, u] (c·a_o)² for each of k rows c: k × n."""

    @abstractmethod
    def score_ends(self, rows: Array) -> tuple[Array, Array]:
        """The least and the largest of c·a_o over all outputs, for each of k rows c.

        Where noise is added to numbers, of the noise in them, which has no end, see there.
        """

    @abstractmethod
    def cross_moments(self, left: Array, right: Array, counts: Array) -> Array:
        """Σ_u x_u Σ_o Q[o, u] (l·a_o)(r·a_o) for all rows l, r: rows of left × rows of right."""

    @abstractmethod
    def evidence(self, tally: IntArray) -> Array:
        """Σ a_o over all reports counted, n numbers: all that unbiased answers need.

        They are counted as the randomizer's `tally` does.
        """

    @abstractmethod
    def randomizer(self, schema: Schema, cells: IntArray | None) -> Randomizer:
        """The integers that devices draw from, within `epsilon`; `cells` as in `Randomizer`."""

    def rounded(self) -> Strategy:
        """The chances of those integers, where figures can tell them from these."""
        return self

    @cached_property
    def _inverse(self) -> Array:
        """X⁺."""
        values, vectors = np.linalg.eigh(self.information)
        kept = values > EIGENVALUE_FLOOR * values[-1]
        inverse: Array = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        return inverse

    @property
    def tells_all_apart(self) -> bool:
        """Whether X has full rank, so that x̃ estimates every type."""
        return int(np.linalg.matrix_rank(self.information, hermitian=True)) == self.types

    def coefficients(self, rows: Array) -> Array:
        """C = W X⁺, refused where W lies outside the row space of the strategy."""
        found: Array = rows @ self._inverse
        reached = self.applied(found)
        refuse_outside(np.linalg.norm(reached - rows, axis=1), np.linalg.norm(rows, axis=1))
        return found

    def applied(self, rows: Array) -> Array:
        """C X."""
        product: Array = rows @ self.information
        return product

    def estimate(self, tally: IntArray) -> Array:
        """x̃ = X⁺ Σ a_o: unbiased for x where the strategy tells all types apart."""
        estimate: Array = self._inverse @ self.evidence(tally)
        return estimate

    def total_moments(self, gram: Array) -> Array:
        """Σ_o Q[o, u] a_oᵀ X⁺GX⁺ a_o for each u: the second moments of all answers together."""
        values, vectors = np.linalg.eigh(gram)
        kept = values > EIGENVALUE_FLOOR * values[-1]
        rows = self.coefficients(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)
        total: Array = self.moments(rows).sum(axis=0)
        return total


@final
@immutable
@dataclass(frozen=True, eq=False)
class TableStrategy(Strategy):
    """Any strategy, as an explicit matrix of chances (outputs × types)."""

    chances: Array
    epsilon: float
    prior: Array
    name: str = "table"
    table: IntArray | None = None  # the chances as integers out of 2⁶², once they are rounded

    def __post_init__(self) -> None:
        check_strategy(self.chances, self.epsilon)

    def rounded(self) -> TableStrategy:
        table = rounded_table(self.chances, self.epsilon)
        return replace(self, chances=table / WHOLE, table=table)

    def randomizer(self, schema: Schema, cells: IntArray | None) -> Randomizer:
        table = rounded_table(self.chances, self.epsilon) if self.table is None else self.table
        return TableRandomizer(schema, cells, table)

    @classmethod
    def of(
        cls, chances: Array, epsilon: float, prior: Array | None = None, name: str = "table"
    ) -> TableStrategy:
        """With a uniform prior if none is given; outputs that never occur are dropped."""
        occurs = chances.max(axis=1) > 0
        uniform = np.full(chances.shape[1], 1.0 / chances.shape[1])
        return cls(chances[occurs], epsilon, uniform if prior is None else prior, name)

    @property
    def types(self) -> int:
        return int(self.chances.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.chances.shape[0])

    @cached_property
    def shapes(self) -> Array:
        """A, its rows a_o."""
        return self.chances / (self.chances @ self.prior)[:, None]

    @cached_property
    def information(self) -> Array:
        product: Array = self.chances.T @ self.shapes
        return (product + product.T) / 2

    @cached_property
    def _apart(self) -> Array:
        """E = A − 1: what a report tells about types beyond that somebody reported."""
        return self.shapes - 1

    @cached_property
    def _deviations(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of EᵀDE between types, D = Diag(Qπ), without those at 0.

        X = 11ᵀ + EᵀDE, because Aπ = 1, and the rows of W that matter beyond Wπ are differences of
        types: so E is centred. It is of size ε where ε is small, and taken from A − 1 it keeps its
        digits. Types are not scaled by their shares: one that is hardly expected is told apart from
        the others as well as they are.
        """
        apart = np.sqrt(self.chances @ self.prior)[:, None] * self._apart
        centred = apart - apart.mean(axis=1, keepdims=True)
        if self.types <= SINGULAR_VALUES:
            values, vectors = np.linalg.svd(np.linalg.qr(centred, mode="r"))[1:]
            kept = values > SINGULAR_FLOOR * values[0]
            squares, vectors = values[kept] ** 2, vectors[: len(values)][kept].T
        else:
            squares, vectors = np.linalg.eigh(centred.T @ centred)
            kept = squares > EIGENVALUE_FLOOR * squares[-1]
            squares, vectors = squares[kept], vectors[:, kept]
        return squares, vectors - vectors.mean(axis=0)

    @cached_property
    def _between(self) -> Array:
        """(EᵀDE)⁺ between types; ππᵀ + (EᵀDE)⁺ is a generalised inverse of X.

        Which one is taken does not matter: A k = 0 wherever X k = 0.
        """
        values, vectors = self._deviations
        inverse: Array = (vectors / values) @ vectors.T
        return inverse

    @cached_property
    def _told(self) -> Array:
        """A X⁺: what every report says about the number of users of each type."""
        return self._apart @ self._between + self.prior

    @cached_property
    def _reached(self) -> Array:
        """X⁺AᵀQ: what is estimated instead of each type; W times it is W unless there is bias."""
        reached: Array = self._told.T @ self.chances
        return reached

    @property
    def tells_all_apart(self) -> bool:
        return len(self._deviations[0]) == self.types - 1

    def coefficients(self, rows: Array) -> Array:
        missed = np.abs(rows @ self._reached - rows).max(axis=1)
        refuse_outside(missed, np.abs(rows).max(axis=1))
        between = rows @ self._between
        # Of sum 0; what rounding leaves would be multiplied by the number of reports.
        between -= between.mean(axis=1, keepdims=True)
        found: Array = between + np.outer(rows @ self.prior, self.prior)
        return found

    def estimate(self, tally: IntArray) -> Array:
        evidence = self.evidence(tally)
        between = self._between @ (evidence - evidence.mean())
        estimate: Array = between + self.prior * float(self.prior @ evidence)
        return estimate

    def moments(self, rows: Array) -> Array:
        return np.asarray((rows @ self.shapes.T) ** 2 @ self.chances)

    def score_ends(self, rows: Array) -> tuple[Array, Array]:
        scores = rows @ self.shapes.T
        return scores.min(axis=1), scores.max(axis=1)

    def cross_moments(self, left: Array, right: Array, counts: Array) -> Array:
        expected = self.chances @ counts
        product: Array = ((left @ self.shapes.T) * expected) @ (self.shapes @ right.T)
        return product

    def evidence(self, tally: IntArray) -> Array:
        return np.asarray(tally @ self.shapes, dtype=np.float64)

    def total_moments(self, gram: Array) -> Array:
        missed = np.abs(gram @ self._reached - gram).max()
        if not missed <= OUTSIDE * np.abs(gram).max():
            raise UnanswerableError(
                f"the strategy {self.name!r} cannot answer this workload: some rows lie outside "
                f"its row space; choose another mechanism"
            )
        along: Array = np.einsum("ij,ij->i", self._told @ gram, self._told)
        return along @ self.chances


def refuse_outside(missed: Array, scale: Array) -> None:
    """Refuse rows of which more than rounding lies outside what a strategy measures."""
    outside = ~(missed <= OUTSIDE * scale)
    if outside.any():
        raise UnanswerableError(
            f"{int(outside.sum())} of {len(outside)} rows lie outside what this strategy measures; "
            f"add the query to the workload and plan again"
        )


def check_strategy(chances: Array, epsilon: float) -> None:
    """Refuse what is no ε-LDP strategy: chances, columns of sum one, rows of ratio at most e.

    Row by row with its extremes: outputs × types comparisons, not types squared.
    """
    if chances.ndim != 2 or not chances.size or not np.isfinite(chances).all():
        raise PlanError("a strategy is a matrix of chances, outputs × types, all finite")
    if (chances < 0).any():
        raise PlanError(f"a strategy's chances are at least 0, found {chances.min():g}")
    sums = chances.sum(axis=0)
    if np.abs(sums - 1).max() > TOLERANCE:
        worst = int(np.abs(sums - 1).argmax())
        raise PlanError(f"the chances of type {worst} add up to {sums[worst]!r}, not to 1")
    low, high = chances.min(axis=1), chances.max(axis=1)
    broken = high > low * exp(epsilon) * (1 + TOLERANCE)
    if broken.any():
        row = int(broken.argmax())
        raise PlanError(
            f"output {row} is not {epsilon:g}-private: its chances run from {low[row]:g} to "
            f"{high[row]:g}, a ratio above exp({epsilon:g}) = {exp(epsilon):g}"
        )
