"""Valid answers of any linear queries over a small domain: clipping, least squares, the hybrid.

An answer is valid if some counts x ≥ 0 give it. From unbiased counts x̃, or from the workload's
unbiased answers z̃ where counts are not determined,

    clip      x = max(x̃, 0)                             fast, and far off for sums of many cells
    nnls      min (x − x̃)ᵀ C (x − x̃)   over x ≥ 0       C = BᵀΣ⁻¹B of what was measured
    hybrid    min ‖W(x − x̃)‖²          over x ≥ 0       W the workload, rows times root weights

The hybrid is the projection in the norm in which the workload's error is counted: its squared error
over the workload is never larger than that of the unbiased answers, whatever the data.

References
----------
Li, "Optimizing linear queries under differential privacy" (2013), Section 3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseplan.domain.gram import workload_gram
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.server.consistency import fit_counts
from noiseplan.matrices.base import Array, Matrix
from noiseplan.queries import Query
from noiseplan.release.answers import Answer, Columns
from noiseplan.valid.solve_tables import checked_total
from noiseplan.valid.unbiased_tables import require_release, valid_beside

if TYPE_CHECKING:
    from noiseplan.release.release import Release

METHODS = ("hybrid", "nnls", "clip")
MOST_DOMAIN = 4096
# Coefficients looked at together.
AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class ClippedAnswer:
    """An unbiased answer whose rows cannot fall below, or rise above, zero.

    Rows without negative coefficients are at least zero, rows without positive ones at most; the
    interval of the unbiased answer is clipped alike, and covers as often as before.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, -2.0, 4.0], 2.0)])
    >>> clipped_answer(release, nz.Query(schema, ["age"])).valid.round(6).tolist()
    [7.0, 0.0, 4.0]
    """

    unbiased: Answer
    least: Array
    most: Array

    @property
    def valid(self) -> Array:
        return np.clip(self.unbiased.estimate, self.least, self.most)

    @property
    def lower(self) -> Array:
        return np.clip(self.unbiased.lower, self.least, self.most)

    @property
    def upper(self) -> Array:
        return np.clip(self.unbiased.upper, self.least, self.most)


@dataclass(frozen=True, eq=False, repr=False)
class ValidAnswers:
    """Answers of one table of non-negative counts, beside the unbiased ones.

    `counts` has one axis per attribute of the schema.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, -2.0, 4.0], 2.0)])
    >>> valid = valid_answers(release, total=10)
    >>> valid.counts.shape, bool(valid.counts.min() >= 0)
    ((3,), True)
    """

    release: Release
    counts: Array
    method: str

    def answer(self, query: Query | str) -> Array:
        """Wx̂ ."""
        asked = self.release.plan.query(query)
        return asked.apply(self.counts)

    def columns(
        self, query: Query | str, *, level: float = 0.95, simultaneous: bool = False
    ) -> Columns:
        """The rows, valid, and the unbiased estimate, std_error, lower, upper."""
        asked = self.release.plan.query(query)
        answer = self.release.answer(asked, level=level, simultaneous=simultaneous)
        return valid_beside(self.answer(asked), answer.columns())

    def __repr__(self) -> str:
        return f"ValidAnswers({self.method}, {self.counts.size:,} cells)"


def valid_answers(
    release: Release, method: str = "hybrid", *, total: float | None = None
) -> ValidAnswers:
    """Answers that some table of non-negative counts has, near the unbiased ones.

    Parameters
    ----------
    release
        Of any plan over a domain of at most 4,096 cells.
    method
        "hybrid" (nearest in the workload's own norm), "nnls" (nearest in what was measured), or
        "clip".
    total
        The number of records, where it is public (not with "clip").

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, -2.0, 4.0], 2.0)])
    >>> valid_answers(release, total=10).counts.round(6).tolist()
    [6.5, 0.0, 3.5]
    """
    if method not in METHODS:
        raise PlanError(f"method is one of {list(METHODS)}, found {method!r}")
    require_release(release, "valid_answers")
    schema = release.schema
    if schema.size > MOST_DOMAIN:
        raise PlanError(
            f"valid answers are made over at most {MOST_DOMAIN:,} cells, and the schema has "
            f"{schema.size:,}: make valid tables, release.valid(), or some of them, "
            f"release.valid(tables=[…]); a refusal of it names those that can be made"
        )
    if total is not None:
        total = checked_total(total)
        if method == "clip":
            raise PlanError('clipping keeps no total: valid_answers(release, "hybrid", total=…)')
    start = _unbiased_counts(release)
    if method == "clip":
        found = np.maximum(start, 0.0)
    elif method == "nnls":
        found = fit_counts(start, release.plan.cost_matrix(), total)
    else:
        found = fit_counts(start, workload_gram(release.plan.workload), total)
    return ValidAnswers(release, found.reshape(schema.shape), method)


def clipped_answer(release: Release, query: Query | str, *, level: float = 0.95) -> ClippedAnswer:
    """One unbiased answer, clipped where its coefficients allow, with simultaneous intervals.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, -2.0, 4.0], 2.0)])
    >>> clipped = clipped_answer(release, nz.Query(schema, ["age"]))
    >>> bool((clipped.lower >= 0).all())
    True
    """
    require_release(release, "clipped_answer")
    asked = release.plan.query(query)
    positive, negative = _signs(asked)
    least, most = np.where(negative, -np.inf, 0.0), np.where(positive, np.inf, 0.0)
    return ClippedAnswer(release.answer(asked, level=level, simultaneous=True), least, most)


Signs = NDArray[np.bool_]


def _signs(query: Query) -> tuple[Signs, Signs]:
    """Of every row, whether it has positive coefficients, and whether it has negative ones.

    A row is a product of one row for each attribute; its coefficients are all products of theirs.
    """
    positive, negative = np.array([True]), np.array([False])
    for matrix in query.pieces:
        up, down = _row_signs(matrix)
        both = np.logical_or(np.outer(positive, up), np.outer(negative, down)).ravel()
        negative = np.logical_or(np.outer(positive, down), np.outer(negative, up)).ravel()
        positive = both
    return positive, negative


def _row_signs(matrix: Matrix) -> tuple[Signs, Signs]:
    """The same of one matrix, some rows at a time."""
    height, width = matrix.shape
    step = max(1, AT_ONCE // width)
    found = np.zeros((2, height), dtype=np.bool_)
    for start in range(0, height, step):
        rows = np.arange(start, min(start + step, height))
        some = matrix.take(rows)
        found[0, rows], found[1, rows] = (some > 0).any(axis=1), (some < 0).any(axis=1)
    return found[0], found[1]


def _unbiased_counts(release: Release) -> Array:
    """Counts with the unbiased answers: the unbiased ones, or the shortest that have them."""
    try:
        return release.answer(Query(release.schema, list(release.schema.names))).estimate
    except UnanswerableError:
        queries = list(release.plan.workload)
        rows = np.vstack([query.dense() for query in queries])
        answers = np.concatenate([release.answer(query).estimate for query in queries])
        return np.asarray(np.linalg.lstsq(rows, answers, rcond=1e-10)[0])
