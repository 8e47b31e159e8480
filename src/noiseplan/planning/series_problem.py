"""A workload about a long attribute in order: prefix sums, ranges, groups, single values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.series_kinds import SeriesKind
from noiseplan.matrices import (
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
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
    if isinstance(matrix, StackMatrix):
        parts = [_kinds(block) for block in matrix.blocks]
        return None if None in parts else [kind for part in parts for kind in part or ()]
    bounds = np.arange(matrix.shape[1] + 1)
    if isinstance(matrix, TotalMatrix):
        return [SeriesKind("total", bounds[[0, -1]])]
    if isinstance(matrix, IdentityMatrix):
        return [SeriesKind("values", bounds)]
    if isinstance(matrix, PrefixMatrix):
        return [SeriesKind("prefix", bounds)]
    if isinstance(matrix, RangesMatrix):
        return [SeriesKind("ranges", bounds)]
    found = group_bounds(matrix.group) if isinstance(matrix, GroupMatrix) else None
    return None if found is None else [SeriesKind("groups", found)]


def _key(kind: SeriesKind) -> tuple[str, bytes]:
    return kind.name, kind.bounds.tobytes() if kind.name == "groups" else b""


def rows_of_kind(kind: SeriesKind) -> SeriesRows:
    """The rows that are asked, over the values."""
    if kind.name == "ranges":
        return AllRanges(kind.values)
    if kind.name == "prefix":
        return Spans.prefixes(kind.values)
    return Spans.between(kind.bounds)
