"""How a data-aware plan is made: the public choices, none of which looks at data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import pi, sqrt
from numbers import Integral, Real
from typing import ClassVar, Final

from noiseplan.errors import PlanError
from noiseplan.mechanisms.partition.bucket_tree import part_of, storey_price, storey_within
from noiseplan.mechanisms.partition.halving import Halves, HalvingSelector
from noiseplan.mechanisms.partition.partition_prior import (
    HALVED,
    LENGTHS,
    Candidates,
    Lengths,
    asked_longest,
)
from noiseplan.mechanisms.partition.selection import Selector
from noiseplan.noise import Noise
from noiseplan.privacy import Budget, Guarantee, PureDP, zCDP
from noiseplan.privacy.rounding import down, fraction_down, product_up

# The share of ε, or of ρ, for the partition. By zCDP it is cheap: a draw of range ε costs ε²/8.
PURE_SHARE: Final = {"halves": 0.2, "powers": 0.1, "every": 0.1}
ZCDP_SHARE: Final = 0.05
# By halving from so many cells on: below, buckets of a thirty-second of the line have less bias.
HALVED_FROM: Final = 4096
# Fewer cells than these have too little to be compared with the noise of the comparison.
COMPARED: Final = 512
# The least cost of a partition, as a part of that of single cells, from which on no buckets pay.
WORTH: Final = 0.385
SECOND_PLANNERS: Final = ("auto", "p-identity", "tree", "wavelet", "identity")


@dataclass(frozen=True)
class Dawa:
    """A data-aware planner: `plan(workload, budget=…, planner=Dawa(share=0.2))`.

    Parameters
    ----------
    share
        The part of the budget that choosing the buckets may cost: of ε for `PureDP` (a fifth
        unless given; a tenth for the other lengths), of ρ otherwise (a twentieth).
    lengths
        "auto": as has the smaller error, by the cells and the budget: "halves" for `PureDP` and at
        least 4,096 cells, or two attributes; otherwise "powers".
        "halves": buckets are got by halving the line. "powers": they have powers of two for
        lengths, and begin at any quarter of it. "every": any length, anywhere.
    longest
        The most cells of a bucket; 1/8 of all unless given (1/32 for the other lengths), of two
        attributes 1/256.
    second
        How the buckets are measured under `PureDP`: "auto", "p-identity", "tree" (the
        dissertation's greedy tree), "wavelet" or "identity". Other budgets take none but "auto":
        with Gaussian noise the optimal strategy is measured.
    error_share
        The part of the budget for measuring how uneven the buckets are, by which errors are
        estimated: a fiftieth unless given.
    compare_share
        The part of the budget for comparing, before anything else, what buckets would cost with
        what single cells cost; where cells cost little more they are measured themselves, with all
        that is left. A hundredth unless given, 0 for buckets in any case. Only for one attribute of
        at least 512 cells, and by halving.

    Examples
    --------
    >>> Dawa(share=0.25, lengths="every").lengths
    'every'
    """

    name: ClassVar[str] = "dawa"
    share: float | None = None
    lengths: Lengths = "auto"
    longest: int | None = None
    second: str = "auto"
    error_share: float = 0.02
    compare_share: float = 0.01

    def __post_init__(self) -> None:
        if self.share is not None:
            self._keep("share", _part("share", self.share))
        for name in ("error_share", "compare_share"):
            if getattr(self, name) != 0:
                self._keep(name, _part(name, getattr(self, name)))
        self.require_rest(self.share or 0.0)
        if self.second not in SECOND_PLANNERS:
            raise PlanError(f"second is one of {', '.join(SECOND_PLANNERS)}, found {self.second!r}")
        if self.lengths not in LENGTHS:
            raise PlanError(f"lengths is {', '.join(map(repr, LENGTHS))}; found {self.lengths!r}")
        if self.longest is not None:
            wrong = isinstance(self.longest, bool) or not isinstance(self.longest, Integral)
            if wrong or self.longest < 1:
                raise PlanError(f"longest is a number of cells, as in 64; found {self.longest!r}")
            self._keep("longest", int(self.longest))

    def require_rest(self, share: float) -> None:
        """Refuse shares that leave nothing for the totals."""
        if share + self.error_share + self.compare_share >= 1:
            raise PlanError("share and error_share leave nothing for measuring the buckets")

    def resolved(self, cells: int, attributes: int, pure: bool) -> Dawa:
        """With lengths for so many cells; none of it looks at data."""
        if self.lengths != "auto":
            return self
        halved = pure and (attributes == 2 or cells >= HALVED_FROM)
        return replace(self, lengths="halves" if halved else "powers")

    def selector(self, epsilon: float, cells: int, attributes: int) -> Selector | HalvingSelector:
        """What draws the buckets, within ε."""
        if self.lengths == "halves":
            longest = asked_longest(self.longest, cells, HALVED[attributes])
            return HalvingSelector.within(epsilon, Halves(cells, 1 << (longest.bit_length() - 1)))
        candidates = Candidates.named(self.lengths, cells, self.longest, attributes)
        return Selector.within(epsilon, candidates)

    def _keep(self, name: str, value: float) -> None:
        """A plain number in place of NumPy's, so that it can be saved."""
        object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Comparison:
    """Whether buckets pay: the least cost of a partition, with noise, beside a limit.

    One record moves the least cost, min_B Σ_{b ∈ B} (spread(x, b) + charge), by at most one. At
    the limit and above, single cells are measured within `cells`.
    """

    noise: Noise
    charge: int
    limit: int
    cells: PureDP | zCDP

    @classmethod
    def of(cls, settings: Dawa, whole: PureDP | zCDP, cells: int, noise: str) -> Comparison:
        """The comparison at its share of a budget."""
        own = storey_within(part_of(whole, settings.compare_share), noise)
        size = 1 / whole.epsilon if isinstance(whole, PureDP) else 1 / sqrt(pi * whole.rho)
        charge = max(round(size), 1)  # the mean absolute noise of a total: b, or σ√(2/π)
        left = _rest(whole, [storey_price(own)])
        return cls(own, charge, int(WORTH * charge * cells), left)


@dataclass(frozen=True, eq=False)
class Spending:
    """Who spends what: the comparison, the draw of a partition, the gauge, the buckets."""

    selector: Selector | HalvingSelector
    gauge: Noise | None
    second: PureDP | zCDP
    comparison: Comparison | None = None

    @property
    def privacy(self) -> Guarantee:
        """What all steps cost together, whatever the comparison says and is drawn."""
        gauge = [] if self.gauge is None else [storey_price(self.gauge)]
        draw = _draw_cost(self.selector, isinstance(self.second, PureDP))
        buckets = _all_of(self.second).compose(draw, *gauge)
        if self.comparison is None:
            return buckets
        dearest = max(buckets, _all_of(self.comparison.cells), key=lambda each: each.pcost)
        return dearest.compose(storey_price(self.comparison.noise))

    def second_after(self, compared: float | None) -> PureDP | zCDP:
        """What is left for the totals: after the draw of buckets, or all of it for single cells."""
        comparison = self.comparison
        if comparison is None or compared is None or compared < comparison.limit:
            return self.second
        return comparison.cells

    @classmethod
    def of(
        cls, settings: Dawa, budget: Budget, cells: int, attributes: int, noise: str
    ) -> Spending:
        """Parts of a budget; all of them together are within it, to the last digit."""
        whole = budget if isinstance(budget, PureDP) else zCDP(budget.zcdp_rho())
        pure = isinstance(whole, PureDP)
        settings = settings.resolved(cells, attributes, pure)
        usual = PURE_SHARE[settings.lengths] if pure else ZCDP_SHARE
        share = usual if settings.share is None else settings.share
        settings.require_rest(share)
        first = part_of(whole, share)
        epsilon = first.epsilon if isinstance(first, PureDP) else down(sqrt(8 * first.rho), 4)
        selector = settings.selector(epsilon, cells, attributes)
        gauge = comparison = None
        if settings.error_share:
            gauge = storey_within(part_of(whole, settings.error_share), noise)
        if settings.compare_share and compares(settings.lengths, cells, attributes):
            comparison = Comparison.of(settings, whole, cells, noise)
        left = whole if comparison is None else comparison.cells
        costs = [_draw_cost(selector, pure)] + ([] if gauge is None else [storey_price(gauge)])
        made = cls(selector, gauge, _rest(left, costs), comparison)
        if not made.privacy.within(whole):  # fail closed
            raise PlanError(f"the steps together would cost more than {budget}: this is a bug")
        return made


def compares(lengths: Lengths, cells: int, attributes: int) -> bool:
    """Whether buckets are compared with single cells before they are drawn."""
    return lengths == "halves" and attributes == 1 and cells >= COMPARED


def _draw_cost(selector: Selector | HalvingSelector, pure: bool) -> Guarantee:
    """ε of the draw; under zCDP ρ = ε²/8, because its losses have range ε (Dong and others 2020).

    Notes
    -----
    With K(t) = ln E_Q e^{tf} for f = ln P/Q, which lies in an interval of length ε: K(0) = K(1) = 0
    and K″ ≤ ε²/4, the largest variance of a number in such an interval. So K(t) − t(t − 1)ε²/8 is
    concave and vanishes at 0 and 1; it is not positive beyond, and D_α = K(α)/(α − 1) ≤ αε²/8.
    """
    epsilon = selector.epsilon
    if pure:
        return Guarantee.pure(epsilon)
    return Guarantee(product_up(epsilon, epsilon, 0.25), "zcdp")


def _rest(whole: PureDP | zCDP, costs: list[Guarantee]) -> PureDP | zCDP:
    """What is left of a budget, rounded down."""
    if isinstance(whole, PureDP):
        spent = sum(Fraction(cost.pure_epsilon or 0.0) for cost in costs)
        return PureDP(fraction_down(Fraction(whole.epsilon) - spent))
    spent = sum(Fraction(cost.pcost) for cost in costs)
    return zCDP(fraction_down((2 * Fraction(whole.rho) - spent) / 2))


def _all_of(budget: PureDP | zCDP) -> Guarantee:
    """What spending all of a budget costs."""
    if isinstance(budget, PureDP):
        return Guarantee.pure(budget.epsilon)
    return Guarantee(product_up(2.0, budget.rho), "zcdp")


def _part(name: str, value: object) -> float:
    """A part of the budget, strictly between none and all of it."""
    if not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) < 1:
        return float(value)
    raise PlanError(f"{name} is a part of the budget, as in 0.1; found {value!r}")
