"""A workload with one long attribute, and what its queries ask of all the others.

The other attributes are planned as residuals are, on a schema where the long attribute has one
value; what is left is to be measured along it, for every set of other attributes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray
from noiseplan.matrices import IdentityMatrix
from noiseplan.matrices.base import Array
from noiseplan.planning.bounds import single_heads
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.queries import Query, Workload
from noiseplan.schema import Ordinal, Schema


@dataclass(frozen=True, eq=False)
class LongProblem(ABC):
    """The place of the long attribute, and the kinds of rows that are asked of it."""

    problem: Problem
    place: int

    @property
    @abstractmethod
    def often(self) -> Array:
        """How often each query asks for each kind of rows along the attribute."""

    @property
    @abstractmethod
    def sizes(self) -> Array:
        """What the rows of each kind count for together, when the others are planned."""

    @cached_property
    def weights(self) -> Array:
        """The weight of each query: its own, or one over its target."""
        if self.problem.priorities is not None:
            return self.problem.priorities
        return self.problem.workload.columns.weights

    @cached_property
    def _without(self) -> tuple[list[Query], IntArray]:
        """What queries ask of the other attributes, each once; and which of them each one asks."""
        workload = self.problem.workload
        schema, name = workload.schema, workload.schema.names[self.place]
        one = Schema({n: Ordinal([0]) if n == name else schema[n] for n in schema.names})
        place: dict[object, int] = {}
        found: list[Query] = []
        number: list[int] = []
        for query in workload:
            asked = Query(one, {n: f for n, f in query.factors.items() if n != name})
            number.append(place.setdefault(asked.key, len(place)))
            if number[-1] == len(found):
                found.append(asked)
        return found, np.array(number)

    @cached_property
    def design(self) -> Design:
        """The other attributes, every query as often as its rows along the long one count."""
        asked, number = self._without
        weights = np.bincount(number, self.weights * (self.often @ self.sizes))
        return prepare(Workload(asked), weights.astype(float), share=False)

    @cached_property
    def type_of_query(self) -> IntArray:
        """The type in `design` of every query."""
        return self.design.roles.type_of_query[self._without[1]]

    @cached_property
    def rows(self) -> dict[int, Array]:
        """U of every free role of the other attributes."""
        return optimise_total(self.design)

    def least(self) -> list[Array]:
        """What each set counts for a query type at least, every record alike; for each κ."""
        terms, pairs = self.design.terms, len(self.design.roles.pair_role)
        found = []
        for heads in single_heads(self.design, self.rows):
            rest, mean = np.zeros(pairs), np.zeros(pairs)
            for role in heads.values():
                for pair, kept in role.kept.items():
                    rest[pair], mean[pair] = role.rest[pair], kept[0, 0]
            none = np.zeros(len(terms.joint))
            found.append(terms.matrix(terms.coefficients(rest, mean, none)).toarray())
        return found

    def asked(self, each: sp.csr_array | Array) -> list[Array]:
        """What every set counts for each query, by kind: queries × sets, from types × sets."""
        of_types = each.toarray() if sp.issparse(each) else np.asarray(each)
        of_queries = of_types[self.type_of_query]
        return [of_queries * often[:, None] for often in self.often.T]


def long_attribute(workload: Workload, values: int) -> int | None:
    """The one attribute of more values that is not only asked by value; None if there is none."""
    found = [i for i, n in enumerate(workload.schema.shape) if n > values]
    found = [i for i in found if not asked_by_value(workload, i)]
    return found[0] if len(found) == 1 and not len(workload.columns.matrices) else None


def asked_by_value(workload: Workload, place: int) -> bool:
    """Whether an attribute is asked by value, or not at all: residuals plan that as well."""
    columns = workload.columns
    numbers = np.unique(columns.factors[columns.attributes == place])
    attribute = workload.schema.attributes[place]
    return all(isinstance(columns.distinct[n].matrix(attribute), IdentityMatrix) for n in numbers)


def factor_of_query(workload: Workload, place: int) -> IntArray:
    """The number of the factor that each query has on an attribute, −1 for none."""
    columns = workload.columns
    own = np.where(columns.attributes == place, columns.factors, -1)
    return np.asarray(own.max(axis=1, initial=-1))
