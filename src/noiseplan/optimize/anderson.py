"""Fixed points that climb, made faster by Anderson mixing.

A multiplicative update x ← x · e^{f(x)} of positive weights climbs a concave function slowly but
surely. The differences of its last steps say where it is going: one jumps there, and goes back to
half a plain step where the jump led downhill.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from noiseplan.optimize.array_namespace import AnyArray

# Directions this much weaker than the strongest are noise, not memory.
INDEPENDENT = 1e-10
# A value lower than before by less than this is rounding.
DOWNHILL = 1e-9


@dataclass(eq=False)
class Ascent:
    """The last points x and residuals f of x ← x + f(x), where x are logarithms of weights.

    The next point is x + f − (ΔX + ΔF)γ, where γ makes the mixed residual f − ΔFγ least, in a norm
    with given weights. No coordinate moves farther than `farthest` at once.
    """

    memory: int
    farthest: float
    points: list[AnyArray] = field(default_factory=list)
    residuals: list[AnyArray] = field(default_factory=list)
    highest: float = 0.0

    def next(self, point: AnyArray, value: float, residual: AnyArray, norm: AnyArray) -> AnyArray:
        """The point to try after `point`, whose value and residual are given."""
        if value < self.highest * (1.0 - DOWNHILL):
            back = self.points[-1] + 0.5 * self.residuals[-1]
            self.points, self.residuals, self.highest = [], [], 0.0
            return back
        self.highest = value
        self.points = [*self.points, point][-self.memory :]
        self.residuals = [*self.residuals, residual][-self.memory :]
        move = (self._mixed(norm) - point).clip(min=-self.farthest, max=self.farthest)
        return point + move

    def _mixed(self, norm: AnyArray) -> AnyArray:
        point, residual = self.points[-1], self.residuals[-1]
        moved = [b - a for a, b in zip(self.points, self.points[1:], strict=False)]
        changed = [b - a for a, b in zip(self.residuals, self.residuals[1:], strict=False)]
        ahead = point + residual
        if not changed:
            return ahead
        normal = np.array([[float((norm * a * b).sum()) for b in changed] for a in changed])
        right = np.array([float((norm * a * residual).sum()) for a in changed])
        mix = np.linalg.lstsq(normal, right, rcond=INDEPENDENT)[0]
        for share, dx, df in zip(mix, moved, changed, strict=True):
            ahead = ahead - float(share) * (dx + df)
        return ahead
