"""What the planners of pure DP return."""

from __future__ import annotations

from dataclasses import dataclass

from noiseplan.mechanisms.base import Mechanism
from noiseplan.planning.workload_errors import Figures
from noiseplan.planning.workload_types import Design
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
