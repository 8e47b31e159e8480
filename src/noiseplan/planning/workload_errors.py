"""Errors over a whole workload, one number per type of query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import DependsOnData, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.row_variances import sums_and_largest
from noiseplan.planning.row_terms import worst_rows
from noiseplan.planning.solve import by_formula, group_inverses, type_matrix
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.queries import Workload

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

# Of so many kinds of queries one each is checked to be answerable; beyond, an even sample.
CHECKED_TYPES = 1000


class Figures(ABC):
    """Variances of a plan's query types; queries of one type have the same."""

    design: Design

    @property
    def workload(self) -> Workload:
        """What the plan is made for."""
        return self.design.workload

    def first_of_types(self) -> IntArray:
        """One query of each type, by its position."""
        return self.design.roles.type_first

    def require_answers(self, mechanism: Mechanism) -> None:
        """Refuse a plan that cannot answer its own workload, before anything is spent on it."""
        first = self.first_of_types()
        step = -(-len(first) // CHECKED_TYPES)
        for number in first[::step]:
            query = self.workload.query(int(number))
            try:
                mechanism.require(query)
            except UnanswerableError:
                raise UnanswerableError(
                    f"the plan does not determine {query.name!r}, which it was made for: the sizes "
                    f"of weights or of entries differ too much for double precision; bring them "
                    f"nearer to each other, or leave out what is negligible"
                ) from None

    @property
    @abstractmethod
    def type_variances(self) -> Array:
        """Sum of the row variances of one query of each type."""

    @property
    @abstractmethod
    def type_worst(self) -> Array:
        """Largest row variance of a query of each type."""

    def brief(self, plan: Plan) -> str:
        """What is known of the errors of a plan, in a word or two."""
        return f"rmse {plan.rmse:.4g}"

    @property
    def total_variance(self) -> float:
        """Σ weight · variance over all rows of all queries."""
        roles = self.design.roles
        return float((roles.type_weight * roles.type_count) @ self.type_variances)

    @property
    def worst_variance(self) -> float:
        """max weight · variance over all rows of all queries."""
        return float(np.max(self.design.roles.type_weight * self.type_worst))

    def target_scale(self, targets: Array) -> float:
        """The largest ratio of a variance to its target."""
        return float(np.max(self.type_worst / targets[self.first_of_types()]))


@dataclass(frozen=True, eq=False)
class ResidualFigures(Figures):
    """From the bases and the noise of each type of subset, without touching a single row."""

    design: Design
    bases: dict[int, Basis]
    sigma2: Array

    def _noise(self) -> Array:
        """σ² of each subset type, zero where it is not measured (and not needed)."""
        return np.where(np.isfinite(self.sigma2), self.sigma2, 0.0)

    @cached_property
    def type_variances(self) -> Array:
        return np.asarray(type_matrix(self.design, self.bases) @ self._noise())

    @cached_property
    def type_worst(self) -> Array:
        known = by_formula(self.design, self.bases)
        written = {r: basis for r, basis in self.bases.items() if r not in known}
        rows, owner = worst_rows(self.design, group_inverses(self.design, written), known)
        worst = np.zeros(self.design.terms.queries)
        np.maximum.at(worst, owner, rows @ self._noise())
        return worst


@dataclass(frozen=True, eq=False)
class RowFigures(Figures):
    """From the variances of all rows, whatever the mechanism.

    A mechanism that was not made for the types need not treat queries of one type alike; of these
    the mean sum is told, so that totals are right, and the largest variance of all.
    """

    design: Design
    mechanism: Mechanism

    @cached_property
    def _both(self) -> tuple[Array, Array]:
        kind = self.design.roles.type_of_query
        sums, largest = sums_and_largest(self.mechanism, self.design.workload)
        worst = np.zeros(int(kind.max()) + 1)
        with np.errstate(invalid="ignore"):  # what nobody knows stays unknown
            np.maximum.at(worst, kind, largest)
        return np.bincount(kind, weights=sums) / np.bincount(kind), worst

    @property
    def type_variances(self) -> Array:
        return self._both[0]

    @property
    def type_worst(self) -> Array:
        return self._both[1]


@dataclass(frozen=True, eq=False)
class LoadedFigures(Figures):
    """Those of a plan that was read, whose workload is only prepared when it is asked about.

    `kinds` tell queries apart that look alike, and are measured differently.
    """

    saved: Workload
    mechanism: Mechanism
    kinds: Array | None

    @property
    def workload(self) -> Workload:
        return self.saved

    @cached_property
    def design(self) -> Design:  # type: ignore[override]  # as good as a field
        return prepare(self.saved, self.kinds)

    @cached_property
    def _rows(self) -> RowFigures:
        return RowFigures(self.design, self.mechanism)

    @property
    def type_variances(self) -> Array:
        return self._rows.type_variances

    @property
    def type_worst(self) -> Array:
        return self._rows.type_worst


class UnknownFigures(Figures):
    """Of a plan whose errors depend on the data: every question is refused, by figures and bounds.

    It stands for what is known of its optimality too (`certificates.Optimality`).
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    @property
    def workload(self) -> Workload:
        return self._workload

    def brief(self, plan: Plan) -> str:
        return "data-aware"

    def first_of_types(self) -> IntArray:
        return np.arange(len(self._workload))

    @property
    def design(self) -> Design:  # type: ignore[override]
        raise DependsOnData

    @property
    def type_variances(self) -> Array:
        raise DependsOnData

    @property
    def type_worst(self) -> Array:
        raise DependsOnData

    @property
    def lower_bound(self) -> float:
        raise DependsOnData

    @property
    def known(self) -> float | None:
        raise DependsOnData

    @property
    def proved(self) -> bool | None:
        raise DependsOnData

    @property
    def gap(self) -> float | None:
        raise DependsOnData
