"""What a mechanism of pure DP really measures, seen from outside: rows, scales, exact costs.

Rows are what is handed on to be made noisy, column by column from data of one record; scales are
what the sampler is asked for. Nothing here uses the package's norms, costs or variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from unittest.mock import patch

import mpmath
import numpy as np

import noiseplan as nz
from noiseplan.mechanisms.exact_residuals import with_noise
from oracles import table_counts


@dataclass(frozen=True)
class Seen:
    """Integer rows B and the exact scale of each row's noise."""

    rows: np.ndarray  # of Python integers
    scales: list[Fraction]

    @property
    def epsilon(self) -> Fraction:
        """max_j Σ_r |B_rj|/b_r in exact rationals: ε of adding or removing a record."""
        inverse = [1 / scale for scale in self.scales]
        return max(
            sum((abs(int(b)) * i for b, i in zip(column, inverse, strict=True)), Fraction(0))
            for column in self.rows.T
        )

    @property
    def precision(self) -> np.ndarray:
        """Σ⁻¹, by the variance of the discrete Laplace law summed up term by term."""
        known = {b: 1.0 / summed_variance(b) for b in set(self.scales)}
        return np.array([known[b] for b in self.scales])

    def covariance(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Generalised least squares: W (BᵀΣ⁻¹B)⁺ W'ᵀ."""
        scaled = self.rows.astype(float) * np.sqrt(self.precision)[:, None]
        inverse = np.linalg.pinv(scaled, rcond=1e-11)
        return (left @ inverse) @ (right @ inverse).T


def summed_variance(scale: Fraction) -> float:
    """Σ k² e^{−|k|/b} / Σ e^{−|k|/b}."""
    with mpmath.workdps(30):
        q = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        # Σ_{k≥1} k² qᵏ and Σ_{k≥1} qᵏ, in closed form and, where they are short, term by term.
        if scale < 20:
            terms = range(1, int(60 * float(scale)) + 80)
            return float(2 * sum(k * k * q**k for k in terms) / (1 + 2 * sum(q**k for k in terms)))
        return float(2 * q * (1 + q) / (1 - q) ** 3 / (1 + 2 * q / (1 - q)))


def look(plan: nz.Plan) -> Seen:
    """Measure one record at a time and watch."""
    shape = plan.workload.schema.shape
    columns, scales = [], []

    def watched(exact: np.ndarray, noise: np.ndarray) -> np.ndarray:
        columns[-1].append(exact.ravel())
        return with_noise(exact, noise)

    def sampler(size: tuple[int, ...], given: np.ndarray) -> np.ndarray:
        scales[-1] += [Fraction(float(b)) for b in np.broadcast_to(given, size).ravel()]
        return np.zeros(size, dtype=np.int64)

    with (
        patch("noiseplan.mechanisms.exact_residuals.with_noise", watched),
        patch("noiseplan.mechanisms.workload_rows.with_noise", watched),
    ):
        for cell in np.ndindex(*shape):
            x = np.zeros(shape, dtype=np.int64)
            x[cell] = 1
            columns.append([])
            scales.append([])
            plan.mechanism.measure(table_counts(x), sampler)
    rows = np.stack([np.concatenate(pieces) for pieces in columns], axis=1).astype(object)
    assert all(each == scales[0] for each in scales)
    assert len(rows) == len(scales[0]) == plan.measured_numbers
    return Seen(rows, scales[0])
