"""What a strategy costs, and in which direction it improves.

With D = Diag(Qπ), A = D⁻¹Q and the information matrix X = QᵀA,

    L(Q) = tr[X⁺G] = Σ_u π_u (t_u + ‖W e_u‖²)

is the mean over types of second moments, t_u the variance one user of type u adds to all answers.
For uniform π it is 1/n of the objective of the paper, whose D holds row sums. X π = 1 always.

References
----------
McKenna et al. (2020), Theorems 3.10 and 3.11. The gradients are closed forms; that in z holds the
response of the projection's λ, without which optimised strategies are about a tenth worse.
"""

from __future__ import annotations

from dataclasses import dataclass

from noiseplan.local.search.namespace import Tensor, namespace

# Entries this close to a bound, relatively, are at the bound.
AT_BOUND = 1e-12


@dataclass(frozen=True, eq=False)
class Slope:
    """The objective at a strategy and its gradient with respect to Q."""

    value: float
    gradient: Tensor


def slope(strategy: Tensor, gram: Tensor, prior: Tensor) -> Slope:
    """L(Q) and ∂L/∂Q[o, u] = −2 S[o, u] + π_u Σ_v S[o, v] A[o, v], with S = A X⁻¹GX⁻¹."""
    xp = namespace(strategy)
    shapes = strategy / (strategy @ prior)[:, None]  # A
    information = strategy.T @ shapes  # X
    inverse = xp.linalg.inv((information + information.T) / 2)
    value = float(xp.sum(inverse * gram))
    scores = shapes @ (inverse @ (gram @ inverse))  # S
    along = xp.sum(scores * shapes, axis=1)
    return Slope(value, along[:, None] * prior[None, :] - 2.0 * scores)


def lower_slope(gradient: Tensor, strategy: Tensor, lower: Tensor, ratio: float) -> Tensor:
    """∂L/∂z through the projection: what moving the bounds of each row would change.

    Σ_u (g[o,u] − ḡ_u)·1[at z] + e·Σ_u (g[o,u] − ḡ_u)·1[at e·z], ḡ_u the mean of g over the free
    entries of column u: the response of λ_u.
    """
    xp = namespace(strategy)
    slack = max(AT_BOUND, 4 * float(xp.finfo(strategy.dtype).eps))
    low = xp.astype(strategy <= (lower * (1 + slack))[:, None], strategy.dtype)
    high = xp.astype(strategy >= (lower * (ratio * (1 - slack)))[:, None], strategy.dtype)
    free = 1.0 - xp.clip(low + high, None, 1.0)
    mean = xp.sum(gradient * free, axis=0) / xp.clip(xp.sum(free, axis=0), 1.0, None)
    return xp.sum((gradient - mean) * (low + ratio * high), axis=1)
