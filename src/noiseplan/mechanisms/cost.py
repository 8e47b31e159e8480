"""Compute the privacy cost of one or several mechanisms together, from the numbers they measure.

With B the strategy, Σ the covariance of its noise, a_j its rows and b_j their Laplace scales:

    add or remove a record      max_r C_rr ,    C = BᵀΣ⁻¹B, summed over the mechanisms
    replace one by another      max_{r,s} C_rr + C_ss − 2C_rs
    Laplace noise               max_r Σ_j |a_jr|/b_j ,    max_{r,s} Σ_j |a_jr − a_js|/b_j

References
----------
Gaussian noise on integers: Canonne, Kamath and Steinke 2020; several mechanisms with independent
noise are one mechanism, whose cost matrices add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.pair_distances import farthest
from noiseplan.privacy import Guarantee, Neighbours
from noiseplan.privacy.guarantee import joint_law
from noiseplan.privacy.people import person_price
from noiseplan.privacy.rounding import margin, product_up

if TYPE_CHECKING:
    from noiseplan.mechanisms.base import Mechanism

# Domains over which different mechanisms are added up cell by cell.
CELL_BY_CELL: Final = 1024


def cost_of(
    mechanisms: Sequence[Mechanism], neighbours: Neighbours, max_rows: int = 1
) -> Guarantee:
    """Return the guarantee of measuring all mechanisms, for a person with up to `max_rows` records.

    Costs are rounded up.
    """
    if len(mechanisms) == 1:
        return mechanisms[0].cost(neighbours, max_rows)
    alone = PlanError("what depends on the data has no known cost together with anything else")
    for mechanism in mechanisms:
        mechanism.require_unbiased(alone)
    return for_person(mechanisms, neighbours, max_rows)


def for_person(mechanisms: Sequence[Mechanism], neighbours: Neighbours, max_rows: int) -> Guarantee:
    """Return the guarantee for a person, computed from the cost of one record."""
    inner = [mechanism.priced for mechanism in mechanisms]
    promises = {mechanism.noise.accounting for mechanism in inner}
    if promises == {"pure"}:
        each = [mechanism.record_cost(neighbours) for mechanism in inner]
        record = Guarantee.pure(sum(each) * (1 + margin(len(each))), neighbours)
    elif "pure" in promises:
        raise PlanError("Gaussian and Laplace noise are not added up: measure with one of them")
    else:
        # Smaller domains that look the same may hold other cells: several are added over theirs.
        measured = inner if len(inner) == 1 else mechanisms
        record = Guarantee(gaussian_cost(measured, neighbours), joint_law(promises), neighbours)
        record = with_mu2(record, mechanisms)
    return record if max_rows == 1 else of_person(record, neighbours, max_rows)


def with_mu2(price: Guarantee, mechanisms: Sequence[Mechanism]) -> Guarantee:
    """Return a guarantee of mechanisms with their μ² filled in, where the noise is Gaussian.

    μ² = Σ d²/σ²_eff ≤ ℓ Σ d²/σ² = ℓ·2ρ, with the lattice loss ℓ = σ²/σ²_eff of the least σ².
    """
    loss = max((mechanism.lattice_loss for mechanism in mechanisms), default=1.0)
    if price.law != "zcdp" or not isfinite(loss):
        return replace(price, mu2=None)
    return replace(price, mu2=product_up(price.pcost, loss))


def of_person(record: Guarantee, neighbours: Neighbours, max_rows: int) -> Guarantee:
    """Return the guarantee for a person with up to `max_rows` records, from that of one record."""
    if record.neighbours != neighbours:
        raise PlanError(f"what is measured has no known cost for neighbours={neighbours!r}")
    return person_price(record, max_rows)


def of_replaced(record: Guarantee) -> Guarantee:
    """Return the guarantee for replacing a record, from that for adding or removing one: two steps.

    See `noiseplan.privacy.people`.
    """
    return replace(person_price(record, 2), neighbours="replace")


def gaussian_cost(mechanisms: Sequence[Mechanism], neighbours: Neighbours) -> float:
    """Return 2ρ of one record for all mechanisms together, rounded up.

    Where the mechanisms are of different kinds over a large domain, or over different domains, the
    result is the sum of their largest costs, which is an upper bound for every record.
    """
    measuring = [m for m in mechanisms if m.numbers]
    if not measuring:
        return 0.0
    first, *others = measuring
    one_domain = all(other.schema == first.schema for other in others)
    together = first.cost_with(others, neighbours) if one_domain else None
    if together is not None:
        return together
    if one_domain and first.schema.size <= CELL_BY_CELL:
        return cell_by_cell(measuring, neighbours)
    each = [mechanism.record_cost(neighbours) for mechanism in measuring]
    return product_up(sum(each), 1 + margin(len(each)))


def cell_by_cell(mechanisms: Sequence[Mechanism], neighbours: Neighbours) -> float:
    """Return 2ρ of one record from the cost matrices of mechanisms over the same small domain.

    It is infinite where the matrices overflow.
    """
    for mechanism in mechanisms:
        mechanism.require_noise(neighbours)
    numbers = sum(mechanism.numbers for mechanism in mechanisms)
    with np.errstate(over="ignore", invalid="ignore"):
        cost = np.sum([mechanism.cost_matrix() for mechanism in mechanisms], axis=0)
        replaced = neighbours == "replace"
        largest = farthest(cost, numbers) if replaced else float(np.diagonal(cost).max())
    return or_infinite(product_up(largest, 1 + margin(numbers)))


def or_infinite(cost: float) -> float:
    """Return the cost, or infinity where it is NaN."""
    return cost if isfinite(cost) else inf


def require_sizes(sizes: Array, costs: Array | None = None) -> None:
    """Refuse noise of size zero on a number that a record changes.

    `costs` (cases × numbers) is zero where no neighbour changes a number.
    """
    noisy = sizes > 0
    if not (noisy if costs is None else noisy | (np.atleast_2d(costs) <= 0).all(axis=0)).all():
        raise PlanError("something that depends on a record would be measured without noise")
