"""The privacy guarantee of a mechanism or a release, in every currency: zCDP, GDP, (ε, δ), ε.

`_ACCOUNTING` says, for each `Law`, how a guarantee is converted; `Guarantee` looks everything up
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Final, Literal, final, get_args

from noiseplan.errors import BudgetError
from noiseplan.privacy.budgets import ApproxDP, Budget, Law
from noiseplan.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    pure_mu2,
    zcdp_delta,
    zcdp_epsilon,
)
from noiseplan.privacy.rounding import (
    checked_cost,
    fraction_up,
    product_up,
    sqrt_up,
    sum_up,
    text_of,
    text_up,
)

Neighbours = Literal["add-remove", "replace"]

SHOWN_DELTA: Final = 1e-9  # at which ε is shown where there is room for one
SHOWN_DELTAS: Final = (1e-6, SHOWN_DELTA, 1e-12)
CONVERSION: Final = {
    "gaussian": "the exact curve of the Gaussian mechanism",
    "discrete": "the exact curve of the Gaussian mechanism, which noise on integers has too",
    "zcdp": "the tight conversion from zCDP (Canonne, Kamath and Steinke 2020)",
    "pure": "pure DP, or by the conversion from the zCDP it implies where that is less",
}
DIFFERENCE: Final = {
    "add-remove": "by adding or removing one record",
    "replace": "by replacing one record with another",
}
# The same where records belong to somebody, by whose they are.
OF_A_UNIT: Final = {
    "add-remove": "by all records of one {}",
    "replace": "by what the records of one {} say, not by how many there are",
}


@final
@dataclass(frozen=True)
class _Accounting:
    """Hold the conversions of one `Law`: to δ, to ε, and whether a budget admits the guarantee.

    The `amount` is the number that adds up over releases: ε for pure DP, 2ρ otherwise. For a person
    with k records it is k^power times the amount for one record.
    """

    made: Callable[[float, Neighbours], Guarantee]  # of an amount
    delta: Callable[[Guarantee, float], float]
    epsilon: Callable[[Guarantee, float], float]
    within: Callable[[Guarantee, Budget], bool]
    promises: tuple[Law, ...]  # what may be said of noise of which this is known
    together: Law = "zcdp"  # what is known of several releases of which this is known
    laplace: bool = False  # whether the noise is Laplace noise
    power: int = 2
    amount: Callable[[Guarantee], float] = lambda known: known.pcost
    # The amount of a draw whose privacy loss has range ε (Dong and others 2020): ρ = ε²/8.
    of_range: Callable[[float], float] = lambda epsilon: product_up(epsilon, epsilon, 0.25)
    shown: Callable[[Guarantee], float] = lambda known: known.epsilon(SHOWN_DELTA)
    own_figures: Callable[[Guarantee], dict[str, float]] = lambda known: {}


_ZCDP: Final = _Accounting(
    made=lambda amount, neighbours: Guarantee(amount, "zcdp", neighbours),
    # The better of both proofs: each holds for everything that this is the guarantee of.
    delta=lambda known, epsilon: min(
        zcdp_delta(known.rho, epsilon),
        1.0 if known.mu2 is None else gaussian_delta(known.mu2, epsilon),
    ),
    epsilon=lambda known, delta: min(
        zcdp_epsilon(known.rho, delta),
        inf if known.mu2 is None else gaussian_epsilon(known.mu2, delta),
    ),
    within=lambda known, budget: (
        (known.mu2 is not None and known.mu2 <= budget.gaussian_pcost())
        or known.rho <= budget.zcdp_rho()
    ),
    promises=("zcdp",),
)
_ACCOUNTING: Final[dict[Law, _Accounting]] = {
    "gaussian": _Accounting(
        made=lambda amount, neighbours: Guarantee(amount, "gaussian", neighbours),
        delta=lambda known, epsilon: gaussian_delta(known.pcost, epsilon),
        epsilon=lambda known, delta: gaussian_epsilon(known.pcost, delta),
        within=lambda known, budget: known.pcost <= budget.gaussian_pcost(),
        promises=("gaussian", "zcdp"),
        together="gaussian",
    ),
    "zcdp": _ZCDP,
    # δ = 0 is within any δ; and it implies zCDP, by which ε at some δ may be less.
    "pure": _Accounting(
        made=lambda amount, neighbours: Guarantee.pure(epsilon=amount, neighbours=neighbours),
        delta=lambda known, epsilon: (
            0.0 if epsilon >= known.amount else _ZCDP.delta(known, epsilon)
        ),
        epsilon=lambda known, delta: min(known.amount, _ZCDP.epsilon(known, delta)),
        within=lambda known, budget: (
            known.amount <= budget.own_epsilon or _ZCDP.within(known, budget)
        ),
        promises=("pure",),
        laplace=True,
        power=1,
        amount=lambda known: known.pure_epsilon or 0.0,
        of_range=lambda epsilon: epsilon,
        shown=lambda known: known.amount,
        own_figures=lambda known: {"pure_epsilon": known.amount},
    ),
}


@final
@dataclass(frozen=True)
class Guarantee:
    """State the privacy that a mechanism guarantees; every number it gives is rounded up.

    Only `mu` may be less than a guarantee: of pure DP, and where zCDP is all that is known, it is
    √(2ρ), for comparison. `mu2` is None where no μ is known.

    Parameters
    ----------
    pcost
        Privacy cost 2ρ = μ², at least 0 (nothing is learnt); infinity means no protection.
    law
        What is known of the noise. `"gaussian"` (continuous Gaussian noise): μ-GDP, and δ(ε) is
        exact. `"zcdp"` (discrete Gaussian noise): ρ-zCDP, and δ(ε) is what zCDP implies, or that of
        μ-GDP where `mu2` is known and it is less. `"pure"` (Laplace noise): ε-DP with δ = 0, which
        implies ε²/2-zCDP; made by `Guarantee.pure(epsilon)`.
    neighbours
        Which data sets must look alike: those that differ by adding or removing one record, or by
        replacing one.
    mu2
        μ² where μ-GDP is known as well: of discrete Gaussian noise a little more than `pcost`
        (`noiseplan.privacy.conversions.lattice_loss`); None where zCDP is all that is known. The
        other laws set it themselves.

    Examples
    --------
    >>> spent = Guarantee(pcost=1.0)
    >>> spent.rho, spent.mu, round(spent.epsilon(1e-10), 6)
    (0.5, 1.0, 6.547924)
    >>> round(Guarantee(1.0, law="zcdp").epsilon(1e-10), 6)
    6.839329
    >>> round(Guarantee(1.0, law="zcdp", mu2=1.0001).epsilon(1e-10), 6)
    6.548283
    """

    pcost: float
    law: Law = "gaussian"
    neighbours: Neighbours = "add-remove"
    # ε of pure DP, to the last digit: its square would lose that.
    pure_epsilon: float | None = field(default=None, repr=False)
    # Whose records neighbours differ by, in a word; None: each record stands for itself.
    whose: str | None = field(default=None, repr=False, compare=False)
    mu2: float | None = field(default=None, repr=False, compare=False)
    # What adds up over releases: ε of pure DP, else 2ρ. Of a person with k records it is k^power
    # times as much: k ε, or 2ρ k².
    amount: float = field(init=False, repr=False, compare=False)
    power: int = field(init=False, repr=False, compare=False)
    # Whether the noise is Laplace noise, so that answers are not nearly normal.
    laplace: bool = field(init=False, repr=False, compare=False)
    # What is known of it beside ρ, μ and ε at every δ, by name: ε of pure DP.
    own_figures: dict[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pcost", checked_cost("Guarantee: pcost", self.pcost))
        for name, allowed in (("law", get_args(Law)), ("neighbours", get_args(Neighbours))):
            if (found := getattr(self, name)) not in allowed:
                choices = " or ".join(map(repr, allowed))
                raise BudgetError(f"Guarantee: {name} must be {choices}; got {found!r}")
        if (self.law == "pure") != (self.pure_epsilon is not None):
            raise BudgetError("a guarantee of pure DP is written Guarantee.pure(epsilon=1.0)")
        object.__setattr__(self, "mu2", self._known_mu2())
        known = _ACCOUNTING[self.law]
        object.__setattr__(self, "amount", known.amount(self))
        object.__setattr__(self, "power", known.power)
        object.__setattr__(self, "laplace", known.laplace)
        object.__setattr__(self, "own_figures", known.own_figures(self))

    def _known_mu2(self) -> float | None:
        """Return μ² by the law; that of discrete noise is stated, and never below 2ρ."""
        if self.law == "gaussian":
            return self.pcost
        if self.law == "pure":
            return pure_mu2(self.pure_epsilon or 0.0)
        if self.mu2 is None:
            return None
        stated = checked_cost("Guarantee: mu2", self.mu2)
        if stated < self.pcost:
            raise BudgetError(
                f"Guarantee: mu2 of discrete noise is at least pcost; got mu2 = {stated!r} and "
                f"pcost = {self.pcost!r}"
            )
        return stated

    @classmethod
    def pure(cls, epsilon: float, neighbours: Neighbours = "add-remove") -> Guarantee:
        """Return the guarantee of ε-differential privacy, δ = 0.

        It implies ρ = ε²/2 (Bun and Steinke 2016).

        Examples
        --------
        >>> spent = Guarantee.pure(0.1)
        >>> spent.rho, spent.epsilon(delta=1e-12), spent.delta(epsilon=0.1)
        (0.005000000000000001, 0.1, 0.0)
        """
        value = checked_cost("Guarantee.pure: epsilon", epsilon)
        return cls(product_up(value, value), "pure", neighbours, value)

    @classmethod
    def of(cls, law: Law, amount: float, neighbours: Neighbours = "add-remove") -> Guarantee:
        """Return the guarantee of a law by its amount: ε for pure DP, 2ρ otherwise."""
        return _ACCOUNTING[law].made(amount, neighbours)

    def at(self, amount: float) -> Guarantee:
        """Return this guarantee with another amount; μ² is scaled by the same factor."""
        found = replace(Guarantee.of(self.law, amount, self.neighbours), whose=self.whose)
        if self.law != "zcdp" or self.mu2 is None or not isfinite(amount):
            return found
        if not self.pcost:  # what a difference of prices may leave: μ² without ρ
            return replace(found, mu2=self.mu2) if amount == 0 else found
        grown = fraction_up(Fraction(self.mu2) * Fraction(amount) / Fraction(self.pcost))
        return replace(found, mu2=max(grown, amount))

    @property
    def shown_epsilon(self) -> float:
        """The ε shown where there is room for one: ε of pure DP, else the ε at δ = 10⁻⁹."""
        return _ACCOUNTING[self.law].shown(self)

    def of_range(self, epsilon: float) -> Guarantee:
        """Return the guarantee of this law for a draw with a privacy loss of range ε.

        The exponential mechanism is such a draw.

        Notes
        -----
        ε itself is that of pure DP. By zCDP, let K(t) = ln E_Q e^{tf} for f = ln P/Q, which lies in
        an interval of length ε: K(0) = K(1) = 0 and K″ ≤ ε²/4, the largest variance of a number in
        such an interval. So K(t) − t(t − 1)ε²/8 is concave and vanishes at 0 and 1; it is not
        positive beyond, and D_α = K(α)/(α − 1) ≤ αε²/8 (Dong and others 2020).
        """
        return replace(self.at(_ACCOUNTING[self.law].of_range(epsilon)), mu2=None)

    @property
    def rho(self) -> float:
        """The parameter ρ = pcost/2 of zCDP."""
        return product_up(self.pcost, 0.5)

    @property
    def mu(self) -> float:
        """The parameter μ of Gaussian differential privacy.

        Of pure DP, and where zCDP is all that is known, it is √(2ρ), that of the Gaussian mechanism
        with the same zCDP.
        """
        return sqrt_up(self.pcost) if self.law == "pure" or self.mu2 is None else sqrt_up(self.mu2)

    def delta(self, epsilon: float) -> float:
        """The δ at which the mechanism is (ε, δ)-differentially private.

        Examples
        --------
        >>> round(Guarantee(4.0).delta(epsilon=1.0), 7)
        0.5098617
        """
        return _ACCOUNTING[self.law].delta(self, epsilon)

    def epsilon(self, delta: float) -> float:
        """The least ε at which the mechanism is (ε, δ)-differentially private.

        Examples
        --------
        >>> round(Guarantee(0.2).epsilon(delta=1e-6), 6)
        1.994527
        """
        return _ACCOUNTING[self.law].epsilon(self, delta)

    def within(self, budget: Budget) -> bool:
        """Whether the guarantee implies the one that `budget` asks for.

        False too where it cannot be shown: zCDP under a GDP budget, Gaussian noise under PureDP.

        Examples
        --------
        >>> from noiseplan.privacy import ApproxDP, zCDP
        >>> Guarantee(1.0).within(zCDP(0.5)), Guarantee(1.0).within(ApproxDP(1.0, 1e-9))
        (True, False)
        """
        if self.pcost == 0:
            return True
        try:
            return _ACCOUNTING[self.law].within(self, budget)
        except BudgetError:
            return False

    @classmethod
    def of_budget(cls, budget: Budget, neighbours: Neighbours = "add-remove") -> Guarantee:
        """Return the guarantee of a release that spends all of a budget, rounded up.

        Examples
        --------
        >>> from noiseplan.privacy import PureDP, zCDP
        >>> Guarantee.of_budget(zCDP(0.25)), Guarantee.of_budget(PureDP(1.0)).rho
        (Guarantee(pcost=0.5, law='zcdp', neighbours='add-remove'), 0.5)
        """
        return cls.of(*budget.exactly(), neighbours)

    def compose(self, *others: Guarantee) -> Guarantee:
        """The guarantee of publishing this and the others, on the same people.

        Costs add, rounded up; a release may use what earlier ones published, at the cost stated.
        One release with the law `"zcdp"` makes the whole `"zcdp"`: Gaussian noise is zCDP as well,
        and so is pure DP. Releases that are all of pure DP add their ε. What is promised to persons
        by some and to records by others does not add up: where one record of each person counts,
        removing it lets another record of that person count.

        Notes
        -----
        For linear Gaussian mechanisms with cost matrices Cⱼ planned together, the cost is the
        largest diagonal of Σ Cⱼ, which is at most the sum of largest diagonals used here.

        Examples
        --------
        >>> Guarantee(0.25).compose(Guarantee(0.5), Guarantee(0.25, law="zcdp"))
        Guarantee(pcost=1.0, law='zcdp', neighbours='add-remove')
        """
        everything = (self, *others)
        for other in others:
            if other.neighbours != self.neighbours:
                raise BudgetError(
                    f"guarantees for different neighbours do not compose: {self.neighbours!r} and "
                    f"{other.neighbours!r}; plan every release with the same neighbours"
                )
            if other.whose != self.whose:
                raise BudgetError(
                    f"a guarantee for each {self.whose or 'record'} and one for each "
                    f"{other.whose or 'record'} do not compose; plan every release for the same"
                )
        laws = {each.law for each in everything}
        if laws == {"pure"}:
            return self.at(sum_up(each.amount for each in everything))
        costs = sum_up(each.pcost for each in everything)
        known = [each.mu2 for each in everything if each.mu2 is not None]
        mu2 = sum_up(known) if len(known) == len(everything) else None
        law = joint_law(laws)
        if law == "gaussian" or (mu2 is not None and mu2 < costs):  # of much pure DP
            mu2 = None if law == "gaussian" else costs
        return Guarantee(costs, law, self.neighbours, whose=self.whose, mu2=mu2)

    def describe(self) -> str:
        """Return the guarantee in words and in several currencies, numbers rounded up.

        Examples
        --------
        >>> print(Guarantee(1.0).describe())
        zCDP: ρ = 0.5
        GDP: μ = 1
        approximate DP: ε = 4.88656 at δ = 1e-6, ε = 6.17394 at δ = 1e-9, ε = 7.2385 at δ = 1e-12
        ε by the exact curve of the Gaussian mechanism.
        Neighbouring data sets differ by adding or removing one record.
        """
        mu, known = text_up(self.mu), known_mu(self) is not None
        conversion = CONVERSION["discrete" if self.law == "zcdp" and known else self.law]
        pairs = ", ".join(
            f"ε = {text_up(self.epsilon(delta))} at δ = {text_up(delta)}" for delta in SHOWN_DELTAS
        )
        said = DIFFERENCE if self.whose is None else OF_A_UNIT
        return "\n".join(
            [
                *(f"pure DP: ε = {text_up(epsilon)}" for epsilon in self.own_figures.values()),
                f"zCDP: ρ = {text_up(self.rho)}",
                f"GDP: μ = {mu}" if known else f"GDP: none (Gaussian of the same ρ: μ = {mu})",
                f"approximate DP: {pairs}",
                f"ε by {conversion}.",
                f"Neighbouring data sets differ {said[self.neighbours].format(self.whose)}.",
            ]
        )

    # ------------------------------------------------------------------ saving

    def parts(self) -> dict[str, str]:
        """Return the parts that are saved, numbers as text, since JSON has no infinity."""
        own = {name.removeprefix("pure_"): repr(x) for name, x in self.own_figures.items()}
        stated = {"pcost": repr(self.pcost), "law": self.law, "neighbours": self.neighbours}
        if self.law == "zcdp" and self.mu2 is not None:
            own["mu2"] = repr(self.mu2)
        return {**stated, **own}

    @classmethod
    def from_parts(cls, saved: Mapping[str, Any]) -> Guarantee:
        """Undo `parts`."""
        if saved["law"] == "pure":
            return cls.pure(float(saved["epsilon"]), saved["neighbours"])
        mu2 = float(saved["mu2"]) if "mu2" in saved else None
        return cls(float(saved["pcost"]), saved["law"], saved["neighbours"], mu2=mu2)


def joint_law(laws: Iterable[Law]) -> Law:
    """Return the law of several releases together: zCDP unless all are continuous Gaussian."""
    known = {_ACCOUNTING[law].together for law in laws} or {"gaussian"}
    return known.pop() if len(known) == 1 else "zcdp"


def known_mu(guarantee: Guarantee) -> float | None:
    """Return μ of Gaussian noise, rounded up; None for pure DP and where only zCDP is known."""
    return None if guarantee.law == "pure" or guarantee.mu2 is None else guarantee.mu


def may_promise(known: Law, stated: Law) -> bool:
    """Return whether what is known of noise covers what is stated of it."""
    return stated in _ACCOUNTING[known].promises


def asked_for(budget: Budget | None) -> str:
    """Return the words for a budget in ε and δ; nothing for other budgets."""
    if not isinstance(budget, ApproxDP):
        return ""
    return f"within ε = {text_of(budget.epsilon)} at δ = {text_of(budget.delta)}, as decided"
