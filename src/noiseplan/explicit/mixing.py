"""Anderson mixing: a fixed point found in a few steps from the differences of the last ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from noiseplan.explicit.namespace import AnyArray

# Directions this much weaker than the strongest are noise, not memory.
INDEPENDENT = 1e-10


@dataclass(eq=False)
class Mixing:
    """The last points x and residuals f of x ← x + f(x).

    The next point is x + f − (ΔX + ΔF)γ, where γ makes the mixed residual f − ΔFγ least, in a norm
    with given weights.
    """

    memory: int
    points: list[AnyArray] = field(default_factory=list)
    residuals: list[AnyArray] = field(default_factory=list)

    def next(self, point: AnyArray, residual: AnyArray, weights: AnyArray) -> AnyArray:
        """The point to try after `point`, whose residual is given."""
        self.points = [*self.points, point][-self.memory :]
        self.residuals = [*self.residuals, residual][-self.memory :]
        moved = [b - a for a, b in zip(self.points, self.points[1:], strict=False)]
        changed = [b - a for a, b in zip(self.residuals, self.residuals[1:], strict=False)]
        ahead = point + residual
        if not changed:
            return ahead
        normal = np.array([[float((weights * a * b).sum()) for b in changed] for a in changed])
        right = np.array([float((weights * a * residual).sum()) for a in changed])
        mix = np.linalg.lstsq(normal, right, rcond=INDEPENDENT)[0]
        for share, dx, df in zip(mix, moved, changed, strict=True):
            ahead = ahead - float(share) * (dx + df)
        return ahead

    def forget(self) -> None:
        """Start anew, after a step that went wrong."""
        self.points, self.residuals = [], []
