"""Several mechanisms with noise of their own, side by side: what each would tell by itself.

    row w of a query:   x̂_w = Σ_m p_m x̂_{w,m} / Σ_m p_m ,   p_m = 1/variance of w by mechanism m

over the mechanisms that determine the query: unbiased, and better than the best of them alone. No
numbers of different mechanisms are fitted to each other, so that these may be of any kind and
size; what only several of them together determine is not answered, and queries of different tables
need not agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json, beginning_with, immutable
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import (
    Errors,
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    saved_kind,
    undetermined,
)
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.noise.law import LEAST_VARIANCE, Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

# Arrays of each mechanism are told apart by this and its number.
PART: Final = "part{}_"
APART: Final = (
    "one of the plans measures queries apart, with noise of their own; such a plan is not compared "
    "with others, and is continued by the same queries with another budget alone, where these are "
    "measured by the same rows"
)


@immutable
@dataclass(frozen=True, eq=False)
class SideBySide(Mechanism):
    """`mechanisms` over one schema, with noise of one kind, that no data choose."""

    kind: ClassVar[str] = "side by side"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"
    undivided: ClassVar[str | None] = APART

    mechanisms: tuple[Mechanism, ...]
    grouped: bool = False  # whether any of them is for several queries

    def __post_init__(self) -> None:
        kinds = {(each.noise.kind, each.noise.exact, each.schema) for each in self.mechanisms}
        other = PlanError("mechanisms side by side have one schema, and noise of one kind")
        if len(kinds) != 1:
            raise other
        for each in self.mechanisms:
            each.require_unbiased(other)

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.mechanisms[0].schema

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        first = self.mechanisms[0].noise
        return first.of_size(np.concatenate([each.noise.size for each in self.mechanisms]))

    # ------------------------------------------------------------------ what is measured

    @property
    def numbers(self) -> int:
        return sum(each.numbers for each in self.mechanisms)

    @property
    def sets(self) -> list[IntArray]:
        return [sets for each in self.mechanisms for sets in each.sets]

    @property
    def steps(self) -> int:
        return sum(each.steps for each in self.mechanisms)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [shape for each in self.mechanisms for shape in each.shapes]

    def check(self, measured: Measurements) -> None:
        super().check(measured)
        for each, own in self._own(measured):
            each.check(own)

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        found = (each.measure(marginals, sample, progress) for each in self.mechanisms)
        return Measurements(tuple(values for own in found for values in own.values))

    def _own(self, measured: Measurements) -> Iterator[tuple[Mechanism, Measurements]]:
        """Every mechanism with what it measured."""
        start = 0
        for each in self.mechanisms:
            end = start + len(each.shapes)
            yield each, Measurements(measured.values[start:end])
            start = end

    def describe(self) -> str:
        what = "groups of queries" if self.grouped else "queries"
        each = f"{len(self.mechanisms):,} {what} each by itself"
        return f"{self.numbers:,} noisy numbers for {each}, whose answers need not agree"

    @property
    def caution(self) -> str:  # type: ignore[override]
        if self.grouped:
            return "Groups of queries were measured by themselves: tables need not add up."
        return "Each query was measured by itself: tables need not add up."

    def on_lattice(self, exact: int) -> Mechanism:
        return replace(self, mechanisms=tuple(each.on_lattice(exact) for each in self.mechanisms))

    def require_comparable(self) -> None:
        raise PlanError(APART)

    # ------------------------------------------------------------------ privacy

    def record_cost(self, neighbours: Neighbours) -> float:
        """No record costs more than the sum of the dearest; squares are added cell by cell where
        these are few, since other records may be the dearest of each."""
        each = [mechanism.record_cost(neighbours) for mechanism in self.mechanisms]
        added = product_up(sum(each), 1 + margin(len(each)))
        if self.schema.size > CELL_BY_CELL:
            return added
        return self.noise.least_sum(added, lambda: cell_by_cell(self.mechanisms, neighbours))

    @property
    def inner(self) -> tuple[Mechanism, ...]:
        return self.mechanisms

    def with_inner(self, inner: tuple[Mechanism, ...]) -> SideBySide:
        return replace(self, mechanisms=inner)

    def require_noise(self, neighbours: Neighbours) -> None:
        for each in self.mechanisms:
            each.require_noise(neighbours)

    def cost_matrix(self) -> Array:
        return np.asarray(sum(each.cost_matrix() for each in self.mechanisms))

    def cell_costs(self) -> Array:
        return np.asarray(sum(each.cell_costs() for each in self.mechanisms))

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        self._told(query)

    def _told(self, query: Query) -> dict[int, tuple[Array, Array]]:
        """By the number of every mechanism that determines a query: p_m / Σ p_m of its rows, and
        their variances by it."""
        own = {i: each for i, each in enumerate(self.mechanisms) if each.determines(query)}
        if not own:
            raise undetermined(query, "what is measured for one query of the plan alone")
        variances = np.array([each.variance(query) for each in own.values()])
        precision = 1.0 / np.maximum(variances, LEAST_VARIANCE)  # rows of zeros have none
        shares = precision / precision.sum(axis=0)
        return dict(zip(own, zip(shares, variances, strict=True), strict=True))

    def agreeing(self, queries: Sequence[Query]) -> list[list[int]]:
        """Those that one and the same mechanism determines, and no other: means of several have
        shares of each that differ from row to row."""
        own: list[list[int]] = [[] for _ in self.mechanisms]
        for place, query in enumerate(queries):
            telling = [i for i, each in enumerate(self.mechanisms) if each.determines(query)]
            if len(telling) == 1:
                own[telling[0]].append(place)
        found: list[list[int]] = []
        for mechanism, places in zip(self.mechanisms, own, strict=True):
            within = mechanism.agreeing([queries[place] for place in places])
            groups = [range(len(places))] if within is None else within
            found += [[places[i] for i in group] for group in groups if group]
        return found

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        answers = [each.answering(own) for each, own in self._own(measured)]

        def answer(query: Query) -> Array:
            told = self._told(query).items()
            return np.asarray(sum(share * answers[i](query) for i, (share, _) in told))

        return answer

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        own, told = list(self._own(measured)), self._told(query)
        each = (share * own[i][0].answer(own[i][1], query) for i, (share, _) in told.items())
        return np.asarray(sum(each)), Errors(np.sqrt(_of_mean(told)))

    def variance(self, query: Query) -> Array:
        return _of_mean(self._told(query))

    def covariance(self, query: Query, other: Query) -> Array:
        one, two = self._told(query), self._told(other)
        found = np.zeros((query.rows, other.rows))
        for i in one.keys() & two.keys():
            both = self.mechanisms[i].covariance(query, other)
            found += one[i][0][:, None] * both * two[i][0]
        return found

    def figures_alike(self, workload: Workload, group: IntArray) -> tuple[Array, Array]:
        """By the one mechanism that determines a query, where it is one: it may know them of more
        rows than can be listed. What several tell of such rows is not known."""
        query = workload.query(int(group[0]))
        own = [each for each in self.mechanisms if each.determines(query)]
        if len(own) == len(group) == 1:
            return own[0].figures_alike(workload, group)
        if self.unlisted(query) is not None:
            return np.full(len(group), np.nan), np.full(len(group), np.nan)
        return super().figures_alike(workload, group)

    # ------------------------------------------------------------------ listing

    def unlisted(self, query: Query) -> str | None:
        own = (each for each in self.mechanisms if each.determines(query))
        return next((reason for each in own if (reason := each.unlisted(query)) is not None), None)

    def listed(self, workload: Workload) -> Iterator[Query]:
        return (query for query in workload if self.unlisted(query) is None)

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        saved: list[Json] = []
        arrays: Arrays = {}
        for i, each in enumerate(self.mechanisms):
            content, own = each.parts()
            saved.append(content)
            arrays |= {PART.format(i) + name: array for name, array in own.items()}
        grouped = {"grouped": True} if self.grouped else {}
        return {"kind": self.kind, "mechanisms": saved, **grouped}, arrays

    @classmethod
    def from_parts(cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> SideBySide:
        found = []
        for i, saved in enumerate(content["mechanisms"]):
            own = beginning_with(PART.format(i), arrays)
            found.append(saved_kind(saved["kind"]).from_parts(saved, own, schema))
        return cls(tuple(found), content.get("grouped") is True)


def _of_mean(told: Mapping[int, tuple[Array, Array]]) -> Array:
    """The variance of a mean by shares of each."""
    return np.asarray(sum(share**2 * variance for share, variance in told.values()))
