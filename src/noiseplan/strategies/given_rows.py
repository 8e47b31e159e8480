"""Rows that a user brings: measured as they are, or with the best weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.strategies.column_norms import Norm, completed
from noiseplan.strategies.realisation import least_sensitivity
from noiseplan.strategies.weighting import weighted_rows


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
