"""What mechanisms cost, computed from all that they measure: the one place that says so.

    add or remove a record      max_r C_rr ,    C = BᵀΣ⁻¹B, summed over the mechanisms
    replace one by another      max_{r,s} C_rr + C_ss − 2C_rs
    Laplace noise               max_r Σ_j |a_jr|/b_j ,    twice that to replace one

A residual mechanism has C = Σ_A σ_A⁻² ⊗_{i∈A} U_iᵀU_i, and no set A stands for another: two sets
that look alike may have different noise, or one of them none at all because it was measured before.

References
----------
Gaussian noise on integers: Canonne, Kamath and Steinke 2020; several mechanisms with independent
noise are one mechanism, whose cost matrices add.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Final, Protocol, runtime_checkable

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices import IdentityMatrix, Matrix, Transform
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.product import ProductMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.replacing import replaced_cost
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.tables import TablesMechanism
from noiseplan.privacy import Guarantee, Law, Neighbours
from noiseplan.privacy.people import person_cost
from noiseplan.privacy.rounding import margin, product_up

# Domains over which different mechanisms are added up cell by cell.
CELL_BY_CELL: Final = 1024


@runtime_checkable
class SelfPriced(Protocol):
    """A mechanism that measures in steps of its own, and says what they cost together."""

    @property
    def privacy(self) -> Guarantee: ...


def cost_of(
    mechanisms: Sequence[Mechanism], neighbours: Neighbours, max_rows: int = 1
) -> Guarantee:
    """What measuring all of these costs a person with up to `max_rows` records, rounded up."""
    if len(mechanisms) == 1 and isinstance(mechanisms[0], SelfPriced):
        return _of_person(mechanisms[0].privacy, neighbours, max_rows)
    inner = [m.small if isinstance(m, ReducedMechanism) else m for m in mechanisms]
    if not any(map(_laplace, inner)):
        law: Law = "zcdp" if any(getattr(m, "integer", False) for m in inner) else "gaussian"
        record = Guarantee(gaussian_cost(inner, neighbours), law, neighbours)
    elif all(map(_laplace, inner)):
        epsilon = sum(map(laplace_cost, inner)) * (1 + margin(len(inner)))
        record = Guarantee.pure(epsilon if neighbours == "add-remove" else 2 * epsilon, neighbours)
    else:
        raise PlanError("Gaussian and Laplace noise are not added up: measure with one of them")
    return _of_person(record, neighbours, max_rows)


def _of_person(record: Guarantee, neighbours: Neighbours, max_rows: int) -> Guarantee:
    if record.neighbours != neighbours:
        raise PlanError(f"what is measured has no known cost for neighbours={neighbours!r}")
    if max_rows > 1 and neighbours == "replace":
        raise PlanError("replacing a person with several records has no known cost")
    if record.pure_epsilon is not None:
        return Guarantee.pure(person_cost(record.pure_epsilon, max_rows, pure=True), neighbours)
    return Guarantee(person_cost(record.pcost, max_rows), record.law, neighbours)


def _laplace(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, TablesMechanism) or getattr(mechanism, "scale", None) is not None


# ---------------------------------------------------------------------- Gaussian noise


def gaussian_cost(mechanisms: Sequence[Mechanism], neighbours: Neighbours) -> float:
    """2ρ of one record for all mechanisms together, rounded up.

    Where mechanisms are of different kinds and the domain is large, the costs of each are added: no
    record pays more.
    """
    measuring = [m for m in mechanisms if m.numbers]
    if not measuring:
        return 0.0
    residual = [m for m in measuring if isinstance(m, ResidualMechanism)]
    if len(residual) == len(measuring) and _same_bases(residual):
        return _residual_cost([b for m in residual for b in m.blocks], neighbours)
    if measuring[0].schema.size <= CELL_BY_CELL:
        return _cell_by_cell(measuring, neighbours)
    if len(measuring) > 1:
        each = [gaussian_cost([m], neighbours) for m in measuring]
        return product_up(sum(each), 1 + margin(len(each)))
    return _column_cost(measuring[0], neighbours)


def _same_bases(mechanisms: Sequence[ResidualMechanism]) -> bool:
    """Whether every attribute is measured by the same rows in all mechanisms."""
    known: dict[int, Basis] = {}
    for mechanism in mechanisms:
        for attribute, basis in _attributes(mechanism.blocks):
            first = known.setdefault(attribute, basis)
            if first is not basis and not _same(first, basis):
                return False
    return True


def _attributes(blocks: Iterable[Block]) -> Iterator[tuple[int, Basis]]:
    for block in blocks:
        for place, basis in enumerate(block.bases):
            for attribute in np.unique(block.sets[:, place]):
                yield int(attribute), basis


def _same(one: Basis, other: Basis) -> bool:
    if isinstance(one.measure, np.ndarray) and isinstance(other.measure, np.ndarray):
        return np.array_equal(one.measure, other.measure)
    return one == other


def _residual_cost(blocks: Sequence[Block], neighbours: Neighbours) -> float:
    _require_noise(blocks, neighbours)
    if neighbours == "add-remove":
        # Σ_A p_A/σ²_A, p_A = ∏_{i∈A} β_i: one record attains every maximum.
        cost = sum(_added(block) for block in blocks)
    else:
        cost = replaced_cost(blocks)
    return product_up(cost, 1 + margin(len(blocks)))


def _added(block: Block) -> float:
    return prod(basis.sensitivity for basis in block.bases) * math.fsum(1.0 / block.sigma2)


def _require_noise(blocks: Sequence[Block], neighbours: Neighbours) -> None:
    """Only the number of records may be measured exactly, and only if it is no secret."""
    for block in blocks:
        open_total = neighbours == "replace" and not block.bases
        if not open_total and not (block.sigma2 > 0).all():
            raise PlanError("something that depends on a record would be measured without noise")


def _cell_by_cell(mechanisms: Sequence[Mechanism], neighbours: Neighbours) -> float:
    for mechanism in mechanisms:
        if isinstance(mechanism, ResidualMechanism):
            _require_noise(tuple(mechanism.blocks), neighbours)
    cost = np.sum([mechanism.cost_matrix() for mechanism in mechanisms], axis=0)
    own = np.diagonal(cost)
    largest = own.max()
    if neighbours == "replace":
        largest = (own[:, None] + own[None, :] - 2 * cost).max()
    return product_up(float(largest), 1 + margin(sum(m.numbers for m in mechanisms)))


def _column_cost(mechanism: Mechanism, neighbours: Neighbours) -> float:
    """‖a_r‖²/σ², largest over the columns; of a difference of two at most four times that."""
    if isinstance(mechanism, DenseMechanism):
        columns = np.einsum("ri,ri->i", mechanism.strategy, mechanism.strategy)
        largest = float(columns.max(initial=0.0))
    elif isinstance(mechanism, ProductMechanism):
        largest = float(_touched(mechanism))
    else:
        raise PlanError(f"what {type(mechanism).__name__} costs is not known")
    record = product_up(largest / mechanism.sigma2, 1 + margin(mechanism.numbers))
    return record if neighbours == "add-remove" else 4 * record


# ---------------------------------------------------------------------- Laplace noise


def laplace_cost(mechanism: Mechanism) -> float:
    """The largest ‖a_r‖₁/b of what is measured, or their sum over tables: ε of one record."""
    if isinstance(mechanism, TablesMechanism):
        tables = mechanism.tables
        cost = math.fsum(
            math.fsum(1.0 / block.scales) * prod(_norm(view.measure) for view in block.views)
            for block in tables
        )
        return product_up(cost, 1 + margin(len(tables)))
    if isinstance(mechanism, DenseMechanism) and mechanism.scale is not None:
        cost = _norm(mechanism.strategy) / mechanism.scale
        return product_up(cost, 1 + margin(len(mechanism.strategy)))
    if isinstance(mechanism, ProductMechanism) and mechanism.scale is not None:
        return product_up(_touched(mechanism) / mechanism.scale, 1 + margin(1))
    raise PlanError(f"what {type(mechanism).__name__} costs is not known")


def _touched(mechanism: ProductMechanism) -> int:
    """How many numbers one record changes, by one each."""
    return prod(f.touched if isinstance(f, Transform) else 1 for f in mechanism.factors)


def _norm(rows: Array | Matrix) -> float:
    """The largest L1 norm of a column."""
    if isinstance(rows, IdentityMatrix):
        return 1.0
    values = rows.dense() if isinstance(rows, Matrix) else rows
    return float(np.abs(values).sum(axis=0).max(initial=0.0))
