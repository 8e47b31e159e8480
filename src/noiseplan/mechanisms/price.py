"""The check before data are measured: is the stated price at least what the mechanism costs?

Every measurement of data goes through `require_price`, whether it was planned, looked at first,
chosen or continued. Only the price that is charged is taken from the plan. The cost is computed
from the mechanism by formula (`require_formula`), and over small domains a second time by measuring
every possible record alone ("by experiment", below).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isinf
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.cost import cost_of, with_mu2
from noiseplan.noise.law import Noise
from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import may_promise
from noiseplan.privacy.rounding import fraction_up

# Formulas round costs up by 10⁻¹² and more (`privacy.rounding.margin`); of several mechanisms they
# differ by less than this. What is measured of integers is added up exactly, and nothing forgiven.
ROUNDING: Final = Fraction(1, 10**11)
PROMISES: Final = {
    "pure": "the pure DP of Laplace noise",
    "gaussian": "the exact curve of continuous Gaussian noise",
    "zcdp": "the zCDP of discrete Gaussian noise",
}

# Domains small enough to measure every record, and numbers few enough to keep of each.
PROBED_CELLS: Final = 64
PROBED_NUMBERS: Final = 4096


@immutable
@dataclass(frozen=True, eq=False)
class Paid:
    """Hold the earlier measurements of the same records, and the price that was charged for them.

    A measurement that completes another is charged the cost of both together less the price that
    was paid. Alone it may cost more, because the record with the largest cost may be another one.
    """

    mechanisms: tuple[Mechanism, ...] = ()
    price: Fraction = Fraction(0)
    mu2: Fraction | None = Fraction(0)  # None where no μ is known of some of it

    def and_for(self, mechanism: Mechanism, price: Guarantee) -> Paid:
        """Return these measurements with one more mechanism, at its price."""
        mu2 = None if self.mu2 is None or price.mu2 is None else self.mu2 + Fraction(price.mu2)
        return Paid((*self.mechanisms, mechanism), self.price + Fraction(price.amount), mu2)

    def rest_of(self, total: Guarantee, left: Guarantee, mechanism: Mechanism) -> Guarantee:
        """Return `left`, the unpaid part of a total, with its μ² filled in.

        The total takes the largest lattice loss of all mechanisms, the earlier ones included.
        """
        known = with_mu2(total, (*self.mechanisms, mechanism)).mu2
        if left.law != "zcdp" or self.mu2 is None or known is None:
            return replace(left, mu2=None)
        rest = fraction_up(Fraction(known) - self.mu2) if known > self.mu2 else 0.0
        return replace(left, mu2=max(left.pcost, rest))


NOTHING: Final = Paid()


def require_price(
    mechanism: Mechanism, stated: Guarantee, max_rows: int = 1, before: Paid = NOTHING
) -> None:
    """Refuse to measure a mechanism that costs more than its stated price.

    Parameters
    ----------
    mechanism
        What is about to be measured.
    stated
        Its price, for a person with up to `max_rows` records.
    before
        Earlier measurements that this one completes; `stated` is then the price of the rest.
    """
    require_formula(mechanism, stated, max_rows, before)
    mechanisms = (*before.mechanisms, mechanism)
    if can_probe(mechanisms):
        cost = probed_cost(mechanisms, stated.neighbours) * max_rows**stated.power
        forgiven = 0 if mechanism.noise.exact else ROUNDING
        if cost > (before.price + Fraction(stated.amount)) * (1 + forgiven):
            raise _too_little(cost, before, stated)
        if stated.law == "zcdp" and stated.mu2 is not None:
            mu2 = Fraction(probed_mu2(mechanisms, stated.neighbours)) * max_rows**2
            if before.mu2 is None or mu2 > (before.mu2 + Fraction(stated.mu2)) * (1 + ROUNDING):
                raise _wrong_curve()


def require_formula(
    mechanism: Mechanism, stated: Guarantee, max_rows: int = 1, before: Paid = NOTHING
) -> None:
    """Refuse as `require_price` does, by formula alone: for plans, which measure nothing yet."""
    cost = cost_of((*before.mechanisms, mechanism), stated.neighbours, max_rows)
    if not may_promise(cost.law, stated.law):
        raise PlanError(f"the plan promises {PROMISES[stated.law]}, and has {PROMISES[cost.law]}")
    most = (before.price + Fraction(stated.amount)) * (1 + ROUNDING)
    # What is measured with hardly any noise may cost more than any number.
    if isinf(cost.amount) or Fraction(cost.amount) > most:
        raise _too_little(cost.amount, before, stated)
    if stated.law == "zcdp" and stated.mu2 is not None:
        if cost.mu2 is None or before.mu2 is None:
            raise _wrong_curve()
        if Fraction(cost.mu2) > (before.mu2 + Fraction(stated.mu2)) * (1 + ROUNDING):
            raise _wrong_curve()


def _wrong_curve() -> PlanError:
    return PlanError("the plan states a lower μ (Gaussian DP) than its noise has")


def _too_little(cost: float | Fraction, before: Paid, stated: Guarantee) -> PlanError:
    price = before.price + Fraction(stated.amount)
    return PlanError(
        f"the plan states a lower privacy cost than its noise has: {float(price):.6g}, and "
        f"what it measures costs {float(cost):.6g}"
    )


# ---------------------------------------------------------------------- by experiment
#
# What a mechanism costs, found by experiment: every possible record is measured alone.
#
# This shares nothing with the formulas of :mod:`noiseplan.mechanisms.cost`. The noise that a
# mechanism asks for is replaced by an array that notes what it is added to; so the numbers behind
# the noise, and its size, are those that are really measured, whatever the mechanism is made of.


class Note(np.ndarray[Any, Any]):
    """Stand in for noise: add zero, and record the numbers it is added to and the noise size."""

    sizes: Array
    told: Callable[[NDArray[Any], Array], None]

    @classmethod
    def of(cls, sizes: Array, told: Callable[[NDArray[Any], Array], None]) -> Note:
        note = np.zeros(sizes.shape, np.int64).view(cls)
        note.sizes, note.told = sizes, told
        return note

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        (other,) = [np.asarray(x) for x in inputs if not isinstance(x, Note)]
        if ufunc is not np.add or method != "__call__":
            raise TypeError(f"noise is added, and nothing else; found {ufunc.__name__}")
        self.told(other, np.broadcast_to(self.sizes, other.shape))
        out = kwargs.get("out", (None,))[0]
        if out is None:
            return other
        out[...] = other
        return out


@immutable
@dataclass(frozen=True, eq=False)
class Probed:
    """Hold the numbers that one record of each cell gives (cells × numbers), and the noise sizes.

    Costs of integers are fractions, up to 2⁻⁸⁰ below the true cost and never above it, so that an
    exact price passes. Costs of floats have their rounding.
    """

    values: NDArray[Any]
    sizes: Array

    def added(self, power: int) -> Fraction | float:
        """The largest cost of adding or removing a record: 2ρ, or ε."""
        bare = self.sizes == 0
        if (self.values[:, bare] != 0).any():
            return inf
        if not self.values.size or bare.all():
            return Fraction(0)
        order = np.argsort(self.sizes, kind="stable")[bare.sum() :]
        sizes, starts = np.unique(self.sizes[order], return_index=True)
        lengths = np.abs(self.values[:, order]) ** power
        sums = np.add.reduceat(lengths, starts, axis=1)
        if self.values.dtype.kind == "f":
            return float((sums / sizes).sum(axis=1).max())
        unit = 1 << max(0, 80 + int(np.log2(sizes[-1])) + 1)
        prices = [unit // Fraction(size) for size in sizes.tolist()]
        return Fraction(max(sums.astype(object) @ prices), unit)

    def effective(self, exact: int) -> Probed:
        """Return these numbers with σ²_eff (`privacy.conversions.lattice_variance`) for σ²."""
        if not exact:
            return self
        square = self.sizes * exact**2
        root = np.sqrt(np.maximum(square * square - square / 3, 0.0))
        return replace(self, sizes=np.where(square > 1 / 3, (square + root) / 2, 0.0) / exact**2)

    def replaced(self, power: int) -> Fraction | float:
        """The largest cost of replacing a record by another."""
        pairs = [
            replace(self, values=self.values[r] - self.values[r + 1 :]).added(power)
            for r in range(len(self.values))
        ]
        return max(pairs, default=Fraction(0))


_KNOWN: WeakKeyDictionary[Mechanism, Probed] = WeakKeyDictionary()


def can_probe(mechanisms: Sequence[Mechanism]) -> bool:
    """Return whether the domain is small enough to measure every possible record."""
    few = mechanisms[0].schema.size <= PROBED_CELLS
    return few and sum(m.most_numbers for m in mechanisms) <= PROBED_NUMBERS


def probed_cost(mechanisms: Sequence[Mechanism], neighbours: str) -> Fraction | float:
    """Return 2ρ, or ε for Laplace noise, of one record for all mechanisms, by its definition."""
    whole = _probed(mechanisms)
    (power,) = {mechanism.noise.power for mechanism in mechanisms}
    return whole.added(power) if neighbours == "add-remove" else whole.replaced(power)


def probed_mu2(mechanisms: Sequence[Mechanism], neighbours: str) -> Fraction | float:
    """Return μ² = max Σ d²/σ²_eff of discrete Gaussian noise, for one record."""
    whole = _probed(mechanisms, effective=True)
    return whole.added(2) if neighbours == "add-remove" else whole.replaced(2)


def _probed(mechanisms: Sequence[Mechanism], effective: bool = False) -> Probed:
    for mechanism in mechanisms:
        if mechanism not in _KNOWN:  # measured once: no array of it can be changed
            shape = mechanism.schema.shape
            told = [_measured(mechanism, cell, shape) for cell in range(mechanism.schema.size)]
            rows, (sizes, *_) = zip(*told, strict=True)
            _KNOWN[mechanism] = Probed(np.array(rows), sizes)
    parts = [_KNOWN[mechanism] for mechanism in mechanisms]
    if effective:
        parts = [
            part.effective(mechanism.noise.exact)
            for part, mechanism in zip(parts, mechanisms, strict=True)
        ]
    values = np.concatenate([part.values for part in parts], axis=1)
    if values.dtype == object and values.size:  # in 64 bits where all sums fit them
        most = (2 * int(np.abs(values).max())) ** 2 * values.shape[1]
        values = values.astype(np.int64) if most < 2**62 else values
    return Probed(values, np.concatenate([part.sizes for part in parts]))


def _measured(
    mechanism: Mechanism, cell: int, shape: tuple[int, ...]
) -> tuple[NDArray[Any], Array]:
    """Return the numbers that one record of a cell gives, and the size of the noise on each.

    The numbers are Python's integers where the noise is exact.
    """
    counts = np.zeros(shape, np.int64)
    counts.flat[cell] = 1
    kind = object if mechanism.noise.exact else np.float64
    values: list[NDArray[Any]] = []
    sizes: list[Array] = []

    def told(numbers: NDArray[Any], noise: Array) -> None:
        values.append(numbers.astype(kind).ravel())
        sizes.append(np.asarray(noise, dtype=np.float64).ravel())

    def sample(size: tuple[int, ...], noise: Noise) -> Note:
        return Note.of(np.broadcast_to(noise.size, size).copy(), told)

    def marginals(sets: IntArray) -> IntArray:
        axes = [tuple(set(range(len(shape))) - set(row)) for row in sets.tolist()]
        return np.array([counts.sum(axis=out) for out in axes])

    mechanism.measure(marginals, sample)
    empty = np.zeros(0)
    return np.concatenate([empty.astype(kind), *values]), np.concatenate([empty, *sizes])
