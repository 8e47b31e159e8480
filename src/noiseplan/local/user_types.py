"""The kinds of users a workload tells apart, and its Gram matrix over them.

Notation of this room, used in every docstring:

    n   number of types: cells of the attributes asked about, cells no query tells apart as one
    x   how many users there are of each type;  N = Σx
    π   prior: the share of each type that an average is taken over (uniform over the cells)
    W   the workload over types, p rows;  G = WᵀW, weights included
    Q   strategy, outputs × types: Q[o, u] is the probability that type u reports o
    e   exp(ε), the largest ratio inside a row of Q
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from noiseplan.arrays import IntArray, first_of
from noiseplan.domain.gram import same_but_for_rounding, told_apart, workload_gram
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.device.randomizer import LARGEST_TABLE
from noiseplan.matrices.base import Array
from noiseplan.queries import Identity, Prefix, Query, Ranges, Workload
from noiseplan.schema import Schema

# Factors that are the same matrix on every attribute of a size.
NAMELESS = (Identity, Prefix, Ranges)
# Squares of squares are taken on the way.
LARGEST_SQUARE = 1e60
# Differences of rows whose squares are below this share of the Gram matrix are rounding in it.
FAINT = 1e-11
# Rows of so many numbers together are looked at one by one.
WRITTEN_OUT = 1 << 22


@dataclass(frozen=True, eq=False)
class Types:
    """The types of users over the attributes a workload asks about."""

    schema: Schema  # the attributes asked about, in the order of the full schema
    kind: IntArray  # the type of each cell
    gram: Array  # G over types
    rows: float  # p: rows of the workload, each counted with its weight

    @property
    def count(self) -> int:
        """n."""
        return len(self.gram)

    @property
    def merged(self) -> bool:
        """Whether some cells are told apart by no query."""
        return self.count < len(self.kind)

    @property
    def uniform(self) -> Array:
        """π when every cell counts the same."""
        return np.asarray(np.bincount(self.kind, minlength=self.count) / len(self.kind))

    def matrix(self, query: Query) -> Array:
        """A query over types (rows × n), refused if it tells apart what no type does."""
        dense = reduced_query(query, self.schema).dense()
        if not self.merged:
            return dense
        over_types: Array = dense[:, first_of(self.kind)]
        if not same_but_for_rounding(dense, over_types[:, self.kind]):
            raise UnanswerableError(
                f"{query.name!r} tells values apart that no query of the plan's workload tells "
                f"apart: add it to the workload and plan again"
            )
        return over_types

    def counts(self, cells: Array) -> Array:
        """x from counts of cells, in the schema's shape or flat."""
        flat = np.asarray(cells, dtype=np.float64).ravel()
        if flat.size != len(self.kind):
            raise PlanError(
                f"counts have {flat.size:,} numbers, but the table of {list(self.schema.names)} "
                f"has {len(self.kind):,} cells ({' × '.join(map(str, self.schema.shape))})"
            )
        return np.bincount(self.kind, weights=flat, minlength=self.count).astype(np.float64)

    def users(self, cells: Any) -> Array:
        """x from counts of users, which are finite and at least 0."""
        return self.counts(_users(cells))


def _users(cells: Any) -> Array:
    try:
        found = np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if not np.isfinite(found).all() or (found < 0).any():
        raise PlanError(
            "counts are numbers of users in each cell, finite and at least 0 each, and "
            "whole numbers where users are simulated"
        )
    return found


def all_cells(schema: Schema, counts: Any) -> Array:
    """Counts of users as a table over all attributes of a split."""
    found = _users(counts)
    if found.size != schema.size:
        raise PlanError(
            f"users are split over tables: give records=..., a column of values for each of "
            f"{list(schema.names)}, or counts of all {schema.size:,} cells; found {found.size:,}"
        )
    return found.reshape(schema.shape)


def asked_schema(workload: Workload) -> Schema:
    """The attributes that some query of the workload does not sum over."""
    used = sorted({int(a) for a in np.unique(workload.columns.attributes) if a >= 0})
    full = workload.schema
    return Schema({full.names[a]: full.attributes[a] for a in used or [0]})


