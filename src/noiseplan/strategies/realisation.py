"""Of all matrices with the same AᵀA, one with small L1 columns.

Errors of answers depend on X = AᵀA alone, but Laplace noise is scaled to the L1 norms of A's
columns, and those change under rotation: A = QR with any root R of X and any Q with orthonormal
columns, as many rows as one likes. The largest L1 norm is not convex in Q; a smooth stand-in is
descended from several starts, and the best matrix met is kept. No certificate, but never worse than
the starts.

References
----------
C. Li, dissertation, 2013, Problem 3.3 and Program 3.4.3 (a semidefinite program with a rank
constraint, for the same problem).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import descend
from noiseplan.optimize.optimum import checked_gram
from noiseplan.strategies.column_norms import column_norms

# Eigenvalues of a profile below this share of the largest are rounding.
NOISE_FLOOR: Final = 1e-12
# |t| is smoothed to √(t² + μ²), and the maximum to a p-norm, ever more closely.
STAGES: Final = ((0.1, 8.0), (0.02, 20.0), (0.004, 60.0), (0.001, 200.0))
STEPS_PER_STAGE: Final = 80
# Cells up to which a realisation is searched for: each step is a singular value decomposition.
MOST_CELLS: Final = 128


def least_sensitivity(profile: Array, extra_rows: int | None = None, seed: int = 0) -> Array:
    """A with AᵀA = `profile` whose largest L1 column norm is small.

    Parameters
    ----------
    profile
        X, positive semidefinite: the inverse of the covariance of errors that is wanted.
    extra_rows
        Rows beyond as many as there are cells; as many again if not given.

    Examples
    --------
    >>> haar = np.array([[3.0, 1, 0, 0], [1, 3, 0, 0], [0, 0, 3, 1], [0, 0, 1, 3]])
    >>> found = least_sensitivity(haar)  # the wavelets themselves have 3
    >>> bool(np.abs(found.T @ found - haar).max() < 1e-9)
    True
    >>> round(float(column_norms(found, "L1").max()), 2)
    2.0
    """
    values, vectors = np.linalg.eigh(checked_gram(profile))
    size = len(values)
    if values[0] < -1e-9 * abs(values[-1]) or not values[-1] > 0:
        raise PlanError("a profile is AᵀA of some strategy A: positive semidefinite, not zero")
    if size > MOST_CELLS:
        raise PlanError(
            f"realisations are searched for over at most {MOST_CELLS} cells, and the profile has "
            f"{size:,}; any root of it is a realisation, such as a Cholesky factor"
        )
    kept = values > NOISE_FLOOR * values[-1]
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    rows = size + (size if extra_rows is None else max(extra_rows, 0))
    best = min((_descended(root, start) for start in _starts(root, rows, seed)), key=_sensitivity)
    return np.asarray(best[np.abs(best).max(axis=1) > 0])


def _sensitivity(strategy: Array) -> float:
    return float(column_norms(strategy, "L1").max())


def _starts(root: Array, rows: int, seed: int) -> list[Array]:
    """Q of the symmetric root, of the triangular root, of both with noise, of a random rotation."""
    rank, size = root.shape
    left, _, right = np.linalg.svd(root, full_matrices=False)
    symmetric = right.T @ left.T  # Q R is then the symmetric root
    triangular = np.linalg.qr(root)[0].T
    rng = np.random.default_rng(seed)
    starts = []
    for q in (symmetric, triangular):
        padded = np.zeros((max(rows, size), rank))
        padded[: len(q)] = q
        starts.append(padded + 0.02 * rng.standard_normal(padded.shape))
    starts.append(rng.standard_normal((max(rows, size), rank)))
    # Half of the symmetric root twice: room for rows that are shared.
    if rows >= 2 * size:
        twice = np.concatenate([symmetric, symmetric]) / np.sqrt(2)
        starts.append(twice + 0.05 * rng.standard_normal(twice.shape))
    return starts


def _descended(root: Array, start: Array) -> Array:
    """The best matrix met on the way down from a start."""
    plain = _Realisation(root, start.shape, 0.0, 1.0)
    found, best = start, plain.strategy(start)
    for smoothing, power in STAGES:
        problem = _Realisation(root, start.shape, smoothing * np.abs(best).max(), power)
        _, end = descend(problem.value, found.ravel(), {"maxiter": STEPS_PER_STAGE})
        found = end.reshape(start.shape)
        strategy = plain.strategy(found)
        best = min(best, strategy, key=_sensitivity)
    return best


@dataclass(frozen=True, eq=False)
class _Realisation:
    """The smoothed largest column of QR as a function of any B whose nearest rotation is Q."""

    root: Array
    shape: tuple[int, ...]
    smoothing: float
    power: float

    def strategy(self, b: Array) -> Array:
        left, _, right = np.linalg.svd(b, full_matrices=False)
        return np.asarray(left @ right @ self.root)

    def value(self, flat: Array) -> tuple[float, Array]:
        left, sizes, right = np.linalg.svd(flat.reshape(self.shape), full_matrices=False)
        strategy = left @ right @ self.root
        smooth = np.sqrt(strategy**2 + self.smoothing**2)
        norms = smooth.sum(axis=0)
        largest = norms.max()
        total = float(((norms / largest) ** self.power).sum())
        value = largest * total ** (1 / self.power)
        weights = (norms / largest) ** (self.power - 1) * total ** (1 / self.power - 1)
        slope = (strategy / smooth * weights) @ self.root.T
        # Through the polar factor Q = UVᵀ of B = UΣVᵀ.
        turned = left.T @ slope @ right.T
        inner = (turned - turned.T) / (sizes[:, None] + sizes)
        outer = (slope - left @ (left.T @ slope)) @ right.T / sizes
        return float(value), ((left @ inner + outer) @ right).ravel()
