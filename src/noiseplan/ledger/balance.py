"""What a dataset may spend, what it has spent and what is left: all of the accounting."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from noiseplan.errors import BudgetError, remedy
from noiseplan.ledger.currencies import CURRENCIES
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Law, Neighbours, zCDP
from noiseplan.privacy.guarantee import joint_law, limit_of
from noiseplan.privacy.people import PERSON, unit_text
from noiseplan.privacy.rounding import (
    fraction_down,
    fraction_up,
    product_down,
    text_down,
    text_up,
)


@final
@dataclass(frozen=True)
class Limits:
    """The largest total pcost within a budget, by what is known of the noise; rounded down.

    A ledger keeps these numbers beside the budget. The same history is then judged by the same
    numbers on every machine, though a conversion from (ε, δ) may differ there in its last digit.

    Parameters
    ----------
    gaussian
        If every release is continuous Gaussian.
    zcdp
        If some release is only known to be zCDP; None where that cannot be shown to fit (GDP).

    Examples
    --------
    >>> from noiseplan.privacy import GDP, zCDP
    >>> Limits.of(zCDP(0.5)), Limits.of(GDP(1.5))
    (Limits(gaussian=1.0, zcdp=1.0), Limits(gaussian=2.25, zcdp=None))
    """

    gaussian: float
    zcdp: float | None

    @classmethod
    def of(cls, budget: Budget) -> Limits:
        """What the budget admits."""
        if not isinstance(budget, zCDP | GDP | ApproxDP):
            raise BudgetError(
                f"a ledger keeps budgets in zCDP, GDP or ApproxDP; got {budget!r}. Pure ε-DP "
                f"implies ρ = ε²/2: " + remedy("state zCDP", "state the budget as zCDP(rho=…)")
            )
        zcdp = None
        if not isinstance(budget, GDP):
            zcdp = _finite(product_down(2.0, budget.zcdp_rho()))
        return cls(_finite(budget.gaussian_pcost()), zcdp)

    def limit(self, law: Law) -> float | None:
        """The limit on the total if its law is this one."""
        return limit_of(law, self.gaussian, self.zcdp)

    def admitted_by(self, budget: Budget) -> bool:
        """Whether they are those of the budget, up to the last digits of a conversion."""
        mine, most = (self.gaussian, self.zcdp), Limits.of(budget)
        pairs = zip(mine, (most.gaussian, most.zcdp), strict=True)
        return all(
            (a is None) == (b is None) and (a or 0.0) <= (b or 0.0) * (1 + 1e-9) for a, b in pairs
        )


@final
@dataclass(frozen=True)
class Balance:
    """A dataset's budget and what is spent of it, at one moment.

    Parameters
    ----------
    dataset
        Its name in the ledger.
    budget, limits
        The budget in its owner's currency, and the largest total cost within it.
    neighbours
        What "one record" means for this budget: `"add-remove"` or `"replace"`.
    note
        What was said of the dataset when it was opened.
    total
        The exact sum of the privacy costs 2ρ = μ² of all entries, failed ones included.
    law
        `"gaussian"` while every entry is continuous Gaussian, `"zcdp"` from the first that is not.
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
    privacy ρ grows with the square of the number of steps (Bun and Steinke 2016, Proposition 1.9),
    and so does μ² (Dong, Roth and Su 2022, Theorem 2.14). Without a bound on what one person has in
    the data no such number is known: a release for one record has counted all of them.

    Costs add: Gaussian mechanisms compose exactly in μ² (Dong, Roth and Su 2022), zCDP mechanisms
    in ρ (Bun and Steinke 2016), also when a release is planned after seeing earlier ones. A
    Gaussian mechanism is zCDP as well, so a mixture is counted in ρ.

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
    limits: Limits
    neighbours: Neighbours = "add-remove"
    note: str = ""
    total: Fraction = Fraction(0)
    law: Law = "gaussian"
    entries: int = 0
    max_rows: int | None = None
    bound: int | None = None
    refusals: int = 0
    checks: int = 0
    units: tuple[str, ...] = ()

    @classmethod
    def opened(cls, dataset: str, budget: Budget, neighbours: Neighbours = "add-remove") -> Balance:
        """The balance of a dataset that has spent nothing."""
        return cls(dataset, budget, Limits.of(budget), neighbours)

    @property
    def spent(self) -> Guarantee:
        """The guarantee of everything charged so far, as `Guarantee.compose` would give it."""
        # total ≤ limit, which is a float, so the smallest float above total is at most the limit.
        return Guarantee(fraction_up(self.total), self.law, self.neighbours)

    def room(self, law: Law = "zcdp") -> float:
        """The largest pcost that one more release of this law may have; rounded down."""
        limit = self.limits.limit(self._with(law))
        return 0.0 if limit is None else max(0.0, fraction_down(Fraction(limit) - self.total))

    def factor(self, max_rows: int | None) -> int:
        """By how much a cost for so many records of a person grows for those it may have."""
        steps = 1 if self.bound is None else -(-self.bound // (max_rows or self.bound))
        return steps * steps

    def left(self, law: Law | None = None, max_rows: int | None = None) -> zCDP | None:
        """What is left, as a budget to plan the next release with; None if nothing is.

        Parameters
        ----------
        law
            Of the release to come. By default `"zcdp"` (discrete noise) where the budget admits
            it, `"gaussian"` under GDP.
        max_rows
            The records of one person that it is planned for; by default those of this balance.

        Notes
        -----
        A plan within zCDP(ρ) has pcost ≤ 2ρ, with discrete noise and with continuous noise alike.
        So the answer is in ρ whatever the currency of the budget, and such a plan always fits.
        """
        room = Fraction(self.room(law or self.usual_law)) / self.factor(max_rows)
        rho = fraction_down(room / 2)  # 2ρ times the factor ≤ room
        return zCDP(rho) if rho > 0 else None

    @property
    def usual_law(self) -> Law:
        """The law of a release with the noise that the budget allows by default."""
        return "gaussian" if self.limits.zcdp is None else "zcdp"

    def fits(self, guarantee: Guarantee, max_rows: int = 1) -> bool:
        """Whether one more release, for so many records, keeps the total within the budget."""
        limit = self.limits.limit(self._with(guarantee.law))
        if limit is None or guarantee.neighbours != self.neighbours:
            return False
        # Exact on both sides: no spend is too small to count and none is charged an ulp too much.
        if guarantee.pcost == math.inf:
            return False
        return self.total + Fraction(guarantee.pcost) * self.factor(max_rows) <= limit

    def after(self, guarantee: Guarantee, max_rows: int = 1, unit: str | None = None) -> Balance:
        """The balance once a release with this guarantee, for so many records, is charged.

        `unit` is who has them, where that is known.
        """
        return replace(
            self,
            units=self.units if unit is None or unit in self.units else (*self.units, unit),
            max_rows=self.bound or min(self.max_rows or max_rows, max_rows),
            total=self.total + Fraction(guarantee.pcost) * self.factor(max_rows),
            law=self._with(guarantee.law),
            entries=self.entries + 1,
        )

    def bounded(self, bound: int, spent: Iterable[tuple[Guarantee, int, str | None]]) -> Balance:
        """The same spending, once a person is known to have at most so many records."""
        known = replace(self, bound=bound, max_rows=bound, total=Fraction(0), entries=0)
        for guarantee, max_rows, unit in spent:
            known = known.after(guarantee, max_rows, unit)
        return known

    @property
    def unit(self) -> str:
        """What the costs are the price of, in words; nothing for one record."""
        return unit_text(self.max_rows or 1, " or ".join(self.units) or PERSON)

    @property
    def used_up(self) -> bool:
        """Whether nothing is left but what rounding kept back, too little to plan with."""
        room = max(self.room("gaussian"), self.room("zcdp"))
        return room <= 1e-9 * max(self.limits.gaussian, self.limits.zcdp or 0.0)

    @property
    def overspent(self) -> bool:
        """Whether what was spent does not fit the budget, as may be when the budget changes."""
        limit = self.limits.limit(self.law)
        return self.total > 0 if limit is None else self.total > limit

    def _with(self, law: Law) -> Law:
        return joint_law((self.law, law))

    def __str__(self) -> str:
        releases = f"{self.entries} release{'s' * (self.entries != 1)}"
        lines = [
            f"dataset {self.dataset!r}: budget {self.budget}, neighbours {self.neighbours}"
            + (f", {self.unit}" if self.unit else ""),
            f"  spent  {cost_text(self.spent, self.budget)}, in {releases}",
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


def cost_text(guarantee: Guarantee, budget: Budget) -> str:
    """A cost in ρ and in the currency of a budget, rounded up."""
    if guarantee.pcost == math.inf:
        return "no protection at all (ρ = ∞)"
    told = CURRENCIES[type(budget)].spent(budget, guarantee)
    return f"ρ = {text_up(guarantee.rho)}" + (f" ({told})" if told else "")


def times(guarantee: Guarantee, factor: int) -> Guarantee:
    """The guarantee for so many times the cost, rounded up."""
    if factor == 1 or guarantee.pcost == math.inf:
        return guarantee
    pcost = fraction_up(Fraction(guarantee.pcost) * factor)
    return Guarantee(pcost, guarantee.law, guarantee.neighbours)


def left_text(balance: Balance, law: Law | None = None, told: Budget | None = None) -> str:
    """What is left for a release of this law, in ρ and in a currency, the budget's unless `told`
    says another; rounded down."""
    fits, currency = balance.left(law), told or balance.budget
    if fits is None:
        return "nothing"
    rho = f"ρ = {text_down(fits.rho)}"
    if balance.used_up:
        return f"next to nothing ({rho})"
    told_so = CURRENCIES[type(currency)].left(currency, fits, law or balance.usual_law)
    return f"{rho} ({told_so})" if told_so else rho


def _finite(limit: float) -> float:
    return min(limit, sys.float_info.max)  # rounding down from infinity
