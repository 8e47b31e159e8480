"""A workload about a long attribute in order: prefix sums, ranges, groups, single values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.series_kinds import Name, SeriesKind
from noiseplan.matrices import (
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.series_rows import AllRanges, SeriesRows, Spans, group_bounds
from noiseplan.planning import limits
from noiseplan.planning.long_problem import LongProblem, factor_of_query, long_attribute
from noiseplan.planning.problem import Problem

# Kinds that a tree does not have.
ALONG = ("prefix", "ranges")


@dataclass(frozen=True, eq=False)
class SeriesProblem(LongProblem):
    """The kinds of rows that are asked, and those that each query asks for."""

    kinds: tuple[SeriesKind, ...]
    of_query: tuple[IntArray, ...]  # of each query, with repetition

    @cached_property
    def often(self) -> Array:
        return np.array([np.bincount(own, minlength=len(self.kinds)) for own in self.of_query])

    @cached_property
    def sizes(self) -> Array:
        return np.array([kind.norm for kind in self.kinds])

    @cached_property
    def bounded(self) -> tuple[SeriesKind, ...]:
        """What the kinds ask of the values in order, without the cell of missing ones behind them.

        Whatever serves all records serves those whose value is stated, so that a bound for them is
        one for all.
        """
        attribute = self.problem.workload.schema.attributes[self.place]
        if attribute.missing is None:
            return self.kinds
        ends = [np.unique(np.minimum(kind.bounds, attribute.stated)) for kind in self.kinds]
        pairs = zip(self.kinds, ends, strict=True)
        return tuple(SeriesKind(kind.name, bounds) for kind, bounds in pairs)

    @property
    def ranges(self) -> bool:
        """Whether all ranges are asked for."""
        return any(kind.name == "ranges" for kind in self.kinds)


def series_problem(problem: Problem) -> SeriesProblem | None:
    """The problem as one along ordered values, if prefix sums or ranges of many are asked for."""
    place = long_attribute(problem.workload, limits.SERIES_VALUES)
    if place is None:
        return None
    attribute, columns = problem.workload.schema.attributes[place], problem.workload.columns
    own = factor_of_query(problem.workload, place)
    asked: dict[int, list[SeriesKind] | None] = {}
    for number in np.unique(own).tolist():
        matrix = columns.distinct[number].matrix(attribute) if number >= 0 else None
        asked[number] = _kinds(matrix or TotalMatrix(attribute.size))
    known = {number: kinds for number, kinds in asked.items() if kinds is not None}
    kinds = {_key(kind): kind for each in known.values() for kind in each}
    if len(known) < len(asked) or not any(kind.name in ALONG for kind in kinds.values()):
        return None
    place_of = {key: i for i, key in enumerate(kinds)}
    numbers = {n: np.array([place_of[_key(kind)] for kind in each]) for n, each in known.items()}
    of_query = tuple(numbers[int(n)] for n in own)
    return SeriesProblem(problem, place, tuple(kinds.values()), of_query)


def _kinds(matrix: Matrix) -> list[SeriesKind] | None:
    """What a factor asks, or None if it is none of these."""
    parts = [_kind(part) for part in stacked_parts(matrix)]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None


def _kind(matrix: Matrix) -> SeriesKind | None:
    if isinstance(matrix, PaddedMatrix):
        # Planned as if rows went on to the missing values, which are one place behind the others.
        found = _kind(matrix.inner)
        if found is None:
            return None
        name: Name = "groups" if found.name == "total" else found.name
        return SeriesKind(name, np.append(found.bounds, matrix.columns))
    bounds = np.arange(matrix.shape[1] + 1)
    if isinstance(matrix, TotalMatrix):
        return SeriesKind("total", bounds[[0, -1]])
    if isinstance(matrix, IdentityMatrix):
        return SeriesKind("values", bounds)
    if isinstance(matrix, PrefixMatrix):
        return SeriesKind("prefix", bounds)
    if isinstance(matrix, RangesMatrix):
        return SeriesKind("ranges", bounds)
    group = group_bounds(matrix.group) if isinstance(matrix, GroupMatrix) else None
    return None if group is None else SeriesKind("groups", group)


def _key(kind: SeriesKind) -> tuple[str, bytes]:
    return kind.name, kind.bounds.tobytes() if kind.name == "groups" else b""


def rows_of_kind(kind: SeriesKind) -> SeriesRows:
    """The rows that are asked, over the values."""
    if kind.name == "ranges":
        return AllRanges(kind.values)
    if kind.name == "prefix":
        return Spans.prefixes(kind.values)
    return Spans.between(kind.bounds)
