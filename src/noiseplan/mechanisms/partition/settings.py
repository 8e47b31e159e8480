"""How a data-aware plan is made: the public choices, none of which looks at data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from numbers import Integral, Real
from typing import ClassVar, Final

from noiseplan.errors import PlanError
from noiseplan.mechanisms.partition.bucket_tree import part_of, storey_price, storey_within
from noiseplan.mechanisms.partition.partition_prior import LENGTHS, Candidates, Lengths
from noiseplan.mechanisms.partition.selection import Selector
from noiseplan.noise import Noise
from noiseplan.privacy import Budget, Guarantee, PureDP, zCDP
from noiseplan.privacy.rounding import down, fraction_down, product_up

# The share of ε, or of ρ, for the partition. By zCDP it is cheap: a draw of range ε costs ε²/8.
PURE_SHARE: Final = 0.1
ZCDP_SHARE: Final = 0.05
SECOND_PLANNERS: Final = ("auto", "p-identity", "tree", "wavelet", "identity")


@dataclass(frozen=True)
class Dawa:
    """A data-aware planner: `plan(workload, budget=…, planner=Dawa(share=0.2))`.

    Parameters
    ----------
    share
        The part of the budget that choosing the buckets may cost: of ε for `PureDP` (a tenth
        unless given), of ρ otherwise (a twentieth).
    lengths
        "powers": buckets have powers of two for lengths. "every": any length.
    longest
        The most cells of a bucket; 1/32 of all unless given, of two attributes 1/256.
    second
        How the buckets are measured under `PureDP`: "auto", "p-identity", "tree" (the
        dissertation's greedy tree), "wavelet" or "identity". Other budgets take none but "auto":
        with Gaussian noise the optimal strategy is measured.
    error_share
        The part of the budget for measuring how uneven the buckets are, by which errors are
        estimated; none unless given.

    Examples
    --------
    >>> Dawa(share=0.25, lengths="every")
    Dawa(share=0.25, lengths='every', longest=None, second='auto', error_share=0.0)
    """

    name: ClassVar[str] = "dawa"
    share: float | None = None
    lengths: Lengths = "powers"
    longest: int | None = None
    second: str = "auto"
    error_share: float = 0.0

    def __post_init__(self) -> None:
        if self.share is not None:
            self._keep("share", _part("share", self.share))
        if self.error_share != 0:
            self._keep("error_share", _part("error_share", self.error_share))
        if (self.share or 0.0) + self.error_share >= 1:
            raise PlanError("share and error_share leave nothing for measuring the buckets")
        if self.second not in SECOND_PLANNERS:
            raise PlanError(f"second is one of {', '.join(SECOND_PLANNERS)}, found {self.second!r}")
        if self.lengths not in LENGTHS:
            raise PlanError(f"lengths is 'powers' (of two) or 'every', found {self.lengths!r}")
        if self.longest is not None:
            wrong = isinstance(self.longest, bool) or not isinstance(self.longest, Integral)
            if wrong or self.longest < 1:
                raise PlanError(f"longest is a number of cells, as in 64; found {self.longest!r}")
            self._keep("longest", int(self.longest))

    def _keep(self, name: str, value: float) -> None:
        """A plain number in place of NumPy's, so that it can be saved."""
        object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Spending:
    """Who spends what: the draw of a partition, the gauge of unevenness, the buckets."""

    selector: Selector
    gauge: Noise | None
    second: PureDP | zCDP

    @property
    def privacy(self) -> Guarantee:
        """What all steps cost together, whatever partition is drawn."""
        second, pure = self.second, isinstance(self.second, PureDP)
        last = Guarantee.pure(second.epsilon) if isinstance(second, PureDP) else _of_rho(second)
        gauge = [] if self.gauge is None else [storey_price(self.gauge)]
        return last.compose(_draw_cost(self.selector, pure), *gauge)

    @classmethod
    def of(
        cls, settings: Dawa, budget: Budget, cells: int, attributes: int, noise: str
    ) -> Spending:
        """Parts of a budget; all of them together are within it, to the last digit."""
        whole = budget if isinstance(budget, PureDP) else zCDP(budget.zcdp_rho())
        pure = isinstance(whole, PureDP)
        share = (
            settings.share if settings.share is not None else (PURE_SHARE if pure else ZCDP_SHARE)
        )
        if share + settings.error_share >= 1:
            raise PlanError("share and error_share leave nothing for measuring the buckets")
        first = part_of(whole, share)
        epsilon = first.epsilon if isinstance(first, PureDP) else down(sqrt(8 * first.rho), 4)
        candidates = Candidates.named(settings.lengths, cells, settings.longest, attributes)
        selector = Selector.within(epsilon, candidates)
        gauge = None
        if settings.error_share:
            gauge = storey_within(part_of(whole, settings.error_share), noise)
        costs = [_draw_cost(selector, pure)] + ([] if gauge is None else [storey_price(gauge)])
        made = cls(selector, gauge, _rest(whole, costs))
        if not made.privacy.within(whole):  # fail closed
            raise PlanError(f"the steps together would cost more than {budget}: this is a bug")
        return made


def _draw_cost(selector: Selector, pure: bool) -> Guarantee:
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


def _of_rho(budget: zCDP) -> Guarantee:
    return Guarantee(product_up(2.0, budget.rho), "zcdp")


def _part(name: str, value: object) -> float:
    """A part of the budget, strictly between none and all of it."""
    if not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) < 1:
        return float(value)
    raise PlanError(f"{name} is a part of the budget, as in 0.1; found {value!r}")
