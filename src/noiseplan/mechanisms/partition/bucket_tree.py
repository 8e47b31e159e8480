"""The second step: totals of buckets, measured for the workload and put together.

Up to some hundreds of buckets one plan of their own measures them all. Of more buckets groups are
formed, and groups of groups, until few enough are left for such a plan; every bucket and every
group between is measured too, with a share of the budget for each storey. One record is in one
bucket and one group of each storey, so the storeys' costs add up.

Least squares then has the precision matrix Λ = Σ_s p_s Y_sᵀY_s + YᵀPY (p_s of the storey's noise,
P of the plan's estimates at the top), which is solved by one pass up the tree and one down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError, remedy
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.price import require_price
from noiseplan.noise import Noise
from noiseplan.noise.moments import size_above
from noiseplan.privacy import Guarantee
from noiseplan.privacy.budgets import Additive
from noiseplan.privacy.rounding import fraction_up, product_down
from noiseplan.queries import Identity, Query

# Totals that one plan takes on, how many are left at the top of a building, the most in a group.
DIRECT: Final = 384
TOP: Final = 256
BRANCHES: Final = 16
# Left over for rounding scales up.
ROUNDING: Final = 1 - 1e-9


def storey_price(noise: Noise) -> Guarantee:
    """A record is in one total of a storey: ε = 1/b, or ρ = 1/(2σ²); rounded up."""
    # As exact noise is accounted, whatever is drawn: the step before is no Gaussian mechanism.
    law = replace(noise, exact=True).accounting
    return Guarantee.of(law, fraction_up(1 / Fraction(noise.one)))


class TotalsPlan(Protocol):
    """What measures the totals at the top: a mechanism over them, and its price."""

    @property
    def mechanism(self) -> Mechanism: ...

    @property
    def privacy(self) -> Guarantee: ...


@immutable
@dataclass(frozen=True, eq=False)
class BucketPlan:
    """What is measured of buckets: `top` over the last groups, `storeys` from the buckets upwards.

    A storey is the noise on its totals; `groups[s]` are the edges by which those of storey s are
    summed to those above. Without a top there is one storey, that of the buckets: plain noise.
    """

    edges: IntArray
    top: TotalsPlan | None
    storeys: tuple[Noise, ...] = ()
    groups: tuple[IntArray, ...] = ()

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return len(self.edges) - 1

    @cached_property
    def privacy(self) -> Guarantee:
        """What all storeys cost together."""
        costs = [] if self.top is None else [self.top.privacy]
        first, *others = costs + [storey_price(storey) for storey in self.storeys]
        return first.compose(*others)

    @property
    def numbers(self) -> int:
        """Noisy numbers measured."""
        if self.top is None:
            return self.buckets
        return self.top.mechanism.numbers + sum(int(edges[-1]) for edges in self.groups)

    # ------------------------------------------------------------------ measuring

    def measure(self, counts: IntArray, sample: Any) -> tuple[NDArray[Any], ...]:
        """Noisy numbers for counts of the cells in line: of the storeys, then those of the top."""
        totals = np.add.reduceat(counts, self.edges[:-1])
        if self.top is None:
            return (totals + sample(totals.shape, self.storeys[0]),)
        require_price(self.top.mechanism, self.top.privacy)
        found: list[NDArray[Any]] = []
        for storey, edges in zip(self.storeys, self.groups, strict=True):
            found.append(totals + sample(totals.shape, storey))
            totals = np.add.reduceat(totals, edges[:-1])

        def marginals(sets: IntArray) -> IntArray:
            return np.stack([totals if len(attributes) else totals.sum() for attributes in sets])

        top = self.top.mechanism.measured_on_lattice(marginals, sample)
        return (*found, *top.values)

    def estimate(self, values: tuple[NDArray[Any], ...]) -> Array:
        """The totals of the buckets by least squares from all storeys."""
        if self.top is None:
            return np.asarray(values[0], dtype=np.float64)
        own, top = values[: len(self.storeys)], Measurements(values[len(self.storeys) :])
        seen = np.asarray(self.top.mechanism.answer(top, self._cells), dtype=np.float64)
        if not self.storeys:
            return seen
        known = [
            np.asarray(noisy, dtype=np.float64) / storey.variance
            for noisy, storey in zip(own, self.storeys, strict=True)
        ]
        return self._solve([k[:, None] for k in known], (self._top_precision @ seen)[:, None])[:, 0]

    def covariance_times(self, vectors: Array) -> Array:
        """Λ⁻¹ v for columns v (buckets × any): covariances of the estimated totals."""
        if self.top is None:
            return vectors * self.storeys[0].variance
        if not self.storeys:
            return np.asarray(self._top_covariance @ vectors)
        zeros = [np.zeros((int(e[-1]), vectors.shape[1])) for e in self.groups[1:]]
        return self._solve([vectors, *zeros], np.zeros((self.top_size, vectors.shape[1])))

    # ------------------------------------------------------------------ solving

    @property
    def _at_top(self) -> Mechanism:
        assert self.top is not None  # plain noise has nothing to solve
        return self.top.mechanism

    @property
    def top_size(self) -> int:
        """Totals at the top; all buckets for plain noise."""
        return self.buckets if self.top is None else int(self._at_top.schema.shape[0])

    @cached_property
    def _cells(self) -> Query:
        schema = self._at_top.schema
        return Query(schema, {schema.names[0]: Identity()})

    @cached_property
    def _top_covariance(self) -> Array:
        return self._at_top.covariance(self._cells, self._cells)

    @cached_property
    def _top_precision(self) -> Array:
        inverse = np.linalg.inv(self._top_covariance)
        return np.asarray((inverse + inverse.T) / 2)

    def _solve(self, known: list[Array], top: Array) -> Array:
        """Λ⁻¹ Σ_s Y_sᵀ known_s: up, every group's total by itself; down, what others know of it.

        Going up, a total has the mean m and the variance c from what is below and beside it; the
        total of a group has Σm and Σc. Going down, what was learnt of a group's total is shared
        among its members in proportion to c.
        """
        mean, spread = known[0] * self.storeys[0].variance, self.storeys[0].variance
        means, spreads = [], []
        variance = np.full(len(mean), spread)
        for number, edges in enumerate(self.groups):
            means.append(mean)
            spreads.append(variance)
            mean = np.add.reduceat(mean, edges[:-1], axis=0)
            variance = np.add.reduceat(variance, edges[:-1])
            if number + 1 < len(self.groups):
                own = self.storeys[number + 1].variance
                weight = own / (own + variance)  # of what is known from below
                mean = weight[:, None] * (mean + variance[:, None] * known[number + 1])
                variance = weight * variance
        found = np.linalg.solve(
            self._top_precision + np.diag(1 / variance), mean / variance[:, None] + top
        )
        for edges, below, shares in zip(
            reversed(self.groups), reversed(means), reversed(spreads), strict=True
        ):
            sizes = np.diff(edges)
            learnt = found - np.add.reduceat(below, edges[:-1], axis=0)
            learnt = learnt / np.add.reduceat(shares, edges[:-1])[:, None]
            found = below + shares[:, None] * np.repeat(learnt, sizes, axis=0)
        return np.asarray(found)


def even_groups(buckets: int) -> list[IntArray]:
    """Edges that group buckets, and groups, by at most 16 until at most 256 are left.

    Examples
    --------
    >>> [len(edges) - 1 for edges in even_groups(10_000)], even_groups(100)
    ([1429, 205], [])
    """
    if buckets <= DIRECT:
        return []
    storeys = 1
    while TOP * BRANCHES**storeys < buckets:
        storeys += 1
    branches, found = 2, []
    while TOP * branches**storeys < buckets:
        branches += 1
    for _ in range(storeys):
        edges = np.append(np.arange(0, buckets, branches), buckets)
        found.append(edges.astype(np.int64))
        buckets = len(edges) - 1
    return found


def part_of(budget: Additive, share: float) -> Additive:
    """A share of a budget, rounded down."""
    return budget.at(product_down(budget.amount, share, ROUNDING))


def storey_within(part: Additive, noise: str) -> Noise:
    """Noise on totals of one storey that costs no more than a budget."""
    cost = part.amount
    # 1/size ≤ cost exactly, for a size of few bits
    size = size_above(1 / cost)
    if 1 / Fraction(size) > Fraction(cost):
        size = size_above((1 + 1e-12) / cost)
    # The law is the budget's, whatever the noise is called: nothing else costs what is counted.
    found = replace(Noise.within(part, "discrete", size), exact=Noise.named(noise).exact)
    if found.wide or not found.drawable:
        raise PlanError(
            f"a part of {cost:.3g} of the budget needs noise too large to be drawn; give it a "
            + remedy("argument", "larger share=, error_share= or budget", "larger budget")
        )
    return found
