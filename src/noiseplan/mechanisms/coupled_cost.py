"""What no record costs more than, where residuals are measured together (`mechanisms.coupled`).

Rows of an attribute are at most √β long, so its tail is no longer than |t|² ≤ β − |h|², and

    cost of x  ≤  Σ_T ∏_{i∈T} (β_i − |h_i(x_i)|²) f(x)ᵀΦ_T f(x) ,    Φ_T = MᵀM/σ²_T ,

a polynomial in the heads, as Φ_T is positive semidefinite. Plans make it all but constant. So its
terms are added up power by power, and what is left of each is taken at the largest heads there are:
of powers that are all even if it is positive, of the others with either sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.cost import or_infinite
from noiseplan.privacy.rounding import margin, product_up

if TYPE_CHECKING:
    from noiseplan.mechanisms.coupled import Coupling

# Powers of a head are 0, 1 or 2, so that those of so many heads are one number of 63 bits.
POWERS: Final = 3
MOST_HEADS: Final = 39


class Terms(NamedTuple):
    """Terms of a polynomial: powers as digits, coefficients, and the sums of their sizes."""

    powers: IntArray
    values: Array
    sizes: Array

    def gathered(self) -> Terms:
        """Each power once."""
        powers, inverse = np.unique(self.powers, return_inverse=True)
        values, sizes = np.zeros((2, len(powers)))
        np.add.at(values, inverse.ravel(), self.values.ravel())
        np.add.at(sizes, inverse.ravel(), self.sizes.ravel())
        return Terms(powers, values, sizes)

    def times(self, powers: IntArray, values: Array) -> Terms:
        """The product with a few more terms."""
        return Terms(
            np.add.outer(self.powers, powers).ravel(),
            np.multiply.outer(self.values, values).ravel(),
            np.multiply.outer(self.sizes, np.abs(values)).ravel(),
        )


class _Attribute(NamedTuple):
    """β of an attribute, the power of each of its heads, and how large these may be."""

    length: float
    powers: IntArray
    largest: Array


def largest_cost(
    bases: Sequence[Basis | None], heads: IntArray, couplings: Sequence[Coupling]
) -> float:
    """What no record costs more than, rounded up; infinite where no number is large enough."""
    if heads.sum() > MOST_HEADS:
        raise PlanError(f"more than {MOST_HEADS} heads of attributes are not priced together")
    with np.errstate(over="ignore", invalid="ignore"):
        return or_infinite(_largest(bases, heads, couplings))


def _largest(
    bases: Sequence[Basis | None], heads: IntArray, couplings: Sequence[Coupling]
) -> float:
    """The same; no number where noise is so small that some term is infinite."""
    attributes = _attributes(bases, heads)
    found = [term for coupling in couplings for term in _of_coupling(coupling, attributes)]
    every = Terms(*(np.concatenate(each) for each in zip(*found, strict=True)))
    terms = every.gathered()
    digits = terms.powers[:, None] // POWERS ** np.arange(int(heads.sum())) % POWERS
    largest = np.concatenate([attribute.largest for attribute in attributes])
    reach = np.prod(largest**digits, axis=1)
    even = (digits % 2 == 0).all(axis=1)
    squares = np.where(terms.powers > 0, np.maximum(terms.values, 0.0), terms.values)
    taken = np.where(even, squares, np.abs(terms.values))
    # Each number is a sum of so many products of a few rounded numbers, at most.
    widest = max([len(c.states) for c in couplings] + [b.rows for b in bases if b is not None])
    rounding = margin(len(every.powers) + widest) * float(terms.sizes @ reach)
    return product_up(float(taken @ reach) + rounding, 1 + margin(len(terms.powers)))


def _attributes(bases: Sequence[Basis | None], heads: IntArray) -> list[_Attribute]:
    found, first = [], 0
    for basis, count in zip(bases, heads.tolist(), strict=True):
        largest = np.zeros(0)
        if isinstance(basis, MatrixBasis):
            largest = np.abs(basis.measure[:count]).max(axis=1)
        powers = POWERS ** np.arange(first, first + count, dtype=np.int64)
        found.append(_Attribute(0.0 if basis is None else basis.sensitivity, powers, largest))
        first += count
    return found


def _of_coupling(coupling: Coupling, attributes: Sequence[_Attribute]) -> list[Terms]:
    """∏(β − |h|²) f(x)ᵀΦf(x) of each T."""
    cost = coupling.rows.T @ coupling.rows / coupling.sigma2
    sizes = np.abs(coupling.rows).T @ np.abs(coupling.rows) / coupling.sigma2
    result = []
    for row in coupling.sets.tolist():
        tails, beside = row[: coupling.tails], row[coupling.tails :]
        # Of every head that a state has, its power.
        each = [np.append(0, attributes[i].powers) for i in beside]
        states = reduce(
            np.add,
            (powers[column] for powers, column in zip(each, coupling.states.T, strict=True)),
            np.zeros(len(coupling.states), dtype=np.int64),
        )
        found = Terms(np.add.outer(states, states).ravel(), cost.ravel(), sizes.ravel()).gathered()
        for i in tails:
            own = attributes[i]
            powers = np.append(0, 2 * own.powers)
            values = np.append(own.length, -np.ones(len(own.powers)))
            found = found.times(powers, values)
        result.append(found)
    return result
