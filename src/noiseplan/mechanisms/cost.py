"""What mechanisms cost together, from what each says of itself: the one place that adds them up.

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
    """What measuring all of these costs a person with up to `max_rows` records, rounded up."""
    if len(mechanisms) == 1:
        return mechanisms[0].cost(neighbours, max_rows)
    alone = PlanError("what depends on the data has no known cost together with anything else")
    for mechanism in mechanisms:
        mechanism.require_unbiased(alone)
    return for_person(mechanisms, neighbours, max_rows)


def for_person(mechanisms: Sequence[Mechanism], neighbours: Neighbours, max_rows: int) -> Guarantee:
    """By the cost of one record, from what mechanisms measure."""
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
    """Return a price with the μ² of what it is the price of, where that noise is Gaussian.

    μ² = Σ d²/σ²_eff ≤ ℓ Σ d²/σ² = ℓ·2ρ, with the lattice loss ℓ = σ²/σ²_eff of the least σ².
    """
    loss = max((mechanism.lattice_loss for mechanism in mechanisms), default=1.0)
    if price.law != "zcdp" or not isfinite(loss):
        return replace(price, mu2=None)
    return replace(price, mu2=product_up(price.pcost, loss))


def of_person(record: Guarantee, neighbours: Neighbours, max_rows: int) -> Guarantee:
    """What a person with up to `max_rows` records pays, where one record pays this."""
    if record.neighbours != neighbours:
        raise PlanError(f"what is measured has no known cost for neighbours={neighbours!r}")
    return person_price(record, max_rows)


def of_replaced(record: Guarantee) -> Guarantee:
    """What it costs at most to replace a record, where to add or remove one costs this: two steps
    (`noiseplan.privacy.people`)."""
    return replace(person_price(record, 2), neighbours="replace")


def gaussian_cost(mechanisms: Sequence[Mechanism], neighbours: Neighbours) -> float:
    """2ρ of one record for all mechanisms together, rounded up.

    Where mechanisms are of different kinds and the domain is large, or not the same, the costs of
    each are added: no record pays more.
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
    """2ρ of one record, by the cost matrices of mechanisms over the same small domain; infinite
    where no number is large enough."""
    for mechanism in mechanisms:
        mechanism.require_noise(neighbours)
    numbers = sum(mechanism.numbers for mechanism in mechanisms)
    with np.errstate(over="ignore", invalid="ignore"):
        cost = np.sum([mechanism.cost_matrix() for mechanism in mechanisms], axis=0)
        replaced = neighbours == "replace"
        largest = farthest(cost, numbers) if replaced else float(np.diagonal(cost).max())
    return or_infinite(product_up(largest, 1 + margin(numbers)))


def or_infinite(cost: float) -> float:
    """A cost that is known; of differences of infinite numbers nothing is."""
    return cost if isfinite(cost) else inf


def require_sizes(sizes: Array, costs: Array | None = None) -> None:
    """Refuse numbers without noise, but those that no neighbour changes: `costs`, cases × numbers,
    are zero there."""
    noisy = sizes > 0
    if not (noisy if costs is None else noisy | (np.atleast_2d(costs) <= 0).all(axis=0)).all():
        raise PlanError("something that depends on a record would be measured without noise")
