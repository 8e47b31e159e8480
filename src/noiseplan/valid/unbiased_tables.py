"""What valid tables are made from: unbiased tables with their variances, whoever made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import PlanError, QueryError, UnanswerableError, remedy
from noiseplan.local.server.aggregator import Aggregator
from noiseplan.matrices.base import Array
from noiseplan.planning.plan import Plan
from noiseplan.queries import Identity, Level, Query, Workload
from noiseplan.release.answers import Answer, Columns
from noiseplan.release.release import Release
from noiseplan.schema import Schema
from noiseplan.valid.family import Set

BIASED: Final = (
    "a data-aware release is not made valid, and no records are made up from it: its answers come "
    "from one line of cells, release.counts, and agree already; numpy.maximum(release.counts, 0) "
    "has no negative cells. Release tables by a plan that looks at no data for release.valid()"
)


def refuse_biased(made: object) -> None:
    """Refuse a data-aware release: what is made valid here is unbiased."""
    if isinstance(made, Release):
        made.plan.mechanism.require_unbiased(PlanError(BIASED))


def require_release(made: object, call: str) -> None:
    """Refuse what answers nothing, and what has no plan whose queries could be made valid."""
    refuse_biased(made)
    if not isinstance(made, Release):
        raise QueryError(
            f"{call} takes a release of a plan, found {type(made).__name__}: "
            f"{call}(plan.release(data))"
        )


Table = NDArray[np.float64] | NDArray[np.int64]


def valid_beside(valid: Table, columns: Columns) -> Columns:
    """The columns of an unbiased answer, with valid numbers between its cells and its figures."""
    figures = ("estimate", "std_error", "lower", "upper")
    cells: Columns = {
        "valid (attribute)" if name == "valid" else name: columns[name]
        for name in columns
        if name not in figures
    }
    beside: Columns = {"valid": valid}  # type: ignore[dict-item]
    return cells | beside | {name: columns[name] for name in figures}


def deviations(table: Table, estimate: Array, variance: Array) -> Array:
    """How far each cell is from its unbiased estimate, in standard errors of that."""
    gap, error = np.abs(table - estimate), np.sqrt(variance)
    return np.asarray(np.divide(gap, error, out=np.zeros_like(gap), where=error > 0))


def is_plain(query: Query) -> bool:
    """Whether a query asks for every value of its attributes, and nothing else."""
    return query.joint is None and all(isinstance(f, Identity) for f in query.factors.values())


def is_by_level(query: Query) -> bool:
    """Whether a query asks for every value of its attributes, or for levels of a hierarchy."""
    whole = (isinstance(factor, Identity | Level) for factor in query.factors.values())
    return query.joint is None and all(whole)


@dataclass(frozen=True, eq=False)
class Unbiased:
    """A release, or the aggregator of local reports, asked for plain tables."""

    made: Release | Aggregator
    schema: Schema
    plan: Plan | None  # an aggregator of local reports has none

    @classmethod
    def of(cls, made: Release | Aggregator, schema: Schema | None = None) -> Unbiased:
        refuse_biased(made)
        if not isinstance(made, Release | Aggregator):
            raise QueryError(
                f"valid tables are made of a release or of an aggregator of local reports, found "
                f"{type(made).__name__}: plan.release(data).valid()"
            )
        if isinstance(made, Release):
            return cls(made, schema or made.plan.schema, made.plan)
        return cls(made, schema or made.schema, None)

    @property
    def workload(self) -> Workload | None:
        """What was asked; None for aggregators of old files."""
        made = self.made
        return made.plan.workload if isinstance(made, Release) else made.workload

    @property
    def origin(self) -> str:
        """The library the data came in."""
        return self.made.origin if isinstance(self.made, Release) else ""

    @property
    def warning(self) -> str:
        """What readers must know of tables that are not for publishing; else nothing."""
        made = self.made
        return made.provenance.warning if isinstance(made, Release) else made.brand

    def names(self, one: Set) -> tuple[str, ...]:
        """Attributes by their names."""
        return tuple(self.schema.names[i] for i in one)

    def title(self, one: Set) -> str:
        """What a table is called."""
        return " × ".join(self.names(one)) or "total"

    def query(self, one: Set) -> Query:
        """The plain table on some attributes, by their numbers."""
        return Query(self.schema, self.names(one))

    def estimate(self, one: Set) -> Array:
        """The unbiased table, one axis per attribute; completed where it is not determined."""
        query, made = self.query(one), self.made  # without standard errors, which take longer
        if isinstance(made, Release):
            return made.plan.mechanism.completed(made.measurements, query).reshape(query.shape)
        return made.reconstruction.estimate(query, made.tally, made.users).reshape(query.shape)

    def variance(self, one: Set) -> Array:
        """Of the noise in every cell."""
        query, plan = self.query(one), self.plan
        found = (
            self.made.variance(query) if plan is None else plan.mechanism.completed_variance(query)
        )
        return found.reshape(query.shape)

    def told(self, query: Query) -> tuple[Array, Array] | None:
        """The unbiased answers to a query and their variances; None where there are none."""
        if self.plan is not None and self.plan.mechanism.unlisted(query) is not None:
            return None
        try:
            answer = self.made.answer(query)
        except UnanswerableError:
            return None
        return answer.estimate, answer.std_error**2

    def determined(self, one: Set) -> bool:
        """Whether every cell was measured, alone or with others that tell it; else some are
        filled in, and have no unbiased estimate."""
        return self.plan is None or self.plan.mechanism.determines(self.query(one))

    def answer(self, one: Set, level: float, simultaneous: bool) -> Answer:
        """Every cell with its errors; no numbers where the table is not determined."""
        query = self.query(one)
        if self.determined(one):
            return self.made.answer(query, level=level, simultaneous=simultaneous)
        nothing = np.full(query.rows, np.nan)
        return Answer(query, nothing, nothing, level, simultaneous, self.origin)

    def moves(self, one: Set, table: Table, estimate: Array) -> Array:
        """How far each cell is from its estimate, in standard errors; where the table is not
        determined, how far the workload's answers about its attributes are."""
        if self.determined(one):
            return deviations(table, estimate, self.variance(one)).ravel()
        counts = np.asarray(table, dtype=np.float64)
        answers = [self.made.answer(query) for query in self.queries.get(one, [])]
        found = [deviations(a.query.apply(counts), a.estimate, a.std_error**2) for a in answers]
        return np.concatenate([np.zeros(0), *found])

    @cached_property
    def queries(self) -> dict[Set, list[Query]]:
        """The workload's queries about each set of attributes."""
        found: dict[Set, list[Query]] = {}
        for query in self.workload or ():
            found.setdefault(self._numbers(query.attributes), []).append(query)
        return found

    def sets(self, tables: Iterable[Sequence[str] | str] | None) -> list[Set]:
        """The tables asked for, or those of the workload, by attribute numbers."""
        if tables is None:
            if self.workload is None:
                raise QueryError(
                    "name the tables of an aggregator whose file does not keep its workload: "
                    "valid_tables(aggregator, tables=[['age', 'sex']])"
                )
            found = set(self.queries)
        else:
            found = {self.numbers(s) for s in ([tables] if isinstance(tables, str) else tables)}
        if not found:
            raise QueryError("no table was named: valid(tables=[['age', 'sex'], ['region']])")
        for one in found:
            self._require(one)
        return sorted(found, key=lambda s: (len(s), s))

    def numbers(self, names: Sequence[str] | str) -> Set:
        """Attribute names, or one, as ascending numbers."""
        given = [names] if isinstance(names, str) else list(names)
        return self._numbers(Query(self.schema, given).attributes)

    def _numbers(self, names: Sequence[str]) -> Set:
        return tuple(self.schema.index(name) for name in names)

    def _require(self, one: Set) -> None:
        if self.plan is None:
            return
        query = self.query(one)
        try:
            self.plan.mechanism.require_completed(query)
        except UnanswerableError as error:
            raise UnanswerableError(
                f"the table of {list(query.attributes)} cell by cell is not determined by what was "
                f"measured ({error}). Name tables that are: "
                + self._determined()
                + remedy(
                    "argument",
                    "; or make the workload's own answers valid: "
                    "noiseplan.valid.valid_answers(release)",
                    "",
                )
            ) from None

    def _determined(self) -> str:
        """The call for those of the workload's tables that are determined, or how it looks."""
        names = []
        for one in sorted(set(self.queries), key=lambda s: (len(s), s)):
            try:
                self.plan.mechanism.require_completed(self.query(one))  # type: ignore[union-attr]
            except UnanswerableError:
                continue
            names.append([self.schema.names[i] for i in one])
        options = " ".join(f'--table "{", ".join(each)}"' for each in names)
        call = f"valid(tables={names})" if names else "valid(tables=[…])"
        return remedy("argument", call, options or '--table "age, sex"')
