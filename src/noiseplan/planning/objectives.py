"""What a plan minimises: functions of the variances, convex and never decreasing in any of them.

Both are needed: a loss that falls when a variance rises would be met by adding noise, and the proof
that marginals are planned optimally rests on it (`docs/how-it-works.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

# Bounds beyond these have squares that are no numbers.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """What a plan minimises. A query's weight multiplies the variance of each of its rows.

    With `at_most`, and without a budget, it is what a plan must reach: the least privacy cost at
    which it is at most so much is found.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> plans = [nz.plan(workload, budget=nz.zCDP(0.5), objective=how)
    ...          for how in (nz.TotalVariance(), nz.WorstVariance())]
    >>> plans[0].total_variance < plans[1].total_variance
    True
    >>> plans[0].worst_variance > plans[1].worst_variance
    True
    """

    at_most: float | None = None

    def check_reach(self, queries: int) -> None:
        """Refuse a bound that would be met without noise only, or not even so."""
        given, least = self.at_most, self.without_noise(queries)
        number = isinstance(given, Real) and not isinstance(given, bool) and np.isfinite(given)
        if given is None or not number or given <= least or not LEAST < given < MOST:
            raise PlanError(
                f"at_most is a number above {least:g}, which the {self} would be without any "
                f"noise, from {LEAST:g} to {MOST:g}; found {given!r}"
            )

    def without_noise(self, queries: int) -> float:
        """What it is when all variances are zero."""
        return 0.0

    @abstractmethod
    def __str__(self) -> str:
        """Its name, to follow the word "least"."""


@dataclass(frozen=True)
class TotalVariance(Objective):
    """Σ weight · variance over all rows of all queries.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> plan = nz.plan(workload, budget=nz.zCDP(0.5), objective=nz.TotalVariance())  # the default
    >>> plan.optimal
    True
    """

    def __str__(self) -> str:
        return "total variance"


@dataclass(frozen=True)
class RMSE(TotalVariance):
    """√(Σ variance / rows) over all rows of all queries: weights play no part.

    A plan for it is one of least total variance for the same queries without weights.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> plan = nz.plan(workload, objective=nz.RMSE(at_most=5.0))  # the least privacy for it
    >>> round(plan.rmse, 3)
    5.0
    """

    def __str__(self) -> str:
        return "root mean square error"


@dataclass(frozen=True)
class WorstVariance(Objective):
    """max weight · variance over all rows of all queries.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> plan = nz.plan(workload, objective=nz.WorstVariance(at_most=9.0))
    >>> round(plan.worst_variance, 3)  # no answer has a standard error above 3
    9.0
    """

    def __str__(self) -> str:
        return "worst variance"


@dataclass(frozen=True)
class PNormVariance(Objective):
    """(Σ (weight · variance)^p)^(1/p) over all rows: the total for p = 1, the worst for p = ∞.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> norms = [nz.PNormVariance(p) for p in (1.5, 3.0)]
    >>> plans = [nz.plan(workload, budget=nz.zCDP(0.5), objective=norm) for norm in norms]
    >>> plans[0].worst_variance > plans[1].worst_variance  # nearer to the worst, the larger p is
    True
    """

    p: float

    def __post_init__(self) -> None:
        if not (isinstance(self.p, (int, float)) and 1 <= self.p < np.inf):
            raise PlanError(
                f"PNormVariance needs 1 ≤ p < ∞, found {self.p!r}; for p = ∞ use WorstVariance()"
            )

    def __str__(self) -> str:
        return f"{self.p:g}-norm of variances"


@dataclass(frozen=True, repr=False)
class ConvexLoss(Objective):
    """A loss of your own, of the vector of weight · mean row variance, one entry per query.

    Parameters
    ----------
    function
        Array → number; convex and nondecreasing in every entry (checked at random points).
    gradient
        Array → array; by central differences if not given, which costs two calls per query.
    at_most
        Without a budget: what the loss must be, at the least privacy cost.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> loss = nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v)
    >>> plan = nz.plan(workload, budget=nz.zCDP(0.5), objective=loss)
    >>> len(plan.workload), plan.optimal
    (4, True)
    """

    function: Callable[[Array], float]
    gradient: Callable[[Array], Array] | None = None

    def without_noise(self, queries: int) -> float:
        return self.value(np.zeros(queries))

    def __str__(self) -> str:
        name = str(getattr(self.function, "__name__", "<none>"))
        return "convex loss" if name.startswith("<") else name

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        reach = "" if self.at_most is None else f", at_most={self.at_most!r}"
        return f"ConvexLoss({name}{reach})"

    def value(self, variances: Array) -> float:
        """The loss at these variances."""
        found = self.function(variances)
        if np.ndim(found) or not np.isreal(found):
            raise PlanError(f"a loss returns one number, and {self} returned {found!r}")
        return float(found)

    def slope(self, variances: Array) -> Array:
        """The gradient at these variances; refuses a loss that decreases somewhere."""
        if self.gradient is not None:
            slope = np.asarray(self.gradient(variances), dtype=float)
        else:
            slope = self._differences(variances)
        if slope.shape != variances.shape or not np.isfinite(slope).all():
            raise PlanError("the loss's gradient must be one finite number per query")
        if (slope < -1e-6 * np.abs(slope).max()).any():
            raise PlanError(
                "the loss decreases when a variance grows; a loss must be nondecreasing in every "
                "variance, or the best plan would be to add noise"
            )
        return np.asarray(np.maximum(slope, 0.0))

    def _differences(self, variances: Array) -> Array:
        slope = np.empty_like(variances)
        for i, v in enumerate(variances):
            up, down = variances.copy(), variances.copy()
            up[i] += 1e-5 * (v or variances.max() or 1.0)
            down[i] -= 1e-5 * v
            rise = self.value(up) - self.value(down)
            slope[i] = rise / (up[i] - down[i])
        return slope

    def check_convex(self, at: Array) -> None:
        """Refuse a loss that is not convex between some random pairs of points near `at`."""
        rng = np.random.default_rng(0)
        for _ in range(16):
            a, b = (at * rng.uniform(0.3, 3.0, at.shape) for _ in range(2))
            ends = 0.5 * (self.value(a) + self.value(b))
            middle = self.value(0.5 * (a + b))
            if not np.isfinite(middle) or middle > ends + 1e-9 * (abs(ends) + abs(middle)):
                raise PlanError(f"the loss {self} is not convex and finite on positive variances")


@dataclass(frozen=True, init=False, eq=False)
class RelativeError(Objective):
    """Σ weight · variance / answer² over all rows of all queries, for answers as expected.

    The answers themselves are private, so each is replaced by what it is expected to be: a small
    count then gets a small error. Without expectations a row is compared with its own length,
    ‖w‖², as if all cells were alike.

    Parameters
    ----------
    expected
        Public counts to expect, one per cell of the domain (in the shape of the schema, or flat):
        an earlier release, a projection. Never the data themselves.
    floor
        Answers below this count as this: no error is asked to be small beside nothing.
    at_most
        Without a budget: what it must be, at the least privacy cost.

    References
    ----------
    C. Li, dissertation, 2013, section 5.1.4, which scales every query to unit length.

    Examples
    --------
    >>> RelativeError(expected=[10, 1000], floor=5)
    RelativeError(2 expected counts, floor 5)
    """

    expected: Array | None
    floor: float

    def __init__(
        self, expected: object = None, floor: float = 1.0, *, at_most: float | None = None
    ) -> None:
        counts = None
        if expected is not None:
            counts = np.asarray(expected, dtype=np.float64).ravel()
            if not counts.size or not np.isfinite(counts).all():
                raise PlanError("RelativeError: expected counts are finite numbers, one per cell")
            if (counts < 0).any():
                raise PlanError(
                    f"RelativeError: expected counts are 0 or more, found {counts.min():g}; for an "
                    f"earlier release, write np.maximum(counts, 0)"
                )
        if isinstance(floor, bool) or not (np.isfinite(floor) and floor > 0):
            raise PlanError(f"RelativeError: a floor is a positive number, found {floor!r}")
        object.__setattr__(self, "expected", counts)
        object.__setattr__(self, "floor", float(floor))
        object.__setattr__(self, "at_most", at_most)

    def __str__(self) -> str:
        return "relative error"

    def __repr__(self) -> str:
        if self.expected is None:
            return "RelativeError()"
        return f"RelativeError({len(self.expected):,} expected counts, floor {self.floor:g})"

    def check(self, cells: int) -> None:
        """Refuse expectations about another domain."""
        if self.expected is not None and len(self.expected) != cells:
            raise PlanError(
                f"RelativeError expects {len(self.expected):,} counts, but the schema has "
                f"{cells:,} cells: give one count per cell, last attribute fastest"
            )

    def squares(self, lengths: Array, answer: Callable[[Array], Array]) -> Array:
        """What the squared error of each row is compared with.

        `lengths` are the rows' squared lengths, `answer` applies them to counts.
        """
        if self.expected is None:
            return np.where(lengths > 0, lengths, 1.0)  # rows of zeros have no error
        return np.asarray(np.maximum(np.abs(answer(self.expected)), self.floor) ** 2)


@dataclass(frozen=True)
class Recorded(Objective):
    """The name of an objective that cannot be saved: a loss given as a function."""

    name: str

    def __str__(self) -> str:
        return self.name


# Objectives that have a word, in Python as in study files.
WORDS = {"total": TotalVariance(), "rmse": RMSE(), "worst": WorstVariance()}


def as_objective(objective: str) -> Objective:
    """An objective by its word.

    Examples
    --------
    >>> as_objective("worst")
    WorstVariance(at_most=None)
    """
    if objective not in WORDS:
        raise PlanError(
            f"an objective is one of the words {', '.join(map(repr, WORDS))}, or an object, such "
            f"as PNormVariance(4); found {objective!r}"
        )
    return WORDS[objective]