def reduced_query(query: Query, schema: Schema) -> Query:
    """The same query over fewer attributes: those left out it must sum over."""
    missing = [n for n in query.attributes if n not in schema]
    if missing or any(query.schema[n] != schema[n] for n in query.attributes):
        raise UnanswerableError(
            f"{query.name!r} is about {list(query.attributes)}, and the plan about "
            f"{list(schema.names)}; add a query on {missing or list(query.attributes)} to the "
            f"workload and plan again"
        )
    return Query(schema, query.factors, matrix=query.joint, weight=query.weight, name=query.named)


def require_small(schema: Schema, names: Iterable[str]) -> None:
    """Refuse a table that no report can be about, be users split or not."""
    cells = prod(schema[name].size for name in names)
    if cells > LARGEST_TABLE:
        raise PlanError(
            f"the table of {sorted(names)} has {cells:,} cells, and a report can be about "
            f"{LARGEST_TABLE:,} at most: ask for smaller tables, or declare coarser values (Binned "
            f"with fewer edges, categories grouped)"
        )


def reduced_workload(workload: Workload, schema: Schema) -> Workload:
    """The same queries over fewer attributes."""
    return Workload(reduced_query(query, schema) for query in workload)


def question(query: Query, schema: Schema) -> Hashable:
    """What a query asks, its weight aside: the same for tables whose attributes only have other
    names. Factors that may look at values, not only at how many there are, keep the name."""
    if query.joint is not None:
        return query.attributes, query.joint.shape, query.joint.tobytes()
    return tuple(
        (schema.index(name) if isinstance(factor, NAMELESS) else name, factor)
        for name, factor in query.factors.items()
    )


def weighted_rows(workload: Workload) -> float:
    """p: how many rows a workload has, each counted with its weight."""
    return float(workload.columns.weights @ workload.sizes)


def _refuse_faint(workload: Workload, schema: Schema, gram: Array) -> None:
    """Refuse a workload whose Gram matrix has lost what its rows tell apart.

    A row that counts all cells alike costs nothing; if such a row is so large that the differences
    within all other rows are rounding beside it, figures made of the Gram matrix are about nothing.
    """
    told = 0.0
    for query in workload:
        if query.rows * schema.size > WRITTEN_OUT:
            return  # only rows that were written down differ so much in size
        rows = query.over(schema.names).dense()
        told = max(told, query.weight * float(np.ptp(rows, axis=1).max(initial=0.0)) ** 2)
    if 0 < told < FAINT * float(np.abs(gram).max()):
        raise PlanError(
            "rows of the workload differ too much in size: beside the largest, what tells values "
            "apart is within rounding; bring weights and rows closer, or plan the queries apart"
        )


def types_of(workload: Workload, *, merge: bool = True) -> Types:
    """Types and Gram matrix of a workload over a domain of at most `LARGEST_TABLE` cells.

    Unless cells are to `merge`, each is a type, be it told apart or not.
    """
    schema = asked_schema(workload)
    if schema.size > LARGEST_TABLE:
        for query in workload:
            require_small(schema, query.attributes)
        raise PlanError(
            f"the table of {list(schema.names)} has {prod(schema.shape):,} cells, and one strategy "
            f"matrix takes at most {LARGEST_TABLE:,}; let the users be split over smaller tables: "
            f"local.plan(workload, mechanism='split')"
        )
    gram = workload_gram(reduced_workload(workload, schema))
    if not np.abs(gram).max() <= LARGEST_SQUARE:
        raise PlanError(
            f"weights times squared rows of the workload reach {np.abs(gram).max():.3g}, and "
            f"beyond {LARGEST_SQUARE:g} nothing is planned: divide the weights by a common number"
        )
    _refuse_faint(workload, schema, gram)
    if not merge:
        return Types(schema, np.arange(schema.size), gram, weighted_rows(workload))
    # The widest first: often it tells all cells apart, and the others need not be looked at.
    widest = sorted(workload, key=lambda query: -len(query.attributes))
    kind = told_apart((query.over(schema.names) for query in widest), schema.size)
    first = first_of(kind)
    return Types(schema, kind, gram[np.ix_(first, first)], weighted_rows(workload))
