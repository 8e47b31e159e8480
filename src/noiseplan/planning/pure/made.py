"""What the planners of pure DP return."""

from __future__ import annotations

from dataclasses import dataclass

from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.planning.design import Design
from noiseplan.planning.figures import Figures
from noiseplan.privacy import Guarantee


@dataclass(frozen=True, eq=False)
class PureMade:
    """A mechanism with Laplace noise, its cost, its total variance, and the strategy's name."""

    design: Design  # with the roles it was planned by
    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    value: float
    name: str
    loss: float  # of variance, for measuring integers
