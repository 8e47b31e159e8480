"""What a dataset may spend, what it has spent and what is left: all of the accounting.

Three rules add up the costs of releases, each chosen with knowledge of the earlier ones:

zcdp    Σ 2ρ ≤ 2ρ of the budget. Every release has a ρ (Bun and Steinke 2016).
curve   Σ μ² ≤ M. Releases that are known to be μ-GDP: Gaussian noise, continuous or discrete, and
        pure DP (`noiseplan.privacy.conversions`). Everything together is then √M-GDP, also where
        later releases are chosen by what earlier ones showed.
aside   Σ ε ≤ ε of the budget, for releases of pure DP before the first of another kind.

A budget in zCDP goes by the first, one in GDP by the second. A budget in (ε, δ) begins aside. Its
first release that is not of pure DP closes this: with E spent aside, (ε − E, δ) is left, and from
then on everything adds up by the curve to M = the largest μ² within (ε − E, δ), or by zCDP where no
μ is known of that release. What happened before multiplies no probability by more than e^E, and
whatever it showed, the rest is (ε − E, δ)-DP; so both together are (ε, δ)-DP. The rule is never
chosen again: whoever may take the better of two rules by what a release has shown can spend up to
1.6 times δ. The proofs: "Discrete noise has the exact curve" in docs/how-it-works.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isqrt
from typing import Final, Literal, final

from noiseplan.errors import BudgetError, remedy
from noiseplan.privacy import (
    GDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbours,
    PureDP,
    gaussian_epsilon,
    gaussian_pcost,
    zCDP,
    zcdp_epsilon,
    zcdp_rho,
)
from noiseplan.privacy.conversions import pure_mu2
from noiseplan.privacy.people import PERSON, unit_text
from noiseplan.privacy.rounding import (
    down,
    fraction_down,
    fraction_up,
    sqrt_down,
    sqrt_up,
    sum_up,
    text_down,
    text_of,
    text_up,
)

Rule = Literal["aside", "curve", "zcdp"]
# A plan by the exact curve keeps back one part in a thousand (`noiseplan.noise.law`).
KEPT_BACK: Final = 1.1e-3


@final
@dataclass(frozen=True)
class Spent:
    """Hold the exact sums of what was spent, one for each of the rules above."""

    aside: Fraction = Fraction(0)  # ε of pure DP, before the rule was another
    total: Fraction = Fraction(0)  # μ² or 2ρ since then, by the rule
    rho2: Fraction = Fraction(0)  # 2ρ of everything


@final
@dataclass(frozen=True)
class Balance:
    """A dataset's budget and what is spent of it, at one moment.

    Parameters
    ----------
    dataset
        Its name in the ledger.
    budget
        In its owner's currency.
    rule
        How the next release is added up; see the head of this module.
    limit
        The largest total by this rule; None for `"aside"`.
    neighbours
        Which data sets are neighbours: `"add-remove"` or `"replace"` of one record.
    note
        What was said of the dataset when it was opened.
    sums
        The exact sums of the costs of all entries, failed ones included.
    entries
        How many releases were charged.
    max_rows
        How many records of one person the costs are the price of; None before the first. Where old
        entries are the price of different numbers, the least: what protects more records of a
        person protects fewer too, but not the other way round. Where `bound` is declared, that.
    bound
        The most records that one person has in the data, as declared on record; None where nobody
        said. All costs are then the price of so many.
    refusals
        How often the data were refused for what they hold, which tells something of them.
    checks
        How often the data were looked at by a check, which tells whether they fit.
    units
        Who has the records that the costs are the price of, as releases called it: a person, a
        household. Costs for different ones do not add up, and a second one is refused; early
        ledgers may hold several. To the smaller, such as a person within a household, those for the
        larger are then worth up to four times as much: where not all records of a household are
        counted, one person less brings in records of the others, which is one household less and
        another one more.

    Notes
    -----
    A cost for k records of a person is one for b of them, taken in ⌈b/k⌉ steps of k: by group
    privacy ε grows with the number of steps, and ρ and μ² with its square (Bun and Steinke 2016,
    Proposition 1.9; Dong, Roth and Su 2022, Theorem 2.14). Without a bound on what one person has
    in the data no such number is known: a release for one record has counted all of them.

    Examples
    --------
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> fresh = Balance.opened("census", zCDP(1.0))
    >>> balance = fresh.after(Guarantee(0.5, law="zcdp"))
    >>> balance.spent.rho, balance.left()
    (0.25, zCDP(rho=0.75))
    >>> balance.fits(Guarantee(1.5)), balance.fits(Guarantee(1.5000000000000002))
    (True, False)
    >>> print(balance)
    dataset 'census': budget ρ = 1 (zCDP), neighbours add-remove
      spent  ρ = 0.25, in 1 release
      left   ρ = 0.75
    """

    dataset: str
    budget: Budget
    rule: Rule
    limit: float | None
    neighbours: Neighbours = "add-remove"
    note: str = ""
    sums: Spent = Spent()
    entries: int = 0
    max_rows: int | None = None
    bound: int | None = None
    refusals: int = 0
    checks: int = 0
    units: tuple[str, ...] = ()

    @classmethod
    def opened(
        cls, dataset: str, budget: Budget, neighbours: Neighbours = "add-remove", note: str = ""
    ) -> Balance:
        """Return the balance of a dataset that has spent nothing."""
        match budget:
            case zCDP() | GDP():
                rule: Rule = "zcdp" if isinstance(budget, zCDP) else "curve"
                return cls(dataset, budget, rule, budget.gaussian_pcost(), neighbours, note)
            case ApproxDP():
                return cls(dataset, budget, "aside", None, neighbours, note)
        raise BudgetError(
            f"a ledger keeps budgets in zCDP, GDP or ApproxDP; got {budget!r}. Pure ε-DP "
            f"implies ρ = ε²/2: " + remedy("state zCDP", "state the budget as zCDP(rho=…)")
        )

    # ------------------------------------------------------------------ adding up

    def steps(self, max_rows: int | None) -> int:
        """Return ⌈b/k⌉, the steps from k = `max_rows` records to the bound b; 1 without a bound."""
        return 1 if self.bound is None else -(-self.bound // (max_rows or self.bound))

    def factor(self, max_rows: int | None) -> int:
        """Return the factor on ρ and μ² for a person with all records of the bound: steps²."""
        return self.steps(max_rows) ** 2

    def placed(
        self, cost: Guarantee, max_rows: int = 1, limit: float | None = None
    ) -> Balance | None:
        """Return the balance with one more cost, or None where it does not fit.

        Parameters
        ----------
        cost, max_rows
            What is charged, and for how many records of a person.
        limit
            Of a rule that begins with this cost, as a ledger has it on record: a conversion from
            (ε, δ) may differ in its last digit from one machine to another.
        """
        if cost.neighbours != self.neighbours or cost.pcost == inf:
            return None
        steps = self.steps(max_rows)
        if cost.pcost == 0 and not cost.mu2:
            return self
        rho2 = Fraction(cost.pcost) * steps**2
        amounts = {"zcdp": rho2}
        if cost.mu2 is not None and cost.mu2 < inf:
            amounts["curve"] = Fraction(cost.mu2) * steps**2
        sums = replace(self.sums, rho2=self.sums.rho2 + rho2)
        if self.rule == "aside":
            assert isinstance(self.budget, ApproxDP)  # no other budget begins so
            if cost.pure_epsilon is not None:
                aside = sums.aside + Fraction(cost.pure_epsilon) * steps
                if aside <= Fraction(self.budget.epsilon):
                    return replace(self, sums=replace(sums, aside=aside))
            rules: tuple[Rule, ...] = ("curve", "zcdp")
        else:
            rules = (self.rule,)
        for rule in rules:
            most = self.limit if rule == self.rule else self.limit_of(rule)
            if limit is not None and self.rule == "aside" and limit <= (most or 0) * (1 + 1e-9):
                most = limit
            total = sums.total + amounts.get(rule, Fraction(0))
            if rule in amounts and most is not None and total <= most:
                return replace(self, rule=rule, limit=most, sums=replace(sums, total=total))
        return None

    def limit_of(self, rule: Rule) -> float | None:
        """Return the limit of a rule that begins now, within what is left of (ε, δ)."""
        assert isinstance(self.budget, ApproxDP)
        epsilon = fraction_down(Fraction(self.budget.epsilon) - self.sums.aside)
        if epsilon <= 0:
            return None
        delta = self.budget.delta
        return gaussian_pcost(epsilon, delta) if rule == "curve" else 2 * zcdp_rho(epsilon, delta)

    def fits(self, guarantee: Guarantee, max_rows: int = 1) -> bool:
        """Return whether one more release, for so many records, keeps within the budget."""
        return self.placed(guarantee, max_rows) is not None

    def after(
        self,
        guarantee: Guarantee,
        max_rows: int = 1,
        unit: str | None = None,
        limit: float | None = None,
    ) -> Balance:
        """Return the balance once a release with this guarantee, for so many records, is charged.

        `unit` is who has them, where that is known; `limit` as in `placed`.
        """
        placed = self.placed(guarantee, max_rows, limit)
        if placed is None:
            raise BudgetError(f"dataset {self.dataset!r}: the release does not fit the budget")
        return replace(
            placed,
            units=self.units if unit is None or unit in self.units else (*self.units, unit),
            max_rows=self.bound or min(self.max_rows or max_rows, max_rows),
            entries=self.entries + 1,
        )

    def again(
        self,
        budget: Budget,
        bound: int | None,
        spent: Iterable[tuple[Guarantee, int, str | None]],
        limit: float | None = None,
    ) -> Balance:
        """Return the balance after the same spending under another budget, or another bound.

        Raises
        ------
        BudgetError
            Where it does not fit.
        """
        fresh = Balance.opened(self.dataset, budget, self.neighbours, self.note)
        known = replace(
            fresh, bound=bound, max_rows=bound, refusals=self.refusals, checks=self.checks
        )
        for guarantee, max_rows, unit in spent:
            known = known.after(guarantee, max_rows, unit, limit)
        return known

    # ------------------------------------------------------------------ what is there

    @property
    def spent(self) -> Guarantee:
        """The guarantee of everything charged so far."""
        if self.sums.aside and self.rule == "aside":
            return Guarantee.pure(fraction_up(self.sums.aside), self.neighbours)
        rho2 = fraction_up(self.sums.rho2)
        known = self.rule == "curve" or not self.sums.rho2
        mu2 = fraction_up(self.sums.total) if known else None
        if mu2 is not None and self.sums.aside:
            mu2 = sum_up([mu2, pure_mu2(fraction_up(self.sums.aside))])
        mu2 = None if mu2 is None else max(mu2, rho2)
        return Guarantee(rho2, "zcdp", self.neighbours, mu2=mu2)

    @property
    def room(self) -> float:
        """The rest of the limit by the rule, rounded down: ε for `"aside"`, else μ² or 2ρ."""
        if self.rule == "aside":
            assert isinstance(self.budget, ApproxDP)
            most, spent = self.budget.epsilon, self.sums.aside
        else:
            most, spent = self.limit or 0.0, self.sums.total
        return max(0.0, fraction_down(Fraction(most) - spent))

    def left(self, max_rows: int | None = None) -> Budget | None:
        """Return what is left, as a budget to plan the next release with; None if nothing is.

        A plan within it always fits, for so many records of a person; by default those of this
        balance.
        """
        steps = self.steps(max_rows)
        if self.rule == "aside":
            assert isinstance(self.budget, ApproxDP)
            if not self.room:
                return None
            if steps == 1:
                return ApproxDP(self.room, self.budget.delta)
            room = Fraction(self.limit_of("curve") or 0.0)
        else:
            room = Fraction(self.room)
        room /= steps**2
        if self.rule == "zcdp":
            rho = fraction_down(room / 2)
            return zCDP(rho) if rho > 0 else None
        mu = sqrt_down(fraction_down(room))
        return GDP(mu) if mu > 0 else None

    @property
    def unit(self) -> str:
        """The privacy unit in words, such as "one person, at most 3 records"; "" for one record."""
        return unit_text(self.max_rows or 1, " or ".join(self.units) or PERSON)

    @property
    def used_up(self) -> bool:
        """Whether nothing is left but what planning and rounding keep back."""
        most = self.budget.own_epsilon if self.rule == "aside" else self.limit or 0.0
        return self.room <= most * (KEPT_BACK if self.rule == "curve" else 1e-9)

    def __str__(self) -> str:
        releases = f"{self.entries} release{'s' * (self.entries != 1)}"
        lines = [
            f"dataset {self.dataset!r}: budget {self.budget}, neighbours {self.neighbours}"
            + (f", {self.unit}" if self.unit else ""),
            f"  spent  {spent_text(self)}, in {releases}",
            f"  left   {left_text(self)}",
        ]
        if len(self.units) > 1:
            lines.append(
                f"  units  a {' and a '.join(self.units)}: to the smaller of them, what was spent "
                f"for the larger may be worth four times as much"
            )
        for done, often in (("refused", self.refusals), ("checked", self.checks)):
            if often:
                times = f"{often} time{'s' * (often != 1)}"
                lines.append(
                    f"  data {done} {times}, which costs nothing and tells something of them"
                )
        return "\n".join(lines)


# ---------------------------------------------------------------------- in words


def spent_text(balance: Balance) -> str:
    """Return the words for the sum that was spent, rounded up."""
    budget, sums = balance.budget, balance.sums
    total = fraction_up(sums.total)
    by_rule = _rho(total / 2) if balance.rule == "zcdp" else f"μ = {text_up(sqrt_up(total))}"
    if isinstance(budget, ApproxDP):
        aside = f"ε = {text_up(fraction_up(sums.aside))} (pure DP)"
        if balance.rule == "aside":
            return aside
        convert = gaussian_epsilon if balance.rule == "curve" else _zcdp_epsilon
        epsilon = fraction_up(Fraction(convert(total, budget.delta)) + sums.aside)
        together = f"ε = {text_up(epsilon)} at δ = {text_up(budget.delta)}"
        return (f"{aside}, then " if sums.aside else "") + f"{by_rule} ({together})"
    return by_rule


def cost_text(cost: Guarantee, balance: Balance) -> str:
    """Return the words for the cost of one release, in the currency that the balance adds up."""
    if cost.pcost == inf:
        return "no protection at all (ρ = ∞)"
    pure = "" if cost.pure_epsilon is None else f"ε = {text_up(cost.pure_epsilon)} (pure DP)"
    if pure and balance.rule == "aside":
        return pure
    known = cost.mu2 is not None and balance.rule != "zcdp"
    by_rule = f"μ = {text_up(sqrt_up(cost.mu2 or 0.0))}" if known else _rho(cost.rho)
    if isinstance(balance.budget, ApproxDP) and not pure:
        delta = balance.budget.delta
        by_rule += f" (ε = {text_up(cost.epsilon(delta))} at δ = {text_up(delta)})"
    return f"{pure}, counted as {by_rule}" if pure else by_rule


def left_text(balance: Balance, currency: Budget | None = None) -> str:
    """Return the words for the budget that is left, rounded down.

    Where the plan's budget `currency` is pure DP, it is the ε of pure DP that fits. In (ε, δ)
    datasets the ε at δ is one for plans with Gaussian noise: Laplace noise of that ε may cost more.
    """
    fits = balance.left()
    if fits is None:
        return "nothing"
    if isinstance(currency, PureDP):
        return f"ε = {text_down(pure_epsilon_left(balance))} (pure DP)"
    if isinstance(fits, ApproxDP):
        text = f"ε = {text_down(fits.epsilon)} at δ = {text_down(fits.delta)}"
    elif isinstance(fits, GDP):
        text = f"μ = {text_down(fits.mu)}"
    else:
        assert isinstance(fits, zCDP)
        text = f"ρ = {text_down(fits.rho)}"
    if isinstance(fits, GDP | zCDP) and isinstance(balance.budget, ApproxDP):
        delta = balance.budget.delta
        epsilon = text_down(_epsilon_within(fits, delta))
        text += f" (with Gaussian noise ε = {epsilon} at δ = {text_down(delta)})"
    return f"next to nothing ({text})" if balance.used_up else text


def pure_epsilon_left(balance: Balance, max_rows: int | None = None) -> float:
    """Return the largest ε of a release of pure DP that fits, rounded down."""
    steps, room = balance.steps(max_rows), Fraction(balance.room)
    if balance.rule == "aside":
        return fraction_down(room / steps)
    room /= steps**2
    if balance.rule == "zcdp":
        return sqrt_down(fraction_down(room))
    low, high = 0.0, 1.0
    while pure_mu2(high) <= room:
        low, high = high, 2 * high
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if pure_mu2(middle) <= room else (low, middle)
    return low


def fitting(
    balance: Balance, max_rows: int | None, currency: Budget | None, exact: bool = False
) -> tuple[str, str] | None:
    """Return a budget that fits, as a call and as a line of a study; None if nothing does.

    In the currency that was asked in, where plans within such a budget fit whatever noise they
    take; `exact`: with all digits.
    """
    number = repr if exact else text_down
    fits = balance.left(max_rows)
    if isinstance(currency, PureDP):
        epsilon = pure_epsilon_left(balance, max_rows)
        return (f"PureDP({number(epsilon)})", f"pure_dp = {number(epsilon)}") if epsilon else None
    match fits:
        case zCDP(rho):
            return f"zCDP({number(rho)})", f"zcdp = {number(rho)}"
        case GDP(mu):
            return f"GDP({number(mu)})", f"gdp = {number(mu)}"
        case ApproxDP(epsilon, delta):
            line = f"approx_dp = {{ epsilon = {number(epsilon)}, delta = {text_of(delta)} }}"
            return f"ApproxDP({number(epsilon)}, {text_of(delta)})", line
    return None


def times(guarantee: Guarantee, factor: int) -> Guarantee:
    """Return the guarantee with ρ and μ² times `factor`, and ε of pure DP times its root."""
    if factor == 1 or guarantee.pcost == inf:
        return guarantee
    grown = factor if guarantee.power == 2 else isqrt(factor)
    return guarantee.at(fraction_up(Fraction(guarantee.amount) * grown))


def _rho(rho: float) -> str:
    return f"ρ = {text_up(rho)}"


def _zcdp_epsilon(rho2: float, delta: float) -> float:
    return zcdp_epsilon(fraction_up(Fraction(rho2) / 2), delta)


def _epsilon_within(fits: GDP | zCDP, delta: float) -> float:
    """Return an ε for which no release that is (ε, δ)-DP by its rule costs more than this."""
    most = fits.gaussian_pcost()
    by_zcdp = isinstance(fits, zCDP)
    epsilon = (_zcdp_epsilon if by_zcdp else gaussian_epsilon)(most, delta)
    while epsilon > 0:
        if (2 * zcdp_rho(epsilon, delta) if by_zcdp else gaussian_pcost(epsilon, delta)) <= most:
            break
        epsilon = down(epsilon)
    return epsilon
