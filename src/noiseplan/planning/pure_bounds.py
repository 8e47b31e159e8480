"""Bounds on what Laplace noise can do, for a workload and for plans of tables.

A bound for continuous noise of the variances 2b² holds for the exact discrete law too, divided by
(cosh ε − 1)/(ε²/2): its precision cosh(1/b) − 1 is at most that many times 1/(2b²) as long as
1/b ≤ ε, and a record that changes a number by one or more pays at least 1/b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import asinh, comb, inf, prod, sqrt
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.laplace_bounds import Telling, disjoint_tables_bound, tables_bound
from noiseplan.planning.attribute_strategies import RoleStrategy
from noiseplan.planning.limits import SEARCHED_VALUES
from noiseplan.planning.table_types import variances
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Law
from noiseplan.privacy.rounding import product_up
from noiseplan.queries import Identity, Workload

# Types of tables over which sharing is bounded.
MOST_TYPES: Final = 1 << 16
# Beyond this ε nothing is noisy.
LARGEST_EPSILON: Final = 700.0


def laplace_cost(epsilon: float, exact: bool) -> float:
    """What Gaussian noise of the variances of Laplace noise on the same rows costs at most.

    Laplace numbers of scale b_r have ε ≥ Σ_r |A_rj|/b_r for every record j and variances 2b_r²;
    Gaussian noise of these variances would cost max_j Σ_r A_rj²/(2b_r²) ≤ ε²/2. Discrete numbers
    have the precision cosh(1/b_r) − 1 and integers A, and as cosh − 1 is convex and more than
    quadratic, Σ_r A_rj² (cosh(1/b_r) − 1) ≤ Σ_r (cosh(|A_rj|/b_r) − 1) ≤ cosh ε − 1.
    """
    if not exact:
        return product_up(epsilon, epsilon, 0.5)
    if epsilon > LARGEST_EPSILON:  # beyond all numbers
        return inf
    # For small ε, 2 sinh²(ε/2) without cancellation.
    half = np.sinh(epsilon / 2)
    return product_up(float(half), float(half), 2.0, 1 + 1e-14)


def epsilon_at(cost: float, exact: bool) -> float:
    """The ε at which `laplace_cost` is this, rounded down."""
    epsilon = 2.0 * asinh(sqrt(cost / 2)) if exact else sqrt(2.0 * cost)
    return epsilon * (1 - 1e-14)


@dataclass(frozen=True)
class LowerBounds:
    """How errors are bounded from below, by what is known of the noise.

    All is found for Gaussian noise; `cost` is what that of the same variances costs at most, for a
    promise of this amount, and `amount` the promise of which `cost` is this, rounded down.
    """

    cost: Callable[[float, bool], float] = lambda amount, exact: amount
    amount: Callable[[float, bool], float] = lambda cost, exact: cost
    # By other means, for records that are added or removed.
    direct: Callable[[Workload, float, bool], float] = lambda workload, amount, exact: 0.0
    # Values told apart beyond which a bound is not searched for; and beyond which it takes longer
    # than the plan. Of pure DP at a thousand 2 s or, of several tables, 40; at two thousand a
    # minute. Of Gaussian noise on rows that were given, at 256 1.5 s, at two thousand many minutes.
    searched: float = inf
    prompt: float = 256
    # Whether rows that were searched for tell it, so that it need not be searched for.
    of_rows: bool = True

    @property
    def call(self) -> str:
        """What asks for it: a certificate has the bounds of rows and of levels, if there are any,
        which are faster."""
        return "plan.certify()" if self.of_rows else "plan.lower_bound"


def lower_bounds(law: Law) -> LowerBounds:
    """How errors are bounded of a plan that promises by this law."""
    return BY_LAW[law]


@dataclass(frozen=True, eq=False)
class SharedTables:
    """How well ε can be shared among tables of attributes that are measured in these ways."""

    design: Design
    strategies: dict[int, RoleStrategy]
    epsilon: float
    exact: bool

    @cached_property
    def bound(self) -> float | None:
        """No plan of such tables within ε has a lower total variance; None where they are too
        many."""
        members = [len(role.members) for role in self.design.roles.roles]
        if prod(count + 1 for count in members) > MOST_TYPES:
            return None
        variance = np.zeros([count + 1 for count in members])
        needed = variances(self.design, self.strategies)
        for place, v in zip(self._places(members), needed, strict=True):
            variance[place] += v
        at_one = tables_bound(variance, list(self._kinds(members)))
        return at_one / 2.0 / laplace_cost(self.epsilon, self.exact)

    def _places(self, members: list[int]) -> Iterator[tuple[int, ...]]:
        """The place of every residual in the grid: how many of its attributes have each role."""
        for row in self.design.terms.subset_roles:
            yield tuple(np.bincount(row[row >= 0], minlength=len(members)).tolist())

    def _kinds(self, members: list[int]) -> Iterator[Telling]:
        """Tables by value or strategy, and the same with differences alone of two values."""
        halved = {r for r, s in self.strategies.items() if s.difference is not None}
        for fixed in [set(), halved] if halved else [set()]:
            tells = tuple(self._tells(r, n, r in fixed) for r, n in enumerate(members))
            price = np.ones(())
            for r, n in enumerate(members):
                norm = 1.0 if r in fixed else float(self.strategies[r].norm)
                price = np.multiply.outer(price, [comb(n, k) * norm**k for k in range(n + 1)])
            yield Telling(tells, price)

    def _tells(self, r: int, members: int, fixed: bool) -> Array:
        """√precision of j residuals of a role from all tables with k attributes of it.

        They lie in C(N − j, k − j) of these; each attribute summed out costs 1/c.
        """
        view = self.strategies[r].difference if fixed else self.strategies[r].view
        assert view is not None  # fixed roles have one
        total = np.inf if view.total is None else float(view.total)
        result = np.zeros((members + 1, members + 1))
        for k in range(members + 1):
            for j in range(k if fixed else 0, k + 1):
                one = float(view.residual) ** (-j / 2) * total ** (-(k - j) / 2)
                result[k, j] = comb(members - j, k - j) * one
        return result


def volume_bound(workload: Workload, epsilon: float, exact: bool) -> float:
    """The volume bound of plain tables with no attribute in common, where queries ask for such."""
    columns, taken, found = workload.columns, set[int](), []
    if (columns.joint >= 0).any() or not all(isinstance(f, Identity) for f in columns.distinct):
        return 0.0
    order = np.argsort((columns.attributes >= 0).sum(axis=1), kind="stable")
    for number in order:
        on = {int(i) for i in columns.attributes[number] if i >= 0}
        if on and not on & taken:
            taken |= on
            found.append(number)
    sizes, weights = workload.sizes[found].astype(np.float64), columns.weights[found]
    at_one = disjoint_tables_bound(sizes, np.asarray(weights))
    return at_one / 2.0 / laplace_cost(epsilon, exact)


BY_LAW: Final[dict[Law, LowerBounds]] = {
    "gaussian": LowerBounds(),
    "zcdp": LowerBounds(),
    # Beyond what is searched, a bound would take longer than any plan, and is far from the best.
    "pure": LowerBounds(
        laplace_cost, epsilon_at, volume_bound, SEARCHED_VALUES, 800, of_rows=False
    ),
}
