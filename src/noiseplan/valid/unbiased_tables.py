"""What valid tables are made from: unbiased tables with their variances, whoever made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import NoiseplanError, PlanError, QueryError, UnanswerableError, remedy
from noiseplan.local.server.aggregator import Aggregator
from noiseplan.matrices.base import Array
from noiseplan.planning.plan import Plan
from noiseplan.queries import Identity, Level, Query, Workload
from noiseplan.queries.query import attribute_names
from noiseplan.release.answers import Answer, Columns
from noiseplan.release.release import Release
from noiseplan.schema import Schema
from noiseplan.valid.coarser_cells import CoarserCells, common_groups, is_table
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
# Attributes and levels, the name of a query of the workload, or a query.
NamedTables = Iterable[Sequence[str] | str | Query]
# Calls that a refusal names for tables of groups, and the largest domain of valid answers.
SHOWN: Final = 4
SMALL: Final = 4096


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
    cells: CoarserCells | None = None  # where tables are over groups of values, as the schema is

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
        """The plain table on some attributes, by their numbers, as the release is asked for it."""
        return self.of_values(Query(self.schema, self.names(one)))

    def of_values(self, query: Query) -> Query:
        """A query over the schema of these tables, as the release is asked it."""
        return query if self.cells is None else self.cells.of_values(query)

    def asked(self, query: Query | str) -> Query:
        """A query, or one of the workload by its name, over the schema of these tables."""
        found = query if self.workload is None else self.workload.asked(query)
        if not isinstance(found, Query):
            raise QueryError(
                f"the file of the aggregator keeps no names of queries, found {query!r}: "
                f"answer(nz.Query(schema, ['age']))"
            )
        if self.cells is None or found.schema == self.schema:
            return found
        held = self.cells.of_groups(found)
        if held is None:
            raise QueryError(
                f"{found.name!r} tells values apart that are one group in these tables of "
                f"{', '.join(map(repr, self.schema.names))}; make valid what it asks for"
            )
        return held

    def answered(self, query: Query) -> Answer:
        """The unbiased answers to a query over the schema of these tables."""
        return replace(self.made.answer(self.of_values(query)), query=query)

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
        asked = self.of_values(query)
        if self.plan is not None and self.plan.mechanism.unlisted(asked) is not None:
            return None
        try:
            answer = self.made.answer(asked)
        except UnanswerableError:
            return None
        return answer.estimate, answer.std_error**2

    def determined(self, one: Set) -> bool:
        """Whether every cell was measured, alone or with others that tell it; else some are
        filled in, and have no unbiased estimate."""
        return self.plan is None or self.plan.mechanism.determines(self.query(one))

    def answer(self, one: Set, level: float, simultaneous: bool) -> Answer:
        """Every cell with its errors; no numbers where the table is not determined."""
        query = Query(self.schema, self.names(one))
        if self.determined(one):
            found = self.made.answer(self.query(one), level=level, simultaneous=simultaneous)
            return replace(found, query=query)
        nothing = np.full(query.rows, np.nan)
        return Answer(query, nothing, nothing, level, simultaneous, self.origin)

    def moves(self, one: Set, table: Table, estimate: Array) -> Array:
        """How far each cell is from its estimate, in standard errors; where the table is not
        determined, how far the workload's answers about its attributes are."""
        if self.determined(one):
            return deviations(table, estimate, self.variance(one)).ravel()
        counts = np.asarray(table, dtype=np.float64)
        answers = [self.answered(query) for query in self.queries.get(one, [])]
        found = [deviations(a.query.apply(counts), a.estimate, a.std_error**2) for a in answers]
        return np.concatenate([np.zeros(0), *found])

    @cached_property
    def queries(self) -> dict[Set, list[Query]]:
        """The workload's queries about each set of attributes, over the schema of these tables."""
        found: dict[Set, list[Query]] = {}
        for query in self.workload or ():
            held = query if self.cells is None else self.cells.of_groups(query)
            if held is not None:
                found.setdefault(self._numbers(held.attributes), []).append(held)
        return found

    @property
    def finer(self) -> list[Query]:
        """The workload's queries that tell values of one group apart."""
        cells = self.cells
        if cells is None:
            return []
        return [query for query in self.workload or () if cells.of_groups(query) is None]

    def grouped(self, tables: NamedTables | None) -> tuple[Unbiased, list[list[str]] | None]:
        """The same over the groups that tables are named by, and the tables by their attributes."""
        if tables is None:
            return self, None
        named = [tables] if isinstance(tables, str | Query) else list(tables)
        asked = [self._named(one) for one in named]
        cells = CoarserCells(self.schema, common_groups(self.schema, [query for query, _ in asked]))
        plain = [[cells.names[name] for name in order] for _, order in asked]
        return (replace(self, schema=cells.schema, cells=cells) if cells.grouped else self), plain

    def _named(self, table: Sequence[str] | str | Query) -> tuple[Query, Sequence[str]]:
        """A table by its attributes and levels, or by the name of a query of the workload; and its
        attributes in the order they are named in."""
        if isinstance(table, Query):
            return table, table.attributes
        try:
            names = attribute_names([table] if isinstance(table, str) else table, self.schema)
            order = [self.schema.levels.get(name, (name,))[0] for name in names]
            return Query(self.schema, names), order
        except NoiseplanError:
            if isinstance(table, str) and self.workload is not None:
                with suppress(NoiseplanError):
                    found = self.workload.asked(table)
                    return found, found.attributes
            raise

    def sets(self, tables: Iterable[Sequence[str]] | None) -> list[Set]:
        """The tables asked for, or those of the workload, by attribute numbers."""
        if tables is None:
            if self.workload is None:
                raise QueryError(
                    "name the tables of an aggregator whose file does not keep its workload: "
                    "valid_tables(aggregator, tables=[['age', 'sex']])"
                )
            found = set(self.queries)
        else:
            found = {self.numbers(s) for s in tables}
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
                f"the table of {list(self.names(one))} cell by cell is not determined by what was "
                f"measured ({error}). Name tables that are: " + self._determined()
            ) from None

    def _determined(self) -> str:
        """Calls for those of the workload's tables that are determined, or how one looks."""
        whole = self if self.cells is None else replace(self, schema=self.cells.values, cells=None)
        together, apart = whole.held()
        calls = [named_call(together)] if together else []
        calls += [named_call([name]) for name in apart[:SHOWN]]
        if not calls:
            calls = [remedy("argument", "valid(tables=[…])", '--table "age, sex"')]
        found = calls[0]
        for call in calls[1:]:
            found = found + "; or, for itself, " + call
        if whole.schema.size <= SMALL:
            own = (
                "; or make the workload's own answers valid: noiseplan.valid.valid_answers(release)"
            )
            found = found + remedy("argument", own, "")
        return found

    def held(self) -> tuple[list[list[str]], list[str | list[str]]]:
        """Tables of values that are determined, and tables of groups, each for itself."""
        together: list[list[str]] = []
        apart: list[str | list[str]] = []
        for one in sorted(set(self.queries), key=lambda s: (len(s), s)):
            if self._tells(self.query(one)):
                together.append(list(self.names(one)))
                continue
            apart += [name for query in self.queries[one] if (name := self._by_groups(query))]
        return together, apart

    def _by_groups(self, query: Query) -> str | list[str] | None:
        """How the table of groups is named whose cells a query asks for; None if there is none."""
        if query.joint is not None:
            return None
        if is_table(query):
            return query.name
        levels = {
            name: factor if isinstance(factor, Level) and len(factor.levels) == 1 else Identity()
            for name, factor in query.factors.items()
        }
        cells = Query(self.schema, levels)
        return list(cells.headings) if self._tells(cells) else None

    def _tells(self, query: Query) -> bool:
        try:
            self.plan.mechanism.require_completed(query)  # type: ignore[union-attr]
        except UnanswerableError:
            return False
        return True


def named_call(tables: Sequence[Sequence[str] | str]) -> str:
    """The call that makes some tables valid, and the options of the command."""
    names = [one if isinstance(one, str) else ", ".join(one) for one in tables]
    options = " ".join(f'--table "{name}"' for name in names)
    return remedy("argument", f"valid(tables={list(tables)})", options)
