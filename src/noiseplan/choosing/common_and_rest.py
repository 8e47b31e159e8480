"""What mechanisms over a small domain have in common, by matrices; and which way to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from noiseplan.choosing.integer_cost_matrix import (
    EXPLICIT_CELLS,
    NEGLIGIBLE,
    carry,
    cost_of,
    rest_cost,
)
from noiseplan.choosing.loewner import common_of_costs, pseudo_inverse, symmetric
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.choosing.precisions import ByPrecisions, SharedBases, measured_differently
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise.discrete import WIDEST_VARIANCE

# The common cost matrix is taken this share smaller; noise of the rest may grow by so much for it.
HAIR: Final = 1e-11
MOST_OVER: Final = 1 + 1e-4
# By so much where nothing else is possible: the release then states the variances it really has.
LAST_OVER: Final = 1.25


@dataclass(frozen=True)
class ByMatrices(Family[Mechanism]):
    """Any mechanisms over a small domain, by their cost matrices (`loewner`)."""

    nested = False
    integer: bool

    def common(self, mechanisms: Sequence[Mechanism], sequential: bool = False) -> Mechanism:
        schema = mechanisms[0].schema
        costs = [cost_of(mechanism) for mechanism in mechanisms]
        if not sequential or len(costs) == 2:
            return carry(schema, _below(costs), self.integer)
        link: Mechanism = mechanisms[-1]
        for cost in reversed(costs[:-1]):
            link = carry(schema, _below([cost, cost_of(link)]), self.integer)
        return link

    def span(self, mechanisms: Sequence[Mechanism], sequential: bool) -> Mechanism | None:
        """Integer rows may measure every direction, most of them hardly; the same mechanism in
        floating point does not."""
        return ByMatrices(integer=False).common(mechanisms, sequential) if self.integer else None

    def rest(self, target: Mechanism, have: Mechanism) -> Mechanism | None:
        wanted, paid = cost_of(target), cost_of(have)
        room = np.diagonal(wanted).max() - np.diagonal(paid)
        fewest: tuple[float, DenseMechanism] | None = None
        for negligible in NEGLIGIBLE[self.integer]:
            missing = rest_cost(wanted, paid, negligible)
            if not missing.any():
                return None
            found = carry(target.schema, missing, self.integer, room)
            over = _over(found, room)
            if fewest is None or over < fewest[0]:
                fewest = over, found
            if over <= MOST_OVER:
                break
        if fewest is not None and fewest[0] <= LAST_OVER:
            return _noisier(*fewest)
        raise PlanError("what was measured costs more than the plan that should contain it: a bug")

    def shared(self, target: Mechanism, have: Mechanism) -> Mechanism:
        return ByMatrices(integer=False).common([target, have])

    def covers(self, target: Mechanism, united: Mechanism) -> bool:
        return True  # whatever they told beside it would show in their cost matrix

    def together(self, parts: Sequence[Mechanism]) -> Mechanism:
        rows = np.concatenate([part.unit_rows() for part in parts])
        return DenseMechanism(parts[0].schema, rows)

    def recreated(
        self, target: Mechanism, parts: Sequence[tuple[Mechanism, Measurements]]
    ) -> tuple[Measurements, Mechanism | None]:
        really = self.together([mechanism for mechanism, _ in parts])
        values = np.concatenate([part.unit_values(measured) for part, measured in parts])
        wanted, cost = cost_of(target), cost_of(really)
        if np.abs(wanted - cost).max() > SAME * np.abs(wanted).max():
            return Measurements((values,)), really
        # Least squares, and the target's own rows of it: unbiased in the target's row space.
        estimate = pseudo_inverse(wanted) @ (really.unit_rows().T @ values)
        return _measured_exactly(target, estimate), None


def _below(costs: Sequence[Array]) -> Array:
    """The common cost matrix, less a hair: below all of them whatever rounding did."""
    rows, covariance = common_of_costs(costs)
    if not len(rows):
        return np.zeros_like(costs[0])
    return symmetric(rows.T @ np.linalg.solve(covariance, rows)) * (1 - HAIR)


def _over(rest: DenseMechanism, room: Array) -> float:
    """How many times the room of some kind of record is asked; infinite where it has none.

    Rounding may have pushed C_have + C_rest above the target's largest diagonal, by a little.
    """
    own = np.diagonal(cost_of(rest))
    asked = own > 0
    if (room[asked] <= 0).any():
        return np.inf
    return float(np.max(own[asked] / room[asked], initial=0.0)) * (1 + 1e-12)


def _noisier(over: float, rest: DenseMechanism) -> DenseMechanism:
    """With so much more noise that no kind of record pays more than for the target."""
    noise = rest.noise if over <= 1 else replace(rest.noise, size=rest.noise.size * over)
    if noise.one > WIDEST_VARIANCE:
        raise PlanError("what is left is too faint to be measured in integers")
    return replace(rest, noise=noise)


def _measured_exactly(mechanism: Mechanism, counts: Array) -> Measurements:
    """What a mechanism would measure of these counts, whole numbers or not, without noise."""
    tensor = counts.reshape(mechanism.schema.shape)

    def marginals(sets: np.ndarray) -> np.ndarray:
        axes = [tuple(set(range(tensor.ndim)) - set(row)) for row in sets.tolist()]
        return np.array([tensor.sum(axis=out) for out in axes])

    return mechanism.floating().measure(marginals, lambda shape, noise: np.zeros(shape))


def family_for(mechanisms: Sequence[Mechanism], neighbours: str, integer: bool) -> Family[Any]:
    """The way to compare these mechanisms; raises `PlanError` where there is none."""
    residual = [m for m in mechanisms if isinstance(m, ResidualMechanism)]
    different = "one of the plans is one matrix over the whole domain"
    size = mechanisms[0].schema.size
    explicit = size <= EXPLICIT_CELLS and neighbours == "add-remove"
    if any(isinstance(m, WorkloadRowsMechanism) for m in mechanisms):
        different = "one of the plans measures the rows of its queries"
    if len(residual) == len(mechanisms):
        try:
            SharedBases.of(residual)
        except PlanError as error:
            different = str(error)
        else:
            if not (explicit and measured_differently(residual)):
                return ByPrecisions()
    if not explicit:
        limit = (
            f"explicit matrices go up to {EXPLICIT_CELLS:,} cells, and the schema has {size:,}"
            if size > EXPLICIT_CELLS
            else "explicit matrices are for neighbours that add or remove a record"
        )
        raise PlanError(
            f"{different}, and {limit}. Plan them on common rows: adaptive([...], "
            f"common_rows=True), which changes their errors a little"
        )
    for mechanism in mechanisms:
        mechanism.unit_rows()  # refused by those that have none
    return ByMatrices(integer)
