"""From variances to statements of the form: with probability 1 − β, no error exceeds α.

For Gaussian noise. An answer vector is (α, β)-accurate if all its errors are at most α with
probability 1 − β, and RMS-(α, β)-accurate if the root of their mean square is.

References
----------
C. Li, dissertation, 2013, Definitions 4.8 and 4.9, Theorem 4.11. The theorem gives orders of
magnitude; here are statements without constants left open: Šidák's inequality for the largest
error, and the concentration of a Lipschitz function of Gaussian noise for the root mean square.
"""

from __future__ import annotations

from math import expm1, log, log1p, sqrt
from statistics import NormalDist

from noiseplan.errors import PlanError


def largest_error(std_error: float, rows: int, beta: float = 0.05) -> float:
    """α such that `rows` Gaussian errors of at most this standard error are all below, surely.

    Errors may be correlated in any way: P(all |e_i| ≤ α) ≥ ∏ P(|e_i| ≤ α) (Šidák).

    Examples
    --------
    >>> round(largest_error(1.0, 1, beta=0.05), 2)
    1.96
    """
    _check_beta(beta)
    # 1 − (1 − β)^{1/m}, without cancellation; half of it lies beyond each end.
    beyond = -expm1(log1p(-beta) / rows) / 2
    return std_error * -NormalDist().inv_cdf(beyond)


def root_mean_square(
    total_variance: float, rows: int, beta: float = 0.05, largest: float | None = None
) -> float:
    """α such that the root mean square of Gaussian errors is below it with probability 1 − β.

    ‖e‖ is a function of standard noise that changes by at most √λ for each unit, λ the largest
    eigenvalue of the covariance, and its mean is at most √tr: so

        P(‖e‖ > √tr + √(2 λ ln(1/β))) ≤ β .

    Parameters
    ----------
    largest
        λ if it is known; at most the total variance.

    Examples
    --------
    >>> round(root_mean_square(400.0, 100, beta=0.05, largest=4.0), 3)
    2.49
    """
    _check_beta(beta)
    if rows < 1 or not total_variance >= 0:
        raise PlanError("accuracy is of at least one row with a total variance of 0 or more")
    spread = total_variance if largest is None else min(largest, total_variance)
    return (sqrt(total_variance) + sqrt(2 * spread * log(1 / beta))) / sqrt(rows)


def _check_beta(beta: float) -> None:
    if not 0 < beta < 1:
        raise PlanError(f"beta is the chance of being wrong, between 0 and 1; found {beta}")
