"""What the planners of pure DP return, and what is known of how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.planning.bounds import total_variance_bound
from noiseplan.planning.design import Design
from noiseplan.planning.figures import Figures
from noiseplan.planning.oblique import optimise_total
from noiseplan.privacy import Guarantee
from noiseplan.privacy.rounding import product_up


@dataclass(frozen=True, eq=False)
class PureMade:
    """A mechanism with Laplace noise, its cost, its total variance, and the strategy's name."""

    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    value: float
    name: str
    loss: float  # of variance, for measuring integers


@dataclass(frozen=True, eq=False)
class PureOptimality:
    """A lower bound for linear mechanisms with Laplace noise, computed when it is asked for.

    Measured numbers of scales b_r have ε ≥ Σ_r |A_rj|/b_r for every record j. Their variances are
    2b_r², so the cost a Gaussian mechanism with the same rows and variances has is
    max_j Σ_r A_rj²/(2b_r²) ≤ ½ max_j (Σ_r |A_rj|/b_r)² ≤ ε²/2: the bound for Gaussian noise at the
    cost ε²/2 holds here too.
    """

    design: Design
    epsilon: float

    @cached_property
    def lower_bound(self) -> float:
        budget = product_up(self.epsilon, self.epsilon, 0.5)
        return total_variance_bound(self.design, optimise_total(self.design), budget, "add-remove")

    @property
    def known(self) -> float | None:
        return self.__dict__.get("lower_bound")

    @property
    def proved(self) -> bool | None:
        return None
