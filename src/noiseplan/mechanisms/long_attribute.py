"""A long attribute measured along its values, crossed with residuals of the other attributes.

For every measured set A of the others there is one block (`long_block`), which knows what is
measured of x_A along the long attribute, and estimates it with its errors. An answer adds up the
sets inside the query, as the residual mechanism does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices import Matrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Errors, Marginals, Measurements, Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.mechanisms.exact_residuals import require_fit
from noiseplan.mechanisms.long_answers import Asked, asked_of
from noiseplan.mechanisms.long_block import AnyBlock, LongRows
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query
from noiseplan.schema import Schema


class AlongAttribute(Mechanism):
    """What measures along one long attribute, by its place in the schema."""

    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"

    place: int

    def counts(self, marginals: Marginals, attributes: IntArray) -> NDArray[np.number]:
        """The table of one set of attributes, the long one first."""
        return np.moveaxis(marginals(attributes)[0], list(attributes[0]).index(self.place), 0)

    @abstractmethod
    def _dearest(self) -> tuple[float, int]:
        """2ρ of the record that pays most, and how many numbers it was added up from."""

    def record_cost(self, neighbours: Neighbours) -> float:
        if neighbours == "replace" and self.schema.size <= CELL_BY_CELL:
            return cell_by_cell([self], neighbours)
        self.require_noise(neighbours)
        largest, terms = self._dearest()
        record = product_up(largest, 1 + margin(terms))
        # ‖a − b‖² ≤ 2‖a‖² + 2‖b‖² for the columns of any two records.
        return record if neighbours == "add-remove" else 4 * record


@immutable
@dataclass(frozen=True, eq=False)
class LongMechanism(AlongAttribute):
    """The long attribute by its place, bases of the others, and what is measured."""

    schema: Schema
    place: int
    bases: tuple[Basis, ...]
    basis_of: IntArray  # of each attribute, −1 for none
    blocks: Sequence[AnyBlock]
    exact: int

    def __post_init__(self) -> None:
        require_fit(self.noise, [basis.measure for basis in self.bases])
        if len({block.others for block in self.blocks}) < len(self.blocks):
            raise PlanError("a set of attributes is measured by two blocks: put it into one")

    def basis(self, attribute: int) -> Basis:
        """The basis of another attribute."""
        return self.bases[int(self.basis_of[attribute])]

    def price(self, block: AnyBlock) -> float:
        """∏β of the others: what a unit of precision along the attribute costs."""
        return prod(self.basis(i).sensitivity for i in block.others)

    def other_rows(self, block: AnyBlock) -> tuple[int, ...]:
        """How many numbers of each other attribute are measured."""
        return tuple(self.basis(i).rows for i in block.others)

    def measured_at(self, rows: Sequence[LongRows | None]) -> str:
        """What is measured where some rows along the attribute are asked for, as a sentence."""
        return ""

    def on_lattice(self, exact: int) -> Mechanism:
        return replace(self, blocks=tuple(b.on_lattice(exact) for b in self.blocks), exact=exact)

    def require_comparable(self) -> None:
        raise PlanError(
            "one of the plans measures along a long attribute, by the nodes of a tree or by a "
            "series; such a plan is not compared with others, and is continued by the same queries "
            "with another budget alone, where these are measured by the same rows"
        )

    # ------------------------------------------------------------------ privacy

    def cost_matrix(self) -> Array:
        cost = np.zeros((self.schema.size, self.schema.size))
        for block in self.blocks:
            pieces = [
                block.cost_along()
                if i == self.place
                else (self.basis(i).gram if i in block.others else np.ones((n, n)))
                for i, n in enumerate(self.schema.shape)
            ]
            cost += kronecker_dense(pieces)
        return cost

    def cell_costs(self) -> Array:
        """The diagonal alone: an entry of a product is one of their diagonals."""
        shape = self.schema.shape
        costs = np.zeros(shape)
        for block in self.blocks:
            each = np.ones((1,) * len(shape))
            for i in (self.place, *block.others):
                own = block.prices_along() if i == self.place else np.diagonal(self.basis(i).gram)
                each = each * own.reshape([-1 if j == i else 1 for j in range(len(shape))])
            costs += each
        return costs.ravel()

    # ------------------------------------------------------------------ measuring

    @property
    def numbers(self) -> int:
        return sum(sum(block.counts) * prod(self.other_rows(block)) for block in self.blocks)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(*self.other_rows(block), n) for block in self.blocks for n in block.counts]

    @property
    def steps(self) -> int:
        return len(self.blocks)

    @property
    def sets(self) -> list[IntArray]:
        return [np.array([sorted((*b.others, self.place))], dtype=np.int64) for b in self.blocks]

    # ------------------------------------------------------------------ rows along the attribute

    @abstractmethod
    def rows_of(self, matrix: Matrix) -> Iterator[LongRows | None]:
        """What rows over the values ask, piece by piece; None where blocks cannot tell."""

    @abstractmethod
    def rows_of_values(self, weights: sp.csr_array, limits: Array) -> LongRows | None:
        """Any rows over the values, or over all of them together; None where blocks cannot tell.

        What differs by no more than the limit of its row is the same.
        """

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        asked_of(self, query).require()

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        estimates = self._estimates(measured)
        return lambda query: self._asked(query).answer(estimates)

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        asked = self._asked(query)
        return asked.answer(self._estimates(measured)), Errors(np.sqrt(asked.variance()))

    def _estimates(self, measured: Measurements) -> Callable[[int], list[Array]]:
        """What each block tells, found when it is first asked for."""
        known: dict[int, list[Array]] = {}
        begin = np.cumsum([0, *(len(block.counts) for block in self.blocks)])

        def estimates(number: int) -> list[Array]:
            if number not in known:
                own = measured.values[begin[number] : begin[number + 1]]
                known[number] = self.blocks[number].estimates(own)
            return known[number]

        return estimates

    def variance(self, query: Query) -> Array:
        return self._asked(query).variance()

    def covariance(self, query: Query, other: Query) -> Array:
        return self._asked(query).covariance(self._asked(other))

    def _asked(self, query: Query) -> Asked:
        """A query that is answered, or a refusal."""
        self.require(query)
        refusal = self.unlisted(query)
        if refusal is not None:
            raise UnanswerableError(refusal)
        return asked_of(self, query)


def read_others(
    saved: Mapping[str, Any], number: int, place: int, basis_of: IntArray
) -> tuple[int, ...]:
    """The other attributes of a saved block; refused where the schema has none such."""
    others = tuple(int(a) for a in saved["others"])
    known = all(0 <= a < len(basis_of) and basis_of[a] >= 0 for a in others)
    if not known or list(others) != sorted({*others} - {place}):
        raise StorageError(f"block {number} is not about attributes of the schema")
    return others
