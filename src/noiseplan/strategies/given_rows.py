"""Rows that a user brings: measured as they are, or with the best weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.optimize.lbfgs import descend
from noiseplan.optimize.optimum import checked_gram
from noiseplan.strategies.column_norms import Norm, column_norms, completed
from noiseplan.strategies.weighting import weighted_rows

# Eigenvalues of a profile below this share of the largest are rounding.
NOISE_FLOOR: Final = 1e-12
# |t| is smoothed to √(t² + μ²), and the maximum to a p-norm, ever more closely.
STAGES: Final = ((0.1, 8.0), (0.02, 20.0), (0.004, 60.0), (0.001, 200.0))
STEPS_PER_STAGE: Final = 80
# Cells up to which a realisation is searched for: each step is a singular value decomposition.
MOST_CELLS: Final = 128


@dataclass(frozen=True, eq=False, repr=False)
class Strategy:
    """What to measure, given as rows over all cells of the domain (the last attribute fastest).

    Parameters
    ----------
    rows
        One measured number each; numbers × cells. An array, lists, or a SciPy sparse matrix.
    weighted
        Whether to weigh the rows as serves the workload best: they are then a *design set*.
    filled
        Whether to add, free of cost, a row for each cell that pays less than others do.
    name
        What the plan calls it.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"a": 4})
    >>> workload = nz.Workload([nz.Query(schema, {"a": nz.Ranges()})])
    >>> pairs = np.vstack([np.eye(4), [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]])
    >>> for strategy in (nz.Strategy(pairs), nz.Strategy(pairs, weighted=True)):
    ...     plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=strategy, noise="gaussian")
    ...     print(round(plan.total_variance, 2))
    20.86
    16.95
    """

    rows: Array
    weighted: bool = False
    filled: bool = False
    name: str = field(default="given strategy", kw_only=True)

    def __repr__(self) -> str:
        rows, cells = self.rows.shape
        options = "".join(
            f", {name}=True" for name in ("weighted", "filled") if getattr(self, name)
        )
        return f"Strategy({rows:,} × {cells:,}{options}, name={self.name!r})"

    def __post_init__(self) -> None:
        rows = _numbers(self.rows)
        if rows.ndim != 2 or not rows.size:
            raise PlanError(
                f"a strategy has two dimensions, numbers to measure × cells of the domain; found "
                f"the shape {rows.shape}"
            )
        if not np.isfinite(rows).all() or not rows.any():
            raise PlanError("a strategy has finite numbers, and not only zeros")
        for option in ("weighted", "filled"):
            if not isinstance(getattr(self, option), bool):
                found = getattr(self, option)
                raise PlanError(f"{option} is True or False, found {found!r}")
        if not isinstance(self.name, str) or not self.name.isprintable() or not self.name:
            raise PlanError(f"the name of a strategy is a text on one line, found {self.name!r}")
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)

    @classmethod
    def of_profile(cls, profile: Array) -> Strategy:
        """Rows A with AᵀA = `profile` and small L1 columns, for Laplace noise.

        `profile` is the inverse of the covariance wanted of the estimated cells, up to scale.
        """
        return cls(least_sensitivity(np.asarray(profile, dtype=np.float64)), name="given profile")

    def matrix(self, gram: Array, norm: Norm) -> Array:
        """What is measured for a workload with this Gram matrix."""
        if self.rows.shape[1] != len(gram):
            raise PlanError(
                f"the strategy has {self.rows.shape[1]:,} columns, and the domain has "
                f"{len(gram):,} cells: one column for each, the last attribute fastest"
            )
        # By a power of two, which rounds nothing: squares of what is huge or tiny are no numbers.
        rows = np.ldexp(self.rows, -int(np.frexp(np.abs(self.rows).max())[1]))
        rows = weighted_rows(rows, gram, norm)[0] if self.weighted else rows
        return completed(rows, norm) if self.filled else rows


def _numbers(rows: object) -> Array:
    """Rows as an array of numbers, from anything that is one, sparse or not."""
    shape = getattr(rows, "shape", ())
    if hasattr(rows, "toarray") and prod(shape) > DENSE_LIMIT:
        raise PlanError(
            f"a strategy of the shape {shape} has more than {DENSE_LIMIT:,} numbers when "
            f"written out: measure fewer rows"
        )
    whole = rows.toarray() if hasattr(rows, "toarray") else rows
    try:
        found = np.asarray(whole)
        if found.dtype.kind not in "biufO":
            raise TypeError
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        kind = getattr(rows, "dtype", type(rows).__name__)
        raise PlanError(
            f"a strategy is a matrix of numbers, real ones, with a row for each to measure, as in "
            f"Strategy([[1, 1, 0], [0, 0, 1]]); found {kind}"
        ) from None


# ---------------------------------------------------------------------- small L1 columns
#
# Of all matrices with the same AᵀA, one with small L1 columns.
#
# Errors of answers depend on X = AᵀA alone, but Laplace noise is scaled to the L1 norms of A's
# columns, and those change under rotation: A = QR with any root R of X and any Q with orthonormal
# columns, as many rows as one likes. The largest L1 norm is not convex in Q; a smooth stand-in is
# descended from several starts, and the best matrix met is kept. No certificate, but never worse
# than the starts.
#
# References
# ----------
# C. Li, dissertation, 2013, Problem 3.3 and Program 3.4.3 (a semidefinite program with a rank
# constraint, for the same problem).


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
