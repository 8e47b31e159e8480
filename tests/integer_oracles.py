"""What an integer mechanism really measures, found by probing it, in Python's exact integers.

Nothing here uses the package's own matrices, variances or costs. Noise that numbers itself tells
which parameter each measured number was given; tables of one record give the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm, prod

import mpmath
import numpy as np

import noiseplan as nz
from oracles import Numbered, flat, silent, table_counts

Sampler = Callable[[tuple[int, ...], np.ndarray], np.ndarray]


def measured(plan: nz.Plan, counts: np.ndarray, sampler: Sampler = silent) -> list[int]:
    """What measuring a table of counts gives, one Python integer after the other."""
    values = flat(plan.mechanism.measure(table_counts(counts), sampler))
    assert values.dtype == np.int64
    return [int(v) for v in values]


@dataclass(frozen=True)
class Measured:
    """Rows B (one list of integers a row) and the exact parameter σ² of each row's noise."""

    rows: list[list[int]]
    sigma2: list[Fraction]

    @classmethod
    def of(cls, plan: nz.Plan) -> Measured:
        shape = plan.workload.schema.shape
        numbered = Numbered()
        ids = measured(plan, np.zeros(shape, dtype=np.int64), numbered)
        assert sorted(ids) == list(range(len(ids))), "each number has noise of its own"
        columns = []
        for record in range(prod(shape)):
            one = np.zeros(prod(shape), dtype=np.int64)
            one[record] = 1
            columns.append(measured(plan, one.reshape(shape)))
        rows = [list(row) for row in zip(*columns, strict=True)]
        return cls(rows, [Fraction(numbered.variances[i]) for i in ids])

    def times(self, x: list[int]) -> list[int]:
        """Bx."""
        return [sum(b * v for b, v in zip(row, x, strict=True)) for row in self.rows]

    def rho(self, neighbours: str) -> Fraction | float:
        """max Σ_rows (difference)²/(2σ²) over all pairs of neighbours: exact."""
        bare = [row for row, s in zip(self.rows, self.sigma2, strict=True) if s == 0]
        changed = any if neighbours == "add-remove" else (lambda row: len(set(row)) > 1)
        if any(changed(row) for row in bare):
            return inf  # a number without noise gives a record away
        scale, gram = self._scaled_gram()
        cells = range(len(gram))
        if neighbours == "add-remove":
            worst = max(gram[r][r] for r in cells)
        else:
            worst = max(gram[r][r] + gram[s][s] - 2 * gram[r][s] for r in cells for s in cells)
        return Fraction(worst, 2 * scale)

    def _scaled_gram(self) -> tuple[int, list[list[int]]]:
        """An integer L and L·BᵀΣ⁻¹B, which is a matrix of integers."""
        noisy = [(b, s) for b, s in zip(self.rows, self.sigma2, strict=True) if s > 0]
        scale = lcm(*(s.numerator for _, s in noisy))
        weights = np.array([scale // s.numerator * s.denominator for _, s in noisy], dtype=object)
        rows = np.array([b for b, _ in noisy], dtype=object).reshape(-1, len(self.rows[0]))
        return scale, ((rows * weights[:, None]).T @ rows).tolist()

    def covariance(self, w: np.ndarray) -> np.ndarray:
        """Of the best unbiased estimates of Wx, with the variances that the noise really has."""
        scaled = self.estimator(w) * self._spread
        return scaled @ scaled.T

    @property
    def _spread(self) -> np.ndarray:
        """The standard deviations of the noise that there is."""
        return np.sqrt([true_variance(s) for s in self.sigma2 if s > 0])

    def estimator(self, w: np.ndarray) -> np.ndarray:
        """What the noise of each noisy number adds to the best unbiased estimates of Wx.

        On the x that rows without noise leave open, x = Nz, it is WN (NᵀBᵀΣ⁻¹BN)⁺ NᵀBᵀΣ⁻¹.
        """
        rows = np.array(self.rows, dtype=float)
        noisy = np.array([s > 0 for s in self.sigma2])
        null = _null_space(rows[~noisy])
        inverse = np.linalg.pinv((rows[noisy] / self._spread[:, None]) @ null, rcond=1e-11)
        return (w @ null @ inverse) / self._spread


def _null_space(rows: np.ndarray) -> np.ndarray:
    if not len(rows):
        return np.eye(rows.shape[1])
    _, values, right = np.linalg.svd(rows)
    return right[(values > 1e-9 * values.max()).sum() :].T


def true_variance(parameter: Fraction) -> float:
    """Σ k² exp(−k²/(2σ²)) / Σ exp(−k²/(2σ²)), summed with 30 digits."""
    if parameter > 50:  # differs by less than e^−900
        return float(parameter)
    with mpmath.workdps(30):
        p = mpmath.mpf(parameter.numerator) / parameter.denominator
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * p)) for k in range(200)]
        second = 2 * mpmath.fsum(k * k * w for k, w in enumerate(weights))
        return float(second / (2 * mpmath.fsum(weights) - 1))


def all_counts(shape: tuple[int, ...], limit: int, seed: int) -> Iterator[np.ndarray]:
    """A few tables of whole numbers with at most `limit` records in all."""
    random = np.random.default_rng(seed)
    cells = prod(shape)
    yield np.zeros(shape, dtype=np.int64)
    one = np.zeros(cells, dtype=np.int64)
    one[random.integers(cells)] = limit
    yield one.reshape(shape)
    for _ in range(3):
        yield random.integers(0, limit // cells + 1, size=shape)
