"""Which plan's cells would stand clear of its noise? A rule for any plans, at any size.

A row of a query is useful if its count is some standard errors of the plan that would publish it.
Errors are known beforehand. Counts are known from the look, where it answers the query; elsewhere
they are expected as if the look told all there is: the table of greatest entropy with the look's
own tables, by proportional fitting.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.choosing.rules import DecisionRule, Recommendation
from noiseplan.choosing.workload_answers import LIMIT, answered, estimates, variances
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.planning.plan import Plan
from noiseplan.queries import Query, Workload
from noiseplan.release.release import Release
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from noiseplan.choosing.choice import Look

# So many tables of a plan are expected from the look; of more, some are taken at random.
TABLES: Final = 400
# Rounds of fitting: tables that are products of the look's are right after one.
ROUNDS: Final = 10
# Counts below this share of the mean are taken for it, or nothing could be fitted to them.
LEAST: Final = 1e-3


@dataclass(frozen=True, eq=False)
class Usefulness(DecisionRule):
    """Choose the plan with most useful cells, of those where enough of the cells are useful.

    For any plans, nested or not, over domains of any size.

    Parameters
    ----------
    share, ratio
        A plan is good enough if this share of its cells has a count of at least `ratio` standard
        errors. If none is, the one with the largest share is advised.
    cells
        The cells that matter, for all plans alike; those that a plan does not answer are of no use
        with it. Unless given, every plan is judged by its own queries.

    Notes
    -----
    A row is useful if count ≥ ratio · s, s the standard error that the plan has. Counts are the
    look's estimates where it answers, else those of the table of greatest entropy that agrees with
    all of the look's tables on its attributes.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> look = choice.look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99})
    >>> look.recommend(Usefulness(share=0.9, ratio=2.0)).number in (0, 1)
    True
    """

    share: float = 0.5
    ratio: float = 3.0
    cells: Workload | None = None

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and self.ratio >= 0):
            raise PlanError(
                f"Usefulness takes a share in (0, 1] and a ratio not below 0; found "
                f"share={self.share}, ratio={self.ratio}"
            )

    def judge(self, look: Look) -> Recommendation:
        plans, cells = look.choice.plans, self.cells
        rows = [(plan.workload if cells is None else cells).rows for plan in plans]
        shares = [self._useful(look.release, plan) for plan in plans]
        figures = {}
        for number, (share, every) in enumerate(zip(shares, rows, strict=True)):
            figures[f"plan {number}: cells"] = float(every)
            figures[f"plan {number}: share of useful cells"] = share
        enough = [i for i, share in enumerate(shares) if share >= self.share]
        clear = f"cells with {self.ratio:g} standard errors"
        if enough:
            best = max(enough, key=lambda i: shares[i] * rows[i])
            reasons = f"about {shares[best] * rows[best]:,.0f} {clear}, {shares[best]:.4g} of all"
            return Recommendation("choose", best, reasons, figures)
        best = int(np.argmax(shares))
        if shares[best] == 0:
            return Recommendation("stop", None, f"no plan would have {clear}", figures)
        reasons = f"no plan has {self.share:.4g} of its {clear}; most has this one"
        return Recommendation("choose", best, f"{reasons}: {shares[best]:.4g}", figures)

    def _useful(self, look: Release, plan: Plan) -> float:
        """The share of useful rows if this plan were chosen."""
        asked = plan.workload if self.cells is None else self.cells
        theirs, told = (answered(p.mechanism, asked) for p in (plan, look.plan))
        useful = 0.0
        for queries, counts in ((theirs & told, estimates), (theirs & ~told, _expected)):
            if queries.any():
                some, times = _some(asked.subset(queries), TABLES if counts is _expected else None)
                errors = np.sqrt(variances(plan.mechanism, some))
                useful += times * np.count_nonzero(counts(look, some) >= self.ratio * errors)
        return min(1.0, useful / asked.rows)


def _some(workload: Workload, most: int | None) -> tuple[Workload, float]:
    """Queries at random, at most so many, and how many times as many rows all of them have."""
    if most is None or len(workload) <= most:
        return workload, 1.0
    chosen = np.sort(np.random.default_rng(0).choice(len(workload), most, replace=False))
    some = workload.subset(chosen)
    return some, workload.rows / some.rows


# ---------------------------------------------------------------------- what is expected


def _expected(look: Release, workload: Workload) -> Array:
    """The count of every row, as the look's tables let expect."""
    return np.concatenate([query.apply(expected_table(look, query)) for query in workload])


def expected_table(look: Release, query: Query) -> Array:
    """The table of a query's attributes: of greatest entropy among those that agree with the look.

    Parameters
    ----------
    look
        Its tables are taken without what is below zero.
    """
    schema, names = query.schema, query.attributes
    shape = tuple(schema[name].size for name in names)
    if np.prod(shape, dtype=float) > LIMIT:
        raise PlanError(
            f"{query.name!r} is about {np.prod(shape, dtype=float):,.0f} cells, and at most "
            f"{LIMIT:,} are expected from a look: name the cells that matter, Usefulness(cells=…)"
        )
    table = np.ones(shape)
    known = [_margin(look, schema, names, own) for own in _told_sets(look, schema, names)]
    for _ in range(ROUNDS if len(known) > 1 else 1):
        for margin in known:
            others = tuple(i for i, size in enumerate(margin.shape) if size < shape[i])
            table *= margin / table.sum(axis=others, keepdims=True)
    return table


def _margin(look: Release, schema: Schema, names: tuple[str, ...], own: tuple[str, ...]) -> Array:
    """The look's table of some of the attributes, above zero; the others have one value."""
    found = look.plan.mechanism.completed(look.measurements, Query(schema, list(own)))
    found = np.maximum(found, LEAST * max(float(found.mean()), 1.0))
    return found.reshape([schema[name].size if name in own else 1 for name in names])


def _told_sets(look: Release, schema: Schema, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The largest sets of these attributes that the look has a table of."""
    found: list[tuple[str, ...]] = []
    for size in range(len(names), -1, -1):
        for own in combinations(names, size):
            if not any(set(own) <= set(other) for other in found) and _tells(look, schema, own):
                found.append(own)
    if not found:
        raise PlanError(
            "the look does not tell the total, so nothing can be expected of tables that it does "
            "not answer: name the cells that matter and that it answers, Usefulness(cells=…)"
        )
    return found


def _tells(look: Release, schema: Schema, names: tuple[str, ...]) -> bool:
    try:
        look.plan.mechanism.require_completed(Query(schema, list(names)))
    except UnanswerableError:
        return False
    return True
