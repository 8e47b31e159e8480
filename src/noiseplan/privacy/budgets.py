"""Privacy budgets: what a release may cost at most, in the currency its owner prefers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Self, final

from noiseplan.errors import BudgetError, remedy
from noiseplan.privacy import conversions
from noiseplan.privacy.rounding import (
    down,
    positive_finite,
    probability,
    product_down,
    product_up,
    text_down,
    text_of,
)

Law = Literal["gaussian", "zcdp", "pure"]  # what is known of the noise, as guarantees tell it


@dataclass(frozen=True)
class Budget(ABC):
    """A bound on the privacy a release may spend: one of `zCDP`, `GDP`, `ApproxDP`, `PureDP`.

    Examples
    --------
    >>> isinstance(zCDP(0.5), Budget), isinstance(PureDP(1.0), Budget)
    (True, True)
    """

    @abstractmethod
    def gaussian_pcost(self) -> float:
        """The largest pcost of a continuous Gaussian mechanism within the budget, rounded down.

        Raises
        ------
        BudgetError
            When no Gaussian mechanism is within the budget.
        """

    @abstractmethod
    def zcdp_rho(self) -> float:
        """The largest ρ for which every ρ-zCDP mechanism is within the budget, rounded down.

        Raises
        ------
        BudgetError
            When zCDP does not imply the guarantee that the budget asks for.
        """

    def exactly(self) -> tuple[Law, float]:
        """What is known of a release that has exactly this guarantee, and the amount of it that
        adds up: ε of pure DP, else 2ρ; rounded up."""
        raise BudgetError(
            f"{self!r} alone does not say what composes: state zCDP(rho), GDP(mu) or "
            f"PureDP(epsilon)"
        )

    @property
    def own_epsilon(self) -> float:
        """The largest ε of pure DP that is within the budget whatever zCDP it implies; mostly 0."""
        return 0.0

    def additive(self) -> Additive:
        """What can be spent in parts within the budget: by zCDP, unless it is of pure DP."""
        return zCDP(self.zcdp_rho())


@dataclass(frozen=True)
class Additive(Budget):
    """A budget of which parts are spent one after the other: ρ, or ε of pure DP."""

    @property
    @abstractmethod
    def amount(self) -> float:
        """What adds up: ε of pure DP, else 2ρ."""

    @abstractmethod
    def at(self, amount: float) -> Self:
        """The budget of another amount, rounded down."""

    @property
    @abstractmethod
    def range_epsilon(self) -> float:
        """The largest range of the privacy loss of a draw within the budget, rounded down: ε of the
        exponential mechanism (`Guarantee.of_range`)."""

    def additive(self) -> Additive:
        return self


@final
@dataclass(frozen=True)
class zCDP(Additive):
    """ρ-zero-concentrated differential privacy.

    Parameters
    ----------
    rho
        The budget ρ, positive and finite. Budgets add up: two releases at ρ/2 spend ρ.

    References
    ----------
    Bun and Steinke, *Concentrated differential privacy* (2016).

    Examples
    --------
    >>> print(zCDP(0.5))
    ρ = 0.5 (zCDP)
    >>> zCDP(0.5).gaussian_pcost()
    1.0
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive_finite("zCDP: rho", self.rho, "zCDP(rho=0.5)"))

    def gaussian_pcost(self) -> float:
        return product_down(2.0, self.rho)

    def zcdp_rho(self) -> float:
        return self.rho

    def exactly(self) -> tuple[Law, float]:
        return "zcdp", product_up(2.0, self.rho)

    @property
    def amount(self) -> float:
        return 2.0 * self.rho

    def at(self, amount: float) -> zCDP:
        return zCDP(product_down(amount, 0.5))

    @property
    def range_epsilon(self) -> float:
        return down(math.sqrt(8 * self.rho), 4)

    def __str__(self) -> str:
        return f"ρ = {text_of(self.rho)} (zCDP)"


