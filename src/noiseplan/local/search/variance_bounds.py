"""How small can the variance be, for any unbiased ε-LDP mechanism that counts reports?

For a prior π with root r = √π let W' = W Diag(r) and Y = Diag(r) X Diag(r). Then Y r = r, because
X π = 1, and tr Y ≤ 1 + c: a row of Q, scaled to mean one under π, has values of ratio at most e, so
its variance is at most

    c = max over shares f of  (f e² + 1 − f)/(f e + 1 − f)² − 1  ≤  (e − 1)²/(4e) = sinh²(ε/2) .

Splitting off the direction r, in which Y is one, and by tr(Y⁻¹H)·tr(Y) ≥ (tr H^{1/2})²,

    Σ_u π_u t_u  ≥  ‖Wπ‖² + ‖W'(I − r rᵀ)‖_*² / c − Σ_u π_u ‖W e_u‖² .

It holds for every π, hence for the largest t too. Over n equal cells the shares f are k/n. The
histogram meets it with equality. The bound of the paper, ‖W‖_*²/e^ε instead of the first two terms,
is far weaker.

References
----------
McKenna et al. (2020), Theorem 5.6, for the second; the first is derived as above.
"""

from __future__ import annotations

from math import exp, expm1, inf, sinh

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.planning.attribute_heads import NOISE_FLOOR
from noiseplan.planning.bounds import centred_norm
from noiseplan.planning.workload_types import prepare
from noiseplan.queries import Query, Workload

# Rounding may make a bound too large by about this share of the terms it is made of, which are
# taken off it.
BOUND_ROUNDING = 1e-10
# A bound is met if it is this close.
MET = 1e-9
# How often a prior is moved towards the least favourable one.
PRIOR_STEPS = 30


def row_variance(cells: int, epsilon: float) -> float:
    """c(n, ε): the largest variance of a row with mean one over n equal cells.

    Examples
    --------
    >>> round(row_variance(8, 1.0), 10)
    0.2708812453
    """
    k = np.arange(1, max(cells, 2), dtype=np.float64)
    e = exp(epsilon)
    # k(n − k)(e − 1)²/(k e + n − k)², which is the same and has all its digits where ε is small.
    return float((k * (cells - k) * expm1(epsilon) ** 2 / (k * e + cells - k) ** 2).max())


def spread_bound(gram: Array, prior: Array, largest_variance: float) -> float:
    """‖Wπ‖² + ‖W'(I − rrᵀ)‖_*²/c − Σπ‖W e_u‖²: no mechanism has a smaller Σ π_u t_u."""
    centred, mean = _centred(gram, prior)
    values = np.linalg.eigvalsh(centred)
    # Without what rounding may have made up: dropping directions only lowers the bound.
    nuclear = float(np.sqrt(values[values > NOISE_FLOOR * values[-1]]).sum())
    own = float(prior @ np.diagonal(gram))
    spread = nuclear**2 / largest_variance if largest_variance > 0 else 0.0  # 0 for one cell alone
    # Subtracting what rounding may have added only lowers the bound.
    return mean + spread - own - BOUND_ROUNDING * (mean + spread + own)


def structured_bound(workload: Workload, epsilon: float) -> float:
    """The bound on the mean variance over all cells of any domain, however large.

    The nuclear norm is bounded from below through the factors of the queries, as it is for plans
    with a trusted collector; for plain tables that is exact.
    """
    mean = own = 0.0
    for query in workload:
        at_mean, square = _mean_and_square(query)
        mean, own = mean + query.weight * at_mean, own + query.weight * square
    nuclear = centred_norm(prepare(workload)) ** 2
    return mean + nuclear / sinh(epsilon / 2) ** 2 - own - BOUND_ROUNDING * (mean + own)


def _mean_and_square(query: Query) -> tuple[float, float]:
    """‖W 1/n‖² and ‖W‖²/n of one query, n the cells of its own attributes."""
    mean = square = 1.0
    for piece in query.pieces:
        cells = piece.shape[1]
        mean *= float((piece.matmul(np.full(cells, 1 / cells)) ** 2).sum())
        square *= float(piece.row_squares().sum()) / cells
    return mean, square


def _centred(gram: Array, prior: Array) -> tuple[Array, float]:
    """(I − rrᵀ) Diag(r) G Diag(r) (I − rrᵀ), and ‖Wπ‖²."""
    root = np.sqrt(prior)
    scaled = gram * np.outer(root, root)
    along = scaled @ root
    mean = float(root @ along)
    both = np.outer(root, along)
    return scaled - both - both.T + mean * np.outer(root, root), mean


def lower_bound(
    gram: Array,
    prior: Array,
    epsilon: float,
    *,
    worst: bool,
    cells: int | None = None,
    reached: float = inf,
) -> float:
    """Of the variance that one user adds to all answers together: the worst, or the mean under π.

    `cells` says that the prior is made of so many equal cells, which sharpens c. For the worst case
    the prior is improved by its own fixed point, π_u growing where the bound would gain, unless
    some mechanism has `reached` it already.
    """
    limit = sinh(epsilon / 2) ** 2
    c = limit if cells is None else row_variance(cells, epsilon)
    largest = spread_bound(gram, prior, c)
    for _ in range(PRIOR_STEPS if worst else 0):
        if largest >= reached * (1 - MET):
            break
        prior = _heavier(gram, prior, limit)
        largest = max(largest, spread_bound(gram, prior, limit))
    return largest


def _heavier(gram: Array, prior: Array, c: float) -> Array:
    """π moved towards the types whose share of the bound is largest."""
    centred, mean = _centred(gram, prior)
    values, vectors = np.linalg.eigh(centred)
    singular = np.sqrt(np.maximum(values, 0.0))
    # What type u contributes to the nuclear norm, as if the bound's own X were a mechanism's.
    share = (vectors**2 @ singular) * singular.sum() / c / np.maximum(prior, 1e-300)
    own = share + mean - np.diagonal(gram)
    level = float(prior @ own)
    if level <= 0:  # the bound says nothing here, and nothing about where to go
        return prior
    moved: Array = prior * np.exp(0.5 * (own / level - 1).clip(-1, 1))
    moved = np.maximum(moved, 1e-9 / len(moved))
    return np.asarray(moved / moved.sum())
