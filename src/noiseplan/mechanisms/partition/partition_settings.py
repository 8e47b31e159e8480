"""How a data-aware plan is made: the public choices, none of which looks at data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from numbers import Integral, Real
from typing import ClassVar, Final, NamedTuple

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
from noiseplan.privacy import Budget, Guarantee, Law
from noiseplan.privacy.budgets import Additive
from noiseplan.privacy.rounding import fraction_down

SECOND_PLANNERS: Final = ("auto", "p-identity", "tree", "wavelet", "identity")


class Usual(NamedTuple):
    """What is chosen where nothing is asked for, by the law of the budget."""

    share: dict[str, float]  # of the budget for the partition, by lengths
    halved_from: dict[int, float]  # cells from which on halving is better, by attributes
    second: tuple[str, ...]  # how buckets may be measured
    totals: tuple[str, str]  # the planner of one total, and of several


# By zCDP a partition is cheap: a draw of range ε costs ε²/8. By halving from so many cells on:
# below, buckets of a thirty-second of the line have less bias.
HALVED_FROM: Final = 4096
USUAL: Final[dict[Law, Usual]] = {
    "pure": Usual(
        {"halves": 0.2, "powers": 0.1, "every": 0.1},
        {1: HALVED_FROM, 2: 0},
        SECOND_PLANNERS,
        ("identity", "p-identity"),
    ),
    "zcdp": Usual(
        dict.fromkeys(LENGTHS, 0.05), {1: inf, 2: inf}, ("auto",), ("optimal", "optimal")
    ),
}
# Fewer cells than these have too little to be compared with the noise of the comparison.
COMPARED: Final = 512
# The least cost of a partition, as a part of that of single cells, from which on no buckets pay.
WORTH: Final = 0.385


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

    def resolved(self, cells: int, attributes: int, usual: Usual) -> Dawa:
        """With lengths for so many cells; none of it looks at data."""
        if self.lengths != "auto":
            return self
        halved = cells >= usual.halved_from[attributes]
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
    cells: Additive

    @classmethod
    def of(cls, settings: Dawa, whole: Additive, cells: int, noise: str) -> Comparison:
        """The comparison at its share of a budget."""
        own = storey_within(part_of(whole, settings.compare_share), noise)
        total = Noise.within(whole, noise, 1 / whole.amount)
        charge = max(round(total.mean_size), 1)
        left = _rest(whole, [storey_price(own)])
        return cls(own, charge, int(WORTH * charge * cells), left)


@dataclass(frozen=True, eq=False)
class Spending:
    """Who spends what: the comparison, the draw of a partition, the gauge, the buckets."""

    selector: Selector | HalvingSelector
    gauge: Noise | None
    second: Additive
    comparison: Comparison | None = None

    @property
    def privacy(self) -> Guarantee:
        """What all steps cost together, whatever the comparison says and is drawn."""
        gauge = [] if self.gauge is None else [storey_price(self.gauge)]
        second = Guarantee.of_budget(self.second)
        buckets = second.compose(second.of_range(self.selector.epsilon), *gauge)
        if self.comparison is None:
            return buckets
        cells = Guarantee.of_budget(self.comparison.cells)
        dearest = max(buckets, cells, key=lambda each: each.pcost)
        return dearest.compose(storey_price(self.comparison.noise))

    def second_after(self, compared: float | None) -> Additive:
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
        whole = budget.additive()
        cost = Guarantee.of_budget(whole)
        usual = usual_for(whole)
        settings = settings.resolved(cells, attributes, usual)
        share = usual.share[settings.lengths] if settings.share is None else settings.share
        settings.require_rest(share)
        first = part_of(whole, share)
        selector = settings.selector(first.range_epsilon, cells, attributes)
        gauge = comparison = None
        if settings.error_share:
            gauge = storey_within(part_of(whole, settings.error_share), noise)
        if settings.compare_share and compares(settings.lengths, cells, attributes):
            comparison = Comparison.of(settings, whole, cells, noise)
        left = whole if comparison is None else comparison.cells
        costs = [cost.of_range(selector.epsilon)] + ([] if gauge is None else [storey_price(gauge)])
        made = cls(selector, gauge, _rest(left, costs), comparison)
        if not made.privacy.within(whole):  # fail closed
            raise PlanError(f"the steps together would cost more than {budget}: this is a bug")
        return made


def usual_for(budget: Additive) -> Usual:
    """What is chosen within a budget where nothing is asked for."""
    law, _ = budget.exactly()
    return USUAL[law]


def compares(lengths: Lengths, cells: int, attributes: int) -> bool:
    """Whether buckets are compared with single cells before they are drawn."""
    return lengths == "halves" and attributes == 1 and cells >= COMPARED


def _rest(whole: Additive, costs: list[Guarantee]) -> Additive:
    """What is left of a budget, rounded down."""
    spent = sum(Fraction(cost.amount) for cost in costs)
    return whole.at(fraction_down(Fraction(whole.amount) - spent))


def _part(name: str, value: object) -> float:
    """A part of the budget, strictly between none and all of it."""
    if not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) < 1:
        return float(value)
    raise PlanError(f"{name} is a part of the budget, as in 0.1; found {value!r}")