@final
@dataclass(frozen=True)
class GDP(Budget):
    """μ-Gaussian differential privacy: no easier to attack than telling N(0, 1) from N(μ, 1).

    Parameters
    ----------
    mu
        The budget μ, positive and finite. Squares add up: two releases at μ/√2 spend μ.

    References
    ----------
    Dong, Roth and Su, *Gaussian differential privacy* (2022).

    Examples
    --------
    >>> print(GDP(1))
    μ = 1 (GDP)
    >>> GDP(1.5).gaussian_pcost()
    2.25
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive_finite("GDP: mu", self.mu, "GDP(mu=1.0)"))

    def gaussian_pcost(self) -> float:
        return product_down(self.mu, self.mu)  # μ² rounded down, so √pcost ≤ μ

    def zcdp_rho(self) -> float:
        same = text_down(product_down(self.mu, self.mu) / 2)
        raise BudgetError(
            remedy("argument", f"GDP(mu={text_of(self.mu)})", f"gdp = {text_of(self.mu)}")
            + " is not shown where zCDP is all that is known: √(2ρ)-GDP does not follow from "
            "ρ-zCDP. State the budget as zCDP, for example "
            + remedy("zCDP budget", f"zCDP(rho={same})", same)
        )

    def exactly(self) -> tuple[Law, float]:
        return "gaussian", product_up(self.mu, self.mu)

    def __str__(self) -> str:
        return f"μ = {text_of(self.mu)} (GDP)"


@final
@dataclass(frozen=True)
class ApproxDP(Budget):
    """(ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon
        Positive and finite.
    delta
        Strictly between 0 and 1; far below one over the number of people.

    Examples
    --------
    >>> print(ApproxDP(1, 1e-9))
    ε = 1, δ = 1e-09 (approximate DP)
    >>> round(ApproxDP(1, 1e-5).gaussian_pcost(), 10)
    0.0718514047
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        example = "ApproxDP(epsilon=1.0, delta=1e-9)"
        epsilon = positive_finite("ApproxDP: epsilon", self.epsilon, example)
        example += " (for delta = 0 use PureDP)"
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", probability("ApproxDP: delta", self.delta, example))

    def gaussian_pcost(self) -> float:
        return conversions.gaussian_pcost(self.epsilon, self.delta)

    def zcdp_rho(self) -> float:
        return conversions.zcdp_rho(self.epsilon, self.delta)

    @property
    def own_epsilon(self) -> float:
        return self.epsilon

    def __str__(self) -> str:
        return f"ε = {text_of(self.epsilon)}, δ = {text_of(self.delta)} (approximate DP)"


@final
@dataclass(frozen=True)
class PureDP(Additive):
    """ε-differential privacy, with δ = 0: met by Laplace noise, never by Gaussian noise.

    Parameters
    ----------
    epsilon
        The budget ε, positive and finite. Budgets add up.

    Examples
    --------
    >>> print(PureDP(0.1))
    ε = 0.1 (pure DP)
    """

    epsilon: float

    def __post_init__(self) -> None:
        epsilon = positive_finite("PureDP: epsilon", self.epsilon, "PureDP(epsilon=1.0)")
        object.__setattr__(self, "epsilon", epsilon)

    def gaussian_pcost(self) -> float:
        raise self._out_of_reach()

    def zcdp_rho(self) -> float:
        raise self._out_of_reach()

    def exactly(self) -> tuple[Law, float]:
        return "pure", self.epsilon

    @property
    def own_epsilon(self) -> float:
        return self.epsilon

    @property
    def amount(self) -> float:
        return self.epsilon

    def at(self, amount: float) -> PureDP:
        return PureDP(amount)

    @property
    def range_epsilon(self) -> float:
        return self.epsilon

    def _out_of_reach(self) -> BudgetError:
        epsilon = text_of(self.epsilon)
        return BudgetError(
            f"PureDP(epsilon={epsilon}) cannot be met by Gaussian noise, continuous or discrete, "
            f"at any size: Gaussian noise never gives pure DP. Use Laplace noise, or a budget that "
            f"Gaussian noise can meet: ApproxDP(epsilon={epsilon}, delta=1e-9), zCDP(rho=…) or "
            f"GDP(mu=…)"
        )

    def __str__(self) -> str:
        return f"ε = {text_of(self.epsilon)} (pure DP)"
